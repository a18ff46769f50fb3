"""Decisions from a posterior: which arms to offer and to eliminate, and which bins to split.

Everything here reads released statistics only, so it is post-processing and costs no privacy.
Means and variances are of 2 f - 1, shape (L, K); `active` (L, K) says which arms are left.

Notes
-----
*Ranks.* Length scales are measured in ranks along each column, as far as the masses of the bins
tell (`Ranked`), so bounds that are 20 times too wide cost depth, not learning. Noisy masses are
shrunk towards even ones by the share of their variation that their noise explains.

*When a bin is split.* Without privacy bins cost no noise: the first policy has 64, and a bin is
split at 4 people an arm. Under privacy the first policy has up to 0.12 e^epsilon bins, and a bin is
split when arms contend in it, the gap to the likeliest rival is known better than the variation
within the bin, and as many people again would tell arms apart in a half (`Rules.resolution`).

*Length scales* are climbed one column at a time, then two at once: a product of two short waves
averages to nothing over a strip. A pair must gain 4 nats. Below 0.2 each halving costs a nat.

*A level that all arms share* has a prior of its own, one more Gaussian coefficient: with means
around the middle of the bounds, arms that were rarely tried look good wherever rewards are low.

*Bins along an axis that does not matter* are rebuilt, at most once per doubling of people; reports
and masses of equal boxes carry over. Without privacy no arm is eliminated.

*Limit.* Signed subset selection over J equal bins keeps mass / variance of an open report's
information: at epsilon 4 .93 for one bin, .76 for 4, .39 for 16, .10 for 64. Structure beneath
halves that look alike is out of reach there.

*Tried without gain:* handing people of split bins down to the halves; a share of people for whom
neighbouring bins say nothing; one more factor of the prior variance; no condition on the rival.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from typing import Annotated, Self

import numpy as np
from scipy.special import ndtr

from discreet.codec import Range, Serializable, Shape
from discreet.gaussian import GaussianNaturalParameters
from discreet.learners.partition.posterior import (
    AveragedPosterior,
    GPPrior,
    box_within_variance,
    gp_prior,
    log_evidence,
)
from discreet.learners.partition.tree import Bins, Ranked, Tree, splittable
from discreet.validation import BoolArray, FloatArray, IntArray

# Less than the deepest tree that policies allow (tree.py).
_DEEPEST = 30
Count = Annotated[int, Range(1)]
Factor = Annotated[float, Range(above=0.0)]


@dataclass(frozen=True)
class Rules(Serializable):
    """When the partition learner acts; the defaults were tuned in simulation.

    Attributes:
        batch: least number of reports between two policies, once a few have been published.
        growth: later, that number is this share of all reports so far; beyond 2,000 people more.
        caution: an arm is given up when it lies this many standard deviations, plus the margin,
            below the leading one.
        contention: arms within this many standard deviations, plus the margin, of the leading one
            are contenders; only bins with contenders are split.
        margin: the multiple of the variation within a bin that is added to either, because an arm
            that is behind on average may lead in a part of the bin.
        resolution: a bin is split only if as many people again would tell arms apart in one half
            with a standard deviation below this multiple of the variation within the bin.
        temperature: posterior draws deviate from the mean by this factor.
        max_depth: no bin is split below this depth.
        max_bins: no bin is split while there are this many.
        first_learning: reports before length scales are first learnt, and at least between two
            times; under privacy as many as say as much.
        learning_growth: they are learnt again whenever the reports have grown by this factor.
    """

    batch: Count = 200
    growth: Factor = 0.02
    caution: Factor = 3.0
    contention: Factor = 2.0
    margin: Factor = 2.0
    resolution: Factor = 1.0
    temperature: Factor = 0.7
    max_depth: Annotated[int, Range(1, _DEEPEST)] = 20
    max_bins: Count = 400
    first_learning: Count = 100
    learning_growth: Factor = 1.15


# Many bins lower the precision of a sum over all of them by about a third up to this many
# times e^epsilon (signed subset selection of one bin: the truth is reported with probability
# e^epsilon / (e^epsilon + 2J - 1)). Sums for people who report beside the truth take time.
_FREE_BINS, _MOST_FREE_BINS = 0.12, 64
# Halves that look alike may hide structure beneath them, so where cutting is free bins are halved
# whatever reports say; without privacy, and beyond 64 bins, bins with this many people an arm. More
# bins need more people each, to resolve ever smaller differences.
_CROWD = 4.0

# Length scales are sought among these, relative to edges of length 1, starting from the first.
FIRST_LENGTH_SCALE = 0.8
_LENGTH_SCALES = (0.05, 0.1, 0.2, 0.4, 0.8, 3.2)
# Those that two columns are given at once, and how many nats more evidence they must then have.
_SHORT_SCALES, _DECISIVE = (0.05, 0.1, 0.2), 4.0
# Those less likely than the best by a factor e^4 are left out of the average, as are all but six.
_LOG_RATIO = 4.0
_MOST_SCALES = 6
# Ranks are updated when one of them moved by more.
_RANK_SHIFT = 0.03
# Bins are badly cut where an edge is so much shorter, in length scales, than another one that it
# would not be halved again, and more than this share of all people are in such bins.
_WASTED, _BADLY_CUT = 0.75, 0.25

# Draws are evaluated on a grid of values, up to this many deviations from their means.
_GRID, _REACH = np.linspace(0.0, 1.0, 64), 5.0


@dataclass(frozen=True, eq=False)
class ScaledBins:
    """A partition, the masses of its leaves by which ranks are measured, and the length scales
    that reports make likely, the likeliest first."""

    bins: Bins
    mass: Annotated[FloatArray, Shape("tree.leaf_count")]
    length_scales: tuple[tuple[float, ...], ...]

    @classmethod
    def whole(cls, dimension: int, arms: int) -> Self:
        """One bin with all arms, before anything is known."""
        return cls(Bins.whole(dimension, arms), np.ones(1), ((FIRST_LENGTH_SCALE,) * dimension,))

    @property
    def tree(self) -> Tree:
        return self.bins.tree

    @cached_property
    def ranked(self) -> Ranked:
        """The tree in ranks."""
        return self.rank(self.tree)

    def rank(self, tree: Tree) -> Ranked:
        """Another tree in the same ranks."""
        return Ranked.of(tree, self.tree, self.mass)

    def moved(self, mass: FloatArray, deviation: FloatArray) -> Self:
        """With ranks by other masses (L,) of the leaves, if these differ enough to matter.

        Ranks that follow noise blur everything measured in them, so masses are shrunk towards even
        ones by the share of their variation that `deviation` (L,) explains (James and Stein 1961).
        """
        extents = self.tree.upper[self.tree.leaves] - self.tree.lower[self.tree.leaves]
        even = extents.prod(axis=1)
        variation = float(np.sum((mass - even) ** 2))
        kept = max(0.0, 1.0 - float(np.sum(deviation**2)) / max(variation, 1e-300))
        changed = replace(self, mass=even + kept * (mass - even))
        shift = np.abs(changed.ranked.upper - self.ranked.upper).max()
        return changed if shift > _RANK_SHIFT else self

    @property
    def priors(self) -> list[GPPrior]:
        """The priors under the likely length scales."""
        return [gp_prior(self.ranked, scales) for scales in self.length_scales]

    def within_cell_variance(self, ranked: Ranked) -> FloatArray:
        """(N,) that of all nodes of a tree, under the likeliest length scales."""
        return box_within_variance(ranked.lower, ranked.upper, np.array(self.length_scales[0]))

    def posterior(self, known: GaussianNaturalParameters) -> AveragedPosterior:
        """The posterior averaged over the likely length scales."""
        return AveragedPosterior.of(self.priors, known)

    def mean_length_scales(self, state: AveragedPosterior) -> FloatArray:
        """(d,) geometric mean of the likely length scales, by their probabilities."""
        mean: FloatArray = np.exp(state.weights @ np.log(np.array(self.length_scales)))
        return mean

    def learnt(self, information: GaussianNaturalParameters) -> Self:
        """The same bins with the length scales that the observations make likely."""
        best = self.length_scales[0]
        return replace(self, length_scales=likely_length_scales(best, self.ranked, information))

    def split(self, chosen: BoolArray, axes: IntArray) -> Self:
        """Halve the `chosen` (L,) leaves along `axes` (L,)."""
        mass = np.concatenate([self.mass[~chosen], np.repeat(0.5 * self.mass[chosen], 2)])
        return replace(self, bins=self.bins.split(chosen, axes), mass=mass)


@dataclass(frozen=True, eq=False)
class Decisions:
    """What the learner has decided so far.

    Attributes:
        now: the present bins.
        left_behind: trees that people reported on before the learner started anew.
        started: the version of the policy from which on each later tree was in use.
        may_restart_at: after how many people it may start anew.
        learn_at: after how many people length scales are learnt again.
    """

    now: ScaledBins
    left_behind: tuple[Tree, ...]
    started: tuple[int, ...]
    may_restart_at: int
    learn_at: int


def likely_length_scales(
    start: tuple[float, ...], ranked: Ranked, information: GaussianNaturalParameters
) -> tuple[tuple[float, ...], ...]:
    """Length scales that the observations make likely, the most likely first.

    Climbs from `start`, changing one axis at a time, and then two, so the work grows with the
    square of d and not with the number of combinations. Axes along which nothing was cut say
    nothing of their length scales but for how much of the variation they leave to the others: they
    change together.
    """
    cut = np.unique(ranked.tree.axes).tolist()
    if not cut:
        return (start,)
    groups = [{axis} for axis in cut] + [set(range(len(start))).difference(cut)]
    evidence: dict[tuple[float, ...], float] = {}

    def log_posterior(scales: tuple[float, ...]) -> float:
        prior = gp_prior(ranked, scales)
        return log_evidence(prior, information) + prior.log_prior

    def evidence_of(scales: tuple[float, ...]) -> float:
        if scales not in evidence:
            evidence[scales] = log_posterior(scales)
        return evidence[scales]

    def climbed(best: tuple[float, ...]) -> tuple[float, ...]:
        """From here changes of one group, while they lead upwards."""
        while True:
            near = [
                tuple(scale if axis in group else other for axis, other in enumerate(best))
                for group, scale in product(groups, _LENGTH_SCALES)
            ]
            top = max(near, key=evidence_of)
            if evidence_of(top) <= evidence_of(best):
                return best
            best = top

    best = climbed(start)
    # Where columns matter only together, one by itself shows nothing. Among many pairs some look
    # better by chance.
    for pair in combinations(cut, 2):
        for scale in _SHORT_SCALES:
            both = tuple(scale if axis in pair else other for axis, other in enumerate(best))
            if log_posterior(both) > evidence_of(best) + _DECISIVE:
                best = climbed(both)
    order = sorted(evidence, key=evidence_of, reverse=True)
    kept = [scales for scales in order if evidence[scales] > evidence[best] - _LOG_RATIO]
    return tuple(kept[:_MOST_SCALES])


def thompson_probabilities(
    mean: FloatArray, deviation: FloatArray, active: BoolArray
) -> FloatArray:
    """(L, K) the probability that an independent draw of an arm is the largest of the active.

    P_k = integral of phi_k(x) prod_(i != k) Phi_i(x) dx over 64 equally spaced values of each
    leaf, normalised over the active arms. Deviations below half a step, which only arms have that
    are known far better than their rivals, count as so much; what it gives is what is offered, so
    propensities are exact.
    """
    lowest = np.where(active, mean - _REACH * deviation, -np.inf).max(axis=1)[:, None, None]
    highest = np.where(active, mean + _REACH * deviation, -np.inf).max(axis=1)[:, None, None]
    step = (highest - lowest) / (len(_GRID) - 1.0)
    scale = np.maximum(np.maximum(deviation[..., None], 0.5 * step), 1e-12)
    z = (lowest + (highest - lowest) * _GRID - mean[..., None]) / scale  # (L, K, values)
    below = np.where(active[..., None], ndtr(z), 1.0)
    # The product over the rivals is that over all before an arm times that over all after it.
    before, after = (np.ones_like(below) for _ in range(2))
    np.cumprod(below[:, :-1], axis=1, out=before[:, 1:])
    after[:, :-1] = np.cumprod(below[:, :0:-1], axis=1)[:, ::-1]
    best = (before * after * np.exp(-0.5 * z**2) / scale).sum(axis=2) * active
    probabilities: FloatArray = best / best.sum(axis=1, keepdims=True)
    return probabilities


def rivals(
    state: AveragedPosterior, active: BoolArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Gap to the leading arm and its standard deviation (L, K), and how much a difference varies
    within each leaf (L, 1): H = sqrt(2 within_cell_variance)."""
    mean = np.where(active, state.mean, -np.inf)
    leader = mean.argmax(axis=1)[:, None]
    gap = np.take_along_axis(mean, leader, axis=1) - mean
    spread = np.sqrt(state.variance + np.take_along_axis(state.variance, leader, axis=1))
    return gap, spread, np.sqrt(2.0 * state.within_cell_variance)[:, None]


