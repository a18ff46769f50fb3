"""An axis of the map of released rows: one released number, in the units of its column.

| array  | shape | meaning                                      |
|--------|-------|----------------------------------------------|
| values | (n,)  | where every row is believed to be            |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import Formatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from discreet.reporting.column_units import number_text, values_at
from discreet.reporting.palette import INK, SMALL, text_inches
from discreet.reporting.search_view import SearchView
from discreet.validation import FloatArray, IntArray

_ROOM = 0.03
# A logarithmic axis that spans less than this factor has ticks as a linear one.
_SHORT = 20.0
_GAP = 0.12  # inches between labels
_LONG = 16  # characters of a label


@dataclass(frozen=True, eq=False)
class RowAxis:
    """See the module.

    Attributes:
        name: what is written at the axis.
        values: in the units of the column.
        log: whether the axis is logarithmic.
        labels: of a column of labels; they stand at 0, 1, ...
    """

    name: str
    values: FloatArray
    log: bool = False
    labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, view: SearchView, place: int) -> RowAxis:
        """The axis of the released number `place`."""
        coordinates = view.search.beliefs.mean[:, place]
        column = view.columns[place]
        if column is None:
            name = f"{view.certificate.names[place]} (units of distance)"
            return cls(name, np.array(coordinates))
        name = f"{column.name} (logarithmic)" if column.log else column.name
        return cls(name, values_at(column, coordinates), column.log, column.column.values)

    @cached_property
    def limits(self) -> tuple[float, float]:
        """The ends of the axis: all rows, or all labels, and some room."""
        if self.log:
            low, high = np.exp(roomy(np.log(self.values), _ROOM))
            return float(low), float(high)
        ends = np.array([0.0, len(self.labels) - 1.0]) if self.labels else self.values
        return roomy(ends, _ROOM)

    def edges(self, cells: int) -> FloatArray:
        """(cells + 1,) borders of equally wide cells between the limits."""
        low, high = self.limits
        edges = (
            np.geomspace(low, high, cells + 1) if self.log else np.linspace(low, high, cells + 1)
        )
        return np.asarray(edges, dtype=np.float64)

    def cell_of(self, cells: int) -> IntArray:
        """(n,) in which of this many cells each row is."""
        low, high = np.log(self.limits) if self.log else self.limits
        at = np.log(self.values) if self.log else self.values
        found = np.clip(np.floor((at - low) / (high - low) * cells), 0, cells - 1)
        return np.asarray(found, dtype=np.int64)

    def margin(self, length: float) -> float:
        """Inches that the ticks need beside a vertical axis of this length."""
        if self.labels:
            return max(text_inches(_short(label)) for label in self.labels)
        low, high = self.limits
        ticks = self._locator(length).tick_values(low, high)
        return tick_width([value for value in ticks if low <= value <= high])

    def draw(self, axes: Axes, which: Literal["x", "y"], length: float) -> None:
        """Limits, scale, ticks and name of an axis that is `length` inches long."""
        axis = axes.xaxis if which == "x" else axes.yaxis
        if self.log:
            (axes.set_xscale if which == "x" else axes.set_yscale)("log")
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())
        if self.labels:
            shown = _fitting(self.labels, length, which)
            axis.set_ticks(shown, [_short(self.labels[place]) for place in shown])
        else:
            axis.set_major_locator(self._locator(length))
            axis.set_major_formatter(EvenTicks())
        (axes.set_xlim if which == "x" else axes.set_ylim)(*self.limits)
        axis.set_label_text(self.name, fontsize=SMALL, color=INK)
        axis.labelpad = 3

    def _locator(self, length: float) -> LogLocator | MaxNLocator:
        low, high = self.limits
        if self.log and high / low > _SHORT:
            return LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 1e3 else (1.0,))
        return MaxNLocator(max(3, min(7, int(length / 0.7))))


class EvenTicks(Formatter):
    """Ticks that all have as many decimals as the finest of them needs: 42.00, 42.02."""

    def __call__(self, value: float, pos: int | None = None) -> str:
        """One tick on its own."""
        return number_text(value, 9)

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        """All ticks of an axis."""
        size = max((abs(value) for value in values), default=0.0)
        for digits in range(7) if size < 1e9 else ():
            if all(abs(round(value, digits) - value) <= 1e-9 * size for value in values):
                return [f"{value:,.{digits}f}" for value in values]
        return [f"{value:.4g}" for value in values]


def tick_width(ticks: Sequence[float]) -> float:
    """Inches that the widest of these ticks needs."""
    return max((text_inches(text) for text in EvenTicks().format_ticks(ticks)), default=0.0)


def roomy(values: FloatArray, share: float) -> tuple[float, float]:
    """The least and largest of values (n,), moved apart by a share of what lies between them."""
    low, high = float(values.min()), float(values.max())
    size = max(abs(low), abs(high))
    room = share * (high - low) if high - low > 1e-9 * size else 1e-3 * size or 1.0
    return low - room, high + room


def _short(label: str) -> str:
    return label if len(label) <= _LONG else f"{label[: _LONG - 1]}…"


def _fitting(labels: tuple[str, ...], length: float, which: str) -> list[int]:
    """Which labels are written: every one, or every second, third, ... where they are too long."""
    sizes = [text_inches(_short(label)) if which == "x" else SMALL / 72.0 for label in labels]
    room = length / max(len(labels) - 1, 1)
    step = max(1, int(np.ceil((max(sizes) + _GAP) / room)))
    return list(range(0, len(labels), step))
