"""A study file scaffolded from a table.

The values decide the kind of each column. A profile holds neither minimum nor maximum: bounds are
public, and bounds read off the table would publish two people's values. Labels and counts do come
from the table, so a scaffold is as confidential as they are.

| kind     | content                                   | stated by the user             |
|----------|-------------------------------------------|--------------------------------|
| numbers  | numbers                                   | lower and upper                |
| levels   | few distinct integers                     | lower, upper, number of levels |
| labels   | texts, two integers, or booleans          | the labels and their order     |
| left out | dates, ids, free text, nothing, one value | nothing                        |

Numbers with commas are left out too, as commas have two meanings. Entries that only the user can
state are `"?"`, and no study runs with one.
"""

from __future__ import annotations

import math
import os
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api.types import is_bool, is_hashable

from discreet.lab.environments.tables import RewardColumns
from discreet.people.columns import UNKNOWN, Label, label_text
from discreet.people.tables import (
    DATES,
    TEXT,
    WITH_COMMAS,
    looks_like,
    missing_rows,
    numbers_of,
    read_table,
)
from discreet.toml_files import UNSTATED, toml_text
from discreet.validation import ErrorCollector, FloatArray, IntArray, InvalidInput, nearest

Kind = Literal["numbers", "levels", "labels", "left out"]

EPSILONS = (1, 2, 4)
RARE = 10
"""A label of fewer rows than this is rare."""

