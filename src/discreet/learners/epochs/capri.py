"""CAPRI: covariance approximation with projected regression (Pavlovic et al. 2025).

Explore, release, eliminate, in epochs that double (Algorithm 1 of the paper):

    T_1 = ceil(sqrt T), X_1(c) = all arms                lines 2-3    `epoch_length`, `_active`
    for each epoch r:
        for each of T_r people:
            x_t ~ a design on X_r(c_t)                   lines 11-12  `design_probabilities`
            contribution of (c_t, x_t, y_t)              line 13      `Elimination.rows`
            LDP: plus noise                              line 14      `VectorReport`
        g = their sum                                    line 15
        JDP: g plus noise, once                          line 17      `EpochLearner._release`
        estimate of f from g, and its width              line 18      `survivors`; eq. 49
        X_(r+1)(c): arms that are not surely worse       lines 19-20  `survivors`
        T_(r+1) = 2 T_r                                  line 20      `epoch_length`

The paper estimates the covariance of an epoch from random sets S and R; here it is known, because
contexts have a public distribution (the sets are in the reproduction). Each person enters one
release, so none of the budget is divided by log T.

| calibration            | an arm is eliminated when                             | proof           |
|------------------------|-------------------------------------------------------|-----------------|
| `PosteriorElimination` | it is behind the best by z posterior deviations of    | none            |
|                        | their difference, under all releases together         |                 |
| `BernsteinElimination` | its upper bound from the last release is under        | with confidence |
|                        | another's lower bound                                 | 1 - failure     |

**Bernstein.** The estimate of an epoch is mu(w) = phi' Z^-1 (sum phi_t y_t) + phi' Z^(-1/2) noise
with Z = n Lambda + tau I, |y| <= B. Its distance from f(w) is at most the sum of

    ||(I - n Lambda Z^-1) phi|| ||f||                                    (ridge)
    (1 + sqrt(n) ||Z^(-1/2) phi||) sqrt(error) ||f||                     (features left out)
    sqrt(2 n v log(2/p)) + (4/3) b log(2/p)                              (sampling)
    sqrt(2 s) ||Z^(-1/2) phi|| sqrt(log(2/p)) (+ Bernstein's term)       (noise)

with v = B^2 sum rho (phi' Z^-1 phi_w)^2, b = B max_w |phi' Z^-1 phi_w|, s the variance of the noise
on each number, each with probability 1 - p; p = failure / (2 |W| epochs) for all at once. (Freedman
or Bernstein for sums of independent terms that lie within 2 b of their mean.)
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, ClassVar, Unpack

import numpy as np

from discreet.codec import Range, Shape
from discreet.gaussian import Posterior
from discreet.learners.base import ENDLESS, Calibration
from discreet.learners.epochs.contribution import (
    BOUND,
    ClippedContribution,
    best_contribution,
    contribution_candidates,
    covariance_axes,
    lengths,
    offered_doubt,
    plain_contribution,
    portions,
    second_moment,
    spreads,
)
from discreet.learners.epochs.learner import EpochCommon, EpochLearner
from discreet.learners.epochs.policy import (
    ActionTable,
    Decision,
    Design,
    EpochPolicy,
    design_probabilities,
)
from discreet.people.domain import Arms, Box
from discreet.privacy import Budget
from discreet.validation import BoolArray, FloatArray, InvalidInput

# Ridges that the rigorous rule chooses from, as multiples of n times the mean eigenvalue of Lambda.
_RIDGES = 10.0 ** np.arange(-6.0, 1.0, 0.5)
# Up to this many pairs are compared with each other one by one.
_MOST_COMPARED = 8192


class Elimination(Calibration):
    """How CAPRI measures and eliminates: public functions of releases.

    Attributes:
        design: the law of arms on the active ones (policy.py).
        last_greedy: whether people of an unfinished last epoch get the best arm.
    """

    design: Design
    last_greedy: ClassVar[bool] = True

    def noise_multiplier(self, learner: Capri, policy: EpochPolicy) -> float:
        """Noise on a release under that policy, as a multiple of its sensitivity."""
        return learner.budget.noise_multiplier

    @abstractmethod
    def contribution(
        self, learner: Capri, belief: Posterior, probabilities: FloatArray, people: int
    ) -> ClippedContribution:
        """What each of `people` people of the next epoch contributes."""

    @abstractmethod
    def survivors(self, learner: Capri, posterior: Posterior, active: BoolArray) -> BoolArray:
        """(N, K) the arms that stay, at least one in every context."""


@dataclass(frozen=True)
class PosteriorElimination(Elimination):
    """Elimination by deviations of the Gaussian posterior of all releases; no proof.

    Attributes:
        deviations: z; 1 loses best arms, 2 hardly ever does.
        design: `optimal` or `uniform`.
    """

    name: ClassVar[str] = "posterior"
    deviations: Annotated[float, Range(above=0.0)] = 2.0
    design: Design = "optimal"

    def contribution(
        self, learner: Capri, belief: Posterior, probabilities: FloatArray, people: int
    ) -> ClippedContribution:
        features, chances = learner.features, learner.chances(probabilities)
        candidates = contribution_candidates(belief, learner.pairs, chances, learner.noise_bound)
        weights = features.contexts.weights
        doubt = offered_doubt(features.table, weights, probabilities, belief.root)
        return best_contribution(
            candidates, belief, doubt, people, lambda size: learner.noise_variance(size, people)
        )

    def survivors(self, learner: Capri, posterior: Posterior, active: BoolArray) -> BoolArray:
        return active & within(learner.features.table, posterior, self.deviations, active)


def within(
    table: FloatArray,
    posterior: Posterior,
    deviations: float,
    active: BoolArray | None = None,
) -> BoolArray:
    """(N, K) arms within a number of posterior deviations of the best.

    Args:
        table: (N, K, m) features.
        posterior: of theta.
        deviations: of the difference to the best.
        active: (N, K) the arms among which the best is looked for; all by default.
    """
    mean = table @ posterior.mean
    if active is not None:
        mean = np.where(active, mean, -np.inf)
    best = mean.argmax(axis=1)
    places = np.arange(len(mean))
    behind = mean[places, best][:, None] - mean
    near: BoolArray = behind <= deviations * np.sqrt(spreads(table, posterior.root, best))
    near[places, best] = True
    return near


@dataclass(frozen=True)
class BernsteinElimination(Elimination):
    """Elimination by widths that hold with probability 1 - failure.

    Attributes:
        norm: a bound on the norm of f (rewards scaled to [0, 1], minus 1/2) in the kernel's RKHS.
        failure: the probability that any bound fails.
        design: `optimal` or `uniform`.
    """

    name: ClassVar[str] = "bernstein"
    norm: Annotated[float, Range(above=0.0)] = 1.0
    failure: Annotated[float, Range(above=0.0, below=1.0)] = 0.05
    design: Design = "optimal"

    def contribution(
        self, learner: Capri, belief: Posterior, probabilities: FloatArray, people: int
    ) -> ClippedContribution:
        """Contributions Z^(-1/2) phi y with the ridge tau that minimises the largest width."""
        chances, phi = learner.chances(probabilities), learner.pairs
        values, axes = covariance_axes(phi, chances)
        candidates = []
        for ridge in _RIDGES * people * values.mean():
            contribution = plain_contribution(
                axes / np.sqrt(people * values + ridge), phi[chances > 0.0]
            )
            width = self.widths(learner, contribution, chances, people)[chances > 0.0].max()
            candidates.append((contribution, width))
        return min(candidates, key=itemgetter(1))[0]

    def survivors(self, learner: Capri, posterior: Posterior, active: BoolArray) -> BoolArray:
        last = learner.last_estimate()
        if last is None:
            return active
        policy, people, estimate, chances = last
        width = self.widths(learner, policy.contribution, chances, people).reshape(active.shape)
        upper = np.where(active, estimate.reshape(active.shape) + width, -np.inf)
        lower = np.where(active, estimate.reshape(active.shape) - width, -np.inf)
        kept: BoolArray = active & (upper >= lower.max(axis=1, keepdims=True))
        return kept

    def widths(
        self, learner: Capri, contribution: ClippedContribution, chances: FloatArray, people: int
    ) -> FloatArray:
        """(N K,) widths of an epoch's estimate of f (see the module)."""
        phi = learner.pairs
        some = chances > 0.0
        turned = phi @ contribution.projection
        length = np.sqrt((turned**2).sum(axis=1))
        spread, largest = influence(turned, some, chances[some])
        # How many epochs that double from ceil(sqrt T) on there can be.
        assert learner.horizon is not None
        epochs = max(1, math.ceil(math.log2(math.sqrt(learner.horizon) + 1.0)))
        log = math.log(4.0 * len(phi) * epochs / self.failure)
        covariance = second_moment(phi[some], chances[some])
        seen = contribution.projection @ (contribution.projection.T @ (people * covariance))
        missed = lengths(phi, np.eye(len(seen)) - seen)
        left_out = math.sqrt(learner.error) * self.norm
        noise = learner.noise_variance(contribution.size, people) * contribution.clipping_norm**2
        width: FloatArray = (
            missed * self.norm
            + (1.0 + math.sqrt(people) * length) * left_out
            + np.sqrt(2.0 * people * spread * log)
            + 4.0 / 3.0 * largest * log
            + length * math.sqrt(2.0 * noise * log)
        )
        mechanism = learner.report_mechanism(contribution.size)
        if mechanism is not None:
            # Local reports are not Gaussian, but bounded: the largest is about sqrt(d variance).
            reach = contribution.clipping_norm * (
                1.0 + math.sqrt(contribution.size * mechanism.variance)
            )
            extra = people * contribution.clipping_norm**2 * mechanism.largest_variance
            width = width + length * (math.sqrt(2.0 * extra * log) + 4.0 / 3.0 * reach * log)
        return width


