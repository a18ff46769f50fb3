"""Figures of a study: how the metric grew over people, and what each epsilon costs.

Figures are made with Matplotlib's object-oriented interface and never touch pyplot's global
state. Sizes are in inches, so that a figure of width w is 96 w CSS pixels wide; a narrow figure is
drawn anew for small screens, not shrunk. The map of a policy is in maps.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from discreet.experiments import BEST_FIXED, ORACLE, Outcome
from discreet.intervals import mean_and_band
from discreet.problems.base import Metric
from discreet.reporting.end_labels import EndLabel, draw_end_labels, label_margin, stacked_height
from discreet.reporting.palette import (
    BODY,
    FAINT,
    INK,
    SMALL,
    Stroke,
    in_lines,
    literal,
    strokes,
    text_inches,
)
from discreet.reporting.summary import UNIFORM, Line, Summary
from discreet.validation import FloatArray, IntArray

WIDE, NARROW = 9.3, 3.8

# A running average over few people is mostly chance: it is drawn from this share of the people on
# and sets the scale from the other.
_DRAWN, _SETTLED = 0.01, 0.1
# A reference leaves the chart where it would take up more than this share of the height, which is
# needed for what is compared; regret is seen from 0 on.
_ROOM = {"reward": 0.4, "regret": 2.0 / 3.0}
_TOGETHER = "epsilon\u00a0"  # a line does not break here


def progress_figure(
    outcomes: Sequence[Outcome], summary: Summary, width: float = WIDE, height: float = 4.0
) -> Figure:
    """The metric against people served: mean and 95% band over replicates.

    Rewards are shown as the running average per person, regret as the sum so far.
    """
    curves = [_curve(line, outcomes, summary.metric) for line in summary.lines]
    labels = [_wrapped(_end_name(line, summary), width) for line in summary.lines]
    figure, axes, size = _panel(width, height, labels)
    styles = strokes(summary)
    settled = []
    ends = []
    for line, (at, mean, half), text in zip(summary.lines, curves, labels, strict=True):
        style = styles[line.label]
        axes.plot(at, mean, color=style.color, linestyle=style.dashes, linewidth=style.width)
        axes.fill_between(at, mean - half, mean + half, color=style.color, alpha=0.12, linewidth=0)
        late = at >= _SETTLED * at[-1] if summary.metric == "reward" else at > 0
        if line not in outside(summary):
            settled.append((mean[late], half[late]))
        ends.append(EndLabel(text, float(mean[-1]), style))
    axes.set_xlim(0, float(summary.rounds))
    axes.set_ylim(*_limits(settled, summary.metric))
    axes.set_xlabel("people served", fontsize=BODY, color=INK)
    axes.set_title(
        "reward per person so far (running average)"
        if summary.metric == "reward"
        else "regret summed over people so far",
        loc="left",
        fontsize=BODY,
        color=INK,
    )
    axes.xaxis.set_major_locator(MaxNLocator(5 if width > 6 else 3, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(thousands))
    draw_end_labels(axes, ends, size[1], size[0])
    return literal(figure)


def epsilon_figure(summary: Summary, width: float = WIDE, height: float = 4.0) -> Figure:
    """The metric against epsilon for each private learner, references as horizontal lines."""
    scale = summary.rounds if summary.metric == "reward" else 1
    families = list(dict.fromkeys(line.family for line in summary.private))
    names = [f"{family}, private" for family in families]
    others = [_end_name(line, summary) for line in summary.references]
    labels = [_wrapped(text, width) for text in [*names, *others]]
    figure, axes, size = _panel(width, height, labels)
    styles = strokes(summary)
    ends = []
    for line, name in zip(summary.references, others, strict=True):
        style = styles[line.label]
        value = line.mean / scale
        axes.axhline(value, color=style.color, linestyle=style.dashes, linewidth=1.2)
        ends.append(EndLabel(_wrapped(name, width), value, style))
    for family, name in zip(families, names, strict=True):
        lines = [line for line in summary.private if line.family == family]
        lines.sort(key=lambda line: line.epsilon or 0.0)
        style = styles[lines[-1].label]
        # A little apart, so that bars at the same epsilon can be told apart.
        aside = 1.03 ** (families.index(family) - 0.5 * (len(families) - 1))
        last = _tradeoff(axes, lines, style, scale, aside)
        ends.append(EndLabel(_wrapped(name, width), last, style))
    spans = [
        (np.array([line.mean / scale]), np.array([(line.half_width or 0.0) / scale]))
        for line in summary.lines
        if line not in outside(summary)
    ]
    axes.set_ylim(*_limits(spans, summary.metric))
    _epsilon_axis(axes, sorted({line.epsilon or 0.0 for line in summary.private}), size[0])
    axes.set_title(
        "reward per person" if summary.metric == "reward" else "regret summed over all people",
        loc="left",
        fontsize=BODY,
        color=INK,
    )
    draw_end_labels(axes, ends, size[1], size[0])
    return literal(figure)


def _tradeoff(axes: Axes, lines: Sequence[Line], style: Stroke, scale: int, aside: float) -> float:
    """One learner over its budgets, led on to the right border; returns the height there."""
    epsilons = [aside * (line.epsilon or 0.0) for line in lines]
    means = [line.mean / scale for line in lines]
    half = [(line.half_width or 0.0) / scale for line in lines]
    axes.errorbar(
        epsilons,
        means,
        yerr=half,
        color=style.color,
        linewidth=style.width,
        marker="o",
        markersize=5,
        capsize=3,
    )
    axes.plot(
        [epsilons[-1], 1e3 * epsilons[-1]], [means[-1]] * 2, color=style.color, lw=0.8, alpha=0.6
    )
    return means[-1]


def _curve(
    line: Line, outcomes: Sequence[Outcome], metric: Metric
) -> tuple[IntArray, FloatArray, FloatArray]:
    """People, mean and half the width of the band for one setting."""
    mine = [outcome for outcome in outcomes if outcome.setting.label == line.label]
    at = mine[0].rounds
    traces = np.stack([outcome.trace for outcome in mine])
    if metric == "reward":
        drawn = at >= _DRAWN * at[-1]
        at, traces = at[drawn], traces[:, drawn] / at[drawn]
    return at, *mean_and_band(traces)


def _panel(
    width: float, height: float, labels: Sequence[str]
) -> tuple[Figure, Axes, tuple[float, float]]:
    """A figure with one plain panel that leaves room for labels at its right, and its size."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    left, right, bottom, top = 0.55, label_margin(labels), 0.5, 0.35
    height = max(height, stacked_height(labels) + bottom + top)
    figure.set_figheight(height)
    inside = (width - left - right, height - bottom - top)
    axes = figure.add_axes((left / width, bottom / height, inside[0] / width, inside[1] / height))
    plain(axes)
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_formatter(FuncFormatter(thousands))
    return figure, axes, inside


