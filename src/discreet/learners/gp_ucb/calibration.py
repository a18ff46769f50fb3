"""How much noise, when to release, and what to believe: what a kernel learner leaves open.

| calibration       | posterior                                                                  |
|-------------------|----------------------------------------------------------------------------|
| `PosteriorBonus`  | the default: geometric epochs, Gram matrix with noise taken off, Gaussian  |
|                   | posterior; a bonus of some of its deviations                               |
| `ConfidenceWidth` | that of the theorems: a regularised Gram matrix and a width that covers f  |
|                   | with the stated probability at confidence_multiplier 1, which explores far |
|                   | too much in practice                                                       |

Those of the paper live with its reproduction. Only `weights`, `mechanism` and `noise_multiplier`
touch privacy, and what they give is what the releases record; the rest is post-processing.

**The row of a person** with features phi (||phi|| <= 1) and centred reward y (|y| <= b) is

    (phi_i phi_i, w phi_i phi_j for i < j, c y phi, g y^2)

with w = sqrt 2, so that its first part has the inner product (phi'psi)^2 ("svec"). Replacing one
person by any other moves the row by at most (k = phi'psi, both of norm 1)

    max over k, y, y' of 2 - 2 k^2 + c^2 (y^2 + y'^2 - 2 y y' k)
      = (2 + c^2 b^2)^2 / 2 if c b <= sqrt 2, else 4 c^2 b^2          (squared),

attained at y y' = b^2, k = -c^2 b^2 / 2 (or k = -1). There y^2 = y'^2, so the last entry is free
for g = c / b: with p = y^2, q = y'^2 it adds g^2 (p - q)^2, the maximum over k is convex in p and
in q, hence largest at corners, and at (b^2, 0) it is 2 + 2 c^2 b^2. Shorter vectors move the row
less, and so does any w in [0, sqrt 2]. `row_sensitivity` includes the rounding below.

Features and rewards are rounded to multiples of 2^-18 first. Their products are then whole
multiples of 2^-36, and sums of them are exact in 64-bit integers: statistics add without rounding,
in any order, and sensitivity does not rest on exact real arithmetic.

| array   | shape           | meaning                                        |
|---------|-----------------|------------------------------------------------|
| phi     | (n, m)          | features divided by their norm bound           |
| gram    | (m (m + 1)/2,)  | upper triangle of sum phi phi', by rows        |
| rewards | (m,)            | sum y phi                                      |
| squares | (1,)            | sum y^2                                        |
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import ndtr

from discreet.codec import CheckedBy, Coded, Range
from discreet.learners.calibration import Calibration
from discreet.learners.gp_ucb.posterior import (
    MOST_REWARD_VARIANCE,
    UNIFORM_VARIANCE,
    GaussianPosterior,
    GramAxes,
    NoisySums,
    gram_posterior,
    positive_part,
)
from discreet.privacy import Budget
from discreet.privacy.prefix_sums import (
    MECHANISMS,
    BufferedToeplitz,
    Doubling,
    GeometricEpochs,
    PrefixMechanism,
)
from discreet.validation import FloatArray, IntArray, InvalidInput

Decision = Literal["ucb", "thompson", "matching"]

_BITS = 18
RESOLUTION = 2.0**_BITS
# Of the integer sums.
UNIT = 2.0 ** (-2 * _BITS)
# So many products of two numbers below 2^18 add up exactly in float64.
_EXACT = 2 ** (53 - 2 * _BITS)
# Integer sums of this many people fit into 64 bits, with room for a second copy.
MOST_PEOPLE = 2 ** (61 - 2 * _BITS)
SYMMETRIC = math.sqrt(2.0)


def row_size(features: int) -> int:
    """How many numbers a row has: gram, rewards and squares."""
    return features * (features + 1) // 2 + features + 1


@dataclass(frozen=True)
class RowWeights(Coded):
    """The weights of the parts of a row, and the range of centred rewards.

    Attributes:
        rewards: c, the weight of y phi.
        off_diagonal: w, the weight of phi_i phi_j for i < j; at most sqrt 2.
        centre: what is subtracted from rewards in [0, 1].
        with_squares: whether y^2 is released.
    """

    rewards: Annotated[float, Range(above=0.0)] = 2.0
    off_diagonal: Annotated[float, Range(above=0.0, high=SYMMETRIC)] = SYMMETRIC
    centre: Annotated[float, Range(0.0, 1.0)] = 0.5
    with_squares: bool = True

    @property
    def squares(self) -> float:
        """g, the weight of y^2."""
        return self.rewards / self.bound if self.with_squares else 0.0

    @property
    def bound(self) -> float:
        """b, the largest |y|."""
        return max(self.centre, 1.0 - self.centre)


def row_sensitivity(features: int, weights: RowWeights) -> float:
    """How far (l2) a row of `features` features moves when its person is replaced."""
    # A bound that is no whole multiple of 2^-18 may be rounded upwards.
    moved = weights.rewards * math.ceil(weights.bound * RESOLUTION) / RESOLUTION
    exact = (2.0 + moved**2) / math.sqrt(2.0) if moved <= SYMMETRIC else 2.0 * moved
    # Rounding moves each feature by at most half a unit, so norms grow to at most this.
    norm = 1.0 + math.sqrt(features) / (2.0 * RESOLUTION)
    return exact * norm**2


@lru_cache(maxsize=64)
def triangle(features: int) -> tuple[IntArray, IntArray]:
    """Row and column numbers of the upper triangle of an m x m matrix, by rows."""
    rows, columns = np.triu_indices(features)
    return rows, columns


def triangle_weights(features: int, off_diagonal: float) -> FloatArray:
    """(m (m + 1)/2,) 1 on the diagonal and w elsewhere."""
    rows, columns = triangle(features)
    weights: FloatArray = np.where(rows == columns, 1.0, off_diagonal)
    return weights


def symmetric(upper: FloatArray, features: int) -> FloatArray:
    """The (m, m) matrix whose upper triangle is given."""
    full = np.zeros((features, features))
    full[triangle(features)] = upper
    mirrored: FloatArray = full + np.triu(full, 1).T
    return mirrored


def rounded(values: FloatArray) -> FloatArray:
    """Whole multiples of 2^-18, as whole numbers in float64."""
    whole: FloatArray = np.rint(values * RESOLUTION)
    return whole


def exact_product(left: FloatArray, right: FloatArray) -> IntArray:
    """left' right for whole numbers below 2^18 in float64, exactly."""
    total = np.zeros((left.shape[1], right.shape[1]), dtype=np.int64)
    for start in range(0, len(left), _EXACT):
        people = slice(start, start + _EXACT)
        total += (left[people].T @ right[people]).astype(np.int64)
    return total


