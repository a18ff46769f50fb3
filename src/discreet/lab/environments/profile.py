"""Profiles of the columns of a table, from which a study is scaffolded.

The values decide the kind of each column. A profile holds neither minimum nor maximum: bounds are
public, and bounds read off the table would publish two people's values. Labels and counts do come
from the table, so a profile is as confidential as they are.

| kind     | content                                   | stated by the user          |
|----------|-------------------------------------------|-----------------------------|
| numbers  | numbers                                   | lower and upper             |
| levels   | few distinct integers                     | lower, upper, number of levels |
| labels   | texts, 0 and 1, or booleans               | the labels and their order  |
| left out | dates, ids, free text, nothing, one value | nothing                     |

Ambiguous values raise a question instead of a guess: dates in several formats, numbers with commas,
labels that differ in capitals alone.
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
from discreet.people.tables import (
    DATES,
    TEXT,
    WITH_COMMAS,
    looks_like,
    missing_rows,
    numbers_of,
    read_table,
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
class ColumnProfile:
    """The profile of one column.

    Attributes:
        name: of the column.
        kind: see the module.
        holds: a short description of its content.
        missing: the number of rows without a value.
        labels: its labels, sorted; of few integers those that occur.
        rare: the number of labels with fewer than `RARE` rows.
        mark: a number that probably codes a missing value, in `marked` rows.
        advice: how to use a column that is left out, or what to check; "" for nothing.
        names_people: whether it may identify people with several rows.
        question: to answer before the column can be declared; "" for none.
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
class TableProfile:
    """The profile of a table.

    Attributes:
        path: of the table.
        rows: their number.
        columns: their profiles, in the order of the table.
        written: the fields as texts; None for a profile without its table.
    """

    path: Path
    rows: int
    columns: tuple[ColumnProfile, ...]
    written: pd.DataFrame | None = field(default=None, repr=False, compare=False)

    def mostly_lacks(self, column: ColumnProfile) -> bool:
        """Whether more than half of the rows have no value in a column that could be used."""
        return column.kind != "left out" and 2 * column.missing > self.rows

    @property
    def named(self) -> tuple[ColumnProfile, ...]:
        """The columns that a study can name: those with a name that no other has."""
        counts = Counter(each.name for each in self.columns)
        return tuple(each for each in self.columns if each.name and counts[each.name] == 1)


def profile_table(path: Path) -> TableProfile:
    """The profile of a CSV or Parquet file.

    Raises:
        InvalidInput: where the file cannot be read (`read_table`).
    """
    frame = read_table(path)
    names = [str(name) for name in frame.columns]
    # As they are written, codes such as 01 differ from numbers.
    texts = read_table(path, names)
    counts = Counter(names)
    profiles = []
    for place, name in enumerate(names):
        if counts[name] > 1:
            holds = f"{counts[name]} columns have this name"
            profiles.append(_left_out(name, holds, "give each its own name in the header"))
        elif not name:
            profiles.append(_left_out(name, "a column without a name", "name it in the header"))
        else:
            profiles.append(_profile(name, frame.iloc[:, place], texts.iloc[:, place]))
    return TableProfile(path, len(frame), tuple(profiles), texts)


def _left_out(name: str, holds: str, advice: str = "", missing: int = 0) -> ColumnProfile:
    return ColumnProfile(name, "left out", holds, missing, advice=advice)


def _profile(name: str, series: pd.Series[Any], written: pd.Series[Any]) -> ColumnProfile:
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


def _with_marks(profile: ColumnProfile, marks: list[str]) -> ColumnProfile:
    """A profile that points out missing-value markers that may be labels, such as None."""
    if not marks or profile.kind != "labels":
        return profile
    advice = f"rows with {' or '.join(map(repr, marks))} count as such, unless that is declared too"
    return replace(profile, advice=advice)


# Numbers.


