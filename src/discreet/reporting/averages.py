"""How the regret per person fell while people were served, by what was known beforehand."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

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
from discreet.reporting.reproduction import trial_count
from discreet.reporting.sweeps import thousands
from discreet.reproduction.cases import Line
from discreet.validation import FloatArray, IntArray

_GREY = "#6B6B6B"
_CHANCE = Stroke(_GREY, (0, (1, 1.5)), 1.3)
_WIDTH, _PANEL = 10.4, 2.3  # inches
_LEFT, _BOTTOM, _TOP, _GAP = 0.72, 0.5, 0.42, 0.42


def average_figure(lines: Sequence[Line]) -> Figure:
    """Regret per person so far, over people served: a panel for each method."""
    drawn = [line for line in lines if line.case.panel != ""]
    names = list(dict.fromkeys(one.case.panel for one in drawn if one.case.panel is not None))
    columns = max(len(names), 1)
    right = label_margin([line.case.label for line in drawn])
    inside = (_WIDTH - _LEFT - columns * right - (columns - 1) * _GAP) / columns
    height = _BOTTOM + _TOP + 1.2 * _PANEL
    figure = Figure(figsize=(_WIDTH, height), dpi=200)
    FigureCanvasAgg(figure)
    averages = [_average(line)[1] for line in drawn]
    # The average over the first few people is mostly chance.
    top = 1.15 * max(float(mean[len(mean) // 10 :].max()) for mean in averages)
    for place, name in enumerate(names or [""]):
        left = _LEFT + place * (inside + right + _GAP)
        shape = (left / _WIDTH, _BOTTOM / height, inside / _WIDTH, 1.2 * _PANEL / height)
        axes = figure.add_axes(shape)
        plain(axes)
        axes.grid(axis="y", color=FAINT, linewidth=0.6)
        axes.set_ylim(0.0, top)
        mine = [line for line in drawn if line.case.panel in (name, None)]
        colors = iter((VERMILLION, GREEN, BLUE))
        ends = []
        for line in mine:
            at, mean = _average(line)
            stroke = Stroke(next(colors, PURPLE)) if line.case.private else _CHANCE
            axes.plot(at, mean, color=stroke.color, linestyle=stroke.dashes, linewidth=stroke.width)
            ends.append(EndLabel(line.case.label, float(mean[-1]), stroke))
        axes.set_xlim(0.0, float(mine[0].trials[0].rounds[-1]))
        axes.xaxis.set_major_formatter(FuncFormatter(thousands))
        axes.tick_params(labelsize=SMALL)
        axes.set_title(name, loc="left", fontsize=BODY, color=INK)
        axes.set_xlabel("people served", fontsize=BODY, color=INK)
        if place == 0:
            axes.set_ylabel("regret per person so far", fontsize=BODY, color=INK)
        draw_end_labels(axes, ends, 1.2 * _PANEL, inside)
    text = f"mean of {trial_count(drawn)}"
    figure.text(
        1.0 - 0.1 / _WIDTH, 1.0 - 0.12 / height, text, ha="right", va="center",
        fontsize=SMALL, color=_GREY,
    )  # fmt: skip
    return literal(figure)


def _average(line: Line) -> tuple[IntArray, FloatArray]:
    at, mean, _ = line.band()
    average: FloatArray = mean / at
    return at, average
