"""Maps of the rewards that epoch learners expect of arms on a line."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from discreet.action_space import ArmPoints
from discreet.domain import Box, RewardBounds
from discreet.experiments import people_of, simulate_all
from discreet.learners.epochs.contexts import ContextDistribution
from discreet.learners.epochs.policy import EpochPolicy
from discreet.learners.epochs.released_thompson import ReleasedThompson
from discreet.privacy import NonPrivate
from discreet.problems.base import People, Problem
from discreet.problems.kernel_grid import KernelGridProblem
from discreet.reporting.captions import maps as maps_caption
from discreet.reporting.html import render_report
from discreet.reporting.maps import boxes_of, map_panels
from discreet.reporting.plots import NARROW, WIDE, epsilon_figure, outside, progress_figure
from discreet.reporting.reward_maps import (
    RewardMap,
    best_arms,
    on_a_line,
    reward_figure,
    reward_map,
    reward_panels,
    reward_scale,
)
from discreet.reporting.summary import summarise
from discreet.studies import ReportEntry
from discreet.validation import FloatArray

from .cases import outcome, run_study, setting

LEARNERS = """
[[learners]]
name = "released_thompson"
epsilon = 4.0
delta = 1e-6
[learners.options]
kernel = "RBF(length_scale=0.3)"
error = 0.05

[[learners]]
name = "{other}"
{budget}

