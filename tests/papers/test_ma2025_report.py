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
    return FIGURE_6.plan(trials, rounds=[250], auxiliary=[100]).results()


@cache
def drawn(trials: int = 2) -> Figure:
    figure = average_figure(FIGURE_6, results(trials))
    figure.canvas.draw()
    return figure


def titled(figure: Figure, text: str) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_title("left") == text]


def test_a_column_of_panels_for_each_method() -> None:
    figure = drawn()
    for method in ("ours", "published"):
        assert len(titled(figure, f"{method}: regret per person so far, over all people")) == 1
    assert len(titled(figure, "regret per person so far, at (1/3, 1/3)")) == 2
    for kind in KINDS:
        assert len(titled(figure, f"{kind}: arms at (1/3, 1/3)")) == 2
    assert len(figure.axes) == 2 * (2 + 3)


def test_the_areas_are_the_shares_in_the_colours_of_the_arms() -> None:
    figure, curves = drawn(), results().curves
    ours = curves[(curves["method"] == "ours") & curves["metric"].str.startswith("share_of_arm")]
    for kind in KINDS:
        areas = [
            area
            for area in titled(figure, f"{kind}: arms at (1/3, 1/3)")[0].collections
            if isinstance(area, PolyCollection)
        ]
        assert [to_hex(np.asarray(area.get_facecolor())[0]).upper() for area in areas] == list(
            arm_colors(3)
        )
        own = ours[ours["label"] == kind].pivot(index="at", columns="metric", values="mean")
        tops = [np.asarray(area.get_paths()[0].vertices)[:, 1].max() for area in areas]
        np.testing.assert_allclose(tops, np.cumsum(own.to_numpy(), axis=1).max(axis=0))


def test_the_legend_names_the_best_arm() -> None:
    (legend,) = drawn().legends
    assert {text.get_text() for text in legend.get_texts()} == {
        "arm 1, the best at (1/3, 1/3)",
        "arm 2",
        "arm 3",
        "an arm is given up there: it is not offered again",
    }


def test_arms_that_are_given_up_are_marked() -> None:
    figure, trials, ends = drawn(), results().trials, results().ends
    given_up = trials.dropna(subset="given_up")
    assert len(given_up) > 0
    for kind in KINDS:
        mine = ends[(ends["label"] == kind) & (ends["method"] == "published")]["case"].iloc[0]
        places = given_up[given_up["case"] == mine]["given_up"].nunique()
        assert len(titled(figure, f"{kind}: arms at (1/3, 1/3)")[1].lines) == places


@pytest.mark.parametrize("trials", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_nothing_overlaps_or_leaves_the_page(trials: int) -> None:
    assert overlapping(drawn(trials)) == []


def test_one_method_and_unfinished_lines_are_drawn() -> None:
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
