"""
From a log to a policy
======================

A log says which action each customer got and what followed. The value of a rule for everyone is
estimated from it, with 95% intervals, before anything is deployed.
"""

import matplotlib.pyplot as plt
import numpy as np

from discreet import Box, Log, LogProblem

rng = np.random.default_rng(5)
PEOPLE = 2_000
age = rng.uniform(18, 90, PEOPLE)
likely = np.where(age > 60, 0.7, 0.4)  # how often the log chose a call
called = rng.random(PEOPLE) < likely
paid = rng.random(PEOPLE) < np.where(called, age / 100, 0.45)
log = Log(
    contexts=age[:, None],
    actions=called.astype(int),
    rewards=paid.astype(float),
    domain=Box((18,), (90,), ("age",)),
    arm_names=("letter", "call"),
    propensities=np.where(called, likely, 1 - likely),
)
estimates = LogProblem(log).estimates
cuts = np.arange(18, 91, 9)
values = [estimates.value((age > cut).astype(int)) for cut in cuts]
truth = [np.mean(np.where(age > cut, age / 100, 0.45)) for cut in cuts]

figure, axes = plt.subplots()
mean = np.array([each.mean for each in values])
axes.plot(cuts, mean, marker="o", label="estimated from the log")
lower, upper = [each.lower for each in values], [each.upper for each in values]
axes.fill_between(cuts, lower, upper, alpha=0.2)
axes.plot(cuts, truth, color="black", linestyle="--", label="truth")
axes.axhline(paid.mean(), color="grey", linestyle=":", label="as the log chose")
axes.set(xlabel="call people above this age (years)", ylabel="share of people who pay")
axes.legend()
