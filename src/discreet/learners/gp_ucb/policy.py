"""What people and a kernel learner exchange, and what the two kinds of action space must say.

A mode knows what one person's row is, how far it moves when that person is replaced, what reports
add up to, and which policy follows from released sums.

|                | `OwnSets` (decision_sets.py)         | `PublicPoints` (public_points.py)    |
|----------------|--------------------------------------|--------------------------------------|
| row            | (phi_i phi_j, c y phi)               | y s(x)                               |
| of a person    | decision set, point, reward          | reward (points are public)           |
| design         | in the row, noisy                    | known exactly                        |
| local report   | the row with Gaussian noise          | y with noise (privacy/vectors.py)    |

**Prediction.** f(x) = 1/2 + (1, phi(x))' theta on the scale [0, 1] of the reward bounds (Dubey
2021, Remark 1: the parameters are private already, so they can be given away).

| array   | shape     | meaning                                                                    |
|---------|-----------|----------------------------------------------------------------------------|
| points  | (n, d)    | the points given; (n, 0) where the tickets determine them                  |
| tickets | (n,)      | the tickets; (0,) where points are given                                   |
| rows    | (n, size) | each person's row with noise on it                                         |
| row     | (size,)   | the sum to be released (secret under joint privacy): Gram triangle and     |
|         |           | y phi, or y s(x); whole multiples of 2^-36, which add exactly and in any   |
|         |           | order, or noisy numbers                                                    |
| design  | (k,)      | where points are public: sum s psi' and sum s s', flattened; else ()       |
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.codec import Range, Shape
from discreet.kernels import FeatureMap
from discreet.learners.gp_ucb.calibration import KernelCalibration
from discreet.learners.gp_ucb.posterior import CENTRE, Evidence
from discreet.learners.messages import TICKETS, Message, Reports, Statistics
from discreet.learners.points import PointPolicy
from discreet.people.domain import DecisionSets, PublicBox, PublicSet, RewardBounds
from discreet.privacy import Release
from discreet.privacy.calibration import AdditiveNoise
from discreet.validation import FloatArray, IntArray, InvalidInput, TicketArray, a_kind

# Features and rewards are rounded to multiples of 2^-18, and their products are multiples of 2^-36:
# sums of them are exact in 64-bit integers, so statistics add without rounding, in any order, and
# sensitivity does not rest on exact real arithmetic.
_BITS = 18
RESOLUTION = 2.0**_BITS
# Of the integer sums.
UNIT = 2.0 ** (-2 * _BITS)
# So many products of two numbers below 2^18 add up exactly in float64.
_EXACT = 2 ** (53 - 2 * _BITS)
# Integer sums of this many people fit into 64 bits, with room for a second copy.
MOST_PEOPLE = 2 ** (61 - 2 * _BITS)


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


@dataclass(frozen=True, eq=False)
class PointObservations(Reports):
    """What happened to n people, as it was: for a learner that they trust."""

    kind: ClassVar[str] = "point-observations"

    points: Annotated[FloatArray, Shape("n", "d")]
    tickets: Annotated[TicketArray, Shape("t"), Range(0, TICKETS - 1)]
    rewards: Annotated[FloatArray, Shape("n"), Range(0.0, 1.0)]

    def __len__(self) -> int:
        return len(self.rewards)


@dataclass(frozen=True, eq=False)
class NoisyRows(Reports):
    """Private reports of n people: rows, or (n, 1) noisy centred rewards with their tickets."""

    kind: ClassVar[str] = "noisy-rows"

    rows: Annotated[FloatArray, Shape("n", "size")]
    tickets: Annotated[TicketArray, Shape("t"), Range(0, TICKETS - 1)]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False, kw_only=True)
class GramStatistics(Statistics):
    """Sums over people (see the module's table); those of plain rows are whole numbers."""

    kind: ClassVar[str] = "gram-statistics"
    silences: ClassVar[bool] = True

    row: Annotated[IntArray | FloatArray, Shape("size")]
    design: Annotated[FloatArray, Shape("k")]

    @property
    def exact(self) -> bool:
        """Whether `row` holds whole numbers."""
        return self.row.dtype.kind == "i"


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
class KernelModel(Message):
    """The released posterior of a reward function; public.

    Attributes:
        features: the feature map, on the public domain.
        norm: what its features are divided by, so that their norm is at most 1.
        mean: (m + 1,) posterior mean of theta; the first entry belongs to a constant.
        root: (m + 1, r) a square root of its covariance.
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


@dataclass(frozen=True)
class Ahead:
    """What is known of the people who are still to come.

    Attributes:
        people: of the next epoch.
        remaining: all of them; without a horizon as many as came.
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
            return self.as_it_is(self.data)
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


class Mode(ABC):
    """What `GPUCB` leaves to its action space.

    Attributes:
        size: numbers in a row.
        design_size: numbers in the public part of the statistics.
        sensitivity: how far (l2) a row moves when its person is replaced.
        sensitivity_source: how that was computed.
        record: what one person's record is.
        data: what of it enters.
        public: whether everyone can be given the same points.
        reward_weight: of y in a row.
        squares: places in a row of whole numbers of sums that are never negative.
        local: the noise on each report; None where people trust the learner.
        noisy_sums: whether sums of reports carry the noise of each person's row.
        places: about how many public points have rewards of their own; None with decision sets.
        coefficients: p, that releases of public points say something of.
        sizes: of its policies.
    """

    size: int
    design_size: int
    sensitivity: float
    sensitivity_source: str
    record: str
    data: str
    public: bool
    reward_weight: float
    squares: IntArray
    local: AdditiveNoise | None = None
    noisy_sums: bool = False
    places: float | None = None
    coefficients: int = 0
    sizes: tuple[int, ...] = ()

    def __init__(
        self,
        features: FeatureMap,
        space: DecisionSets | PublicSet | PublicBox,
        calibration: KernelCalibration,
    ) -> None:
        if features.norm_bound is None or not 0.0 < features.norm_bound < math.inf:
            raise InvalidInput(
                f"features was {a_kind(features)} with norm_bound {features.norm_bound}; "
                "noise is sized by the largest norm of the features, so give a map that certifies "
                "one (discreet.kernels.feature_map makes such maps)."
            )
        self.features = features
        # A part in 10^12 covers the rounding of the features' arithmetic.
        self.norm = features.norm_bound * (1.0 + 1e-12)
        self.space = space
        self.calibration = calibration

    @abstractmethod
    def sums(self, policy: GPPolicy, reports: Reports) -> tuple[NDArray[Any], FloatArray]:
        """`row` and `design` of reports made under `policy`."""

    @abstractmethod
    def row(self, counted: NDArray[Any]) -> FloatArray:
        """(size,) the row of a sum, in the units in which `sensitivity` is measured."""

    def evidence(self, before: Evidence, totals: ReleasedSums) -> Evidence:
        """What releases of public points say, with one more."""
        return before

    @property
    def widest(self) -> FloatArray:
        """(p, r) a root of the widest prior of public points, beside that of a constant."""
        return np.zeros((self.coefficients, 0))

    @abstractmethod
    def policy(
        self, header: dict[str, Any], totals: ReleasedSums | Evidence | None, ahead: Ahead
    ) -> GPPolicy:
        """The policy that follows from public sums (decision sets) or from what they say (public
        points); None before any release."""

    def header(self, header: dict[str, Any], mean: FloatArray, root: FloatArray) -> dict[str, Any]:
        """Keyword arguments of every policy, with the public posterior."""
        model = KernelModel(self.features, self.norm, mean, root, header["reward_bounds"])
        return {**header, "offered": self.space, "model": model, "local": self.local}
