"""The report of a search over a released table: one HTML file (page.py) with its figures.

`answers_figure` has a dot for each answer, and a line for the best so far. `rows_figure` has a dot
for each row over two released numbers, coloured by the expected outcome, or expected outcomes over
a single one.

| array     | shape  | meaning                                                       |
|-----------|--------|---------------------------------------------------------------|
| questions | (m,)   | numbers of the questions that were answered, from 1           |
| rows      | (m,)   | the rows they were about                                      |
| answers   | (m,)   | their answers                                                 |
| so_far    | (m,)   | the best answer up to each of them                            |
| mean      | (n,)   | expected outcome of every row                                 |
| deviation | (n,)   | its standard deviation                                        |

A unit of distance of a release is `scale` units of a column, a factor of e^scale where distances
are those of logarithms, and `scale` steps from label to label where the column holds labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis as MatplotlibAxis
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from discreet.lab.reporting.figures import EVEN_IN_LIGHTNESS, Axis, number_axis, ruler
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
    tint,
)
from discreet.lab.reporting.numbers import (
    ABSENT,
    aligned_texts,
    decimals,
    expected_text,
    listed,
    number_text,
    share_text,
    unsigned_zero,
)
from discreet.lab.reporting.page import MAP, image, render, write_page
from discreet.lab.reporting.provenance import Provenance, provenance_of_release
from discreet.outsourcing.bounds import PublicColumn
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.mechanisms import Status, times_text
from discreet.outsourcing.modeler import RowSearch, Turn
from discreet.outsourcing.posterior import column_spread
from discreet.privacy.guarantee import rounded_up
from discreet.validation import BoolArray, FloatArray, IntArray, whole_number

# Expectations that differ by less than this share of the deviation of outcomes say nothing.
_ALIKE = 0.05
MOST_DOTS = 2_000  # rows stand in a random order, so the first of many show where all are
_MANY = 200  # more marks than this are drawn as pixels
_ROOMY = 6.0  # from this width on there is room for more ticks and words
_INSIDE = 0.87  # of the width of a figure, for its axes, about
_GREY, _ROW, _BAND = "#8A8A8A", "#B4B4BA", "#F1F1F3"
_STAR: dict[str, Any] = {"marker": "*", "c": "white", "edgecolors": INK, "linewidths": 1.0}
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
# Of the table of best answers: rows, and places of a row; names of columns that are not on the map.
_ROWS, _PLACES, _NAMED = 10, 6, 6


@dataclass(frozen=True, eq=False)
class SearchView:
    """A search after one of its turns (see the module).

    Attributes:
        search: what was asked and what is believed.
        turn: its last turn.
        rounds: how many questions there may be.
    """

    search: RowSearch
    turn: Turn
    rounds: int

    @property
    def certificate(self) -> Certificate:
        """What was released."""
        return self.search.table.certificate

    @property
    def minimize(self) -> bool:
        """Whether the lowest outcome is searched."""
        return self.search.settings.minimize

    @property
    def knows(self) -> bool:
        """Whether answers say something about other rows: some came, and a prior is there."""
        modeler = self.search.modeler
        return modeler.answered >= max(modeler.warm_up, 1)

    @property
    def warm_up(self) -> int:
        """How many of the questions were about rows drawn at random."""
        return min(self.search.modeler.warm_up, len(self.turn.asked))

    @property
    def answer_noise(self) -> float:
        """Standard deviation of the noise that the curator adds to an answer; 0 for none."""
        answers = self.certificate.answers
        return 0.0 if answers is None else answers.scale

    @property
    def columns(self) -> tuple[PublicColumn | None, ...]:
        """The public column behind each released number; None where rows were projected."""
        if self.certificate.projection is None:
            return self.certificate.bounds.columns
        return (None,) * len(self.certificate.names)

    @property
    def widths(self) -> FloatArray:
        """(r,) how wide the possible values of each released number are, in units of distance."""
        low, high = self.search.table.box
        return high - low

    @cached_property
    def asked(self) -> pd.DataFrame:
        """The questions: their number, row, status and answer."""
        questions = [(each.number, each.row, each.status, each.answer) for each in self.turn.asked]
        return pd.DataFrame(questions, columns=["number", "row", "status", "answer"])

    def that(self, status: Status) -> pd.DataFrame:
        """The questions with this status, in their order."""
        return self.asked[self.asked["status"] == status].reset_index(drop=True)

    @cached_property
    def questions(self) -> IntArray:
        """(m,) see the module."""
        return self.that("answered")["number"].to_numpy(np.int64)

    @cached_property
    def rows(self) -> IntArray:
        """(m,) see the module."""
        return self.that("answered")["row"].to_numpy(np.int64)

    @cached_property
    def answers(self) -> FloatArray:
        """(m,) see the module."""
        return self.that("answered")["answer"].to_numpy(np.float64)

    @cached_property
    def so_far(self) -> FloatArray:
        """(m,) see the module."""
        return (np.minimum if self.minimize else np.maximum).accumulate(self.answers)

    @cached_property
    def predicted(self) -> tuple[FloatArray, FloatArray]:
        """(n,) mean and (n,) deviation of every row."""
        return self.search.modeler.predict()

    @cached_property
    def not_asked(self) -> BoolArray:
        """(n,) the rows that were not queried."""
        return ~np.isin(np.arange(self.search.beliefs.count), self.asked["row"])

    @property
    def mapped(self) -> BoolArray:
        """(n,) the rows whose expectation is shown: those not asked for, or all if none is left.

        An answer says more about its own row than about any other, so expectations of asked rows
        stand out from those around them.
        """
        return self.not_asked if self.not_asked.any() else ~self.not_asked

    @property
    def expected_range(self) -> tuple[float, float]:
        """The least and largest expectation that is shown, once something is known."""
        seen = self.predicted[0][self.mapped]
        return float(seen.min()), float(seen.max())

    @property
    def alike(self) -> bool:
        """Whether the answers say next to nothing about rows that were not asked for."""
        low, high = self.expected_range
        return high - low < self.least_difference

    @property
    def least_difference(self) -> float:
        """Expectations that differ by less than this count as the same."""
        return _ALIKE * math.sqrt(self.search.modeler.prior.variance)

    @property
    def by_relevance(self) -> tuple[int, ...]:
        """The released numbers, the one on which outcomes depend most first.

        That is the one with the shortest length scale relative to the spread of the rows; where
        there is no difference, their own order.
        """
        return tuple(np.argsort(self._relative_scales, kind="stable").tolist())

    @property
    def shown_columns(self) -> tuple[int, ...]:
        """Which released numbers the map shows, in their own order."""
        return tuple(sorted(self.by_relevance[:2]))

    @property
    def relevance_differs(self) -> bool:
        """Whether outcomes are believed to depend on some released numbers more than on others."""
        return bool(np.ptp(self._relative_scales) > 0.0)

    @cached_property
    def _relative_scales(self) -> FloatArray:
        """(r,) logarithms of the length scales relative to the spread; 0 before they are known."""
        beliefs = self.search.beliefs
        if not self.knows:
            return np.zeros(beliefs.columns)
        scales = self.search.modeler.prior.scales(beliefs.columns)
        # Rounded, so that scales which were learnt as one do not differ.
        relative = np.log(scales / column_spread(beliefs))
        return np.asarray(np.round(relative, 6), dtype=np.float64)

    def best_places(self, count: int) -> list[int]:
        """Places in `rows` of the best answers, best first, each row once."""
        answered = self.that("answered")
        ordered = answered.sort_values("answer", ascending=self.minimize, kind="stable")
        return ordered.drop_duplicates("row").index[:count].tolist()

    @property
    def best_place(self) -> int:
        """The place in `rows` of the best answer; there must be one."""
        best = self.turn.best
        assert best is not None
        return int(np.argmax((self.rows == best.row) & (self.answers == best.answer)))

    def best_expected(self) -> int | None:
        """The answered row whose expected outcome is best; None before anything is known."""
        if not self.knows:
            return None
        expected = self.predicted[0][self.rows]
        place = np.argmin(expected) if self.minimize else np.argmax(expected)
        return int(self.rows[place])

    @property
    def gain(self) -> float | None:
        """What one more question promises; None where unknown."""
        return self.turn.gain if math.isfinite(self.turn.gain) else None


def values_at(column: PublicColumn, coordinates: FloatArray) -> FloatArray:
    """(n,) the values that have these coordinates (n,), as `PublicColumn.value_at` gives one."""
    inside = np.clip(coordinates, 0.0, column.extent) * column.scale
    lower = column.column.lower
    return np.exp(math.log(lower) + inside) if column.log else lower + inside


def value_text(column: PublicColumn, coordinate: float, deviation: float) -> str:
    """Where a row is believed to be, with no more digits than that belief has.

    Args:
        column: the column.
        coordinate: where, in units of distance.
        deviation: how far it may be off, in units of distance.
    """
    value = column.value_at(coordinate)
    if column.column.values:
        return column.column.values[round(value)]
    if column.log:
        return number_text(value, 3)
    return unsigned_zero(f"{value:,.{decimals(deviation * column.scale, 2, 12)}f}")


def length_text(column: PublicColumn, length: float) -> str:
    """A length in units of distance, in the column's own units."""
    along = length * column.scale
    if column.log:
        return f"a factor {number_text(math.exp(min(along, 700.0)), 3)}"
    if column.column.values:
        return f"{number_text(along, 3)} label{'' if along == 1.0 else 's'}"
    return number_text(along, 3)


