"""Columns as they are declared, before anyone looks at the data: bounds, labels and rules.

The one schema of a column, for study files, tables and bounds files: a `Column` checks itself, and
pydantic reads it from TOML as it stands (see `toml_words.checked`). A rule says what happens to
people who do not fit. It looks at one row at a time, so it is public preprocessing and reveals
nothing that the row itself does not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from pydantic import AllowInfNan, BeforeValidator, ConfigDict, Field, Strict

from discreet.domain import Ball, Box
from discreet.validation import (
    InvalidInput,
    distinct,
    finite_number,
    one_of,
    ordered,
    refused,
    whole_number,
)

Label = str | int | float | bool
STATED_FROM = "public facts, such as a form's limits, a law or a census, never from the table"
"""Where bounds come from, for messages."""

OutsideRule = Literal["error", "clip", "drop"]
MissingRule = Literal["error", "drop"]

_WHOLE = re.compile(r"([+-]?\d+)\.0*")


def label_text(value: object) -> str:
    """A label as text; the whole number 1.0 (an integer column with gaps) reads as '1'."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _is_label(value: object) -> bool:
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


def _label_of(value: object) -> str:
    if not _is_label(value):
        raise ValueError("must be a text in quotation marks, or a number, or true or false")
    return label_text(value)


# What TOML holds: a number is no truth value and no text, and a whole number has no point.
Number = Annotated[float, Strict(), AllowInfNan(False)]
Whole = Annotated[int, Strict()]
One = Annotated[Whole, Field(ge=1)]
Two = Annotated[Whole, Field(ge=2)]
Positive = Annotated[Number, Field(gt=0)]
NotNegative = Annotated[Number, Field(ge=0)]
Labels = tuple[Annotated[str, BeforeValidator(_label_of)], ...]


