"""Features from public points: projection onto them, and exact features on a finite set.

**Nystrom features.** For basis points b_1 ... b_r with the kernel matrix K_BB = G G' (G lower
triangular),

    phi(x) = G^-1 k(B, x) = C' k(B, x)   with C = G^-T,
    phi(x)'phi(z) = k(x, B) K_BB^-1 k(B, z).

That is the orthogonal projection of k(x, .) onto the span of the k(b_i, .), so ||phi(x)||^2 never
exceeds k(x, x). What is lost, the residual k(x, x) - ||phi(x)||^2, is 0 on the basis and bounds the
error of every pair (Cauchy and Schwarz): |k(x, z) - phi(x)'phi(z)|^2 <= residual(x) residual(z).

The basis is taken by pivoted Cholesky: at each step the candidate with the largest residual. A
point that the others already span is never taken, which keeps K_BB invertible in float64.

**A finite set.** K = L L' + R with a positive semidefinite remainder R, by the same Cholesky, so
|R_ij| <= max_i R_ii: the largest diagonal entry of the remainder bounds the error of every pair,
and ||phi(x_i)||^2 = K_ii - R_ii never exceeds k(x_i, x_i). L is then turned onto its principal
axes, which changes no inner product.

| array        | shape  | meaning                                             | symbol |
|--------------|--------|-----------------------------------------------------|--------|
| basis        | (b, d) | public points, in declared units                    | B      |
| coefficients | (b, m) | from kernel values to features                      | C      |
| points       | (N, d) | a finite public set, in declared units              | x_i    |
| values       | (N, m) | the features of each of them, largest axis first    | L      |
| residual     | (N,)   | squared length that is lost, k(x, x) - ||phi(x)||^2 | R_ii   |

Sources: Williams and Seeger 2001 (the features), Fine and Scheinberg 2001 (the basis).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from scipy.spatial import cKDTree
from sklearn.base import clone
from sklearn.gaussian_process.kernels import (
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    Kernel,
    Product,
    Sum,
    WhiteKernel,
)

from discreet.codec import Shape
from discreet.kernels.base import FeatureMap, OutOfReach, public_points
from discreet.kernels.text import Additive
from discreet.people.domain import Box
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    instance_of,
    positive_number,
    whole_number,
)

# Candidates for the basis, on which the residual is also measured.
CANDIDATES = 4096
# Residuals below this part of the largest k(x, x) are rounding, from which no basis can be taken.
ROUNDING = 1e-13
# Rows are cut to this part of the bound, so that no order of summation finds them above it.
JUST_BELOW = 1.0 - 1e-14
# A coefficient times k beyond this could overflow, and what has no length cannot be shortened.
MOST_TERM = 1e100
# Two points this close, as a part of the box's width in each column, are one point.
SAME = 1e-9
# Columns for which a pivoted Cholesky factor has room at first.
_FIRST_COLUMNS = 64
# The error of a finite map is measured on all pairs of at most this many points.
MOST_CHECKED = 1500


@dataclass(eq=False, repr=False)
class NystromFeatures(FeatureMap):
    """phi(x) = C' k(B, x), never longer than the square root of the largest k(x, x) on the box.

    Args:
        domain: the public box.
        basis: (b, d) public points of the box.
        coefficients: (b, m) what takes the kernel values to features; see the module's table.
        kernel: a scikit-learn kernel whose largest k(x, x) over a box is known: every stationary
            kernel, DotProduct, and their sums, products, powers and `Additive` means.

    Raises:
        InvalidInput: for another kernel, points outside the box, or arrays of the wrong shape.
    """

    kind: ClassVar[str] = "nystrom"

    domain: Box
    basis: Annotated[FloatArray, Shape("b", "domain.dimension")]
    coefficients: Annotated[FloatArray, Shape("b", "m")]
    # It makes the features, so it must not be lost on the way.
    kernel: Kernel

    def __post_init__(self) -> None:
        super().__post_init__()
        longest = math.sqrt(largest_diagonal(self.kernel, self.domain))
        longest = 1.0 if abs(longest - 1.0) <= 1e-12 else longest
        self.domain.to_unit(self.basis)
        term = float(np.abs(self.coefficients).max()) * longest**2
        if term > MOST_TERM:
            raise InvalidInput(
                f"a coefficient of a Nystrom map times the largest k(x, x) was {term:.1e}; at most "
                f"{MOST_TERM:g} is allowed. Use the coefficients that `nystrom_features` made."
            )
        self._derive(
            features=self.coefficients.shape[1],
            norm_bound=longest,
            _longest=longest * JUST_BELOW,
            # Later changes of the caller's kernel must not count.
            kernel=clone(self.kernel),
        )

    def compute(self, X: FloatArray) -> FloatArray:  # noqa: N803
        phi: FloatArray = np.asarray(self.kernel(X, self.basis)) @ self.coefficients
        # In exact arithmetic a projection is never longer than k(x, x) allows. But C inverts a
        # nearly singular matrix, and its rounding can lengthen a row; the coefficients of a map
        # that travelled may be damaged outright. The noise of a private release covers rows up to
        # norm_bound and not beyond, so longer ones are cut here, whatever the coefficients are.
        norms = np.sqrt(np.einsum("ij,ij->i", phi, phi))
        phi *= np.minimum(1.0, self._longest / np.maximum(norms, 1e-300))[:, None]
        return phi


def nystrom_features(
    kernel: Kernel,
    domain: Box,
    *,
    error: float = 1e-3,
    most_features: int = 400,
    points: ArrayLike | None = None,
) -> NystromFeatures:
    """Nystrom features with a residual of at most `error` on a public set of points, of which the
    basis is taken.

    The set is finite: between its points the residual may be larger, by little where they are many
    for the length scales and the number of columns.

    Args:
        kernel: a scikit-learn kernel; see `NystromFeatures`. A Matern kernel stays isotropic.
        domain: the public box, in whose declared units the length scales are.
        error: the largest k(x, x) - ||phi(x)||^2 allowed on `points`, in units of k.
        most_features: refuse to make more features than this.
        points: (N, d) public points; by default about 4000 low-discrepancy points of the box.

    Raises:
        InvalidInput: for a kernel that is not supported or not positive semidefinite, points
            outside the box, or (as `OutOfReach`) an error that `most_features` features do not
            reach; the message says which one they do.
    """
    instance_of(domain, "the domain", Box, "a discreet.people.domain.Box")
    error = positive_number(error, "error")
    most = whole_number(most_features, "most_features", minimum=1)
    largest = largest_diagonal(kernel, domain)
    if points is not None:
        domain.to_unit(points)
    where = public_points(domain, CANDIDATES) if points is None else np.unique(points, axis=0)
    where = np.asarray(where, dtype=np.float64)
    diagonal = np.asarray(kernel.diag(where), dtype=np.float64)
    allowed = max(error, ROUNDING * largest)
    factor, _, pivots = pivoted_cholesky(kernel, where, diagonal, allowed, min(most, len(where)))
    if len(pivots) == 0:
        # Every residual was within the error already: one feature is the least a map can have.
        factor, _, pivots = pivoted_cholesky(kernel, where, diagonal, 0.0, 1)
    triangle = np.tril(factor[pivots])
    inverse = solve_triangular(triangle, np.eye(len(pivots)), lower=True)
    built = NystromFeatures(domain, where[pivots], inverse.T, kernel)
    # Measured on the finished map, so that what rounding did to it counts.
    reached = float(np.abs(built.residual(where)).max())
    if reached > error:
        raise OutOfReach(
            f"{kernel} was asked for a residual of at most {error:g} on {len(where)} points; "
            f"{built.features} features reach {reached:.2g}. Allow a larger error or more features."
        )
    return built


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
    instance_of(domain, "the domain", Box, "a discreet.people.domain.Box").to_unit(points)
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
    factor = np.zeros((len(points), min(most, _FIRST_COLUMNS)))
    pivots: list[int] = []
    while (size := len(pivots)) < most and residual.max() > error:
        if size == factor.shape[1]:  # twice as many, for most kernels need few of those allowed
            more = np.zeros((len(points), min(size, most - size)))
            factor = np.hstack([factor, more])
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


def largest_diagonal(kernel: Kernel, domain: Box) -> float:
    """The largest k(x, x) over the box, for kernels where it is known and not only searched for.

    k(x, x) is constant for stationary kernels and sigma_0^2 + ||x||^2 for DotProduct. Both never
    fall as a |x_j| grows, and as they are not negative neither do their sums, products, positive
    powers and means; so the largest value is that of the corner with the largest |x_j|.

    Raises:
        InvalidInput: for a kernel made of other parts, or that does not fit the columns.
    """
    check_diagonal(kernel)
    low, high = np.asarray(domain.lower), np.asarray(domain.upper)
    corner = np.where(np.abs(low) > np.abs(high), low, high)[None, :]
    try:
        shape = np.shape(kernel(corner, corner))
        value = float(np.asarray(kernel.diag(corner))[0])
    except InvalidInput:
        raise
    except (ValueError, TypeError, IndexError) as reason:
        raise InvalidInput(
            f"{kernel} could not be computed on {domain.dimension} columns ({reason}); give one "
            "length scale, or one for each column."
        ) from reason
    if shape != (1, 1) or not (math.isfinite(value) and value > 0.0):
        raise InvalidInput(
            f"{kernel} had k(x, x) = {value} at {corner[0].tolist()}; it must be finite and above "
            "0, with one value for each pair of points."
        )
    return value


def check_diagonal(kernel: Any) -> None:
    """`InvalidInput` unless `largest_diagonal` knows every part of a kernel."""
    if isinstance(kernel, Sum | Product):
        check_diagonal(kernel.k1)
        check_diagonal(kernel.k2)
    elif isinstance(kernel, Exponentiation):
        check_diagonal(kernel.kernel)
        positive_number(kernel.exponent, "the power of a kernel")
    elif isinstance(kernel, Additive):
        for part in kernel.kernels:
            check_diagonal(part)
    elif isinstance(kernel, ConstantKernel):
        positive_number(kernel.constant_value, "the value of a ConstantKernel")
    elif isinstance(kernel, WhiteKernel | CompoundKernel):
        raise InvalidInput(
            f"the kernel had the part {kernel!r}, which is not a similarity of two points; leave "
            "it out. Observation noise is not part of a feature map."
        )
    elif type(kernel) is not DotProduct and not (
        isinstance(kernel, Kernel) and kernel.is_stationary()
    ):
        raise InvalidInput(
            f"the kernel had the part {kernel!r} of type {type(kernel).__name__}, whose largest "
            "k(x, x) is unknown; give stationary scikit-learn kernels (such as RBF or Matern), "
            "DotProduct, and their sums, products and powers."
        )
