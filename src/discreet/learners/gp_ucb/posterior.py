"""The posterior of theta from a noisy Gram matrix, and the variance of rewards; post-processing.

The sums are G ~ sum w phi phi' and u ~ sum w y phi with noise. Gram matrices of
points of a known domain do not fill the space of symmetric matrices: around n times their public
mean they vary along a few principal axes A_k, with the variance l_k that one point uniform in the
domain has. People gather in one place at worst, so n^2 l_k bounds the spread of coordinate k; with
noise of variance s^2 on every coordinate of svec it is shrunk by

    n^2 l_k / (n^2 l_k + s^2),   leaving the variance tau_k^2 = n^2 l_k s^2 / (n^2 l_k + s^2),

and the leftover error E = sum_k eps_k A_k turns theta into E theta. With the denoised G' then

    u | theta ~ N(G' theta, rho^2 G' + s_u^2 I + p sum tau_k^2 A_k P A_k),   theta ~ N(0, p P).

The variance rho^2 of a reward about its mean is at most 1/4. A sum of y^2 is released beside u,
which costs nothing (learner.py), and is more informative: it leaves rho^2 once the fit is
subtracted.

| name  | shape  | meaning                                                            |
|-------|--------|--------------------------------------------------------------------|
| phi   | (N, m) | features at public points, norm at most 1                          |
| gram  | (m, m) | G, with noise                                                      |
| mean  | (m,)   | posterior mean of theta                                            |
| root  | (m, r) | a square root of its covariance                                    |
| rho^2 |        | variance of one reward in [0, 1] about its mean                    |
| p     |        | prior variance of f(x): a uniform number in [0, 1] has 1/12        |
| s_u^2 |        | variance of the noise on each coordinate of u                      |
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from discreet.gaussian import Posterior
from discreet.kernels import FeatureMap, public_points
from discreet.validation import FloatArray

CENTRE = 0.5
MOST_REWARD_VARIANCE = 0.25
UNIFORM_VARIANCE = 1.0 / 12.0
# The smallest variance of rewards, which keeps posteriors from collapsing.
_LEAST_REWARD_VARIANCE = 1e-4
# Keeps covariances invertible where there is no noise; far below any noise that protects.
_JITTER = 1e-9
# Axes with less than this share of the largest variance are dropped.
_LEAST_SHARE = 1e-7
# Up to this many features the principal axes of m (m + 1)/2 coordinates are worth their time.
_MOST_FEATURES = 100
# Numbers kept for the squares of axes; beyond, neighbouring axes share one.
_MOST_NUMBERS = 2_000_000


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


@dataclass(frozen=True)
class NoisyStatistics:
    """Released sums with what is known about their noise.

    Attributes:
        people: how many people they stand for (the effective number, for weighted sums).
        gram_variance: variance of the noise on each coordinate of svec.
        reward_variance: variance of the noise on each coordinate of u.
        squares: sum of y^2, with noise; None if it is not known.
        squares_variance: variance of that noise.
        came: how many people came.
        scale: standard deviation of the noise on one released number.
    """

    people: float
    gram_variance: float
    reward_variance: float
    squares: float | None = None
    squares_variance: float = 0.0
    came: int = 0
    scale: float = 0.0


def left_over(squares: float, variance: float, people: float) -> float:
    """rho^2 from what the fit leaves of sum y^2, one deviation of the noise on it added: too large
    a variance learns slowly, too small a one is sure of noise."""
    # Few people tell little: one more of the largest variance is counted among them.
    mean = (squares + math.sqrt(variance) + MOST_REWARD_VARIANCE) / (people + 1.0)
    return min(max(mean, _LEAST_REWARD_VARIANCE), MOST_REWARD_VARIANCE)


class GramAxes(ABC):
    """Public knowledge about Gram matrices of one feature map."""

    def __init__(self, phi: FloatArray, smoothness: float) -> None:
        self.mean = phi.T @ phi / len(phi)
        self.prior_root = smooth_root(self.mean, smoothness)

    @abstractmethod
    def denoise(
        self, gram: FloatArray, people: float, variance: float
    ) -> tuple[FloatArray, FloatArray]:
        """The Gram matrix with less noise, and the remaining error.

        Args:
            gram: (m, m) with noise.
            people: how many people it is a sum over, n.
            variance: of the noise on each coordinate of svec, s^2.

        Returns:
            The positive part of the shrunk matrix (m, m), and sum_k tau_k^2 A_k P A_k (m, m).
        """


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


def gram_axes(
    features: FeatureMap, norm: float, smoothness: float, points: FloatArray | None = None
) -> GramAxes:
    """The axes that suit a feature map, from public points (by default of the whole box)."""
    where = public_points(features.domain) if points is None else points
    phi = features.transform(where) / norm
    if len(features.groups) == 1 and features.features <= _MOST_FEATURES:
        return PrincipalAxes(phi, smoothness)
    return CoordinateAxes(phi, smoothness)


def with_reward_variance(
    sums: NoisyStatistics, fit: Callable[[float], tuple[Posterior, float]]
) -> Posterior:
    """The posterior with the reward variance that the squares tell.

    Args:
        sums: with the sum of squares.
        fit: rho^2 -> the posterior, and how much of sum y^2 its mean explains.

    Returns:
        The posterior under the variance that is left over.
    """
    if sums.squares is None or sums.people <= 0.0:
        return fit(MOST_REWARD_VARIANCE)[0]
    doubt = sums.squares_variance
    _, explained = fit(left_over(sums.squares, doubt, sums.people))
    return fit(left_over(sums.squares - explained, doubt, sums.people))[0]


def gram_posterior(
    gram: FloatArray, rewards: FloatArray, sums: NoisyStatistics, axes: GramAxes, prior: float
) -> Posterior:
    """The posterior from a noisy Gram matrix (m, m) and noisy sums of y phi (m,)."""
    left = np.zeros_like(gram)
    if sums.gram_variance:
        gram, left = axes.denoise(gram, sums.people, sums.gram_variance)
    size = len(rewards)
    noise = (sums.reward_variance + _JITTER) * np.eye(size) + prior * left
    wide = math.sqrt(prior) * axes.prior_root
    seen = gram @ wide

    def fit(variance: float) -> tuple[Posterior, float]:
        # theta = wide eta with eta ~ N(0, I), so flat directions of the prior do no harm.
        solved = cho_solve(cho_factor(variance * gram + noise), np.column_stack([seen, rewards]))
        precision = np.eye(wide.shape[1]) + seen.T @ solved[:, :-1]
        factor = cho_factor(0.5 * (precision + precision.T), lower=True)
        mean = wide @ cho_solve(factor, seen.T @ solved[:, -1])
        root = wide @ solve_triangular(factor[0], np.eye(wide.shape[1]), lower=True).T
        return Posterior(mean, root), float(2.0 * mean @ rewards - mean @ gram @ mean)

    return with_reward_variance(sums, fit)
