"""Tables: a CSV or Parquet file becomes contexts with publicly declared bounds.

A `Column` declares, before anyone looks at the data, which values a column may hold and what
happens to people who do not fit. Every rule looks at one row at a time, so it is public
preprocessing and reveals nothing that the row itself does not.

| array    | shape  | meaning                                                   |
|----------|--------|-----------------------------------------------------------|
| values   | (n, d) | numbers or label codes; NaN where a rule leaves a row out |
| kept     | (n,)   | the rows that take part                                   |
| contexts | (m, d) | the kept rows of `values`                                 |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from discreet.domain import Box
from discreet.validation import (
    BoolArray,
    FloatArray,
    InvalidInput,
    finite_number,
    whole_number,
)

OutsideRule = Literal["error", "clip", "drop"]
MissingRule = Literal["error", "drop"]

MISSING_MARKS = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "NULL", "null", "None", "<NA>"})
"""Text that stands for a missing value, unless a column declares it as one of its `values`."""


@dataclass(frozen=True)
class Column:
    """One column of a table and its public bounds.

    Attributes:
        name: the column's name in the table.
        lower: the lowest value.
        upper: the highest value.
        levels: the number of equally spaced values from `lower` to `upper` (15 for whole years
            from 6 to 20), or None for a continuous column.
        values: category labels in their order, encoded 0..m-1; then lower = 0, upper = m - 1 and
            levels = m (see `category`). Empty for a numeric column.
        outside: what happens to a value outside the bounds or a label that is not declared: an
            error, moved to the nearest bound (numbers only), or the row is left out.
        missing: what happens where a value is missing: an error, or the row is left out.

    Raises:
        InvalidInput: for bounds, levels, labels or rules that do not fit together.
    """

    name: str
    lower: float
    upper: float
    levels: int | None = None
    values: tuple[str, ...] = ()
    outside: OutsideRule = "error"
    missing: MissingRule = "error"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidInput(f"a column's name was {self.name!r}; it must be a text.")
        low = finite_number(self.lower, f"the lower bound of column {self.name!r}")
        high = finite_number(self.upper, f"the upper bound of column {self.name!r}")
        if not low < high:
            raise InvalidInput(
                f"column {self.name!r} had bounds [{low}, {high}]; the lower must be below the "
                "upper bound."
            )
        if self.levels is not None:
            whole_number(self.levels, f"the levels of column {self.name!r}", minimum=2)
        self._check_values(low, high)
        self._check_rules()
        object.__setattr__(self, "lower", low)
        object.__setattr__(self, "upper", high)
        object.__setattr__(self, "values", tuple(self.values))

    def _check_values(self, low: float, high: float) -> None:
        if not self.values:
            return
        check_labels(self.values, f"the values of column {self.name!r}")
        count = len(self.values)
        if (low, high, self.levels) != (0.0, count - 1.0, count):
            raise InvalidInput(
                f"column {self.name!r} declares {count} labels with bounds [{low}, {high}] and "
                f"levels {self.levels}; labels are encoded 0 to {count - 1}, so use "
                "Column.category(name, values), which sets all three."
            )

    def _check_rules(self) -> None:
        check_rule(self.outside, f"outside of column {self.name!r}", ("error", "clip", "drop"))
        check_rule(self.missing, f"missing of column {self.name!r}", ("error", "drop"))
        if self.values and self.outside == "clip":
            raise InvalidInput(
                f"outside of column {self.name!r} was 'clip', but labels have no nearest bound; "
                "use 'error' or 'drop'."
            )

    @classmethod
    def category(
        cls,
        name: str,
        values: Sequence[str],
        outside: OutsideRule = "error",
        missing: MissingRule = "error",
    ) -> Column:
        """A column of labels: `values` in their order are encoded 0, 1, ..., m - 1."""
        check_labels(values, f"the values of column {name!r}")
        count = len(values)
        return cls(name, 0.0, count - 1.0, count, tuple(values), outside, missing)


@dataclass(frozen=True)
class Encoded:
    """Columns as numbers: `values` (n, d), NaN in rows left out, and `kept` (n,)."""

    values: FloatArray
    kept: BoolArray


def check_labels(labels: Sequence[str], name: str) -> None:
    """Refuse anything but at least two distinct texts."""
    if isinstance(labels, str) or not all(isinstance(label, str) for label in labels):
        raise InvalidInput(
            f'{name} were {labels!r}; give a list of texts, for example ["no", "yes"].'
        )
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise InvalidInput(f"{name} were {list(labels)}; give at least two, each once.")


def check_rule(rule: str, name: str, allowed: tuple[str, ...]) -> None:
    """Refuse a rule that is not one of `allowed`."""
    if rule not in allowed:
        raise InvalidInput(f"{name} was {rule!r}; it must be one of {', '.join(allowed)}.")


def read_contexts(frame: pd.DataFrame, columns: Sequence[Column]) -> tuple[FloatArray, Box]:
    """The contexts (m, d) of the people who fit the declared columns, and their domain.

    Raises:
        InvalidInput: for a column that is not in the table, and for values that a column's rules
            refuse; the message says how many there are and where the first one is.
    """
    domain = box_of(columns)
    encoded = encode_columns(frame, columns)
    check_any_kept(encoded.kept)
    return encoded.values[encoded.kept], domain


def box_of(columns: Sequence[Column]) -> Box:
    """The public domain which the columns declare."""
    names = tuple(column.name for column in columns)
    if not names or len(set(names)) < len(names):
        raise InvalidInput(f"the columns were {list(names)}; give at least one, each once.")
    return Box(
        tuple(column.lower for column in columns),
        tuple(column.upper for column in columns),
        names,
        tuple(column.levels for column in columns),
        tuple(column.values for column in columns),
    )


def encode_columns(frame: pd.DataFrame, columns: Sequence[Column]) -> Encoded:
    """Every row of the table as numbers, and which rows the rules keep."""
    values = np.empty((len(frame), len(columns)), dtype=np.float64)
    for position, column in enumerate(columns):
        series = column_of(frame, column.name)
        values[:, position] = _labels(series, column) if column.values else _bounded(series, column)
    kept = np.logical_not(np.isnan(values).any(axis=1))
    return Encoded(values, kept)


def column_of(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    """The column called `name`; `InvalidInput` listing those which exist when it is not there."""
    count = int((frame.columns == name).sum())
    if count == 1:
        series: pd.Series[Any] = frame[name]
        return series
    existing = ", ".join(str(column) for column in frame.columns)
    problem = "is not in the table" if count == 0 else f"occurs {count} times in the table"
    raise InvalidInput(f"column {name!r} {problem}, which has: {existing}. Name one of these.")


def check_any_kept(kept: BoolArray) -> None:
    """Refuse rules that leave nobody over."""
    if not kept.any():
        raise InvalidInput(
            f"none of the {len(kept)} rows is left after the rules outside and missing; check the "
            "declared bounds, labels and rules."
        )


def numbers_of(series: pd.Series[Any], missing: MissingRule) -> FloatArray:
    """A numeric column (n,) with NaN for rows left out; `InvalidInput` for text and dates."""
    if series.dtype.kind in "Mmc":
        raise InvalidInput(
            f"column {series.name!r} holds {series.dtype} values; convert it to plain numbers."
        )
    absent = _absent(series)
    numbers = pd.to_numeric(series.mask(absent), errors="coerce")
    array: FloatArray = numbers.to_numpy(dtype=np.float64, na_value=math.nan)
    unreadable = np.isnan(array) & ~absent
    if unreadable.any():
        raise InvalidInput(
            f"column {series.name!r} held text in {_where(unreadable, series)}; it must hold "
            "numbers. Declare its labels as values = [...], or clean the column first."
        )
    _refuse_missing(absent, missing, series)
    return array


def _bounded(series: pd.Series[Any], column: Column) -> FloatArray:
    values = numbers_of(series, column.missing)
    outside = (values < column.lower) | (values > column.upper)
    if column.outside == "error" and outside.any():
        raise InvalidInput(
            f"column {column.name!r} was outside its declared bounds [{column.lower:g}, "
            f"{column.upper:g}] in {_where(outside, series)}. Declare wider bounds, or set "
            'outside = "clip" to move such values to the nearest bound, or outside = "drop" to '
            "leave those people out."
        )
    if column.outside == "clip":
        values = np.clip(values, column.lower, column.upper)
    else:
        values = np.where(outside, math.nan, values)
    _check_levels(values, series, column)
    return values


def _check_levels(values: FloatArray, series: pd.Series[Any], column: Column) -> None:
    if column.levels is None:
        return
    steps = (values - column.lower) / (column.upper - column.lower) * (column.levels - 1)
    between = np.abs(steps - np.round(steps)) > 1e-6
    if between.any():
        raise InvalidInput(
            f"column {column.name!r} lay between two of its {column.levels} declared levels from "
            f"{column.lower:g} to {column.upper:g} in {_where(between, series)}. Correct levels, "
            "or leave levels out for a continuous column."
        )


def _labels(series: pd.Series[Any], column: Column) -> FloatArray:
    code = {label: float(i) for i, label in enumerate(column.values)}
    found = [code.get(_text(value)) for value in series.tolist()]
    codes = np.array([math.nan if i is None else i for i in found], dtype=np.float64)
    # A declared label such as "None" is a label, even where it also marks a missing value.
    absent = _absent(series) & np.isnan(codes)
    unknown = np.isnan(codes) & ~absent
    if column.outside == "error" and unknown.any():
        raise InvalidInput(
            f"column {column.name!r} had a label that is not declared in "
            f"{_where(unknown, series)}; declared are: {', '.join(column.values)}. Add the label, "
            'or set outside = "drop" to leave those people out.'
        )
    _refuse_missing(absent, column.missing, series)
    return codes


def _refuse_missing(absent: BoolArray, rule: MissingRule, series: pd.Series[Any]) -> None:
    if rule == "error" and absent.any():
        raise InvalidInput(
            f"column {series.name!r} had no value in {int(absent.sum())} of {len(absent)} rows, "
            f'first in row {int(np.argmax(absent))} (the first row is 0); set missing = "drop" '
            "to leave those people out, or fill the gaps by a rule that is public."
        )


def _absent(series: pd.Series[Any]) -> BoolArray:
    absent: BoolArray = series.isna().to_numpy(dtype=np.bool_)
    if series.dtype.kind in "biuf":
        return absent
    marks = [isinstance(value, str) and value.strip() in MISSING_MARKS for value in series]
    return absent | np.array(marks, dtype=np.bool_)


def _text(value: object) -> str:
    """A label as text; the whole number 1.0 (an integer column with gaps) reads as '1'."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _where(bad: BoolArray, series: pd.Series[Any]) -> str:
    first = int(np.argmax(bad))
    return (
        f"{int(bad.sum())} of {len(bad)} rows, first {series.iloc[first]!s} in row {first} (the "
        "first row is 0)"
    )
