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


@pytest.fixture
def league(zoo):
    import league

    yield league
    sys.modules.pop("league", None)


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


# The league (benchmarks/league.py).


def test_the_league_has_every_learner_on_every_problem(league) -> None:
    met = list(league.chosen(1_000, ["mine"], (1.0,)))
    assert {cell.place for cell in met} == set(league.PROBLEMS)
    assert all(cell.people == 1_000 for cell in met)
    budgets = {(cell.model, cell.learner) for cell in met}
    assert {learner for model, learner in budgets if model == "shuffled"} == {
        *("kernel", "partition", "best_arm", "mine")
    }
    assert ("none", "best_fixed") in budgets
    assert len({(cell.place, cell.model, cell.learner) for cell in met}) == len(met)


def test_the_league_ranks_by_the_share_of_regret_saved(
    league, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = []
    for place in range(4):
        for seed in range(3):
            lost = {"uniform": 100.0, "best_fixed": 80.0, "a": 20.0 + seed, "b": 40.0, "c": 50.0}
            lost["b"] -= 30.0 * (place == 0)  # b is the best on one problem of four
            for learner, regret in lost.items():
                if learner == "c" and place == 3:
                    continue  # c did not run there
                private = learner in "abc"
                rows.append(
                    {
                        "problem": f"p{place}",
                        "people": 1_000,
                        "learner": learner,
                        "model": "local" if private else "none",
                        "epsilon": 1.0 if private else np.inf,
                        "seed": seed,
                        "lost": regret,
                        "seconds": 1.0,
                    }
                )
    runs = league.scores(pd.DataFrame(rows))
    table = league.table(runs[runs["model"] == "local"], np.random.default_rng(0))
    assert table["learner"].tolist() == ["a", "b"]
    assert table["rank"].tolist() == [1.25, 1.75]
    assert np.allclose(table["saved"], [0.79, 0.675])
    assert table["first"].tolist() == [3, 1]
    for low, high in table["ranks"]:
        assert 1.0 <= low < high <= 2.0
    league.show(pd.DataFrame(rows))
    said = capsys.readouterr().out
    assert "the best arm for everyone saves 20%" in said
    assert "c ran on 3 of them: 50% there, where a saves 79%" in said
    assert said.endswith("To beat\nlocal, epsilon 1: 79.0% (a)\n")
