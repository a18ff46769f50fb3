"""What people send to epoch learners, and the sums that learners add.

| array    | shape  | meaning                                                         |
|----------|--------|-----------------------------------------------------------------|
| contexts | (n, d) | contexts as points of [0, 1]^d                                  |
| arms     | (n,)   | the arms given                                                  |
| rewards  | (n,)   | in [0, 1]                                                       |
| rows     | (n, s) | private rows (rows.py)                                          |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from discreet.codec import decode_array, encode_array
from discreet.learners.messages import Reports, Statistics
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    freeze_arrays,
    read_array,
    whole_number,
)


@dataclass(frozen=True, eq=False)
class ContextObservations(Reports):
    """What happened to n people, as it was: for a learner that they trust (see the table)."""

    kind: ClassVar[str] = "context-observations"

    contexts: FloatArray
    arms: IntArray
    rewards: FloatArray

    def __len__(self) -> int:
        return len(self.rewards)

    def check(self, dimension: int, arms: int) -> None:
        """`InvalidInput` for what no policy with this many columns and arms reports."""
        people = len(self)
        if (
            self.contexts.shape != (people, dimension)
            or self.arms.shape != (people,)
            or not ((self.arms >= 0) & (self.arms < arms)).all()
            or not ((self.rewards >= 0.0) & (self.rewards <= 1.0)).all()
            or not ((self.contexts >= 0.0) & (self.contexts <= 1.0)).all()
        ):
            raise InvalidInput(
                "reports had contexts or rewards outside [0, 1], arms that do not exist, or arrays "
                "of different lengths; send them as report() made them."
            )

    def to_fields(self) -> dict[str, Any]:
        return {
            **self.origin_fields(),
            "contexts": self.contexts.tolist(),
            "arms": self.arms.tolist(),
            "rewards": self.rewards.tolist(),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(
            **cls.read_origin(fields),
            contexts=read_array(fields["contexts"], "contexts", "number", 2),
            arms=read_array(fields["arms"], "arms", "whole", 1),
            rewards=read_array(fields["rewards"], "rewards", "number", 1),
        )


@dataclass(frozen=True, eq=False)
class PrivateRows(Reports):
    """Private reports of n people (see the table)."""

    kind: ClassVar[str] = "private-rows"

    rows: FloatArray

    def __len__(self) -> int:
        return len(self.rows)

    def to_fields(self) -> dict[str, Any]:
        return {**self.origin_fields(), "rows": encode_array(self.rows)}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(**cls.read_origin(fields), rows=decode_array(fields["rows"], "rows", 2))


@dataclass(frozen=True, eq=False)
class EpochSum:
    """The people who acted under one version of a policy.

    Attributes:
        people: how many.
        total: (s,) the sum of their rows: whole multiples of 2^-30, or private numbers.
    """

    people: int
    total: NDArray[Any]

    def __post_init__(self) -> None:
        freeze_arrays(self)


@dataclass(frozen=True, eq=False, kw_only=True)
class EpochStatistics(Statistics):
    """Sums of rows, apart for each version of the policy.

    Attributes:
        epochs: by version.
        exact: whether sums hold whole numbers.
    """

    kind: ClassVar[str] = "epoch-statistics"

    epochs: Mapping[int, EpochSum]
    exact: bool

    def __add__(self, other: EpochStatistics) -> EpochStatistics:
        if self.exact != other.exact:
            raise InvalidInput(
                "statistics of plain and of private reports cannot be added; they come from "
                "different learners."
            )
        joined = dict(self.epochs)
        for version, new in other.epochs.items():
            old = joined.get(version)
            if old is not None and old.total.shape != new.total.shape:
                raise InvalidInput(
                    f"statistics of version {version} had {new.total.shape[0]} and "
                    f"{old.total.shape[0]} numbers; they come from different learners."
                )
            joined[version] = (
                new if old is None else EpochSum(old.people + new.people, old.total + new.total)
            )
        ordered = {version: joined[version] for version in sorted(joined)}
        return EpochStatistics(**self.tally(other), epochs=ordered, exact=self.exact)

    def since(self, before: EpochStatistics) -> dict[int, EpochSum]:
        """What came after `before`, by version."""
        new = {}
        for version, now in self.epochs.items():
            old = before.epochs.get(version)
            if old is None:
                new[version] = now
            elif now.people > old.people:
                new[version] = EpochSum(now.people - old.people, now.total - old.total)
        return new

    def within(self, later: EpochStatistics) -> bool:
        """Whether `later` are these sums with more people, or the same."""
        if self.exact != later.exact:
            return False
        for version, old in self.epochs.items():
            now = later.epochs.get(version)
            if now is None or now.people < old.people or now.total.shape != old.total.shape:
                return False
            if now.people == old.people and not np.array_equal(now.total, old.total):
                return False
        return True

    def to_fields(self) -> dict[str, Any]:
        return {
            **self.tally_fields(),
            "versions": list(self.epochs),
            "people": [one.people for one in self.epochs.values()],
            "totals": [one.total.tolist() for one in self.epochs.values()],
            "exact": self.exact,
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        exact = fields["exact"]
        if not isinstance(exact, bool):
            raise InvalidInput(f"exact was {exact!r}; it must be true or false.")
        epochs = {
            whole_number(version, "version"): EpochSum(
                whole_number(people, "people", minimum=1),
                read_array(total, "totals", "whole" if exact else "number", 1),
            )
            for version, people, total in zip(
                fields["versions"], fields["people"], fields["totals"], strict=True
            )
        }
        tally = cls.read_tally(fields)
        if len(epochs) < len(fields["versions"]) or tally["reports"] != sum(
            one.people for one in epochs.values()
        ):
            raise InvalidInput(
                "statistics counted other people than their epochs; send them as statistics() "
                "made them."
            )
        return cls(**tally, epochs=epochs, exact=exact)

    @classmethod
    def none(cls, exact: bool) -> EpochStatistics:
        """The sums of nobody."""
        return EpochStatistics(reports=0, epochs={}, exact=exact)
