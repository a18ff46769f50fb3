"""Real tables as bandits: every person arrives once, in a random order.

Mean rewards are unknown, so the metric is the reward received. In a `ClassificationProblem` the
arms are classes and the reward is 1 for naming the person's own class; a `TableBandit` has one
column of rewards for each arm.

| array    | shape  | meaning                                        |
|----------|--------|------------------------------------------------|
| contexts | (n, d) | one row a person, in the units of the domain   |
| labels   | (n,)   | the person's class, 0..K-1                     |
| rewards  | (n, K) | the reward that each arm would give the person |
"""

from __future__ import annotations

import http.client
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from discreet.domain import Box, RewardBounds
from discreet.problems.base import Metric, People, Problem
from discreet.problems.tables import (
    Column,
    Encoded,
    MissingRule,
    OutsideRule,
    box_of,
    check_any_kept,
    check_labels,
    check_rule,
    column_of,
    encode_columns,
    numbers_of,
    read_csv,
)
from discreet.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    InvalidInput,
    finite_matrix,
    finite_number,
    whole_vector,
)


class TableProblem(Problem):
    """A finite table of people, drawn without replacement; the metric is the reward received.

    Args:
        contexts: (n, d) in the units of `domain`.
        domain: the public bounds of a context.
        arm_names: K names, K at least 2.
        reward_bounds: the public bounds of a reward.
        source: one sentence for reports.

    Raises:
        InvalidInput: for contexts outside the domain, fewer than two arms or repeated names.
    """

    size: int

    def __init__(
        self,
        contexts: ArrayLike,
        domain: Box,
        arm_names: Sequence[str],
        reward_bounds: RewardBounds,
        source: str,
    ) -> None:
        check_labels(arm_names, "the arm names")
        domain.to_unit(contexts)
        self._contexts = finite_matrix(contexts, "contexts", domain.dimension).copy()
        self.domain = domain
        self.arm_names = tuple(arm_names)
        self.reward_bounds = reward_bounds
        self.size = len(self._contexts)
        self.source = source

    @property
    def metric(self) -> Metric:
        return "reward"

    @property
    def contexts(self) -> FloatArray:
        """The contexts (n, d) of the whole table, in the table's order."""
        return self._contexts.copy()

    @abstractmethod
    def rewards_of(self, rows: IntArray) -> FloatArray:
        """The rewards (len(rows), K) of the people in these rows of the table."""

    def sample(self, people: int, rng: np.random.Generator) -> People:
        self.check_size(people)
        rows = rng.permutation(self.size)[:people]
        return People(self._contexts[rows], self.rewards_of(rows))


class ClassificationProblem(TableProblem):
    """Arms are classes; the reward is 1 where the arm is the person's class, otherwise 0.

    Args:
        contexts: (n, d) in the units of `domain`.
        labels: (n,) classes 0..K-1.
        domain: the public bounds of a context.
        arm_names: the K class names.
        source: one sentence for reports.
    """

    def __init__(
        self,
        contexts: ArrayLike,
        labels: ArrayLike,
        domain: Box,
        arm_names: Sequence[str],
        source: str,
    ) -> None:
        super().__init__(contexts, domain, arm_names, RewardBounds(0.0, 1.0), source)
        self._labels = whole_vector(labels, "labels", 0, self.arms - 1, self.size)

    @property
    def labels(self) -> IntArray:
        """The classes (n,) of the whole table, in the table's order."""
        return self._labels.copy()

    def rewards_of(self, rows: IntArray) -> FloatArray:
        one_hot: FloatArray = np.eye(self.arms)[self._labels[rows]]
        return one_hot

    def part(self, rows: BoolArray) -> ClassificationProblem:
        """The people in some rows alone, rows (n,); `InvalidInput` where nobody is left."""
        if rows.shape != (self.size,) or not rows.any():
            raise InvalidInput(
                f"rows had shape {rows.shape} and {int(rows.sum())} people; give one truth value "
                f"for each of the {self.size} people, true for at least one."
            )
        return ClassificationProblem(
            self._contexts[rows], self._labels[rows], self.domain, self.arm_names, self.source
        )


