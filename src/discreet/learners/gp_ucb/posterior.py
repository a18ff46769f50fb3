"""From released sums to a posterior of theta, and the public object that predicts with it.

Everything here is post-processing: it changes what is believed, never what was promised.

**Decision sets.** The sums are G ~ sum w phi phi' and u ~ sum w y phi with noise. Gram matrices of
points of a known domain do not fill the space of symmetric matrices: around n times their public
mean they vary along a few principal axes A_k, with the variance l_k that one point uniform in the
domain has. People gather in one place at worst, so n^2 l_k bounds the spread of coordinate k; with
noise of variance s^2 on every coordinate of svec it is shrunk by

    n^2 l_k / (n^2 l_k + s^2),   leaving the variance tau_k^2 = n^2 l_k s^2 / (n^2 l_k + s^2),

and the leftover error E = sum_k eps_k A_k turns theta into E theta. With the denoised G' then

    u | theta ~ N(G' theta, rho^2 G' + s_u^2 I + p sum tau_k^2 A_k P A_k),   theta ~ N(0, p P).

**Public points.** D = sum w s(x) psi(x)' is known exactly; with psi = (1, features of each group)

    u | beta ~ N(D beta, rho^2 sum w s s' + s_u^2 I),   beta ~ N(0, t diag(d, 1, .., 1)),

and t is averaged over a grid by its marginal likelihood.

The variance rho^2 of a reward about its mean is at most 1/4. A sum of y^2 is released beside u,
which costs nothing (decision_sets.py), and tells more: what y^2 leaves over the fitted function.

**Prediction.** f(x) = 1/2 + (1, phi(x))' theta on the scale [0, 1] of the reward bounds (Dubey
2021, Remark 1: the parameters are private already, so they can be given away).

| name  | shape      | meaning                                                            |
|-------|------------|--------------------------------------------------------------------|
| phi   | (N, m)     | features at public points, norm at most 1                          |
| gram  | (m, m)     | G, with noise                                                      |
| mean  | (m + 1,)   | posterior mean of theta; the first entry belongs to a constant     |
| root  | (m + 1, r) | a square root of its covariance                                    |
| rho^2 |            | variance of one reward in [0, 1] about its mean                    |
| p     |            | prior variance of f(x): a uniform number in [0, 1] has 1/12        |
| s_u^2 |            | variance of the noise on each coordinate of u                      |
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from discreet.codec import Range, Shape
from discreet.domain import RewardBounds
from discreet.kernels import FeatureMap, public_points
from discreet.learners.messages import Message
from discreet.validation import FloatArray, InvalidInput

CENTRE = 0.5
MOST_REWARD_VARIANCE = 0.25
UNIFORM_VARIANCE = 1.0 / 12.0
# Below this no reward's variance is believed to be: it keeps posteriors from collapsing.
_LEAST_REWARD_VARIANCE = 1e-4
# Keeps covariances invertible where there is no noise; far below any noise that protects.
_JITTER = 1e-9
# Axes with less than this share of the largest variance are dropped.
_LEAST_SHARE = 1e-7
# Up to this many features the principal axes of m (m + 1)/2 coordinates are worth their time.
_MOST_FEATURES = 100
# Numbers kept for the squares of axes; beyond, neighbouring axes share one.
_MOST_NUMBERS = 2_000_000


@dataclass(frozen=True, eq=False)
class GaussianPosterior:
    """A Gaussian posterior of the coefficients of features.

    Attributes:
        mean: (p,) of the coefficients.
        root: (p, r) a square root of their covariance.
    """

    mean: FloatArray
    root: FloatArray


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


def gram_axes(
    features: FeatureMap, norm: float, smoothness: float, points: FloatArray | None = None
) -> GramAxes:
    """The axes that suit a feature map, from public points (by default of the whole box)."""
    where = public_points(features.domain) if points is None else points
    phi = features.transform(where) / norm
    if len(features.groups) == 1 and features.features <= _MOST_FEATURES:
        return PrincipalAxes(phi, smoothness)
    return CoordinateAxes(phi, smoothness)


@dataclass(frozen=True)
class NoisySums:
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


def with_reward_variance(
    sums: NoisySums, fit: Callable[[float], tuple[GaussianPosterior, float]], least: float = 0.0
) -> GaussianPosterior:
    """The posterior with the reward variance that the squares tell.

    Args:
        sums: with the sum of squares.
        fit: rho^2 -> the posterior, and how much of sum y^2 its mean explains.
        least: variance of noise that people added to their own rewards.

    Returns:
        The posterior under the variance that is left over, one deviation of the noise on the
        squares added: too large a variance learns slowly, too small a one is sure of noise.
    """
    if sums.squares is None or sums.people <= 0.0:
        return fit(MOST_REWARD_VARIANCE + least)[0]
    doubt = math.sqrt(sums.squares_variance)

    def variance(left: float) -> float:
        # Few people tell little: one more of the largest variance is counted among them.
        mean = (left + doubt + MOST_REWARD_VARIANCE) / (sums.people + 1.0)
        return min(max(mean, _LEAST_REWARD_VARIANCE), MOST_REWARD_VARIANCE) + least

    _, explained = fit(variance(sums.squares))
    return fit(variance(sums.squares - explained))[0]


def gram_posterior(
    gram: FloatArray, rewards: FloatArray, sums: NoisySums, axes: GramAxes, prior: float
) -> GaussianPosterior:
    """The posterior from a noisy Gram matrix (m, m) and noisy sums of y phi (m,)."""
    left = np.zeros_like(gram)
    if sums.gram_variance:
        gram, left = axes.denoise(gram, sums.people, sums.gram_variance)
    size = len(rewards)
    noise = (sums.reward_variance + _JITTER) * np.eye(size) + prior * left
    wide = math.sqrt(prior) * axes.prior_root
    seen = gram @ wide

    def fit(variance: float) -> tuple[GaussianPosterior, float]:
        # theta = wide eta with eta ~ N(0, I), so flat directions of the prior do no harm.
        solved = cho_solve(cho_factor(variance * gram + noise), np.column_stack([seen, rewards]))
        precision = np.eye(wide.shape[1]) + seen.T @ solved[:, :-1]
        factor = cho_factor(0.5 * (precision + precision.T), lower=True)
        mean = wide @ cho_solve(factor, seen.T @ solved[:, -1])
        root = wide @ solve_triangular(factor[0], np.eye(wide.shape[1]), lower=True).T
        return GaussianPosterior(mean, root), float(2.0 * mean @ rewards - mean @ gram @ mean)

    return with_reward_variance(sums, fit)


def design_posterior(
    design: FloatArray,
    rewards: FloatArray,
    sums: NoisySums,
    shape: FloatArray,
    levels: FloatArray,
    extra: float = 0.0,
) -> GaussianPosterior:
    """The posterior from a design that is known exactly.

    Args:
        design: (3, p, p) how points were spread: sums of w s psi', of w s s' and of w psi psi'.
        rewards: (p,) sum of w y s, with noise.
        sums: about that noise.
        shape: (p,) prior variances of beta up to a factor.
        levels: (h,) the factors that are averaged over.
        extra: variance of the noise that people add to their own rewards.
    """
    size = len(rewards)
    regressors, sent, squares = design
    wide = np.sqrt(shape)
    noise = (sums.reward_variance + _JITTER) * np.eye(size)

    def fit(variance: float) -> tuple[GaussianPosterior, float]:
        factor = cho_factor(variance * sent + noise)
        solved = cho_solve(factor, np.column_stack([regressors, rewards]))
        seen = regressors.T @ solved
        information = wide[:, None] * seen[:, :-1] * wide
        values, vectors = np.linalg.eigh(0.5 * (information + information.T))
        values = np.maximum(values, 0.0)
        along = vectors.T @ (wide * seen[:, -1])
        # For each factor t: N(u; 0, t D P D' + noise) by the lemmas of determinant and inverse.
        spread = 1.0 / (1.0 / levels[:, None] + values)
        evidence = 0.5 * (spread @ along**2 - np.log1p(levels[:, None] * values).sum(axis=1))
        weights = np.exp(evidence - evidence.max())
        weights /= weights.sum()
        turned = wide[:, None] * vectors
        means = (spread * along) @ turned.T
        mean = weights @ means
        away = (means - mean).T * np.sqrt(weights)
        root = np.hstack([turned * np.sqrt(weights @ spread), away])
        return GaussianPosterior(mean, root), float(mean @ squares @ mean)

    return with_reward_variance(sums, fit, extra)


@dataclass(frozen=True, eq=False)
class KernelModel(Message):
    """The released posterior of a reward function; public.

    Attributes:
        features: the feature map, on the public domain.
        norm: what its features are divided by, so that their norm is at most 1.
        mean, root: see the module's table.
        reward_bounds: the units of rewards.
    """

    kind: ClassVar[str] = "kernel-model"

    features: FeatureMap
    norm: Annotated[float, Range(above=0.0)]
    mean: Annotated[FloatArray, Shape("size")]
    root: Annotated[FloatArray, Shape("size", "r")]
    reward_bounds: RewardBounds

    def __post_init__(self) -> None:
        super().__post_init__()
        bound = self.features.norm_bound
        if bound is None or not bound * (1.0 - 1e-12) <= self.norm:
            raise InvalidInput(
                f"a kernel model divides features by {self.norm}, but their norm may be {bound}; "
                "noise is sized for a norm of at most 1."
            )

    @property
    def size(self) -> int:
        """m + 1, the number of coefficients."""
        return self.features.features + 1

    def predict(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:  # noqa: N803
        """Mean reward and its standard deviation at points of the domain.

        Args:
            X: (n, d), in the units of the domain.

        Returns:
            (n,) posterior means and (n,) posterior standard deviations, in units of rewards. The
            deviation speaks of f, not of a single reward.

        Raises:
            InvalidInput: for a wrong shape, NaN, or a point outside the domain.
        """
        mean, deviation = self.unit(self.features.transform(X))
        width = self.reward_bounds.upper - self.reward_bounds.lower
        return self.reward_bounds.lower + width * mean, width * deviation

    def unit(self, phi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means and deviations on the scale [0, 1], from features (n, m) of the map."""
        scaled = phi / self.norm
        mean: FloatArray = CENTRE + self.mean[0] + scaled @ self.mean[1:]
        return mean, np.sqrt(np.sum((self.root[0] + scaled @ self.root[1:]) ** 2, axis=1))
