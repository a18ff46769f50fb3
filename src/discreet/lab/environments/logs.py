"""Logged decisions: contexts, actions, rewards and propensities.

| field          | shape  | meaning                                                              |
|----------------|--------|----------------------------------------------------------------------|
| contexts       | (n, d) | one row a decision, in the units of the domain                       |
| actions        | (n,)   | the arm that was taken, A_i, 0 .. K - 1                              |
| rewards        | (n,)   | its reward, r_i                                                      |
| propensities   | (n,)   | the probability with which it was taken, p_i; None where not known   |
| ids            | (n,)   | the person, where people come more than once, numbered in the order  |
|                |        | in which they come                                                   |

A log is private data: no epsilon covers results computed from it.

| declared   | in a study file                                                                   |
|------------|-----------------------------------------------------------------------------------|
| action     | `{ column = "offer", names = ["none", "call"] }`, which are the arms              |
| reward     | `{ column = "paid", lower = 0, upper = 5 }`, with public bounds                   |
| propensity | `{ column = "p" }`, `{ value = 0.25 }` or `{ estimated = true }`                  |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ConfigDict

from discreet.lab.environments.catalog import checked_frame
from discreet.lab.environments.tables import encoded_rows
from discreet.people.columns import (
    Column,
    Declared,
    Labels,
    MissingRule,
    Number,
    OutsideRule,
    declared_columns,
    label_texts,
)
from discreet.people.domain import Box, RewardBounds
from discreet.people.tables import RowCounts, column_of, missing_rows, sheet_row
from discreet.toml_files import toml_value
from discreet.validation import (
    ErrorCollector,
    FloatArray,
    IntArray,
    InvalidInput,
    distinct,
    finite_vector,
    freeze_arrays,
    instance_of,
    number_from,
    whole_vector,
)

_ARRAYS = ("contexts", "actions", "rewards", "propensities", "ids")


@dataclass(frozen=True)
class LoggedAction:
    """The column of actions.

    Attributes:
        column: its name in the table.
        names: the labels, which in their order are the arms.
        outside: the rule for other labels.
        missing: the rule for missing values.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    column: str
    names: Labels
    outside: Literal["error", "drop"] = "error"
    missing: MissingRule = "error"

    def __post_init__(self) -> None:
        names = label_texts(self.names, f"the names of the action {self.column!r}")
        object.__setattr__(self, "names", names)
        self.declared()

    def declared(self) -> Column:
        """The column, whose codes are the arms."""
        return Column(self.column, values=self.names, outside=self.outside, missing=self.missing)


@dataclass(frozen=True)
class LoggedReward:
    """The column of rewards.

    Attributes:
        column: its name in the table.
        lower, upper: the public bounds of a reward.
        outside, missing: as in `Column`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    column: str
    lower: Number
    upper: Number
    outside: OutsideRule = "error"
    missing: MissingRule = "error"

    def __post_init__(self) -> None:
        RewardBounds(self.lower, self.upper)
        self.declared()

    def declared(self) -> Column:
        """The column with its bounds."""
        return Column(
            self.column, self.lower, self.upper, outside=self.outside, missing=self.missing
        )


@dataclass(frozen=True)
class Propensity:
    """The source of propensities; exactly one attribute is given.

    Attributes:
        column: the column that holds them.
        value: the same for every decision, 1 / K where each of K actions was equally likely.
        estimated: whether they are estimated from contexts and actions.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    form: ClassVar[str] = '{ column = "..." }, { value = 0.25 } or { estimated = true }'

    column: str | None = None
    value: Number | None = None
    estimated: bool = False

    def __post_init__(self) -> None:
        given = {"column": self.column, "value": self.value, "estimated": self.estimated or None}
        given = {key: value for key, value in given.items() if value is not None}
        if len(given) != 1:
            shown = toml_value(given) if given else "empty"
            raise InvalidInput(f"propensity was {shown}; give exactly one of {self.form}.")
        if self.value is not None:
            number_from(self.value, "the value of propensity", 1e-9, 1.0, "above 0 and at most 1")

    def declared(self) -> tuple[Column, ...]:
        """The column of probabilities, if there is one."""
        return () if self.column is None else (Column(self.column, 0.0, 1.0),)

    def check(self, frame: pd.DataFrame) -> None:
        """Refuse a table whose column is not there, or lacks a probability in some row."""
        if self.column is None:
            return
        series = column_of(frame, self.column)
        absent = missing_rows(series)
        numbers = pd.to_numeric(series, errors="coerce").to_numpy(np.float64, na_value=np.nan)
        given = ["(empty)" if gone else each for each, gone in zip(series, absent, strict=True)]
        check_propensities(numbers, f"column {self.column!r} was", given)


