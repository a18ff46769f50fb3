"""The map of a policy: which arm it gives to whom, over one or two columns of the context.

A policy that partitions its domain is drawn bin by bin: the boxes of its tree, cut where the other
columns stand. Any other policy is drawn on a grid. Each box has the colour of its most probable
arm, stronger the more probable it is; dots show the arms that are still tried there. Over a single
column the height of each colour is the arm's probability.

| array         | shape  | meaning                                                         |
|---------------|--------|-----------------------------------------------------------------|
| lower, upper  | (M, a) | corners of the boxes along the a shown columns, in [0, 1]       |
| probabilities | (M, K) | of the arms in each box                                         |
| active        | (M, K) | arms that are left there                                        |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from discreet.action_space import ArmPoints
from discreet.domain import Box
from discreet.learners.epochs.policy import EpochPolicy
from discreet.learners.messages import ArmPolicy
from discreet.learners.partition.tree import Tree
from discreet.problems.base import Problem
from discreet.reporting.map_heads import head
from discreet.reporting.palette import (
    INK,
    SMALL,
    UNDECIDED,
    arm_colors,
    in_lines,
    line_inches,
    literal,
    shortened,
    tint,
)
from discreet.studies import ReportEntry
from discreet.validation import BoolArray, FloatArray, IntArray

_GRID = 48  # boxes along each column for policies without bins
_FEW_LEVELS = 4  # another column with at most this many levels gets a panel for each
_MANY_ARMS, _SOME_ARMS = 12, 7  # of more points than this the legend names only some
_CATEGORY = 0.3  # inches of a category beside the vertical axis
_DOT = 7.0 / 72.0  # inches that a dot needs
_LEFT, _RIGHT, _BOTTOM = 0.5, 0.15, 0.48  # inches


@runtime_checkable
class Binned(Protocol):
    """A policy that is constant on the leaves of a tree."""

    @property
    def tree(self) -> Tree:
        """The partition of [0, 1]^d."""

    @property
    def active(self) -> BoolArray:
        """(L, K) the arms left in each leaf."""


@dataclass(frozen=True)
class MapPanel:
    """One cut through the domain.

    Attributes:
        axes: the shown columns, one or two.
        point: (d,) where the others stand, in [0, 1].
        title: says where that is, in declared units; empty when no column is left out.
    """

    axes: tuple[int, ...]
    point: FloatArray
    title: str


@dataclass(frozen=True)
class Boxes:
    """See the module's table; `edges` says whether the boxes are bins of the policy."""

    lower: FloatArray
    upper: FloatArray
    probabilities: FloatArray
    active: BoolArray
    edges: bool


def map_panels(domain: Box, report: ReportEntry) -> tuple[MapPanel, ...]:
    """The cuts that a study's `[report]` asks for.

    The columns are `report.axes`, otherwise the first two. The others stand at `report.at` or in
    the middle; if one of them alone has few levels and no place in `report.at`, each of its levels
    gets a panel.
    """
    chosen = tuple(domain.names.index(name) for name in dict.fromkeys(report.axes))
    axes = chosen or tuple(range(min(2, domain.dimension)))
    others = [column for column in range(domain.dimension) if column not in axes]
    values = [_place(domain, column, report.at) for column in range(domain.dimension)]
    free = [c for c in others if domain.names[c] not in report.at and _levels(domain, c)]
    if len(free) != 1:
        return (_cut(domain, axes, others, values),)
    column, count = free[0], _levels(domain, free[0])
    panels = []
    for value in np.linspace(domain.lower[column], domain.upper[column], count):
        values[column] = float(value)
        panels.append(_cut(domain, axes, others, values))
    return tuple(panels)


