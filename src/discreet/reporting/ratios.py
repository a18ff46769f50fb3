"""Table 2 of Ma et al. (2025): ratios to a reference, as a table and as a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from discreet.reporting.end_labels import EndLabel, draw_end_labels, label_margin
from discreet.reporting.palette import (
    BLUE,
    BODY,
    FAINT,
    GREEN,
    INK,
    PURPLE,
    SMALL,
    VERMILLION,
    Stroke,
    literal,
)
from discreet.reporting.plots import plain
from discreet.reporting.table import ABSENT
from discreet.reproduction.ma2025.table import Ratio

_HUES = {"ours": BLUE, "published": VERMILLION, "linear": GREEN, "neural": PURPLE}
_WIDTH, _PANEL = 10.4, 2.3  # inches
_LEFT, _BOTTOM, _TOP, _GAP, _BETWEEN = 0.72, 0.62, 0.42, 0.42, 0.75


def ratio_table(found: Sequence[Ratio]) -> Group:
    """A table for each data set and time: columns are methods; rows are budgets, with auxiliary
    data and without, the paper's numbers below."""
    shown: list[Text | Table] = []
    for data_set, at in dict.fromkeys((one.data_set, one.at) for one in found):
        mine = [one for one in found if (one.data_set, one.at) == (data_set, at)]
        methods = sorted({one.method for one in mine}, key=list(_HUES).index)
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
        table.add_column("epsilon, auxiliary", no_wrap=True)
        for method in methods:
            table.add_column(method, justify="right", no_wrap=True)
        for cell in dict.fromkeys((one.epsilon, one.epsilon_auxiliary) for one in mine):
            for with_data in (True, False):
                by = {
                    one.method: one
                    for one in mine
                    if (one.epsilon, one.epsilon_auxiliary) == cell and one.with_data == with_data
                }
                row = [_shown(by[key]) if key in by else Text(ABSENT) for key in methods]
                word = "with" if with_data else "without"
                table.add_row(f"{cell[0]:g}, {cell[1]:g} {word}", *row)
                papers = [by[key].paper if key in by else None for key in methods]
                if any(paper is not None for paper in papers):
                    texts = ["" if paper is None else f"{paper:.3f}" for paper in papers]
                    table.add_row("  paper", *texts, style="dim")
        shown += [Text(f"\n{data_set}, {at}", style="bold"), table]
    return Group(*shown)


def _shown(one: Ratio) -> Text:
    star = "*" if one.significant else ""
    return Text(f"{one.ratio:.3f}{star}", style="bold" if one.best else "")


def ratio_note(found: Sequence[Ratio]) -> str:
    """What the table's marks mean."""
    counts = sorted({one.trials for one in found})
    errors = [one.standard_error for one in found if math.isfinite(one.standard_error)]
    largest = f"; the largest standard error is {max(errors):.3f}" if errors else ""
    trials = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return (
        f"Ratios of mean reward to that of ABSE, over {trials} trial{'' if counts == [1] else 's'}"
        f"{largest}. With, without: auxiliary data. Bold: the best of a cell; *: "
        "significantly better than all others there (Wilcoxon signed-rank test, two-sided, "
        "p < 0.05; it needs at least 6 trials)."
    )


def ratio_figure(found: Sequence[Ratio]) -> Figure:
    """A panel for each data set and time; full points with auxiliary data, hollow without."""
    keys = list(dict.fromkeys((one.data_set, one.at) for one in found))
    names = [_name(one) for one in found]
    columns = 2 if len(keys) > 1 else 1
    rows = math.ceil(len(keys) / columns)
    right = label_margin(names)
    inside = (_WIDTH - _LEFT - columns * right - (columns - 1) * _GAP) / columns
    height = _BOTTOM + _TOP + rows * _PANEL + (rows - 1) * _BETWEEN
    figure = Figure(figsize=(_WIDTH, height), dpi=200)
    FigureCanvasAgg(figure)
    for place, (data_set, at) in enumerate(keys):
        row, column = divmod(place, columns)
        left = _LEFT + column * (inside + right + _GAP)
        bottom = height - _TOP - _PANEL - row * (_PANEL + _BETWEEN)
        shape = (left / _WIDTH, bottom / height, inside / _WIDTH, _PANEL / height)
        axes = figure.add_axes(shape)
        plain(axes)
        axes.grid(axis="y", color=FAINT, linewidth=0.6)
        axes.axhline(1.0, color="#6B6B6B", linewidth=1.0, linestyle=(0, (1, 1.5)))
        mine = [one for one in found if (one.data_set, one.at) == (data_set, at)]
        cells = list(dict.fromkeys((one.epsilon, one.epsilon_auxiliary) for one in mine))
        ends = []
        kinds = list(dict.fromkeys((one.method, one.with_data) for one in mine))
        beside = np.linspace(-0.25, 0.25, len(kinds)) if len(kinds) > 1 else np.zeros(1)
        for (method, with_data), aside in zip(kinds, beside, strict=True):
            points = [one for one in mine if (one.method, one.with_data) == (method, with_data)]
            stroke = Stroke(_HUES[method], (0, ()), 1.5)
            axes.errorbar(
                [cells.index((one.epsilon, one.epsilon_auxiliary)) + aside for one in points],
                [one.ratio for one in points],
                yerr=[one.half_width for one in points],
                color=stroke.color,
                linestyle="none",
                elinewidth=1.0,
                marker="o",
                markersize=4.5,
                markerfacecolor=stroke.color if with_data else "white",
            )
            ends.append(EndLabel(_name(points[-1]), points[-1].ratio, stroke))
        axes.set_xlim(-0.5, len(cells) - 0.5)
        axes.set_xticks(range(len(cells)), [f"{one:g}, {two:g}" for one, two in cells])
        axes.tick_params(labelsize=SMALL)
        axes.set_title(f"{data_set}, {at}", loc="left", fontsize=BODY, color=INK)
        if column == 0:
            axes.set_ylabel("ratio to ABSE", fontsize=BODY, color=INK)
        if place + columns >= len(keys):
            axes.set_xlabel("epsilon, auxiliary epsilon", fontsize=BODY, color=INK)
        draw_end_labels(axes, ends, _PANEL, inside)
    figure.text(
        1.0 - 0.1 / _WIDTH, 1.0 - 0.12 / height,
        "full: with auxiliary data; hollow: without; bars: 95% intervals",
        ha="right", va="center", fontsize=SMALL, color="#6B6B6B",
    )  # fmt: skip
    return literal(figure)


def _name(one: Ratio) -> str:
    return f"{one.method}, {'with' if one.with_data else 'without'}"