class TableBandit(TableProblem):
    """A table that holds the reward of every arm for every person.

    Args:
        contexts: (n, d) in the units of `domain`.
        rewards: (n, K) within `reward_bounds`.
        domain: the public bounds of a context.
        arm_names: K names.
        reward_bounds: the public bounds of a reward.
        source: one sentence for reports.
    """

    def __init__(
        self,
        contexts: ArrayLike,
        rewards: ArrayLike,
        domain: Box,
        arm_names: Sequence[str],
        reward_bounds: RewardBounds,
        source: str,
    ) -> None:
        super().__init__(contexts, domain, arm_names, reward_bounds, source)
        self._rewards = finite_matrix(rewards, "rewards", self.arms).copy()
        if len(self._rewards) != self.size:
            raise InvalidInput(
                f"rewards had {len(self._rewards)} rows and contexts {self.size}; give one row of "
                "each for every person."
            )
        for column in self._rewards.T:
            reward_bounds.to_unit(column, self.size)

    def rewards_of(self, rows: IntArray) -> FloatArray:
        chosen: FloatArray = self._rewards[rows]
        return chosen


@dataclass(frozen=True)
class ClassLabels:
    """Classes from a column of labels; `classes` in their order are the arms."""

    column: str
    classes: tuple[str, ...]
    outside: OutsideRule = "error"
    missing: MissingRule = "error"

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", tuple(self.classes))
        self._as_column()

    @property
    def names(self) -> tuple[str, ...]:
        """The K class names."""
        return self.classes

    def _as_column(self) -> Column:
        return Column.category(self.column, self.classes, self.outside, self.missing)

    def encode(self, frame: pd.DataFrame) -> Encoded:
        """The classes (n, 1) of all rows, NaN in rows left out."""
        return encode_columns(frame, [self._as_column()])


@dataclass(frozen=True)
class BracketLabels:
    """Classes from a numeric column cut at public thresholds t_1 < ... < t_m.

    Class 0 is below t_1, class k is t_k <= value < t_(k+1), and class m is t_m or more.
    """

    column: str
    thresholds: tuple[float, ...]
    missing: MissingRule = "error"

    def __post_init__(self) -> None:
        numbers = tuple(finite_number(t, "a threshold") for t in self.thresholds)
        if not numbers or any(a >= b for a, b in pairwise(numbers)):
            raise InvalidInput(
                f"thresholds were {list(self.thresholds)}; give at least one, in increasing "
                "order, each once."
            )
        check_rule(self.missing, f"missing of column {self.column!r}", ("error", "drop"))
        object.__setattr__(self, "thresholds", numbers)

    @property
    def names(self) -> tuple[str, ...]:
        """The K bracket names, for example `under 13`, `13 to 20`, `20 or more`."""
        cuts = [_plain(t) for t in self.thresholds]
        between = [f"{a} to {b}" for a, b in pairwise(cuts)]
        return (f"under {cuts[0]}", *between, f"{cuts[-1]} or more")

    def encode(self, frame: pd.DataFrame) -> Encoded:
        """The classes (n, 1) of all rows, NaN in rows left out."""
        values = numbers_of(column_of(frame, self.column), self.missing)
        kept = ~np.isnan(values)
        codes = np.where(kept, np.digitize(values, self.thresholds), np.nan)
        return Encoded(codes[:, None], kept)


def _plain(number: float) -> str:
    return str(int(number)) if number.is_integer() else repr(number)


def classification_from_table(
    frame: pd.DataFrame,
    columns: Sequence[Column],
    label: ClassLabels | BracketLabels,
    source: str,
) -> ClassificationProblem:
    """A classification problem from the rows which both the columns and the label keep.

    Raises:
        InvalidInput: for a column that is not in the table or whose values its rules refuse.
    """
    domain = box_of(columns)
    contexts, classes = encode_columns(frame, columns), label.encode(frame)
    kept = contexts.kept & classes.kept
    check_any_kept(kept)
    labels = classes.values[kept, 0].astype(np.int64)
    return ClassificationProblem(contexts.values[kept], labels, domain, label.names, source)


