"""Reports as linear measurements of theta.

A person whose ticket picked the functions (A, g) and a partition with cells C_j reports (j, t).
Given j, the mean of t is

    a' theta,    a = (p - b) / P_j  integral over C_j of kappa(x) g(x) phi(x) on arm A(x),

with kappa the density of contexts, mu_j the mass of the cell and P_j = 2 b + (p - b) mu_j the
probability that j is reported, because wrong values are reported with either sign equally often.
People with the same functions, partition and cell share a.

For people of a source, whose arm is as private as the context, the integral goes over contexts and
arms, kappa is their joint density, and g looks at both. The rows of such an integral are the pairs
of an integration point and an arm; row q K + k is point q with arm k, and bin z K + k of the
density is bin z of contexts with arm k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from discreet.learners.local_kernel.features import Grid
from discreet.learners.local_kernel.policy import (
    KernelPolicy,
    KernelReports,
    KernelSourcePolicy,
    KernelStatistics,
    arm_places,
)
from discreet.privacy.frequency import SignedSubsetSelection
from discreet.validation import FloatArray, IntArray, SignArray

# Vectors are rounded to this grid, so sums over millions of reports are exact: they are the same in
# whatever order reports come and wherever they are added.
_GRID = 2.0**-12
# A cell in which no integration point lies has at least this mass.
_LEAST_MASS = 1e-6


@dataclass(frozen=True, eq=False)
class Rows:
    """What integrals are sums over: points, or pairs of a point and an arm.

    Attributes:
        phi: (Q, M) all features at the integration points.
        point: (R,) the point of each row.
        arms: (R, F) its arm under every pair of functions.
        signs: (R, F) its sign under every pair of functions.
        cells: (C, R) its cell in every partition.
        bins: (R,) its bin of the density.
        density: (Z,) the density, relative to uniform.
    """

    phi: FloatArray
    point: IntArray
    arms: IntArray
    signs: SignArray
    cells: IntArray
    bins: IntArray
    density: FloatArray

    @property
    def weights(self) -> FloatArray:
        """(R,) the share of people that each row stands for."""
        shares_of_bins = self.density[self.bins]
        shares: FloatArray = shares_of_bins / shares_of_bins.sum()
        return shares


class RowMeasurements:
    """Works out a and P for the functions and cells of one policy (see the module)."""

    def __init__(self, rows: Rows, arms: int, mechanism: SignedSubsetSelection) -> None:
        self._rows, self._number_of_arms = rows, arms
        self._weights = rows.weights
        count = mechanism.bins
        self._count = count
        mass = np.stack([np.bincount(row, self._weights, minlength=count) for row in rows.cells])
        self._wrong = 2.0 * mechanism.other_probability if count > 1 else 0.0
        self._contrast = mechanism.contrast
        gain = mechanism.true_probability + mechanism.false_probability - self._wrong
        self.shown: FloatArray = self._wrong + gain * np.maximum(mass, _LEAST_MASS)
        self._gain = gain

    @property
    def features(self) -> int:
        """M, how many features there are."""
        return int(self._rows.phi.shape[1])

    def vectors(self, function: IntArray, partition: IntArray, cell: IntArray) -> FloatArray:
        """(U, K M) the vectors a of these combinations, by arm and then by feature."""
        rows, arms = self._rows, self._number_of_arms
        points, features = rows.phi.shape
        which, row = np.nonzero(rows.cells[partition] == cell[:, None])
        scale = self._contrast / self.shown[partition, cell]
        value = self._weights[row] * rows.signs[row, function[which]] * scale[which]
        place = which * arms + rows.arms[row, function[which]]
        shape = (len(function) * arms, points)
        integral = csr_array((value, (place, rows.point[row])), shape=shape) @ rows.phi
        vectors: FloatArray = np.round(integral / _GRID) * _GRID
        return vectors.reshape(len(function), arms * features)

    def sums(
        self, function: IntArray, partition: IntArray, cell: IntArray, signs: SignArray
    ) -> KernelStatistics:
        """What people with these questions and answers, all (n,), add up to."""
        count, partitions = self._count, len(self._rows.cells)
        if count == 1:  # all partitions are the same
            partition = np.zeros_like(partition)
        key = (function * partitions + partition) * count + cell
        kinds, place = np.unique(key, return_inverse=True)
        people = np.bincount(place).astype(np.float64)
        totals = np.bincount(place, signs.astype(np.float64))
        rest = kinds // count
        vectors = self.vectors(rest // partitions, rest % partitions, kinds % count)
        return KernelStatistics(
            precision=(vectors * people[:, None]).T @ vectors,
            weighted=totals @ vectors,
            located=self._located(partition, cell),
            placed=len(cell) if count > 1 else 0,
            reports=len(cell),
        )

    def _located(self, partition: IntArray, cell: IntArray) -> FloatArray:
        """(Z,) how many of these people are likely to be in each bin (features.py)."""
        rows = self._rows
        bins = len(rows.density)
        if self._count == 1:
            return np.zeros(bins)
        counts = np.zeros(self.shown.shape)
        np.add.at(counts, (partition, cell), 1.0)
        per_cell = counts / self.shown
        factor = self._wrong * per_cell.sum() + self._gain * np.take_along_axis(
            per_cell, rows.cells, axis=1
        ).sum(axis=0)
        points = np.bincount(rows.bins, minlength=bins)
        mean = np.bincount(rows.bins, factor, minlength=bins) / np.maximum(points, 1)
        # Bins without a point this time stay what they were.
        located: FloatArray = rows.density * np.where(points > 0, mean, len(cell)) / bins
        return located


class Measurements(RowMeasurements):
    """Works out a and P for the tickets of one policy of the target."""

    def __init__(self, policy: KernelPolicy) -> None:
        self._policy = policy
        grid = policy.grid
        used = grid.phi[:, policy.used]
        arms = policy.arms_of_all(used)
        rows = Rows(
            phi=grid.phi,
            point=np.arange(len(grid.phi)),
            arms=arms,
            signs=policy.signs_of_all(used, arms),
            cells=policy.cells.locate_all(grid.points),
            bins=grid.bins,
            density=policy.density,
        )
        super().__init__(rows, policy.arms, policy.mechanism)

    def statistics(self, reports: KernelReports) -> KernelStatistics:
        """What checked reports of the policy add up to."""
        function, partition = self._policy.picked(reports.tickets)
        return self.sums(function, partition, reports.cells, reports.signs)


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
        values = (grid.phi[:, policy.used] @ table).reshape(-1, functions, arms)
        signs = np.where(values.transpose(0, 2, 1) >= 0.0, 1, -1).astype(np.int8)
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

    def statistics(self, reports: KernelReports) -> KernelStatistics:
        """What checked reports of the policy add up to."""
        function, partition = self._policy.picked(reports.tickets)
        return self.sums(function, partition, reports.cells, reports.signs)
