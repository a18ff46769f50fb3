"""What crosses between people and a learner: policies, actions, reports, statistics that add.

All of it is public or private already.

| array        | shape  | meaning                                                           |
|--------------|--------|-------------------------------------------------------------------|
| contexts     | (n, d) | one person a row, in the units of the policy's domain             |
| arms         | (n,)   | arms chosen, 0 .. K - 1; or places in decision sets               |
| points       | (n, d) | points chosen, where an action is a point of the domain           |
| propensities | (n,)   | the probability with which that arm was chosen for that context   |
| tickets      | (n,)   | public numbers below 2^53, drawn without looking at the person    |
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sized
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.action_space import ActionSpace
from discreet.codec import CheckedBy, Range, Shape, fields_to_json
from discreet.learners.public_randomness import TICKETS, public_uniforms
from discreet.learners.schema import Message
from discreet.learners.terms import Offer, Terms, check_reporting
from discreet.privacy import NoiseSource, Release
from discreet.privacy.accounting import PureEvent
from discreet.privacy.noise import NO_NOISE, check_noise_name
from discreet.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    InvalidInput,
    TicketArray,
    nearest_whole,
    whole_vector,
)

# Noise sources that exist; a report may not invent one.
NoiseName = Annotated[str, CheckedBy(check_noise_name)]

__all__ = [
    "TICKETS",
    "Actions",
    "ArmPolicy",
    "Message",
    "Observations",
    "Policy",
    "Reports",
    "Statistics",
    "Totals",
]

H = TypeVar("H", bound=Sized)


@dataclass(frozen=True, eq=False)
class Actions(Message):
    """What was chosen for n people, with the public tickets under which it was chosen.

    Arms and points follow from contexts, so actions are as private as these: they are a message so
    that a device can keep a pending one until the reward comes, not for anybody else.
    `np.asarray(actions)` is the array of arms.

    Attributes:
        arms: (n,) the arms, or the places in each person's decision set; -1 for a point of a box.
        tickets: (n,) as in the module's table.
        policy: the policy that chose them, or its digest where they were read from a message.
        points: (n, d) the points chosen, where actions are points.
    """

    kind: ClassVar[str] = "actions"
    facts: ClassVar[tuple[str, ...]] = ()  # a repr shows none of what was chosen

    arms: Annotated[IntArray, Shape("n"), Range(-1, TICKETS - 1)]
    tickets: Annotated[TicketArray, Shape("n"), Range(0, TICKETS - 1)]
    policy: Policy[Any] | str
    points: Annotated[FloatArray, Shape("n", "d")] | None = None

    def __post_init__(self) -> None:
        """Nothing: `report` looks at them once it knows their policy, and refuses nothing of a
        person whose reports are private."""

    def __len__(self) -> int:
        return len(self.arms)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.arms, dtype=dtype, copy=copy if copy is not None else True)

    def __getitem__(self, people: slice | IntArray) -> Actions:
        points = None if self.points is None else self.points[people]
        return Actions(self.arms[people], self.tickets[people], self.policy, points)

    @property
    def digest(self) -> str:
        """The digest of the policy that chose them."""
        return self.policy if isinstance(self.policy, str) else self.policy.digest

    def check_policy(self, policy: Policy[Any]) -> None:
        """`InvalidInput` unless `policy` chose these actions; looks at the two policies only."""
        if self.policy is not policy and self.digest != policy.digest:
            raise InvalidInput(
                f"the actions were chosen by another policy than this version {policy.version} of "
                f"{policy.kind} (digest {self.digest:.12}.., here {policy.digest:.12}..); report "
                "under the policy that chose them: keep it with the actions until the reward comes."
            )

    def to_fields(self) -> dict[str, Any]:
        """The fields as JSON values, with the digest of the policy in its place."""
        return fields_to_json(replace(self, policy=self.digest))


@dataclass(frozen=True)
class Reports(Message):
    """Reports of n people who acted under one version of a policy.

    Attributes:
        policy_version: the version of the policy that made them.
        source: the identity of the learner whose policy it was (`Policy.learner_id`).
        noise: the name of the noise source that protects them, as their side declares it.
    """

    facts: ClassVar[tuple[str, ...]] = ("policy_version", "source", "noise")

    policy_version: Annotated[int, Range(0, TICKETS - 1)]
    source: str
    noise: NoiseName
    # Which visits add rows of 0 (visits.py); None for none. Of this machine, in no message.
    silent: ClassVar[BoolArray | None] = None

    @abstractmethod
    def __len__(self) -> int: ...

    def silencing(self, visits: BoolArray) -> Self:
        """The same reports, of which some of the n visits add rows of 0."""
        made = copy(self)
        object.__setattr__(made, "silent", visits)
        return made


@dataclass(frozen=True)
class Policy(Offer, Generic[H]):
    """One published release of what has been learnt; public, and the same for everyone.

    `H` is what `_read` makes of the contexts of people: it has a length.
    """

    @property
    def reports_are_private(self) -> bool:
        """Whether reports are private when they leave a person (see `report`)."""
        return False

    def act(
        self, contexts: Any, rng: np.random.Generator, terms: Terms | None = None
    ) -> tuple[Actions, FloatArray]:
        """Choose an action for each person.

        Args:
            contexts: what people bring: contexts (n, d) in the units of `domain`; decision sets
                (n, candidates, d), or a list of them; or the number of people where what can be
                chosen is the same for everyone.
            rng: draws the tickets; it needs no secrecy.
            terms: what the person's side agreed to; a policy on other terms is refused before
                `contexts` is looked at.

        Returns:
            The actions, and the (n,) probabilities with which they were chosen.

        Raises:
            InvalidInput: contexts of the wrong shape, empty, not finite or outside the domain.
        """
        if terms is not None:
            terms.check(self)
        people = self._read(contexts)
        if not isinstance(rng, np.random.Generator):
            raise InvalidInput(f"rng was {type(rng).__name__}; pass numpy.random.default_rng().")
        tickets = rng.integers(TICKETS, size=len(people), dtype=np.uint64)
        return self._act(people, tickets)

    def report(
        self,
        contexts: Any,
        actions: Actions,
        rewards: ArrayLike,
        noise: NoiseSource,
        terms: Terms | None = None,
    ) -> Reports:
        """Turn what happened to each person into what the learner may see.

        Draw a report once, keep it, and send the same bytes again if sending fails: a second draw
        is a second report and costs a second epsilon. Actions, propensities and the messages of
        errors concern one person and stay on their side.

        The actions must come from this very policy, which is checked before anything else. Where
        reports are private when they leave a person (`reports_are_private`), nothing after that is
        refused for what a context, arm or reward is, because silence is not private: a value that
        the policy does not allow counts as the nearest one that it does, and NaN as the middle of
        its bounds. Otherwise such values are refused.

        Args:
            contexts: as given to `act`.
            actions: what `act` returned for them.
            rewards: (n,), within `reward_bounds`.
            noise: the source of the randomness that protects them. Where people trust the learner
                with what happened (joint privacy), `Unprotected()`.
            terms: what the person's side agreed to; a policy on other terms is refused. Required
                with `SecureNoise`, because a learner is not trusted with its own promise.

        Raises:
            InvalidInput: actions of another policy, other terms, arrays of the wrong shape or type,
                or, from people who trust the learner, values outside their bounds.
        """
        check_reporting(self, noise, terms)
        if not isinstance(actions, Actions):
            raise InvalidInput(
                f"actions was {type(actions).__name__}; pass the Actions that act() returned, "
                "because they carry the tickets."
            )
        actions.check_policy(self)
        least, most = self._arm_range
        if self.reports_are_private:
            people = self._nearest(contexts)
            scaled = self.reward_bounds.nearest_unit(rewards, len(people))
            arms = nearest_whole(actions.arms, "actions.arms", least, most, len(people))
        else:
            people = self._read(contexts)
            scaled = self.reward_bounds.to_unit(rewards, len(people))
            arms = whole_vector(actions.arms, "actions.arms", least, most, len(people))
        tickets = whole_vector(actions.tickets, "actions.tickets", 0, TICKETS - 1, len(people))
        checked = replace(actions, arms=arms, tickets=tickets.astype(np.uint64), policy=self)
        return self._report(people, checked, scaled, noise)

    @property
    @abstractmethod
    def _arm_range(self) -> tuple[int, int]:
        """The least and the largest number in `Actions.arms`."""

    @abstractmethod
    def _read(self, contexts: Any) -> H:
        """Contexts of people, checked."""

    @abstractmethod
    def _nearest(self, contexts: Any) -> H:
        """Contexts of people, each value moved to the nearest that is allowed."""

    @abstractmethod
    def _act(self, people: H, tickets: TicketArray) -> tuple[Actions, FloatArray]:
        """Actions and propensities for checked people."""

    @abstractmethod
    def _report(
        self, people: H, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> Reports:
        """Reports from people, arms and tickets within their bounds, and rewards in [0, 1]."""

    def as_it_is(self, data: str) -> Release:
        """The record of a report that holds `data` without protection."""
        return Release(
            mechanism="none: the observation as it is, for a learner that is trusted",
            event=PureEvent(float("inf")),
            sensitivity=1.0,
            sensitivity_source="nothing is protected before the learner releases it",
            scale=0.0,
            people=self.group,
            data=data,
            noise=NO_NOISE,
        )


@dataclass(frozen=True)
class ArmPolicy(Policy[FloatArray]):
    """A policy that chooses one of K arms for a context.

    Attributes:
        arms: the number of arms K.
    """

    arms: Annotated[int, Range(2)]

    @property
    def space(self) -> ActionSpace:
        return self.arms

    @property
    def _arm_range(self) -> tuple[int, int]:
        return 0, self.arms - 1

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """(n, K) the probability of each arm for each context (n, d); for maps and evaluation.

        Raises:
            InvalidInput: as `act`.
        """
        return self._probabilities(self.domain.to_unit(contexts))

    def chances(self, unit: FloatArray) -> FloatArray:
        """(n, K) as `probabilities`, at points of [0, 1]^d, even where nobody comes from."""
        return self.probabilities(self.domain.from_unit(unit))

    def _read(self, contexts: Any) -> FloatArray:
        return self.domain.people_to_unit(contexts)

    def _nearest(self, contexts: Any) -> FloatArray:
        return self.domain.nearest_unit(contexts)

    def _act(self, people: FloatArray, tickets: TicketArray) -> tuple[Actions, FloatArray]:
        arms, propensities = self._choose(people, tickets)
        return Actions(arms, tickets, self), propensities

    @abstractmethod
    def _probabilities(self, unit: FloatArray) -> FloatArray:
        """Probabilities of arms for checked contexts in [0, 1]^d."""

    def _choose(self, unit: FloatArray, tickets: TicketArray) -> tuple[IntArray, FloatArray]:
        """Arms and propensities for checked contexts in [0, 1]^d."""
        return self._drawn(self._probabilities(unit), tickets)

    def _drawn(self, shares: FloatArray, tickets: TicketArray) -> tuple[IntArray, FloatArray]:
        """(n,) an arm for each row of shares (n, K), and its share."""
        place = np.zeros(len(shares), dtype=np.int64)
        uniforms = public_uniforms(self.public_seed, self.version, tickets, place)
        # The last arm with a probability above 0 is reached whatever was lost in rounding.
        beyond = np.cumsum(shares, axis=1) <= uniforms[:, None]
        last = self.arms - 1 - np.argmax(shares[:, ::-1] > 0.0, axis=1)
        arms = np.minimum(beyond.sum(axis=1), last)
        return arms, shares[np.arange(len(arms)), arms]

    def _report(
        self, unit: FloatArray, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> Reports:
        """The observation as it is, for a learner that people trust."""
        origin = self.origin(NO_NOISE)
        return Observations(**origin, contexts=unit, arms=actions.arms, rewards=rewards)

    def release(self, noise: str) -> Release | None:
        return self.as_it_is("the context, the arm and the reward")


@dataclass(frozen=True)
class LocalArmPolicy(ArmPolicy):
    """A policy whose reports are private when they leave a person."""

    @property
    def reports_are_private(self) -> bool:
        return True

    @abstractmethod
    def reported(
        self,
        unit: FloatArray,
        arms: IntArray,
        rewards: FloatArray,
        tickets: TicketArray,
        noise: NoiseSource,
    ) -> Reports:
        """Reports from checked contexts in [0, 1]^d, arms, and rewards in [0, 1]."""

    def _report(
        self, unit: FloatArray, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> Reports:
        return self.reported(unit, actions.arms, rewards, actions.tickets, noise)


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
class Statistics(Message):
    """What a learner accumulates from reports; `+` is commutative and associative.

    Attributes:
        reports: how many reports are in the sum.
        noise: the names of the noise sources that protect them.
        silences: whether visits can be left out of the rows in it, each where it stands in its
            batch: in another batch its row may be rounded otherwise, and would not be 0. What is
            public in the sums counts every visit, so that it does not show whose rows are 0.
            Learners that release sums take several visits of a person only where this is so.
    """

    facts: ClassVar[tuple[str, ...]] = ("reports", "noise")

    reports: Annotated[int, Range(0)]
    noise: tuple[NoiseName, ...] = ()
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
        """`reports` and `noise` of a sum of two, as keyword arguments."""
        return {
            "reports": self.reports + other.reports,
            "noise": tuple(sorted({*self.noise, *other.noise})),
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
