"""What the figures of searches share: the sheet, its axes, and the looks of methods.

What has no guarantee never has the colour of what has one; references are grey.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from discreet.reporting.palette import (
    BLUE,
    FAINT,
    GREEN,
    PURPLE,
    SMALL,
    VERMILLION,
    Stroke,
    tint,
)
from discreet.reporting.plots import plain
from discreet.reproduction.kharkovskii2020.methods import (
    NON_PRIVATE,
    NON_PRIVATE_EI,
    RANDOM,
    Ours,
    Published,
)
from discreet.reproduction.kharkovskii2020.searches import Line
from discreet.validation import FloatArray

WIDTH, _DOTS = 10.4, 200
# Inches.
LEFT, BOTTOM, TOP, GAP = 0.62, 0.45, 0.55, 0.12
PANEL, BETWEEN = 1.75, 0.62
_GREY, _DARK = "#8A8A8A", "#3A3A3A"
REFERENCES = {
    NON_PRIVATE: Stroke(_DARK, (0, (5, 2)), 1.3),
    NON_PRIVATE_EI: Stroke(_DARK, (0, (5, 2, 1, 2)), 1.3),
    RANDOM: Stroke(_GREY, (0, (1, 1.5)), 1.5),
}
# Regret below this share of the largest is at the bottom of a logarithmic axis.
_LEAST_SHARE = 3e-3


def groups_of(lines: Sequence[Line]) -> dict[str, list[Line]]:
    """Lines by the table or figure that they belong to, in order."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(line.entry.group, []).append(line)
    return groups


def sheet(
    rows: int, lines: Sequence[Line], legend: bool = False
) -> tuple[Figure, list[float], float]:
    """A figure with room for rows of panels, the bottoms of these and its height, in inches."""
    top = TOP + 0.4 * legend
    height = BOTTOM + top + rows * PANEL + (rows - 1) * BETWEEN
    figure = Figure(figsize=(WIDTH, height), dpi=_DOTS)
    FigureCanvasAgg(figure)
    counts = sorted({len(line.runs) for line in lines})
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    text = f"mean of {runs} run{'s' * (counts != [1])}; bands and bars: 95% intervals"
    figure.text(
        1.0 - 0.1 / WIDTH,
        1.0 - 0.12 / height,
        text,
        ha="right",
        va="center",
        fontsize=SMALL,
        color="#6B6B6B",
    )
    bottoms = [height - top - PANEL - row * (PANEL + BETWEEN) for row in range(rows)]
    return figure, bottoms, height


def limits_of(
    bands: Sequence[tuple[FloatArray, FloatArray]], log_scale: bool
) -> tuple[float, float]:
    """The vertical axis for means and errors: a little more than they span."""
    top = max(float((mean + error).max()) for mean, error in bands)
    if not log_scale:
        return -0.03 * max(top, 1e-9), 1.05 * max(top, 1e-9)
    low = min(float(mean.min()) for mean, _ in bands)
    return max(0.8 * low, _LEAST_SHARE * top, 1e-9), 1.15 * max(top, 1e-9)


def floor_of(axes: Axes) -> float:
    """The lowest value that can be seen, a little above the border: what is less is drawn there."""
    low, high = axes.get_ylim()
    return low if low < 0.0 else float(low * (high / low) ** 0.025)


def prepare(axes: Axes, limits: tuple[float, float], log_scale: bool) -> None:
    """Quiet axes with these vertical limits."""
    plain(axes)
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    if log_scale:
        axes.set_yscale("log")
        wide = limits[1] / limits[0] > 30.0
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_ylim(*limits)
    axes.tick_params(labelsize=SMALL)


def hue_of(line: Line) -> str:
    """The colour of a method; published ones have one for each branch of Algorithm 1."""
    if isinstance(line.method, Published):
        return PURPLE if line.facts["branch"] == "if" else VERMILLION
    if isinstance(line.method, Ours):
        return GREEN if line.method.published_rule else BLUE
    return _GREY


def strokes_of(lines: Sequence[Line]) -> list[Stroke]:
    """Hues by method, darker for a larger epsilon; references are grey."""
    made = []
    for line in lines:
        if line.method.epsilon is None:
            made.append(REFERENCES[line.method.name])
            continue
        mine = [other.method.epsilon or 0.0 for other in lines if hue_of(other) == hue_of(line)]
        rank = sorted(set(mine)).index(line.method.epsilon)
        strength = 1.0 - 0.3 * (len(set(mine)) - 1 - rank)
        dashes: tuple[int, tuple[float, ...]] = (0, ())
        if hue_of(line) in (PURPLE, GREEN):
            dashes = (0, (4, 1))
        made.append(Stroke(tint(hue_of(line), max(strength, 0.35)), dashes))
    return made
