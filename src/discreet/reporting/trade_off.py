"""What a reproduction's methods reach by epsilon: a panel for each setting, both axes logarithmic.

References, which promise nothing, are horizontal lines. Methods are told apart by colour, by the
marks of their points, and by their names at the right of every panel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from discreet.reporting.end_labels import EndLabel, draw_end_labels, label_margin
from discreet.reporting.palette import (
    BLUE,
    BODY,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    SMALL,
    VERMILLION,
    Stroke,
    literal,
    shade,
)
from discreet.reporting.plots import plain
from discreet.reporting.reproduction import trial_count
from discreet.reproduction.cases import NON_PRIVATE, Line

# Marks go with hues: whoever cannot see the one sees the other.
_LOOKS = {
    "ours": (BLUE, "o"),
    "ours, local": (GREEN, "s"),
    "published": (VERMILLION, "^"),
}
_OTHERS = ((ORANGE, "D"), (PURPLE, "v"), (SKY, "P"))
_GREY = "#6B6B6B"
_FREE = Stroke(shade(_GREY, 0.5), (0, (5, 2)))
_CHANCE = Stroke(_GREY, (0, (1, 1.5)))
_WIDTH, _PANEL = 10.4, 2.45  # inches; the height of the axes of one row
_LEFT, _BOTTOM, _TOP, _GAP, _BETWEEN = 0.72, 0.5, 0.42, 0.5, 0.72
_MOST_COLUMNS = 3


def trade_off_figure(lines: Sequence[Line]) -> Figure:
    """The main metric against epsilon: means over trials, bars their 95% intervals.

    All panels of a row have the same axes, so that they can be compared.
    """
    drawn = [line for line in lines if line.case.panel != ""]
    names = list(dict.fromkeys(line.case.panel for line in drawn))
    columns = len(names) if len(names) <= _MOST_COLUMNS else 2
    rows = math.ceil(len(names) / columns)
    right = label_margin([line.case.label for line in drawn])
    inside = (_WIDTH - _LEFT - columns * right - (columns - 1) * _GAP) / columns
    height = _BOTTOM + _TOP + rows * _PANEL + (rows - 1) * _BETWEEN
    figure = Figure(figsize=(_WIDTH, height), dpi=200)
    FigureCanvasAgg(figure)
    looks = _looks(drawn)
    epsilons = sorted({line.case.budget.epsilon for line in drawn if line.case.private})
    for place, name in enumerate(names):
        row, column = divmod(place, columns)
        beside = names[row * columns : (row + 1) * columns]
        left = _LEFT + column * (inside + right + _GAP)
        bottom = height - _TOP - _PANEL - row * (_PANEL + _BETWEEN)
        shape = (left / _WIDTH, bottom / height, inside / _WIDTH, _PANEL / height)
        axes = figure.add_axes(shape)
        _prepare(axes, epsilons, _limits([line for line in drawn if line.case.panel in beside]))
        ends = _draw(axes, [line for line in drawn if line.case.panel == name], looks)
        draw_end_labels(axes, ends, _PANEL, inside)
        axes.set_title(name or "", loc="left", fontsize=BODY, color=INK)
        if column == 0:
            axes.set_ylabel(next(iter(drawn[0].trials[0].totals)), fontsize=BODY, color=INK)
        if row == rows - 1:
            axes.set_xlabel("epsilon (smaller is more private)", fontsize=BODY, color=INK)
    figure.text(
        1.0 - 0.1 / _WIDTH,
        1.0 - 0.14 / height,
        f"mean of {trial_count(drawn)}; bars: 95% intervals",
        ha="right",
        va="center",
        fontsize=SMALL,
        color=_GREY,
    )
    return literal(figure)


def _looks(lines: Sequence[Line]) -> dict[str, tuple[str, str]]:
    """Hue and mark of each private method."""
    methods = list(dict.fromkeys(line.case.method for line in lines if line.case.private))
    rest = [method for method in methods if method not in _LOOKS]
    others = {method: _OTHERS[place % len(_OTHERS)] for place, method in enumerate(rest)}
    return {**_LOOKS, **others}


def _limits(lines: Sequence[Line]) -> tuple[float, float]:
    """A little more than what bars span, as far as there is room for them above 0."""
    means = np.array([line.records[0].mean for line in lines])
    errors = np.array([line.half_width for line in lines])
    most = max(float((means + errors).max()), 1e-12)
    above = means > 0.0
    least = float((means - np.minimum(errors, 0.5 * means))[above].min(initial=most))
    return 0.8 * least, 1.25 * most


def _prepare(axes: Axes, epsilons: Sequence[float], limits: tuple[float, float]) -> None:
    plain(axes)
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_yscale("log")
    axes.set_ylim(*limits)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xscale("log")
    if epsilons:
        axes.set_xlim(epsilons[0] / 1.35, epsilons[-1] * 1.12)
        axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(labelsize=SMALL)


def _draw(axes: Axes, lines: Sequence[Line], looks: dict[str, tuple[str, str]]) -> list[EndLabel]:
    """References and methods of one panel; returns the labels of their ends."""
    low, high = axes.get_ylim()

    def end(line: Line, value: float, stroke: Stroke) -> EndLabel:
        # Labels are placed on a linear scale: at the same share of the axis.
        share = math.log(max(value, low) / low) / math.log(high / low)
        return EndLabel(line.case.label, low + share * (high - low), stroke)

    ends = []
    for line in lines:
        if not line.case.private:
            stroke = _FREE if line.case.method == NON_PRIVATE else _CHANCE
            value = line.records[0].mean
            axes.axhline(value, color=stroke.color, linestyle=stroke.dashes, linewidth=1.3)
            ends.append(end(line, value, stroke))
    private = [line for line in lines if line.case.private]
    methods = list(dict.fromkeys(line.case.method for line in private))
    # Where points coincide, those that were drawn first still show at the rim.
    sizes = np.linspace(8.0, 5.0, len(methods))
    for method, size in zip(methods, sizes, strict=True):
        mine = [line for line in private if line.case.method == method]
        mine.sort(key=lambda line: line.case.budget.epsilon)
        hue, mark = looks[method]
        means = np.array([line.records[0].mean for line in mine])
        errors = np.array([line.half_width for line in mine])
        axes.errorbar(
            [line.case.budget.epsilon for line in mine],
            means,
            # A bar that would reach 0 has no place on this axis.
            yerr=(np.minimum(errors, 0.9 * means), errors),
            color=hue,
            linewidth=1.8,
            marker=mark,
            markersize=float(size),
            capsize=2.5,
            elinewidth=1.0,
        )
        ends.append(end(mine[-1], float(means[-1]), Stroke(hue)))
    return ends
