"""The figures of a study: every line is named, nothing overlaps, and what is compared is seen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from matplotlib.figure import Figure

from discreet.lab.environments.base import Metric
from discreet.lab.experiments import Outcome
from discreet.lab.reporting.layout import NARROW, WIDE
from discreet.lab.reporting.report import epsilon_figure, outside, progress_figure
from discreet.lab.reporting.summary import summarise

from .cases import outcome, overlapping, setting


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


@pytest.mark.parametrize(("metric", "width"), [("reward", WIDE), ("regret", NARROW)])
@pytest.mark.parametrize("replicates", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_every_line_has_its_label_and_none_overlap(
    metric: Metric, replicates: int, width: float
) -> None:
    made = outcomes(metric, replicates)
    summary = summarise(made)
    progress, tradeoff = progress_figure(made, summary, width), epsilon_figure(summary, width)
    assert texts(progress) == {line.label for line in summary.lines}
    references = {line.label for line in summary.references}
    assert texts(tradeoff) == {"partition, private", *references}
    assert overlapping(progress) == overlapping(tradeoff) == []


def test_incomplete_outcomes_and_only_references() -> None:
    some = [a for a in outcomes("reward") if a.record.replicate == 0 or not a.setting.private]
    progress_figure(some, summarise(some))
    references = [a for a in some if not a.setting.private]
    figure = progress_figure(references, summarise(references))
    assert texts(figure) == {"partition (non-private)", "uniform", "oracle"}
    assert len(epsilon_figure(summarise(references)).axes) == 1


def test_bands_are_intervals_of_students_t() -> None:
    """Three replicates 50, 51, 52: 1.96 standard errors would cover less than half of it."""
    made = [outcome(setting("partition", 1.0), 50.0 + r, r) for r in range(3)]
    half = 4.30265 / math.sqrt(3.0) / 100.0
    summary = summarise(made)
    band = progress_figure(made, summary).axes[0].collections[0]
    heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
    assert (heights.max(), heights.min()) == pytest.approx((0.51 + half, 0.51 - half))


def test_an_oracle_fitted_to_chance_does_not_flatten_the_chart() -> None:
    values = {"partition": 45.0, "uniform": 33.0, "best_fixed": 35.0, "oracle": 75.0}
    made = [outcome(setting(name), value) for name, value in values.items()]
    made.append(outcome(setting("partition", 1.0), 40.0))
    summary = summarise(made)
    for figure in (progress_figure(made, summary), epsilon_figure(summary)):
        assert figure.axes[0].get_ylim()[1] < 0.5
        assert "oracle: 0.75, above" in texts(figure)
    assert [line.learner for line in outside(summary)] == ["oracle"]


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


@pytest.mark.parametrize("width", [pytest.param(WIDE, marks=pytest.mark.slow), NARROW])
def test_long_labels_and_close_budgets_leave_room(width: float) -> None:
    name = "a_learner_with_a_name_that_goes_on and a label as long as this"
    budgets = (0.5, 1.0, 1.05, 1.2, 1.5, 2.0, 4.0)
    made = [outcome(setting("partition", budget, name), 50.0 + budget) for budget in budgets]
    summary = summarise(made)
    for figure in (progress_figure(made, summary, width), epsilon_figure(summary, width)):
        assert overlapping(figure) == []
        axes = figure.axes[0]
        assert axes.get_window_extent().width > 0.4 * figure.bbox.width
        named = [label for label in axes.get_xticklabels() if label.get_text()]
        assert len(named) >= 3


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
    values = {"uniform": 4146.0, "best_fixed": 3830.0, "partition": 223.0}
    made = [outcome(setting(name), value, metric="regret") for name, value in values.items()]
    made.append(outcome(setting("partition", 1.0), 1110.0, metric="regret"))
    figure = epsilon_figure(summarise(made))
    assert figure.axes[0].get_ylim()[1] < 1500.0
    assert {"uniform: 4,146, above", "best_fixed: 3,830, above"} <= texts(figure)