[[learners]]
name = "uniform"
"""
GRID = "[problem]\nname = 'kernel_grid'\ncontexts = 6\narms = 5\n"


class Clinic(Problem):
    """Doses in no order for people of three columns; nothing is known of what is best."""

    size = None
    source = "a test"
    arm_names = ("high", "low", "middle")
    domain = Box((0.0, 0.0, 0.0), (1.0, 10.0, 1.0), ("sex", "age", "smoker"), (2, None, 2))
    reward_bounds = RewardBounds(-1.0, 3.0)

    @property
    def space(self) -> ArmPoints:
        return ArmPoints.of([9.0, 1.0, 5.0])

    @property
    def metric(self) -> Any:
        return "reward"

    def sample(self, people: int, rng: np.random.Generator) -> People:
        raise NotImplementedError


def policy_of(problem: Problem, **options: Any) -> EpochPolicy:
    arms: Any = problem.space
    learner = ReleasedThompson(problem.domain, arms, NonPrivate(), error=0.1, **options)
    features = learner.features.features
    believed = np.random.default_rng(0).normal(0.0, 0.1, features)
    return replace(learner.policy(), believed=believed)


def test_a_map_is_what_the_policy_expects_in_declared_units() -> None:
    problem = KernelGridProblem(contexts=6, arms=5)
    policy = policy_of(problem)
    crowd = people_of(problem, 10, 3, 0)
    (panel,) = reward_panels(problem, ReportEntry())
    made = reward_map(policy, problem, panel, crowd)
    np.testing.assert_allclose(made.places, problem.grid)
    np.testing.assert_allclose(made.points, np.linspace(0.0, 1.0, 5))
    unit = problem.grid[:, None]
    low, high = problem.reward_bounds.lower, problem.reward_bounds.upper
    np.testing.assert_allclose(made.mean, low + (high - low) * policy.mean(unit))
    np.testing.assert_allclose(made.given, policy.probabilities(unit))
    np.testing.assert_array_equal(made.best, made.points[made.mean.argmax(axis=1)])
    function: FloatArray = crowd.function  # type: ignore[attr-defined]
    np.testing.assert_array_equal(made.truth, made.points[function.argmax(axis=1)])
    assert reward_scale([made], problem) == (made.mean.min(), made.mean.max())


def test_arms_in_any_order_and_contexts_of_any_value() -> None:
    problem = Clinic()
    contexts = np.random.default_rng(1).uniform(0.0, 10.0, (30, 3)) * [0.0, 1.0, 0.0]
    policy = policy_of(problem, contexts=contexts)
    assert on_a_line(problem)
    panels = reward_panels(problem, ReportEntry(axes=["age"], at={"sex": 1.0}))
    assert [panel.title for panel in panels] == ["sex = 1, smoker = 0", "sex = 1, smoker = 1"]
    made = [reward_map(policy, problem, panel) for panel in panels]
    assert made[0].points.tolist() == [1.0, 5.0, 9.0]
    assert dict(made[0].names) == {9.0: "high", 1.0: "low", 5.0: "middle"}
    assert (len(made[0].places), made[0].places[-1]) == (61, 10.0)
    assert np.isnan(made[0].truth).all()
    unit = np.array([[1.0, 0.5, 0.0]])
    expected = -1.0 + 4.0 * policy.mean(unit)[0]
    np.testing.assert_allclose(made[0].mean[30], expected[[1, 2, 0]])
    assert made[0].best[30] == [9.0, 1.0, 5.0][int(expected.argmax())]


def test_what_is_best_in_hindsight_needs_enough_people() -> None:
    contexts = np.repeat([[0.0], [1.0]], [20, 19], axis=0)
    rewards = np.tile([[0.2, 0.9, 0.1]], (39, 1))
    people = People(contexts, rewards)
    assert best_arms(people, np.array([[0.0], [1.0], [2.0]])).tolist() == [1, -1, -1]
    assert best_arms(None, np.array([[0.0]])).tolist() == [-1]


def cut(count: int, title: str = "", truth: bool = True) -> RewardMap:
    problem = KernelGridProblem(contexts=6, arms=5)
    (panel,) = reward_panels(problem, ReportEntry())
    made = reward_map(policy_of(problem), problem, panel, people_of(problem, 10, count, 0))
    return replace(made, title=title, truth=made.truth if truth else np.full(6, np.nan))


@pytest.mark.parametrize("width", [4.5, NARROW, WIDE])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_figures(count: int, width: float) -> None:
    maps = [cut(place, f"smoker = {place}" if count > 1 else "") for place in range(count)]
    figure = reward_figure(maps, (-1.0, 1.0), "a map", width)
    figure.canvas.draw()
    panels = [axes for axes in figure.axes if axes.get_xlabel()]
    rows = {round(axes.get_position().y0, 3) for axes in panels}
    assert len(panels) == count
    assert len(rows) == (-(-count // 2) if width == WIDE else count)
    assert len(figure.axes) - count == len(rows)  # one scale for each row
    assert [text.get_text() for text in figure.texts] == ["a map"]
    legend = figure.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == [
        "expected best",
        "given",
        "truly best",
    ]
    heights = [one.get_window_extent() for one in [*figure.texts, legend, panels[0].title]]
    assert all(upper.y0 > lower.y1 for upper, lower in itertools.pairwise(heights) if lower.height)


def test_the_legend_says_what_is_known() -> None:
    known = reward_figure([cut(0)], (0.0, 1.0), "", 4.5, hindsight=True).legends[0].get_texts()
    assert known[-1].get_text() == "best in hindsight"
    unknown = reward_figure([cut(0, truth=False)], (0.0, 1.0), "", 4.5).legends[0].get_texts()
    assert [text.get_text() for text in unknown] == ["expected best", "given"]


def test_arms_without_points_have_maps_too() -> None:
    domain = Box((0.0, 0.0), (4.0, 1.0), ("a", "b"), (5, 2))
    learner = ReleasedThompson(domain, 3, NonPrivate(), error=0.1)
    assert learner.features.contexts.exact
    (panel,) = map_panels(domain, ReportEntry(axes=["a", "b"]))
    boxes = boxes_of(learner.policy(), panel)  # between contexts that people bring
    assert boxes.probabilities.shape == (48 * 48, 3)
    point = ContextDistribution.grid(domain).points[3]
    near = boxes.probabilities[((boxes.lower <= point) & (point <= boxes.upper)).all(axis=1)][:1]
    np.testing.assert_allclose(near, learner.policy().probabilities(domain.from_unit(point[None])))


@pytest.mark.parametrize("other", ["capri", "partition"])
def test_the_report(other: str, tmp_path: Any) -> None:
    budget = "epsilon = 4.0\ndelta = 1e-6" if other == "capri" else "epsilon = 4.0"
    learners = LEARNERS.format(other=other, budget=budget)
    study, outcomes = run_study(tmp_path, GRID, learners, replicates=1)
    text = render_report(study, outcomes)
    expecting = 2 if other == "capri" else 1
    assert text.count("Map over context and arms of the reward that") == expecting
    assert text.count("Map over context of the arm that") == 2 - expecting
    caption = maps_caption(study, summarise(outcomes, study.settings))
    assert "truly best, which only a simulation knows" in caption
    assert "But for the line of what was best, the maps of private learners" in caption
    assert ("heights of the colours" in caption) == (other == "partition")
    assert ("the other learners show the arms alone" in caption) == (other == "partition")
    who = "The learner is" if other == "capri" else "Learners under joint privacy are"
    assert f"{who} trusted with context, action and reward" in text


def test_uniform_choice_leaves_the_chart_where_it_would_hide_the_others() -> None:
    high, low = setting("uniform"), setting("partition", 1.0)
    for value, leaves in ((900.0, True), (200.0, False)):
        made = [outcome(high, value, metric="regret"), outcome(low, 100.0, metric="regret")]
        summary = summarise(made)
        assert bool(outside(summary)) is leaves
        for figure in (progress_figure(made, summary), epsilon_figure(summary)):
            top = figure.axes[0].get_ylim()[1]
            assert bool(top < 200.0) is leaves
            names = [text.get_text() for text in figure.axes[0].texts]
            assert ("uniform: 900, above" in names) is leaves
    rewards = summarise([outcome(high, 900.0), outcome(low, 100.0)])
    assert outside(rewards) == []


def test_the_people_of_a_replicate_are_those_that_learners_meet(tmp_path: Any) -> None:
    study, _ = run_study(tmp_path, GRID, LEARNERS.format(other="best_fixed", budget=""))
    people = people_of(study.problem, 40, 7, 1)
    best = study.settings[1]
    (found,) = [
        one for one in simulate_all(study.problem, [best], 40, 2, 7) if one.record.replicate == 1
    ]
    assert found.record.value == pytest.approx(float(people.best_fixed().sum()))
