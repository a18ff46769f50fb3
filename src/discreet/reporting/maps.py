"""What a policy does, over one or two columns of what people bring, or of what they are given.

There are three kinds of map, and a policy is asked for what they show; none of its kind is known
here.

- `ArmMap`: which arm is given to whom. The boxes of a policy that treats people in boxes alike (it
  has `regions`), otherwise a grid. A box has the colour of its most probable arm, stronger the more
  probable it is; dots are the arms that are left there. Over one column the height of each colour
  is the arm's probability.
- `RewardMap`: what is expected of arms that are points on a line, by a column of the context (the
  policy has `expected_rewards`). A line joins the arms that are expected to be best, dots are what
  people are given; a second line is what is truly best, or was in hindsight, where that is known.
- `ModelMap`: what a model that predicts anywhere expects (the policy has `predict`); see
  model_maps.py.

| array         | shape  | meaning                                                           |
|---------------|--------|-------------------------------------------------------------------|
| lower, upper  | (M, a) | corners of boxes along the a shown columns, in [0, 1]             |
| chances       | (M, K) | probabilities of the arms in each box                             |
| active        | (M, K) | arms that are left there                                          |
| places        | (n,)   | along a shown column, in declared units                           |
| arms          | (K,)   | the arms' points, in ascending order                              |
| mean          | (n, K) | expected rewards of the arms                                      |
| given         | (n, K) | probabilities of the arms                                         |
| best, truth   | (n,)   | the arm expected to be best, and the truly best one, NaN unknown  |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.transforms import ScaledTranslation

from discreet.action_space import ArmPoints
from discreet.domain import Box
from discreet.experiments import people_of
from discreet.learners.messages import ArmPolicy
from discreet.problems.base import Crowd, Problem
from discreet.reporting.cuts import Cut, cuts, draw_column, edges_of, first_column
from discreet.reporting.figures import heat, ruler
from discreet.reporting.layout import finish, legend_above, sheet, shortened, wrapped
from discreet.reporting.model_maps import RED, TRUE_LINE, draw_dots, model_map
from discreet.reporting.palette import (
    INK,
    SMALL,
    UNDECIDED,
    VERMILLION,
    arm_colors,
    tint,
)
from discreet.studies import Study
from discreet.validation import BoolArray, FloatArray, IntArray

_BOXES, _GRID = 48, 61  # along each column for policies without regions, and for models
_MANY_ARMS, _SOME_ARMS = 12, 7  # of more points than this the legend names only some
_LEAST_SHARE = 0.02  # shares of people without a dot
_DOT = 7.0 / 72.0  # inches
_HALO = [withStroke(linewidth=3.0, foreground="white")]


@runtime_checkable
class HasRegions(Protocol):
    """A policy that treats people in boxes alike."""

    def regions(self) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Corners (L, d) of boxes of [0, 1]^d, and the arms (L, K) that are left there."""


@runtime_checkable
class ExpectsRewards(Protocol):
    """A policy that says what it expects of every arm."""

    def expected_rewards(self, unit: FloatArray) -> FloatArray:
        """(n, K) mean rewards in [0, 1], for contexts (n, d) of [0, 1]^d."""


class Map(Protocol):
    """One cut through what one policy does."""

    @property
    def cut(self) -> Cut:
        """What is shown."""

    @property
    def seen(self) -> FloatArray:
        """The rewards that its colours stand for; none if they stand for arms."""

    @property
    def flat(self) -> bool:
        """Whether it has one column along, and heights that need little room."""

    def draw(self, axes: Axes, scale: tuple[float, float], room: float) -> Any:
        """Draw it on axes about `room` inches wide; what a ruler of its colours needs, or None."""

    def handles(self) -> list[Artist]:
        """What the legend explains."""


