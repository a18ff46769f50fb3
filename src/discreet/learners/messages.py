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

from abc import ABC, abstractmethod
from collections.abc import Sized
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.action_space import ActionSpace, arm_count
from discreet.domain import Box, RewardBounds
from discreet.privacy import NoiseSource, OnceEach, Release
from discreet.privacy.accounting import GaussianEvent, PureEvent, composed_epsilon
from discreet.privacy.noise import NO_NOISE, check_noise_name
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    TicketArray,
    freeze_arrays,
    positive_number,
    probability,
    whole_number,
    whole_vector,
)

# JSON readers in browsers hold whole numbers exactly up to here.
TICKETS = 2**53

H = TypeVar("H", bound=Sized)


@dataclass(frozen=True, eq=False)
class Actions:
    """What was chosen for n people, with the public tickets under which it was chosen.

    `np.asarray(actions)` is the array of arms.

    Attributes:
        arms: (n,) the arms, or the places in each person's decision set; -1 for a point of a box.
        tickets: (n,) as in the module's table.
        points: (n, d) the points chosen, where actions are points.
    """

    arms: IntArray
    tickets: TicketArray
    points: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.arms)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.arms, dtype=dtype, copy=copy if copy is not None else True)

    def __getitem__(self, people: slice | IntArray) -> Actions:
        points = None if self.points is None else self.points[people]
        return Actions(self.arms[people], self.tickets[people], points)


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


