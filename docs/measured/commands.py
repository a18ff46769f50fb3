"""Commands that measure: each runs once, as a reader would run it, and leaves records.

Commands are the text that stands on the page. They run at the root of a folder that has `examples`
and `benchmarks` and nothing else, so what they write disturbs nothing. `DIR` in a command stands
for the folder of data that no package brings (`--data`), `PEERS` for that of others' programs
(`--peers`).
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from measured.markers import ROOT

# Columns of the terminal whose output is shown.
WIDTH = 80
# Words of commands that stand for folders, and the options that say where these are.
FOLDERS = {"DIR": "--data", "PEERS": "--peers"}
_PROGRAMS = {
    "discreet": [sys.executable, "-c", "from discreet.cli import main; main()"],
    "python": [sys.executable],
}
# What tells one line of a study from another.
_LINE = ("study", "label", "learner", "trust_model", "epsilon", "delta", "rounds", "metric")


class NeedsData(Exception):
    """A command needs a folder of data or of programs, and none was given."""


@dataclass(frozen=True)
class Measured:
    """What a command printed, its records, the folder with whatever else it wrote, and its
    processor time."""

    printed: str
    records: list[dict[str, Any]]
    folder: Path
    seconds: float = 0.0


@dataclass
class Runner:
    """Runs commands, each once.

    Attributes:
        work: an empty folder.
        jobs: processes of a command that can have several.
        folders: what stands for `DIR` and `PEERS`, where it was given.
    """

    work: Path
    jobs: int = 1
    folders: Mapping[str, Path | None] = field(default_factory=dict)
    done: dict[str, Measured] = field(default_factory=dict)

    def run(self, command: str) -> Measured:
        """The result of a command.

        Raises:
            NeedsData: if it names `DIR` or `PEERS` and there is none; it says which option helps.
            subprocess.CalledProcessError: if it fails.
        """
        if command not in self.done:
            self.done[command] = self._run(command)
        return self.done[command]

    def _run(self, command: str) -> Measured:
        words = shlex.split(command)
        for name, option in FOLDERS.items():
            if name in words and self.folders.get(name) is None:
                raise NeedsData(f"{command} needs {option} FOLDER")
        words = [str(self.folders[word]) if word in FOLDERS else word for word in words]
        program, *arguments = words
        folder = self.work / str(len(self.done))
        folder.mkdir()
        for name in ("examples", "benchmarks"):
            (folder / name).symlink_to(ROOT / name)
        records = folder / "records.jsonl"
        if program == "discreet" and "ldpmab-figure-4-5" not in words:  # a drawing has no records
            arguments += ["--json", records.name]
        environment = {
            **os.environ,
            "COLUMNS": str(WIDTH),
            "LOKY_MAX_CPU_COUNT": str(self.jobs),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        before = _processor_time()
        printed = subprocess.run(
            [*_PROGRAMS[program], *arguments],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        lines = records.read_text(encoding="utf-8").splitlines() if records.exists() else []
        rows = gathered([json.loads(line) for line in lines])
        return Measured(printed, rows, folder, _processor_time() - before)


def _processor_time() -> float:
    """Of all commands so far, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def gathered(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One record for each line: the replicates of a study become a mean and a standard error."""
    if not records or "replicate" not in records[0]:
        return records
    groups = pd.DataFrame(records).groupby(list(_LINE), dropna=False, sort=False)
    frame = groups.agg(
        mean=("value", "mean"),
        standard_error=("value", "sem"),
        trials=("value", "size"),
        seconds=("seconds", "mean"),
    ).reset_index()
    return [
        {key: None if pd.isna(value) else value for key, value in row.items()}
        for row in frame.to_dict("records")
    ]
