"""A random projection of rows to fewer columns, drawn without looking at the table.

Points x (d,) become x M with M (d, r). What decides the noise is the gain, the largest factor by
which M lengthens a vector: its largest singular value, from the M that was drawn. `orthonormal`
takes r random orthonormal columns times sqrt(d / r), so lengths are kept on average and the gain is
sqrt(d / r); `gaussian` takes entries N(0, 1 / r), as Kharkovskii et al. (2020) do, whose gain is
about 1 + sqrt(d / r). A projection saves space, not noise: the total noise variance of a row stays
d (radius / mu)^2 at best, while what it says about a distance gets coarser. Release all columns
where that fits.

M is public. That costs nothing, because the noise alone protects the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from discreet.validation import FloatArray, InvalidInput, whole_number

ProjectionKind = Literal["orthonormal", "gaussian"]
KINDS = ("orthonormal", "gaussian")
# Covers the rounding errors of the singular value decomposition and of the gain itself.
_MARGIN = 1.0 + 2.0**-36


@dataclass(frozen=True, eq=False)
class Projection:
    """A public linear map of rows.

    Attributes:
        matrix: M, (d, r).
    """

    matrix: FloatArray

    def __post_init__(self) -> None:
        matrix = np.asarray(self.matrix, dtype=np.float64)
        if matrix.ndim != 2 or matrix.size == 0 or not np.isfinite(matrix).all():
            raise InvalidInput(
                f"the projection had shape {matrix.shape}; it must be a finite matrix (d, r)."
            )
        matrix = matrix.copy()
        matrix.setflags(write=False)
        object.__setattr__(self, "matrix", matrix)

    @classmethod
    def draw(
        cls, columns: int, kept: int, rng: np.random.Generator, kind: ProjectionKind = "orthonormal"
    ) -> Projection:
        """A random projection of `columns` to `kept` columns.

        Raises:
            InvalidInput: for more columns than there are, or an unknown kind.
        """
        most = columns if kind == "orthonormal" else None
        size = whole_number(kept, "the number of projected columns", minimum=1, maximum=most)
        if kind not in KINDS:
            raise InvalidInput(f"the projection was {kind!r}; it must be one of {KINDS}.")
        entries = rng.standard_normal((columns, size))
        if kind == "gaussian":
            return cls(entries / np.sqrt(size))
        directions, _ = np.linalg.qr(entries)
        return cls(directions * np.sqrt(columns / size))

    @property
    def gain(self) -> float:
        """The largest singular value of M, rounded up."""
        return float(np.linalg.norm(self.matrix, 2)) * _MARGIN

    def rounding(self, extent: FloatArray) -> float:
        """How far two computed rows can lie further apart than exact ones, at most.

        A product of d terms is off by at most d u / (1 - d u) of the sum of its absolute terms
        (Higham 2002, eq. 3.5); the factor 4 covers two rows and orders of summation.
        """
        d = len(self.matrix)
        largest = np.abs(self.matrix).T @ extent
        return float(np.linalg.norm(largest)) * 4.0 * (d + 2) * 2.0**-53

    def apply(self, points: FloatArray) -> FloatArray:
        """(n, r) the images of points (n, d)."""
        image: FloatArray = points @ self.matrix
        return image

    def box(self, extent: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(r,) least and largest coordinates of images of points between 0 and `extent` (d,)."""
        ends = self.matrix * extent[:, None]
        return np.minimum(ends, 0.0).sum(axis=0), np.maximum(ends, 0.0).sum(axis=0)