@dataclass(frozen=True)
class ArmMap:
    """See the module; `edges` says whether boxes are those of the policy."""

    cut: Cut
    problem: Problem
    lower: FloatArray
    upper: FloatArray
    chances: FloatArray
    active: BoolArray
    edges: bool

    @property
    def seen(self) -> FloatArray:
        return np.zeros(0)

    @property
    def flat(self) -> bool:
        return len(self.cut.axes) == 1

    @property
    def tied(self) -> BoolArray:
        """(M,) whether no arm is more probable than all others."""
        ordered = np.sort(self.chances, axis=1)
        return np.asarray(ordered[:, -1] - ordered[:, -2] < 1e-9)

    def draw(self, axes: Axes, scale: tuple[float, float], room: float) -> None:
        shown, domain = self.cut.axes, self.problem.domain
        colors = arm_colors(self.problem.arms)
        low, high = edges_of(domain, shown, self.lower), edges_of(domain, shown, self.upper)
        ends = edges_of(domain, shown, np.array([[0.0], [1.0]]) * np.ones(len(shown)))
        axes.set_xlim(*ends[:, 0])
        draw_column(axes.xaxis, domain, shown[0], room)
        if len(shown) == 1:
            self._shares(axes, low[:, 0], high[:, 0], colors)
            axes.set_ylim(0.0, 1.0)
            axes.set_ylabel("probability", fontsize=SMALL, color=INK)
            return
        axes.set_ylim(*ends[:, 1])
        draw_column(axes.yaxis, domain, shown[1], 2.4)
        fills = self._fills(colors)
        boxes = [Rectangle((a[0], a[1]), *(b - a)) for a, b in zip(low, high, strict=True)]
        axes.add_collection(
            PatchCollection(
                boxes,
                facecolors=fills,
                edgecolors="white" if self.edges else fills,
                linewidths=0.7 if self.edges else 0.2,
                rasterized=not self.edges,
            )
        )
        if self.edges:
            share = (high - low) / (ends[1] - ends[0])
            self._dots(axes, 0.5 * (low + high), share * np.array([room, 0.7 * room]), colors)

    def _fills(self, colors: Sequence[str]) -> list[str]:
        """The colour of each box: its most probable arm, from faint at 1/K to strong at 1."""
        chance = 1.0 / self.chances.shape[1]
        strength = (self.chances.max(axis=1) - chance) / (1.0 - chance)
        return [
            tint(UNDECIDED, 0.7) if even else tint(colors[arm], 0.2 + 0.65 * float(weight))
            for arm, weight, even in zip(
                self.chances.argmax(axis=1), strength, self.tied, strict=True
            )
        ]

    def _dots(
        self, axes: Axes, middles: FloatArray, inches: FloatArray, colors: Sequence[str]
    ) -> None:
        """The arms left in each box with more than one, where they fit, beside each other."""
        beside: dict[float, list[tuple[float, float, str]]] = {}
        for arms, middle, extent in zip(self.active, middles, inches, strict=True):
            left: IntArray = np.flatnonzero(arms)
            if len(left) < 2 or extent[0] < (len(left) + 0.4) * _DOT or extent[1] < 1.4 * _DOT:
                continue
            for place, arm in enumerate(left):
                shift = _DOT * (place - 0.5 * (len(left) - 1))
                beside.setdefault(shift, []).append((*middle, colors[arm]))
        inch = axes.figure.dpi_scale_trans
        for shift, dots in beside.items():
            x, y, fills = zip(*dots, strict=True)
            moved = axes.transData + ScaledTranslation(shift, 0.0, inch)
            axes.scatter(
                x, y, s=15, c=fills, edgecolors="white", linewidths=0.7, transform=moved, zorder=3
            )

    def _shares(self, axes: Axes, low: FloatArray, high: FloatArray, colors: Sequence[str]) -> None:
        """The probabilities of the arms on top of each other."""
        base = np.zeros(len(low))
        for arm, color in enumerate(colors):
            axes.bar(
                low,
                self.chances[:, arm],
                high - low,
                bottom=base,
                align="edge",
                color=tint(color, 0.8),
                edgecolor="white" if self.edges else tint(color, 0.8),
                linewidth=0.7 if self.edges else 0.1,
            )
            base = base + self.chances[:, arm]

    def handles(self) -> list[Artist]:
        colors = arm_colors(self.problem.arms)
        entries = [(self.problem.arm_names[k], colors[k]) for k in named_arms(self.problem)]
        if self.tied.any() and len(self.cut.axes) > 1:
            entries.append(("undecided", UNDECIDED))
        return [Patch(facecolor=tint(color, 0.85), label=name) for name, color in entries]