def _of_numbers(name: str, numbers: FloatArray, missing: int) -> ColumnProfile:
    """The profile of a column with these numbers (m,)."""
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
    return ColumnProfile(name, kind, holds, missing, labels, rare, mark, marked, advice)


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


def _of_texts(name: str, present: pd.Series[Any], missing: int) -> ColumnProfile:
    """The profile of a column with these texts."""
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
            return ColumnProfile(
                name, "numbers", "dates in several formats", missing, question=question
            )
        return _left_out(name, DATES, looks_like("2000-01-01")[1], missing)
    if forms and forms <= set(WITH_COMMAS):
        example = next(text for text in counts if _form(text) is not None)
        holds = " or ".join(kind for kind in WITH_COMMAS if kind in forms)
        return ColumnProfile(name, "numbers", holds, missing, question=_about_commas(example))
    few = len(counts) <= _MOST_LABELS and len(counts) * _REPEATED <= rows
    if few and not _ID.fullmatch(name):
        labels = sorted(counts, key=_order)
        rare = sum(count < RARE for count in counts.values())
        values: tuple[Label, ...] = tuple(_TRUE[text] for text in labels if text in _TRUE)
        values = values if len(values) == len(labels) else tuple(labels)
        holds = f"{len(labels)} labels"
        return ColumnProfile(
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
    profile = _left_out(name, holds, "bring it to fewer labels by a public rule to use it", missing)
    blank = any(" " in text for text in counts)
    return replace(profile, names_people=not blank)


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


def _partly_numbers(name: str, counts: Counter[str], missing: int) -> ColumnProfile:
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


def _ids(name: str, distinct: int, rows: int, missing: int) -> ColumnProfile:
    if distinct == rows:
        return _left_out(name, "ids or free text: no value comes twice", missing=missing)
    advice = "if it says whose row it is, name it as id under [people]"
    profile = _left_out(name, f"ids: {distinct:,} different ones", advice, missing)
    return replace(profile, names_people=True)


def _form(text: str) -> str | None:
    """What a text looks like; None for a number."""
    return None if _is_number(text) else looks_like(text)[0]


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _order(text: str) -> tuple[bool, float, str]:
    """Numbers by size, before texts by the alphabet."""
    number = _is_number(text)
    return not number, float(text) if number else 0.0, text.casefold()


# What a study is about.


@dataclass(frozen=True)
class LogColumns:
    """The columns of a log of decisions.

    Attributes:
        action, reward, propensity: the columns.
        names: the labels of the actions.
        binary: whether all rewards are 0 or 1.
    """

    action: ColumnProfile
    reward: ColumnProfile
    propensity: ColumnProfile
    names: tuple[str, ...]
    binary: bool


def log_columns(table: TableProfile) -> LogColumns | None:
    """Action, reward and propensity, recognised by name and values; None without all three."""
    if table.written is None:
        return None
    propensity = _first(table, _PROPENSITY, lambda each: _all(each, lambda p: (p > 0) & (p <= 1)))
    reward = _first(table, _REWARD, lambda each: _all(each, np.isfinite))
    action = _first(table, _ACTION, _holds_actions)
    if action is None or reward is None or propensity is None:
        return None
    labels = {label_text(value) for value in table.written[action.name]}
    binary = set(_numbers_in(table.written[reward.name])) <= {0.0, 1.0}
    return LogColumns(action, reward, propensity, tuple(sorted(labels, key=_order)), binary)


def _first(
    table: TableProfile, names: re.Pattern[str], fits: Callable[[pd.Series[Any]], bool]
) -> ColumnProfile | None:
    """The first column with such a name and such values; None where there is none."""
    assert table.written is not None
    for profile in table.named:
        if names.fullmatch(profile.name.casefold()) and fits(table.written[profile.name]):
            return profile
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


def follows_from(table: TableProfile, column: ColumnProfile, outcome: ColumnProfile) -> str:
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
    column: ColumnProfile, texts: pd.Series[Any], numbers: FloatArray, labels: IntArray
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