# Of a column: labels at most, levels at most, and rows of a label at least (on average).
_MOST_LABELS, _MOST_LEVELS, _REPEATED = 50, 20, 2
# The end of a column of more numbers than these may have an indicator where it has this share of
# rows, and this many times those of its neighbour.
_FEW_NUMBERS, _MANY, _PEAK = 4, 0.05, 3
_RISING_ROWS = 20  # in which numbers that only rise hardly do so by chance
_ID = re.compile(r"(?:.*[\W_])?(?:id|ID|uuid|UUID|guid|GUID)|.*[a-z]I[dD]|rownames", re.DOTALL)
# Names of the columns of a log, in lower case.
_PROPENSITY = re.compile(r"(?:.*[\W_])?(?:propensity|pscore|probability)(?:[\W_]score)?|p|prob")
_ACTION = re.compile(r"(?:.*[\W_])?(?:action|arm|treatment|offer|variant|item)(?:[\W_]id)?")
_REWARD = re.compile(
    r"(?:.*[\W_])?(?:reward|click|clicked|clicks|converted|conversion|outcome|response|paid)"
)
# A column follows from the outcome: by at least these rows, rows of each value, share of rows,
# share of the errors of the most frequent label, and correlation.
_LEAST_ROWS, _ROWS_EACH, _PREDICTED, _ERRORS, _CORRELATED = 50, 10, 0.99, 0.1, 0.999
_BOUNDS: dict[str, object] = {"lower": UNSTATED, "upper": UNSTATED}
_WIDTH, _NAMED = 100, 8
_PUBLIC = (
    "public knowledge, such as a questionnaire, the limits of a form, a law, a census or a "
    "published study"
)


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
        advice: how to use a column that is left out, or what to check; "" for nothing.
        names_people: whether it may identify people with several rows.
        indicators: its lowest and its highest number, where many rows have it.
    """

    name: str
    kind: Kind
    holds: str
    missing: int = 0
    labels: tuple[Label, ...] = ()
    rare: int = 0
    advice: str = ""
    names_people: bool = False
    indicators: tuple[float, ...] = ()


@dataclass(frozen=True)
class TableProfile:
    """The profile of a table.

    Attributes:
        path: of the table.
        rows: their number.
        columns: their profiles, in the order of the table.
        written: the fields as texts.
    """

    path: Path
    rows: int
    columns: tuple[ColumnProfile, ...]
    written: pd.DataFrame = field(repr=False, compare=False)

    def mostly_lacks(self, column: ColumnProfile) -> bool:
        """Whether more than half of the rows have no value in a column that could be used."""
        return column.kind != "left out" and 2 * column.missing > self.rows

    @property
    def named(self) -> dict[str, ColumnProfile]:
        """The columns with a name that no other has."""
        counts = Counter(each.name for each in self.columns)
        return {each.name: each for each in self.columns if each.name and counts[each.name] == 1}


def profile_table(path: Path) -> TableProfile:
    """The profile of a CSV or Parquet file.

    Raises:
        InvalidInput: where the file cannot be read (`read_table`).
    """
    frame = read_table(path)
    names = [str(name) for name in frame.columns]
    texts = read_table(path, names)  # in which 01 differs from 1
    counts = Counter(names)
    profiles = []
    for place, name in enumerate(names):
        if not name:
            profile = _left_out(name, "a column without a name", "name it in the header")
        elif counts[name] > 1:
            advice = "give each its own name in the header"
            profile = _left_out(name, f"{counts[name]} columns have this name", advice)
        else:
            profile = _profile(name, frame.iloc[:, place], texts.iloc[:, place])
        profiles.append(profile)
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
    if not present.map(is_hashable).all():  # Parquet has lists and tables within a field
        advice = "write each part into a column of its own to use it"
        return _left_out(name, "several values in a field", advice, missing)
    if present.map(is_bool).all():
        return replace(_of_texts(name, present, missing), holds="true and false")
    try:
        numbers = numbers_of(series, "drop")[~absent]
    except InvalidInput:
        profile = _of_texts(name, present, missing)
        marks = sorted({each.strip() for each in series[absent] if isinstance(each, str)} - {""})
        if not marks or profile.kind != "labels":
            return profile
        counted = f"rows with {' or '.join(map(repr, marks))} count as such"
        advice = f"{counted}, unless that is declared too"
        return replace(profile, advice="; ".join(filter(None, (profile.advice, advice))))
    codes = written[~absent].astype(str).str.strip()
    if codes.str.fullmatch(r"[+-]?0\d+").any():
        return _of_texts(name, codes, missing)
    return _of_numbers(name, numbers, missing)


def _of_numbers(name: str, numbers: FloatArray, missing: int) -> ColumnProfile:
    distinct, counts = np.unique(numbers, return_counts=True)
    whole = bool((np.isfinite(distinct) & (distinct == np.floor(distinct))).all())
    if not np.isfinite(distinct).any():
        return _left_out(name, "infinity in every row", missing=missing)
    if len(distinct) == 1:
        return _left_out(name, "the same number in every row", missing=missing)
    if whole and len(numbers) >= _RISING_ROWS and bool((np.diff(numbers) > 0.0).all()):
        advice = "declare them in columns if they mean something else"
        return _left_out(
            name, "whole numbers that rise from row to row, as ids do", advice, missing
        )
    if whole and _ID.fullmatch(name) and len(distinct) > _MOST_LEVELS:
        return _ids(name, len(distinct), len(numbers), missing)
    if whole and distinct[0] >= 19000101 and distinct[-1] <= 21001231:
        days = pd.to_datetime(pd.Series(distinct.astype(int).astype(str)), errors="coerce")
        if days.notna().all():
            advice = looks_like("2000-01-01")[1]
            return _left_out(name, "dates, as whole numbers", advice, missing)
    least = max(RARE, _MANY * (len(numbers) + missing))
    beside = {0: 1, -1: -2} if len(distinct) > _FEW_NUMBERS else {}
    ends = [end for end in beside if counts[end] >= max(least, _PEAK * counts[beside[end]])]
    peaks = tuple(each for each in distinct[ends].tolist() if math.isfinite(each))
    holds = "whole numbers" if whole else "numbers"
    profile = ColumnProfile(name, "numbers", holds, missing, indicators=peaks)
    if not whole or len(distinct) > _MOST_LEVELS:
        return profile
    labels = tuple(int(value) for value in distinct)
    if len(labels) == 2:
        rare = int((counts < RARE).sum())
        holds = " and ".join(map(str, labels))
        return replace(profile, kind="labels", holds=holds, labels=labels, rare=rare)
    if distinct[-1] - distinct[0] < 2 * len(labels):  # otherwise codes or amounts
        holds = f"whole numbers, {len(labels)} different ones"
        return replace(profile, kind="levels", holds=holds, labels=labels)
    advice = f"if its {len(labels)} different numbers are codes, list them as values"
    return replace(profile, labels=labels, advice=advice)


def _of_texts(name: str, present: pd.Series[Any], missing: int) -> ColumnProfile:
    rows, counts = len(present), Counter(map(label_text, present))
    forms = {form for text in counts if (form := _form(text)) is not None}
    example = next((text for text in counts if _form(text) is not None), "")
    if len(counts) == 1 and rows > 1:
        return _left_out(name, "the same text in every row", missing=missing)
    if forms == {DATES} or (forms and forms <= set(WITH_COMMAS)):
        return _left_out(name, *looks_like(example), missing)
    if len(counts) <= min(_MOST_LABELS, rows / _REPEATED) and not _ID.fullmatch(name):
        return _of_labels(name, counts, missing)
    numbers = sum(count for text, count in counts.items() if _form(text) is None)
    if TEXT in forms and 2 * numbers > rows:
        words = [text for text in counts if _form(text) == TEXT]
        affected = sum(counts[text] for text in words)
        holds = f"{affected:,} row{' holds' if affected == 1 else 's hold'} text such as"
        advice = "empty those fields, or write a number there, to use the column"
        return _left_out(name, f"numbers, but {holds} {words[0]!r:.40}", advice, missing)
    if forms and TEXT not in forms and DATES not in forms:
        return _left_out(name, *looks_like(example), missing)
    if len(counts) == rows or _ID.fullmatch(name):
        return _ids(name, len(counts), rows, missing)
    holds = f"free text, or labels of which there are {len(counts):,}"
    profile = _left_out(name, holds, "bring it to fewer labels by a public rule to use it", missing)
    return replace(profile, names_people=not any(" " in text for text in counts))


def _of_labels(name: str, counts: Counter[str], missing: int) -> ColumnProfile:
    labels = sorted(counts, key=_order)
    values: tuple[Label, ...] = tuple(labels)
    if set(labels) <= {"true", "false"}:
        values = tuple(label == "true" for label in labels)
    advice = ""
    if len({label.casefold() for label in labels}) < len(labels):
        advice = "some differ in capitals alone; one of these, listed alone, stands for all"
    rare = sum(count < RARE for count in counts.values())
    holds = f"{len(labels)} labels"
    return ColumnProfile(name, "labels", holds, missing, values, rare, advice)


def _ids(name: str, distinct: int, rows: int, missing: int) -> ColumnProfile:
    if distinct == rows:
        return _left_out(name, "ids or free text: no value comes twice", missing=missing)
    advice = "if it says whose row it is, name it as id under [people]"
    profile = _left_out(name, f"ids: {distinct:,} different ones", advice, missing)
    return replace(profile, names_people=True)


def _form(text: str) -> str | None:
    """The form of a text; None for a number."""
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


# The outcome.


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
    written = table.written

    def first(
        names: re.Pattern[str], fits: Callable[[pd.Series[Any]], bool]
    ) -> ColumnProfile | None:
        named = (each for name, each in table.named.items() if names.fullmatch(name.casefold()))
        return next((each for each in named if fits(written[each.name])), None)

    def labelled(series: pd.Series[Any]) -> bool:
        distinct = series.nunique()
        repeated = distinct >= 2 and distinct * _ROWS_EACH <= len(series)
        return repeated and not missing_rows(series).any()

    propensity = first(_PROPENSITY, lambda each: bool(_numbers_in(each).between(1e-300, 1).all()))
    reward = first(_REWARD, lambda each: bool(np.isfinite(_numbers_in(each)).all()))
    action = first(_ACTION, labelled)
    if action is None or reward is None or propensity is None:
        return None
    names = tuple(sorted(set(map(label_text, written[action.name])), key=_order))
    binary = bool(_numbers_in(written[reward.name]).isin([0.0, 1.0]).all())
    return LogColumns(action, reward, propensity, names, binary)


def _numbers_in(series: pd.Series[Any]) -> pd.Series[float]:
    """The numbers of a column, NaN for everything else."""
    return pd.to_numeric(series, errors="coerce").astype(np.float64)


def follows_from(table: TableProfile, column: ColumnProfile, outcome: ColumnProfile) -> str:
    """Why a column seems to follow from the outcome; "" where it does not.

    By its name, which has all words of the outcome's; or by values: for labels that predict the
    outcome's label in 99 of 100 rows with a tenth of the errors of the most frequent label, also by
    as many cuts of a number; for two columns of numbers by a correlation of 0.999.
    """
    words = _words(outcome.name)
    if words and words <= _words(column.name):
        return f"its name has that of {outcome.name!r} in it"
    both = table.written[[column.name, outcome.name]]
    both = both[~(missing_rows(both.iloc[:, 0]) | missing_rows(both.iloc[:, 1]))]
    if len(both) < _LEAST_ROWS:
        return ""
    x, y = _numbers_in(both.iloc[:, 0]), _numbers_in(both.iloc[:, 1])
    if outcome.kind == "labels":
        share = _predicted(column, both.iloc[:, 0], x, pd.factorize(both.iloc[:, 1])[0])
        return f"it tells {outcome.name!r} in {100.0 * share:.1f}% of rows" if share else ""
    if x.isna().any() or y.isna().any() or x.nunique() < 2 or y.nunique() < 2:
        return ""
    alike = abs(x.corr(y)) >= _CORRELATED
    return f"it is {outcome.name!r} in other units, or nearly so" if alike else ""


def _predicted(
    column: ColumnProfile, texts: pd.Series[Any], numbers: pd.Series[float], labels: IntArray
) -> float:
    """The share of rows whose label a column predicts; 0 where that is too little."""
    from sklearn.tree import DecisionTreeClassifier

    frequent = np.bincount(labels).max() / len(labels)
    if column.kind == "labels" or texts.nunique() * _ROWS_EACH <= len(texts):
        share = pd.crosstab(texts, labels).max(axis=1).sum() / len(labels)
    elif numbers.isna().any():
        return 0.0
    else:
        tree = DecisionTreeClassifier(max_leaf_nodes=int(labels.max()) + 1, random_state=0)
        values = numbers.to_numpy()[:, None]
        share = tree.fit(values, labels).score(values, labels)
    enough = share >= _PREDICTED and 1.0 - share <= _ERRORS * (1.0 - frequent)
    return float(share) if enough else 0.0


def _words(name: str) -> set[str]:
    """The words of a column's name, in lower case."""
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return {word for word in re.split(r"[\W_]+", parted.casefold()) if word}


