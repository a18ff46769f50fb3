"""Figures of one search: answers by question, and released rows with what is expected there.

`answers_figure` has a panel for the answers and, with a known optimum, one for the simple regret.
`rows_figure` is a map over two released numbers, or a curve where the release has but one. Rows
stand where they are believed to be, in the units of their columns; many rows are gathered in cells,
which have the mean of theirs. Sizes are in inches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis as MatplotlibAxis
from matplotlib.axis import XAxis
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from discreet.lab.reporting.figures import EVEN_IN_LIGHTNESS, Axis, heat, number_axis, ruler
from discreet.lab.reporting.layout import (
    BLUE,
    BODY,
    INK,
    SMALL,
    VERMILLION,
    entitle,
    finish,
    legend_above,
    name_ends,
    sheet,
    shortened,
    text_inches,
)
from discreet.lab.reporting.numbers import number_text
from discreet.lab.reporting.search_view import SearchView, values_at
from discreet.outsourcing.mechanisms import Status
from discreet.validation import FloatArray

# Up to this many rows are dots, or marks along a curve; more are gathered in cells.
MOST_DOTS, MOST_TICKS = 5000, 300
_MANY = 200  # more marks than this are drawn as pixels
_ROOMY = 6.0  # from this width on there is room for more ticks and words
_INSIDE = 0.87  # of the width of a figure, for its axes, about
_CELL, _STEP = 0.045, 0.04  # sides of cells of a map, and along a curve
_RUG = 0.14  # height of the marks of rows under a curve
_GREY, _ROW, _BAND, _BLANK = "#8A8A8A", "#B4B4BA", "#F1F1F3", "#F6F6F8"
_STAR: dict[str, Any] = {"marker": "*", "c": "white", "edgecolors": INK}
_RING = {"marker": "o", "facecolors": "none", "edgecolors": VERMILLION}
# What the marks of questions look like and mean.
_MARKS: dict[Status, tuple[dict[str, Any], str]] = {
    "answered": ({"marker": "o", "facecolors": VERMILLION, "edgecolors": "white"}, "answered"),
    "waiting": (
        {"marker": "o", "facecolors": "white", "edgecolors": VERMILLION},
        "waits for an answer",
    ),
    "impossible": (
        {"marker": "X", "facecolors": INK, "edgecolors": "white"},
        "cannot be measured",
    ),
}


def answers_figure(view: SearchView, width: float) -> Figure:
    """Answers by question and, with a known optimum, the regret of the best so far.

    Args:
        view: a search with at least one answer.
        width: of the figure.
    """
    regret = view.optimum is not None
    figure, grid = sheet(1 + regret, width=width, heights=(2.6, 1.3)[: 1 + regret])
    last = int(view.asked["number"][view.asked["status"] != "waiting"].max())
    for axes in grid.flat:
        axes.set_xlim(0.5, last + 0.5)
        if view.warm_up:
            axes.axvspan(0.5, view.warm_up + 0.5, color=_BAND, linewidth=0, zorder=0)
        number_axis(axes.xaxis, Axis(whole=True, most=8 if width > _ROOMY else 4))
    _draw_answers(grid[0, 0], view, last)
    if regret:
        grid[0, 0].tick_params(axis="x", labelbottom=False)
        _draw_regret(grid[1, 0], view, last, width > _ROOMY)
    grid[-1, 0].set_xlabel("question", fontsize=BODY, color=INK)
    return finish(figure, 2.6)


def _draw_answers(axes: Axes, view: SearchView, last: int) -> None:
    """A dot for each answer, a step line for the best so far, crosses for what cannot be."""
    many, noise = len(view.answers) > _MANY, view.answer_noise
    seen = np.concatenate([view.answers - noise, view.answers + noise])
    low, high = roomy(seen if view.optimum is None else np.append(seen, view.optimum), 0.07)
    number_axis(axes.yaxis, Axis(limits=(low, high)))
    style: dict[str, Any] = {"fmt": "none", "ecolor": "#C9C9CE", "elinewidth": 0.9}
    if noise:
        axes.errorbar(view.questions, view.answers, yerr=noise, rasterized=many, **style)
    dots: dict[str, Any] = {"s": 16, "c": _GREY, "linewidths": 0, "zorder": 3}
    axes.scatter(view.questions, view.answers, rasterized=many, **dots)
    _draw_steps(axes, view, view.so_far, last, BLUE)
    best, place = float(view.so_far[-1]), view.best_place
    star = view.questions[place], view.answers[place]
    axes.scatter(*star, s=110, linewidths=0.9, zorder=5, **_STAR)
    ends = [(f"best so far\n{number_text(best)}", best, BLUE)]
    if view.optimum is not None:
        axes.axhline(view.optimum, color="#3A3A3A", linestyle=(0, (5, 2)), linewidth=1.2)
        ends.append((f"optimum\n{number_text(view.optimum)}", view.optimum, "#3A3A3A"))
    failed = view.that("impossible")["number"]
    bottom = np.full(len(failed), low + 0.02 * (high - low))
    cross: dict[str, Any] = {"marker": "x", "s": 22, "c": VERMILLION, "linewidths": 1.2}
    axes.scatter(failed, bottom, zorder=3, clip_on=False, rasterized=len(failed) > _MANY, **cross)
    best_word = "lowest" if view.minimize else "highest"
    entitle(axes, f"answers and the {best_word} so far")
    name_ends(axes, ends)


def _draw_regret(axes: Axes, view: SearchView, last: int, wide: bool) -> None:
    regret = view.regret(view.so_far)
    low, high = float(min(regret.min(), 0.0)), float(max(regret.max(), 0.0))
    high = low + 1.0 if high == low else high
    limits = low - 0.04 * (high - low), high + 0.06 * (high - low)
    number_axis(axes.yaxis, Axis(limits=limits, most=3))
    _draw_steps(axes, view, regret, last, VERMILLION)
    meaning = ": how far the best so far is from the optimum" if wide else ""
    entitle(axes, f"simple regret{meaning}")
    left = float(regret[-1])
    name_ends(axes, [(f"regret\n{number_text(left, 4)}", left, VERMILLION)])


def _draw_steps(axes: Axes, view: SearchView, values: FloatArray, last: int, color: str) -> None:
    """A line that goes on to the right border."""
    at, steps = np.append(view.questions, last + 0.5), np.append(values, values[-1])
    axes.plot(at, steps, drawstyle="steps-post", color=color, linewidth=1.9, zorder=4)


def rows_figure(view: SearchView, width: float) -> Figure:
    """The map of a release with at least two columns, the curve of one with one."""
    return _curve_figure(view, width) if len(view.columns) == 1 else _plane_figure(view, width)


@dataclass(frozen=True, eq=False)
class RowAxis:
    """An axis of a figure of rows: one released number, in the units of its column.

    Attributes:
        name: what is written at the axis.
        values: (n,) in the units of the column.
        log: whether the axis is logarithmic.
        labels: of a column of labels; they stand at 0, 1, ...
    """

    name: str
    values: FloatArray
    log: bool = False
    labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, view: SearchView, place: int) -> RowAxis:
        """The axis of the released number `place`."""
        coordinates = view.search.beliefs.mean[:, place]
        column = view.columns[place]
        if column is None:
            name = f"{view.certificate.names[place]} (units of distance)"
            return cls(name, np.array(coordinates))
        name = f"{column.name} (logarithmic)" if column.log else column.name
        return cls(name, values_at(column, coordinates), column.log, column.column.values)

    @cached_property
    def limits(self) -> tuple[float, float]:
        """The ends of the axis: all rows, or all labels, and some room."""
        if self.log:
            low, high = np.exp(roomy(np.log(self.values), 0.03))
            return float(low), float(high)
        return roomy(np.array([0.0, len(self.labels) - 1.0]) if self.labels else self.values, 0.03)

    def edges(self, cells: int) -> FloatArray:
        """(cells + 1,) borders of equally wide cells between the limits."""
        space = np.geomspace if self.log else np.linspace
        return np.asarray(space(*self.limits, cells + 1), dtype=np.float64)

    def draw(self, axis: MatplotlibAxis, length: float) -> None:
        """Limits, scale, ticks and name of an axis that is about `length` inches long."""
        what = Axis("", self.log, self.limits, most=max(3, min(7, int(length / 0.7))))
        if self.labels:
            # Every label, or every second, third, ... where they are too long.
            texts = [shortened(label, 1.0) for label in self.labels]
            beside = isinstance(axis, XAxis)
            sizes = [text_inches(text) if beside else SMALL / 72.0 for text in texts]
            room = length / max(len(texts) - 1, 1)
            shown = range(0, len(texts), max(1, int(np.ceil((max(sizes) + 0.12) / room))))
            what = replace(what, ticks=shown, names=[texts[place] for place in shown])
        number_axis(axis, what)
        axis.set_label_text(self.name, fontsize=SMALL, color=INK)


def _plane_figure(view: SearchView, width: float) -> Figure:
    across, up = (RowAxis.of(view, place) for place in view.shown_columns)
    size = _INSIDE * width, min(0.6 * width, 4.3)
    figure, [[axes]] = sheet(width=width)
    across.draw(axes.xaxis, size[0])
    up.draw(axes.yaxis, size[1])
    axes.set_facecolor(_BLANK)
    axes.grid(False)
    axes.tick_params(length=2.5)
    axes.spines[:].set_visible(False)
    scale = None
    if view.knows:
        # Expectations that are alike have nearly one colour.
        room = 0.5 * view.least_difference if view.alike else 0.0
        low, high = view.expected_range
        scale = low - room, high + room
    cells = len(across.values) > MOST_DOTS
    colors = (_draw_cells if cells else _draw_dots)(axes, view, (across, up), size, scale)
    _draw_marks(axes, view, across.values, up.values, rings=not view.not_asked.any())
    if scale is not None:
        ruler(figure, colors, [axes], "expected outcome")
    return finish(figure, size[1])


def _draw_dots(
    axes: Axes,
    view: SearchView,
    sides: tuple[RowAxis, RowAxis],
    size: tuple[float, float],
    scale: tuple[float, float] | None,
) -> Any:
    """A dot for each row that is mapped, as large as there is room on axes of this size."""
    kept = view.mapped
    count = int(kept.sum())
    style: dict[str, Any] = {"c": _ROW}
    if scale is not None:
        norm = Normalize(*scale)
        style = {"c": view.predicted[0][kept], "cmap": EVEN_IN_LIGHTNESS, "norm": norm}
    return axes.scatter(
        sides[0].values[kept],
        sides[1].values[kept],
        s=float(np.clip(0.12 * size[0] * size[1] * 72.0**2 / count, 2.5, 30.0)),
        linewidths=0,
        zorder=2,
        rasterized=count > _MANY,
        **style,
    )


def _draw_cells(
    axes: Axes,
    view: SearchView,
    sides: tuple[RowAxis, RowAxis],
    size: tuple[float, float],
    scale: tuple[float, float] | None,
) -> Any:
    """Cells with the mean expectation of their rows; without one, with how many rows they have."""
    (x, y), (width, height) = sides, size
    across, up = x.edges(max(8, round(width / _CELL))), y.edges(max(8, round(height / _CELL)))
    counts, _, _ = np.histogram2d(x.values, y.values, bins=(across, up))
    counts[counts == 0.0] = np.nan
    if scale is None:
        filled = np.log1p(counts)
        return heat(axes, across, up, filled, (0.0, float(np.nanmax(filled))), "Greys")
    sums, _, _ = np.histogram2d(x.values, y.values, (across, up), weights=view.predicted[0])
    return heat(axes, across, up, sums / counts, scale)


def _curve_figure(view: SearchView, width: float) -> Figure:
    """The outcome that is expected along one released number, as a curve with a band."""
    across = RowAxis.of(view, 0)
    inside = _INSIDE * width
    tall = min(0.62 * inside, 2.8) if len(view.answers) else 0.45
    cells = max(8, round(inside / _STEP))
    figure, [[axes]] = sheet(width=width)
    across.draw(axes.xaxis, inside)
    label = "outcome" if view.knows else "answer"
    axes.set_ylabel(label, fontsize=SMALL, color=INK)
    axes.yaxis.set_visible(len(view.answers) > 0)
    seen = [view.answers]
    if view.knows:
        at, mean, deviation = _along(view, across, cells)
        axes.fill_between(at, mean - deviation, mean + deviation, color=BLUE, alpha=0.18, lw=0)
        axes.plot(at, mean, color=BLUE, linewidth=1.8)
        seen += [mean - deviation, mean + deviation]
    values = np.concatenate(seen)
    low, high = roomy(values if len(values) else np.array([0.0, 1.0]), 0.08)
    low -= 0.1 * (high - low)
    number_axis(axes.yaxis, Axis(limits=(low, high)))
    # Where rows are, along the bottom: a mark for each, or shades of grey where there are many.
    bottom = low + _RUG / tall * (high - low)
    if len(across.values) <= MOST_TICKS:
        axes.vlines(across.values, low, bottom, color=INK, linewidth=0.7, alpha=0.5)
    else:
        counts, edges = np.histogram(across.values, across.edges(cells))
        shades = np.sqrt(counts)[None, :]
        axes.pcolormesh(edges, (low, bottom), shades, cmap="Greys", vmin=0.0, rasterized=True)
    places = np.full(len(across.values), bottom)
    places[view.rows] = view.answers
    _draw_marks(axes, view, across.values, places)
    return finish(figure, tall)


def _along(view: SearchView, across: RowAxis, cells: int) -> FloatArray:
    """(3, c) places, mean expectations and mean deviations of small cells with rows in them."""
    kept, edges = view.mapped, across.edges(cells)
    places = across.values[kept]
    counts, _ = np.histogram(places, edges)
    sums = [
        np.histogram(places, edges, weights=values[kept])[0]
        for values in (across.values, *view.predicted)
    ]
    used = counts > 0
    means: FloatArray = np.stack(sums)[:, used] / counts[used]
    return means


def _draw_marks(
    axes: Axes, view: SearchView, x: FloatArray, y: FloatArray, rings: bool = False
) -> None:
    """The rows that were asked for, the best one as a star, and a legend of their marks.

    Args:
        axes: where.
        view: the search.
        x, y: (n,) where every row stands.
        rings: whether what is drawn under answered rows shall be seen.
    """
    handles: list[Artist] = []
    for status, (usual, words) in _MARKS.items():
        rows = view.that(status)["row"].to_numpy(np.int64)
        many = len(rows) > _MANY
        look = _RING if rings and status == "answered" else usual
        size: dict[str, Any] = {"s": 16 if many else 34, "linewidths": 0.9}
        axes.scatter(x[rows], y[rows], zorder=4, rasterized=many, **size, **look)
        if len(rows):
            face, edge = look["facecolors"], look["edgecolors"]
            line = Line2D([], [], lw=0, marker=look["marker"], markersize=6.5, label=words)
            line.set(markerfacecolor=face, markeredgecolor=edge)
            handles.append(line)
    if view.turn.best is not None:
        row = view.turn.best.row
        axes.scatter(x[row], y[row], s=150, linewidths=1.0, zorder=6, **_STAR)
        star: dict[str, Any] = {"lw": 0, "color": "white", "markeredgecolor": INK}
        handles.append(Line2D([], [], marker="*", markersize=11, label="best answer", **star))
    figure = axes.figure
    assert isinstance(figure, Figure)
    legend_above(figure, handles)


def roomy(values: FloatArray, share: float) -> tuple[float, float]:
    """The least and largest of values (n,), moved apart by a share of what lies between them."""
    low, high = float(values.min()), float(values.max())
    size = max(abs(low), abs(high))
    room = share * (high - low) if high - low > 1e-9 * size else 1e-3 * size or 1.0
    return low - room, high + room
