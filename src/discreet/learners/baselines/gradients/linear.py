"""A logistic model of each arm, fitted by private gradients (Han et al. 2021, Algorithm 2).

    E[reward of arm k | x] = sigma(b_k + w_k . (2 x - 1)),    p = 1 + d parameters (b_k, w_k).

It is the baseline `Linear` of Ma et al. (2025), section 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from discreet.learners.baselines.gradients.learner import GradientLearner
from discreet.learners.baselines.gradients.model import Model, centred, products
from discreet.learners.baselines.gradients.policy import GradientPolicy, GradientSourcePolicy
from discreet.validation import FloatArray, IntArray, InvalidInput


@dataclass(frozen=True)
class LinearModel(Model):
    """m(theta, x) = theta . (1, 2 x - 1); the loss is convex.

    Attributes:
        dimension: d.
    """

    dimension: int

    @classmethod
    def of_size(cls, dimension: int, size: int) -> Self:
        if size != dimension + 1:
            raise InvalidInput(
                f"parameters had {size} columns; a linear model of {dimension} context columns has "
                f"{dimension + 1}."
            )
        return cls(dimension)

    @property
    def size(self) -> int:
        return self.dimension + 1

    def start(self, arms: int, seed: int) -> FloatArray:
        return np.zeros((arms, self.size))

    def logits(self, parameters: FloatArray, unit: FloatArray) -> FloatArray:
        return products(centred(unit), parameters)

    def slopes(
        self, parameters: FloatArray, unit: FloatArray, arms: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        columns = centred(unit)
        return np.einsum("np,np->n", columns, parameters[arms]), columns


@dataclass(frozen=True, eq=False)
class LinearPolicy(GradientPolicy):
    """Greedy on logistic models (policy.py)."""

    kind: ClassVar[str] = "private-linear-policy"
    model_type: ClassVar[type[Model]] = LinearModel


@dataclass(frozen=True, eq=False)
class LinearSourcePolicy(GradientSourcePolicy):
    """Gradients of logistic models (policy.py)."""

    kind: ClassVar[str] = "private-linear-source-policy"
    model_type: ClassVar[type[Model]] = LinearModel


class PrivateLinear(GradientLearner):
    """The locally private generalized linear bandit (options: `GradientLearner`)."""

    name: ClassVar[str] = "private_linear"
    policy_type = LinearPolicy
    source_policy_type = LinearSourcePolicy

    @property
    def model(self) -> Model:
        return LinearModel(self.domain.dimension)
