"""Regret and time of the local learners side by side: a few unrelated arms, and arms on a line.

    python benchmarks/local_learners.py [--people 80000] [--replicates 5] [--seed 9102]

`exponential`: two continuous context columns, 3 arms without an order (a kernel over contexts for
each arm). `kernel_grid`: 30 contexts, 60 arms on a line, the kernel known. Default options
otherwise. Prints mean regret +- its standard error, the ratio to `partition`, and seconds a run.
"""

from __future__ import annotations

import argparse
from typing import Any

from discreet.lab.environments.base import Problem
from discreet.lab.environments.catalog import load_problem
from discreet.lab.experiments import Setting, simulate_all
from discreet.lab.experiments.means import mean_and_error
from discreet.privacy import Budget, Local, NonPrivate

BUDGETS: list[Budget] = [Local(1.0), Local(2.0), Local(4.0), NonPrivate()]
GRID = {"kernel": "RBF(length_scale=0.3)", "reward_noise": 0.25}


def line(
    problem: Problem, name: str, budget: Budget, options: dict[str, Any], given: argparse.Namespace
) -> tuple[float, float, float]:
    """Mean regret, its standard error, and seconds a run."""
    setting = Setting(name, name, budget, options)
    runs = simulate_all(problem, [setting], given.people, given.replicates, given.seed)
    records = [run.record for run in runs]
    seconds, _ = mean_and_error([record.seconds for record in records])
    return *mean_and_error([record.value for record in records]), seconds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=80_000)
    parser.add_argument("--replicates", type=int, default=5)
    parser.add_argument("--seed", type=int, default=9102)
    given = parser.parse_args()
    problems = {"exponential": {"arms": 3, "dimension": 2}, "kernel_grid": {}}
    print(
        "problem      budget            partition             released_thompson     ratio  seconds"
    )
    for problem_name, settings in problems.items():
        problem = load_problem(problem_name, settings)
        options = GRID if problem_name == "kernel_grid" else {}
        for budget in BUDGETS:
            bins = line(problem, "partition", budget, {}, given)
            epochs = line(problem, "released_thompson", budget, options, given)
            epsilon = budget.epsilon if isinstance(budget, Local) else None
            print(
                f"{problem_name:12} {'none' if epsilon is None else f'local {epsilon:g}':10}"
                f" {bins[0]:>14,.0f} +- {bins[1]:<8,.0f} {epochs[0]:>12,.0f} +- {epochs[1]:<8,.0f}"
                f" {epochs[0] / bins[0]:>6.2f}  {bins[2]:.1f} / {epochs[2]:.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
