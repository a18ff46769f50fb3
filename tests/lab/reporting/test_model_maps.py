"""Maps of released models, and the words around choices that are points."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from discreet.lab.environments.base import Problem
from discreet.lab.environments.catalog import load_problem
from discreet.lab.environments.decision_sets import DoseProblem, dose_means
from discreet.lab.environments.functions import FunctionProblem
from discreet.lab.experiments import simulate_all
from discreet.lab.reporting.cuts import cuts
from discreet.lab.reporting.layout import NARROW
from discreet.lab.reporting.maps import PolicyMaps, scale_of
from discreet.lab.reporting.model_maps import ModelMap, Predicts, model_map
from discreet.lab.reporting.report import render_report
from discreet.lab.studies import ReportEntry, load_study
from discreet.learners.gp_ucb.learner import GPUCB
from discreet.learners.gp_ucb.public_points import OfferedGroup, PublicPolicy
from discreet.learners.references.uniform import Uniform
from discreet.papers.dubey2021.learners.exact_gp_ucb import ExactGPUCB
from discreet.people.domain import Box, PublicSet
from discreet.privacy import NonPrivate
from discreet.validation import FloatArray, InvalidInput

from .cases import overlapping

STUDY = """
name = "points"
rounds = 60
replicates = 1
[problem]
name = "{problem}"
[[learners]]
name = "gp_ucb"
epsilon = 2.0
delta = 1e-5
non_private = true
[learners.options]
error = 0.1
[[learners]]
name = "uniform"
"""


def test_what_predicts() -> None:
    bumps = load_problem("bumps")
    made = [kind(bumps.domain, bumps.space, NonPrivate()) for kind in (GPUCB, ExactGPUCB, Uniform)]
    known = [isinstance(learner.policy(), Predicts) for learner in made]
    assert known == [True, True, False]


class Known:
    """Predicts the first column, less surely the larger the last one is."""

    def predict(self, X: Any) -> tuple[FloatArray, FloatArray]:  # noqa: N803
        return 0.1 * X[:, 0], 0.1 + 0.01 * X[:, -1]


class Guess(Known):
    """Predicts like `Known`, and sends and gives people what a policy does."""

    def __init__(self, policy: Any) -> None:
        self.act = policy.act
        self.sent = getattr(policy, "sent", lambda: ())


class Nowhere:
    """Like finite features away from their points."""

    def predict(self, X: Any) -> tuple[FloatArray, FloatArray]:  # noqa: N803
        raise InvalidInput("a point that is not in the set.")


def cut(problem: Problem, policy: object = None) -> ModelMap:
    (panel,) = cuts(problem.domain, ReportEntry())
    made = model_map(policy or Known(), problem, panel)
    assert made is not None
    return made


def figure_of(
    shown: ModelMap, scale: tuple[float, float] = (0.0, 1.0), width: float = 4.5
) -> Figure:
    return PolicyMaps("a map", (shown,), scale).figure(width)


def function(columns: int, space: PublicSet | None = None) -> FunctionProblem:
    """Highest, 1, where the first column is 4 and the second 5, whatever the others are."""

    def value(points: FloatArray) -> FloatArray:
        away = (points[:, :2] - np.array([4.0, 5.0])[:columns]) ** 2
        highest: FloatArray = np.exp(-0.1 * away.sum(axis=1))
        return highest

    return FunctionProblem(value, Box((0.0,) * columns, (10.0,) * columns), 1.0, space=space)


@pytest.mark.parametrize("width", [4.5, NARROW])
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_maps_of_one_two_and_more_columns(columns: int, width: float) -> None:
    made = cut(function(columns))
    assert [(places[0], places[-1]) for places in made.places] == [(0.0, 10.0)] * min(columns, 2)
    assert made.possible.all()
    np.testing.assert_allclose(made.marks.best, [[4.0, 5.0][:columns]], atol=0.05)
    figure = figure_of(made, width=width)
    assert overlapping(figure) == []
    assert len(figure.axes) == (1 if columns == 1 else 2)
    assert figure.axes[0].get_title(loc="left") == ("x3 = 5" if columns == 3 else "")
    legend = figure.legends[0]
    wanted = "true optimum of this cut" if columns == 3 else "true optimum"
    assert [text.get_text() for text in legend.get_texts()] == [wanted]
    assert legend.get_title().get_text() == "a map"
    assert legend.get_window_extent().y0 > figure.axes[0].get_window_extent().y1


def test_where_many_other_columns_stand_is_said_in_full() -> None:
    figure = figure_of(cut(function(20)), width=NARROW)
    assert overlapping(figure) == []
    note = figure.axes[0].get_title(loc="left")
    assert note.replace("\n", " ") == ", ".join(f"x{place} = 5" for place in range(3, 21))


def test_a_model_of_a_few_points_has_no_map() -> None:
    problem = function(2)
    (panel,) = cuts(problem.domain, ReportEntry())
    assert model_map(Nowhere(), problem, panel) is None


def test_maps_share_a_scale_within_the_bounds_of_rewards() -> None:
    problem = function(2)
    made = cut(problem)
    low, high = replace(made, mean=0.2 + 0.1 * made.mean), replace(made, mean=3.0 * made.mean - 1.0)
    assert scale_of(low.seen, problem) == pytest.approx((0.2, 0.3))
    assert scale_of(np.append(low.seen, high.seen), problem) == (0.0, 1.0)
    assert scale_of(0.0 * made.seen, problem) == (0.0, 1.0)
    ends = [figure_of(shown).axes[1] for shown in (low, high)]
    assert [len(bar.patches) for bar in ends] == [0, 2]  # a pointed end below and above


def test_the_best_points_are_all_that_there_are() -> None:
    camelback = load_problem("camelback")
    np.testing.assert_allclose(
        sorted(cut(camelback).marks.best.tolist()), [[-0.09, 0.71], [0.09, -0.71]], atol=0.02
    )
    offered = PublicSet.of([[1.0, 1.0], [9.0, 9.0], [5.0, 5.0]])
    np.testing.assert_array_equal(cut(function(2, offered)).marks.best, [[5.0, 5.0]])
    flat = FunctionProblem(lambda points: np.full(len(points), 0.5), camelback.domain, 0.5)
    assert cut(flat).marks.best.shape == (0, 2)
    assert cut(load_problem("bumps")).marks.best.shape == (0, 2)


@pytest.mark.parametrize("additive", [pytest.param(True, marks=pytest.mark.slow), False])
def test_where_people_are_sent(additive: bool) -> None:
    problem = function(3)
    policy = GPUCB(
        problem.domain, problem.space, NonPrivate(), error=0.1, kernel="RBF(length_scale=8.0)"
    ).policy()
    assert isinstance(policy, PublicPolicy)
    grids: tuple[FloatArray, ...] = (np.array([[5.0], [0.0]]), np.array([[1.0, 2.0], [9.0, 3.0]]))
    offers: tuple[FloatArray, ...] = (np.array([0.75, 0.25]), np.array([0.5, 0.5]))
    columns: tuple[tuple[int, ...], ...] = ((1,), (2, 0))
    if not additive:
        grids, columns = (np.array([[1.0, 5.0, 2.0], [1.0, 5.0, 8.0]]),), ((0, 1, 2),)
        offers = offers[:1]
    groups = tuple(map(OfferedGroup, columns, grids, offers))
    marks = cut(problem, Guess(replace(policy, groups=groups))).marks
    found = {tuple(place): share for place, share in zip(marks.sent, marks.shares, strict=True)}
    if additive:  # columns 0 and 1 are drawn apart from each other
        assert found == {(2, 5): 0.375, (3, 5): 0.375, (2, 0): 0.125, (3, 0): 0.125}
    else:  # the third column plays no part
        assert found == {(1, 5): 1.0}


def test_everyone_is_sent_to_the_choice_of_the_exact_posterior() -> None:
    camelback = load_problem("camelback")
    policy = ExactGPUCB(camelback.domain, camelback.space, NonPrivate()).policy()
    marks = cut(camelback, policy).marks
    np.testing.assert_array_equal(marks.sent, policy.choice[None])
    assert marks.shares.tolist() == [1.0]


def test_doses_of_patients_along_a_column() -> None:
    dose = load_problem("dose")
    assert isinstance(dose, DoseProblem)
    policy = Guess(Uniform(dose.domain, dose.space, NonPrivate()).policy())
    at = {"age_years": 60.0, "weight_kg": 75.0}
    entry = ReportEntry(axes=["kidney_ml_min", "dose_mg"], at=at)
    (panel,) = cuts(dose.domain, entry)
    made = model_map(policy, dose, panel)
    assert made is not None
    assert made.possible.all()  # the axis ends with the largest dose at 75 kg
    assert made.places[1][-1] == pytest.approx(300.0, rel=1e-3)
    assert made.marks.joined
    kidney, best = made.marks.best.T
    assert (np.diff(best) >= 0.0).all()  # better kidneys stand more
    sets = dose.doses(np.column_stack([np.full((len(kidney), 2), [60.0, 75.0]), kidney]))
    np.testing.assert_allclose(dose_means(sets).max(axis=1), dose_means(_at(kidney, best)))
    assert overlapping(figure_of(made, width=NARROW)) == []

    (panel,) = cuts(dose.domain, ReportEntry(axes=["dose_mg", "weight_kg"], at=at))
    heavy = model_map(policy, dose, panel)
    assert heavy is not None
    assert not heavy.possible.all()
    figure = figure_of(heavy)
    assert overlapping(figure) == []
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["given", "truly best", "nobody can be given this"]

    (panel,) = cuts(dose.domain, ReportEntry(axes=["dose_mg"], at=at))
    one = model_map(policy, dose, panel)
    assert one is not None
    assert (one.marks.joined, one.marks.best.shape, one.marks.sent.shape) == (False, (1, 1), (1, 1))
    assert overlapping(figure_of(one)) == []


def _at(kidney: FloatArray, dose: FloatArray) -> FloatArray:
    """(n, 4) points of patients of 60 years and 75 kg."""
    return np.column_stack([dose, np.full((len(dose), 2), [60.0, 75.0]), kidney])


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize(
    ("problem", "offered"),
    [
        ("bumps", "up to 25 points of their own"),
        ("camelback", "any point of a box"),
    ],
)
def test_reports_of_points(problem: str, offered: str, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(STUDY.format(problem=problem))
    study = load_study(path)
    outcomes = list(simulate_all(study.problem, study.settings, 60, 1, 3))
    text = render_report(study, outcomes)
    assert offered in text
    assert "What is expected where" in text
    assert text.count("of the reward expected by gp_ucb") == 2
    assert "joint: the learner is trusted with the data" in text
    record = "decision set and reward" if problem == "bumps" else "reward"
    assert f"one person's {record} is replaced by any other" in text
    assert ("Only the reward of a person is protected" in text) == (problem == "camelback")
    assert "The columns of a point" in text
    assert not re.search(r"\barms?\b", re.sub(r"<style>.*?</style>|base64,[^\"]*", "", text))
