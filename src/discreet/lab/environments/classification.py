"""Real tables as bandits: every person arrives once, in a random order.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pydantic import ConfigDict

from discreet.lab.environments.base import Metric, People, Problem
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
    person_numbers,
)
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    Refusals,
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
        rows: how many rows of the table these people are.
        points: where the arms are, if they are points.
        ids: (n,) whose rows they are, where people come more than once: 0 for one person, 1 for
            another and so on.

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

    @property
    def visits(self) -> IntArray | None:
        return None if self.ids is None else np.unique(self.ids, return_counts=True)[1]


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


@dataclass(frozen=True)
class ClassLabels:
    """Classes from one column: its labels, or the brackets between public thresholds.

    Attributes:
        column: the column's name in the table.
        classes: the labels, which in their order are the arms.
        outside: what happens to a label that is not one of them.
        missing: what happens where there is no value.
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
        rules = self.outside, self.missing
        if self.classes is not None:
            return (Column.category(self.column, self.classes, *rules),)
        return (
            Column(self.column, outside=rules[0], missing=rules[1], thresholds=self.thresholds),
        )


@dataclass(frozen=True)
class RewardColumns:
    """One column of rewards for each arm, all within the same public bounds and by the same rules.

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
    """A classification problem from the rows which both the columns and the label keep; `person`
    is the column that says whose row it is, where people come more than once; a radius says that
    no row is longer; `starts` is for messages, as in `encode_columns`.

    Raises:
        InvalidInput: for a column that is not in the table or whose values its rules refuse.
    """
    (outcome,) = label.declared()
    contexts, classes, rows, ids = encoded_rows(frame, columns, [outcome], "label", person, starts)
    labels, domain = classes[:, 0].astype(np.int64), Box.of(columns, radius)
    problem = ClassificationProblem(contexts, labels, domain, outcome.values, source, rows, ids)
    nobody = np.bincount(labels, minlength=problem.arms) == 0
    never = [repr(name) for name, empty in zip(outcome.values, nobody, strict=True) if empty]
    choice = f"Nobody in the table has the {label.column} {' or '.join(never)}"
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
    """A bandit whose arms are the reward columns of a table; `person`, `radius` and `starts` as
    above.

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


def encoded_rows(
    frame: pd.DataFrame,
    columns: Sequence[Column],
    outcomes: Sequence[Column],
    kind: str,
    person: str | None,
    starts: Mapping[str, str] | None = None,
) -> tuple[FloatArray, FloatArray, RowCounts, IntArray | None]:
    """The contexts and outcomes of the rows that all columns keep, how many rows those are, and
    whose, where a column says so."""
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
    refusals, everybody = Refusals(), None
    with refusals.collected():
        values, rows = encode_columns(frame, [*columns, *outcomes], starts=starts)
        rows.check_any()
    if person is not None:
        with refusals.collected(begin.get(person, "")):
            everybody = person_numbers(column_of(frame, person))
    refusals.raise_if_any()
    some = kept_rows(values)
    ids = None
    if everybody is not None:
        ids = everybody[some]
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
