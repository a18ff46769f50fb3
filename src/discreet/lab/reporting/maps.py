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
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from matplotlib.transforms import ScaledTranslation

from discreet.lab.environments.base import Population, Problem
from discreet.lab.experiments import people_of
from discreet.lab.reporting.cuts import (
    Cut,
    Map,
    cuts,
    draw_column,
    draw_dots,
    edges_of,
    first_column,
    joint_cut,
)
from discreet.lab.reporting.figures import heat, ruler
from discreet.lab.reporting.layout import (
    INK,
    SMALL,
    VERMILLION,
    arm_colors,
    entitle,
    finish,
    legend_above,
    sheet,
    shortened,
    tint,
)
from discreet.lab.reporting.model_maps import RED, TRUE_LINE, model_map
from discreet.lab.studies import Study
from discreet.learners.partition.tree import Bins
from discreet.learners.policy import ArmPolicy
from discreet.people.domain import ArmPoints
from discreet.validation import BoolArray, FloatArray, IntArray

_BOXES, _GRID = 48, 61  # along each column for policies without regions, and for models
_MANY_ARMS, _SOME_ARMS = 12, 7  # of more points than this the legend names only some
_LEAST_SHARE = 0.02  # shares of people without a dot
_DOT = 7.0 / 72.0  # inches
_UNDECIDED = "#BDBDBD"
_BEST: dict[str, Any] = {
    "color": VERMILLION,
    "linewidth": 1.4,
    "path_effects": [withStroke(linewidth=3.0, foreground="white")],
}


@runtime_checkable
class HasRegions(Protocol):
    """A policy that treats people in boxes alike."""

    bins: Bins


@runtime_checkable
class ExpectsRewards(Protocol):
    """A policy that says what it expects of every arm."""

    def expected_rewards(self, unit: FloatArray) -> FloatArray:
        """(n, K) mean rewards in [0, 1], for contexts (n, d) of [0, 1]^d."""


@dataclass(frozen=True)
class ArmMap(Map):
    """See the module; `edges` says whether boxes are those of the policy."""

    kind: ClassVar[str] = "arm"

    lower: FloatArray
    upper: FloatArray
    chances: FloatArray
    active: BoolArray
    edges: bool

    @property
    def tied(self) -> BoolArray:
        """(M,) whether no arm is more probable than all others."""
        ordered = np.sort(self.chances, axis=1)
        return np.asarray(ordered[:, -1] - ordered[:, -2] < 1e-9)

    def draw(self, axes: Axes, scale: tuple[float, float], room: float) -> None:
        shown, domain = self.cut.axes, self.problem.domain
        low, high = edges_of(domain, shown, self.lower), edges_of(domain, shown, self.upper)
        ends = edges_of(domain, shown, np.array([[0.0], [1.0]]) * np.ones(len(shown)))
        axes.set_xlim(*ends[:, 0])
        draw_column(axes.xaxis, domain, shown[0], room)
        if self.flat:
            # The probabilities of the arms on top of each other.
            top = self.chances.cumsum(axis=1)
            for arm, color in enumerate(arm_colors(self.problem.arms)):
                below = np.column_stack([low, top[:, arm] - self.chances[:, arm]])
                self._boxes(axes, below, np.column_stack([high, top[:, arm]]), tint(color, 0.8))
            axes.set_ylim(0.0, 1.0)
            axes.set_ylabel("probability", fontsize=SMALL, color=INK)
            return
        axes.set_ylim(*ends[:, 1])
        draw_column(axes.yaxis, domain, shown[1], 2.4)
        self._boxes(axes, low, high, self._fills())
        if self.edges:
            share = (high - low) / (ends[1] - ends[0])
            self._dots(axes, 0.5 * (low + high), share * np.array([room, 0.7 * room]))

    def _boxes(self, axes: Axes, low: FloatArray, high: FloatArray, fills: Any) -> None:
        """Rectangles between corners (M, 2)."""
        (left, bottom), (right, top) = low.T, high.T
        corners = [(left, bottom), (right, bottom), (right, top), (left, top)]
        axes.add_collection(
            PolyCollection(
                np.stack([np.stack(corner, axis=1) for corner in corners], axis=1),  # type: ignore[arg-type]
                facecolors=fills,
                edgecolors="white" if self.edges else fills,
                # Without borders neighbours meet exactly, and smoothed edges would leave seams.
                linewidths=0.7 if self.edges else 0.0,
                antialiaseds=self.edges,
                rasterized=not self.edges,
            )
        )

    def _fills(self) -> FloatArray:
        """(M, 3) the colours of boxes: the most probable arm, from faint at 1/K to strong at 1."""
        chance = 1.0 / self.chances.shape[1]
        strength = (self.chances.max(axis=1) - chance) / (1.0 - chance)
        colors = to_rgba_array(arm_colors(self.problem.arms))[self.chances.argmax(axis=1), :3]
        fills: FloatArray = 1.0 - (0.2 + 0.65 * strength[:, None]) * (1.0 - colors)
        fills[self.tied] = to_rgb(tint(_UNDECIDED, 0.7))
        return fills

    def _dots(self, axes: Axes, middles: FloatArray, inches: FloatArray) -> None:
        """The arms left in each box with more than one, where they fit, beside each other."""
        colors = arm_colors(self.problem.arms)
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

    def handles(self) -> list[Artist]:
        colors = arm_colors(self.problem.arms)
        arms = named_arms(self.problem)
        entries = []
        if self.tied.any() and not self.flat:
            entries.append(("undecided", _UNDECIDED))
        many = len(arms) > _MANY_ARMS
        if many:
            # Such a legend is cut: what covers most of the map is named first.
            share = np.prod(self.upper - self.lower, axis=1) @ self.chances[:, arms]
            arms = arms[np.argsort(-share, kind="stable")]
        named = [(self.problem.arm_names[k], colors[k]) for k in arms]
        entries = entries + named if many else named + entries
        return [Patch(facecolor=tint(color, 0.85), label=name) for name, color in entries]