def far_behind(gaps: tuple[FloatArray, FloatArray, FloatArray], rules: Rules) -> BoolArray:
    """(L, K) arms that lead nowhere in their leaf with high probability, from `rivals`."""
    gap, spread, variation = gaps
    return np.asarray(gap > rules.caution * spread + rules.margin * variation)


def worth_splitting(
    bins: Bins,
    ranked: Ranked,
    gaps: tuple[FloatArray, FloatArray, FloatArray],
    noise: FloatArray,
    scales: FloatArray,
    levels: tuple[int | None, ...],
    rules: Rules,
) -> tuple[BoolArray, IntArray]:
    """(L,) leaves where arms contend, and where reports tell halves apart that differ enough; and
    (L,) the axis along which each has the most length scales, of those that can be halved.

    Args:
        bins: the partition, with the arms that are left.
        gaps: what `rivals` says.
        noise: (L,) standard deviation of an arm difference in half a leaf after as many people.
        scales: (d,) length scales.
        levels: how many values each column takes, None for any.
        rules: when to act.
    """
    tree = bins.tree
    gap, spread, variation = gaps
    within = rules.contention * spread + rules.margin * variation
    contend = bins.active & (gap > 0.0) & (gap <= within)
    # The rival that is most likely to lead: others are offered so seldom that they stay uncertain.
    nearest = np.where(contend, gap / spread, np.inf).argmin(axis=1)[:, None]
    uncertainty = np.take_along_axis(spread, nearest, axis=1)[:, 0]
    allowed = splittable(tree, tree.leaves, levels)
    chosen: BoolArray = (
        contend.any(axis=1)
        & (uncertainty < variation[:, 0])
        & (noise < rules.resolution * variation[:, 0])
        & (tree.depth[tree.leaves] < rules.max_depth)
        & allowed.any(axis=1)
    )
    edges = (ranked.upper[tree.leaves] - ranked.lower[tree.leaves]) / scales
    return chosen, np.where(allowed, edges, -1.0).argmax(axis=1)


