"""Plans of small studies that really ran: against a long run, within a limit on time, and on whose
data."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.lab.experiments import Setting, simulate
from discreet.lab.planning.design import Contender, checked_epsilons, plan_design
from discreet.lab.planning.forecast import Forecast
from discreet.lab.planning.grid import SimulationGrid
from discreet.lab.planning.planner import PlanRequest, make_forecast
from discreet.lab.planning.source import study_for
from discreet.lab.studies import load_study
from discreet.privacy import Joint, Local
from discreet.validation import InvalidInput

from .cases import SMOOTH, STUDY, write_people, write_study

# From the means over 150 replicates of 2,000 people (seed 991) of `partition` at epsilon = 2 on the
# exponential problem with one column, read along their traces: when it beats one choice for
# everyone, when it keeps half of the gain without privacy, and what it loses in the end.
BEATS, HALF, LOST = 684.0, 1829.0, 0.4685


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


@pytest.mark.slow
def test_all_lines_meet_the_same_people(smooth: Forecast) -> None:
    assert smooth.horizons == (125, 250, 500, 1000, 2000)
    setting = smooth.line(4.0).setting
    again = simulate(smooth.problem, setting, 2000, smooth.seed, 3)
    assert smooth.line(4.0).worth[3, -1] == pytest.approx(-again.record.value / 2000)
    fixed = simulate(smooth.problem, Setting("best_fixed", "f"), 2000, smooth.seed, 3)
    assert smooth.line(4.0).gain[3, -1] == pytest.approx(
        (fixed.record.value - again.record.value) / 2000
    )
    assert smooth.reference.learner == "best_fixed"
    assert np.isfinite(smooth.frame["gain"]).all()


def test_a_plan_without_a_limit_leaves_nothing_out(tmp_path: Path) -> None:
    smooth = planned(write_study(tmp_path, SMOOTH, 160), epsilons=(2.0, 4.0), replicates=2)
    assert smooth.horizons == (20, 40, 80, 160)
    assert not smooth.left_out
    assert smooth.data[0].startswith("Planning used no one's data")
    # A shorter horizon is a run of its own.
    setting = smooth.line(4.0).setting
    again = simulate(smooth.problem, setting, 40, smooth.seed, 1)
    assert smooth.line(4.0).worth[1, 1] == pytest.approx(-again.record.value / 40)


def test_the_winner_is_measured_on_fresh_people(tmp_path: Path) -> None:
    path = write_study(tmp_path, SMOOTH, 120)
    plan = planned(
        path, epsilons=(4.0,), learners=("partition", "published_partition"), replicates=3
    )
    raced = [each for each in plan.races if each.epsilon == 4.0]
    assert {each.setting.learner for each in raced} == {"partition", "published_partition"}
    assert sum(each.won for each in raced) == 1
    winner = next(each for each in raced if each.won)
    assert winner.mean != pytest.approx(float(plan.private[0].worth[:, -1].mean()), abs=1e-12)
    assert plan.private[0].learner == winner.setting.learner


def test_a_limit_that_cannot_be_kept_is_announced_and_decides_nothing(tmp_path: Path) -> None:
    path = write_study(tmp_path, SMOOTH, 1600)
    with pytest.warns(UserWarning, match="limit on time will not be kept: the smallest plan takes"):
        plan = planned(path, seconds=0.01, replicates=5)
    assert plan.horizons == (100, 200, 400)
    assert plan.epsilons == (0.5, 2.0, 8.0)
    assert plan.replicates == 1
    left_out = " ".join(plan.left_out)
    assert "epsilon = 1 and 4: too much for the limit on time." in left_out
    assert "800 and 1,600 people: too much" in left_out
    assert "replicates 2 to 5" in left_out
    assert plan.gains.word == "cannot tell yet"


@pytest.mark.parametrize(
    ("seconds", "horizons", "epsilons"),
    [
        pytest.param(1000.0, (20, 40, 80, 160, 320), 5, marks=pytest.mark.slow),
        (110.0, (20, 80, 320), 5),
        (80.0, (20, 80, 320), 3),
        (1.0, (20, 40, 80), 3),
    ],
)
def test_a_smaller_plan_has_fewer_horizons_then_epsilons_then_people(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    horizons: tuple[int, ...],
    epsilons: int,
) -> None:
    """Each run of a learner takes a second: with 5 epsilons and no privacy at 5 horizons, in 6
    replicates, 180, at 3 horizons 108, and with 3 epsilons 72."""

    def a_second(self: SimulationGrid, run: Any) -> float:
        return float(run.setting.learner == "partition")

    monkeypatch.setattr(SimulationGrid, "elapsed", 0.0)
    monkeypatch.setattr(SimulationGrid, "_expected", a_second)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = write_study(tmp_path, SMOOTH, 320)
        plan = planned(path, seconds=seconds, replicates=2)
    assert (plan.horizons, len(plan.epsilons)) == (horizons, epsilons)


def test_unfinished_replicates_are_dropped_when_time_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Short runs promise nothing of what long ones take: a second each."""
    monkeypatch.setattr(SimulationGrid, "total", lambda self, runs: 0.0)
    monkeypatch.setattr(SimulationGrid, "elapsed", property(lambda self: float(len(self._worth))))
    path = write_study(tmp_path, SMOOTH, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = planned(path, seconds=30.0, replicates=9, epsilons=(4.0,))
    assert 2 <= plan.replicates < 9
    assert np.isfinite(plan.frame["gain"]).all()


def test_a_limit_that_is_long_enough_changes_nothing(tmp_path: Path) -> None:
    path = write_study(tmp_path, SMOOTH, 100)
    free, limited = (
        planned(path, epsilons=(4.0,), replicates=3, seconds=seconds) for seconds in (None, 600.0)
    )
    assert not limited.left_out
    assert limited.frame.equals(free.frame)


def test_a_private_table_is_called_so(tmp_path: Path) -> None:
    write_people(tmp_path / "people.csv", rows=100)
    plan = planned(write_study(tmp_path, rounds=100), epsilons=(4.0,), replicates=2)
    told = " ".join(plan.data)
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
    plan = make_forecast(study, people, data, PlanRequest(epsilons=(8.0,), replicates=2))
    assert plan.people == 150
    assert plan.expected == 300
    assert any("more than 150 people" in text for text in plan.left_out)
    assert plan.advice().people == 150
    assert plan.advice().verdict.open, "there is no verdict about people who were not simulated"
    assert plan.loss_for(8.0, 300).simulated == -math.inf


def test_invented_people_stand_in_and_no_table_is_read(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    study, people, data = study_for(path, 400, synthetic=True)
    assert (study.rounds, people) == (400, 400)
    assert study.problem.arm_names == ("a", "b")
    assert study.problem.domain.names == ("x", "s")
    assert "no one's data" in data[0]
    assert "assumption" in data[1]


def test_a_study_without_a_learner_gets_the_usual_one(tmp_path: Path) -> None:
    text = STUDY.format(problem=SMOOTH, rounds=100).replace('name = "partition"\n', "")
    path = tmp_path / "small.toml"
    path.write_text(text)
    design = plan_design(load_study(path), 100, (1.0,))
    assert [each.learner for each in design.private] == ["local_kernel"]


def test_the_design_with_learners_under_two_trust_models(tmp_path: Path) -> None:
    path = write_study(tmp_path, SMOOTH, 400)
    more = '[[learners]]\nname = "released_thompson"\nepsilon = 1.0\ndelta = 1e-6\n'
    path.write_text(path.read_text() + more)
    study = load_study(path)
    design = plan_design(study, 400, (1.0, 2.0))
    assert [each.at(1.0).budget for each in design.private] == [Local(1.0)]
    assert "--trust-model joint" in design.left_out[0]
    joint = plan_design(study, 400, (1.0, 2.0), trust_model="joint")
    assert [each.at(2.0).budget for each in joint.private] == [Joint(2.0, 1e-6)]
    assert [each.name for each in joint.free] == ["partition", "released_thompson"]


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"epsilons": ()}, "epsilons was empty"),
        ({"epsilons": (0.0, 31.0)}, "above 30 it protects no one"),
        ({"learners": ("uniform",)}, "learns nothing"),
        ({"learners": ("gp_ucb",)}, "does not fit this problem"),
        ({"learners": ("oracle",)}, "learns nothing"),
        ({"learners": ("partitoin",)}, "Did you mean 'partition'"),
        ({"trust_model": "open"}, "must be 'local' or 'joint'"),
        ({"people": 10, "lose_at_most": 0.1, "epsilon": 1.0}, "at most two"),
        ({"lose_at_most": 5.0}, "lose_at_most was 5"),
        ({"replicates": 1}, "replicates was 1"),
        ({"seconds": 0.0}, "seconds was 0"),
    ],
)
def test_refusals(tmp_path: Path, wishes: dict[str, Any], message: str) -> None:
    path = write_study(tmp_path, SMOOTH, 100)
    with pytest.raises(InvalidInput, match=message):
        planned(path, **wishes)


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


def test_no_gain_says_so(tmp_path: Path) -> None:
    write_people(tmp_path / "people.csv", rule=False, rows=200)
    plan = planned(write_study(tmp_path, rounds=200), epsilons=(4.0,), replicates=3)
    assert not plan.worthwhile
    assert plan.advice().epsilon is None
