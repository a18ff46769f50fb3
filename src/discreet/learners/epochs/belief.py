"""A Gaussian posterior of f = phi' theta from released statistics; all of it is post-processing.

Every release measures a few linear functions of theta with known noise, and information adds:

    precision = sum F' C^-1 F,   shift = sum F' C^-1 g,   theta | scale ~ N(0, scale^2 I).

The scale maximises the evidence over a grid around the declared bound of |f|, with a log-normal
prior, so that nobody has to know how much f varies.

| array     | shape  | meaning                                   | symbol |
|-----------|--------|-------------------------------------------|--------|
| precision | (m, m) | what releases say about theta             | J      |
| shift     | (m,)   |                                           | b      |
| mean      | (m,)   | posterior mean of theta                   | theta  |
| root      | (m, m) | a square root of the posterior covariance | L      |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.validation import FloatArray

# Prior standard deviations of theta'phi, as multiples of the bound of |f|.
SCALES = 2.0 ** np.arange(-4.0, 0.51, 0.25)


@dataclass(frozen=True, eq=False)
class Information:
    """What releases say about theta (see the module's table)."""

    precision: FloatArray
    shift: FloatArray

    @classmethod
    def none(cls, features: int) -> Information:
        """Before any release."""
        return cls(np.zeros((features, features)), np.zeros(features))

    def __add__(self, other: Information) -> Information:
        return Information(self.precision + other.precision, self.shift + other.shift)


@dataclass(frozen=True, eq=False)
class Belief:
    """A posterior (see the module's table).

    Attributes:
        scale: the prior standard deviation that was chosen.
    """

    mean: FloatArray
    root: FloatArray
    scale: float


def believe(information: Information, bound: float) -> Belief:
    """The posterior, from information and the declared bound of |f|."""
    values, axes = np.linalg.eigh(information.precision)
    values = np.maximum(values, 0.0)
    turned = axes.T @ information.shift
    variances = (SCALES * bound)[:, None] ** 2
    evidence = (
        -0.5 * np.log1p(variances * values).sum(axis=1)
        + 0.5 * (turned**2 / (values + 1.0 / variances)).sum(axis=1)
        - 0.5 * np.log2(2.0 * SCALES) ** 2
    )
    scale = float(SCALES[int(evidence.argmax())] * bound)
    root = axes / np.sqrt(values + scale**-2)
    return Belief(root @ (root.T @ information.shift), root, scale)
