"""What both action spaces of a kernel learner share: reports, sums, policies, and the mode.

A mode knows what one person's row is, how far it moves when that person is replaced, what reports
add up to, and which policy follows from released sums.

|                | `OwnSets` (decision_sets.py)         | `PublicPoints` (public_points.py)    |
|----------------|--------------------------------------|--------------------------------------|
| row            | (phi_i phi_j, c y phi)               | y s(x)                               |
| of a person    | decision set, point, reward          | reward (points are public)           |
| design         | in the row, noisy                    | known exactly                        |
| local report   | the row with Gaussian noise          | y with Gaussian or Laplace noise     |

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

from discreet.action_space import DecisionSets, PublicBox, PublicSet
from discreet.codec import Range, Shape
from discreet.domain import RewardBounds
from discreet.kernels import FeatureMap
from discreet.learners.gp_ucb.calibration import MOST_PEOPLE, UNIT, KernelCalibration
from discreet.learners.gp_ucb.posterior import KernelModel
from discreet.learners.messages import TICKETS, Reports, Statistics
from discreet.learners.points import PointPolicy
from discreet.privacy import Release
from discreet.privacy.calibration import AdditiveNoise
from discreet.validation import FloatArray, IntArray, InvalidInput, TicketArray


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
    """Sums over people (see the module's table).

    Attributes:
        exact: whether `row` holds whole numbers.
    """

    kind: ClassVar[str] = "gram-statistics"

    row: Annotated[IntArray | FloatArray, Shape("size")]
    design: Annotated[FloatArray, Shape("k")]
    exact: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exact != (self.row.dtype.kind == "i"):
            raise InvalidInput(
                f"statistics held {self.row.dtype} numbers and exact = {self.exact}; sums of plain "
                "rows are whole numbers. Send them as statistics() made them."
            )


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
    @abstractmethod
    def report_size(self) -> int:
        """Numbers in a private report."""

    def release(self, noise: str) -> Release | None:
        if self.local is None:
            return self.as_it_is(self.data)
        kind = "Laplace" if self.local.laplace else "Gaussian"
        return Release(
            mechanism=f"{kind} noise on each of {self.report_size} numbers of a report",
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
        local: the noise on each report; None where people trust the learner.
        noisy_sums: whether sums of reports carry the noise of each person's row.
    """

    size: int
    design_size: int
    sensitivity: float
    sensitivity_source: str
    record: str
    data: str
    public: bool
    reward_weight: float
    local: AdditiveNoise | None = None
    noisy_sums: bool = False

    def __init__(
        self,
        features: FeatureMap,
        space: DecisionSets | PublicSet | PublicBox,
        reward_bounds: RewardBounds,
        calibration: KernelCalibration,
    ) -> None:
        if features.norm_bound is None or not 0.0 < features.norm_bound < math.inf:
            raise InvalidInput(
                f"features was a {type(features).__name__} with norm_bound {features.norm_bound}; "
                "noise is sized by the largest norm of the features, so give a map that certifies "
                "one (discreet.kernels.feature_map makes such maps)."
            )
        self.features = features
        # A part in 10^12 covers the rounding of the features' arithmetic.
        self.norm = features.norm_bound * (1.0 + 1e-12)
        self.space = space
        self.reward_bounds = reward_bounds
        self.calibration = calibration

    @property
    def exact(self) -> bool:
        """Whether reports come as they are, and statistics are whole numbers."""
        return self.local is None

    def empty(self) -> GramStatistics:
        """The sums of nobody."""
        row: Any = np.zeros(self.size, dtype=np.int64 if self.exact else np.float64)
        return GramStatistics(
            reports=0, row=row, design=np.zeros(self.design_size), exact=self.exact
        )

    def check(self, statistics: GramStatistics) -> None:
        """Refuse sums that no reports add up to."""
        wanted = (self.size,), (self.design_size,), self.exact
        given = statistics.row.shape, statistics.design.shape, statistics.exact
        if given != wanted:
            raise InvalidInput(
                f"statistics had shapes {given[:2]} (exact: {given[2]}); this learner adds "
                f"{wanted[:2]} (exact: {wanted[2]})."
            )
        most = statistics.reports * (1.0 + 1e-4) / UNIT
        # Not np.abs, which leaves the least 64-bit integer negative.
        largest = max(int(statistics.row.max()), -int(statistics.row.min()))
        if statistics.exact and largest > most:
            raise InvalidInput(
                f"statistics of {statistics.reports} reports had an entry of {largest}; no reports "
                f"add up to more than {most:.0f}. Send them as statistics() made them."
            )

    def check_people(self, people: int) -> None:
        """Refuse more people than whole numbers can add up exactly."""
        if self.exact and people > MOST_PEOPLE:
            raise InvalidInput(
                f"{people} people would not add up exactly; the largest number is {MOST_PEOPLE}."
            )

    def shared(self, header: dict[str, Any], mean: FloatArray, root: FloatArray) -> dict[str, Any]:
        """Keyword arguments of every policy, with the public posterior."""
        model = KernelModel(self.features, self.norm, mean, root, self.reward_bounds)
        return {**header, "offered": self.space, "model": model, "local": self.local}

    @abstractmethod
    def sums(self, policy: GPPolicy, reports: Reports) -> GramStatistics:
        """What reports made under `policy` add."""

    @abstractmethod
    def row(self, counted: NDArray[Any]) -> FloatArray:
        """(size,) the row of a sum, in the units in which `sensitivity` is measured."""

    @abstractmethod
    def policy(self, header: dict[str, Any], totals: ReleasedSums | None) -> GPPolicy:
        """The policy that follows from public sums; None before any release."""
