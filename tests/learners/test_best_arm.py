"""best_arm: the kernel bandit with the constant as its only feature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from discreet.codec import decode, encode
from discreet.lab.environments.synthetic import SyntheticProblem, UniformContexts
from discreet.lab.experiments import Setting, simulate_all
from discreet.learners.policy import Policy
from discreet.learners.registry import make_learner
from discreet.people.domain import unit_cube
from discreet.privacy import Budget, Joint, Local, NonPrivate, SimulatedNoise, Unprotected
from discreet.validation import FloatArray, InvalidInput

MEANS = (0.3, 0.5, 0.7)
JOINT = Joint(2.0, 1e-6)


def taught(budget: Budget, dimension: int = 2, people: int = 600) -> Any:
    """A learner of whose arms the last is best for everyone."""
    learner = make_learner(
        "best_arm",
        unit_cube(dimension),
        3,
        budget,
        horizon=1000,
        public_seed=3,
        identity="best",
        noise=SimulatedNoise(4) if budget.is_central else None,
    )
    rng, noise = np.random.default_rng(5), SimulatedNoise(6) if budget.is_local else Unprotected()
    while learner.people < people:
        policy = learner.policy()
        contexts = rng.random((learner.batch_size, dimension))
        actions, _ = policy.act(contexts, rng)
        rewards = (rng.random(len(contexts)) < np.array(MEANS)[actions.arms]).astype(float)
        learner.update(policy.report(contexts, actions, rewards, noise))
    return learner


@pytest.mark.parametrize("budget", [Local(1.0), JOINT, NonPrivate()], ids=lambda b: b.trust_model)
def test_no_context_changes_what_is_done(budget: Budget) -> None:
    """The public coin alone decides the arm, also of a policy that was sent."""
    policy = decode(encode(taught(budget).policy()), Policy)
    assert not policy.varies
    contexts = np.random.default_rng(0).random((50, 2))
    coins = np.full(50, 7, dtype=np.uint64)
    arms, propensities = policy._choose(contexts, coins)
    assert len(set(arms.tolist())) == len(set(propensities.tolist())) == 1
    assert np.ptp(policy.probabilities(contexts), axis=0).max() == 0.0


@pytest.mark.parametrize("budget", [Local(4.0), JOINT], ids=lambda b: b.trust_model)
def test_more_columns_are_taken_than_of_functions_of_contexts(budget: Budget) -> None:
    learner = taught(budget, dimension=40)
    mean, deviation = learner.predict(np.full((1, 40), 0.3))
    assert mean.argmax() == 2
    assert (np.abs(mean - MEANS) < 4.0 * deviation).all()


@pytest.mark.parametrize("budget", [Local(4.0), JOINT], ids=lambda b: b.trust_model)
def test_values_are_of_policies_that_ignore_contexts(budget: Budget) -> None:
    learner = taught(budget)
    worth = learner.value(2)
    assert worth.lower < MEANS[2] < worth.upper
    assert learner.value(learner.policy()).mean <= worth.upper
    assert learner.value(2, against=0).mean > 0.0

    def rule(contexts: FloatArray) -> Any:
        return (contexts[:, 0] > 0.5).astype(np.int64)

    kernel = make_learner("kernel", unit_cube(2), 3, Local(1.0)).policy()
    for policy in (rule, kernel):
        with pytest.raises(InvalidInput, match="may depend on the context"):
            learner.value(policy)
        with pytest.raises(InvalidInput, match="may depend on the context"):
            learner.value(0, against=policy)
    with pytest.raises(InvalidInput, match="does not know what others would earn"):
        learner.value(contexts=np.full((3, 2), 0.5))


@pytest.mark.parametrize(
    ("budget", "share"),
    [
        pytest.param(Local(1.0), 0.6, marks=pytest.mark.slow),
        (Local(4.0), 0.2),
        (Joint(1.0, 1e-6), 0.5),
    ],
    ids=repr,
)
def test_regret_is_a_small_share_of_that_of_chance(budget: Budget, share: float) -> None:
    def means(contexts: FloatArray) -> FloatArray:
        return np.tile(MEANS, (len(contexts), 1))

    problem = SyntheticProblem(means, UniformContexts(3), 3, 3, "the same for everyone")
    settings = [Setting("best_arm", "best_arm", budget), Setting("uniform", "uniform")]
    runs = list(simulate_all(problem, settings, 1500, 1, 31))
    lost = {
        name: np.mean([run.record.value for run in runs if run.record.learner == name])
        for name in ("best_arm", "uniform")
    }
    assert lost["best_arm"] < share * lost["uniform"]
