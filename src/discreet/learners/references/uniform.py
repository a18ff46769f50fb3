"""The baseline that learns nothing: every arm with the same probability, and empty reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from discreet.codec import Range
from discreet.learners.base import Learner
from discreet.learners.messages import Reports, Statistics, public_uniforms
from discreet.learners.policy import ArmPolicy, PointPolicy, Policy
from discreet.people.domain import (
    ArmPoints,
    Candidates,
    DecisionSets,
    PublicBox,
    PublicSet,
    arm_count,
)
from discreet.privacy import NoiseSource, Release
from discreet.validation import CoinArray, FloatArray, IntArray


@dataclass(frozen=True)
class EmptyReports(Reports):
    """`count` reports without content."""

    kind: ClassVar[str] = "empty-reports"

    count: Annotated[int, Range(1)]

    def __len__(self) -> int:
        return self.count

    def of(self, people: IntArray) -> Self:
        return replace(self, count=len(people))

    @classmethod
    def joined(cls, batches: Sequence[Self]) -> Self:
        return replace(super().joined(batches), count=sum(map(len, batches)))


@dataclass(frozen=True, eq=False)
class Count(Statistics):
    """The number of people."""

    kind: ClassVar[str] = "count"


def no_report(
    policy: Policy[Any], people: Any, actions: Any, rewards: Any, noise: NoiseSource
) -> EmptyReports:
    """`Policy._report` where nothing of a person leaves them."""
    return EmptyReports(**policy.origin(noise.name), count=len(people))


def no_release(policy: Policy[Any], noise: str) -> Release | None:
    """`Policy.release` where nothing of a person leaves them."""
    return None


def _places(policy: Policy[Any], public_coins: CoinArray, count: int | IntArray) -> IntArray:
    """(n,) one of 0 .. count - 1 for each public_coin."""
    uniforms = public_uniforms(policy.public_seed, policy.version, public_coins, np.array(0))
    return np.minimum((uniforms * count).astype(np.int64), count - 1)


@dataclass(frozen=True)
class UniformPolicy(ArmPolicy):
    """Every arm with probability 1/K, whatever the context."""

    kind: ClassVar[str] = "uniform-policy"
    reports_are_private = True
    _report = no_report  # type: ignore[assignment]
    release = no_release

    def _probabilities(self, unit: FloatArray) -> FloatArray:
        return np.full((len(unit), self.arms), 1.0 / self.arms)

    def _choose(self, unit: FloatArray, public_coins: CoinArray) -> tuple[IntArray, FloatArray]:
        return _places(self, public_coins, self.arms), np.full(len(unit), 1.0 / self.arms)


@dataclass(frozen=True)
class UniformPointPolicy(PointPolicy):
    """Every point that is offered with the same probability (in a box: density)."""

    kind: ClassVar[str] = "uniform-point-policy"
    reports_are_private = True
    _report = no_report
    release = no_release

    def _choose(self, people: Candidates, public_coins: CoinArray) -> tuple[IntArray, FloatArray]:
        count = people.present.sum(axis=1)
        return _places(self, public_coins, count), 1.0 / count

    def _draw(self, public_coins: CoinArray) -> tuple[IntArray, FloatArray, FloatArray]:
        if isinstance(self.offered, PublicSet):
            points = self.offered.array
            arms = _places(self, public_coins, len(points))
            return arms, points[arms], np.full(len(public_coins), 1.0 / len(points))
        places = np.arange(self.domain.dimension)
        unit = public_uniforms(self.public_seed, self.version, public_coins[:, None], places)
        arms = np.full(len(public_coins), -1)
        return arms, self.domain.from_unit(unit), np.ones(len(public_coins))


class Uniform(Learner[Policy[Any], EmptyReports, Count]):
    """Chooses every arm or point with equal probability; its policy depends on no data."""

    name: ClassVar[str] = "uniform"
    trust_models: ClassVar[tuple[str, ...]] = ("none",)
    spaces: ClassVar[tuple[type[Any], ...]] = (int, ArmPoints, DecisionSets, PublicSet, PublicBox)
    reports_type = EmptyReports
    statistics_type = Count
    batch_size = 2**31
    secret = False

    def _empty(self) -> Count:
        return Count(reports=0)

    def _check_sums(self, statistics: Count) -> None:
        """There is nothing but a count."""

    def _publish(self) -> UniformPolicy | UniformPointPolicy:
        if isinstance(self.space, int | ArmPoints):
            return UniformPolicy(**self.policy_header(), arms=arm_count(self.space) or 0)
        return UniformPointPolicy(**self.policy_header(), offered=self.space)

    def _statistics(self, policy: Policy[Any], reports: EmptyReports) -> Count:
        return Count(reports=reports.count)
