"""The Gaussian posterior of all arms' coefficients, and the evidence for length scales.

A report is one noisy linear measurement t = a' theta + e with E[e^2] = 1, so the sums
J = sum a a' and b = sum t a say all: precision D^-1 + J and mean (D^-1 + J)^-1 b, where D holds the
prior variances. With R R' = I + D^1/2 J D^1/2 the log evidence is |R^-1 D^1/2 b|^2 / 2 - log det R.

Features whose prior variance is below 1e-4 of the whole are left out.

| array    | shape  | meaning                                                        |
|----------|--------|----------------------------------------------------------------|
| used     | (m,)   | the features that are used, of M                               |
| mean     | (K, m) | posterior mean of theta                                        |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, solve_triangular

from discreet.learners.local_kernel.features import CosineFeatures
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    positive_number,
    read_array,
)

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

    length_scales: tuple[float, ...]
    scale: float = 1.0

    @classmethod
    def first(cls, dimension: int) -> Smooth:
        return cls((FIRST_LENGTH_SCALE,) * dimension)

    def near(self) -> list[Smooth]:
        """Those that differ in one of the numbers, and those with one length scale for all axes:
        where rewards depend on two axes together, no single one seems to matter."""
        found = [Smooth(self.length_scales, scale) for scale in SCALES if scale != self.scale]
        for axis, now in enumerate(self.length_scales):
            for value in LENGTH_SCALES:
                if value != now:
                    changed = (*self.length_scales[:axis], value, *self.length_scales[axis + 1 :])
                    found.append(Smooth(changed, self.scale))
        alike = [Smooth((value,) * len(self.length_scales), self.scale) for value in LENGTH_SCALES]
        return found + [one for one in alike if one != self]

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
class Posterior:
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
        cls, features: CosineFeatures, smooth: Smooth, precision: FloatArray, weighted: FloatArray
    ) -> Posterior:
        """From J (K M, K M) and b (K M,), ordered by arm and then by feature."""
        count = len(features)
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
        found = solve_triangular(self.root, normals, check_finite=False)
        scaled: FloatArray = self.deviation[:, None] * found
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
        found = []
        for arm in range(self.arms):
            rows = np.zeros((len(self.deviation), len(phi)))
            rows[arm * size : (arm + 1) * size] = phi.T
            half = solve_triangular(
                self.root, self.deviation[:, None] * rows, trans=1, check_finite=False
            )
            found.append(np.sqrt((half**2).sum(axis=0)))
        return np.stack(found, axis=1)


@dataclass(frozen=True)
class Likely:
    """Hyperparameters that the reports make likely.

    Attributes:
        candidates: the most likely first.
        weights: their probabilities.
    """

    candidates: tuple[Smooth, ...]
    weights: tuple[float, ...]

    @classmethod
    def first(cls, dimension: int) -> Likely:
        return cls((Smooth.first(dimension),), (1.0,))

    @property
    def best(self) -> Smooth:
        return self.candidates[0]

    def to_fields(self) -> list[dict[str, Any]]:
        """The candidates as JSON values."""
        return [
            {"length_scales": list(one.length_scales), "scale": one.scale, "weight": weight}
            for one, weight in zip(self.candidates, self.weights, strict=True)
        ]

    @classmethod
    def from_fields(cls, fields: list[dict[str, Any]], dimension: int) -> Likely:
        """The inverse of `to_fields`."""
        found, weights = [], []
        for one in fields:
            scales = read_array(one["length_scales"], "length_scales", "number", 1)
            if len(scales) != dimension or not (scales > 0.0).all():
                raise InvalidInput(f"length_scales was {scales}; give {dimension} numbers above 0.")
            found.append(Smooth(tuple(scales.tolist()), positive_number(one["scale"], "scale")))
            weights.append(positive_number(one["weight"], "weight"))
        if not found or abs(sum(weights) - 1.0) > 1e-9:
            raise InvalidInput(
                f"the likely length scales had {len(found)} entries with weights that add up to "
                f"{sum(weights):g}; give at least one, with weights that add up to 1."
            )
        return cls(tuple(found), tuple(weights))

    def draw(self, rng: np.random.Generator) -> Smooth:
        """One of them, by its probability."""
        return self.candidates[int(rng.choice(len(self.candidates), p=self.weights))]


def likely(
    features: CosineFeatures, start: Smooth, precision: FloatArray, weighted: FloatArray
) -> Likely:
    """Climbs from `start`, one number at a time; keeps all it saw that are not much less likely
    than the best."""
    known: dict[Smooth, float] = {}

    def worth(smooth: Smooth) -> float:
        if smooth not in known:
            found = Posterior.of(features, smooth, precision, weighted)
            known[smooth] = found.evidence + smooth.log_prior
        return known[smooth]

    best = start
    while True:
        top = max(best.near(), key=worth)
        if worth(top) <= worth(best):
            break
        best = top
    ranked = sorted(known, key=worth, reverse=True)
    kept = [one for one in ranked if worth(one) > worth(best) - _LOG_RATIO]
    chances = np.exp([worth(one) - worth(best) for one in kept])
    return Likely(tuple(kept), tuple((chances / chances.sum()).tolist()))
