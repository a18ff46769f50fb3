"""Every figure and table at a small size, to the last bit: tests/golden/papers.jsonl.

A line is a run of `discreet reproduce`: its seed, a digest of its settings as its records state
them, and of each record the method, the metric, the mean and the standard error. The first line has
the versions of what computed them. Tables that no package brings are invented (tables.py). Figures
4 and 5 of Ma et al. (2025) measure nothing and have no record.

OpenBLAS, NumPy and the C library choose their routines by the processor, and a last bit that
differs changes whom a learner asks next: with those for AVX-512 twenty of the runs differ, eight of
them by over 1%. Runs here, and the tables, take the routines of benchmarks/golden.py, which every
x86-64 processor has. On others, and with other versions, nothing can be compared, and tests are
skipped.

    pytest -m slow tests/papers/test_record.py [--update-golden]        all of them
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import random
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from discreet.papers.registry import REPRODUCTIONS, paper_items
from tests.test_golden import REFERENCE

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "golden" / "papers.jsonl"
LIBRARIES = ("numpy", "scipy", "scikit-learn", "pandas")
VERSIONS = {name: version(name) for name in LIBRARIES} | {"libc": " ".join(platform.libc_ver())}
VALUES = ("method", "metric", "mean", "standard_error")
# Of a record: what differs from run to run, or depends on names in the code.
LEFT_OUT = {"seconds", "made", "versions", "digest"}

_TRANSFER = "--repetitions 1 --rounds 100 --auxiliary 50"
_SEARCH = "--runs 1 --rounds 4 --method ours --method published"
SMALL = {
    "dubey-figure-1": "--trials 1 --rounds 24",
    "dubey-figure-2": "--trials 1 --rounds 48",
    "dubey-table-1": "--trials 1 --rounds 8 --method ours --method published",
    "po-gp-ucb-figures": _SEARCH,
    "po-gp-ucb-tables": _SEARCH,
    "po-gp-ucb-attack": "--trials 200",
    "ldpmab-figure-6": _TRANSFER,
    "ldpmab-figure-7": f"{_TRANSFER} --sources 1 --epsilon 2",
    "ldpmab-figure-8": f"{_TRANSFER} --epsilon 2 --gamma 1 --auxiliary-epsilon 8",
    "ldpmab-figure-9a": f"{_TRANSFER} --auxiliary-epsilon 8 --kappa 0.4",
    "ldpmab-figure-9b": f"{_TRANSFER} --auxiliary-epsilon 8 --gamma 1",
    "ldpmab-figure-9c": f"{_TRANSFER} --epsilon 2",
    "ldpmab-table-2": "--repetitions 1 --rounds 60 --method published --auxiliary-epsilon 4",
    "capri-regret": "--trials 1 --rounds 200 --method published --method uniform",
    "usca-error-rate": "--trials 1 --rounds 300",
}
RUNS = [
    f"{command.run} {SMALL[command.run.split()[0]]}"
    for item in paper_items()
    for command in item.commands
    if REPRODUCTIONS[command.run.split()[0]].form != "drawing"
]
_PROGRAM = """
import json, sys
from pathlib import Path
from typer.testing import CliRunner
from discreet.cli import app
from tests.papers.tables import write_search_tables, write_transfer_tables
write_search_tables(Path(sys.argv[2]))
write_transfer_tables(Path(sys.argv[2]))
for number, run in enumerate(json.loads(sys.argv[1])):
    words = [sys.argv[2] if word == "DIR" else word for word in run.split()]
    done = CliRunner().invoke(app, ["reproduce", *words, "--json", f"{number}.jsonl"])
    if done.exit_code:
        sys.exit(f"{run}: {done.output} {done.exception}")
"""
Record = dict[str, Any]


def recorded() -> tuple[dict[str, str], list[Record]]:
    """The versions in the file, and its runs."""
    versions, *runs = map(json.loads, FILE.read_text(encoding="utf-8").splitlines())
    return versions, runs


def regenerated(runs: list[str], folder: Path) -> list[Record]:
    """Runs as the file has them."""
    data = folder / "data"
    data.mkdir()
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    subprocess.run(
        [sys.executable, "-c", _PROGRAM, json.dumps(runs), str(data)],
        env={**os.environ, **REFERENCE, "LOKY_MAX_CPU_COUNT": "1", "PYTHONPATH": path},
        cwd=folder,
        check=True,
    )
    return [
        record_of(run, (folder / f"{number}.jsonl").read_text(encoding="utf-8").splitlines())
        for number, run in enumerate(runs)
    ]


def record_of(run: str, lines: list[str]) -> Record:
    """A run from what `--json` wrote."""
    rows = [json.loads(line) for line in lines]
    settings = [
        {key: value for key, value in row.items() if key not in LEFT_OUT | set(VALUES)}
        for row in rows
    ]
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    values = [[row[key] for key in VALUES] for row in rows]
    return {"run": run, "seed": rows[0]["seed"], "settings": digest[:16], "values": values}


@pytest.fixture
def comparable() -> None:
    """Skip where the same routines of the same versions are not there."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("the record is of x86-64 processors")
    if recorded()[0] != VERSIONS:
        pytest.skip(f"the record is of {recorded()[0]}, here is {VERSIONS}")


@pytest.mark.usefixtures("comparable")
@pytest.mark.chance(0.0)  # a lot that is drawn anew each time
def test_three_records_drawn_by_lot_are_regenerated_to_the_bit(tmp_path: Path) -> None:
    lot = random.SystemRandom().sample(RUNS, 3)
    print(*lot, sep="\n")
    known = {each["run"]: each for each in recorded()[1]}
    assert regenerated(lot, tmp_path) == [known[run] for run in lot]


@pytest.mark.slow
def test_all_records_are_regenerated_to_the_bit(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if not request.config.getoption("--update-golden"):
        request.getfixturevalue("comparable")
        assert regenerated(RUNS, tmp_path) == recorded()[1]
        return
    lines = [json.dumps(each) for each in (VERSIONS, *regenerated(RUNS, tmp_path))]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_every_run_of_the_manifest_has_a_record_of_the_constrained_versions() -> None:
    versions, known = recorded()
    assert [each["run"] for each in known] == RUNS, (
        "run pytest -m slow tests/papers/test_record.py --update-golden"
    )
    constrained = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    for name in LIBRARIES:
        assert re.search(rf"(?m)^{name}=={versions[name]}$", constrained), name
