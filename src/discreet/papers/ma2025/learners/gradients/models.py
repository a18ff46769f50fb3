"""A parametric model of the mean reward of each arm, and the gradient of its loss.

Arm k has parameters theta_k of p numbers, and its mean reward is modelled as sigma(m(theta_k, x)),
sigma the logistic function. The logistic loss of a reward r in [0, 1] has the gradient
(sigma(m) - r) J with J = dm/dtheta_k. Here each person's loss is weighted by 1/|J|:

    g = (sigma(m(theta_k, x)) - r) J / |J|,    so |g| = |sigma(m) - r| <= 1.

The weight depends on the context and the parameters, not on the reward, so a model that is right
is still fitted without bias; to cut gradients at a length would not keep that. (Han, Liang, Wang
and Zhang 2021 assume |x| <= 1 instead. With the weight short and long slopes say as much.)

| model          | m(theta_k, x)                                 | p               |
|----------------|-----------------------------------------------|-----------------|
| `LinearModel`  | b + w . (2 x - 1)                             | 1 + d           |
| `NetworkModel` | b + v . h(x),  h(x) = tanh(W (1, 2 x - 1))    | 1 + H (2 + d)   |

| array      | shape  | meaning                                                      |
|------------|--------|--------------------------------------------------------------|
| parameters | (K, p) | theta                                                        |
| unit       | (n, d) | contexts x in [0, 1]^d                                       |
| arms       | (n,)   | the arms that were given                                     |
| rewards    | (n,)   | r in [0, 1]                                                  |
| slopes     | (n, p) | J; its first number is 1 in every model, so |J| >= 1         |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from scipy.special import expit

from discreet.codec import Range, Serializable
from discreet.validation import FloatArray, IntArray

# No parameter is larger. Logits stay finite then, so every context has a greedy arm.
LARGEST = 1e6
# Standard deviation of the first weights of a hidden unit, for columns in [-1, 1]: its slope then
# lies within the domain.
_SPREAD = 2.0


class Model(Serializable, ABC):
    """The form of m, the same for all arms.

    Attributes:
        dimension: d.
    """

    dimension: int

    @property
    @abstractmethod
    def size(self) -> int:
        """p, the number of parameters of an arm."""

    @abstractmethod
    def start(self, arms: int, seed: int) -> FloatArray:
        """(K, p) the first parameters, at which m is 0 everywhere; `seed` is public."""

    @abstractmethod
    def logits(self, parameters: FloatArray, unit: FloatArray) -> FloatArray:
        """(n, K) m of every arm, the same bits for a person alone as among others (`products`)."""

    @abstractmethod
    def slopes(
        self, parameters: FloatArray, unit: FloatArray, arms: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """(n,) m and (n, p) J of the arms that were given."""

    def gradients(
        self, parameters: FloatArray, unit: FloatArray, arms: IntArray, rewards: FloatArray
    ) -> FloatArray:
        """(n, p) g for the arms that were given."""
        logits, slopes = self.slopes(parameters, unit, arms)
        residuals = expit(logits) - rewards
        lengths = np.sqrt(np.einsum("np,np->n", slopes, slopes))
        weighted: FloatArray = (residuals / lengths)[:, None] * slopes
        return weighted


def products(columns: FloatArray, weights: FloatArray) -> FloatArray:
    """(n, m) the products of rows `columns` (n, q) and `weights` (m, q).

    Term by term, because matrix products round differently for one row than for many: where two
    arms are as good as each other that would decide which is greedy, so a person who acted among
    others would report alone for another arm.
    """
    by_column, by_place = np.ascontiguousarray(columns.T), np.ascontiguousarray(weights.T)
    total = np.zeros((len(weights), len(columns)))
    for column, factors in zip(by_column, by_place, strict=True):
        total += factors[:, None] * column
    return np.ascontiguousarray(total.T)


def centred(unit: FloatArray) -> FloatArray:
    """(n, 1 + d) the columns 1 and 2 x - 1, which span what 1 and x span, and lie in [-1, 1]."""
    return np.concatenate([np.ones((len(unit), 1)), 2.0 * unit - 1.0], axis=1)


@dataclass(frozen=True)
class LinearModel(Model):
    """m(theta, x) = theta . (1, 2 x - 1); the loss is convex."""

    kind: ClassVar[str] = "linear"

    dimension: Annotated[int, Range(1)]

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


@dataclass(frozen=True)
class NetworkModel(Model):
    """One hidden layer of tanh units.

    Attributes:
        hidden: H.
    """

    kind: ClassVar[str] = "network"

    dimension: Annotated[int, Range(1)]
    hidden: Annotated[int, Range(1)]

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
        columns, logits = centred(unit), np.empty((len(unit), len(parameters)))
        for k in range(len(parameters)):
            layer = np.tanh(products(columns, weights[k]))
            logits[:, k] = bias[k] + products(layer, output[None, k])[:, 0]
        return logits

    def slopes(
        self, parameters: FloatArray, unit: FloatArray, arms: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """dm/db = 1, dm/dv = h, dm/dW = v (1 - h^2) (1, 2 x - 1)'."""
        bias, output, weights = self._parts(parameters[arms])
        columns = centred(unit)
        layer = np.tanh(np.einsum("nhd,nd->nh", weights, columns))
        inner = (output * (1.0 - layer**2))[:, :, None] * columns[:, None, :]
        ones = np.ones((len(unit), 1))
        slopes = np.concatenate([ones, layer, inner.reshape(len(unit), -1)], axis=1)
        return bias + np.einsum("nh,nh->n", layer, output), slopes
