"""Masses of bins, and the Gaussian posterior of every arm's reward on every leaf.

Model, for each arm k: 2 f_k - 1 averaged over leaves is a Gaussian vector with covariance
`box_covariance`, in ranks (tree.py), around an unknown mean that all arms share.
A node of the tree (a leaf, or one that was split since) was observed as
y = S / (T mass), which has mean sum_l w_l (2 f_k - 1)_l over the leaves l in it, w_l their share
of its mass, and variance R / (T mass)^2 + min(y^2, 1) var(mass) / mass^2 + what the shares w may
be off by (`mixture_variance`).

| array       | shape            | meaning                                                     |
|-------------|------------------|-------------------------------------------------------------|
| mass        | (N,)             | share of people in each node                                |
| deviation   | the same         | its standard deviation                                      |
| known       | (K, L, L), (K, L)| natural parameters of the leaves (gaussian.py)              |
|             | (K, M), (K, M)   | the same of M nodes, each by itself (`NodeInformation`)     |
| within_cell_variance | (L,)    | prior variance of 2 f_k - 1 within a leaf around its average|

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
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from discreet.gaussian import GaussianNaturalParameters
from discreet.learners.partition.policy import NodeSums
from discreet.learners.partition.tree import (
    CellFrequencies,
    Ranked,
    Tree,
    aggregation_variance,
    downwards,
    mixing,
    mixture_variance,
    overlaps,
    same_boxes,
    upwards,
)
from discreet.validation import FloatArray, IntArray

# Prior variance of 2 f - 1: of the mean that all arms share, and for one arm of a constant, and of
# a part that varies with the context.
SHARED_VARIANCE = 0.3
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
        return (2.0 * reach - 3.0 + (3.0 + reach) * np.exp(-reach)) / rate**2

    low, high = lower[:, None], upper[:, None]
    total = (
        second_integral(high - lower)
        + second_integral(low - upper)
        - second_integral(low - lower)
        - second_integral(high - upper)
    )
    return total / ((high - low) * (upper - lower))


def box_within_variance(
    lower: FloatArray, upper: FloatArray, length_scales: FloatArray
) -> FloatArray:
    """(N,) prior variance of 2 f - 1 within each box around its average over the box."""
    rate = np.sqrt(3.0) / length_scales
    reach = rate * np.maximum(upper - lower, _LEAST_WIDTH)
    # The average of k over one interval with itself: 2 G(width) / width^2.
    alike = 2.0 * (2.0 * reach - 3.0 + (3.0 + reach) * np.exp(-reach)) / reach**2
    within_cell_variance: FloatArray = VARYING_VARIANCE * np.maximum(1.0 - alike.prod(axis=1), 0.0)
    return within_cell_variance


@lru_cache(maxsize=512)
def _intervals(ranked: Ranked, axis: int) -> tuple[FloatArray, FloatArray, IntArray]:
    """The different intervals (U,), (U,) that leaves have along an axis, which are few because
    boxes are dyadic, and which of them each leaf has (L,)."""
    leaves = ranked.tree.leaves
    pairs = ranked.lower[leaves, axis] + 1j * ranked.upper[leaves, axis]
    unique, place = np.unique(pairs, return_inverse=True)
    return unique.real, unique.imag, place.reshape(-1)


@lru_cache(maxsize=4096)  # all length scales of all columns, which priors have in common
def _along(ranked: Ranked, axis: int, length_scale: float) -> FloatArray:
    """(U, U) `interval_covariance` of the different intervals along an axis."""
    lower, upper, _ = _intervals(ranked, axis)
    return interval_covariance(lower, upper, length_scale)


def box_covariance(ranked: Ranked, length_scales: tuple[float, ...]) -> FloatArray:
    """(L, L) prior covariance of the averages of 2 f - 1 over the leaves."""
    count = ranked.tree.leaf_count
    varying = np.full((count, count), VARYING_VARIANCE)
    for axis, length_scale in enumerate(length_scales):
        covariance = _along(ranked, axis, length_scale)
        place = _intervals(ranked, axis)[2]
        varying *= covariance if len(covariance) == 1 else covariance[np.ix_(place, place)]
    return CONSTANT_VARIANCE + varying


@dataclass(frozen=True, eq=False)
class GPPrior:
    """The prior of the leaves of one tree under given length scales.

    Attributes:
        root: (L, r), with root root' the prior covariance of leaf averages.
        within_cell_variance: (L,) prior variance within each leaf around its average.
        log_prior: of the length scales, up to a constant.
    """

    root: FloatArray
    within_cell_variance: FloatArray
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
def gp_prior(ranked: Ranked, length_scales: tuple[float, ...]) -> GPPrior:
    """The prior of the leaves of a tree."""
    prior = box_covariance(ranked, length_scales)
    root = low_rank_root(prior)
    within_cell_variance = np.maximum(PRIOR_VARIANCE - np.diag(prior), 0.0)
    halvings = np.maximum(np.log2(_USUAL_SCALE / np.array(length_scales)), 0.0).sum()
    log_prior = -_NATS_PER_HALVING * float(halvings)
    return GPPrior(np.asarray(root, dtype=np.float64), within_cell_variance, log_prior)


# Offers follow earlier reports, so what looked bad by chance is looked at less, and formulas for
# fixed designs are overconfident (z-scores of 1.17 at epsilon 1). Noise counts for so much more.
TEMPER = 1.12
# One call for all arms is faster than one for each that knows of triangles, up to this many leaves.
_FEW_LEAVES = 24


def node_masses(
    tree: Tree, sums: NodeSums, earlier: Sequence[tuple[Tree, NodeSums]] = ()
) -> CellFrequencies:
    """Masses that add up over the tree to 1 at the root.

    Reports on the same boxes of `earlier` trees count too.
    """
    seen = np.stack([sums.mass_weight[:, 0], sums.mass_sum[:, 0]])
    for old, there in earlier:
        theirs, ours = same_boxes(old, tree)
        seen[:, ours] += np.stack([there.mass_weight[theirs, 0], there.mass_sum[theirs, 0]])
    return downwards(tree, *upwards(tree, *seen), np.array(1.0))


def observations(
    tree: Tree,
    sums: NodeSums,
    masses: CellFrequencies,
    within_cell_variance: FloatArray,
    exact: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Precision (N, K) of the observation of each node and arm, and precision x observation.

    Args:
        tree: that people reported on.
        sums: of their reports.
        masses: of its nodes.
        within_cell_variance: (N,) of its nodes.
        exact: whether each report names its bin, so that people need not be estimated.
    """
    if exact:
        return sums.offered / TEMPER, sums.signed / TEMPER
    mass, deviation = masses.mass[:, None], masses.deviation[:, None]
    seen = np.maximum(sums.offered, 1.0) * mass
    y = sums.signed / seen
    noise = (1.0 - mass) * sums.noise_other + mass * sums.noise_own
    variance = TEMPER * noise / seen**2 + np.minimum(y**2, 1.0) * (deviation / mass) ** 2
    variance += mixture_variance(tree, masses, within_cell_variance)[:, None]
    worth = np.where(sums.offered > 0.0, 1.0 / np.maximum(variance, 1e-12), 0.0)
    return worth, worth * y


