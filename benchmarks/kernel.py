"""Regret, time and memory of `kernel` beside `partition` where many people take part.

    python benchmarks/kernel.py [--only million ...] [--learner kernel ...]
                                      [--replicates 10] [--seed 20251101]

| case          | people    | what it is                                                       |
|---------------|-----------|------------------------------------------------------------------|
| five_columns  | 200,000   | 5 arms, 5 columns of which two matter                            |
| million       | 1,000,000 | exponential: 3 arms, 2 columns of which one matters              |

The density of contexts is unknown, and all options are the defaults. Each line gives the mean
regret over replicates with its standard error, and the seconds of a run. Memory is the most
that the process has taken so far. Smaller problems are the studies `examples/synthetic_*.toml`.

    python benchmarks/kernel.py --calibration [--replicates 20]

How far the arms' predicted differences are from the truth after 5,000 people at local epsilon 1, in
posterior deviations (root mean square over people and pairs of arms): 1 if the learner is as sure
as it may be, more if it is too sure. Contexts are uniform.
"""

from __future__ import annotations

import argparse
import math
import resource
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from zoo_problems import load

from discreet import KernelBandit
from discreet.lab.environments.base import People, Problem
from discreet.lab.environments.catalog import load_problem
from discreet.lab.environments.synthetic import SyntheticProblem, UniformContexts
from discreet.lab.experiments import Setting, simulate_all
from discreet.lab.experiments.means import mean_and_error
from discreet.lab.experiments.simulation import run_learner
from discreet.privacy import Budget, Local, NonPrivate, SimulatedNoise
from discreet.validation import FloatArray


@dataclass(frozen=True)
class Case:
    """A problem, how many people it has, and under which budgets it is run."""

    problem: Problem
    people: int
    epsilons: tuple[float, ...]


def five_means(contexts: FloatArray) -> FloatArray:
    """(n, 5) Gaussian bumps over the first two columns: four corners and the middle."""
    centres = np.array([[0.2, 0.2], [0.8, 0.2], [0.2, 0.8], [0.8, 0.8], [0.5, 0.5]])
    away = ((contexts[:, None, :2] - centres[None]) ** 2).sum(axis=2)
    means: FloatArray = 0.1 + 0.8 * np.exp(-away / (2 * 0.2**2))
    return means


def cases() -> dict[str, Case]:
    """The cases of the table above."""
    exponential = load_problem("exponential", {"arms": 3, "dimension": 2})
    five = SyntheticProblem(five_means, UniformContexts(5), 5, 5, "Synthetic: five bumps.")
    return {
        "five_columns": Case(five, 200_000, (2.0,)),
        "million": Case(exponential, 1_000_000, (1.0, 4.0)),
    }


def line(case: Case, name: str, budget: Budget, given: argparse.Namespace) -> str:
    """Mean, standard error and seconds a run."""
    setting = Setting(name, name, budget)
    runs = simulate_all(case.problem, [setting], case.people, given.replicates, given.seed)
    records = [run.record for run in runs]
    mean, error = mean_and_error([record.value for record in records])
    seconds, _ = mean_and_error([record.seconds for record in records])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"{mean:>10,.0f} +- {error:<7,.0f} {seconds:>6.1f} s {memory:>7,.0f} MB"


def scores(problem: Problem, seed: int, people: int = 5_000) -> FloatArray:
    """z-scores of all differences of two arms' means, for 400 people of a run."""
    rng = np.random.default_rng(seed)
    crowd = problem.sample(people, rng)
    assert isinstance(crowd, People)
    learner = KernelBandit(
        problem.domain,
        problem.arm_names,
        Local(1.0),
        horizon=people,
        public_seed=seed,
    )
    run_learner(learner, crowd, rng, SimulatedNoise(seed))
    contexts = crowd.contexts[:400]
    posterior = learner._predictive
    phi = learner.features(problem.domain.to_unit(contexts), posterior.used)
    truth, means = 2.0 * problem.mean_rewards(contexts) - 1.0, phi @ posterior.mean.T
    found = []
    for one, other in combinations(range(problem.arms), 2):
        along = np.zeros((problem.arms, *phi.T.shape))
        along[one], along[other] = phi.T, -phi.T
        vectors = along.reshape(-1, len(phi))
        variance = (vectors * posterior.covariance_times(vectors)).sum(axis=0)
        away = means[:, one] - means[:, other] - truth[:, one] + truth[:, other]
        found.append(away / np.sqrt(variance))
    return np.stack(found)


def calibration(replicates: int, seed: int) -> None:
    """Print a line for each problem."""
    for name in ("exponential", "gaps", "few_columns", "checker"):
        runs = [scores(load(name), seed + run) for run in range(replicates)]
        each = np.array([np.sqrt((run**2).mean()) for run in runs])
        all_runs = math.sqrt((each**2).mean())
        print(f"{name:13} {all_runs:6.2f}   worst run {each.max():6.2f}", flush=True)


def main() -> None:
    """Print the table."""
    known = cases()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=list(known), default=list(known))
    parser.add_argument("--learner", nargs="*", default=["kernel", "partition"])
    parser.add_argument("--replicates", type=int, default=10)
    parser.add_argument("--seed", type=int, default=20251101)
    parser.add_argument("--calibration", action="store_true")
    given = parser.parse_args()
    if given.calibration:
        calibration(given.replicates, given.seed)
        return
    for name in given.only:
        case = known[name]
        for learner in given.learner:
            budgets: list[Budget] = [Local(epsilon) for epsilon in case.epsilons]
            for budget in [NonPrivate()] if learner == "uniform" else budgets:
                shown = f"epsilon {budget.epsilon:g}" if isinstance(budget, Local) else ""
                result = line(case, learner, budget, given)
                print(f"{name:13} {learner:14} {shown:11} {result}", flush=True)


if __name__ == "__main__":
    main()
