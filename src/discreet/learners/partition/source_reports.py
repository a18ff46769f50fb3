"""Reports of auxiliary sources to the partition learner.

The arm of such a person was chosen before, so it is as private as the context. What is reported is
the cell (bin, arm) and the sign of the rounded reward, by signed subset selection over all cells
where an arm is still wanted, and one more for all the rest, whose sign is always +.

*Claim.* Any two people with contexts in the domain, any arms and rewards in their bounds, make no
report more than e^epsilon times as likely from one as from the other: the mechanism sees one of 2C
values.

Over the n people of a source, for every wanted cell, whoever they are (see statistics.py):

| array       | shape  | sum of              | meaning                                    |
|-------------|--------|---------------------|--------------------------------------------|
| offered     | (N, K) | 1                   | T = n                                      |
| signed      | (N, K) | h / (p - b)         | S; E[S / T] = mass of the cell (2f - 1)    |
| mass_weight | (N, K) | g^2 / v             | precision of the mass of the cell          |
| mass_sum    | (N, K) | g (abs(h) - 2q) / v | precision x mass                           |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from discreet.learners.partition.bins import Bins
from discreet.learners.partition.statistics import NodeSums
from discreet.learners.partition.tree import Tree
from discreet.learners.sources import SourcePolicy, SourceReports
from discreet.privacy import NoiseSource, Release
from discreet.privacy.accounting import PureEvent
from discreet.privacy.frequency import SignedSubsetSelection, round_to_signs
from discreet.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    InvalidInput,
    SignArray,
    read_array,
)


@dataclass(frozen=True, eq=False)
class CellReports(SourceReports):
    """m reported cells of n people, with signs.

    Attributes:
        cells: (n, m) reported cells of the policy that made them, increasing in each row.
        signs: (n, m) their signs, -1 or +1.
    """

    kind: ClassVar[str] = "partition-source-reports"

    cells: IntArray
    signs: SignArray

    def __len__(self) -> int:
        return len(self.cells)

    def to_fields(self) -> dict[str, Any]:
        return {
            **self.origin_fields(),
            "cells": self.cells.tolist(),
            "signs": self.signs.tolist(),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(
            **cls.read_origin(fields),
            cells=read_array(fields["cells"], "cells", "whole", 2),
            signs=read_array(fields["signs"], "signs", "whole", 2).clip(-2, 2).astype(np.int8),
        )


@dataclass(frozen=True, eq=False)
class PartitionSourcePolicy(SourcePolicy):
    """Which (bin, arm) cells the people of a source are counted in.

    Attributes:
        tree: the partition.
        active: (L, K) the arms left in each leaf, in the order of `tree.leaves`.
    """

    kind: ClassVar[str] = "partition-source-policy"

    tree: Tree
    active: BoolArray

    @cached_property
    def wanted(self) -> BoolArray:
        """(L, K) the cells: arms that are left, where more than one is."""
        wanted: BoolArray = self.active & (self.active.sum(axis=1) > 1)[:, None]
        return wanted

    @cached_property
    def mechanism(self) -> SignedSubsetSelection:
        """Signed subset selection over the wanted cells, and one for all others."""
        cells = int(self.wanted.sum()) + int(not self.wanted.all())
        return SignedSubsetSelection.best(cells, self.epsilon)

    @cached_property
    def _cell(self) -> IntArray:
        """(L, K) the number of each cell."""
        cell: IntArray = np.full(self.wanted.shape, int(self.wanted.sum()))
        cell[self.wanted] = np.arange(int(self.wanted.sum()))
        return cell

    def _report(
        self, unit: FloatArray, arms: IntArray, rewards: FloatArray, noise: NoiseSource
    ) -> CellReports:
        leaves = self.tree.leaf_position[self.tree.locate(unit)]
        signs = round_to_signs(rewards, noise)
        signs[~self.wanted[leaves, arms]] = 1
        cells, reported = self.mechanism.privatise(self._cell[leaves, arms], signs, noise)
        return CellReports(**self.origin(noise.name), cells=cells, signs=reported)

    def release(self, noise: str) -> Release:
        mechanism = self.mechanism
        return Release(
            mechanism=f"signed subset selection, {mechanism.size} of {mechanism.bins} cells",
            event=PureEvent(mechanism.epsilon),
            sensitivity=1.0,
            sensitivity_source=f"any two of the {2 * mechanism.bins} values (cell, sign) are "
            "neighbours",
            scale=mechanism.epsilon,
            people=self.group,
            data="the bin of the context with the arm, and the sign of the rounded reward",
            noise=noise,
        )

    def check(self, reports: CellReports) -> None:
        """Refuse reports that this policy cannot have made."""
        shape = (len(reports), self.mechanism.size)
        cells, signs = reports.cells, reports.signs
        if cells.shape != shape or signs.shape != shape or shape[0] == 0:
            raise InvalidInput(
                f"reports of source {self.name!r} had cells of shape {cells.shape} and signs of "
                f"shape {signs.shape}; under its policy {self.version} both must have shape "
                f"(people, {self.mechanism.size}) with at least one person."
            )
        inside = ((cells >= 0) & (cells < self.mechanism.bins)).all()
        if not inside or (np.diff(cells, axis=1) <= 0).any():
            raise InvalidInput(
                f"reports of source {self.name!r} had cells outside 0 .. {self.mechanism.bins - 1} "
                "or not increasing; send them as the policy made them."
            )
        if not (np.abs(signs) == 1).all():
            raise InvalidInput("reports had signs other than -1 and +1; a sign says up or down.")

    def sums(self, reports: CellReports) -> NodeSums:
        """What checked reports of this policy add."""
        mechanism, people = self.mechanism, len(reports)
        size = mechanism.bins
        signed = np.bincount(
            reports.cells.ravel(), reports.signs.ravel().astype(np.float64), minlength=size
        )
        shown = np.bincount(reports.cells.ravel(), minlength=size).astype(np.float64)
        sums = NodeSums.cells(len(self.tree), self.arms)
        leaf, arm = np.nonzero(self.wanted)
        at, count = (self.tree.leaves[leaf], arm), len(leaf)
        q, contrast, gain = mechanism.other_probability, mechanism.contrast, mechanism.mass_contrast
        own = mechanism.true_probability + mechanism.false_probability
        sums.offered[at] = people
        sums.signed[at] = signed[:count] / contrast
        sums.noise_other[at] = people * (2.0 * q / contrast**2)
        sums.noise_own[at] = people * (own / contrast**2)
        if size > 1 and gain > 0.0:
            typical = 2.0 * q + gain / size
            variance = max(typical * (1.0 - typical), 1e-12)
            sums.mass_weight[at] = people * gain**2 / variance
            sums.mass_sum[at] = gain * (shown[:count] - people * 2.0 * q) / variance
        return sums

    def to_fields(self) -> dict[str, Any]:
        return {**self.header(), **Bins(self.tree, self.active).to_fields()}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        header = cls.read_header(fields)
        bins = Bins.from_fields(fields, header["domain"].dimension, header["arms"])
        return cls(**header, tree=bins.tree, active=bins.active)