def bound_texts(column: PublicColumn) -> tuple[str, str]:
    """The lowest and the highest value, or the first and the last label."""
    if column.column.values:
        return column.column.values[0], column.column.values[-1]
    return number_text(column.column.lower, 12), number_text(column.column.upper, 12)


# Figures.


def answers_figure(view: SearchView, width: float) -> Figure:
    """A dot for each answer, a step line for the best so far, crosses for what cannot be.

    Args:
        view: a search with at least one answer.
        width: of the figure.
    """
    figure, [[axes]] = sheet(width=width)
    last = int(view.asked["number"][view.asked["status"] != "waiting"].max())
    axes.set_xlim(0.5, last + 0.5)
    if view.warm_up:
        axes.axvspan(0.5, view.warm_up + 0.5, color=_BAND, linewidth=0, zorder=0)
    number_axis(axes.xaxis, Axis(whole=True, most=8 if width > _ROOMY else 4))
    many, noise = len(view.answers) > _MANY, view.answer_noise
    low, high = roomy(np.concatenate([view.answers - noise, view.answers + noise]), 0.07)
    number_axis(axes.yaxis, Axis(limits=(low, high)))
    style: dict[str, Any] = {"fmt": "none", "ecolor": "#C9C9CE", "elinewidth": 0.9}
    if noise:
        axes.errorbar(view.questions, view.answers, yerr=noise, rasterized=many, **style)
    axes.scatter(view.questions, view.answers, 16, _GREY, linewidths=0, zorder=3, rasterized=many)
    # The line goes on to the right border.
    at, steps = np.append(view.questions, last + 0.5), np.append(view.so_far, view.so_far[-1])
    axes.plot(at, steps, drawstyle="steps-post", color=BLUE, linewidth=1.9, zorder=4)
    best, place = float(view.so_far[-1]), view.best_place
    axes.scatter(view.questions[place], view.answers[place], s=110, zorder=5, **_STAR)
    failed = view.that("impossible")["number"]
    bottom = np.full(len(failed), low + 0.02 * (high - low))
    cross: dict[str, Any] = {"marker": "x", "s": 22, "c": INK, "linewidths": 1.2}
    axes.scatter(failed, bottom, zorder=3, clip_on=False, rasterized=len(failed) > _MANY, **cross)
    entitle(axes, f"answers and the {'lowest' if view.minimize else 'highest'} so far")
    name_ends(axes, [(f"best so far\n{number_text(best)}", best, BLUE)])
    axes.set_xlabel("question", fontsize=BODY, color=INK)
    return finish(figure, 2.6)


