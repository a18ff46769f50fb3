"""Time and memory of the partition learner, and how they grow with n, d, K, epsilon and bins.

    python benchmarks/partition_speed.py [--quick]

Each line runs in a process of its own (one thread of arithmetic), so that peak memory is its own.
`ratio` is the time over that of the first line. Seconds are those of the learner, its policies and
reports; drawing the people is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys

LINES = [
    # n, d, K, epsilon, learner
    (80_000, 2, 3, 1.0, "partition"),
    (80_000, 2, 3, 4.0, "partition"),
    (80_000, 2, 3, None, "partition"),
    (10_000, 2, 3, 1.0, "partition"),
    (1_000_000, 2, 3, 1.0, "partition"),
    (80_000, 1, 3, 1.0, "partition"),
    (80_000, 3, 3, 1.0, "partition"),
    (80_000, 5, 3, 1.0, "partition"),
    (80_000, 2, 6, 1.0, "partition"),
    (80_000, 2, 12, 1.0, "partition"),
    (80_000, 2, 3, 1.0, "published_partition"),
    (80_000, 2, 3, None, "abse"),
    (80_000, 2, 3, None, "uniform"),
]


def measure(people: int, dimension: int, arms: int, epsilon: float | None, name: str) -> None:
    """Run one line in this process and print it as JSON."""
    from discreet.experiments import Setting, simulate
    from discreet.privacy import Local, NonPrivate
    from discreet.problems.synthetic import exponential

    budget = NonPrivate() if epsilon is None else Local(epsilon)
    problem = exponential(arms=arms, dimension=dimension)
    outcome = simulate(problem, Setting(name, name, budget), people, 9_000, 0)
    tree = getattr(outcome.policy, "tree", None)
    print(
        json.dumps(
            {
                "seconds": outcome.record.seconds,
                "regret": outcome.record.value,
                "bins": 1 if tree is None else len(tree.leaves),
                "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the first four lines only")
    parser.add_argument("--line", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.line is not None:
        measure(*LINES[options.line])
        return
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    header = (
        "learner                     n   d   K  epsilon   seconds   ratio   bins   regret   peak MB"
    )
    print(header)
    first = None
    for number in range(4 if options.quick else len(LINES)):
        people, dimension, arms, epsilon, name = LINES[number]
        command = [sys.executable, __file__, "--line", str(number)]
        text = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        result = json.loads(text.stdout)
        first = first or result["seconds"]
        print(
            f"{name:20} {people:>9,} {dimension:>3} {arms:>3} {epsilon or 'none':>8}"
            f" {result['seconds']:>9.2f} {result['seconds'] / first:>7.2f} {result['bins']:>6}"
            f" {result['regret']:>8,.0f} {result['megabytes']:>9.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
