"""`--engine`: who does the work of a command changes nothing but the time it takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from discreet.cli import app

STUDY = """
name = "small"
rounds = 600
replicates = 3

[problem]
name = "exponential"

[[learners]]
name = "partition"
epsilon = [1.0, 4.0]
"""
COMMANDS: dict[str, tuple[object, ...]] = {
    "run": ("run", "small.toml"),
    "plan": (*("plan", "small.toml", "--people", 400, "--epsilons", "1,4", "--replicates", 2),),
    "reproduce": (
        "reproduce",
        "dubey-figure-1",
        "--trials",
        2,
        "--rounds",
        100,
        "--method",
        "ours",
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "small.toml").write_text(STUDY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def called(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    return result.exit_code, result.output


@pytest.mark.parametrize("name", list(COMMANDS))
def test_processes_have_no_address(name: str, folder: Path) -> None:
    code, said = called(*COMMANDS[name], "--address", "tcp://there:8786", "--jobs", 1)
    assert code == 2
    assert "processes run on this machine" in " ".join(said.split())


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["dask", "ray"])
@pytest.mark.parametrize("name", list(COMMANDS))
def test_records_are_those_of_one_process(name: str, engine: str, folder: Path) -> None:
    pytest.importorskip(engine)
    one = records(folder, "one.jsonl", *COMMANDS[name], "--jobs", 1)
    two = records(folder, "two.jsonl", *COMMANDS[name], "--jobs", 2, "--engine", engine)
    assert two == one


def records(folder: Path, name: str, *command: object) -> list[dict[str, Any]]:
    code, said = called(*command, "--json", folder / name)
    assert code == 0, said
    found = [json.loads(line) for line in (folder / name).read_text().splitlines()]
    assert found
    # Times are not fixed by the seed.
    return [
        {key: value for key, value in each.items() if key not in ("seconds", "made")}
        for each in found
    ]