def exact_sums(phi: FloatArray, centred: FloatArray) -> tuple[IntArray, IntArray]:
    """`gram`, and `rewards` with `squares` behind them, of n people, in units of 2^-36."""
    whole = rounded(phi)
    gram = exact_product(whole, whole)[triangle(phi.shape[1])]
    reward = rounded(centred)[:, None]
    seen = exact_product(np.hstack([whole, reward]), reward)[:, 0]
    return gram, seen


def single_rows(phi: FloatArray, centred: FloatArray, weights: RowWeights) -> FloatArray:
    """(n, size) the row of each of n people."""
    whole, reward = rounded(phi) / RESOLUTION, rounded(centred) / RESOLUTION
    rows, columns = triangle(phi.shape[1])
    gram = whole[:, rows] * whole[:, columns]
    gram *= triangle_weights(phi.shape[1], weights.off_diagonal)
    squares = weights.squares * reward[:, None] ** 2
    joined: FloatArray = np.hstack([gram, weights.rewards * reward[:, None] * whole, squares])
    return joined


# How public points are offered; arrays are of one coordinate group (public_points.py).

# Draws of theta that a released Thompson policy averages over.
_DRAWS = 64
# How strongly points that look worse are avoided: offers go with Phi(3 q)^2.
_SHARPNESS = 3.0
# The share of people for whom offers go with Phi(q)^2: a run that was unlucky early would otherwise
# stay with the second-best point for good.
_DOUBT = 0.1


def matching(
    psi: FloatArray, posterior: GaussianPosterior, confidence: float, rng: np.random.Generator
) -> FloatArray:
    """(N,) offers by q = (m(x) - m(x*)) / sd(f(x) - f(x*)), x* the greedy point.

    Nine people in ten get points in proportion to Phi(3 q)^2, the tenth to Phi(q)^2: a point that
    is as good as the greedy one for all that is known gets its share, one that is surely worse
    nothing, and one that may be better is not forgotten. Upper confidence bounds run to the
    boundary of a box, where little is known, and Thompson sampling spends too long on points that
    are hardly ever best.
    """
    mean = psi @ posterior.mean
    away = psi - psi[int(mean.argmax())]
    gap = mean - mean.max()
    spread = np.sqrt(np.maximum(np.sum((away @ posterior.root) ** 2, axis=1), 1e-300))
    q = gap / spread
    q[int(mean.argmax())] = 0.0
    offers = np.zeros(len(psi))
    for sharpness, share in ((_SHARPNESS, 1.0 - _DOUBT), (1.0, _DOUBT)):
        weight = ndtr(sharpness * q) ** 2
        offers += share * weight / weight.sum()
    return offers


