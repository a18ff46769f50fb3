"""What a curator releases once: every row of a table with Gaussian noise on it.

Claim. Two tables are neighbours if they differ in one row, by at most `radius` in the units of the
public bounds. The law of the release changes by at most (epsilon, delta) between neighbours.

Argument. Coordinates are rounded to a grid, so a row moves by at most radius + sqrt(d) 2^-31; a
public matrix M, drawn without the table, lengthens that by at most its largest singular value
s_max(M); computing the product adds a bounded rounding error. Every number gets independent
Gaussian noise of standard deviation `scale`, so with one row different the release is a Gaussian
mechanism of that sensitivity. Bounds, units, M, the radius and the scale never depend on the table.
The number of rows and of columns is public. Rows are put in a random order first, because the order
of a file (sorted by cost, say) may reveal something about people; the order stays with the curator.

A projection, where one is asked for, is random and drawn without looking at the table. What decides
the noise is its gain, the largest factor by which M lengthens a vector, from the M that was drawn:
r random orthonormal columns times sqrt(d / r) keep lengths on average, and their gain is
sqrt(d / r). (Entries N(0, 1 / r), as Kharkovskii et al. (2020) draw them, have about
1 + sqrt(d / r).) That saves space, not noise: the total noise variance of a row stays
d (radius / mu)^2, while what it says about a distance gets coarser. M is public: that costs
nothing, because the noise alone protects the table.

What is not done, because it would not be private: subtracting the mean is harmless, but scaling by
the largest norm, or choosing by the smallest singular value of the table, is not.

| array  | shape  | meaning                                             | symbol |
|--------|--------|-----------------------------------------------------|--------|
| points | (n, r) | rows as released                                    | Z      |
| order  | (n,)   | the place in the table of every released row (secret)|       |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from discreet.codec import CheckedBy, Coded, Range, Shape
from discreet.outsourcing.bounds import ROUNDING
from discreet.privacy import NoiseSource, Outsourced, Release, Rounds
from discreet.privacy.accounting import GaussianEvent
from discreet.privacy.calibration import gaussian_noise_multiplier, least_scale
from discreet.privacy.noise import NO_NOISE, check_noise_name, gaussian_multiplier
from discreet.validation import FloatArray, IntArray, InvalidInput, finite_matrix, whole_number

# Numbers drawn in one call. A row stays within one call, so this is the size that counts.
AT_ONCE = 2**16
# Covers the rounding errors of the singular value decomposition and of the gain itself.
_MARGIN = 1.0 + 2.0**-36


def _of_noise(name: str) -> str:
    if check_noise_name(name) == NO_NOISE:
        raise InvalidInput("a mechanism names no noise source; nothing protects this release.")
    return name


# Numbers with which sums and squares do not overflow.
Sensible = Annotated[float, Range(1e-60, 1e60)]
NoiseName = Annotated[str, CheckedBy(_of_noise)]


@dataclass(frozen=True, eq=False)
class RowProjection(Coded):
    """A public linear map of rows.

    Attributes:
        matrix: M, (d, r).
    """

    matrix: Annotated[FloatArray, Shape("columns", "kept")]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.matrix.size == 0:
            raise InvalidInput(f"matrix had shape {self.matrix.shape}; it must not be empty.")

    @classmethod
    def draw(cls, columns: int, kept: int, rng: np.random.Generator) -> RowProjection:
        """r = `kept` random orthonormal columns times sqrt(d / r); r is from 1 to d."""
        size = whole_number(kept, "the number of projected columns", 1, columns)
        directions, _ = np.linalg.qr(rng.standard_normal((columns, size)))
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

    def box(self, extent: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(r,) least and largest coordinates of images of points between 0 and `extent` (d,)."""
        ends = self.matrix * extent[:, None]
        return np.minimum(ends, 0.0).sum(axis=0), np.maximum(ends, 0.0).sum(axis=0)


