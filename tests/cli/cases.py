"""A small study, and the command line in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from discreet.cli import app

STUDY = """
name = "small"
rounds = 300
replicates = 2
[problem]
name = "table"
path = "people.csv"
label = { column = "y", classes = ["a", "b"] }
columns = [{ name = "x", lower = 0, upper = 9 }]
[[learners]]
name = "partition"
epsilon = [1.0, 2.0]
[[learners]]
name = "uniform"
"""
RUNS = 6  # replicates of all its lines


def write_study(folder: Path, text: str = STUDY) -> Path:
    """The study and its table of 300 people."""
    people = (f"{i % 10},{'ab'[(i % 10 > 4) != (i % 7 == 3)]}" for i in range(300))
    (folder / "people.csv").write_text("x,y\n" + "\n".join(people) + "\n")
    path = folder / "small.toml"
    path.write_text(text)
    return path


def invoke(*arguments: object) -> tuple[int, str, str]:
    """Exit code, and what was printed on both streams."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def records(path: Path) -> list[dict[str, Any]]:
    """The records of a file, without how long they took, and when."""
    return [
        {key: value for key, value in json.loads(line).items() if key not in ("seconds", "made")}
        for line in path.read_text().splitlines()
    ]