def rows_figure(view: SearchView, width: float) -> Figure:
    """Where rows are believed to be, and what is expected of them.

    Args:
        view: a search.
        width: of the figure.
    """
    figure, [[axes]] = sheet(width=width)
    kept = np.flatnonzero(view.mapped)[:MOST_DOTS]
    shown, height, many = view.shown_columns, min(0.6 * width, 4.3), len(kept) > _MANY
    axes.grid(False)
    x = _draw_axis(axes.xaxis, view, shown[0], _INSIDE * width)
    if len(shown) > 1:
        y = _draw_axis(axes.yaxis, view, shown[1], height)
        # As large as there is room.
        size = float(np.clip(0.12 * _INSIDE * width * height * 72.0**2 / len(kept), 2.5, 30.0))
        # Edges show yellow on white and blue in the dark; of many dots they would double the file.
        edge = 0.0 if many else 0.1 * math.sqrt(size)
        look: dict[str, Any] = {"edgecolors": _GREY, "linewidths": edge}
        look |= {"s": size, "zorder": 2, "rasterized": many}
        if view.knows:
            # Expectations that are alike have nearly one colour.
            room = 0.5 * view.least_difference if view.alike else 0.0
            low, high = view.expected_range
            look |= {"cmap": EVEN_IN_LIGHTNESS, "norm": Normalize(low - room, high + room)}
        colors = view.predicted[0][kept] if view.knows else _ROW
        dots = axes.scatter(x[kept], y[kept], c=colors, **look)
        if view.knows:
            ruler(figure, dots, [axes], "expected outcome")
    else:
        height, y = (2.8, view.predicted[0].copy()) if view.knows else (0.45, np.zeros(len(x)))
        deviation = view.predicted[1][kept] if view.knows else None
        bars: dict[str, Any] = {"fmt": ".", "c": BLUE, "ecolor": tint(BLUE, 0.25), "ms": 3.0}
        axes.errorbar(x[kept], y[kept], deviation, rasterized=many, **bars)
        axes.yaxis.set_visible(view.knows)
        axes.set_ylabel("outcome", fontsize=SMALL, color=INK)
        if view.knows:
            y[view.rows] = view.answers
    _draw_marks(axes, view, x, y)
    return finish(figure, height)