# The study.


@dataclass(frozen=True)
class Scaffold:
    """The parts of a study that follow from a table.

    Attributes:
        table: its profile.
        columns: the contexts.
        learnt: the columns of the outcome; empty where it is still unknown.
        rewards: whether these are one column of rewards for each arm.
        log: the columns of logged decisions, if the table is a log.
        follows: why columns left out seem to follow from the outcome, by name.
    """

    table: TableProfile
    columns: tuple[ColumnProfile, ...]
    learnt: tuple[ColumnProfile, ...] = ()
    rewards: bool = False
    log: LogColumns | None = None
    follows: Mapping[str, str] = field(default_factory=dict)

    @property
    def outcome(self) -> dict[str, object]:
        """The entries of the outcome in the study file, by their keys."""
        if self.log is not None:
            bounds = {"lower": 0, "upper": 1} if self.log.binary else _BOUNDS
            return {
                "action": {"column": self.log.action.name, "names": list(self.log.names)},
                "reward": {"column": self.log.reward.name, **bounds},
                "propensity": {"column": self.log.propensity.name},
            }
        missing = {"missing": "drop"} if any(each.missing for each in self.learnt) else {}
        if self.rewards:
            names = [each.name for each in self.learnt]
            return {"rewards": {"columns": names, **_BOUNDS, "outside": "clip", **missing}}
        if not self.learnt:
            return {"label": UNSTATED}
        (label,) = self.learnt
        kind = "classes" if label.labels else "thresholds"
        values = list(label.labels) or UNSTATED
        return {"label": {"column": label.name, kind: values, **missing}}

    @property
    def unstated(self) -> int:
        """The number of entries that are still to be stated."""
        entries = [*map(declared, self.columns), self.outcome, *self.outcome.values()]
        return sum(isinstance(each, Mapping) and UNSTATED in each.values() for each in entries)

    @property
    def left_out(self) -> tuple[ColumnProfile, ...]:
        """The columns of the table that the study does not use."""
        names = {each.name for each in (*self.columns, *self.learnt)}
        return tuple(each for each in self.table.columns if each.name not in names)

    @property
    def lost(self) -> int:
        """The least number of rows that the study leaves out."""
        return max([0, *(each.missing for each in self.learnt)])

    def text(self, file: Path) -> str:
        """The study file, to be written to `file`."""
        return "\n".join(_lines(self, file)) + "\n"


