"""The evidence of releases about public points, and the posterior from it; post-processing.

D = sum w s(x) psi(x)' is known exactly; with psi = (1, features of each group)

    u | beta ~ N(D beta, rho^2 sum w s s' + s_u^2 I),   beta ~ N(0, p e_0 e_0' + t R_l R_l'),

and length scales l (kernels/grid.py) and t are averaged over grids by their marginal likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from discreet.codec import Range, Serializable, Shape
from discreet.gaussian import GaussianNaturalParameters, LevelPosteriors, Posterior, average
from discreet.learners.gp_ucb.posterior import (
    MOST_REWARD_VARIANCE,
    UNIFORM_VARIANCE,
    NoisyStatistics,
    left_over,
)
from discreet.validation import FloatArray

# Prior probabilities of length scales, shortest first (kernels/grid.py).
SCALE_PRIOR = np.array([1.0, 2.0, 4.0, 2.0])
# Twice the variance of a uniform number, two thirds of that of 0 or 1: f may be near one end of its
# range nearly everywhere, and near the other in one place.
WIDE_LEVEL = 2.0
# Length scales of less weight are left out of the average's covariance.
_LEAST_WEIGHT = 1e-4


@dataclass(frozen=True, eq=False)
class Evidence(Serializable):
    """What releases about public points say of the coefficients beta; public, and adds up.

    Given beta, every released sum is u ~ N(D beta, rho^2 S + s_u^2 I), independent of the others,
    with D = sum w s psi' and S = sum w s s' known exactly.

    Attributes:
        information: (p, p) sum of D' (rho^2 S + s_u^2 I)^-1 D.
        projected: (p,) sum of D' (rho^2 S + s_u^2 I)^-1 u.
        spread: (p, p) sum of w psi psi', of all people.
        people: how many people they stand for.
        came: how many people came.
        squares, squares_variance: sum of y^2, with noise, and the variance of that noise.
        reward_variance: rho^2, with the noise that people put on their own rewards.
        release_variance: s_u^2, of the last release.
    """

    information: Annotated[FloatArray, Shape("p", "p")]
    projected: Annotated[FloatArray, Shape("p")]
    spread: Annotated[FloatArray, Shape("p", "p")]
    people: Annotated[float, Range(0.0)]
    came: Annotated[int, Range(0)]
    squares: float
    squares_variance: Annotated[float, Range(0.0)]
    reward_variance: Annotated[float, Range(above=0.0)]
    release_variance: Annotated[float, Range(0.0)]

    @staticmethod
    def none(size: int) -> Evidence:
        """Before anything was released."""
        square = np.zeros((size, size))
        start = MOST_REWARD_VARIANCE
        return Evidence(square, np.zeros(size), square, 0.0, 0, 0.0, 0.0, start, 0.0)

    def after(
        self,
        design: FloatArray,
        rewards: FloatArray,
        sums: NoisyStatistics,
        root: FloatArray,
        extra: float = 0.0,
    ) -> Evidence:
        """With one more release.

        Args:
            design: (3, p, p) how points were spread: D, S and sum of w psi psi'.
            rewards: (p,) u = sum of w y s, with noise.
            sums: about that noise, and the sum of squares.
            root: (p, r) of a prior that takes what y^2 tells of f away from it.
            extra: variance of the noise that people add to their own rewards.
        """
        regressors, sent, spread = design
        spread = self.spread + spread
        people = self.people + sums.people
        squares = self.squares + (sums.squares or 0.0)
        doubt = self.squares_variance + sums.squares_variance
        noise = sums.reward_variance

        def updated(variance: float) -> tuple[FloatArray, FloatArray]:
            if noise == 0.0:
                # Then s = psi, and u is sufficient.
                return self.information + sent / variance, self.projected + rewards / variance
            asked = np.flatnonzero(np.diag(sent))
            covariance = variance * sent[np.ix_(asked, asked)] + noise * np.eye(len(asked))
            columns = np.column_stack([regressors[asked], rewards[asked]])
            seen = regressors[asked].T @ cho_solve(cho_factor(covariance), columns)
            return self.information + seen[:, :-1], self.projected + seen[:, -1]

        def remaining(information: FloatArray, projected: FloatArray) -> float:
            # (p, r + 1) of the sum of two independent functions: a constant, and what varies.
            both = np.hstack([math.sqrt(UNIFORM_VARIANCE) * np.eye(len(root), 1), root])
            inside = np.eye(both.shape[1]) + both.T @ information @ both
            mean = both @ cho_solve(cho_factor(inside), both.T @ projected)
            return left_over(squares - float(mean @ spread @ mean), doubt, people) + extra

        variance = self.reward_variance
        if self.people == 0.0:
            variance = left_over(squares, doubt, people) + extra
            variance = remaining(*updated(variance))
        information, projected = updated(variance)
        if self.people > 0.0:
            # Earlier releases keep the variance that was believed when they came.
            variance = remaining(information, projected)
        came = self.came + sums.came
        return Evidence(
            information, projected, spread, people, came, squares, doubt, variance, noise
        )


@dataclass(frozen=True, eq=False)
class ScaledPosterior:
    """Posteriors under several length scales and levels, and their average.

    Attributes:
        average: of mean and covariance as of the whole mixture.
        weights: (L,) posterior probabilities of the length scales.
        wide: for each length scale the posterior at `WIDE_LEVEL`.
        seen: (L,) how many places that differ under each length scale were measured: the degrees
            of freedom of the data, tr(I - posterior / prior covariance), at `WIDE_LEVEL`.
    """

    average: Posterior
    weights: FloatArray
    wide: tuple[Posterior, ...]
    seen: FloatArray


def scaled_posterior(
    evidence: Evidence, roots: Sequence[FloatArray], levels: FloatArray
) -> ScaledPosterior:
    """The posterior of beta ~ N(0, p e_0 e_0' + t R_l R_l') averaged over length scales l and
    levels t. The constant's variance has no part in the levels: a mean reward in the middle of its
    range does not tell that f is flat.

    Args:
        evidence: what releases say.
        roots: for each length scale (p, r_l) the root R_l at level 1, its first row 0.
        levels: (h,) the factors t; one of them is `WIDE_LEVEL`.
    """
    deviations = np.sqrt(levels)
    # The constant given the rest is N((h_0 - L_0' beta) / a, 1 / a).
    shared = evidence.information[0].copy()
    strength = float(shared[0]) + 1.0 / UNIFORM_VARIANCE
    shared[0] = 0.0
    start = float(evidence.projected[0])
    rest = GaussianNaturalParameters(
        evidence.information - np.outer(shared, shared) / strength,
        evidence.projected - shared * start / strength,
    )

    def with_constant(posterior: Posterior) -> Posterior:
        mean, root = posterior.mean.copy(), posterior.root.copy()
        mean[0] = (start - shared @ mean) / strength
        root[0] = -(shared @ root) / strength
        return Posterior(mean, np.hstack([root, np.eye(len(mean), 1) / math.sqrt(strength)]))

    scaled = [LevelPosteriors.of(root, rest) for root in roots]
    logs = np.array([each.log_evidence(deviations) for each in scaled])
    logs += np.log(SCALE_PRIOR[: len(logs)])[:, None]
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    of_scales = weights.sum(axis=1)
    parts = [
        each.average(deviations, own / max(float(own.sum()), 1e-300))
        for each, own in zip(scaled, weights, strict=True)
    ]
    seen = [float((each.values / (each.values + 1.0 / WIDE_LEVEL)).sum()) for each in scaled]
    return ScaledPosterior(
        average=with_constant(average(parts, of_scales, _LEAST_WEIGHT)),
        weights=of_scales,
        wide=tuple(with_constant(each.at(math.sqrt(WIDE_LEVEL))) for each in scaled),
        seen=np.array(seen),
    )
