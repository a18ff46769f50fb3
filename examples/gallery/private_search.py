"""
The best dose
=============

Bayesian optimisation by ask and tell: each trial is one person's, and the search sees noisy values
only. Posterior mean with two deviations, the truth, and how often each dose was tried.
"""

import matplotlib.pyplot as plt
import numpy as np

from discreet import Joint, Search, SimulatedNoise


def success(dose):
    """The true success rate."""
    return 0.15 + 0.6 * np.exp(-0.5 * ((dose - 45) / 16) ** 2)


rng = np.random.default_rng(4)
columns = {"dose": {"lower": 0, "upper": 100, "levels": 51}}
search = Search(columns, Joint(epsilon=2.0, delta=1e-6), trials=1_000, noise=SimulatedNoise(4))
tried = []
for _ in range(1_000):
    trial = search.ask()
    tried.append(trial.params["dose"])
    search.tell(trial, float(rng.random() < success(tried[-1])))
best = search.best()
print(best, search.guarantee.sentence, sep="\n")

doses = np.arange(0, 101, 2)
mean, deviation = search.predict([{"dose": int(dose)} for dose in doses])
figure, (axes, below) = plt.subplots(2, sharex=True, height_ratios=(3, 1))
axes.plot(doses, success(doses), color="black", linestyle="--", label="truth")
axes.plot(doses, mean, label="private estimate")
axes.fill_between(doses, mean - 2 * deviation, mean + 2 * deviation, alpha=0.2)
axes.axvline(best.params["dose"], color="grey", linestyle=":", label="recommended")
axes.set(ylabel="success rate", ylim=(0, 1))
axes.legend()
below.hist(tried, bins=np.arange(-1, 102, 2), color="grey")
below.set(xlabel="dose (mg)", ylabel="people")
