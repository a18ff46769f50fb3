"""Logged decisions: who came, what they were given, what followed, and how likely that choice was.

| field          | shape  | meaning                                                              |
|----------------|--------|----------------------------------------------------------------------|
| contexts       | (n, d) | one row a decision, in the units of the domain                       |
| actions        | (n,)   | the arm that was taken, A_i, 0 .. K - 1                              |
| rewards        | (n,)   | what followed from it, r_i                                           |
| propensities   | (n,)   | the probability with which it was taken, p_i; None where not known   |
| ids            | (n,)   | whose decision it was, where people come more than once: 0 for who   |
|                |        | comes first, 1 for the next and so on, whatever numbers are given    |
| position       | (n,)   | where on a page it was shown; None where there is one place          |
| action_context | (K, m) | numbers about the arms, which learners here do not use; None: nothing|

A log is read from a table, from the dictionary of Open Bandit Pipeline, or from the text of Vowpal
Wabbit, and written to each; what is written and read again is the same to the last bit. A log is
private data: what is computed from it is covered by no epsilon.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from discreet.lab.environments.classification import encoded_rows
from discreet.lab.environments.frames import checked_frame
from discreet.lab.environments.log_columns import (
    LoggedAction,
    LoggedReward,
    Propensity,
    check_propensities,
)
from discreet.lab.environments.log_obp import feedback_of, read_feedback
from discreet.lab.environments.log_vw import VW_ACTION, VW_PROPENSITY, VW_REWARD, read_vw, write_vw
from discreet.people.columns import Declared, declared_columns, label_texts
from discreet.people.domain import Box, RewardBounds
from discreet.people.tables import RowCounts
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    Refusals,
    distinct,
    finite_matrix,
    finite_vector,
    freeze_arrays,
    instance_of,
    path_of,
    whole_vector,
)

_ARRAYS = ("contexts", "actions", "rewards", "propensities", "ids", "position", "action_context")


@dataclass(frozen=True, eq=False)
class Log:
    """Decisions that were logged (see the module); copied, checked and read-only.

    Attributes:
        contexts, actions, rewards, propensities, ids, position, action_context: see the module.
        domain: the public bounds of a context.
        arm_names: one name for each arm, at least two.
        reward_bounds: the public bounds of a reward.
        source: one sentence that says where the log comes from.
        rows: how many rows of a table or a file were taken, and why others were not.

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
        refusals = Refusals()
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
                checked["propensities"] = _probabilities(self.propensities, count)
        for name in ("ids", "position"):
            if getattr(self, name) is not None:
                with refusals.collected():
                    checked[name] = whole_vector(getattr(self, name), name, 0, length=count)
        if "ids" in checked:
            checked["ids"] = pd.factorize(checked["ids"])[0].astype(np.int64)
        if self.action_context is not None:
            with refusals.collected():
                checked["action_context"] = _about_actions(self.action_context, self.arms)
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
        """The rows of a table that all declared columns keep.

        Args:
            frame: the table, one row a decision.
            columns: of a context, with their public bounds or labels (`columns.declared_columns`).
            action, reward, propensity: see `log_columns`.
            person: the column that says whose row it is, where people come more than once.
            radius: the largest Euclidean length of a context, as in `Box.of`.
            source: one sentence for reports.
            starts: how messages about a column begin, by its name.

        Raises:
            InvalidInput: for columns that are not there, that stand twice in the declaration, or
                whose values their rules refuse, with how many rows and the first of them.
        """
        table, refusals = checked_frame(frame, "frame"), Refusals()
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
        facts: dict[str, Any] = {action: np.array(self.arm_names, dtype=object)[self.actions]}
        facts[reward] = self.rewards
        if self.propensities is not None:
            facts[propensity] = self.propensities
        if self.ids is not None:
            facts[person] = self.ids
        given = [action, reward]
        given += [propensity] if self.propensities is not None else []
        given += [person] if self.ids is not None else []
        distinct((*self.domain.names, *given), "the names of the table's columns")
        table = {
            name: _shown(values, labels)
            for name, values, labels in zip(
                self.domain.names, self.contexts.T, self.domain.categories, strict=True
            )
        }
        return pd.DataFrame(table | facts)

    @classmethod
    def from_obp(
        cls,
        feedback: Mapping[str, Any],
        domain: Box,
        arm_names: Sequence[str] | None = None,
        reward_bounds: RewardBounds | None = None,
        position: int | None = None,
        source: str = "Feedback of Open Bandit Pipeline.",
    ) -> Log:
        """The feedback dictionary of Open Bandit Pipeline (`log_obp`).

        Args:
            feedback: the dictionary.
            domain: the public bounds of its contexts; they are not read off the data.
            arm_names: one for each action; `0`, `1`, ... if left out.
            reward_bounds: from 0 to 1 if left out.
            position: keep only what was shown at this place, where there are several.
            source: one sentence for reports.

        Raises:
            InvalidInput: as `read_feedback` and the class.
        """
        instance_of(domain, "domain", Box, "a Box")
        fields, rounds = read_feedback(feedback, domain.dimension, position)
        arms, kept = int(feedback["n_actions"]), len(fields["actions"])
        names = tuple(map(str, range(arms))) if arm_names is None else tuple(arm_names)
        if len(names) != arms:
            raise InvalidInput(
                f"arm_names were {list(names)!r:.200}; give one for each of the {arms} actions."
            )
        elsewhere = (("position", rounds - kept),) if kept < rounds else ()
        rows = RowCounts(rounds, kept, outside=elsewhere)
        bounds = RewardBounds() if reward_bounds is None else reward_bounds
        return cls(
            **fields, domain=domain, arm_names=names, reward_bounds=bounds, source=source, rows=rows
        )

    def to_obp(self) -> dict[str, Any]:
        """The dictionary of Open Bandit Pipeline; `action_context` is one-hot where it is None."""
        about = np.eye(self.arms) if self.action_context is None else self.action_context
        return feedback_of(
            self.contexts, self.actions, self.rewards, self.propensities, self.position, about
        )

    @classmethod
    def from_vw(
        cls,
        path: str | Path,
        columns: Declared,
        arm_names: Sequence[str] | None = None,
        reward_bounds: RewardBounds | None = None,
        costs: Literal["negated", "one minus"] = "negated",
        source: str | None = None,
    ) -> Log:
        """Text in Vowpal Wabbit's format of `--cb_explore_adf` (`log_vw`).

        Args:
            path: the file.
            columns: which shared features make a context, with public bounds or labels.
            arm_names: what the actions are called, in the order that they shall have; by default
                in the order and with the features of the first decision.
            reward_bounds: from 0 to 1 if left out.
            costs: whether a cost is -reward or 1 - reward.
            source: one sentence for reports.

        Raises:
            InvalidInput: naming every line that is malformed; as `from_frame`.
        """
        given = declared_columns(columns)
        frame, names = read_vw(path_of(path, "path", "the path of a file"), given, arm_names, costs)
        bounds = RewardBounds() if reward_bounds is None else reward_bounds
        return cls.from_frame(
            frame,
            given,
            LoggedAction(VW_ACTION, names),
            LoggedReward(VW_REWARD, bounds.lower, bounds.upper),
            Propensity(VW_PROPENSITY),
            source=f"The decisions in {path}." if source is None else source,
        )

    def to_vw(self, path: str | Path) -> None:
        """Write text for Vowpal Wabbit's `--cb_explore_adf`, with cost = -reward.

        Raises:
            InvalidInput: where propensities are not known, which the format needs.
        """
        if self.propensities is None:
            raise InvalidInput(
                "this log has no propensities, and every label of Vowpal Wabbit has one; give them "
                "before writing."
            )
        write_vw(
            Path(path),
            self.domain.columns,
            self.contexts,
            self.arm_names,
            self.actions,
            self.rewards,
            self.propensities,
        )


def _shown(values: FloatArray, labels: tuple[str, ...]) -> Any:
    """A column of a context as the table has it: labels in place of their codes."""
    return np.array(labels, dtype=object)[values.astype(np.int64)] if labels else values


def _probabilities(values: FloatArray, count: int) -> FloatArray:
    array = finite_vector(values, "propensities", count)
    check_propensities(array, "propensities were", array.tolist())
    return array


def _copied(values: Any, name: str) -> NDArray[Any]:
    try:
        return np.array(values)
    except ValueError as error:
        raise InvalidInput(f"{name} had rows of different lengths; give one array.") from error


def _about_actions(values: FloatArray, arms: int) -> FloatArray:
    array = finite_matrix(values, "action_context", np.shape(values)[-1])
    if len(array) != arms:
        raise InvalidInput(
            f"action_context had {len(array)} rows; give one for each of the {arms} arms."
        )
    return array
