"""Messages between people and a learner: reports, and the statistics that learners add.

A message is one line of JSON, `{"kind": ..., "schema": 1, ...fields}` (codec); the schema of one
that names none is 1. `_KINDS`, or the metadata of an installed package (registry.py), says which
module defines a kind, so that a device that decodes the policy of one learner loads nothing of the
other learners.

*Public coins.* A public coin is drawn before anyone looks at the person. Whatever it decides (the
arm offered in each bin) the learner computes again from seed, policy version and public coin, so it
need not be reported and costs no privacy.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import Annotated, Any, ClassVar, Self, cast

import numpy as np

from discreet.codec import OPTIONAL_FIELD, CheckedBy, Range, Serializable, Shape, register_lazy
from discreet.privacy.noise import check_noise_name
from discreet.validation import BoolArray, CoinArray, FloatArray, IntArray, InvalidInput

# Public coins are below this: JSON readers in browsers hold whole numbers exactly up to here.
PUBLIC_COINS = 2**53
STEP = np.uint64(0x9E3779B97F4A7C15)
# Noise sources that exist; a report may not invent one.
NoiseName = Annotated[str, CheckedBy(check_noise_name)]


_KINDS = {
    "policy": ("actions",),
    "messages": ("plain-observations", "totals"),
    "signs": ("signed-reports",),
    "partition.policy": ("partition-policy", "partition-statistics"),
    "kernel.policy": ("local-kernel-policy", "open-kernel-policy"),
    "kernel.design": ("local-kernel-statistics",),
    "kernel.joint": ("joint-kernel-policy", "logged-observations"),
    "gp_ucb.sets.policy": ("gp-set-policy",),
    "gp_ucb.public.policy": ("gp-public-policy",),
    "gp_ucb.policy": ("kernel-model", "point-observations", "noisy-rows", "gram-statistics"),
    "glm.policy": ("score-policy", "score-reports", "score-statistics"),
    "epochs.policy": ("epoch-policy", "private-rows"),
    "epochs.sums": ("epoch-statistics",),
    "references.uniform": ("uniform-policy", "uniform-point-policy", "empty-reports", "count"),
    "references.highest": ("highest-policy",),
}
register_lazy(
    {kind: f"discreet.learners.{module}" for module, kinds in _KINDS.items() for kind in kinds}
)


def mix(words: CoinArray) -> CoinArray:
    """The output function of SplitMix64 (Steele, Lea and Flood 2014): a bijection of words."""
    mixed = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def public_uniforms(
    seed: int, version: int, public_coins: CoinArray, places: IntArray
) -> FloatArray:
    """Uniform numbers in [0, 1) that depend on seed, policy version, public coin and place.

    Args:
        seed: the learner's public seed.
        version: the policy's version.
        public_coins: any shape that broadcasts with `places`.
        places: where the number is used, such as the node of a bin.
    """
    key = mix(np.asarray([seed], dtype=np.uint64) * STEP + np.uint64(version) + STEP)
    word = mix(mix(public_coins + key) + places.astype(np.uint64) * STEP)
    return (word >> np.uint64(11)).astype(np.float64) * 2.0**-53


@dataclass(frozen=True)
class Reports(Serializable, ABC):
    """Reports of n people who acted under one version of a policy.

    Attributes:
        policy_version: the version of the policy that made them.
        source: the identity of the learner whose policy it was (`Policy.learner_id`).
        noise: the name of the noise source that protects them, as their side declares it.
    """

    facts: ClassVar[tuple[str, ...]] = ("policy_version", "source", "noise")

    policy_version: Annotated[int, Range(0, PUBLIC_COINS - 1)]
    source: str
    noise: NoiseName
    # Which contributions add rows of 0 (contributions.py); None for none. Of this machine, in no
    # message.
    over_limit: ClassVar[BoolArray | None] = None

    @abstractmethod
    def __len__(self) -> int: ...

    def of(self, people: IntArray) -> Self:
        """The reports of some of these people, by their places, in that order."""
        rows: dict[str, Any] = {name: each[people] for name, each in self._rows().items()}
        return replace(self, **rows)

    @classmethod
    def joined(cls, batches: Sequence[Self]) -> Self:
        """The reports of several batches, made under one version of a policy, as one batch."""
        if len({(each.policy_version, each.source, each.noise) for each in batches}) != 1:
            raise InvalidInput(
                "batches were made under several policies or noise sources, or there were none; "
                "join those of one policy and one source."
            )
        parts = [each._rows() for each in batches]
        if any(each.keys() != parts[0].keys() for each in parts):
            raise InvalidInput(
                "batches had different arrays, such as public coins in some and none in others; "
                "join what one policy made."
            )
        rows: dict[str, Any] = {
            name: np.concatenate([each[name] for each in parts]) for name in parts[0]
        }
        return replace(batches[0], **rows)

    def _rows(self) -> dict[str, Any]:
        """The arrays with a row for each person."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: value
            for name, value in values.items()
            if isinstance(value, np.ndarray) and len(value) == len(self)
        }

    def limited(self, contributions: BoolArray) -> Self:
        """The same reports, of which some of the n contributions more add rows of 0."""
        made = copy(self)
        over_limit = contributions if self.over_limit is None else self.over_limit | contributions
        object.__setattr__(made, "over_limit", over_limit)
        return made


