"""Results against one quantity that is varied: a table, and a panel for each setting.

Lines are means over trials, bands their 95% intervals. A case without a value of
the quantity, such as a reference, is a horizontal line in every panel where it belongs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from rich import box
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
    in_lines,
    line_inches,
    literal,
    shade,
    tint,
)
from discreet.reporting.plots import plain, thousands
from discreet.reporting.reproduction import trial_count
from discreet.reporting.table import ABSENT
from discreet.reproduction.cases import NON_PRIVATE, UNIFORM, Line

_HUES = {"ours": BLUE, "published": VERMILLION}
_OTHERS = (GREEN, PURPLE)
_GREY = "#6B6B6B"
_WIDTH, _PANEL = 10.4, 2.3  # inches; the height of the axes of one row
_LEFT, _BOTTOM, _TOP, _GAP, _BETWEEN = 0.72, 0.5, 0.42, 0.42, 0.62


@dataclass(frozen=True, eq=False)
class Curve:
    """Cases that differ in the varied quantity alone.

    Attributes:
        lines: in the order of the quantity.
        at: its values; None for a case that has none.
    """

    lines: tuple[Line, ...]
    at: tuple[float | None, ...]

    @property
    def first(self) -> Line:
        """Whose method, panel and label all of them have."""
        return self.lines[0]

    @property
    def flat(self) -> bool:
        """Whether it is the same wherever the quantity goes."""
        return self.at[0] is None


def curves(lines: Sequence[Line], axis: str) -> list[Curve]:
    """Lines by panel, method and label, each in the order of the setting's key `axis`."""
    groups: dict[tuple[str | None, str, str], list[Line]] = {}
    for line in lines:
        group = (line.case.panel, line.case.method, line.case.label)
        groups.setdefault(group, []).append(line)
    made = []
    for mine in groups.values():
        found = [(_value(line, axis), line) for line in mine]
        found.sort(key=lambda one: -math.inf if one[0] is None else one[0])
        made.append(Curve(tuple(line for _, line in found), tuple(at for at, _ in found)))
    return made


def _value(line: Line, axis: str) -> float | None:
    value = line.case.setting.get(axis)
    return float(value) if isinstance(value, int | float) else None


def sweep_table(lines: Sequence[Line], axis: str) -> Table:
    """Mean and standard error of every curve by the varied quantity, with the paper's below."""
    found = curves(lines, axis)
    values = sorted({at for curve in found for at in curve.at if at is not None})
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("")
    if any(curve.flat for curve in found):
        table.add_column("any", justify="right")
    for value in values:
        table.add_column(thousands(value), justify="right")
    panel: str | None = None
    for curve in found:
        case = curve.first.case
        heading = "in all panels" if case.panel is None else case.panel
        if heading != panel:
            table.add_row(Text(heading, style="bold"))
            panel = heading
        keys: list[float | None] = [*([None] if len(table.columns) > len(values) + 1 else [])]
        keys += values
        cells = dict(zip(curve.at, curve.lines, strict=True))
        row = [_mean(cells[key]) if key in cells else "" for key in keys]
        table.add_row(f"  {case.label}", *row, style="" if case.private else "dim")
        papers = {key: line.records[0].paper for key, line in cells.items()}
        if any(paper is not None for paper in papers.values()):
            shown = [papers.get(key) for key in keys]
            texts = ["" if paper is None else f"{paper:,.0f}" for paper in shown]
            table.add_row("    paper", *texts, style="dim")
    return table


def _mean(line: Line) -> str:
    record = line.records[0]
    error = record.standard_error
    spread = f"{error:,.0f}" if error >= 100.0 else f"{error:.3g}"
    spread = spread if math.isfinite(error) else ABSENT
    return f"{record.mean:,.0f} ±{spread}" if record.mean >= 100 else f"{record.mean:.3g} ±{spread}"


def sweep_figure(lines: Sequence[Line], axis: str, axis_label: str) -> Figure:
    """The main metric against the varied quantity, logarithmic, on one axis in all panels."""
    drawn = [curve for curve in curves(lines, axis) if curve.first.case.panel != ""]
    names = list(dict.fromkeys(c.first.case.panel for c in drawn if c.first.case.panel is not None))
    panels = names or [""]
    columns = _columns(len(panels))
    rows = math.ceil(len(panels) / columns)
    right = label_margin([curve.first.case.label for curve in drawn])
    inside = (_WIDTH - _LEFT - columns * right - (columns - 1) * _GAP) / columns
    titles = [in_lines(name, inside + 0.7 * right, BODY) for name in panels]
    more = max(title.count("\n") for title in titles) * line_inches(BODY)
    top, between = _TOP + more, _BETWEEN + more
    height = _BOTTOM + top + rows * _PANEL + (rows - 1) * between
    figure = Figure(figsize=(_WIDTH, height), dpi=200)
    FigureCanvasAgg(figure)
    limits = _limits(drawn)
    for place, name in enumerate(panels):
        row, column = divmod(place, columns)
        left = _LEFT + column * (inside + right + _GAP)
        bottom = height - top - _PANEL - row * (_PANEL + between)
        shape = (left / _WIDTH, bottom / height, inside / _WIDTH, _PANEL / height)
        axes = figure.add_axes(shape)
        mine = [curve for curve in drawn if curve.first.case.panel in (name, None)]
        _draw(axes, mine, limits, inside)
        axes.set_title(titles[place], loc="left", fontsize=BODY, color=INK)
        if column == 0:
            axes.set_ylabel(next(iter(lines[0].trials[0].totals)), fontsize=BODY, color=INK)
        if place + columns >= len(panels):
            axes.set_xlabel(axis_label, fontsize=BODY, color=INK)
    crosses = any(line.records[0].paper is not None for line in lines)
    figure.text(
        1.0 - 0.1 / _WIDTH,
        1.0 - 0.12 / height,
        f"mean of {trial_count(lines)}; bands: 95% intervals"
        f"{'; crosses: logged by the published program' if crosses else ''}",
        ha="right",
        va="center",
        fontsize=SMALL,
        color=_GREY,
    )
    return literal(figure)


