"""The two ways of a kernel learner: each person's own decision set, or public points.

A mode knows what one person's row is, how far it moves when that person is replaced, what reports
add up to, and which policy follows from released sums.

|                | `OwnSets`                            | `PublicPoints`                       |
|----------------|--------------------------------------|--------------------------------------|
| row            | (phi_i phi_j, c y phi), see rows.py  | y s(x), see domain_grid.py           |
| of a person    | decision set, point, reward          | reward (points are public)           |
| design         | in the row, noisy                    | known exactly                        |
| local report   | the row with Gaussian noise          | y with Gaussian or Laplace noise     |
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.action_space import DecisionSets, PublicBox, PublicSet
from discreet.domain import RewardBounds
from discreet.kernels import FeatureMap
from discreet.learners.gp_ucb.axes import GramAxes
from discreet.learners.gp_ucb.belief import Belief, Design, Sums, design_belief
from discreet.learners.gp_ucb.calibration import Calibration, Seen
from discreet.learners.gp_ucb.decisions import matching, thompson, upper_bound
from discreet.learners.gp_ucb.domain_grid import PRIOR_LEVELS, DomainGrid, domain_grid
from discreet.learners.gp_ucb.local_noise import LocalNoise
from discreet.learners.gp_ucb.model import CENTRE, KernelModel
from discreet.learners.gp_ucb.policy import (
    GPPolicy,
    PublicPolicy,
    SetPolicy,
)
from discreet.learners.gp_ucb.reports import NoisyRows, Observations
from discreet.learners.gp_ucb.rows import (
    MOST_PEOPLE,
    UNIT,
    exact_product,
    exact_sums,
    in_unit_ball,
    rounded,
    row_sensitivity,
    symmetric,
    triangle_weights,
)
from discreet.learners.gp_ucb.statistics import KernelStatistics
from discreet.learners.messages import Reports
from discreet.validation import FloatArray, InvalidInput


@dataclass(frozen=True, eq=False)
class Totals:
    """Sums that are public, and the noise on them.

    Attributes:
        values: (size,) the row part.
        design: (k,) the public part, with the same weights.
        people: how many people they stand for.
        came: how many people came.
        horizon: how many are expected; None if unknown.
        variance: of the noise on each value, as a multiple of scale^2.
        scale: standard deviation of the noise on one release or report.
    """

    values: FloatArray
    design: FloatArray
    people: float
    came: int
    horizon: int | None
    variance: float
    scale: float


class Mode(ABC):
    """What `GPUCB` leaves to its action space.

    Attributes:
        size: numbers in a row.
        design_size: numbers in the public part of the statistics.
        sensitivity: how far (l2) a row moves when its person is replaced.
        sensitivity_source: how that was computed.
        record: what one person's record is.
        data: what of it enters.
    """

    size: int
    design_size: int
    sensitivity: float
    sensitivity_source: str
    record: str
    data: str

    def __init__(
        self,
        features: FeatureMap,
        space: DecisionSets | PublicSet | PublicBox,
        reward_bounds: RewardBounds,
        calibration: Calibration,
        local: LocalNoise | None,
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
        self.local = local

    @property
    def exact(self) -> bool:
        """Whether reports come as they are, and statistics are whole numbers."""
        return self.local is None

    def empty(self) -> KernelStatistics:
        """The sums of nobody."""
        return KernelStatistics.zeros(self.size, self.design_size, self.exact)

    def check(self, statistics: KernelStatistics) -> None:
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

    def _rewards(self, reports: Observations) -> FloatArray:
        rewards = reports.rewards
        if len(rewards) == 0 or not ((rewards >= 0.0) & (rewards <= 1.0)).all():
            raise InvalidInput(
                "reports had no rewards, or some outside [0, 1]; send them as report() made them."
            )
        return rewards

    def model(self, mean: FloatArray, root: FloatArray) -> KernelModel:
        """The public posterior."""
        return KernelModel(self.features, self.norm, mean, root, self.reward_bounds)

    def shared(self, header: dict[str, Any], model: KernelModel) -> dict[str, Any]:
        """Keyword arguments of every policy."""
        return {**header, "offered": self.space, "model": model, "local": self.local}

    @abstractmethod
    def sums(self, policy: GPPolicy, reports: Reports) -> KernelStatistics:
        """What reports made under `policy` add."""

    @abstractmethod
    def row(self, counted: NDArray[Any]) -> FloatArray:
        """(size,) the row of a sum, in the units in which `sensitivity` is measured."""

    @abstractmethod
    def policy(self, header: dict[str, Any], totals: Totals | None) -> GPPolicy:
        """The policy that follows from public sums; None before any release."""


class OwnSets(Mode):
    """Every person has a decision set of their own, which is as private as the reward."""

    record = "decision set and reward"
    data = "the point chosen from the decision set, and the reward"
    space: DecisionSets

    def __init__(self, *arguments: Any, points: FloatArray | None = None) -> None:
        super().__init__(*arguments)
        count = self.features.features
        self.weights = self.calibration.weights
        self._triangle = count * (count + 1) // 2
        self.size = self._triangle + count + 1
        self.design_size = 0
        self.sensitivity = row_sensitivity(count, self.weights)
        self.sensitivity_source = (
            "closed form over all pairs of features of norm 1 and rewards at their bounds"
        )
        self._part = np.concatenate(
            [
                triangle_weights(count, self.weights.off_diagonal),
                np.full(count, self.weights.rewards),
                [self.weights.squares],
            ]
        )
        self._points = points
        self._axes: GramAxes | None = None

    @property
    def axes(self) -> GramAxes:
        """Public knowledge about Gram matrices; worked out when it is needed."""
        if self._axes is None:
            points = None if self._points is None else self._points.tobytes()
            self._axes = _axes(self.features, self.norm, self.calibration.smoothness, points)
        return self._axes

    def sums(self, policy: GPPolicy, reports: Reports) -> KernelStatistics:
        if isinstance(reports, NoisyRows):
            if reports.rows.shape[1:] != (self.size,) or len(reports) == 0:
                raise InvalidInput(
                    f"reports had rows of shape {reports.rows.shape}; each must have {self.size} "
                    "numbers."
                )
            values: NDArray[Any] = reports.rows.sum(axis=0)
        elif isinstance(reports, Observations):
            rewards = self._rewards(reports)
            if reports.points.shape != (len(rewards), self.features.domain.dimension):
                raise InvalidInput(
                    f"reports had points of shape {reports.points.shape} for {len(rewards)} people."
                )
            phi = in_unit_ball(self.features.transform(reports.points) / self.norm)
            gram, seen = exact_sums(phi, rewards - self.weights.centre)
            values = np.concatenate([gram, seen])
        return KernelStatistics(
            reports=len(reports), row=values, design=np.zeros(0), exact=self.exact
        )

    def check(self, statistics: KernelStatistics) -> None:
        super().check(statistics)
        if statistics.exact:
            count = self.features.features
            diagonal = np.cumsum([0, *range(count, 1, -1)])
            if (statistics.row[diagonal] < 0).any():
                raise InvalidInput(
                    "statistics had a negative sum of squares; send them as statistics() made them."
                )

    def row(self, counted: NDArray[Any]) -> FloatArray:
        if not self.exact:
            return np.asarray(counted, dtype=np.float64)
        row: FloatArray = counted * UNIT * self._part
        return row

    def policy(self, header: dict[str, Any], totals: Totals | None) -> GPPolicy:
        belief, confidence = self._believe(totals)
        mean = np.concatenate([[self.weights.centre - CENTRE], belief.mean])
        root = np.vstack([np.zeros(belief.root.shape[1]), belief.root])
        return SetPolicy(
            **self.shared(header, self.model(mean, root)),
            confidence=confidence,
            thompson=self.calibration.decision(False) == "thompson",
            weights=self.weights,
        )

    def _believe(self, totals: Totals | None) -> tuple[Belief, float]:
        if totals is None:
            nothing = np.zeros(self.size)
            totals = Totals(nothing, np.zeros(0), 0.0, 0, None, 0.0, 0.0)
        count = self.features.features
        parts = totals.values[:-1] / self._part[:-1]
        gram = symmetric(parts[: self._triangle], count)
        noise = totals.variance * totals.scale**2
        known = self.weights.with_squares and totals.came > 0
        sums = Sums(
            totals.people,
            noise,
            noise / self.weights.rewards**2,
            float(totals.values[-1]) / self.weights.squares if known else None,
            noise / self.weights.squares**2 if known else 0.0,
        )
        seen = Seen(sums, totals.came, totals.horizon, totals.scale, totals.variance)
        return self.calibration.believe(gram, parts[self._triangle :], seen, self.axes)


class PublicPoints(Mode):
    """Everyone can be given the same points: only rewards are private."""

    record = "reward"
    data = "the reward; points are chosen from earlier releases and public tickets"
    space: PublicSet | PublicBox

    def __init__(self, *arguments: Any, noiseless: bool = False) -> None:
        super().__init__(*arguments)
        self.noiseless = noiseless
        self.grid: DomainGrid = domain_grid(self.features, self.norm, self.space)
        self.size = self.grid.size + 1
        self.design_size = 3 * self.grid.size**2
        # Two rewards y, y' of one person at x move the row by |y - y'| sqrt(|s|^2 + g^2 (y + y')^2)
        # with |y|, |y'| <= 1/2: at g = 2 |s| no more than the |s| that y - y' = 1 gives.
        self.sensitivity = self.grid.sensitivity
        self._squares = 2.0 * self.grid.sensitivity
        self.sensitivity_source = "norm of s(x), which is 1 for every public point"

    def sums(self, policy: GPPolicy, reports: Reports) -> KernelStatistics:
        assert isinstance(policy, PublicPolicy)
        tickets = reports.tickets  # type: ignore[attr-defined]
        if tickets.shape != (len(reports),) or len(reports) == 0:
            raise InvalidInput(
                f"reports had tickets of shape {tickets.shape} for {len(reports)} people; send one "
                "for each."
            )
        places = policy.places(tickets)
        psi = self.grid.psi(places)
        # Without noise to come, the regressors themselves lose nothing.
        sent = rounded(psi) if self.noiseless else self.grid.sent(places, policy.offers)
        if isinstance(reports, Observations):
            rewards = rounded(self._rewards(reports) - CENTRE)
            joined = np.column_stack([sent, rewards])
            values: NDArray[Any] = exact_product(joined, rewards[:, None])[:, 0]
        elif isinstance(reports, NoisyRows):
            if reports.rows.shape != (len(reports), 1):
                raise InvalidInput(
                    f"reports had rows of shape {reports.rows.shape}; each must have 1 number."
                )
            noisy = reports.rows[:, 0]
            squares = self._squares * (noisy @ noisy)
            values = np.append(np.sqrt(UNIT) * (sent.T @ noisy), squares)
        weight = sent * np.sqrt(UNIT)
        design = np.stack([weight.T @ psi, weight.T @ weight, psi.T @ psi]).ravel()
        return KernelStatistics(reports=len(reports), row=values, design=design, exact=self.exact)

    def check(self, statistics: KernelStatistics) -> None:
        super().check(statistics)
        if statistics.row[-1] < 0:
            raise InvalidInput(
                "statistics had a negative sum of squares; send them as statistics() made them."
            )

    def row(self, counted: NDArray[Any]) -> FloatArray:
        row: FloatArray = counted * (UNIT if self.exact else 1.0)
        if self.exact:
            row[-1] *= self._squares
        return row

    def policy(self, header: dict[str, Any], totals: Totals | None) -> GPPolicy:
        groups = self.grid.groups
        if totals is None or totals.came == 0:
            prior = np.diag(np.sqrt(self.grid.prior_shape))
            belief = Belief(np.zeros(self.grid.size), prior)
            offers: Sequence[FloatArray] = [
                np.full(len(group.grid), 1.0 / len(group.grid)) for group in groups
            ]
        else:
            belief = self._believe(totals)
            offers = self._offers(belief, header["version"], header["public_seed"])
        known = self.grid.in_features(belief)
        return PublicPolicy(
            **self.shared(header, self.model(known.mean, known.root)),
            columns=tuple(group.columns for group in groups),
            grids=tuple(group.grid for group in groups),
            offers=tuple(offers),
        )

    def _believe(self, totals: Totals) -> Belief:
        size = self.grid.size
        design = Design(*totals.design.reshape(3, size, size))
        # Noise on each person's own reward spreads over u as the reward's own variance does.
        extra = 0.0 if self.local is None else self.local.variance
        noise = totals.variance * totals.scale**2
        doubt = noise / self._squares**2 + 2.0 * extra**2 * totals.people
        squares = float(totals.values[-1]) / self._squares - extra * totals.people
        sums = Sums(totals.people, 0.0, noise, squares, doubt)
        shape = self.grid.prior_shape
        return design_belief(design, totals.values[:-1], sums, shape, PRIOR_LEVELS, extra)

    def _offers(self, belief: Belief, version: int, seed: int) -> Sequence[FloatArray]:
        decision = self.calibration.decision(True)
        rng = np.random.default_rng([seed, version])
        confidence = getattr(self.calibration, "confidence_multiplier", 1.0)
        offers = []
        for number, group in enumerate(self.grid.groups):
            one = self.grid.of_group(belief, number)
            if decision == "matching":
                offers.append(matching(group.psi, one))
            elif decision == "ucb":
                offers.append(upper_bound(group.psi, one, confidence))
            else:
                offers.append(thompson(group.psi, one, confidence, rng))
        return offers


@lru_cache(maxsize=16)
def _axes(features: FeatureMap, norm: float, smoothness: float, points: bytes | None) -> GramAxes:
    """Axes are public and take a moment to work out: replicates share them."""
    where = None
    if points is not None:
        where = np.frombuffer(points).reshape(-1, features.domain.dimension)
    return GramAxes.of(features, norm, smoothness, where)
