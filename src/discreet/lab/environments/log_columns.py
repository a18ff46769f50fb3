"""What a table of logged decisions declares beside its context columns.

| key        | in a study file                                                                    |
|------------|------------------------------------------------------------------------------------|
| action     | `{ column = "offer", names = ["none", "call"] }`, which are the arms               |
| reward     | `{ column = "paid", lower = 0, upper = 5 }`, with public bounds                    |
| propensity | `{ column = "p" }`, `{ value = 0.25 }` or `{ estimated = true }`                   |

A propensity is the probability with which the action that was taken had been going to be taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import ConfigDict

from discreet.people.columns import Column, Labels, MissingRule, Number, OutsideRule, label_texts
from discreet.people.domain import RewardBounds
from discreet.people.tables import column_of, missing_rows, sheet_row
from discreet.toml_words import toml_value
from discreet.validation import FloatArray, InvalidInput, number_from


@dataclass(frozen=True)
class LoggedAction:
    """The column that says which action was taken.

    Attributes:
        column: its name in the table.
        names: the labels, which in their order are the arms.
        outside: what happens to a label that is not one of them.
        missing: what happens where there is no value.
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
    """The column that says what followed.

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
    """Where propensities are known from; exactly one attribute is given.

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


def check_propensities(values: FloatArray, subject: str, given: Sequence[Any]) -> None:
    """Refuse numbers (n,) that are no propensities.

    Args:
        values: the numbers, NaN for what is none.
        subject: how messages begin.
        given: the n values as they were given.
    """
    wrong = ~((values > 0.0) & (values <= 1.0))
    if wrong.any():
        first = int(np.argmax(wrong))
        shown = given[first] if np.isnan(values[first]) else f"{values[first]:g}"
        raise InvalidInput(
            f"{subject} not above 0 and at most 1 in {int(wrong.sum())} of {len(values)} rows, "
            f"first {shown!s:.80} in {sheet_row(first)}; give the probability with "
            "which the action that was taken had been going to be taken. If it is not known, set "
            "estimated = true in place of a column."
        )
