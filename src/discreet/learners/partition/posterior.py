"""What the sums say: masses of bins, and a Gaussian posterior of every arm's reward on every leaf.

Model, for each arm k: 2 f_k - 1 averaged over leaves is a Gaussian vector with covariance
`box_covariance`. A node of the tree (a leaf, or one that was split since) was observed as
y = S / (T mass), which has mean sum_l w_l (2 f_k - 1)_l over the leaves l in it, w_l their share
of its mass, and variance R / (T mass)^2 + min(y^2, 1) var(mass) / mass^2 + what the shares w may
be off by (`mixture_variance`). Every source observes with its own masses and variances, and
precisions add.

| array       | shape     | meaning                                                     |
|-------------|-----------|-------------------------------------------------------------|
| mass        | (N,)      | share of people whose context lies in each node             |
| mass_sd     | (N,)      | its standard deviation                                      |
| mean        | (L, K)    | posterior mean of 2 f_k - 1 on each leaf                    |
| variance    | (L, K)    | its posterior variance                                      |
| roughness   | (L,)      | prior variance of 2 f_k - 1 within a leaf around its average|
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from discreet.learners.partition.smoothness import Smoothness
from discreet.learners.partition.statistics import NodeSums
from discreet.learners.partition.tree import Tree
from discreet.validation import FloatArray

# Prior standard deviation of the share of a node's mass that falls into its left child.
_SHARE_SD = 0.25
# Offers follow earlier reports, so what looked bad by chance is looked at less, and formulas for
# fixed designs are overconfident (z-scores of 1.17 at epsilon 1). Noise counts for so much more.
TEMPER = 1.12
# Length scales are sought among these, relative to edges of length 1, starting from the first.
FIRST_LENGTH_SCALE = 0.8
_LENGTH_SCALES = (0.05, 0.1, 0.2, 0.4, 0.8, 3.2)
# Those less likely than the best by a factor e^4 are left out of the average, as are all but six.
_LOG_RATIO = 4.0
_MOST_SCALES = 6
# One call for all arms is faster than one for each that knows of triangles, up to this many leaves.
_FEW_LEAVES = 24
# No child is believed to hold less than this share of its parent.
_LEAST_SHARE = 0.02


@dataclass(frozen=True, eq=False)
class Observations:
    """Per node and arm: precision (N, K) and precision x y (N, K), summed over sources."""

    precision: FloatArray
    weighted: FloatArray


@dataclass(frozen=True, eq=False)
class Posterior:
    """See the module's table."""

    mean: FloatArray
    variance: FloatArray
    roughness: FloatArray


@dataclass(frozen=True, eq=False)
class Masses:
    """How people are spread over the nodes of a tree.

    Attributes:
        mass: (N,) share of all people in each node.
        deviation: (N,) its standard deviation.
        split_variance: (N,) variance of the share of a node's people that lies in its left child;
            0 for leaves.
    """

    mass: FloatArray
    deviation: FloatArray
    split_variance: FloatArray


def node_masses(tree: Tree, sums: NodeSums) -> Masses:
    """Masses that add up over the tree.

    What is known of a node is its own reports and those on its halves (`upwards`). From the root
    (mass 1) downwards, the share of a parent's mass that goes left is then estimated from what is
    known of either child and a prior of 1/2 +- 1/4, by precision.
    """
    mass, variance, split = np.ones(len(tree)), np.zeros(len(tree)), np.zeros(len(tree))
    weight, total = upwards(tree, sums.mass_weight, sums.mass_sum)
    for parent in np.flatnonzero(tree.axis >= 0):
        left = tree.left[parent]
        whole = mass[parent]
        prior = 1.0 / (_SHARE_SD * whole) ** 2
        precision = prior + weight[left] + weight[left + 1]
        seen_right = weight[left + 1] * whole - total[left + 1]
        part = (prior * 0.5 * whole + total[left] + seen_right) / precision
        part = min(max(part, _LEAST_SHARE * whole), (1.0 - _LEAST_SHARE) * whole)
        mass[left], mass[left + 1] = part, whole - part
        share = part / whole
        split[parent] = 1.0 / (precision * whole**2)
        variance[left] = 1.0 / precision + share**2 * variance[parent]
        variance[left + 1] = 1.0 / precision + (1.0 - share) ** 2 * variance[parent]
    return Masses(mass, np.sqrt(variance), split)


