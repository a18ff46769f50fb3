"""From released sums to a posterior of theta; everything here is post-processing.

Per-person decision sets. The sums are G ~ sum w phi phi' and u ~ sum w y phi with noise. With the
denoised G' and the leftover variance (axes.py),

    u | theta ~ N(G' theta, rho^2 G' + s_u^2 I + p sum tau_k^2 A_k^2),   theta ~ N(0, p I).

Public points. D = sum w s(x) psi(x)' is known exactly, so with psi = (1, features of each group)

    u | beta ~ N(D beta, rho^2 sum w s s' + s_u^2 I),   beta ~ N(0, diag(p_0, s^2, .., s^2)),

and s^2 is averaged over a grid by its marginal likelihood.

| name     | meaning                                                             |
|----------|---------------------------------------------------------------------|
| rho^2    | variance of one reward in [0, 1]; at most 1/4                       |
| p        | prior variance of f(x): a uniform number in [0, 1] has 1/12         |
| s_u^2    | variance of the noise on each coordinate of u                       |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from discreet.learners.gp_ucb.axes import GramAxes
from discreet.validation import FloatArray

REWARD_VARIANCE = 0.25
UNIFORM_VARIANCE = 1.0 / 12.0
# Keeps covariances invertible where there is no noise; far below any noise that protects.
_JITTER = 1e-9


@dataclass(frozen=True, eq=False)
class Belief:
    """A Gaussian posterior: mean (p,) and covariance (p, p)."""

    mean: FloatArray
    covariance: FloatArray

    @property
    def root(self) -> FloatArray:
        """A square root of the covariance, whatever rounding did to its small eigenvalues."""
        values, vectors = np.linalg.eigh(self.covariance)
        root: FloatArray = vectors * np.sqrt(np.maximum(values, 0.0))
        return root


@dataclass(frozen=True)
class Sums:
    """Released sums with what is known about their noise.

    Attributes:
        people: how many people they stand for (the effective number, for weighted sums).
        gram_variance: variance of the noise on each coordinate of svec.
        reward_variance: variance of the noise on each coordinate of u.
    """

    people: float
    gram_variance: float
    reward_variance: float


def gram_belief(
    gram: FloatArray, rewards: FloatArray, sums: Sums, axes: GramAxes, prior: float
) -> Belief:
    """The posterior from a noisy Gram matrix (m, m) and noisy sums of y phi (m,)."""
    left = np.zeros_like(gram)
    if sums.gram_variance:
        gram, left = axes.denoise(gram, sums.people, sums.gram_variance)
    size = len(rewards)
    noise = REWARD_VARIANCE * gram + (sums.reward_variance + _JITTER) * np.eye(size) + prior * left
    solved = cho_solve(cho_factor(noise), np.column_stack([gram, rewards]))
    precision = np.eye(size) / prior + gram @ solved[:, :-1]
    factor = cho_factor(0.5 * (precision + precision.T))
    covariance = cho_solve(factor, np.eye(size))
    return Belief(cho_solve(factor, gram @ solved[:, -1]), covariance)


def design_belief(
    design: FloatArray,
    spread: FloatArray,
    rewards: FloatArray,
    variance: float,
    priors: FloatArray,
    extra: float = 0.0,
) -> Belief:
    """The posterior from a design that is known exactly.

    Args:
        design: (p, p) sum of w s psi'.
        spread: (p, p) sum of w s s'.
        rewards: (p,) sum of w y s, with noise.
        variance: of that noise on each coordinate.
        priors: (h, p) prior variances of beta, one row for each hypothesis.
        extra: variance of the noise that people add to their own rewards.

    Returns:
        The average of the posteriors under all hypotheses, by marginal likelihood.
    """
    size = len(rewards)
    noise = (REWARD_VARIANCE + extra) * spread + (variance + _JITTER) * np.eye(size)
    factor = cho_factor(noise)
    information = design.T @ cho_solve(factor, design)
    seen = design.T @ cho_solve(factor, rewards)
    means, covariances, evidence = [], [], []
    for prior in priors:
        # With b = sqrt(prior): N(u; 0, D P D' + noise) by the determinant and inverse lemmas.
        b = np.sqrt(prior)
        inner = np.eye(size) + b[:, None] * information * b
        values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
        values = np.maximum(values, 1.0)
        half = vectors.T @ (b * seen)
        evidence.append(0.5 * (np.sum(half**2 / values) - np.sum(np.log(values))))
        means.append(b * (vectors @ (half / values)))
        wide = b[:, None] * vectors
        covariances.append((wide / values) @ wide.T)
    weights = np.exp(np.array(evidence) - max(evidence))
    weights /= weights.sum()
    mean = weights @ np.array(means)
    covariance = np.tensordot(weights, np.array(covariances), axes=1)
    away = np.array(means) - mean
    return Belief(mean, covariance + (away * weights[:, None]).T @ away)
