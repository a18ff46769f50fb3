"""Reports of sources as linear measurements of theta: integrals over contexts and arms.

The rows of an integral are the pairs of an integration point and an arm; row q K + k is point q
with arm k, and bin z K + k of the density is bin z of contexts with arm k.
"""

from __future__ import annotations

import numpy as np

from discreet.learners.local_kernel.grid import Grid
from discreet.learners.local_kernel.measurement import RowMeasurements, Rows
from discreet.learners.local_kernel.source_policy import (
    KernelSourcePolicy,
    KernelSourceReports,
    arm_places,
)
from discreet.learners.local_kernel.statistics import KernelStatistics
from discreet.validation import FloatArray, IntArray


def pairs(grid: Grid, arms: int) -> FloatArray:
    """(Q K, d + 1) the points with every arm, as cells look them up."""
    column = np.tile(arm_places(np.arange(arms), arms), len(grid.points))
    return np.column_stack([np.repeat(grid.points, arms, axis=0), column])


def pair_bins(grid: Grid, arms: int) -> IntArray:
    """(Q K,) the bins of their density."""
    bins: IntArray = (grid.bins[:, None] * arms + np.arange(arms)).ravel()
    return bins


class SourceMeasurements(RowMeasurements):
    """Works out a and P for the questions of one policy of a source (measurement.py)."""

    def __init__(self, policy: KernelSourcePolicy) -> None:
        self._policy = policy
        grid, arms = policy.grid, policy.arms
        functions, _, size = policy.directions.shape
        table = policy.directions.reshape(-1, size).T.astype(np.float64)
        found = (grid.phi[:, policy.used] @ table).reshape(-1, functions, arms)
        signs = np.where(found.transpose(0, 2, 1) >= 0.0, 1, -1).astype(np.int8)
        arm = np.tile(np.arange(arms), len(grid.phi))
        rows = Rows(
            phi=grid.phi,
            point=np.repeat(np.arange(len(grid.phi)), arms),
            arms=np.broadcast_to(arm[:, None], (len(arm), functions)),
            signs=signs.reshape(-1, functions),
            cells=policy.cells.locate_all(pairs(grid, arms)),
            bins=pair_bins(grid, arms),
            density=policy.density,
        )
        super().__init__(rows, arms, policy.mechanism)

    def statistics(self, reports: KernelSourceReports) -> KernelStatistics:
        """What checked reports of the policy add up to."""
        function, partition = self._policy.picked(reports.questions)
        return self.sums(function, partition, reports.cells, reports.signs)
