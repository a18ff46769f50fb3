"""Searches of tables as figures: simple regret over questions, and by the columns of the release.

Lines are means over runs, bands and bars their 95% intervals. Methods are told apart
by colour and by dashes or marks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from discreet.intervals import mean_and_band
from discreet.reporting.end_labels import EndLabel, draw_end_labels, label_margin
from discreet.reporting.palette import (
    BLACK,
    BODY,
    INK,
    PURPLE,
    SMALL,
    VERMILLION,
    Stroke,
    literal,
)
from discreet.reporting.search_panels import (
    GAP,
    LEFT,
    PANEL,
    REFERENCES,
    WIDTH,
    floor_of,
    groups_of,
    hue_of,
    limits_of,
    prepare,
    sheet,
    strokes_of,
)
from discreet.reporting.searches import method_label
from discreet.reproduction.kharkovskii2020.methods import Ours, Published, power
from discreet.reproduction.kharkovskii2020.searches import Line
from discreet.validation import FloatArray


def questions_figure(lines: Sequence[Line], log_scale: bool = True) -> Figure:
    """Simple regret in units of sigma_y over questions: a row for each data set.

    Published methods are on the left and ours on the right, references on both sides; both share
    the vertical axis.
    """
    groups = groups_of(lines)
    right = label_margin([_end_label(line) for line in lines])
    inside = (WIDTH - LEFT - GAP - 2.0 * right) / 2.0
    figure, bottoms, height = sheet(len(groups), lines)
    for bottom, (name, mine) in zip(bottoms, groups.items(), strict=True):
        limits = limits_of([line.band() for line in mine], log_scale)
        for side, hidden in enumerate((Ours, Published)):
            shown = [line for line in mine if not isinstance(line.method, hidden)]
            left = LEFT + side * (inside + right + GAP)
            axes = figure.add_axes((left / WIDTH, bottom / height, inside / WIDTH, PANEL / height))
            prepare(axes, limits, log_scale)
            _draw_traces(axes, shown, inside, log_scale)
            title = f"{name}, published (no guarantee)" if side == 0 else "ours (epsilon held)"
            axes.set_title(title, loc="left", fontsize=BODY, color=INK)
            if side:
                axes.tick_params(axis="y", labelleft=False)
            else:
                axes.set_ylabel("simple regret / sigma_y", fontsize=SMALL, color=INK)
            if bottom == bottoms[-1]:
                axes.set_xlabel("question", fontsize=BODY, color=INK)
    return literal(figure)


def columns_figure(lines: Sequence[Line], log_scale: bool = True) -> Figure:
    """Simple regret after all questions by the columns r of the release: a panel for each table.

    It is in the unit of the outcome, beside the numbers of the paper. Methods that have no r are
    horizontal lines.
    """
    groups = groups_of(lines)
    columns = min(3, len(groups))
    rows = math.ceil(len(groups) / columns)
    gap = 0.45
    inside = (WIDTH - LEFT - 0.15 - (columns - 1) * gap) / columns
    figure, bottoms, height = sheet(rows, lines, legend=True)
    for place, (name, mine) in enumerate(groups.items()):
        row, column = divmod(place, columns)
        beside = list(groups.values())[row * columns : (row + 1) * columns]
        axes = figure.add_axes(
            (
                (LEFT + column * (inside + gap)) / WIDTH,
                bottoms[row] / height,
                inside / WIDTH,
                PANEL / height,
            )
        )
        ends = _ends([line for lines in beside for line in lines])
        prepare(axes, limits_of(ends, log_scale), log_scale)
        _draw_columns(axes, mine)
        axes.set_title(_short(name), loc="left", fontsize=SMALL, color=INK)
        if column == 0:
            axes.set_ylabel("simple regret", fontsize=SMALL, color=INK)
        if row == rows - 1:
            axes.set_xlabel("columns of the published release, r", fontsize=SMALL, color=INK)
    _legend(figure, lines)
    return literal(figure)


def _draw_traces(axes: Axes, lines: Sequence[Line], width: float, log_scale: bool) -> None:
    if not lines:
        return
    low, high = axes.get_ylim()
    floor = floor_of(axes)
    ends = []
    strokes = strokes_of(lines)
    for line, stroke in zip(lines, strokes, strict=True):
        mean, error = line.band()
        at = np.arange(1, len(mean) + 1)
        drawn = np.maximum(mean, floor)
        axes.plot(at, drawn, color=stroke.color, linestyle=stroke.dashes, linewidth=stroke.width)
        if line.method.epsilon is not None:
            below, above = np.maximum(mean - error, low), mean + error
            axes.fill_between(at, below, above, color=stroke.color, alpha=0.14, linewidth=0)
        height = float(drawn[-1])
        if log_scale:
            # Labels are placed on a linear scale: at the same share of the axis.
            height = low + (high - low) * math.log(height / low) / math.log(high / low)
        ends.append(EndLabel(_end_label(line), height, stroke))
    axes.set_xlim(1, max(2, len(lines[0].runs[0].regret)))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    draw_end_labels(axes, ends, PANEL, width)


def _end_label(line: Line) -> str:
    epsilon = line.method.epsilon
    return method_label(line) + ("" if epsilon is None else f", {power(epsilon)}")


def _raw(line: Line) -> tuple[float, float]:
    """Mean and half width of the interval of the last simple regret, in the outcome's unit."""
    mean, half = mean_and_band(line.data.deviation * line.final)
    return float(mean), float(half)


