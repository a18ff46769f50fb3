"""Where people are, learnt from the cells that they report.

The density of contexts is a histogram over bins of the domain. It starts uniform. Given a policy
with density kappa, a report of cell j of partition c came from bin z with probability

    kappa_z (2 b + (p - b) [share of z in j]) / P_cj,

(the step of expectation maximisation, Dempster, Laird and Rubin 1977). These sums over reports add;
the learner moves the density towards their average since the last policy by a step that shrinks
(Cappe and Moulines 2009). With one cell reports say nothing, and the density stays as it is.

| array   | shape | meaning                                               |
|---------|-------|-------------------------------------------------------|
| density | (Z,)  | relative to uniform; its mean is 1                    |
| located | (Z,)  | sum over reports of the probability that x is in z    |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from discreet.validation import FloatArray, IntArray

# Bins per continuous axis in one, two, three, ... dimensions.
_BINS = (24, 24, 10, 6, 4, 3)
_FLOOR = 0.05
_STEP_POWER, _STEP_START = 0.75, 4.0


@dataclass(frozen=True)
class DensityBins:
    """The bins of a domain with these levels."""

    levels: tuple[int | None, ...]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        usual = _BINS[min(len(self.levels), len(_BINS)) - 1]
        return tuple(usual if one is None else min(one, usual) for one in self.levels)

    def __len__(self) -> int:
        return math.prod(self.shape)

    def of(self, points: FloatArray) -> IntArray:
        """(Q,) the bin of each point (Q, d) in [0, 1]^d."""
        index = np.zeros(len(points), dtype=np.int64)
        for axis, count in enumerate(self.shape):
            along = np.minimum((points[:, axis] * count).astype(np.int64), count - 1)
            index = index * count + along
        return index

    def uniform(self) -> FloatArray:
        return np.ones(len(self))


def moved(density: FloatArray, located: FloatArray, version: int) -> FloatArray:
    """The density after a step towards where new reports were located; at least 5% of uniform."""
    found = located * (len(located) / max(float(located.sum()), 1e-300))
    step = (version + _STEP_START) ** -_STEP_POWER
    mixed = (1.0 - step) * density + step * found
    floored = np.maximum(mixed, _FLOOR)
    result: FloatArray = floored / floored.mean()
    return result
