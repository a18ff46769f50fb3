"""Attacks on what a curator releases, and what they prove.

The adversary of differential privacy knows two neighbouring tables, of which one was released, and
says which. Two scores are tried, on the published release and on ours:

* subspace: how much further from the column space of X' than from that of X the columns of the
  release lie. Algorithm 1 keeps them inside the right one, up to rounding.
* likelihood ratio: for Gaussian noise, log p(Z | X) - log p(Z | X'). No score is better (Neyman and
  Pearson 1933), so what it proves is what 10,000 trials can prove.

Anyone who knows some rows can reconstruct the rest from the published release (`reconstructed`).

| array    | shape     | meaning                                                  | symbol |
|----------|-----------|----------------------------------------------------------|--------|
| rows     | (n, d)    | the table                                                | X      |
| moved    | (n, d)    | its neighbour: the first row has moved by 1              | X'     |
| releases | (m, n, r) | one release for each trial                               | Z      |
| scores   | (m,)      | high if the adversary believes in X                      |        |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from discreet.audit.lower_bound import Attack, attack, best_threshold
from discreet.privacy import SimulatedNoise
from discreet.reproduction.kharkovskii2020.transformation import RADIUS, RandomProjection
from discreet.validation import FloatArray, InvalidInput, whole_number

# Releases of this many trials are held at a time.
_AT_ONCE = 1000

Release = Callable[[FloatArray, int, np.random.Generator], FloatArray]
Score = Callable[[FloatArray], FloatArray]


def neighbour(rows: FloatArray) -> FloatArray:
    """The table (n, d) with its first row moved by 1 along the first column."""
    moved = rows.copy()
    moved[0, 0] += RADIUS
    return moved


def column_space(table: FloatArray) -> FloatArray:
    """(n, d) an orthonormal basis of what the columns of a table (n, d) span."""
    basis: FloatArray = np.linalg.svd(table, full_matrices=False)[0]
    return basis


def subspace_score(rows: FloatArray, moved: FloatArray) -> Score:
    """How much further from the columns of `moved` than from those of `rows` a release lies.

    Both tables (n, d) are taken as Algorithm 1 sees them: centred by the caller where it centres.
    """
    first, second = column_space(rows), column_space(moved)

    def score(releases: FloatArray) -> FloatArray:
        return _distance(releases, second) - _distance(releases, first)

    return score


def _distance(releases: FloatArray, basis: FloatArray) -> FloatArray:
    """(m,) how far releases (m, n, r) lie from the space of a basis (n, d)."""
    outside = releases - basis @ (basis.T @ releases)
    found: FloatArray = np.sqrt(np.square(outside).sum(axis=(1, 2)))
    return found


def likelihood_ratio(rows: FloatArray, moved: FloatArray, scale: float) -> Score:
    """log p(Z | X) - log p(Z | X') for Z = X + N(0, scale^2) on every number.

    It is (|Z - X'|^2 - |Z - X|^2) / (2 scale^2), where only the row that moved counts.
    """

    def score(releases: FloatArray) -> FloatArray:
        far = np.square(releases - moved).sum(axis=(1, 2))
        near = np.square(releases - rows).sum(axis=(1, 2))
        found: FloatArray = (far - near) / (2.0 * scale**2)
        return found

    return score


def projected(algorithm: RandomProjection) -> Release:
    """Releases of Algorithm 1: (m, n, r) for m trials on a table (n, d)."""

    def release(rows: FloatArray, trials: int, rng: np.random.Generator) -> FloatArray:
        table, columns = algorithm.prepared(rows), algorithm.columns
        drawn = rng.standard_normal((trials, table.shape[1], columns))
        points: FloatArray = table @ drawn / math.sqrt(columns)
        return points

    return release


def noisy(scale: float) -> Release:
    """Our releases: (m, n, d) for m trials on a table (n, d)."""

    def release(rows: FloatArray, trials: int, rng: np.random.Generator) -> FloatArray:
        noise = SimulatedNoise(int(rng.integers(2**63)))
        return noise.add_gaussian(np.broadcast_to(rows, (trials, *rows.shape)), scale)

    return release


def distinguish(
    rows: FloatArray,
    moved: FloatArray,
    release: Release,
    score: Score,
    trials: int,
    delta: float,
    rng: np.random.Generator,
) -> Attack:
    """Attack `trials` releases of each table, with a threshold chosen on as many others."""
    whole_number(trials, "trials", minimum=2)

    def scores(table: FloatArray) -> FloatArray:
        parts = [score(release(table, count, rng)) for count in _portions(trials)]
        return np.concatenate(parts)

    threshold = best_threshold(scores(rows), scores(moved), delta)
    return attack(scores(rows), scores(moved), threshold, delta)


def _portions(trials: int) -> Iterator[int]:
    for start in range(0, trials, _AT_ONCE):
        yield min(_AT_ONCE, trials - start)


def reconstructed(points: FloatArray, known: FloatArray) -> FloatArray:
    """(n, d) all rows, from the published points and the first d + 1 rows.

    Both branches release Z = (X - 1 m') B with some B (d, r): B follows from differences of known
    rows, and its pseudoinverse turns differences of points into differences of rows.

    Args:
        points: (n, r), released by Algorithm 1.
        known: (d + 1, d) the rows of its first d + 1 points.

    Raises:
        InvalidInput: for another number of known rows, or rows on one line (d = 2).
    """
    columns = known.shape[1]
    if len(known) != columns + 1 or np.linalg.matrix_rank(known[1:] - known[0]) < columns:
        raise InvalidInput(
            f"known had shape {known.shape}; give {columns + 1} rows that do not lie in one plane "
            f"of {columns - 1} dimensions."
        )
    image = np.linalg.solve(known[1:] - known[0], points[1 : columns + 1] - points[0])
    rows: FloatArray = known[0] + (points - points[0]) @ np.linalg.pinv(image)
    return rows
