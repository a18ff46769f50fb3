"""What the sums say: masses of bins, and a Gaussian posterior of every arm's reward on every leaf.

Model, for each arm k: 2 f_k - 1 averaged over leaves is a Gaussian vector with covariance
`box_covariance`. A node of the tree (a leaf, or one that was split since) was observed as
y = S / (T mass), which has mean sum_l w_l (2 f_k - 1)_l over the leaves l in it, w_l their share
of its mass, and variance R / (T mass)^2 + min(y^2, 1) var(mass) / mass^2 + what the shares w may
be off by (`mixture_variance`).

A source observes cells (node, arm). The mass of a cell, the share of the source's people who are in
the node and were given the arm, is unknown and estimated from the same reports: nothing is assumed
about the behaviour policy, nor about where the people of a source are. Sources report on a tree of
their own; what they say there is then expressed on the target's leaves (`projected`).

| array       | shape            | meaning                                                     |
|-------------|------------------|-------------------------------------------------------------|
| mass        | (N,), or (N, K)  | share of people in each node, or of a source's in each cell |
| deviation   | the same         | its standard deviation                                      |
| information | (K, L, L), (K, L)| what observations say about the leaves (learners/sources.py)|
| mean        | (L, K)           | posterior mean of 2 f_k - 1 on each leaf                    |
| variance    | (L, K)           | its posterior variance                                      |
| roughness   | (L,)             | prior variance of 2 f_k - 1 within a leaf around its average|

*Prior.* Matern-3/2 covariances averaged over pairs of boxes. A product kernel averages one axis at
a time, and one axis has closed form: with c = sqrt(3) / l and k(r) = (1 + c r) e^(-c r), the
function

    G(r) = 2 r / c - (3 - (3 + c r) e^(-c r)) / c^2,   G'' = k, G(0) = G'(0) = 0,

gives the double integral over [a, b] x [a', b'] as
G|b - a'| + G|a - b'| - G|a - a'| - G|b - b'|.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import solve_triangular

from discreet.learners.partition.policy import NodeSums
from discreet.learners.partition.tree import Tree
from discreet.learners.sources import Information
from discreet.validation import FloatArray

# Prior variance of 2 f - 1 for one arm: a constant, and a part that varies with the context.
CONSTANT_VARIANCE = 0.2
VARYING_VARIANCE = 0.3
PRIOR_VARIANCE = CONSTANT_VARIANCE + VARYING_VARIANCE

# Each halving of a length scale below 0.2 must be borne out by a nat of evidence: short
# scales split bins, which is dear where reports are noisy; where they are needed the evidence is
# overwhelming.
_USUAL_SCALE = 0.2
_NATS_PER_HALVING = 1.0


def interval_covariance(lower: FloatArray, upper: FloatArray, length_scale: float) -> FloatArray:
    """(L, L) average of k(x - y) over x in interval i and y in interval j."""
    rate = math.sqrt(3.0) / length_scale

    def second_integral(distance: FloatArray) -> FloatArray:
        reach = rate * np.abs(distance)
        result: FloatArray = (2.0 * reach - 3.0 + (3.0 + reach) * np.exp(-reach)) / rate**2
        return result

    low, high = lower[:, None], upper[:, None]
    total = (
        second_integral(high - lower)
        + second_integral(low - upper)
        - second_integral(low - lower)
        - second_integral(high - upper)
    )
    average: FloatArray = total / ((high - low) * (upper - lower))
    return average


def box_roughness(lower: FloatArray, upper: FloatArray, length_scales: FloatArray) -> FloatArray:
    """(N,) prior variance of 2 f - 1 within each box around its average over the box."""
    rate = np.sqrt(3.0) / length_scales
    reach = rate * (upper - lower)
    # The average of k over one interval with itself: 2 G(width) / width^2.
    alike = 2.0 * (2.0 * reach - 3.0 + (3.0 + reach) * np.exp(-reach)) / reach**2
    roughness: FloatArray = VARYING_VARIANCE * np.maximum(1.0 - alike.prod(axis=1), 0.0)
    return roughness


def box_covariance(lower: FloatArray, upper: FloatArray, length_scales: FloatArray) -> FloatArray:
    """(L, L) prior covariance of the averages of 2 f - 1 over boxes with these corners (L, d)."""
    varying = np.full((len(lower), len(lower)), VARYING_VARIANCE)
    for axis, length_scale in enumerate(length_scales):
        # Dyadic boxes share few intervals per axis, so each pair is integrated once.
        pairs = np.stack([lower[:, axis], upper[:, axis]], axis=1)
        unique, place = np.unique(pairs, axis=0, return_inverse=True)
        place = place.reshape(-1)
        covariance = interval_covariance(unique[:, 0], unique[:, 1], float(length_scale))
        varying *= covariance[np.ix_(place, place)]
    return CONSTANT_VARIANCE + varying


@dataclass(frozen=True, eq=False)
class Smoothness:
    """The prior of the leaves of one tree under given length scales.

    Attributes:
        root: (L, L), with root root' the prior covariance of leaf averages.
        roughness: (L,) prior variance within each leaf around its average.
        log_prior: of the length scales, up to a constant.
    """

    root: FloatArray
    roughness: FloatArray
    log_prior: float


@lru_cache(maxsize=128)  # trees are equal to themselves alone
def smoothness(tree: Tree, length_scales: tuple[float, ...]) -> Smoothness:
    """The prior of the leaves of `tree`."""
    leaves = tree.leaves
    prior = box_covariance(tree.lower[leaves], tree.upper[leaves], np.array(length_scales))
    # Averages over narrow boxes are nearly dependent, and the closed form loses digits as
    # 1 / width^2; a standard deviation of 1e-3 on 2 f - 1 keeps the root real and harms none.
    root = np.linalg.cholesky(prior + 1e-6 * np.eye(len(prior)))
    roughness = np.maximum(PRIOR_VARIANCE - np.diag(prior), 0.0)
    halvings = np.maximum(np.log2(_USUAL_SCALE / np.array(length_scales)), 0.0).sum()
    log_prior = -_NATS_PER_HALVING * float(halvings)
    return Smoothness(np.asarray(root, dtype=np.float64), roughness, log_prior)


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
# Of a source: prior of a root cell's mass, 1 / K +- this / K.
_ROOT_SD = 1.0
# The average over a cell is one under the source's density, not the target's: so much of the
# variation within a node it may be off by, as a variance.
_SHIFT = 0.1
# No source is believed to tell f more exactly than this, on the scale of 2f - 1.
_LEAST_VARIANCE = 0.02**2
_LEAST_BLUR = 1e-9


@dataclass(frozen=True, eq=False)
class Masses:
    """How people are spread over the nodes of a tree, or over its cells (nodes with an arm each).

    Attributes:
        mass: (N,) share of all people in each node, or (N, K) in each cell.
        deviation: the same shape: its standard deviation, had the root's been known.
        split_variance: the same shape: variance of the share of a node's people that lies in its
            left child; 0 for leaves.
    """

    mass: FloatArray
    deviation: FloatArray
    split_variance: FloatArray


def node_masses(tree: Tree, sums: NodeSums) -> Masses:
    """Masses (N,) that add up over the tree, from the root's, which is 1."""
    weight, total = upwards(tree, sums.mass_weight[:, 0], sums.mass_sum[:, 0])
    return downwards(tree, weight, total, np.array(1.0))


