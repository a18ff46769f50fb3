"""Rotation: the principal axes of a feature map over public points, so that few features remain.

psi(x) = A'phi(x) with orthonormal columns A, chosen from public points alone. Projection never
lengthens a vector, so ||psi(x)|| <= ||phi(x)|| everywhere, and the norm bound stays certified. It
saves time and noise coordinates; the kernel it stands for changes by at most the stated error.

| array       | shape  | meaning                                                       | symbol |
|-------------|--------|---------------------------------------------------------------|--------|
| axes        | (m, r) | orthonormal principal axes of phi over the public points      | A      |
| eigenvalues | (r,)   | mean of psi_j(x)^2 over those points, largest first           | l      |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.codec import Shape
from discreet.kernels.base import FeatureMap, OutOfReach, public_points
from discreet.validation import (
    FloatArray,
    InvalidInput,
    instance_of,
    positive_number,
    whole_number,
)


@dataclass(eq=False, repr=False)
class RotatedFeatures(FeatureMap):
    """Another map's features in fewer, orthonormal directions.

    Args:
        base: the map whose features are projected.
        axes: (m, r) orthonormal columns.
        eigenvalues: (r,) mean squared coordinates over the public points, or None.

    Raises:
        InvalidInput: for axes of the wrong shape or not orthonormal to 1e-8.
    """

    kind: ClassVar[str] = "rotated"

    base: FeatureMap
    axes: Annotated[FloatArray, Shape("base.features", "r")]
    eigenvalues: Annotated[FloatArray | None, Shape("r")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        off = float(np.abs(self.axes.T @ self.axes - np.eye(self.axes.shape[1])).max())
        if off > 1e-8:
            raise InvalidInput(
                f"axes were not orthonormal (their inner products are off by {off:.1e}); use the "
                "axes that `rotate` made, unchanged."
            )
        # Rounding may leave the axes longer than 1 by 1e-16; the bound counts it beyond 1e-12.
        stretch = float(np.linalg.norm(self.axes, 2))
        stretch = 1.0 if abs(stretch - 1.0) <= 1e-12 else stretch
        bound = self.base.norm_bound
        self._derive(
            domain=self.base.domain,
            kernel=self.base.kernel,
            features=self.axes.shape[1],
            norm_bound=None if bound is None else bound * stretch,
        )

    def check(self, X: ArrayLike) -> None:  # noqa: N803
        self.base.check(X)

    def compute(self, X: FloatArray) -> FloatArray:  # noqa: N803
        return self.base.compute(X) @ self.axes


def principal_axes(
    base: FeatureMap, points: ArrayLike | None = None, seed: int = 0
) -> tuple[FloatArray, FloatArray]:
    """All principal axes (m, r) and eigenvalues (r,) of a map's features over public points.

    Args:
        base: the map.
        points: (N, d) public points; by default about 1000 of the box, its boundary included.
        seed: of the default points.
    """
    where = public_points(base.domain, seed=seed) if points is None else base.checked(points)
    phi = base.compute(where)
    if phi.shape[1] <= 2 * len(phi):
        _, singular, rows = np.linalg.svd(phi, full_matrices=False)
        values = singular**2 / len(where)
        kept = max(int((values > 1e-15 * values[0]).sum()), 1)
        return rows[:kept].T, values[:kept]
    # With few points for many features the small matrix of inner products is much faster. Its
    # axes below 1e-12 of the first are rounding, and QR repairs the orthogonality of the rest.
    values, left = np.linalg.eigh(phi @ phi.T / len(where))
    kept = max(int((values > 1e-12 * values[-1]).sum()), 1)
    axes, _ = np.linalg.qr(phi.T @ left[:, ::-1][:, :kept])
    return axes, ((phi @ axes) ** 2).mean(axis=0)


def rotate(
    base: FeatureMap,
    error: float = 1e-3,
    *,
    features: int | None = None,
    points: ArrayLike | None = None,
    seed: int = 0,
) -> RotatedFeatures:
    """Rotate a map onto the fewest principal axes whose sup error is at most `error`.

    The number of axes is found by bisection on `sup_error` against the base's kernel (against the
    base itself where its kernel is unknown).

    Args:
        base: the map to rotate.
        error: the largest sup error allowed, of base and rotation together.
        features: the number of axes, in place of `error`.
        points: (N, d) public points over which axes and error are taken; by default the axes come
            from one low-discrepancy set of the box and the error from that and a second one.
        seed: of the default points.

    Raises:
        InvalidInput: where the error cannot be reached; the message says which one can.
    """
    instance_of(base, "the map to rotate", FeatureMap, "a FeatureMap")
    axes, values = principal_axes(base, points, seed)
    if features is not None:
        r = whole_number(features, "features", minimum=1, maximum=len(values))
        return RotatedFeatures(base, axes[:, :r], values[:r])
    error = positive_number(error, "error")
    sets = (
        [base.error_points(seed), base.error_points(seed + 1)]
        if points is None
        else [base.checked(points)]
    )
    kernels = []
    coordinates = []
    for where in sets:
        phi = base.compute(where)
        kernels.append(phi @ phi.T if base.kernel is None else np.asarray(base.kernel(where)))
        coordinates.append(phi @ axes)

    def reached(r: int) -> float:
        return max(
            float(np.abs(k - c[:, :r] @ c[:, :r].T).max())
            for k, c in zip(kernels, coordinates, strict=True)
        )

    high = len(values)
    if (best := reached(high)) > error:
        raise OutOfReach(
            f"rotation was asked for a sup error of {error:g}; this map reaches {best:.2g} with "
            f"all its {high} axes. Ask for a larger error, or start from a finer map."
        )
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) <= error else (middle, high)
    return RotatedFeatures(base, axes[:, :high], values[:high])
