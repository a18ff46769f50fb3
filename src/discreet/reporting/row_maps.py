"""The map of a release over two of its numbers: where rows are believed to be, and what outcome is
expected there.

Every row is a dot, coloured by its expected outcome; many rows are gathered in cells, which have
the mean of theirs. Rows that were asked for are marked. Sizes are in inches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from discreet.reporting.figures import EVEN_IN_LIGHTNESS as COLORS
from discreet.reporting.map_heads import head
from discreet.reporting.palette import INK, SMALL, literal
from discreet.reporting.row_axes import EvenTicks, RowAxis, tick_width
from discreet.reporting.row_marks import MOST_VECTORS, draw_marks, legend
from discreet.reporting.search_view import SearchView
from discreet.validation import FloatArray

_BOTTOM, _BLANK = 0.5, "#F6F6F8"
_NAME, _BAR = 0.36, 0.5  # beside ticks: for the name of an axis, for the colours and their name
_CELL = 0.045
_ROW = "#B4B4BA"
_STEPS = 6  # of the scale of colours, about
# Up to this many rows are dots; more are gathered in cells.
MOST_DOTS = 5000


def plane_figure(view: SearchView, width: float) -> Figure:
    """The map of a release with at least two columns, `width` inches wide."""
    across, up = (RowAxis.of(view, place) for place in shown_columns(view))
    scale = _scale(view)
    tall = min(0.6 * width, 4.3)
    left = _NAME + up.margin(tall)
    right = 0.15 if scale is None else _BAR + tick_width(_scale_ticks(scale))
    rings = not view.not_asked.any()
    above = head("", "", legend(view, rings), left, width)
    inside, height = width - left - right, _BOTTOM + tall + above.height
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((left / width, _BOTTOM / height, inside / width, tall / height))
    across.draw(axes, "x", inside)
    up.draw(axes, "y", tall)
    _quiet(axes)
    if len(across.values) > MOST_DOTS:
        colors = _draw_cells(axes, view, (across, up), (inside, tall), scale)
    else:
        colors = _draw_dots(axes, view, (across, up), inside * tall, scale)
    draw_marks(axes, view, across.values, up.values, rings)
    if scale is not None:
        start = (width - right + 0.13) / width
        bar = figure.add_axes((start, _BOTTOM / height, 0.11 / width, tall / height))
        _draw_scale(figure, bar, colors)
    above.draw(figure)
    return literal(figure)


def shown_columns(view: SearchView) -> tuple[int, ...]:
    """Which released numbers the map shows, in their own order."""
    return tuple(sorted(view.by_relevance[:2]))


def _scale(view: SearchView) -> Normalize | None:
    """The ends of the colours; None before anything is known.

    Expectations that are alike have nearly one colour.
    """
    if not view.knows:
        return None
    low, high = view.expected_range
    room = 0.5 * view.least_difference if view.alike else 0.0
    return Normalize(low - room, high + room)


def _scale_ticks(scale: Normalize) -> list[float]:
    low, high = float(scale.vmin or 0.0), float(scale.vmax or 0.0)
    return [value for value in MaxNLocator(_STEPS).tick_values(low, high) if low <= value <= high]


def _draw_dots(
    axes: Axes,
    view: SearchView,
    sides: tuple[RowAxis, RowAxis],
    area: float,
    scale: Normalize | None,
) -> Any:
    kept = view.mapped
    count = int(kept.sum())
    style: dict[str, Any] = {"c": _ROW}
    if scale is not None:
        style = {"c": view.predicted[0][kept], "cmap": COLORS, "norm": scale}
    return axes.scatter(
        sides[0].values[kept],
        sides[1].values[kept],
        s=float(np.clip(0.12 * area * 72.0**2 / count, 2.5, 30.0)),
        linewidths=0,
        zorder=2,
        rasterized=count > MOST_VECTORS,
        **style,
    )


def _draw_cells(
    axes: Axes,
    view: SearchView,
    sides: tuple[RowAxis, RowAxis],
    size: tuple[float, float],
    scale: Normalize | None,
) -> Any:
    """Cells with the mean expectation of their rows; without one, with how many rows they have."""
    columns, rows = (max(8, round(length / _CELL)) for length in size)
    where = sides[0].cell_of(columns) * rows + sides[1].cell_of(rows)
    counts = np.bincount(where, minlength=columns * rows)
    filled: FloatArray = np.log1p(counts)
    look: dict[str, Any] = {"cmap": "Greys", "vmin": 0.0}
    if scale is not None:
        filled = np.bincount(where, view.predicted[0], minlength=len(counts)) / np.maximum(
            counts, 1
        )
        look = {"cmap": COLORS, "norm": scale}
    grid = np.where(counts > 0, filled, np.nan).reshape(columns, rows).T
    edges = sides[0].edges(columns), sides[1].edges(rows)
    return axes.pcolormesh(*edges, grid, rasterized=True, zorder=2, **look)


def _draw_scale(figure: Figure, bar: Axes, colors: Any) -> None:
    ruler = figure.colorbar(colors, cax=bar)
    ruler.outline.set_visible(False)
    ruler.locator = MaxNLocator(_STEPS)
    ruler.formatter = EvenTicks()
    ruler.update_ticks()
    bar.tick_params(labelsize=SMALL - 0.5, colors="#444444", length=2.0, width=0.6)
    bar.set_ylabel("expected outcome", fontsize=SMALL, color=INK, labelpad=4)


def _quiet(axes: Axes) -> None:
    axes.tick_params(labelsize=SMALL - 0.5, colors="#444444", length=2.5, width=0.6)
    axes.set_facecolor(_BLANK)
    for spine in axes.spines.values():
        spine.set_visible(False)
