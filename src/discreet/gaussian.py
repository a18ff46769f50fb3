"""Gaussian linear models whose prior is known up to hyperparameters.

Observations y = phi' theta + noise with Gaussian noise of known covariance, theta ~ N(0, s^2 R R').
All that reports or releases say about theta are the natural parameters of their likelihood,

    A = sum phi phi' / noise variance,    b = sum y phi / noise variance,

which add over independent observations. The posterior has precision A + (s^2 R R')^-1 and
mean (A + (s^2 R R')^-1)^-1 b. With the eigenvalues v_i and eigenvectors V of R' A R, it has the
root R V diag(v_i + s^-2)^-1/2 for every level s, and up to a constant

    log evidence(s) = 1/2 sum_i (V' R' b)_i^2 / (v_i + s^-2) - 1/2 sum_i log(1 + s^2 v_i).

| array     | shape  | meaning                                             | symbol |
|-----------|--------|-----------------------------------------------------|--------|
| precision | (p, p) | what observations say of theta                      | A      |
| weighted  | (p,)   | precision times mean of the likelihood              | b      |
| root      | (p, r) | a square root of a covariance                       | R      |
| mean      | (p,)   | posterior mean of theta                             |        |

Features and priors belong to the learners. So do posteriors that use more structure than a root:
independent arms with a shared level (`partition`), and coefficients that arms have in common
(`kernel`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet.validation import FloatArray


@dataclass(frozen=True, eq=False)
class GaussianNaturalParameters:
    """Natural parameters of a Gaussian likelihood.

    Attributes:
        precision: (p, p), or (K, p, p) where each of K arms has coefficients of its own.
        weighted: (p,), or (K, p).
    """

    precision: FloatArray
    weighted: FloatArray

    @classmethod
    def zeros(cls, size: int) -> GaussianNaturalParameters:
        """The parameters of no observation of p coefficients."""
        return cls(np.zeros((size, size)), np.zeros(size))

    def __add__(self, other: GaussianNaturalParameters) -> GaussianNaturalParameters:
        """The parameters of two independent sets of observations together."""
        return GaussianNaturalParameters(
            self.precision + other.precision, self.weighted + other.weighted
        )

    def scaled(self, factor: float) -> GaussianNaturalParameters:
        """The parameters of `factor` times as many observations with the same mean."""
        if factor == 1.0:
            return self
        return GaussianNaturalParameters(factor * self.precision, factor * self.weighted)


@dataclass(frozen=True, eq=False)
class Posterior:
    """A Gaussian posterior of coefficients.

    Attributes:
        mean: (p,).
        root: (p, r) a square root of the covariance.
    """

    mean: FloatArray
    root: FloatArray


@dataclass(frozen=True, eq=False)
class LevelPosteriors:
    """The posteriors under theta ~ N(0, s^2 R R') for every level s.

    Attributes:
        values: (r,) eigenvalues of R' A R, at least 0.
        along: (r,) V' R' b.
        directions: (p, r) R V.
        weighted: (p,) b.
    """

    values: FloatArray
    along: FloatArray
    directions: FloatArray
    weighted: FloatArray

    @classmethod
    def of(cls, root: FloatArray, known: GaussianNaturalParameters) -> LevelPosteriors:
        """For the prior root R (p, r) at level 1."""
        values, vectors = np.linalg.eigh(root.T @ known.precision @ root)
        along = vectors.T @ (root.T @ known.weighted)
        return cls(np.maximum(values, 0.0), along, root @ vectors, known.weighted)

    def log_evidence(self, levels: FloatArray) -> FloatArray:
        """(h,) log evidence of levels (h,), up to a constant that all roots share."""
        variances = levels[:, None] ** 2
        evidence: FloatArray = -0.5 * np.log1p(variances * self.values).sum(axis=1) + 0.5 * (
            self.along**2 / (self.values + 1.0 / variances)
        ).sum(axis=1)
        return evidence

    def at(self, level: float) -> Posterior:
        """The posterior at one level."""
        root = self.directions / np.sqrt(self.values + level**-2)
        return Posterior(root @ (root.T @ self.weighted), root)

    def average(self, levels: FloatArray, weights: FloatArray) -> Posterior:
        """The mean and the covariance of the mixture over levels (h,) with weights (h,)."""
        variances = 1.0 / (self.values + 1.0 / levels[:, None] ** 2)
        means = (variances * self.along) @ self.directions.T
        mean = weights @ means
        away = (means - mean).T * np.sqrt(weights)
        return Posterior(mean, np.hstack([self.directions * np.sqrt(weights @ variances), away]))


def average(parts: Sequence[Posterior], weights: FloatArray, least: float = 0.0) -> Posterior:
    """The mean and the covariance of a mixture of posteriors.

    With weights w_h, means m_h and covariances S_h the mean is m = sum w_h m_h and the covariance
    sum w_h (S_h + (m_h - m)(m_h - m)').

    Args:
        parts: the posteriors.
        weights: (H,) adding up to 1.
        least: parts with no more weight are left out of the covariance.
    """
    mean = np.sum([w * part.mean for w, part in zip(weights, parts, strict=True)], axis=0)
    likely = [(w, part) for w, part in zip(weights, parts, strict=True) if w > least]
    away = [math.sqrt(w) * (part.mean - mean)[:, None] for w, part in likely]
    return Posterior(mean, np.hstack([math.sqrt(w) * part.root for w, part in likely] + away))
