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
from typing import Any, ClassVar, Self, TypeVar, Unpack

import numpy as np

from discreet.action_space import ArmPoints
from discreet.domain import Box
from discreet.learners.base import ArmLearner, Common
from discreet.learners.messages import ArmPolicy, Reports, Statistics
from discreet.learners.partition.bins import Bins
from discreet.learners.partition.tree import Tree, splittable
from discreet.learners.public_randomness import public_uniforms
from discreet.privacy import Budget
from discreet.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    InvalidInput,
    TicketArray,
    read_array,
    whole_number,
)


@dataclass(frozen=True, eq=False)
class CellSums(Statistics):
    """See the module's table."""

    kind: ClassVar[str] = "cell-sums"

    times: FloatArray
    chosen: FloatArray
    rewards: FloatArray

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
        one, two = self.grown(nodes), other.grown(nodes)
        return CellSums(
            one.times + two.times,
            one.chosen + two.chosen,
            one.rewards + two.rewards,
            **self.tally(other),
        )

    def to_fields(self) -> dict[str, Any]:
        return {
            "times": self.times.tolist(),
            "chosen": self.chosen.tolist(),
            "rewards": self.rewards.tolist(),
            **self.tally_fields(),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        times = read_array(fields["times"], "times", "number", 1)
        chosen = read_array(fields["chosen"], "chosen", "number", 2)
        rewards = read_array(fields["rewards"], "rewards", "number", 2)
        if chosen.shape != rewards.shape or times.shape != chosen.shape[:1]:
            raise InvalidInput(
                f"cell sums had shapes {times.shape}, {chosen.shape} and {rewards.shape}; they "
                "must be (nodes,), (nodes, arms) and (nodes, arms)."
            )
        return cls(times, chosen, rewards, **cls.read_tally(fields))


@dataclass(frozen=True, eq=False)
class EliminationPolicy(ArmPolicy):
    """Choose uniformly among the active arms of the leaf that holds the context.

    Attributes:
        tree: the partition.
        active: (L, K) the arms that are left in each leaf.
    """

    tree: Tree
    active: BoolArray

    def regions(self) -> tuple[FloatArray, FloatArray, BoolArray]:
        """The boxes of [0, 1]^d where people are treated alike: their lower and upper corners
        (L, d), and the arms (L, K) that are left there."""
        leaves = self.tree.leaves
        return self.tree.lower[leaves], self.tree.upper[leaves], self.active

    def leaf_of(self, unit: FloatArray) -> IntArray:
        """(n,) the position among the leaves of each context of [0, 1]^d."""
        return self.tree.leaf_position[self.tree.locate(unit)]

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

    def to_fields(self) -> dict[str, Any]:
        return {
            **self.header(),
            **Bins(self.tree, self.active).to_fields(),
        }


P = TypeVar("P", bound=EliminationPolicy)
R = TypeVar("R", bound=Reports)


class EliminationLearner(ArmLearner[P, R, CellSums]):
    """Eliminate and split after every `batch_size` reports; subclasses give the rules.

    Args:
        horizon: the number of people n, which the confidence bounds need.
        batch_size: after how many people the rules are checked.
    """

    statistics_type = CellSums
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
        self._batch_size = whole_number(batch_size, "batch_size", minimum=1)
        super().__init__(domain, arms, budget, **common)
        if self.horizon is None:
            raise InvalidInput(
                f"horizon was not given; {self.name} needs the number of people, because its "
                "confidence bounds depend on it."
            )
        self.expected = self.horizon

    @property
    def batch_size(self) -> int:
        return self._batch_size

    def _options(self) -> dict[str, Any]:
        return {"batch_size": self._batch_size}

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
        self._bins = Bins.whole(self.domain.dimension, self.arms)
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

    def _state(self) -> dict[str, Any]:
        return self._bins.to_fields()

    def _restore(self, fields: dict[str, Any]) -> None:
        self._bins = Bins.from_fields(fields, self.domain.dimension, self.arms)
