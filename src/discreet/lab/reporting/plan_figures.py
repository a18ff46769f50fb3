"""The figures of a plan: what each epsilon costs people, how many people it takes, and what it
means for one person in icons of 100."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from discreet.lab.experiments import BEST_FIXED
from discreet.lab.planning.curves import interval
from discreet.lab.planning.forecast import KEEP, Forecast, PlanLine, student
from discreet.lab.planning.odds import PRIORS, Explanation, out_of_100
from discreet.lab.reporting.figures import Axis, lines, number_axis
from discreet.lab.reporting.layout import (
    BLUE,
    BODY,
    CHANCE,
    FAINT,
    GREY,
    INK,
    NARROW,
    SMALL,
    SOLID,
    VERMILLION,
    WIDE,
    Stroke,
    entitle,
    finish,
    name_ends,
    shade,
    sheet,
    tints,
)
from discreet.validation import FloatArray, one_of

_BEYOND = "#f3f3f5"  # behind what is extrapolated
_FREE = Stroke(shade(BLUE, 0.6), (0, (5, 2)))
_ONE = Stroke(GREY, (0, (5, 2, 1, 2)), 1.4)
_LOWEST, _HIGHEST = -0.25, 1.05  # of what is kept, as it is drawn
_DOT, _SMALL_DOT = 5.6, 4.0  # points, of an icon


def loss_figure(forecast: Forecast, width: float = WIDE, height: float = 2.7) -> Figure:
    """The metric for each person against epsilon, with no privacy, one choice for everyone and
    chance as lines."""
    reward = forecast.problem.metric == "reward"
    sign = 1.0 if reward else -1.0

    def point(line: PlanLine, name: str, x: float) -> dict[str, object]:
        worth = student(sign * line.worth[:, -1])
        half = worth.high - worth.mean
        return {"name": name, "label": name, "x": x, "mean": worth.mean, "half_width": half}

    points = [point(line, "private", line.setting.budget.epsilon) for line in forecast.private]
    points.append(point(forecast.free, "no privacy", np.nan))
    if forecast.fixed:
        points.append(point(forecast.reference, "one choice for everyone", np.nan))
    points.append(point(forecast.chance, "at random", np.nan))
    styles = {
        "private": Stroke(BLUE, SOLID, mark="o"),
        "no privacy": _FREE,
        "one choice for everyone": _ONE,
        "at random": CHANCE,
    }
    epsilons = forecast.epsilons
    title = f"{'reward' if reward else 'regret'} per person, {forecast.people:,} people"
    return lines(
        pd.DataFrame(points).assign(panel=title),
        styles,
        x=Axis(
            "epsilon (smaller is more private)",
            log=True,
            limits=(epsilons[0] / 1.35, epsilons[-1] * 1.35),
            ticks=epsilons,
            names=[f"{epsilon:g}" for epsilon in epsilons],
        ),
        y=Axis(limits=_limits(points), most=6),
        intervals="bars",
        width=width,
        height=height,
    )


def _limits(points: Sequence[dict[str, object]]) -> tuple[float, float]:
    """Ends of the vertical axis that show all means and their intervals."""
    frame = pd.DataFrame(points)
    half = frame["half_width"].fillna(0.0)
    low, high = float((frame["mean"] - half).min()), float((frame["mean"] + half).max())
    pad = max(0.06 * (high - low), 1e-9)
    return low - pad, high + pad


def people_figure(forecast: Forecast, width: float = WIDE, height: float = 3.1) -> Figure:
    """The share of the gain that is kept against the number of people, for each epsilon; shaded
    where it is extrapolated."""
    figure, [[axes]] = sheet(width=width)
    grid, kept = forecast.grid, forecast.kept
    people = forecast.people
    number_axis(
        axes.xaxis,
        Axis(
            log=True,
            limits=(float(grid[0]), float(grid[-1])),
            ticks=[*forecast.horizons, *_steps(people, float(grid[-1]))],
        ),
    )
    number_axis(
        axes.yaxis,
        Axis(
            limits=(_LOWEST, _HIGHEST),
            ticks=(0.0, *KEEP, 1.0),
            names=("0%", *(f"{share:.0%}" for share in KEEP), "100%"),
        ),
    )
    axes.axvspan(people, float(grid[-1]), color=_BEYOND, linewidth=0, zorder=0)
    axes.annotate(
        "extrapolated", (people, _LOWEST), (4, 3), textcoords="offset points", va="bottom",
        fontsize=SMALL, color=GREY,
    )  # fmt: skip
    axes.axhline(0.0, color=GREY, linewidth=0.8)
    ends = []
    for place, color in enumerate(tints(BLUE, len(forecast.epsilons))):
        rows = kept[:, place]
        best = forecast.kept_at_best[1:, place]
        ends_at = [interval(_known(rows[1:, at]), _known(best[:, at])) for at in range(len(grid))]
        bands = np.array(ends_at)
        middle = np.clip(rows[0], 2 * _LOWEST, 2.0)
        low, high = (np.clip(bands[:, side], 2 * _LOWEST, 2.0) for side in (0, 1))
        axes.fill_between(grid, low, high, color=color, alpha=0.16, linewidth=0)
        inside = grid <= people
        axes.plot(grid[inside], middle[inside], color=color, linewidth=1.8)
        axes.plot(grid[~inside], middle[~inside], color=color, linewidth=1.8, linestyle=(0, (4, 2)))
        known = middle[np.isfinite(middle)]
        last = float(np.clip(known[-1], _LOWEST, _HIGHEST)) if len(known) else _LOWEST
        ends.append((f"epsilon {forecast.epsilons[place]:g}", last, color))
    name_ends(axes, ends)
    axes.set_xlabel("people served", fontsize=BODY, color=INK)
    entitle(axes, "share of the gain without privacy that is kept", 0.85 * width)
    return finish(figure, height)


def _steps(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, ... between numbers of people, at some distance from the lower one."""
    steps = LogLocator(subs=(1.0, 2.0, 5.0), numticks=50).tick_values(low, high)
    return [float(step) for step in steps if 1.5 * low < step <= high]