def scaffold(
    table: TableProfile, label: str | None = None, rewards: Sequence[str] = ()
) -> Scaffold:
    """The scaffold of a study on a table.

    Every usable column is a context, except those missing in most rows and those that seem to
    follow from the outcome.

    Args:
        table: its profile.
        label: the column to predict.
        rewards: or one column of rewards for each arm. Without either, a table with an action, a
            reward and a propensity is a log.

    Raises:
        InvalidInput: for columns that do not exist or do not fit.
    """
    if label is not None and rewards:
        raise InvalidInput(
            f"the label {label!r} and the rewards {', '.join(rewards)} were given; a study has one "
            "or the other: a column to predict, or a column of rewards for each arm."
        )
    refusals, learnt = ErrorCollector(), list[ColumnProfile]()
    for name in rewards if label is None else (label,):
        with refusals.collected():
            learnt.append(_outcome_column(table, name, bool(rewards)))
    refusals.raise_if_any()
    if rewards:
        RewardColumns(tuple(rewards), 0.0, 1.0)
    log = None if learnt else log_columns(table)
    about = learnt
    if log is not None:
        learnt, about = [log.action, log.reward, log.propensity], [log.reward]
    names = {each.name for each in learnt}
    able = [
        each
        for each in table.named.values()
        if each.kind != "left out" and each.name not in names and not table.mostly_lacks(each)
    ]
    pairs = ((each, outcome) for each in able for outcome in about)
    follows = {each.name: why for each, out in pairs if (why := follows_from(table, each, out))}
    columns = tuple(each for each in able if each.name not in follows)
    if not columns:
        spare = [each for each in table.columns if each.name not in names][:_NAMED]
        reasons = dict.fromkeys(_reason(table, each, follows.get(each.name)) for each in spare)
        raise InvalidInput(
            f"no column of {str(table.path)!r} is left that a learner could know of a person. "
            f"{'; '.join(reasons) or 'The table has no other column'}. Give a table with numbers "
            "or labels."
        )
    return Scaffold(table, columns, tuple(learnt), bool(rewards), log, follows)


