"""Adaptively binned successive elimination, not private (Perchet and Rigollet 2013)."""

from __future__ import annotations

from typing import ClassVar, Unpack

import numpy as np

from discreet.learners.base import Common
from discreet.learners.messages import Observations
from discreet.papers.ma2025.learners.published_partition import (
    CellSums,
    EliminationLearner,
    EliminationPolicy,
)
from discreet.people.domain import Arms, Box
from discreet.privacy import NonPrivate
from discreet.validation import BoolArray, FloatArray, IntArray, InvalidInput, positive_number


class Abse(EliminationLearner[Observations]):
    """Successive elimination in dyadic bins that are split once they are known.

    With tau the least number of pulls of an active arm in a leaf B and `n |B|` the people expected
    there, `U(tau) = 2 sqrt(2 max(1, log(n |B| / tau)) / tau)`. An arm is given up when its mean
    lies `confidence_multiplier` x U below the best; B is split when U <= 2 c_0 side(B), where side
    is `|B|^(1/d)`. Instead of pulling arms in turn, the policy draws them uniformly.

    Args:
        smoothness: c_0, the Lipschitz constant that the splitting rule assumes.
        confidence_multiplier: 1 as in the paper; smaller values eliminate earlier.
        horizon, batch_size: see `EliminationLearner`.
    """

    name: ClassVar[str] = "abse"
    trust_models: ClassVar[tuple[str, ...]] = ("none",)
    reports_type = Observations

    def __init__(
        self,
        domain: Box,
        arms: Arms,
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

    def _statistics(self, policy: EliminationPolicy, reports: Observations) -> CellSums:
        people, (contexts, arms) = len(reports), (reports.contexts, reports.arms)
        if people == 0 or contexts.shape[1] != self.domain.dimension or arms.max() >= self.arms:
            raise InvalidInput(
                f"reports had contexts of shape {contexts.shape} and arms up to "
                f"{arms.max(initial=-1)}; they must have at least one person, "
                f"{self.domain.dimension} columns, and arms below {self.arms}."
            )
        tree, leaves = policy.bins.tree, policy.bins.leaf_of(contexts)
        gone = ~policy.bins.active[leaves, arms]
        if gone.any():
            first = int(np.argmax(gone))
            raise InvalidInput(
                f"reports had arm {arms[first]} at position {first}, which policy {policy.version} "
                "no longer offers to that context; report only actions that this policy chose."
            )
        shape, cell = (len(tree), self.arms), tree.leaves[leaves] * self.arms + arms
        weights = np.ones(people), reports.rewards
        sums = [np.bincount(cell, weight, shape[0] * shape[1]).reshape(shape) for weight in weights]
        chosen, rewards = np.asarray(sums, dtype=np.float64)
        times = np.zeros(len(tree))
        times[tree.leaves] = people
        return CellSums(times, chosen, rewards, reports=people)

    def _width(self, leaves: IntArray, sums: CellSums) -> FloatArray:
        """(L,) U(tau), infinity where an active arm was never pulled."""
        pulls = np.where(self._bins.active, sums.chosen[leaves], np.inf).min(axis=1)
        expected = self.expected * 2.0 ** -self._bins.tree.depth[leaves].astype(np.float64)
        with np.errstate(divide="ignore"):
            log = np.maximum(1.0, np.log(expected / pulls))
            width: FloatArray = 2.0 * np.sqrt(2.0 * log / pulls)
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
        return self._width(leaves, sums) <= 2.0 * self.smoothness * side
