"""What policies and the learner evaluate at the integration points of one policy version."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from discreet.learners.local_kernel.density import DensityBins
from discreet.learners.local_kernel.features import CosineFeatures
from discreet.learners.local_kernel.points import integration_points, on_levels
from discreet.validation import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Grid:
    """The integration points of one policy version.

    Attributes:
        points: (Q, d) in [0, 1)^d; cells and bins are looked up with them.
        phi: (Q, M) all features there.
        bins: (Q,) the bin of the density.
    """

    points: FloatArray
    phi: FloatArray
    bins: IntArray

    def weights(self, density: FloatArray) -> FloatArray:
        """(Q,) the share of people that each point stands for."""
        found = density[self.bins]
        shares: FloatArray = found / found.sum()
        return shares


@lru_cache(maxsize=4)
def grid_of(seed: int, version: int, features: CosineFeatures) -> Grid:
    """The grid of a policy version; the last few are kept."""
    points = integration_points(seed, version, features.levels)
    phi = features(on_levels(points, features.levels))
    return Grid(points, phi, DensityBins(features.levels).of(points))
