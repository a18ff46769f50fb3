"""From a posterior over public points to the probabilities with which they are offered.

With f = constant + sum of one function a group, the best point is found group by group. Arrays
are of one group: psi (N, m) centred features at its N public points.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from discreet.learners.gp_ucb.belief import Belief
from discreet.validation import FloatArray

# Draws of theta that a released Thompson policy averages over.
_DRAWS = 64
# How strongly points that look worse are avoided: offers go with Phi(3 q)^2.
_SHARPNESS = 3.0
# The share of people for whom offers go with Phi(q)^2: a run that was unlucky early would otherwise
# stay with the second-best point for good.
_DOUBT = 0.1


def matching(psi: FloatArray, belief: Belief) -> FloatArray:
    """(N,) offers by q = (m(x) - m(x*)) / sd(f(x) - f(x*)), x* the greedy point.

    Nine people in ten get points in proportion to Phi(3 q)^2, the tenth to Phi(q)^2: a point that
    is as good as the greedy one for all that is known gets its share, one that is surely worse
    nothing, and one that may be better is not forgotten. Upper confidence bounds run to the
    boundary of a box, where little is known, and Thompson sampling spends too long on points that
    are hardly ever best.
    """
    mean = psi @ belief.mean
    away = psi - psi[int(mean.argmax())]
    gap = mean - mean.max()
    spread = np.sqrt(np.maximum(np.sum((away @ belief.root) ** 2, axis=1), 1e-300))
    q = gap / spread
    q[int(mean.argmax())] = 0.0
    offers = np.zeros(len(psi))
    for sharpness, share in ((_SHARPNESS, 1.0 - _DOUBT), (1.0, _DOUBT)):
        weight = ndtr(sharpness * q) ** 2
        offers += share * weight / weight.sum()
    return offers


def upper_bound(psi: FloatArray, belief: Belief, confidence: float) -> FloatArray:
    """(N,) everything on the point with the largest mean plus `confidence` deviations."""
    spread = np.sqrt(np.sum((psi @ belief.root) ** 2, axis=1))
    offers = np.zeros(len(psi))
    offers[int((psi @ belief.mean + confidence * spread).argmax())] = 1.0
    return offers


def thompson(
    psi: FloatArray, belief: Belief, confidence: float, rng: np.random.Generator
) -> FloatArray:
    """(N,) how often each point is best under theta drawn from the posterior (public draws)."""
    normal = rng.standard_normal((_DRAWS, belief.root.shape[1]))
    theta = belief.mean + confidence * normal @ belief.root.T
    best = (psi @ theta.T).argmax(axis=0)
    offers: FloatArray = np.bincount(best, minlength=len(psi)) / _DRAWS
    return offers