def upper_bound(
    psi: FloatArray, posterior: GaussianPosterior, confidence: float, rng: np.random.Generator
) -> FloatArray:
    """(N,) everything on the point with the largest mean plus `confidence` deviations."""
    spread = np.sqrt(np.sum((psi @ posterior.root) ** 2, axis=1))
    offers = np.zeros(len(psi))
    offers[int((psi @ posterior.mean + confidence * spread).argmax())] = 1.0
    return offers


def thompson(
    psi: FloatArray, posterior: GaussianPosterior, confidence: float, rng: np.random.Generator
) -> FloatArray:
    """(N,) how often each point is best under theta drawn from the posterior (public draws)."""
    normal = rng.standard_normal((_DRAWS, posterior.root.shape[1]))
    theta = posterior.mean + confidence * normal @ posterior.root.T
    best = (psi @ theta.T).argmax(axis=0)
    offers: FloatArray = np.bincount(best, minlength=len(psi)) / _DRAWS
    return offers


OFFERS: dict[Decision, Callable[..., FloatArray]] = {
    "ucb": upper_bound,
    "thompson": thompson,
    "matching": matching,
}


def _prefix_sum(name: str) -> str:
    """Refuse those that grow without a horizon by themselves, or that are read once only."""
    known = [known for known in MECHANISMS if known not in (Doubling.name, "independent")]
    if name not in known:
        raise InvalidInput(f"mechanism_name was {name!r}; it must be one of {known}.")
    return name


class KernelCalibration(Calibration):
    """What a kernel learner leaves open.

    Attributes:
        weights: what each part of a row counts.
        smoothness: of f, beyond that of the kernel's Gaussian process (posterior.py).
        confidence_multiplier: how many deviations are added to the mean on public points.
    """

    weights: RowWeights
    smoothness: float = 0.0
    confidence_multiplier: float = 1.0

    @abstractmethod
    def noise_multiplier(self, budget: Budget, features: int) -> float:
        """scale / sensitivity of the whole stream (joint) or of one report (local)."""

    @abstractmethod
    def mechanism(self, reward_noise: float, horizon: int | None, public: bool) -> PrefixMechanism:
        """When releases happen and how their noise is correlated.

        Args:
            reward_noise: standard deviation of the noise on u if all were released at once.
            horizon: how many people are expected.
            public: whether everyone can be given the same points.
        """

    @abstractmethod
    def next_update(self, people: int) -> int:
        """Where releases cost nothing (local reports), the people at the next update."""

    @abstractmethod
    def posterior(
        self, gram: FloatArray, rewards: FloatArray, sums: NoisySums, axes: GramAxes
    ) -> tuple[GaussianPosterior, float]:
        """What is believed of theta, and how many of its deviations to add to the mean."""

    @abstractmethod
    def decision(self, public: bool) -> Decision:
        """How an action is chosen from the posterior."""


