"""The figure of running averages: three rows, and what is written where."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from discreet.lab.reporting.layout import arm_colors
from discreet.papers.ma2025.figures import FIGURE_6
from discreet.papers.ma2025.report import average_figure, place_name
from discreet.papers.reproduction import PaperResults
from tests.lab.reporting.cases import overlapping

KINDS = ["no auxiliary data", "weak", "effective"]


@cache
def results(trials: int = 2) -> PaperResults:
    return FIGURE_6.plan(trials, rounds=[60], auxiliary=[30]).results()


@cache
def drawn(trials: int = 2) -> Figure:
    figure = average_figure(FIGURE_6, results(trials))
    figure.canvas.draw()
    return figure


def titled(figure: Figure, text: str) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_title("left") == text]


def test_a_column_of_panels_for_each_method_with_areas_legend_and_marks() -> None:
    figure, curves = drawn(), results().curves
    for method in ("ours", "published"):
        assert len(titled(figure, f"{method}: regret per person so far, over all people")) == 1
    assert len(titled(figure, "regret per person so far, at (1/3, 1/3)")) == 2
    assert len(figure.axes) == 2 * (2 + 3)
    assert overlapping(figure) == []

    ours = curves[(curves["method"] == "ours") & curves["metric"].str.startswith("share_of_arm")]
    ends, given_up = results().ends, results().trials.dropna(subset="given_up")
    assert len(given_up) > 0
    for kind in KINDS:
        first, second = titled(figure, f"{kind}: arms at (1/3, 1/3)")
        areas = [area for area in first.collections if isinstance(area, PolyCollection)]
        assert [to_hex(np.asarray(area.get_facecolor())[0]).upper() for area in areas] == list(
            arm_colors(3)
        )
        own = ours[ours["label"] == kind].pivot(index="at", columns="metric", values="mean")
        tops = [np.asarray(area.get_paths()[0].vertices)[:, 1].max() for area in areas]
        np.testing.assert_allclose(tops, np.cumsum(own.to_numpy(), axis=1).max(axis=0))
        mine = ends[(ends["label"] == kind) & (ends["method"] == "published")]["case"].iloc[0]
        assert len(second.lines) == given_up[given_up["case"] == mine]["given_up"].nunique()

    (legend,) = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == {
        "arm 1, the best at (1/3, 1/3)",
        "arm 2",
        "arm 3",
        "an arm is given up there: it is not offered again",
    }
    one_method_and_unfinished_lines_are_drawn()


@pytest.mark.slow
def test_nothing_overlaps_in_a_single_trial() -> None:
    assert overlapping(drawn(1)) == []


def one_method_and_unfinished_lines_are_drawn() -> None:
    everything = results()

    def of(method: str, cases: int = 9) -> Figure:
        curves = everything.curves
        mine = curves[curves["method"] == method]
        few = mine[mine["case"].isin(mine["case"].unique()[:cases])]
        return average_figure(FIGURE_6, replace(everything, curves=few))

    assert len(of("ours").axes) == 2 + 3
    assert len(of("ours", 1).axes) == 2 + 1
    assert len(of("uniform").axes) == 2


def test_places_have_names() -> None:
    assert place_name((1 / 3, 0.5)) == "(1/3, 1/2)"
    assert place_name((0.137, 1.0)) == "(0.137, 1)"
