"""Maps of policies: cuts, arms, and models."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from discreet.lab.environments import synthetic
from discreet.lab.environments.base import People, Problem
from discreet.lab.environments.catalog import load_problem
from discreet.lab.environments.functions import FunctionProblem
from discreet.lab.experiments import simulate_all
from discreet.lab.reporting.layout import NARROW, WIDE, sheet
from discreet.lab.reporting.maps import (
    ArmMap,
    Cut,
    ModelMap,
    PolicyMaps,
    cuts,
    draw_column,
    map_of,
    maps_of,
    merged_maps,
    merged_policies,
    scale_of,
)
from discreet.lab.reporting.report import render_report
from discreet.lab.reporting.summary import summarise
from discreet.lab.studies import ReportEntry, Study, load_study
from discreet.learners.epochs.capri import Capri
from discreet.learners.epochs.features import ContextDistribution
from discreet.learners.gp_ucb.learner import GPUCB
from discreet.learners.gp_ucb.public.policy import OfferedGroup, PublicPolicy
from discreet.learners.policy import ArmPolicy
from discreet.learners.references.uniform import Uniform
from discreet.papers.dubey2021.learners.exact_gp_ucb import ExactGPUCB
from discreet.people.domain import Box, PublicSet
from discreet.privacy import NonPrivate
from discreet.validation import FloatArray, InvalidInput

from .cases import TABLE, exponential, overlapping, run_study, words_of, write_table


def drawn(policy: Any, study: Study, title: str, width: float) -> Figure:
    """The maps of one policy."""
    panels = cuts(study.problem.domain, study.report)
    maps = [map_of(policy, study.problem, panel) for panel in panels]
    return PolicyMaps(title, tuple(each for each in maps if each), (0.0, 1.0)).figure(width)


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
    shown = map_of(policy, study.problem, panel)
    assert isinstance(shown, ArmMap)
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


def test_maps_that_look_the_same_are_drawn_once(tmp_path: Path) -> None:
    write_table(tmp_path)
    study, made = run_study(tmp_path, TABLE, replicates=1)
    summary = summarise(made, study.settings)
    private = [each for each in made if each.setting.private]
    drawn = maps_of(study, private, summary)
    cut = cuts(study.problem.domain, study.report)
    shown = [map_of(private[0].policy, study.problem, each) for each in cut]
    first, second = (each for each in shown if each is not None)
    assert isinstance(first, ArmMap)
    [one] = merged_maps([first, replace(first, cut=second.cut)])
    assert one.cut.title == "sex = f; sex = m"
    assert len(merged_maps([first, replace(first, chances=1.0 - first.chances)])) == 2
    [both] = merged_policies([drawn[0], replace(drawn[0], label="mine")])
    assert both.label == "partition, epsilon 1; mine"
    assert len(merged_policies(drawn)) == 2


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


def test_indicators_follow_on_maps_unless_the_study_names_them() -> None:
    spent = {"lower": 0, "upper": 4, "levels": 5, "indicators": [0], "missing": "unknown"}
    domain = Box.of({"spent": spent, "age": (20, 60), "sex": ["f", "m"]})
    steps = [np.linspace(0.0, 1.0, 5), np.array([0.5])]
    panels = cuts(domain, ReportEntry())
    assert [panel.title for panel in panels] == ["sex = f", "sex = m"]
    for panel in panels:
        assert panel.axes == (0, 3)
        unit = domain.to_unit(domain.from_unit(panel.points(steps)))
        assert unit[:, 1].tolist() == [0.0] * 5
        assert unit[:, 2].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    (panel,) = cuts(domain, ReportEntry(axes=("age",), at={"spent = 0": 1.0, "sex": 0.0}))
    assert panel.title == "spent = 2, spent = 0 = yes, sex = f"
    assert panel.point[2] == 1.0
    panels = cuts(domain, ReportEntry(axes=("age",)))
    titles = [f"spent = {spent}, sex = {sex}" for spent in (2, 0) for sex in "fm"]
    assert [panel.title for panel in panels] == titles
    panels = cuts(domain, ReportEntry(axes=("age", "sex")))
    assert [panel.title for panel in panels] == ["spent = 2", "spent = 0"]
    held = [domain.to_unit(domain.from_unit(panel.point[None]))[0, :3] for panel in panels]
    np.testing.assert_array_equal(held, [[0.5, 0, 0], [0, 0, 1]])


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
    assert words.count("Other columns stand where the titles say") == 1


def test_large_numbers_are_easy_to_read_where_other_columns_stand() -> None:
    domain = Box.of({"age": (18, 90), "region": ["a", "b"], "income": (0, 3_000_000)})
    (panel,) = cuts(domain, ReportEntry(axes=["age", "region"]))
    assert panel.title == "income = 1,500,000"


class Clinic(Problem):
    """Three arms for people of three columns; nothing is known of what is best."""

    source = "a test"
    arm_names = ("high", "low", "middle")
    domain = Box((0.0, 0.0, 0.0), (1.0, 10.0, 1.0), ("sex", "age", "smoker"), (2, None, 2))

    def sample(self, people: int, rng: np.random.Generator) -> People:
        raise NotImplementedError


def test_a_legend_of_many_arms_names_those_that_cover_most_of_the_map() -> None:
    class Films(Clinic):
        arm_names = tuple(f"film {k}" for k in range(20))

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
    learner = Capri(domain, 3, NonPrivate(), horizon=100, error=0.1)
    assert learner.features.contexts.exact
    (panel,) = cuts(domain, ReportEntry(axes=["a", "b"]))

    class Levels(Clinic):
        domain = Box((0.0, 0.0), (4.0, 1.0), ("a", "b"), (5, 2))

    shown = map_of(learner.policy(), Levels(), panel)
    assert isinstance(shown, ArmMap)
    assert [places.tolist() for places in shown.places] == [[0, 1, 2, 3, 4], [0, 1]]
    points = ContextDistribution.grid(domain).points
    np.testing.assert_allclose(
        shown.chances.reshape(10, 3), learner.policy().probabilities(domain.from_unit(points))
    )


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


def model_cut(problem: Problem, policy: object = None, **report: Any) -> ModelMap:
    (panel,) = cuts(problem.domain, ReportEntry(**report))
    made = map_of(policy or Known(), problem, panel)
    assert isinstance(made, ModelMap)
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


@pytest.mark.parametrize(("columns", "width"), [(1, NARROW), (2, NARROW), (3, 4.5), (3, NARROW)])
def test_maps_of_one_two_and_more_columns(columns: int, width: float) -> None:
    made = model_cut(function(columns))
    assert [(places[0], places[-1]) for places in made.places] == [(0.0, 10.0)] * min(columns, 2)
    figure = figure_of(made, width=width)
    assert overlapping(figure) == []
    assert len(figure.axes) == (1 if columns == 1 else 2)
    assert figure.axes[0].get_title(loc="left") == ("x3 = 5" if columns == 3 else "")
    assert figure.get_suptitle() == "a map"


def test_where_many_other_columns_stand_is_said_in_full() -> None:
    figure = figure_of(model_cut(function(20)), width=NARROW)
    assert overlapping(figure) == []
    note = figure.axes[0].get_title(loc="left")
    assert note.replace("\n", " ") == ", ".join(f"x{place} = 5" for place in range(3, 21))


def test_cells_at_a_number_have_its_indicator(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = synthetic.exponential(dimension=1)
    problem.domain = Box.of({"x": {"lower": 0, "upper": 4, "levels": 5, "indicators": [0]}})
    policy = Uniform(problem.domain, problem.space, NonPrivate()).policy()
    shown = []

    def chances(self: ArmPolicy, unit: FloatArray) -> FloatArray:
        shown.append(unit)
        return np.full((len(unit), problem.arms), 1.0 / problem.arms)

    monkeypatch.setattr(ArmPolicy, "chances", chances)
    map_of(policy, problem, *cuts(problem.domain, ReportEntry()))
    assert shown[0].tolist() == [[0, 1], [0.25, 0], [0.5, 0], [0.75, 0], [1, 0]]


def test_what_predicts_nothing_has_no_map() -> None:
    problem = function(2)
    (panel,) = cuts(problem.domain, ReportEntry())
    assert map_of(Nowhere(), problem, panel) is None
    assert (
        map_of(Uniform(problem.domain, problem.space, NonPrivate()).policy(), problem, panel)
        is None
    )


def test_maps_share_a_scale_within_the_bounds_of_rewards() -> None:
    problem = function(2)
    made = model_cut(problem)
    low, high = replace(made, mean=0.2 + 0.1 * made.mean), replace(made, mean=3.0 * made.mean - 1.0)
    assert scale_of(low.seen, problem) == pytest.approx((0.2, 0.3))
    assert scale_of(np.append(low.seen, high.seen), problem) == (0.0, 1.0)
    assert scale_of(0.0 * made.seen, problem) == (0.0, 1.0)
    ends = [figure_of(shown).axes[1] for shown in (low, high)]
    assert [len(bar.patches) for bar in ends] == [0, 2]  # a pointed end below and above


@pytest.mark.parametrize("additive", [pytest.param(True, marks=pytest.mark.slow), False])
def test_where_people_are_sent(additive: bool) -> None:
    problem = function(3)
    policy = GPUCB(
        problem.domain, problem.space, NonPrivate(), error=0.3, kernel="RBF(length_scale=8.0)"
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


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize(
    ("problem", "offered"),
    [
        ("bumps", "up to 25 points of their own"),
        pytest.param("camelback", "any point of a box", marks=pytest.mark.slow),
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
    assert not re.search(r"\barms?\b", re.sub(r"(?s)<style>.*?</style>|base64,[^\"]*", "", text))