def _outcome_column(table: TableProfile, name: str, reward: bool) -> ColumnProfile:
    """The label or a reward; `InvalidInput` for a column that cannot be one."""
    if name not in table.named:
        raise InvalidInput(
            f"column {name!r} is not in the table, which has: {', '.join(table.named)}. Name one "
            f"of these.{nearest(name, table.named)}"
        )
    column = table.named[name]
    if reward and (
        column.kind == "left out" or (column.kind == "labels" and column.labels != (0, 1))
    ):
        raise InvalidInput(
            f"the reward column {name!r} holds {column.holds}; rewards are numbers, so name "
            "columns of numbers."
        )
    if column.kind == "left out":
        raise InvalidInput(
            f"the label {name!r} holds {column.holds}, which cannot be predicted; choose a column "
            "of labels or numbers."
        )
    return column


def _reason(table: TableProfile, column: ColumnProfile, follows: str | None) -> str:
    """Why a column is no context."""
    return (
        f"{column.name or 'unnamed'}: {column.holds}"
        + (f" ({column.advice})" if column.advice and column.kind == "left out" else "")
        + (", and most rows lack it" if table.mostly_lacks(column) else "")
        + (f", and {follows}" if follows else "")
    )


def declared(column: ColumnProfile) -> dict[str, object]:
    """The entry of a context column in the study file."""
    fields: dict[str, object] = {"name": column.name}
    if column.kind == "labels":
        fields["values"] = list(column.labels)
    else:
        levels = {"levels": UNSTATED} if column.kind == "levels" else {}
        fields |= {**_BOUNDS, **levels, "outside": "clip"}
    indicators = [int(each) if each.is_integer() else each for each in column.indicators]
    fields |= {"missing": UNKNOWN} if column.missing else {}
    return fields | ({"indicators": indicators} if indicators else {})


