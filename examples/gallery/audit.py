"""
Promises under attack
=====================

The epsilon of mechanisms of the library and of designs with a known flaw, measured by exact replay
on neighbouring data, as a multiple of the epsilon promised. Right of 1 the promise is broken.
"""

import math

import matplotlib.pyplot as plt

from discreet.audit.runner import audit, checks_named
from discreet.records import Finding

SOUND = ("gaussian", "laplace", "k_ary_response", "privunit", "exponential, outcomes")
checks = [checks_named(name)[0] for name in SOUND] + checks_named("known-broken")
findings = [each for each in audit(checks, trials=0) if isinstance(each, Finding)]

figure, axes = plt.subplots(figsize=(7, 4.6))
END = 1.85  # where a loss without a bound is drawn
for row, each in enumerate(reversed(findings)):
    color = "#0072B2" if each.kind == "mechanism" else "#D55E00"
    unbounded = bool(each.fault) or math.isinf(each.exact)
    ratio = END if unbounded else each.exact / each.epsilon
    axes.plot([0, ratio], [row, row], color=color, linewidth=1)
    axes.plot(ratio, row, color=color, marker=">" if unbounded else "o")
axes.axvline(1, color="black", linestyle="--")
axes.set_yticks(range(len(findings)), [each.name for each in reversed(findings)])
axes.set_xticks([0, 0.5, 1, 1.5, END], ["0", "0.5", "1", "1.5", "unbounded"])
axes.set(xlabel="epsilon measured / epsilon promised", xlim=(0, 2))
axes.grid(axis="y")
axes.set_title("the library (blue) and known-broken designs (orange)", loc="left", fontsize=10)
