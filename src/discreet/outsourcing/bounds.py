"""The public side of a table: which columns are released, in which bounds and in which units.

A bounds file (TOML) is public. It is agreed on before anyone looks at the table, because a bound, a
scale or a mean that is read off the data says something about the data:

    id = "patient"             # names people; stays with the curator
    outcome = "cost"           # what is measured on request; stays with the curator (optional)
    radius = 1.0               # how far one row may move, in units of distance (optional)

    [columns.age]
    lower = 18
    upper = 90
    scale = 10                 # ten years are one unit of distance; if left out, the whole width
    missing = 45               # what an empty value counts as; if left out, an error

    [columns.income]
    lower = 1000
    upper = 1000000
    log = true                 # distances of logarithms; scale is then in powers of e
    outside = "clip"           # move values to the nearest bound; if left out, an error

    [columns.smoker]
    values = ["no", "yes"]     # labels are 0, 1, ...; numbers and true, false can be labels too

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
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, Strict

from discreet.codec import register
from discreet.people.columns import Column, Label, Labels, Number, label_text
from discreet.people.tables import column_of, encode_columns, numbers_of, sheet_row
from discreet.toml_files import Place, checked, read_toml, toml_value
from discreet.validation import ErrorCollector, FloatArray, InvalidInput, positive_number

# Coordinates are multiples of this, so that how far rounding may carry a row is known.
GRID = 2.0**-32
# Rounding to the grid moves a coordinate by half a step; computing it moves it by less than another
# half, as long as extents are no larger than this and logarithms span no less than that.
_MOST_EXTENT = 2.0**12
_LEAST_LOG_SPAN = 0.01
ROUNDING = 2.0 * GRID
# What the numbers of released rows are called.
ROW = "row"


@dataclass(frozen=True, kw_only=True)
class PublicColumn:
    """One released column, as the bounds file and the certificate have it.

    Attributes:
        lower, upper: its bounds, for numbers.
        values: its labels, instead of bounds.
        scale: the length of one unit of distance, after the logarithm if there is one; the whole
            width if left out.
        log: whether distances are those of logarithms.
        outside: whether values outside are an error or moved to the nearest bound. Rows are never
            left out, because how many there are would then depend on the data.
        missing: what an empty value counts as, a value within the bounds or a label; None for an
            error. Never a mean or another figure of the table, which would not be public.
        name: the column's name.
        column: the same as tables are read by.
        fill: `missing` as a number; of labels their place.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    lower: Number = math.nan
    upper: Number = math.nan
    values: Labels = ()
    scale: Number = math.nan
    log: Annotated[bool, Strict()] = False
    outside: Literal["error", "clip"] = "error"
    missing: Label | None = None
    name: str
    column: Column = field(init=False, repr=False, compare=False)
    fill: float | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        bounded = self.lower == self.lower or self.upper == self.upper  # NaN: not given
        if self.values and (bounded or self.log or self.outside != "error"):
            raise InvalidInput(
                f"column {self.name!r} has values and also lower, upper, log or outside; labels "
                "are numbered 0, 1, ... and have no nearest bound, so give either values or "
                "bounds, and among values every label that occurs."
            )
        if self.outside not in ("error", "clip"):
            raise InvalidInput(
                f"column {self.name!r} leaves rows out; how many rows are released must not depend "
                'on their values, so use "error" or "clip".'
            )
        column = Column(self.name, self.lower, self.upper, None, self.values, self.outside)
        low, high = column.lower, column.upper
        known = {"values": column.values} if column.values else {"lower": low, "upper": high}
        for key, value in {**known, "column": column}.items():
            object.__setattr__(self, key, value)
        object.__setattr__(self, "fill", self._filled())
        if self.log and low <= 0.0:
            raise InvalidInput(
                f"column {self.name!r} has log = true and the lower bound {low:g}; give a lower "
                "bound above 0."
            )
        span = math.log(high / low) if self.log else 1.0
        scale = self.scale if self.scale == self.scale else span if self.log else high - low
        object.__setattr__(self, "scale", positive_number(scale, f"the scale of {self.name!r}"))
        if not _LEAST_LOG_SPAN <= span < math.inf:
            raise InvalidInput(
                f"column {self.name!r} has log = true and spans [{low:g}, {high:g}]; logarithms "
                f"need {'wider' if span < 1.0 else 'narrower'} bounds, or leave log out."
            )
        if not GRID * 2.0**8 <= self.extent <= _MOST_EXTENT:
            raise InvalidInput(
                f"column {self.name!r} is {self.extent:g} units of distance wide; give a scale "
                f"between {self.extent * self.scale / _MOST_EXTENT:g} and "
                f"{self.extent * self.scale * 2.0**24:g}."
            )

    def _filled(self) -> float | None:
        """The number that replaces an empty value."""
        missing, labels = self.missing, self.column.values
        if missing is None:
            return None
        what = f"missing of column {self.name!r} was {toml_value(missing)}"
        if labels:
            if label_text(missing) not in labels:
                raise InvalidInput(f"{what}; it must be one of the labels: {', '.join(labels)}.")
            return float(labels.index(label_text(missing)))
        if isinstance(missing, bool | str):
            raise InvalidInput(f"{what}; it must be a number.")
        if not self.column.lower <= missing <= self.column.upper:
            raise InvalidInput(
                f"{what}; it must lie within the bounds [{self.column.lower:g}, "
                f"{self.column.upper:g}]."
            )
        return float(missing)

    @property
    def extent(self) -> float:
        """The coordinate of the upper bound; the lower one has 0."""
        return float(self._lengths(np.array([self.column.upper]))[0])

    def coordinates(self, values: FloatArray) -> FloatArray:
        """Values (n,) within the bounds as coordinates (n,) on the grid."""
        steps: FloatArray = np.round(np.clip(self._lengths(values), 0.0, self.extent) / GRID)
        return steps * GRID

    def value_at(self, coordinate: float) -> float:
        """The value that has a coordinate, moved to the nearest bound."""
        inside = min(max(coordinate, 0.0), self.extent) * self.scale
        if self.log:
            return math.exp(math.log(self.column.lower) + inside)
        return self.column.lower + inside

    def _lengths(self, values: FloatArray) -> FloatArray:
        low = self.column.lower
        lengths: FloatArray = np.log(values / low) if self.log else values - low
        return lengths / self.scale

    def to_fields(self) -> dict[str, Any]:
        """The column as JSON values."""
        bounds = {"lower": self.lower, "upper": self.upper}
        shown: dict[str, Any] = {"values": list(self.values)} if self.values else bounds
        shown = {"name": self.name, **shown, "scale": self.scale, "log": self.log}
        missing = {} if self.missing is None else {"missing": self.missing}
        return {**shown, "outside": self.outside, **missing}


