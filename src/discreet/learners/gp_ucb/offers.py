"""How the people of an epoch are spread over public points.

Offers are probabilities of the points of one coordinate group. They follow from what is believed
of the group's coefficients alone, and people of one epoch are served by the same offers.

**What a look is worth.** x* is the best point by the mean, gap(x) = m(x*) - m(x). N people at x
measure f(x) - f(x*) with variance v_N = rho^2 / N + 2 s_u^2 / N^2 (s_u^2: the noise of a release).
Under length scale l and a wide level the belief then moves by s = s_l^2 / sqrt(s_l^2 + v_N),
s_l = sd(f(x) - f(x*)), and everyone who still comes gains

    gain_N(x) = 2 remaining sum over l of w_l s (h(z) - h(z + c / s)),   h(z) = pdf(z) - z cdf(-z),

z = gap_l(x) / s, because rewards reach c above the best mean at most (knowledge gradient: Frazier,
Powell and Dayanik 2008). The price is N gap(x). The wide level stands in for those that the
evidence favours, which are small if f is flat in most places; and w_l gives each length scale a
share of the weight of the next longer one, because f may be rougher elsewhere: the smaller, the
more places were seen and smooth.

**Who looks.** A look tells about M(x) points, so N / M(x) people at each do. If that is more than
the epoch can spare, a price lambda on each person is raised until it is not: then fewer people go
to each point, and then to fewer points. So few that the release's noise hides what they see are
never sent: counted one by one such looks seem worth while, but of many points the best one then
owes its place to the noise.

| array  | shape  | meaning                                                           |
|--------|--------|-------------------------------------------------------------------|
| psi    | (N, m) | centred features of the points                                    |
| offers | (N,)   | probabilities of the points, adding up to 1                       |
| counts | (k,)   | numbers of people that may look at one point, powers of 2         |
| gain   | (N, k) | what so many people at each point earn those who come later       |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtr

from discreet.learners.gp_ucb.posterior import GaussianPosterior
from discreet.validation import FloatArray, IntArray

Decision = Literal["ucb", "thompson", "matching"]

# Draws of theta that a released Thompson policy averages over.
_DRAWS = 64
# How strongly points that look worse are avoided: offers go with Phi(3 q)^2.
_SHARPNESS = 3.0
# The share of people for whom offers go with Phi(q)^2: a run that was unlucky early would otherwise
# stay with the second-best point for good.
_DOUBT = 0.1
# Of the people of an epoch, at most so many look.
_MOST_LOOKING = 0.8
# Before anything is seen, two regions are thought smooth for each one that is rough; and so many
# neighbouring places are smooth or rough together.
_SMOOTHER = 2.0
_TOGETHER = 20.0
# Length scales of less weight do not count.
_LEAST_WEIGHT = 1e-3
# So many look at a point, if the epoch can spare them, that noise moves what they see by this much.
_TELLING = 0.15
# Steps of the bisection for lambda, to 2^-14 of the largest price.
_BISECTIONS = 14
# Points over which an epoch of upper bounds is spread, at most.
_MOST_BOUNDS = 16


@dataclass(frozen=True, eq=False)
class Belief:
    """What is believed of one group, and what the next epoch can find out.

    Attributes:
        psi: see the module's table.
        average: of the group's coefficients.
        wide: for each length scale, shortest first, what is believed at the wide level.
        weights: (L,) of the length scales.
        seen: (L,) how many places that differ under each length scale were measured.
        alike: (L, N) how many points a look tells about, M_l.
        room: c, how far rewards reach above the best mean, at least 0.
        people: of the next epoch.
        remaining: people who come in all after that.
        reward_variance: rho^2.
        release_variance: 2 s_u^2, of one look beside another.
        alone: whether this is the only group; nobody looks for one of several.
    """

    psi: FloatArray
    average: GaussianPosterior
    wide: tuple[GaussianPosterior, ...]
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
    """(L,) weights of length scales, shortest first, of the next place that somebody looks at: f
    may be rougher there. Where n regions were smooth, the next one is rough with probability
    1 / (3 + n) (Laplace's rule of succession)."""
    shared = np.array(weights)
    shared[:-1] += weights[1:] / (_SMOOTHER + 1.0 + seen[:-1] / _TOGETHER)
    shared[shared < _LEAST_WEIGHT * shared.sum()] = 0.0
    return np.asarray(shared / shared.sum())


def matching(belief: Belief, confidence: float, rng: np.random.Generator) -> FloatArray:
    """(N,) offers by q = (m(x) - m(x*)) / sd(f(x) - f(x*)), and looks where they pay.

    Of those who do not look, nine in ten get points in proportion to Phi(3 q)^2, the tenth to
    Phi(q)^2: a point that is as good as the greedy one for all that is known gets its share, and
    one that is surely worse nothing.
    """
    mean = belief.psi @ belief.average.mean
    best = int(mean.argmax())
    away = belief.psi - belief.psi[best]
    spread = np.sqrt(np.maximum(np.sum((away @ belief.average.root) ** 2, axis=1), 1e-300))
    q = (mean - mean[best]) / spread
    q[best] = 0.0
    offers = np.zeros(len(mean))
    for sharpness, share in ((_SHARPNESS, 1.0 - _DOUBT), (1.0, _DOUBT)):
        weight = ndtr(sharpness * q) ** 2
        offers += share * weight / weight.sum()
    looking = looks(belief)
    share = min(float(looking.sum()) / belief.people, _MOST_LOOKING)
    if share > 0.0:
        offers = (1.0 - share) * offers + share * looking / looking.sum()
    return offers


def looks(belief: Belief) -> FloatArray:
    """(N,) how many of the next epoch's people should look at each point."""
    if belief.remaining <= 0 or not belief.alone:
        return np.zeros(len(belief.psi))
    most = int(np.log2(max(belief.people, 1)))
    counts = np.array([2.0**power for power in range(most + 1)])
    counts = counts[counts >= min(float(np.sqrt(belief.release_variance)) / _TELLING, counts[-1])]
    mean = belief.psi @ belief.average.mean
    gap = mean.max() - mean
    gain = gains(belief, counts)
    weights = rougher(belief.weights, belief.seen)
    people = counts * np.sum(weights[:, None] / belief.alike, axis=0)[:, None]

    def wanted(price: float) -> FloatArray:
        net = gain - counts * (gap[:, None] + price)
        chosen: IntArray = net.argmax(axis=1)[:, None]
        worth = np.take_along_axis(net, chosen, axis=1) > 0.0
        spent: FloatArray = np.where(worth, np.take_along_axis(people, chosen, axis=1), 0.0)[:, 0]
        return spent

    spare = _MOST_LOOKING * belief.people
    looking = wanted(0.0)
    if looking.sum() > spare:
        low, high = 0.0, float((gain / counts).max())
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            fits = wanted(middle).sum() <= spare
            low, high = (low, middle) if fits else (middle, high)
        looking = wanted(high)
        # Points that are worth the same all drop out at one price: those that the epoch can still
        # spare people for are taken in turn.
        others = np.where(looking > 0.0, 0.0, wanted(low))
        net = np.max(gain - counts * (gap[:, None] + low), axis=1)
        order = np.argsort(-net, kind="stable")
        fits = np.cumsum(others[order]) <= spare - looking.sum()
        looking[order] += np.where(fits, others[order], 0.0)
    return looking


def gains(belief: Belief, counts: FloatArray) -> FloatArray:
    """(N, k) what `counts` people at each point earn those who come later."""
    best = int((belief.psi @ belief.average.mean).argmax())
    away = belief.psi - belief.psi[best]
    noise = belief.reward_variance / counts + belief.release_variance / counts**2
    gain = np.zeros((len(away), len(counts)))
    for weight, wide in zip(rougher(belief.weights, belief.seen), belief.wide, strict=True):
        if weight == 0.0:
            continue
        gap = np.maximum(-(away @ wide.mean), 0.0)[:, None]
        variance = np.maximum(np.sum((away @ wide.root) ** 2, axis=1), 1e-12)[:, None]
        moved = variance / np.sqrt(variance + noise)
        z = gap / moved
        gain += weight * moved * np.maximum(_excess(z) - _excess(z + belief.room / moved), 0.0)
    return 2.0 * belief.remaining * gain


def _excess(z: FloatArray) -> FloatArray:
    """E max(Z - z, 0) of a standard normal Z."""
    excess: FloatArray = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi) - z * ndtr(-z)
    return excess


