"""Exact features on a finite public set of points, by pivoted Cholesky of the kernel matrix.

K = L L' + R with a positive semidefinite remainder R, so |R_ij| <= max_i R_ii: the largest diagonal
entry of the remainder bounds the error of every pair, and ||phi(x_i)||^2 = K_ii - R_ii never
exceeds k(x_i, x_i). L is then turned onto its principal axes, which changes no inner product.

| array    | shape  | meaning                                             | symbol |
|----------|--------|-----------------------------------------------------|--------|
| points   | (N, d) | the public set, in declared units                   | x_i    |
| values   | (N, m) | the features of each point, largest axis first      | L      |
| residual | (N,)   | k(x, x) - ||phi(x)||^2: `residual(points)`          | R_ii   |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree
from sklearn.gaussian_process.kernels import Kernel

from discreet.codec import Shape
from discreet.domain import Box
from discreet.kernels.base import FeatureMap, OutOfReach
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    instance_of,
    positive_number,
    whole_number,
)

# Two points this close, as a part of the box's width in each column, are one point.
SAME = 1e-9
# The error of a finite map is measured on all pairs of at most this many points.
MOST_CHECKED = 1500


@dataclass(eq=False, repr=False)
class FiniteFeatures(FeatureMap):
    """A table of features: one row for each point of a finite public set.

    Args:
        domain: the public box.
        points: (N, d) different points of the box.
        values: (N, m) their features.
        kernel: what it approximates, for `sup_error`.

    Raises:
        InvalidInput: for points outside the box or twice in the set; from `transform`, for an
            input that is not in the set (within 1e-9 of the width of each column).
    """

    kind: ClassVar[str] = "finite"
    spares_kernel: ClassVar[bool] = True

    domain: Box
    points: Annotated[FloatArray, Shape("N", "domain.dimension")]
    values: Annotated[FloatArray, Shape("N", "m")]
    kernel: Kernel | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        tree = cKDTree(self.domain.to_unit(self.points))
        pairs = tree.query_pairs(SAME, p=np.inf)
        if pairs:
            first, second = min(pairs)
            raise InvalidInput(f"points {first} and {second} of a finite set were equal; drop one.")
        norm = float(np.sqrt((self.values**2).sum(axis=1).max()))
        self._derive(
            features=self.values.shape[1],
            norm_bound=1.0 if abs(norm - 1.0) <= 1e-12 else norm,
            # The last row is that of whatever is not in the set.
            _table=np.vstack([self.values, np.zeros((1, self.values.shape[1]))]),
            _tree=tree,
        )

    def _places(self, X: FloatArray) -> IntArray:  # noqa: N803
        """(n,) the place of each input in the set; N for one that is not in it."""
        low, high = np.asarray(self.domain.lower), np.asarray(self.domain.upper)
        unit = (X - low) / (high - low)
        _, places = self._tree.query(unit, p=np.inf, distance_upper_bound=SAME)
        return np.asarray(places, dtype=np.int64)

    def check(self, X: ArrayLike) -> None:  # noqa: N803
        super().check(X)
        points = np.asarray(self.domain.in_order(X), dtype=np.float64)
        missing = self._places(points) == len(self.points)
        if missing.any():
            row = int(np.argmax(missing))
            raise InvalidInput(
                f"input {row} was {points[row].tolist()}, which is not one of the "
                f"{len(self.points)} points of this finite map; pass points of its set only."
            )

    def compute(self, X: FloatArray) -> FloatArray:  # noqa: N803
        phi: FloatArray = self._table[self._places(X)]
        return phi

    def error_points(self, seed: int = 0) -> FloatArray:
        if len(self.points) <= MOST_CHECKED:
            return self.points
        chosen = np.random.default_rng(seed).choice(len(self.points), MOST_CHECKED, replace=False)
        return self.points[chosen]


def finite_features(
    kernel: Kernel,
    domain: Box,
    points: ArrayLike,
    *,
    error: float = 1e-10,
    most_features: int | None = None,
) -> FiniteFeatures:
    """Features of a kernel on a finite public set, with sup error at most `error` on its pairs.

    Args:
        kernel: any scikit-learn kernel.
        domain: the public box.
        points: (N, d) different public points of the box.
        error: the largest error allowed for any pair of points, in units of k.
        most_features: refuse to make more features than this.

    Raises:
        InvalidInput: for points outside the box, a kernel that is not positive semidefinite, or an
            error that `most_features` features do not reach; the message says which one they do.
    """
    instance_of(domain, "the domain", Box, "a discreet.domain.Box").to_unit(points)
    where = np.asarray(points, dtype=np.float64)
    error = positive_number(error, "error")
    most = len(where)
    if most_features is not None:
        most = min(most, whole_number(most_features, "most_features", minimum=1))
    diagonal = np.asarray(kernel.diag(where), dtype=np.float64)
    factor, residual, _ = pivoted_cholesky(kernel, where, diagonal, error, most)
    if residual.max() > error:
        raise OutOfReach(
            f"{kernel} on {len(where)} points was asked for the error {error:g}; {most} features "
            f"reach {residual.max():.2g}. Allow a larger error or more features."
        )
    left, singular, _ = np.linalg.svd(factor, full_matrices=False)
    values = left * singular
    # Rounding must not lift ||phi(x)||^2 above k(x, x), on which the sensitivity rests.
    norms = np.sqrt((values**2).sum(axis=1))
    allowed = np.sqrt(diagonal) * (1.0 - 1e-15)
    values *= np.minimum(1.0, allowed / np.maximum(norms, 1e-300))[:, None]
    return FiniteFeatures(domain, where, values, kernel)


def pivoted_cholesky(
    kernel: Kernel, points: FloatArray, diagonal: FloatArray, error: float, most: int
) -> tuple[FloatArray, FloatArray, list[int]]:
    """L (N, r), the diagonal of K - LL' and the r pivots: at each step the largest remaining point.

    Only r rows of the kernel matrix are computed, so N may be large. The rows of L at the pivots
    are a lower triangle G with G G' the kernel matrix of the pivots.
    """
    residual = diagonal.copy()
    factor = np.zeros((len(points), most))
    pivots: list[int] = []
    while (size := len(pivots)) < most and residual.max() > error:
        pivot = int(np.argmax(residual))
        row = np.asarray(kernel(points[pivot : pivot + 1], points))[0]
        row = row - factor[:, :size] @ factor[pivot, :size]
        factor[:, size] = row / np.sqrt(residual[pivot])
        residual = residual - factor[:, size] ** 2
        residual[pivot] = 0.0
        pivots.append(pivot)
        if residual.min() < -1e-6 * diagonal.max():
            raise InvalidInput(
                f"{kernel} is not positive semidefinite on these points (or the points repeat); "
                "use a valid kernel and different points."
            )
    return factor[:, : max(len(pivots), 1)], residual, pivots
