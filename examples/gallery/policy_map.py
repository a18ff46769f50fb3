"""
Who is given what
=================

The action that a kernel bandit recommends, over age and body mass index, as private reports arrive.
Dashed lines are the borders of the truly best actions.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch

from discreet import Box, KernelBandit, Local, SimulatedNoise

domain = Box.of({"age": (18, 90), "bmi": (15, 45)})
ARMS, COLORS = ("leaflet", "call", "visit"), ListedColormap(["#0072B2", "#E69F00", "#009E73"])


def success_rates(people):
    """(n, 3) of each action."""
    age, bmi = domain.people_to_unit(people).T
    return np.stack([0.7 - 0.5 * age, 0.1 + 0.7 * age, 0.1 + 0.6 * bmi], axis=1)


learner = KernelBandit(domain, list(ARMS), Local(epsilon=4.0), horizon=6_000)
rng, noise = np.random.default_rng(1), SimulatedNoise(1)
ages, bmis = np.meshgrid(np.linspace(18, 90, 73), np.linspace(15, 45, 61))
grid = np.column_stack([ages.ravel(), bmis.ravel()])
best = success_rates(grid).argmax(axis=1).reshape(ages.shape)
figure, panels = plt.subplots(1, 3, figsize=(9, 3.4), sharey=True)
for panel, people in zip(panels, (500, 2_000, 6_000), strict=True):
    while learner.people < people:
        contexts = rng.uniform(domain.lower, domain.upper, (learner.batch_size, 2))
        policy = learner.policy()
        actions, _ = policy.act(contexts, rng)
        likely = success_rates(contexts)[np.arange(len(contexts)), actions.arms]
        rewards = (rng.random(len(contexts)) < likely).astype(float)
        learner.update(policy.report(contexts, actions, rewards, noise))
    learner.policy()
    found = learner.recommend(grid).reshape(ages.shape)
    panel.pcolormesh(ages, bmis, found, cmap=COLORS, vmin=-0.5, vmax=2.5)
    panel.contour(ages, bmis, best, levels=[0.5, 1.5], colors="white", linestyles="dashed")
    panel.set(title=f"{people:,} reports", xlabel="age (years)")
    panel.grid(False)
panels[0].set_ylabel("body mass index (kg/m²)")
keys = [Patch(color=COLORS(place), label=arm) for place, arm in enumerate(ARMS)]
figure.legend(handles=keys, loc="outside upper center", ncols=3)