def _draw_axis(axis: MatplotlibAxis, view: SearchView, place: int, room: float) -> FloatArray:
    """Name and scale an axis of rows.

    Args:
        axis: of the figure.
        view: a search.
        place: of the released number that it shows.
        room: about how many inches long it is.

    Returns:
        (n,) where rows stand along it, in the units of the column.
    """
    coordinates, column = view.search.beliefs.mean[:, place], view.columns[place]
    most = max(3, min(7, int(room / 0.7)))
    if column is None:
        name, values = f"{view.certificate.names[place]} (units of distance)", coordinates
        number_axis(axis, Axis(limits=roomy(values, 0.03), most=most))
    elif column.column.values:
        labels = column.column.values
        name, values = column.name, values_at(column, coordinates)
        names = [shortened(label, room / len(labels)) for label in labels]
        ends = roomy(np.array([0.0, len(labels) - 1.0]), 0.03)
        number_axis(axis, Axis(limits=ends, ticks=range(len(labels)), names=names))
    else:
        name, values = column.name, values_at(column, coordinates)
        ends = roomy(np.log(values) if column.log else values, 0.03)
        if column.log:
            name, ends = f"{name} (logarithmic)", (math.exp(ends[0]), math.exp(ends[1]))
        number_axis(axis, Axis(log=column.log, limits=ends, most=most))
    axis.set_label_text(name, fontsize=SMALL, color=INK)
    return values


