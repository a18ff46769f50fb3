"""
Categories and missing values
=============================

Contexts as a data frame with labels and gaps: a column with ``missing="unknown"`` has a category
for people who did not answer. Value of each action for each group, with 95% intervals; dashes are
the truth.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from discreet import Box, KernelBandit, Local, SimulatedNoise

regions = ["north", "south", "east"]
domain = Box.of({"age": (18, 90), "region": {"values": regions, "missing": "unknown"}})
learner = KernelBandit(domain, ["letter", "call"], Local(2.0), horizon=6_000)
rng, noise = np.random.default_rng(3), SimulatedNoise(3)
TRUTH = {"north": (0.3, 0.7), "south": (0.6, 0.5), "east": (0.7, 0.2)}
while learner.people < 6_000:
    size = learner.batch_size
    frame = pd.DataFrame({"age": rng.uniform(18, 90, size), "region": rng.choice(regions, size)})
    likely = np.array([TRUTH[region] for region in frame["region"]])
    frame.loc[rng.random(size) < 0.2, "region"] = None  # one in five does not answer
    policy = learner.policy()
    actions, _ = policy.act(frame, rng)
    success = rng.random(size) < likely[np.arange(size), actions.arms]
    learner.update(policy.report(frame, actions, success.astype(float), noise))

figure, axes = plt.subplots()
groups = [*regions, None]
for arm, name in enumerate(learner.arm_names):
    found = [
        learner.value(arm, contexts=pd.DataFrame({"age": np.linspace(18, 90, 50), "region": group}))
        for group in groups
    ]
    bars = [[each.mean - each.lower for each in found], [each.upper - each.mean for each in found]]
    axes.errorbar(
        np.arange(4) + 0.16 * arm - 0.08, [each.mean for each in found], bars, fmt="o", label=name
    )
    truth = [TRUTH[region][arm] for region in regions]
    truth.append(np.mean(truth))
    axes.scatter(np.arange(4) + 0.16 * arm - 0.08, truth, color="black", marker="_", zorder=3)
axes.set_xticks(range(4), [*regions, "unknown"])
axes.set(xlabel="region", ylabel="estimated success rate", ylim=(0, 1))
axes.legend()
