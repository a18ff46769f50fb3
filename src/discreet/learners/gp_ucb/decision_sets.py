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
from functools import lru_cache
from typing import Annotated, ClassVar

import numpy as np
from scipy.special import ndtri

from discreet.codec import Range, Serializable
from discreet.learners.gp_ucb.looks import KnowledgeGradient
from discreet.learners.gp_ucb.policy import (
    RESOLUTION,
    GPPolicy,
    NoisyRows,
    PointObservations,
    rounded,
)
from discreet.learners.gp_ucb.posterior import (
    CENTRE,
)
from discreet.learners.messages import Reports, public_uniforms
from discreet.learners.policy import Actions, CandidatesOrCount
from discreet.people.domain import Candidates, DecisionSets
from discreet.privacy import NoiseSource
from discreet.privacy.calibration import GAUSSIAN, in_unit_ball
from discreet.privacy.noise import NO_NOISE
from discreet.validation import BoolArray, FloatArray, IntArray, InvalidInput, TicketArray

# Candidates whose features are computed together: about 100 MB at 200 features.
_AT_ONCE = 2**16
# The largest weight of products off the diagonal.
SYMMETRIC = math.sqrt(2.0)


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
    looks: KnowledgeGradient | None
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
        self, looks: KnowledgeGradient, phi: FloatArray, present: BoolArray, tickets: TicketArray
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
        self, people: CandidatesOrCount, actions: Actions, rewards: FloatArray, noise: NoiseSource
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