@dataclass(frozen=True, eq=False)
class NodeInformation(GaussianNaturalParameters):
    """Natural parameters of M independent nodes: precisions (K, M), weighted (K, M).

    Attributes:
        shares: (M, L) of each leaf in each node, W. Those of the leaves are W' diag(p) W and W' t,
            (K, L, L) arrays that are not formed: with hundreds of bins they cost most.
    """

    shares: FloatArray

    @classmethod
    def of(
        cls, tree: Tree, mass: FloatArray, precision: FloatArray, weighted: FloatArray
    ) -> NodeInformation:
        """From `observations` (N, K) of all nodes, present and split.

        Reports on a bin before its split keep counting: nearly all people who were ever offered a
        bad arm may be among them.
        """
        nodes = np.flatnonzero(precision.any(axis=1))
        return cls(precision[nodes].T, weighted[nodes].T, mixing(tree, mass, nodes))

    @classmethod
    def elsewhere(
        cls,
        precision: FloatArray,
        weighted: FloatArray,
        old: Ranked,
        new: Ranked,
        within_cell_variance: FloatArray,
    ) -> NodeInformation:
        """From the same of an earlier tree, for the leaves of `new` with within-cell variance (L,).

        Averages over boxes that cover parts of leaves have independent errors with the variance v
        of `aggregation_variance`, so a precision p becomes 1 / (1 / p + v).
        """
        nodes = np.flatnonzero(precision.any(axis=1))
        shares, coverage = (part[nodes] for part in overlaps(old, new))
        kept = 1.0 / (
            1.0
            + aggregation_variance(shares, coverage, within_cell_variance)[:, None]
            * precision[nodes]
        )
        return cls((kept * precision[nodes]).T, (kept * weighted[nodes]).T, shares)

    def __add__(self, other: GaussianNaturalParameters) -> GaussianNaturalParameters:
        if not isinstance(other, NodeInformation):
            return self.dense() + other
        return NodeInformation(
            np.hstack([self.precision, other.precision]),
            np.hstack([self.weighted, other.weighted]),
            np.vstack([self.shares, other.shares]),
        )

    def scaled(self, factor: float) -> NodeInformation:
        return replace(self, precision=factor * self.precision, weighted=factor * self.weighted)

    def dense(self) -> GaussianNaturalParameters:
        """The natural parameters of the leaves as arrays (K, L, L) and (K, L)."""
        precision = (self.shares.T * self.precision[:, None, :]) @ self.shares
        return GaussianNaturalParameters(precision, self.weighted @ self.shares)


