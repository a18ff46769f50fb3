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

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pydantic import ConfigDict

from discreet.action_space import ArmPoints
from discreet.domain import Box, RewardBounds
from discreet.problems.base import Metric, People, Problem
from discreet.problems.columns import (
    Column,
    Labels,
    MissingRule,
    Number,
    OutsideRule,
    box_of,
    label_text,
    label_texts,
)
from discreet.problems.tables import Encoded, RowCounts, column_of, encode_columns, numbers_of
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    Refusals,
    equally_long,
    finite_matrix,
    finite_number,
    one_of,
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
    ) -> None:
        self.arm_names = label_texts(arm_names, "the arm names")
        domain.to_unit(contexts)
        self._contexts = finite_matrix(contexts, "contexts", domain.dimension).copy()
        self._rewards = finite_matrix(rewards, "rewards", self.arms).copy()
        equally_long("rewards", self._rewards, "contexts", self._contexts)
        for column in self._rewards.T:
            reward_bounds.to_unit(column, len(column))
        self.domain = domain
        self.reward_bounds = reward_bounds
        self.size = len(self._contexts)
        self.source = source
        self.rows = rows
        self._points = points

    @property
    def metric(self) -> Metric:
        return "reward"

    @property
    def space(self) -> int | ArmPoints:
        return self.arms if self._points is None else self._points

    @property
    def contexts(self) -> FloatArray:
        """The contexts (n, d) of the whole table, in the table's order."""
        return self._contexts.copy()

    @property
    def rewards(self) -> FloatArray:
        """The rewards (n, K) of the whole table, in the table's order."""
        return self._rewards.copy()

    def sample(self, people: int, rng: np.random.Generator) -> People:
        self.check_size(people)
        rows = rng.permutation(self.size)[:people]
        return People(self._contexts[rows], self._rewards[rows])


class ClassificationProblem(TableProblem):
    """Arms are classes; the reward is 1 where the arm is the person's class, otherwise 0.

    Args:
        contexts: (n, d) in the units of `domain`.
        labels: (n,) classes 0..K-1.
        domain: the public bounds of a context.
        arm_names: the K class names.
        source: one sentence for reports.
        rows: how many rows of the table these people are.
    """

    def __init__(
        self,
        contexts: ArrayLike,
        labels: ArrayLike,
        domain: Box,
        arm_names: Sequence[str],
        source: str,
        rows: RowCounts | None = None,
    ) -> None:
        classes = len(arm_names)
        self._labels = whole_vector(labels, "labels", 0, classes - 1, np.shape(contexts)[0])
        rewards = np.eye(classes)[self._labels]
        super().__init__(contexts, rewards, domain, arm_names, RewardBounds(), source, rows)

    @property
    def labels(self) -> IntArray:
        """The classes (n,) of the whole table, in the table's order."""
        return self._labels.copy()


@dataclass(frozen=True)
class ClassLabels:
    """Classes from one column: its labels, or numbers cut at public thresholds t_1 < ... < t_m.

    Class 0 is below t_1, class k is t_k <= value < t_(k+1), and class m is t_m or more.

    Attributes:
        column: the column's name in the table.
        classes: the labels, which in their order are the arms.
        outside: what happens to a label that is not one of them.
        missing: what happens where there is no value.
        thresholds: in place of `classes`.
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
        one_of(self.missing, f"missing of column {self.column!r}", ("error", "drop"))
        if self.classes is not None:
            classes = label_texts(self.classes, f"the classes of the label {self.column!r}")
            object.__setattr__(self, "classes", classes)
            self._as_column()
            return
        if self.outside != "error":
            raise InvalidInput(
                f"the label {self.column!r} has thresholds and outside = {self.outside!r}; every "
                "number falls into a bracket, so leave outside out."
            )
        cuts = tuple(finite_number(t, "a threshold") for t in self.thresholds or ())
        if not cuts or any(a >= b for a, b in pairwise(cuts)):
            raise InvalidInput(
                f"thresholds were {list(cuts)}; give at least one, in increasing order, each once."
            )
        object.__setattr__(self, "thresholds", cuts)

    @property
    def names(self) -> tuple[str, ...]:
        """The K class names; of brackets for example `under 13`, `13 to 20`, `20 or more`."""
        if self.thresholds is None:
            return self._as_column().values
        cuts = [label_text(t) for t in self.thresholds]
        between = [f"{a} to {b}" for a, b in pairwise(cuts)]
        return (f"under {cuts[0]}", *between, f"{cuts[-1]} or more")

    def _as_column(self) -> Column:
        return Column.category(self.column, self.classes or (), self.outside, self.missing)

    def encode(self, frame: pd.DataFrame) -> Encoded:
        """The classes (n, 1) of all rows, NaN in rows left out."""
        if self.thresholds is None:
            return encode_columns(frame, [self._as_column()])
        values = numbers_of(column_of(frame, self.column), self.missing)
        kept = ~np.isnan(values)
        codes = np.where(kept, np.digitize(values, self.thresholds), np.nan)
        return Encoded(codes[:, None], kept, ((self.column, int((~kept).sum())),))


@dataclass(frozen=True)
class RewardColumns:
    """One column of rewards for each arm, all within the same public bounds and by the same rules.

    Attributes:
        columns: the names of the columns, which are the arms.
        lower, upper: the bounds of a reward.
        outside, missing: as in `Column`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    columns: tuple[str, ...]
    lower: Number
    upper: Number
    outside: OutsideRule = "error"
    missing: MissingRule = "error"

    def __post_init__(self) -> None:
        names = label_texts(self.columns, "the reward columns")
        object.__setattr__(self, "columns", names)
        RewardBounds(self.lower, self.upper)

    @property
    def bounds(self) -> RewardBounds:
        """The public bounds of a reward."""
        return RewardBounds(self.lower, self.upper)

    def encode(self, frame: pd.DataFrame) -> Encoded:
        """The rewards (n, K) of all rows, NaN in rows left out."""
        arms = [
            Column(name, self.lower, self.upper, outside=self.outside, missing=self.missing)
            for name in self.columns
        ]
        return encode_columns(frame, arms)


