"""Maps of policies: which arm each context gets, or which reward is expected where.

A map evaluates a policy on a grid over one or two columns; the other columns stand where the
study's `[report]` puts them, near their middle otherwise. A column that takes few values has a cell
for each of them.

| map        | of a policy with       | shows                                                      |
|------------|------------------------|------------------------------------------------------------|
| `ArmMap`   | probabilities of arms  | the most probable arm, stronger the more probable; all     |
|            |                        | shares over one column                                     |
| `ModelMap` | `predict`              | expected reward and its deviation, where people are sent   |

| array     | shape     | meaning                                                            |
|-----------|-----------|--------------------------------------------------------------------|
| places    | (n,) each | of the grid along each shown column, in declared units             |
| chances   | (.., K)   | probabilities of the arms at the N places of the grid              |
| mean      | (N,)      | expected reward                                                    |
| deviation | (N,)      | its standard deviation                                             |
| sent      | (m, a)    | where people are sent, and `shares` (m,) of the people             |
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

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

from discreet.lab.environments.base import Problem
from discreet.lab.experiments import UNIFORM, Outcome
from discreet.lab.reporting.figures import Axis, EvenTicks, heat, number_axis, ruler
from discreet.lab.reporting.layout import (
    BLUE,
    INK,
    MOST_ENTRIES,
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
from discreet.lab.reporting.summary import Summary
from discreet.lab.studies import ReportEntry, Study
from discreet.learners.policy import ArmPolicy
from discreet.people.domain import Box, DecisionSets
from discreet.validation import BoolArray, FloatArray, InvalidInput

_CELLS = 64  # along a column of any value; a power of 2 meets the borders of halved boxes
_GRID = 61  # places along a column of a model
_FEW_TICKS = 7  # along a column
_FEW_LEVELS = 4  # another column with at most as many levels has a panel for each
_LEAST_SHARE = 0.02  # a smaller share of the people has no dot
_DRAWS = 2000  # choices of a policy for everyone
_UNDECIDED = "#BDBDBD"
_THIN = [withStroke(linewidth=1.6, foreground=(0.13, 0.13, 0.13, 0.55))]


@dataclass(frozen=True)
class Cut:
    """One cut through the domain.

    Attributes:
        axes: the shown columns, one or two.
        point: (d,) where the others stand, in [0, 1]; NaN where they follow from columns.
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
    gets a panel, and so does each number with an indicator. Indicators that the report does not
    name follow from their columns.
    """
    chosen = tuple(domain.names.index(name) for name in dict.fromkeys(report.axes))
    follow = {name for column in domain.columns for name in column.indicator_names}
    follow -= {*report.axes, *report.at}
    able = [column for column, name in enumerate(domain.names) if name not in follow]
    axes = chosen or tuple(able[:2])
    others = [column for column in able if column not in axes]
    values = np.array([_place(domain, column, report.at) for column in range(domain.dimension)])
    free = [domain.columns[column] for column in others if domain.names[column] not in report.at]
    few = [column for column in free if column.levels and column.levels <= _FEW_LEVELS]
    rows = values[None]
    if len(few) == 1:
        rows = np.tile(values, (few[0].levels or 0, 1))
        place = domain.names.index(few[0].name)
        rows[:, place] = np.linspace(domain.lower[place], domain.upper[place], len(rows))
    middle = rows
    for column in free:
        for number in () if {*column.indicator_names} & report.at.keys() else column.indicators:
            apart = middle.copy()
            apart[:, domain.names.index(column.name)] = number
            rows = np.concatenate([rows, apart])
    titles = [
        ", ".join(f"{domain.names[c]} = {_text(domain, c, float(row[c]))}" for c in others)
        for row in rows
    ]
    units = domain.to_unit(rows)
    units[:, [column for column, name in enumerate(domain.names) if name in follow]] = math.nan
    return tuple(Cut(axes, unit, title) for unit, title in zip(units, titles, strict=True))


def _place(domain: Box, column: int, at: Mapping[str, float]) -> float:
    """Where a column stands: as asked for, or at its middle value."""
    low, high, levels = domain.lower[column], domain.upper[column], domain.levels[column]
    if domain.names[column] in at:
        return at[domain.names[column]]
    share = 0.5 if levels is None else ((levels - 1) // 2) / (levels - 1)
    return low + (high - low) * share


def _text(domain: Box, column: int, value: float) -> str:
    """A value of a column: no, 0.5 or 100,000."""
    long = not domain.categories[column] and abs(value) >= 10_000.0
    return f"{value:,.0f}" if long else domain.text(column, value)


def _cells(domain: Box, column: int) -> FloatArray:
    """(n,) middles of cells along a column, in [0, 1]; its levels if it has some."""
    levels = domain.levels[column]
    if levels is None:
        return (np.arange(_CELLS) + 0.5) / _CELLS
    chosen = np.unique(np.round(np.linspace(0, levels - 1, min(levels, _CELLS))))
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


@dataclass(frozen=True)
class Map(ABC):
    """One cut through a policy, evaluated on a grid.

    Attributes:
        cut: what is shown.
        problem: of the study.
        places: see the module.
    """

    cut: Cut
    problem: Problem
    places: tuple[FloatArray, ...]

    @property
    def content(self) -> tuple[bytes, ...]:
        """Everything that is drawn within its axes; maps of equal content look the same."""
        own = [each.name for each in fields(self) if each.name not in ("cut", "problem", "places")]
        return tuple(np.asarray(getattr(self, name)).tobytes() for name in own)

    @property
    def seen(self) -> FloatArray:
        """The rewards that its colours stand for; none if they stand for arms."""
        return np.zeros(0)

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


@dataclass(frozen=True)
class ArmMap(Map):
    """Who is given which arm (see the module)."""

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
        colors, arms = arm_colors(self.problem.arms), np.arange(self.problem.arms)
        entries = [("undecided", _UNDECIDED)] if self.tied.any() and not self.flat else []
        if len(arms) > MOST_ENTRIES:
            # Such a legend is cut: what covers most of the map is named first.
            share = self.chances.reshape(-1, self.chances.shape[-1]).mean(axis=0)
            arms = np.argsort(-share, kind="stable")
        named = [(self.problem.arm_names[k], colors[k]) for k in arms]
        entries = entries + named if len(named) > MOST_ENTRIES else named + entries
        return [Patch(facecolor=tint(color, 0.85), label=name) for name, color in entries]


@dataclass(frozen=True)
class ModelMap(Map):
    """The reward that a model predicts (see the module)."""

    mean: FloatArray
    deviation: FloatArray
    sent: FloatArray
    shares: FloatArray

    @property
    def seen(self) -> FloatArray:
        return self.mean

    def draw(self, axes: Axes, scale: tuple[float, float], room: float) -> Any:
        domain = self.problem.domain
        draw_column(axes.xaxis, domain, self.cut.axes[0], room)
        if self.flat:
            return self._curve(axes)
        x, y = self.places
        shape = (len(x), len(y))
        deviation = self.deviation.reshape(shape)
        colors = heat(axes, x, y, self.mean.reshape(shape), scale, smooth=True)
        draw_column(axes.yaxis, domain, self.cut.axes[1], 2.4)
        if np.ptp(deviation) > 1e-9:
            lines = axes.contour(x, y, deviation.T, levels=4, colors="white", linewidths=0.8)
            lines.set(path_effects=_THIN)
            for text in axes.clabel(lines, fontsize=SMALL - 1.5, fmt="±%.2g"):
                text.set(path_effects=_THIN)
        axes.set_xlim(x[0], x[-1])
        axes.set_ylim(y[0], y[-1])
        self._dots(axes, self.sent)
        return colors

    def _curve(self, axes: Axes) -> None:
        """One column: the mean with a band, and people along the lower border."""
        (x,) = self.places
        low, high = self.mean - self.deviation, self.mean + self.deviation
        axes.fill_between(x, low, high, color=BLUE, alpha=0.18, linewidth=0)
        axes.plot(x, self.mean, color=BLUE, linewidth=1.8)
        axes.set_xlim(x[0], x[-1])
        bottom, top = low.min(), high.max()
        pad = 0.08 * (top - bottom) + 1e-9
        axes.set_ylim(bottom - 1.5 * pad, top + pad)
        axes.set_ylabel("expected reward", fontsize=SMALL, color=INK)
        floor = np.full(len(self.sent), bottom - 0.7 * pad)
        self._dots(axes, np.column_stack([self.sent[:, 0], floor]))

    def _dots(self, axes: Axes, sent: FloatArray) -> None:
        """Dots where people (m, 2) are sent, larger for more people."""
        many, sizes = len(sent) > 200, np.maximum(160.0 * self.shares, 2.0)
        borders = np.where(sizes > 6.0, 0.7, 0.0).tolist()  # of a few, borders cut off none
        look: dict[str, Any] = {"c": VERMILLION, "edgecolors": "white", "linewidths": borders}
        axes.scatter(
            sent[:, 0], sent[:, 1], s=sizes, zorder=5, clip_on=many, rasterized=many, **look
        )

    def handles(self) -> list[Artist]:
        if not len(self.sent):
            return []
        dot: dict[str, Any] = {"color": VERMILLION, "markeredgecolor": "white"}
        return [Line2D([], [], marker="o", linestyle="", label="where people are sent", **dot)]


def map_of(policy: Any, problem: Problem, cut: Cut) -> Map | None:
    """The map of a policy over a cut.

    None where it has neither arms nor predictions, or predicts at a few points only (finite
    features).
    """
    domain = problem.domain
    if isinstance(policy, ArmPolicy):
        steps = [_cells(domain, column) for column in cut.axes]
        unit = domain.to_unit(domain.from_unit(cut.points(steps)))  # with its indicators
        chances = policy.chances(unit).reshape(*map(len, steps), problem.arms)
        return ArmMap(cut, problem, _declared(domain, cut.axes, steps), chances)
    if not hasattr(policy, "predict"):
        return None
    steps = [np.linspace(0.0, 1.0, _GRID)] * len(cut.axes)
    points = domain.from_unit(cut.points(steps))
    try:
        mean, deviation = policy.predict(points)
    except InvalidInput:
        return None
    places = _declared(domain, cut.axes, steps)
    return ModelMap(cut, problem, places, mean, deviation, *_sent(policy, problem, cut))


def _sent(policy: Any, problem: Problem, cut: Cut) -> tuple[FloatArray, FloatArray]:
    """(m, a) where a policy sends people, and the share (m,) of each; none of own sets."""
    columns = list(cut.axes)
    if isinstance(problem.space, DecisionSets) or not hasattr(policy, "act"):
        return np.zeros((0, len(columns))), np.zeros(0)
    actions, _ = policy.act(_DRAWS, np.random.default_rng(0))
    sent, counts = np.unique(actions.points[:, columns], axis=0, return_counts=True)
    kept = counts >= _LEAST_SHARE * counts.max()
    return sent[kept], counts[kept] / _DRAWS


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


def maps_of(study: Study, outcomes: Sequence[Outcome], summary: Summary) -> list[PolicyMaps]:
    """The maps of the last policies of replicate 0, in the order of the table.

    Choosing at random has no map, nor has a policy that shows nothing.
    """
    last = {
        outcome.setting.label: outcome.policy
        for outcome in outcomes
        if outcome.policy is not None and outcome.setting.learner != UNIFORM
    }
    order = [line.label for line in (*summary.private, *summary.references)]
    panels = cuts(study.problem.domain, study.report)
    drawn: dict[str, tuple[Map, ...]] = {}
    for label in order:
        maps = [map_of(last[label], study.problem, cut) for cut in panels if label in last]
        if shown := merged_maps([each for each in maps if each is not None]):
            drawn[label] = shown
    seen = [shown.seen for maps in drawn.values() for shown in maps]
    scale = scale_of(np.concatenate([*seen, np.zeros(0)]), study.problem)
    return [PolicyMaps(label, maps, scale) for label, maps in drawn.items()]


def merged_maps(maps: Sequence[Map]) -> tuple[Map, ...]:
    """Maps of equal content as one, with the titles of all."""
    alike: dict[tuple[bytes, ...], list[Map]] = {}
    for shown in maps:
        alike.setdefault(shown.content, []).append(shown)
    titles = ["; ".join(each.cut.title for each in same) for same in alike.values()]
    firsts = [same[0] for same in alike.values()]
    return tuple(
        replace(first, cut=replace(first.cut, title=title))
        for first, title in zip(firsts, titles, strict=True)
    )


def merged_policies(drawn: Sequence[PolicyMaps]) -> list[PolicyMaps]:
    """Policies whose maps look the same as one, with the labels of all."""
    alike: dict[tuple[tuple[bytes, ...], ...], list[PolicyMaps]] = {}
    for each in drawn:
        alike.setdefault(tuple(shown.content for shown in each.maps), []).append(each)
    return [
        replace(same[0], label="; ".join(each.label for each in same)) for same in alike.values()
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
