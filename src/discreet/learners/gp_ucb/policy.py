"""Messages of the two GP-UCB learners, exact sums, and the released model.

**Prediction.** f(x) = 1/2 + (1, phi(x))' theta on the scale [0, 1] of the reward bounds (Dubey
2021, Remark 1: released parameters can be published).

| array   | shape     | meaning                                                                    |
|---------|-----------|----------------------------------------------------------------------------|
| points  | (n, d)    | the points given; (n, 0) where the public coins determine them             |
| coins   | (n,)      | the public coins; (0,) where points are given                              |
| rows    | (n, size) | each person's row with noise on it                                         |
| row     | (size,)   | the sum to be released (secret under joint privacy): Gram triangle and     |
|         |           | y phi, or y s(x); whole multiples of 2^-36, which add exactly and in any   |
|         |           | order, or noisy numbers                                                    |
| design  | (k,)      | where points are public: sum s psi' and sum s s', flattened; else ()       |
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from discreet.codec import Range, Serializable, Shape
from discreet.kernels import FeatureMap
from discreet.learners.gp_ucb.posterior import CENTRE
from discreet.learners.messages import PUBLIC_COINS, Reports, Statistics
from discreet.learners.policy import PointPolicy
from discreet.people.domain import RewardBounds
from discreet.privacy import Release
from discreet.privacy.calibration import AdditiveNoise
from discreet.validation import CoinArray, FloatArray, IntArray, InvalidInput

# Features and rewards are rounded to multiples of 2^-18, and their products are multiples of 2^-36:
# sums of them are exact in 64-bit integers, so statistics add without rounding, in any order, and
# sensitivity does not rest on exact real arithmetic.
_BITS = 18
RESOLUTION = 2.0**_BITS
# Of the integer sums.
UNIT = 2.0 ** (-2 * _BITS)
# This many products of two numbers below 2^18 add up exactly in float64.
_EXACT = 2 ** (53 - 2 * _BITS)
# Integer sums of this many people fit into 64 bits, with room for a second copy.
MOST_PEOPLE = 2 ** (61 - 2 * _BITS)
# The largest weight of products off the diagonal.
SYMMETRIC = math.sqrt(2.0)


def rounded(values: FloatArray) -> FloatArray:
    """Whole multiples of 2^-18, as whole numbers in float64."""
    return np.rint(values * RESOLUTION)


def exact_product(left: FloatArray, right: FloatArray) -> IntArray:
    """left' right for whole numbers below 2^18 in float64, exactly."""
    total = np.zeros((left.shape[1], right.shape[1]), dtype=np.int64)
    for start in range(0, len(left), _EXACT):
        people = slice(start, start + _EXACT)
        total += (left[people].T @ right[people]).astype(np.int64)
    return total


def normal_excess(z: FloatArray) -> FloatArray:
    """E max(Z - z, 0) of a standard normal Z."""
    excess: FloatArray = np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi) - z * ndtr(-z)
    return excess


@dataclass(frozen=True, eq=False)
class PointObservations(Reports):
    """Plain observations of n people, for a trusted learner."""

    kind: ClassVar[str] = "point-observations"

    points: Annotated[FloatArray, Shape("n", "d")]
    public_coins: Annotated[CoinArray, Shape("t"), Range(0, PUBLIC_COINS - 1)]
    rewards: Annotated[FloatArray, Shape("n"), Range(0.0, 1.0)]

    def __len__(self) -> int:
        return len(self.rewards)


@dataclass(frozen=True, eq=False)
class NoisyRows(Reports):
    """Private reports of n people: rows, or (n, 1) noisy centred rewards with their
    public_coins."""

    kind: ClassVar[str] = "noisy-rows"

    rows: Annotated[FloatArray, Shape("n", "size")]
    public_coins: Annotated[CoinArray, Shape("t"), Range(0, PUBLIC_COINS - 1)]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False, kw_only=True)
class GramStatistics(Statistics):
    """Sums over people (see the module's table); those of plain rows are whole numbers."""

    kind: ClassVar[str] = "gram-statistics"
    handles_over_limit: ClassVar[bool] = True

    row: Annotated[IntArray | FloatArray, Shape("size")]
    design: Annotated[FloatArray, Shape("k")]

    @property
    def exact(self) -> bool:
        """Whether `row` holds whole numbers."""
        return self.row.dtype.kind == "i"


@dataclass(frozen=True)
class RowWeights(Serializable):
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


@dataclass(frozen=True, eq=False)
class ReleasedSums:
    """Sums that are public, and the noise on them.

    Attributes:
        values: (size,) the row part.
        design: (k,) the public part, with the same weights.
        people: how many people they stand for.
        came: how many people came.
        variance: of the noise on each value, as a multiple of scale^2.
        scale: standard deviation of the noise on one release or report.
    """

    values: FloatArray
    design: FloatArray
    people: float
    came: int
    variance: float
    scale: float


@dataclass(frozen=True, eq=False)
class KernelModel(Serializable):
    """The released posterior of a reward function; public.

    Attributes:
        features: the feature map, on the public domain.
        norm: what its features are divided by, so that their norm is at most 1.
        mean: (m + 1,) posterior mean of theta; the first entry belongs to a constant.
        root: (m + 1, r) a square root of its covariance.
        reward_bounds: the units of rewards.
    """

    kind: ClassVar[str] = "kernel-model"
    facts: ClassVar[tuple[str, ...]] = ()

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


@dataclass(frozen=True)
class RemainingHorizon:
    """The people who are still to come, as far as they are known.

    Attributes:
        people: number of people in the next epoch.
        remaining: number of all people to come; without a horizon the number so far.
        noise: variance of the noise on each number of the next release.
        separate: whether that release holds the next epoch alone.
    """

    people: int
    remaining: int
    noise: float
    separate: bool


@dataclass(frozen=True, eq=False)
class GPPolicy(PointPolicy):
    """What both kinds of kernel policies share.

    Attributes:
        model: what is believed; public, predicts anywhere.
        local: the noise on each report; None where people trust the learner.
        data: what of a person's data a report holds.
        sensitivity_source: how the sensitivity of a report was computed.
    """

    data: ClassVar[str]
    sensitivity_source: ClassVar[str]

    model: KernelModel
    local: AdditiveNoise | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model.features.domain != self.domain:
            # The norm of features is certified on their own domain only.
            raise InvalidInput("the features of a policy are for another domain than its own.")

    @property
    def reports_are_private(self) -> bool:
        return self.local is not None

    def predict(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:  # noqa: N803
        """Mean reward and its standard deviation at points of the domain, as `KernelModel` has."""
        return self.model.predict(X)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The coefficients that public points have, and how many points each group has."""
        return ()

    @property
    @abstractmethod
    def report_size(self) -> int:
        """Numbers in a private report."""

    def release(self, noise: str) -> Release | None:
        if self.local is None:
            return self.unprotected_release(self.data)
        return Release(
            mechanism=f"{self.local.law} on each of {self.report_size} numbers of a report",
            event=self.local.event(noise, self.report_size),
            sensitivity=self.local.sensitivity,
            sensitivity_source=self.sensitivity_source,
            scale=self.local.scale,
            people=self.group,
            data=self.data,
            noise=noise,
        )
