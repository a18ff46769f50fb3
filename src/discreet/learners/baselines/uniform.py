"""The baseline that learns nothing: every arm with the same probability, and no report at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from discreet.action_space import (
    ArmPoints,
    Candidates,
    DecisionSets,
    PublicBox,
    PublicSet,
)
from discreet.learners.base import Learner
from discreet.learners.messages import Actions, ArmPolicy, Reports, Statistics
from discreet.learners.points import PointPolicy, Visitors
from discreet.learners.public_randomness import public_uniforms
from discreet.privacy import NoiseSource, Release
from discreet.validation import FloatArray, IntArray, InvalidInput, TicketArray, whole_number


@dataclass(frozen=True)
class EmptyReports(Reports):
    """`count` reports in which nothing is said."""

    kind: ClassVar[str] = "empty-reports"

    count: int

    def __len__(self) -> int:
        return self.count

    def to_fields(self) -> dict[str, Any]:
        return {**self.origin_fields(), "count": self.count}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(
            **cls.read_origin(fields), count=whole_number(fields["count"], "count", minimum=1)
        )


@dataclass(frozen=True, eq=False)
class Count(Statistics):
    """How many people took part."""

    kind: ClassVar[str] = "count"

    def __add__(self, other: Count) -> Count:
        return Count(**self.tally(other))

    def to_fields(self) -> dict[str, Any]:
        return self.tally_fields()

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(**cls.read_tally(fields))


@dataclass(frozen=True)
class UniformPolicy(ArmPolicy):
    """Every arm with probability 1/K, whatever the context."""

    kind: ClassVar[str] = "uniform-policy"

    def _probabilities(self, unit: FloatArray) -> FloatArray:
        return np.full((len(unit), self.arms), 1.0 / self.arms)

    def _choose(self, unit: FloatArray, tickets: TicketArray) -> tuple[IntArray, FloatArray]:
        place = np.zeros(len(unit), dtype=np.int64)
        uniforms = public_uniforms(self.public_seed, self.version, tickets, place)
        arms = np.minimum((uniforms * self.arms).astype(np.int64), self.arms - 1)
        return arms, np.full(len(unit), 1.0 / self.arms)

    @property
    def reports_are_private(self) -> bool:
        return True

    def _report(
        self, unit: FloatArray, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> EmptyReports:
        return EmptyReports(**self.origin(noise.name), count=len(unit))

    def release(self, noise: str) -> Release | None:
        return None

    def to_fields(self) -> dict[str, Any]:
        return self.header()

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(**cls.read_header(fields))


@dataclass(frozen=True)
class UniformPointPolicy(PointPolicy):
    """Every point that is offered with the same probability (in a box: density)."""

    kind: ClassVar[str] = "uniform-point-policy"

    def _choose(self, people: Candidates, tickets: TicketArray) -> tuple[IntArray, FloatArray]:
        count = people.present.sum(axis=1)
        return self._places(tickets, count), 1.0 / count

    def _draw(self, tickets: TicketArray) -> tuple[IntArray, FloatArray, FloatArray]:
        if isinstance(self.offered, PublicSet):
            points = self.offered.array
            arms = self._places(tickets, np.full(len(tickets), len(points)))
            return arms, points[arms], np.full(len(tickets), 1.0 / len(points))
        places = np.arange(self.domain.dimension)
        unit = public_uniforms(self.public_seed, self.version, tickets[:, None], places)
        arms = np.full(len(tickets), -1)
        return arms, self.domain.from_unit(unit), np.ones(len(tickets))

    def _places(self, tickets: TicketArray, count: IntArray) -> IntArray:
        place = np.zeros(len(tickets), dtype=np.int64)
        uniforms = public_uniforms(self.public_seed, self.version, tickets, place)
        places: IntArray = np.minimum((uniforms * count).astype(np.int64), count - 1)
        return places

    @property
    def reports_are_private(self) -> bool:
        return True

    def _report(
        self, people: Visitors, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> EmptyReports:
        return EmptyReports(**self.origin(noise.name), count=len(people))

    def release(self, noise: str) -> Release | None:
        return None

    def to_fields(self) -> dict[str, Any]:
        return self.header()

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(**cls.read_header(fields))


class Uniform(Learner[UniformPolicy | UniformPointPolicy, EmptyReports, Count]):
    """Chooses every arm or point with equal probability. Its policy depends on nobody's data."""

    name: ClassVar[str] = "uniform"
    trust_models: ClassVar[tuple[str, ...]] = ("none",)
    spaces = (int, ArmPoints, DecisionSets, PublicSet, PublicBox)
    reports_type = EmptyReports
    statistics_type = Count

    def _empty(self) -> Count:
        return Count(reports=0)

    @property
    def batch_size(self) -> int:
        return 2**31

    @property
    def secret(self) -> bool:
        return False

    def _check_sums(self, statistics: Count) -> None:
        """There is nothing but a count."""

    def _publish(self) -> UniformPolicy | UniformPointPolicy:
        if isinstance(self.space, int | ArmPoints):
            arms = self.space if isinstance(self.space, int) else len(self.space)
            return UniformPolicy(**self.policy_header(), arms=arms)
        return UniformPointPolicy(**self.policy_header(), offered=self.space)

    def _statistics(
        self, policy: UniformPolicy | UniformPointPolicy, reports: EmptyReports
    ) -> Count:
        if reports.count < 1:
            raise InvalidInput("reports was empty; pass at least one report.")
        return Count(reports=reports.count)
