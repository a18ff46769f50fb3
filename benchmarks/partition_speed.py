"""Time and memory of the partition learner, and how they grow with n, d, K, epsilon and bins.

    python benchmarks/partition_speed.py [--quick]

`ratio` is the time over that of the first line. Seconds are those of the learner, its policies and
reports; drawing the people is not counted.
"""

from __future__ import annotations

from typing import Any

from apart import measured

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


def measure(
    people: int, dimension: int, arms: int, epsilon: float | None, name: str
) -> dict[str, Any]:
    """Run one line in this process."""
    from discreet.lab.environments.synthetic import exponential
    from discreet.lab.experiments import Setting, simulate
    from discreet.privacy import Local, NonPrivate

    budget = NonPrivate() if epsilon is None else Local(epsilon)
    problem = exponential(arms=arms, dimension=dimension)
    outcome = simulate(problem, Setting(name, name, budget), people, 9_000, 0)
    bins = getattr(outcome.policy, "bins", None)
    return {
        "seconds": outcome.record.seconds,
        "regret": outcome.record.value,
        "bins": 1 if bins is None else bins.tree.leaf_count,
    }


def main() -> None:
    """Print the table."""
    header = (
        "learner                     n   d   K  epsilon   seconds   ratio   bins   regret   peak MB"
    )
    first = None
    for line, result in measured(__file__, __doc__, LINES, measure, range(4), header):
        people, dimension, arms, epsilon, name = line
        first = first or result["seconds"]
        print(
            f"{name:20} {people:>9,} {dimension:>3} {arms:>3} {epsilon or 'none':>8}"
            f" {result['seconds']:>9.2f} {result['seconds'] / first:>7.2f} {result['bins']:>6}"
            f" {result['regret']:>8,.0f} {result['megabytes']:>9.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
