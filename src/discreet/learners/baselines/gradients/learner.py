"""Learners that fit a model of each arm by descent on private gradients.

What reports are is in privacy.py, what a step is in descent.py, which model in linear.py and
neural.py. All of it reads reports that are private already, so none of it costs privacy.

Gradients are taken at the parameters of the policy under which people reported. Those that come
late, under an older policy, enter the next step as they are: they point a little behind.

People of sources report gradients for the arm that others gave them. They enter the same steps with
weights that account for their noise (descent.py), whenever they come; before the target's first
policy they give it a start, and count towards its warm-up. As published, nothing guards against
sources whose rewards differ from the target's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, ClassVar, Unpack

import numpy as np

from discreet.action_space import ArmPoints
from discreet.domain import Box
from discreet.learners.base import Common
from discreet.learners.baselines.gradients.descent import Descent, Iterate
from discreet.learners.baselines.gradients.model import Model
from discreet.learners.baselines.gradients.policy import (
    GradientPolicy,
    GradientSourcePolicy,
)
from discreet.learners.baselines.gradients.privacy import GradientMechanism
from discreet.learners.baselines.gradients.reports import (
    GradientReports,
    GradientSums,
)
from discreet.learners.sources import SourceLearner, check_source_epsilon
from discreet.learners.stream import Stream
from discreet.privacy import Budget
from discreet.validation import (
    InvalidInput,
)


class GradientLearner(
    SourceLearner[GradientPolicy, GradientReports, GradientSums, GradientSourcePolicy]
):
    """Greedy on a model of each arm that is fitted by stochastic gradient descent.

    Args:
        domain, arms: see `Learner`.
        budget: `Local(epsilon)`, or `NonPrivate()` for the same learner without noise.
        descent: step sizes, exploration and the mechanism of reports; in study files its
            attributes are options.

    Attributes:
        policy_type: the class of its policies.
        source_policy_type: the class of its source policies.
    """

    trust_models: ClassVar[tuple[str, ...]] = ("local", "none")
    reports_type = GradientReports
    statistics_type = GradientSums
    source_reports_type = GradientReports
    policy_type: ClassVar[type[GradientPolicy]]
    source_policy_type: ClassVar[type[GradientSourcePolicy]]
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
        descent: Descent | None = None,
        **common: Unpack[Common],
    ) -> None:
        if not isinstance(descent, Descent | None):
            raise InvalidInput(f"descent was {descent!r:.80}; pass Descent(..).")
        self.descent = descent or Descent()
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
        return GradientSums(np.zeros((self.arms, self.model.size)), reports=0)

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
        return self.policy_type(
            **self.policy_header(),
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
        found = statistics.gradients
        if found.shape != shape or not np.linalg.norm(found) <= most:
            raise InvalidInput(
                f"statistics had gradients of shape {found.shape} and length "
                f"{np.linalg.norm(found):g}; {statistics.reports} reports to this learner add up "
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
        return self.source_policy_type(
            **self.source_header(source),
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
        known = [field.name for field in fields(Descent)]
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise InvalidInput(
                f"{cls.name} got the option {unknown[0]!r}; its options are {', '.join(known)}."
            )
        return {"descent": Descent(**options)}

    def _options(self) -> dict[str, Any]:
        return asdict(self.descent)
