"""How alike neighbouring boxes are: Matern-3/2 covariances averaged over pairs of boxes.

A product kernel averages one axis at a time, and one axis has closed form: with c = sqrt(3) / l
and k(r) = (1 + c r) e^(-c r), the function

    G(r) = 2 r / c - (3 - (3 + c r) e^(-c r)) / c^2,   G'' = k, G(0) = G'(0) = 0,

gives the double integral over [a, b] x [a', b'] as
G|b - a'| + G|a - b'| - G|a - a'| - G|b - b'|.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.learners.partition.tree import Tree
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
    log_prior: float = 0.0

    @classmethod
    def of(cls, tree: Tree, length_scales: tuple[float, ...]) -> Smoothness:
        """The prior for the leaves of `tree`."""
        leaves = tree.leaves
        prior = box_covariance(tree.lower[leaves], tree.upper[leaves], np.array(length_scales))
        # Averages over narrow boxes are nearly dependent, and the closed form loses digits as
        # 1 / width^2; a standard deviation of 1e-3 on 2 f - 1 keeps the root real and harms none.
        root = np.linalg.cholesky(prior + 1e-6 * np.eye(len(prior)))
        roughness = np.maximum(PRIOR_VARIANCE - np.diag(prior), 0.0)
        halvings = np.maximum(np.log2(_USUAL_SCALE / np.array(length_scales)), 0.0).sum()
        log_prior = -_NATS_PER_HALVING * float(halvings)
        return cls(np.asarray(root, dtype=np.float64), roughness, log_prior)


class Priors:
    """Priors of the leaves of one tree, kept until another tree is asked for."""

    def __init__(self) -> None:
        self._tree: Tree | None = None
        self._known: dict[tuple[float, ...], Smoothness] = {}

    def of(self, tree: Tree, length_scales: tuple[float, ...]) -> Smoothness:
        """`Smoothness.of`, worked out once."""
        if self._tree is not tree:
            self._known, self._tree = {}, tree
        if length_scales not in self._known:
            self._known[length_scales] = Smoothness.of(tree, length_scales)
        return self._known[length_scales]
