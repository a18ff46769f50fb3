"""Tables: a CSV or Parquet file becomes contexts with publicly declared bounds.

What a `Column` (columns.py) declares is applied to every row; all columns that do not fit are
named at once.

| array    | shape  | meaning                                                   |
|----------|--------|-----------------------------------------------------------|
| values   | (n, d) | numbers or label codes; NaN where a rule leaves a row out |
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from discreet.people.columns import (
    UNKNOWN,
    Column,
    MissingRule,
    label_places,
    label_text,
    with_indicators,
)
from discreet.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    InvalidInput,
    Refusals,
    nearest,
)

MISSING_MARKS = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "NULL", "null", "None", "<NA>"})
"""Text that stands for a missing value, unless a column declares it as one of its `values`."""

DATES, TEXT = "dates", "text"
WITH_COMMAS = ("numbers with a separator of thousands", "numbers with a decimal comma")
# Texts that are no numbers: what they look like, by which pattern, and what to do about it.
_NOT_NUMBERS = tuple(
    (kind, re.compile(pattern), advice)
    for kind, pattern, advice in (
        (
            WITH_COMMAS[0],
            r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?",
            "Write numbers without a separator of thousands: 1234, not 1,234.",
        ),
        (
            WITH_COMMAS[1],
            r"[+-]?\d*,\d+|[+-]?\d{1,3}(\.\d{3})+(,\d+)?",
            "Write numbers with a decimal point and no separator of thousands, or separate the "
            "columns by semicolons; then decimal commas are read.",
        ),
        (
            "percentages",
            r"[+-]?[\d.,]+ ?%",
            "Write percentages as plain numbers: 5 or 0.05, not 5%.",
        ),
        (
            DATES,
            r"\d{4}-\d{1,2}-\d{1,2}.*|\d{1,2}[./]\d{1,2}[./]\d{2,4}.*",
            "Convert dates to numbers, for example to the days since a fixed one.",
        ),
        (
            TEXT,
            r"(?s).*",
            "Declare its labels, as values = [...] or for an outcome as classes = [...], or clean "
            "the column first.",
        ),
    )
)
# A larger share of values than this is hardly beyond bounds by nature.
_MANY_CLIPPED = 0.2
# A larger share of rows than this that are left out is worth a warning.
_MANY_DROPPED = 0.1
# More names than these are not listed one by one.
_MANY = 30

Counts = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class RowCounts:
    """How many rows of a table take part, and why the others do not.

    Attributes:
        read: the rows of the table.
        used: those that take part.
        lacking: columns without a value in some rows, and in how many.
        outside: columns with a number beyond their bounds, or a label that is not declared, because
            of which rows are left out, and how many. A row counts for every such column.
        people: whose visits these are, where people come more than once.
        clipped: columns with values that were moved to the nearest bound, and how many.
    """

    read: int
    used: int
    lacking: Counts = ()
    outside: Counts = ()
    people: int | None = None
    clipped: Counts = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Many rows that are left out, and columns whose bounds may be in other units than their
        values; a sentence each."""
        gone = self.read - self.used
        dropped = (
            f"{gone:,} of {self.read:,} rows ({100.0 * gone / max(self.read, 1):.0f}%) are left "
            f"out: {', '.join(self._reasons)}. Who is left may differ from who is not; "
            'missing = "unknown" keeps people who lack a context column.'
        )
        units = tuple(
            f"{count:,} of {self.read:,} values of column {name!r} lie beyond its declared bounds "
            "and count as the nearest: are both in the same units?"
            for name, count in self.clipped
            if count > _MANY_CLIPPED * self.read
        )
        return (dropped, *units) if gone > _MANY_DROPPED * self.read else units

    def check_any(self) -> None:
        """`InvalidInput` where no row is left."""
        if self.used == 0:
            raise InvalidInput(
                f"no row is left: {self.sentence}. Check the declared bounds, labels and rules."
            )

    @property
    def sentence(self) -> str:
        """The counts in words."""
        whose = "" if self.people is None else f", visits of {self.people:,} people"
        return self._rows + whose

    @property
    def _rows(self) -> str:
        if self.used == self.read:
            return f"All {self.read:,} rows"
        text = f"{self.used:,} of {self.read:,} rows; {', '.join(self._reasons)}"
        counted = sum(count for _, count in self.lacking + self.outside)
        several = " (some rows count for several columns)"
        return text + several if counted > self.read - self.used else text

    @property
    def _reasons(self) -> list[str]:
        """Why rows are left out, a few words for each column."""
        reasons = [f"{n:,} lack{'s' if n == 1 else ''} {name}" for name, n in self.lacking]
        return reasons + [f"{n:,} outside the declared {name}" for name, n in self.outside]


