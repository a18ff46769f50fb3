"""What maps have in common: where they cut through the domain of a problem, and their axes.

A map shows one or two columns; the others stand where the study's `[report]` says.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis as MatplotlibAxis
from matplotlib.axis import XAxis

from discreet.lab.environments.base import Problem
from discreet.lab.reporting.figures import Axis, EvenTicks, number_axis
from discreet.lab.reporting.layout import INK, SMALL, VERMILLION, shortened
from discreet.lab.reporting.numbers import listed
from discreet.lab.studies import ReportEntry
from discreet.people.domain import Box
from discreet.validation import FloatArray

_FEW_TICKS = 7  # along a column
_FEW_LEVELS = 4  # another column with at most this many levels gets a panel for each


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


@dataclass(frozen=True)
class CutNote:
    """Which columns maps show, where the others stand, and who chose that.

    Attributes:
        shown: the columns.
        chosen: whether the study file asks for them.
        asked: columns, and where they stand as the study file asks.
        middle: columns, and where they stand near the middle, as it asks for nothing.
        varied: the column that has a map for each of its values.
    """

    shown: str
    chosen: bool
    asked: str
    middle: str
    varied: str


@dataclass(frozen=True)
class Map(ABC):
    """One cut through what one policy does.

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


def cuts(domain: Box, report: ReportEntry) -> tuple[Cut, ...]:
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
    (column,) = free
    levels = np.linspace(domain.lower[column], domain.upper[column], _levels(domain, column))
    return tuple(
        _cut(domain, axes, others, [*values[:column], level, *values[column + 1 :]])
        for level in levels.tolist()
    )


def joint_cut(domain: Box, same: Sequence[Cut]) -> Cut:
    """The first of cuts that show the same, with a title that says where they all are."""
    first, *others = same
    if not others:
        return first
    places = domain.from_unit(np.array([cut.point for cut in same]))
    columns = [column for column in range(domain.dimension) if column not in first.axes]
    return replace(first, title=_title(domain, columns, places))


def first_column(domain: Box, report: ReportEntry) -> ReportEntry:
    """What a study's `[report]` asks for, of the columns the first alone."""
    return ReportEntry(axes=report.axes[:1] or list(domain.names[:1]), at=report.at)


def cut_note(domain: Box, report: ReportEntry) -> CutNote | None:
    """What `cuts` shows; None where no column is left out."""
    panels = cuts(domain, report)
    others = [column for column in range(domain.dimension) if column not in panels[0].axes]
    if not others:
        return None
    varied = [c for c in others if len({panel.point[c] for panel in panels}) > 1]
    asked = [c for c in others if domain.names[c] in report.at]
    middle = [c for c in others if c not in (*varied, *asked)]
    places = domain.from_unit(panels[0].point[None])[0]

    def stand(columns: Sequence[int]) -> str:
        return _title(domain, columns, places[None])

    return CutNote(
        shown=" and ".join(domain.names[column] for column in panels[0].axes),
        chosen=bool(report.axes),
        asked=stand(asked),
        middle=stand(middle),
        varied=domain.names[varied[0]] if varied else "",
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


def draw_dots(axes: Axes, places: FloatArray, sizes: FloatArray) -> None:
    """Where people (n, 2) are sent; a border cuts off none of a few."""
    many = len(sizes) > 200
    axes.scatter(
        places[:, 0],
        places[:, 1],
        s=sizes,
        c=VERMILLION,
        edgecolors="white",
        linewidths=np.where(sizes > 6.0, 0.7, 0.0).tolist(),
        zorder=5,
        clip_on=many,
        rasterized=many,
    )


def edges_of(domain: Box, shown: tuple[int, ...], unit: FloatArray) -> FloatArray:
    """(n, a) places of edges (n, a) in [0, 1] of the shown columns, in declared units.

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


def _title(domain: Box, columns: Sequence[int], places: FloatArray) -> str:
    """Where columns stand at places (n, d): "smoker = no and yes, income = 100,000"."""
    stands = []
    for column in columns:
        values = dict.fromkeys(places[:, column].tolist())
        texts = listed([_text(domain, column, value) for value in values])
        stands.append(f"{domain.names[column]} = {texts}")
    return ", ".join(stands)


def _text(domain: Box, column: int, value: float) -> str:
    long = not domain.categories[column] and abs(value) >= 10_000.0
    return f"{value:,.0f}" if long else domain.text(column, value)


def _comparable(value: object) -> object:
    """Arrays, also within dataclasses and tuples, as what can be compared and hashed."""
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if is_dataclass(value):
        return tuple(_comparable(getattr(value, field.name)) for field in fields(value))
    return tuple(map(_comparable, value)) if isinstance(value, tuple) else value


def _cut(domain: Box, axes: tuple[int, ...], others: Sequence[int], values: Sequence[float]) -> Cut:
    title = _title(domain, others, np.array([values]))
    return Cut(axes, domain.to_unit(np.array([values]))[0], title)
