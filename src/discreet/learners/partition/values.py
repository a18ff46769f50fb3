"""What the sums of `partition` say of the value of a policy (learners/values.py).

Leaves are what is believed in, and leaf averages are over the people who come there, however they
are spread within. For weights w_lk of leaf averages g = 2 f - 1 and people who are spread by masses
that are only estimated, the variance of V is the sum of

| part      | from                                                                              |
|-----------|-----------------------------------------------------------------------------------|
| averages  | the posterior of g, over all leaves, arms and likely length scales together       |
| masses    | each split of the tree: variance of its share x (difference of its halves)^2      |
| selection | a policy that tells people of one leaf apart: what it picks there may be other    |
|           | than the average, at most by the deviation of g within the leaf x that of the     |
|           | policy's choice; leaf by leaf in the same direction, as good policies have it.    |
|           | And where within the leaf people are is not known: their density may be `_TILT`   |
|           | away from even, in deviations                                                     |
| placement | contexts that were given: they need not be spread within a leaf as people are     |

| array   | shape  | meaning                                        |
|---------|--------|------------------------------------------------|
| leaf    | (n,)   | the place of each context among the leaves     |
| g       | (L, K) | posterior means of 2 f - 1                     |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from discreet.learners.partition.posterior import Smoothness, Solution, box_roughness, solved
from discreet.learners.partition.tree import Masses, Ranked, Tree, spread_within
from discreet.learners.sources import Information
from discreet.learners.values import AS_REPORTED, Beliefs, some_of
from discreet.people.domain import Box
from discreet.validation import FloatArray, IntArray

# Contexts by which a rule is judged: so many in all, and at least so many of each leaf.
_IN_ALL, _OF_LEAF = 4096, 32
# The standard deviation of how dense people are within a leaf, relative to evenly: 1 of a density
# that falls to 0 exponentially.
_TILT = 1.0
# Leaves that look alike say little of what is within them: whoever tells people of one leaf apart
# may do so along this length scale, whatever was learnt.
_SCALE_WITHIN = 0.15


@dataclass(frozen=True, eq=False)
class LeafPosterior:
    """The posterior of leaf averages under one prior.

    Attributes:
        mean: (L, K) of 2 f - 1.
        halves: (K, r, L) H, with H'H the covariance of an arm's leaves given the shared mean.
        level: (L, K) how the shared mean moves each leaf.
        level_variance: of the shared mean.
        evidence: log, with the prior of the length scales.
    """

    mean: FloatArray
    halves: FloatArray
    level: FloatArray
    level_variance: float
    evidence: float

    @classmethod
    def of(cls, prior: Smoothness, information: Information) -> LeafPosterior:
        known = Solution.of(prior, information)
        shape = (len(known.factor), *prior.root.T.shape)
        halves = solved(known.factor, np.broadcast_to(prior.root.T, shape))
        own, ones = np.moveaxis(known.seen.transpose(0, 2, 1) @ halves, 1, 0)
        mean = own + known.level * (1.0 - ones)
        evidence = known.evidence + prior.log_prior
        return cls(mean.T, halves, (1.0 - ones).T, known.level_variance, evidence)

    def variance(self, weights: FloatArray) -> float:
        """Of the sum of weights (L, K) times leaf averages."""
        own = np.einsum("krl,lk->kr", self.halves, weights)
        shared = float(np.sum(weights * self.level))
        return float(np.sum(own**2)) + self.level_variance * shared**2

    @property
    def variances(self) -> FloatArray:
        """(L, K) of each leaf average."""
        own: FloatArray = (self.halves**2).sum(axis=1).T
        return own + self.level_variance * self.level**2


class LeafBeliefs(Beliefs):
    """Beliefs about the leaves of a tree (see the module).

    Args:
        domain: of contexts.
        ranked: the tree whose leaves they are.
        masses: how people are spread.
        best: (L,) the arm that is recommended in each leaf.
        priors: of likely length scales.
        information: what is known of the leaves.
        unit: (n, d) public contexts in [0, 1]^d; None for where people are.
    """

    def __init__(
        self,
        domain: Box,
        ranked: Ranked,
        masses: Masses,
        best: IntArray,
        priors: Sequence[Smoothness],
        information: Information,
        unit: FloatArray | None,
    ) -> None:
        tree = ranked.tree
        self._tree, self._masses, self._given = tree, masses, unit is not None
        self._parts = [LeafPosterior.of(prior, information) for prior in priors]
        evidence = np.array([part.evidence for part in self._parts])
        chances = np.exp(evidence - evidence.max())
        self._chances = chances / chances.sum()
        self._mean = np.tensordot(self._chances, [part.mean for part in self._parts], axes=1)
        self._roughness = self._chances @ np.stack([prior.roughness for prior in priors])
        corners = ranked.lower[tree.leaves], ranked.upper[tree.leaves]
        least = box_roughness(*corners, np.full(tree.dimension, _SCALE_WITHIN))
        self._within = np.maximum(self._roughness, least)
        if unit is None:
            unit, self.leaf, self.weights = _where_people_are(tree, masses, domain)
            self.where = AS_REPORTED
        else:
            self.leaf = tree.leaf_position[tree.locate(unit)]
            self.weights = np.full(len(unit), 1.0 / len(unit))
            self.where = f"the {len(unit)} contexts given"
        self.contexts = domain.from_unit(unit)
        self.expected = 0.5 * (1.0 + self._mean[self.leaf])
        self.recommended = best[self.leaf]

    def variance(self, weights: FloatArray) -> float:
        leaves, arms = self._mean.shape
        of_leaf = np.zeros((leaves, arms))
        np.add.at(of_leaf, self.leaf, weights)
        values = [float(np.sum(of_leaf * part.mean)) for part in self._parts]
        middle = float(self._chances @ values)
        variance = sum(
            chance * (part.variance(of_leaf) + (value - middle) ** 2)
            for chance, part, value in zip(self._chances, self._parts, values, strict=True)
        )
        variance += self._selection(weights, of_leaf) ** 2
        if self._given:
            variance += float(self._roughness @ np.sum(of_leaf**2, axis=1))
        else:
            variance += self._of_masses(of_leaf)
        return 0.25 * float(variance)

    @cached_property
    def deviations(self) -> FloatArray:
        squares = [part.variances + (part.mean - self._mean) ** 2 for part in self._parts]
        of_leaf = np.sqrt(np.tensordot(self._chances, squares, axes=1))
        return 0.5 * of_leaf[self.leaf[some_of(self.leaf)]]

    def _selection(self, weights: FloatArray, of_leaf: FloatArray) -> float:
        """How far what a policy picks within leaves may be from their averages."""
        count = np.bincount(self.leaf, minlength=len(of_leaf))
        squares = np.zeros_like(of_leaf)
        np.add.at(squares, self.leaf, weights**2)
        # sum_i w_i r_i <= root(n sum_i (w_i - mean w)^2) x deviation of r.
        apart = np.maximum(count[:, None] * squares - of_leaf**2, 0.0).sum(axis=1)
        variance = apart * self._within
        if not self._given:
            worth = np.sum(weights * self._mean[self.leaf], axis=1)
            sums = (np.bincount(self.leaf, x, minlength=len(count)) for x in (worth**2, worth))
            variance += _TILT**2 * np.maximum(count * next(sums) - next(sums) ** 2, 0.0)
        return float(np.sqrt(variance).sum())

    def _of_masses(self, of_leaf: FloatArray) -> float:
        """The variance of V that comes from masses."""
        tree, mass = self._tree, self._masses.mass
        worth = np.zeros(len(tree))
        worth[tree.leaves] = np.sum(of_leaf * (1.0 + self._mean), axis=1)
        for node in range(len(tree) - 1, 0, -1):  # children come after their parents
            worth[tree.parent[node]] += worth[node]
        left = tree.left[tree.nodes]
        apart = worth[left] / mass[left] - worth[left + 1] / mass[left + 1]
        moved = self._masses.split_variance[tree.nodes] * (mass[tree.nodes] * apart) ** 2
        return float(moved.sum())


def _where_people_are(
    tree: Tree, masses: Masses, domain: Box
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Contexts (n, d) in [0, 1]^d, their leaves (n,) and the shares of people (n,) there."""
    each = max(_OF_LEAF, _IN_ALL // tree.leaf_count)
    unit = spread_within(tree, each, domain.levels).reshape(-1, tree.dimension)
    leaf = np.repeat(np.arange(tree.leaf_count), each)
    shares = masses.mass[tree.leaves] / masses.mass[tree.leaves].sum()
    return unit, leaf, shares[leaf] / each
