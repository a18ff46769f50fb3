"""The points over which integrals are taken: a low-discrepancy set, shifted anew for each policy.

Points of a rank-1 lattice-like sequence (the additive recurrence with powers of the generalised
golden ratio, Roberts 2018) fill [0, 1]^d evenly, and a random shift modulo 1 makes averages over
them unbiased (Cranley and Patterson 1976). Columns with levels keep the shifted value; features
and cells look only at the level it falls into.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from discreet.validation import FloatArray

# Points in one, two, three, ... dimensions.
_POINTS = (128, 576, 1000, 1400, 1800, 2200)


@lru_cache(maxsize=8)
def integration_points(seed: int, version: int, levels: tuple[int | None, ...]) -> FloatArray:
    """(Q, d) points in [0, 1)^d that depend on the public seed and the policy's version."""
    dimension = len(levels)
    count = _POINTS[min(dimension, len(_POINTS)) - 1]
    ratio = 2.0
    for _ in range(60):  # the root of r^(d+1) = r + 1
        ratio = (1.0 + ratio) ** (1.0 / (dimension + 1))
    steps = ratio ** -np.arange(1.0, dimension + 1.0)
    shift = np.random.default_rng([seed, version, 1]).random(dimension)
    points: FloatArray = (np.arange(count)[:, None] * steps[None] + shift) % 1.0
    points.flags.writeable = False
    return points


def on_levels(points: FloatArray, levels: tuple[int | None, ...]) -> FloatArray:
    """Contexts (Q, d) as people have them: columns with L levels take j / (L - 1) only."""
    placed = points.copy()
    for axis, count in enumerate(levels):
        if count is not None:
            level = np.minimum((points[:, axis] * count).astype(np.int64), count - 1)
            placed[:, axis] = level / (count - 1)
    return placed
