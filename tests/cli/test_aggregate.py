"""`discreet aggregate`: a policy for people, their reports in files, the next policy."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from discreet import SimulatedNoise, load
from discreet.cli import app
from discreet.codec import decode
from discreet.learners.policy import Policy
from discreet.service.aggregation.datasets import write_reports

STUDY = """
name = "calls"
rounds = 5000

[problem]
name = "exponential"

[[learners]]
name = "partition"
epsilon = 2.0
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "calls.toml"
    path.write_text(STUDY)
    return path


def called(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["aggregate", *map(str, arguments)])
    return result.exit_code, result.output


def reported(study: Path, name: str, seed: int, people: int = 300) -> Path:
    """Reports of people who got the policy that was written."""
    policy = decode(study.with_suffix(".policy.json").read_text(), Policy)
    rng = np.random.default_rng(seed)
    contexts = policy.domain.from_unit(rng.random((people, policy.domain.dimension)))
    actions, _ = policy.act(contexts, rng)
    path = study.parent / name
    write_reports(path, [policy.report(contexts, actions, rng.random(people), SimulatedNoise(1))])
    return path


def test_from_the_first_policy_to_the_next(study: Path) -> None:
    code, said = called(study)
    assert code == 0
    assert "version 0: give it to people" in said
    path = reported(study, "first.parquet", 1)
    code, said = called(study, path, "--workers", 1)
    assert code == 0, said
    assert "300 of 300 reports in 1 files were added." in said
    assert "version 1" in said
    learner = load(study.with_suffix(".learner.json"))
    assert learner.people == 300
    code, said = called(study, path, "--workers", 1)
    assert code == 0
    assert "0 of 300 reports in 1 files were added, 300 had been added before." in said
    assert load(study.with_suffix(".learner.json")).people == 300


def test_refusals_change_nothing(study: Path) -> None:
    code, said = called(study, "reports.parquet")
    assert code == 2
    assert "there is no learner in" in said
    called(study)
    folder = {path.name: path.read_bytes() for path in study.parent.iterdir()}
    for arguments, words in [
        ((study,), "exists; give the Parquet files"),
        ((study, "nothing-*.parquet"), "names no file"),
        ((study, study), "calls.toml"),
        ((study, study, "--address", "tcp://a:1"), "processes run on this machine"),
    ]:
        code, said = called(*arguments)
        assert code == 2, said
        assert words in " ".join(said.split())
        assert {path.name: path.read_bytes() for path in study.parent.iterdir()} == folder


def test_without_pyarrow_it_says_what_to_install(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "discreet.service.aggregation.aggregate", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, said = called(study)
    assert code == 2
    assert 'pip install "discreet[parquet]"' in " ".join(said.split())


def test_joint_privacy_is_served_instead(study: Path) -> None:
    study.write_text(
        STUDY.replace(
            '"partition"\nepsilon = 2.0', '"capri"\nepsilon = 2.0\ndelta=1e-6\ntrust_model="joint"'
        )
    )
    code, said = called(study)
    assert code == 2
    assert "discreet serve" in said or "takes" in said
    assert [path.name for path in study.parent.iterdir()] == ["calls.toml"]
