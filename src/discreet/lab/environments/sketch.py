"""What the columns of a table seem to hold, for the first draft of a study (draft.py).

A sketch decides by the values which kind of column each is. It gives no lowest or highest value:
bounds are public, and whoever read them off the table would publish two people's values. Labels and
counts are of the table, though, and whoever sees a sketch learns them.

| kind     | what is there                           | what a study needs to hear            |
|----------|-----------------------------------------|---------------------------------------|
| numbers  | numbers                                 | lower and upper                       |
| levels   | whole numbers, few of them              | lower, upper and how many levels      |
| labels   | texts, 0 and 1, or truth values         | which labels there are, in what order |
| left out | dates, ids, free text, nothing, one value | nothing: nobody learns from these   |

What can be read in two ways is a question, not a guess: dates in several formats, numbers with
commas, labels that differ in capitals alone.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api.types import is_hashable

from discreet.people.columns import Label, label_text
from discreet.people.table_files import read_table
from discreet.people.tables import (
    DATES,
    TEXT,
    WITH_COMMAS,
    looks_like,
    missing_rows,
    numbers_of,
)
from discreet.validation import BoolArray, FloatArray, IntArray, InvalidInput

Kind = Literal["numbers", "levels", "labels", "left out"]

RARE = 10
"""A label of fewer rows than this is rare."""

_MOST_LABELS = 50
_MOST_LEVELS = 20
_SPARSEST = (
    2  # between the lowest and the highest for each that occurs; others are codes or amounts
)
_REPEATED = 2  # a text that is a label occurs at least so often on average
_ENOUGH_ROWS = 20  # in which numbers that only rise hardly do so by chance
_MARKS = (9.0, 99.0, 999.0, 9999.0, 99999.0)  # with either sign they often mark a missing value
# Labels whose order is known, as they are or cut short: Mon, Thurs, sept.
_WEEK = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_YEAR = ("january", "february", "march", "april", "may", "june", "july", "august", "september",
         "october", "november", "december")  # fmt: skip
_SHORTEST = 3
_EXAMPLES = 3
_TRUE = {"true": True, "false": False}
# Names of the columns of a log, in small letters.
_PROPENSITY = re.compile(r"(?:.*[\W_])?(?:propensity|pscore|probability)(?:[\W_]score)?|p|prob")
_ACTION = re.compile(r"(?:.*[\W_])?(?:action|arm|treatment|offer|variant|item)(?:[\W_]id)?")
_REWARD = re.compile(
    r"(?:.*[\W_])?(?:reward|click|clicked|clicks|converted|conversion|outcome|response|paid)"
)
_TAKEN = 10  # rows of each value, on average, that make values labels
_ENOUGH_TO_TELL = 50  # rows, with fewer a column may tell the outcome by accident
_TELLING, _ERRORS, _ALIKE = 0.99, 0.1, 0.999
_ID = re.compile(r"(?:.*[\W_])?(?:id|ID|uuid|UUID|guid|GUID)|.*[a-z]I[dD]|rownames", re.DOTALL)


@dataclass(frozen=True)
class Sketch:
    """What one column seems to hold.

    Attributes:
        name: the column's name in the table.
        kind: see the module.
        holds: what is there, in a few words.
        missing: how many rows have no value.
        labels: of a column of labels, sorted; of few whole numbers those that occur.
        rare: how many of the labels occur in fewer than `RARE` rows.
        mark: a number that seems to stand for a missing value, and `marked` how many rows have it.
        advice: what to do to use a column that is left out, or what to check; "" for nothing.
        names_people: whether it could say whose row it is, as some of its values come again.
        question: what has to be decided before the column can be declared; "" for nothing.
    """

    name: str
    kind: Kind
    holds: str
    missing: int = 0
    labels: tuple[Label, ...] = ()
    rare: int = 0
    mark: float | None = None
    marked: int = 0
    advice: str = ""
    names_people: bool = False
    question: str = ""


@dataclass(frozen=True)
class TableSketch:
    """What a table seems to hold.

    Attributes:
        path: the table.
        rows: how many rows it has.
        columns: of each column a sketch, in the order of the table.
        written: the fields as texts; None for a sketch without its table.
    """

    path: Path
    rows: int
    columns: tuple[Sketch, ...]
    written: pd.DataFrame | None = field(default=None, repr=False, compare=False)

    def mostly_lacks(self, column: Sketch) -> bool:
        """Whether more than half of the rows have no value in a column that could be used."""
        return column.kind != "left out" and 2 * column.missing > self.rows

    @property
    def named(self) -> tuple[Sketch, ...]:
        """The columns that a study can name: those with a name that no other has."""
        counts = Counter(each.name for each in self.columns)
        return tuple(each for each in self.columns if each.name and counts[each.name] == 1)


def sketch_table(path: Path) -> TableSketch:
    """Look at every column of a CSV or Parquet file.

    Raises:
        InvalidInput: where the file cannot be read (`read_table`).
    """
    frame = read_table(path)
    names = [str(name) for name in frame.columns]
    # As they are written, codes such as 01 differ from numbers.
    texts = read_table(path, names)
    counts = Counter(names)
    sketches = []
    for place, name in enumerate(names):
        if counts[name] > 1:
            holds = f"{counts[name]} columns have this name"
            sketches.append(_left_out(name, holds, "give each its own name in the header"))
        elif not name:
            sketches.append(_left_out(name, "a column without a name", "name it in the header"))
        else:
            sketches.append(_sketch(name, frame.iloc[:, place], texts.iloc[:, place]))
    return TableSketch(path, len(frame), tuple(sketches), texts)


def _left_out(name: str, holds: str, advice: str = "", missing: int = 0) -> Sketch:
    return Sketch(name, "left out", holds, missing, advice=advice)


def _sketch(name: str, series: pd.Series[Any], written: pd.Series[Any]) -> Sketch:
    absent = missing_rows(series)
    missing, present = int(absent.sum()), series[~absent]
    if present.empty:
        return _left_out(name, "nothing", missing=missing)
    if series.dtype.kind in "Mm":
        return _left_out(name, DATES, looks_like("2000-01-01")[1], missing)
    if present.map(type).isin((bool, np.bool_)).all():
        return replace(_of_texts(name, present, missing), holds="true and false")
    if not present.map(is_hashable).all():  # Parquet has lists and tables within a field
        advice = "write each part into a column of its own to use it"
        return _left_out(name, "several values in a field", advice, missing)
    marks = sorted({value.strip() for value in series[absent] if isinstance(value, str)} - {""})
    try:
        numbers = numbers_of(series, "drop")[~absent]
    except InvalidInput:
        return _with_marks(_of_texts(name, present, missing), marks)
    codes = written[~absent].astype(str).str.strip()
    if series.dtype.kind in "iufO" and codes.str.fullmatch(r"[+-]?0\d+").any():
        return _of_texts(name, codes, missing)
    return _of_numbers(name, numbers, missing)


def _with_marks(sketch: Sketch, marks: list[str]) -> Sketch:
    """Labels among which there are texts that could be labels as well: None, say."""
    if not marks or sketch.kind != "labels":
        return sketch
    advice = f"rows with {' or '.join(map(repr, marks))} count as such, unless that is declared too"
    return replace(sketch, advice=advice)


# Numbers.


def _of_numbers(name: str, numbers: FloatArray, missing: int) -> Sketch:
    """A column of numbers, given those that are there (m,)."""
    distinct, counts = np.unique(numbers, return_counts=True)
    if not np.isfinite(distinct).any():
        return _left_out(name, "infinity in every row", missing=missing)
    whole = bool((np.isfinite(distinct) & (distinct == np.floor(distinct))).all())
    if len(distinct) == 1:
        return _left_out(name, "the same number in every row", missing=missing)
    if whole and len(numbers) >= _ENOUGH_ROWS and bool((np.diff(numbers) > 0.0).all()):
        rising = "whole numbers that rise from row to row, as ids do"
        return _left_out(
            name, rising, "declare them in columns if they mean something else", missing
        )
    if whole and _ID.fullmatch(name) and len(distinct) > _MOST_LEVELS:
        return _ids(name, len(distinct), len(numbers), missing)
    if whole and _are_dates(distinct):
        return _left_out(name, "dates, as whole numbers", looks_like("2000-01-01")[1], missing)
    mark = _mark(distinct)
    real = distinct if mark is None else distinct[distinct != mark]
    kind: Kind = "numbers"
    holds, labels, advice = ("whole numbers" if whole else "numbers"), tuple[Label, ...](), ""
    if whole and len(real) <= _MOST_LEVELS:
        labels = tuple(int(value) for value in real)
        if len(labels) == 2:
            kind, holds = "labels", " and ".join(map(str, labels))
        elif real[-1] - real[0] < _SPARSEST * len(real):
            kind, holds = "levels", f"whole numbers, {len(real)} different ones"
        else:
            advice = f"if its {len(real)} different numbers are codes, list them as values"
    rare = int((counts[distinct != mark] < RARE).sum()) if kind == "labels" else 0
    marked = 0 if mark is None else int(counts[distinct == mark][0])
    return Sketch(name, kind, holds, missing, labels, rare, mark, marked, advice)


def _are_dates(distinct: FloatArray) -> bool:
    """Whether all whole numbers read as year, month and day: 20240131."""
    years, days = np.divmod(distinct, 10_000)
    months, days = np.divmod(days, 100)
    fits = (years >= 1900) & (years <= 2100) & (months >= 1) & (months <= 12)
    return bool((fits & (days >= 1) & (days <= 31)).all())


def _mark(distinct: FloatArray) -> float | None:
    """A usual mark for missing values that is further from all others than these are apart."""
    for end, rest in ((distinct[0], distinct[1:]), (distinct[-1], distinct[:-1])):
        apart = np.abs(rest - end).min()
        if abs(end) in _MARKS and len(rest) > 1 and apart > rest[-1] - rest[0]:
            return float(end)
    return None


# Texts.


def _of_texts(name: str, present: pd.Series[Any], missing: int) -> Sketch:
    """A column of texts, given those that are there."""
    counts = Counter(dict[str, int]())
    for value, rows in Counter(present.tolist()).items():
        counts[label_text(value)] += rows
    rows = len(present)
    if len(counts) == 1 and rows > 1:
        return _left_out(name, "the same text in every row", missing=missing)
    forms = {form for text in counts if (form := _form(text)) is not None}
    if forms == {DATES}:
        question = _about_dates(counts)
        if question:
            return Sketch(name, "numbers", "dates in several formats", missing, question=question)
        return _left_out(name, DATES, looks_like("2000-01-01")[1], missing)
    if forms and forms <= set(WITH_COMMAS):
        example = next(text for text in counts if _form(text) is not None)
        holds = " or ".join(kind for kind in WITH_COMMAS if kind in forms)
        return Sketch(name, "numbers", holds, missing, question=_about_commas(example))
    few = len(counts) <= _MOST_LABELS and len(counts) * _REPEATED <= rows
    if few and not _ID.fullmatch(name):
        labels = _sorted(list(counts))
        rare = sum(count < RARE for count in counts.values())
        values: tuple[Label, ...] = tuple(_TRUE[text] for text in labels if text in _TRUE)
        values = values if len(values) == len(labels) else tuple(labels)
        holds = f"{len(labels)} labels"
        return Sketch(
            name, "labels", holds, missing, values, rare, question=_about_capitals(labels)
        )
    numbers = sum(count for text, count in counts.items() if _form(text) is None)
    if numbers and 2 * numbers > rows and TEXT in forms:
        return _partly_numbers(name, counts, missing)
    if forms and TEXT not in forms and DATES not in forms:
        example = next(text for text in counts if _form(text) is not None)
        return _left_out(name, *looks_like(example), missing)
    if len(counts) == rows or _ID.fullmatch(name):
        return _ids(name, len(counts), rows, missing)
    holds = f"free text, or labels of which there are {len(counts):,}"
    sketch = _left_out(name, holds, "bring it to fewer labels by a public rule to use it", missing)
    blank = any(" " in text for text in counts)
    return replace(sketch, names_people=not blank)


def _about_dates(texts: Iterable[str]) -> str:
    """What to ask about dates that are not all written alike, or have their day in two places."""
    formats = {next(mark for mark in "-/." if mark in text[:5]) for text in texts}
    parts = [list(map(int, re.split(r"[./]", text)[:2])) for text in texts if "-" not in text[:5]]
    if len(formats) > 1 or (any(a > 12 for a, _ in parts) and any(b > 12 for _, b in parts)):
        return (
            "dates are written in several ways, and 03/04 may be in March or in April. Write them "
            "alike in the table, as days since a fixed one, then state bounds; or take the column "
            "out"
        )
    return ""


def _about_commas(example: str) -> str:
    return (
        f"{example!r} may have a decimal comma or a separator of thousands. Write the numbers with "
        "a decimal point in the table, then state bounds; or take the column out"
    )


def _about_capitals(labels: Sequence[str]) -> str:
    """What to ask about labels that differ in capitals alone."""
    spellings: dict[str, list[str]] = {}
    for label in labels:
        spellings.setdefault(label.casefold(), []).append(label)
    alike = [each for each in spellings.values() if len(each) > 1]
    if not alike:
        return ""
    shown = "; ".join(" and ".join(map(repr, sorted(each))) for each in alike[:_EXAMPLES])
    return (
        f"{shown} differ in capitals alone. List one of them if they are the same label, or all "
        f"if they are not; the labels are {', '.join(map(repr, labels))}"
    )


def _partly_numbers(name: str, counts: Counter[str], missing: int) -> Sketch:
    """Numbers among which some rows hold a word."""
    words = [text for text in counts if _form(text) == TEXT]
    rows = sum(counts[text] for text in words)
    return _left_out(
        name,
        f"numbers, but {rows:,} row{' holds' if rows == 1 else 's hold'} text such as "
        f"{words[0]!r:.40}",
        "empty those fields, or write a number there, to use the column",
        missing,
    )


def _ids(name: str, distinct: int, rows: int, missing: int) -> Sketch:
    if distinct == rows:
        return _left_out(name, "ids or free text: no value comes twice", missing=missing)
    advice = "if it says whose row it is, name it as id under [people]"
    sketch = _left_out(name, f"ids: {distinct:,} different ones", advice, missing)
    return replace(sketch, names_people=True)


def _form(text: str) -> str | None:
    """What a text looks like; None for a number."""
    return None if _is_number(text) else looks_like(text)[0]


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _sorted(labels: list[str]) -> list[str]:
    """Labels in the order of the week or the year if they are days or months, else by `_order`."""
    for names in (_WEEK, _YEAR):
        places = {label: _place(label, names) for label in labels}
        if -1 not in places.values():
            return sorted(labels, key=lambda label: (places[label], label))
    return sorted(labels, key=_order)


def _place(label: str, names: tuple[str, ...]) -> int:
    """Which of the names a label is short for; -1 for none."""
    short = label.casefold().removesuffix(".")
    if len(short) < _SHORTEST:
        return -1
    return next((at for at, name in enumerate(names) if name.startswith(short)), -1)


def _order(text: str) -> tuple[bool, float, str]:
    """Numbers by size, before texts by the alphabet."""
    number = _is_number(text)
    return not number, float(text) if number else 0.0, text.casefold()


# What a study is about.


@dataclass(frozen=True)
class LogColumns:
    """The columns of a table that seem to hold logged decisions.

    Attributes:
        action, reward, propensity: the columns.
        names: the labels of the actions.
        binary: whether all rewards are 0 or 1.
    """

    action: Sketch
    reward: Sketch
    propensity: Sketch
    names: tuple[str, ...]
    binary: bool


def log_columns(table: TableSketch) -> LogColumns | None:
    """The action, reward and propensity of a table that has all three, by names and values."""
    if table.written is None:
        return None
    propensity = _first(table, _PROPENSITY, lambda each: _all(each, lambda p: (p > 0) & (p <= 1)))
    reward = _first(table, _REWARD, lambda each: _all(each, np.isfinite))
    action = _first(table, _ACTION, _holds_actions)
    if action is None or reward is None or propensity is None:
        return None
    labels = {label_text(value) for value in table.written[action.name]}
    binary = set(_numbers_in(table.written[reward.name])) <= {0.0, 1.0}
    return LogColumns(action, reward, propensity, tuple(_sorted(list(labels))), binary)


def _first(
    table: TableSketch, names: re.Pattern[str], fits: Callable[[pd.Series[Any]], bool]
) -> Sketch | None:
    """The first column with such a name and such values; None where there is none."""
    assert table.written is not None
    for sketch in table.named:
        if names.fullmatch(sketch.name.casefold()) and fits(table.written[sketch.name]):
            return sketch
    return None


def _numbers_in(series: pd.Series[Any]) -> FloatArray:
    """(n,) numbers, NaN for everything else."""
    numbers: FloatArray = pd.to_numeric(series, errors="coerce").to_numpy(
        np.float64, na_value=np.nan
    )
    return numbers


def _all(series: pd.Series[Any], holds: Callable[[FloatArray], BoolArray]) -> bool:
    """Whether every field is a number of which this holds."""
    return bool(holds(_numbers_in(series)).all())


def _holds_actions(series: pd.Series[Any]) -> bool:
    """Whether fields are labels that come again and again, and none is missing."""
    distinct = series.nunique()
    return not missing_rows(series).any() and distinct >= 2 and distinct * _TAKEN <= len(series)


def follows_from(table: TableSketch, column: Sketch, outcome: Sketch) -> str:
    """Why a column seems to follow from the outcome; "" where it does not.

    By its name, which has all words of the outcome's; or by values: for labels that tell the
    outcome's label of 99 in 100 rows and leave out a tenth of the errors of the commonest label,
    also by as many cuts of a number; for two columns of numbers by a correlation of 0.999.
    """
    words = _words(outcome.name)
    if words and words <= _words(column.name):
        return f"its name has that of {outcome.name!r} in it"
    if table.written is None:
        return ""
    both = table.written[[column.name, outcome.name]]
    both = both[~(missing_rows(both.iloc[:, 0]) | missing_rows(both.iloc[:, 1]))]
    if len(both) < _ENOUGH_TO_TELL:
        return ""
    x, y = _numbers_in(both.iloc[:, 0]), _numbers_in(both.iloc[:, 1])
    if outcome.kind == "labels":
        told = _told_share(column, both.iloc[:, 0], x, pd.factorize(both.iloc[:, 1])[0])
        return f"it tells {outcome.name!r} in {100.0 * told:.1f}% of rows" if told else ""
    if np.isnan(x).any() or np.isnan(y).any() or np.ptp(x) == 0.0 or np.ptp(y) == 0.0:
        return ""
    alike = abs(float(np.corrcoef(x, y)[0, 1])) >= _ALIKE
    return f"it is {outcome.name!r} in other units, or nearly so" if alike else ""


def _told_share(
    column: Sketch, texts: pd.Series[Any], numbers: FloatArray, labels: IntArray
) -> float:
    """The share of rows whose label a column tells; 0 where that is too little."""
    from sklearn.tree import DecisionTreeClassifier

    commonest = np.bincount(labels).max() / len(labels)
    if column.kind == "labels" or texts.nunique() * _TAKEN <= len(texts):
        told = pd.crosstab(texts, labels).max(axis=1).sum() / len(labels)
    elif np.isnan(numbers).any():
        return 0.0
    else:
        tree = DecisionTreeClassifier(max_leaf_nodes=int(labels.max()) + 1, random_state=0)
        told = tree.fit(numbers[:, None], labels).score(numbers[:, None], labels)
    enough = told >= _TELLING and 1.0 - told <= _ERRORS * (1.0 - commonest)
    return float(told) if enough else 0.0


def _words(name: str) -> set[str]:
    """The words of a column's name, in small letters."""
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return {word for word in re.split(r"[\W_]+", parted.casefold()) if word}
