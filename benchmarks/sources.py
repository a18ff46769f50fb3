"""What auxiliary sources are worth to `kernel`, by the target's trust model.

    python benchmarks/sources.py [--replicates 10] [--seed 39000] [--people 10000] [--jobs 2]

Regret of the target's people on the exponential problem (three arms, two columns), with standard
errors. Before them people elsewhere, whose arms were drawn evenly, report once each under local
privacy: none; two sources of 5,000 people at epsilon 8, or at epsilon 1; or one of 5,000 at
epsilon 8 where each arm pays what it does not pay here, which the learner has to find out.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from discreet import KernelBandit
from discreet.lab.environments.synthetic import draw_auxiliary, exponential
from discreet.lab.experiments import Seed, Source, run_trials
from discreet.lab.experiments.means import mean_and_error
from discreet.lab.experiments.simulation import people_of, play
from discreet.privacy import Budget, Joint, Local, SimulatedNoise

BUDGETS: tuple[Budget, ...] = (Local(1.0), Joint(1.0, 1e-6))
# How many sources, the epsilon of each, and whether their rewards are the opposite.
CASES = {
    "none": (0, 1.0, False),
    "two, epsilon 8": (2, 8.0, False),
    "two, epsilon 1": (2, 1.0, False),
    "opposite, epsilon 8": (1, 8.0, True),
}
_PEOPLE = 5000


def trial(seed: Seed, budget: Budget, case: str, people: int) -> float:
    """The regret of one run."""
    problem, (count, epsilon, opposite) = exponential(), CASES[case]

    def drawn(rng: np.random.Generator) -> Sequence[Source]:
        data = [draw_auxiliary(problem, _PEOPLE, rng) for _ in range(count)]
        if opposite:
            data = [replace(each, rewards=1.0 - each.rewards) for each in data]
        return [Source(f"source {k}", epsilon, each) for k, each in enumerate(data)]

    def make(public_seed: int, noise: SimulatedNoise) -> Any:
        own = {"noise": noise} if budget.is_central else {}
        common = {"horizon": people, "public_seed": public_seed, **own}
        return KernelBandit(problem.domain, problem.arms, budget, **common)

    crowd = people_of(problem, people, seed.base, seed.trial)
    _, regret, _ = play(seed, crowd, make, drawn)
    return float(regret.sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, default=10)
    parser.add_argument("--seed", type=int, default=39_000)
    parser.add_argument("--people", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    settings = [
        {"budget": budget, "case": case, "people": given.people}
        for case, budget in product(CASES, BUDGETS)
    ]
    found: dict[int, list[float]] = {}
    for done in run_trials(trial, settings, given.replicates, given.seed, given.jobs):
        found.setdefault(done.case, []).append(done.result)
    models = "".join(f"{f'{each.trust_model} {each.epsilon:g}':>18}" for each in BUDGETS)
    print(f"{'sources':<22}{models}")
    for row, case in enumerate(CASES):
        cells = [found[row * len(BUDGETS) + column] for column in range(len(BUDGETS))]
        means = (mean_and_error(each) for each in cells)
        print(f"{case:<22}" + "".join(f"{mean:>11,.0f} +- {error:<4,.0f}" for mean, error in means))


if __name__ == "__main__":
    main()