@dataclass(frozen=True)
class _Shared(KernelCalibration):
    """Options that both have.

    Attributes:
        mechanism_name: `geometric_epochs`, or a prefix sum: `buffered_toeplitz`, `binary_tree`,
            `honaker`, `square_root_toeplitz`.
        growth: of people from one release to the next, for epochs.
        every: people between releases, for prefix sums.
        update_growth: of people from one update to the next where updates cost nothing.
        reward_weight: c, how much of the budget goes to rewards (see the module).
        choose: `ucb`, `thompson` or `matching`; None for the default of the action space.
    """

    mechanism_name: Annotated[str, CheckedBy(_prefix_sum)] = "geometric_epochs"
    growth: Annotated[float, Range(above=1.0)] = 1.1
    every: Annotated[int, Range(1)] = 1
    update_growth: Annotated[float, Range(above=1.0)] = 1.02
    reward_weight: Annotated[float, Range(above=0.0)] = 2.0
    choose: Decision | None = None

    @property
    def weights(self) -> RowWeights:  # type: ignore[override]
        """What each part of a row counts."""
        return RowWeights(rewards=self.reward_weight)

    def noise_multiplier(self, budget: Budget, features: int) -> float:
        return budget.noise_multiplier

    def mechanism(self, reward_noise: float, horizon: int | None, public: bool) -> PrefixMechanism:
        if self.mechanism_name == GeometricEpochs.name:
            # Before this many people the noise is larger than what they could tell together.
            first = max(1, math.ceil(2.0 * reward_noise / math.sqrt(MOST_REWARD_VARIANCE)))
            if horizon is not None:
                first = min(first, max(1, horizon // 8))
            return GeometricEpochs(self.growth, min(first, 2**40), horizon)
        kind: Any = MECHANISMS[self.mechanism_name]
        if horizon is None:
            return Doubling(kind=self.mechanism_name, first_rows=64, every=self.every)
        mechanism: PrefixMechanism = kind(rows=-(-horizon // self.every), every=self.every)
        return mechanism

    def next_update(self, people: int) -> int:
        return max(people + 1, math.ceil(self.update_growth * people))

    def decision(self, public: bool) -> Decision:
        return self.choose or ("matching" if public else "ucb")


@dataclass(frozen=True)
class PosteriorBonus(_Shared):
    """The Gaussian posterior of posterior.py.

    Attributes:
        confidence_multiplier: how many posterior deviations are added to the mean.
        prior_variance: of f(x) on the scale of rewards in [0, 1].
        smoothness: of f, beyond that of the kernel's Gaussian process (posterior.py).
    """

    name: ClassVar[str] = "posterior"

    confidence_multiplier: Annotated[float, Range(0.0)] = 0.25
    prior_variance: Annotated[float, Range(above=0.0)] = UNIFORM_VARIANCE
    smoothness: Annotated[float, Range(0.0)] = 0.0

    def posterior(
        self, gram: FloatArray, rewards: FloatArray, sums: NoisySums, axes: GramAxes
    ) -> tuple[GaussianPosterior, float]:
        believed = gram_posterior(gram, rewards, sums, axes, self.prior_variance)
        return believed, self.confidence_multiplier


@dataclass(frozen=True)
class ConfidenceWidth(_Shared):
    """The confidence ellipsoid of regularised regression on noisy sums.

    With V = (noisy Gram)_+ + lambda_t I, lambda_t = lambda + k sqrt(2 v m) sigma and noise of
    standard deviation sigma sqrt(v) on svec and sigma sqrt(v) / c on u, f lies within

        sqrt(rho^2 (log det(V / lambda_t) + 2 ln(1 / zeta))) + B sqrt(lambda_t)
          + (sigma / c) sqrt(v m / lambda_t)

    times ||phi(x)||_(V^-1) of its estimate with probability about 1 - zeta, if ||theta|| <= B
    (Shariff and Sheffet 2018, Proposition 4; Abbasi-Yadkori et al. 2011, Theorem 2).

    Attributes:
        confidence_multiplier: 1 carries the proof; 0.03 to 0.1 does best in simulation.
        norm_bound: B.
        regulariser: lambda.
        noise_regulariser: k.
        failure_probability: zeta.
    """

    name: ClassVar[str] = "confidence_width"

    mechanism_name: Annotated[str, CheckedBy(_prefix_sum)] = BufferedToeplitz.name
    confidence_multiplier: Annotated[float, Range(above=0.0)] = 1.0
    norm_bound: Annotated[float, Range(above=0.0)] = 1.0
    regulariser: Annotated[float, Range(above=0.0)] = 1.0
    noise_regulariser: Annotated[float, Range(above=0.0)] = 1.0
    failure_probability: Annotated[float, Range(above=0.0, below=1.0)] = 0.1

    def posterior(
        self, gram: FloatArray, rewards: FloatArray, sums: NoisySums, axes: GramAxes
    ) -> tuple[GaussianPosterior, float]:
        size = len(rewards)
        noise = math.sqrt(sums.gram_variance)
        strength = self.regulariser + self.noise_regulariser * math.sqrt(2.0 * size) * noise
        shifted = positive_part(gram) + strength * np.eye(size)
        factor = cho_factor(shifted, lower=True)
        log_volume = 2.0 * float(np.log(np.diag(factor[0])).sum()) - size * math.log(strength)
        width = (
            math.sqrt(
                MOST_REWARD_VARIANCE * (log_volume - 2.0 * math.log(self.failure_probability))
            )
            + self.norm_bound * math.sqrt(strength)
            + math.sqrt(sums.reward_variance * size / strength)
        )
        root = solve_triangular(factor[0], np.eye(size), lower=True).T
        return GaussianPosterior(
            cho_solve(factor, rewards), root
        ), self.confidence_multiplier * width
