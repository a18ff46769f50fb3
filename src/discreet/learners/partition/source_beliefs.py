"""What reports of auxiliary sources say about the leaves, and whether to believe it.

A source observes cells (node, arm). The mass of a cell, the share of the source's people who are in
the node and were given the arm, is unknown and estimated from the same reports: nothing is assumed
about the behaviour policy, nor about where the people of a source are.

*Trust.* A source is believed to share the target's reward functions with probability w. The
reports of both are either explained by one set of functions or each by its own, and the evidence
for the two explanations (posterior.py) is compared:

    log w / (1 - w) = PRIOR_LOG_ODDS + E(target and source) - E(target) - E(source).

Without a person of the target the two are equally likely and the prior decides; a source that
contradicts is found out with the first few hundred people.

| array       | shape     | meaning                                                       |
|-------------|-----------|---------------------------------------------------------------|
| mass        | (N, K)    | share of a source's people in each cell                       |
| deviation   | (N, K)    | its standard deviation                                        |
| shares      | (N, L)    | how a node's cell spreads over the leaves, for one arm        |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from discreet.learners.partition.posterior import (
    TEMPER,
    Information,
    condition,
    log_evidence,
    upwards,
)
from discreet.learners.partition.smoothness import Smoothness
from discreet.learners.partition.statistics import NodeSums
from discreet.learners.partition.tree import Tree
from discreet.validation import FloatArray

PRIOR_LOG_ODDS = 3.0
# Prior of a root cell's mass, 1 / K +- this / K, and of the share of a cell that falls left.
_ROOT_SD, _SHARE_SD = 1.0, 0.25
_LEAST_SHARE = 0.02
# The average over a cell is one under the source's density, not the target's: so much of the
# variation within a node it may be off by, as a variance.
_SHIFT = 0.1
# No source is believed to tell f more exactly than this, on the scale of 2f - 1.
_LEAST_VARIANCE = 0.02**2


@dataclass(frozen=True, eq=False)
class CellMasses:
    """Masses of the cells of a source (see the module).

    Attributes:
        mass: (N, K).
        deviation: (N, K) standard deviation of a mass, had the root's been known.
        split_variance: (N, K) variance of the share of a cell that lies in its left half.
        root_variance: (K,) variance of the root's mass over its square: an error that all
            observations of an arm share.
    """

    mass: FloatArray
    deviation: FloatArray
    split_variance: FloatArray
    root_variance: FloatArray


def cell_masses(tree: Tree, sums: NodeSums) -> CellMasses:
    """Masses (N, K) that add up over the tree, for every arm by itself.

    Upwards, what is known of a cell is its own reports and the sum of its halves, by precision.
    Downwards, a cell is shared between its halves by what is known of them and a prior of 1/2.
    """
    nodes, arms = sums.mass_weight.shape
    weight, total = upwards(tree, sums.mass_weight, sums.mass_sum)
    inner = np.flatnonzero(tree.axis >= 0)
    mass = np.empty((nodes, arms))
    variance, split = np.empty((nodes, arms)), np.zeros((nodes, arms))
    prior = (arms / _ROOT_SD) ** 2
    precision = prior + weight[0]
    mass[0], root = _shares_of_arms((prior / arms + total[0]) / precision, 1.0 / precision)
    variance[0] = 0.0
    for parent in inner:
        left, right = tree.left[parent], tree.left[parent] + 1
        whole = mass[parent]
        prior_half = 1.0 / (_SHARE_SD * whole) ** 2
        precision = prior_half + weight[left] + weight[right]
        part = (
            prior_half * 0.5 * whole + total[left] + weight[right] * whole - total[right]
        ) / precision
        part = np.clip(part, _LEAST_SHARE * whole, (1.0 - _LEAST_SHARE) * whole)
        mass[left], mass[right] = part, whole - part
        share = part / whole
        split[parent] = 1.0 / (precision * whole**2)
        variance[left] = 1.0 / precision + share**2 * variance[parent]
        variance[right] = 1.0 / precision + (1.0 - share) ** 2 * variance[parent]
    return CellMasses(mass, np.sqrt(variance), split, root / mass[0] ** 2)


def _shares_of_arms(found: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(K,) shares of the arms and their variances, given that they add up to 1."""
    whole = variance.sum()
    shares = found + variance / whole * (1.0 - found.sum())
    left = variance * (1.0 - variance / whole)
    # Not below half a standard deviation: a share that is too small makes rewards too extreme.
    return np.maximum(shares, 0.5 * np.sqrt(left) + 1e-4), left


