"""Ask and tell under joint, local and no privacy, and where a joint search draws its noise.

    python benchmarks/searches.py [--trials 100 300 1000] [--epsilon 0.5 2] [--replicates 32]

Values are 0 or 1; their means are known. `best` is the mean value of the setting that `best()`
names at the end, `earned` the mean over all trials, each as a share of the largest mean, with
standard errors. `joint` is `Search(.., Joint(epsilon, 1e-6))` as it is, `sums` the same with noise
on sums of epochs, `local` with noise on each value.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")

import joblib
import numpy as np

from discreet import Joint, Local, NonPrivate, Search, SimulatedNoise
from discreet import search as module

DELTA = 1e-6


class Problem(NamedTuple):
    """Columns, the mean value of a setting, and the largest mean."""

    columns: dict[str, Any]
    mean: Callable[[dict[str, Any]], float]
    most: float


def _dose(params: dict[str, Any]) -> float:
    """The example of docs/people.md."""
    steps = abs(np.log2(params["dose"] / 20))
    return float(max(0.8 - 0.2 * steps - 0.3 * (params["form"] == "pill"), 0.0))


PROBLEMS = {
    "dose": Problem(
        {
            "dose": {"lower": 5, "upper": 80, "levels": 16, "log": True},
            "form": ["pill", "drop"],
        },
        _dose,
        0.8,
    ),
    "four": Problem(
        {"form": ["a", "b", "c", "d"]},
        lambda params: {"a": 0.3, "b": 0.5, "c": 0.4, "d": 0.6}[params["form"]],
        0.6,
    ),
    "line": Problem(
        {"x": (0, 1)},
        lambda params: 0.2 + 0.6 * float(np.exp(-(((params["x"] - 0.7) / 0.15) ** 2))),
        0.8,
    ),
    "five": Problem(
        dict.fromkeys("abcde", (0, 1)),
        lambda params: 0.8 - sum((params[name] - 0.6) ** 2 for name in "abcde") / 3.0,
        0.8,
    ),
}


def searched(name: str, kind: str, epsilon: float, trials: int, seed: int) -> tuple[float, float]:
    """The shares `best` and `earned` of one search."""
    columns, mean, most = PROBLEMS[name]
    budgets = {"local": Local(epsilon), "none": NonPrivate()}
    budget = budgets.get(kind, Joint(epsilon, DELTA))
    noise = None if kind == "none" else SimulatedNoise(seed)
    rule = (lambda *_: False) if kind == "sums" else module._few
    with mock.patch.object(module, "_few", rule):
        search = Search(columns, budget, trials=trials, noise=noise, seed=seed)
    rng = np.random.default_rng(seed)
    earned = 0.0
    for _ in range(trials):
        trial = search.ask()
        chance = mean(trial.params)
        earned += chance
        search.tell(trial, float(rng.random() < chance))
    return mean(search.best().params) / most, earned / trials / most


def main() -> None:
    """Print a line for each problem, number of trials, epsilon and kind of search."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--trials", nargs="+", type=int, default=[100, 300, 1000])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.5, 2.0])
    parser.add_argument("--replicates", type=int, default=32)
    parser.add_argument("--seed", type=int, default=4711)
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    kinds = ("joint", "sums", "local", "none")
    print("problem  trials  epsilon  kind   best            earned")
    for name in asked.problems:
        for trials in asked.trials:
            for epsilon in asked.epsilon:
                for kind in kinds:
                    rows = joblib.Parallel(asked.jobs)(
                        joblib.delayed(searched)(name, kind, epsilon, trials, asked.seed + number)
                        for number in range(asked.replicates)
                    )
                    values = np.array(rows)
                    errors = values.std(axis=0, ddof=1) / np.sqrt(len(values))
                    best, earned = (
                        f"{mean:.3f} +- {error:.3f}"
                        for mean, error in zip(values.mean(axis=0), errors, strict=True)
                    )
                    print(
                        f"{name:7}  {trials:6}  {epsilon:7g}  {kind:5}  {best}  {earned}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