def bandit_from_table(
    frame: pd.DataFrame,
    columns: Sequence[Column],
    reward_columns: Sequence[str],
    reward_bounds: RewardBounds,
    source: str,
    outside: OutsideRule = "error",
    missing: MissingRule = "error",
) -> TableBandit:
    """A bandit whose arms are the reward columns of a table.

    Raises:
        InvalidInput: for a column that is not in the table or whose values its rules refuse.
    """
    check_labels(reward_columns, "the reward columns")
    domain = box_of(columns)
    low, high = reward_bounds.lower, reward_bounds.upper
    arms = [Column(name, low, high, outside=outside, missing=missing) for name in reward_columns]
    contexts, rewards = encode_columns(frame, columns), encode_columns(frame, arms)
    kept = contexts.kept & rewards.kept
    check_any_kept(kept)
    return TableBandit(
        contexts.values[kept], rewards.values[kept], domain, reward_columns, reward_bounds, source
    )


def in_sample_oracle(problem: TableProblem) -> float:
    """The highest cumulative reward over the whole table of a policy that sees contexts only.

    sum over distinct contexts x of max_k sum_{i: x_i = x} rewards[i, k]: for every distinct
    context the best arm in hindsight (for classes the most frequent one). No learner reaches it,
    because it is fitted to the people it is scored on.
    """
    _, group = np.unique(problem.contexts, axis=0, return_inverse=True)
    rewards = problem.rewards_of(np.arange(problem.size))
    totals = [np.bincount(group.reshape(-1), weights=rewards[:, k]) for k in range(problem.arms)]
    return float(np.max(totals, axis=0).sum())


# The columns used of adult.data and their positions, from adult.names.
_ADULT_FIELDS = {"age": 0, "education-num": 4, "hours-per-week": 12, "class": 14}


def read_adult(folder: Path) -> tuple[pd.DataFrame, str]:
    """UCI ADULT from the original files in `folder` or `folder`/adult, and which files they were.

    `adult.test` is added where it lies beside `adult.data`; both may be gzipped.

    Raises:
        InvalidInput: when adult.data is in neither folder or cannot be read.
    """
    files = adult_files(folder)
    frame = pd.concat([_read_adult_file(file) for file in files], ignore_index=True)
    return frame, ", ".join(str(file) for file in files)


def adult_files(folder: Path) -> list[Path]:
    """The files of UCI ADULT in `folder`; `InvalidInput` when adult.data is not there."""
    places = [folder / "adult", folder]
    for place in places:
        data, test = (_first_file(place, stem) for stem in ("adult.data", "adult.test"))
        if data is not None:
            return [data] if test is None else [data, test]
    raise InvalidInput(
        f"problem 'adult' found no adult.data or adult.data.gz in {places[0]} or {places[1]}; put "
        "the UCI file there, or leave --data out to download the table from openml.org."
    )


def _first_file(folder: Path, stem: str) -> Path | None:
    candidates = (folder / stem, folder / f"{stem}.gz")
    return next((file for file in candidates if file.is_file()), None)


def _read_adult_file(file: Path) -> pd.DataFrame:
    names, positions = list(_ADULT_FIELDS), list(_ADULT_FIELDS.values())
    # adult.test opens with the line "|1x3 Cross validator" and ends its labels in a dot.
    frame = read_csv(file, header=None, names=names, usecols=positions, comment="|")
    frame["class"] = [str(label).strip().removesuffix(".") for label in frame["class"]]
    return frame


def download_adult() -> tuple[pd.DataFrame, str]:
    """UCI ADULT from openml.org through scikit-learn; `InvalidInput` when it cannot be had."""
    from sklearn.datasets import fetch_openml

    try:
        frame: pd.DataFrame = fetch_openml("adult", version=2, as_frame=True).frame
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise InvalidInput(
            f"problem 'adult' could not be downloaded from openml.org ({error}); pass --data DIR "
            "with adult.data (from the UCI repository) in DIR or DIR/adult."
        ) from error
    return frame, "openml.org (adult, version 2)"
