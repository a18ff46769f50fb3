"""benchmarks/planning.py: what a row holds, what counts as right, and the study that is timed."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from discreet.lab.environments.catalog import entries, load_problem
from discreet.lab.experiments import Seed, Setting, simulate
from discreet.lab.planning.forecast import PlanAnswer
from discreet.lab.studies import load_study
from discreet.privacy import Local
from tests.cli.cases import invoke

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import planning

    yield planning
    sys.modules.pop("planning", None)


def answer(value: float | None) -> PlanAnswer:
    return PlanAnswer("people", value, 0.0, math.inf, 100.0, 8000.0, 2000.0)


def test_twelve_problems_that_exist(bench: Any) -> None:
    assert len(bench.CASES) == len({case.problem for case in bench.CASES}) == 12
    assert {case.problem for case in bench.CASES} <= {
        *(entry.name for entry in entries()),
        *bench.zoo_problems.PROBLEMS,
    }
    for case in bench.CASES:
        assert {each.learner for each in case.study(100, 1).settings} == set(case.learners)
    case = bench.CASES[0]
    assert case.among(["partition", "capri"]).learners == ("partition",)
    assert case.among(["capri"]).learners == case.learners


@pytest.mark.slow
def test_a_row_holds_a_plan_against_other_seeds(
    bench: Any, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[Any] = []
    make = bench.planned

    def kept(*given: Any) -> Any:
        plans.append(make(*given))
        return plans[-1]

    monkeypatch.setattr(bench, "planned", kept)
    line = {"dimension": 1}
    case = bench.Case("exponential", epsilon=10.0, learners=("partition",), people=160, given=line)
    row = bench.measured(case, bench.Size(replicates=2, truth=3), 3, 1)
    plan, truth = plans
    assert (plan.people, plan.seed, plan.replicates) == (160, 3, 2)
    assert (truth.people, truth.seed, truth.replicates) == (320, 1_000_003, 3)
    assert (row["people"], row["chose"], row["best"]) == (160, "partition", "partition")
    assert row["ratio"] == 1.0
    assert row["cpu"] > 0.0
    compared = [
        (plan.loss_for(10.0, people), truth.loss_for(10.0, people)) for people in (20, 40, 80, 160)
    ]
    known = [(said, true.value) for said, true in compared if None not in (said.value, true.value)]
    assert row["of"] == len(known) > 0
    assert row["held"] == sum(said.low <= true <= said.high for said, true in known)
    assert row["loss"] == [each.loss_for(10.0, 160).value for each in (plan, truth)]
    assert row["gain"] == [each.people_until_gain(10.0).value for each in (plan, truth)]
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    assert bench.read_rows(path) == [row]
    bench.show([row])
    assert "asked: 10 of 12" in capsys.readouterr().out


@pytest.mark.slow
def test_regret_is_what_a_run_loses(bench: Any) -> None:
    case = bench.Case("exponential", epsilon=10.0)
    setting = Setting("partition", "x", Local(10.0))
    lost = bench.regrets(replace(case, learners=("partition",)), 300, 2, 5, 1)
    runs = [simulate(case.load(), setting, 300, 5, number).record.value for number in range(2)]
    assert lost == {"partition": runs}
    truth = bench.planned(case.study(300, 5, ["partition"]), 10.0, 2, 1)
    stood = bench.regrets(replace(case, learners=("partition",)), 300, 2, 5, 0, truth)
    assert stood == {"partition": pytest.approx(runs)}, "nothing ran again: there are no processes"
    earnings = bench.regret(Seed(5, 0), bench.Case("earnings"), 300, "partition")
    problem = load_problem("earnings", {})
    reward = simulate(problem, Setting("partition", "x", Local(2.0)), 300, 5, 0).record.value
    best = simulate(problem, Setting("oracle", "oracle"), 300, 5, 0).record.value
    assert earnings == best - reward > 0.0


def test_a_learner_is_right_within_a_tenth(bench: Any) -> None:
    runs = {"capri": [10.0, 20.0, 30.0], "partition": [11.0, 22.0, 33.3]}
    assert bench.beside_best("capri", runs)["learner"]
    beside = bench.beside_best("partition", runs)
    assert (beside["best"], beside["learner"]) == ("capri", False)
    assert beside["ratio"] == pytest.approx(66.3 / 60.0)
    # Runs are paired: that some people are harder is no error of the ratio.
    assert 0.0 < beside["error"] < 0.01


@pytest.mark.slow
def test_a_truth_may_have_no_more_people_than_the_plan(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    people: list[int] = []
    make = bench.planned

    def kept(study: Any, *given: Any) -> Any:
        people.append(study.rounds)
        return make(study, *given)

    monkeypatch.setattr(bench, "planned", kept)
    line = {"dimension": 1}
    case = bench.Case("exponential", epsilon=10.0, learners=("partition",), people=160, given=line)
    row = bench.measured(case, bench.Size(people=80, replicates=2, truth=3, beyond=1), 3, 1)
    assert people == [80, 80]
    assert (row["people"], row["replicates"], row["truth"], row["ratio"]) == (80, 2, 3, 1.0)


@pytest.mark.parametrize(
    ("plan", "truth", "right"),
    [
        (1000.0, 1400.0, True),
        (1000.0, 1600.0, False),
        (1600.0, 1000.0, False),
        (None, None, True),
        (None, 1000.0, False),
        (math.inf, math.inf, True),
        (math.inf, 3000.0, True),  # the end is 4,000
        (math.inf, 2000.0, False),
        (100.0, 300.0, True),  # both before the first
    ],
)
def test_people_are_right_within_a_factor(
    bench: Any, plan: float | None, truth: float | None, right: bool
) -> None:
    assert bench.agree(answer(plan), answer(truth), 300.0, 4000.0) is right


def test_shares_have_errors_over_problems(bench: Any) -> None:
    facts = [(True, True, True, 5, 5), (True, False, True, 2, 5), (False, True, False, 0, 0)]
    names = ("learner", "people right", "inside", "held", "of")
    rows = [dict(zip(names, each, strict=True)) for each in facts]
    shares = {name: (share, error, count) for name, share, error, count in bench.shares(rows)}
    assert shares["learner"] == (pytest.approx(2 / 3), pytest.approx(1 / 3), 3)
    assert shares["inside"] == (0.5, 0.5, 2)
    assert shares["intervals"][0] == 0.7
    assert shares["intervals"][2] == 10
    # Residuals 1.5, -1.5, 0 of problems with 10/3 intervals on average.
    assert shares["intervals"][1] == pytest.approx(1.5 / 3**0.5 / (10 / 3))


def test_the_study_that_is_timed_can_run(bench: Any, tmp_path: Path) -> None:
    table, study = tmp_path / "people.csv", tmp_path / "people.toml"
    bench.write_table(table, 2000, 1)
    frame = pd.read_csv(table)
    assert frame.shape == (2000, 9)
    steps = bench.commands(table, study, 2)
    code, _, err = invoke(*steps["init"])
    assert code == 0, err
    bench.state_bounds(study)
    loaded = load_study(study)
    assert loaded.problem.domain.lower == tuple(low for low, _ in bench._BOUNDS.values())
    assert loaded.problem.domain.upper == tuple(high for _, high in bench._BOUNDS.values())
    assert (loaded.rounds, loaded.problem.arms) == (2000, 3)
    assert [each[0] for each in steps.values()] == ["init", "check", "plan"]