def _draw_marks(axes: Axes, view: SearchView, x: FloatArray, y: FloatArray) -> None:
    """Rows (n,), (n,) that were asked for, the best one as a star, and a legend of their marks."""
    handles: list[Artist] = []
    for status, (look, words) in _MARKS.items():
        rows = view.that(status)["row"].to_numpy(np.int64)
        many = len(rows) > _MANY
        size: dict[str, Any] = {"s": 16 if many else 34, "linewidths": 0.9}
        axes.scatter(x[rows], y[rows], zorder=4, rasterized=many, **size, **look)
        if len(rows):
            face, edge = look["facecolors"], look["edgecolors"]
            line = Line2D([], [], lw=0, marker=look["marker"], markersize=6.5, label=words)
            line.set(markerfacecolor=face, markeredgecolor=edge)
            handles.append(line)
    if view.turn.best is not None:
        row = view.turn.best.row
        axes.scatter(x[row], y[row], s=150, zorder=6, **_STAR)
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


# The page.


def write_search_report(search: RowSearch, turn: Turn, rounds: int, path: Path) -> None:
    """Write the report of a search as it stands after a turn.

    The file appears whole or not at all.

    Args:
        search: what was asked and is believed.
        turn: its last turn.
        rounds: how many questions there may be in all.
        path: the file.

    Raises:
        InvalidInput: a folder that does not exist.
    """
    write_page(lambda: render_search_report(search, turn, rounds), path)


def render_search_report(
    search: RowSearch, turn: Turn, rounds: int, origin: Provenance | None = None
) -> str:
    """The report as HTML; its origin is now, if left out. See `write_search_report`."""
    whole_number(rounds, "rounds", minimum=1)
    view = SearchView(search, turn, rounds)
    certificate, shown = view.certificate, view.shown_columns
    others = [name for place, name in enumerate(certificate.names) if place not in shown]
    shares = certificate.mechanism.scale / view.widths
    sources = list(certificate.guarantee.noise)
    sources += certificate.with_answers.noise if certificate.with_answers else ()
    scales = search.modeler.prior.scales(len(view.columns)).tolist()
    placed = [at for at in sorted(view.by_relevance[:_PLACES]) if view.columns[at] is not None]
    return render(
        "search.html.j2",
        view=view,
        certificate=certificate,
        prior=search.modeler.prior,
        settings=search.settings,
        origin=origin
        or provenance_of_release(
            certificate.release, certificate.file, certificate.sha256, search.settings.seed
        ),
        answers=len(view.answers) and image(lambda width: answers_figure(view, width)),
        map=image(lambda width: rows_figure(view, width), style=MAP if len(shown) > 1 else ""),
        most_dots=MOST_DOTS,
        shown=[certificate.names[place] for place in shown],
        not_shown=f"{len(others)} others" if len(others) > _NAMED else others and listed(others),
        best_answers=_best_answers(view, placed),
        best_columns=[certificate.names[at] for at in placed],
        best_expected=view.best_expected(),
        lengths=list(zip(certificate.names, view.columns, scales, view.widths, strict=True)),
        shares=dict.fromkeys(share_text(float(end)) for end in (shares.min(), shares.max())),
        sources=dict.fromkeys(sources),
        simulated=any("simulation only" in source for source in sources),
        bounds=bound_texts,
        expected=expected_text,
        length=length_text,
        share=share_text,
        times=times_text,
        up=rounded_up,
    )


def _best_answers(view: SearchView, placed: list[int]) -> list[list[str]]:
    """The best answered rows, best first, with their places in some of the columns."""
    beliefs, best = view.search.beliefs, view.best_places(_ROWS)
    # The same digits for all rows: those that a row has on the whole.
    deviations = np.sqrt(beliefs.variance.mean(axis=0)).tolist()
    table = []
    for place, answer in zip(best, aligned_texts(view.answers[best].tolist()), strict=True):
        row, expected = int(view.rows[place]), [ABSENT, ABSENT]
        if view.knows:
            mean, half = (float(part[row]) for part in view.predicted)
            expected = expected_text(mean, half).split(" ± ")
        places = [
            value_text(column, float(beliefs.mean[row, at]), deviations[at])
            for at in placed
            if (column := view.columns[at]) is not None
        ]
        table.append([f"{row}", answer, *expected, *places])
    return table
