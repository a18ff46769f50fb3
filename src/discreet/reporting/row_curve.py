"""A release of one number: the outcome that is expected along it, as a curve with a band.

| array     | shape | meaning                                                |
|-----------|-------|--------------------------------------------------------|
| at        | (c,)  | small cells with rows in them: the mean place of these |
| mean      | (c,)  | their mean expected outcome                            |
| deviation | (c,)  | their mean deviation                                   |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from discreet.reporting.map_heads import head
from discreet.reporting.palette import BLUE, FAINT, INK, SMALL, literal
from discreet.reporting.plots import plain
from discreet.reporting.row_axes import EvenTicks, RowAxis, roomy, tick_width
from discreet.reporting.row_marks import draw_marks, legend
from discreet.reporting.search_view import SearchView
from discreet.validation import FloatArray

_BOTTOM, _NAME, _RIGHT = 0.5, 0.36, 0.15
_SMOOTH = 0.04  # inches: a step of the curve
_TICKS = 5
_BARE, _RUG = 0.45, 0.14  # inches: how high axes without answers are, and marks of rows
# Up to this many rows have a mark each; more are shades of grey.
MOST_TICKS = 300


@dataclass(frozen=True, eq=False)
class _Curve:
    """See the module's table."""

    at: FloatArray
    mean: FloatArray
    deviation: FloatArray


def curve_figure(view: SearchView, width: float) -> Figure:
    """The curve of a release of one column, `width` inches wide."""
    across = RowAxis.of(view, 0)
    cells = max(8, round((width - 1.0) / _SMOOTH))
    curve = _curve(view, across, cells) if view.knows else None
    low, high = _limits(view, curve)
    ticks = [value for value in MaxNLocator(_TICKS).tick_values(low, high) if low <= value <= high]
    left = _NAME + tick_width(ticks)
    inside = width - left - _RIGHT
    tall = min(0.62 * inside, 2.8) if len(view.answers) else _BARE
    above = head("", "", legend(view), left, width)
    height = _BOTTOM + tall + above.height
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((left / width, _BOTTOM / height, inside / width, tall / height))
    _prepare(axes, across, inside, view.knows)
    if curve is not None:
        band = curve.mean - curve.deviation, curve.mean + curve.deviation
        axes.fill_between(curve.at, *band, color=BLUE, alpha=0.18, linewidth=0)
        axes.plot(curve.at, curve.mean, color=BLUE, linewidth=1.8)
    axes.set_ylim(low, high)
    axes.yaxis.set_visible(len(view.answers) > 0)
    bottom = low + _RUG / tall * (high - low)
    _draw_rug(axes, across, cells, (low, bottom))
    places = np.full(len(across.values), bottom)
    places[view.rows] = view.answers
    draw_marks(axes, view, across.values, places)
    above.draw(figure)
    return literal(figure)


def _curve(view: SearchView, across: RowAxis, cells: int) -> _Curve:
    kept = view.mapped
    where = across.cell_of(cells)[kept]
    counts = np.bincount(where, minlength=cells)
    used = counts > 0
    mean, deviation = view.predicted
    parts = [
        np.bincount(where, values[kept], minlength=cells)[used] / counts[used]
        for values in (across.values, mean, deviation)
    ]
    return _Curve(*parts)


def _limits(view: SearchView, curve: _Curve | None) -> tuple[float, float]:
    """Room for all answers and the band, and for the rows under them."""
    seen = [view.answers]
    if curve is not None:
        seen += [curve.mean - curve.deviation, curve.mean + curve.deviation]
    values = np.concatenate(seen)
    low, high = roomy(values if len(values) else np.array([0.0, 1.0]), 0.08)
    return low - 0.1 * (high - low), high


def _prepare(axes: Axes, across: RowAxis, inside: float, knows: bool) -> None:
    across.draw(axes, "x", inside)
    plain(axes)
    axes.yaxis.set_major_locator(MaxNLocator(_TICKS))
    axes.yaxis.set_major_formatter(EvenTicks())
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_ylabel("outcome" if knows else "answer", fontsize=SMALL, color=INK, labelpad=3)


def _draw_rug(axes: Axes, across: RowAxis, cells: int, ends: tuple[float, float]) -> None:
    """Where rows are, along the bottom: a mark for each, or shades of grey where there are many."""
    if len(across.values) <= MOST_TICKS:
        axes.vlines(across.values, *ends, color=INK, linewidth=0.7, alpha=0.5)
        return
    counts = np.bincount(across.cell_of(cells), minlength=cells)
    axes.pcolormesh(
        across.edges(cells), ends, np.sqrt(counts)[None, :], cmap="Greys", vmin=0.0, rasterized=True
    )