def solved(factor: FloatArray, right: FloatArray) -> FloatArray:
    """R^-1 B for lower triangular R (K, r, r) and B (K, r, M)."""
    if factor.shape[1] <= _FEW_LEAVES:
        return np.linalg.solve(factor, right).astype(np.float64, copy=False)
    pairs = zip(factor, right, strict=True)
    return np.stack([solve_triangular(r, b, lower=True, check_finite=False) for r, b in pairs])


@dataclass(frozen=True, eq=False)
class LeafPosterior:
    """The posterior of leaf averages of 2 f - 1 under one prior.

    With prior covariance C C' of each arm around a mean m that all arms share, natural parameters
    (A, t) and R R' = I + C' A C, the evidence given m is
    |R^-1 C' t|^2 / 2 - log det R + m u - m^2 w / 2 with

        u = sum 1't - (C' A 1)' (R R')^-1 C' t,   w = sum 1'A 1 - |R^-1 C' A 1|^2  (over arms),

    so m ~ N(0, s^2) has posterior precision w + 1 / s^2. With H = R^-1 C' the posterior covariance
    given m is H' H, and the mean is H' R^-1 C' t + m g, g = 1 - H' R^-1 C' A 1.

    Attributes:
        prior: of the leaves.
        factor: (K, r, r) Cholesky factors R.
        seen: (K, r, 2) R^-1 C' t and R^-1 C' A 1.
        level: the posterior mean of m,
        level_variance: and its variance.
        log_evidence: of the prior, up to a constant that all priors share.
    """

    prior: GPPrior
    factor: FloatArray
    seen: FloatArray
    level: float
    level_variance: float
    log_evidence: float

    @classmethod
    def of(cls, prior: GPPrior, known: GaussianNaturalParameters) -> LeafPosterior:
        root, precision = prior.root, known.precision
        if isinstance(known, NodeInformation):
            root = known.shares @ root
            inner, ones = (root.T * precision[:, None, :]) @ root, precision
        else:
            inner, ones = root.T @ precision @ root, precision.sum(axis=2)
        factor = np.linalg.cholesky(inner + np.eye(root.shape[1])).astype(np.float64, copy=False)
        seen = solved(factor, np.stack([known.weighted @ root, ones @ root], axis=2))
        explained = np.einsum("kri,krj->ij", seen, seen)
        slope = float(known.weighted.sum() - explained[0, 1])
        variance = 1.0 / (float(ones.sum() - explained[1, 1]) + 1.0 / SHARED_VARIANCE)
        log_det = float(np.log(np.diagonal(factor, axis1=1, axis2=2)).sum())
        log_det -= 0.5 * math.log(variance / SHARED_VARIANCE)
        evidence = 0.5 * (float(explained[0, 0]) + slope**2 * variance) - log_det
        return cls(prior, factor, seen, slope * variance, variance, evidence)

    @cached_property
    def halves(self) -> FloatArray:
        """(K, r, L) H."""
        shape = (len(self.factor), *self.prior.root.T.shape)
        return solved(self.factor, np.broadcast_to(self.prior.root.T, shape))

    @cached_property
    def _own_and_ones(self) -> tuple[FloatArray, FloatArray]:
        """(L, K) the mean for m = 0, and g."""
        own, ones = np.moveaxis(self.seen.transpose(0, 2, 1) @ self.halves, 1, 0)
        return own.T, (1.0 - ones).T

    @property
    def mean(self) -> FloatArray:
        """(L, K)."""
        own, moved = self._own_and_ones
        return own + self.level * moved

    @property
    def variances(self) -> FloatArray:
        """(L, K) of each leaf average."""
        own: FloatArray = (self.halves**2).sum(axis=1).T
        return own + self.level_variance * self._own_and_ones[1] ** 2

    def variance(self, weights: FloatArray) -> float:
        """Of the sum of weights (L, K) times leaf averages."""
        own = np.einsum("krl,lk->kr", self.halves, weights)
        shared = float(np.sum(weights * self._own_and_ones[1]))
        return float(np.sum(own**2)) + self.level_variance * shared**2


