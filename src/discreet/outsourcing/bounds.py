"""The public side of a table: which columns are released, in which bounds and in which units.

A bounds file (TOML) is public. It is agreed before anyone looks at the table, because a bound, a
scale or a mean that is read from data tells about the data:

    id = "patient"             # names people; stays with the curator
    outcome = "cost"           # what is measured on request; stays with the curator (optional)
    radius = 1.0               # how far one row may move, in units of distance (optional)

    [columns.age]
    lower = 18
    upper = 90
    scale = 10                 # ten years are one unit of distance; left out: the whole width

    [columns.income]
    lower = 1000
    upper = 1000000
    log = true                 # distances of logarithms; scale is then in powers of e
    outside = "clip"           # move values to the nearest bound; left out: an error

    [columns.smoker]
    values = ["no", "yes"]     # labels are 0, 1, ...

A row becomes a point of coordinates (T(value) - T(lower)) / scale with T the identity or the
logarithm. Distances, the radius of neighbours and length scales are in these units. Values are
64-bit floating point numbers; one that does not fit counts as the nearest that does.

| array       | shape  | meaning                                    | symbol |
|-------------|--------|--------------------------------------------|--------|
| coordinates | (n, d) | rows, on a grid of 2^-32                   | X      |
| extent      | (d,)   | the largest value of every coordinate      |        |
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from discreet.problems.columns import Column
from discreet.problems.tables import encode_columns
from discreet.validation import FloatArray, InvalidInput, positive_number

# Coordinates are multiples of this, so that how far rounding may carry a row is known.
GRID = 2.0**-32
# Rounding to the grid moves a coordinate by half a step; computing it moves it by less than another
# half, as long as extents are no larger than this and logarithms span no less than that.
_MOST_EXTENT = 2.0**12
_LEAST_LOG_SPAN = 0.01
ROUNDING = 2.0 * GRID
# What the numbers of released rows are called.
ROW = "row"


class _ColumnEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    lower: float | None = None
    upper: float | None = None
    values: list[str] | None = None
    scale: float | None = None
    log: bool = False
    outside: Literal["error", "clip"] = "error"


class _BoundsFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    id: str = Field(min_length=1)
    outcome: str | None = Field(default=None, min_length=1)
    radius: float | None = None
    columns: dict[str, _ColumnEntry] = Field(min_length=1)


@dataclass(frozen=True)
class PublicColumn:
    """One released column.

    Attributes:
        column: its name, bounds and labels; rows are never left out, because how many there are
            would then depend on the data.
        scale: the length of one unit of distance, after the logarithm if there is one.
        log: whether distances are those of logarithms.
    """

    column: Column
    scale: float
    log: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "scale", positive_number(self.scale, f"the scale of {self.name!r}")
        )
        if "drop" in (self.column.outside, self.column.missing):
            raise InvalidInput(
                f"column {self.name!r} leaves rows out; how many rows are released must not depend "
                'on their values, so use "error" or "clip".'
            )
        if self.log and self.column.lower <= 0.0:
            raise InvalidInput(
                f"column {self.name!r} has log = true and the lower bound {self.column.lower:g}; "
                "give a lower bound above 0."
            )
        span = math.log(self.column.upper / self.column.lower) if self.log else 1.0
        if not _LEAST_LOG_SPAN <= span < math.inf:
            raise InvalidInput(
                f"column {self.name!r} has log = true and spans [{self.column.lower:g}, "
                f"{self.column.upper:g}]; logarithms need {'wider' if span < 1.0 else 'narrower'} "
                "bounds, or leave log away."
            )
        if not GRID * 2.0**8 <= self.extent <= _MOST_EXTENT:
            raise InvalidInput(
                f"column {self.name!r} is {self.extent:g} units of distance wide; give a scale "
                f"between {self.extent * self.scale / _MOST_EXTENT:g} and "
                f"{self.extent * self.scale * 2.0**24:g}."
            )

    @property
    def name(self) -> str:
        """The column's name."""
        return self.column.name

    @property
    def extent(self) -> float:
        """The coordinate of the upper bound; the lower one has 0."""
        return float(self._lengths(np.array([self.column.upper]))[0])

    def coordinates(self, values: FloatArray) -> FloatArray:
        """Values (n,) within the bounds as coordinates (n,) on the grid."""
        exact = np.clip(self._lengths(values), 0.0, self.extent)
        steps: FloatArray = np.round(exact / GRID)
        return steps * GRID

    def value_at(self, coordinate: float) -> float:
        """The value that has a coordinate, moved to the nearest bound."""
        inside = min(max(coordinate, 0.0), self.extent) * self.scale
        if self.log:
            return math.exp(math.log(self.column.lower) + inside)
        return self.column.lower + inside

    def _lengths(self, values: FloatArray) -> FloatArray:
        if self.log:
            lengths: FloatArray = np.log(values / self.column.lower) / self.scale
        else:
            lengths = (values - self.column.lower) / self.scale
        return lengths

    def to_dict(self) -> dict[str, Any]:
        """The column as JSON values."""
        shown: dict[str, Any] = {"name": self.name}
        if self.column.values:
            shown["values"] = list(self.column.values)
        else:
            shown |= {"lower": self.column.lower, "upper": self.column.upper}
        return {**shown, "scale": self.scale, "log": self.log, "outside": self.column.outside}


