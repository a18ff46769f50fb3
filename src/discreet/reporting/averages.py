"""How the regret per person fell while people were served, by what was known beforehand.

Three rows, as in Figure 6 of Ma et al. (2025): over all people, at one context, and how often each
arm was offered at that context. A block of columns for each method, at most two side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from discreet.reporting.arm_shares import arm_legend, draw_shares, place_name
from discreet.reporting.end_labels import EndLabel, draw_end_labels, label_margin
from discreet.reporting.palette import (
    BODY,
    FAINT,
    INK,
    PURPLE,
    SKY,
    SMALL,
    VERMILLION,
    Stroke,
    literal,
)
from discreet.reporting.plots import plain, thousands
from discreet.reporting.reproduction import trial_count
from discreet.reproduction.cases import Line
from discreet.validation import FloatArray, IntArray

_GREY = "#6B6B6B"
_CHANCE = Stroke(_GREY, (0, (1, 1.5)), 1.3)
# None of them is the colour of one of the first three arms.
_HUES = (VERMILLION, PURPLE, "#222222", SKY)
_WIDTH = 10.4  # inches, as all lengths here
_CURVE, _SHARES = 1.75, 1.35  # heights of axes
_LEFT, _TOP, _FOOT, _GAP, _BETWEEN, _BLOCKS = 0.78, 0.45, 0.3, 0.5, 0.46, 0.85
_BLOCK = 2 * _CURVE + _SHARES + 2 * _BETWEEN
_SIDE, _MARGIN = 0.16, 0.2  # between the panels of shares, and right of them
_AXIS = 0.55  # ticks and label below the last row

Curve = Callable[[Line], tuple[IntArray, FloatArray]]


@dataclass(frozen=True)
class _Page:
    """A figure whose axes are placed in inches from its top left corner."""

    figure: Figure
    height: float

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        bottom = self.height - top - height
        axes: Axes = self.figure.add_axes(
            (left / _WIDTH, bottom / self.height, width / _WIDTH, height / self.height)
        )
        plain(axes)
        axes.tick_params(labelsize=SMALL)
        axes.xaxis.set_major_formatter(FuncFormatter(thousands))
        return axes


def average_figure(lines: Sequence[Line]) -> Figure:
    """Regret per person so far, the same at the cases' probe, and shares of arms there.

    Args:
        lines: of cases with the same probe; a panel of the cases is a block of the figure.
    """
    drawn = [line for line in lines if line.case.panel != ""]
    names = list(dict.fromkeys(one.case.panel for one in drawn if one.case.panel is not None))
    blocks = names or [""]
    columns = min(len(blocks), 2)
    rows = math.ceil(len(blocks) / columns)
    right = label_margin([line.case.label for line in drawn])
    inside = (_WIDTH - _LEFT - columns * right - (columns - 1) * _GAP) / columns
    height = _TOP + rows * _BLOCK + (rows - 1) * _BLOCKS + _AXIS + _FOOT
    figure = Figure(figsize=(_WIDTH, height), dpi=200)
    FigureCanvasAgg(figure)
    page = _Page(figure, height)
    for place, name in enumerate(blocks):
        row, column = divmod(place, columns)
        corner = (_LEFT + column * (inside + right + _GAP), _TOP + row * (_BLOCK + _BLOCKS))
        _block(page, corner, (inside, right), name, drawn, first=column == 0)
    probed = next(line for line in drawn if line.local)
    left, foot = _LEFT / _WIDTH, 0.5 * _FOOT / height
    arm_legend(figure, probed.local[0], probed.case.probe or (), left, foot)
    figure.text(
        1.0 - 0.1 / _WIDTH, 1.0 - 0.14 / height, f"mean of {trial_count(drawn)}",
        ha="right", va="center", fontsize=SMALL, color=_GREY,
    )  # fmt: skip
    return literal(figure)


def _block(
    page: _Page,
    corner: tuple[float, float],
    widths: tuple[float, float],
    name: str,
    drawn: Sequence[Line],
    first: bool,
) -> None:
    """The three rows of one method, whose labels are written beside the first block alone.

    Args:
        corner: left and top.
        widths: of the axes, and of the labels right of them.
    """
    left, top = corner
    inside, right = widths
    mine = [line for line in drawn if line.case.panel in (name, None)]
    strokes = _strokes(mine)
    probed = [line for line in mine if line.local]
    place = place_name(probed[0].case.probe or ()) if probed else ""
    rows: tuple[tuple[Curve, Sequence[Line], str], ...] = (
        (_average, drawn, "over all people"),
        (_local, [line for line in drawn if line.local], f"at {place}"),
    )
    for row, (curve, all_lines, where) in enumerate(rows):
        axes = page.axes(left, top + row * (_CURVE + _BETWEEN), inside, _CURVE)
        shown = [line for line in mine if line in all_lines]
        _curves(axes, shown, curve, strokes, _ceiling(all_lines, curve), inside)
        title = f"{name + ': ' if row == 0 else ''}regret per person so far, {where}"
        axes.set_title(title, loc="left", fontsize=BODY, color=INK, pad=4)
        if first:
            axes.set_ylabel("regret per person", fontsize=SMALL, color=INK)
    kinds = [line for line in probed if line.case.panel is not None]
    if not kinds:
        return
    start = top + 2 * (_CURVE + _BETWEEN)
    width = (inside + right - _MARGIN - (len(kinds) - 1) * _SIDE) / len(kinds)
    for column, line in enumerate(kinds):
        axes = page.axes(left + column * (width + _SIDE), start, width, _SHARES)
        draw_shares(axes, line.local)
        axes.set_title(line.case.label, loc="left", fontsize=SMALL, color=INK, pad=4)
        _three_ticks(axes)
        axes.set_xlabel("people served", fontsize=SMALL, color=INK)
        if column:
            axes.set_yticklabels([])
        elif first:
            axes.set_ylabel(f"arms at {place}", fontsize=SMALL, color=INK)


def _three_ticks(axes: Axes) -> None:
    """At both ends and in the middle, with labels that stay between the ends."""
    low, high = axes.get_xlim()
    axes.set_xticks([low, 0.5 * (low + high), high])
    first, _, last = axes.get_xticklabels()
    first.set_horizontalalignment("left")
    last.set_horizontalalignment("right")


def _strokes(lines: Sequence[Line]) -> dict[int, Stroke]:
    """By id: a colour for each line with a promise, dots for others."""
    colors = iter(_HUES)
    return {
        id(line): Stroke(next(colors, _GREY)) if line.case.private else _CHANCE for line in lines
    }


def _curves(
    axes: Axes,
    lines: Sequence[Line],
    curve: Curve,
    strokes: dict[int, Stroke],
    top: float,
    width: float,
) -> None:
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_ylim(-0.02 * top, top)  # so that a line at 0 is seen
    axes.spines["bottom"].set_visible(False)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    ends = []
    for line in lines:
        at, mean = curve(line)
        stroke = strokes[id(line)]
        axes.plot(
            at, mean, color=stroke.color, linestyle=stroke.dashes, linewidth=stroke.width,
            solid_capstyle="butt",
        )  # fmt: skip
        if curve is _local and len(line.local) == 1:
            _mark_given_up(axes, line, stroke)
        ends.append(EndLabel(line.case.label, float(mean[-1]), stroke))
        axes.set_xlim(0.0, float(at[-1]))
    draw_end_labels(axes, ends, _CURVE, width)


def _mark_given_up(axes: Axes, line: Line, stroke: Stroke) -> None:
    """A triangle on the curve of a single trial where an arm was offered for the last time."""
    (trace,) = line.local
    at = np.array(sorted(set(trace.given_up.values())), dtype=np.int64)
    height = np.interp(at, trace.rounds, trace.regret)
    axes.plot(
        at, height, color=stroke.color, marker="v", markersize=6.0, markeredgecolor="white",
        markeredgewidth=0.6, linestyle="none", clip_on=False, zorder=3.0,
    )  # fmt: skip


def _ceiling(lines: Sequence[Line], curve: Curve) -> float:
    """The top of an axis; the average over the first few people is mostly chance."""
    means = [curve(line)[1] for line in lines]
    return max((1.15 * float(mean[len(mean) // 10 :].max()) for mean in means), default=0.0) or 1.0


def _average(line: Line) -> tuple[IntArray, FloatArray]:
    at, mean, _ = line.band()
    average: FloatArray = mean / at
    return at, average


def _local(line: Line) -> tuple[IntArray, FloatArray]:
    regret: FloatArray = np.mean([trace.regret for trace in line.local], axis=0)
    return line.local[0].rounds, regret
