"""What a learner accumulates from reports: statistics that add, in any order and anywhere."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from discreet.codec import ADDED, Range, Shape
from discreet.learners.schema import Message
from discreet.learners.terms import NoiseName
from discreet.validation import FloatArray, InvalidInput


@dataclass(frozen=True, eq=False, kw_only=True)
class Statistics(Message):
    """What a learner accumulates from reports; `+` is commutative and associative.

    Attributes:
        reports: how many reports are in the sum.
        noise: the names of the noise sources that protect them.
        source: the `stream_id` of the stream whose policies made the reports; "" for the neutral
            element of the sum, which has no reports.
        epsilon: of one report's budget in that stream; None without one.
        silences: whether visits can be left out of the rows in it, each where it stands in its
            batch: in another batch its row may be rounded otherwise, and would not be 0. What is
            public in the sums counts every visit, so that it does not show whose rows are 0.
            Learners that release sums take several visits of a person only where this is so.
    """

    facts: ClassVar[tuple[str, ...]] = ("reports", "noise", "source", "epsilon")

    reports: Annotated[int, Range(0)]
    noise: tuple[NoiseName, ...] = ()
    source: str = field(default="", metadata=ADDED)
    epsilon: Annotated[float, Range(above=0.0)] | None = field(default=None, metadata=ADDED)
    silences: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Nothing: they add for every batch, and are checked when they are read or merged."""

    def __add__(self, other: Self) -> Self:
        """Numbers and arrays add; all other fields are the same in both."""
        added = self.tally(other)
        for name in _names(type(self)):
            if name not in added:
                added[name] = self._added(getattr(self, name), getattr(other, name), name)
        return type(self)(**added)

    @staticmethod
    def _added(mine: Any, theirs: Any, name: str) -> Any:
        if isinstance(mine, np.ndarray):
            if mine.shape == theirs.shape:
                return mine + theirs
        elif isinstance(mine, int | float) and not isinstance(mine, bool):
            return mine + theirs
        elif mine == theirs:
            return mine
        raise InvalidInput(
            f"statistics whose {name} differs cannot be added; they come from different learners."
        )

    def faded(self, share: float) -> Self:
        """The same after people count `share` of what they did (forgetting.py).

        Sums that are yet to be released stay as they are: what fades is what was released of them.
        """
        return self

    def check_finite(self) -> None:
        """`InvalidInput` where numbers, each finite, add up to more than floats hold."""
        for name in _names(type(self)):
            if not _adds_up(getattr(self, name)):
                raise InvalidInput(
                    f"reports had numbers so large that the sums of {name} are not finite; send "
                    "them as the policy made them."
                )

    def tally(self, other: Statistics) -> dict[str, Any]:
        """What every sum of two has in common with its parts, as keyword arguments.

        Raises:
            InvalidInput: where the parts come from different streams, or cost different epsilons.
        """
        owner = self if self.source or not other.source else other
        mine = owner.source, owner.epsilon
        for part in (self, other):
            theirs = part.source, part.epsilon
            if (part.reports or part.source) and theirs != mine:
                # A guarantee follows from its own stream's policies, not from those of the reports.
                raise InvalidInput(
                    f"statistics of {theirs[0]!r:.80} at epsilon {theirs[1]} met {mine[0]!r:.80} "
                    f"at epsilon {mine[1]}; add and merge only what statistics() made for one "
                    "learner at one epsilon."
                )
        return {
            "reports": self.reports + other.reports,
            "noise": tuple(sorted({*self.noise, *other.noise})),
            "source": owner.source,
            "epsilon": owner.epsilon,
        }


def _adds_up(value: Any) -> bool:
    """Whether the arrays in a value have finite sums."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind != "f" or math.isfinite(np.add.reduce(value, axis=None))
    if isinstance(value, tuple):
        return all(map(_adds_up, value))
    return not is_dataclass(value) or all(map(_adds_up, vars(value).values()))


@cache
def _names(kind: Any) -> tuple[str, ...]:
    """The fields of a dataclass."""
    return tuple(field.name for field in fields(kind))


@dataclass(frozen=True, eq=False, kw_only=True)
class Totals(Statistics):
    """Sums of some numbers, (k,), whose meaning the learner knows."""

    kind: ClassVar[str] = "totals"

    values: Annotated[FloatArray, Shape("k")]
