"""What crosses between people and a learner: policies, actions, reports, statistics that add.

All of it is public or private already. schema.py turns messages into JSON and back.

| array        | shape  | meaning                                                           |
|--------------|--------|-------------------------------------------------------------------|
| contexts     | (n, d) | one person a row, in the units of the policy's domain             |
| arms         | (n,)   | arms chosen, 0 .. K - 1; or places in decision sets               |
| points       | (n, d) | points chosen, where an action is a point of the domain           |
| propensities | (n,)   | the probability with which that arm was chosen for that context   |
| tickets      | (n,)   | public numbers below 2^53, drawn without looking at the person    |
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sized
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.action_space import ActionSpace
from discreet.domain import Box, RewardBounds
from discreet.learners.terms import Terms, check_reporting
from discreet.privacy import NoiseSource, OnceEach, Release
from discreet.privacy.accounting import PureEvent
from discreet.privacy.noise import NO_NOISE, check_noise_name
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    TicketArray,
    freeze_arrays,
    nearest_whole,
    read_array,
    whole_number,
    whole_vector,
)

# JSON readers in browsers hold whole numbers exactly up to here.
TICKETS = 2**53

# Long enough for any identity; whoever sends a longer one wants to fill somebody's memory.
_LONGEST_IDENTITY = 100

H = TypeVar("H", bound=Sized)


class Message(ABC):
    """What crosses between people and learner; schema.py turns it into JSON and back."""

    kind: ClassVar[str]
    kinds: ClassVar[dict[str, type[Message]]] = {}

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "kind" in cls.__dict__:
            Message.kinds[cls.kind] = cls

    @abstractmethod
    def to_fields(self) -> dict[str, Any]:
        """The message as JSON values."""

    @classmethod
    @abstractmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        """The inverse of `to_fields`; `InvalidInput` for fields that are missing or wrong."""


def check_learner_id(value: object) -> str:
    """An identity of a learner: text that is not empty."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_IDENTITY:
        raise InvalidInput(
            f"the identity of a learner was {value!r:.80}; it must be text of 1 to "
            f"{_LONGEST_IDENTITY} characters. Leave it out for a random one."
        )
    return value


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

    arms: IntArray
    tickets: TicketArray
    policy: Policy[Any] | str
    points: FloatArray | None = None

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
        return {
            "arms": self.arms.tolist(),
            "tickets": self.tickets.tolist(),
            "policy": self.digest,
            "points": None if self.points is None else self.points.tolist(),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        tickets = whole_vector(fields["tickets"], "tickets", 0, TICKETS - 1)
        arms = whole_vector(fields["arms"], "arms", -1, TICKETS - 1, len(tickets))
        digest, points = fields["policy"], fields["points"]
        if not isinstance(digest, str):
            raise InvalidInput(f"policy was {digest!r:.80}; it must be the digest of a policy.")
        if points is not None:
            points = read_array(points, "points", "number", 2)
            if len(points) != len(arms):
                raise InvalidInput(
                    f"points had {len(points)} rows for {len(arms)} arms; send actions as made."
                )
        return cls(arms, tickets.astype(np.uint64), digest, points)


@dataclass(frozen=True)
class Reports(Message):
    """Reports of n people who acted under one version of a policy.

    Attributes:
        policy_version: the version of the policy that made them.
        source: the identity of the learner whose policy it was (`Policy.learner_id`).
        noise: the name of the noise source that protects them, as their side declares it.
    """

    policy_version: int
    source: str
    noise: str

    @abstractmethod
    def __len__(self) -> int: ...

    def origin_fields(self) -> dict[str, Any]:
        """The fields that all reports share, as JSON values."""
        return {
            "policy_version": self.policy_version,
            "source": self.source,
            "noise": self.noise,
        }

    @staticmethod
    def read_origin(fields: dict[str, Any]) -> dict[str, Any]:
        """The inverse of `origin_fields`, as keyword arguments."""
        if not isinstance(fields["source"], str):
            raise InvalidInput(f"source was {fields['source']!r:.80}; it must be text.")
        return {
            "policy_version": whole_number(fields["policy_version"], "policy_version"),
            "source": fields["source"],
            "noise": check_noise_name(fields["noise"]),
        }


@dataclass(frozen=True)
class Policy(Message, Generic[H]):
    """One published release of what has been learnt; public, and the same for everyone.

    `H` is what `_read` makes of the contexts of people: it has a length.

    Attributes:
        version: 0 for the first policy of a learner, then 1, 2, ...
        learner_id: the identity of the learner that published it.
        domain: the public bounds of contexts, or of points where actions are points.
        reward_bounds: the public bounds of rewards.
        public_seed: with a ticket it fixes everything that is random but public.
    """

    version: int
    learner_id: str
    domain: Box
    reward_bounds: RewardBounds
    public_seed: int

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @property
    @abstractmethod
    def space(self) -> ActionSpace:
        """What can be chosen: the number of arms, or points."""

    @property
    def title(self) -> str:
        """What messages call this policy."""
        return f"policy {self.version}"

    @property
    def reports_are_private(self) -> bool:
        """Whether reports are private when they leave a person (see `report`)."""
        return False

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the policy as it is sent: two policies that differ have two digests."""
        fields = {"kind": self.kind, **self.to_fields()}
        text = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

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
        checked = Actions(arms, tickets.astype(np.uint64), self, actions.points)
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

    @abstractmethod
    def release(self, noise: str) -> Release | None:
        """The record of one report under this policy; None where nothing of a person is used."""

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

    @property
    def group(self) -> OnceEach:
        """The group of releases of which each person enters one: the reports to this learner."""
        return OnceEach(f"one report to learner {self.learner_id}")

    def origin(self, noise: str) -> dict[str, Any]:
        """`policy_version`, `source` and `noise` of a report, as keyword arguments."""
        return {"policy_version": self.version, "source": self.learner_id, "noise": noise}

    def header(self) -> dict[str, Any]:
        """The fields that all policies share, as JSON values."""
        return {
            "version": self.version,
            "learner_id": self.learner_id,
            "domain": self.domain.to_dict(),
            "reward_bounds": [self.reward_bounds.lower, self.reward_bounds.upper],
            "public_seed": self.public_seed,
        }

    @staticmethod
    def read_header(fields: dict[str, Any]) -> dict[str, Any]:
        """The inverse of `header`, as keyword arguments of a policy."""
        return {
            "version": whole_number(fields["version"], "version", maximum=TICKETS - 1),
            "learner_id": check_learner_id(fields["learner_id"]),
            "domain": Box.from_dict(fields["domain"]),
            "reward_bounds": RewardBounds(*fields["reward_bounds"]),
            "public_seed": whole_number(fields["public_seed"], "public_seed", maximum=TICKETS - 1),
        }


@dataclass(frozen=True)
class ArmPolicy(Policy[FloatArray]):
    """A policy that chooses one of K arms for a context.

    Attributes:
        arms: the number of arms K.
    """

    arms: int

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

    @abstractmethod
    def _choose(self, unit: FloatArray, tickets: TicketArray) -> tuple[IntArray, FloatArray]:
        """Arms and propensities for checked contexts in [0, 1]^d."""

    def header(self) -> dict[str, Any]:
        return {**super().header(), "arms": self.arms}

    @staticmethod
    def read_header(fields: dict[str, Any]) -> dict[str, Any]:
        return {
            **Policy.read_header(fields),
            "arms": whole_number(fields["arms"], "arms", minimum=2),
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class Statistics(Message):
    """What a learner accumulates from reports; `+` is commutative and associative.

    Attributes:
        reports: how many reports are in the sum.
        noise: the names of the noise sources that protect them.
    """

    reports: int
    noise: tuple[str, ...] = ()

    @abstractmethod
    def __add__(self, other: Self) -> Self: ...

    def tally(self, other: Statistics) -> dict[str, Any]:
        """`reports` and `noise` of a sum of two, as keyword arguments."""
        return {
            "reports": self.reports + other.reports,
            "noise": tuple(sorted({*self.noise, *other.noise})),
        }

    def tally_fields(self) -> dict[str, Any]:
        """`reports` and `noise` as JSON values."""
        return {"reports": self.reports, "noise": list(self.noise)}

    @staticmethod
    def read_tally(fields: dict[str, Any]) -> dict[str, Any]:
        """The inverse of `tally_fields`, as keyword arguments."""
        return {
            "reports": whole_number(fields["reports"], "reports"),
            "noise": tuple(check_noise_name(name) for name in fields["noise"]),
        }
