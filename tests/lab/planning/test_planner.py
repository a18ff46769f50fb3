"""Plans of small studies that really ran: against a long run, and on whose data."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.lab.experiments import Setting, simulate
from discreet.lab.planning.forecast import Forecast
from discreet.lab.planning.planner import (
    Contender,
    PlanRequest,
    checked_epsilons,
    make_forecast,
    plan_design,
    study_for,
    usual_budget,
)
from discreet.lab.studies import load_study
from discreet.privacy import Joint, Local, Shuffled
from discreet.validation import InvalidInput

from .cases import SMOOTH, STUDY, write_people, write_study

# From the means over 150 replicates of 2,000 people (seed 991) of `partition` at epsilon = 2 on the
# exponential problem with one column, read along their traces: when it beats one choice for
# everyone, when it keeps half of the gain without privacy, and what it loses in the end.
BEATS, HALF, LOST = 684.0, 1829.0, 0.4685
# The quickest plan.
FEW: dict[str, Any] = {"learners": ("partition",), "epsilons": (2.0,), "replicates": 2}


def planned(source: Any, **wishes: Any) -> Forecast:
    study, people, data = study_for(source, wishes.get("people"))
    return make_forecast(study, people, data, PlanRequest(**wishes))


@pytest.fixture(scope="module")
def smooth(tmp_path_factory: pytest.TempPathFactory) -> Forecast:
    path = write_study(tmp_path_factory.mktemp("smooth"), SMOOTH, 2000)
    return planned(path, epsilons=(2.0, 4.0), replicates=6)


@pytest.mark.slow
def test_intervals_cover_a_long_run(smooth: Forecast) -> None:
    for answer, truth in (
        (smooth.people_until_gain(2.0), BEATS),
        (smooth.people_for(2.0, 0.5), HALF),
        (smooth.loss_for(2.0, 2000), LOST),
    ):
        assert answer.value is not None
        assert answer.low <= truth <= answer.high
        assert answer.value == pytest.approx(truth, rel=0.25)


def test_horizons_are_runs_of_their_own_and_other_trust_models_stand_beside(tmp_path: Path) -> None:
    path = write_study(tmp_path, SMOOTH, 80)
    smooth = planned(path, epsilons=(0.5, 2.0), replicates=2)
    assert smooth.horizons == (20, 40, 80)
    assert not smooth.left_out
    assert smooth.data[0].startswith("Planning used no one's data")
    # A shorter horizon is a run of its own.
    setting = smooth.line(2.0).setting
    again = simulate(smooth.problem, setting, 40, smooth.seed, 1)
    assert smooth.line(2.0).worth[1, 1] == pytest.approx(-again.record.value / 40)
    models = [each.setting.budget.trust_model for each in smooth.others]
    assert models == ["shuffled", "joint"]
    assert {each.learner for each in smooth.others} == {"kernel"}
    assert {each.epsilon for each in smooth.others} == {0.5}  # as close to 1 as 2, and the first
    for line in smooth.others:
        assert line.worth.shape == (2, 1)
        again = simulate(smooth.problem, line.setting, 80, smooth.seed, 1)
        assert line.worth[1, 0] == pytest.approx(-again.record.value / 80)
        fixed = simulate(smooth.problem, Setting("best_fixed", "f"), 80, smooth.seed, 1)
        assert line.gain[1, 0] == pytest.approx((fixed.record.value - again.record.value) / 80)
    assert smooth.reference.learner == "best_fixed"
    frame = smooth.frame
    assert np.isfinite(frame["gain"]).all()
    assert set(frame.loc[frame["trust_model"] == "shuffled", "people"]) == {80}
    path = write_study(tmp_path, SMOOTH, 40)
    own = planned(path, epsilons=(1.0,), epsilon=2.0, trust_model="joint", replicates=2)
    assert [(each.setting.budget.trust_model, each.epsilon) for each in own.others] == [
        ("local", 2.0),
        ("shuffled", 2.0),
    ]


def test_the_winner_is_measured_on_fresh_people(tmp_path: Path) -> None:
    path = write_study(tmp_path, SMOOTH, 60)
    plan = planned(
        path, epsilons=(2.0,), learners=("partition", "published_partition"), replicates=3
    )
    raced = [each for each in plan.races if each.epsilon == 2.0]
    assert {each.setting.learner for each in raced} == {"partition", "published_partition"}
    assert sum(each.won for each in raced) == 1
    winner = next(each for each in raced if each.won)
    assert winner.mean != pytest.approx(float(plan.private[0].worth[:, -1].mean()), abs=1e-12)
    assert plan.private[0].learner == winner.setting.learner


def test_a_private_table_is_called_so(tmp_path: Path) -> None:
    write_people(tmp_path / "people.csv", rows=100)
    told = " ".join(study_for(write_study(tmp_path, rounds=100))[2])
    assert "people.csv" in told
    assert "it does not cover this plan" in told
    assert "--table" in told
    assert "--synthetic" in told


def test_another_table_stands_in_and_the_own_one_is_not_read(tmp_path: Path) -> None:
    write_people(tmp_path / "older.csv", rows=150)
    path = write_study(tmp_path, rounds=300)  # there is no people.csv
    study, people, data = study_for(path, table=tmp_path / "older.csv")
    assert (study.problem.size, study.rounds, people) == (150, 150, 300)
    assert "older.csv" in data[0]
    plan = make_forecast(study, people, data, PlanRequest(**FEW))
    assert plan.people == 150
    assert plan.expected == 300
    assert any("more than 150 people" in text for text in plan.left_out)
    assert plan.advice().people == 150
    assert plan.advice().verdict.open, "there is no verdict about people who were not simulated"
    assert plan.loss_for(2.0, 300).simulated == -math.inf


def test_invented_people_stand_in_and_no_table_is_read(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    study, people, data = study_for(path, 400, synthetic=True)
    assert (study.rounds, people) == (400, 400)
    assert study.problem.arm_names == ("a", "b")
    assert study.problem.domain.names == ("x", "s")
    assert "no one's data" in data[0]
    assert "assumed" in data[1]


def test_a_study_without_a_learner_gets_the_usual_one(tmp_path: Path) -> None:
    text = STUDY.format(problem=SMOOTH, rounds=100).replace('name = "partition"\n', "")
    path = tmp_path / "small.toml"
    path.write_text(text)
    design = plan_design(load_study(path), 100, (1.0,))
    assert [each.learner for each in design.private] == ["kernel"]


def test_the_design_with_learners_under_two_trust_models(tmp_path: Path) -> None:
    path = write_study(tmp_path, SMOOTH, 400)
    more = '[[learners]]\nname = "capri"\nepsilon = 1.0\ndelta = 1e-6\n'
    path.write_text(path.read_text() + more)
    study = load_study(path)
    design = plan_design(study, 400, (1.0, 2.0))
    assert [each.at(1.0).budget for each in design.private] == [Local(1.0)]
    assert "--trust-model joint" in design.left_out[0]
    joint = plan_design(study, 400, (1.0, 2.0), trust_model="joint")
    assert [each.at(2.0).budget for each in joint.private] == [Joint(2.0, 1e-6)]
    assert [each.name for each in joint.free] == ["partition", "capri"]


def test_stand_ins_that_do_not_go_together(tmp_path: Path) -> None:
    path = write_study(tmp_path, SMOOTH, 100)
    table = tmp_path / "t.csv"
    with pytest.raises(InvalidInput, match="take one of the two"):
        study_for(path, table=table, synthetic=True)
    with pytest.raises(InvalidInput, match="has read its data already"):
        study_for(load_study(path), synthetic=True)
    with pytest.raises(InvalidInput, match="no path that it could replace"):
        study_for(path, table=table)


def test_the_question_is_the_one_that_was_left_open() -> None:
    assert PlanRequest(people=10, epsilon=1.0).question == ("loss", 1.0, 10.0)
    assert PlanRequest(people=10, lose_at_most=0.1).question == ("epsilon", 10.0, 0.1)
    assert PlanRequest(lose_at_most=0.1, epsilon=1.0).question == ("people", 1.0, 0.1)
    assert PlanRequest(people=10).question is None
    assert 3.0 in PlanRequest(epsilon=3.0).tried


def test_epsilons_in_order_and_once() -> None:
    assert checked_epsilons([2.0, 1, 2.0]) == (1.0, 2.0)
    contender = Contender("mine", "partition", Local(1.0))
    assert contender.at(2.0).label == "mine, epsilon 2"
    assert contender.at(None).label == "mine (no privacy)"


def test_usual_group_size_follows_epsilon() -> None:
    usual = Contender("kernel", "kernel", usual_budget("shuffled", 1.0, 2_000), people=2_000)
    for epsilon in (0.25, 1.0, 4.0):
        assert usual.at(epsilon).budget == usual_budget("shuffled", epsilon, 2_000)
    given = Contender("kernel", "kernel", Shuffled(1.0, 1e-6, 77), people=2_000)
    assert given.at(0.25).budget == Shuffled(0.25, 1e-6, 77)


def test_no_gain_says_so(tmp_path: Path) -> None:
    write_people(tmp_path / "people.csv", rule=False, rows=40)
    plan = planned(write_study(tmp_path, rounds=40), **FEW)
    assert not plan.worthwhile
    assert plan.advice().epsilon is None
