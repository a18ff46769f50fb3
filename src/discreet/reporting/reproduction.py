"""A reproduction as a table for the terminal, and as a figure in the paper's form."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from discreet.durable import write_bytes
from discreet.records import ReproductionRecord, Value
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
    shade,
    tint,
)
from discreet.reporting.plots import plain, thousands
from discreet.reporting.table import ABSENT
from discreet.reproduction.cases import NON_PRIVATE, REGRET, UNIFORM, Line

# What goes with another key.
_HIDDEN = {"kernel"}
_HUES = {"ours": BLUE, "published": VERMILLION, "ours, local": GREEN, "published, local": PURPLE}
_OTHERS = (GREEN, PURPLE, BLUE, VERMILLION)
_WIDTH, _HEIGHT, _DOTS = 10.4, 3.9, 200
_LEFT, _BOTTOM, _TOP, _GAP = 0.62, 0.5, 0.35, 0.2  # inches


def result_table(lines: Sequence[Line]) -> Group:
    """One row for each case and metric; what was promised beside what the noise guarantees.

    Settings that differ, and metrics, have a heading each; a varied delta is a column, and so is
    what was measured at the end of a trial.
    """
    varied = _varied([line.case.setting for line in lines])
    metrics = len({metric for line in lines for metric in line.trials[0].totals}) > 1
    columns = _columns(lines)
    sections: dict[str, list[tuple[Line, list[str]]]] = {}
    for line in lines:
        for record in line.records[: len(line.trials[0].totals)]:
            parts = [_shown(name, line.case.setting.get(name, ABSENT)) for name in varied]
            heading = ", ".join(parts + ([record.metric] if metrics else []))
            row = [cell(line, record) for cell in columns.values()]
            sections.setdefault(heading, []).append((line, row))
    cells = [row for rows in sections.values() for _, row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    shown: list[Text | Table] = []
    for heading, rows in sections.items():
        if heading:
            shown.append(Text(f"\n{heading}", style="bold"))
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
        for name, width in zip(columns, widths, strict=True):
            side: Literal["left", "right"] = "left" if name == "method" else "right"
            table.add_column(name, justify=side, no_wrap=True, vertical="bottom", min_width=width)
        for line, row in rows:
            table.add_row(*map(Text, row), style="" if line.case.private else "dim")
        shown.append(table)
    return Group(*shown)


def _columns(lines: Sequence[Line]) -> dict[str, Callable[[Line, ReproductionRecord], str]]:
    """What is written under each heading; a column that would be empty is left out."""
    made: dict[str, Callable[[Line, ReproductionRecord], str]] = {
        "method": lambda line, record: record.method
    }
    # Pure budgets beside others of one delta need no column: that they have none goes without it.
    if len({line.case.budget.delta for line in lines if line.case.private} - {0.0}) > 1:
        made["delta"] = lambda line, record: (
            f"{line.case.budget.delta:g}" if line.case.private else ABSENT
        )
    made[_head(lines)] = lambda line, record: _number(record.mean)
    made["±"] = lambda line, record: _error(record.standard_error)
    if any(record.paper is not None for line in lines for record in line.records):
        made["paper"] = lambda line, record: (
            ABSENT if record.paper is None else f"{record.paper:,.0f}"
        )
    for name in dict.fromkeys(name for line in lines for name in line.trials[0].finals):
        made[name.replace(" ", "\n")] = partial(_final, name)
    made["epsilon\npromised"] = lambda line, record: _promised(line)
    made["epsilon\nheld"] = lambda line, record: _held(line)
    if _noisy(lines):
        made["noise /\nneeded"] = lambda line, record: _noise(line)
    made["s"] = lambda line, record: f"{line.seconds:.2f}"
    return made


def table_note(lines: Sequence[Line]) -> str:
    """What the columns mean."""
    people = sorted({int(line.trials[0].rounds[-1]) for line in lines})
    of = f" of {people[0]:,} people" if len(people) == 1 and _head(lines) == REGRET else ""
    noise = (
        "; noise / needed: how many times the least noise that keeps the promise it is, below 1 "
        "where the promise is broken"
    )
    return (
        f"{_head(lines).capitalize()}{of}: mean of {trial_count(lines)}, ± its standard error. "
        "Epsilon held: what the noise that was drawn guarantees at the delta asked for"
        f"{noise if _noisy(lines) else ''}. s: seconds of one trial."
    )


def trial_count(lines: Sequence[Line]) -> str:
    """How many trials there were, in words."""
    counts = sorted({len(line.trials) for line in lines})
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{runs} trial{'' if counts == [1] else 's'}"


def _head(lines: Sequence[Line]) -> str:
    """What the main column is called: any way of counting regret is regret."""
    names = {metric for line in lines for metric in line.trials[0].totals}
    return REGRET if any(name.startswith(REGRET) for name in names) else ", ".join(sorted(names))


def _noisy(lines: Sequence[Line]) -> bool:
    """Whether there is Gaussian noise, of which one can say how much it is."""
    return any(line.excess_noise is not None for line in lines)


def _shown(name: str, value: Value) -> str:
    return f"{value:,} people" if name == "rounds" else str(value)


def _number(value: float, digits: int = 3) -> str:
    """So many digits of a small number, no more than one decimal of a large one."""
    if value == 0.0 or not abs(value) < 1.0:
        return f"{value:,.{1 if abs(value) < 1000.0 else 0}f}"
    return f"{value:.{min(max(digits - 1 - math.floor(math.log10(abs(value))), 0), 7)}f}"


def _error(value: float) -> str:
    if not math.isfinite(value):
        return ABSENT
    return _number(value, 2) if value < 100.0 else f"{value:,.0f}"


def _final(name: str, line: Line, record: ReproductionRecord) -> str:
    found = [other.mean for other in line.records if other.metric == name]
    return _number(found[0]) if found else ABSENT


def _varied(settings: Sequence[Mapping[str, Value]]) -> list[str]:
    """The keys that differ and that a reader cannot infer from the others."""
    keys = dict.fromkeys(key for setting in settings for key in setting if key not in _HIDDEN)
    return [key for key in keys if len({setting.get(key) for setting in settings}) > 1]


def _promised(line: Line) -> str:
    return f"{line.case.budget.epsilon:g}" if line.case.private else ABSENT


def _held(line: Line) -> str:
    epsilon = line.true_epsilon
    if epsilon is None:
        return ABSENT
    return f"{epsilon:.3g}" if math.isfinite(epsilon) else "none"


def _noise(line: Line) -> str:
    return ABSENT if line.excess_noise is None else f"{line.excess_noise:.2f}"


def regret_figure(lines: Sequence[Line], log_scale: bool = False) -> Figure:
    """Cumulative regret over rounds: a panel for each kind, references in all of them.

    Lines are means over trials, bands their 95% intervals; all panels share the
    vertical axis where references are shared.
    """
    drawn = [line for line in lines if line.case.panel != ""]
    shared = [line for line in drawn if line.case.panel is None]
    names = list(dict.fromkeys(line.case.panel for line in drawn if line.case.panel is not None))
    figure = Figure(figsize=(_WIDTH, _HEIGHT), dpi=_DOTS)
    FigureCanvasAgg(figure)
    panels = [[line for line in drawn if line.case.panel in (name, None)] for name in names]
    rights = [label_margin([line.case.label for line in mine]) for mine in panels]
    # Panels that do not share the axis write their own numbers at the left.
    lefts = [_LEFT if not shared or place == 0 else _GAP for place in range(len(names))]
    inside = (_WIDTH - sum(lefts) - sum(rights)) / max(len(names), 1)
    size = (inside, _HEIGHT - _BOTTOM - _TOP)
    strokes = _strokes(drawn)
    limits = _limits(drawn, log_scale)
    start = 0.0
    for place, (name, mine) in enumerate(zip(names, panels, strict=True)):
        start += lefts[place]
        axes = figure.add_axes(
            (start / _WIDTH, _BOTTOM / _HEIGHT, size[0] / _WIDTH, size[1] / _HEIGHT)
        )
        start += inside + rights[place]
        own = limits if shared else _limits(mine, log_scale)
        _panel(axes, mine, strokes, log_scale, own, size)
        axes.set_title(name, loc="left", fontsize=BODY, color=INK)
        if shared and place:
            axes.tick_params(axis="y", labelleft=False)
        if place == 0:
            axes.set_ylabel("cumulative regret", fontsize=BODY, color=INK)
    figure.text(
        1.0 - 0.1 / _WIDTH,
        1.0 - (_TOP - 0.1) / _HEIGHT,
        f"mean of {trial_count(drawn)}; bands: 95% intervals",
        ha="right",
        fontsize=SMALL,
        color="#6B6B6B",
    )
    return literal(figure)


def save_figure(figure: Figure, path: Path) -> None:
    """The figure as a PNG, white behind, that says what made it; it appears whole or not at all."""
    buffer = io.BytesIO()
    made_by = {"Software": f"discreet {version('discreet')}"}
    figure.savefig(buffer, dpi=_DOTS, facecolor="white", metadata=made_by)
    write_bytes(path, buffer.getvalue())


def _strokes(lines: Sequence[Line]) -> dict[int, Stroke]:
    """By id: methods have hues, darker for less privacy; references are grey."""
    made: dict[int, Stroke] = {}
    methods = list(dict.fromkeys(line.case.method for line in lines if line.case.private))
    for place, method in enumerate(methods):
        hue = _HUES.get(method, _OTHERS[place % len(_OTHERS)])
        for panel in {line.case.panel for line in lines if line.case.method == method}:
            mine = [
                line for line in lines if (line.case.method, line.case.panel) == (method, panel)
            ]
            mine.sort(key=lambda line: (line.case.budget.epsilon, line.case.budget.delta))
            strengths = np.linspace(0.5, 1.0, len(mine)) if len(mine) > 1 else [1.0]
            for line, strength in zip(mine, strengths, strict=True):
                made[id(line)] = Stroke(tint(hue, float(strength)))
    for line in lines:
        if line.case.method == UNIFORM:
            made[id(line)] = Stroke("#6B6B6B", (0, (1, 1.5)), 1.4)
        elif line.case.method == NON_PRIVATE:
            made[id(line)] = Stroke(shade("#6B6B6B", 0.5), (0, (5, 2)), 1.4)
    return made


def _limits(lines: Sequence[Line], log_scale: bool) -> tuple[float, float]:
    ends = [(mean, error) for _, mean, error in (line.band() for line in lines)]
    top = max(float((mean + error).max()) for mean, error in ends)
    if log_scale:
        lowest = min(float(mean[len(mean) // 20]) for mean, _ in ends)
        return max(0.5 * lowest, 1e-3 * top, 1e-9), 1.3 * max(top, 1e-9)
    return -0.03 * max(top, 1e-9), 1.05 * max(top, 1e-9)


def _panel(
    axes: Axes,
    lines: Sequence[Line],
    strokes: dict[int, Stroke],
    log_scale: bool,
    limits: tuple[float, float],
    size: tuple[float, float],
) -> None:
    plain(axes)
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    if log_scale:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0,)))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_formatter(FuncFormatter(thousands))
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(thousands))
    low, high = limits
    ends = []
    for line in lines:
        at, mean, error = line.band()
        stroke = strokes[id(line)]
        axes.plot(at, mean, color=stroke.color, linestyle=stroke.dashes, linewidth=stroke.width)
        below = np.maximum(mean - error, low) if log_scale else mean - error
        axes.fill_between(at, below, mean + error, color=stroke.color, alpha=0.16, linewidth=0)
        height = float(mean[-1])
        if log_scale:
            # Labels are placed on a linear scale: at the same share of the axis.
            share = math.log(max(height, low) / low) / math.log(high / low)
            height = low + share * (high - low)
        ends.append(EndLabel(line.case.label, height, stroke))
    axes.set_xlim(0, float(lines[0].trials[0].rounds[-1]))
    axes.set_ylim(low, high)
    axes.set_xlabel("round", fontsize=BODY, color=INK)
    axes.tick_params(labelsize=SMALL)
    draw_end_labels(axes, ends, size[1], size[0])