@dataclass(frozen=True)
class RewardMap(Map):
    """See the module."""

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

    @property
    def names(self) -> dict[float, str]:
        """Of the arms that the axis names, by their points."""
        points = _points(self.problem)
        return {float(points[k]): self.problem.arm_names[k] for k in named_arms(self.problem)}

    def draw(self, axes: Axes, scale: tuple[float, float], room: float) -> Any:
        colors = heat(axes, self.places, self.arms, self.mean, scale)
        axes.plot(self.places, self.truth, **TRUE_LINE)
        axes.plot(self.places, self.best, zorder=4, **_BEST)
        step = max(1, len(self.places) // 30)
        across, arm = np.nonzero(self.given[::step] >= _LEAST_SHARE)
        sizes = 26.0 * self.given[::step][across, arm]
        draw_dots(axes, np.column_stack([self.places[::step][across], self.arms[arm]]), sizes)
        draw_column(axes.xaxis, self.problem.domain, self.cut.axes[0], room)
        axes.set_yticks(list(self.names), [shortened(name, 0.8) for name in self.names.values()])
        axes.set_ylabel("arm", fontsize=SMALL, color=INK)
        return colors

    def handles(self) -> list[Artist]:
        entries: list[Artist] = [
            Line2D([], [], label="expected best", **_BEST),
            Line2D([], [], marker="o", linestyle="", markersize=5, label="given", **RED),
        ]
        if np.isfinite(self.truth).any():
            label = "best in hindsight" if self.problem.metric == "reward" else "truly best"
            entries.append(Line2D([], [], label=label, **TRUE_LINE))
        return entries


@dataclass(frozen=True)
class PolicyMaps:
    """The maps of one policy, a panel for each cut.

    Attributes:
        label: of the policy, or of several that do the same.
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
    """The maps of each policy by its label; of those that say nothing of what they do, none."""
    problem, report = study.problem, study.report
    # What is truly best, or was best in hindsight, is known of the people of replicate 0.
    line = on_a_line(problem) and any(isinstance(p, ExpectsRewards) for p in policies.values())
    crowd = people_of(problem, study.rounds, study.seed, 0) if line else None
    drawn: dict[str, tuple[Map, ...]] = {}
    for label, policy in policies.items():
        if crowd is not None and isinstance(policy, ExpectsRewards):
            column = cuts(problem.domain, first_column(problem.domain, report))
            drawn[label] = tuple(reward_map(policy, problem, cut, crowd) for cut in column)
        elif isinstance(policy, ArmPolicy):
            panels = cuts(problem.domain, report)
            drawn[label] = tuple(arm_map(policy, problem, cut) for cut in panels)
        else:
            models = [model_map(policy, problem, cut) for cut in cuts(problem.domain, report)]
            drawn[label] = tuple(shown for shown in models if shown is not None)
    drawn = {label: _each_once(maps) for label, maps in drawn.items() if maps}
    seen = [shown.seen for maps in drawn.values() for shown in maps]
    scale = scale_of(np.concatenate([*seen, np.zeros(0)]), problem)
    return [PolicyMaps(label, maps, scale) for label, maps in drawn.items()]


def _each_once(maps: Sequence[Map]) -> tuple[Map, ...]:
    """One map for all cuts that show the same."""
    same: dict[object, list[Map]] = {}
    for shown in maps:
        same.setdefault(shown.content, []).append(shown)
    domain = maps[0].problem.domain
    return tuple(
        replace(first, cut=joint_cut(domain, [first.cut, *(other.cut for other in others)]))
        for first, *others in same.values()
    )


def same_once(drawn: Sequence[PolicyMaps]) -> list[PolicyMaps]:
    """The maps of policies, one figure for all policies whose maps are the same."""
    same: dict[object, list[PolicyMaps]] = {}
    for maps in drawn:
        key = tuple((shown.cut.title, shown.content) for shown in maps.maps)
        same.setdefault((maps.kind, key), []).append(maps)
    return [
        replace(group[0], label="; ".join(maps.label for maps in group)) for group in same.values()
    ]


def on_a_line(problem: Problem) -> bool:
    """Whether arms are points of one column."""
    return isinstance(problem.space, ArmPoints) and problem.space.array.shape[1] == 1


def _points(problem: Problem) -> FloatArray:
    """(K,) the points of arms on a line."""
    assert isinstance(problem.space, ArmPoints)
    return problem.space.array[:, 0]


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
        lower, upper, active = policy.bins.regions()
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


def reward_map(policy: Any, problem: Problem, cut: Cut, crowd: Population) -> RewardMap:
    """A cut through what a policy expects of arms; `crowd` tells what is truly best."""
    domain, (column,) = problem.domain, cut.axes
    levels = domain.levels[column]
    count = _GRID if levels is None else min(levels, _GRID)
    steps = np.linspace(0.0, 1.0, count)
    if levels is not None:
        steps = np.round(steps * (levels - 1)) / (levels - 1)
    unit = cut.points([steps])
    contexts = domain.from_unit(unit)
    points = _points(problem)
    order = np.argsort(points)
    bounds = problem.reward_bounds
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
