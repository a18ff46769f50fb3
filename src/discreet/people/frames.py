"""Contexts as people have them, with names: data frames and dictionaries become arrays.

| given                                        | is                                                |
|----------------------------------------------|---------------------------------------------------|
| a data frame (pandas, polars, or the like)   | one person a row, columns by name in any order    |
| a list of dictionaries                       | one person each                                   |
| a dictionary                                 | one person                                        |
| anything else                                | an array with the columns in their order          |

In the first three a category is its label, as it was declared (1, "1" and 1.0 are one label, and so
are True and "true"); in an array it is its number, 0 .. m - 1. No library of tables is imported
here: whatever has `columns` and gives one by its name is a frame.

Where values are data of a person whose report is private, nothing is refused because of its value,
since a missing report would leak (`lenient`): a label that is not declared, or no number, counts as
missing, and so does a key that a dictionary lacks. Names that no column has are refused all the
same: they are how a program is written, not what a person is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.people.columns import UNKNOWN, Column, indicator_of, label_places, label_text
from discreet.validation import FloatArray, InvalidInput, Refusals, a_kind, nearest, one_of

Extra = Literal["refuse", "ignore"]
Objects = NDArray[np.object_]

# What stands for a key that a dictionary lacks.
_ABSENT = object()
_SHOWN = 5


def has_names(contexts: Any) -> bool:
    """Whether contexts are a frame, a dictionary or a list of dictionaries."""
    if isinstance(contexts, np.ndarray):
        return False
    if isinstance(contexts, Mapping) or _is_frame(contexts):
        return True
    return (
        isinstance(contexts, Sequence)
        and len(contexts) > 0
        and any(isinstance(row, Mapping) for row in contexts)
    )


def rows_by_name(
    contexts: Any,
    columns: Sequence[Column],
    extra: Extra = "refuse",
    lenient: bool = False,
    name: str = "contexts",
) -> FloatArray:
    """(n, d) contexts as numbers, a label as its place, and NaN where a value is missing.

    Columns with missing = "unknown" may lack values, and their indicators may be left out.

    Args:
        contexts: a frame, a dictionary, or a list of dictionaries.
        columns: d columns of the domain.
        extra: what happens to columns that the domain lacks.
        lenient: see the module.
        name: what messages call the contexts.

    Raises:
        InvalidInput: for names that are missing or too many, and unless `lenient` for values that
            no column takes; all that is wrong at once, with column and row.
    """
    one_of(extra, "extra", ("refuse", "ignore"))
    known = [column.name for column in columns]
    unknown = [column for column in columns if column.missing == UNKNOWN]
    implied = {indicator_of(column.name) for column in unknown if not column.values}
    optional = [key for key in known if key in implied]
    if _is_frame(contexts):
        given = list(contexts.columns)
        _check_names([*given, *optional], known, extra, name, "the table")
        values = {key: _objects(contexts[key]) for key in known if key in given}
        lacking = [_ABSENT] * len(next(iter(values.values())))
        values |= {key: _objects(lacking) for key in optional if key not in given}
    else:
        values = _of_dictionaries(contexts, known, known if lenient else optional, extra, name)
    refusals = Refusals()
    read = []
    for column in columns:
        may_lack = column.missing == UNKNOWN or column.name in implied
        with refusals.collected():
            read.append(_numbers(values[column.name], column, lenient, may_lack, name))
    refusals.raise_if_any()
    return np.column_stack(read)


def _is_frame(contexts: Any) -> bool:
    return hasattr(contexts, "columns") and hasattr(contexts, "__getitem__")


def _objects(values: Any) -> Objects:
    """(n,) the values of one column of a frame, as they are."""
    array = np.empty(len(values), dtype=object)
    array[:] = values.to_list() if hasattr(values, "to_list") else list(values)
    return array


def _of_dictionaries(
    contexts: Any, known: list[str], optional: list[str], extra: Extra, name: str
) -> dict[str, Objects]:
    """For each column the values of all people, who may lack those that are optional."""
    rows = [contexts] if isinstance(contexts, Mapping) else list(contexts)
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InvalidInput(
                f"{name} had {a_kind(row)} in row {place}, among dictionaries; give each "
                "person as a dictionary with the keys " + ", ".join(known) + "."
            )
        _check_names([*row, *optional], known, extra, name, f"row {place}")
    values = {}
    for key in known:
        values[key] = np.empty(len(rows), dtype=object)
        values[key][:] = [row.get(key, _ABSENT) for row in rows]
    return values


def _check_names(given: list[Any], known: list[str], extra: Extra, name: str, where: str) -> None:
    """Refuse columns that are missing or, unless they are to be ignored, too many."""
    refusals = Refusals()
    missing = [key for key in known if key not in given]
    more = [key for key in given if key not in known]
    names = f"the domain has {', '.join(known)}, {where} {', '.join(map(str, given)) or 'nothing'}"
    for key in missing:
        refusals.add(f"{name} lacked the column {key!r}; {names}.{nearest(key, map(str, more))}")
    if more and extra == "refuse" and not missing:
        refusals.add(
            f"{name} had the column {more[0]!r}, which the domain lacks; {names}. Leave it "
            f"out, as {name}[{known}] does in pandas."
        )
    refusals.raise_if_any()


def _numbers(
    values: Objects, column: Column, lenient: bool, may_lack: bool, name: str
) -> FloatArray:
    """(n,) the values of one column as numbers in declared units."""
    read = _codes(values, column) if column.values else _plain(values)
    wrong = np.flatnonzero(np.isnan(read))
    if may_lack:
        wrong = np.array([row for row in wrong if not _is_missing(values[row])], dtype=np.int64)
    if lenient or not len(wrong):
        return read
    row = int(wrong[0])
    others = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    given, similar = values[row], ""
    if _is_missing(given):
        shown = "no value"
    else:
        try:
            shown = f"{given!r:.80}"
            similar = nearest(label_text(given), column.values) if column.values else ""
        except ValueError:  # as in `_codes`
            shown = "a number of thousands of digits"
    raise InvalidInput(
        f"{name} had {shown} in column {column.name!r}, row {row}{others}; it takes "
        f"{_allowed(column)}.{similar}"
    )


def _allowed(column: Column) -> str:
    if not column.values:
        return f"numbers from {column.lower:g} to {column.upper:g}"
    shown = ", ".join(column.values[:_SHOWN])
    more = len(column.values) - _SHOWN
    return f"one of {shown}" + (f" and {more} more" if more > 0 else "")


def _codes(values: Objects, column: Column) -> FloatArray:
    """(n,) the places of labels; NaN for those that are not declared."""
    if column.thresholds is not None:
        numbers = _plain(values)
        places = np.searchsorted(column.thresholds, numbers, side="right").astype(np.float64)
        return np.asarray(np.where(np.isnan(numbers), np.nan, places))
    place_of_text = label_places(column.values)
    kinds: dict[Any, float] = {}

    def place_of(value: Any) -> float:
        if _is_missing(value):
            return math.nan
        try:
            if (type(value), value) not in kinds:
                kinds[type(value), value] = place_of_text(label_text(value))
            return kinds[type(value), value]
        # A list or the like is no label, and whole numbers of thousands of digits have no text.
        except (TypeError, ValueError):
            return math.nan

    return np.array([place_of(value) for value in values], dtype=np.float64)


def _plain(values: Objects) -> FloatArray:
    """(n,) numbers; NaN for what is none."""
    return np.array([_number(value) for value in values], dtype=np.float64)


def _number(value: Any) -> float:
    if isinstance(value, str | bytes) or _is_missing(value):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        return math.nan


def _is_missing(value: Any) -> bool:
    """None, NaN and what tables have for them."""
    if value is None or value is _ABSENT:
        return True
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return type(value).__name__ in ("NAType", "NaTType")
