"""How often each arm was offered at one context while people were served: stacked areas."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from discreet.reporting.palette import INK, SMALL, arm_colors
from discreet.reporting.plots import plain
from discreet.reproduction.probes import Context, LocalTrace

# The share of a panel's width that a mark at its border is moved inside by.
_EDGE = 0.012
_DASHES = (0, (4, 2))


def place_name(context: Context) -> str:
    """A context as a text, with fractions where they are simple: (1/3, 1/3)."""
    return f"({', '.join(map(_number, context))})"


def _number(value: float) -> str:
    simple = Fraction(value).limit_denominator(12)
    return str(simple) if abs(float(simple) - value) < 1e-12 else f"{value:g}"


def draw_shares(axes: Axes, traces: Sequence[LocalTrace]) -> None:
    """The mean over trials of the share of each arm, the first at the bottom."""
    first = traces[0]
    shares = np.mean([trace.shares for trace in traces], axis=0)
    plain(axes)
    axes.stackplot(first.rounds, shares.T, colors=arm_colors(shares.shape[1]), linewidth=0.0)
    axes.set_xlim(0.0, float(first.rounds[-1]))
    axes.set_ylim(0.0, 1.0)
    axes.set_yticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])
    axes.spines["bottom"].set_visible(False)
    draw_given_up(axes, traces)


def draw_given_up(axes: Axes, traces: Sequence[LocalTrace]) -> None:
    """A vertical line where an arm was offered for the last time, fainter for more trials."""
    width = float(traces[0].rounds[-1])
    strength = max(1.0 / len(traces), 0.15)
    for trace in traces:
        for at in sorted(set(trace.given_up.values())):
            place = min(max(float(at), _EDGE * width), (1.0 - _EDGE) * width)
            axes.axvline(place, color="black", linestyle=_DASHES, linewidth=1.1, alpha=strength)


def arm_legend(figure: Figure, trace: LocalTrace, context: Context, left: float, at: float) -> None:
    """One line that says which colour is which arm, and what the vertical lines are.

    Args:
        trace: of any trial.
        left, at: where it starts and its middle, as shares of the figure.
    """
    names = [f"arm {k + 1}" for k in range(len(trace.means))]
    names[trace.best] += f", the best at {place_name(context)}"
    patches = [
        Patch(facecolor=color, label=name)
        for color, name in zip(arm_colors(len(names)), names, strict=True)
    ]
    mark = Line2D(
        [], [], color="black", linestyle=_DASHES, linewidth=1.1, marker="v", markersize=5.0,
        label="an arm is given up there: it is not offered again",
    )  # fmt: skip
    figure.legend(
        handles=[*patches, mark],
        loc="center left",
        bbox_to_anchor=(left, at),
        borderaxespad=0.0,
        ncols=len(names) + 1,
        frameon=False,
        fontsize=SMALL,
        labelcolor=INK,
        handlelength=2.0,
        columnspacing=1.6,
    )
