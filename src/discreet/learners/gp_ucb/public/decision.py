"""Which points of a group the people of an epoch are given: three decision rules.

A rule gives the probabilities of the points of one coordinate group. They follow from the posterior
of the group's coefficients alone, and all people of one epoch share them.

**Knowledge gradient.** x* is the best point by the mean, gap(x) = m(x*) - m(x). N people at x
measure f(x) - f(x*) with variance v_N = rho^2 / N + 2 s_u^2 / N^2 (s_u^2: the noise of a release).
Under length scale l and a wide level the posterior then moves by s = s_l^2 / sqrt(s_l^2 + v_N),
s_l = sd(f(x) - f(x*)), and everyone still to come gains

    gain_N(x) = 2 remaining sum over l of w_l s (h(z) - h(z + c / s)),   h(z) = pdf(z) - z cdf(-z),

z = gap_l(x) / s, because rewards reach c above the best mean at most (Frazier, Powell and Dayanik
2008). The price is N gap(x). The wide level stands in for those that the evidence favours, which
are small if f is flat in most places; and w_l gives each length scale a share of the weight of the
next longer one, because f may be rougher elsewhere: the smaller, the more places were seen and
smooth.

**Exploratory pulls.** Each informs M(x) neighbouring points, so N / M(x) pulls per point suffice.
If the epoch cannot afford them, a price lambda per pull is raised until it can: then fewer people
go to each point, and then to fewer points. Pulls that the release's noise hides are never planned:
counted one by one they seem worth while, but of many points the best one then owes its place to
the noise.

| array  | shape  | meaning                                                           |
|--------|--------|-------------------------------------------------------------------|
| psi    | (N, m) | centred features of the points                                    |
| counts | (k,)   | numbers of pulls that are compared, powers of 2                   |
| gain   | (N, k) | expected improvement of later decisions by that many pulls        |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from discreet.gaussian import Posterior
from discreet.learners.gp_ucb.calibration import DecisionRule
from discreet.learners.gp_ucb.policy import normal_excess
from discreet.validation import FloatArray, IntArray

# Draws of theta that a released Thompson policy averages over.
_DRAWS = 64
# How strongly points with lower means are avoided: probabilities go with Phi(3 q)^2.
_SHARPNESS = 3.0
# The share of people for whom they go with Phi(q)^2: a run that was unlucky early would otherwise
# stay with the second-best point for good.
_DOUBT = 0.1
# The largest share of an epoch's people that explores.
_MOST_EXPLORING = 0.8
# Prior ratio of smooth to rough regions; and the number of neighbouring places that are smooth or
# rough together.
_SMOOTHER = 2.0
_TOGETHER = 20.0
# Length scales of less weight do not count.
_LEAST_WEIGHT = 1e-3
# Where the epoch can afford it, a point gets enough pulls that the release's noise moves their mean
# by no more than this.
_TELLING = 0.15
# Steps of the bisection for lambda, to 2^-14 of the largest price.
_BISECTIONS = 14
# Points over which an epoch of upper bounds is spread, at most.
_MOST_BOUNDS = 16


@dataclass(frozen=True, eq=False)
class GroupPosterior:
    """The posterior of one coordinate group, and the next epoch's size and noise.

    Attributes:
        psi: see the module's table.
        average: of the group's coefficients.
        wide: for each length scale, shortest first, the posterior at the wide level.
        weights: (L,) posterior probabilities of the length scales.
        seen: (L,) number of measured places that differ under each length scale.
        alike: (L, N) number of points that a pull informs, M_l.
        room: c, how far rewards reach above the best mean, at least 0.
        people: number of people in the next epoch.
        remaining: number of people still to come.
        reward_variance: rho^2.
        release_variance: 2 s_u^2, of the difference of two released sums.
        alone: whether this is the only group; there is no exploration for one of several.
    """

    psi: FloatArray
    average: Posterior
    wide: tuple[Posterior, ...]
    weights: FloatArray
    seen: FloatArray
    alike: FloatArray
    room: float
    people: int
    remaining: int
    reward_variance: float
    release_variance: float
    alone: bool = True


def rougher(weights: FloatArray, seen: FloatArray) -> FloatArray:
    """(L,) weights of length scales, shortest first, at a place that was not measured yet.

    f may be rougher there. Where n regions were smooth, the next one is rough with probability
    1 / (3 + n) (Laplace's rule of succession).
    """
    shared = np.array(weights)
    shared[:-1] += weights[1:] / (_SMOOTHER + 1.0 + seen[:-1] / _TOGETHER)
    shared[shared < _LEAST_WEIGHT * shared.sum()] = 0.0
    return np.asarray(shared / shared.sum())


def probability_matching(
    group: GroupPosterior, confidence: float, rng: np.random.Generator
) -> FloatArray:
    """(N,) probabilities by q = (m(x) - m(x*)) / sd(f(x) - f(x*)), with exploration where it pays.

    Of the people who do not explore, nine in ten get points in proportion to Phi(3 q)^2, the others
    to Phi(q)^2: a point that may be as good as the greedy one gets its share, and one that is
    surely worse nothing.
    """
    mean = group.psi @ group.average.mean
    best = int(mean.argmax())
    away = group.psi - group.psi[best]
    spread = np.sqrt(np.maximum(np.sum((away @ group.average.root) ** 2, axis=1), 1e-300))
    q = (mean - mean[best]) / spread
    q[best] = 0.0
    shares = np.zeros(len(mean))
    for sharpness, share in ((_SHARPNESS, 1.0 - _DOUBT), (1.0, _DOUBT)):
        weight = ndtr(sharpness * q) ** 2
        shares += share * weight / weight.sum()
    exploring = exploratory_pulls(group)
    share = min(float(exploring.sum()) / group.people, _MOST_EXPLORING)
    if share > 0.0:
        shares = (1.0 - share) * shares + share * exploring / exploring.sum()
    return shares


def exploratory_pulls(group: GroupPosterior) -> FloatArray:
    """(N,) how many of the next epoch's people should explore each point."""
    if group.remaining <= 0 or not group.alone:
        return np.zeros(len(group.psi))
    most = int(np.log2(max(group.people, 1)))
    counts = np.array([2.0**power for power in range(most + 1)])
    counts = counts[counts >= min(float(np.sqrt(group.release_variance)) / _TELLING, counts[-1])]
    mean = group.psi @ group.average.mean
    gap = mean.max() - mean
    gain = expected_improvement_of_decision(group, counts)
    weights = rougher(group.weights, group.seen)
    people = counts * np.sum(weights[:, None] / group.alike, axis=0)[:, None]

    def wanted(price: float) -> FloatArray:
        net = gain - counts * (gap[:, None] + price)
        chosen: IntArray = net.argmax(axis=1)[:, None]
        worth = np.take_along_axis(net, chosen, axis=1) > 0.0
        return np.where(worth, np.take_along_axis(people, chosen, axis=1), 0.0)[:, 0]

    spare = _MOST_EXPLORING * group.people
    exploring = wanted(0.0)
    if exploring.sum() > spare:
        low, high = 0.0, float((gain / counts).max())
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            fits = wanted(middle).sum() <= spare
            low, high = (low, middle) if fits else (middle, high)
        exploring = wanted(high)
        # Points of the same worth all drop out at one price: as many as the epoch can still afford
        # are taken in turn.
        others = np.where(exploring > 0.0, 0.0, wanted(low))
        net = np.max(gain - counts * (gap[:, None] + low), axis=1)
        order = np.argsort(-net, kind="stable")
        fits = np.cumsum(others[order]) <= spare - exploring.sum()
        exploring[order] += np.where(fits, others[order], 0.0)
    return exploring


def expected_improvement_of_decision(group: GroupPosterior, counts: FloatArray) -> FloatArray:
    """(N, k) what `counts` pulls of each point add to the rewards of later people."""
    best = int((group.psi @ group.average.mean).argmax())
    away = group.psi - group.psi[best]
    noise = group.reward_variance / counts + group.release_variance / counts**2
    gain = np.zeros((len(away), len(counts)))
    for weight, wide in zip(rougher(group.weights, group.seen), group.wide, strict=True):
        if weight == 0.0:
            continue
        gap = np.maximum(-(away @ wide.mean), 0.0)[:, None]
        variance = np.maximum(np.sum((away @ wide.root) ** 2, axis=1), 1e-12)[:, None]
        moved = variance / np.sqrt(variance + noise)
        z = gap / moved
        better = normal_excess(z) - normal_excess(z + group.room / moved)
        gain += weight * moved * np.maximum(better, 0.0)
    return 2.0 * group.remaining * gain


def upper_bounds(group: GroupPosterior, confidence: float, rng: np.random.Generator) -> FloatArray:
    """(N,) equal shares for points with the largest mean plus `confidence` deviations.

    They are chosen one after the other as if those before had been measured (GP-BUCB: Desautels,
    Krause and Burdick 2014). Deviations are those by which exploration is planned: under the
    average over levels a point far above all others would not be reached by one deviation.
    """
    mean = group.psi @ group.average.mean
    weights = rougher(group.weights, group.seen)
    shown = np.hstack(
        [
            np.sqrt(weight) * (group.psi @ wide.root)
            for weight, wide in zip(weights, group.wide, strict=True)
            if weight > 0.0
        ]
    )
    chosen = min(group.people, _MOST_BOUNDS)
    each = group.people / chosen
    noise = group.reward_variance / each + group.release_variance / each**2
    shares = np.zeros(len(mean))
    for _ in range(chosen):
        spread = np.sqrt(np.sum(shown**2, axis=1))
        place = int((mean + confidence * spread).argmax())
        shares[place] += 1.0 / chosen
        axis = shown[place]
        length = float(axis @ axis)
        if length > 0.0:
            # A root of S - S x x' S / (x' S x + v), with x' S x = |axis|^2.
            kept = (1.0 - np.sqrt(noise / (length + noise))) / length
            shown -= kept * np.outer(shown @ axis, axis)
    return shares


def thompson(group: GroupPosterior, confidence: float, rng: np.random.Generator) -> FloatArray:
    """(N,) how often each point is best under public draws of theta from the posterior."""
    average = group.average
    normal = rng.standard_normal((_DRAWS, average.root.shape[1]))
    theta = average.mean + confidence * normal @ average.root.T
    best = (group.psi @ theta.T).argmax(axis=0)
    return np.bincount(best, minlength=len(group.psi)) / _DRAWS


RULES: dict[DecisionRule, Callable[[GroupPosterior, float, np.random.Generator], FloatArray]] = {
    "ucb": upper_bounds,
    "thompson": thompson,
    "matching": probability_matching,
}