@lru_cache(maxsize=64)
def cell_masses(tree: Tree, sums: NodeSums) -> tuple[Masses, FloatArray]:
    """Masses (N, K) of cells that add up over the tree, for every arm by itself; and (K,) the
    variance of the root's over its square: an error that all observations of an arm share."""
    sums = sums.grown(len(tree))
    arms = sums.mass_weight.shape[1]
    weight, total = upwards(tree, sums.mass_weight, sums.mass_sum)
    prior = (arms / _ROOT_SD) ** 2
    precision = prior + weight[0]
    estimates, variance = (prior / arms + total[0]) / precision, 1.0 / precision
    # Given that the shares of the arms add up to 1.
    whole = variance.sum()
    shares = estimates + variance / whole * (1.0 - estimates.sum())
    left = variance * (1.0 - variance / whole)
    # Not below half a standard deviation: a share that is too small makes rewards too extreme.
    root = np.maximum(shares, 0.5 * np.sqrt(left) + 1e-4)
    return downwards(tree, weight, total, root), left / root**2


def downwards(tree: Tree, weight: FloatArray, total: FloatArray, root: FloatArray) -> Masses:
    """Masses (N, ...) from what is known of each node (`upwards`), given that of the root (...).

    The share of a parent's mass that goes left is estimated from what is known of either child and
    a prior of 1/2 +- 1/4, by precision.
    """
    mass = np.broadcast_to(root, weight.shape).copy()
    variance, split = np.zeros(weight.shape), np.zeros(weight.shape)
    for parent in np.flatnonzero(tree.axis >= 0):
        left = tree.left[parent]
        whole = mass[parent]
        prior = 1.0 / (_SHARE_SD * whole) ** 2
        precision = prior + weight[left] + weight[left + 1]
        seen_right = weight[left + 1] * whole - total[left + 1]
        part = (prior * 0.5 * whole + total[left] + seen_right) / precision
        part = np.minimum(np.maximum(part, _LEAST_SHARE * whole), (1.0 - _LEAST_SHARE) * whole)
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
    """(N, ...) how far a node's average may lie from the mixture of its leaves, as a variance.

    The mixture takes shares that are only estimated. A share that is off by e moves the average of
    a split node by e times the difference of its halves, whose square is at most 4 times the
    variation (N, ...) `roughness` within the node.
    """
    total = masses.split_variance * 4.0 * roughness * masses.mass**2
    for node in range(len(tree) - 1, 0, -1):  # children come after their parents
        total[tree.parent[node]] += total[node]
    spread: FloatArray = total / masses.mass**2
    return spread


