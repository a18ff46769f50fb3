"""Logged decisions: contexts, actions, rewards and propensities.

| field          | shape  | meaning                                                              |
|----------------|--------|----------------------------------------------------------------------|
| contexts       | (n, d) | one row a decision, in the units of the domain                       |
| actions        | (n,)   | the arm that was taken, A_i, 0 .. K - 1                              |
| rewards        | (n,)   | its reward, r_i                                                      |
| propensities   | (n,)   | the probability with which it was taken, p_i; None where not known   |
| ids            | (n,)   | the person, where people come more than once, numbered in the order  |
|                |        | in which they come                                                   |
| position       | (n,)   | where on a page it was shown; None where there is one place          |
| action_context | (K, m) | numbers about the arms, which learners here do not use; None: nothing|

A log is read from a table or from the feedback dictionary of Open Bandit Pipeline (obp), and
written to each without loss. A log is private data: no epsilon covers results computed from it.

| declared   | in a study file                                                                   |
|------------|-----------------------------------------------------------------------------------|
| action     | `{ column = "offer", names = ["none", "call"] }`, which are the arms              |
| reward     | `{ column = "paid", lower = 0, upper = 5 }`, with public bounds                   |
| propensity | `{ column = "p" }`, `{ value = 0.25 }` or `{ estimated = true }`                  |

| key of obp     | value                                                                         |
|----------------|-------------------------------------------------------------------------------|
| n_rounds       | n, the number of decisions                                                    |
| n_actions      | K, the number of actions                                                      |
| context        | (n, d) numbers                                                                |
| action         | (n,) whole numbers 0 .. K - 1                                                 |
| reward         | (n,)                                                                          |
| pscore         | (n,) the probability of the action taken, or None                             |
| position       | (n,) the place on a page at which it was shown, or None                       |
| action_context | (K, m) numbers about each action; one-hot by default                          |

Other keys, such as `expected_reward` of synthetic data, are left alone.
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
    finite_matrix,
    finite_vector,
    freeze_arrays,
    instance_of,
    number_from,
    whole_number,
    whole_vector,
)

_ARRAYS = ("contexts", "actions", "rewards", "propensities", "ids", "position", "action_context")
# Keys of Open Bandit Pipeline: those that must be there, and the arrays with a row for each round.
_NEEDED = ("n_rounds", "n_actions", "context", "action", "reward")
_OBP = {
    "context": "contexts",
    "action": "actions",
    "reward": "rewards",
    "pscore": "propensities",
    "position": "position",
}


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
        return Column.category(self.column, self.names, self.outside, self.missing)


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
        contexts, actions, rewards, propensities, ids, position, action_context: see the module.
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
    position: IntArray | None = None
    action_context: FloatArray | None = None
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
        for name in ("ids", "position"):
            if getattr(self, name) is not None:
                with refusals.collected():
                    checked[name] = whole_vector(getattr(self, name), name, 0, length=count)
        if "ids" in checked:
            checked["ids"] = pd.factorize(checked["ids"])[0].astype(np.int64)
        if self.action_context is not None:
            with refusals.collected():
                about = self.action_context
                checked["action_context"] = finite_matrix(
                    about, "action_context", np.shape(about)[-1]
                )
                if len(about) != self.arms:
                    raise InvalidInput(
                        f"action_context had {len(about)} rows; give one for each of the "
                        f"{self.arms} arms."
                    )
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

    def to_frame(
        self,
        action: str = "action",
        reward: str = "reward",
        propensity: str = "propensity",
        person: str = "person",
    ) -> pd.DataFrame:
        """The log as a table with these names beside those of the domain; categories and arms as
        their labels. `Log.from_frame` reads it, also from CSV or Parquet."""
        facts: list[tuple[str, Any]] = [
            (action, np.array(self.arm_names, dtype=object)[self.actions]),
            (reward, self.rewards),
        ]
        facts += [(propensity, self.propensities)] if self.propensities is not None else []
        facts += [(person, self.ids)] if self.ids is not None else []
        names = (*self.domain.names, *(name for name, _ in facts))
        distinct(names, "the names of the table's columns")
        table = {
            name: np.array(labels, dtype=object)[values.astype(np.int64)] if labels else values
            for name, values, labels in zip(
                self.domain.names, self.contexts.T, self.domain.categories, strict=True
            )
        }
        return pd.DataFrame({**table, **dict(facts)})

    @classmethod
    def from_obp(
        cls,
        feedback: Mapping[str, Any],
        domain: Box,
        arm_names: Sequence[str] | None = None,
        reward_bounds: RewardBounds | None = None,
        position: int | None = None,
    ) -> Log:
        """The feedback dictionary of Open Bandit Pipeline (see the module).

        Args:
            feedback: the dictionary.
            domain: the public bounds of its contexts; they are not read off the data.
            arm_names: one for each action; `0`, `1`, ... if left out.
            reward_bounds: from 0 to 1 if left out.
            position: keep only what was shown at this place, where there are several.

        Raises:
            InvalidInput: for keys that are missing, arrays that do not fit together, and several
                positions where none is chosen; and as the class.
        """
        instance_of(feedback, "feedback", Mapping, "the dictionary of Open Bandit Pipeline")
        instance_of(domain, "domain", Box, "a Box")
        missing = [key for key in _NEEDED if feedback.get(key) is None]
        if missing:
            raise InvalidInput(
                f"feedback lacked {', '.join(missing)}; it has {', '.join(map(str, feedback))}. "
                "Give the whole dictionary that Open Bandit Pipeline makes."
            )
        refusals, rounds, arms = ErrorCollector(), 0, 0
        with refusals.collected():
            rounds = whole_number(feedback["n_rounds"], "n_rounds", minimum=1)
        with refusals.collected():
            arms = whole_number(feedback["n_actions"], "n_actions", minimum=2)
        refusals.raise_if_any()
        fields: dict[str, Any] = {}
        for key, name in _OBP.items():
            given = feedback.get(key)
            fields[name] = None if given is None else _copied(given, key)
            if given is not None and np.shape(fields[name])[:1] != (rounds,):
                refusals.add(
                    f"{key} had shape {np.shape(fields[name])} and n_rounds was {rounds}; give one "
                    "row for each round."
                )
        refusals.raise_if_any()
        kept = _at_position(fields["position"], position, rounds)
        for name, array in fields.items():
            fields[name] = None if array is None else array[kept]
        names = tuple(map(str, range(arms))) if arm_names is None else tuple(arm_names)
        if len(names) != arms:
            raise InvalidInput(
                f"arm_names were {list(names)!r:.200}; give one for each of the {arms} actions."
            )
        elsewhere = (("position", rounds - len(kept)),) if len(kept) < rounds else ()
        return cls(
            **fields,
            domain=domain,
            arm_names=names,
            reward_bounds=RewardBounds() if reward_bounds is None else reward_bounds,
            action_context=feedback.get("action_context"),
            source="Feedback of Open Bandit Pipeline.",
            rows=RowCounts(rounds, len(kept), outside=elsewhere),
        )

    def to_obp(self) -> dict[str, Any]:
        """The dictionary of Open Bandit Pipeline; `action_context` is one-hot where it is None."""
        about = np.eye(self.arms) if self.action_context is None else self.action_context.copy()
        arrays = {name: getattr(self, name) for name in _OBP.values()}
        return {
            "n_rounds": len(self),
            "n_actions": self.arms,
            **{
                key: None if arrays[name] is None else arrays[name].copy()
                for key, name in _OBP.items()
            },
            "action_context": about,
        }


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


def _at_position(places: NDArray[Any] | None, position: int | None, rounds: int) -> IntArray:
    """The rounds at the position asked for."""
    there = [] if places is None else np.unique(places).tolist()
    if position is None:
        if len(there) > 1:
            raise InvalidInput(
                f"feedback had actions at the positions {there}, which are separate decisions; "
                f"choose one, for example position={there[0]}."
            )
        return np.arange(rounds)
    if places is None:
        raise InvalidInput(
            f"position {position} was asked for, but feedback has no positions; leave it out."
        )
    kept = np.flatnonzero(places == position)
    if not len(kept):
        raise InvalidInput(f"position was {position}; feedback has {there}. Name one of these.")
    return kept
