"""benchmarks/zoo.py: what a row measures, and what it flags."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from discreet.lab.environments.catalog import entries
from discreet.lab.experiments import Seed, Setting, simulate
from discreet.learners.registry import LEARNERS
from discreet.privacy import Local

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
import zoo_problems


@pytest.fixture
def zoo():
    import zoo

    yield zoo
    for name in ("zoo", "zoo_cells"):
        sys.modules.pop(name, None)


def test_every_cell_names_what_exists(zoo) -> None:
    problems = {*(entry.name for entry in entries()), *zoo_problems.PROBLEMS}
    names = {*LEARNERS, *zoo.REFERENCES}
    every = [*zoo.cells(), *(target.cell for target in zoo.TARGETS)]
    assert {cell.problem for cell in every} <= problems
    assert {cell.learner for cell in every} <= names
    for cell in every:
        assert cell.budget.trust_model == cell.model
        assert cell.budget.epsilon == cell.epsilon


def test_a_row_is_what_a_simulation_gives(zoo) -> None:
    cell = zoo.Cell("rotation", "partition", 400, "local", 4.0)
    [row] = zoo.trial(Seed(30, 2), cell, "second half")
    setting = Setting("partition", "x", Local(4.0))
    outcome = simulate(zoo_problems.load("rotation"), setting, 400, 32, 0)
    assert row["lost"] == outcome.record.value
    half, late = (np.interp(n, outcome.rounds, outcome.trace) for n in (200, 360))
    assert row["value"] == pytest.approx(outcome.trace[-1] - half)
    assert row["late"] == pytest.approx((outcome.trace[-1] - late) / 40)


def frame_of_runs(lost: dict[str, list[float]], late: dict[str, float]) -> pd.DataFrame:
    rows = [
        {
            "problem": "p",
            "people": 20_000,
            "kernel": "",
            "learner": learner,
            "model": "none",
            "epsilon": np.inf,
            "seed": seed,
            "lost": value,
            "late": late[learner],
            "range": 1.0,
            "seconds": 1.0,
        }
        for learner, values in lost.items()
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def test_flags_and_stuck_runs(zoo) -> None:
    lost = {
        "uniform": [100.0, 200.0, 300.0],
        "best_fixed": [50.0, 60.0, 70.0],
        # Worse by 5 in each pair, though runs differ by a hundred.
        "capri": [105.0, 206.0, 304.0],
        "partition": [10.0, 400.0, 90.0],
    }
    late = {"uniform": 0.4, "best_fixed": 0.2, "capri": 0.22, "partition": 0.05}
    table = zoo.summary(frame_of_runs(lost, late)).set_index("learner")
    assert table["flags"].to_dict() == {
        "uniform": "",
        "best_fixed": "",
        "capri": "uf",
        "partition": "",
    }
    assert table.loc["capri", "stuck"] == 1.0
    assert table.loc["partition", "stuck"] == 0.0
    assert table.loc["partition", "worst"] == 400.0
    assert table.loc["partition", "over uniform"] == pytest.approx(500 / 600)
    assert table.loc["partition", "over fixed"] == pytest.approx(500 / 180)