def plain(axes: Axes) -> None:
    """No box, quiet ticks."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#888888")
    axes.tick_params(labelsize=SMALL, colors="#444444", length=3, width=0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_axisbelow(True)


def _epsilon_axis(axes: Axes, epsilons: Sequence[float], width: float) -> None:
    axes.set_xscale("log")
    if epsilons:
        axes.set_xlim(epsilons[0] / 1.35, epsilons[-1] * 1.35)
        names = _spaced(epsilons, width / math.log(epsilons[-1] / epsilons[0] * 1.35**2))
        axes.set_xticks(epsilons, names)
    else:
        axes.set_xticks([])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("epsilon (smaller is more private)", fontsize=BODY, color=INK)


def _spaced(epsilons: Sequence[float], scale: float) -> list[str]:
    """The names of ticks at `scale` inches for each e-fold, empty where there is no room."""
    names: list[str] = []
    end = -math.inf
    for epsilon in epsilons:
        text = f"{epsilon:g}"
        middle, half = scale * math.log(epsilon), 0.5 * text_inches(text)
        fits = middle - half > end + 0.05
        names.append(text if fits else "")
        end = middle + half if fits else end
    return names


def _limits(spans: Sequence[tuple[FloatArray, FloatArray]], metric: Metric) -> tuple[float, float]:
    """Limits of the vertical axis for means and half widths of their intervals.

    Regret starts a little below 0, so that 0 can be seen. A wide interval (two replicates) is cut
    off rather than that the means, which are compared, are pressed into one line.
    """
    low, high = min(mean.min() for mean, _ in spans), max(mean.max() for mean, _ in spans)
    reach = 0.35 * max(high - low, 1e-3 * max(abs(high), abs(low)))
    below = max(min((mean - half).min() for mean, half in spans), low - reach)
    above = min(max((mean + half).max() for mean, half in spans), high + reach)
    if metric == "regret":
        top = max(1.04 * above, 1e-9)
        return -0.03 * top, top
    pad = max(0.06 * (above - below), 1e-3 * max(abs(above), abs(below)), 1e-9)
    return float(below - pad), float(above + pad)


def outside(summary: Summary) -> list[Line]:
    """References that leave the chart, so that the others can be told apart.

    The oracle of a small table, which is fitted to chance, may be far above what can be learnt; so
    may be the regret of choices that learn nothing.
    """
    kinds = (ORACLE,) if summary.metric == "reward" else (UNIFORM, BEST_FIXED)
    others = [line for line in summary.lines if line.learner not in kinds]
    rest = [(line.mean, line.half_width or 0.0) for line in others]
    if not rest:
        return []
    low = min(mean - half for mean, half in rest) if summary.metric == "reward" else 0.0
    high = max(mean + half for mean, half in rest)
    room = _ROOM[summary.metric]
    limit = high + room / (1.0 - room) * (high - low)
    return [line for line in summary.lines if line.learner in kinds and line.mean > limit]


def _end_name(line: Line, summary: Summary) -> str:
    """The label; where the line is outside the chart, with its value."""
    if line not in outside(summary):
        return line.label
    reward = summary.metric == "reward"
    value = f"{line.mean / summary.rounds:.3g}" if reward else f"{line.mean:,.0f}"
    return f"{line.label}: {value}, above"


def _wrapped(label: str, width: float) -> str:
    """A label in lines that leave the chart most of the width."""
    return in_lines(label.replace("epsilon ", _TOGETHER), 0.28 * width).replace("\u00a0", " ")


def thousands(value: float, position: int | None = None) -> str:
    """A tick of an axis: 20,000 or 0.35."""
    return f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value:g}"
