"""What PrivateBandit learns from decisions of others: python benchmarks/logs_of_others.py

Two columns matter (of `--columns`), and each of three arms is best for some. In an even log arms
were drawn at random; in an uneven one most people (60%) were given what is worst for them. Printed
is the share of what could be gained over the best single arm that the fitted bandit gains for new
people: 1 is all of it, 0 is what the best single arm earns; mean and standard error over seeds that
nothing was tuned on.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from typing import Any

import numpy as np

from discreet import PrivateBandit
from discreet.lab.experiments.means import mean_and_error

ARMS = ["none", "call", "visit"]
FIRST_SEED = 7100
WORST = 0.6
WAYS: dict[str, dict[str, Any]] = {
    "kernel, local": {},
    "kernel, joint": {"trust_model": "joint", "delta": 1e-6},
    "kernel, no privacy": {"trust_model": "none"},
}


def means(people: np.ndarray) -> np.ndarray:
    """(n, 3) mean rewards."""
    age, need, *_ = people.T
    return np.column_stack(
        [
            0.6 - 0.4 * need,
            0.3 + 0.4 * need * (1.0 - age),
            0.3 + 0.4 * need * age,
        ]
    )


def log(people: int, columns: int, uneven: bool, seed: int) -> tuple[np.ndarray, ...]:
    """Decisions, rewards, contexts, propensities."""
    rng = np.random.default_rng(seed)
    contexts = rng.random((people, columns))
    expected = means(contexts)
    chances = np.full(expected.shape, 1.0 / 3.0)
    if uneven:
        chances[:] = (1.0 - WORST) / 2.0
        chances[np.arange(people), expected.argmin(axis=1)] = WORST
    arms = (rng.random(people)[:, None] > chances.cumsum(axis=1)).sum(axis=1)
    every = np.arange(people)
    rewards = (rng.random(people) < expected[every, arms]).astype(np.float64)
    return np.array(ARMS)[arms], rewards, contexts, chances[every, arms]


def gained(
    way: dict[str, Any], epsilon: float, people: int, columns: int, uneven: bool, seed: int
) -> float:
    """The share of the gain over the best single arm."""
    more = {"least_propensity": (1.0 - WORST) / 2.0 if uneven else 1.0 / 3.0}
    bounds = {f"x{column}": (0, 1) for column in range(columns)}
    bandit = PrivateBandit(
        ARMS, epsilon, bounds=bounds, noise="simulated", random_state=seed, **(more | way)
    ).fit(*log(people, columns, uneven, seed))
    others = np.random.default_rng(FIRST_SEED - 1).random((5_000, columns))
    truth = means(others)
    chosen = [ARMS.index(arm) for arm in bandit.predict(others)]
    earned = truth[np.arange(len(others)), chosen].mean()
    fixed = truth.mean(axis=0).max()
    return float((earned - fixed) / (truth.max(axis=1).mean() - fixed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, nargs="+", default=[2_000, 8_000, 32_000])
    parser.add_argument("--columns", type=int, nargs="+", default=[2])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    for columns, name in product(given.columns, given.ways):
        for epsilon in [1.0] if "no privacy" in name else given.epsilon:
            for people in given.people:
                cells, start = [], time.perf_counter()
                for uneven in (False, True):
                    shares = [
                        gained(WAYS[name], epsilon, people, columns, uneven, FIRST_SEED + place)
                        for place in range(given.seeds)
                    ]
                    mean, error = mean_and_error(np.array(shares))
                    cells.append(f"{'uneven' if uneven else 'even'} {mean:6.2f} +- {error:.2f}")
                each = (time.perf_counter() - start) / (2 * given.seeds)
                what = "" if "no privacy" in name else f"epsilon {epsilon:g}"
                print(
                    f"{name:26}{what:12}{columns:3} columns{people:7,} people   "
                    f"{'   '.join(cells)}   {each:.1f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
