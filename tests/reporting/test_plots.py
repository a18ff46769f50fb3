"""Figures: panels, labels that do not overlap, and every shape of study."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from discreet.experiments import Outcome
from discreet.learners.messages import ArmPolicy
from discreet.problems.base import Metric
from discreet.reporting import captions
from discreet.reporting.end_labels import spread
from discreet.reporting.html import render_report
from discreet.reporting.maps import boxes_of, map_figure, map_panels, named_arms
from discreet.reporting.plots import NARROW, WIDE, epsilon_figure, progress_figure
from discreet.reporting.summary import summarise

from .cases import TABLE, exponential, outcome, run_study, setting, write_table


def texts(figure: Figure) -> set[str]:
    return {text.get_text().replace("\n", " ") for text in figure.axes[0].texts}


def outcomes(metric: Metric, replicates: int = 2) -> list[Outcome]:
    private = [setting("partition", epsilon) for epsilon in (1.0, 2.0, 4.0)]
    free = [setting("partition"), setting("uniform"), setting("oracle")]
    return [
        outcome(ran, 50.0 + 0.01 * place + r, r, metric)
        for place, ran in enumerate([*private, *free])
        for r in range(replicates)
    ]


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("metric", ["reward", "regret"])
@pytest.mark.parametrize("replicates", [1, 3])
def test_every_line_has_its_label_and_none_overlap(
    metric: Metric, replicates: int, width: float
) -> None:
    made = outcomes(metric, replicates)
    summary = summarise(made)
    progress, tradeoff = progress_figure(made, summary, width), epsilon_figure(summary, width)
    assert texts(progress) == {line.label for line in summary.lines}
    references = {line.label for line in summary.references}
    assert texts(tradeoff) == {"partition, private", *references}
    for figure in (progress, tradeoff):
        figure.canvas.draw()
        boxes = [text.get_window_extent() for text in figure.axes[0].texts]
        page = figure.bbox
        for place, box in enumerate(boxes):
            assert page.x0 <= box.x0 < box.x1 <= page.x1
            assert page.y0 <= box.y0 < box.y1 <= page.y1
            assert not any(box.overlaps(other) for other in boxes[place + 1 :])


def test_incomplete_outcomes_and_only_references() -> None:
    some = [a for a in outcomes("reward") if a.record.replicate == 0 or not a.setting.private]
    progress_figure(some, summarise(some))
    references = [a for a in some if not a.setting.private]
    figure = progress_figure(references, summarise(references))
    assert texts(figure) == {"partition (non-private)", "uniform", "oracle"}
    assert len(epsilon_figure(summarise(references)).axes) == 1


@given(
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8).map(sorted),
    st.lists(st.floats(0.01, 0.12), min_size=8, max_size=8),
)
def test_spread_keeps_order_gaps_and_bounds(at: list[float], heights: list[float]) -> None:
    sizes = np.array(heights[: len(at)])
    places = spread(np.array(at), sizes)
    gaps = 0.5 * (sizes[1:] + sizes[:-1])
    assert (np.diff(places) >= gaps - 1e-9).all()
    assert places[0] >= -1e-9
    assert places[-1] <= 1.0 + 1e-9


def test_spread_leaves_distant_labels_alone() -> None:
    at = np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(spread(at, np.full(3, 0.1)), at)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_maps_of_synthetic_studies(tmp_path: Path, dimension: int) -> None:
    study, made = run_study(tmp_path, exponential(dimension), replicates=1)
    panels = map_panels(study.problem.domain, study.report)
    assert len(panels) == 1
    assert panels[0].axes == (0, 1)[:dimension]
    assert panels[0].title == ("x3 = 0.5" if dimension == 3 else "")
    policies = [a.policy for a in made if a.policy is not None]
    assert len(policies) == 4
    for policy in policies:
        figure = map_figure(policy, study.problem, study.report, "title", 4.5)
        assert len(figure.axes) == 1
        names = [text.get_text() for text in figure.legends[0].get_texts()]
        assert names[:3] == ["arm 1", "arm 2", "arm 3"]
        figure.canvas.draw()


def test_boxes_cover_the_cut_and_agree_with_the_policy(tmp_path: Path) -> None:
    study, made = run_study(tmp_path, exponential(3), replicates=1)
    policy = next(a.policy for a in made if a.setting.label == "partition (non-private)")
    assert policy is not None
    (panel,) = map_panels(study.problem.domain, study.report)
    boxes = boxes_of(policy, panel)
    assert (boxes.upper - boxes.lower).prod(axis=1).sum() == pytest.approx(1.0)
    points = np.random.default_rng(1).random((50, 3))
    points[:, 2] = 0.5
    inside = (boxes.lower[None] <= points[:, None, :2]) & (points[:, None, :2] < boxes.upper[None])
    box = inside.all(axis=2).argmax(axis=1)
    np.testing.assert_allclose(boxes.probabilities[box], policy.probabilities(points))


def test_a_column_with_few_levels_gets_a_panel_for_each(tmp_path: Path) -> None:
    write_table(tmp_path)
    study, made = run_study(tmp_path, TABLE, replicates=1)
    panels = map_panels(study.problem.domain, study.report)
    assert [panel.title for panel in panels] == ["sex = f", "sex = m"]
    policy = made[0].policy
    assert policy is not None
    wide = map_figure(policy, study.problem, study.report, "a $ and a $", WIDE)
    narrow = map_figure(policy, study.problem, study.report, "a $ and a $", NARROW)
    for figure, columns in ((wide, 2), (narrow, 1)):
        assert len(figure.axes) == 2
        assert len({axes.get_position().x0 for axes in figure.axes}) == columns
        assert figure.axes[0].get_xlabel() == "age"
        assert figure.axes[0].get_ylabel() == "cost ($) now ($)"
        assert figure.axes[0].get_xlim() == (20.0, 60.0)
        figure.canvas.draw()  # a dollar sign must not start a formula


def test_the_study_chooses_the_cut(tmp_path: Path) -> None:
    write_table(tmp_path)
    report = "[report]\naxes = ['sex', 'age']\nat = {'cost ($) now ($)' = 7}\n"
    study, _ = run_study(tmp_path, TABLE, report=report, replicates=1)
    (panel,) = map_panels(study.problem.domain, study.report)
    assert panel.axes == (2, 0)
    assert panel.title == "cost ($) now ($) = 7"
    assert panel.point[1] == pytest.approx(0.7)
    one = "[report]\naxes = ['age']\nat = {sex = 1}\n"
    study, _ = run_study(tmp_path, TABLE, report=one, replicates=1)
    (panel,) = map_panels(study.problem.domain, study.report)
    assert (panel.axes, panel.title) == ((0,), "cost ($) now ($) = 5, sex = m")


def test_many_arms_have_a_legend_that_fits(tmp_path: Path) -> None:
    study, made = run_study(tmp_path, exponential(2) + "arms = 12\n", replicates=1)
    policy = made[0].policy
    assert policy is not None
    figure = map_figure(policy, study.problem, study.report, "title", NARROW)
    figure.canvas.draw()
    legend, axes = figure.legends[0].get_window_extent(), figure.axes[0].get_window_extent()
    assert len(figure.legends[0].get_texts()) >= 12
    assert legend.x1 <= figure.bbox.x1
    assert legend.y0 >= axes.y1
    # Read row by row.
    at = {text.get_text(): text.get_window_extent() for text in figure.legends[0].get_texts()}
    assert at["arm 1"].y0 == pytest.approx(at["arm 2"].y0)
    assert at["arm 1"].x1 < at["arm 2"].x0


def test_very_many_arms_are_named_in_part(tmp_path: Path) -> None:
    problem = "[problem]\nname = 'kernel_grid'\ncontexts = 6\narms = 20\n"
    learners = "[[learners]]\nname = 'partition'\nnon_private = true\n"
    study, outcomes = run_study(tmp_path, problem, learners, replicates=1)
    named = named_arms(study.problem)
    assert (named[0], named[-1], len(named)) == (0, 19, 7)
    policy = outcomes[0].policy
    assert isinstance(policy, ArmPolicy)
    figure = map_figure(policy, study.problem, study.report, "title", 6.0)
    assert len(figure.legends[0].get_texts()) == 7
    assert "colours in between" in render_report(study, outcomes)
    assert "from 0 to 1" in render_report(study, outcomes)


def test_bands_are_intervals_of_students_t() -> None:
    """Three replicates 50, 51, 52: 1.96 standard errors would cover less than half of it."""
    made = [outcome(setting("partition", 1.0), 50.0 + r, r) for r in range(3)]
    half = 4.30265 / math.sqrt(3.0) / 100.0
    summary = summarise(made)
    (band,) = progress_figure(made, summary).axes[0].collections
    heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
    assert (heights.max(), heights.min()) == pytest.approx((0.51 + half, 0.51 - half))
    assert "95% intervals of the mean over replicates (Student's t)" in captions.progress(summary)
    assert "95% intervals of the mean over replicates (Student's t)" in captions.tradeoff(summary)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_an_oracle_fitted_to_chance_does_not_flatten_the_chart(width: float) -> None:
    values = {"partition": 45.0, "uniform": 33.0, "best_fixed": 35.0, "oracle": 75.0}
    made = [outcome(setting(name), value) for name, value in values.items()]
    made.append(outcome(setting("partition", 1.0), 40.0))
    summary = summarise(made)
    for figure in (progress_figure(made, summary, width), epsilon_figure(summary, width)):
        assert figure.axes[0].get_ylim()[1] < 0.5
        assert "oracle: 0.75, above" in texts(figure)
    assert "The oracle, which is fitted to chance" in captions.progress(summary)


def test_wide_intervals_of_two_replicates_do_not_flatten_the_chart() -> None:
    made = [
        outcome(setting("partition", epsilon), value + 10.0 * r, r)
        for epsilon, value in ((1.0, 40.0), (4.0, 50.0))
        for r in range(2)
    ]
    summary = summarise(made)
    for figure in (progress_figure(made, summary), epsilon_figure(summary)):
        low, high = figure.axes[0].get_ylim()
        assert high - low < 0.25


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_long_labels_and_close_budgets_leave_room(width: float) -> None:
    name = "a_learner_with_a_name_that_goes_on and a label as long as this"
    budgets = (0.5, 1.0, 1.2, 1.5, 2.0, 4.0)
    made = [outcome(setting("partition", budget, name), 50.0 + budget) for budget in budgets]
    summary = summarise(made)
    for figure in (progress_figure(made, summary, width), epsilon_figure(summary, width)):
        figure.canvas.draw()
        axes = figure.axes[0]
        assert axes.get_window_extent().width > 0.4 * figure.bbox.width
        for group in (axes.texts, axes.get_xticklabels()):
            boxes = [text.get_window_extent() for text in group if text.get_text()]
            for place, box in enumerate(boxes):
                assert box.x1 <= figure.bbox.x1
                assert not any(box.overlaps(other) for other in boxes[place + 1 :])


def test_a_title_and_the_highest_label_do_not_collide() -> None:
    made = outcomes("reward")
    figure = progress_figure(made, summarise(made), NARROW)
    figure.canvas.draw()
    axes = figure.axes[0]
    title = axes._left_title.get_window_extent()  # type: ignore[attr-defined]
    assert not any(title.overlaps(text.get_window_extent()) for text in axes.texts)


@pytest.mark.parametrize("width", [4.5, NARROW])
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
    figure = map_figure(policy, study.problem, study.report, title, width)
    figure.canvas.draw()
    texts_drawn = [*figure.texts, *(axes._left_title for axes in figure.axes)]  # type: ignore[attr-defined]
    boxes = [text.get_window_extent() for text in texts_drawn]
    for place, box in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert not any(box.overlaps(other) for other in boxes[place + 1 :])
    caption = captions.maps(study, summarise(made))
    assert (
        "Maps show age. They are drawn at monthly cost of living of the household ($) = 5"
        in caption
    )
    assert "an arbitrary choice, near the middle, as the study file makes none" in caption


def test_a_cut_that_the_study_chose_is_not_called_arbitrary(tmp_path: Path) -> None:
    write_table(tmp_path)
    report = "[report]\naxes = ['sex', 'age']\nat = {'cost ($) now ($)' = 7}\n"
    study, made = run_study(tmp_path, TABLE, report=report, replicates=1)
    caption = captions.maps(study, summarise(made))
    assert "They are drawn at cost ($) now ($) = 7 (as the study file asks)." in caption
    assert "arbitrary" not in caption
    study, made = run_study(tmp_path, TABLE, replicates=1)
    caption = captions.maps(study, summarise(made))
    assert "Maps show age and cost ($) now ($), which come first in the table." in caption
    assert "There is one for each value of sex." in caption


def test_regret_of_choices_that_learn_nothing_leaves_the_chart() -> None:
    values = {"uniform": 4146.0, "best_fixed": 3830.0, "partition": 223.0}
    made = [outcome(setting(name), value, metric="regret") for name, value in values.items()]
    made.append(outcome(setting("partition", 1.0), 1110.0, metric="regret"))
    summary = summarise(made)
    figure = epsilon_figure(summary)
    assert figure.axes[0].get_ylim()[1] < 1500.0
    assert {"uniform: 4,146, above", "best_fixed: 3,830, above"} <= texts(figure)
    assert "Uniform choice and the best single choice lie above the chart" in captions.progress(
        summary
    )
