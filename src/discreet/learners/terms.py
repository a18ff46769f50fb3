"""What a person's side agreed to, and how a policy is held to it before any data is looked at."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar

from discreet.codec import ADDED, CheckedBy, Range, canonical, from_json, to_json
from discreet.learners.public_randomness import TICKETS
from discreet.learners.schema import Message
from discreet.people.domain import (
    ActionSpace,
    ArmNames,
    Arms,
    Box,
    RewardBounds,
    arm_count,
    check_arm_names,
    with_names,
)
from discreet.privacy import NoiseSource, OnceEach, Release, SecureNoise
from discreet.privacy.accounting import GaussianEvent, Visits, composed_epsilon
from discreet.privacy.noise import check_noise_name
from discreet.validation import InvalidInput, positive_number, probability, whole_number

# By which reports find their learner, and releases their people. Long enough for any; whoever
# sends a longer one wants to fill somebody's memory.
Identity = Annotated[str, Range(1, 100)]
# Noise sources that exist; a report may not invent one.
NoiseName = Annotated[str, CheckedBy(check_noise_name)]


@dataclass(frozen=True)
class Offer(Message):
    """Under what people report, to a learner or as a source of one; public, and one for all.

    Attributes:
        version: 0 for the first of a stream, then 1, 2, ...
        learner_id: the identity of the learner that published it.
        domain: the public bounds of contexts, or of points where actions are points.
        reward_bounds: the public bounds of rewards.
        public_seed: with a ticket it fixes everything that is random but public.
        visits: how many visits of one person the promise covers.
        arm_names: of the arms, in the order of their numbers; () where nobody named them, or where
            actions are points.
    """

    facts: ClassVar[tuple[str, ...]] = (
        "version",
        "learner_id",
        "arms",
        "column_names",
        "epsilon",
        "visits",
    )

    version: Annotated[int, Range(0, TICKETS - 1)]
    learner_id: Identity
    domain: Box
    reward_bounds: RewardBounds
    public_seed: Annotated[int, Range(0, TICKETS - 1)]
    visits: Visits = field(default=1, kw_only=True)
    arm_names: ArmNames = field(default=(), kw_only=True, metadata=ADDED)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.arm_names:
            check_arm_names(self.arm_names, arm_count(self.space) or 0)

    @property
    @abstractmethod
    def space(self) -> ActionSpace:
        """What can be chosen: the number of arms, or points."""

    @property
    def column_names(self) -> list[str]:
        """The names of the columns of a context, or of a point."""
        return list(self.domain.names)

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"policy {self.version}"

    @property
    def stream_id(self) -> str:
        """By which reports find the stream that they belong to (`Reports.source`)."""
        return self.learner_id

    @property
    def group(self) -> OnceEach:
        """The group of releases of which each visit enters one: the reports to one stream."""
        return self._group(f"learner {self.learner_id}")

    def _group(self, stream: str) -> OnceEach:
        name = "one report" if self.visits == 1 else f"{self.visits} reports"
        return OnceEach(f"{name} to {stream}", self.visits, apart=True)

    @abstractmethod
    def release(self, noise: str) -> Release | None:
        """The record of one report; None where nothing of a person is used."""

    def origin(self, noise: str) -> dict[str, Any]:
        """`policy_version`, `source` and `noise` of a report, as keyword arguments."""
        return {"policy_version": self.version, "source": self.stream_id, "noise": noise}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of it as a service sends it (`canonical`): two that differ have two digests."""
        return hashlib.sha256(canonical(self).encode()).hexdigest()


