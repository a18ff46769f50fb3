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

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, ClassVar, Unpack

import numpy as np

from discreet.action_space import ArmPoints
from discreet.domain import Box
from discreet.learners.base import ArmLearner, Common
from discreet.learners.baselines.gradients.descent import Descent, Iterate
from discreet.learners.baselines.gradients.model import Model
from discreet.learners.baselines.gradients.policy import (
    GradientPolicy,
    GradientSourcePolicy,
    check_size,
)
from discreet.learners.baselines.gradients.privacy import GradientMechanism
from discreet.learners.baselines.gradients.reports import (
    GradientReports,
    GradientSums,
    SourceGradientReports,
)
from discreet.learners.schema import decode, encode
from discreet.learners.source_states import states_from_fields, states_to_fields
from discreet.learners.sources import SourceLearner, SourceState, check_source_epsilon
from discreet.privacy import Budget
from discreet.validation import (
    FloatArray,
    InvalidInput,
    finite_number,
    read_array,
)

# Sums of the same numbers in another order differ by less than this share.
_CLOSE = 1e-6


class GradientLearner(
    ArmLearner[GradientPolicy, GradientReports, GradientSums],
    SourceLearner[GradientSourcePolicy, SourceGradientReports],
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
    source_reports_type = SourceGradientReports
    policy_type: ClassVar[type[GradientPolicy]]
    source_policy_type: ClassVar[type[GradientSourcePolicy]]

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
        SourceLearner.__init__(self)
        super().__init__(domain, arms, budget, **common)
        self._mechanism = self._mechanism_of(self.budget.epsilon)
        self._delay = self.descent.delay(self.arms, self._mechanism.mean_square)
        start = self.model.start(self.arms, self.public_seed)
        self._iterate = Iterate(start, start)
        self._used = self._empty()
        self._heard, self._heard_weight = np.zeros_like(start), 0.0

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
        gradient = self._sums.gradients - self._used.gradients + self._heard
        weight = self._sums.reports - self._used.reports + self._heard_weight
        self._iterate = self._iterate.stepped(self.descent, gradient, weight, self._delay)
        self._used = self._sums
        self._heard, self._heard_weight = np.zeros_like(gradient), 0.0

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
        return self.descent.batch_after(self._source(name).published_at)

    def _publish_source(
        self, name: str, state: SourceState[GradientSourcePolicy]
    ) -> GradientSourcePolicy:
        self._advance()
        return self.source_policy_type(
            **self.source_header(name, state),
            parameters=self._iterate.parameters.copy(),
            mechanism_name=self.descent.mechanism,
        )

    def _check_source(self, policy: GradientSourcePolicy, reports: SourceGradientReports) -> None:
        policy.check(reports)

    def _add_source(
        self, name: str, policy: GradientSourcePolicy, reports: SourceGradientReports
    ) -> None:
        worth = self._mechanism.mean_square / policy.mechanism.mean_square
        self._heard = self._heard + worth * reports.gradients.sum(axis=0)
        self._heard_weight += worth * len(reports)

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

    def _shared_facts(self) -> dict[str, Any]:
        return {**super()._shared_facts(), "epsilon": self.budget.epsilon}

    def _options(self) -> dict[str, Any]:
        return asdict(self.descent)

    def _state(self) -> dict[str, Any]:
        return {
            "parameters": self._iterate.parameters.tolist(),
            "averages": self._iterate.averages.tolist(),
            "time": self._iterate.time,
            "used": encode(self._used),
            "heard": self._heard.tolist(),
            "heard_weight": self._heard_weight,
            "sources": states_to_fields(self._sources),
        }

    def _restore(self, fields: dict[str, Any]) -> None:
        self._iterate = Iterate(
            check_size(self._read(fields, "parameters"), "parameters"),
            check_size(self._read(fields, "averages"), "averages"),
            finite_number(fields["time"], "time"),
        )
        self._used = decode(fields["used"], GradientSums)
        self._heard = self._read(fields, "heard")
        self._heard_weight = finite_number(fields["heard_weight"], "heard_weight")
        self._check_sums(self._sums)
        self._check_sums(self._used)
        self._sources = states_from_fields(
            fields["sources"], self.source_policy_type, self.policy_header()
        )
        self._check_heard()

    def _check_heard(self) -> None:
        """Refuse weights and gradients that the reports of sources and target do not add up to."""
        worth, longest = 0.0, 0.0
        for name, state in self._sources.items():
            mechanism = self._mechanism_of(state.epsilon)
            if any(policy.mechanism != mechanism for policy in state.policies):
                raise InvalidInput(
                    f"a policy of source {name!r} had another mechanism than {mechanism}. The file "
                    "is damaged."
                )
            worth += self._mechanism.mean_square / mechanism.mean_square * state.people
            longest = max(longest, *mechanism.lengths)
        time, waiting = self._iterate.time, self._heard_weight
        # Every report counts once: in a step that was taken, or in the next one.
        total = self._used.reports + worth
        counted = min(time, waiting, self.people - self._used.reports) >= 0.0 and math.isclose(
            time + waiting, total, rel_tol=_CLOSE
        )
        most = waiting * longest * (1.0 + _CLOSE)
        if not counted or np.abs(self._heard).max() > most:
            raise InvalidInput(
                f"time was {time:g}, heard_weight {waiting:g}, heard at most "
                f"{np.abs(self._heard).max():g} in size, and {self._used.reports} of {self.people} "
                f"reports were used; weights of 0 or more must add up to {total:g}, heard to at "
                f"most {most:g}. The file is damaged."
            )

    def _read(self, fields: dict[str, Any], name: str) -> FloatArray:
        array: FloatArray = read_array(fields[name], name, "number", 2)
        if array.shape != self._used.gradients.shape:
            raise InvalidInput(
                f"{name} had shape {array.shape}; it must be {self._used.gradients.shape}."
            )
        return array
