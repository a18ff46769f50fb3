"""A generalised linear bandit over people's own decision sets, under pure local privacy.

    policy     theta and its posterior from all scores; directions Q   `_publish`, `designed`
    action     the best of the person's own points under theta         `ScorePolicy`, on their side
    report     one vector of length at most 1, privatised by PrivUnit  `ScorePolicy._report`
               the public coin decides: a score, or a squared residual
    sums       information and projected scores                        `ScorePolicy.sums`

**Posterior.** Under version v, whose theta is theta_v, the sum G_v of n_v scores has about the mean
n_v J_v (theta* - theta_v), and noise of variance V on each number for each person (PrivUnit's; the
variance of the scores themselves is small beside it). With theta ~ N(0, p P), P the smooth prior of
posterior.py, this is Gaussian:

    precision  (p P)^-1 + sum n_v J_v'J_v / V,     projected  sum J_v'(G_v + n_v J_v theta_v) / V.

Every version is linearised at its own theta, so the sums add, and late reports enter like others.
Where J_v is wrong, later versions correct the error.

**Design.** Decision sets are private, so the law of chosen points is not known. It is taken from
sets of as many points, drawn from a public sample of where points may lie. For each set a theta
drawn twice from the posterior gives two candidates for the best point:

    M = E d d',   d = phi(best by theta_1) - phi(best by theta_2),     Q = M^(1/2),

so that a report measures the directions in which sets are decided, and none of those in which all
good points are alike. For the greedy point of each set

    J = E s(phi) (mu'(theta'phi) / l) P(l) phi',

with P(l) the posterior probability that the mean lies within l of mu, is how scores answer to
theta: their mean is about J (theta* - theta) under the true theta*. A sample unlike people's points
makes steps too long or too short, which costs reward; the steps still end where scores are 0 on
average, which is at the truth.

**The limit** of residuals. The private report of a score has the same noise whatever the residuals,
so where these are small, as with rewards of little noise, it pays to divide them by less. To cut
|r| at c moves E min(|r|, c) by at most E r^2 / (4 c), and noise moves the mean of n reports by c g
/ sqrt n with g that of randomised response. The two are equal at

    c = k rho,   k = n^(1/4) / (2 sqrt g),   and the limit is k or 3 times rho, at most 1,

with rho^2 the estimate of E r^2 from reports of squared residuals, one deviation of noise added. So
little is cut early, clipping never costs more than the noise does once many people came, and where
rewards are noisy nothing is cut. A tenth of the people report the squared residual until that is
clear, in units of the limit in force, so the smaller residuals are, the finer they are measured.

| array       | shape     | meaning                                                              |
|-------------|-----------|----------------------------------------------------------------------|
| information | (m, m)    | sum n_v J_v'J_v / V                                                  |
| projected   | (m,)      | sum J_v'(G_v + n_v J_v theta_v) / V                                  |
| sample      | (N, m)    | features of public points, divided by their norm                     |
| sets        | (k, c, m) | features of k sets                                                   |

Notes
-----
*Why scores and not rows.* The row (phi phi', y phi) takes d (d + 3) / 2 numbers under
one budget. A score is one vector of length 1 in the directions in doubt, so none of PrivUnit's
noise is spent on length, and it is 0 on average exactly where the model is right; residuals clipped
at half the range have another zero. Where everyone is offered the same points (`PublicSet`), a
report holds the reward alone.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr
from sklearn.gaussian_process.kernels import Kernel

from discreet.gaussian import Posterior
from discreet.kernels import feature_map, kernel_to_text, public_points, read_kernel
from discreet.learners.base import Common, Learner
from discreet.learners.glm.policy import (
    LEAST_LIMIT,
    LINKS,
    Link,
    ScorePolicy,
    ScoreReports,
    ScoreStatistics,
    mean_reward,
    residual_bounds,
    slope,
    unit_directions,
)
from discreet.learners.gp_ucb.posterior import UNIFORM_VARIANCE, smooth_root
from discreet.learners.gp_ucb.values import MODEL_ERROR_AVERAGE, MODEL_ERROR_UNCHOSEN, set_features
from discreet.learners.values import ValuePosterior, linear_values
from discreet.people.domain import Box, DecisionSets, PublicSet
from discreet.privacy import Adjacency, Local
from discreet.privacy.vectors import PrivUnit
from discreet.validation import FloatArray, InvalidInput, one_of

_KERNEL = "DotProduct(sigma_0=1.0)"
# p: the variances of a uniform number over the range of rewards, and of its logit.
_PRIOR: dict[Link, float] = {"linear": UNIFORM_VARIANCE, "logistic": math.pi**2 / 3.0}
# Deviations that are added to the mean, as in gp_ucb.
_CONFIDENCE = 0.25
# People under the first policy, and growth of later ones.
_FIRST, _GROWTH = 20, 1.05
# The share of people who report a squared residual, and deviations of residuals that are never cut.
_CHECKING, _LEAST_CUT = 0.1, 3.0
# The largest numbers of drawn sets, and of features in them.
_SETS, _NUMBERS = 1500, 2_000_000
# Draws for values, and candidates that are looked at together.
_DRAWS, _AT_ONCE = 400, 2**14


class PrivateGLM(Learner[ScorePolicy, ScoreReports, ScoreStatistics]):
    """A generalised linear bandit that learns from one private vector of each person.

    Args:
        domain: the public bounds of points; `Ball` for vectors of bounded length.
        space: `DecisionSets(most)`.
        budget: `Local(epsilon)` or `Shuffled(epsilon, delta)`; reports are pure.
        kernel: a scikit-learn kernel in the units of the domain, or its text. Its features are
            what the model is linear in; by default 1 and the columns of a point.
        link: `linear` for mean rewards that are linear in the features, on the scale of the reward
            bounds about their middle, or `logistic`.
        public_points: (N, d) a public sample of where people's points may lie, if that is less
            than the whole domain; a wrong one costs reward, never privacy.

    Raises:
        InvalidInput: for a budget with a delta, or features without a certified norm.
    """

    name: ClassVar[str] = "private_glm"
    trust_models: ClassVar[tuple[str, ...]] = ("local", "shuffled")
    spaces: ClassVar[tuple[type[Any], ...]] = (DecisionSets,)
    reports_type = ScoreReports
    statistics_type = ScoreStatistics

    def __init__(
        self,
        domain: Box,
        space: DecisionSets,
        budget: Local,
        *,
        kernel: Kernel | str = _KERNEL,
        link: Link = "linear",
        public_points: ArrayLike | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(domain, space, budget, **common)
        if isinstance(budget, Local) and budget.delta > 0.0 and budget.max_contributions == 1:
            raise InvalidInput(
                f"delta was {budget.delta:g}; the reports of {self.name} are pure, so give an "
                "epsilon without delta. (Several contributions of a person may have one.)"
            )
        self.link: Link = one_of(link, "link", LINKS)
        self.public_points = None
        if public_points is not None:
            self.public_points = PublicSet.of(domain.from_unit(domain.to_unit(public_points)))
        chosen = read_kernel(kernel)
        self.kernel = kernel_to_text(chosen)
        self._features = feature_map(chosen, domain, points=self._where)
        if self._features.norm_bound is None:
            raise InvalidInput(f"the kernel {chosen} has no largest norm; choose another.")
        # A part in 10^12 covers the rounding of the features' arithmetic.
        self._norm = self._features.norm_bound * (1.0 + 1e-12)
        # Refuses an epsilon that is too small.
        PrivUnit(self._features.features, budget.contribution_epsilon)

    @property
    def _where(self) -> FloatArray | None:
        return None if self.public_points is None else self.public_points.array

    @cached_property
    def _sample(self) -> FloatArray:
        """(N, m) features of the public sample."""
        where = public_points(self.domain) if self._where is None else self._where
        return self._features.transform(where) / self._norm

    @cached_property
    def _prior_root(self) -> FloatArray:
        """(m, m) a root of p P."""
        mean = self._sample.T @ self._sample / len(self._sample)
        return math.sqrt(_PRIOR[self.link]) * smooth_root(mean, 0.0)

    @property
    def adjacency(self) -> Adjacency:
        return Adjacency(record="decision set and reward")

    @property
    def batch_size(self) -> int:
        return max(_FIRST, math.ceil((_GROWTH - 1.0) * self._published_at))

    def _empty(self) -> ScoreStatistics:
        size = self._features.features
        return ScoreStatistics(
            reports=0,
            information=np.zeros((size, size)),
            projected=np.zeros(size),
            squares=0.0,
            checks=0,
        )

    def _value_posterior(self, contexts: Any) -> ValuePosterior:
        return score_values(self._latest_policy, contexts)

    def _statistics(self, policy: ScorePolicy, reports: ScoreReports) -> ScoreStatistics:
        return policy.sums(reports)

    def _check_sums(self, statistics: ScoreStatistics) -> None:
        size = self._features.features
        shapes = statistics.information.shape, statistics.projected.shape
        if shapes != ((size, size), (size,)):
            raise InvalidInput(
                f"statistics of {statistics.reports} reports had the shapes {shapes}; this learner "
                f"adds ({size}, {size}) and ({size},). Send them as statistics() made them."
            )
        if (np.diag(statistics.information) < 0.0).any():
            raise InvalidInput(
                "statistics had negative information; send them as statistics() made them."
            )

    def _limits(self) -> tuple[float, float]:
        """The limit if the spread is two deviations of noise below what reports say, and if it is
        one above."""
        sums = self._sums
        if sums.checks == 0.0:
            return 0.0, 1.0
        noise = 1.0 / PrivUnit(1, self.budget.contribution_epsilon).mean_cosine
        square, doubt = max(sums.squares / sums.checks, 0.0), 0.5 * noise / math.sqrt(sums.checks)
        rate = max(_LEAST_CUT, self.people**0.25 / (2.0 * math.sqrt(noise)))
        least, most = (max(square + each * doubt, 0.0) for each in (-2.0, 1.0))
        limit = min(max(rate * math.sqrt(most), LEAST_LIMIT), 1.0)
        return rate * math.sqrt(least), limit

    def _publish(self) -> ScorePolicy:
        sums, wide = self._sums, self._prior_root
        # theta = wide eta with eta ~ N(0, I), so flat directions of the prior do no harm.
        inside = np.eye(wide.shape[1]) + wide.T @ sums.information @ wide
        values, vectors = np.linalg.eigh(0.5 * (inside + inside.T))
        root = wide @ (vectors / np.sqrt(np.maximum(values, 1.0)))
        size, (least, limit) = self._features.features, self._limits()
        header = self.policy_header()
        assert isinstance(self.space, DecisionSets)
        policy = ScorePolicy(
            **header,
            offered=self.space,
            features=self._features,
            norm=self._norm,
            link=self.link,
            mean=root @ (root.T @ sums.projected),
            root=root,
            confidence=_CONFIDENCE,
            directions=np.eye(size),
            response=np.zeros((size, size)),
            limit=limit,
            spread_share=_CHECKING if least < 1.0 else 0.0,
            epsilon=self.budget.contribution_epsilon,
        )
        rng = np.random.default_rng([self.public_seed, header["version"]])
        return designed(policy, drawn_sets(self._sample, self.space.most, rng), rng)

    def _options(self) -> dict[str, Any]:
        points = {} if self._where is None else {"public_points": self._where.tolist()}
        return {"kernel": self.kernel, "link": self.link, **points}


def drawn_sets(sample: FloatArray, most: int, rng: np.random.Generator) -> FloatArray:
    """(k, most, m) sets of points of the sample (N, m)."""
    count = max(1, min(_SETS, _NUMBERS // (most * sample.shape[1])))
    return sample[rng.integers(len(sample), size=(count, most))]


def designed(policy: ScorePolicy, sets: FloatArray, rng: np.random.Generator) -> ScorePolicy:
    """The policy with the directions Q of its reports and their response J (see the module).

    Args:
        policy: with any Q and J.
        sets: (k, c, m) features of public sets.
        rng: of public draws.
    """
    doubts = _best(policy, sets, rng) - _best(policy, sets, rng)
    values, vectors = np.linalg.eigh(doubts.T @ doubts)
    directions = np.eye(len(values))
    if values[-1] > 0.0:
        directions = (vectors * np.sqrt(np.maximum(values, 0.0) / values[-1])) @ vectors.T
    places = policy.best(sets, np.ones(sets.shape[:2], dtype=np.bool_))
    phi = sets[np.arange(len(sets)), places]
    linear = phi @ policy.mean
    rise = slope(policy.link, linear)
    length = residual_bounds(mean_reward(policy.link, linear), policy.limit)
    spread = rise * np.sqrt(np.sum((phi @ policy.root) ** 2, axis=1))
    # A residual that is cut does not answer any more.
    scale = rise / length * (2.0 * ndtr(length / np.maximum(spread, 1e-300)) - 1.0)
    response = (unit_directions(phi, directions) * scale[:, None]).T @ phi / len(phi)
    return replace(policy, directions=directions, response=response)


def _best(policy: ScorePolicy, sets: FloatArray, rng: np.random.Generator) -> FloatArray:
    """(k, m) features of the best point of each set, under a theta of its own."""
    normal = rng.standard_normal((len(sets), policy.root.shape[1]))
    theta = policy.mean + normal @ policy.root.T
    places = np.einsum("kcm,km->kc", sets, theta).argmax(axis=1)
    best: FloatArray = sets[np.arange(len(sets)), places]
    return best


def score_values(policy: ScorePolicy, sets: Any) -> ValuePosterior:
    """The values of decision sets under the posterior of a policy.

    With the logistic link mu(theta'phi) is not linear in theta: V is evaluated under public draws.
    """
    most = policy.space.most  # type: ignore[union-attr]
    people, phi = set_features(sets, policy.domain, most, policy.features, policy.norm)
    facts: dict[str, Any] = {
        "contexts": sets,
        "weights": np.full(len(people), 1.0 / len(people)),
        "where": f"the {len(people)} decision sets given",
        "model_error_average": MODEL_ERROR_AVERAGE,
        "model_error_unchosen": MODEL_ERROR_UNCHOSEN,
    }
    if policy.link == "linear":
        return linear_values(phi, Posterior(policy.mean, policy.root), 0.5, people.present, **facts)
    rng = np.random.default_rng([policy.public_seed, policy.version])
    normal = rng.standard_normal((policy.root.shape[1], _DRAWS))
    theta = policy.mean[:, None] + policy.root @ normal
    flat = phi.reshape(-1, phi.shape[2])
    parts = [
        mean_reward(policy.link, flat[start : start + _AT_ONCE] @ theta)
        for start in range(0, len(flat), _AT_ONCE)
    ]
    drawn = np.concatenate(parts).reshape(*phi.shape[:2], _DRAWS)
    scores = np.where(people.present, phi @ policy.mean, -np.inf)
    return ValuePosterior(
        expected=np.where(people.present, drawn.mean(axis=2), -np.inf),
        recommended=scores.argmax(axis=1),
        variance=lambda weights: float(np.tensordot(weights, drawn, 2).var(ddof=1)),
        deviations=lambda places: drawn[places].std(axis=2, ddof=1),
        **facts,
    )
