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
from itertools import combinations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from discreet.learners.partition.policy import NodeSums
from discreet.learners.partition.tree import Masses, Ranked, Tree, downwards, same_boxes, upwards
from discreet.learners.sources import Information
from discreet.validation import FloatArray, IntArray

# Prior variance of 2 f - 1 for one arm: a constant, and a part that varies with the context.
CONSTANT_VARIANCE = 0.2
VARYING_VARIANCE = 0.3
PRIOR_VARIANCE = CONSTANT_VARIANCE + VARYING_VARIANCE

# Variance of 2 f - 1 that the low-rank prior may leave out: a standard deviation of 0.01.
_LEAST_PRIOR = 1e-3
# Boxes are taken to be so wide at least, in ranks: the closed form loses digits as 1 / width^2.
_LEAST_WIDTH = 1e-3

# Each halving of a length scale below 0.2 must be borne out by a nat of evidence: short
# scales split bins, which is dear where reports are noisy; where they are needed the evidence is
# overwhelming.
_USUAL_SCALE = 0.2
_NATS_PER_HALVING = 1.0


def interval_covariance(lower: FloatArray, upper: FloatArray, length_scale: float) -> FloatArray:
    """(L, L) average of k(x - y) over x in interval i and y in interval j."""
    rate = math.sqrt(3.0) / length_scale
    middle, half = 0.5 * (lower + upper), 0.5 * np.maximum(upper - lower, _LEAST_WIDTH)
    lower, upper = middle - half, middle + half

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
    reach = rate * np.maximum(upper - lower, _LEAST_WIDTH)
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
        root: (L, r), with root root' the prior covariance of leaf averages.
        roughness: (L,) prior variance within each leaf around its average.
        log_prior: of the length scales, up to a constant.
    """

    root: FloatArray
    roughness: FloatArray
    log_prior: float


def low_rank_root(covariance: FloatArray) -> FloatArray:
    """(L, r) a root of a covariance (L, L), by pivoted Cholesky factorisation.

    It leaves out less than `_LEAST_PRIOR` of each variance: averages over narrow boxes are nearly
    dependent, so r is much smaller than L where there are many bins.
    """
    factor, pivots, rank, _ = dpstrf(covariance, lower=1, tol=_LEAST_PRIOR)
    root = np.empty((len(covariance), int(rank)))
    root[pivots - 1] = np.tril(factor)[:, :rank]
    return root


@lru_cache(maxsize=128)  # ranked trees are equal to themselves alone
def smoothness(ranked: Ranked, length_scales: tuple[float, ...]) -> Smoothness:
    """The prior of the leaves of a tree."""
    leaves = ranked.tree.leaves
    prior = box_covariance(ranked.lower[leaves], ranked.upper[leaves], np.array(length_scales))
    root = low_rank_root(prior)
    roughness = np.maximum(PRIOR_VARIANCE - np.diag(prior), 0.0)
    halvings = np.maximum(np.log2(_USUAL_SCALE / np.array(length_scales)), 0.0).sum()
    log_prior = -_NATS_PER_HALVING * float(halvings)
    return Smoothness(np.asarray(root, dtype=np.float64), roughness, log_prior)


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
# Where so many times as many people came since, those before a split are left out.
_OUTGROWN = 4.0
# Of a source: prior of a root cell's mass, 1 / K +- this / K.
_ROOT_SD = 1.0
# The average over a cell is one under the source's density, not the target's: so much of the
# variation within a node it may be off by, as a variance.
_SHIFT = 0.1
# No source is believed to tell f more exactly than this, on the scale of 2f - 1.
_LEAST_VARIANCE = 0.02**2
_LEAST_BLUR = 1e-9


def node_masses(
    tree: Tree, sums: NodeSums, earlier: Sequence[tuple[Tree, NodeSums]] = ()
) -> Masses:
    """Masses (N,) that add up over the tree, from the root's, which is 1. What was reported on the
    same boxes of `earlier` trees counts too."""
    seen = np.stack([sums.mass_weight[:, 0], sums.mass_sum[:, 0]])
    for old, there in earlier:
        theirs, ours = same_boxes(old, tree)
        seen[:, ours] += np.stack([there.mass_weight[theirs, 0], there.mass_sum[theirs, 0]])
    return downwards(tree, *upwards(tree, *seen), np.array(1.0))


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


def mixture_variance(tree: Tree, masses: Masses, roughness: FloatArray) -> FloatArray:
    """(N, ...) how far a node's average may lie from the mixture of its leaves, as a variance.

    The mixture takes shares that are only estimated. A share that is off by e moves the average of
    a split node by e times the difference of its halves, whose square is at most 4 times the
    variation (N, ...) `roughness` within the node.
    """
    total = masses.split_variance * 4.0 * roughness * masses.mass**2
    for parent in reversed(tree.generations):
        total[parent] += total[tree.left[parent]] + total[tree.left[parent] + 1]
    spread: FloatArray = total / masses.mass**2
    return spread


def readings(
    sums: NodeSums, mass: FloatArray | float, deviation: FloatArray | float
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


def mixing(tree: Tree, mass: FloatArray, nodes: IntArray) -> FloatArray:
    """(M, L) the share of the mass (N,) of each of `nodes` (M,) that lies in each leaf."""
    inside = tree.within[nodes] * mass[tree.leaves]
    shares: FloatArray = inside / inside.sum(axis=1, keepdims=True)
    return shares


def leaf_information(
    tree: Tree, mass: FloatArray, precision: FloatArray, weighted: FloatArray
) -> Information:
    """What `observations` of all nodes, present and split, say about the leaves."""
    split = tree.nodes[precision[tree.nodes].any(axis=1)]
    shares = mixing(tree, mass, split)
    total = (shares.T * precision[split].T[:, None, :]) @ shares
    leaf = np.arange(tree.leaf_count)
    total[:, leaf, leaf] += precision[tree.leaves].T
    return Information(total, weighted[tree.leaves].T + weighted[split].T @ shares)


def exact_information(tree: Tree, mass: FloatArray, sums: NodeSums) -> Information:
    """What reports without noise say about the leaves.

    People who came before their bin was split count until several times as many came to its
    parts: from then on precisions are diagonal, (K, L), and hundreds of bins cost little.
    """
    people = sums.offered
    since = tree.within[tree.nodes] @ people[tree.leaves].sum(axis=1)
    outgrown = tree.nodes[_OUTGROWN * people[tree.nodes].sum(axis=1) < since]
    precision, weighted = people / TEMPER, sums.signed / TEMPER
    precision[outgrown] = weighted[outgrown] = 0.0
    if precision[tree.nodes].any():
        return leaf_information(tree, mass, precision, weighted)
    return Information(precision[tree.leaves].T, weighted[tree.leaves].T)


def dense(information: Information) -> Information:
    """The same with precisions (K, L, L), as what comes from other trees has them."""
    precision = information.precision
    if precision.ndim == 3:
        return information
    return Information(np.stack([np.diag(each) for each in precision]), information.weighted)


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
        shares = mixing(tree, masses.mass[:, arm], used)
        precision[arm] = (shares.T * worth[used, arm]) @ shares
        weighted[arm] = (worth[used, arm] * y[used, arm]) @ shares
    return _without_scale(
        smoothness(Ranked.plain(tree), length_scales),
        Information(precision, weighted),
        root_variance,
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
def overlaps(old: Ranked, new: Ranked) -> tuple[FloatArray, FloatArray]:
    """(B, L) the part of the volume of each leaf of `old` that lies in each leaf of `new`, and the
    part of the latter's that lies in the former; volumes are those of ranks."""
    low, high = old.lower[old.tree.leaves], old.upper[old.tree.leaves]
    lower, upper = new.lower[new.tree.leaves], new.upper[new.tree.leaves]
    both = np.ones((len(low), len(lower)))
    for axis in range(low.shape[1]):
        length = np.minimum(high[:, axis][:, None], upper[:, axis][None]) - np.maximum(
            low[:, axis][:, None], lower[:, axis][None]
        )
        both *= np.maximum(length, 0.0)
    shares = both / np.prod(high - low, axis=1)[:, None]
    return shares, both / np.prod(upper - lower, axis=1)[None]