def cut_note(domain: Box, report: ReportEntry) -> str:
    """Which columns `map_panels` shows, where the others stand, and who chose that."""
    panels = map_panels(domain, report)
    axes = panels[0].axes
    others = [column for column in range(domain.dimension) if column not in axes]
    if not others:
        return ""
    varied = [c for c in others if len({panel.point[c] for panel in panels}) > 1]
    asked = [c for c in others if domain.names[c] in report.at]
    middle = [c for c in others if c not in (*varied, *asked)]
    places = domain.from_unit(panels[0].point[None])[0]
    shown = " and ".join(domain.names[column] for column in axes)
    start = "" if report.axes else ", which come first in the table"
    texts = [f"Maps show {shown}{start}."]
    for columns, why in (
        (asked, "as the study file asks"),
        (middle, "an arbitrary choice, near the middle, as the study file makes none"),
    ):
        if columns:
            where = [f"{domain.names[c]} = {domain.text(c, float(places[c]))}" for c in columns]
            texts.append(f"They are drawn at {', '.join(where)} ({why}).")
    if varied:
        texts.append(f"There is one for each value of {domain.names[varied[0]]}.")
    if middle:
        texts.append("Elsewhere they may look different: choose with `at` under [report].")
    return " ".join(texts)


def boxes_of(policy: ArmPolicy, panel: MapPanel) -> Boxes:
    """The boxes that a cut through a policy shows."""
    axes = list(panel.axes)
    if isinstance(policy, Binned):
        tree, point = policy.tree, panel.point
        lower, upper = tree.lower[tree.leaves], tree.upper[tree.leaves]
        met = (lower <= point) & ((point < upper) | (upper >= 1.0))
        met[:, axes] = True
        shown = met.all(axis=1)
        lower, upper, active = lower[shown], upper[shown], policy.active[shown]
        centres = np.tile(point, (len(lower), 1))
        centres[:, axes] = 0.5 * (lower + upper)[:, axes]
        chances = policy.probabilities(policy.domain.from_unit(centres))
        return Boxes(lower[:, axes], upper[:, axes], chances, active, True)
    steps = np.arange(_GRID) / _GRID
    corner = np.stack(np.meshgrid(*[steps] * len(axes), indexing="ij"), axis=-1)
    low = corner.reshape(-1, len(axes))
    centres = np.tile(panel.point, (len(low), 1))
    centres[:, axes] = low + 0.5 / _GRID
    if isinstance(policy, EpochPolicy):
        # Not `probabilities`, which refuses contexts that nobody brings.
        chances = policy.decision.probabilities(centres)
    else:
        chances = policy.probabilities(policy.domain.from_unit(centres))
    return Boxes(low, low + 1.0 / _GRID, chances, chances > 0.0, False)


