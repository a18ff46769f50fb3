"""Prefix sums side by side: variance of the noise, norm of the encoder, state, and time per row.

    python benchmarks/prefix_sums.py

Unit sensitivity and mu = 1, so the variance is that of the decoder's row times the squared column
norm. `measured` is the variance of the last estimate in a run of 400 coordinates of zeros. For
epochs, a row is an epoch; `of all` is the effective share of the people in the last estimate, 1
for prefix sums, and an average has the noise of a prefix sum with variance / share^2 (`alike`).
"""

from __future__ import annotations

import time

import numpy as np

from discreet.privacy import SimulatedNoise
from discreet.privacy.prefix_sums import (
    BinaryTree,
    BufferedToeplitz,
    GeometricEpochs,
    Independent,
    LinearStream,
    PrefixMechanism,
    PrivateStream,
)
from discreet.validation import FloatArray

SIZE = 400
LOWER_BOUND = {1024: 8.47, 10_000: 13.20}  # nuclear norm of A, over the rows


def mechanisms(people: int) -> list[tuple[str, PrefixMechanism]]:
    """What to compare at a horizon of this many people, one in each row."""
    return [
        ("independent noise (local)", Independent()),
        ("binary tree (published)", BinaryTree(people)),
        ("buffered Toeplitz, 2", BufferedToeplitz(people, buffers=2)),
        ("buffered Toeplitz, 4 (default)", BufferedToeplitz(people)),
        ("buffered Toeplitz, 6", BufferedToeplitz(people, buffers=6)),
        ("buffered, horizon 2^20", BufferedToeplitz(2**20)),
        ("epochs, growth 1.1", GeometricEpochs(horizon=people)),
        ("epochs, unknown horizon", GeometricEpochs()),
        ("epochs, growth 1.5", GeometricEpochs(1.5, horizon=people)),
    ]


def people_of_rows(mechanism: PrefixMechanism, people: int) -> FloatArray:
    """People of each row, each as early as it may come, up to this many people."""
    ends, end = [0], mechanism.due(0)
    while ends[-1] < end <= people:
        ends.append(end)
        end = mechanism.due(end)
    return np.diff(np.array(ends, dtype=np.float64))


def variances_of(mechanism: PrefixMechanism, counts: FloatArray) -> FloatArray:
    """(rows,) the variance that the estimate reports after each row."""
    stream, zero = LinearStream(mechanism), np.zeros(1)
    return np.array([stream.release(zero, int(people)).variance for people in counts])


def run(mechanism: PrefixMechanism, counts: FloatArray) -> tuple[float, float, float]:
    """Measured variance and effective share of the last estimate, and microseconds for each row."""
    stream = PrivateStream(mechanism, SIZE, 1.0, 1.0, SimulatedNoise(1))
    started = time.perf_counter()
    for people in counts:
        estimate = stream.release(np.zeros(SIZE), int(people))
    micros = 1e6 * (time.perf_counter() - started) / len(counts)
    share = float(estimate.weights @ counts / counts.sum())
    return float(np.mean(estimate.values**2)), share, micros


def main() -> None:
    """Print the table."""
    print(
        "people  mechanism                       rows     max    mean  measured  of all  alike"
        "  |C|    state  us/row"
    )
    for people in (1024, 10_000):
        for name, mechanism in mechanisms(people):
            counts = people_of_rows(mechanism, people)
            variances = variances_of(mechanism, counts) * mechanism.column_norm**2
            state = max(sum(mechanism.keeps(rows)[:2]) for rows in range(1, len(counts) + 1))
            measured, share, micros = run(mechanism, counts)
            print(
                f"{people:>6}  {name:30} {len(counts):>5} {variances.max():>7.2f}"
                f" {variances.mean():>7.2f} {measured:>9.4g} {share:>7.3f}"
                f" {variances[-1] / share**2:>6.4g} {mechanism.column_norm:>4.2f}"
                f" {state:>8} {micros:>7.0f}"
            )
        print(f"{people:>6}  lower bound for prefix sums    {'':5} {LOWER_BOUND[people]:>7.2f}")


if __name__ == "__main__":
    main()
