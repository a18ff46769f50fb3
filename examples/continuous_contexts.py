"""Contexts that take any value: a learner that knows them by a public sample only.

Three treatments for people of any age and weight, under joint privacy. What the learner must know
about contexts (which of them its own policy will meet) comes from a public survey of 400 people.
The kernel becomes features by quadrature whose norm is certified on the whole domain, so the
promise holds for every context, whoever was in the survey. Everything here is invented.

    python examples/continuous_contexts.py
"""

from __future__ import annotations

import numpy as np

from discreet import Box, Joint, SimulatedNoise, Unprotected
from discreet.learners.epochs.released_thompson import ReleasedThompson

DOMAIN = Box(lower=(18, 40), upper=(95, 140), names=("age", "weight_kg"))
PEOPLE, BATCH = 20_000, 500


def visitors(people: int, rng: np.random.Generator) -> np.ndarray:
    """(n, 2) age and weight."""
    age = 18.0 + 77.0 * rng.beta(2.0, 3.0, people)
    return np.column_stack([age, np.clip(rng.normal(78.0, 15.0, people), 40.0, 140.0)])


def helped(contexts: np.ndarray) -> np.ndarray:
    """(n, 3) how likely each treatment helps; nobody knows this."""
    age, weight = (contexts - [18.0, 40.0]).T / [[77.0], [100.0]]
    return np.column_stack([0.7 - 0.5 * age, 0.2 + 0.5 * age, 0.3 + 0.5 * weight * (1.0 - age)])


def main() -> None:
    """Serve 20,000 people, and say what it cost."""
    rng = np.random.default_rng(5)
    learner = ReleasedThompson(
        DOMAIN,
        3,
        Joint(epsilon=1.0, delta=1e-6),
        kernel="RBF(length_scale=[30, 40])",  # years, kg
        contexts=visitors(400, rng),  # the survey: public
        error=0.03,
        horizon=PEOPLE,
        noise=SimulatedNoise(1),  # with people: SecureNoise()
    )
    print(f"{learner.features.features} features of context and treatment")
    regret = chance = 0.0
    served = 0
    while served < PEOPLE:
        policy = learner.policy()  # the same one until its epoch is over
        contexts = visitors(min(BATCH, learner.batch_size, PEOPLE - served), rng)
        actions, _ = policy.act(contexts, rng)
        chances = helped(contexts)
        of_chosen = chances[np.arange(len(contexts)), actions.arms]
        rewards = (rng.random(len(contexts)) < of_chosen).astype(float)
        learner.update(policy.report(contexts, actions, rewards, Unprotected()))
        regret += float((chances.max(axis=1) - of_chosen).sum())
        chance += float((chances.max(axis=1) - chances.mean(axis=1)).sum())
        served += len(contexts)

    print(f"regret {regret:,.0f}; at random it would be {chance:,.0f}")
    policy = learner.policy()
    for age, weight in ((25, 70), (60, 70), (25, 110)):
        expected = policy.expected_rewards(DOMAIN.people_to_unit([[age, weight]]))[0]
        text = ", ".join(f"{value:.2f}" for value in expected)
        print(f"{age} years, {weight} kg: expected to help {text}")
    print(learner.guarantee().sentence)


if __name__ == "__main__":
    main()
