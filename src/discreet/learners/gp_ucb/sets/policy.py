"""The policy of decision sets: the choice of a point, the row of a person, and exploration.

Chosen is the point of the person's own set with the largest posterior mean plus a multiple of its
deviation (Dubey 2021, Algorithm 1, line 8; eq. 8), or under Thompson sampling the best point of one
theta that the public coin draws; where the knowledge gradient pays, a coin may send its person to
another point of the set.

**The row of a person** with features phi (||phi|| <= 1) and centred reward y (|y| <= b) is

    (phi_i phi_i, w phi_i phi_j for i < j, c y phi, g y^2)

with w = sqrt 2, so that its first part has the inner product (phi'psi)^2 ("svec"). Replacing one
person by any other moves the row by at most (k = phi'psi, both of norm 1)

    max over k, y, y' of 2 - 2 k^2 + c^2 (y^2 + y'^2 - 2 y y' k)
      = (2 + c^2 b^2)^2 / 2 if c b <= sqrt 2, else 4 c^2 b^2          (squared),

attained at y y' = b^2, k = -c^2 b^2 / 2 (or k = -1). There y^2 = y'^2, so the last entry is free
for g = c / b: with p = y^2, q = y'^2 it adds g^2 (p - q)^2, the maximum over k is convex in p and
in q, hence largest at corners, and at (b^2, 0) it is 2 + 2 c^2 b^2. Shorter vectors move the row
less, and so does any w in [0, sqrt 2]. `row_sensitivity` includes rounding.

| array   | shape           | meaning                                                            |
|---------|-----------------|--------------------------------------------------------------------|
| points  | (n, c, d)       | the decision sets, in the units of the domain                      |
| phi     | (n, c, m)       | their features divided by the norm; (n, m) those of chosen points  |
| mean    | (n, c)          | posterior means of the candidates of n people                      |
| root    | (n, c, r)       | a root of their posterior covariance                               |
| rows    | (n, size)       | the rows of n people                                               |

Notes
-----
*Exploration.* Where everyone brings the same set, a nearly greedy choice can stay with a wrong
point; wider bonuses for everyone cure that at two to three times the regret where sets differ. The
knowledge gradient of N people at once against the price N gap ends by itself. All inputs are
releases, the horizon and the person's own set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Annotated, ClassVar

import numpy as np
from scipy.special import ndtri

from discreet.codec import Range, Serializable
from discreet.learners.gp_ucb.policy import (
    RESOLUTION,
    SYMMETRIC,
    GPPolicy,
    NoisyRows,
    PointObservations,
    RowWeights,
    normal_excess,
    rounded,
)
from discreet.learners.gp_ucb.posterior import CENTRE
from discreet.learners.messages import Reports, public_uniforms
from discreet.learners.policy import Actions, CandidatesOrCount
from discreet.people.domain import Candidates, DecisionSets
from discreet.privacy import NoiseSource
from discreet.privacy.calibration import GAUSSIAN, in_unit_ball
from discreet.privacy.noise import NO_NOISE
from discreet.privacy.prefix_sums.system import MOST_PEOPLE as MOST_COUNTED
from discreet.validation import BoolArray, CoinArray, FloatArray, IntArray, InvalidInput

# Candidates whose features are computed together: about 100 MB at 200 features.
_AT_ONCE = 2**16
# The share of later people whom an exploratory pull is taken to help.
_PROFIT = 0.3
# The largest share of people that explores.
_MOST_EXPLORING = 0.8
# A point more deviations behind the best one is not explored.
_REACH = 3.0


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
    return np.where(rows == columns, 1.0, off_diagonal)


def symmetric(upper: FloatArray, features: int) -> FloatArray:
    """The (m, m) matrix whose upper triangle is given."""
    full = np.zeros((features, features))
    full[triangle(features)] = upper
    return full + np.triu(full, 1).T


def single_rows(phi: FloatArray, centred: FloatArray, weights: RowWeights) -> FloatArray:
    """(n, size) the row of each of n people."""
    whole, reward = rounded(phi) / RESOLUTION, rounded(centred) / RESOLUTION
    rows, columns = triangle(phi.shape[1])
    gram = whole[:, rows] * whole[:, columns]
    gram *= triangle_weights(phi.shape[1], weights.off_diagonal)
    squares = weights.squares * reward[:, None] ** 2
    return np.hstack([gram, weights.rewards * reward[:, None] * whole, squares])


@dataclass(frozen=True, eq=False)
class KnowledgeGradient(Serializable):
    """The expected improvement of later decisions by exploratory pulls, less their price; public.

    In a person's own set x* is the best point by the mean, gap(x) = m(x*) - m(x) and s(x) the
    deviation of f(x) - f(x*). If N people choose x, that difference is measured with variance

        v_N = (rho^2 + 2 s_o^2) / N + 2 s_u^2 / N^2

    (s_u^2: noise on the sum of y phi; s_o^2: noise that each person puts on their own; twice,
    because the Gram matrix has as much). The posterior mean moves by q = s^2 / sqrt(s^2 + v_N), and
    `later` people gain

        later q (h(z) - h(z + room / q)),   z = gap / q,   h(z) = E max(Z - z, 0), Z ~ N(0, 1),

    as rewards end `room` above m(x*) (Frazier, Powell and Dayanik 2008). The price is N gap(x). The
    point and the N with the largest gain less price are explored, if that is positive, by N of as
    many people as came so far. `later` is three in ten of the remaining horizon: where sets differ,
    others lack the point, or are led to similar points by their own sets.

    Attributes:
        came: number of people so far.
        remaining: number of people to come.
        reward_variance: rho^2.
        release_variance: s_u^2.
        own_variance: s_o^2.
    """

    came: Annotated[int, Range(1, MOST_COUNTED)]
    remaining: Annotated[int, Range(0, MOST_COUNTED)]
    reward_variance: Annotated[float, Range(above=0.0)]
    release_variance: Annotated[float, Range(0.0)]
    own_variance: Annotated[float, Range(0.0)]

    @cached_property
    def counts(self) -> FloatArray:
        """(k,) the numbers N that are compared: 1, 4, 16, .. up to half of the people to come."""
        most = max(self.remaining // 2, 1)
        return np.asarray(4.0 ** np.arange((most.bit_length() + 1) // 2))

    def net(self, gap: FloatArray, spread: FloatArray, room: FloatArray) -> FloatArray:
        """(p, k) gain less price of `counts` pulls, from gap, s and room of p points (p,)."""
        counts = self.counts
        noise = (self.reward_variance + 2.0 * self.own_variance) / counts
        noise = noise + 2.0 * self.release_variance / counts**2
        variance, gap = spread[:, None] ** 2, gap[:, None]
        moved = np.maximum(variance / np.sqrt(variance + noise), 1e-300)
        z = gap / moved
        gain = moved * (normal_excess(z) - normal_excess(z + room[:, None] / moved))
        return _PROFIT * self.remaining * np.maximum(gain, 0.0) - counts * gap

    def choose(
        self, mean: FloatArray, root: FloatArray, room: FloatArray
    ) -> tuple[IntArray, FloatArray]:
        """The best point to explore in each set, and its probability.

        Args:
            mean: (n, c) posterior means of the candidates; -inf for absent ones.
            root: (n, c, r) a root of their posterior covariance.
            room: (n,) how far rewards reach above the best mean.

        Returns:
            (n,) places in the sets, and (n,) the probabilities with which they are chosen.
        """
        rows, best = np.arange(len(mean)), mean.argmax(axis=1)
        gap = mean[rows, best][:, None] - mean
        own = np.einsum("ncr,ncr->nc", root, root)
        shared = np.einsum("ncr,nr->nc", root, root[rows, best])
        spread = np.sqrt(np.maximum(own - 2.0 * shared + own[rows, best][:, None], 0.0))
        # Beyond three deviations h(z) is too small for any number of people; NaN is no point.
        people, places = np.nonzero(
            (gap < _REACH * spread) & (np.arange(mean.shape[1]) != best[:, None])
        )
        net = self.net(gap[people, places], spread[people, places], np.maximum(room, 0.0)[people])
        number = net.argmax(axis=1) if len(net) else np.zeros(0, dtype=np.int64)
        value = np.zeros(mean.shape)
        wanted = np.zeros(mean.shape)
        value[people, places] = net[np.arange(len(net)), number]
        wanted[people, places] = self.counts[number]
        challenger = value.argmax(axis=1)
        exploring = np.where(value[rows, challenger] > 0.0, wanted[rows, challenger], 0.0)
        share: FloatArray = np.minimum(exploring / self.came, _MOST_EXPLORING)
        return challenger, share


@dataclass(frozen=True, eq=False)
class SetPolicy(GPPolicy):
    """The policy of people with decision sets of their own.

    Attributes:
        confidence: number of posterior deviations added to the mean, or by which theta is spread
            under Thompson sampling.
        thompson: whether each coin draws theta from the posterior. Propensities are NaN then,
            because they have no closed form.
        knowledge_gradient: by which people explore other points; None without exploration.
        weights: the weights of the parts of a row.
    """

    kind: ClassVar[str] = "gp-set-policy"
    data = "the point chosen from the decision set, and the reward"
    sensitivity_source = (
        "closed form over all pairs of features of norm 1 and rewards at their bounds"
    )

    confidence: float
    thompson: bool
    knowledge_gradient: KnowledgeGradient | None
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

    def scores(self, phi: FloatArray, public_coins: CoinArray) -> FloatArray:
        """(n, c) what is maximised, from features (n, c, m) divided by their norm."""
        model = self.model
        if not self.thompson:
            mean, root = self._posterior(phi)
            best: FloatArray = mean + self.confidence * np.sqrt(np.sum(root**2, axis=2))
            return best
        draws = public_uniforms(
            self.public_seed, self.version, public_coins[:, None], np.arange(model.root.shape[1])
        )
        normal = ndtri(np.clip(draws, 2.0**-54, 1.0 - 2.0**-53))
        theta = model.mean + self.confidence * normal @ model.root.T
        perturbed: FloatArray = theta[:, :1] + np.einsum("ncm,nm->nc", phi, theta[:, 1:])
        return perturbed

    def _posterior(self, phi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, c) means less 1/2, and (n, c, r) a root of the covariance, of features (n, c, m)."""
        n, c, m = phi.shape
        flat, model = phi.reshape(n * c, m), self.model
        mean = model.mean[0] + flat @ model.mean[1:]
        root = model.root[0] + flat @ model.root[1:]
        return mean.reshape(n, c), root.reshape(n, c, -1)

    def _features(self, points: FloatArray) -> FloatArray:
        """(n, m) features; 0 under local privacy for points that a finite map lacks.

        A trusted learner rejects those points; under local privacy that would reveal something to
        the maker of the map.
        """
        features = self.model.features
        if self.local is None:
            features.check(points)
        # Forged numbers may overflow for some people; a warning would reveal for whom.
        with np.errstate(all="ignore"):
            return features.compute(points) / self.model.norm

    def _choose(self, people: Candidates, public_coins: CoinArray) -> tuple[IntArray, FloatArray]:
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
                if (gradient := self.knowledge_gradient) is None:
                    scores = self.scores(phi, public_coins[some])
                    arms[some] = np.where(present, scores, -np.inf).argmax(axis=1)
                else:
                    arms[some], odds[some] = self._explore(
                        gradient, phi, present, public_coins[some]
                    )
        return arms, odds

    def _explore(
        self,
        gradient: KnowledgeGradient,
        phi: FloatArray,
        present: BoolArray,
        public_coins: CoinArray,
    ) -> tuple[IntArray, FloatArray]:
        """(n,) places and propensities, of features (n, c, m), where some people explore."""
        mean, root = self._posterior(phi)
        scores = mean + self.confidence * np.sqrt(np.sum(root**2, axis=2))
        # Not before: deviations that overflow would make points that a set lacks the best.
        usual = np.where(present, scores, -np.inf).argmax(axis=1)
        mean = np.where(present, mean, -np.inf)
        challenger, share = gradient.choose(mean, root, 1.0 - CENTRE - mean.max(axis=1))
        draws = public_uniforms(
            self.public_seed,
            self.version,
            public_coins,
            np.zeros(len(public_coins), dtype=np.int64),
        )
        exploring = draws < share
        odds = np.where(exploring, share, 1.0 - share)
        odds[challenger == usual] = 1.0
        return np.where(exploring, challenger, usual), odds

    def _report(
        self, people: CandidatesOrCount, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> Reports:
        points = self.chosen(people, actions)
        none = np.zeros(0, dtype=np.uint64)
        if self.local is None:
            return PointObservations(
                **self.origin(NO_NOISE), points=points, public_coins=none, rewards=rewards
            )
        phi = in_unit_ball(self._features(points))
        rows = single_rows(phi, rewards - self.weights.centre, self.weights)
        return NoisyRows(
            **self.origin(noise.name),
            rows=self.local.add(rows, noise),
            public_coins=none,
        )
