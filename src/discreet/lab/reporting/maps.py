"""Maps of policies: who is given which arm, and the reward that is expected, by column.

A map evaluates a policy on a grid over one or two columns; the other columns stand where the
study's `[report]` puts them, near their middle otherwise. A column that takes few values has a cell
for each of them.

| map         | of a policy with                    | shows                                      |
|-------------|-------------------------------------|--------------------------------------------|
| `ArmMap`    | probabilities of arms               | the most probable arm, stronger the more   |
|             |                                     | probable; all shares over one column       |
| `RewardMap` | `expected_rewards`, and arms that   | expected reward by context and arm, the    |
|             | are points on a line                | best arms, and what people are given       |
| `ModelMap`  | `predict`                           | expected reward and its deviation, where   |
|             |                                     | people are sent, and the true optimum      |

| array     | shape     | meaning                                                            |
|-----------|-----------|--------------------------------------------------------------------|
| places    | (n,) each | of the grid along each shown column, in declared units             |
| chances   | (.., K)   | probabilities of the arms at the N places of the grid              |
| mean      | (N,)      | expected reward; in a `RewardMap` (n, K), arms in ascending order  |
| deviation | (N,)      | its standard deviation                                             |
| possible  | (N,)      | whether anyone can be given the point; the rest stays blank        |
| sent      | (m, a)    | where people are sent, and `shares` (m,) of the people             |
| best      | (k, a)    | where the mean reward is truly highest                             |
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis as MatplotlibAxis
from matplotlib.axis import XAxis
from matplotlib.colors import to_rgb, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from scipy.ndimage import maximum_filter

from discreet.lab.environments.base import Population, Problem
from discreet.lab.experiments import UNIFORM, Outcome, people_of
from discreet.lab.reporting.figures import Axis, EvenTicks, heat, number_axis, ruler
from discreet.lab.reporting.layout import (
    BLUE,
    INK,
    SMALL,
    VERMILLION,
    WIDE,
    arm_colors,
    entitle,
    finish,
    legend_above,
    sheet,
    shortened,
    tint,
)
from discreet.lab.reporting.numbers import listed
from discreet.lab.reporting.page import Image, image, small_image
from discreet.lab.reporting.summary import Summary
from discreet.lab.studies import ReportEntry, Study
from discreet.learners.policy import ArmPolicy
from discreet.people.domain import ArmPoints, Box, DecisionSets, PublicSet, arm_count
from discreet.validation import BoolArray, FloatArray, IntArray, InvalidInput

_CELLS = 64  # along a column of any value; a power of 2 meets the borders of halved boxes
_GRID, _FINE = 61, 121  # places along a column of a model, and where its optimum is searched
_FEW_TICKS = 7  # along a column
_FEW_LEVELS = 4  # another column with at most as many levels has a panel for each
_MANY_ARMS, _SOME_ARMS = 12, 7  # of more points than the first the legend names the second
_LEAST_SHARE = 0.02  # a smaller share of the people has no dot
_DRAWS, _PEOPLE = 2000, 15  # choices of a policy for everyone, and people with sets of their own
_MOST_BEST = 6  # more optima than this are a plateau, which marks cannot show
_HALF = 4.5  # inches: two maps beside each other
_MOST_FIGURES = 16  # of further columns: a few seconds and megabytes
_UNDECIDED, _BLANK = "#BDBDBD", "#EDEDED"
_THIN = [withStroke(linewidth=1.6, foreground=(0.13, 0.13, 0.13, 0.55))]
_DOT: dict[str, Any] = {"color": VERMILLION, "markeredgecolor": "white"}
_BEST_LINE: dict[str, Any] = {
    "color": VERMILLION,
    "linewidth": 1.4,
    "path_effects": [withStroke(linewidth=3.0, foreground="white")],
    "zorder": 4,
}
_TRUE_LINE: dict[str, Any] = {
    "color": "white",
    "linewidth": 1.4,
    "path_effects": [withStroke(linewidth=2.8, foreground=INK)],
    "zorder": 3,
}


@runtime_checkable
class ExpectsRewards(Protocol):
    """A policy that estimates the reward of every arm."""

    def expected_rewards(self, unit: FloatArray) -> FloatArray:
        """(n, K) mean rewards in [0, 1], for contexts (n, d) of [0, 1]^d."""


@runtime_checkable
class Predicts(Protocol):
    """A policy that predicts the reward of any point."""

    def predict(self, X: Any) -> tuple[FloatArray, FloatArray]:  # noqa: N803
        """Mean and standard deviation at points (n, d)."""


@runtime_checkable
class ChoosesPoints(Protocol):
    """A policy whose actions are points."""

    def act(self, contexts: Any, rng: np.random.Generator) -> tuple[Any, FloatArray]:
        """Actions with their points (n, d), and propensities."""


# Cuts through the domain.


@dataclass(frozen=True)
class Cut:
    """One cut through the domain.

    Attributes:
        axes: the shown columns, one or two.
        point: (d,) where the others stand, in [0, 1].
        title: says where that is, in declared units; empty when no column is left out.
    """

    axes: tuple[int, ...]
    point: FloatArray
    title: str

    def points(self, steps: Sequence[FloatArray]) -> FloatArray:
        """(N, d) points of [0, 1]^d over a grid with `steps` along the shown columns."""
        mesh = np.meshgrid(*steps, indexing="ij")
        unit = np.tile(self.point, (mesh[0].size, 1))
        for column, values in zip(self.axes, mesh, strict=True):
            unit[:, column] = values.ravel()
        return unit


def cuts(domain: Box, report: ReportEntry) -> tuple[Cut, ...]:
    """The cuts that a study's `[report]` asks for.

    The columns are `report.axes`, otherwise the first two. The others stand at `report.at` or in
    the middle; if one of them alone has few levels and no place in `report.at`, each of its levels
    gets a panel.
    """
    chosen = tuple(domain.names.index(name) for name in dict.fromkeys(report.axes))
    axes = chosen or tuple(range(min(2, domain.dimension)))
    others = [column for column in range(domain.dimension) if column not in axes]
    values = np.array([_place(domain, column, report.at) for column in range(domain.dimension)])
    few = [(c, n) for c in others if (n := domain.levels[c]) and n <= _FEW_LEVELS]
    free = [(column, count) for column, count in few if domain.names[column] not in report.at]
    rows = values[None]
    if len(free) == 1:
        ((column, count),) = free
        rows = np.tile(values, (count, 1))
        rows[:, column] = np.linspace(domain.lower[column], domain.upper[column], count)
    units = domain.to_unit(rows)
    return tuple(
        Cut(axes, unit, _title(domain, others, row[None]))
        for unit, row in zip(units, rows, strict=True)
    )


def _place(domain: Box, column: int, at: Mapping[str, float]) -> float:
    """Where a column stands: as asked for, or at its middle value."""
    low, high, levels = domain.lower[column], domain.upper[column], domain.levels[column]
    if domain.names[column] in at:
        return at[domain.names[column]]
    share = 0.5 if levels is None else ((levels - 1) // 2) / (levels - 1)
    return low + (high - low) * share


def _title(domain: Box, columns: Sequence[int], places: FloatArray) -> str:
    """Where columns stand at places (n, d): "smoker = no and yes, income = 100,000"."""

    def text(column: int, value: float) -> str:
        long = not domain.categories[column] and abs(value) >= 10_000.0
        return f"{value:,.0f}" if long else domain.text(column, value)

    stands = []
    for column in columns:
        values = dict.fromkeys(places[:, column].tolist())
        texts = listed([text(column, value) for value in values])
        stands.append(f"{domain.names[column]} = {texts}")
    return ", ".join(stands)


def _first_column(domain: Box, report: ReportEntry) -> ReportEntry:
    """What a study's `[report]` asks for, of the columns the first alone."""
    return ReportEntry(axes=report.axes[:1] or list(domain.names[:1]), at=report.at)


