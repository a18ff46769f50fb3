"""Binned successive elimination: what ABSE and the published private learner have in common.

Both keep a dyadic partition in which every leaf has a set of active arms, choose uniformly among
them (eq. (8) of Ma et al. 2025), give up arms whose confidence interval lies below another's, and
start a leaf afresh when it is split. They differ in what a report holds and in the two rules.

| array   | shape  | sum over the people who took part while the node was a leaf          |
|---------|--------|----------------------------------------------------------------------|
| times   | (N,)   | 1 (t_s^j of eq. (9))                                                 |
| chosen  | (N, K) | U, the indicator that the person was in the node and got the arm     |
| rewards | (N, K) | V, their reward where U is 1                                         |

with noise on U and V where the reports are private.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, TypeVar, Unpack

import numpy as np

from discreet.action_space import ArmPoints
from discreet.codec import Shape
from discreet.domain import Box
from discreet.learners.base import ArmLearner, Common
from discreet.learners.messages import ArmPolicy, Reports, Statistics
from discreet.learners.partition.policy import BinOffer
from discreet.learners.partition.tree import Bins, splittable
from discreet.learners.public_randomness import public_uniforms
from discreet.privacy import Budget
from discreet.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    InvalidInput,
    TicketArray,
    whole_number,
)


@dataclass(frozen=True, eq=False)
class CellSums(Statistics):
    """See the module's table."""

    kind: ClassVar[str] = "cell-sums"

    times: Annotated[FloatArray, Shape("N")]
    chosen: Annotated[FloatArray, Shape("N", "K")]
    rewards: Annotated[FloatArray, Shape("N", "K")]

    @classmethod
    def zeros(cls, nodes: int, arms: int) -> CellSums:
        """No report at all."""
        return cls(np.zeros(nodes), np.zeros((nodes, arms)), np.zeros((nodes, arms)), reports=0)

    def grown(self, nodes: int) -> CellSums:
        """The same sums for a tree that has more nodes by now."""
        more = nodes - len(self.times)
        if more <= 0:
            return self
        pad = [(0, more), (0, 0)]
        return replace(
            self,
            times=np.pad(self.times, (0, more)),
            chosen=np.pad(self.chosen, pad),
            rewards=np.pad(self.rewards, pad),
        )

    def __add__(self, other: CellSums) -> CellSums:
        nodes = max(len(self.times), len(other.times))
        return Statistics.__add__(self.grown(nodes), other.grown(nodes))


@dataclass(frozen=True, eq=False)
class EliminationPolicy(BinOffer, ArmPolicy):
    """Choose uniformly among the active arms of the leaf that holds the context."""

    def _probabilities(self, unit: FloatArray) -> FloatArray:
        active = self.active[self.leaf_of(unit)]
        shares: FloatArray = active / active.sum(axis=1, keepdims=True)
        return shares

    def _choose(self, unit: FloatArray, tickets: TicketArray) -> tuple[IntArray, FloatArray]:
        leaves = self.leaf_of(unit)
        active = self.active[leaves]
        count = active.sum(axis=1)
        uniforms = public_uniforms(
            self.public_seed, self.version, tickets, np.zeros(len(unit), dtype=np.int64)
        )
        rank = np.minimum((uniforms * count).astype(np.int64), count - 1)
        # The arm that is the (rank + 1)-th active one.
        arms = (np.cumsum(active, axis=1) <= rank[:, None]).sum(axis=1)
        return arms, 1.0 / count

    def check_active(self, leaves: IntArray, arms: IntArray) -> None:
        """Refuse actions with an arm that was given up in the context's leaf."""
        gone = ~self.active[leaves, arms]
        if gone.any():
            first = int(np.argmax(gone))
            raise InvalidInput(
                f"actions had arm {arms[first]} at position {first}, which policy {self.version} "
                "no longer offers to that context; report only actions that this policy chose."
            )


P = TypeVar("P", bound=EliminationPolicy)
R = TypeVar("R", bound=Reports)


class EliminationLearner(ArmLearner[P, R, CellSums]):
    """Eliminate and split after every `batch_size` reports; subclasses give the rules.

    Args:
        horizon: the number of people n, which the confidence bounds need.
        batch_size: after how many people the rules are checked.
    """

    statistics_type = CellSums
    saved = ("_bins",)
    _bins: Bins

    def __init__(
        self,
        domain: Box,
        arms: int | ArmPoints,
        budget: Budget,
        *,
        batch_size: int = 100,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(domain, arms, budget, **common)
        self._batch_size = whole_number(batch_size, "batch_size", minimum=1)
        self._bins = Bins.whole(self.domain.dimension, self.arms)
        if self.horizon is None:
            raise InvalidInput(
                f"horizon was not given; {self.name} needs the number of people, because its "
                "confidence bounds depend on it."
            )
        self.expected = self.horizon

    @property
    def batch_size(self) -> int:
        return self._batch_size

    def _check_sums(self, statistics: CellSums) -> None:
        nodes, arms = statistics.chosen.shape
        if arms != self.arms or nodes > len(self._bins.tree) or (statistics.times < 0.0).any():
            raise InvalidInput(
                f"statistics had {nodes} nodes and {arms} arms, or negative times; {self.name} has "
                f"{len(self._bins.tree)} nodes and {self.arms} arms."
            )
        if self.people + statistics.reports > self.expected:
            raise InvalidInput(
                f"the horizon ran out: {self.people + statistics.reports} reports came for a "
                f"horizon of {self.expected}; make the learner with a larger horizon."
            )

    def _empty(self) -> CellSums:
        return CellSums.zeros(1, self.arms)

    @abstractmethod
    def _beaten(self, leaves: IntArray, sums: CellSums) -> BoolArray:
        """(L, K) the active arms that another one beats, given the sums of the leaves."""

    @abstractmethod
    def _known(self, leaves: IntArray, sums: CellSums) -> BoolArray:
        """(L,) the leaves that are known well enough to be split."""

    def _decide(self) -> None:
        tree, active = self._bins.tree, self._bins.active
        leaves = tree.leaves
        sums = self._sums.grown(len(tree))
        active = active & ~self._beaten(leaves, sums)
        self._bins = Bins(tree, active)
        allowed = splittable(tree, leaves, self.domain.levels)
        chosen = self._known(leaves, sums) & allowed.any(axis=1)
        self._bins = self._bins.split(chosen, self._longest_edges(leaves, allowed))

    def _longest_edges(self, leaves: IntArray, allowed: BoolArray) -> IntArray:
        """(L,) one of the longest edges that can be halved, at public random (Algorithm 1)."""
        tree = self._bins.tree
        edges = np.where(allowed, tree.upper[leaves] - tree.lower[leaves], -1.0)
        longest = edges >= edges.max(axis=1, keepdims=True)
        lots = public_uniforms(
            self.public_seed,
            0,
            np.arange(edges.shape[1], dtype=np.uint64)[None, :],
            leaves[:, None],
        )
        chosen: IntArray = np.where(longest, lots, -1.0).argmax(axis=1)
        return chosen