@dataclass(frozen=True)
class Column:
    """One column of a table: numbers within public bounds, or labels.

    Attributes:
        name: the column's name in the table.
        lower: the lowest value.
        upper: the highest value.
        levels: the number of equally spaced values from `lower` to `upper` (15 for whole years
            from 6 to 20), or None for a continuous column.
        values: category labels in their order, encoded 0..m-1; lower = 0, upper = m - 1 and
            levels = m follow. Texts, whole or other numbers and truth values can be labels and are
            kept as texts: 1 as "1", True as "true". Empty for a numeric column.
        thresholds: in place of bounds or labels: t_1 < ... < t_m cut numbers into brackets. Bracket
            0 is below t_1, bracket k is t_k <= value < t_(k+1), and bracket m is t_m or more; they
            are encoded as labels called, for example, `under 13`, `13 to 20`, `20 or more`.
        outside: what happens to a value outside the bounds or a label that is not declared: an
            error, moved to the nearest bound (numbers only), or the row is left out.
        missing: what happens where a value is missing: an error, or the row is left out.

    Raises:
        InvalidInput: for bounds, levels, labels or rules that do not fit together.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    stated_from: ClassVar[str] = STATED_FROM

    name: str
    lower: Number = math.nan
    upper: Number = math.nan
    levels: Whole | None = None
    values: Labels = ()
    outside: OutsideRule = "error"
    missing: MissingRule = "error"
    thresholds: tuple[Number, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise refused(self.name, "a column's name", "a text")
        one_of(self.outside, f"outside of column {self.name!r}", ("error", "clip", "drop"))
        one_of(self.missing, f"missing of column {self.name!r}", ("error", "drop"))
        if self.thresholds is not None:
            self._name_brackets(self.thresholds)
        elif self.values:
            self._number(label_texts(self.values, f"the values of column {self.name!r}"))
        # NaN, which equals nothing, says that a bound was not given.
        bounds = {
            key: finite_number(value, f"the {key} bound of column {self.name!r}")
            for key, value in (("lower", self.lower), ("upper", self.upper))
            if value == value
        }
        if len(bounds) < 2:
            shown = [f"{key} = {value:g} alone" for key, value in bounds.items()]
            declared = shown[0] if shown else "no bounds"
            raise InvalidInput(
                f"column {self.name!r} has {declared}; declare both bounds for numbers, or "
                "values = [...] for labels."
            )
        for key, bound in bounds.items():
            object.__setattr__(self, key, bound)
        ordered(self.lower, self.upper, f"column {self.name!r} had bounds")
        if self.levels is not None:
            whole_number(self.levels, f"the levels of column {self.name!r}", minimum=2)

    def _name_brackets(self, thresholds: tuple[float, ...]) -> None:
        cuts = tuple(finite_number(t, "a threshold") for t in thresholds)
        if not cuts or any(a >= b for a, b in pairwise(cuts)):
            raise InvalidInput(
                f"thresholds were {list(cuts)}; give at least one, in increasing order, each once."
            )
        if self.outside != "error":
            raise InvalidInput(
                f"column {self.name!r} has thresholds and outside = {self.outside!r}; every number "
                "falls into a bracket, so leave outside out."
            )
        object.__setattr__(self, "thresholds", cuts)
        ends = [label_text(t) for t in cuts]
        between = [f"{a} to {b}" for a, b in pairwise(ends)]
        self._number((f"under {ends[0]}", *between, f"{ends[-1]} or more"))

    def _number(self, texts: tuple[str, ...]) -> None:
        """Keep labels, with the bounds and levels that follow from how many there are."""
        if self.outside == "clip":
            raise InvalidInput(
                f"outside of column {self.name!r} was 'clip', but labels have no nearest bound; "
                "use 'error' or 'drop'."
            )
        count = len(texts)
        follow = {"lower": 0.0, "upper": count - 1.0, "levels": count}
        given = {key: getattr(self, key) for key in follow}
        given = {key: bound for key, bound in given.items() if bound is not None and bound == bound}
        # A column that was numbered before, as by `dataclasses.replace`, is numbered alike.
        if (given and given != follow) or (self.thresholds and self.values not in ((), texts)):
            kind = "values" if self.thresholds is None else "thresholds"
            also = ", ".join(given) or "values"
            raise InvalidInput(
                f"column {self.name!r} has {kind} and also {also}; labels are encoded 0 to "
                f"{count - 1}, so give either values, thresholds or bounds."
            )
        for key, value in (follow | {"values": texts}).items():
            object.__setattr__(self, key, value)

    @classmethod
    def category(
        cls,
        name: str,
        values: Sequence[Label],
        outside: OutsideRule = "error",
        missing: MissingRule = "error",
    ) -> Column:
        """A column of labels: texts, numbers or truth values."""
        texts = label_texts(values, f"the values of column {name!r}")
        return cls(name, values=texts, outside=outside, missing=missing)


def box_of(columns: Sequence[Column]) -> Box:
    """The public domain which the columns declare."""
    return Box(
        tuple(column.lower for column in columns),
        tuple(column.upper for column in columns),
        distinct((column.name for column in columns), "the columns"),
        tuple(column.levels for column in columns),
        tuple(column.values for column in columns),
    )


def domain_of(columns: Sequence[Column], radius: float | None = None) -> Box:
    """The domain which the columns declare, or with a radius the ball of rows of that length.

    Raises:
        InvalidInput: for a radius beside columns with other bounds than that.
    """
    box = box_of(columns)
    if radius is None:
        return box
    for column in columns:
        if column.values or column.levels or (column.lower, column.upper) != (-radius, radius):
            raise InvalidInput(
                f"radius was {radius:g}, but column {column.name!r} is not of numbers from "
                f"{-radius:g} to {radius:g}; give all columns of a ball these bounds, or leave the "
                "radius out."
            )
    return Ball(radius, names=box.names)


def columns_of(box: Box) -> tuple[Column, ...]:
    """The inverse of `box_of`: the columns of a box with its bounds, levels and categories."""
    facts = zip(box.names, box.lower, box.upper, box.levels, box.categories, strict=True)
    return tuple(Column(*fact) for fact in facts)


def label_texts(labels: Iterable[object], name: str) -> tuple[str, ...]:
    """Labels as texts: 1 as "1", True as "true"; `InvalidInput` for fewer than two, or repeats."""
    given = [] if isinstance(labels, str) else list(labels)
    if isinstance(labels, str) or not all(_is_label(label) for label in given):
        raise InvalidInput(
            f"{name} were {labels!r}; give a list of texts, numbers or truth values, for example "
            '["no", "yes"].'
        )
    return distinct(map(label_text, given), name, least=2)


def same_label(text: str) -> str:
    """One text for what programs write differently: `1.0` and `1`, `TRUE` and `true`."""
    whole = _WHOLE.fullmatch(text)
    if whole:
        return whole[1]
    return text.lower() if text.lower() in ("true", "false") else text