@dataclass(frozen=True)
class Reports(Message):
    """Reports of n people who acted under one version of a policy.

    Attributes:
        policy_version: the version of the policy that made them.
        source: the identity of the learner whose policy it was (`Policy.identity`).
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
class Terms:
    """What a person's side agreed to before any policy came.

    Bounds and promises come with the policy, so a learner that is not honest could choose them
    such that silence, or a refusal, tells something. Check a policy when it arrives, before any
    data is looked at; messages name public facts only.

    Attributes:
        domain: the bounds of contexts.
        arms: the number of arms, or the action space.
        most_epsilon: the largest epsilon of one report.
        reward_bounds: the bounds of rewards.
        delta: the delta at which epsilon is read; 0 for pure reports.
    """

    domain: Box
    arms: ActionSpace
    most_epsilon: float
    reward_bounds: RewardBounds = RewardBounds()  # noqa: RUF009 - frozen, so it can be shared
    delta: float = 0.0

    def __post_init__(self) -> None:
        positive_number(self.most_epsilon, "most_epsilon")
        if self.delta != 0.0:
            probability(self.delta, "delta")

    def check(self, policy: Policy[Any]) -> None:
        """`InvalidInput` for a policy on other terms."""
        for name, agreed, offered in [
            ("domain", self.domain, policy.domain),
            ("arms", arm_count(self.arms) or self.arms, policy.space),
            ("reward_bounds", self.reward_bounds, policy.reward_bounds),
        ]:
            if offered != agreed:
                raise InvalidInput(
                    f"policy {policy.version} has {name} {offered}, but this side agreed to "
                    f"{agreed}; do not act or report under it."
                )
        release = policy.release(NO_NOISE)
        if release is not None and isinstance(release.event, GaussianEvent) and self.delta == 0.0:
            raise InvalidInput(
                f"policy {policy.version} has Gaussian reports, which need a delta, but this side "
                "agreed to none; do not act or report under it."
            )
        held = 0.0 if release is None else composed_epsilon([release.event], self.delta)
        if held > self.most_epsilon:
            raise InvalidInput(
                f"policy {policy.version} promises epsilon = {held!r}, but this side agreed to at "
                f"most {self.most_epsilon!r}; do not act or report under it."
            )


@dataclass(frozen=True)
class Policy(Message, Generic[H]):
    """One published release of what has been learnt; public, and the same for everyone.

    `H` is what `_read` makes of the contexts of people: it has a length.

    Attributes:
        version: 0 for the first policy of a learner, then 1, 2, ...
        domain: the public bounds of contexts, or of points where actions are points.
        reward_bounds: the public bounds of rewards.
        public_seed: with a ticket it fixes everything that is random but public.
    """

    version: int
    domain: Box
    reward_bounds: RewardBounds
    public_seed: int

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @property
    @abstractmethod
    def space(self) -> ActionSpace:
        """What can be chosen: the number of arms, or points."""

    def act(self, contexts: Any, rng: np.random.Generator) -> tuple[Actions, FloatArray]:
        """Choose an action for each person.

        Args:
            contexts: what people bring: contexts (n, d) in the units of `domain`; decision sets
                (n, candidates, d), or a list of them; or the number of people where what can be
                chosen is the same for everyone.
            rng: draws the tickets; it needs no secrecy.

        Returns:
            The actions, and the (n,) probabilities with which they were chosen.

        Raises:
            InvalidInput: contexts of the wrong shape, empty, not finite or outside the domain.
        """
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

        Args:
            contexts: as given to `act`.
            actions: what `act` returned for them.
            rewards: (n,), within `reward_bounds`.
            noise: the source of the randomness that protects them. Where people trust the learner
                with what happened (joint privacy), `Unprotected()`.
            terms: what the person's side agreed to; a policy on other terms is refused. Required
                with `SecureNoise`, because a learner is not trusted with its own promise.

        Raises:
            InvalidInput: any input of the wrong shape or outside its bounds, or an action that
                this policy's ticket does not offer to that context.
        """
        if not isinstance(noise, NoiseSource):
            raise InvalidInput(
                f"noise was {type(noise).__name__}; pass SecureNoise() for people, or "
                "SimulatedNoise(seed) in simulations."
            )
        if terms is None and noise.secure:
            raise InvalidInput(
                "terms was not given; with SecureNoise say what this side agreed to: "
                "Terms(domain, arms, most_epsilon). Who trusts the learner with the plain "
                "observation (joint privacy) passes Unprotected() instead."
            )
        if terms is not None:
            terms.check(self)
        people = self._read(contexts)
        if not isinstance(actions, Actions):
            raise InvalidInput(
                f"actions was {type(actions).__name__}; pass the Actions that act() returned, "
                "because they carry the tickets."
            )
        least, most = self._arm_range
        count = len(people)
        arms = whole_vector(actions.arms, "actions.arms", least, most, count)
        tickets = whole_vector(actions.tickets, "actions.tickets", 0, TICKETS - 1, count)
        scaled = self.reward_bounds.to_unit(rewards, count)
        checked = Actions(arms, tickets.astype(np.uint64), actions.points)
        return self._report(people, checked, scaled, noise)

    @property
    @abstractmethod
    def _arm_range(self) -> tuple[int, int]:
        """The least and the largest number in `Actions.arms`."""

    @abstractmethod
    def _read(self, contexts: Any) -> H:
        """Contexts of people, checked."""

    @abstractmethod
    def _act(self, people: H, tickets: TicketArray) -> tuple[Actions, FloatArray]:
        """Actions and propensities for checked people."""

    @abstractmethod
    def _report(
        self, people: H, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> Reports:
        """Reports from checked people, arms and tickets, and rewards in [0, 1]."""

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
        return OnceEach(f"one report to {self.kind} {self.public_seed}")

    @cached_property
    def identity(self) -> str:
        """Which learner's policy this is: kind, public seed and what a report costs."""
        release = self.release(NO_NOISE)
        event = PureEvent(0.0) if release is None else release.event
        cost = (
            f"epsilon {event.epsilon!r}"
            if isinstance(event, PureEvent)
            else f"noise multiplier {event.noise_multiplier!r}"
        )
        return f"{self.kind} {self.public_seed} {cost}"

    def origin(self, noise: str) -> dict[str, Any]:
        """`policy_version`, `source` and `noise` of a report, as keyword arguments."""
        return {"policy_version": self.version, "source": self.identity, "noise": noise}

    def header(self) -> dict[str, Any]:
        """The fields that all policies share, as JSON values."""
        return {
            "version": self.version,
            "domain": self.domain.to_dict(),
            "reward_bounds": [self.reward_bounds.lower, self.reward_bounds.upper],
            "public_seed": self.public_seed,
        }

    @staticmethod
    def read_header(fields: dict[str, Any]) -> dict[str, Any]:
        """The inverse of `header`, as keyword arguments of a policy."""
        return {
            "version": whole_number(fields["version"], "version", maximum=TICKETS - 1),
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

    def _read(self, contexts: Any) -> FloatArray:
        return self.domain.people_to_unit(contexts)

    def _act(self, people: FloatArray, tickets: TicketArray) -> tuple[Actions, FloatArray]:
        arms, propensities = self._choose(people, tickets)
        return Actions(arms, tickets), propensities

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
