"""Exact features of dot-product kernels: linear, and polynomial of a small degree.

k(x, z) = (sigma_0^2 + x'z)^p. With u = (sigma_0, x_1, ..., x_d) it is (u(x)'u(z))^p, whose
features are sqrt(p! / prod_i alpha_i!) prod_i u_i^alpha_i over all |alpha| = p. With p = 1 this is
[sigma_0, x]: private GP-UCB on it is the private LinUCB of Shariff and Sheffet 2018.

A projection onto points (nystrom.py) would lose the columns with small numbers beside those with
large ones; these features lose nothing, whatever the units.

| array     | shape      | meaning                                          | symbol    |
|-----------|------------|--------------------------------------------------|-----------|
| exponents | (m, d + 1) | multi-indices of degree p                        | alpha     |
| scale     | (m,)       | square roots of the multinomial coefficients     |           |
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Annotated, ClassVar

import numpy as np
from sklearn.gaussian_process.kernels import DotProduct, Exponentiation

from discreet.codec import Range
from discreet.kernels.base import FeatureMap
from discreet.kernels.text import MOST_DEGREE
from discreet.people.domain import Box
from discreet.validation import FloatArray, InvalidInput

MOST_FEATURES = 20_000


@dataclass(eq=False, repr=False)
class LinearFeatures(FeatureMap):
    """Features of (sigma_0^2 + x'z)^degree, exact; the norm bound comes from the longest points.

    Args:
        domain: the public box. Inputs are not shifted: the kernel is about the origin.
        sigma_0: the offset, at least 0, as in scikit-learn's DotProduct.
        degree: a whole number p from 1 to 10.

    Raises:
        InvalidInput: for a bad offset or degree, or more than 20,000 features.
    """

    kind: ClassVar[str] = "linear"

    domain: Box
    sigma_0: Annotated[float, Range(0.0)] = 1.0
    degree: Annotated[int, Range(1, MOST_DEGREE)] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        d, p = self.domain.dimension, self.degree
        # Without an offset the features with a power of sigma_0 are all 0, so they are left out.
        first = 0 if self.sigma_0 > 0.0 else 1
        count = math.comb(d + 1 - first + p - 1, p)
        if count > MOST_FEATURES:
            raise InvalidInput(
                f"a polynomial kernel of degree {p} in {d} columns has {count} features; at most "
                f"{MOST_FEATURES} are allowed. Lower the degree."
            )
        choices = list(combinations_with_replacement(range(first, d + 1), p))
        repeats = [math.prod(map(math.factorial, Counter(c).values())) for c in choices]
        linear = DotProduct(sigma_0=self.sigma_0)
        self._derive(
            features=count,
            norm_bound=math.sqrt(math.fsum([self.sigma_0**2, *self.domain.largest_squares])) ** p,
            kernel=linear if p == 1 else Exponentiation(linear, p),
            _choices=np.array(choices),
            _scale=np.sqrt([math.factorial(p) / each for each in repeats]),
        )

    def compute(self, X: FloatArray) -> FloatArray:  # noqa: N803
        u = np.column_stack([np.full(len(X), self.sigma_0), X])
        phi: FloatArray = u[:, self._choices].prod(axis=2) * self._scale
        return phi