# The file.


def _lines(study: Scaffold, file: Path) -> Iterator[str]:
    table = study.table
    try:
        path = Path(os.path.relpath(table.path, file.parent)).as_posix()
    except ValueError:  # on another drive
        path = table.path.resolve().as_posix()
    yield f"# discreet init: drafted from {toml_text(table.path.name)}"
    yield "#"
    yield from _comment(
        f'State what is "{UNSTATED}" and read the comments; then: discreet check {file.name}'
    )
    yield from _comment(
        "Counts, labels and indicators in this file come from the table. Remove confidential ones "
        "before you share the file."
    )
    yield from (
        "",
        f"name = {toml_text(file.stem or 'study')}",
        f"title = {toml_text(f'What each epsilon costs on {table.path.name}')}",
        "replicates = 4   # repetitions with people in another order",
        "seed = 1         # the same seed gives the same result",
        "",
        "[problem]",
        f'name = "{"table" if study.log is None else "log"}"',
        f"path = {toml_text(path)}   # {table.rows:,} rows",
        "",
    )
    yield from _outcome(study)
    yield ""
    yield from _columns(study)
    yield from (
        "",
        "[[learners]]   # without a name: the default learner for such a table",
        f"epsilon = {toml_text(EPSILONS)}   # one line of the result each; smaller protects more",
        "non_private = true    # and one without privacy, for comparison",
        "",
        "[[learners]]",
        'name = "uniform"   # chooses at random',
    )
    ids = [each.name for each in study.left_out if each.names_people]
    if ids:
        yield ""
        yield from _comment("If people have several rows, name the column that identifies them:")
        yield from ("# [people]", f"# id = {toml_text(ids[0])}")
    yield from _serve(study)


def _outcome(study: Scaffold) -> Iterator[str]:
    if study.log is not None:
        text = (
            "The table seems to log decisions: an action, its reward and its propensity. If it "
            "does not, name the column to predict: discreet init --label."
        )
    elif study.rewards:
        text = (
            f"The reward of each arm, and bounds from {_PUBLIC}. Noise is as wide as they are: "
            "they may cut off rewards that hardly anyone has; those are clipped."
        )
    elif not study.learnt:
        able = ", ".join(toml_text(each.name) for each in study.columns if each.labels)
        text = (
            "The outcome: a label to predict (its labels are the arms; a correct prediction earns "
            "1), or a reward column for each arm. State one of the three forms below"
            f"{f'; columns of labels: {able}' if able else ''}. Remove its columns from columns."
        )
    elif study.learnt[0].labels:
        text = (
            "The label to predict. Its classes are the arms; a correct prediction earns 1. Keep "
            "the classes that can occur, in a meaningful order."
        )
    else:
        text = (
            f"{toml_text(study.learnt[0].name)} holds numbers: state public thresholds that cut "
            "them into brackets, such as [10, 20]; the brackets are the arms."
        )
    yield from _comment(text)
    yield from _facts(*(study.learnt if study.log is None else (study.log.reward,)))
    for key, entry in study.outcome.items():
        yield f"{key} = {toml_text(entry)}"
    if not study.learnt:
        yield '# label = { column = "outcome", classes = ["no", "yes"] }'
        yield '# label = { column = "hours", thresholds = [10, 20] }   # brackets of a number'
        yield '# rewards = { columns = ["reward_a", "reward_b"], lower = 0, upper = 1 }'