def free_bins(epsilon: float) -> float:
    """Up to how many bins cost next to nothing."""
    return min(_FREE_BINS * math.exp(min(epsilon, 100.0)), _MOST_FREE_BINS)


def large(tree: Tree, mass: FloatArray, people: int, arms: int, epsilon: float) -> BoolArray:
    """(L,) leaves that are halved whatever reports say, because that costs next to nothing of what
    reports say of all of them together: those with more than half as much again as their share of
    the people, `mass` (L,); and, without privacy, those with enough people for a look at halves."""
    free = free_bins(epsilon)
    finer = max(1.0, tree.leaf_count / _MOST_FREE_BINS)
    crowd = _CROWD * arms * finer**2 if epsilon == math.inf else math.inf
    uneven = (mass > 1.5 / free) & (tree.leaf_count < 2.0 * free)
    return uneven | (people * mass > crowd)


def badly_cut(
    bins: Bins, ranked: Ranked, mass: FloatArray, length_scales: tuple[float, ...]
) -> bool:
    """Whether many people are in bins that were halved along an axis along which, as is known by
    now, they should not have been; `mass` (N,) is that of all nodes."""
    tree = bins.tree
    unresolved = bins.active.sum(axis=1) > 1
    extents = ranked.upper[tree.leaves] - ranked.lower[tree.leaves]
    edges = extents / np.array(length_scales)
    idle = (extents < 0.9) & (2.0 * edges < _WASTED * edges.max(axis=1, keepdims=True))
    return bool(mass[tree.leaves][idle.any(axis=1) & unresolved].sum() > _BADLY_CUT)
