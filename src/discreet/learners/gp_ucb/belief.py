"""From released sums to a posterior of theta; everything here is post-processing.

Per-person decision sets. The sums are G ~ sum w phi phi' and u ~ sum w y phi with noise. With the
denoised G' and the leftover variance (axes.py),

    u | theta ~ N(G' theta, rho^2 G' + s_u^2 I + p sum tau_k^2 A_k P A_k),   theta ~ N(0, p P).

Public points. D = sum w s(x) psi(x)' is known exactly, so with psi = (1, features of each group)

    u | beta ~ N(D beta, rho^2 sum w s s' + s_u^2 I),   beta ~ N(0, t diag(d, 1, .., 1)),

and t is averaged over a grid by its marginal likelihood.

The variance rho^2 of a reward about its mean is at most 1/4. A sum of y^2 is released beside u,
which costs nothing (rows.py), and tells more: what y^2 leaves over the fitted function.

| name     | meaning                                                             |
|----------|---------------------------------------------------------------------|
| rho^2    | variance of one reward in [0, 1] about its mean                     |
| p        | prior variance of f(x): a uniform number in [0, 1] has 1/12         |
| s_u^2    | variance of the noise on each coordinate of u                       |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from discreet.learners.gp_ucb.axes import GramAxes
from discreet.validation import FloatArray

MOST_REWARD_VARIANCE = 0.25
UNIFORM_VARIANCE = 1.0 / 12.0
# Below this no reward's variance is believed to be: it keeps posteriors from collapsing.
_LEAST_REWARD_VARIANCE = 1e-4
# Keeps covariances invertible where there is no noise; far below any noise that protects.
_JITTER = 1e-9


@dataclass(frozen=True, eq=False)
class Belief:
    """A Gaussian posterior.

    Attributes:
        mean: (p,) of the coefficients.
        root: (p, r) a square root of their covariance.
    """

    mean: FloatArray
    root: FloatArray


@dataclass(frozen=True)
class Sums:
    """Released sums with what is known about their noise.

    Attributes:
        people: how many people they stand for (the effective number, for weighted sums).
        gram_variance: variance of the noise on each coordinate of svec.
        reward_variance: variance of the noise on each coordinate of u.
        squares: sum of y^2, with noise; None if it is not known.
        squares_variance: variance of that noise.
    """

    people: float
    gram_variance: float
    reward_variance: float
    squares: float | None = None
    squares_variance: float = 0.0


def with_reward_variance(
    sums: Sums, fit: Callable[[float], tuple[Belief, float]], least: float = 0.0
) -> Belief:
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


def gram_belief(
    gram: FloatArray, rewards: FloatArray, sums: Sums, axes: GramAxes, prior: float
) -> Belief:
    """The posterior from a noisy Gram matrix (m, m) and noisy sums of y phi (m,)."""
    left = np.zeros_like(gram)
    if sums.gram_variance:
        gram, left = axes.denoise(gram, sums.people, sums.gram_variance)
    size = len(rewards)
    noise = (sums.reward_variance + _JITTER) * np.eye(size) + prior * left
    wide = math.sqrt(prior) * axes.prior_root
    seen = gram @ wide

    def fit(variance: float) -> tuple[Belief, float]:
        # theta = wide eta with eta ~ N(0, I), so flat directions of the prior do no harm.
        solved = cho_solve(cho_factor(variance * gram + noise), np.column_stack([seen, rewards]))
        precision = np.eye(wide.shape[1]) + seen.T @ solved[:, :-1]
        factor = cho_factor(0.5 * (precision + precision.T), lower=True)
        mean = wide @ cho_solve(factor, seen.T @ solved[:, -1])
        root = wide @ solve_triangular(factor[0], np.eye(wide.shape[1]), lower=True).T
        return Belief(mean, root), float(2.0 * mean @ rewards - mean @ gram @ mean)

    return with_reward_variance(sums, fit)


@dataclass(frozen=True, eq=False)
class Design:
    """A design that is known exactly.

    Attributes:
        regressors: (p, p) sum of w s psi'.
        sent: (p, p) sum of w s s'.
        squares: (p, p) sum of w psi psi'.
    """

    regressors: FloatArray
    sent: FloatArray
    squares: FloatArray


def design_belief(
    design: Design,
    rewards: FloatArray,
    sums: Sums,
    shape: FloatArray,
    levels: FloatArray,
    extra: float = 0.0,
) -> Belief:
    """The posterior from a design that is known exactly.

    Args:
        design: how points were spread.
        rewards: (p,) sum of w y s, with noise.
        sums: about that noise.
        shape: (p,) prior variances of beta up to a factor.
        levels: (h,) the factors that are averaged over.
        extra: variance of the noise that people add to their own rewards.
    """
    size = len(rewards)
    wide = np.sqrt(shape)
    noise = (sums.reward_variance + _JITTER) * np.eye(size)

    def fit(variance: float) -> tuple[Belief, float]:
        factor = cho_factor(variance * design.sent + noise)
        solved = cho_solve(factor, np.column_stack([design.regressors, rewards]))
        seen = design.regressors.T @ solved
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
        return Belief(mean, root), float(mean @ design.squares @ mean)

    return with_reward_variance(sums, fit, extra)
