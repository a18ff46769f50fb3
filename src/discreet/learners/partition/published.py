"""Algorithm 2 of Ma et al. (2025), with the paper's mechanism and rules (eqs (8) to (17)).

Every person reports, for every active bin and every arm active in it, the pair U, V with
Laplace(4 / epsilon) noise, whether they are in the bin or not. It is kept as published for
comparison; `Partition` loses about ten times less at the same epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self, Unpack

import numpy as np

from discreet.action_space import ArmPoints
from discreet.domain import Box
from discreet.learners.base import Common
from discreet.learners.messages import Actions, Reports
from discreet.learners.partition.bins import Bins
from discreet.learners.partition.elimination import (
    CellSums,
    EliminationLearner,
    EliminationPolicy,
)
from discreet.privacy import Local, NoiseSource, Release
from discreet.privacy.accounting import PureEvent
from discreet.privacy.frequency import LaplaceOnCells
from discreet.privacy.noise import laplace_epsilon
from discreet.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    InvalidInput,
    positive_number,
    read_array,
)


@dataclass(frozen=True, eq=False)
class LaplaceReports(Reports):
    """Noisy U and V of n people.

    Attributes:
        values: (n, 2C) for the C active (bin, arm) pairs, C columns of U and then C of V.
    """

    kind: ClassVar[str] = "laplace-reports"

    values: FloatArray

    def __len__(self) -> int:
        return len(self.values)

    def to_fields(self) -> dict[str, Any]:
        return {
            **self.origin_fields(),
            "values": self.values.tolist(),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(
            **cls.read_origin(fields),
            values=read_array(fields["values"], "values", "number", 2),
        )


@dataclass(frozen=True, eq=False)
class PublishedPolicy(EliminationPolicy):
    """Uniform choice among active arms; Laplace noise on every active (bin, arm) pair."""

    kind: ClassVar[str] = "published-partition-policy"

    epsilon: float

    @cached_property
    def mechanism(self) -> LaplaceOnCells:
        """The noise on the active pairs of this policy."""
        return LaplaceOnCells(int(self.active.sum()), self.epsilon)

    @cached_property
    def _cell(self) -> IntArray:
        """(L, K) the number of each active pair, -1 for others."""
        cell = np.full(self.active.shape, -1)
        cell[self.active] = np.arange(self.mechanism.cells)
        return cell

    def _report(
        self, unit: FloatArray, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> LaplaceReports:
        leaves = self.leaf_of(unit)
        self.check_active(leaves, actions.arms)
        values = self.mechanism.privatise(self._cell[leaves, actions.arms], rewards, noise)
        return LaplaceReports(**self.origin(noise.name), values=values)

    def release(self, noise: str) -> Release | None:
        mechanism = self.mechanism
        return Release(
            mechanism=f"Laplace on U and V of {mechanism.cells} (bin, arm) pairs, eq. (12)",
            event=PureEvent(
                laplace_epsilon(noise, mechanism.sensitivity, mechanism.scale, 2 * mechanism.cells)
            ),
            sensitivity=mechanism.sensitivity,
            sensitivity_source="largest l1 distance of (U, V) over records at the reward bounds",
            scale=mechanism.scale,
            people=self.group,
            data="the bin of the context, the arm and the reward",
            noise=noise,
        )

    def sums(self, reports: LaplaceReports) -> CellSums:
        """What reports of this policy add; `InvalidInput` if it cannot have made them."""
        values = reports.values
        cells = self.mechanism.cells
        if values.ndim != 2 or values.shape[1] != 2 * cells or len(values) == 0:
            raise InvalidInput(
                f"reports had values of shape {values.shape}; under policy {self.version} it must "
                f"be (people, {2 * cells}) with at least one person."
            )
        # Laplace noise exceeds 60 scales with probability e^-60; one such value could undo
        # everything that others reported.
        most = 1.0 + 60.0 * self.mechanism.scale
        if not (np.abs(values) <= most).all():
            raise InvalidInput(
                f"reports had NaN or values beyond {most:g}, which this policy's noise does not "
                "reach; send them as the policy made them."
            )
        result = CellSums.zeros(len(self.tree), self.arms)
        leaf, arm = np.nonzero(self.active)
        node = self.tree.leaves[leaf]
        total = values.sum(axis=0)
        result.chosen[node, arm] = total[:cells]
        result.rewards[node, arm] = total[cells:]
        result.times[self.tree.leaves] = len(values)
        return replace(result, reports=len(values))

    def to_fields(self) -> dict[str, Any]:
        return {**super().to_fields(), "epsilon": self.epsilon}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        header = cls.read_header(fields)
        bins = Bins.from_fields(fields, header["domain"].dimension, header["arms"])
        return cls(**header, **vars(bins), epsilon=positive_number(fields["epsilon"], "epsilon"))


class PublishedPartition(EliminationLearner[PublishedPolicy, LaplaceReports]):
    """The paper's learner.

    With sums U and V over the t people since a leaf was made: estimate V / U (13), radius
    r = sqrt(C_n max(t / epsilon^2, U)) / |U| with C_n = confidence_constant x log(n) (14). An arm
    is given up once t >= log(n)^2 and its upper bound estimate + 2 r lies below another's
    estimate - 2 r (16); a leaf is split when r < 2 sqrt(d) 2^(-depth/d) for an active arm (17).

    Args:
        confidence_constant: c in C_n = c log(n); the paper leaves its value to the supplement.
        horizon, batch_size: see `EliminationLearner`; a batch of 1 is Algorithm 2 to the letter.
    """

    name: ClassVar[str] = "published_partition"
    trust_models: ClassVar[tuple[str, ...]] = ("local",)
    reports_type = LaplaceReports

    def __init__(
        self,
        domain: Box,
        arms: int | ArmPoints,
        budget: Local,
        *,
        confidence_constant: float = 1.0,
        batch_size: int = 100,
        **common: Unpack[Common],
    ) -> None:
        self.confidence_constant = positive_number(confidence_constant, "confidence_constant")
        super().__init__(domain, arms, budget, batch_size=batch_size, **common)
        self._log_horizon = math.log(max(self.expected, 2))

    def _publish(self) -> PublishedPolicy:
        self._decide()
        return PublishedPolicy(
            **self.policy_header(),
            tree=self._bins.tree,
            active=self._bins.active,
            epsilon=self.budget.epsilon,
        )

    def _statistics(self, policy: PublishedPolicy, reports: LaplaceReports) -> CellSums:
        return policy.sums(reports)

    def _radius(self, leaves: IntArray, sums: CellSums) -> FloatArray:
        """(L, K) eq. (14), infinity where nothing is known or the arm is given up."""
        chosen, times = sums.chosen[leaves], sums.times[leaves][:, None]
        spread = np.maximum(times / self.budget.epsilon**2, chosen)
        constant = self.confidence_constant * self._log_horizon
        known = self._bins.active & (chosen != 0.0)
        radius = np.full(chosen.shape, np.inf)
        np.divide(np.sqrt(constant * spread), np.abs(chosen), out=radius, where=known)
        return radius

    def _beaten(self, leaves: IntArray, sums: CellSums) -> BoolArray:
        radius = self._radius(leaves, sums)
        chosen = sums.chosen[leaves]
        estimate = np.divide(
            sums.rewards[leaves], chosen, out=np.zeros_like(chosen), where=chosen != 0.0
        )
        lower = np.where(np.isfinite(radius), estimate - 2.0 * radius, -np.inf)
        upper = np.where(np.isfinite(radius), estimate + 2.0 * radius, np.inf)
        explored = sums.times[leaves] >= self._log_horizon**2
        beaten: BoolArray = (upper < lower.max(axis=1, keepdims=True)) & explored[:, None]
        return beaten

    def _known(self, leaves: IntArray, sums: CellSums) -> BoolArray:
        dimension = self.domain.dimension
        depth = self._bins.tree.depth[leaves]
        error = 2.0 * math.sqrt(dimension) * 2.0 ** (-depth / dimension)
        sharp = self._radius(leaves, sums) < error[:, None]
        return np.asarray(sharp.any(axis=1))

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "confidence_constant": self.confidence_constant}