@dataclass(frozen=True, eq=False)
class Observations(Reports):
    """What happened to n people as it was, for a learner that they trust.

    Attributes:
        contexts: (n, d) in [0, 1]^d.
        arms: (n,) the arms given.
        rewards: (n,) in [0, 1].
    """

    kind: ClassVar[str] = "plain-observations"

    contexts: Annotated[FloatArray, Shape("n", "d"), Range(0.0, 1.0)]
    arms: Annotated[IntArray, Shape("n"), Range(0)]
    rewards: Annotated[FloatArray, Shape("n"), Range(0.0, 1.0)]

    def __len__(self) -> int:
        return len(self.arms)


@dataclass(frozen=True, eq=False, kw_only=True)
class Statistics(Serializable):
    """What a learner accumulates from reports; `+` is commutative and associative.

    Attributes:
        reports: how many reports are in the sum.
        noise: the names of the noise sources that protect them.
        source: the `stream_id` of the stream whose policies made the reports; "" for the neutral
            element of the sum, which has no reports.
        epsilon: of one report's budget in that stream; None without one.
        handles_over_limit: whether contributions can be left out of the rows in it, each where it
            stands in its
            batch: in another batch its row may be rounded otherwise, and would not be 0. What is
            public in the sums counts every contribution, so that it does not show whose rows are 0.
            Learners that release sums take several contributions of a person only where this is so.
    """

    facts: ClassVar[tuple[str, ...]] = ("reports", "noise", "source", "epsilon")

    reports: Annotated[int, Range(0)]
    noise: tuple[NoiseName, ...] = ()
    source: str = field(default="", metadata=OPTIONAL_FIELD)
    epsilon: Annotated[float, Range(above=0.0)] | None = field(
        default=None, metadata=OPTIONAL_FIELD
    )
    handles_over_limit: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Nothing: they add for every batch, and are checked when they are read or merged."""

    def __add__(self, other: Self) -> Self:
        """Numbers and arrays add; all other fields are the same in both."""
        added = self.tally(other)
        for name in _names(cast(Any, type(self))):
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

    def discounted(self, share: float) -> Self:
        """The same after people count `share` of what they did (discounting.py).

        Sums that are yet to be released stay as they are: discounting applies to what was released.
        """
        return self

    def check_finite(self) -> None:
        """`InvalidInput` where numbers, each finite, add up to more than floats hold."""
        for name in _names(cast(Any, type(self))):
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