def influence(
    turned: FloatArray, offered: BoolArray, chances: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(w,) mean squares and (w,) maxima of |B turned' turned_w|, the influence of one person.

    Beyond 8192 pairs the maximum is bounded by the product of lengths (Cauchy and Schwarz): widths
    still hold, and time grows with pairs and not with their square.

    Args:
        turned: (w, d) Z^(-1/2) phi.
        offered: (w,) which pairs have a chance above 0.
        chances: (o,) of those.
    """
    others = turned if offered.all() else turned[offered]
    moment = second_moment(others, chances)
    square = np.einsum("wd,wd->w", turned @ moment, turned)
    if len(others) > _MOST_COMPARED:
        length = np.sqrt(np.einsum("wd,wd->w", turned, turned))
        return BOUND**2 * square, BOUND * length * length[offered].max()
    parts = [
        np.abs(turned[some] @ others.T).max(axis=1) for some in portions(len(turned), len(others))
    ]
    return BOUND**2 * square, BOUND * np.concatenate(parts)


class Capri(EpochLearner):
    """CAPRI: arms are eliminated between epochs that double.

    Args:
        horizon: T, the number of people; required.
        calibration: how arms are eliminated: `PosteriorElimination()` by default,
            `BernsteinElimination()` for widths with a proof.

    See `EpochLearner` for the others.
    """

    name: ClassVar[str] = "capri"
    calibrations = Elimination
    saved = (*EpochLearner.saved, "_active")
    _active: Annotated[BoolArray, Shape("N", "arms")]

    def __init__(
        self,
        domain: Box,
        arms: Arms,
        budget: Budget,
        *,
        calibration: Elimination | None = None,
        **common: Unpack[EpochCommon],
    ) -> None:
        self.calibration: Elimination = Elimination.checked(calibration)
        super().__init__(domain, arms, budget, **common)
        self._check_gaussian()
        if self.horizon is None or self.epoch_length(0) >= self.horizon:
            raise InvalidInput(
                f"horizon was {self.horizon}; {self.name} has epochs of ceil(sqrt(horizon)) people "
                "and more, so give a horizon of at least 3."
            )
        self._active = np.ones((len(self.features.contexts), self.arms), dtype=np.bool_)

    @property
    def active(self) -> BoolArray:
        """(N, K) the arms that are not eliminated; public."""
        return self._active.copy()

    def epoch_length(self, version: int) -> int:
        """Number of people in epoch `version`, counted from 0: 2^r ceil(sqrt T)."""
        assert self.horizon is not None
        return math.ceil(math.sqrt(self.horizon)) << version

    def _multiplier(self, policy: EpochPolicy) -> float:
        return self.calibration.noise_multiplier(self, policy)

    def _next(self, version: int, belief: Posterior) -> tuple[Decision, ClippedContribution, int]:
        rule, length = self.calibration, self.epoch_length(version)
        if version:
            self._active = rule.survivors(self, belief, self._active)
        table, weights = self.features.table, self.features.contexts.weights
        probabilities = design_probabilities(rule.design, table, weights, self._active)
        contribution = rule.contribution(self, belief, probabilities, length)
        if length > self.remaining:
            # The epoch would not end, so its reports are not needed.
            length = ENDLESS
            if rule.last_greedy:
                mean = np.where(self._active, table @ belief.mean, -np.inf)
                probabilities = np.eye(self.arms)[mean.argmax(axis=1)]
        return ActionTable(self.features, probabilities), contribution, length
