"""USCA: uniform sampling with covariance approximation (Pavlovic et al., January 2025).

One public design for T people, then private predictions. The paper draws arms uniformly, and Lambda
from a random set Z; here the design is D-optimal by default, and Lambda is known exactly.

    learning, for each of T people:                          Algorithm 1, lines 4-8
        x_t ~ a design that depends on no data               line 6         `_next`
        row turn' phi(w_t) y_t with turn turn' = Z^-1,       lines 9-14     `UscaCalibration.rows`
        Z = T Lambda + tau I; their sum g stays secret
    prediction, context c:
        mu(x, c) = phi(x, c)' turn g                         line 14, eq. 4 `_scores`
        arm in proportion to exp(epsilon mu / R(c))          Definition 3.2 `predict`

| `predictions` | a prediction for a context                                   | privacy          |
|---------------|--------------------------------------------------------------|------------------|
| None          | the best arm by the mean of one Gaussian release; any number | (epsilon, delta) |
| k             | exponential mechanism on mu(., c), with epsilon / k each     | epsilon, pure    |

**Range.** With a(x, c; w) = phi(x, c)' Z^-1 phi(w), replacing one person changes mu(., c) by
a(., c; w) y - a(., c; w') y', |y| <= b(w) <= B, whose range over arms is at most

    R(c) = 2 max over w in C x X of b(w) [max_x a(x, c; w) - min_x a(x, c; w)],

and, because rows lie in the unit ball for every w of any domain, at most
2 D max_(x, x') ||turn'(phi(x, c) - phi(x', c))||. The smaller of the two is used (the first only
where contexts form a finite set). Sampling arms in proportion to exp(epsilon mu / R(c)) is
epsilon-private (privacy/selection.py); the published scale is 4 B sup sigma^2. A `UscaCalibration`
may put rows and a scale of its own in their place: with a scale r a prediction then costs
max_c R(c) / r times what the budget has for it, and releases say so.

Where arms form a continuum, give a fine public grid of them as `ArmPoints`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike

from discreet.codec import Range, from_json
from discreet.gaussian import Posterior
from discreet.learners.base import ENDLESS, Calibration
from discreet.learners.epochs.contribution import (
    BOUND,
    ClippedContribution,
    covariance_axes,
    plain_contribution,
)
from discreet.learners.epochs.learner import EpochCommon, EpochLearner
from discreet.learners.epochs.policy import (
    ActionTable,
    Decision,
    Design,
    Greedy,
    design_probabilities,
)
from discreet.learners.epochs.sums import DATA, RESOLUTION
from discreet.people.domain import Arms, Box
from discreet.privacy import Budget, Release, Rounds
from discreet.privacy.accounting import PureEvent
from discreet.privacy.noise import NO_NOISE
from discreet.privacy.selection import ExponentialMechanism
from discreet.validation import BoolArray, FloatArray, IntArray, InvalidInput, whole_number

# Ridges to choose from, in units of reward variance / prior variance.
_RIDGES = 4.0 ** np.arange(-2.0, 7.0)
# Prior variance of f - 1/2, as a share of B^2, by which ridges are compared.
_PRIOR = 0.15
# Influences are computed for this many pairs of features at a time.
_AT_ONCE = 2**24


class UscaCalibration(Calibration):
    """How USCA measures and scales scores: functions of no one's data.

    Attributes:
        finite_only: whether it needs a number of predictions and a finite set of contexts.
    """

    finite_only: ClassVar[bool] = True

    @abstractmethod
    def contribution(self, learner: Usca, probabilities: FloatArray) -> ClippedContribution:
        """What each person contributes, if arms have the probabilities `probabilities` (N, K)."""

    @abstractmethod
    def score_range(self, learner: Usca, contribution: ClippedContribution) -> float | None:
        """A scale of scores in place of R(c); None for R(c) itself."""


@dataclass(frozen=True)
class ExactRange(UscaCalibration):
    """Rows with the ridge of the least expected error, and R(c) for scores."""

    name: ClassVar[str] = "exact_range"
    finite_only: ClassVar[bool] = False

    def contribution(self, learner: Usca, probabilities: FloatArray) -> ClippedContribution:
        assert learner.horizon is not None
        chances, phi, people = learner.chances(probabilities), learner.pairs, learner.horizon
        prior = _PRIOR * BOUND**2
        variance = learner.noise_bound**2 / 3.0 + prior
        values, axes = covariance_axes(phi, chances)
        candidates = []
        for ridge in _RIDGES * variance / prior:
            shrunk = people * values + ridge
            contribution = plain_contribution(axes / np.sqrt(shrunk), phi[chances > 0.0])
            # Errors of f: what the ridge leaves of the prior, who came, and the mechanism.
            error = prior * (ridge / shrunk) ** 2 + variance * people * values / shrunk**2
            if learner.predictions is None:
                noise = learner.noise_variance(contribution.size, people)
                error = error + noise * contribution.clipping_norm**2 / shrunk
            doubt = float(chances @ ((phi @ axes) ** 2 @ error))
            if learner.predictions is not None and learner.budget.private:
                epsilon = learner.budget.contribution_epsilon
                scale = learner.exact_range(contribution) * learner.predictions / epsilon
                doubt += float(learner.features.contexts.weights @ np.minimum(scale, 1.0) ** 2)
            candidates.append((contribution, doubt))
        return min(candidates, key=itemgetter(1))[0]

    def score_range(self, learner: Usca, contribution: ClippedContribution) -> None:
        return None


class Usca(EpochLearner):
    """USCA: learns by one design from `horizon` people, then predicts.

    Args:
        horizon: T, the number of people; required.
        predictions: the number of predictions that share the budget; None for any number, from one
            Gaussian release.
        design: `optimal` (context-wise D-optimal) or `uniform`, as published.
        calibration: rows and the scale of scores: `ExactRange()` by default. One with a scale of
            its own is for predictions from a finite set of contexts.

    See `EpochLearner` for the others.
    """

    name: ClassVar[str] = "usca"
    trust_models: ClassVar[tuple[str, ...]] = ("joint", "none")
    calibrations = UscaCalibration
    saved = (*EpochLearner.saved, "_drawn_by")
    # Number of predictions by the noise source that they were drawn from.
    _drawn_by: Mapping[str, Annotated[int, Range(0)]]

    def __init__(
        self,
        domain: Box,
        arms: Arms,
        budget: Budget,
        *,
        predictions: int | None = None,
        design: Design = "optimal",
        calibration: UscaCalibration | None = None,
        **common: Unpack[EpochCommon],
    ) -> None:
        if predictions is not None:
            whole_number(predictions, "predictions", minimum=1)
        self.predictions = predictions
        self.design: Design = from_json(design, Design, "design")
        self.calibration: UscaCalibration = UscaCalibration.checked(calibration)
        super().__init__(domain, arms, budget, **common)
        if predictions is None:
            self._check_gaussian()
        if self.horizon is None:
            raise InvalidInput(
                f"horizon was None; {self.name} learns from a number of people that is fixed "
                "beforehand, so give it as horizon."
            )
        finite = predictions is not None and self.features.contexts.exact
        if self.calibration.finite_only and not finite:
            raise InvalidInput(
                f"calibration was {calibration!r:.80} with predictions={predictions}; it needs a "
                "number of predictions, and contexts that form a finite set."
            )
        self._length = self.horizon
        # The mechanism of one prediction, refused now rather than when a prediction is spent.
        self.mechanism_of_one = (
            ExponentialMechanism(budget.contribution_epsilon / predictions)
            if predictions is not None and budget.private
            else None
        )
        self._drawn_by = {}
        self._ranges: tuple[FloatArray, FloatArray] | None = None

    @property
    def predictions_left(self) -> float:
        """Number of predictions that the budget still allows; infinity for a Gaussian release."""
        return np.inf if self.predictions is None else float(self.predictions - self.spent)

    @property
    def spent(self) -> int:
        """Number of predictions made so far."""
        return sum(self._drawn_by.values())

    def _spend(self, count: int) -> None:
        """Take predictions from the budget, in one step for all threads."""
        with self.lock:
            if self.spent + count > (self.predictions or 0):
                raise InvalidInput(
                    f"contexts asked for {count} predictions, but {self.spent} of "
                    f"{self.predictions} are spent; the budget allows no more."
                )
            name = NO_NOISE if self.noise is None else self.noise.name
            self._drawn_by = {**self._drawn_by, name: self._drawn_by.get(name, 0) + count}

    @property
    def batch_size(self) -> int:
        return ENDLESS if self.predictions is not None and self._policies else self._length

    def _next(self, version: int, belief: Posterior) -> tuple[Decision, ClippedContribution, int]:
        if version:
            best = Greedy(self.features, belief.mean)
            return best, self._policies[0].contribution, ENDLESS
        table, weights = self.features.table, self.features.contexts.weights
        everything: BoolArray = np.ones(table.shape[:2], dtype=np.bool_)
        probabilities = design_probabilities(self.design, table, weights, everything)
        return (
            ActionTable(self.features, probabilities),
            self.calibration.contribution(self, probabilities),
            self._length,
        )

    def exact_range(self, contribution: ClippedContribution) -> FloatArray:
        """(N,) R(c) at the tabulated contexts."""
        turned = self.features.table @ contribution.projection
        ranges = contribution.clipping_norm * _widest(turned)
        if self.features.contexts.exact:
            pairs = turned.reshape(-1, contribution.size).T * contribution.largest(self.pairs)
            most = max(1, _AT_ONCE // (self.arms * pairs.shape[1]))
            for start in range(0, len(turned), most):
                some = slice(start, start + most)
                influence = turned[some] @ pairs
                moved = (influence.max(axis=1) - influence.min(axis=1)).max(axis=1)
                ranges[some] = np.minimum(ranges[some], moved)
        return 2.0 * ranges

    def ranges(self, contexts: ArrayLike) -> FloatArray:
        """(n,) R(c) of contexts, including rounding; public."""
        unit = self.domain.people_to_unit(contexts)
        contribution = self.published(0).contribution
        norm = contribution.clipping_norm
        # A person's row is rounded by at most sqrt(d) 2^-31, twice for two records.
        slack = np.sqrt(contribution.size) / RESOLUTION
        if self.features.contexts.exact:
            self.features.contexts.check(unit)
            if self._ranges is None:
                turned = self.features.table @ contribution.projection
                reached = self.exact_range(contribution) + slack * norm * _widest(turned)
                self._ranges = reached, _longest(turned)
            places = self.features.contexts.places(unit)
            reached, length = self._ranges[0][places], self._ranges[1][places]
        else:
            turned = self.features.all(unit) @ contribution.projection
            reached, length = (2.0 + slack) * norm * _widest(turned), _longest(turned)
        # Scores are inner products with a sum of length `people` at most. Their rounding errors
        # differ between two sums, and between the largest and the least of the arms.
        rounding = 4.0 * (contribution.size + 2) * 2.0**-53 * self.people * norm
        ranges: FloatArray = (reached + rounding * length) * (1.0 + 1e-9)
        return ranges

    def _divisors(self, contexts: ArrayLike) -> FloatArray:
        """(n,) the scales of scores: R(c), unless the calibration has another."""
        divisor = self.calibration.score_range(self, self.published(0).contribution)
        if divisor is None:
            return self.ranges(contexts)
        return np.full(len(np.asarray(contexts)), divisor)

    @property
    def cost_of_one(self) -> float:
        """The epsilon of one prediction under the calibration's scale; public."""
        assert self.mechanism_of_one is not None
        if self.calibration.score_range(self, self.published(0).contribution) is None:
            return self.mechanism_of_one.epsilon
        where = self.domain.from_unit(self.features.contexts.points)
        share = float((self.ranges(where) / self._divisors(where)).max())
        return self.mechanism_of_one.epsilon * share

    def predict(self, contexts: ArrayLike) -> IntArray:
        """An arm for each of n new people; with `predictions` it spends n of them.

        Args:
            contexts: (n, d) their contexts. The arm is for the person alone, whose own context it
                does not hide from themselves.

        Raises:
            InvalidInput: before `horizon` people have been learnt from, or when the predictions
                are used up.
        """
        assert self.horizon is not None
        if self.people < self.horizon:
            raise InvalidInput(
                f"{self.people} people have been learnt from, but the horizon is {self.horizon}; "
                "predict when all of them have reported."
            )
        unit = self.domain.people_to_unit(contexts)
        self.features.contexts.check(unit)
        if self.predictions is None:
            return np.asarray(self.policy().decision.choose(unit, np.zeros(len(unit))))
        # Spent first: an interruption after the draw must not give the prediction back.
        self._spend(len(unit))
        scores = self._scores(unit)
        if self.mechanism_of_one is None:
            return np.asarray(scores.argmax(axis=1), dtype=np.int64)
        assert self.noise is not None
        return self.mechanism_of_one.select(scores, self._divisors(contexts), self.noise)

    def secret_probabilities(self, contexts: ArrayLike) -> FloatArray:
        """(n, K) the probabilities by which `predict` draws; SECRET, for simulation only."""
        unit = self.domain.people_to_unit(contexts)
        self.features.contexts.check(unit)
        scores = self._scores(unit)
        if self.mechanism_of_one is None:
            return np.asarray(np.eye(self.arms)[scores.argmax(axis=1)])
        return self.mechanism_of_one.probabilities(scores, self._divisors(contexts))

    def _scores(self, unit: FloatArray) -> FloatArray:
        """(n, K) mu(., c), from the secret sum of everybody."""
        contribution = self.published(0).contribution
        added = self._sums.epochs.get(0)
        total = np.zeros(contribution.size) if added is None else added.total / RESOLUTION
        return (
            self.features.all(unit) @ contribution.projection @ (contribution.clipping_norm * total)
        )

    def _central_releases(self) -> list[Release]:
        if self.mechanism_of_one is None:
            return super()._central_releases()
        if self.spent == 0:
            return []
        cost = self.cost_of_one
        where = self.domain.from_unit(self.features.contexts.points)
        return [
            Release(
                mechanism="exponential mechanism on the estimated reward of every arm",
                event=PureEvent(cost),
                sensitivity=float(self.ranges(where).max()),
                sensitivity_source="largest range over arms, over all pairs of contexts and arms",
                scale=cost,
                people=Rounds(0, max(1, self.people), self.budget.max_contributions),
                data=DATA,
                noise=name,
            )
            for name, count in self._drawn_by.items()
            for _ in range(count)
        ]

    def _restore(self, saved: dict[str, Any]) -> None:
        super()._restore(saved)
        if self.spent > (self.predictions or 0):
            raise InvalidInput(
                f"{self.spent} predictions were spent, more than the {self.predictions} there "
                "are; read the learner as save() wrote it."
            )


def _widest(turned: FloatArray) -> FloatArray:
    """(n,) the largest distance between two arms' vectors, from (n, K, d)."""
    # Around their mean: arms that are nearly the same would lose the digits of their distances.
    around = turned - turned.mean(axis=1, keepdims=True)
    squares = (around**2).sum(axis=2)
    inner = np.einsum("nkd,nld->nkl", around, around)
    apart = squares[:, :, None] + squares[:, None] - 2.0 * inner
    widest: FloatArray = np.sqrt(np.maximum(apart, 0.0).max(axis=(1, 2)))
    return widest


def _longest(turned: FloatArray) -> FloatArray:
    """(n,) the largest length of an arm's vector, from (n, K, d)."""
    longest: FloatArray = np.sqrt((turned**2).sum(axis=2).max(axis=1))
    return longest
