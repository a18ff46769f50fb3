"""What can be asked: settings by name, and where they lie in the unit cube that a learner sees.

| column         | setting                          | coordinate in [0, 1]                   |
|----------------|----------------------------------|----------------------------------------|
| `(0, 10)`      | a float x                        | (x - lower) / (upper - lower)          |
| `log=True`     | a float                          | the same of logarithms                 |
| `levels=m`     | the nearest of m numbers, an int | the same                               |
|                | where all of them are            |                                        |
| labels         | a label, as a text               | place / (m - 1), in the order declared |

A box is searched as it is where every column has room on its grid; otherwise everyone is given one
of at most 4,096 points: all settings that there are, or a low-discrepancy sample of them.

| array  | shape  | meaning                                                             |
|--------|--------|---------------------------------------------------------------------|
| unit   | (n, d) | coordinates                                                         |
| values | (n, d) | settings as numbers: a label as its place                           |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import qmc

from discreet.people.columns import UNKNOWN, Column, has_names, rows_by_name
from discreet.people.domain import Box, PublicBox, PublicSet
from discreet.validation import FloatArray, InvalidInput

Params = dict[str, float | int | str]

MOST_POINTS = 4_096
# The grid of a box has at least so many places along each of at most two columns.
_PLACES = 41


@dataclass(frozen=True)
class SearchSpace:
    """The settings that columns declare (see the module).

    Attributes:
        columns: d columns, without rules for what lies outside them.
    """

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        for column in self.columns:
            if column.thresholds is not None:
                raise InvalidInput(
                    f"column {column.name!r} has thresholds, which cut numbers that people bring "
                    "into brackets; a search gives values, so declare bounds or labels."
                )
            if column.missing == UNKNOWN:
                raise InvalidInput(
                    f"column {column.name!r} has missing = {UNKNOWN!r}, but a setting has all its "
                    "values; leave missing out."
                )

    @cached_property
    def domain(self) -> Box:
        """The unit cube, with the levels of columns whose coordinates have them at equal steps."""
        return Box(
            (0.0,) * len(self.columns),
            (1.0,) * len(self.columns),
            tuple(column.name for column in self.columns),
            tuple(None if column.log else column.levels for column in self.columns),
        )

    @cached_property
    def offered(self) -> PublicBox | PublicSet:
        """What can be given to everyone."""
        levels = [column.levels for column in self.columns]
        plain = all(
            count is None or (count <= _PLACES and not column.log)
            for count, column in zip(levels, self.columns, strict=True)
        )
        finite = math.prod(count or MOST_POINTS + 1 for count in levels) <= MOST_POINTS
        if finite:
            axes = [np.arange(count) / (count - 1) for count in levels if count]
            mesh = np.meshgrid(*axes, indexing="ij")
            steps = np.stack(mesh, axis=-1).reshape(-1, len(axes))
            return self._settings(self._of_places(steps))
        if plain:
            return PublicBox()
        # The size is a power of two, for which the sequence is balanced.
        drawn = qmc.Sobol(len(self.columns), seed=0).random(MOST_POINTS)
        return self._settings(self.values(drawn))

    def _of_places(self, steps: FloatArray) -> FloatArray:
        """(n, d) values of which every column has the share `steps` of its width."""
        low, high = self._ends
        values: FloatArray = low + steps * (high - low)
        return values

    def _settings(self, values: FloatArray) -> PublicSet:
        """The different settings among values."""
        return PublicSet.of(np.unique(np.round(self.unit(values), 12), axis=0))

    @cached_property
    def _ends(self) -> tuple[FloatArray, FloatArray]:
        """(d,) and (d,) the least and the largest value."""
        return (
            np.array([column.lower for column in self.columns]),
            np.array([column.upper for column in self.columns]),
        )

    @cached_property
    def _logs(self) -> list[int]:
        return [place for place, column in enumerate(self.columns) if column.log]

    def unit(self, values: FloatArray) -> FloatArray:
        """Coordinates of values."""
        values, (low, high) = values.copy(), (each.copy() for each in self._ends)
        for array in (values.T, low, high):
            array[self._logs] = np.log(array[self._logs])
        unit: FloatArray = np.clip((values - low) / (high - low), 0.0, 1.0)
        return unit

    def values(self, unit: FloatArray) -> FloatArray:
        """Values at coordinates; of a column with levels the nearest one."""
        low, high = self._ends
        values = low + unit * (high - low)
        for place in self._logs:
            ratio = math.log(high[place] / low[place])
            values[:, place] = low[place] * np.exp(unit[:, place] * ratio)
        for place, column in enumerate(self.columns):
            if column.levels is not None:
                step = (high[place] - low[place]) / (column.levels - 1)
                values[:, place] = (
                    low[place] + np.round((values[:, place] - low[place]) / step) * step
                )
        return np.clip(values, low, high)

    def params(self, unit: FloatArray) -> list[Params]:
        """The settings at coordinates."""
        return [
            {
                column.name: _shown(column, value)
                for column, value in zip(self.columns, row, strict=True)
            }
            for row in self.values(unit).tolist()
        ]

    def read(self, params: Any) -> FloatArray:
        """(n, d) coordinates of settings: a dictionary, a list of such, or a data frame.

        Raises:
            InvalidInput: for names that are missing or too many, labels that are not declared, and
                numbers outside their bounds.
        """
        if not has_names(params):
            raise InvalidInput(
                f"params was {params!r:.80}; give a dictionary with the keys "
                f"{', '.join(self.domain.names)}, a list of such, or a data frame."
            )
        values = rows_by_name(params, self.columns, name="params")
        low, high = self._ends
        outside = ~((values >= low) & (values <= high))
        if outside.any():
            row, place = (int(each) for each in np.argwhere(outside)[0])
            raise InvalidInput(
                f"params had {values[row, place]:g} in column {self.columns[place].name!r}, row "
                f"{row}; the declared bounds are [{low[place]:g}, {high[place]:g}]."
            )
        return self.unit(values)

    def to_fields(self) -> list[dict[str, Any]]:
        """JSON values of the columns, as a dictionary of `declared_columns` has them."""
        return [
            {"name": each.name, "values": list(each.values)}
            if each.values
            else {
                "name": each.name,
                "lower": each.lower,
                "upper": each.upper,
                "levels": each.levels,
                "log": each.log,
            }
            for each in self.columns
        ]


def _shown(column: Column, value: float) -> float | int | str:
    if column.values:
        return column.values[round(value)]
    if column.levels is None:
        return value
    step = (column.upper - column.lower) / (column.levels - 1)
    return round(value) if column.lower.is_integer() and step.is_integer() else value
