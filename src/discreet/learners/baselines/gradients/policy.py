"""Policies of the gradient learners: greedy on a model of each arm, with public exploration.

| array      | shape  | meaning                                              |
|------------|--------|------------------------------------------------------|
| parameters | (K, p) | theta, at which gradients are taken (model.py)       |
| averages   | (K, p) | averaged parameters, by which arms are chosen        |

A ticket says in public whether its person explores, with probability `exploring`, and then which
arm they get, each equally likely. Everyone else gets the best arm for their context under
`averages`, which is private. What leaves them is one private gradient (privacy.py has the claim).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from discreet.learners.baselines.gradients.model import LARGEST, Model
from discreet.learners.baselines.gradients.privacy import GradientMechanism
from discreet.learners.baselines.gradients.reports import (
    GradientReports,
    GradientSums,
)
from discreet.learners.messages import Actions, ArmPolicy
from discreet.learners.public_randomness import public_uniforms
from discreet.learners.sources import SourcePolicy
from discreet.privacy import NoiseSource, Release
from discreet.privacy.accounting import PureEvent
from discreet.privacy.noise import NO_NOISE
from discreet.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    InvalidInput,
    TicketArray,
    finite_number,
    positive_number,
    read_array,
)

_DATA = "the context, the arm and the reward, as the gradient of a loss"
_ANY_TWO = "gradients have length at most 1, so any two lie at most 2 apart, whatever their arms"
# Places of public randomness.
_WHETHER, _WHICH = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class GradientPolicy(ArmPolicy):
    """See the module.

    Attributes:
        parameters: (K, p).
        averages: (K, p).
        exploring: the probability with which a ticket gives an arm at random, from 0 to 1.
        epsilon: budget of one report; infinity for a non-private reference.
        mechanism_name: `l2_ball` or `privunit`.
        model_type: the class of the model.
    """

    parameters: FloatArray
    averages: FloatArray
    exploring: float
    epsilon: float
    mechanism_name: str

    model_type: ClassVar[type[Model]]

    @cached_property
    def model(self) -> Model:
        """The model of an arm."""
        return self.model_type.of_size(self.domain.dimension, self.parameters.shape[1])

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
        return GradientSums(reports.gradients.sum(axis=0), reports=len(reports))

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

    def to_fields(self) -> dict[str, Any]:
        return {
            **self.header(),
            "parameters": self.parameters.tolist(),
            "averages": self.averages.tolist(),
            "exploring": self.exploring,
            "epsilon": None if math.isinf(self.epsilon) else self.epsilon,
            "mechanism": self.mechanism_name,
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        header = cls.read_header(fields)
        dimension, arms = header["domain"].dimension, header["arms"]
        exploring = finite_number(fields["exploring"], "exploring", "from 0 to 1")
        if not 0.0 <= exploring <= 1.0:
            raise InvalidInput(f"exploring was {exploring!r}; it must be from 0 to 1.")
        epsilon = fields["epsilon"]
        policy = cls(
            **header,
            parameters=read_parameters(fields, "parameters", cls.model_type, dimension, arms),
            averages=read_parameters(fields, "averages", cls.model_type, dimension, arms),
            exploring=exploring,
            epsilon=math.inf if epsilon is None else positive_number(epsilon, "epsilon"),
            mechanism_name=fields["mechanism"],
        )
        if policy.averages.shape != policy.parameters.shape:
            raise InvalidInput(
                f"averages had shape {policy.averages.shape}, parameters "
                f"{policy.parameters.shape}; send the policy as it was made."
            )
        _ = policy.mechanism
        return policy


@dataclass(frozen=True, eq=False)
class GradientSourcePolicy(SourcePolicy):
    """How the people of a source report: gradients at these parameters, whose arm is private.

    Attributes:
        parameters: (K, p).
        mechanism_name: `l2_ball` or `privunit`.
        model_type: the class of the model.
    """

    parameters: FloatArray
    mechanism_name: str

    model_type: ClassVar[type[Model]]

    @cached_property
    def model(self) -> Model:
        """The model of an arm."""
        return self.model_type.of_size(self.domain.dimension, self.parameters.shape[1])

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
        return GradientSums(reports.gradients.sum(axis=0), reports=people)

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

    def to_fields(self) -> dict[str, Any]:
        return {
            **self.header(),
            "parameters": self.parameters.tolist(),
            "mechanism": self.mechanism_name,
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        header = cls.read_header(fields)
        dimension, arms = header["domain"].dimension, header["arms"]
        policy = cls(
            **header,
            parameters=read_parameters(fields, "parameters", cls.model_type, dimension, arms),
            mechanism_name=fields["mechanism"],
        )
        _ = policy.mechanism
        return policy


def read_parameters(
    fields: dict[str, Any], name: str, model: type[Model], dimension: int, arms: int
) -> FloatArray:
    """A (K, p) array of some model of that class; `InvalidInput` for another shape or size."""
    array: FloatArray = read_array(fields[name], name, "number", 2)
    if len(array) != arms or model.of_size(dimension, array.shape[1]).size != array.shape[1]:
        raise InvalidInput(f"{name} had shape {array.shape}; it must have {arms} rows, one an arm.")
    return check_size(array, name)


def check_size(parameters: FloatArray, name: str) -> FloatArray:
    """Refuse parameters beyond `LARGEST` (model.py), where the arithmetic could overflow."""
    largest = float(np.abs(parameters).max())
    if largest > LARGEST:
        raise InvalidInput(
            f"{name} had a number of size {largest:g}; none may be beyond {LARGEST:g}. Send what "
            "a learner published."
        )
    return parameters