@dataclass(frozen=True, eq=False)
class Log:
    """A log of decisions (see the module); copied, checked and read-only.

    Attributes:
        contexts, actions, rewards, propensities, ids: see the module.
        domain: the public bounds of a context.
        arm_names: one name for each arm, at least two.
        reward_bounds: the public bounds of a reward.
        source: one sentence for reports.
        rows: the counts of the table's rows.

    Raises:
        InvalidInput: everything that is wrong: contexts outside the domain, actions that are no
            arm, rewards outside their bounds, propensities that are not above 0 and at most 1,
            arrays of other lengths, names that occur twice.
    """

    contexts: FloatArray
    actions: IntArray
    rewards: FloatArray
    domain: Box
    arm_names: tuple[str, ...]
    reward_bounds: RewardBounds = field(default_factory=RewardBounds)
    propensities: FloatArray | None = None
    ids: IntArray | None = None
    source: str = "A log of decisions."
    rows: RowCounts | None = None

    def __post_init__(self) -> None:
        refusals = ErrorCollector()
        for name in _ARRAYS:
            if getattr(self, name) is not None:
                with refusals.collected():
                    object.__setattr__(self, name, _copied(getattr(self, name), name))
        with refusals.collected():
            instance_of(self.domain, "domain", Box, "a Box")
        refusals.raise_if_any()
        with refusals.collected():
            object.__setattr__(self, "arm_names", label_texts(self.arm_names, "the arm names"))
        checked: dict[str, FloatArray | IntArray] = {}
        with refusals.collected():
            self.domain.people_to_unit(self.contexts)
            checked["contexts"] = self.contexts.astype(np.float64)
        count = np.size(self.contexts, 0) if np.ndim(self.contexts) else 0
        with refusals.collected():
            checked["actions"] = whole_vector(self.actions, "actions", 0, self.arms - 1, count)
        with refusals.collected():
            checked["rewards"] = finite_vector(self.rewards, "rewards", count)
            self.reward_bounds.to_unit(self.rewards, count)
        if self.propensities is not None:
            with refusals.collected():
                given = finite_vector(self.propensities, "propensities", count)
                check_propensities(given, "propensities were", given.tolist())
                checked["propensities"] = given
        if self.ids is not None:
            with refusals.collected():
                ids = whole_vector(self.ids, "ids", 0, length=count)
                checked["ids"] = pd.factorize(ids)[0].astype(np.int64)
        refusals.raise_if_any()
        for name, array in checked.items():
            object.__setattr__(self, name, array)
        freeze_arrays(self)

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def arms(self) -> int:
        """The number of arms K."""
        return len(self.arm_names)

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        columns: Declared,
        action: LoggedAction,
        reward: LoggedReward,
        propensity: Propensity,
        person: str | None = None,
        radius: float | None = None,
        source: str = "A table of decisions.",
        starts: Mapping[str, str] | None = None,
    ) -> Log:
        """A log of the rows of a table that all declared columns keep.

        Args:
            frame: the table, one row a decision.
            columns: of a context, with their public bounds or labels (`columns.declared_columns`).
            action, reward, propensity: see the module.
            person: the column of ids, where people come more than once.
            radius: the largest Euclidean length of a context, as in `Box.of`.
            source: one sentence for reports.
            starts: how messages about a column begin, by its name.

        Raises:
            InvalidInput: for columns that are not there, that stand twice in the declaration, or
                whose values their rules refuse, with how many rows and the first of them.
        """
        table, refusals = checked_frame(frame, "frame"), ErrorCollector()
        given = declared_columns(columns)
        instance_of(action, "action", LoggedAction, "LoggedAction(column, names)")
        instance_of(reward, "reward", LoggedReward, "LoggedReward(column, lower, upper)")
        instance_of(propensity, "propensity", Propensity, "Propensity(column)")
        outcomes = [action.declared(), reward.declared()]
        probabilities = propensity.declared()
        names = [column.name for column in (*outcomes, *probabilities)]
        distinct(names, "the columns of action, reward, propensity")
        # By themselves, as the advice that other columns give does not suit probabilities.
        with refusals.collected((starts or {}).get(propensity.column or "", "")):
            propensity.check(table)
        outcomes += [] if refusals else probabilities
        with refusals.collected():
            contexts, values, rows, ids = encoded_rows(
                table, given, outcomes, "action, reward or propensity", person, starts
            )
        refusals.raise_if_any()
        propensities = values[:, 2] if propensity.column is not None else None
        if propensity.value is not None:
            propensities = np.full(len(values), propensity.value)
        return cls(
            contexts,
            values[:, 0].astype(np.int64),
            values[:, 1],
            Box.of(given, radius),
            action.names,
            RewardBounds(reward.lower, reward.upper),
            propensities,
            ids,
            source=source,
            rows=rows,
        )


def _copied(values: Any, name: str) -> NDArray[Any]:
    try:
        return np.array(values)
    except ValueError as error:
        raise InvalidInput(f"{name} had rows of different lengths; give one array.") from error


def check_propensities(values: FloatArray, subject: str, given: Sequence[Any]) -> None:
    """Refuse numbers (n,) that are no propensities.

    Args:
        values: the numbers, NaN for other values.
        subject: how messages begin.
        given: the n values as they were given.
    """
    wrong = ~((values > 0.0) & (values <= 1.0))
    if wrong.any():
        first = int(np.argmax(wrong))
        shown = given[first] if np.isnan(values[first]) else f"{values[first]:g}"
        raise InvalidInput(
            f"{subject} not above 0 and at most 1 in {int(wrong.sum())} of {len(values)} rows, "
            f"first {shown!s:.80} in {sheet_row(first)}; give the probability that the logging "
            "policy gave to the logged action, or set estimated = true in place of a column."
        )
