"""A small network for each arm, fitted by private gradients.

    E[reward of arm k | x] = sigma(b + v . h(x)),    h(x) = tanh(W (1, 2 x - 1)),

with H hidden units, so theta_k = (b, v, W) has p = 1 + H + H (1 + d) numbers. It is the baseline
`NN` of Ma et al. (2025), section 4.2: `private_linear` with another model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, Unpack

import numpy as np

from discreet.action_space import ArmPoints
from discreet.domain import Box
from discreet.learners.base import Common
from discreet.learners.baselines.gradients.descent import Descent
from discreet.learners.baselines.gradients.learner import GradientLearner
from discreet.learners.baselines.gradients.model import Model, centred, products
from discreet.learners.baselines.gradients.policy import GradientPolicy, GradientSourcePolicy
from discreet.privacy import Budget
from discreet.validation import FloatArray, IntArray, InvalidInput, whole_number

# Standard deviation of the first weights of a hidden unit, for columns in [-1, 1]: its slope then
# lies within the domain.
_SPREAD = 2.0


@dataclass(frozen=True)
class NetworkModel(Model):
    """One hidden layer of tanh units.

    Attributes:
        dimension: d.
        hidden: H.
    """

    dimension: int
    hidden: int

    @classmethod
    def of_size(cls, dimension: int, size: int) -> Self:
        hidden, rest = divmod(size - 1, dimension + 2)
        if rest or hidden < 1:
            raise InvalidInput(
                f"parameters had {size} columns; a network of {dimension} context columns has 1 + "
                f"{dimension + 2} for each hidden unit."
            )
        return cls(dimension, hidden)

    @property
    def size(self) -> int:
        return 1 + self.hidden * (self.dimension + 2)

    def start(self, arms: int, seed: int) -> FloatArray:
        """Output weights 0, hidden weights from public randomness, for each arm its own."""
        parameters = np.zeros((arms, self.size))
        weights = np.random.default_rng(seed).normal(
            0.0, _SPREAD, (arms, self.size - 1 - self.hidden)
        )
        parameters[:, 1 + self.hidden :] = weights
        return parameters

    def _parts(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """b (..), v (.., H) and W (.., H, 1 + d)."""
        split = 1 + self.hidden
        weights = parameters[..., split:]
        shape = (*weights.shape[:-1], self.hidden, self.dimension + 1)
        return parameters[..., 0], parameters[..., 1:split], weights.reshape(shape)

    def logits(self, parameters: FloatArray, unit: FloatArray) -> FloatArray:
        bias, output, weights = self._parts(parameters)
        columns, found = centred(unit), np.empty((len(unit), len(parameters)))
        for k in range(len(parameters)):
            layer = np.tanh(products(columns, weights[k]))
            found[:, k] = bias[k] + products(layer, output[None, k])[:, 0]
        return found

    def slopes(
        self, parameters: FloatArray, unit: FloatArray, arms: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """dm/db = 1, dm/dv = h, dm/dW = v (1 - h^2) (1, 2 x - 1)'."""
        bias, output, weights = self._parts(parameters[arms])
        columns = centred(unit)
        layer = np.tanh(np.einsum("nhd,nd->nh", weights, columns))
        inner = (output * (1.0 - layer**2))[:, :, None] * columns[:, None, :]
        ones = np.ones((len(unit), 1))
        found = np.concatenate([ones, layer, inner.reshape(len(unit), -1)], axis=1)
        return bias + np.einsum("nh,nh->n", layer, output), found


@dataclass(frozen=True, eq=False)
class NeuralPolicy(GradientPolicy):
    """Greedy on networks (policy.py)."""

    kind: ClassVar[str] = "private-neural-policy"
    model_type: ClassVar[type[Model]] = NetworkModel


@dataclass(frozen=True, eq=False)
class NeuralSourcePolicy(GradientSourcePolicy):
    """Gradients of networks (policy.py)."""

    kind: ClassVar[str] = "private-neural-source-policy"
    model_type: ClassVar[type[Model]] = NetworkModel


class PrivateNeural(GradientLearner):
    """`private_linear` with a network for each arm.

    Args:
        hidden: H, the number of hidden units of an arm.
        domain, arms, budget, descent, common: see `GradientLearner`.
    """

    name: ClassVar[str] = "private_neural"
    policy_type = NeuralPolicy
    source_policy_type = NeuralSourcePolicy

    def __init__(
        self,
        domain: Box,
        arms: int | ArmPoints,
        budget: Budget,
        *,
        hidden: int = 8,
        descent: Descent | None = None,
        **common: Unpack[Common],
    ) -> None:
        self.hidden = whole_number(hidden, "hidden", minimum=1)
        super().__init__(domain, arms, budget, descent=descent, **common)

    @property
    def model(self) -> Model:
        return NetworkModel(self.domain.dimension, self.hidden)

    @classmethod
    def read_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        rest = dict(options)
        read = {"hidden": rest.pop("hidden")} if "hidden" in rest else {}
        return {**read, **super().read_options(rest)}

    def _options(self) -> dict[str, Any]:
        return {"hidden": self.hidden, **super()._options()}