def _cells(domain: Box, column: int, most: int = _CELLS) -> FloatArray:
    """(n,) middles of cells along a column, in [0, 1]; its levels if it has some."""
    levels = domain.levels[column]
    if levels is None:
        middles: FloatArray = (np.arange(most) + 0.5) / most
        return middles
    chosen = np.unique(np.round(np.linspace(0, levels - 1, min(levels, most))))
    return np.asarray(chosen / (levels - 1))


def _borders(middles: FloatArray) -> FloatArray:
    """(n + 1,) borders of the cells around middles (n,)."""
    between = 0.5 * (middles[1:] + middles[:-1])
    ends = 2.0 * middles[[0, -1]] - between[[0, -1]]
    return np.concatenate([ends[:1], between, ends[1:]])


def _declared(domain: Box, columns: Sequence[int], steps: Sequence[FloatArray]) -> Any:
    """Places of [0, 1] along columns, in declared units."""
    low, high = np.array(domain.lower), np.array(domain.upper)
    return tuple(
        low[column] + step * (high[column] - low[column])
        for column, step in zip(columns, steps, strict=True)
    )


def draw_column(axis: MatplotlibAxis, domain: Box, column: int, room: float) -> None:
    """A column of a domain along an axis of a panel: its name, and its categories or numbers.

    Args:
        axis: of the panel.
        domain: of the problem.
        column: of the domain.
        room: inches for the name, or for the categories beside each other.
    """
    axis.set_label_text(shortened(domain.names[column], room), fontsize=SMALL, color=INK)
    low, high, levels = domain.lower[column], domain.upper[column], domain.levels[column]
    labels = domain.categories[column]
    if labels:
        each = room / len(labels) if isinstance(axis, XAxis) else 0.9
        names = [shortened(label, each) for label in labels]
        number_axis(axis, Axis(ticks=np.linspace(low, high, len(labels)).tolist(), names=names))
        return
    step = (high - low) / (levels - 1) if levels is not None else 0.5
    whole = low.is_integer() and float(step).is_integer()
    if levels is not None and (levels <= _FEW_TICKS or step != 1.0 or not whole):
        # Every value that the column may have, or every second, third, ...
        every = math.ceil((levels - 1) / (_FEW_TICKS - 1))
        ticks = np.linspace(low, high, levels)[::every].tolist()
        number_axis(axis, Axis(ticks=ticks, names=EvenTicks().format_ticks(ticks)))
        return
    number_axis(axis, Axis(whole=whole))


