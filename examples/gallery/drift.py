"""
Rewards that change
===================

After 10,000 people the better action changes. With ``half_life`` old reports are discounted and the
learner follows; discounting is post-processing and costs no privacy. Bands are 95% intervals.
"""

import matplotlib.pyplot as plt
import numpy as np

from discreet import Box, Local, Partition, SimulatedNoise

PEOPLE, CHANGE, SEEDS = 20_000, 10_000, 4
domain = Box.of({"age": (18, 90)})


def rewards_over_time(half_life, seed):
    """(20,) mean reward of each thousand people."""
    rng, noise = np.random.default_rng(seed), SimulatedNoise(seed)
    learner = Partition(domain, 2, Local(2.0), horizon=PEOPLE, half_life=half_life)
    earned = []
    while len(earned) < PEOPLE:
        policy, ages = learner.policy(), rng.uniform(18, 90, (500, 1))
        actions, _ = policy.act(ages, rng)
        best = (ages[:, 0] > 50) ^ (len(earned) >= CHANGE)
        means = np.where(actions.arms == best, 0.8, 0.2)
        learner.update(policy.report(ages, actions, (rng.random(500) < means) * 1.0, noise))
        earned += means.tolist()
    return np.reshape(earned, (-1, 1000)).mean(axis=1)


figure, axes = plt.subplots()
people = np.arange(0.5, 20.5)
for half_life, name in ((None, "all reports alike"), (2_000, "half-life of 2,000 people")):
    runs = np.array([rewards_over_time(half_life, seed) for seed in range(SEEDS)])
    mean, error = runs.mean(axis=0), 3.18 * runs.std(axis=0, ddof=1) / np.sqrt(SEEDS)
    (line,) = axes.plot(people, mean, label=name)
    axes.fill_between(people, mean - error, mean + error, alpha=0.2, color=line.get_color())
axes.axvline(CHANGE / 1000, color="grey", linestyle=":", label="the better action changes")
axes.set(xlabel="people (thousands)", ylabel="mean reward per person", ylim=(0.15, 0.85))
axes.legend(loc="lower left")
