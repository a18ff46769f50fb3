"""Adaptively binned successive elimination, not private (Perchet and Rigollet 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Unpack

import numpy as np

from discreet.action_space import ArmPoints
from discreet.codec import Range, Shape
from discreet.domain import Box
from discreet.learners.base import Common
from discreet.learners.messages import Actions, Reports
from discreet.learners.partition.published import (
    CellSums,
    EliminationLearner,
    EliminationPolicy,
)
from discreet.privacy import NoiseSource, NonPrivate, Release
from discreet.privacy.noise import NO_NOISE
from discreet.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    InvalidInput,
    positive_number,
    whole_vector,
)


@dataclass(frozen=True, eq=False)
class PlainReports(Reports):
    """The leaf, arm and reward of n people, without any protection."""

    kind: ClassVar[str] = "plain-reports"

    leaves: Annotated[IntArray, Shape("n"), Range(0)]
    arms: Annotated[IntArray, Shape("n"), Range(0)]
    rewards: Annotated[FloatArray, Shape("n"), Range(0.0, 1.0)]

    def __len__(self) -> int:
        return len(self.leaves)


@dataclass(frozen=True, eq=False)
class AbsePolicy(EliminationPolicy):
    """Uniform choice among active arms; reports hold everything."""

    kind: ClassVar[str] = "abse-policy"

    def _report(
        self, unit: FloatArray, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> PlainReports:
        leaves = self.leaf_of(unit)
        self.check_active(leaves, actions.arms)
        return PlainReports(
            **self.origin(NO_NOISE), leaves=leaves, arms=actions.arms, rewards=rewards
        )

    def check_active(self, leaves: IntArray, arms: IntArray) -> None:
        """Refuse actions with an arm that was given up in the context's leaf."""
        gone = ~self.active[leaves, arms]
        if gone.any():
            first = int(np.argmax(gone))
            raise InvalidInput(
                f"actions had arm {arms[first]} at position {first}, which policy {self.version} "
                "no longer offers to that context; report only actions that this policy chose."
            )

    def release(self, noise: str) -> Release | None:
        return self.as_it_is("the leaf of the context, the arm and the reward")

    def sums(self, reports: PlainReports) -> CellSums:
        """What reports of this policy add; `InvalidInput` if it cannot have made them."""
        people, leaves_count = len(reports), len(self.tree.leaves)
        if people == 0:
            raise InvalidInput("reports was empty; pass at least one report.")
        leaves = whole_vector(reports.leaves, "reports.leaves", 0, leaves_count - 1, people)
        arms = whole_vector(reports.arms, "reports.arms", 0, self.arms - 1, people)
        self.check_active(leaves, arms)
        tree = self.tree
        times, shape = np.zeros(len(tree)), (len(tree), self.arms)
        chosen, total = np.zeros(shape), np.zeros(shape)
        node = tree.leaves[leaves]
        np.add.at(chosen, (node, arms), 1.0)
        np.add.at(total, (node, arms), reports.rewards)
        times[tree.leaves] = people
        return CellSums(times, chosen, total, reports=people)


class Abse(EliminationLearner[AbsePolicy, PlainReports]):
    """Successive elimination in dyadic bins that are split once they are known.

    With tau the least number of pulls of an active arm in a leaf B and n |B| the people expected
    there, U(tau) = 2 sqrt(2 max(1, log(n |B| / tau)) / tau). An arm is given up when its mean
    lies `confidence_multiplier` x U below the best; B is split when U <= 2 c_0 side(B), where side
    is |B|^(1/d). Instead of pulling arms in turn, the policy draws them uniformly.

    Args:
        smoothness: c_0, the Lipschitz constant that the splitting rule assumes.
        confidence_multiplier: 1 as in the paper; smaller values eliminate earlier.
        horizon, batch_size: see `EliminationLearner`.
    """

    name: ClassVar[str] = "abse"
    trust_models: ClassVar[tuple[str, ...]] = ("none",)
    reports_type = PlainReports

    def __init__(
        self,
        domain: Box,
        arms: int | ArmPoints,
        budget: NonPrivate,
        *,
        smoothness: float = 1.0,
        confidence_multiplier: float = 1.0,
        batch_size: int = 100,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(domain, arms, budget, batch_size=batch_size, **common)
        self.smoothness = positive_number(smoothness, "smoothness")
        self.confidence_multiplier = positive_number(confidence_multiplier, "confidence_multiplier")

    def _publish(self) -> AbsePolicy:
        self._decide()
        return AbsePolicy(**self.policy_header(), bins=self._bins)

    def _statistics(self, policy: AbsePolicy, reports: PlainReports) -> CellSums:
        return policy.sums(reports)

    def _width(self, leaves: IntArray, sums: CellSums) -> FloatArray:
        """(L,) U(tau), infinity where an active arm was never pulled."""
        pulls = np.where(self._bins.active, sums.chosen[leaves], np.inf).min(axis=1)
        expected = self.expected * 2.0 ** -self._bins.tree.depth[leaves].astype(np.float64)
        width = np.full(len(leaves), np.inf)
        seen = pulls > 0.0
        log = np.maximum(1.0, np.log(expected[seen] / pulls[seen]))
        width[seen] = 2.0 * np.sqrt(2.0 * log / pulls[seen])
        return width

    def _beaten(self, leaves: IntArray, sums: CellSums) -> BoolArray:
        pulls = np.maximum(sums.chosen[leaves], 1.0)
        mean = np.where(self._bins.active, sums.rewards[leaves] / pulls, -np.inf)
        gap = mean.max(axis=1, keepdims=True) - mean
        width = self.confidence_multiplier * self._width(leaves, sums)
        beaten: BoolArray = self._bins.active & (gap > width[:, None])
        return beaten

    def _known(self, leaves: IntArray, sums: CellSums) -> BoolArray:
        side = 2.0 ** (-self._bins.tree.depth[leaves] / self.domain.dimension)
        known: BoolArray = self._width(leaves, sums) <= 2.0 * self.smoothness * side
        return known