def projected(
    information: Information, old: Ranked, new: Ranked, roughness: FloatArray
) -> Information:
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
    (K, r, r), R^-1 C' t (K, r), and the log evidence for the prior up to what it does not change,
    which is |R^-1 C' t|^2 / 2 - log det R."""
    root = prior.root
    precision = information.precision
    if precision.ndim == 2:
        inner = (root.T * precision[:, None, :]) @ root
    else:
        inner = root.T @ precision @ root
    inner = inner + np.eye(root.shape[1])
    factor: FloatArray = np.asarray(np.linalg.cholesky(inner), dtype=np.float64)
    projected = _solved(factor, (information.weighted @ root)[..., None])[..., 0]
    log_det = float(np.log(np.diagonal(factor, axis1=1, axis2=2)).sum())
    return factor, projected, 0.5 * float((projected**2).sum()) - log_det


def _solved(factor: FloatArray, right: FloatArray) -> FloatArray:
    """R^-1 B for lower triangular R (K, r, r) and B (K, r, M)."""
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
    shape = (len(factor), *prior.root.T.shape)
    halves = _solved(factor, np.broadcast_to(prior.root.T, shape))
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
    start: tuple[float, ...], ranked: Ranked, information: Information
) -> tuple[tuple[float, ...], ...]:
    """Length scales that the observations make likely, the most likely first.

    Climbs from `start`, changing one axis at a time, so the work grows with d and not with the
    number of combinations.
    """
    evidence: dict[tuple[float, ...], float] = {}

    def evidence_of(scales: tuple[float, ...]) -> float:
        if scales not in evidence:
            prior = smoothness(ranked, scales)
            evidence[scales] = log_evidence(prior, information) + prior.log_prior
        return evidence[scales]

    best, climbing = start, True
    while climbing:
        near = [
            (*best[:axis], scale, *best[axis + 1 :])
            for axis in range(len(best))
            for scale in _LENGTH_SCALES
        ]
        # Where columns matter only together, one by itself shows nothing.
        near += [
            tuple(scale if axis in pair else other for axis, other in enumerate(best))
            for pair in combinations(range(len(best)), 2)
            for scale in _LENGTH_SCALES[:4]
        ]
        top = max(near, key=evidence_of)
        climbing = evidence_of(top) > evidence_of(best)
        best = top if climbing else best
    order = sorted(evidence, key=evidence_of, reverse=True)
    kept = [scales for scales in order if evidence[scales] > evidence[best] - _LOG_RATIO]
    return tuple(kept[:_MOST_SCALES])
