"""Maps of policies: cuts, arms, expected rewards of arms on a line, and models."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from discreet.lab.environments.base import People, Population, Problem
from discreet.lab.environments.catalog import load_problem
from discreet.lab.environments.decision_sets import DoseProblem, dose_means
from discreet.lab.environments.functions import FunctionProblem
from discreet.lab.environments.kernel_grid import KernelGridProblem
from discreet.lab.experiments import people_of, simulate_all
from discreet.lab.reporting.layout import NARROW, WIDE, sheet
from discreet.lab.reporting.maps import (
    ArmMap,
    Cut,
    ModelMap,
    PolicyMaps,
    Predicts,
    RewardMap,
    arm_map,
    cuts,
    draw_column,
    model_map,
    named_arms,
    policy_maps,
    reward_map,
    same_once,
    scale_of,
)
from discreet.lab.reporting.report import render_report
from discreet.lab.studies import ReportEntry, Study, load_study
from discreet.learners.epochs.features import ContextDistribution
from discreet.learners.epochs.policy import EpochPolicy
from discreet.learners.epochs.released_thompson import ReleasedThompson
from discreet.learners.gp_ucb.learner import GPUCB
from discreet.learners.gp_ucb.public.policy import OfferedGroup, PublicPolicy
from discreet.learners.policy import ArmPolicy
from discreet.learners.references.uniform import Uniform, UniformPolicy
from discreet.papers.dubey2021.learners.exact_gp_ucb import ExactGPUCB
from discreet.people.domain import ArmPoints, Box, PublicSet, RewardBounds
from discreet.privacy import NonPrivate
from discreet.validation import FloatArray, InvalidInput

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
    entry = ReportEntry(**report)
    column = entry.axes[:1] or list(problem.domain.names[:1])
    return cuts(problem.domain, ReportEntry(axes=column, at=entry.at))


class Nobody(Population):
    """People of whom nothing is known."""

    received = value = best_fixed = oracle = earned = None  # type: ignore[assignment]


@pytest.mark.parametrize("dimension", [1, pytest.param(3, marks=pytest.mark.slow)])
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


def test_cells_have_the_probabilities_of_their_middles(tmp_path: Path) -> None:
    study, made = run_study(tmp_path, exponential(3), replicates=1)
    policy = next(a.policy for a in made if a.setting.label == "partition (non-private)")
    assert isinstance(policy, ArmPolicy)
    (panel,) = cuts(study.problem.domain, study.report)
    shown = arm_map(policy, study.problem, panel)
    assert [len(places) for places in shown.places] == [64, 64]
    x, y = np.meshgrid(*shown.places, indexing="ij")
    points = np.stack([x, y, np.full_like(x, 0.5)], axis=-1)
    expected = policy.probabilities(points.reshape(-1, 3)).reshape(64, 64, 3)
    np.testing.assert_allclose(shown.chances, expected)


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
        assert figure.axes[0].get_xlim() == pytest.approx((20.0, 60.0))
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
    titles = [axes.get_title(loc="left").replace("\n", " ") for axes in figure.axes]
    assert titles[0].startswith("monthly cost of living of the household ($) = 5")
    words = words_of(render_report(study, made))
    assert words.count("Other columns stand where the titles say") == 3


def test_large_numbers_are_easy_to_read_where_other_columns_stand() -> None:
    domain = Box.of({"age": (18, 90), "region": ["a", "b"], "income": (0, 3_000_000)})
    (panel,) = cuts(domain, ReportEntry(axes=["age", "region"]))
    assert panel.title == "income = 1,500,000"


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
    panels = line_cuts(problem, axes=["age"], at={"sex": 1.0})
    assert [panel.title for panel in panels] == ["sex = 1, smoker = 0", "sex = 1, smoker = 1"]
    made = [reward_map(policy, problem, panel, Nobody()) for panel in panels]
    assert made[0].arms.tolist() == [1.0, 5.0, 9.0]
    assert (len(made[0].places), made[0].places[0]) == (64, 10.0 / 128)
    assert np.isnan(made[0].truth).all()
    unit = np.array([[1.0, made[0].places[30] / 10.0, 0.0]])
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
    chances = np.zeros((2, 20))
    chances[0, 18], chances[1, [3, 19]] = 1.0, 0.5
    where = Cut((0,), np.zeros(1), "")
    shares = ArmMap(where, films, (np.array([0.25, 0.75]),), chances)
    flat = PolicyMaps("", (shares,), (0.0, 1.0)).figure(4.5)
    shown = [text.get_text() for text in flat.legends[0].get_texts()]
    assert len(shown) == 13
    assert {"film 18", "film 3", "film 19", "and 8 more"} <= set(shown)
    assert overlapping(flat) == []


def test_a_column_of_levels_has_a_cell_for_each() -> None:
    domain = Box((0.0, 0.0), (4.0, 1.0), ("a", "b"), (5, 2))
    learner = ReleasedThompson(domain, 3, NonPrivate(), error=0.1)
    assert learner.features.contexts.exact
    (panel,) = cuts(domain, ReportEntry(axes=["a", "b"]))

    class Levels(Clinic):
        domain = Box((0.0, 0.0), (4.0, 1.0), ("a", "b"), (5, 2))

    shown = arm_map(learner.policy(), Levels(), panel)
    assert [places.tolist() for places in shown.places] == [[0, 1, 2, 3, 4], [0, 1]]
    points = ContextDistribution.grid(domain).points
    np.testing.assert_allclose(
        shown.chances.reshape(10, 3), learner.policy().probabilities(domain.from_unit(points))
    )


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
    assert "truly best arms, known in simulation only" in caption
    assert "drawn from what they publish, apart from the white line" in caption
    assert ("Heights: the probabilities" in caption) == (other == "partition")
    assert ("maps of the arms alone" in caption) == (other == "partition")
    who = "The learner is" if other == "capri" else "Learners under joint privacy are"
    assert f"{who} trusted with context, action and reward" in text


POINTS = """
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