def _ends(lines: Sequence[Line]) -> list[tuple[FloatArray, FloatArray]]:
    found = [tuple(np.array([part]) for part in _raw(line)) for line in lines]
    printed = [line.entry.paper for line in lines if line.entry.paper]
    found += [(np.array([value]), np.zeros(1)) for value in printed]
    return [(mean, error) for mean, error in found]


# Marks go with hues: whoever cannot see the one sees the other.
_MARKS = {VERMILLION: "^", PURPLE: "D"}


def _draw_columns(axes: Axes, lines: Sequence[Line]) -> None:
    columns = sorted({_columns_of(line) for line in lines} - {0})
    _draw_levels(axes, [line for line in lines if _columns_of(line) == 0])
    for hue in _MARKS:
        mine = [line for line in lines if _columns_of(line) and hue_of(line) == hue]
        _draw_published(axes, sorted(mine, key=_columns_of), columns, hue)
    _draw_printed(axes, lines, columns)
    axes.set_xlim(-0.4, max(len(columns), 1) - 0.6)
    axes.set_xticks(range(len(columns)), [str(r) for r in columns])


def _columns_of(line: Line) -> int:
    """r, or 0 for a method without it."""
    return int(line.facts["r"] or 0)


def _draw_levels(axes: Axes, lines: Sequence[Line]) -> None:
    """Methods without r: horizontal lines."""
    low = floor_of(axes)
    for line in lines:
        mean, error = _raw(line)
        stroke = _level(line)
        height = max(mean, low)
        axes.axhline(height, color=stroke.color, linestyle=stroke.dashes, linewidth=stroke.width)
        if isinstance(line.method, Ours):
            below = max(mean - error, low)
            axes.axhspan(below, mean + error, color=stroke.color, alpha=0.14, linewidth=0)


def _level(line: Line) -> Stroke:
    return REFERENCES.get(line.method.name, Stroke(hue_of(line)))


def _draw_published(axes: Axes, lines: Sequence[Line], columns: list[int], hue: str) -> None:
    if not lines:
        return
    low = floor_of(axes)
    means = np.maximum([_raw(line)[0] for line in lines], low)
    errors = np.array([_raw(line)[1] for line in lines])
    axes.errorbar(
        [columns.index(_columns_of(line)) for line in lines],
        means,
        yerr=(np.minimum(errors, means - low), errors),
        color=hue,
        linewidth=1.5,
        marker=_MARKS[hue],
        markersize=5.0,
        capsize=2.0,
        elinewidth=1.0,
        clip_on=False,
    )


def _draw_printed(axes: Axes, lines: Sequence[Line], columns: list[int]) -> None:
    """What the paper prints: once for each r."""
    low = floor_of(axes)
    shown = {
        columns.index(_columns_of(line)): max(line.entry.paper, low)
        for line in lines
        if line.entry.paper is not None
    }
    axes.plot(
        list(shown),
        list(shown.values()),
        "o",
        color=BLACK,
        markersize=4.5,
        fillstyle="none",
        clip_on=False,
    )


def _short(group: str) -> str:
    """A heading that fits over a third of the width."""
    return group.replace("Not in the paper: ", "").replace("epsilon ", "")


def _legend(figure: Figure, lines: Sequence[Line]) -> None:
    made: dict[str, Line2D] = {}
    for hue, mark in _MARKS.items():
        branch = "if" if hue == PURPLE else "else"
        if any(line.facts["branch"] == branch for line in lines):
            made[f'published, branch "{branch}" (no guarantee)'] = Line2D(
                [], [], color=hue, marker=mark, markersize=5.0, linewidth=1.5
            )
    for line in lines:
        if _columns_of(line) == 0:
            stroke = _level(line)
            made[method_label(line)] = Line2D(
                [], [], color=stroke.color, linestyle=stroke.dashes, linewidth=stroke.width
            )
    if any(line.entry.paper is not None for line in lines):
        made["printed in the paper"] = Line2D(
            [], [], color=BLACK, marker="o", markersize=4.5, fillstyle="none", linewidth=0
        )
    figure.legend(
        list(made.values()),
        list(made),
        loc="upper left",
        bbox_to_anchor=(0.35 / WIDTH, 1.0 - 0.16 / figure.get_figheight()),
        ncols=math.ceil(len(made) / 2),
        frameon=False,
        fontsize=SMALL,
        handlelength=2.0,
        columnspacing=1.4,
    )
