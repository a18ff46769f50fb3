"""Reports as linear measurements of theta.

A person whose ticket picked the functions (A, g) and a partition with cells C_j reports (j, t).
Given j, the mean of t is

    a' theta,    a = (p - b) / P_j  integral over C_j of kappa(x) g(x) phi(x) on arm A(x),

with kappa the density of contexts, mu_j the mass of the cell and P_j = 2 b + (p - b) mu_j the
probability that j is reported, because wrong values are reported with either sign equally often.
People with the same functions, partition and cell share a.

Where people report openly t = 2 r - 1 and a = phi(x) on arm A(x).

For people of a source, whose arm is as private as the context, the integral goes over contexts and
arms, kappa is their joint density, and g looks at both (`Grid.with_arms`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from discreet.learners.local_kernel.cells import MOST_PARTS
from discreet.learners.local_kernel.features import DensityBins
from discreet.learners.local_kernel.policy import KernelOffer, KernelStatistics, OpenKernelPolicy
from discreet.learners.messages import Observations
from discreet.learners.signs import SignedReports
from discreet.privacy.frequency import SignedSubsetSelection
from discreet.validation import FloatArray, IntArray

# Vectors are rounded to this grid, so sums over millions of reports are exact: they are the same in
# whatever order reports come and wherever they are added.
_GRID = 2.0**-12
# A cell in which no integration point lies has at least this mass.
_LEAST_MASS = 1e-6


def cell_probabilities(mechanism: SignedSubsetSelection) -> tuple[float, float]:
    """2 b, how often a wrong cell is reported, and how much more often the true one is."""
    wrong = 2.0 * mechanism.other_probability if mechanism.bins > 1 else 0.0
    return wrong, mechanism.true_probability + mechanism.false_probability - wrong


def reported_shares(
    mechanism: SignedSubsetSelection, cells: IntArray, mass: FloatArray
) -> FloatArray:
    """(C, G) how often each cell is reported, for rows of the grid in cells (C, R) that stand for
    shares of people (R,)."""
    wrong, gain = cell_probabilities(mechanism)
    masses = np.stack([np.bincount(row, mass, minlength=mechanism.bins) for row in cells])
    shown: FloatArray = wrong + gain * np.maximum(masses, _LEAST_MASS)
    return shown


class Measurements:
    """Works out a and P for the functions and cells of one policy (see the module).

    | array   | shape  | meaning                                          |
    |---------|--------|--------------------------------------------------|
    | arms    | (R, F) | the arm of each row under every pair of functions|
    | signs   | (R, F) | its sign                                         |
    | cells   | (C, R) | its cell in every partition                      |
    | weights | (R,)   | the share of people that it stands for           |
    | shown   | (C, G) | P, how often each cell is reported               |
    """

    def __init__(self, policy: KernelOffer) -> None:
        self._policy, self._grid = policy, policy.grid
        phi = self._grid.phi[:, policy.used]
        self._arms = policy.arms_of_rows(phi)
        self._signs = policy.signs_of_all(phi, self._arms)
        self._cells = policy.cells.locate_all(self._grid.points)
        self._weights = self._grid.weights(policy.density)
        self._wrong, self._gain = cell_probabilities(policy.mechanism)
        self.shown = reported_shares(policy.mechanism, self._cells, self._weights)

    @property
    def functions(self) -> int:
        """F, how many pairs of functions there are."""
        return len(self._policy.directions)

    def vectors(self, function: IntArray, partition: IntArray, cell: IntArray) -> FloatArray:
        """(U, K M) the vectors a of these combinations, by arm and then by feature."""
        arms, phi = self._policy.arms, self._grid.phi
        which, row = np.nonzero(self._cells[partition] == cell[:, None])
        scale = self._policy.mechanism.contrast / self.shown[partition, cell]
        value = self._weights[row] * self._signs[row, function[which]] * scale[which]
        place = which * arms + self._arms[row, function[which]]
        shape = (len(function) * arms, len(phi))
        integral = csr_array((value, (place, self._grid.point[row])), shape=shape) @ phi
        return _rounded(integral).reshape(len(function), arms * phi.shape[1])

    def statistics(self, reports: SignedReports) -> KernelStatistics:
        """What checked reports of the policy add up to."""
        function, partition = self._policy.picked(reports.tickets)
        cell, sign = reports.places[:, 0], reports.signs[:, 0].astype(np.float64)
        partitions, count = self.shown.shape
        if count == 1:  # all partitions are the same
            partition = np.zeros_like(partition)
        key = (function * partitions + partition) * count + cell
        kinds, place = np.unique(key, return_inverse=True)
        people = np.bincount(place).astype(np.float64)
        totals = np.bincount(place, sign)
        rest = kinds // count
        vectors = self.vectors(rest // partitions, rest % partitions, kinds % count)
        policy = self._policy
        along = np.zeros((policy.domain.dimension, MOST_PARTS))
        if policy.ranks.asked.size:
            np.add.at(along, (policy.cells.axis[partition, 0], cell), 1.0)
        return KernelStatistics(
            precision=(vectors * people[:, None]).T @ vectors,
            weighted=totals @ vectors,
            located=self._located(partition, cell),
            placed=len(reports) if count > 1 else 0,
            squares=float(len(reports)),
            along=along,
            stage=policy.ranks.stage,
            reports=len(reports),
        )

    def _located(self, partition: IntArray, cell: IntArray) -> FloatArray:
        """(Z,) how many of these people are likely to be in each bin (features.py)."""
        density, rows = self._policy.density, self._grid.bins
        bins = len(density)
        if self._policy.cells.count == 1:
            return np.zeros(bins)
        counts = np.zeros(self.shown.shape)
        np.add.at(counts, (partition, cell), 1.0)
        per_cell = counts / self.shown
        factor = self._wrong * per_cell.sum() + self._gain * np.take_along_axis(
            per_cell, self._cells, axis=1
        ).sum(axis=0)
        points = np.bincount(rows, minlength=bins)
        mean = np.bincount(rows, factor, minlength=bins) / np.maximum(points, 1)
        # Bins without a point this time stay what they were.
        located: FloatArray = density * np.where(points > 0, mean, len(cell)) / bins
        return located


def open_statistics(policy: OpenKernelPolicy, observations: Observations) -> KernelStatistics:
    """What reports as they are add up to: t = 2 r - 1 measures phi(x) on the arm given."""
    ranks = policy.ranks(observations.contexts)
    phi = _rounded(policy.features(ranks))
    values = _rounded(2.0 * observations.rewards - 1.0)
    size = phi.shape[1]
    bins_of = DensityBins(policy.domain.levels)
    sums = KernelStatistics.zeros(policy.arms * size, len(bins_of), policy.domain.dimension)
    for arm in range(policy.arms):
        given = observations.arms == arm
        block = slice(arm * size, (arm + 1) * size)
        sums.precision[block, block] = phi[given].T @ phi[given]
        sums.weighted[block] = values[given] @ phi[given]
    bins = bins_of.of(policy.features.placed(ranks))
    located = np.bincount(bins, minlength=len(sums.located)).astype(np.float64)
    people = len(observations)
    squares = float(values @ values)
    return replace(sums, located=located, placed=people, squares=squares, reports=people)


def _rounded(numbers: FloatArray) -> FloatArray:
    """On the grid on which sums are exact."""
    on_grid: FloatArray = np.round(numbers / _GRID) * _GRID
    return on_grid
