"""The Gaussian posterior of all arms' coefficients, and the evidence for length scales.

A report is one noisy linear measurement t = a' theta + e with E[e^2] = 1, so the sums
J = sum a a' and b = sum t a say all: precision D^-1 + J and mean (D^-1 + J)^-1 b, where D holds the
prior variances. With R R' = I + D^1/2 J D^1/2 the log evidence is |R^-1 D^1/2 b|^2 / 2 - log det R.

Features whose prior variance is below 1e-4 of the whole are left out.

| array    | shape  | meaning                                                        |
|----------|--------|----------------------------------------------------------------|
| used     | (m,)   | the features that are used, of M                               |
| mean     | (K, m) | posterior mean of theta                                        |

Length scales are uncertain for long, and under one that is too long the learner is sure of what is
wrong. So what is asked and who gets which arm follow from several posteriors mixed by the
probabilities of their hyperparameters (`MixedPosterior`), of which mean and covariance are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy.linalg import cho_factor, solve_triangular

from discreet.codec import Range
from discreet.learners.local_kernel.features import CosineFeatures
from discreet.learners.sources import Information
from discreet.validation import FloatArray, IntArray

LENGTH_SCALES = (0.2, 0.4, 0.8, 3.2)
SCALES = (1.0, 2.0)
FIRST_LENGTH_SCALE = 0.8
_LEFT_OUT = 1e-4
# Hyperparameters less likely than the best by a factor e^6 are left out.
_LOG_RATIO = 6.0
# Log prior: - 1/4 log2(scale)^2, and a nat for each axis that is said not to matter. Noise alone
# makes the flattest functions likeliest, and under those nobody asks what could tell otherwise.
_SCALE_PENALTY, _FLAT_PENALTY = 0.25, 1.0
_FLAT = LENGTH_SCALES[-1]


@dataclass(frozen=True)
class Smooth:
    """Hyperparameters: a length scale for each axis, and the scale of the prior variance."""

    length_scales: tuple[Annotated[float, Range(above=0.0)], ...]
    scale: Annotated[float, Range(above=0.0)] = 1.0

    @classmethod
    def first(cls, dimension: int) -> Smooth:
        return cls((FIRST_LENGTH_SCALE,) * dimension)

    def near(self) -> list[Smooth]:
        """Those that differ in one of the numbers, and those with one length scale for all axes:
        where rewards depend on two axes together, no single one seems to matter."""
        others = [Smooth(self.length_scales, scale) for scale in SCALES if scale != self.scale]
        for axis, now in enumerate(self.length_scales):
            for value in LENGTH_SCALES:
                if value != now:
                    changed = (*self.length_scales[:axis], value, *self.length_scales[axis + 1 :])
                    others.append(Smooth(changed, self.scale))
        alike = [Smooth((value,) * len(self.length_scales), self.scale) for value in LENGTH_SCALES]
        return others + [smooth for smooth in alike if smooth != self]

    @property
    def log_prior(self) -> float:
        flat = sum(value >= _FLAT for value in self.length_scales)
        return float(-_SCALE_PENALTY * np.log2(self.scale) ** 2 - _FLAT_PENALTY * flat)


def used_features(features: CosineFeatures, smooth: Smooth) -> tuple[IntArray, FloatArray]:
    """The features (m,) that matter, and their prior variances (m,)."""
    variance = features.variances(smooth.length_scales, smooth.scale)
    used = np.flatnonzero(variance >= _LEFT_OUT * variance.sum())
    return used, variance[used]


@dataclass(frozen=True, eq=False)
class KernelPosterior:
    """The posterior under one set of hyperparameters (see the module's table).

    Attributes:
        root: (K m, K m) the upper triangular R'.
        deviation: (K m,) prior standard deviations.
        evidence: log, up to what hyperparameters do not change.
    """

    used: IntArray
    mean: FloatArray
    root: FloatArray
    deviation: FloatArray
    evidence: float

    @classmethod
    def of(
        cls, features: CosineFeatures, smooth: Smooth, information: Information
    ) -> KernelPosterior:
        """From J (K M, K M) and b (K M,), ordered by arm and then by feature."""
        precision, weighted, count = information.precision, information.weighted, len(features)
        arms = len(weighted) // count
        used, variance = used_features(features, smooth)
        at = (np.arange(arms)[:, None] * count + used[None]).ravel()
        deviation = np.tile(np.sqrt(variance), arms)
        inner = precision[np.ix_(at, at)] * deviation[:, None] * deviation[None]
        inner[np.diag_indices_from(inner)] += 1.0
        root, _ = cho_factor(inner, lower=False, overwrite_a=True, check_finite=False)
        seen = deviation * weighted[at]
        whitened = solve_triangular(root, seen, trans=1, check_finite=False)
        mean = deviation * solve_triangular(root, whitened, check_finite=False)
        evidence = 0.5 * float(whitened @ whitened) - float(np.log(np.diagonal(root)).sum())
        return cls(used, mean.reshape(arms, -1), root, deviation, evidence)

    @property
    def arms(self) -> int:
        return len(self.mean)

    def draws(self, normals: FloatArray) -> FloatArray:
        """Deviations from the mean (K m, F) with the posterior covariance, from normals."""
        whitened = solve_triangular(self.root, normals, check_finite=False)
        scaled: FloatArray = self.deviation[:, None] * whitened
        return scaled

    def covariance_times(self, vectors: FloatArray) -> FloatArray:
        """S V for the posterior covariance S and V (K m, F)."""
        half = solve_triangular(
            self.root, self.deviation[:, None] * vectors, trans=1, check_finite=False
        )
        return self.draws(half)

    def deviations(self, phi: FloatArray) -> FloatArray:
        """(n, K) posterior standard deviations of 2 f - 1 at contexts with features (n, m)."""
        size = len(self.used)
        columns = []
        for arm in range(self.arms):
            rows = np.zeros((len(self.deviation), len(phi)))
            rows[arm * size : (arm + 1) * size] = phi.T
            half = solve_triangular(
                self.root, self.deviation[:, None] * rows, trans=1, check_finite=False
            )
            columns.append(np.sqrt((half**2).sum(axis=0)))
        return np.stack(columns, axis=1)


@dataclass(frozen=True, eq=False)
class MixedPosterior:
    """The mean and the covariance of a mixture of posteriors.

    With weights w_h, means m_h and covariances S_h the mean is m = sum w_h m_h and the covariance
    sum w_h (S_h + (m_h - m)(m_h - m)').

    | array   | shape    | meaning                                             |
    |---------|----------|-----------------------------------------------------|
    | weights | (H,)     | w_h, adding up to 1                                 |
    | used    | (m,)     | the features that any of the parts uses             |
    | mean    | (K, m)   | m                                                   |
    | apart   | (H, K m) | m_h - m                                             |
    """

    parts: tuple[KernelPosterior, ...]
    weights: FloatArray
    used: IntArray
    mean: FloatArray
    apart: FloatArray

    @classmethod
    def of(cls, parts: Sequence[KernelPosterior], weights: FloatArray) -> MixedPosterior:
        used = np.unique(np.concatenate([part.used for part in parts]))
        arms = parts[0].arms
        means = np.zeros((len(parts), arms * len(used)))
        for part, mean in zip(parts, means, strict=True):
            mean.reshape(arms, -1)[:, np.searchsorted(used, part.used)] = part.mean
        mean = weights @ means
        return cls(tuple(parts), weights, used, mean.reshape(arms, -1), means - mean)

    @property
    def arms(self) -> int:
        return len(self.mean)

    def _places(self, part: KernelPosterior) -> IntArray:
        """Where the coefficients of a part are among all K m."""
        at = np.searchsorted(self.used, part.used)
        places: IntArray = (np.arange(self.arms)[:, None] * len(self.used) + at).ravel()
        return places

    def draws(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Deviations from the mean (K m, F): each part gives its share of the draws, in an order
        without pattern."""
        drawn = np.zeros((self.mean.size, count))
        share = (rng.permutation(count) + rng.random()) / count
        origin = np.searchsorted(np.cumsum(self.weights)[:-1], share, side="right")
        for number, part in enumerate(self.parts):
            mine = np.flatnonzero(origin == number)
            normals = rng.standard_normal((len(part.deviation), len(mine)))
            drawn[:, mine] = self.apart[number][:, None]
            drawn[np.ix_(self._places(part), mine)] += part.draws(normals)
        return drawn

    def covariance_times(self, vectors: FloatArray) -> FloatArray:
        """S V for the covariance S and V (K m, F)."""
        product: FloatArray = self.apart.T @ (self.weights[:, None] * (self.apart @ vectors))
        for part, weight in zip(self.parts, self.weights, strict=True):
            places = self._places(part)
            product[places] += weight * part.covariance_times(vectors[places])
        return product

    def deviations(self, phi: FloatArray) -> FloatArray:
        """(n, K) standard deviations of 2 f - 1 at contexts with features (n, m)."""
        variance = np.zeros((len(phi), self.arms))
        for part, weight, apart in zip(self.parts, self.weights, self.apart, strict=True):
            own = part.deviations(phi[:, np.searchsorted(self.used, part.used)])
            shift = phi @ apart.reshape(self.arms, -1).T
            variance += weight * (own**2 + shift**2)
        deviations: FloatArray = np.sqrt(variance)
        return deviations


@dataclass(frozen=True)
class Likely:
    """Hyperparameters that the reports make likely.

    Attributes:
        candidates: the most likely first.
        weights: their probabilities.
    """

    candidates: tuple[Smooth, ...]
    weights: tuple[Annotated[float, Range(above=0.0)], ...]

    @classmethod
    def first(cls, dimension: int) -> Likely:
        return cls((Smooth.first(dimension),), (1.0,))

    @property
    def best(self) -> Smooth:
        return self.candidates[0]

    def draw(self, count: int, rng: np.random.Generator) -> tuple[list[Smooth], FloatArray]:
        """At most so many of them, drawn evenly by their probabilities, and their shares."""
        ends = np.cumsum(self.weights)
        at = np.searchsorted(ends, (np.arange(count) + rng.random()) * (ends[-1] / count))
        drawn, times = np.unique(np.minimum(at, len(ends) - 1), return_counts=True)
        return [self.candidates[place] for place in drawn], times / count


def likely(features: CosineFeatures, start: Smooth, information: Information) -> Likely:
    """Climbs from `start`, one number at a time; keeps all it saw that are not much less likely
    than the best."""
    known: dict[Smooth, float] = {}

    def worth(smooth: Smooth) -> float:
        if smooth not in known:
            posterior = KernelPosterior.of(features, smooth, information)
            known[smooth] = posterior.evidence + smooth.log_prior
        return known[smooth]

    best = start
    while True:
        top = max(best.near(), key=worth)
        if worth(top) <= worth(best):
            break
        best = top
    ranked = sorted(known, key=worth, reverse=True)
    kept = [smooth for smooth in ranked if worth(smooth) > worth(best) - _LOG_RATIO]
    chances = np.exp([worth(smooth) - worth(best) for smooth in kept])
    return Likely(tuple(kept), tuple((chances / chances.sum()).tolist()))
