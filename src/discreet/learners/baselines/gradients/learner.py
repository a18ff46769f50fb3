"""Learners that fit a model of each arm by descent on private gradients.

| learner          | model of an arm (models.py) | source                                          |
|------------------|-----------------------------|-------------------------------------------------|
| `private_linear` | a logistic model            | Han et al. 2021, Algorithm 2; `Linear` of Ma    |
|                  |                             | et al. 2025, 4.2                                |
| `private_neural` | a small network             | `NN` of Ma et al. 2025, 4.2                     |

What a report is and what a step is, is in descent.py. All of it reads reports that are private
already, so none of it costs privacy.

    ticket      explores with probability `exploring`, then any arm equally likely    (public)
    otherwise   the best arm for the context under `averages`                         (private)
    report      the gradient of the person's loss at `parameters`, made private
    policy      one step with all gradients that came since the last one

Gradients are taken at the parameters of the policy under which people reported. Those that come
late, under an older policy, enter the next step as they are: they point a little behind.

People of sources report gradients for the arm that others gave them. They enter the same steps with
weights that account for their noise, whenever they come; before the target's first policy they give
it a start, and count towards its warm-up. As published, nothing guards against sources whose
rewards differ from the target's.

| array      | shape     | meaning                                                                 |
|------------|-----------|-------------------------------------------------------------------------|
| parameters | (K, p)    | theta, at which gradients are taken                                     |
| averages   | (K, p)    | averaged parameters, by which arms are chosen                           |
| tickets    | (n,)      | they say in public who explores, and with which arm                     |
| gradients  | (n, K, p) | private gradients of one loss each: one row of p numbers for every arm  |
| (sums)     | (K, p)    | the sum of the gradients of all people, whatever their policies         |
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np

from discreet.action_space import ArmPoints
from discreet.codec import Range, Shape
from discreet.domain import Box
from discreet.learners.base import Common
from discreet.learners.baselines.gradients.descent import Descent, GradientMechanism, Iterate
from discreet.learners.baselines.gradients.models import (
    LARGEST,
    LinearModel,
    Model,
    NetworkModel,
)
from discreet.learners.calibration import read_options
from discreet.learners.messages import TICKETS, Actions, ArmPolicy, Reports, Statistics
from discreet.learners.public_randomness import public_uniforms
from discreet.learners.sources import SourceLearner, SourcePolicy, check_source_epsilon
from discreet.learners.stream import Stream
from discreet.privacy import Budget, NoiseSource, Release
from discreet.privacy.accounting import PureEvent
from discreet.privacy.noise import NO_NOISE
from discreet.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    InvalidInput,
    TicketArray,
    whole_number,
)

_DATA = "the context, the arm and the reward, as the gradient of a loss"
_ANY_TWO = "gradients have length at most 1, so any two lie at most 2 apart, whatever their arms"
# Places of public randomness.
_WHETHER, _WHICH = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)

Parameters = Annotated[FloatArray, Shape("arms", "model.size"), Range(-LARGEST, LARGEST)]


@dataclass(frozen=True, eq=False)
class GradientReports(Reports):
    """The private gradients of n people (see the module's table).

    Attributes:
        tickets: None for people of a source, whose arms no ticket chose.
    """

    kind: ClassVar[str] = "gradient-reports"

    tickets: Annotated[TicketArray, Shape("n"), Range(0, TICKETS - 1)] | None
    gradients: Annotated[FloatArray, Shape("n", "K", "p")]

    def __len__(self) -> int:
        return len(self.gradients)


@dataclass(frozen=True, eq=False, kw_only=True)
class GradientSums(Statistics):
    """The sum of gradients (K, p), and of how many people."""

    kind: ClassVar[str] = "gradient-sums"

    gradients: Annotated[FloatArray, Shape("K", "p")]


@dataclass(frozen=True, eq=False)
class GradientPolicy(ArmPolicy):
    """See the module.

    Attributes:
        model: of an arm.
        parameters: (K, p).
        averages: (K, p).
        exploring: the probability with which a ticket gives an arm at random.
        epsilon: budget of one report; infinity for a non-private reference.
        mechanism_name: `l2_ball` or `privunit`.
    """

    kind: ClassVar[str] = "gradient-policy"

    model: Model
    parameters: Parameters
    averages: Parameters
    exploring: Annotated[float, Range(0.0, 1.0)]
    epsilon: Annotated[float, Range(above=0.0, infinite=True)]
    mechanism_name: str

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_parts(self)

    @cached_property
    def mechanism(self) -> GradientMechanism:
        """How reports are made private."""
        return GradientMechanism(self.arms, self.model.size, self.epsilon, self.mechanism_name)

    def lots(self, tickets: TicketArray) -> tuple[BoolArray, IntArray]:
        """(n,) whether each ticket explores, and (n,) the arm that it gives if it does."""
        whether = public_uniforms(self.public_seed, self.version, tickets, _WHETHER)
        which = public_uniforms(self.public_seed, self.version, tickets, _WHICH)
        explorers: BoolArray = whether < self.exploring
        return explorers, np.minimum((which * self.arms).astype(np.int64), self.arms - 1)

    def _best(self, unit: FloatArray) -> IntArray:
        best: IntArray = self.model.logits(self.averages, unit).argmax(axis=1)
        return best

    def _probabilities(self, unit: FloatArray) -> FloatArray:
        shares = np.full((len(unit), self.arms), self.exploring / self.arms)
        shares[np.arange(len(unit)), self._best(unit)] += 1.0 - self.exploring
        return shares

    def _choose(self, unit: FloatArray, tickets: TicketArray) -> tuple[IntArray, FloatArray]:
        explorers, given = self.lots(tickets)
        best = self._best(unit)
        arms = np.where(explorers, given, best)
        share = self.exploring / self.arms
        return arms, np.where(arms == best, share + (1.0 - self.exploring), share)

    @property
    def reports_are_private(self) -> bool:
        return True

    def _report(
        self, unit: FloatArray, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> GradientReports:
        """One private gradient each, for the arm that each says they got.

        Someone who explores was given an arm by their ticket, in public, so their report is for
        that arm whatever they say. The mechanism hides any other arm (privacy.py).
        """
        explorers, given = self.lots(actions.tickets)
        arms = np.where(explorers, given, actions.arms)
        vectors = self.model.gradients(self.parameters, unit, arms, rewards)
        return GradientReports(
            **self.origin(noise.name if self.mechanism.private else NO_NOISE),
            tickets=actions.tickets,
            gradients=self.mechanism.privatise(vectors, arms, explorers, noise),
        )

    def sums(self, reports: GradientReports) -> GradientSums:
        """What reports of this policy add; `InvalidInput` if it cannot have made them."""
        if reports.tickets is None:
            raise InvalidInput("reports had no tickets; send them as the policy made them.")
        explorers, given = self.lots(reports.tickets)
        self.mechanism.check(reports.gradients, given, explorers)
        return GradientSums(gradients=reports.gradients.sum(axis=0), reports=len(reports))

    def release(self, noise: str) -> Release | None:
        if not self.mechanism.private:
            return self.as_it_is(_DATA)
        return Release(
            mechanism=f"{self.mechanism.of_matrix.mechanism}; for those who explore on "
            f"{self.model.size} of them",
            event=PureEvent(self.epsilon),
            sensitivity=self.mechanism.of_matrix.sensitivity,
            sensitivity_source=_ANY_TWO,
            scale=self.epsilon,
            people=self.group,
            data=_DATA,
            noise=noise,
        )


@dataclass(frozen=True, eq=False)
class GradientSourcePolicy(SourcePolicy):
    """How the people of a source report: gradients at these parameters, whose arm is private.

    Attributes:
        model: of an arm.
        parameters: (K, p).
        mechanism_name: `l2_ball` or `privunit`.
    """

    kind: ClassVar[str] = "gradient-source-policy"

    model: Model
    parameters: Parameters
    mechanism_name: str

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_parts(self)

    @cached_property
    def mechanism(self) -> GradientMechanism:
        """How reports are made private."""
        return GradientMechanism(self.arms, self.model.size, self.epsilon, self.mechanism_name)

    def _report(
        self, unit: FloatArray, arms: IntArray, rewards: FloatArray, noise: NoiseSource
    ) -> GradientReports:
        vectors = self.model.gradients(self.parameters, unit, arms, rewards)
        hidden = np.zeros(len(unit), dtype=np.bool_)
        gradients = self.mechanism.privatise(vectors, arms, hidden, noise)
        return GradientReports(**self.origin(noise.name), tickets=None, gradients=gradients)

    def sums(self, reports: GradientReports) -> GradientSums:
        """What reports of this policy add; `InvalidInput` if it cannot have made them."""
        people = len(reports)
        hidden = np.zeros(people, dtype=np.bool_)
        self.mechanism.check(reports.gradients, np.zeros(people, dtype=np.int64), hidden)
        return GradientSums(gradients=reports.gradients.sum(axis=0), reports=people)

    def release(self, noise: str) -> Release:
        return Release(
            mechanism=self.mechanism.of_matrix.mechanism,
            event=PureEvent(self.epsilon),
            sensitivity=self.mechanism.of_matrix.sensitivity,
            sensitivity_source=_ANY_TWO,
            scale=self.epsilon,
            people=self.group,
            data=_DATA,
            noise=noise,
        )


def _check_parts(policy: GradientPolicy | GradientSourcePolicy) -> None:
    """Refuse a model for other contexts, or a mechanism that there is not, on arrival."""
    if policy.model.dimension != policy.domain.dimension:
        raise InvalidInput(
            f"the model of a policy reads {policy.model.dimension} columns; contexts have "
            f"{policy.domain.dimension}."
        )
    _ = policy.mechanism


class GradientLearner(
    SourceLearner[GradientPolicy, GradientReports, GradientSums, GradientSourcePolicy]
):
    """Greedy on a model of each arm that is fitted by stochastic gradient descent.

    Args:
        domain, arms: see `Learner`.
        budget: `Local(epsilon)`, or `NonPrivate()` for the same learner without noise.
        calibration: step sizes, exploration and the mechanism of reports: a `Descent`.
    """

    trust_models: ClassVar[tuple[str, ...]] = ("local", "none")
    reports_type = GradientReports
    statistics_type = GradientSums
    source_reports_type = GradientReports
    source_policy_type = GradientSourcePolicy
    saved = ("_iterate", "_used", "_used_of_sources")
    _iterate: Iterate
    _used: GradientSums
    _used_of_sources: dict[str, GradientSums]

    def __init__(
        self,
        domain: Box,
        arms: int | ArmPoints,
        budget: Budget,
        *,
        calibration: Descent | None = None,
        **common: Unpack[Common],
    ) -> None:
        self.calibration = self.descent = Descent.checked(calibration)
        super().__init__(domain, arms, budget, **common)
        self._mechanism = self._mechanism_of(self.budget.epsilon)
        self._delay = self.descent.delay(self.arms, self._mechanism.mean_square)
        start = self.model.start(self.arms, self.public_seed)
        self._iterate = Iterate(start, start)
        self._used = self._empty()
        self._used_of_sources = {}

    @property
    @abstractmethod
    def model(self) -> Model:
        """The model of an arm."""

    def _mechanism_of(self, epsilon: float) -> GradientMechanism:
        return GradientMechanism(self.arms, self.model.size, epsilon, self.descent.mechanism)

    def _empty(self) -> GradientSums:
        return GradientSums(gradients=np.zeros((self.arms, self.model.size)), reports=0)

    @property
    def batch_size(self) -> int:
        return self.descent.batch_after(self._published_at)

    def _advance(self) -> None:
        """One step with everything that came since the last one."""
        gradient = self._sums.gradients - self._used.gradients
        weight = float(self._sums.reports - self._used.reports)
        for name, source in self._sources.items():
            used, worth = self._used_of_sources.get(name, self._empty()), self._worth(source)
            gradient = gradient + worth * (source.sums.gradients - used.gradients)
            weight += worth * (source.people - used.reports)
            self._used_of_sources[name] = source.sums
        self._iterate = self._iterate.stepped(self.descent, gradient, weight, self._delay)
        self._used = self._sums

    def _worth(self, source: Stream[GradientSourcePolicy, GradientSums]) -> float:
        """How much a report of a source counts, by its noise."""
        mechanism = self._mechanism_of(source.budget.epsilon)
        return self._mechanism.mean_square / mechanism.mean_square

    def _publish(self) -> GradientPolicy:
        self._advance()
        return GradientPolicy(
            **self.policy_header(),
            model=self.model,
            parameters=self._iterate.parameters.copy(),
            averages=self._iterate.averages.copy(),
            exploring=self.descent.exploring(self._iterate.time, self._delay),
            epsilon=self.budget.epsilon,
            mechanism_name=self.descent.mechanism,
        )

    def _statistics(self, policy: GradientPolicy, reports: GradientReports) -> GradientSums:
        return policy.sums(reports)

    def _check_sums(self, statistics: GradientSums) -> None:
        shape = (self.arms, self.model.size)
        most = statistics.reports * max(self._mechanism.lengths) * (1.0 + 1e-6)
        total = statistics.gradients
        if total.shape != shape or not np.linalg.norm(total) <= most:
            raise InvalidInput(
                f"statistics had gradients of shape {total.shape} and length "
                f"{np.linalg.norm(total):g}; {statistics.reports} reports to this learner add up "
                f"to shape {shape} and at most {most:g}."
            )

    # Sources.

    def open_source(self, name: str, epsilon: float) -> None:
        """As `SourceLearner`; `InvalidInput` also for an epsilon too small for the mechanism."""
        self._mechanism_of(check_source_epsilon(epsilon))
        super().open_source(name, epsilon)

    def source_batch(self, name: str) -> int:
        return self.descent.batch_after(self.source(name).published_at)

    def _empty_source(self) -> GradientSums:
        return self._empty()

    def _publish_source(
        self, source: Stream[GradientSourcePolicy, GradientSums]
    ) -> GradientSourcePolicy:
        self._advance()
        return GradientSourcePolicy(
            **self.source_header(source),
            model=self.model,
            parameters=self._iterate.parameters.copy(),
            mechanism_name=self.descent.mechanism,
        )

    def _source_statistics(
        self, policy: GradientSourcePolicy, reports: GradientReports
    ) -> GradientSums:
        return policy.sums(reports)

    # Options and state.

    @classmethod
    def read_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        return read_options(cls, options, Descent)

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), **self.descent.to_options()}


class PrivateLinear(GradientLearner):
    """The locally private generalized linear bandit (options: `GradientLearner`)."""

    name: ClassVar[str] = "private_linear"

    @property
    def model(self) -> Model:
        return LinearModel(self.domain.dimension)


class PrivateNeural(GradientLearner):
    """`private_linear` with a network for each arm.

    Args:
        hidden: H, the number of hidden units of an arm.

    See `GradientLearner` for the others.
    """

    name: ClassVar[str] = "private_neural"

    def __init__(
        self,
        domain: Box,
        arms: int | ArmPoints,
        budget: Budget,
        *,
        hidden: int = 8,
        calibration: Descent | None = None,
        **common: Unpack[Common],
    ) -> None:
        self.hidden = whole_number(hidden, "hidden", minimum=1)
        super().__init__(domain, arms, budget, calibration=calibration, **common)

    @property
    def model(self) -> Model:
        return NetworkModel(self.domain.dimension, self.hidden)