@dataclass(frozen=True)
class PublicBounds:
    """The public facts about a table (see the module).

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
            raise InvalidInput(
                f"the released columns were {', '.join(names) or 'none'}; give at least one, each "
                "once."
            )
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
        """The largest distance of two rows, rounded up."""
        return float(np.linalg.norm(self.extent + GRID)) * (1.0 + 2.0**-40)

    @property
    def everything(self) -> tuple[object, ...]:
        """The fields that equal bounds share: all but the radius, which each release chooses."""
        return self.columns, self.id, self.outcome

    def reach(self, radius: float | None) -> float:
        """The largest distance of neighbours: the radius requested, or the diameter."""
        return self.diameter if radius is None else min(radius, self.diameter)

    def coordinates(self, frame: pd.DataFrame) -> FloatArray:
        """(n, d) the rows of a table as points.

        Raises:
            InvalidInput: for columns that are not there, missing values that `missing` says nothing
                about, text among numbers, and values outside the bounds of a column that does not
                say `outside = "clip"`; all of them at once.
        """
        # A value may only be left empty where the column says what it counts as.
        read = [
            each.column if each.fill is None else replace(each.column, missing="drop")
            for each in self.columns
        ]
        values, _ = encode_columns(frame, read, may_drop=False)
        points = np.empty_like(values)
        for place, column in enumerate(self.columns):
            fill = math.nan if column.fill is None else column.fill
            filled = np.where(np.isnan(values[:, place]), fill, values[:, place])
            points[:, place] = column.coordinates(filled)
        return points

    def ids_of(self, frame: pd.DataFrame) -> tuple[str, ...]:
        """Names of the people in a table, each once."""
        column = column_of(frame, self.id)
        if column.empty:
            raise InvalidInput("the table has no rows; give a table with people in it.")
        ids = tuple(
            "" if absent else str(value).strip()
            for value, absent in zip(column.tolist(), column.isna(), strict=True)
        )
        if "" in ids:
            raise InvalidInput(
                f"the id column {self.id!r} is empty in {sheet_row(ids.index(''))}; "
                "give every person an id."
            )
        twice = [(name, times) for name, times in Counter(ids).items() if times > 1]
        if twice:
            name, times = twice[0]
            raise InvalidInput(
                f"the id {name!r} occurs {times} times in the table (ids with more than one row: "
                f"{len(twice)}); the promise is for people with one row each. Merge the rows of a "
                "person first."
            )
        return ids

    @property
    def outcome_column(self) -> str:
        """The name of the outcome column in a table of outcomes."""
        return self.outcome or "outcome"

    def outcomes_of(self, frame: pd.DataFrame) -> FloatArray:
        """(n,) the outcomes in a table, NaN where there is none."""
        name = self.outcome_column
        outcomes = numbers_of(column_of(frame, name), "drop", may_drop=False)
        infinite = np.isinf(outcomes)
        if infinite.any():
            raise InvalidInput(
                f"the outcome {name!r} is infinite in {int(infinite.sum())} of {len(outcomes)} "
                f"rows, first in {sheet_row(np.argmax(infinite))}; an outcome "
                "is a finite number, or empty if it is not known. Nothing was done."
            )
        return outcomes

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns of a table that hold ids or labels, so that `01` stays apart from `1`."""
        return (self.id, *(column.name for column in self.columns if column.values))

    def to_fields(self) -> dict[str, Any]:
        """The bounds as JSON values; names of the columns that stay at home are left out."""
        return {"columns": [column.to_fields() for column in self.columns]}

    @classmethod
    def from_fields(
        cls, fields: Mapping[str, Any], id: str = "id", outcome: str | None = None
    ) -> PublicBounds:
        """The inverse of `to_fields`."""
        place = Place("the public bounds")
        columns = (checked(PublicColumn, column, place) for column in fields["columns"])
        return cls(tuple(columns), id, outcome)


register(PublicBounds, PublicBounds.to_fields, PublicBounds.from_fields, "table's public bounds")


class _BoundsFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    id: str = Field(min_length=1)
    outcome: str | None = Field(default=None, min_length=1)
    radius: float | None = None
    columns: dict[str, Any]


def read_bounds(path: Path) -> PublicBounds:
    """The bounds in a TOML file (see the module).

    Raises:
        InvalidInput: a file that cannot be read, unknown or missing keys, bounds that do not fit:
            everything that is wrong, as far as one mistake does not hide another.
    """
    text, content = read_toml(path, "bounds file")
    place = Place.of_file(path.name, text)
    errors = ErrorCollector()
    file = None
    with errors.collected():
        file = checked(_BoundsFile, content, place)
    columns = []
    tables = content.get("columns")
    for name, table in tables.items() if isinstance(tables, dict) else ():
        where = place.within("columns", name)
        with errors.collected():
            if not isinstance(table, dict):
                raise InvalidInput(
                    where.message(f"columns.{name} was {toml_value(table)}; it must be a table.")
                )
            columns.append(checked(PublicColumn, {**table, "name": name}, where))
    errors.raise_if_any()
    assert file is not None
    return PublicBounds(tuple(columns), file.id, file.outcome, file.radius)
