"""How the regret per person fell while people were served, by what was known beforehand.

A column of panels for each method, as in Figure 6 of Ma et al. (2025): regret over all people, at
one context, and how often each arm was offered at that context, from `cases.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from discreet.reporting.figures import Axis, draw_lines, number_axis
from discreet.reporting.layout import finish, legend_above, sheet
from discreet.reporting.palette import (
    BODY,
    GREY,
    INK,
    PURPLE,
    SKY,
    SMALL,
    VERMILLION,
    Stroke,
    arm_colors,
)
from discreet.reporting.reproduction import CHANCE, counted
from discreet.reproduction.base import Results
from discreet.reproduction.cases import LOCAL_REGRET, REGRET, Context

# None of them is the colour of one of the first three arms.
_HUES = (VERMILLION, PURPLE, "#222222", SKY)
_GIVEN_UP = {"color": "black", "linestyle": (0, (4, 2)), "linewidth": 1.1}
_CURVE, _SHARES = 1.75, 0.8  # inches: heights of axes


def average_figure(results: Results, context: Context) -> Figure:
    """Regret per person so far, the same at a context, and shares of arms there."""
    curves = results.curves
    average = curves[curves["metric"] == REGRET]
    average = average.assign(mean=average["mean"] / average["at"])
    local = curves[curves["metric"] == LOCAL_REGRET]
    kinds = [
        frame.assign(name=frame["label"], x=frame["at"], half_width=0.0)
        for frame in (average, local)
    ]
    names = list(dict.fromkeys(average["panel"].dropna())) or [""]
    shown = max(
        (curves[curves["panel"] == name]["case"].nunique() for name in names if name), default=0
    )
    columns = min(len(names), 2)
    blocks = -(-len(names) // columns)
    heights = ([_CURVE, _CURVE] + [_SHARES] * shown) * blocks
    figure, grid = sheet(len(heights), columns, heights=heights)
    place = place_name(context)
    once = results.trials.drop_duplicates(["case", "trial", "given_up"])
    given_up = once.dropna(subset="given_up").groupby("case")["given_up"]
    for number, name in enumerate(names):
        row, column = divmod(number, columns)
        axes = grid[row * (2 + shown) : (row + 1) * (2 + shown), column]
        mine = [frame[frame["panel"].isna() | (frame["panel"] == name)] for frame in kinds]
        strokes = _strokes(mine[0].drop_duplicates("case"))
        for panel, frame, everywhere, where in zip(
            axes, mine, kinds, ("over all people", f"at {place}"), strict=False
        ):
            panel.set_ylim(0.0, _ceiling(everywhere))
            panel.set_xlim(0.0, float(frame["at"].max()))
            draw_lines(panel, frame, strokes)
            method = f"{name}: " if panel is axes[0] and name else ""
            title = f"{method}regret per person so far, {where}"
            panel.set_title(title, loc="left", fontsize=BODY, color=INK)
            number_axis(panel.xaxis, Axis(whole=True))
            number_axis(panel.yaxis, Axis(most=4))
        probed = curves[curves["panel"] == name]
        for panel, (key, case) in zip(axes[2:], probed.groupby("case"), strict=False):
            last = given_up.get_group(key) if key in given_up.groups else pd.Series(dtype=float)
            _draw_shares(panel, case, last, place)
            if case["trials"].max() == 1 and len(last):
                _mark_given_up(axes[1], case, last, strokes)
            number_axis(panel.xaxis, Axis(whole=True))
        axes[-1].set_xlabel("people served", fontsize=SMALL, color=INK)
    legend_above(figure, _arms(results.trials, place))
    return finish(figure, _CURVE, note=f"mean of {counted(results.ends)}")


def place_name(context: Context) -> str:
    """A context as a text, with fractions where they are simple: (1/3, 1/3)."""
    return f"({', '.join(map(_number, context))})"


def _number(value: float) -> str:
    simple = Fraction(value).limit_denominator(12)
    return str(simple) if abs(float(simple) - value) < 1e-12 else f"{value:g}"


def _strokes(cases: pd.DataFrame) -> dict[str, Stroke]:
    """A colour for each line with a promise, dots for others."""
    colors = iter(_HUES)
    return {
        label: Stroke(next(colors, GREY)) if np.isfinite(epsilon) else CHANCE
        for label, epsilon in zip(cases["label"], cases["epsilon"], strict=True)
    }


def _ceiling(frame: pd.DataFrame) -> float:
    """The top of an axis; the average over the first few people is mostly chance."""
    settled = frame[frame["at"] >= 0.1 * frame["at"].max()]
    return 1.15 * float(settled["mean"].max()) or 1.0


def _mark_given_up(
    axes: Axes, curves: pd.DataFrame, given_up: pd.Series[float], strokes: dict[str, Stroke]
) -> None:
    """A triangle on the curve of a single trial where an arm was offered for the last time."""
    regret = curves[curves["metric"] == LOCAL_REGRET]
    axes.plot(
        given_up, np.interp(given_up, regret["at"], regret["mean"]), marker="v", markersize=6.0,
        color=strokes[str(curves["label"].iloc[0])].color, markeredgecolor="white",
        markeredgewidth=0.6, linestyle="none", clip_on=False, zorder=3.0,
    )  # fmt: skip


def _draw_shares(axes: Axes, curves: pd.DataFrame, given_up: pd.Series[float], place: str) -> None:
    """The mean over trials of the share of each arm, the first at the bottom, and a vertical line
    where an arm was offered for the last time, fainter for fewer trials."""
    shares = curves[curves["metric"].str.startswith("share_of_arm")]
    stacked = shares.pivot(index="at", columns="metric", values="mean")
    stacked = stacked[list(dict.fromkeys(shares["metric"]))]
    axes.stackplot(
        stacked.index, stacked.to_numpy().T, colors=arm_colors(stacked.shape[1]), linewidth=0.0
    )
    axes.set_xlim(0.0, float(stacked.index.max()))
    axes.set_ylim(0.0, 1.0)
    axes.set_yticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])
    trials = shares["trials"].max()
    for at, count in given_up.value_counts().items():
        axes.axvline(at, alpha=max(count / trials, 0.15), **_GIVEN_UP)  # type: ignore[arg-type]
    label = curves["label"].iloc[0]
    axes.set_title(f"{label}: arms at {place}", loc="left", fontsize=SMALL, color=INK)


def _arms(trials: pd.DataFrame, place: str) -> Sequence[Patch | Line2D]:
    """Which colour is which arm, and what the vertical lines are."""
    means = trials.dropna(subset="mean_reward").drop_duplicates("metric")["mean_reward"]
    best = means.to_numpy().argmax()
    names = [f"arm {k + 1}" for k in range(len(means))]
    names[best] += f", the best at {place}"
    patches = [
        Patch(facecolor=color, label=name)
        for color, name in zip(arm_colors(len(names)), names, strict=True)
    ]
    text = "an arm is given up there: it is not offered again"
    return [*patches, Line2D([], [], marker="v", markersize=5.0, label=text, **_GIVEN_UP)]  # type: ignore[arg-type]
