"""Taking noise off a released Gram matrix, by what is public about it.

Gram matrices of points of a known domain do not fill the space of symmetric matrices: around n
times their public mean they vary along a few principal axes A_k, with the variance l_k that one
point uniform in the domain has. People gather in one place at worst, so n^2 l_k bounds the spread
of coordinate k; with noise of variance s^2 on every coordinate of svec it is shrunk by

    n^2 l_k / (n^2 l_k + s^2),   leaving the variance tau_k^2 = n^2 l_k s^2 / (n^2 l_k + s^2),

and the leftover error E = sum_k eps_k A_k turns theta into E theta, of covariance
sum_k tau_k^2 A_k P A_k for a prior covariance P of theta. All of it is
post-processing: it changes what is believed, never what was promised.

`PrincipalAxes` finds the axes from features at public points; `CoordinateAxes` uses the
coordinates themselves, for maps with many groups or features, where features were rotated already.

| array  | shape  | meaning                                     | symbol |
|--------|--------|---------------------------------------------|--------|
| phi    | (N, m) | features at public points, norm at most 1   | phi    |
| gram   | (m, m) | sum of phi phi' over people, with noise     |        |
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from discreet.kernels import FeatureMap, public_points
from discreet.validation import FloatArray

# Axes with less than this share of the largest variance are dropped.
_LEAST_SHARE = 1e-7
# Up to this many features the principal axes of m (m + 1)/2 coordinates are worth their time.
_MOST_FEATURES = 100
# Numbers kept for the squares of axes; beyond, neighbouring axes share one.
_MOST_NUMBERS = 2_000_000


class GramAxes(ABC):
    """Public knowledge about Gram matrices of one feature map."""

    def __init__(self, phi: FloatArray, smoothness: float) -> None:
        self.mean = phi.T @ phi / len(phi)
        self.prior_root = smooth_root(self.mean, smoothness)

    @abstractmethod
    def denoise(
        self, gram: FloatArray, people: float, variance: float
    ) -> tuple[FloatArray, FloatArray]:
        """The Gram matrix with less noise, and what is left of it.

        Args:
            gram: (m, m) with noise.
            people: how many people it is a sum over, n.
            variance: of the noise on each coordinate of svec, s^2.

        Returns:
            The positive part of the shrunk matrix (m, m), and sum_k tau_k^2 A_k P A_k (m, m).
        """

    @staticmethod
    def of(
        features: FeatureMap, norm: float, smoothness: float, points: FloatArray | None = None
    ) -> GramAxes:
        """The axes that suit a feature map, from public points (by default of the whole box)."""
        where = public_points(features.domain) if points is None else points
        phi = features.transform(where) / norm
        if len(features.groups) == 1 and features.features <= _MOST_FEATURES:
            return PrincipalAxes(phi, smoothness)
        return CoordinateAxes(phi, smoothness)


def smooth_root(mean: FloatArray, smoothness: float) -> FloatArray:
    """(m, m) a root of the prior covariance P of theta, of average variance 1 over the domain.

    With C the mean of phi phi' over public points, P is proportional to C^smoothness. 0 is the
    Gaussian process of the kernel. 1 is the law of sums of kernel bumps at random places, which
    is what members of the kernel's function space look like: smoother than paths of the process.
    """
    values, vectors = np.linalg.eigh(mean)
    values = np.maximum(values, 0.0)
    powers = values**smoothness if smoothness else np.ones_like(values)
    root: FloatArray = vectors * np.sqrt(powers / (powers @ values))
    return root


def positive_part(matrix: FloatArray) -> FloatArray:
    """The nearest positive semi-definite matrix (Frobenius)."""
    values, vectors = np.linalg.eigh(matrix)
    positive: FloatArray = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return positive


class PrincipalAxes(GramAxes):
    """Principal axes of svec(phi phi') over public points.

    Inner products of svec are (phi'psi)^2, so the axes follow from the N x N matrix of squared
    kernel values: A_k = sum_i a_ik phi_i phi_i'.
    """

    def __init__(self, phi: FloatArray, smoothness: float) -> None:
        super().__init__(phi, smoothness)
        count, size = phi.shape
        self._phi = phi
        squared = (phi @ phi.T) ** 2
        squared -= squared.mean(axis=0)
        squared -= squared.mean(axis=1, keepdims=True)
        values, vectors = np.linalg.eigh(squared)
        values, vectors = values[::-1], vectors[:, ::-1]
        kept = values > max(_LEAST_SHARE * values[0], 1e-13 * count)
        self.variances = values[kept] / count
        self._coefficients = vectors[:, kept] / np.sqrt(values[kept])
        self._coefficients -= self._coefficients.mean(axis=0)
        axes = len(self.variances)
        shared = max(1, -(-axes * size * size // _MOST_NUMBERS))
        self._starts = np.arange(0, axes, shared)
        self._squares = np.zeros((len(self._starts), size, size))
        for k in range(axes):
            axis = (phi * self._coefficients[:, k : k + 1]).T @ phi
            wide = axis @ self.prior_root
            self._squares[k // shared] += wide @ wide.T
        self._mass = np.diff(np.append(self._starts, axes))

    def denoise(
        self, gram: FloatArray, people: float, variance: float
    ) -> tuple[FloatArray, FloatArray]:
        spread = people**2 * self.variances
        kept = spread / (spread + variance)
        deviation = gram - people * self.mean
        along = np.einsum("ij,ij->i", self._phi @ deviation, self._phi) @ self._coefficients
        weights = self._coefficients @ (kept * along)
        shrunk = people * self.mean + (self._phi * weights[:, None]).T @ self._phi
        left = np.add.reduceat(kept * variance, self._starts) / self._mass
        return positive_part(shrunk), np.tensordot(left, self._squares, axes=1)


class CoordinateAxes(GramAxes):
    """The coordinates of svec as axes: A_ii = e_i e_i', A_ij = (e_i e_j' + e_j e_i')/sqrt 2."""

    def __init__(self, phi: FloatArray, smoothness: float) -> None:
        super().__init__(phi, smoothness)
        self._prior = np.sum(self.prior_root**2, axis=1)
        count = len(phi)
        self._variances = np.maximum((phi**2).T @ phi**2 / count - self.mean**2, 0.0)
        # svec counts an entry off the diagonal twice.
        self._variances *= 2.0 - np.eye(phi.shape[1])

    def denoise(
        self, gram: FloatArray, people: float, variance: float
    ) -> tuple[FloatArray, FloatArray]:
        spread = people**2 * self._variances
        kept = spread / (spread + variance) if variance else np.ones_like(spread)
        shrunk = people * self.mean + kept * (gram - people * self.mean)
        # The diagonal of A_ij P A_ij is (P_jj e_i e_i' + P_ii e_j e_j')/2; the rest is left out.
        left = variance * kept * self._prior
        halves = 0.5 * (left.sum(axis=1) + np.diag(left))
        return positive_part(shrunk), np.diag(halves)