# Maps.


@dataclass(frozen=True)
class Map(ABC):
    """One cut through a policy, evaluated on a grid.

    Attributes:
        cut: what is shown.
        problem: of the study.
        kind: `arm`, `reward` or `model`.
    """

    cut: Cut
    problem: Problem
    kind: ClassVar[str]

    @property
    def seen(self) -> FloatArray:
        """The rewards that its colours stand for; none if they stand for arms."""
        return np.zeros(0)

    @property
    def content(self) -> object:
        """What it shows, wherever it cuts: equal for maps that look the same."""
        own = [field.name for field in fields(self) if field.name not in ("cut", "problem")]
        return self.cut.axes, *(_comparable(getattr(self, name)) for name in own)

    @property
    def flat(self) -> bool:
        """Whether it has one column along, and heights that need little room."""
        return len(self.cut.axes) == 1

    @abstractmethod
    def draw(self, axes: Axes, scale: tuple[float, float], room: float) -> Any:
        """Draw it on axes about `room` inches wide; what a ruler of its colours needs, or None."""

    @abstractmethod
    def handles(self) -> list[Artist]:
        """What the legend explains."""


def _comparable(value: object) -> object:
    """Arrays and tuples of them as what can be compared and hashed."""
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    return tuple(map(_comparable, value)) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class ArmMap(Map):
    """Who is given which arm (see the module)."""

    kind: ClassVar[str] = "arm"

    places: tuple[FloatArray, ...]
    chances: FloatArray

    @property
    def tied(self) -> BoolArray:
        """(..) whether no arm is more probable than all others."""
        ordered = np.sort(self.chances, axis=-1)
        return np.asarray(ordered[..., -1] - ordered[..., -2] < 1e-9)

    def draw(self, axes: Axes, scale: tuple[float, float], room: float) -> None:
        domain, columns = self.problem.domain, self.cut.axes
        x, *rest = [_borders(places) for places in self.places]
        colors = arm_colors(self.problem.arms)
        axes.set_xlim(x[0], x[-1])
        draw_column(axes.xaxis, domain, columns[0], room)
        if not rest:
            heights = np.vstack([self.chances, self.chances[-1:]]).T
            fills = [tint(color, 0.8) for color in colors]
            axes.stackplot(x, heights, colors=fills, step="post", linewidth=0.0)
            axes.set_ylim(0.0, 1.0)
            axes.set_ylabel("probability", fontsize=SMALL, color=INK)
            return
        (y,) = rest
        axes.set_ylim(y[0], y[-1])
        draw_column(axes.yaxis, domain, columns[1], 2.4)
        # From faint at probability 1 / K to strong at 1.
        chance = 1.0 / self.chances.shape[-1]
        strength = (self.chances.max(axis=-1) - chance) / (1.0 - chance)
        strongest = to_rgba_array(colors)[self.chances.argmax(axis=-1), :3]
        shades = 1.0 - (0.2 + 0.65 * strength[..., None]) * (1.0 - strongest)
        shades[self.tied] = to_rgb(tint(_UNDECIDED, 0.7))
        axes.pcolormesh(x, y, shades.swapaxes(0, 1), rasterized=True)

    def handles(self) -> list[Artist]:
        colors, arms = arm_colors(self.problem.arms), named_arms(self.problem)
        undecided = [("undecided", _UNDECIDED)] if self.tied.any() and not self.flat else []
        many = len(arms) > _MANY_ARMS
        if many:
            # Such a legend is cut: what covers most of the map is named first.
            share = self.chances.reshape(-1, self.chances.shape[-1]).mean(axis=0)[arms]
            arms = arms[np.argsort(-share, kind="stable")]
        named = [(self.problem.arm_names[k], colors[k]) for k in arms]
        entries = undecided + named if many else named + undecided
        return [Patch(facecolor=tint(color, 0.85), label=name) for name, color in entries]


