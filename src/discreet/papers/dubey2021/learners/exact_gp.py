"""The exact posterior of a Gaussian process, row by row (Rasmussen and Williams 2006, ch. 2).

Prior f ~ N(1/2, k / 12) on the scale [0, 1] of rewards, rewards y = f(x) + N(0, s^2). Kept is the
inverse Cholesky factor M = L^-1, L L' = k(X, X) / 12 + s^2 I, because its rows never change once
they are written: a policy holds a read-only view of the first n rows, whatever is appended later.
With w(x) = M k(X, x) / 12,

    mean(x) = 1/2 + w(x)' z,    variance(x) = k(x, x) / 12 - |w(x)|^2,    z = M (y - 1/2).

| array    | shape  | meaning                                                      | symbol |
|----------|--------|--------------------------------------------------------------|--------|
| points   | (n, d) | observed points, in the units of the domain                  | X      |
| rewards  | (n,)   | rewards on the scale [0, 1]                                  | y      |
| inverse  | (n, n) | inverse Cholesky factor, lower triangular                    | M      |
| whitened | (n,)   | whitened rewards                                             | z      |
| watched  | (N, d) | public points whose posterior is kept up to date             |        |
| table    | (n, N) | M k(X, watched) / 12: one observation costs n N, not n^2 N   |        |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from sklearn.gaussian_process.kernels import Kernel

from discreet.codec import Range, Serializable, Shape
from discreet.kernels import kernel_from_text
from discreet.learners.gp_ucb.posterior import CENTRE, MOST_REWARD_VARIANCE, UNIFORM_VARIANCE
from discreet.validation import FloatArray

# The learnt variance of rewards counts its start as this many observations, and stays above this.
_START_COUNTS = 8.0
_LEAST_REWARD_VARIANCE = 1e-4
# Rows of a triangular product taken together: half of a square product is saved.
_STRIP = 256
# Numbers of a predicted block: 64 MB.
_AT_ONCE = 2**23


@dataclass(frozen=True)
class Prior(Serializable):
    """What is assumed before anyone comes.

    Attributes:
        kernel: the text of a scikit-learn kernel k, in the units of the domain.
        reward_variance: s^2, of a single reward around f.
    """

    kernel: str
    reward_variance: Annotated[float, Range(_LEAST_REWARD_VARIANCE)]

    @cached_property
    def _kernel(self) -> Kernel:
        return kernel_from_text(self.kernel)

    def covariance(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """(n, m) k(a, b) / 12."""
        values: FloatArray = UNIFORM_VARIANCE * self._kernel(a, b)
        return values

    def variances(self, a: FloatArray) -> FloatArray:
        """(n,) k(a, a) / 12."""
        values: FloatArray = UNIFORM_VARIANCE * self._kernel.diag(a)
        return values


@dataclass(frozen=True, eq=False)
class ExactPosterior(Serializable):
    """The posterior after n observations.

    On the wire it is prior and data; the reader computes the factor, once, in O(n^3).

    Attributes:
        prior: the prior.
        points, rewards: (n, d) and (n,) the data.
    """

    prior: Prior
    points: Annotated[FloatArray, Shape("n", "d")]
    rewards: Annotated[FloatArray, Shape("n"), Range(0.0, 1.0)]

    @cached_property
    def solved(self) -> tuple[FloatArray, FloatArray]:
        """`inverse` and `whitened`, from the data; `GrowingPosterior` puts its own here."""
        growing = GrowingPosterior(self.prior, len(self.points), self.points.shape[1])
        growing.append(self.points, self.rewards)
        return growing.posterior().solved

    def unit(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(m,) means and standard deviations of f on the scale [0, 1] at checked points (m, d)."""
        mean, variance = np.full(len(points), CENTRE), self.prior.variances(points)
        if len(self.points):
            inverse, whitened = self.solved
            step = max(1, _AT_ONCE // len(self.points))
            for start in range(0, len(points), step):
                some = slice(start, start + step)
                white = _lower_product(inverse, self.prior.covariance(self.points, points[some]))
                mean[some] += whitened @ white
                variance[some] -= np.einsum("ij,ij->j", white, white)
        return mean, np.sqrt(np.maximum(variance, 0.0))


class GrowingPosterior:
    """The posterior while observations come; O(n^2) each, whatever came before stays as it is.

    Args:
        prior: the prior.
        capacity: the largest number of observations.
        dimension: the number of columns d.
        watched: see the module's table.
    """

    def __init__(
        self, prior: Prior, capacity: int, dimension: int, watched: FloatArray | None = None
    ) -> None:
        self.prior = prior
        self.capacity = capacity
        self.count = 0
        self._points = np.empty((capacity, dimension))
        self._rewards = np.empty(capacity)
        self._inverse = np.zeros((capacity, capacity))
        self._whitened = np.empty(capacity)
        self._watched = np.empty((0, dimension)) if watched is None else watched
        self._table = np.empty((capacity, len(self._watched)))
        self._mean = np.full(len(self._watched), CENTRE)
        self._variance = prior.variances(self._watched) if len(self._watched) else np.empty(0)

    def append(self, points: FloatArray, rewards: FloatArray) -> None:
        """Add b observations: rows (-D C' M, D) of the inverse factor, with C = M k(X, new) and
        D the inverse factor of k(new, new) + s^2 I - C' C."""
        n, size = self.count, len(points)
        if size == 0:
            return
        old, new = slice(0, n), slice(n, n + size)
        self._points[new], self._rewards[new] = points, rewards
        own = self.prior.covariance(points, points)
        own[np.diag_indices(size)] += self.prior.reward_variance
        residual = rewards - CENTRE
        inverse = self._inverse[old, old]
        cross = np.empty((0, size))
        if n:
            cross = _lower_product(inverse, self.prior.covariance(self._points[old], points))
            own -= cross.T @ cross
            residual = residual - cross.T @ self._whitened[old]
        corner = solve_triangular(cholesky(own, lower=True), np.eye(size), lower=True)
        self._inverse[new, new] = corner
        if n:
            self._inverse[new, old] = -corner @ (cross.T @ inverse)
        self._whitened[new] = corner @ residual
        if len(self._watched):
            rows = self.prior.covariance(points, self._watched) - cross.T @ self._table[old]
            rows = _lower_product(corner, rows)
            self._table[new] = rows
            self._mean += self._whitened[new] @ rows
            self._variance -= np.einsum("ij,ij->j", rows, rows)
        self.count = n + size

    def posterior(self) -> ExactPosterior:
        """What is known now; a view that later observations leave as it is."""
        n = self.count
        inverse, whitened = self._inverse[:n, :n], self._whitened[:n]
        for array in (inverse, whitened):
            array.setflags(write=False)
        posterior = ExactPosterior(self.prior, self._points[:n], self._rewards[:n])
        vars(posterior)["solved"] = inverse, whitened
        return posterior

    def watched(self) -> tuple[FloatArray, FloatArray]:
        """(N,) means and standard deviations at the watched points."""
        return self._mean, np.sqrt(np.maximum(self._variance, 0.0))

    def reward_variance(self) -> float:
        """s^2 from the residuals: sum (y - mean)^2 over the degrees of freedom they have left.

        With the present s^2 the residuals are s^2 M' z and tr(I - H) = s^2 |M|_F^2. The start,
        1/4, counts as eight more observations.
        """
        s2, n = self.prior.reward_variance, self.count
        inverse = self._inverse[:n, :n]
        residuals = s2 * (self._whitened[:n] @ inverse)
        left = s2 * float(np.einsum("ij,ij->", inverse, inverse))
        squares = float(residuals @ residuals) + _START_COUNTS * MOST_REWARD_VARIANCE
        estimate = squares / (left + _START_COUNTS)
        return min(max(estimate, _LEAST_REWARD_VARIANCE), MOST_REWARD_VARIANCE)


def _lower_product(lower: FloatArray, columns: FloatArray) -> FloatArray:
    """`lower @ columns` for a lower triangular matrix, without its zeros."""
    product = np.empty((len(lower), columns.shape[1]))
    for start in range(0, len(lower), _STRIP):
        stop = start + _STRIP
        np.matmul(lower[start:stop, :stop], columns[:stop], out=product[start:stop])
    return product
