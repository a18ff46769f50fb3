"""What to do with a posterior: which arms to offer, to give up, and which bins to split.

Everything here reads released statistics only, so it is post-processing and costs no privacy.
Means and variances are of 2 f - 1, shape (L, K); `active` (L, K) says which arms are left.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from discreet.learners.partition.bins import Bins
from discreet.learners.partition.posterior import Posterior
from discreet.validation import BoolArray, FloatArray

# Bins are badly cut where an edge is so much shorter, in length scales, than another one that it
# would not be halved again, and more than this share of all people are in such bins.
_WASTED, _BADLY_CUT = 0.75, 0.25

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def thompson_probabilities(
    mean: FloatArray, deviation: FloatArray, active: BoolArray
) -> FloatArray:
    """(L, K) the probability that an independent draw of an arm is the largest of the active.

    P_k = integral of phi(z) prod_(i != k) Phi((m_k + s_k z - m_i) / s_i) dz, by Gauss-Hermite
    quadrature with 40 nodes, normalised over the active arms. Where deviations are very different
    it is off by a few hundredths; what it gives is what is offered, so propensities are exact.
    """
    draws = mean[..., None] + deviation[..., None] * _NODES  # (L, K, nodes)
    scale = np.maximum(deviation, 1e-9)[:, None, :, None]
    below = ndtr((draws[:, :, None, :] - mean[:, None, :, None]) / scale)  # (L, K, rival, nodes)
    arms = mean.shape[1]
    ignored = np.eye(arms, dtype=np.bool_)[None] | ~active[:, None, :]
    below = np.where(ignored[..., None], 1.0, below)
    best = (below.prod(axis=2) @ _WEIGHTS) * active
    probabilities: FloatArray = best / best.sum(axis=1, keepdims=True)
    return probabilities


def rivals(state: Posterior, active: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Gap to the leading arm and its standard deviation (L, K), and how much a difference varies
    within each leaf (L, 1): H = sqrt(2 roughness)."""
    mean = np.where(active, state.mean, -np.inf)
    leader = mean.argmax(axis=1)[:, None]
    gap = np.take_along_axis(mean, leader, axis=1) - mean
    spread = np.sqrt(state.variance + np.take_along_axis(state.variance, leader, axis=1))
    return gap, spread, np.sqrt(2.0 * state.roughness)[:, None]


def badly_cut(bins: Bins, mass: FloatArray, length_scales: tuple[float, ...]) -> bool:
    """Whether many people are in bins that were halved along an axis along which, as is known by
    now, they should not have been; `mass` (N,) is that of all nodes."""
    tree = bins.tree
    unresolved = bins.active.sum(axis=1) > 1
    extents = tree.upper[tree.leaves] - tree.lower[tree.leaves]
    edges = extents / np.array(length_scales)
    idle = (extents < 1.0) & (2.0 * edges < _WASTED * edges.max(axis=1, keepdims=True))
    return bool(mass[tree.leaves][idle.any(axis=1) & unresolved].sum() > _BADLY_CUT)