def _columns(panels: int) -> int:
    """Side by side: a divisor of the number of panels where there is one."""
    if panels <= 3:
        return panels
    return 3 if panels % 3 == 0 else 2


def _limits(drawn: Sequence[Curve]) -> tuple[float, float]:
    records = [line.records[0] for curve in drawn for line in curve.lines]
    means = np.array([one.mean for one in records] + [one.paper or 0.0 for one in records])
    positive = means[means > 0.0]
    if len(positive) == 0:
        return 0.1, 1.0
    return 0.6 * float(positive.min()), 1.6 * float(positive.max())


def _strokes(drawn: Sequence[Curve]) -> dict[int, Stroke]:
    """By id: methods have hues, darker for later labels; what is flat or second is dashed."""
    made: dict[int, Stroke] = {}
    methods = list(dict.fromkeys(c.first.case.method for c in drawn if c.first.case.private))
    others = [method for method in methods if method not in _HUES]
    for method in methods:
        hue = _HUES.get(method) or _OTHERS[others.index(method) % len(_OTHERS)]
        mine = [curve for curve in drawn if curve.first.case.method == method]
        strengths = np.linspace(0.45, 1.0, len(mine)) if len(mine) > 1 else np.ones(1)
        dashes: tuple[int, tuple[float, ...]]
        for curve, strength in zip(mine, strengths, strict=True):
            dashes = (0, (4, 2)) if curve.flat else (0, ())
            made[id(curve)] = Stroke(tint(hue, float(strength)), dashes)
    for curve in drawn:
        if curve.first.case.method == UNIFORM:
            made[id(curve)] = Stroke(_GREY, (0, (1, 1.5)), 1.3)
        elif curve.first.case.method == NON_PRIVATE:
            made[id(curve)] = Stroke(shade(_GREY, 0.5), (0, (5, 2)), 1.3)
    return made


def _draw(axes: Axes, drawn: Sequence[Curve], limits: tuple[float, float], width: float) -> None:
    plain(axes)
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_yscale("log")
    axes.set_ylim(*limits)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0,)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(thousands))
    strokes = _strokes(drawn)
    low, high = limits
    ends = []
    for curve in drawn:
        stroke = strokes[id(curve)]
        means = np.array([line.records[0].mean for line in curve.lines])
        half = np.array([line.half_width for line in curve.lines])
        style: dict[str, str | tuple[int, tuple[float, ...]] | float] = {
            "color": stroke.color,
            "linestyle": stroke.dashes,
            "linewidth": stroke.width,
        }
        if curve.flat:
            axes.axhline(float(means[0]), **style)  # type: ignore[arg-type]
        else:
            at = np.array([value for value in curve.at if value is not None])
            below = np.maximum(means - half, low)
            axes.plot(at, means, marker="o", markersize=3.0, **style)  # type: ignore[arg-type]
            axes.fill_between(at, below, means + half, color=stroke.color, alpha=0.15, linewidth=0)
            _draw_paper(axes, curve, stroke.color)
        # Labels are placed on a linear scale: at the same share of the axis.
        share = math.log(max(float(means[-1]), low) / low) / math.log(high / low)
        ends.append(EndLabel(curve.first.case.label, low + share * (high - low), stroke))
    values = [value for curve in drawn for value in curve.at if value is not None]
    if values:
        margin = 0.03 * (max(values) - min(values) or 1.0)
        axes.set_xlim(min(values) - margin, max(values) + margin)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(thousands))
    axes.tick_params(labelsize=SMALL)
    draw_end_labels(axes, ends, _PANEL, width)


def _draw_paper(axes: Axes, curve: Curve, color: str) -> None:
    """The paper's numbers as crosses."""
    papers = [line.records[0].paper for line in curve.lines]
    found = [
        (at, paper)
        for at, paper in zip(curve.at, papers, strict=True)
        if at is not None and paper is not None
    ]
    if found:
        at, paper = zip(*found, strict=True)
        axes.plot(at, paper, color=color, marker="x", markersize=4.0, linestyle="none")
