"""What arm points are worth to `kernel`, beside the same arms without points.

    python benchmarks/arm_points.py [--people 10000] [--replicates 10] [--seed 73100]
    python benchmarks/arm_points.py --only loan_quotes               half an hour
    python benchmarks/arm_points.py --wrong                          beside points in a random order
    python benchmarks/arm_points.py --beside best_arm                beside another learner
    python benchmarks/arm_points.py --known --only grid              what a known kernel is worth

| problem     | what it is                                                                         |
|-------------|------------------------------------------------------------------------------------|
| grid        | 20 arms on a line, 30 contexts; means are a new smooth function in each replicate  |
| doses       | 8 doses, one column, with which the best dose rises; rewards are Bernoulli         |
| loan_quotes | 26 interest rates, 3 columns, 9,976 real loans                                     |

Default options. Each line gives the mean regret with its standard error; `saved` is what points
save of the regret without them. With `--known` it is what a kernel and a bound on the noise of
rewards save (of `grid` the true ones).
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from discreet.lab.environments.base import Problem
from discreet.lab.environments.catalog import load_problem
from discreet.lab.environments.synthetic import SyntheticProblem, UniformContexts
from discreet.lab.experiments import Setting, simulate_all
from discreet.lab.experiments.means import mean_and_error
from discreet.lab.experiments.simulation import ORACLE
from discreet.people.domain import ActionSpace, ArmPoints
from discreet.privacy import Budget, Joint, Local, NonPrivate
from discreet.validation import FloatArray

BUDGETS: dict[str, Budget] = {
    "local 1": Local(1.0),
    "local 4": Local(4.0),
    "joint 1": Joint(1.0, 1e-6),
    "none": NonPrivate(),
}
DOSES = np.arange(1.0, 9.0)
PLACES = ("grid", "doses", "loan_quotes")
Options = dict[str, Any]
KNOWN: dict[str, Options] = {
    "grid": {"kernel": "RBF(0.3)", "reward_noise": 0.25},
    "loan_quotes": {"kernel": "RBF([5, 40, 1, 5])", "reward_noise": 0.6},
}


def effects(contexts: FloatArray) -> FloatArray:
    """(n, 8) the chance of success: .8 at the best dose, .2 far away from it."""
    best = 2.0 + 5.0 * contexts[:, :1]
    means: FloatArray = 0.2 + 0.6 * np.exp(-(((DOSES - best) / 2.0) ** 2))
    return means


class Doses(SyntheticProblem):
    """Eight doses."""

    def __init__(self) -> None:
        super().__init__(effects, UniformContexts(1), 1, len(DOSES), "Synthetic: doses.")
        self._space = ArmPoints.of(DOSES)


def made(place: str) -> Problem:
    """A problem by its name in the table above."""
    if place == "doses":
        return Doses()
    return load_problem("kernel_grid", {"arms": 20}) if place == "grid" else load_problem(place)


def regret(
    place: str, name: str, space: ActionSpace, options: Options, budget: Budget, how: list[int]
) -> FloatArray:
    """(replicates,) of a learner, whose arms are given like that."""
    problem = made(place)
    problem._space = space
    people, *rest = how
    oracle, learner = (
        np.array([run.record.value for run in simulate_all(problem, [line], people, *rest)])
        for people in [min(people, problem.size or people)]
        for line in (Setting(ORACLE, ORACLE), Setting(name, name, budget, options))
    )
    return np.abs(oracle - learner)  # of rewards, or of regret, which the oracle has not


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=10_000)
    parser.add_argument("--replicates", type=int, default=10)
    parser.add_argument("--seed", type=int, default=73_100)
    parser.add_argument("--only", nargs="+", choices=PLACES, default=PLACES[:2])
    parser.add_argument("--wrong", action="store_true", help="show points in a random order, too")
    parser.add_argument("--beside", help="another learner of arms")
    parser.add_argument("--known", action="store_true", help="say the kernel and the noise")
    given = parser.parse_args()
    how = [given.people, given.replicates, given.seed]
    heads = ["kernel", "without points", *(["wrong points"] if given.wrong else [])]
    heads += [given.beside] if given.beside else []
    if given.known:
        heads = ["kernel, known", "kernel"]
    print(f"{'problem':12}{'budget':8}{''.join(f'{head:>18}' for head in heads)}        saved")
    for place in given.only:
        points = made(place).space
        assert isinstance(points, ArmPoints)
        order = np.random.default_rng(8).permutation(len(points))
        lines: dict[str, tuple[str, ActionSpace, Options]] = {
            given.beside or "": (given.beside or "", points, {}),
            "kernel": ("kernel", points, {}),
            "without points": ("kernel", len(points), {}),
            "wrong points": ("kernel", ArmPoints.of(points.array[order]), {}),
        }
        if given.known:
            lines["kernel, known"] = "kernel", points, KNOWN[place]
        for label, budget in BUDGETS.items():
            lost = [regret(place, *lines[head], budget, how) for head in heads]
            saved, error = mean_and_error(1.0 - lost[0] / lost[1].mean())
            shown = "".join(
                f"{mean:>10,.0f} +- {off:<4,.0f}" for mean, off in map(mean_and_error, lost)
            )
            print(f"{place:12}{label:8}{shown} {saved:>5.0%} +- {error:.0%}", flush=True)


if __name__ == "__main__":
    main()