def _sha256(fields: dict[str, Any]) -> str:
    """SHA-256 of JSON values, whatever the order of their names."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Terms:
    """What a person's side agreed to before any policy came.

    Bounds and promises come with the policy, so a learner that is not honest could choose them
    such that silence, or a refusal, reveals something. Check a policy when it arrives, before any
    data is looked at; messages name public facts only.

    Attributes:
        domain: the bounds of contexts.
        arms: the number of arms, their names, or the action space. Names are agreed to as well: an
            arm under another name would be another action.
        most_epsilon: the largest epsilon of all reports of a person together.
        reward_bounds: the bounds of rewards.
        delta: the delta at which epsilon is read; 0 for pure reports.
        visits: how many reports that is about; whoever keeps a `VisitCounter` makes no more.
    """

    domain: Box
    arms: ActionSpace | Arms
    most_epsilon: float
    reward_bounds: RewardBounds = RewardBounds()  # noqa: RUF009 - frozen, so it can be shared
    delta: float = 0.0
    visits: int = 1

    def __post_init__(self) -> None:
        with_names(self.arms)  # refuses names that are no names
        positive_number(self.most_epsilon, "most_epsilon")
        whole_number(self.visits, "visits", minimum=1)
        if self.delta != 0.0:
            probability(self.delta, "delta")

    @property
    def digest(self) -> str:
        """SHA-256 of them, by which a person's side knows those that it agreed to."""
        return _sha256(self._fields())

    def to_fields(self) -> dict[str, Any]:
        """JSON values, with their digest."""
        return {**self._fields(), "sha256": self.digest}

    def _fields(self) -> dict[str, Any]:
        space, names = with_names(self.arms)
        return {
            "domain": to_json(self.domain),
            "space": to_json(space, ActionSpace),
            "arm_names": list(names),
            "most_epsilon": self.most_epsilon,
            "reward_bounds": to_json(self.reward_bounds),
            "delta": self.delta,
            "visits": self.visits,
        }

    @classmethod
    def from_fields(cls, fields: Any) -> Terms:
        """The inverse of `to_fields`.

        Raises:
            InvalidInput: for terms that are not whole, or whose digest is that of others.
        """
        try:
            space = from_json(fields["space"], ActionSpace, "space")
            names = check_arm_names(fields["arm_names"], arm_count(space))
            terms = cls(
                domain=from_json(fields["domain"], Box, "domain"),
                arms=list(names) if names and isinstance(space, int) else space,
                most_epsilon=fields["most_epsilon"],
                reward_bounds=from_json(fields["reward_bounds"], RewardBounds, "reward_bounds"),
                delta=fields["delta"],
                visits=fields["visits"],
            )
            given = fields["sha256"]
        except (KeyError, TypeError) as error:
            raise InvalidInput(f"the terms are damaged ({error!r}); fetch them again.") from error
        if given != terms.digest:
            raise InvalidInput(
                f"the terms say that their SHA-256 is {given!r:.80}, but it is {terms.digest}; "
                "fetch them again."
            )
        return terms

    def check(self, policy: Offer, noise: str = SecureNoise.name) -> None:
        """`InvalidInput` for a policy on other terms.

        Args:
            policy: of a learner or a source.
            noise: the name of the noise source that will draw: its sampler may hold a little less
                than the formulas say, and it is what counts.
        """
        space, names = with_names(self.arms)
        for name, agreed, offered in [
            ("domain", self.domain, policy.domain),
            ("arms", arm_count(space) or space, policy.space),
            ("arm_names", names, policy.arm_names),
            ("reward_bounds", self.reward_bounds, policy.reward_bounds),
            ("visits", self.visits, policy.visits),
        ]:
            if offered != agreed:
                raise InvalidInput(
                    f"{policy.title} has {name} {offered}, but this side agreed to {agreed}; do "
                    "not act or report under it."
                )
        release = policy.release(noise)
        if release is not None and isinstance(release.event, GaussianEvent) and self.delta == 0.0:
            raise InvalidInput(
                f"{policy.title} has Gaussian reports, which need a delta, but this side agreed to "
                "none; do not act or report under it."
            )
        held = (
            0.0 if release is None else composed_epsilon([release.event] * self.visits, self.delta)
        )
        if held > self.most_epsilon:
            raise InvalidInput(
                f"{policy.title} promises epsilon = {held!r}, but this side agreed to at most "
                f"{self.most_epsilon!r}; do not act or report under it."
            )


def check_reporting(offer: Offer, noise: object, terms: Terms | None) -> NoiseSource:
    """The noise source of a report, checked with its terms before any data is looked at."""
    if not isinstance(noise, NoiseSource):
        raise InvalidInput(
            f"noise was {type(noise).__name__}; pass SecureNoise() for people, or "
            "SimulatedNoise(seed) in simulations."
        )
    if terms is None and noise.secure:
        raise InvalidInput(
            "terms was not given; with SecureNoise say what this side agreed to: "
            "Terms(domain, arms, most_epsilon). Where the learner is trusted with the "
            "plain observation (joint privacy), pass Unprotected() instead."
        )
    if terms is not None:
        terms.check(offer, noise.name)
    return noise