class Nowhere:
    """Like finite features away from their points."""

    def predict(self, X: Any) -> tuple[FloatArray, FloatArray]:  # noqa: N803
        raise InvalidInput("a point that is not in the set.")


def model_cut(problem: Problem, policy: object = None) -> ModelMap:
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
    made = model_cut(function(columns))
    assert [(places[0], places[-1]) for places in made.places] == [(0.0, 10.0)] * min(columns, 2)
    assert made.possible.all()
    np.testing.assert_allclose(made.best, [[4.0, 5.0][:columns]], atol=0.05)
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
    figure = figure_of(model_cut(function(20)), width=NARROW)
    assert overlapping(figure) == []
    note = figure.axes[0].get_title(loc="left")
    assert note.replace("\n", " ") == ", ".join(f"x{place} = 5" for place in range(3, 21))


def test_a_model_of_a_few_points_has_no_map() -> None:
    problem = function(2)
    (panel,) = cuts(problem.domain, ReportEntry())
    assert model_map(Nowhere(), problem, panel) is None


def test_maps_share_a_scale_within_the_bounds_of_rewards() -> None:
    problem = function(2)
    made = model_cut(problem)
    low, high = replace(made, mean=0.2 + 0.1 * made.mean), replace(made, mean=3.0 * made.mean - 1.0)
    assert scale_of(low.seen, problem) == pytest.approx((0.2, 0.3))
    assert scale_of(np.append(low.seen, high.seen), problem) == (0.0, 1.0)
    assert scale_of(0.0 * made.seen, problem) == (0.0, 1.0)
    ends = [figure_of(shown).axes[1] for shown in (low, high)]
    assert [len(bar.patches) for bar in ends] == [0, 2]  # a pointed end below and above


def test_the_best_points_are_all_that_there_are() -> None:
    camelback = load_problem("camelback")
    np.testing.assert_allclose(
        sorted(model_cut(camelback).best.tolist()), [[-0.09, 0.71], [0.09, -0.71]], atol=0.02
    )
    offered = PublicSet.of([[1.0, 1.0], [9.0, 9.0], [5.0, 5.0]])
    np.testing.assert_array_equal(model_cut(function(2, offered)).best, [[5.0, 5.0]])
    flat = FunctionProblem(lambda points: np.full(len(points), 0.5), camelback.domain, 0.5)
    assert model_cut(flat).best.shape == (0, 2)
    assert model_cut(load_problem("bumps")).best.shape == (0, 2)


@pytest.mark.parametrize("additive", [pytest.param(True, marks=pytest.mark.slow), False])
def test_where_people_are_sent(additive: bool) -> None:
    problem = function(3)
    policy = GPUCB(
        problem.domain, problem.space, NonPrivate(), error=0.1, kernel="RBF(length_scale=8.0)"
    ).policy()
    assert isinstance(policy, PublicPolicy)
    grids: tuple[FloatArray, ...] = (np.array([[5.0], [0.0]]), np.array([[1.0, 2.0], [9.0, 3.0]]))
    probabilities: tuple[FloatArray, ...] = (np.array([0.75, 0.25]), np.array([0.5, 0.5]))
    columns: tuple[tuple[int, ...], ...] = ((1,), (2, 0))
    if not additive:
        grids, columns = (np.array([[1.0, 5.0, 2.0], [1.0, 5.0, 8.0]]),), ((0, 1, 2),)
        probabilities = probabilities[:1]
    groups = tuple(map(OfferedGroup, columns, grids, probabilities))
    marks = model_cut(problem, Guess(replace(policy, groups=groups)))
    found = {tuple(place): share for place, share in zip(marks.sent, marks.shares, strict=True)}
    if additive:  # columns 0 and 1 are drawn apart from each other
        shares = {(2, 5): 0.375, (3, 5): 0.375, (2, 0): 0.125, (3, 0): 0.125}
        assert found == pytest.approx(shares, abs=0.04)
    else:  # the third column plays no part
        assert found == {(1, 5): 1.0}


def test_everyone_is_sent_to_the_choice_of_the_exact_posterior() -> None:
    camelback = load_problem("camelback")
    policy = ExactGPUCB(camelback.domain, camelback.space, NonPrivate()).policy()
    marks = model_cut(camelback, policy)
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
    assert made.places[1][-1] == pytest.approx(300.0, rel=0.02)
    assert made.joined
    kidney, best = made.best.T
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
    assert names == ["given", "truly best", "cannot be given"]

    (panel,) = cuts(dose.domain, ReportEntry(axes=["dose_mg"], at=at))
    one = model_map(policy, dose, panel)
    assert one is not None
    assert (one.joined, one.best.shape, one.sent.shape) == (False, (1, 1), (1, 1))
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
    path.write_text(POINTS.format(problem=problem))
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
