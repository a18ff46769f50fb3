"""Learners that fit a model of each arm by descent on private gradients.

| learner          | model of an arm (models.py) | source                                          |
|------------------|-----------------------------|-------------------------------------------------|
| `private_linear` | a logistic model            | Han et al. 2021, Algorithm 2; `Linear` of Ma    |
|                  |                             | et al. 2025, 4.2                                |
| `private_neural` | a small network             | `NN` of Ma et al. 2025, 4.2                     |

What a report is, is in policy.py. All that is here reads reports that are private already, so none
of it costs privacy.

    public coin      explores with probability `exploring`, then any arm equally likely    (public)
    otherwise   the best arm for the context under `averages`                         (private)
    report      the gradient of the person's loss at `parameters`, made private
    policy      one step with all gradients that came since the last one

Gradients are taken at the parameters of the policy under which people reported. Those that come
late, under an older policy, enter the next step as they are: they point a little behind.

People of sources report gradients for the arm that others gave them. They enter the same steps with
weights that account for their noise, whenever they come; before the target's first policy they give
it a start, and count towards its warm-up. As published, nothing guards against sources whose
rewards differ from the target's.

**A step** is taken with all gradients that came.

| symbol | meaning                                                                             |
|--------|-------------------------------------------------------------------------------------|
| G      | (K, p) the sum of the gradients that came since the last step                       |
| w      | their weight: how many reports of the target they are worth                         |
| t      | the weight of all gradients so far, those of this step included                     |
| v      | the mean square of one number of the target's reports                               |

    theta   <- theta - eta G,    eta = min(c / (t + t0), 4 / w),    c = step K,
                                 t0 = v (c / scale)^2,
    average <- average + a (theta - average),    a = min(1, (1 + q) w / (t + q w)).

c / t is the usual step for strongly convex losses; an arm gets about one in K people, hence K. The
delay t0 keeps what noise does to a parameter, about c sqrt(v t) / (t + t0), below `scale`: eta is
then the gain of a Kalman filter whose prior has that deviation. The curvature of a weighted loss is
at most |J| / 4, so much longer steps than 4 / w would overshoot. No parameter leaves
[-10^6, 10^6] (models.py). The average has weights that grow like t^q (Shamir and Zhang 2013); q = 0
is none.

Reports of a source have mean square v_m and count v / v_m each, in G as in w: the weights that make
the noise of an average least.

| array      | shape     | meaning                                                                 |
|------------|-----------|-------------------------------------------------------------------------|
| parameters | (K, p)    | theta, at which gradients are taken                                     |
| averages   | (K, p)    | averaged parameters, by which arms are chosen                           |
| coins      | (n,)      | they say in public who explores, and with which arm                     |
| gradients  | (n, K, p) | private gradients of one loss each: one row of p numbers for every arm  |
| (sums)     | (K, p)    | the sum of the gradients of all people, whatever their policies         |
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np

from discreet.codec import Range, Shape
from discreet.learners.base import ArmLearner, Calibration, Common, read_options
from discreet.learners.policy import check_source_epsilon
from discreet.learners.stream import Stream
from discreet.papers.ma2025.learners.gradients.models import (
    LARGEST,
    LinearModel,
    Model,
    NetworkModel,
)
from discreet.papers.ma2025.learners.gradients.policy import (
    GradientMechanism,
    GradientPolicy,
    GradientReports,
    GradientSums,
    MechanismName,
)
from discreet.people.domain import Arms, Box
from discreet.privacy import Budget
from discreet.validation import FloatArray, InvalidInput, whole_number

# The default of `warm_up` is the first plus this share of t0: some explore even without noise.
_LEAST_WARM_UP = 50.0
_WARM_UP_SHARE = 0.3
# A step is at most this over w (see above).
_LONGEST = 4.0


@dataclass(frozen=True)
class Descent(Calibration):
    """The settings; the defaults were tuned in simulation.

    Attributes:
        step: c / K. Larger follows the gradients faster and the noise too.
        scale: how far parameters are expected to lie from where they start.
        warm_up: this many people of the target explore at first; afterwards the share of
            people who do is warm_up / t (Auer, Cesa-Bianchi and Fischer 2002). By default
            50 + 0.3 t0.
        averaging: q.
        mechanism: `l2_ball` (Duchi, Jordan and Wainwright 2018, as published), or `privunit`,
            which has less noise, at epsilon 4 less than a third of the variance.
        batch: least number of reports between two policies.
        growth: later, that number is this share of all reports so far.
    """

    name: ClassVar[str] = "descent"

    step: Annotated[float, Range(above=0.0)] = 8.0
    scale: Annotated[float, Range(above=0.0)] = 1.0
    warm_up: Annotated[float, Range(0.0)] | None = None
    averaging: Annotated[float, Range(0.0)] = 8.0
    mechanism: MechanismName = "l2_ball"
    batch: Annotated[int, Range(1)] = 200
    growth: Annotated[float, Range(above=0.0)] = 0.02

    def delay(self, arms: int, mean_square: float) -> float:
        """t0, with `mean_square` for v."""
        return mean_square * (self.step * arms / self.scale) ** 2

    def exploring(self, time: float, delay: float) -> float:
        """The share of people who explore at t = `time`."""
        warm_up = self.warm_up
        if warm_up is None:
            warm_up = _LEAST_WARM_UP + _WARM_UP_SHARE * delay
        if time <= warm_up or time == 0.0:
            return 1.0
        return warm_up / time

    def batch_after(self, people: int) -> int:
        """How many reports the next policy waits for, when this many came before the last one."""
        return max(self.batch, int(self.growth * people))


@dataclass(frozen=True, eq=False)
class Iterate:
    """Where the descent is.

    Attributes:
        parameters: (K, p) theta.
        averages: (K, p).
        time: t.
    """

    parameters: Annotated[FloatArray, Shape("K", "p"), Range(-LARGEST, LARGEST)]
    averages: Annotated[FloatArray, Shape("K", "p"), Range(-LARGEST, LARGEST)]
    time: Annotated[float, Range(0.0)] = 0.0

    def stepped(
        self, descent: Descent, gradient: FloatArray, weight: float, delay: float
    ) -> Iterate:
        """After one step; see the module. A weight of 0 means that nothing came."""
        if weight <= 0.0:
            return self
        arms = len(self.parameters)
        time = self.time + weight
        rate = min(descent.step * arms / (time + delay), _LONGEST / weight)
        parameters = np.clip(self.parameters - rate * gradient, -LARGEST, LARGEST)
        q = descent.averaging
        share = min(1.0, (1.0 + q) * weight / (time + q * weight)) if q > 0.0 else 1.0
        averages = self.averages + share * (parameters - self.averages)
        averages = np.clip(averages, -LARGEST, LARGEST)  # rounding could go a little beyond
        return replace(self, parameters=parameters, averages=averages, time=time)


class GradientLearner(ArmLearner[GradientPolicy, GradientReports, GradientSums]):
    """Greedy on a model of each arm that is fitted by stochastic gradient descent.

    Args:
        domain, arms: see `Learner`.
        budget: `Local(epsilon)`, or `NonPrivate()` for the same learner without noise.
        calibration: step sizes, exploration and the mechanism of reports: a `Descent`.
    """

    trust_models: ClassVar[tuple[str, ...]] = ("local", "none")
    reports_type = GradientReports
    statistics_type = GradientSums
    takes_sources: ClassVar[bool] = True
    saved = ("_iterate", "_used", "_used_of_sources")
    _iterate: Iterate
    _used: GradientSums
    _used_of_sources: dict[str, GradientSums]

    def __init__(
        self,
        domain: Box,
        arms: Arms,
        budget: Budget,
        *,
        calibration: Descent | None = None,
        **common: Unpack[Common],
    ) -> None:
        self.calibration = Descent.checked(calibration)
        super().__init__(domain, arms, budget, **common)
        self._mechanism = self._mechanism_of(self.budget.contribution_epsilon)
        self._delay = self.calibration.delay(self.arms, self._mechanism.mean_square)
        start = self.model.start(self.arms, self.public_seed)
        self._iterate = Iterate(start, start)
        self._used = self._empty()
        self._used_of_sources = {}

    @property
    @abstractmethod
    def model(self) -> Model:
        """The model of an arm."""

    def _mechanism_of(self, epsilon: float) -> GradientMechanism:
        return GradientMechanism(self.arms, self.model.size, epsilon, self.calibration.mechanism)

    def _empty(self) -> GradientSums:
        return GradientSums(gradients=np.zeros((self.arms, self.model.size)), reports=0)

    @property
    def batch_size(self) -> int:
        return self.calibration.batch_after(self._published_at)

    def _advance(self) -> None:
        """One step with everything that came since the last one."""
        gradient = self._sums.gradients - self._used.gradients
        weight = float(self._sums.reports - self._used.reports)
        for name, source in self._sources.items():
            used, worth = self._used_of_sources.get(name, self._empty()), self._worth(source)
            gradient = gradient + worth * (source._sums.gradients - used.gradients)
            weight += worth * (source.people - used.reports)
            self._used_of_sources[name] = source._sums
        self._iterate = self._iterate.stepped(self.calibration, gradient, weight, self._delay)
        self._used = self._sums

    def _worth(self, source: Stream[GradientPolicy, GradientSums]) -> float:
        """How much a report of a source counts, by its noise."""
        mechanism = self._mechanism_of(source.budget.epsilon)
        return self._mechanism.mean_square / mechanism.mean_square

    def _publish(self) -> GradientPolicy:
        self._advance()
        return GradientPolicy(
            **self.policy_header(),
            model=self.model,
            parameters=self._iterate.parameters,
            averages=self._iterate.averages,
            exploring=self.calibration.exploring(self._iterate.time, self._delay),
            epsilon=self.budget.contribution_epsilon,
            mechanism_name=self.calibration.mechanism,
        )

    def _statistics(self, policy: GradientPolicy, reports: GradientReports) -> GradientSums:
        return policy.sums(reports)

    def _check_sums(self, statistics: GradientSums) -> None:
        self._check_length(self._mechanism, statistics)

    def _check_length(self, mechanism: GradientMechanism, statistics: GradientSums) -> None:
        shape = (self.arms, self.model.size)
        most = statistics.reports * max(mechanism.lengths) * (1.0 + 1e-6)
        total = statistics.gradients
        if total.shape != shape or not np.linalg.norm(total) <= most:
            raise InvalidInput(
                f"statistics had gradients of shape {total.shape} and length "
                f"{np.linalg.norm(total):g}; {statistics.reports} reports to this learner add up "
                f"to shape {shape} and at most {most:g}."
            )

    # Sources.

    def open_source(self, name: str, epsilon: float) -> Stream[GradientPolicy, GradientSums]:
        """As `Learner`; `InvalidInput` also for an epsilon too small for the mechanism."""
        self._mechanism_of(check_source_epsilon(epsilon))
        return super().open_source(name, epsilon)

    def _source_batch(self, source: Stream[GradientPolicy, GradientSums]) -> int:
        return self.calibration.batch_after(source.published_at)

    def _check_source_sums(
        self, source: Stream[GradientPolicy, GradientSums], statistics: GradientSums
    ) -> None:
        self._check_length(self._mechanism_of(source.budget.epsilon), statistics)

    def _publish_source(self, source: Stream[GradientPolicy, GradientSums]) -> GradientPolicy:
        self._advance()
        return GradientPolicy(
            **self.policy_header(source),
            model=self.model,
            parameters=self._iterate.parameters,
            mechanism_name=self.calibration.mechanism,
        )

    # Options and state.

    @classmethod
    def read_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        return read_options(cls, options, Descent)

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), **self.calibration.to_options()}


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
        arms: Arms,
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
