"""A parametric model of the mean reward of each arm, and the gradient of its loss.

Arm k has parameters theta_k of p numbers, and its mean reward is modelled as sigma(m(theta_k, x)),
sigma the logistic function. The logistic loss of a reward r in [0, 1] has the gradient
(sigma(m) - r) J with J = dm/dtheta_k. Here each person's loss is weighted by 1/|J|:

    g = (sigma(m(theta_k, x)) - r) J / |J|,    so |g| = |sigma(m) - r| <= 1.

The weight depends on the context and the parameters, not on the reward, so a model that is right
is still fitted without bias; to cut gradients at a length would not keep that. (Han, Liang, Wang
and Zhang 2021 assume |x| <= 1 instead. With the weight short and long slopes say as much.)

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
from typing import Self

import numpy as np
from scipy.special import expit

from discreet.validation import FloatArray, IntArray

# No parameter is larger. Logits stay finite then, so every context has a greedy arm.
LARGEST = 1e6


class Model(ABC):
    """The form of m, the same for all arms."""

    @classmethod
    @abstractmethod
    def of_size(cls, dimension: int, size: int) -> Self:
        """The model of d columns with p parameters an arm; `InvalidInput` if there is none."""

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
    found = np.zeros((len(weights), len(columns)))
    for column, factors in zip(by_column, by_place, strict=True):
        found += factors[:, None] * column
    return np.ascontiguousarray(found.T)


def centred(unit: FloatArray) -> FloatArray:
    """(n, 1 + d) the columns 1 and 2 x - 1, which span what 1 and x span, and lie in [-1, 1]."""
    return np.concatenate([np.ones((len(unit), 1)), 2.0 * unit - 1.0], axis=1)