@dataclass(frozen=True)
class PublicBounds:
    """What is public about a table before it is released (see the module).

    Attributes:
        columns: the released columns, in order.
        id: the column that names people.
        outcome: the column with outcomes, if the table has one.
        radius: how far a row may move, if the file says so.
    """

    columns: tuple[PublicColumn, ...]
    id: str
    outcome: str | None = None
    radius: float | None = None

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if not names or len(set(names)) < len(names):
            raise InvalidInput(f"the columns were {names}; give at least one, each once.")
        if ROW in names:
            raise InvalidInput(
                f"a column is called {ROW!r}, as the numbers of released rows are; rename it."
            )
        if not self.id or self.id in names or self.id == self.outcome:
            raise InvalidInput(
                f"the column of ids was {self.id!r}; it must be a column of its own, which is "
                "neither released nor the outcome."
            )
        if self.outcome in names:
            raise InvalidInput(
                f"the outcome {self.outcome!r} is also a released column; a modeler would see what "
                "it is to ask for. Take it out of one of the two."
            )
        if self.radius is not None:
            object.__setattr__(self, "radius", positive_number(self.radius, "radius"))

    @property
    def extent(self) -> FloatArray:
        """(d,) the largest coordinates."""
        return np.array([column.extent for column in self.columns])

    @property
    def diameter(self) -> float:
        """How far any two rows can be apart, rounded up."""
        return float(np.linalg.norm(self.extent + GRID)) * (1.0 + 2.0**-40)

    def coordinates(self, frame: pd.DataFrame) -> FloatArray:
        """(n, d) the rows of a table as points.

        Raises:
            InvalidInput: for a column that is not there, a missing value, text among numbers, or
                a value outside the bounds of a column that does not say `outside = "clip"`.
        """
        found = encode_columns(frame, [column.column for column in self.columns], may_drop=False)
        return np.stack(
            [
                column.coordinates(found.values[:, place])
                for place, column in enumerate(self.columns)
            ],
            axis=1,
        )

    def to_dict(self) -> dict[str, Any]:
        """The bounds as JSON values; names of the columns that stay at home are left out."""
        return {"columns": [column.to_dict() for column in self.columns]}

    @classmethod
    def from_dict(
        cls, fields: Mapping[str, Any], id: str = "id", outcome: str | None = None
    ) -> PublicBounds:
        """The inverse of `to_dict`."""
        columns = []
        for given in fields["columns"]:
            entry = dict(given)
            columns.append(_column(entry.pop("name"), _ColumnEntry.model_validate(entry)))
        return cls(tuple(columns), id, outcome)


def read_bounds(path: Path) -> PublicBounds:
    """The bounds in a TOML file (see the module).

    Raises:
        InvalidInput: a file that cannot be read, an unknown or missing key, bounds that do not fit.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the bounds file {path} cannot be read ({error}).") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"the bounds file {path} is not TOML: {error}.") from error
    try:
        file = _BoundsFile.model_validate(_floats(content))
    except ValidationError as error:
        raise InvalidInput(
            f"the bounds file {path} is inconsistent: {'; '.join(map(_what, error.errors()))}."
        ) from error
    columns = tuple(_column(name, entry) for name, entry in file.columns.items())
    return PublicBounds(columns, file.id, file.outcome, file.radius)


def _floats(value: Any) -> Any:
    """TOML's whole numbers as floats; truth values stay what they are."""
    if isinstance(value, dict):
        return {key: _floats(each) for key, each in value.items()}
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    return float(value) if abs(value) < 2**1023 else math.inf


def _what(problem: Any) -> str:
    where = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        model = _ColumnEntry if len(problem["loc"]) > 1 else _BoundsFile
        return f"{where} is not a key (allowed: {', '.join(model.model_fields)})"
    if problem["type"] == "missing":
        return f"{where} is missing"
    return f"{where} was {problem['input']!r}: {problem['msg']}"


def _column(name: str, entry: _ColumnEntry) -> PublicColumn:
    if entry.values is not None:
        if entry.lower is not None or entry.upper is not None or entry.log:
            raise InvalidInput(
                f"column {name!r} has values and also lower, upper or log; labels are numbered "
                "0, 1, ..., so give either values or bounds."
            )
        if entry.outside != "error":
            raise InvalidInput(
                f"column {name!r} has values and outside = {entry.outside!r}; labels have no "
                "nearest bound, so add every label that occurs to values."
            )
        column = Column.category(name, tuple(entry.values))
        width = column.upper
    else:
        if entry.lower is None or entry.upper is None:
            raise InvalidInput(
                f"column {name!r} has lower = {entry.lower} and upper = {entry.upper}; give both "
                "bounds for numbers, or values = [...] for labels."
            )
        column = Column(name, entry.lower, entry.upper, outside=entry.outside)
        logarithms = entry.log and column.lower > 0.0
        width = math.log(column.upper / column.lower) if logarithms else column.upper - column.lower
    return PublicColumn(column, width if entry.scale is None else entry.scale, entry.log)