def _columns(study: Scaffold) -> Iterator[str]:
    yield from _comment(
        "The context of a person, known before the decision. Bounds are public and hold for "
        "everyone; the lowest and highest value of the table would reveal two people's values. "
        f"Take them from {_PUBLIC}. Wide bounds cost little; values beyond them are clipped "
        '(outside = "clip").'
    )
    if any(each.missing for each in study.columns):
        yield from _comment(
            'missing = "unknown" adds a label "unknown"; for numbers it takes the middle of the '
            "bounds and adds an indicator column."
        )
    if any(each.indicators for each in study.columns):
        yield from _comment(
            "indicators = [0] adds a column that marks 0, where rewards may differ. Proposed where "
            "many rows have the lowest or highest number; keep it if that is public, such as the "
            "cap of a form, and no code of missing values."
        )
    if any(each.kind == "labels" for each in study.columns):
        yield from _comment(
            "Labels are listed as they occur, rare ones included: keep those that a form offers, "
            "in a meaningful order. A person with another label is an error, or is left out with "
            'outside = "drop".'
        )
    yield "columns = ["
    for column in study.columns:
        yield from _facts(column, indent="  ")
        if column.kind == "levels":
            yield "  # levels = upper - lower + 1, as values are whole numbers"
        yield f"  {toml_text(declared(column))},"
    yield "]"
    if study.left_out:
        yield "# Left out:"
    for column in study.left_out:
        used = "not used" if column.kind != "left out" else column.advice
        if study.table.mostly_lacks(column):
            used = f"{column.missing:,} rows have none"
        if column.name in study.follows:
            why = study.follows[column.name]
            used = f"{why}; put it back if it is known before the choice"
        advice = f" ({used[0].lower()}{used[1:].removesuffix('.')})" if used else ""
        yield from _comment(f"  {toml_text(column.name)}: {column.holds}{advice}")


def _facts(*columns: ColumnProfile, indent: str = "") -> Iterator[str]:
    """Comments about the values of columns."""
    for column in columns:
        facts = [column.holds]
        facts += [f"{column.rare} of them in fewer than {RARE} rows"] if column.rare else []
        facts += [f"{_rows(column.missing)} none"] if column.missing else []
        facts += [column.advice] if column.advice else []
        name = f"{toml_text(column.name)}: " if len(columns) > 1 else ""
        yield from _comment(f"{name}{'; '.join(facts)}", indent)


def _serve(study: Scaffold) -> Iterator[str]:
    """The table that `discreet serve` reads, as comments."""
    arm = "the name of an arm"
    if study.log is not None:
        arm = study.log.names[0]
    elif study.rewards:
        arm = study.learnt[0].name
    elif study.learnt and study.learnt[0].labels:
        arm = label_text(study.learnt[0].labels[0])
    lines = {
        f"epsilon = {EPSILONS[len(EPSILONS) // 2]}": "one of those above",
        f"people = {study.table.rows}": "the number expected",
        f"default_arm = {toml_text(arm)}": "used while the service cannot be reached",
        "expires_days = 30": "joint privacy: decisions without a reward expire after these",
        "retention_days = 0": "joint privacy: observations are kept this long after release",
    }
    yield ""
    yield from _comment("To serve people instead of a table, uncomment and run discreet serve.")
    yield "# [serve]"
    width = max(map(len, lines))
    for line, comment in lines.items():
        yield f"# {line:<{width}}   # {comment}"


def _comment(text: str, indent: str = "") -> list[str]:
    start = f"{indent}# "
    hanging = start + " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(
        text, _WIDTH, initial_indent=start, subsequent_indent=hanging, break_on_hyphens=False
    )


def _rows(count: int) -> str:
    return f"{count:,} row{' has' if count == 1 else 's have'}"
