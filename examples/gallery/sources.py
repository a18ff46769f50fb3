"""
A start from elsewhere
======================

Reports of another hospital, whose actions someone else chose, serve the first person here. Their
mean reward against the number of people elsewhere, whose reports have epsilon 4; bands are 95%
intervals over six repetitions.
"""

import matplotlib.pyplot as plt
import numpy as np

from discreet import KernelBandit, Local, SimulatedNoise
from discreet.lab.environments.synthetic import draw_auxiliary, exponential

problem, counts, SEEDS = exponential(), (250, 500, 1_000, 2_000), 6
first = problem.sample(2_000, np.random.default_rng(0))


def reward_of_first(elsewhere, seed):
    """The mean reward that the first person can expect of the first policy."""
    learner = KernelBandit(problem.domain, problem.arms, Local(1.0), horizon=10_000)
    learner.open_source("hospital", epsilon=4.0)
    data = draw_auxiliary(problem, elsewhere, np.random.default_rng(seed))
    policy = learner.policy("hospital")
    learner.update(policy.report(data.contexts, data.arms, data.rewards, SimulatedNoise(seed)))
    arms = learner.recommend(first.contexts)
    return first.means[np.arange(len(arms)), arms].mean()


runs = np.array([[reward_of_first(count, seed) for count in counts] for seed in range(SEEDS)])
mean, error = runs.mean(axis=0), 2.57 * runs.std(axis=0, ddof=1) / np.sqrt(SEEDS)
figure, axes = plt.subplots()
axes.semilogx(counts, mean, marker="o", label="best action by their reports")
axes.fill_between(counts, mean - error, mean + error, alpha=0.2)
axes.axhline(first.means.max(axis=1).mean(), color="black", linestyle="--", label="best possible")
axes.axhline(first.means.mean(), color="grey", linestyle=":", label="at random")
axes.set_xticks(counts, [f"{count:,}" for count in counts])
axes.minorticks_off()
axes.set(xlabel="people elsewhere", ylabel="mean reward of the first person")
axes.legend(loc="center right")
