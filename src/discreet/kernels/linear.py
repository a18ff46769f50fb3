"""Exact features of dot-product kernels: linear, and polynomial of a small degree.

k(x, z) = (sigma_0^2 + x'z)^p. With u = (sigma_0, x_1, ..., x_d) it is (u(x)'u(z))^p, whose
features are sqrt(p! / prod_i alpha_i!) prod_i u_i^alpha_i over all |alpha| = p. With p = 1 this is
[sigma_0, x]: private GP-UCB on it is the private LinUCB of Shariff and Sheffet 2018.

| array     | shape      | meaning                                          | symbol    |
|-----------|------------|--------------------------------------------------|-----------|
| exponents | (m, d + 1) | multi-indices of degree p                        | alpha     |
| scale     | (m,)       | square roots of the multinomial coefficients     |           |
"""

from __future__ import annotations

import math
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import DotProduct, Exponentiation

from discreet.domain import Box
from discreet.kernels.base import FeatureMap, check_domain
from discreet.validation import FloatArray, InvalidInput, finite_number, whole_number

MOST_DEGREE = 10
MOST_FEATURES = 20_000


class LinearFeatures(FeatureMap):
    """Features of (sigma_0^2 + x'z)^degree, exact; the norm bound comes from the corners.

    Args:
        domain: the public box. Inputs are not shifted: the kernel is about the origin.
        sigma_0: the offset, at least 0, as in scikit-learn's DotProduct.
        degree: a whole number p from 1 to 10.

    Raises:
        InvalidInput: for a bad offset or degree, or more than 20,000 features.
    """

    def __init__(self, domain: Box, sigma_0: float = 1.0, degree: int = 1) -> None:
        self.domain = check_domain(domain)
        self.sigma_0 = sigma_0
        self.degree = degree
        self._sigma = finite_number(sigma_0, "sigma_0")
        if self._sigma < 0.0:
            raise InvalidInput(f"sigma_0 was {sigma_0}; it must be at least 0.")
        p = whole_number(degree, "the degree of a polynomial kernel", 1, MOST_DEGREE)
        self._degree = p
        d = domain.dimension
        # Without an offset the features with a power of sigma_0 are all 0, so they are left out.
        first = 0 if self._sigma > 0.0 else 1
        count = math.comb(d + 1 - first + p - 1, p)
        if count > MOST_FEATURES:
            raise InvalidInput(
                f"a polynomial kernel of degree {p} in {d} columns has {count} features; at most "
                f"{MOST_FEATURES} are allowed. Lower the degree."
            )
        self._choices = np.array(list(combinations_with_replacement(range(first, d + 1), p)))
        coefficients = []
        for choice in self._choices:
            _, powers = np.unique(choice, return_counts=True)
            repeats = math.prod(math.factorial(int(power)) for power in powers)
            coefficients.append(math.factorial(p) / repeats)
        self._scale = np.sqrt(np.array(coefficients))
        self.features = count
        corner = np.maximum(np.abs(domain.lower), np.abs(domain.upper))
        self.norm_bound = math.sqrt(math.fsum([self._sigma**2, *(corner**2)])) ** p
        linear = DotProduct(sigma_0=self._sigma)
        self.kernel = linear if p == 1 else Exponentiation(linear, p)

    def compute(self, X: FloatArray) -> FloatArray:  # noqa: N803
        u = np.column_stack([np.full(len(X), self._sigma), X])
        phi: FloatArray = u[:, self._choices].prod(axis=2) * self._scale
        return phi

    def to_fields(self) -> dict[str, Any]:
        return {"sigma_0": self._sigma, "degree": self._degree}