def map_figure(
    policy: ArmPolicy, problem: Problem, report: ReportEntry, title: str, width: float
) -> Figure:
    """The map of one policy, with as many panels in a row as `width` inches hold."""
    panels = map_panels(problem.domain, report)
    boxes = [boxes_of(policy, panel) for panel in panels]
    single = len(panels[0].axes) == 1
    columns = min(len(panels), 2 if width > 6.0 else 1)
    rows = -(-len(panels) // columns)
    inside = width / columns - _LEFT - _RIGHT
    size = (inside, min(0.5 * inside, 1.6) if single else min(0.72 * inside, 2.6))
    tied = not single and any(_tied(box.probabilities).any() for box in boxes)
    above_all = head(title, "", _legend(problem, tied), _LEFT - 0.02, width)
    titles = [in_lines(panel.title, inside) for panel in panels]
    above = panel_title_inches(titles)
    row = above + size[1] + _BOTTOM
    height = above_all.height + rows * row
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    above_all.draw(figure)
    for place, (panel, box) in enumerate(zip(panels, boxes, strict=True)):
        across, down = place % columns, place // columns
        left = across * width / columns + _LEFT
        bottom = height - above_all.height - down * row - above - size[1]
        axes = figure.add_axes((left / width, bottom / height, size[0] / width, size[1] / height))
        (_draw_shares if single else _draw_boxes)(axes, box, problem.domain, panel.axes, size)
        axes.set_title(titles[place], loc="left", fontsize=SMALL, color=INK, pad=4)
        _label_axes(axes, problem.domain, panel.axes, size)
    return literal(figure)


def named_arms(problem: Problem) -> IntArray:
    """The arms that the legend names: all, or a few on the way where very many are points."""
    few = not isinstance(problem.space, ArmPoints) or problem.arms <= _MANY_ARMS
    count = problem.arms if few else _SOME_ARMS
    return np.linspace(0, problem.arms - 1, count).round().astype(np.int64)


def _legend(problem: Problem, tied: bool) -> list[Patch]:
    colors = arm_colors(problem.arms)
    entries = [(problem.arm_names[arm], colors[arm]) for arm in named_arms(problem)]
    entries += [("undecided", UNDECIDED)] if tied else []
    return [Patch(facecolor=tint(color, 0.85), label=name) for name, color in entries]


def panel_title_inches(titles: Sequence[str]) -> float:
    """The room that titles of panels need above these."""
    lines = max(1 + title.count("\n") if title else 0 for title in titles)
    return 0.08 + lines * line_inches()


def _draw_boxes(
    axes: Axes, boxes: Boxes, domain: Box, shown: tuple[int, ...], size: tuple[float, float]
) -> None:
    """Two columns: a rectangle for each box, and dots for the arms left in it."""
    colors = arm_colors(boxes.probabilities.shape[1])
    low, high = _units(domain, shown, boxes.lower), _units(domain, shown, boxes.upper)
    extent = high - low
    patches = [Rectangle((a[0], a[1]), b[0], b[1]) for a, b in zip(low, extent, strict=True)]
    fills = _fills(boxes.probabilities, colors)
    lines = "white" if boxes.edges else fills
    axes.add_collection(
        PatchCollection(
            patches,
            facecolors=fills,
            edgecolors=lines,
            linewidths=0.7 if boxes.edges else 0.2,
            rasterized=not boxes.edges,
        )
    )
    bounds = _units(domain, shown, np.array([[0.0, 0.0], [1.0, 1.0]]))
    axes.set_xlim(bounds[0, 0], bounds[1, 0])
    axes.set_ylim(bounds[0, 1], bounds[1, 1])
    if boxes.edges:
        inches = extent / (bounds[1] - bounds[0]) * np.array(size)
        step = _DOT / size[0] * (bounds[1, 0] - bounds[0, 0])
        _draw_dots(axes, boxes.active, 0.5 * (low + high), inches, colors, step)


def _draw_dots(
    axes: Axes,
    active: BoolArray,
    centres: FloatArray,
    inches: FloatArray,
    colors: Sequence[str],
    step: float,
) -> None:
    """The arms left in each box with more than one, where they fit; `step` is in axis units."""
    for arms, centre, extent in zip(active, centres, inches, strict=True):
        left: IntArray = np.flatnonzero(arms)
        if len(left) < 2 or extent[0] < (len(left) + 0.4) * _DOT or extent[1] < 1.4 * _DOT:
            continue
        x = centre[0] + step * (np.arange(len(left)) - 0.5 * (len(left) - 1))
        axes.scatter(
            x,
            np.full(len(left), centre[1]),
            s=15,
            c=[colors[arm] for arm in left],
            edgecolors="white",
            linewidths=0.7,
            zorder=3,
        )


def _draw_shares(
    axes: Axes, boxes: Boxes, domain: Box, shown: tuple[int, ...], size: tuple[float, float]
) -> None:
    """One column: the probabilities of the arms on top of each other."""
    low, high = _units(domain, shown, boxes.lower)[:, 0], _units(domain, shown, boxes.upper)[:, 0]
    base = np.zeros(len(low))
    for arm, color in enumerate(arm_colors(boxes.probabilities.shape[1])):
        share = boxes.probabilities[:, arm]
        axes.bar(
            low,
            share,
            high - low,
            bottom=base,
            align="edge",
            color=tint(color, 0.8),
            edgecolor="white" if boxes.edges else tint(color, 0.8),
            linewidth=0.7 if boxes.edges else 0.1,
        )
        base = base + share
    ends = _units(domain, shown, np.array([[0.0], [1.0]]))[:, 0]
    axes.set_xlim(ends[0], ends[1])
    axes.set_ylim(0.0, 1.0)


def _label_axes(axes: Axes, domain: Box, shown: tuple[int, ...], size: tuple[float, float]) -> None:
    names = [domain.names[column] for column in shown] + ["probability"]
    across, up = (shortened(name, room) for name, room in zip(names[:2], size, strict=True))
    axes.set_xlabel(across, fontsize=SMALL, color=INK, labelpad=2)
    axes.set_ylabel(up, fontsize=SMALL, color=INK, labelpad=2)
    axes.tick_params(labelsize=SMALL - 0.5, colors="#444444", length=2.5, width=0.6)
    for place, axis in enumerate((axes.xaxis, axes.yaxis)[: len(shown)]):
        labels = domain.categories[shown[place]]
        if labels:
            room = size[0] / len(labels) - 0.08 if place == 0 else _CATEGORY
            axis.set_ticks(range(len(labels)), [shortened(label, room) for label in labels])
            continue
        axis.set_major_locator(MaxNLocator(5, integer=_whole(domain, shown[place])))
    for spine in axes.spines.values():
        spine.set_visible(False)


def _whole(domain: Box, column: int) -> bool:
    """Whether a column takes whole numbers only."""
    low, high, count = domain.lower[column], domain.upper[column], domain.levels[column]
    return count is not None and low.is_integer() and ((high - low) / (count - 1)).is_integer()


def _fills(probabilities: FloatArray, colors: Sequence[str]) -> list[str]:
    """The colour of each box: its most probable arm, from faint at 1/K to strong at 1."""
    best = probabilities.argmax(axis=1)
    chance = 1.0 / probabilities.shape[1]
    strength = (probabilities.max(axis=1) - chance) / (1.0 - chance)
    tied = _tied(probabilities)
    return [
        tint(UNDECIDED, 0.7) if even else tint(colors[arm], 0.2 + 0.65 * float(weight))
        for arm, weight, even in zip(best, strength, tied, strict=True)
    ]


def _tied(probabilities: FloatArray) -> BoolArray:
    """(M,) whether no arm is more probable than all others."""
    ordered = np.sort(probabilities, axis=1)
    return np.asarray(ordered[:, -1] - ordered[:, -2] < 1e-9)


def _units(domain: Box, shown: tuple[int, ...], unit: FloatArray) -> FloatArray:
    """(n, a) places of edges of the shown columns in declared units.

    A column with categories is drawn as one band for each, so an edge between two values lies
    half-way between them.
    """
    points = np.zeros((len(unit), domain.dimension))
    points[:, list(shown)] = unit
    places = domain.from_unit(points)[:, list(shown)]
    for place, column in enumerate(shown):
        count = domain.levels[column]
        if domain.categories[column] and count is not None:
            edge = unit[:, place]
            below = np.searchsorted(np.arange(count) / (count - 1), edge)
            places[:, place] = np.where(edge >= 1.0, count, below) - 0.5
    return places


def _levels(domain: Box, column: int) -> int:
    """How many levels a column has if they are few, otherwise 0."""
    count = domain.levels[column]
    return count if count is not None and count <= _FEW_LEVELS else 0


def _place(domain: Box, column: int, at: dict[str, float]) -> float:
    """Where a column stands: as asked for, or at its middle value."""
    low, high, levels = domain.lower[column], domain.upper[column], domain.levels[column]
    if domain.names[column] in at:
        return at[domain.names[column]]
    if levels is None:
        return 0.5 * (low + high)
    return low + (high - low) * ((levels - 1) // 2) / (levels - 1)


def _cut(
    domain: Box, axes: tuple[int, ...], others: Sequence[int], values: Sequence[float]
) -> MapPanel:
    title = ", ".join(f"{domain.names[c]} = {domain.text(c, values[c])}" for c in others)
    return MapPanel(axes, domain.to_unit(np.array([values]))[0], title)