def readings(
    sums: NodeSums, mass: FloatArray, deviation: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(N, K) averages of 2 f - 1 that reports say, and their variances from noise and from masses
    that are only estimated; `mass` and `deviation` are (N, 1) of nodes, or (N, K) of cells."""
    seen = np.maximum(sums.offered, 1.0) * mass
    y = sums.signed / seen
    noise = (1.0 - mass) * sums.noise_other + mass * sums.noise_own
    return y, TEMPER * noise / seen**2 + np.minimum(y**2, 1.0) * (deviation / mass) ** 2


def observations(
    tree: Tree, sums: NodeSums, masses: Masses, roughness: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Precision (N, K) of what reports say of each node and arm, and precision x y; `roughness`
    (N,) is that of all nodes."""
    y, variance = readings(sums, masses.mass[:, None], masses.deviation[:, None])
    variance += mixture_variance(tree, masses, roughness)[:, None]
    worth = np.where(sums.offered > 0.0, 1.0 / np.maximum(variance, 1e-12), 0.0)
    return worth, worth * y


def mixing(tree: Tree, mass: FloatArray) -> FloatArray:
    """(N, L) the share of each node's mass (N,) that lies in each leaf."""
    inside = tree.within * mass[tree.leaves]
    shares: FloatArray = inside / inside.sum(axis=1, keepdims=True)
    return shares


def leaf_information(
    tree: Tree, mass: FloatArray, precision: FloatArray, weighted: FloatArray
) -> Information:
    """What `observations` of all nodes, present and split, say about the leaves."""
    shares = mixing(tree, mass)
    return Information((shares.T * precision.T[:, None, :]) @ shares, weighted.T @ shares)


@lru_cache(maxsize=64)  # while nothing changes, what a source says is worked out once
def source_information(tree: Tree, sums: NodeSums, length_scales: tuple[float, ...]) -> Information:
    """What the reports of one source say about the leaves of the tree that it reported on."""
    masses, root_variance = cell_masses(tree, sums)
    sums = sums.grown(len(tree))
    roughness = box_roughness(tree.lower, tree.upper, np.array(length_scales))[:, None]
    y, variance = readings(sums, masses.mass, masses.deviation)
    variance = (
        variance + mixture_variance(tree, masses, roughness) + _SHIFT * roughness + _LEAST_VARIANCE
    )
    worth = np.where(sums.offered > 0.0, 1.0 / variance, 0.0)
    # Beyond +-1 there is no 2f - 1: such an average comes from a mass that is too small.
    y = np.clip(y, -1.5, 1.5)
    leaves, arms = len(tree.leaves), worth.shape[1]
    precision, weighted = np.zeros((arms, leaves, leaves)), np.zeros((arms, leaves))
    for arm in range(arms):
        used = np.flatnonzero(worth[:, arm] > 0.0)
        shares = mixing(tree, masses.mass[:, arm])[used]
        precision[arm] = (shares.T * worth[used, arm]) @ shares
        weighted[arm] = (worth[used, arm] * y[used, arm]) @ shares
    return _without_scale(
        smoothness(tree, length_scales), Information(precision, weighted), root_variance
    )


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


@lru_cache(maxsize=16)
def overlaps(old: Tree, new: Tree) -> tuple[FloatArray, FloatArray]:
    """(B, L) the part of the volume of each leaf of `old` that lies in each leaf of `new`, and the
    part of the latter's that lies in the former."""
    low, high = old.lower[old.leaves], old.upper[old.leaves]
    lower, upper = new.lower[new.leaves], new.upper[new.leaves]
    both = np.ones((len(low), len(lower)))
    for axis in range(low.shape[1]):
        length = np.minimum(high[:, axis][:, None], upper[:, axis][None]) - np.maximum(
            low[:, axis][:, None], lower[:, axis][None]
        )
        both *= np.maximum(length, 0.0)
    shares = both / np.prod(high - low, axis=1)[:, None]
    return shares, both / np.prod(upper - lower, axis=1)[None]


def projected(information: Information, old: Tree, new: Tree, roughness: FloatArray) -> Information:
    """What was learnt about the leaves of `old`, expressed on those of `new`.

    Sources, and the target before it started anew, reported on trees of their own. What they
    observed are averages g of f over boxes, which on other leaves are mixtures g = S f + e with the
    shares S of `overlaps`. How far the average over a part of a leaf is from that over all of it is
    e ~ N(0, D), with variance roughness x (1 - the part of the leaf that the box covers). With
    information (A, t) about g, since A may be singular,

        A' = S' (A - A (A + D^-1)^-1 A) S and t' = S' (t - A (A + D^-1)^-1 t).

    Args:
        information: about the leaves of `old`.
        roughness: (L,) of the leaves of `new`.
    """
    shares, coverage = overlaps(old, new)
    blur = np.maximum((shares**2 * (1.0 - coverage) * roughness).sum(axis=1), _LEAST_BLUR)
    precision, weighted = [], []
    for a, t in zip(information.precision, information.weighted, strict=True):
        solved = np.linalg.solve(a + np.diag(1.0 / blur), np.column_stack([a, t]))
        precision.append(shares.T @ (a - a @ solved[:, :-1]) @ shares)
        weighted.append(shares.T @ (t - a @ solved[:, -1]))
    return Information(np.stack(precision), np.stack(weighted))


@dataclass(frozen=True, eq=False)
class TreePosterior:
    """See the module's table."""

    mean: FloatArray
    variance: FloatArray
    roughness: FloatArray


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


def average(
    priors: Sequence[Smoothness], information: Information
) -> tuple[TreePosterior, FloatArray]:
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
    return TreePosterior(mean, variance, roughness), weight


def likely_length_scales(
    start: tuple[float, ...], tree: Tree, information: Information
) -> tuple[tuple[float, ...], ...]:
    """Length scales that the observations make likely, the most likely first.

    Climbs from `start`, changing one axis at a time, so the work grows with d and not with the
    number of combinations.
    """
    evidence: dict[tuple[float, ...], float] = {}

    def evidence_of(scales: tuple[float, ...]) -> float:
        if scales not in evidence:
            prior = smoothness(tree, scales)
            evidence[scales] = log_evidence(prior, information) + prior.log_prior
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
    kept = [scales for scales in ranked if evidence[scales] > evidence[best] - _LOG_RATIO]
    return tuple(kept[:_MOST_SCALES])
