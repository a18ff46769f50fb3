"""The map of the rewards that an epoch policy expects: a column of the context by arm points.

Colours are what was released: the mean reward believed of every arm in every context. A line joins
the arms that are believed to be best; dots show what people are given. Where a simulation knows
which arm is truly best, or a table tells it in hindsight, that is a second line.

| array     | shape  | meaning                                                             |
|-----------|--------|---------------------------------------------------------------------|
| places    | (n,)   | contexts along the shown column, in declared units                  |
| points    | (K,)   | the arms' points, in ascending order                                |
| mean      | (n, K) | believed mean rewards, in declared units                            |
| given     | (n, K) | probabilities of the arms                                           |
| best      | (n,)   | the point of the arm with the largest `mean`                        |
| truth     | (n,)   | the point of the truly best arm; NaN where it is not known          |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from discreet.action_space import ArmPoints
from discreet.domain import Box
from discreet.learners.epochs.learner import EpochLearner
from discreet.learners.epochs.policy import EpochPolicy
from discreet.learners.registry import learner_class
from discreet.problems.base import Crowd, People, Problem
from discreet.problems.kernel_grid import GridCrowd
from discreet.reporting.map_heads import head
from discreet.reporting.maps import MapPanel, map_panels, named_arms, panel_title_inches
from discreet.reporting.model_maps import COLORS, scale_of
from discreet.reporting.palette import INK, SMALL, VERMILLION, in_lines, literal, shortened
from discreet.studies import ReportEntry
from discreet.validation import FloatArray, IntArray

_GRID = 61  # places along a column that takes any value
_MOST_LEVELS = 61  # of more levels than this only some are shown
_ENOUGH = 20  # people of one context that tell which arm was best for them
_LEFT, _RIGHT, _GAP, _BOTTOM = 0.62, 0.85, 0.3, 0.48  # inches
_FULL_DOT, _LEAST_SHARE = 26.0, 0.02  # square points; shares of people without a dot
_OUTLINE = [withStroke(linewidth=3.0, foreground=INK)]
_HALO = [withStroke(linewidth=3.0, foreground="white")]


@dataclass(frozen=True)
class RewardMap:
    """One cut through a policy (see the module's table).

    Attributes:
        column: of the context that is shown.
        title: where the others stand.
        domain: the public bounds of contexts.
        names: (place, name) of the arms that the axis names.
    """

    column: int
    title: str
    domain: Box
    names: tuple[tuple[float, str], ...]
    places: FloatArray
    points: FloatArray
    mean: FloatArray
    given: FloatArray
    best: FloatArray
    truth: FloatArray


def expects_rewards(learner: str) -> bool:
    """Whether the policies of a registered learner expect rewards of arms."""
    return issubclass(learner_class(learner), EpochLearner)


def on_a_line(problem: Problem) -> bool:
    """Whether arms are points of one column."""
    return isinstance(problem.space, ArmPoints) and problem.space.array.shape[1] == 1


def reward_panels(problem: Problem, report: ReportEntry) -> tuple[MapPanel, ...]:
    """The cuts along the first column that a study's `[report]` asks for."""
    return map_panels(problem.domain, line_report(problem, report))


def line_report(problem: Problem, report: ReportEntry) -> ReportEntry:
    """What a study's `[report]` asks for, of the columns the first alone."""
    return ReportEntry(axes=report.axes[:1] or list(problem.domain.names[:1]), at=report.at)


def reward_map(
    policy: EpochPolicy, problem: Problem, panel: MapPanel, crowd: Crowd | None = None
) -> RewardMap:
    """The cut `panel` through what a policy expects; `crowd` tells what is truly best."""
    assert isinstance(problem.space, ArmPoints)
    domain, (column,) = problem.domain, panel.axes
    levels = domain.levels[column]
    count = _GRID if levels is None else min(levels, _MOST_LEVELS)
    steps = np.linspace(0.0, 1.0, count)
    if levels is not None:
        steps = np.round(steps * (levels - 1)) / (levels - 1)
    unit = np.tile(panel.point, (count, 1))
    unit[:, column] = steps
    contexts = domain.from_unit(unit)
    every = problem.space.array[:, 0]
    order = np.argsort(every)
    bounds = problem.reward_bounds
    mean = bounds.lower + (bounds.upper - bounds.lower) * policy.mean(unit)
    # Not `probabilities`, which refuses contexts that nobody brings.
    given = policy.decision.probabilities(unit)
    known = best_arms(crowd, contexts)
    return RewardMap(
        column,
        panel.title,
        domain,
        tuple((float(every[arm]), problem.arm_names[arm]) for arm in named_arms(problem)),
        contexts[:, column],
        every[order],
        mean[:, order],
        given[:, order],
        every[mean.argmax(axis=1)],
        np.where(known >= 0, every[known], np.nan),
    )


def best_arms(crowd: Crowd | None, contexts: FloatArray) -> IntArray:
    """(n,) the arm that is truly best in each context; -1 where that is not known.

    Where rewards are known and their means are not, it is the arm that was best in hindsight for
    the people of that context, if there are enough of them.
    """
    best = np.full(len(contexts), -1, dtype=np.int64)
    if isinstance(crowd, GridCrowd):
        cells = np.abs(contexts[:, :1] - crowd.grid).argmin(axis=1)
        return np.asarray(crowd.function[cells].argmax(axis=1), dtype=np.int64)
    if isinstance(crowd, People):
        for place, context in enumerate(contexts):
            met = (np.abs(crowd.contexts - context) <= 1e-9).all(axis=1)
            if met.sum() >= _ENOUGH:
                values = crowd.rewards if crowd.means is None else crowd.means
                best[place] = values[met].sum(axis=0).argmax()
    return best


def reward_scale(maps: Sequence[RewardMap], problem: Problem) -> tuple[float, float]:
    """The rewards at the ends of the colours, the same for all maps of a report."""
    return scale_of(np.concatenate([one.mean.ravel() for one in maps]), problem)


def reward_figure(
    maps: Sequence[RewardMap],
    scale: tuple[float, float],
    title: str,
    width: float,
    hindsight: bool = False,
) -> Figure:
    """The maps of one policy, beside each other where `width` inches hold two.

    Args:
        maps: its cuts.
        scale: see `reward_scale`.
        title: above them.
        width: in inches.
        hindsight: whether `truth` is what was best in hindsight.
    """
    columns = min(len(maps), 2 if width > 6.0 else 1)
    rows = -(-len(maps) // columns)
    inside = (width - _LEFT - _RIGHT - _GAP * (columns - 1)) / columns
    size = (inside, min(0.72 * inside, 2.6))
    above_all = head(title, "", _legend(maps, hindsight), _LEFT - 0.02, width)
    titles = [in_lines(shown.title, inside) for shown in maps]
    above = panel_title_inches(titles)
    row = above + size[1] + _BOTTOM
    height = above_all.height + rows * row
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    for place, shown in enumerate(maps):
        across, down = place % columns, place // columns
        left = _LEFT + across * (size[0] + _GAP)
        bottom = height - above_all.height - down * row - above - size[1]
        axes = figure.add_axes((left / width, bottom / height, size[0] / width, size[1] / height))
        colors = _draw_map(axes, shown, scale)
        axes.set_title(titles[place], loc="left", fontsize=SMALL, color=INK, pad=4)
        _label_axes(axes, shown, inside, labelled=across == 0)
        if across == columns - 1 or place == len(maps) - 1:
            start = (left + size[0] + 0.12) / width
            bar = figure.add_axes((start, bottom / height, 0.1 / width, size[1] / height))
            _draw_scale(figure, bar, colors)
    above_all.draw(figure)
    return literal(figure)


def _draw_map(axes: Axes, shown: RewardMap, scale: tuple[float, float]) -> Any:
    """Colours for the mean, dots for what is given, lines for what is best; returns the colours."""
    colors = axes.pcolormesh(
        _edges(shown.places),
        _edges(shown.points),
        shown.mean.T,
        cmap=COLORS,
        norm=Normalize(*scale),
        rasterized=True,
    )
    step = max(1, len(shown.places) // 30)
    across, arm = np.nonzero(shown.given[::step] >= _LEAST_SHARE)
    axes.plot(
        shown.places, shown.truth, color="white", linewidth=1.4, path_effects=_OUTLINE, zorder=3
    )
    axes.plot(
        shown.places, shown.best, color=VERMILLION, linewidth=1.4, path_effects=_HALO, zorder=4
    )
    axes.scatter(
        shown.places[::step][across],
        shown.points[arm],
        s=_FULL_DOT * shown.given[::step][across, arm],
        c=VERMILLION,
        edgecolors="white",
        linewidths=0.6,
        zorder=5,
        clip_on=False,
    )
    return colors


def _label_axes(axes: Axes, shown: RewardMap, width: float, labelled: bool) -> None:
    """The column below; the arms at the left, where there is room for their names."""
    domain, column = shown.domain, shown.column
    axes.set_xlabel(shortened(domain.names[column], width), fontsize=SMALL, color=INK, labelpad=2)
    axes.tick_params(labelsize=SMALL - 0.5, colors="#444444", length=2.5, width=0.6)
    names = domain.categories[column]
    if names:
        low, high = domain.lower[column], domain.upper[column]
        axes.set_xticks(np.linspace(low, high, len(names)), names)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5))
    places, labels = zip(*shown.names, strict=True)
    axes.set_yticks(places, labels if labelled else [""] * len(labels))
    if labelled:
        axes.set_ylabel("arm", fontsize=SMALL, color=INK, labelpad=2)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _draw_scale(figure: Figure, bar: Axes, colors: Any) -> None:
    """The ruler of the colours."""
    ruler = figure.colorbar(colors, cax=bar)
    ruler.outline.set_visible(False)
    ruler.locator = MaxNLocator(5)
    ruler.update_ticks()
    bar.tick_params(labelsize=SMALL - 0.5, colors="#444444", length=2.0, width=0.6)
    bar.set_ylabel("expected reward", fontsize=SMALL, color=INK, labelpad=3)


def _legend(maps: Sequence[RewardMap], hindsight: bool) -> list[Artist]:
    """What lines and dots mean."""
    red: dict[str, Any] = {"color": VERMILLION, "markeredgecolor": "white", "markersize": 5}
    handles: list[Artist] = [
        Line2D([], [], linewidth=1.4, path_effects=_HALO, color=VERMILLION, label="expected best"),
        Line2D([], [], marker="o", linestyle="", label="given", **red),
    ]
    if any(np.isfinite(one.truth).any() for one in maps):
        name = "best in hindsight" if hindsight else "truly best"
        white: dict[str, Any] = {"color": "white", "linewidth": 1.4}
        handles.append(Line2D([], [], path_effects=_OUTLINE, label=name, **white))
    return handles


def _edges(places: FloatArray) -> FloatArray:
    """(n + 1,) the borders of cells around ascending places."""
    between = 0.5 * (places[1:] + places[:-1])
    first, last = 1.5 * places[0] - 0.5 * places[1], 1.5 * places[-1] - 0.5 * places[-2]
    edges: FloatArray = np.concatenate([[first], between, [last]])
    return edges
