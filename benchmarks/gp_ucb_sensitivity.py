"""How much the regret of gp_ucb hangs on its constants: python benchmarks/gp_ucb_sensitivity.py

Section 6.1 of Dubey (2021), T = 1024, decision sets; mean and standard error of 40 trials on the
same people for every line. One constant is changed at a time, the others keep their defaults.
"""

from __future__ import annotations

import argparse

import joblib

from discreet.lab.environments.decision_sets import BumpProblem
from discreet.lab.experiments import Setting, simulate_all
from discreet.lab.experiments.means import mean_and_error
from discreet.papers.dubey2021.figures import BUMP_KERNEL, ball_points
from discreet.privacy import Joint

SEED = 4021
ROUNDS = 1024
BUDGETS = (Joint(10.0, 0.1), Joint(1.0, 0.1), Joint(1.0, 1e-5))
CHANGES: tuple[dict[str, object], ...] = (
    {},
    {"confidence_multiplier": 0.1},
    {"confidence_multiplier": 0.5},
    {"confidence_multiplier": 1.0},
    {"prior_variance": 1.0 / 24.0},
    {"prior_variance": 1.0 / 6.0},
    {"reward_weight": 1.5},
    {"reward_weight": 2.7},
    {"growth": 1.05},
    {"growth": 1.3},
    {"error": 1e-2},
    {"mechanism_name": "buffered_toeplitz", "every": 4},
    {"choose": "thompson"},
)


def main() -> None:
    """Print a line for each change."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=40)
    trials = parser.parse_args().trials
    heads = [f"eps {b.epsilon:g}, delta {b.delta:g}" for b in BUDGETS]
    print(f"{'changed':<58}" + "".join(f"{head:>22}" for head in heads))
    problem, points = BumpProblem(), ball_points().tolist()
    for change in CHANGES:
        name = ", ".join(
            f"{key} = {value:.3g}" if isinstance(value, float) else f"{key} = {value}"
            for key, value in change.items()
        )
        options = {"kernel": BUMP_KERNEL, "public_points": points, **change}
        cells = []
        for budget in BUDGETS:
            setting = Setting("gp_ucb", "gp_ucb", budget, options)
            runs = simulate_all(problem, [setting], ROUNDS, trials, SEED, joblib.cpu_count())
            mean, error = mean_and_error([run.record.value for run in runs])
            cells.append(f"{mean:.1f} +- {error:.1f}")
        print(f"{name or 'nothing':<58}" + "".join(f"{cell:>22}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
