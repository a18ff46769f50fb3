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

import numpy as np

from discreet.outsourcing.bounds import ROUNDING
from discreet.outsourcing.projection import Projection
from discreet.privacy import NoiseSource, Outsourced
from discreet.privacy.accounting import GaussianEvent, composed_epsilon
from discreet.privacy.calibration import gaussian_noise_multiplier, least_scale
from discreet.privacy.noise import gaussian_multiplier
from discreet.validation import FloatArray, InvalidInput, finite_matrix

# Numbers drawn in one call. A row stays within one call, so this is the size that counts.
AT_ONCE = 2**16


@dataclass(frozen=True)
class Mechanism:
    """How the rows of a table were released; enough to derive what that costs.

    Attributes:
        scale: the standard deviation of the noise on every number.
        gain: how much further apart the released points can be than the rows.
        rounding: by how much computing can add to that, whatever the distance.
        numbers: how many numbers of a release are drawn together.
        noise: the name of the noise source.
    """

    scale: float
    gain: float
    rounding: float
    numbers: int
    noise: str

    def sensitivity(self, distance: float) -> float:
        """How far a release without noise moves (l2) if one row moves by `distance`."""
        return distance * self.gain + self.rounding

    def noise_multiplier(self, distance: float) -> float:
        """scale / sensitivity as the noise source achieves it."""
        return gaussian_multiplier(self.noise, self.sensitivity(distance), self.scale, self.numbers)

    def event(self, distance: float) -> GaussianEvent:
        """What the release costs a person whose row may move by `distance`."""
        return GaussianEvent(self.noise_multiplier(distance))

    def epsilon(self, distance: float, delta: float) -> float:
        """Epsilon at `delta` for rows within `distance` of each other."""
        return composed_epsilon([self.event(distance)], delta)


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """A release as it was drawn.

    Attributes:
        points: (n, r), public.
        order: (n,) which row of the table each point is; secret.
        mechanism: how it was drawn.
    """

    points: FloatArray
    order: np.ndarray[tuple[int], np.dtype[np.int64]]
    mechanism: Mechanism


def noise_scale(
    budget: Outsourced, sensitivity: float, noise: NoiseSource, numbers: int, times: int = 1
) -> float:
    """The least standard deviation that keeps `budget`, as the noise source achieves it.

    Args:
        budget: what is asked for.
        sensitivity: how far a release moves (l2) between neighbours.
        noise: the source.
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
    projection: Projection | None,
    noise: NoiseSource,
) -> Mechanism:
    """How rows (n, d) will be released; a function of public facts alone.

    Args:
        budget: what is asked for.
        radius: how far one row may move.
        extent: (d,) the largest coordinates.
        rows: how many there are.
        projection: of the columns; None for all of them.
        noise: the source.
    """
    gain, rounding = stretch(extent, projection)
    columns = len(extent) if projection is None else projection.matrix.shape[1]
    numbers = columns * min(rows, max(1, AT_ONCE // columns))
    blank = Mechanism(1.0, gain, rounding, numbers, noise.name)
    scale = noise_scale(budget, blank.sensitivity(radius), noise, numbers)
    return Mechanism(scale, gain, rounding, numbers, noise.name)


def stretch(extent: FloatArray, projection: Projection | None) -> tuple[float, float]:
    """Gain and rounding (see `Mechanism`) of rows within `extent` (d,) that are projected."""
    gain = 1.0 if projection is None else projection.gain
    rounding = gain * math.sqrt(len(extent)) * ROUNDING
    if projection is not None:
        rounding += projection.rounding(extent)
    return gain, rounding


def draw_rows(
    coordinates: FloatArray,
    mechanism: Mechanism,
    projection: Projection | None,
    noise: NoiseSource,
    progress: Callable[[int], None] | None = None,
) -> DrawnRows:
    """The rows (n, d) in a random order, projected, with noise.

    Args:
        coordinates: rows within the public bounds, on their grid.
        mechanism: from `mechanism_for` with the same projection and noise.
        projection: of the columns; None for all of them.
        noise: the source.
        progress: is told how many rows are done.
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
        image = exact if projection is None else projection.apply(exact)
        points[some] = noise.add_gaussian(image, mechanism.scale)
        if progress is not None:
            progress(min(start + step, len(rows)))
    return DrawnRows(points, order, mechanism)
