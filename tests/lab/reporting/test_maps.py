"""Maps of policies: cuts, arms, and the rewards that are expected of arms on a line."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from discreet.lab.environments.base import People, Population, Problem
from discreet.lab.environments.kernel_grid import KernelGridProblem
from discreet.lab.experiments import people_of
from discreet.lab.reporting.cuts import Cut, cut_note, cuts, draw_column, first_column
from discreet.lab.reporting.layout import NARROW, WIDE, sheet
from discreet.lab.reporting.maps import (
    ArmMap,
    PolicyMaps,
    RewardMap,
    arm_map,
    named_arms,
    on_a_line,
    policy_maps,
    reward_map,
    same_once,
    scale_of,
)
from discreet.lab.reporting.report import render_report
from discreet.lab.studies import ReportEntry, Study
from discreet.learners.epochs.features import ContextDistribution
from discreet.learners.epochs.policy import EpochPolicy
from discreet.learners.epochs.released_thompson import ReleasedThompson
from discreet.learners.policy import ArmPolicy
from discreet.learners.references.uniform import UniformPolicy
from discreet.people.domain import ArmPoints, Box, RewardBounds
from discreet.privacy import NonPrivate
from discreet.validation import FloatArray

from .cases import TABLE, exponential, overlapping, run_study, words_of, write_table

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


def drawn(policy: ArmPolicy, study: Study, title: str, width: float) -> Figure:
    """The map of the arms of one policy."""
    panels = cuts(study.problem.domain, study.report)
    maps = tuple(arm_map(policy, study.problem, panel) for panel in panels)
    return PolicyMaps(title, maps, (0.0, 1.0)).figure(width)


def line_cuts(problem: Problem, **report: Any) -> tuple[Cut, ...]:
    """Cuts along one column."""
    return cuts(problem.domain, first_column(problem.domain, ReportEntry(**report)))


class Nobody(Population):
    """People of whom nothing is known."""

    received = value = best_fixed = oracle = earned = None  # type: ignore[assignment]


@pytest.mark.parametrize("dimension", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_maps_of_synthetic_studies(tmp_path: Path, dimension: int) -> None:
    study, made = run_study(tmp_path, exponential(dimension), replicates=1)
    panels = cuts(study.problem.domain, study.report)
    assert len(panels) == 1
    assert panels[0].axes == (0, 1)[:dimension]
    assert panels[0].title == ("x3 = 0.5" if dimension == 3 else "")
    policies = [a.policy for a in made if a.policy is not None]
    assert len(policies) == 4
    for policy in policies:
        figure = drawn(policy, study, "title", 4.5)
        assert len(figure.axes) == 1
        names = [text.get_text() for text in figure.legends[0].get_texts()]
        assert names[:3] == ["arm 1", "arm 2", "arm 3"]
        assert overlapping(figure) == []


def test_boxes_cover_the_cut_and_agree_with_the_policy(tmp_path: Path) -> None:
    study, made = run_study(tmp_path, exponential(3), replicates=1)
    policy = next(a.policy for a in made if a.setting.label == "partition (non-private)")
    assert policy is not None
    (panel,) = cuts(study.problem.domain, study.report)
    boxes = arm_map(policy, study.problem, panel)
    assert (boxes.upper - boxes.lower).prod(axis=1).sum() == pytest.approx(1.0)
    points = np.random.default_rng(1).random((50, 3))
    points[:, 2] = 0.5
    inside = (boxes.lower[None] <= points[:, None, :2]) & (points[:, None, :2] < boxes.upper[None])
    box = inside.all(axis=2).argmax(axis=1)
    np.testing.assert_allclose(boxes.chances[box], policy.probabilities(points))


def test_a_column_with_few_levels_gets_a_panel_for_each(tmp_path: Path) -> None:
    write_table(tmp_path)
    study, made = run_study(tmp_path, TABLE, replicates=1)
    panels = cuts(study.problem.domain, study.report)
    assert [panel.title for panel in panels] == ["sex = f", "sex = m"]
    policy = made[0].policy
    assert policy is not None
    wide = drawn(policy, study, "a $ and a $", WIDE)
    narrow = drawn(policy, study, "a $ and a $", NARROW)
    for figure, columns in ((wide, 2), (narrow, 1)):
        assert len(figure.axes) == 2
        assert len({axes.get_position().x0 for axes in figure.axes}) == columns
        assert figure.axes[0].get_xlabel() == "age"
        assert figure.axes[0].get_ylabel() == "cost ($) now ($)"
        assert figure.axes[0].get_xlim() == (20.0, 60.0)
        assert overlapping(figure) == []  # and a dollar sign must not start a formula


class BySex(UniformPolicy):
    """An arm for each sex."""

    def chances(self, unit: FloatArray) -> FloatArray:
        return np.column_stack([1.0 - unit[:, 2], unit[:, 2]])


def test_maps_that_are_the_same_are_shown_once(tmp_path: Path) -> None:
    write_table(tmp_path)
    learners = "[[learners]]\nname = 'uniform'\n"
    study, [made_alike] = run_study(tmp_path, TABLE, learners, replicates=1)
    alike = made_alike.policy
    assert isinstance(alike, UniformPolicy)
    apart = BySex(**{field.name: getattr(alike, field.name) for field in fields(alike)})
    made = policy_maps(study, {"one": alike, "other": apart, "like one": alike})
    titles = [[shown.cut.title for shown in maps.maps] for maps in made]
    assert titles == [["sex = f and m"], ["sex = f", "sex = m"], ["sex = f and m"]]
    assert [maps.label for maps in made] == ["one", "other", "like one"]
    once = same_once(made)
    assert [maps.label for maps in once] == ["one; like one", "other"]
    panels = [axes.get_title(loc="left") for axes in once[0].figure(WIDE).axes]
    assert panels == ["sex = f and m"]


@pytest.mark.parametrize(
    ("lower", "upper", "levels", "ticks"),
    [
        (6.0, 20.0, 8, [6.0, 10.0, 14.0, 18.0]),
        (0.0, 1.0, 4, [0.0, 1 / 3, 2 / 3, 1.0]),
        (1.0, 5.0, 5, [1.0, 2.0, 3.0, 4.0, 5.0]),
        (0.0, 100.0, 9, [0.0, 25.0, 50.0, 75.0, 100.0]),
    ],
)
def test_numbers_along_a_map_stand_at_values_of_the_column(
    lower: float, upper: float, levels: int, ticks: list[float]
) -> None:
    [[axes]] = sheet(width=NARROW)[1]
    axes.set_xlim(lower, upper)
    draw_column(axes.xaxis, Box((lower,), (upper,), ("a",), (levels,)), 0, 2.4)
    np.testing.assert_allclose(axes.get_xticks(), ticks)


@pytest.mark.parametrize(
    ("report", "axes", "titles"),
    [
        ({}, (0, 1), ["sex = f", "sex = m"]),
        ({"axes": ["sex", "age"], "at": {"cost": 7}}, (2, 0), ["cost = 7"]),
        ({"axes": ["age"], "at": {"sex": 1}}, (0,), ["cost = 5, sex = m"]),
    ],
)
def test_the_study_chooses_the_cut(
    report: dict[str, Any], axes: tuple[int, ...], titles: list[str]
) -> None:
    domain = Box(
        (20.0, 0.0, 0.0), (60.0, 10.0, 1.0), ("age", "cost", "sex"), (None, 11, 2),
        ((), (), ("f", "m")),
    )  # fmt: skip
    panels = cuts(domain, ReportEntry(**report))
    assert [panel.title for panel in panels] == titles
    assert all(panel.axes == axes for panel in panels)
    cost = report.get("at", {}).get("cost", 5)
    if 1 not in axes:
        assert panels[0].point[1] == pytest.approx(cost / 10)


@pytest.mark.usefixtures("unpainted")
def test_very_many_arms_are_named_in_part(tmp_path: Path) -> None:
    problem = "[problem]\nname = 'kernel_grid'\ncontexts = 6\narms = 20\n"
    learners = "[[learners]]\nname = 'partition'\nnon_private = true\n"
    study, outcomes = run_study(tmp_path, problem, learners, replicates=1)
    named = named_arms(study.problem)
    assert (named[0], named[-1], len(named)) == (0, 19, 7)
    policy = outcomes[0].policy
    assert isinstance(policy, ArmPolicy)
    figure = drawn(policy, study, "title", 6.0)
    assert len(figure.legends[0].get_texts()) == 7
    assert "colours in between" in render_report(study, outcomes)
    assert "from 0 to 1" in render_report(study, outcomes)


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize("width", [pytest.param(4.5, marks=pytest.mark.slow), NARROW])
def test_where_other_columns_stand_is_never_cut_off(tmp_path: Path, width: float) -> None:
    report = "[report]\naxes = ['age']\n"
    problem = TABLE.replace("cost ($) now ($)", "monthly cost of living of the household ($)")
    header = "age,monthly cost of living of the household ($),sex,$1_{,$2"
    rows = [f"{20 + r % 40},{5 * (r % 3)},{'fm'[r % 2]},5,0" for r in range(300)]
    (tmp_path / "people.csv").write_text("\n".join([header, *rows]))
    problem = problem.replace("levels = 11", "levels = 3")
    study, made = run_study(tmp_path, problem, report=report, replicates=1)
    policy = made[0].policy
    assert isinstance(policy, ArmPolicy)
    title = "a label of a learner that is longer than a telephone is wide, epsilon 1"
    figure = drawn(policy, study, title, width)
    assert overlapping(figure) == []
    shown = cut_note(study.problem.domain, study.report)
    assert shown is not None
    assert shown.middle.startswith("monthly cost of living of the household ($) = 5")
    words = words_of(render_report(study, made))
    assert (
        "Maps show age. They are drawn at monthly cost of living of the household ($) = 5" in words
    )
    assert "an arbitrary choice, near the middle, as the study file makes none" in words


def test_large_numbers_are_easy_to_read_where_other_columns_stand() -> None:
    domain = Box.of({"age": (18, 90), "region": ["a", "b"], "income": (0, 3_000_000)})
    shown = cut_note(domain, ReportEntry(axes=["age", "region"]))
    assert shown is not None
    assert shown.middle == "income = 1,500,000"


@pytest.mark.slow
def test_a_cut_that_the_study_chose_is_not_called_arbitrary(tmp_path: Path) -> None:
    write_table(tmp_path)
    report = "[report]\naxes = ['sex', 'age']\nat = {'cost ($) now ($)' = 7}\n"
    study, made = run_study(tmp_path, TABLE, report=report, replicates=1)
    first, *others = words_of(render_report(study, made)).split("Who is given what after")[1:]
    caption = first
    assert len(others) == 2
    assert "arbitrary" in others[0] + others[1]
    assert "They are drawn at cost ($) now ($) = 7 (as the study file asks)." in caption
    assert "arbitrary" not in caption
    study, made = run_study(tmp_path, TABLE, replicates=1)
    caption = words_of(render_report(study, made))
    assert "Maps show age and cost ($) now ($), which come first in the table." in caption
    assert "There is one for each value of sex." in caption


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
    (panel,) = line_cuts(problem)
    made = reward_map(policy, problem, panel, crowd)
    np.testing.assert_allclose(made.places, problem.grid)
    np.testing.assert_allclose(made.arms, np.linspace(0.0, 1.0, 5))
    unit = problem.grid[:, None]
    low, high = problem.reward_bounds.lower, problem.reward_bounds.upper
    np.testing.assert_allclose(made.mean, low + (high - low) * policy.expected_rewards(unit))
    np.testing.assert_allclose(made.given, policy.probabilities(unit))
    np.testing.assert_array_equal(made.best, made.arms[made.mean.argmax(axis=1)])
    function: FloatArray = crowd.function  # type: ignore[attr-defined]
    np.testing.assert_array_equal(made.truth, made.arms[function.argmax(axis=1)])
    assert scale_of(made.seen, problem) == (made.mean.min(), made.mean.max())


def test_arms_in_any_order_and_contexts_of_any_value() -> None:
    problem = Clinic()
    contexts = np.random.default_rng(1).uniform(0.0, 10.0, (30, 3)) * [0.0, 1.0, 0.0]
    policy = policy_of(problem, contexts=contexts, kernel="RBF(length_scale=10.0)")
    assert on_a_line(problem)
    panels = line_cuts(problem, axes=["age"], at={"sex": 1.0})
    assert [panel.title for panel in panels] == ["sex = 1, smoker = 0", "sex = 1, smoker = 1"]
    made = [reward_map(policy, problem, panel, Nobody()) for panel in panels]
    assert made[0].arms.tolist() == [1.0, 5.0, 9.0]
    assert made[0].names == {9.0: "high", 1.0: "low", 5.0: "middle"}
    assert (len(made[0].places), made[0].places[-1]) == (61, 10.0)
    assert np.isnan(made[0].truth).all()
    unit = np.array([[1.0, 0.5, 0.0]])
    expected = -1.0 + 4.0 * policy.expected_rewards(unit)[0]
    np.testing.assert_allclose(made[0].mean[30], expected[[1, 2, 0]])
    assert made[0].best[30] == [9.0, 1.0, 5.0][int(expected.argmax())]


def test_what_is_best_in_hindsight_needs_enough_people() -> None:
    contexts = np.repeat([[0.0], [1.0]], [20, 19], axis=0)
    rewards = np.tile([[0.2, 0.9, 0.1]], (39, 1))
    people = People(contexts, rewards)
    assert people.best_arms(np.array([[0.0], [1.0], [2.0]])).tolist() == [1, -1, -1]
    assert Nobody().best_arms(np.array([[0.0]])).tolist() == [-1]


def cut(count: int, title: str = "", truth: bool = True) -> RewardMap:
    problem = KernelGridProblem(contexts=6, arms=5)
    (panel,) = line_cuts(problem)
    made = reward_map(policy_of(problem), problem, panel, people_of(problem, 10, count, 0))
    truth = made.truth if truth else np.full(6, np.nan)
    return replace(made, cut=replace(panel, title=title), truth=truth)


@pytest.mark.parametrize(("count", "width"), [(1, 4.5), (1, NARROW), (2, WIDE), (3, WIDE)])
def test_figures(count: int, width: float) -> None:
    maps = tuple(cut(place, f"smoker = {place}" if count > 1 else "") for place in range(count))
    figure = PolicyMaps("a map", maps, (-1.0, 1.0)).figure(width)
    assert overlapping(figure) == []
    panels = [axes for axes in figure.axes if axes.get_xlabel()]
    rows = {round(axes.get_position().y0, 3) for axes in panels}
    assert len(panels) == count
    assert len(rows) == (-(-count // 2) if width == WIDE else count)
    assert len(figure.axes) == count + 1  # one scale for all of them
    legend = figure.legends[0]
    assert legend.get_title().get_text() == "a map"
    assert names(figure) == ["expected best", "given", "truly best"]
    assert legend.get_window_extent().y0 > panels[0].get_window_extent().y1


def names(figure: Figure) -> list[str]:
    return sorted(text.get_text() for text in figure.legends[0].get_texts())


def test_the_legend_says_what_is_known() -> None:
    known = replace(cut(0), problem=Clinic())
    figure = PolicyMaps("", (known,), (0.0, 1.0)).figure(4.5)
    assert names(figure) == ["best in hindsight", "expected best", "given"]
    figure = PolicyMaps("", (cut(0, truth=False),), (0.0, 1.0)).figure(4.5)
    assert names(figure) == ["expected best", "given"]


def test_a_legend_of_many_arms_names_those_that_cover_most_of_the_map() -> None:
    class Films(Clinic):
        arm_names = tuple(f"film {k}" for k in range(20))
        space: Any = 20

    films = Films()
    corners = np.array([[0.0], [0.5]])
    chances = np.zeros((2, 20))
    chances[0, 18], chances[1, [3, 19]] = 1.0, 0.5
    where = Cut((0,), np.zeros(1), "")
    boxes = ArmMap(where, films, corners, corners + 0.5, chances, chances > 0.0, True)
    flat = PolicyMaps("", (boxes,), (0.0, 1.0)).figure(4.5)
    shown = [text.get_text() for text in flat.legends[0].get_texts()]
    assert len(shown) == 13
    assert {"film 18", "film 3", "film 19", "and 8 more"} <= set(shown)
    assert overlapping(flat) == []


def test_arms_without_points_have_maps_too() -> None:
    domain = Box((0.0, 0.0), (4.0, 1.0), ("a", "b"), (5, 2))
    learner = ReleasedThompson(domain, 3, NonPrivate(), error=0.1)
    assert learner.features.contexts.exact
    (panel,) = cuts(domain, ReportEntry(axes=["a", "b"]))
    clinic = Clinic()
    boxes = arm_map(learner.policy(), clinic, panel)  # between contexts that people bring
    assert boxes.chances.shape == (48 * 48, 3)
    point = ContextDistribution.grid(domain).points[3]
    near = boxes.chances[((boxes.lower <= point) & (point <= boxes.upper)).all(axis=1)][:1]
    np.testing.assert_allclose(near, learner.policy().probabilities(domain.from_unit(point[None])))


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize("other", ["capri", "partition"])
def test_the_report(other: str, tmp_path: Any) -> None:
    budget = "epsilon = 4.0\ndelta = 1e-6" if other == "capri" else "epsilon = 4.0"
    learners = LEARNERS.format(other=other, budget=budget)
    study, outcomes = run_study(tmp_path, GRID, learners, replicates=1)
    text = render_report(study, outcomes)
    expecting = 2 if other == "capri" else 1
    assert text.count("Map over context and arms of the reward expected by") == expecting
    assert text.count("Map over context of who is given") == 2 - expecting
    caption = words_of(text)
    assert "truly best, which only a simulation knows" in caption
    assert "But for the line of what was best, the maps of private learners" in caption
    assert ("heights of the colours" in caption) == (other == "partition")
    assert ("the other learners show the arms alone" in caption) == (other == "partition")
    who = "The learner is" if other == "capri" else "Learners under joint privacy are"
    assert f"{who} trusted with context, action and reward" in text