def upper_bounds(belief: Belief, confidence: float, rng: np.random.Generator) -> FloatArray:
    """(N,) equal shares for points with the largest mean plus `confidence` deviations, chosen one
    after the other as if those before had been measured (GP-BUCB: Desautels, Krause and Burdick
    2014).

    Deviations are those of the belief that decides where people look: under the average over levels
    a point far above all others would not be reached by one deviation.
    """
    mean = belief.psi @ belief.average.mean
    weights = rougher(belief.weights, belief.seen)
    shown = np.hstack(
        [
            np.sqrt(weight) * (belief.psi @ wide.root)
            for weight, wide in zip(weights, belief.wide, strict=True)
            if weight > 0.0
        ]
    )
    chosen = min(belief.people, _MOST_BOUNDS)
    each = belief.people / chosen
    noise = belief.reward_variance / each + belief.release_variance / each**2
    offers = np.zeros(len(mean))
    for _ in range(chosen):
        spread = np.sqrt(np.sum(shown**2, axis=1))
        place = int((mean + confidence * spread).argmax())
        offers[place] += 1.0 / chosen
        axis = shown[place]
        length = float(axis @ axis)
        if length > 0.0:
            # A root of S - S x x' S / (x' S x + v), with x' S x = |axis|^2.
            kept = (1.0 - np.sqrt(noise / (length + noise))) / length
            shown -= kept * np.outer(shown @ axis, axis)
    return offers


def thompson(belief: Belief, confidence: float, rng: np.random.Generator) -> FloatArray:
    """(N,) how often each point is best under theta drawn from the posterior (public draws)."""
    average = belief.average
    normal = rng.standard_normal((_DRAWS, average.root.shape[1]))
    theta = average.mean + confidence * normal @ average.root.T
    best = (belief.psi @ theta.T).argmax(axis=0)
    offers: FloatArray = np.bincount(best, minlength=len(belief.psi)) / _DRAWS
    return offers


OFFERS: dict[Decision, Callable[[Belief, float, np.random.Generator], FloatArray]] = {
    "ucb": upper_bounds,
    "thompson": thompson,
    "matching": matching,
}
