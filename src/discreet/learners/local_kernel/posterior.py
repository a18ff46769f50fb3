"""The Gaussian posterior of all arms' coefficients, and the evidence for length scales.

A report is one noisy linear measurement t = a' theta + e with E[e^2] = 1, so the sums
J = sum a a' and b = sum t a say all: precision D^-1 + J and mean (D^-1 + J)^-1 b, where D is the
prior covariance (prior.py) and L its root. With R R' = I + L J L the log evidence is
|R^-1 L b|^2 / 2 - log det R.

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

import numpy as np
from scipy.linalg import cho_factor, solve_triangular

from discreet.learners.local_kernel.features import CosineFeatures
from discreet.learners.local_kernel.prior import Prior
from discreet.learners.sources import Information
from discreet.validation import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class KernelPosterior:
    """The posterior under one prior (see the module's table).

    Attributes:
        prior: what was believed before.
        root: (K m, K m) the upper triangular R'.
        evidence: log, up to what the prior does not change.
    """

    prior: Prior
    mean: FloatArray
    root: FloatArray
    evidence: float

    @classmethod
    def of(
        cls, features: CosineFeatures, prior: Prior, information: Information
    ) -> KernelPosterior:
        """From J (K M, K M) and b (K M,), ordered by arm and then by feature."""
        precision, weighted, count = information.precision, information.weighted, len(features)
        arms = len(weighted) // count
        at = prior.places(arms, count)
        half = prior.root_times(precision[np.ix_(at, at)], arms)
        inner = prior.root_times(np.ascontiguousarray(half.T), arms)
        inner[np.diag_indices_from(inner)] += 1.0
        root, _ = cho_factor(inner, lower=False, overwrite_a=True, check_finite=False)
        seen = prior.root_times(weighted[at], arms)
        whitened = _solved(root, seen, transposed=True)
        mean = prior.root_times(_solved(root, whitened), arms)
        evidence = 0.5 * float(whitened @ whitened) - float(np.log(np.diagonal(root)).sum())
        return cls(prior, mean.reshape(arms, -1), root, evidence)

    @property
    def arms(self) -> int:
        return len(self.mean)

    @property
    def used(self) -> IntArray:
        """(m,) the features that are used."""
        return self.prior.used

    @property
    def degrees_of_freedom(self) -> float:
        """How many numbers reports determined: K m less the trace of (R R')^-1."""
        inverse = _solved(self.root, np.eye(self.mean.size))
        return self.mean.size - float((inverse**2).sum())

    def draws(self, normals: FloatArray) -> FloatArray:
        """Deviations from the mean (K m, F) with the posterior covariance, from normals."""
        drawn: FloatArray = self.prior.root_times(_solved(self.root, normals), self.arms)
        return drawn

    def covariance_times(self, vectors: FloatArray) -> FloatArray:
        """S V for the posterior covariance S and V (K m, F)."""
        scaled = self.prior.root_times(vectors, self.arms)
        return self.draws(_solved(self.root, scaled, transposed=True))

    def deviations(self, phi: FloatArray) -> FloatArray:
        """(n, K) posterior standard deviations of 2 f - 1 at contexts with features (n, m)."""
        size = len(self.used)
        columns = []
        for arm in range(self.arms):
            rows = np.zeros((self.mean.size, len(phi)))
            rows[arm * size : (arm + 1) * size] = phi.T
            scaled = self.prior.root_times(rows, self.arms)
            half = _solved(self.root, scaled, transposed=True)
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
            normals = rng.standard_normal((part.mean.size, len(mine)))
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


def _solved(root: FloatArray, right: FloatArray, transposed: bool = False) -> FloatArray:
    """R^-1 B, or R'^-1 B, for R (n, n) upper triangular and B (n, F) or (n,)."""
    trans = 1 if transposed else 0
    solved: FloatArray = solve_triangular(root, right, trans=trans, check_finite=False)
    return solved