@dataclass(frozen=True)
class RewardMap:
    """See the module.

    Attributes:
        names: (place, name) of the arms that the axis names.
        hindsight: whether `truth` is what was best in hindsight.
    """

    cut: Cut
    domain: Box
    names: tuple[tuple[float, str], ...]
    places: FloatArray
    arms: FloatArray
    mean: FloatArray
    given: FloatArray
    best: FloatArray
    truth: FloatArray
    hindsight: bool

    @property
    def seen(self) -> FloatArray:
        return self.mean.ravel()

    @property
    def flat(self) -> bool:
        return False

    def draw(self, axes: Axes, scale: tuple[float, float], room: float) -> Any:
        colors = heat(axes, self.places, self.arms, self.mean, scale)
        axes.plot(self.places, self.truth, **TRUE_LINE)
        axes.plot(
            self.places, self.best, color=VERMILLION, linewidth=1.4, path_effects=_HALO, zorder=4
        )
        step = max(1, len(self.places) // 30)
        across, arm = np.nonzero(self.given[::step] >= _LEAST_SHARE)
        sizes = 26.0 * self.given[::step][across, arm]
        draw_dots(axes, np.column_stack([self.places[::step][across], self.arms[arm]]), sizes)
        draw_column(axes.xaxis, self.domain, self.cut.axes[0], room)
        places, names = zip(*self.names, strict=True)
        axes.set_yticks(places, [shortened(name, 0.8) for name in names])
        axes.set_ylabel("arm", fontsize=SMALL, color=INK)
        return colors

    def handles(self) -> list[Artist]:
        entries: list[Artist] = [
            Line2D(
                [], [], linewidth=1.4, path_effects=_HALO, color=VERMILLION, label="expected best"
            ),
            Line2D([], [], marker="o", linestyle="", markersize=5, label="given", **RED),
        ]
        if np.isfinite(self.truth).any():
            label = "best in hindsight" if self.hindsight else "truly best"
            entries.append(Line2D([], [], label=label, **TRUE_LINE))
        return entries


@dataclass(frozen=True)
class PolicyMaps:
    """The maps of one policy, a panel for each cut.

    Attributes:
        label: of the policy.
        maps: of one kind.
        scale: the rewards at the ends of the colours, the same for all maps of a report.
    """

    label: str
    maps: tuple[Map, ...]
    scale: tuple[float, float]

    def figure(self, width: float) -> Figure:
        """The maps, beside each other where `width` inches hold two."""
        flat = self.maps[0].flat
        columns = min(len(self.maps), 2 if width > 6.0 else 1)
        figure, grid = sheet(-(-len(self.maps) // columns), columns, width=width)
        panels = list(grid.flat)
        room = 0.75 * width / columns
        colors = []
        for place, axes in enumerate(panels):
            if place >= len(self.maps):
                axes.remove()
                continue
            shown = self.maps[place]
            axes.spines["bottom"].set_visible(False)
            colors.append(shown.draw(axes, self.scale, room))
            axes.tick_params(labelsize=SMALL - 0.5)
            title = wrapped(shown.cut.title, width / columns - 0.7)
            axes.set_title(title, loc="left", fontsize=SMALL, color=INK)
        if colors[0] is not None:
            ruler(figure, colors[0], panels[: len(self.maps)], "expected reward", self._extend())
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
    """The maps of each policy by its label; of those that say nothing of what they do, none."""
    problem, report = study.problem, study.report
    # What is truly best, or was best in hindsight, is known of the people of replicate 0.
    line = on_a_line(problem) and any(isinstance(p, ExpectsRewards) for p in policies.values())
    crowd = people_of(problem, study.rounds, study.seed, 0) if line else None
    drawn: dict[str, tuple[Map, ...]] = {}
    for label, policy in policies.items():
        maps: Sequence[Map | None]
        if crowd is not None and isinstance(policy, ExpectsRewards):
            column = cuts(problem.domain, first_column(problem.domain, report))
            maps = [reward_map(policy, problem, cut, crowd) for cut in column]
        elif isinstance(policy, ArmPolicy):
            maps = [arm_map(policy, problem, cut) for cut in cuts(problem.domain, report)]
        else:
            maps = [model_map(policy, problem, cut) for cut in cuts(problem.domain, report)]
        if all(shown is not None for shown in maps):
            drawn[label] = tuple(cast(Sequence[Map], maps))
    seen = [shown.seen for maps in drawn.values() for shown in maps]
    scale = scale_of(np.concatenate([*seen, np.zeros(0)]), problem)
    return [PolicyMaps(label, maps, scale) for label, maps in drawn.items()]


def on_a_line(problem: Problem) -> bool:
    """Whether arms are points of one column."""
    return isinstance(problem.space, ArmPoints) and problem.space.array.shape[1] == 1


def named_arms(problem: Problem) -> IntArray:
    """The arms that the legend names: all, or a few on the way where very many are points."""
    few = not isinstance(problem.space, ArmPoints) or problem.arms <= _MANY_ARMS
    count = problem.arms if few else _SOME_ARMS
    return np.linspace(0, problem.arms - 1, count).round().astype(np.int64)


def scale_of(seen: FloatArray, problem: Problem) -> tuple[float, float]:
    """The ends of a scale for the expected rewards (n,) that were seen.

    It reaches no further than the bounds of a reward: a model may expect more, in error.
    """
    bounds = problem.reward_bounds
    if not len(seen):
        return bounds.lower, bounds.upper
    low, high = np.clip([seen.min(), seen.max()], bounds.lower, bounds.upper)
    if high - low < 1e-3 * (bounds.upper - bounds.lower):
        return bounds.lower, bounds.upper
    return float(low), float(high)


def arm_map(policy: ArmPolicy, problem: Problem, cut: Cut) -> ArmMap:
    """The boxes that a cut through a policy shows."""
    axes = list(cut.axes)
    if isinstance(policy, HasRegions):
        lower, upper, active = policy.regions()
        through = (lower <= cut.point) & ((cut.point < upper) | (upper >= 1.0))
        through[:, axes] = True
        shown = through.all(axis=1)
        lower, upper, active = lower[shown][:, axes], upper[shown][:, axes], active[shown]
        middles = np.tile(cut.point, (len(lower), 1))
        middles[:, axes] = 0.5 * (lower + upper)
        return ArmMap(cut, problem, lower, upper, policy.chances(middles), active, True)
    steps = (np.arange(_BOXES) + 0.5) / _BOXES
    middles = cut.points([steps] * len(axes))
    chances, low = policy.chances(middles), middles[:, axes] - 0.5 / _BOXES
    return ArmMap(cut, problem, low, low + 1.0 / _BOXES, chances, chances > 0.0, False)


def reward_map(policy: Any, problem: Problem, cut: Cut, crowd: Crowd) -> RewardMap:
    """A cut through what a policy expects of arms; `crowd` tells what is truly best."""
    assert isinstance(problem.space, ArmPoints)
    domain, (column,) = problem.domain, cut.axes
    levels = domain.levels[column]
    count = _GRID if levels is None else min(levels, _GRID)
    steps = np.linspace(0.0, 1.0, count)
    if levels is not None:
        steps = np.round(steps * (levels - 1)) / (levels - 1)
    unit = cut.points([steps])
    contexts = domain.from_unit(unit)
    points = problem.space.array[:, 0]
    order = np.argsort(points)
    bounds = problem.reward_bounds
    mean = bounds.lower + (bounds.upper - bounds.lower) * policy.expected_rewards(unit)
    truly = crowd.best_arms(contexts)
    return RewardMap(
        cut,
        domain,
        tuple((float(points[arm]), problem.arm_names[arm]) for arm in named_arms(problem)),
        contexts[:, column],
        points[order],
        mean[:, order],
        policy.chances(unit)[:, order],
        points[mean.argmax(axis=1)],
        np.where(truly >= 0, points[truly], np.nan),
        hindsight=problem.metric == "reward",
    )
