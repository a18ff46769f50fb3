"""Columns as declared before the data are read, and contexts given by column name.

A `Column` is the one schema of a column, for study files, tables, bounds files, domains in Python
and searches. It checks itself; pydantic reads it from TOML as it stands (`toml_files.py`), which is
the only time that pydantic is loaded: a device that declares columns needs none. A rule decides
about values that do not fit. It looks at one row at a time, so it is public preprocessing.

`rows_by_name` reads contexts with names:

| given                                        | is                                                |
|----------------------------------------------|---------------------------------------------------|
| a data frame (pandas, polars, or the like)   | one person a row, columns by name in any order    |
| a list of dictionaries                       | one person each                                   |
| a dictionary                                 | one person                                        |
| anything else                                | an array with the columns in their order          |

In the first three a category is its label, as it was declared (1, "1" and 1.0 are one label, and so
are True and "true"); in an array it is its number, 0 .. m - 1. No library of tables is imported:
an object that has `columns` and returns one by its name is a frame.

Values of a person whose report is private are never rejected because of their value, since a
missing report would leak (`lenient`): an undeclared label, or no number, counts as missing, and so
does a key that a dictionary lacks. Unknown names are rejected all the same: they depend on the
program, not on the person.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.validation import (
    BoolArray,
    ErrorCollector,
    FloatArray,
    InvalidInput,
    a_kind,
    distinct,
    finite_number,
    invalid,
    nearest,
    number_of,
    one_of,
    ordered,
    whole_number,
)

Label = str | int | float | bool
STATED_FROM = "public facts, such as a form's limits, a law or a census, never from the table"
"""Where bounds come from, for messages."""

OutsideRule = Literal["error", "clip", "drop"]
MissingRule = Literal["error", "drop"]
UNKNOWN: Final = "unknown"
"""The label of a missing value, and the word that the name of its indicator ends with."""

# How many labels a message shows. How close values are to be taken for the same number: as a share
# of the distance of the bounds, or of two levels.
_SHOWN, _SAME, _NEAREST = 5, 1e-9, 0.49
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


class _InToml:
    """A strict schema of pydantic, by its name in `core_schema`."""

    def __init__(self, schema: str, **options: bool) -> None:
        self._schema, self._options = schema, options

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return getattr(core_schema, self._schema)(strict=True, **self._options)


class _LabelInToml:
    """A label as a text, for pydantic."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(_label_of, handler(source))


