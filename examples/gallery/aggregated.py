"""
Reports collected anywhere
==========================

Statistics of reports add, in any order. Each site sends the sum of 1,000 private reports; the
estimate of how much more a call earns than a letter narrows as sums arrive. Intervals are 95%.
"""

import matplotlib.pyplot as plt
import numpy as np

from discreet import Box, KernelBandit, Local, SimulatedNoise

EACH, SITES = 1_000, (1, 2, 4, 8, 16, 32, 64)
domain = Box.of({"age": (18, 90)})
learner = KernelBandit(domain, ["letter", "call"], Local(epsilon=1.0), horizon=64 * EACH)
policy, rng, found = learner.policy(), np.random.default_rng(7), []


def sum_of_site(site):
    """The statistics of one site's reports, made there."""
    ages = rng.uniform(18, 90, (EACH, 1))
    actions, _ = policy.act(ages, rng)
    likely = np.where(actions.arms == 1, 0.3 + 0.004 * ages[:, 0], 0.4)
    rewards = (rng.random(EACH) < likely).astype(float)
    return learner.statistics(policy.report(ages, actions, rewards, SimulatedNoise(site)))


for site in range(1, max(SITES) + 1):
    learner.merge(sum_of_site(site))
    if site in SITES:
        policy = learner.policy()  # which later sites use
        found.append(learner.value(1, against=0))

figure, axes = plt.subplots()
means = np.array([each.mean for each in found])
ends = np.array([(each.lower, each.upper) for each in found]).T
axes.errorbar(np.multiply(SITES, EACH), means, np.abs(ends - means), fmt="o-", capsize=3)
axes.axhline(0.3 + 0.004 * 54 - 0.4, color="black", linestyle="--", label="truth")
axes.set_xscale("log", base=2)
axes.set_xticks(np.multiply(SITES, EACH), [f"{sites * EACH:,}" for sites in SITES])
axes.set(xlabel="reports received", ylabel="gain of a call over a letter (reward)")
axes.legend()
