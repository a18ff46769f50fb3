"""
Contexts of any value
=====================

Three treatments for people of any age and weight under joint privacy, with a kernel that says how
fast success varies with years and kilograms. Where people are is learnt privately, too. Expected
success of each treatment after 20,000 people, and its truth (dashed).
"""

import matplotlib.pyplot as plt
import numpy as np

from discreet import Box, Joint, KernelBandit, SimulatedNoise, Unprotected

domain = Box(lower=(18, 40), upper=(95, 140), names=("age", "weight_kg"))
PEOPLE, WEIGHTS = 20_000, (60, 100)


def draw_people(count, rng):
    """(n, 2) age and weight."""
    age = 18.0 + 77.0 * rng.beta(2.0, 3.0, count)
    return np.column_stack([age, np.clip(rng.normal(78.0, 15.0, count), 40.0, 140.0)])


def success_rates(contexts):
    """(n, 3) of each treatment."""
    age, weight = domain.people_to_unit(contexts).T
    return np.column_stack([0.7 - 0.5 * age, 0.2 + 0.5 * age, 0.3 + 0.5 * weight * (1.0 - age)])


rng = np.random.default_rng(5)
learner = KernelBandit(
    domain,
    3,
    Joint(epsilon=1.0, delta=1e-6),
    kernel="RBF(length_scale=[30, 40])",  # years, kg
    horizon=PEOPLE,
    noise=SimulatedNoise(1),  # with people: SecureNoise()
)
regret = chance = served = 0
while served < PEOPLE:
    policy = learner.policy()  # the same one until its epoch is over
    contexts = draw_people(min(500, learner.batch_size, PEOPLE - served), rng)
    actions, _ = policy.act(contexts, rng)
    rates = success_rates(contexts)
    chosen = rates[np.arange(len(contexts)), actions.arms]
    rewards = (rng.random(len(contexts)) < chosen).astype(float)
    learner.update(policy.report(contexts, actions, rewards, Unprotected()))
    regret += float((rates.max(axis=1) - chosen).sum())
    chance += float((rates.max(axis=1) - rates.mean(axis=1)).sum())
    served += len(contexts)
print(f"regret {regret:,.0f}; at random it would be {chance:,.0f}")
print(learner.guarantee().sentence)

ages = np.linspace(18, 95, 78)
figure, panels = plt.subplots(1, 2, figsize=(8, 3.6), sharey=True)
for panel, weight in zip(panels, WEIGHTS, strict=True):
    contexts = np.column_stack([ages, np.full(78, weight)])
    expected, _ = learner.predict(contexts)
    for arm, rate in enumerate(success_rates(contexts).T):
        (line,) = panel.plot(ages, expected[:, arm], label=f"treatment {arm + 1}")
        panel.plot(ages, rate, linestyle="--", color=line.get_color())
    panel.set(title=f"{weight} kg", xlabel="age (years)", ylim=(0, 1))
panels[0].set_ylabel("success rate")
panels[0].legend()