@dataclass(frozen=True)
class RewardMap(Map):
    """The expected reward of arms on a line, by context.

    Attributes:
        arms: (K,) the arms' points, in ascending order.
        given: (n, K) probabilities of the arms.
        best: (n,) the arm with the highest expected reward.
        truth: (n,) the truly best arm, or the best in hindsight; NaN where unknown.
    """

    kind: ClassVar[str] = "reward"

    places: FloatArray
    arms: FloatArray
    mean: FloatArray
    given: FloatArray
    best: FloatArray
    truth: FloatArray

    @property
    def seen(self) -> FloatArray:
        return self.mean.ravel()

    @property
    def flat(self) -> bool:
        return False

    def draw(self, axes: Axes, scale: tuple[float, float], room: float) -> Any:
        colors = heat(axes, self.places, self.arms, self.mean, scale)
        axes.plot(self.places, self.truth, **_TRUE_LINE)
        axes.plot(self.places, self.best, **_BEST_LINE)
        step = max(1, len(self.places) // 30)
        across, arm = np.nonzero(self.given[::step] >= _LEAST_SHARE)
        sizes = 26.0 * self.given[::step][across, arm]
        _dots(axes, np.column_stack([self.places[::step][across], self.arms[arm]]), sizes)
        draw_column(axes.xaxis, self.problem.domain, self.cut.axes[0], room)
        points, named = _points(self.problem), named_arms(self.problem)
        names = [shortened(self.problem.arm_names[k], 0.8) for k in named]
        axes.set_yticks(points[named].tolist(), names)
        axes.set_ylabel("arm", fontsize=SMALL, color=INK)
        return colors

    def handles(self) -> list[Artist]:
        entries: list[Artist] = [
            Line2D([], [], label="expected best", **_BEST_LINE),
            Line2D([], [], marker="o", linestyle="", markersize=5, label="given", **_DOT),
        ]
        if np.isfinite(self.truth).any():
            label = "best in hindsight" if self.problem.metric == "reward" else "truly best"
            entries.append(Line2D([], [], label=label, **_TRUE_LINE))
        return entries


@dataclass(frozen=True)
class ModelMap(Map):
    """The reward that a model predicts (see the module).

    Attributes:
        joined: whether `best` is a curve, with a best point for each person; otherwise everyone
            can be sent to the same points.
    """

    kind: ClassVar[str] = "model"

    places: tuple[FloatArray, ...]
    mean: FloatArray
    deviation: FloatArray
    possible: BoolArray
    sent: FloatArray
    shares: FloatArray
    best: FloatArray
    joined: bool = False

    @property
    def seen(self) -> FloatArray:
        return self.mean[self.possible]

    def draw(self, axes: Axes, scale: tuple[float, float], room: float) -> Any:
        domain = self.problem.domain
        draw_column(axes.xaxis, domain, self.cut.axes[0], room)
        if self.flat:
            return self._curve(axes)
        x, y = self.places
        shape = (len(x), len(y))
        possible = self.possible.reshape(shape)
        deviation = np.where(possible, self.deviation.reshape(shape), np.nan)
        colors = heat(axes, x, y, self.mean.reshape(shape), scale, smooth=True)
        draw_column(axes.yaxis, domain, self.cut.axes[1], 2.4)
        if not possible.all():
            axes.contourf(x, y, possible.T.astype(float), levels=[-0.5, 0.5], colors=[_BLANK])
        if possible.any() and np.nanmax(deviation) - np.nanmin(deviation) > 1e-9:
            lines = axes.contour(x, y, deviation.T, levels=4, colors="white", linewidths=0.8)
            lines.set(path_effects=_THIN)
            for text in axes.clabel(lines, fontsize=SMALL - 1.5, fmt="±%.2g"):
                text.set(path_effects=_THIN)
        axes.set_xlim(x[0], x[-1])
        axes.set_ylim(y[0], y[-1])
        if self.joined:
            axes.plot(*self.best.T, **_TRUE_LINE)
            _dots(axes, self.sent, np.full(len(self.sent), 20.0))
        else:
            _dots(axes, self.sent, np.maximum(160.0 * self.shares, 2.0))
            _stars(axes, self.best)
        return colors

    def _curve(self, axes: Axes) -> None:
        """One column: the mean with a band, people along the lower border, best points as stars."""
        (x,) = self.places
        mean = np.where(self.possible, self.mean, np.nan)
        low, high = mean - self.deviation, mean + self.deviation
        axes.fill_between(x, low, high, color=BLUE, alpha=0.18, linewidth=0)
        axes.plot(x, mean, color=BLUE, linewidth=1.8)
        axes.set_xlim(x[0], x[-1])
        bottom, top = (np.nanmin(low), np.nanmax(high)) if self.possible.any() else (0.0, 1.0)
        pad = 0.08 * (top - bottom) + 1e-9
        axes.set_ylim(bottom - 1.5 * pad, top + pad)
        axes.set_ylabel("expected reward", fontsize=SMALL, color=INK)
        floor = np.full(len(self.sent), bottom - 0.7 * pad)
        sizes = np.maximum(160.0 * self.shares, 2.0)
        _dots(axes, np.column_stack([self.sent[:, 0], floor]), sizes)
        best = self.best[:, 0]
        _stars(axes, np.column_stack([best, np.interp(best, x, self.mean)]))

    def handles(self) -> list[Artist]:
        entries = list[Artist]()
        if len(self.sent):
            label = "given" if self.joined else "where people are sent"
            entries.append(
                Line2D([], [], marker="o", linestyle="", markersize=6, label=label, **_DOT)
            )
        if self.joined:
            entries.append(Line2D([], [], label="truly best", **_TRUE_LINE))
        elif len(self.best):
            label = "true optimum" + (" of this cut" if self.cut.title else "")
            star: dict[str, Any] = {"linestyle": "", "color": "white", "markeredgecolor": INK}
            entries.append(Line2D([], [], marker="*", markersize=10, label=label, **star))
        if not self.possible.all():
            entries.append(Patch(facecolor=_BLANK, label="cannot be given"))
        return entries


def _dots(axes: Axes, places: FloatArray, sizes: FloatArray) -> None:
    """Where people (n, 2) are sent; a border cuts off none of a few."""
    many = len(sizes) > 200
    borders = np.where(sizes > 6.0, 0.7, 0.0).tolist()
    look: dict[str, Any] = {"c": VERMILLION, "edgecolors": "white", "linewidths": borders}
    x, y = places.T
    axes.scatter(x, y, s=sizes, zorder=5, clip_on=many, rasterized=many, **look)


def _stars(axes: Axes, places: FloatArray) -> None:
    """Where (n, 2) the mean reward is truly highest."""
    star: dict[str, Any] = {"s": 95, "marker": "*", "c": "white", "edgecolors": INK}
    axes.scatter(*places.T, linewidths=0.9, zorder=6, clip_on=False, **star)


def _points(problem: Problem) -> FloatArray:
    """(K,) the points of arms on a line."""
    assert isinstance(problem.space, ArmPoints)
    return problem.space.array[:, 0]


def named_arms(problem: Problem) -> IntArray:
    """The arms that the legend names: all, or some of very many that are points."""
    few = not isinstance(problem.space, ArmPoints) or problem.arms <= _MANY_ARMS
    count = problem.arms if few else _SOME_ARMS
    return np.linspace(0, problem.arms - 1, count).round().astype(np.int64)


def arm_map(policy: ArmPolicy, problem: Problem, cut: Cut) -> ArmMap:
    """The probabilities of arms over a cut."""
    steps = [_cells(problem.domain, column) for column in cut.axes]
    chances = policy.chances(cut.points(steps)).reshape(*map(len, steps), problem.arms)
    return ArmMap(cut, problem, _declared(problem.domain, cut.axes, steps), chances)


def reward_map(policy: Any, problem: Problem, cut: Cut, crowd: Population) -> RewardMap:
    """The expected rewards of arms over a cut; `crowd` knows which arm is truly best."""
    domain, (column,) = problem.domain, cut.axes
    unit = cut.points([_cells(domain, column)])
    contexts, points, bounds = domain.from_unit(unit), _points(problem), problem.reward_bounds
    order = np.argsort(points)
    mean = bounds.lower + (bounds.upper - bounds.lower) * policy.expected_rewards(unit)
    truly = crowd.best_arms(contexts)
    return RewardMap(
        cut,
        problem,
        places=contexts[:, column],
        arms=points[order],
        mean=mean[:, order],
        given=policy.chances(unit)[:, order],
        best=points[mean.argmax(axis=1)],
        truth=np.where(truly >= 0, points[truly], np.nan),
    )


def model_map(policy: object, problem: Problem, cut: Cut) -> ModelMap | None:
    """The predictions of a model over a cut.

    None where a policy predicts nothing, or at a few points only (finite features).
    """
    if not isinstance(policy, Predicts):
        return None
    domain = problem.domain
    steps = [np.linspace(0.0, 1.0, 4 * _GRID)] * len(cut.axes)
    possible = problem.possible(domain.from_unit(cut.points(steps)))
    grid = possible.reshape([len(step) for step in steps])
    for place in range(len(steps)):
        # Only the part of the bounds in which some point can be given.
        others = tuple(axis for axis in range(len(steps)) if axis != place)
        inside = np.flatnonzero(grid.any(axis=others))
        first, last = steps[place][inside[[0, -1]]] if len(inside) else (0.0, 1.0)
        steps[place] = np.linspace(first, last, _GRID)
    points = domain.from_unit(cut.points(steps))
    try:
        mean, deviation = policy.predict(points)
    except InvalidInput:
        return None
    places, possible = _declared(domain, cut.axes, steps), problem.possible(points)
    marks = _marks(policy, problem, cut)
    return ModelMap(cut, problem, places, mean, deviation, possible, **marks)


def _marks(policy: object, problem: Problem, cut: Cut) -> dict[str, Any]:
    """Where a policy sends people, and where the mean reward is truly highest."""
    columns = list(cut.axes)
    sets = problem.decision_sets(problem.domain.from_unit(cut.point[None]))
    if sets is not None and isinstance(policy, ChoosesPoints):
        (differs,) = np.flatnonzero(np.ptp(sets[0], axis=0) > 0.0)
        if differs in columns:
            return _marks_of_sets(policy, problem, cut, [a for a in columns if a != differs])
    sent, shares = np.zeros((0, len(columns))), np.zeros(0)
    if isinstance(policy, ChoosesPoints) and not isinstance(problem.space, DecisionSets):
        actions, _ = policy.act(_DRAWS, np.random.default_rng(0))
        sent, counts = np.unique(actions.points[:, columns], axis=0, return_counts=True)
        kept = counts >= _LEAST_SHARE * counts.max()
        sent, shares = sent[kept], counts[kept] / _DRAWS
    return {"sent": sent, "shares": shares, "best": _optima(problem, cut)}


def _marks_of_sets(
    policy: ChoosesPoints, problem: Problem, cut: Cut, other: list[int]
) -> dict[str, Any]:
    """The best point of people along the other shown column, and what some of them are given."""
    count = _FINE if other else 1
    unit = np.tile(cut.point, (count, 1))
    unit[:, other] = np.linspace(0.0, 1.0, count)[:, None]
    sets = problem.decision_sets(problem.domain.from_unit(unit))
    assert sets is not None
    means = problem.truth(sets.reshape(-1, sets.shape[2]))
    assert means is not None
    best = sets[np.arange(count), means.reshape(sets.shape[:2]).argmax(axis=1)]
    some = sets[np.linspace(0, count - 1, min(count, _PEOPLE)).astype(np.int64)]
    actions, _ = policy.act(some, np.random.default_rng(0))
    columns, shares = list(cut.axes), np.full(len(some), 1.0 / len(some))
    sent = actions.points[:, columns]
    return {"sent": sent, "shares": shares, "best": best[:, columns], "joined": bool(other)}


def _optima(problem: Problem, cut: Cut) -> FloatArray:
    """(k, a) the best points of the cut; of the set, where only some points can be given."""
    nothing, axes = np.zeros((0, len(cut.axes))), list(cut.axes)
    public = isinstance(problem.space, PublicSet)
    if isinstance(problem.space, PublicSet):
        points = problem.space.array
    else:
        points = problem.domain.from_unit(cut.points([np.linspace(0.0, 1.0, _FINE)] * len(axes)))
    known = problem.truth(points)
    if known is None or problem.decision_sets(points[:1]) is not None:
        return nothing
    top = known >= known.max() - (1e-9 if public else 1e-3 * np.ptp(known))
    if not public:
        values = known.reshape((_FINE,) * len(axes))
        top &= (values >= maximum_filter(values, size=3)).ravel()
    best = points[top][:, axes]
    return best if 0 < len(best) <= _MOST_BEST else nothing


# The maps of a study.


@dataclass(frozen=True)
class PolicyMaps:
    """The maps of one policy, a panel for each cut.

    Attributes:
        label: of the policy, or of several with the same maps.
        maps: of one kind; cuts that show the same share one.
        scale: the rewards at the ends of the colours, the same for all maps of a report.
    """

    label: str
    maps: tuple[Map, ...]
    scale: tuple[float, float]

    @property
    def kind(self) -> str:
        """Of the maps."""
        return self.maps[0].kind

    @property
    def columns(self) -> list[str]:
        """The names of the shown columns."""
        first = self.maps[0]
        return [first.problem.domain.names[axis] for axis in first.cut.axes]

    def figure(self, width: float) -> Figure:
        """The maps, beside each other where `width` inches hold two."""
        flat = self.maps[0].flat
        columns = min(len(self.maps), 2 if width > 6.0 else 1)
        figure, grid = sheet(-(-len(self.maps) // columns), columns, width=width)
        panels = list(grid.flat)
        for axes in panels[len(self.maps) :]:
            axes.remove()
        colors = None
        for shown, axes in zip(self.maps, panels, strict=False):
            axes.spines["bottom"].set_visible(False)
            axes.grid(visible=False)
            colors = shown.draw(axes, self.scale, 0.75 * width / columns)
            axes.tick_params(labelsize=SMALL - 0.5)
            entitle(axes, shown.cut.title, width / columns - 0.7, SMALL)
        if colors is not None:
            ruler(figure, colors, panels[: len(self.maps)], "expected reward", self._extend())
        entries = {str(h.get_label()): h for shown in self.maps for h in shown.handles()}
        legend_above(figure, list(entries.values()), self.label)
        return finish(figure, 1.7 if flat else 2.6, aspect=0.5 if flat else 0.72)

    def _extend(self) -> str:
        """Where the colours end before what is expected."""
        seen = np.concatenate([shown.seen for shown in self.maps])
        slack = 1e-9 + 1e-6 * (self.scale[1] - self.scale[0])
        below = bool((seen < self.scale[0] - slack).any())
        above = bool((seen > self.scale[1] + slack).any())
        return (("neither", "max"), ("min", "both"))[below][above]


def policy_maps(study: Study, policies: Mapping[str, object]) -> list[PolicyMaps]:
    """The maps of each policy by its label; policies that show nothing have none."""
    problem, report = study.problem, study.report
    space = problem.space
    line = isinstance(space, ArmPoints) and space.array.shape[1] == 1
    # What is truly best, or was best in hindsight, is known of the people of replicate 0.
    line = line and any(isinstance(policy, ExpectsRewards) for policy in policies.values())
    crowd = people_of(problem, study.rounds, study.seed, 0) if line else None
    drawn: dict[str, list[Map]] = {}
    for label, policy in policies.items():
        panels = cuts(problem.domain, report)
        if crowd is not None and isinstance(policy, ExpectsRewards):
            panels = cuts(problem.domain, _first_column(problem.domain, report))
            drawn[label] = [reward_map(policy, problem, cut, crowd) for cut in panels]
        elif isinstance(policy, ArmPolicy):
            drawn[label] = [arm_map(policy, problem, cut) for cut in panels]
        else:
            models = [model_map(policy, problem, cut) for cut in panels]
            drawn[label] = [shown for shown in models if shown is not None]
    once = {label: _each_once(maps) for label, maps in drawn.items() if maps}
    seen = [shown.seen for maps in once.values() for shown in maps]
    scale = scale_of(np.concatenate([*seen, np.zeros(0)]), problem)
    return [PolicyMaps(label, maps, scale) for label, maps in once.items()]


def _each_once(maps: Sequence[Map]) -> tuple[Map, ...]:
    """One map for all cuts that show the same, with a title that names them all."""
    same: dict[object, list[Map]] = {}
    for shown in maps:
        same.setdefault(shown.content, []).append(shown)
    domain, axes = maps[0].problem.domain, maps[0].cut.axes
    others = [column for column in range(domain.dimension) if column not in axes]
    once = []
    for group in same.values():
        places = domain.from_unit(np.array([shown.cut.point for shown in group]))
        title = _title(domain, others, places)
        once.append(replace(group[0], cut=replace(group[0].cut, title=title)))
    return tuple(once)


def same_once(drawn: Sequence[PolicyMaps]) -> list[PolicyMaps]:
    """The maps of policies, one figure for all policies whose maps are the same."""
    same: dict[object, list[PolicyMaps]] = {}
    for maps in drawn:
        key = tuple((shown.cut.title, shown.content) for shown in maps.maps)
        same.setdefault((maps.kind, key), []).append(maps)
    return [
        replace(group[0], label="; ".join(maps.label for maps in group)) for group in same.values()
    ]


def scale_of(seen: FloatArray, problem: Problem) -> tuple[float, float]:
    """The ends of a colour scale for expected rewards (n,).

    It reaches no further than the bounds of a reward: a model may expect more, in error.
    """
    bounds = problem.reward_bounds
    if not len(seen):
        return bounds.lower, bounds.upper
    low, high = np.clip([seen.min(), seen.max()], bounds.lower, bounds.upper)
    if high - low < 1e-3 * (bounds.upper - bounds.lower):
        return bounds.lower, bounds.upper
    return float(low), float(high)


@dataclass(frozen=True)
class MapChoice:
    """The maps over some columns, among which a reader of a page chooses.

    Attributes:
        name: of the columns.
        maps: of each policy, with its figure; policies with the same maps share one.
        pairs: whether figures stand beside each other where there is room.
        shown: what the maps show, as far as the captions depend on it.
    """

    name: str
    maps: list[tuple[PolicyMaps, Image]]
    pairs: bool
    shown: dict[str, Any]


def map_choices(study: Study, outcomes: Sequence[Outcome], summary: Summary) -> list[MapChoice]:
    """The maps of the last policies of replicate 0, by columns; none where no policy has a map.

    First come the columns that the study's `[report]` asks for, then the others, as long as there
    are not too many figures.
    """
    policies = _policies(outcomes, summary)
    first = same_once(policy_maps(study, policies))
    if not first:
        return []
    pairs = all(len(drawn.maps) == 1 for drawn in first)
    drawn = [(maps, image(maps.figure, _HALF if pairs else WIDE)) for maps in first]
    choices = [MapChoice(_name(first), drawn, pairs, _shown(study, first))]
    for other in _others(study, first, _MOST_FIGURES // len(first)):
        maps = same_once(policy_maps(other, policies))
        small = [(each, small_image(each.figure)) for each in maps]
        choices.append(MapChoice(_name(maps), small, True, _shown(other, maps)))
    return choices


def maps_of(study: Study, outcomes: Sequence[Outcome], summary: Summary) -> list[PolicyMaps]:
    """The maps of the last policies of replicate 0 over the columns that the study asks for."""
    return policy_maps(study, _policies(outcomes, summary))


def _policies(outcomes: Sequence[Outcome], summary: Summary) -> Mapping[str, object]:
    """The last policies of replicate 0 by label, in the order of the table.

    Choosing at random has no map.
    """
    last = {
        outcome.setting.label: outcome.policy
        for outcome in outcomes
        if outcome.policy is not None and outcome.setting.learner != UNIFORM
    }
    order = [line.label for line in (*summary.private, *summary.references)]
    return {label: last[label] for label in order if label in last}


def _others(study: Study, first: Sequence[PolicyMaps], most: int) -> Iterator[Study]:
    """The study with other columns on its maps, as many at a time as on the first."""
    names = study.problem.domain.names
    count = max(len(maps.columns) for maps in first)
    shown = next(set(maps.columns) for maps in first if len(maps.columns) == count)
    rest = [columns for columns in combinations(names, count) if set(columns) != shown]
    for columns in rest[:most]:
        yield replace(study, report=replace(study.report, axes=list(columns)))


def _name(maps: Sequence[PolicyMaps]) -> str:
    """The columns of the maps that show most of them."""
    return listed(max((drawn.columns for drawn in maps), key=len))


def _shown(study: Study, maps: Sequence[PolicyMaps]) -> dict[str, Any]:
    """What the maps show, as far as the captions depend on it."""
    problem, panels = study.problem, cuts(study.problem.domain, study.report)
    middle = problem.domain.from_unit(panels[0].point[None])
    return {
        "points": arm_count(problem.space) is None,
        "flat": len(panels[0].axes) == 1,
        "own_sets": problem.decision_sets(middle) is not None and 0 in panels[0].axes,
        "others_sets": isinstance(problem.space, DecisionSets),
        "truth": problem.truth(middle) is not None,
        "kinds": {drawn.kind for drawn in maps},
        "some_named": len(named_arms(problem)) < problem.arms,
        "left_out": any(shown.cut.title for drawn in maps for shown in drawn.maps),
    }
