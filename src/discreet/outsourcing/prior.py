"""What a modeler assumes about the outcomes before any is known: a Gaussian process over rows.

f(x) ~ GP(mean, variance k), answers y = f(x) + N(0, noise). The modeler does not know the rows x,
only a normal belief x_i ~ N(m_i, diag s_i^2) about each, so what it models is the outcome of row i,
f(x_i), with f and x_i both unknown. For i != j its covariance is the expectation of the kernel:
with the squared exponential, length scales l_k and t_k^2 = l_k^2 + s_ik^2 + s_jk^2,

    cov(f(x_i), f(x_j)) = variance prod_k (l_k / t_k) exp(-(m_ik - m_jk)^2 / (2 t_k^2)),

and cov(f(x_i), f(x_i)) = variance, because a row is where it is. If all s_ik = s this is
c exp(-D^2 / (2 (l^2 + 2 s^2))) with c = (l^2 / (l^2 + 2 s^2))^(r/2), and 1 - c more on the
diagonal. An inner product of mean embeddings plus a non-negative diagonal is positive definite.

A Matern kernel is a mixture of squared exponentials whose squared length scale has a Gamma
distribution, k_nu(D) = E exp(-D^2 / (2 u)), u ~ Gamma(nu, rate nu / l^2): by Gauss-Laguerre
quadrature it becomes a sum of a few of the terms above.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from discreet.outsourcing.beliefs import RowBeliefs
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    finite_number,
    positive_number,
)

Family = Literal["rbf", "matern32", "matern52"]
SMOOTHNESS: dict[str, float] = {"matern32": 1.5, "matern52": 2.5}
FAMILIES = ("rbf", *SMOOTHNESS)
# The error of the mixture is below 0.01 at every distance (tests).
_MIXTURE = 12
# Shares of a mixture below this add nothing.
_NEGLIGIBLE = 1e-6


@dataclass(frozen=True)
class RowPrior:
    """A Gaussian process over rows that are known up to noise (see the module).

    Attributes:
        length_scale: one for all columns, or one for each, in the units of the release.
        variance: of f at any row.
        noise: variance of an answer around f.
        mean: of f.
        family: `rbf` (squared exponential), `matern32` or `matern52`.
    """

    length_scale: float | tuple[float, ...]
    variance: float = 1.0
    noise: float = 1e-5
    mean: float = 0.0
    family: Family = "rbf"

    def __post_init__(self) -> None:
        scales = self.length_scale
        if isinstance(scales, tuple | list | np.ndarray):
            found = tuple(positive_number(float(one), "a length scale") for one in scales)
            if not found:
                raise InvalidInput(
                    "the length scales were empty; give one, or one for each column."
                )
            object.__setattr__(self, "length_scale", found)
        else:
            object.__setattr__(self, "length_scale", positive_number(scales, "length_scale"))
        object.__setattr__(self, "variance", positive_number(self.variance, "variance"))
        object.__setattr__(self, "noise", positive_number(self.noise, "noise"))
        object.__setattr__(self, "mean", finite_number(self.mean, "mean"))
        if self.family not in FAMILIES:
            raise InvalidInput(
                f"the kernel family was {self.family!r}; it must be one of {', '.join(FAMILIES)}."
            )

    def scales(self, columns: int) -> FloatArray:
        """(columns,) length scales.

        Raises:
            InvalidInput: for another number of columns than length scales.
        """
        if isinstance(self.length_scale, float):
            return np.full(columns, self.length_scale)
        if len(self.length_scale) != columns:
            raise InvalidInput(
                f"there were {len(self.length_scale)} length scales for {columns} columns; give "
                "one for all, or one for each."
            )
        return np.array(self.length_scale)

    @cached_property
    def mixture(self) -> tuple[tuple[float, float], ...]:
        """(weight, factor) of squared exponentials with squared length scale factor l^2."""
        if self.family == "rbf":
            return ((1.0, 1.0),)
        from scipy.special import roots_genlaguerre

        nu = SMOOTHNESS[self.family]
        nodes, weights = roots_genlaguerre(_MIXTURE, nu - 1.0)
        shares = weights / weights.sum()
        kept = shares > _NEGLIGIBLE
        shares = shares[kept] / shares[kept].sum()
        return tuple(zip(shares.tolist(), (nodes[kept] / nu).tolist(), strict=True))

    def covariance(
        self, row: int, beliefs: RowBeliefs, others: IntArray | None = None
    ) -> FloatArray:
        """(n,) covariances of the outcome of `row` with those of all rows, or (m,) of `others`."""
        squares = self.scales(beliefs.columns) ** 2
        mean, variance = beliefs.mean, beliefs.variance
        shared = len(variance) == 1
        if others is not None:
            mean, variance = mean[others], variance if shared else variance[others]
        here = beliefs.mean[row]
        unsure = beliefs.variance[0 if shared else row]
        gaps = [np.square(mean[:, k] - here[k]) for k in range(beliefs.columns)]
        found = np.zeros(len(mean))
        # Column by column: temporary arrays stay as small as one column.
        for weight, factor in self.mixture:
            distance, shrink = np.zeros(len(mean)), np.ones(1 if shared else len(mean))
            for k, gap in enumerate(gaps):
                spread = factor * squares[k] + unsure[k] + variance[:, k]
                shrink = shrink * (factor * squares[k] / spread)
                distance += gap / spread
            found += weight * np.sqrt(shrink) * np.exp(-0.5 * distance)
        found *= self.variance
        found[row if others is None else np.asarray(others) == row] = self.variance
        return found

    def own_variance(self, beliefs: RowBeliefs) -> FloatArray:
        """(n,) or (1,) the part of a row's prior variance that no other row says anything about.

        Another row that is believed to be at the same place has covariance c with it, so 1 - c is
        the row's own: it is 0 for rows that are known.
        """
        squares = self.scales(beliefs.columns) ** 2
        common = np.zeros(len(beliefs.variance))
        for weight, factor in self.mixture:
            ratio = factor * squares / (factor * squares + 2.0 * beliefs.variance)
            common += weight * np.sqrt(np.prod(ratio, axis=1))
        own: FloatArray = self.variance * (1.0 - np.minimum(common, 1.0))
        return own
