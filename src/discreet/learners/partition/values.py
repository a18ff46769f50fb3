"""Values of policies from the sums of `partition` (learners/values.py).

Leaf averages are over the people who come there, however they are spread within. For weights w_lk
of leaf averages g = 2 f - 1 and people who are spread by estimated masses, the variance of V is the
sum of

| part      | from                                                                              |
|-----------|-----------------------------------------------------------------------------------|
| averages  | the posterior of g, over all leaves, arms and likely length scales together       |
| masses    | each split of the tree: variance of its share x (difference of its halves)^2      |
| selection | a policy that separates people of one leaf: what it picks there may differ from   |
|           | the average, at most by the deviation of g within the leaf x that of the policy's |
|           | choice; leaf by leaf in the same direction, as good policies have it. And the     |
|           | density of people within a leaf may be `_TILT` deviations from even               |
| placement | given contexts: they need not be spread within a leaf as people are               |

| array   | shape  | meaning                                        |
|---------|--------|------------------------------------------------|
| leaf    | (n,)   | the place of each context among the leaves     |
| g       | (L, K) | posterior means of 2 f - 1                     |
"""

from __future__ import annotations

import numpy as np

from discreet.learners.partition.posterior import AveragedPosterior, box_within_variance
from discreet.learners.partition.tree import CellFrequencies, Ranked, Tree, spread_within
from discreet.learners.values import AS_REPORTED, ValuePosterior
from discreet.people.domain import Box
from discreet.validation import BoolArray, FloatArray, IntArray

# The number of contexts by which a rule is judged: in all, and at least in each leaf.
_IN_ALL, _OF_LEAF = 4096, 32
# The standard deviation of how dense people are within a leaf, relative to evenly: 1 of a density
# that falls to 0 exponentially.
_TILT = 1.0
# Leaves that look alike say little of what is within them: a rule that separates people of one leaf
# may do so along this length scale, whatever was learnt.
_SCALE_WITHIN = 0.15


class LeafValues:
    """Variances of values over the leaves of a tree (see the module).

    Args:
        ranked: the tree.
        masses: how people are spread.
        posterior: of leaf averages.
        leaf: (n,) the leaf of each place.
        given: whether the places are contexts of the caller.
    """

    def __init__(
        self,
        ranked: Ranked,
        masses: CellFrequencies,
        posterior: AveragedPosterior,
        leaf: IntArray,
        given: bool,
    ) -> None:
        self._tree, self._masses, self._given, self.leaf = ranked.tree, masses, given, leaf
        self._posterior, self._mean = posterior, posterior.mean
        leaves, dimension = ranked.tree.leaves, ranked.tree.dimension
        corners = ranked.lower[leaves], ranked.upper[leaves]
        least = box_within_variance(*corners, np.full(dimension, _SCALE_WITHIN))
        self._within = np.maximum(posterior.within_cell_variance, least)

    def variance(self, weights: FloatArray) -> float:
        """Of sum weights f, for weights (n, K)."""
        leaves, arms = self._mean.shape
        of_leaf = np.zeros((leaves, arms))
        np.add.at(of_leaf, self.leaf, weights)
        chances, parts = self._posterior.weights, self._posterior.parts
        values = [float(np.sum(of_leaf * part.mean)) for part in parts]
        middle = float(chances @ values)
        variance = sum(
            chance * (part.variance(of_leaf) + (value - middle) ** 2)
            for chance, part, value in zip(chances, parts, values, strict=True)
        )
        variance += self._selection(weights, of_leaf) ** 2
        if self._given:
            variance += float(self._posterior.within_cell_variance @ np.sum(of_leaf**2, axis=1))
        else:
            variance += self._of_masses(of_leaf)
        return 0.25 * float(variance)

    def deviations(self, places: IntArray) -> FloatArray:
        """(s, K) posterior standard deviations of f at places (s,)."""
        of_leaf: FloatArray = np.sqrt(self._posterior.variance)
        return 0.5 * of_leaf[self.leaf[places]]

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


def leaf_values(
    domain: Box,
    ranked: Ranked,
    masses: CellFrequencies,
    active: BoolArray,
    posterior: AveragedPosterior,
    unit: FloatArray | None,
) -> ValuePosterior:
    """The posterior of rewards in the leaves of a tree.

    Args:
        domain: of contexts.
        ranked: the tree.
        masses: how people are spread.
        active: (L, K) the arms that are left in each leaf.
        posterior: of leaf averages.
        unit: (n, d) public contexts in [0, 1]^d; None for where people are.
    """
    tree, given = ranked.tree, unit is not None
    if unit is None:
        unit, leaf, weights = _where_people_are(tree, masses, domain)
    else:
        leaf = tree.leaf_position[tree.locate(unit)]
        weights = np.full(len(unit), 1.0 / len(unit))
    values = LeafValues(ranked, masses, posterior, leaf, given)
    return ValuePosterior(
        contexts=domain.from_unit(unit),
        weights=weights,
        where=f"the {len(unit)} contexts given" if given else AS_REPORTED,
        expected=0.5 * (1.0 + posterior.mean[leaf]),
        recommended=np.where(active, posterior.mean, -np.inf).argmax(axis=1)[leaf],
        variance=values.variance,
        deviations=values.deviations,
    )


def _where_people_are(
    tree: Tree, masses: CellFrequencies, domain: Box
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Contexts (n, d) in [0, 1]^d, their leaves (n,) and the shares of people (n,) there."""
    each = max(_OF_LEAF, _IN_ALL // tree.leaf_count)
    unit = spread_within(tree, each, domain.levels).reshape(-1, tree.dimension)
    leaf = np.repeat(np.arange(tree.leaf_count), each)
    shares = masses.mass[tree.leaves] / masses.mass[tree.leaves].sum()
    return unit, leaf, shares[leaf] / each