def _known(values: FloatArray) -> FloatArray:
    """Values with minus infinity where they are unknown."""
    known: FloatArray = np.where(np.isnan(values), -np.inf, values)
    return known


def odds_figure(
    explanations: dict[float, Explanation], prior: int = 0, width: float = WIDE
) -> Figure:
    """Icons of 100: how certain an observer can become without a person's data, and with them.

    Args:
        explanations: by epsilon.
        prior: which of the priors: 0 for 50 out of 100, 1 for 1 out of 100.
        width: of the figure.
    """
    columns = 3 if width <= NARROW else max(4, min(6, 1 + len(explanations)))
    place = one_of(prior, "prior", range(len(PRIORS)))
    odds = [each.odds[place] for each in explanations.values()]
    first = out_of_100(odds[0].prior)
    panels = [("you do not take part", first, first)]
    for epsilon, moved in zip(explanations, odds, strict=True):
        panels.append((f"you do, epsilon {epsilon:g}", first, out_of_100(moved.most)))
    rows = -(-len(panels) // columns)
    figure, grid = sheet(rows, columns, width=width)
    for place, axes in enumerate(grid.flat):
        if place >= len(panels):
            axes.remove()
            continue
        title, before, after = panels[place]
        _icons(axes, before, after, _DOT if width > NARROW else _SMALL_DOT)
        sure = f"{'at most ' if place else ''}{after} out of 100"
        entitle(axes, f"{title}:\n{sure if after < 100 else 'as good as certain'}", size=SMALL)
    return finish(figure, 1.25 if width > NARROW else 0.95)


def _icons(axes: Axes, before: int, after: int, size: float) -> None:
    """100 dots, ten in a row, from the lower left: the prior, what the data add, and the rest."""
    number = np.arange(100)
    x, y = number % 10, number // 10
    kinds = ((number < before, BLUE), ((number >= before) & (number < after), VERMILLION))
    axes.plot(x, y, "o", color=FAINT, markersize=size, linestyle="none")
    for chosen, color in kinds:
        axes.plot(x[chosen], y[chosen], "o", color=color, markersize=size, linestyle="none")
    axes.set(xlim=(-0.7, 9.7), ylim=(-0.7, 9.7), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.grid(False)


def growth_figure(forecast: Forecast, width: float = WIDE, height: float = 2.9) -> Figure:
    """The gain of each epsilon, and of no privacy, against the number of people simulated."""
    hues = tints(BLUE, len(forecast.epsilons))
    named = [
        (f"epsilon {e:g}", line)
        for e, line in zip(forecast.epsilons, forecast.private, strict=True)
    ]
    styles = {name: Stroke(hue, mark="o") for (name, _), hue in zip(named, hues, strict=True)}
    styles |= {
        "no privacy": Stroke(_FREE.color, _FREE.dashes, mark="o"),
        "reference": _ONE,
        "at random": CHANCE,
    }
    named += [("no privacy", forecast.free), ("at random", forecast.chance)]
    points = []
    for name, line in named:
        for place, people in enumerate(forecast.horizons):
            gain = student(line.gain[:, place])
            half = gain.high - gain.mean
            points.append({"name": name, "x": people, "mean": gain.mean, "half_width": half})
    over = "one choice for everyone" if forecast.reference.learner == BEST_FIXED else "chance"
    first, last = forecast.horizons[0], forecast.horizons[-1]
    return lines(
        pd.DataFrame(points).assign(panel=f"gain per person over {over}"),
        styles,
        x=Axis(
            "people served", log=True, limits=(0.9 * first, 1.1 * last), ticks=forecast.horizons,
        ),
        y=Axis(limits=_limits(points), most=6),
        width=width,
        height=height,
    )  # fmt: skip
