"""The figure of running averages: three rows, and what is written where."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from discreet.reporting.arm_shares import place_name
from discreet.reporting.averages import average_figure
from discreet.reporting.palette import arm_colors
from discreet.reproduction.cases import Line
from discreet.reproduction.ma2025.experiments import FIGURE_6

KINDS = ["no auxiliary data", "weak", "effective"]


@cache
def lines(trials: int = 1) -> tuple[Line, ...]:
    wish = {"rounds": [400], "auxiliary": [200]}
    return tuple(FIGURE_6.lines(FIGURE_6.plan(wish), trials))


def drawn(trials: int = 1) -> Figure:
    figure = average_figure(lines(trials))
    figure.canvas.draw()
    return figure


def titled(figure: Figure, text: str) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_title("left") == text]


def test_three_rows_for_each_method() -> None:
    figure = drawn()
    for method in ("ours", "published"):
        assert len(titled(figure, f"{method}: regret per person so far, over all people")) == 1
    assert len(titled(figure, "regret per person so far, at (1/3, 1/3)")) == 2
    for kind in KINDS:
        assert len(titled(figure, kind)) == 2
    assert len(figure.axes) == 2 * (2 + 3)


def test_the_areas_are_the_shares_in_the_colours_of_the_arms() -> None:
    figure = drawn()
    by_kind = {line.case.label: line for line in lines() if line.case.method == "ours"}
    for kind in KINDS:
        areas = [
            area for area in titled(figure, kind)[0].collections if isinstance(area, PolyCollection)
        ]
        assert [to_hex(np.asarray(area.get_facecolor())[0]).upper() for area in areas] == list(
            arm_colors(3)
        )
        shares = by_kind[kind].local[0].shares
        tops = [np.asarray(area.get_paths()[0].vertices)[:, 1].max() for area in areas]
        np.testing.assert_allclose(tops, np.cumsum(shares, axis=1).max(axis=0))


def test_the_legend_names_the_best_arm() -> None:
    (legend,) = drawn().legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "arm 1, the best at (1/3, 1/3)",
        "arm 2",
        "arm 3",
        "an arm is given up there: it is not offered again",
    ]


def test_arms_that_are_given_up_are_marked() -> None:
    figure = drawn(2)
    mine = [line for line in lines(2) if line.case.method == "published"]
    for line in mine:
        if line.case.label in KINDS:
            marks = titled(figure, line.case.label)[1].lines
            wanted = sum(len(set(trace.given_up.values())) for trace in line.local)
            assert len(marks) == wanted
    assert sum(len(trace.given_up) for line in mine for trace in line.local) > 0


@pytest.mark.parametrize("trials", [1, 2])
def test_nothing_overlaps_or_leaves_the_page(trials: int) -> None:
    figure = drawn(trials)
    page = figure.bbox
    for axes in figure.axes:
        labels = [text.get_window_extent() for text in axes.texts]
        ticks = [one.get_window_extent() for one in axes.get_xticklabels() if one.get_text()]
        for boxes in (labels, ticks):
            for place, box in enumerate(boxes):
                assert page.x0 <= box.x0 < box.x1 <= page.x1
                assert not any(box.overlaps(other) for other in boxes[place + 1 :])
    boxes = [axes.get_window_extent() for axes in figure.axes]
    boxes += [legend.get_window_extent() for legend in figure.legends]
    for place, box in enumerate(boxes):
        assert page.y0 <= box.y0 < box.y1 <= page.y1
        assert not any(box.overlaps(other) for other in boxes[place + 1 :])


def test_one_method_and_unfinished_lines_are_drawn() -> None:
    ours = [line for line in lines() if line.case.method == "ours"]
    assert len(average_figure(ours).axes) == 2 + 3
    assert len(average_figure(ours[:1]).axes) == 2 + 1
    uniform = [line for line in lines() if line.case.method == "uniform"]
    assert len(average_figure(uniform).axes) == 2


def test_places_have_names() -> None:
    assert place_name((1 / 3, 0.5)) == "(1/3, 1/2)"
    assert place_name((0.137, 1.0)) == "(0.137, 1)"