@dataclass(frozen=True)
class Mechanism(Coded):
    """How the rows of a table were released; enough to derive what that costs.

    Attributes:
        scale: the standard deviation of the noise on every number.
        gain: how much further apart the released points can be than the rows.
        rounding: by how much computing can add to that, whatever the distance.
        numbers: how many numbers of a release are drawn together.
        noise: the name of the noise source.
    """

    scale: Sensible
    gain: Sensible
    rounding: Sensible
    numbers: Annotated[int, Range(1, 2**31 - 1)]
    noise: NoiseName

    def sensitivity(self, distance: float) -> float:
        """How far a release without noise moves (l2) if one row moves by `distance`."""
        return distance * self.gain + self.rounding

    def event(self, distance: float) -> GaussianEvent:
        """What the release costs a person whose row may move by `distance`: scale / sensitivity as
        the noise source achieves it."""
        law = self.noise, self.sensitivity(distance), self.scale, self.numbers
        return GaussianEvent(gaussian_multiplier(*law))

    def release(self, distance: float) -> Release:
        """For guarantees about such a person."""
        return Release(
            mechanism="Gaussian noise on every number of a row",
            event=self.event(distance),
            sensitivity=self.sensitivity(distance),
            sensitivity_source="the distance of rows times the largest singular value of the "
            "projection in use, and rounding",
            scale=self.scale,
            people=Rounds(0, 1),
            data="the released columns of a row",
            noise=self.noise,
        )


def noise_scale(
    budget: Outsourced, sensitivity: float, noise: NoiseSource, numbers: int, times: int = 1
) -> float:
    """The least standard deviation that keeps `budget`, as the noise source achieves it.

    Args:
        budget, noise: what is asked for, and the source.
        sensitivity: how far a release moves (l2) between neighbours.
        numbers: how many numbers are drawn together.
        times: how many releases share the budget; squared multipliers add.
    """
    wanted = gaussian_noise_multiplier(budget.epsilon, budget.delta) * math.sqrt(times)
    return least_scale(
        wanted,
        sensitivity * wanted,
        lambda scale: noise.gaussian_multiplier(sensitivity, scale, numbers),
    )


def mechanism_for(
    budget: Outsourced,
    radius: float,
    extent: FloatArray,
    rows: int,
    projection: RowProjection | None,
    noise: NoiseSource,
) -> Mechanism:
    """How rows (n, d) will be released; a function of public facts alone.

    Args:
        budget, noise: what is asked for, and the source.
        radius: how far one row may move.
        extent: (d,) the largest coordinates.
        rows: how many there are, n.
        projection: of the columns; None for all of them.
    """
    gain, rounding = stretch(extent, projection)
    columns = len(extent) if projection is None else projection.matrix.shape[1]
    numbers = columns * min(rows, max(1, AT_ONCE // columns))
    blank = Mechanism(1.0, gain, rounding, numbers, noise.name)
    scale = noise_scale(budget, blank.sensitivity(radius), noise, numbers)
    return Mechanism(scale, gain, rounding, numbers, noise.name)


def stretch(extent: FloatArray, projection: RowProjection | None) -> tuple[float, float]:
    """Gain and rounding (see `Mechanism`) of rows within `extent` (d,) that are projected."""
    gain = 1.0 if projection is None else projection.gain
    rounding = gain * math.sqrt(len(extent)) * ROUNDING
    if projection is not None:
        rounding += projection.rounding(extent)
    return gain, rounding


def draw_rows(
    coordinates: FloatArray,
    mechanism: Mechanism,
    projection: RowProjection | None,
    noise: NoiseSource,
    progress: Callable[[int], None] | None = None,
) -> tuple[FloatArray, IntArray]:
    """The rows (n, d) in a random order, projected, with noise.

    Returns points (n, r), which are public, and (n,) which row of the table each is: secret.

    Args:
        coordinates: (n, d) rows within the public bounds, on their grid.
        mechanism: from `mechanism_for` with the same `projection` and `noise`.
        progress: called with the number of rows done.
    """
    if noise.name != mechanism.noise:
        raise InvalidInput(
            f"the mechanism was made for {mechanism.noise} and got {noise.name}; use one source."
        )
    rows = finite_matrix(coordinates, "the rows", coordinates.shape[1])
    order = np.argsort(noise.keys(len(rows)), kind="stable").astype(np.int64)
    columns = rows.shape[1] if projection is None else projection.matrix.shape[1]
    points = np.empty((len(rows), columns))
    step = max(1, mechanism.numbers // columns)
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        exact = rows[order[some]]
        image = exact if projection is None else exact @ projection.matrix
        points[some] = noise.add_gaussian(image, mechanism.scale)
        if progress is not None:
            progress(min(start + step, len(rows)))
    return points, order