def classification_from_table(
    frame: pd.DataFrame, columns: Sequence[Column], label: ClassLabels, source: str
) -> ClassificationProblem:
    """A classification problem from the rows which both the columns and the label keep.

    Raises:
        InvalidInput: for a column that is not in the table or whose values its rules refuse.
    """
    contexts, classes, rows = _encoded(frame, columns, label, [label.column], "label")
    labels = classes[:, 0].astype(np.int64)
    problem = ClassificationProblem(contexts, labels, box_of(columns), label.names, source, rows)
    problem.warnings = (*_never(problem, label.column), *_giveaways(problem, label.column))
    return problem


def bandit_from_table(
    frame: pd.DataFrame, columns: Sequence[Column], rewards: RewardColumns, source: str
) -> TableProblem:
    """A bandit whose arms are the reward columns of a table.

    Raises:
        InvalidInput: for a column that is not in the table or whose values its rules refuse.
    """
    outcomes = rewards.columns
    contexts, paid, rows = _encoded(frame, columns, rewards, outcomes, "reward of an arm")
    domain = box_of(columns)
    return TableProblem(contexts, paid, domain, outcomes, rewards.bounds, source, rows)


def _encoded(
    frame: pd.DataFrame,
    columns: Sequence[Column],
    outcome: ClassLabels | RewardColumns,
    names: Sequence[str],
    kind: str,
) -> tuple[FloatArray, FloatArray, RowCounts]:
    """The contexts and outcomes of the rows that both keep, and how many rows those are."""
    box_of(columns)
    both = [column.name for column in columns if column.name in names]
    if both:
        raise InvalidInput(
            f"column {both[0]!r} is both a context column and the {kind}: a learner would see the "
            "outcome before it chooses, and the result would mean nothing. Take it out of columns."
        )
    refusals, parts = Refusals(), []
    with refusals.collected():
        parts.append(encode_columns(frame, columns))
    with refusals.collected():
        parts.append(outcome.encode(frame))
    refusals.raise_if_any()
    contexts, outcomes = parts
    kept = contexts.kept & outcomes.kept
    return contexts.values[kept], outcomes.values[kept], RowCounts.of(parts)


def _never(problem: ClassificationProblem, label: str) -> tuple[str, ...]:
    """A warning where nobody has some of the classes."""
    counts = np.bincount(problem.labels, minlength=problem.arms)
    never = [repr(name) for name, count in zip(problem.arm_names, counts, strict=True) if not count]
    if not never:
        return ()
    return (f"Nobody in the table has the {label} {' or '.join(never)}: that choice never pays.",)


def _giveaways(problem: ClassificationProblem, label: str) -> tuple[str, ...]:
    """Warnings for context columns that the label follows from, such as its code or its source.

    A column gives the label away where everyone with the same value has the same label, and
    either values repeat so often that this is no accident, or the labels change no more often
    along the column than there are classes.
    """
    labels, found = problem.labels, []
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
            found.append(
                f"The {label} follows from column {name!r} without an exception: is that known "
                "before the choice? If not, take it out of columns; the result would mean nothing."
            )
    return tuple(found)
