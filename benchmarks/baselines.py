"""What an engineer would build first, beside ours: `cell_response` (peers/cells.py).

    python benchmarks/baselines.py [--runs 20] [--ours 4]

It needs to be told how to cut contexts into cells. Where the table says so it knows that in
hindsight: on `exponential` the best arm changes at thirds of the first column. Regret, where less
is better, and reward (of `earnings`), where more is; `worst` is the worst run.
"""

from __future__ import annotations

import argparse
import math
from statistics import fmean, stdev
from typing import Any

from discreet.lab.environments.catalog import load_problem
from discreet.lab.experiments import Setting, simulate
from discreet.privacy import Local

SEED = 8000
HOMES = {"cell_response": "peers.cells:CellResponse"}
ROWS: tuple[tuple[str, int, str, float, dict[str, Any], str], ...] = (
    *(
        ("exponential", 80_000, "cell_response", epsilon, {"cells": cells}, words)
        for cells, words in (([3, 1], "3 x 1, hindsight"), (4, "4 x 4"))
        for epsilon in (1.0, 4.0)
    ),
    ("exponential", 80_000, "kernel", 1.0, {}, ""),
    ("exponential", 80_000, "kernel", 4.0, {}, ""),
    ("earnings", 61_000, "cell_response", 2.0, {"cells": [1, 5, 2]}, "1 x 5 x 2"),
    ("earnings", 61_000, "cell_response", 4.0, {"cells": [1, 5, 2]}, "1 x 5 x 2"),
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20, help="runs of a baseline (20)")
    parser.add_argument("--ours", type=int, default=4, help="runs of kernel (4)")
    wish = parser.parse_args()
    print(f"{'problem':12} {'learner':14} {'cells':19} {'epsilon':>7} {'runs':>4}   total    worst")
    for name, people, learner, epsilon, options, words in ROWS:
        problem = load_problem(name)
        runs = wish.ours if learner == "kernel" else wish.runs
        home = HOMES.get(learner, learner)
        setting = Setting(home, learner, Local(epsilon), options)
        values = [simulate(problem, setting, people, SEED + n, 0).record.value for n in range(runs)]
        worst = min(values) if problem.metric == "reward" else max(values)
        error = stdev(values) / math.sqrt(runs) if runs > 1 else math.nan
        print(
            f"{name:12} {learner:14} {words:19} {epsilon:>7g} {runs:>4}  "
            f"{fmean(values):,.0f} +- {error:,.0f}  {worst:,.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
