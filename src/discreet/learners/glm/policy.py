"""Choices from people's own decision sets, and the one private vector that each person reports.

The mean reward of a point with features phi (||phi|| <= 1) is modelled as mu(theta'phi), on the
scale [0, 1] of the reward bounds:

| link       | mu(e)               | slope mu'(e)        |
|------------|---------------------|---------------------|
| `linear`   | 1/2 + e             | 1                   |
| `logistic` | 1 / (1 + exp(-e))   | mu (1 - mu)         |

**A report** holds one of two functions of the residual r = y - mu(theta'phi) under the policy's
theta; the public coin decides which:

    score     s(phi) psi,   s = Q phi / ||Q phi||,   psi = r / l clipped to [-1, 1],
                            l = min(limit, max(mu, 1 - mu)),
    spread    2 min(r^2 / limit^2, 1) - 1.

Where `limit` is 1 nothing is clipped: no reward is further from mu than max(mu, 1 - mu). That
length depends on the point alone, so E psi = 0 exactly where the model is right, whatever the law
of rewards; Han, Liang, Wang and Zhang (2021) report r phi, which is short where points differ
least. Q has the features along which decisions are in doubt (learner.py): the whole report
measures those.

*Claim.* Given the policy and the coin, which is drawn without looking at the person, no two people
with decision sets, choices and rewards of any kind make any report more than e^epsilon times as
likely from one as from the other.

*Proof.* The coin and the policy decide which of the two it is. Either is one draw of PrivUnit
(privacy/vectors.py) on a vector that is brought to length 1 at most, with NaN counted as 0,
whatever policy, features or reward made it. So no forged policy can lengthen it.

| array    | shape     | meaning                                                                  |
|----------|-----------|--------------------------------------------------------------------------|
| points   | (n, c, d) | the decision sets, in the units of the domain                            |
| phi      | (n, m)    | features of chosen points, divided by their norm                         |
| vectors  | (n, m)    | private reports; of a spread the first number, the others are 0          |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from discreet.codec import Range, Shape
from discreet.kernels import FeatureMap
from discreet.learners.messages import PUBLIC_COINS, Reports, Statistics, public_uniforms
from discreet.learners.policy import Actions, CandidatesOrCount, PointPolicy
from discreet.people.domain import Candidates, DecisionSets
from discreet.privacy import NoiseSource, Release
from discreet.privacy.vectors import PrivUnit
from discreet.validation import BoolArray, CoinArray, FloatArray, IntArray, InvalidInput

Link = Literal["linear", "logistic"]
LINKS: tuple[Link, ...] = ("linear", "logistic")

# The smallest limit of residuals.
LEAST_LIMIT = 1e-3
# Candidates whose features are computed together: about 100 MB at 200 features.
_AT_ONCE = 2**16


def mean_reward(link: Link, linear: FloatArray) -> FloatArray:
    """mu of theta'phi, within [0, 1]; NaN where theta'phi is NaN."""
    return np.clip(0.5 + linear, 0.0, 1.0) if link == "linear" else expit(linear)


def slope(link: Link, linear: FloatArray) -> FloatArray:
    """mu' of theta'phi."""
    if link == "linear":
        return np.ones_like(linear)
    mean = expit(linear)
    return np.asarray(mean * (1.0 - mean))


def residual_bounds(mean: FloatArray, limit: float) -> FloatArray:
    """l, the bounds by which residuals are divided, from mu."""
    return np.minimum(np.maximum(mean, 1.0 - mean), limit)


def unit_directions(phi: FloatArray, directions: FloatArray) -> FloatArray:
    """(n, m) s(phi), of length 1, or 0 where Q phi is 0."""
    turned = phi @ directions.T
    norms = np.sqrt(np.einsum("nm,nm->n", turned, turned))
    shown: FloatArray = turned / np.maximum(norms, 1e-300)[:, None]
    return shown


@dataclass(frozen=True, eq=False)
class ScoreReports(Reports):
    """Private vectors of n people, with the public coins that decided their content."""

    kind: ClassVar[str] = "score-reports"

    public_coins: Annotated[CoinArray, Shape("n"), Range(0, PUBLIC_COINS - 1)]
    vectors: Annotated[FloatArray, Shape("n", "m")]

    def __len__(self) -> int:
        return len(self.vectors)


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoreStatistics(Statistics):
    """Sums of scores and spreads; see learner.py.

    Attributes:
        information, projected: of theta.
        squares: the sum of min(r^2, limit^2) / limit^4 as the spreads have it, with their noise.
        checks: the sum of 1 / limit^4; the ratio of the two is E r^2, each spread weighted by the
            noise that it has then.
    """

    kind: ClassVar[str] = "score-statistics"

    information: Annotated[FloatArray, Shape("m", "m")]
    projected: Annotated[FloatArray, Shape("m")]
    squares: float
    checks: Annotated[float, Range(0.0)]


@dataclass(frozen=True, eq=False)
class ScorePolicy(PointPolicy):
    """The policy that chooses the largest theta'phi plus some posterior deviations.

    Attributes:
        features: the feature map, on the public domain.
        norm: what features are divided by, so that their norm is at most 1.
        link: see the module.
        mean: (m,) theta, the posterior mean.
        root: (m, r) a square root of the posterior covariance.
        confidence: number of deviations added.
        directions: (m, m) Q.
        response: (m, m) J, the derivative of mean scores by theta (learner.py).
        limit: the bound at which residuals are clipped.
        spread_share: the share of people who report the spread.
        epsilon: of one report.
    """

    kind: ClassVar[str] = "score-policy"

    features: FeatureMap
    norm: Annotated[float, Range(above=0.0)]
    link: Link
    mean: Annotated[FloatArray, Shape("m")]
    root: Annotated[FloatArray, Shape("m", "r")]
    confidence: Annotated[float, Range(0.0)]
    directions: Annotated[FloatArray, Shape("m", "m")]
    response: Annotated[FloatArray, Shape("m", "m")]
    limit: Annotated[float, Range(LEAST_LIMIT, 1.0)]
    spread_share: Annotated[float, Range(0.0, 1.0)]
    epsilon: Annotated[float, Range(above=0.0)]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.offered, DecisionSets):
            raise InvalidInput(f"offered was {self.offered!r:.80}; it must be decision sets.")
        if self.features.domain != self.domain or self.features.features != len(self.mean):
            raise InvalidInput(
                f"a policy had {self.features.features} features of {self.features.domain} for "
                f"{len(self.mean)} coefficients on {self.domain}; send it as its learner made it."
            )
        # Rejects an epsilon that is too small on arrival.
        _ = self.score_mechanism, self.spread_mechanism

    @property
    def reports_are_private(self) -> bool:
        return True

    @cached_property
    def score_mechanism(self) -> PrivUnit:
        """The mechanism of scores."""
        return PrivUnit(len(self.mean), self.epsilon)

    @cached_property
    def spread_mechanism(self) -> PrivUnit:
        """The mechanism of spreads: randomised response after rounding to a sign."""
        return PrivUnit(1, self.epsilon)

    def scaled(self, points: FloatArray) -> FloatArray:
        """(n, m) phi of points (n, d) of the domain."""
        # Forged numbers may overflow for some people; a warning would reveal for whom.
        with np.errstate(all="ignore"):
            return self.features.compute(points) / self.norm

    def best(self, phi: FloatArray, present: BoolArray) -> IntArray:
        """(n,) places with the largest scores, from features (n, c, m) and points present."""
        people, width, size = phi.shape
        flat = phi.reshape(people * width, size)
        with np.errstate(all="ignore"):
            scores = flat @ self.mean
            scores += self.confidence * np.sqrt(np.sum((flat @ self.root) ** 2, axis=1))
        places: IntArray = np.where(present, scores.reshape(people, width), -np.inf).argmax(axis=1)
        return places

    def _choose(self, people: Candidates, public_coins: CoinArray) -> tuple[IntArray, FloatArray]:
        places = np.empty(len(people), dtype=np.int64)
        width = people.points.shape[1]
        most = max(1, _AT_ONCE // width)
        for start in range(0, len(people), most):
            some = slice(start, start + most)
            points = people.points[some]
            phi = self.scaled(points.reshape(-1, points.shape[2]))
            places[some] = self.best(phi.reshape(*points.shape[:2], -1), people.present[some])
        return places, np.ones(len(people))

    def reports_spread(self, public_coins: CoinArray) -> BoolArray:
        """(n,) whether each coin asks for the spread."""
        place = np.zeros(len(public_coins), dtype=np.int64)
        drawn = public_uniforms(self.public_seed, self.version, public_coins, place)
        return np.asarray(drawn < self.spread_share)

    def _report(
        self, people: CandidatesOrCount, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> ScoreReports:
        phi = self.scaled(self.chosen(people, actions))
        with np.errstate(all="ignore"):
            mean = mean_reward(self.link, phi @ self.mean)
            residual = rewards - mean
            cut = np.clip(residual / residual_bounds(mean, self.limit), -1.0, 1.0)
            scores = unit_directions(phi, self.directions) * cut[:, None]
            spreads = 2.0 * np.minimum((residual / self.limit) ** 2, 1.0) - 1.0
        vectors = np.zeros_like(phi)
        checks = self.reports_spread(actions.public_coins)
        for chosen, mechanism, values in (
            (np.flatnonzero(~checks), self.score_mechanism, scores),
            (np.flatnonzero(checks), self.spread_mechanism, spreads[:, None]),
        ):
            if len(chosen):
                shown = mechanism.privatise(values[chosen], noise)
                vectors[chosen, : mechanism.dimension] = shown
        return ScoreReports(
            **self.origin(noise.name), public_coins=actions.public_coins, vectors=vectors
        )

    def sums(self, reports: ScoreReports) -> ScoreStatistics:
        """The sums of reports; `InvalidInput` for impossible ones."""
        size = len(self.mean)
        if reports.vectors.shape != (len(reports), size) or len(reports) == 0:
            raise InvalidInput(
                f"reports had vectors of shape {reports.vectors.shape}; under {self.title} each of "
                f"at least one person has {size} numbers."
            )
        checks = self.reports_spread(reports.public_coins)
        scores, spreads = reports.vectors[~checks], reports.vectors[checks]
        self.score_mechanism.check(scores)
        self.spread_mechanism.check(spreads[:, :1])
        if (spreads[:, 1:] != 0.0).any():
            raise InvalidInput(
                "reports had several numbers where the public coin asks for one; send them as the "
                "policy made them."
            )
        received = scores.sum(axis=0) + len(scores) * (self.response @ self.mean)
        variance = self.score_mechanism.variance
        return ScoreStatistics(
            reports=len(reports),
            information=len(scores) * (self.response.T @ self.response) / variance,
            projected=self.response.T @ received / variance,
            squares=float((0.5 + 0.5 * spreads[:, 0]).sum()) / self.limit**2,
            checks=len(spreads) / self.limit**4,
        )

    def release(self, noise: str) -> Release | None:
        return Release(
            mechanism=f"{self.score_mechanism.mechanism}; by the public coin, on 1 number instead",
            event=self.event(self.epsilon),
            sensitivity=self.score_mechanism.sensitivity,
            sensitivity_source="what is reported is brought to length 1 at most, so any two lie at "
            "most 2 apart",
            scale=self.epsilon,
            people=self.group,
            data="the point chosen from the decision set, and the reward",
            noise=noise,
        )

    def predict(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:  # noqa: N803
        """Mean reward and its standard deviation, to first order, at points of the domain.

        Args:
            X: (n, d), in the units of the domain.

        Returns:
            (n,) and (n,), in units of rewards; the deviation speaks of the mean, not of a reward.

        Raises:
            InvalidInput: for a wrong shape, NaN, or a point outside the domain.
        """
        phi = self.features.transform(X) / self.norm
        linear = phi @ self.mean
        deviation = np.sqrt(np.sum((phi @ self.root) ** 2, axis=1)) * slope(self.link, linear)
        low, width = self.reward_bounds.lower, self.reward_bounds.upper - self.reward_bounds.lower
        return low + width * mean_reward(self.link, linear), width * deviation
