"""Every person brings a decision set of their own (Dubey 2021): rows, sums and policies.

The set is as private as the reward. Given is the point of the person's own set with the largest
posterior mean plus a multiple of its deviation (Algorithm 1, line 8), or under Thompson sampling
the best point of one theta that the ticket draws; and where it pays, a ticket may ask its person to
look at another point (looks.py).

**The row of a person** with features phi (||phi|| <= 1) and centred reward y (|y| <= b) is

    (phi_i phi_i, w phi_i phi_j for i < j, c y phi, g y^2)

with w = sqrt 2, so that its first part has the inner product (phi'psi)^2 ("svec"). Replacing one
person by any other moves the row by at most (k = phi'psi, both of norm 1)

    max over k, y, y' of 2 - 2 k^2 + c^2 (y^2 + y'^2 - 2 y y' k)
      = (2 + c^2 b^2)^2 / 2 if c b <= sqrt 2, else 4 c^2 b^2          (squared),

attained at y y' = b^2, k = -c^2 b^2 / 2 (or k = -1). There y^2 = y'^2, so the last entry is free
for g = c / b: with p = y^2, q = y'^2 it adds g^2 (p - q)^2, the maximum over k is convex in p and
in q, hence largest at corners, and at (b^2, 0) it is 2 + 2 c^2 b^2. Shorter vectors move the row
less, and so does any w in [0, sqrt 2]. `row_sensitivity` includes rounding (policy.py).

| array   | shape           | meaning                                                            |
|---------|-----------------|--------------------------------------------------------------------|
| points  | (n, c, d)       | the decision sets, in the units of the domain                      |
| phi     | (n, c, m)       | their features divided by the norm; (n, m) those of chosen points  |
| gram    | (m (m + 1)/2,)  | upper triangle of sum phi phi', by rows                            |
| rewards | (m,)            | sum y phi                                                          |
| squares | (1,)            | sum y^2                                                            |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from discreet.kernels import FeatureMap
from discreet.learners.gp_ucb.calibration import SYMMETRIC, KernelCalibration, RowWeights
from discreet.learners.gp_ucb.looks import Looks
from discreet.learners.gp_ucb.policy import (
    RESOLUTION,
    UNIT,
    Ahead,
    GPPolicy,
    Mode,
    NoisyRows,
    PointObservations,
    ReleasedSums,
    exact_product,
    rounded,
)
from discreet.learners.gp_ucb.posterior import (
    CENTRE,
    MOST_REWARD_VARIANCE,
    Evidence,
    GramAxes,
    NoisySums,
    gram_axes,
)
from discreet.learners.messages import Actions, Reports
from discreet.learners.points import Visitors
from discreet.learners.public_randomness import public_uniforms
from discreet.people.domain import Candidates, DecisionSets, PublicSet
from discreet.privacy import Budget, NoiseSource
from discreet.privacy.calibration import GAUSSIAN, AdditiveNoise, in_unit_ball
from discreet.privacy.noise import NO_NOISE
from discreet.validation import BoolArray, FloatArray, IntArray, InvalidInput, TicketArray

# Candidates whose features are computed together: about 100 MB at 200 features.
_AT_ONCE = 2**16
# Of rewards about their mean, as in posterior.py.
_LEAST_REWARD_VARIANCE = 1e-4


def row_size(features: int) -> int:
    """How many numbers a row has: gram, rewards and squares."""
    return features * (features + 1) // 2 + features + 1


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


def exact_sums(phi: FloatArray, centred: FloatArray) -> IntArray:
    """(size,) `gram`, `rewards` and `squares` of n people, in units of 2^-36."""
    whole = rounded(phi)
    gram = exact_product(whole, whole)[triangle(phi.shape[1])]
    reward = rounded(centred)[:, None]
    seen = exact_product(np.hstack([whole, reward]), reward)[:, 0]
    return np.concatenate([gram, seen])


def single_rows(phi: FloatArray, centred: FloatArray, weights: RowWeights) -> FloatArray:
    """(n, size) the row of each of n people."""
    whole, reward = rounded(phi) / RESOLUTION, rounded(centred) / RESOLUTION
    rows, columns = triangle(phi.shape[1])
    gram = whole[:, rows] * whole[:, columns]
    gram *= triangle_weights(phi.shape[1], weights.off_diagonal)
    squares = weights.squares * reward[:, None] ** 2
    joined: FloatArray = np.hstack([gram, weights.rewards * reward[:, None] * whole, squares])
    return joined


@dataclass(frozen=True, eq=False)
class SetPolicy(GPPolicy):
    """Chooses from each person's own decision set.

    Attributes:
        confidence: how many posterior deviations are added to the mean, or by how many theta is
            spread under Thompson sampling.
        thompson: whether theta is drawn from the posterior by each ticket. Propensities are NaN
            then, because they have no closed form.
        looks: what looks at other points are worth; None where nobody looks.
        weights: of a private report's parts.
    """

    kind: ClassVar[str] = "gp-set-policy"
    data = "the point chosen from the decision set, and the reward"
    sensitivity_source = (
        "closed form over all pairs of features of norm 1 and rewards at their bounds"
    )

    confidence: float
    thompson: bool
    looks: Looks | None
    weights: RowWeights

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.offered, DecisionSets):
            raise InvalidInput(f"offered was {self.offered!r:.80}; it must be decision sets.")
        if self.local is not None:
            if self.local.law != GAUSSIAN:
                raise InvalidInput(
                    f"reports from decision sets carry {GAUSSIAN}, not {self.local.law}."
                )
            self.local.check(row_sensitivity(self.model.features.features, self.weights))

    @property
    def report_size(self) -> int:
        return row_size(self.model.features.features)

    def scores(self, phi: FloatArray, tickets: TicketArray) -> FloatArray:
        """(n, c) what is maximised, from features (n, c, m) divided by their norm."""
        model = self.model
        if not self.thompson:
            mean, root = self._believed(phi)
            best: FloatArray = mean + self.confidence * np.sqrt(np.sum(root**2, axis=2))
            return best
        draws = public_uniforms(
            self.public_seed, self.version, tickets[:, None], np.arange(model.root.shape[1])
        )
        normal = ndtri(np.clip(draws, 2.0**-54, 1.0 - 2.0**-53))
        theta = model.mean + self.confidence * normal @ model.root.T
        perturbed: FloatArray = theta[:, :1] + np.einsum("ncm,nm->nc", phi, theta[:, 1:])
        return perturbed

    def _believed(self, phi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, c) means less 1/2, and (n, c, r) a root of the covariance, of features (n, c, m)."""
        n, c, m = phi.shape
        flat, model = phi.reshape(n * c, m), self.model
        mean = model.mean[0] + flat @ model.mean[1:]
        root = model.root[0] + flat @ model.root[1:]
        return mean.reshape(n, c), root.reshape(n, c, -1)

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
        odds = np.full(len(people), np.nan if self.thompson else 1.0)
        width = people.points.shape[1]
        most = max(1, _AT_ONCE // width)
        for start in range(0, len(people), most):
            some = slice(start, start + most)
            points, present = people.points[some], people.present[some]
            phi = self._features(points.reshape(-1, points.shape[2]))
            phi = phi.reshape(len(points), width, -1)
            with np.errstate(all="ignore"):
                if self.looks is None:
                    scores = self.scores(phi, tickets[some])
                    arms[some] = np.where(present, scores, -np.inf).argmax(axis=1)
                else:
                    arms[some], odds[some] = self._look(self.looks, phi, present, tickets[some])
        return arms, odds

    def _look(
        self, looks: Looks, phi: FloatArray, present: BoolArray, tickets: TicketArray
    ) -> tuple[IntArray, FloatArray]:
        """(n,) places and propensities, of features (n, c, m), where some people look."""
        mean, root = self._believed(phi)
        scores = mean + self.confidence * np.sqrt(np.sum(root**2, axis=2))
        # Not before: deviations that overflow would make points that a set lacks the best.
        usual = np.where(present, scores, -np.inf).argmax(axis=1)
        mean = np.where(present, mean, -np.inf)
        challenger, share = looks.choose(mean, root, 1.0 - CENTRE - mean.max(axis=1))
        draws = public_uniforms(
            self.public_seed, self.version, tickets, np.zeros(len(tickets), dtype=np.int64)
        )
        looking = draws < share
        odds = np.where(looking, share, 1.0 - share)
        odds[challenger == usual] = 1.0
        return np.where(looking, challenger, usual), odds

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

    def __init__(
        self,
        features: FeatureMap,
        space: DecisionSets,
        calibration: KernelCalibration,
        budget: Budget,
        points: PublicSet | None,
    ) -> None:
        super().__init__(features, space, calibration)
        count, self.weights = features.features, calibration.weights
        self.reward_weight = self.weights.rewards
        self.size = row_size(count)
        self.sensitivity = row_sensitivity(count, self.weights)
        self.squares = np.cumsum([0, *range(count, 1, -1)])
        if budget.protects_reports:
            if budget.delta == 0.0:
                raise InvalidInput(
                    f"delta was {budget.delta:g}; reports of gp_ucb from decision sets carry "
                    "Gaussian noise under local privacy: give a delta above 0, such as 1e-6, or "
                    "take private_glm, whose reports are pure."
                )
            multiplier = calibration.noise_multiplier(budget, count)
            self.local = AdditiveNoise.gaussian_for(multiplier, self.sensitivity, self.size)
            self.noisy_sums = True
        seen = [*[self.weights.rewards] * count, self.weights.squares]
        self._part = np.append(triangle_weights(count, self.weights.off_diagonal), seen)
        self._points = points

    @cached_property
    def axes(self) -> GramAxes:
        """Public knowledge about Gram matrices; worked out when it is needed."""
        return _axes(self.features, self.norm, self.calibration.smoothness, self._points)

    def sums(self, policy: GPPolicy, reports: Reports) -> tuple[NDArray[Any], FloatArray]:
        if isinstance(reports, NoisyRows):
            if reports.rows.shape[1] != self.size or len(reports) == 0:
                raise InvalidInput(
                    f"reports had rows of shape {reports.rows.shape}; each must have {self.size} "
                    "numbers."
                )
            return reports.rows.sum(axis=0), np.zeros(0)
        assert isinstance(reports, PointObservations)
        # Checks the points too.
        phi = in_unit_ball(self.features.transform(reports.points) / self.norm)
        centred = reports.rewards - self.weights.centre
        if reports.silent is not None:
            phi[reports.silent], centred[reports.silent] = 0.0, 0.0
        return exact_sums(phi, centred), np.zeros(0)

    def row(self, counted: NDArray[Any]) -> FloatArray:
        if self.local is not None:
            return np.asarray(counted, dtype=np.float64)
        row: FloatArray = counted * UNIT * self._part
        return row

    def policy(
        self, header: dict[str, Any], totals: ReleasedSums | Evidence | None, ahead: Ahead
    ) -> GPPolicy:
        assert not isinstance(totals, Evidence)
        totals = totals or ReleasedSums(np.zeros(self.size), np.zeros(0), 0.0, 0, 0.0, 0.0)
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
        seen = parts[triangle:]
        theta, confidence = self.calibration.posterior(gram, seen, sums, self.axes)
        mean = np.concatenate([[self.weights.centre - CENTRE], theta.mean])
        root = np.vstack([np.zeros(theta.root.shape[1]), theta.root])
        decision, looks = self.calibration.decision(False), None
        if decision == "matching" and totals.came > 0:
            explained = float(2.0 * theta.mean @ seen - theta.mean @ gram @ theta.mean)
            own = self.local.variance / self.weights.rewards**2 if self.local else 0.0
            looks = Looks(
                came=totals.came,
                remaining=ahead.remaining,
                reward_variance=_left_over(sums, explained),
                release_variance=0.0 if self.local else sums.reward_variance,
                own_variance=own,
            )
        return SetPolicy(
            **self.header(header, mean, root),
            confidence=confidence,
            thompson=decision == "thompson",
            looks=looks,
            weights=self.weights,
        )


def _left_over(sums: NoisySums, explained: float) -> float:
    """rho^2, from what a fit leaves of sum y^2; few people tell little, so one more of the largest
    variance is counted among them."""
    if sums.squares is None or sums.people <= 0.0:
        return MOST_REWARD_VARIANCE
    left = sums.squares - explained + math.sqrt(sums.squares_variance) + MOST_REWARD_VARIANCE
    return min(max(left / (sums.people + 1.0), _LEAST_REWARD_VARIANCE), MOST_REWARD_VARIANCE)


@lru_cache(maxsize=16)
def _axes(
    features: FeatureMap, norm: float, smoothness: float, points: PublicSet | None
) -> GramAxes:
    """Axes are public and take a moment to work out: replicates share them."""
    return gram_axes(features, norm, smoothness, None if points is None else points.array)