def source_information(
    tree: Tree, sums: NodeSums, roughness: FloatArray, prior: Smoothness
) -> Information:
    """What the reports of one source say about the leaves; `roughness` (N,) is that of nodes."""
    masses = cell_masses(tree, sums)
    seen = np.maximum(sums.offered, 1.0) * masses.mass
    y = sums.signed / seen
    noise = (1.0 - masses.mass) * sums.noise_other + masses.mass * sums.noise_own
    variance = (
        TEMPER * noise / seen**2
        + np.minimum(y**2, 1.0) * (masses.deviation / masses.mass) ** 2
        + _mixture_variance(tree, masses, roughness)
        + _SHIFT * roughness[:, None]
        + _LEAST_VARIANCE
    )
    worth = np.where(sums.offered > 0.0, 1.0 / variance, 0.0)
    # Beyond +-1 there is no 2f - 1: such an average comes from a mass that is too small.
    y = np.clip(y, -1.5, 1.5)
    leaves = len(tree.leaves)
    precision = np.zeros((worth.shape[1], leaves, leaves))
    weighted = np.zeros((worth.shape[1], leaves))
    for arm in range(worth.shape[1]):
        used = np.flatnonzero(worth[:, arm] > 0.0)
        inside = tree.within[used] * masses.mass[tree.leaves, arm]
        shares = inside / inside.sum(axis=1, keepdims=True)
        precision[arm] = (shares.T * worth[used, arm]) @ shares
        weighted[arm] = (worth[used, arm] * y[used, arm]) @ shares
    return _without_scale(prior, Information(precision, weighted), masses.root_variance)


def _without_scale(
    prior: Smoothness, information: Information, variance: FloatArray
) -> Information:
    """The same after averaging over how far off the masses of an arm are together.

    If all masses of an arm are off by a factor 1 - e, observations are (1 + e) times what they
    should be: in the leaves y = f + e f + noise. With f in e f replaced by its mean m given this
    source alone, averaging over e ~ N(0, v) takes A m m' A / (1 / v + m' A m) off the precision A.
    """
    mean = condition(prior, information)[0].T  # (K, L)
    precision, weighted = information.precision.copy(), information.weighted.copy()
    for arm, v in enumerate(variance):
        along = precision[arm] @ mean[arm]
        strength = 1.0 / (1.0 / max(float(v), 1e-12) + float(mean[arm] @ along))
        weighted[arm] -= strength * float(mean[arm] @ weighted[arm]) * along
        precision[arm] -= strength * np.outer(along, along)
    return Information(precision, weighted)


def _mixture_variance(tree: Tree, masses: CellMasses, roughness: FloatArray) -> FloatArray:
    """(N, K) as posterior.mixture_variance, for every arm."""
    total = masses.split_variance * 4.0 * roughness[:, None] * masses.mass**2
    for node in range(len(tree) - 1, 0, -1):  # children come after their parents
        total[tree.parent[node]] += total[node]
    spread: FloatArray = total / masses.mass**2
    return spread


def added(parts: list[Information]) -> Information:
    """What several independent sets of observations say together."""
    precision, weighted = parts[0].precision, parts[0].weighted
    for one in parts[1:]:
        precision, weighted = precision + one.precision, weighted + one.weighted
    return Information(precision, weighted)


def trust(
    prior: Smoothness, target: Information, sources: Mapping[str, Information]
) -> dict[str, float]:
    """For each source the probability that it shares the target's reward functions."""
    alone = log_evidence(prior, target)
    found = {}
    for name, information in sources.items():
        together = log_evidence(prior, added([target, information]))
        odds = PRIOR_LOG_ODDS + together - alone - log_evidence(prior, information)
        found[name] = 1.0 / (1.0 + math.exp(-min(max(odds, -500.0), 500.0)))
    return found
