"""Local reports side by side: variance of an estimated sign sum, and time per report.

    python benchmarks/local_reports.py

The private value is (bin of J, sign). `variance` is that of the estimate for a bin the person is
not in, per report, by formula and measured; `ratio` is over signed subset selection. The published
mechanism reports U and V, whose variances are each shown as one number.
"""

from __future__ import annotations

import time

import numpy as np

from discreet.privacy import SimulatedNoise
from discreet.privacy.frequency import (
    LaplaceOnCells,
    SignedSubsetSelection,
    UnaryEncoding,
    k_ary_response,
)

PEOPLE = 100_000


def main() -> None:
    """Print the table."""
    rng = np.random.default_rng(0)
    print("  J  epsilon  mechanism                      variance  measured   ratio  us/report")
    for bins in (8, 32):
        own = rng.integers(bins - 1, size=PEOPLE)  # nobody is in the last bin
        signs = rng.choice(np.array([-1, 1]), PEOPLE).astype(np.int8)
        for epsilon in (1.0, 2.0, 4.0):
            base = None
            best = SignedSubsetSelection.best(bins, epsilon)
            one_bit = SignedSubsetSelection(bins, bins, epsilon)
            unary = UnaryEncoding(2 * bins, epsilon)
            laplace = LaplaceOnCells(bins, epsilon)
            rows = [
                (f"signed subset selection, m={best.size}", best, float(best.variance(0.0))),
                ("k-ary response", k := k_ary_response(bins, epsilon), float(k.variance(0.0))),
                ("one bit for each bin", one_bit, float(one_bit.variance(0.0))),
                ("unary encoding", unary, 2.0 * unary.variance()),
                ("published Laplace (U or V)", laplace, laplace.variance()),
            ]
            for name, mechanism, variance in rows:
                started = time.perf_counter()
                if isinstance(mechanism, LaplaceOnCells):
                    reports = mechanism.privatise(own, (signs + 1) / 2, SimulatedNoise(1))
                    seconds = time.perf_counter() - started
                    measured = reports[:, bins - 1].var()
                elif isinstance(mechanism, UnaryEncoding):
                    bits = mechanism.privatise(2 * own + (signs > 0), SimulatedNoise(1))
                    seconds = time.perf_counter() - started
                    difference = bits[:, -1].astype(float) - bits[:, -2]
                    measured = difference.var() / mechanism.contrast**2
                else:
                    chosen, reported = mechanism.privatise(own, signs, SimulatedNoise(1))
                    seconds = time.perf_counter() - started
                    h = np.where(chosen == bins - 1, reported, 0).sum(axis=1)
                    measured = h.var() / mechanism.contrast**2
                base = base or variance
                print(
                    f"{bins:>3} {epsilon:>8g}  {name:30} {variance:>8.3g} {measured:>9.3g}"
                    f" {variance / base:>7.2f} {1e6 * seconds / PEOPLE:>10.2f}"
                )


if __name__ == "__main__":
    main()
