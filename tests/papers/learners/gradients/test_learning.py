"""What the learners reach on small problems, with seeds that were not used for tuning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from discreet.lab.environments.synthetic import SyntheticProblem, UniformContexts, symmetric
from discreet.lab.experiments import run_learner
from discreet.learners.registry import make_learner
from discreet.privacy import Budget, Local, NonPrivate, SimulatedNoise

PEOPLE = 12_000


def logistic_means(contexts: np.ndarray) -> np.ndarray:
    """Three arms, each a logistic function of a line."""
    one, two = (2.0 * contexts - 1.0).T
    return expit(np.stack([0.3 + 2.0 * one, 0.2 - 2.0 * one, 0.4 + 1.5 * two], axis=1))


EASY = SyntheticProblem(logistic_means, UniformContexts(2), 2, 3, "easy")


def learner_for(problem: Any, name: str, budget: Budget, seed: int, **options: Any) -> Any:
    """A new learner."""
    return make_learner(
        name, problem.domain, problem.arms, budget, public_seed=seed, options=options
    )


def regret(problem: Any, learner: Any, seed: int) -> float:
    """Total regret of `PEOPLE`, as a share of that of uniform choice."""
    people = problem.sample(PEOPLE, np.random.default_rng([seed, 1]))
    lost = run_learner(learner, people, np.random.default_rng([seed, 2]), SimulatedNoise(seed))
    uniform = (people.means.max(axis=1) - people.means.mean(axis=1)).sum()
    return float(lost.sum() / uniform)


@pytest.mark.parametrize("name", ["private_linear", "private_neural"])
@pytest.mark.parametrize(
    ("budget", "options", "most"),
    [
        (NonPrivate(), {}, 0.25),
        pytest.param(Local(4.0), {}, 0.6, marks=pytest.mark.slow),
        (Local(4.0), {"mechanism": "privunit"}, 0.45),
    ],
    ids=["non-private", "epsilon 4", "epsilon 4, privunit"],
)
def test_an_easy_problem_is_learnt(
    name: str, budget: Budget, options: dict[str, Any], most: float
) -> None:
    found = [regret(EASY, learner_for(EASY, name, budget, s, **options), s) for s in range(90, 92)]
    assert np.mean(found) < most


def test_only_the_network_learns_what_no_line_tells() -> None:
    """Each arm is best in two opposite quarters of the square."""
    problem = symmetric()
    found = {
        name: regret(problem, learner_for(problem, name, NonPrivate(), 90), 90)
        for name in ("private_linear", "private_neural")
    }
    assert found["private_linear"] > 0.8
    assert found["private_neural"] < 0.5


@pytest.mark.parametrize(
    "name", ["private_linear", pytest.param("private_neural", marks=pytest.mark.slow)]
)
def test_a_source_gives_a_start(name: str) -> None:
    with_source, without = [], []
    for seed in range(90, 92):
        learner = learner_for(EASY, name, Local(1.0), seed)
        learner.open_source("elsewhere", 4.0)
        rng, noise = np.random.default_rng([seed, 3]), SimulatedNoise(seed)
        for _ in range(20):
            policy = learner.policy("elsewhere")
            people = EASY.sample(1000, rng)
            # Whoever chose the arms liked the last one.
            arms = np.minimum(rng.integers(5, size=len(people)), 2)
            rewards = people.rewards[np.arange(len(people)), arms]
            learner.update(policy.report(people.contexts, arms, rewards, noise))
        with_source.append(regret(EASY, learner, seed))
        without.append(regret(EASY, learner_for(EASY, name, Local(1.0), seed), seed))
    assert np.mean(with_source) < 0.7 * np.mean(without)