def log_evidence(prior: GPPrior, known: GaussianNaturalParameters) -> float:
    """The log evidence of a prior, up to a constant that all priors share."""
    return LeafPosterior.of(prior, known).log_evidence


@dataclass(frozen=True, eq=False)
class AveragedPosterior:
    """The posterior averaged over priors by their evidence.

    While reports say little about length scales, the average is as uncertain as the priors differ.

    | array     | shape  | meaning                                                    |
    |-----------|--------|------------------------------------------------------------|
    | weights   | (H,)   | posterior probabilities of the priors                      |
    | mean      | (L, K) | posterior mean of 2 f_k - 1 on each leaf                   |
    | variance  | (L, K) | its posterior variance                                     |
    | within_cell_variance | (L,)   | prior variance of 2 f_k - 1 within a leaf                  |
    """

    parts: tuple[LeafPosterior, ...]
    weights: FloatArray
    mean: FloatArray
    variance: FloatArray
    within_cell_variance: FloatArray

    @classmethod
    def of(cls, priors: Sequence[GPPrior], known: GaussianNaturalParameters) -> AveragedPosterior:
        """The average over these priors."""
        parts = tuple(LeafPosterior.of(prior, known) for prior in priors)
        logs = np.array([part.log_evidence + part.prior.log_prior for part in parts])
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        means = np.stack([part.mean for part in parts])
        variances = np.stack([part.variances for part in parts])
        mean = np.tensordot(weights, means, axes=1)
        variance = np.tensordot(weights, variances + (means - mean) ** 2, axes=1)
        within_cell_variance = weights @ np.stack([prior.within_cell_variance for prior in priors])
        return cls(parts, weights, mean, variance, within_cell_variance)
