"""What PrivateBandit learns from decisions of others: python benchmarks/logs_of_others.py

Two columns, three arms, each the best one for some. In an even log arms were drawn at random; in an
uneven one most people (60%) were given what is worst for them. Printed is the share of what could
be gained over the best single arm that the fitted bandit gains for new people: 1 is all of it, 0 is
what the best single arm earns; mean and standard error over seeds that nothing was tuned on.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from discreet import PrivateBandit
from discreet.lab.experiments.means import mean_and_error

ARMS = ["none", "call", "visit"]
BOUNDS = {"age": (0, 1), "need": (0, 1)}
FIRST_SEED = 7100
TEST = np.random.default_rng(FIRST_SEED - 1).random((5_000, 2))
WORST = 0.6
WAYS: dict[str, dict[str, Any]] = {
    "partition, local": {"learner": "partition"},
    "kernel, local": {"learner": "kernel"},
    "released_thompson, joint": {"trust_model": "joint", "delta": 1e-6},
    "kernel, no privacy": {"trust_model": "none"},
}


def means(people: np.ndarray) -> np.ndarray:
    """(n, 3) mean rewards."""
    age, need = people.T
    return np.column_stack(
        [
            0.6 - 0.4 * need,
            0.3 + 0.4 * need * (1.0 - age),
            0.3 + 0.4 * need * age,
        ]
    )


def log(people: int, uneven: bool, seed: int) -> tuple[np.ndarray, ...]:
    """Decisions, rewards, contexts, propensities."""
    rng = np.random.default_rng(seed)
    contexts = rng.random((people, 2))
    expected = means(contexts)
    chances = np.full(expected.shape, 1.0 / 3.0)
    if uneven:
        chances[:] = (1.0 - WORST) / 2.0
        chances[np.arange(people), expected.argmin(axis=1)] = WORST
    arms = (rng.random(people)[:, None] > chances.cumsum(axis=1)).sum(axis=1)
    every = np.arange(people)
    rewards = (rng.random(people) < expected[every, arms]).astype(np.float64)
    return np.array(ARMS)[arms], rewards, contexts, chances[every, arms]


def gained(way: dict[str, Any], epsilon: float, people: int, uneven: bool, seed: int) -> float:
    """The share of the gain over the best single arm."""
    more = {"least_propensity": (1.0 - WORST) / 2.0 if uneven else 1.0 / 3.0}
    bandit = PrivateBandit(
        ARMS, epsilon, bounds=BOUNDS, noise="simulated", random_state=seed, **(more | way)
    ).fit(*log(people, uneven, seed))
    truth = means(TEST)
    chosen = [ARMS.index(arm) for arm in bandit.predict(TEST)]
    earned = truth[np.arange(len(TEST)), chosen].mean()
    fixed = truth.mean(axis=0).max()
    return float((earned - fixed) / (truth.max(axis=1).mean() - fixed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, nargs="+", default=[2_000, 8_000, 32_000])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    for name in given.ways:
        for epsilon in [1.0] if "no privacy" in name else given.epsilon:
            for people in given.people:
                cells, start = [], time.perf_counter()
                for uneven in (False, True):
                    shares = [
                        gained(WAYS[name], epsilon, people, uneven, FIRST_SEED + place)
                        for place in range(given.seeds)
                    ]
                    mean, error = mean_and_error(np.array(shares))
                    cells.append(f"{'uneven' if uneven else 'even'} {mean:6.2f} +- {error:.2f}")
                each = (time.perf_counter() - start) / (2 * given.seeds)
                said = "" if "no privacy" in name else f"epsilon {epsilon:g}"
                print(
                    f"{name:26}{said:12}{people:7,} people   {'   '.join(cells)}   {each:.1f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