def encode_columns(
    frame: pd.DataFrame,
    columns: Sequence[Column],
    may_drop: bool = True,
    starts: Mapping[str, str] | None = None,
) -> tuple[FloatArray, RowCounts]:
    """Every row of the table as numbers (n, d), NaN where a rule leaves it out, and how many stay.

    The columns of numbers are those of `with_indicators`.

    Args:
        frame: the table.
        columns: what is declared about it.
        may_drop: whether messages may advise to leave rows out.
        starts: how messages about a column begin, by its name, such as with where it is declared.

    Raises:
        InvalidInput: naming every column that is not there or whose values its rules refuse.
    """
    values = np.empty((len(frame), len(with_indicators(columns))), dtype=np.float64)
    place = 0
    lacking: dict[str, int] = {}
    outside: dict[str, int] = {}
    clipped: dict[str, int] = {}
    refusals = Refusals()
    for column in columns:
        with refusals.collected((starts or {}).get(column.name, "")):
            series = column_of(frame, column.name)
            read = _labels if column.values and column.thresholds is None else _numbers
            codes, absent, *gone = read(series, column, may_drop)
            if column.missing == UNKNOWN:
                codes[absent] = column.if_unknown
                if not column.values:
                    values[:, place + 1] = absent
                absent = np.zeros_like(absent)
            values[:, place] = codes
            for counts, rows in zip((lacking, outside, clipped), (absent, *gone), strict=True):
                counts |= {column.name: int(rows.sum())} if rows.any() else {}
        place += len(with_indicators([column]))
    refusals.raise_if_any()
    counted = [tuple(counts.items()) for counts in (lacking, outside, clipped)]
    used = int(kept_rows(values).sum())
    return values, RowCounts(len(frame), used, counted[0], counted[1], clipped=counted[2])


def kept_rows(values: FloatArray) -> BoolArray:
    """(n,) the rows of an encoded table that no rule leaves out."""
    return np.logical_not(np.isnan(values).any(axis=1))


