"""How long a search over a released table takes, and how much memory.

    python benchmarks/outsourced_speed.py [--rows 36000] [--questions 50] [--columns 3]

One line for each kind of search: the prior given or learnt from the answers, one question at a time
or batches of ten, and the same search over exact rows beside it as the measure (ratio). Memory is
the largest that the process ever had.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

# Loaded here, because what is loaded when it is first used is no part of the times.
import scipy.optimize
import scipy.special  # noqa: F401

from discreet.outsourcing.beliefs import RowBeliefs
from discreet.outsourcing.modeler import Modeler
from discreet.outsourcing.posterior import RowPrior

WIDTH, LENGTH, NOISE = 35.0, 8.0, 1.4


def outcomes(rows: np.ndarray) -> np.ndarray:
    """A smooth function of the rows."""
    waves = np.random.default_rng(3).normal(0.0, 1.0 / LENGTH, (40, rows.shape[1]))
    phases = np.random.default_rng(4).uniform(0.0, 2.0 * np.pi, 40)
    values = np.zeros(len(rows))
    for wave, phase in zip(waves, phases, strict=True):
        values += np.cos(rows @ wave + phase)
    return values / np.sqrt(20.0)


def search(
    beliefs: RowBeliefs, values: np.ndarray, prior: RowPrior | None, questions: int, batch: int
) -> float:
    """Seconds of a whole search."""
    started = time.perf_counter()
    modeler = Modeler(beliefs, prior)
    while modeler.answered < questions:
        rows = modeler.ask(min(batch, questions - modeler.answered))
        modeler.tell(rows, values[rows])
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=36_000)
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--columns", type=int, default=3)
    parser.add_argument("--only", choices=("given", "learnt", "batch"), default=None)
    asked = parser.parse_args()
    rng = np.random.default_rng(1)
    rows = rng.uniform(0.0, WIDTH, (asked.rows, asked.columns))
    values = outcomes(rows)
    released = rows + rng.normal(0.0, NOISE, rows.shape)
    started = time.perf_counter()
    noisy = RowBeliefs.within(
        released, NOISE, np.zeros(asked.columns), np.full(asked.columns, WIDTH)
    )
    print(f"{asked.rows:,} rows, {asked.columns} columns, {asked.questions} questions")
    print(f"  what the release says of the rows    {time.perf_counter() - started:6.2f} s")
    exact = RowBeliefs.exact(rows)
    prior = RowPrior(LENGTH)
    plain = None
    for name, beliefs, given, batch in (
        ("given", exact, prior, 1),
        ("given", noisy, prior, 1),
        ("batch", noisy, prior, 10),
        ("learnt", noisy, None, 1),
    ):
        if asked.only not in (None, name):
            continue
        seconds = search(beliefs, values, given, asked.questions, batch)
        if plain is None:
            plain = seconds
        label = "exact rows" if beliefs is exact else "noisy rows"
        label += ", prior learnt" if given is None else ", prior given"
        label += f", batches of {batch}" if batch > 1 else ""
        print(f"  {label:36s} {seconds:6.2f} s   ratio {seconds / plain:.1f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"  largest memory                       {peak:6.2f} GiB")


if __name__ == "__main__":
    main()
