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

from abc import abstractmethod
from collections.abc import Sequence, Sized
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.codec import Range, Shape, fields_to_json
from discreet.learners.public_randomness import TICKETS, public_uniforms
from discreet.learners.schema import Message
from discreet.learners.statistics import Statistics, Totals
from discreet.learners.terms import NoiseName, Offer, Terms, check_reporting
from discreet.people.domain import ActionSpace, arm_count, whole_names
from discreet.privacy import NoiseSource, Release
from discreet.privacy.accounting import PureEvent
from discreet.privacy.noise import NO_NOISE
from discreet.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    InvalidInput,
    TicketArray,
    nearest_whole,
    whole_vector,
)

__all__ = [
    "TICKETS",
    "Actions",
    "ArmPolicy",
    "Message",
    "NoiseName",
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
    def names(self) -> NDArray[np.str_]:
        """(n,) the arms by name; by number, as texts, where nobody named them.

        Raises:
            InvalidInput: where actions are points, or were read from a message, which holds no
                more of their policy than its digest: there ask `policy.names_of(actions)`.
        """
        if isinstance(self.policy, str):
            raise InvalidInput(
                "these actions were read from a message, which holds no names of arms; ask "
                "policy.names_of(actions), with the policy that chose them."
            )
        return self.policy.names_of(self)

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
                "batches had different arrays, such as tickets in some and none in others; join "
                "what one policy made."
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

    def silencing(self, visits: BoolArray) -> Self:
        """The same reports, of which some of the n visits more add rows of 0."""
        made = copy(self)
        silent = visits if self.silent is None else self.silent | visits
        object.__setattr__(made, "silent", silent)
        return made


@dataclass(frozen=True)
class Policy(Offer, Generic[H]):
    """One published release of what has been learnt; public, and the same for everyone.

    `H` is what `_read` makes of the contexts of people: it has a length.
    """

    # Whether reports say the same whoever chose the action.
    takes_any_arms: ClassVar[bool] = False

    @property
    def reports_are_private(self) -> bool:
        """Whether reports are private when they leave a person (see `report`)."""
        return False

    def names_of(self, actions: Actions) -> NDArray[np.str_]:
        """(n,) the names of arms that this policy chose (`Actions.names`)."""
        actions.check_policy(self)
        count = arm_count(self.space)
        if count is None:
            raise InvalidInput("the actions are points, which have no names; see actions.points.")
        arms = whole_vector(actions.arms, "actions.arms", 0, count - 1)
        names: NDArray[np.str_] = np.array(self.arm_names or [str(arm) for arm in range(count)])
        return names[arms]

    def act(
        self,
        contexts: Any,
        rng: np.random.Generator,
        terms: Terms | None = None,
        *,
        nearest: bool = False,
    ) -> tuple[Actions, FloatArray]:
        """Choose an action for each person.

        Args:
            contexts: what people bring: contexts (n, d) in the units of `domain`; decision sets
                (n, candidates, d), or a list of them; or the number of people where what can be
                chosen is the same for everyone.
            rng: draws the tickets; it needs no secrecy.
            terms: what the person's side agreed to; a policy on other terms is refused before
                `contexts` is looked at.
            nearest: whether a value that the policy does not allow counts as the nearest one that
                it does, as in a private report, instead of being refused.

        Returns:
            The actions, and the (n,) probabilities with which they were chosen.

        Raises:
            InvalidInput: contexts of the wrong shape, empty, not finite or outside the domain.
        """
        if terms is not None:
            terms.check(self)
        people = self._nearest(contexts) if nearest else self._read(contexts)
        if not isinstance(rng, np.random.Generator):
            raise InvalidInput(f"rng was {type(rng).__name__}; pass numpy.random.default_rng().")
        tickets = rng.integers(TICKETS, size=len(people), dtype=np.uint64)
        return self._act(people, tickets)

    def report(
        self,
        contexts: Any,
        actions: Actions | ArrayLike,
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
            actions: what `act` returned for them. Under a policy that `takes_any_arms` also (n,)
                arms that somebody else chose, by name or number.
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
            actions = self._of_others(actions)
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

    def _of_others(self, arms: Any) -> Actions:
        """Arms that somebody else chose as actions; refused by policies whose reports are read by
        how they choose arms themselves."""
        if not self.takes_any_arms:
            raise InvalidInput(
                f"actions was {type(arms).__name__}; pass the Actions that act() returned, because "
                "they carry the tickets, by which reports are read. From actions that somebody "
                "else chose local_kernel learns through open_source(); policies of sources take "
                "names and numbers of arms."
            )
        count = arm_count(self.space) or 0
        numbers = whole_names(arms, self.arm_names, count)
        return Actions(numbers, np.zeros(len(numbers), dtype=np.uint64), self)

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