Number = Annotated[float, _InToml("float_schema", allow_inf_nan=False)]
Whole = Annotated[int, _InToml("int_schema")]
Truth = Annotated[bool, _InToml("bool_schema")]
Labels = tuple[Annotated[str, _LabelInToml()], ...]


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
        missing: what happens where a value is missing: an error, the row is left out, or it counts
            as unknown: for labels and brackets a further label `unknown`, the last one; for numbers
            the middle of the bounds (of levels, the one nearest to it) and a further column `NAME
            unknown` of the labels no and yes (`with_indicators`).
        indicators: numbers that many people have, such as an income of 0 or the cap of a form. Each
            adds a column `NAME = NUMBER` of the labels no and yes, so that rewards there may differ
            from rewards nearby. Where it is not given, it follows from the value.
        log: whether differences are those of logarithms, for columns of a `Search`; numbers above
            0 without labels.

    Raises:
        InvalidInput: for bounds, levels, labels or rules that do not fit together.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    stated_from: ClassVar[str] = STATED_FROM

    name: str
    lower: Number = math.nan
    upper: Number = math.nan
    levels: Whole | None = None
    values: Labels = ()
    outside: OutsideRule = "error"
    missing: MissingRule | Literal["unknown"] = "error"
    thresholds: tuple[Number, ...] | None = None
    log: Truth = False
    indicators: tuple[Number, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise invalid(self.name, "a column's name", "a text")
        one_of(self.outside, f"outside of column {self.name!r}", ("error", "clip", "drop"))
        one_of(self.missing, f"missing of column {self.name!r}", ("error", "drop", UNKNOWN))
        if self.thresholds is not None:
            self._name_brackets(self.thresholds)
        elif self.values:
            self._number(label_texts(self.values, f"the values of column {self.name!r}"))
        # NaN, which equals nothing, says that a bound was not given.
        bounds = {
            key: finite_number(value, f"the {key} bound of column {self.name!r}")
            for key, value in (("lower", self.lower), ("upper", self.upper))
            if not (isinstance(value, float) and math.isnan(value))
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
        if self.log and (self.values or self.lower <= 0.0):
            given = "labels" if self.values else f"the lower bound {self.lower:g}"
            raise InvalidInput(
                f"column {self.name!r} has log = True and {given}; logarithms need numbers with a "
                "lower bound above 0."
            )
        self._check_indicators()

    def _check_indicators(self) -> None:
        given, name = self.indicators, f"an indicator of column {self.name!r}"
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise invalid(given, f"indicators of column {self.name!r}", "a list of numbers, as [0]")
        numbers = tuple(finite_number(each, name) for each in given)
        object.__setattr__(self, "indicators", numbers)
        for place, number in enumerate(numbers):
            step = (number - self.lower) / (self.upper - self.lower) * ((self.levels or 1) - 1)
            if self.values:
                wanted = "left out: labels are distinct already"
            elif not self.lower <= number <= self.upper:
                wanted = f"within the bounds [{self.lower:g}, {self.upper:g}]"
            elif abs(step - round(step)) > 1e-6:
                wanted = f"one of the {self.levels} values from {self.lower:g} to {self.upper:g}"
            elif self.indicated(np.array([number]))[0, -len(numbers) :][:place].any():
                wanted = "another number than those before it"
            else:
                continue
            raise invalid(number, name, wanted)

    def indicated(self, values: FloatArray) -> BoolArray:
        """(n, k) whether each indicator is yes for values (n,), which are first moved to the bounds
        and, in a column with levels, to the nearest level."""
        reach = _SAME if self.levels is None else _NEAREST / (self.levels - 1)
        apart = np.clip(values, self.lower, self.upper)[:, None] - np.array(self.indicators)
        absent = np.isnan(values)[:, None][:, : self.missing == UNKNOWN and not self.values]
        return np.hstack([absent, np.abs(apart) <= reach * (self.upper - self.lower)])

    @property
    def indicator_names(self) -> tuple[str, ...]:
        """The names of the k indicators behind a column of numbers."""
        if self.values:
            return ()
        unknown = (f"{self.name} {UNKNOWN}",) if self.missing == UNKNOWN else ()
        return (*unknown, *(f"{self.name} = {label_text(each)}" for each in self.indicators))

    @property
    def allowed(self) -> str:
        """What values it takes, for messages."""
        if not self.values:
            return f"numbers from {self.lower:g} to {self.upper:g}"
        shown = ", ".join(self.values[:_SHOWN])
        more = len(self.values) - _SHOWN
        return f"one of {shown}" + (f" and {more} more" if more > 0 else "")

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
        if self.missing == UNKNOWN and UNKNOWN not in texts:
            texts = (*texts, UNKNOWN)
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

    @property
    def if_unknown(self) -> float:
        """The code of a missing value under missing = "unknown"."""
        if self.values:
            return float(self.values.index(UNKNOWN))
        steps = 0.5 if self.levels is None else (self.levels - 1) // 2 / (self.levels - 1)
        return self.lower + steps * (self.upper - self.lower)


Declared = Sequence[Column] | Mapping[str, Any]


def declared_columns(bounds: Declared) -> tuple[Column, ...]:
    """Columns as people state them.

    | given                                              | is                                     |
    |----------------------------------------------------|----------------------------------------|
    | a list of `Column`                                 | those columns                          |
    | `{"age": (18, 90)}`, a tuple of two numbers        | bounds                                 |
    | `{"region": ["north", "south"]}`, a list           | labels, in an order that makes sense   |
    | `{"age": {"lower": 18, "upper": 90, "levels": 73}}`| what a study file says of a column     |

    Raises:
        InvalidInput: for anything else, for each column that is wrong, and for a name twice.
    """
    if isinstance(bounds, Mapping):
        errors = ErrorCollector()
        columns = []
        for name, stated in bounds.items():
            with errors.collected():
                columns.append(_stated(name, stated))
        errors.raise_if_any()
        bounds = columns
    if isinstance(bounds, str) or not isinstance(bounds, Sequence):
        raise InvalidInput(
            f"the columns were {bounds!r:.80}; give a list of Column, or a dictionary such as "
            '{"age": (18, 90), "region": ["north", "south"]}.'
        )
    for column in bounds:
        if not isinstance(column, Column):
            raise InvalidInput(
                f"a column was {column!r:.80}; give Column(name, lower, upper), or "
                "Column(name, values=labels)."
            )
    distinct((column.name for column in bounds), "the columns")
    return tuple(bounds)


def with_indicators(columns: Sequence[Column], stated: bool = False) -> tuple[Column, ...]:
    """Columns of contexts: each column of numbers is followed by its indicators. With `stated` they
    may stand there already, as in a `Box`; no other column may have their names."""
    expanded: list[Column] = []
    names = [column.name for column in columns]
    for place, column in enumerate(columns):
        expanded.append(column)
        behind = [Column(name, values=("no", "yes")) for name in column.indicator_names]
        if stated and list(columns[place + 1 :][: len(behind)]) == behind:
            continue
        for each in behind:
            if each.name in names:
                raise InvalidInput(
                    f"column {each.name!r} is the indicator that column {column.name!r} adds; "
                    "leave one of the two out, or give the column another name."
                )
        expanded += behind
    return tuple(expanded)


def _stated(name: Any, stated: Any) -> Column:
    """One column of `declared_columns`."""
    if isinstance(stated, Column):
        return replace(stated, name=name)
    if isinstance(stated, tuple) and len(stated) == 2:
        return Column(name, *stated)
    stated = stated.tolist() if hasattr(stated, "tolist") else stated
    if isinstance(stated, list):
        return Column(name, values=label_texts(stated, f"the values of column {name!r}"))
    if isinstance(stated, Mapping):
        known = [field.name for field in fields(Column) if field.name != "name"]
        for key in stated:
            if key not in known:
                raise InvalidInput(
                    f"column {name!r} got {key!r}; a column has {', '.join(known)}."
                    f"{nearest(str(key), known)}"
                )
        given = {**stated, "values": stated.get("values", ())}
        if given["values"]:
            given["values"] = label_texts(given["values"], f"the values of column {name!r}")
        return Column(name, **given)
    raise InvalidInput(
        f"the bounds of column {name!r} were {stated!r:.80}; give a tuple (lower, upper) for "
        "numbers, or a list of labels. Bounds are public facts: do not read them off the data."
    )


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


def label_places(labels: Sequence[str]) -> Callable[[str], float]:
    """The place of a text among declared labels; NaN for one that is none of them.

    A label as it is declared comes first, then one that programs write differently (`same_label`),
    then the only one that differs in capitals alone.
    """
    places = {label: float(place) for place, label in enumerate(labels)}
    same = {same_label(label): places[label] for label in reversed(labels)}
    spellings = Counter(label.casefold() for label in labels)
    folded = {
        label.casefold(): place
        for label, place in places.items()
        if spellings[label.casefold()] == 1
    }

    def place_of(text: str) -> float:
        place = places.get(text, same.get(same_label(text)))
        return folded.get(text.casefold(), math.nan) if place is None else place

    return place_of


Extra = Literal["refuse", "ignore"]
Objects = NDArray[np.object_]

# What stands for a key that a dictionary lacks.
_ABSENT = object()


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

    Columns with missing = "unknown" may lack values, and indicators may be left out.

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
    implied = {name for column in columns for name in column.indicator_names}
    optional = [key for key in known if key in implied]
    if _is_frame(contexts):
        given = list(contexts.columns)
        _check_names(given, known, optional, extra, name, "the table")
        values = {key: _objects(contexts[key]) for key in known if key in given}
        lacking = [_ABSENT] * len(next(iter(values.values())))
        values |= {key: _objects(lacking) for key in optional if key not in given}
    else:
        values = _of_dictionaries(contexts, known, known if lenient else optional, extra, name)
    errors = ErrorCollector()
    read = []
    for column in columns:
        may_lack = column.missing == UNKNOWN or column.name in implied
        with errors.collected():
            read.append(_numbers(values[column.name], column, lenient, may_lack, name))
    errors.raise_if_any()
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
        _check_names([*row], known, optional, extra, name, f"row {place}")
    values = {}
    for key in known:
        values[key] = np.empty(len(rows), dtype=object)
        values[key][:] = [row.get(key, _ABSENT) for row in rows]
    return values


def _check_names(
    given: list[Any], known: list[str], optional: list[str], extra: Extra, name: str, where: str
) -> None:
    """Refuse columns that are missing or, unless they are to be ignored, too many."""
    errors = ErrorCollector()
    missing = [key for key in known if key not in given and key not in optional]
    more = [key for key in given if key not in known]
    names = f"the domain has {', '.join(known)}, {where} has {', '.join(map(str, given)) or 'none'}"
    for key in missing:
        errors.add(f"{name} lacked the column {key!r}; {names}.{nearest(key, map(str, more))}")
    if more and extra == "refuse" and not missing:
        meant = nearest(str(more[0]), (key for key in known if key not in given))
        kept = [key for key in known if key in given]
        advice = meant or f" Leave it out, as {name}[{kept}] does in pandas."
        errors.add(f"{name} had the column {more[0]!r}, which the domain lacks; {names}.{advice}")
    errors.raise_if_any()


def _numbers(
    values: Objects, column: Column, lenient: bool, may_lack: bool, name: str
) -> FloatArray:
    """(n,) the values of one column as numbers in declared units."""
    read = _codes(values, column) if column.values else _plain(values)
    wrong = np.flatnonzero(np.isnan(read))
    if may_lack:
        wrong = np.array([row for row in wrong if not is_missing(values[row])], dtype=np.int64)
    if lenient or not len(wrong):
        return read
    row = int(wrong[0])
    others = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    given, similar = values[row], ""
    if is_missing(given):
        shown = "no value"
    else:
        try:
            shown = f"{given!r:.80}"
            similar = nearest(label_text(given), column.values) if column.values else ""
        except ValueError:  # as in `_codes`
            shown = "a number of thousands of digits"
    numeric = all(label.lstrip("-").replace(".", "", 1).isdigit() for label in column.values)
    if numeric and len(column.values) == 2 and not similar:
        similar = " A list holds labels; declare two bounds as a pair, (lower, upper)."
    raise InvalidInput(
        f"{name} had {shown} in column {column.name!r}, row {row}{others}; it takes "
        f"{column.allowed}.{similar}"
    )


def _codes(values: Objects, column: Column) -> FloatArray:
    """(n,) the places of labels; NaN for those that are not declared."""
    if column.thresholds is not None:
        numbers = _plain(values)
        places = np.searchsorted(column.thresholds, numbers, side="right").astype(np.float64)
        return np.asarray(np.where(np.isnan(numbers), np.nan, places))
    place_of_text = label_places(column.values)
    kinds: dict[Any, float] = {}

    def place_of(value: Any) -> float:
        if is_missing(value):
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
    absent = isinstance(value, str | bytes) or is_missing(value)
    return math.nan if absent else number_of(value)


def is_missing(value: Any) -> bool:
    """None, NaN and what tables have for them."""
    if value is None or value is _ABSENT:
        return True
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return type(value).__name__ in ("NAType", "NaTType")