def column_of(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    """The column called `name`; `InvalidInput` listing those which exist when it is not there."""
    count = int((frame.columns == name).sum())
    if count == 1:
        series: pd.Series[Any] = frame[name]
        return series
    names = [str(column) for column in frame.columns]
    existing = _listed(names)
    if count:
        raise InvalidInput(
            f"column {name!r} occurs {count} times in the table, which has: {existing}. Give each "
            "its own name in the table's header."
        )
    garbled = "" if existing.isascii() else " (If names look garbled, save the table as UTF-8.)"
    raise InvalidInput(
        f"column {name!r} is not in the table, which has: {existing}. Name one of these."
        f"{nearest(name, names)}{garbled}"
    )


def person_numbers(series: pd.Series[Any]) -> IntArray:
    """Whose rows (n,) they are, from a column of ids: 0 for one person, 1 for another and so on.

    Raises:
        InvalidInput: for ids that are missing, or neither texts nor whole numbers.
    """
    absent = missing_rows(series)
    if absent.any():
        raise InvalidInput(
            f"column {series.name!r} says who a person is and is empty in "
            f"{int(absent.sum())} of {len(absent)} rows, first in {sheet_row(np.argmax(absent))}; "
            "without an id visits cannot be counted. Give each row one."
        )
    texts = np.array([label_text(value) for value in series.tolist()])
    kinds = series.dtype.kind
    if kinds in "Mmcb" or (kinds == "f" and not (series == np.floor(series)).all()):
        raise InvalidInput(
            f"column {series.name!r} holds {series.dtype} values; ids of people are texts or whole "
            "numbers."
        )
    _, numbers = np.unique(texts, return_inverse=True)
    people: IntArray = numbers.astype(np.int64)
    return people


def numbers_of(series: pd.Series[Any], missing: MissingRule, may_drop: bool = True) -> FloatArray:
    """A numeric column (n,) with NaN for rows left out.

    Args:
        series: the column.
        missing: whether a row without a value is refused or left out.
        may_drop: whether messages may advise to leave rows out.

    Raises:
        InvalidInput: for text, dates, and missing values that are not to be left out.
    """
    if series.dtype.kind in "Mmc":
        raise InvalidInput(
            f"column {series.name!r} holds {series.dtype} values; convert it to plain numbers, "
            "dates for example to the days since a fixed one."
        )
    absent = missing_rows(series)
    numbers = pd.to_numeric(series.mask(absent), errors="coerce")
    array: FloatArray = numbers.to_numpy(dtype=np.float64, na_value=math.nan)
    unreadable = np.isnan(array) & ~absent
    if unreadable.any():
        first = str(series.iloc[int(np.argmax(unreadable))]).strip()
        raise InvalidInput(
            f"column {series.name!r} held text in {_where(unreadable, series)}; it must hold "
            f"numbers. {looks_like(first)[1]}"
        )
    _refuse_missing(absent, missing, series, may_drop)
    return array


def looks_like(text: str) -> tuple[str, str]:
    """What a text that is no number looks like, and what to do to use it as one."""
    return next((kind, advice) for kind, pattern, advice in _NOT_NUMBERS if pattern.fullmatch(text))


Read = tuple[FloatArray, BoolArray, BoolArray, BoolArray]
"""(n,) values with NaN for rows left out; which are missing, left out as outside, or clipped."""


def _numbers(series: pd.Series[Any], column: Column, may_drop: bool) -> Read:
    """Numbers within bounds, or the brackets between thresholds."""
    rule: MissingRule = "drop" if column.missing == UNKNOWN else column.missing
    values = numbers_of(series, rule, may_drop)
    absent = np.isnan(values)
    if column.thresholds is not None:
        codes = np.where(absent, math.nan, np.digitize(values, column.thresholds))
        return codes, absent, np.zeros_like(absent), np.zeros_like(absent)
    outside = (values < column.lower) | (values > column.upper)
    if column.outside == "error" and outside.any():
        drop = ', or outside = "drop" to leave those people out' if may_drop else ""
        raise InvalidInput(
            f"column {column.name!r} was outside its declared bounds [{column.lower:g}, "
            f"{column.upper:g}] in {_where(outside, series)}. Declare wider bounds, or set "
            f'outside = "clip" to move such values to the nearest bound{drop}.'
        )
    clipped = np.zeros_like(outside)
    if column.outside == "clip":
        clipped, outside = outside, clipped
        values = np.clip(values, column.lower, column.upper)
    values = np.where(outside, math.nan, values)
    if column.levels is not None:
        steps = (values - column.lower) / (column.upper - column.lower) * (column.levels - 1)
        between = np.abs(steps - np.round(steps)) > 1e-6
        if between.any():
            raise InvalidInput(
                f"column {column.name!r} lay between two of its {column.levels} declared levels "
                f"from {column.lower:g} to {column.upper:g} in {_where(between, series)}. Correct "
                "levels, or leave levels out for a continuous column."
            )
    return values, absent, outside, clipped


def _labels(series: pd.Series[Any], column: Column, may_drop: bool) -> Read:
    texts = [label_text(value) for value in series.tolist()]
    codes = np.array(list(map(label_places(column.values), texts)))
    # A declared label such as "None" is a label, even where it also marks a missing value.
    absent = missing_rows(series) & np.isnan(codes)
    unknown = np.isnan(codes) & ~absent
    if column.outside == "error" and unknown.any():
        declared = _listed(column.values)
        drop = ', or set outside = "drop" to leave those people out' if may_drop else ""
        garbled = (
            "" if all(map(str.isascii, texts)) else " If it looks garbled, save the table as UTF-8."
        )
        raise InvalidInput(
            f"column {column.name!r} had a label that is not declared in "
            f"{_where(unknown, series)}; declared are: {declared}. Add the label{drop}.{garbled}"
        )
    rule: MissingRule = "drop" if column.missing == UNKNOWN else column.missing
    _refuse_missing(absent, rule, series, may_drop)
    return codes, absent, unknown, np.zeros_like(absent)


def _refuse_missing(
    absent: BoolArray, rule: MissingRule, series: pd.Series[Any], may_drop: bool
) -> None:
    if rule == "drop" or not absent.any():
        return
    if absent.all():
        raise InvalidInput(f"column {series.name!r} is empty in all rows; leave the column out.")
    advice = (
        'set missing = "drop" to leave those people out, or "unknown" to keep them (columns only)'
        if may_drop
        else "set missing to what an empty value counts as, chosen without looking at the data"
    )
    raise InvalidInput(
        f"column {series.name!r} had no value in {int(absent.sum())} of {len(absent)} rows, first "
        f"in {sheet_row(np.argmax(absent))}; {advice}, or fill the gaps by a "
        "rule that is public."
    )


def missing_rows(series: pd.Series[Any]) -> BoolArray:
    """(n,) where a column has no value, or a mark that stands for none."""
    absent: BoolArray = series.isna().to_numpy(dtype=np.bool_)
    if series.dtype.kind in "biuf":
        return absent
    marks = [isinstance(value, str) and value.strip() in MISSING_MARKS for value in series]
    return absent | np.array(marks, dtype=np.bool_)


def _where(bad: BoolArray, series: pd.Series[Any]) -> str:
    first = int(np.argmax(bad))
    return (
        f"{int(bad.sum())} of {len(bad)} rows, first {series.iloc[first]!s:.80} in "
        f"{sheet_row(first)}"
    )


def sheet_row(place: Any) -> str:
    """A row of a table, from its place among the people, as a spreadsheet counts rows."""
    return f"row {int(place) + 2} (the header is row 1)"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_MANY]) + (", ..." if len(names) > _MANY else "")