def upwards(tree: Tree, weight: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Precisions (N, ...) of masses, and precision x mass, with what the halves of each node add.

    A node may never have been reported on itself: where a tree began with several leaves, only its
    leaves were.
    """
    weight, total = weight.copy(), total.copy()
    for parent in np.flatnonzero(tree.axis >= 0)[::-1]:  # children come after their parents
        left, right = tree.left[parent], tree.left[parent] + 1
        both = (weight[left] > 0.0) & (weight[right] > 0.0)
        low, high = np.where(both, weight[left], 1.0), np.where(both, weight[right], 1.0)
        precision = np.where(both, 1.0 / (1.0 / low + 1.0 / high), 0.0)
        weight[parent] += precision
        total[parent] += precision * np.where(both, total[left] / low + total[right] / high, 0.0)
    return weight, total


def mixture_variance(tree: Tree, masses: Masses, roughness: FloatArray) -> FloatArray:
    """(N,) how far a node's average may lie from the mixture of its leaves, as a variance.

    The mixture takes shares that are only estimated. A share that is off by e moves the average of
    a split node by e times the difference of its halves, whose square is at most 4 times the
    variation (N,) `roughness` within the node.
    """
    total = masses.split_variance * 4.0 * roughness * masses.mass**2
    for node in range(len(tree) - 1, 0, -1):  # children come after their parents
        total[tree.parent[node]] += total[node]
    spread: FloatArray = total / masses.mass**2
    return spread


def observations(
    tree: Tree,
    sources: Mapping[str, NodeSums],
    masses: Mapping[str, Masses],
    roughness: FloatArray,
) -> Observations:
    """Weigh all sources by how much their reports say; `roughness` (N,) is that of all nodes."""
    first = next(iter(sources.values()))
    precision, weighted = np.zeros_like(first.offered), np.zeros_like(first.offered)
    for name, sums in sources.items():
        spread = masses[name]
        mass = spread.mass[:, None]
        seen = np.maximum(sums.offered, 1.0) * mass
        y = sums.signed / seen
        noise = (1.0 - mass) * sums.noise_other + mass * sums.noise_own
        variance = (
            TEMPER * noise / seen**2
            + np.minimum(y**2, 1.0) * (spread.deviation[:, None] / mass) ** 2
        )
        variance += mixture_variance(tree, spread, roughness)[:, None]
        worth = np.where(sums.offered > 0.0, 1.0 / np.maximum(variance, 1e-12), 0.0)
        precision += worth
        weighted += worth * y
    return Observations(precision, weighted)


def mixing(tree: Tree, mass: FloatArray) -> FloatArray:
    """(N, L) the share of each node's mass that lies in each leaf."""
    inside = tree.within * mass[tree.leaves]
    shares: FloatArray = inside / inside.sum(axis=1, keepdims=True)
    return shares


@dataclass(frozen=True, eq=False)
class Information:
    """Observations brought to the leaves: (K, L, L) precision and (K, L) precision x mean."""

    precision: FloatArray
    weighted: FloatArray


def leaf_information(tree: Tree, mass: FloatArray, seen: Observations) -> Information:
    """What the observations of all nodes, present and split, say about the leaves."""
    shares = mixing(tree, mass)
    precision = (shares.T * seen.precision.T[:, None, :]) @ shares
    return Information(precision, seen.weighted.T @ shares)


def _factor(prior: Smoothness, information: Information) -> tuple[FloatArray, FloatArray, float]:
    """For prior covariance C C' and information (A, t): the Cholesky factors R of I + C' A C
    (K, L, L), R^-1 C' t (K, L), and the log evidence for the prior up to what it does not change,
    which is |R^-1 C' t|^2 / 2 - log det R."""
    root = prior.root
    inner = root.T @ information.precision @ root + np.eye(len(root))
    factor: FloatArray = np.asarray(np.linalg.cholesky(inner), dtype=np.float64)
    projected = _solved(factor, (information.weighted @ root)[..., None])[..., 0]
    log_det = float(np.log(np.diagonal(factor, axis1=1, axis2=2)).sum())
    return factor, projected, 0.5 * float((projected**2).sum()) - log_det


def _solved(factor: FloatArray, right: FloatArray) -> FloatArray:
    """R^-1 B for lower triangular R (K, L, L) and B (K, L, M)."""
    if factor.shape[1] <= _FEW_LEAVES:
        solved: FloatArray = np.linalg.solve(factor, right).astype(np.float64, copy=False)
        return solved
    pairs = zip(factor, right, strict=True)
    return np.stack([solve_triangular(r, b, lower=True, check_finite=False) for r, b in pairs])


def log_evidence(prior: Smoothness, information: Information) -> float:
    """How likely the observations are under the prior, up to a constant that all priors share."""
    return _factor(prior, information)[2]


def condition(prior: Smoothness, information: Information) -> tuple[FloatArray, FloatArray, float]:
    """Posterior mean (L, K) and variance (L, K), and the log evidence of the prior.

    The posterior covariance is H' H with H = R^-1 C' (see `_factor`), and the mean H' R^-1 C' t.
    """
    factor, projected, evidence = _factor(prior, information)
    halves = _solved(factor, np.broadcast_to(prior.root.T, factor.shape))
    mean = (projected[:, None, :] @ halves)[:, 0].T
    variance: FloatArray = (halves**2).sum(axis=1).T
    return mean, variance, evidence


def average(priors: Sequence[Smoothness], information: Information) -> tuple[Posterior, FloatArray]:
    """The posterior averaged over priors by their evidence, and the weight of each.

    While reports say little about smoothness, the average stays as uncertain as the priors differ.
    """
    parts = [condition(prior, information) for prior in priors]
    evidence = np.array(
        [part[2] + prior.log_prior for part, prior in zip(parts, priors, strict=True)]
    )
    weight = np.exp(evidence - evidence.max())
    weight /= weight.sum()
    means, variances = np.stack([part[0] for part in parts]), np.stack([part[1] for part in parts])
    mean = np.tensordot(weight, means, axes=1)
    variance = np.tensordot(weight, variances + (means - mean) ** 2, axes=1)
    roughness = weight @ np.stack([prior.roughness for prior in priors])
    return Posterior(mean, variance, roughness), weight


def likely_length_scales(
    start: tuple[float, ...],
    prior: Callable[[tuple[float, ...]], Smoothness],
    information: Information,
) -> list[tuple[float, ...]]:
    """Length scales that the observations make likely, the most likely first.

    Climbs from `start`, changing one axis at a time, so the work grows with d and not with the
    number of combinations.
    """
    evidence: dict[tuple[float, ...], float] = {}

    def evidence_of(scales: tuple[float, ...]) -> float:
        if scales not in evidence:
            candidate = prior(scales)
            evidence[scales] = log_evidence(candidate, information) + candidate.log_prior
        return evidence[scales]

    best, climbing = start, True
    while climbing:
        near = [
            (*best[:axis], scale, *best[axis + 1 :])
            for axis in range(len(best))
            for scale in _LENGTH_SCALES
        ]
        top = max(near, key=evidence_of)
        climbing = evidence_of(top) > evidence_of(best)
        best = top if climbing else best
    ranked = sorted(evidence, key=evidence_of, reverse=True)
    return [s for s in ranked if evidence[s] > evidence[best] - _LOG_RATIO][:_MOST_SCALES]
