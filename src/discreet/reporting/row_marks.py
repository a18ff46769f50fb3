"""Marks of the rows that were asked for, on the map of a release and beside the curve over it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from discreet.outsourcing.search import Status
from discreet.reporting.palette import INK, VERMILLION
from discreet.reporting.search_view import SearchView
from discreet.validation import FloatArray

# More marks than this are drawn as pixels.
MOST_VECTORS = 200
_STYLES: dict[Status, dict[str, Any]] = {
    "answered": {"marker": "o", "facecolors": VERMILLION, "edgecolors": "white"},
    "waiting": {"marker": "o", "facecolors": "white", "edgecolors": VERMILLION},
    "impossible": {"marker": "X", "facecolors": INK, "edgecolors": "white"},
}
_RING = {"marker": "o", "facecolors": "none", "edgecolors": VERMILLION}
_WORDS: dict[Status, str] = {
    "answered": "answered",
    "waiting": "waits for an answer",
    "impossible": "cannot be measured",
}


def draw_marks(
    axes: Axes, view: SearchView, x: FloatArray, y: FloatArray, rings: bool = False
) -> None:
    """The rows that were asked for, the best one as a star.

    Args:
        axes: where.
        view: the search.
        x: (n,) where every row stands.
        y: (n,) the same.
        rings: whether what is drawn under answered rows shall be seen.
    """
    for status in _STYLES:
        rows = view.rows_that(status)
        many = len(rows) > MOST_VECTORS
        axes.scatter(
            x[rows],
            y[rows],
            s=16 if many else 34,
            linewidths=0.9,
            zorder=4,
            rasterized=many,
            **_style(status, rings),
        )
    if view.turn.best is not None:
        row = view.turn.best.row
        axes.scatter(
            x[row], y[row], s=150, marker="*", c="white", edgecolors=INK, linewidths=1.0, zorder=6
        )


def legend(view: SearchView, rings: bool = False) -> Sequence[Artist]:
    """What the marks mean."""
    handles: list[Artist] = []
    for status in _STYLES:
        if view.count(status):
            style = _style(status, rings)
            look: dict[str, Any] = {
                "marker": style["marker"],
                "markerfacecolor": style["facecolors"],
                "markeredgecolor": style["edgecolors"],
            }
            handles.append(
                Line2D([], [], linestyle="", markersize=6.5, label=_WORDS[status], **look)
            )
    if view.turn.best is not None:
        star: dict[str, Any] = {"linestyle": "", "color": "white", "markeredgecolor": INK}
        handles.append(Line2D([], [], marker="*", markersize=11, label="best answer", **star))
    return handles


def _style(status: Status, rings: bool) -> dict[str, Any]:
    return _RING if rings and status == "answered" else _STYLES[status]
