"""Every person brings a decision set of their own (Dubey 2021): rows, sums and policies.

The set is as private as the reward. Given is the point of the person's own set with the largest
posterior mean plus a multiple of its deviation (Algorithm 1, line 8), or under Thompson sampling
the best point of one theta that the ticket draws.

| array  | shape     | meaning                                                            |
|--------|-----------|--------------------------------------------------------------------|
| points | (n, c, d) | the decision sets, in the units of the domain                      |
| phi    | (n, c, m) | their features divided by the norm                                 |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from discreet.action_space import Candidates, DecisionSets
from discreet.domain import RewardBounds
from discreet.kernels import FeatureMap
from discreet.learners.gp_ucb.calibration import (
    UNIT,
    KernelCalibration,
    RowWeights,
    exact_sums,
    row_sensitivity,
    row_size,
    single_rows,
    symmetric,
    triangle_weights,
)
from discreet.learners.gp_ucb.mode import (
    GPPolicy,
    GramStatistics,
    Mode,
    NoisyRows,
    PointObservations,
    ReleasedSums,
)
from discreet.learners.gp_ucb.posterior import (
    CENTRE,
    GaussianPosterior,
    GramAxes,
    NoisySums,
    gram_axes,
)
from discreet.learners.messages import Actions, Reports
from discreet.learners.points import Visitors
from discreet.learners.public_randomness import public_uniforms
from discreet.privacy import Budget, NoiseSource
from discreet.privacy.calibration import AdditiveNoise, in_unit_ball
from discreet.privacy.noise import NO_NOISE
from discreet.validation import FloatArray, IntArray, InvalidInput, TicketArray

# Candidates whose features are computed together: about 100 MB at 200 features.
_AT_ONCE = 2**16


@dataclass(frozen=True, eq=False)
class SetPolicy(GPPolicy):
    """Chooses from each person's own decision set.

    Attributes:
        confidence: how many posterior deviations are added to the mean, or by how many theta is
            spread under Thompson sampling.
        thompson: whether theta is drawn from the posterior by each ticket. Propensities are NaN
            then, because they have no closed form.
        weights: of a private report's parts.
    """

    kind: ClassVar[str] = "gp-set-policy"
    data = "the point chosen from the decision set, and the reward"
    sensitivity_source = (
        "closed form over all pairs of features of norm 1 and rewards at their bounds"
    )

    confidence: float
    thompson: bool
    weights: RowWeights

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.offered, DecisionSets):
            raise InvalidInput(f"offered was {self.offered!r:.80}; it must be decision sets.")
        if self.local is not None:
            if self.local.laplace:
                raise InvalidInput("reports from decision sets carry Gaussian noise, not Laplace.")
            self.local.check(row_sensitivity(self.model.features.features, self.weights))

    @property
    def report_size(self) -> int:
        return row_size(self.model.features.features)

    def scores(self, phi: FloatArray, tickets: TicketArray) -> FloatArray:
        """(n, c) what is maximised, from features (n, c, m) divided by their norm."""
        n, c, m = phi.shape
        model = self.model
        flat = phi.reshape(n * c, m)
        if not self.thompson:
            spread = np.sqrt(np.sum((model.root[0] + flat @ model.root[1:]) ** 2, axis=1))
            score = model.mean[0] + flat @ model.mean[1:] + self.confidence * spread
            best: FloatArray = score.reshape(n, c)
            return best
        draws = public_uniforms(
            self.public_seed, self.version, tickets[:, None], np.arange(model.root.shape[1])
        )
        normal = ndtri(np.clip(draws, 2.0**-54, 1.0 - 2.0**-53))
        theta = model.mean + self.confidence * normal @ model.root.T
        perturbed: FloatArray = theta[:, :1] + np.einsum("ncm,nm->nc", phi, theta[:, 1:])
        return perturbed

    def _features(self, points: FloatArray) -> FloatArray:
        """(n, m) features. Points that a finite map lacks are refused, but not under local privacy,
        where that would tell whoever made the map something: there their features are 0."""
        features = self.model.features
        if self.local is None:
            features.check(points)
        # Numbers that were sent may overflow for some people; warnings would tell for whom.
        with np.errstate(all="ignore"):
            return features.compute(points) / self.model.norm

    def _choose(self, people: Candidates, tickets: TicketArray) -> tuple[IntArray, FloatArray]:
        arms = np.empty(len(people), dtype=np.int64)
        width = people.points.shape[1]
        most = max(1, _AT_ONCE // width)
        for start in range(0, len(people), most):
            some = slice(start, start + most)
            points = people.points[some]
            phi = self._features(points.reshape(-1, points.shape[2]))
            with np.errstate(all="ignore"):
                scores = self.scores(phi.reshape(len(points), width, -1), tickets[some])
            arms[some] = np.where(people.present[some], scores, -np.inf).argmax(axis=1)
        odds = np.full(len(people), np.nan if self.thompson else 1.0)
        return arms, odds

    def _report(
        self, people: Visitors, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> Reports:
        points = self.chosen(people, actions)
        none = np.zeros(0, dtype=np.uint64)
        if self.local is None:
            return PointObservations(
                **self.origin(NO_NOISE), points=points, tickets=none, rewards=rewards
            )
        phi = in_unit_ball(self._features(points))
        rows = single_rows(phi, rewards - self.weights.centre, self.weights)
        return NoisyRows(
            **self.origin(noise.name),
            rows=self.local.add(rows, noise),
            tickets=none,
        )


class OwnSets(Mode):
    """Every person has a decision set of their own, which is as private as the reward."""

    record = "decision set and reward"
    data = SetPolicy.data
    sensitivity_source = SetPolicy.sensitivity_source
    public = False
    design_size = 0
    space: DecisionSets

    def __init__(
        self,
        features: FeatureMap,
        space: DecisionSets,
        reward_bounds: RewardBounds,
        calibration: KernelCalibration,
        budget: Budget,
        points: FloatArray | None = None,
    ) -> None:
        super().__init__(features, space, reward_bounds, calibration)
        count, self.weights = features.features, calibration.weights
        self.reward_weight = self.weights.rewards
        self.size = row_size(count)
        self.sensitivity = row_sensitivity(count, self.weights)
        if budget.protects_reports:
            if budget.delta == 0.0:
                raise InvalidInput(
                    f"delta was {budget.delta:g}; reports of gp_ucb from decision sets carry "
                    "Gaussian noise under local privacy, so give a delta above 0, such as 1e-6."
                )
            multiplier = calibration.noise_multiplier(budget, count)
            self.local = AdditiveNoise.gaussian_for(multiplier, self.sensitivity, self.size)
            self.noisy_sums = True
        self._part = np.concatenate(
            [
                triangle_weights(count, self.weights.off_diagonal),
                np.full(count, self.weights.rewards),
                [self.weights.squares],
            ]
        )
        self._points = points

    @cached_property
    def axes(self) -> GramAxes:
        """Public knowledge about Gram matrices; worked out when it is needed."""
        points = None if self._points is None else self._points.tobytes()
        return _axes(self.features, self.norm, self.calibration.smoothness, points)

    def sums(self, policy: GPPolicy, reports: Reports) -> GramStatistics:
        if isinstance(reports, NoisyRows):
            if reports.rows.shape[1] != self.size or len(reports) == 0:
                raise InvalidInput(
                    f"reports had rows of shape {reports.rows.shape}; each must have {self.size} "
                    "numbers."
                )
            values: NDArray[Any] = reports.rows.sum(axis=0)
        else:
            assert isinstance(reports, PointObservations)
            if reports.points.shape[1] != self.features.domain.dimension or len(reports) == 0:
                raise InvalidInput(
                    f"reports had points of shape {reports.points.shape}; each must have "
                    f"{self.features.domain.dimension} columns."
                )
            phi = in_unit_ball(self.features.transform(reports.points) / self.norm)
            values = np.concatenate(exact_sums(phi, reports.rewards - self.weights.centre))
        return GramStatistics(
            reports=len(reports), row=values, design=np.zeros(0), exact=self.exact
        )

    def check(self, statistics: GramStatistics) -> None:
        super().check(statistics)
        diagonal = np.cumsum([0, *range(self.features.features, 1, -1)])
        if statistics.exact and (statistics.row[diagonal] < 0).any():
            raise InvalidInput(
                "statistics had a negative sum of squares; send them as statistics() made them."
            )

    def row(self, counted: NDArray[Any]) -> FloatArray:
        if not self.exact:
            return np.asarray(counted, dtype=np.float64)
        row: FloatArray = counted * UNIT * self._part
        return row

    def policy(self, header: dict[str, Any], totals: ReleasedSums | None) -> GPPolicy:
        posterior, confidence = self._believed(totals)
        mean = np.concatenate([[self.weights.centre - CENTRE], posterior.mean])
        root = np.vstack([np.zeros(posterior.root.shape[1]), posterior.root])
        return SetPolicy(
            **self.shared(header, mean, root),
            confidence=confidence,
            thompson=self.calibration.decision(False) == "thompson",
            weights=self.weights,
        )

    def _believed(self, totals: ReleasedSums | None) -> tuple[GaussianPosterior, float]:
        if totals is None:
            totals = ReleasedSums(np.zeros(self.size), np.zeros(0), 0.0, 0, 0.0, 0.0)
        count = self.features.features
        triangle = count * (count + 1) // 2
        parts = totals.values[:-1] / self._part[:-1]
        noise = totals.variance * totals.scale**2
        known = self.weights.with_squares and totals.came > 0
        sums = NoisySums(
            totals.people,
            noise,
            noise / self.weights.rewards**2,
            float(totals.values[-1]) / self.weights.squares if known else None,
            noise / self.weights.squares**2 if known else 0.0,
            totals.came,
            totals.scale,
        )
        gram = symmetric(parts[:triangle], count)
        return self.calibration.posterior(gram, parts[triangle:], sums, self.axes)


@lru_cache(maxsize=16)
def _axes(features: FeatureMap, norm: float, smoothness: float, points: bytes | None) -> GramAxes:
    """Axes are public and take a moment to work out: replicates share them."""
    where = None
    if points is not None:
        where = np.frombuffer(points).reshape(-1, features.domain.dimension)
    return gram_axes(features, norm, smoothness, where)
