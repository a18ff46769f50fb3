"""Estimates and radii from several sources of different noise (Ma et al. 2025, eqs (26) to (28)).

| array    | shape        | meaning                                                        |
|----------|--------------|----------------------------------------------------------------|
| epsilons | (M + 1,)     | the budgets epsilon_m, the target's first                      |
| times    | (M + 1, L)   | t: people of each source since a leaf was made                 |
| chosen   | (M + 1, L, K) | U: noisy numbers of those in the leaf who got the arm         |
| rewards  | (M + 1, L, K) | V: noisy sums of their rewards                                |
| weights  | (M + 1, L, K) | lambda, eq. (27)                                              |

    lambda = min(|epsilon_m^2 U / t|, 1) where t >= log(n)^2, otherwise 0               (27)
    estimate = sum_m lambda V / sum_m lambda U                                          (26)
    radius = sqrt(C_n sum_m lambda^2 max(t / epsilon_m^2, U)) / |sum_m lambda U|        (28)

with C_n = c log(n). A pair for which all weights are 0 has no estimate: its radius is infinity
here, where the paper writes 0 / 0 = 0 and asks for a radius above 0 (29).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.validation import FloatArray


@dataclass(frozen=True, eq=False)
class SeveralSources:
    """The sums of all sources about the leaves (see the module's table)."""

    epsilons: FloatArray
    times: FloatArray
    chosen: FloatArray
    rewards: FloatArray

    def weights(self, log_people: float) -> FloatArray:
        """(M + 1, L, K) eq. (27), with log(n) = `log_people`."""
        times = self.times[:, :, None]
        informed = self.epsilons[:, None, None] ** 2 * np.abs(self.chosen)
        share = np.divide(informed, times, out=np.zeros_like(informed), where=times > 0.0)
        enough = times >= log_people**2
        weights: FloatArray = np.where(enough, np.minimum(share, 1.0), 0.0)
        return weights

    def estimate(self, weights: FloatArray) -> FloatArray:
        """(L, K) eq. (26), 0 where nothing is known."""
        below = (weights * self.chosen).sum(axis=0)
        above = (weights * self.rewards).sum(axis=0)
        estimate: FloatArray = np.zeros_like(above)
        np.divide(above, below, out=estimate, where=below != 0.0)
        return estimate

    def radius(self, weights: FloatArray, constant: float) -> FloatArray:
        """(L, K) eq. (28) with C_n = `constant`, infinity where nothing is known."""
        times = self.times[:, :, None] / self.epsilons[:, None, None] ** 2
        spread = (weights**2 * np.maximum(times, self.chosen)).sum(axis=0)
        below = np.abs((weights * self.chosen).sum(axis=0))
        radius = np.full(below.shape, np.inf)
        np.divide(np.sqrt(constant * spread), below, out=radius, where=below > 0.0)
        return radius
