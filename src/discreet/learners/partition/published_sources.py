"""Reports of auxiliary sources as published: Laplace noise on every active (bin, arm) pair.

A person of source m has their own pair (bin, arm) like a person of the target, except that the arm
was chosen elsewhere and may have been given up in their bin; then all their numbers are 0 (24).
Every number gets Laplace(4 / epsilon_m) noise (25).

*Claim.* Any two people with contexts in the domain, any arms and rewards in [0, 1], have numbers
that differ by at most 4 in all, so no report is more than e^epsilon_m times as likely under one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from discreet.learners.partition.bins import Bins
from discreet.learners.partition.elimination import CellSums
from discreet.learners.partition.published_policy import check_values, sums_of
from discreet.learners.partition.tree import Tree
from discreet.learners.sources import SourcePolicy, SourceReports
from discreet.privacy import NoiseSource, Release
from discreet.privacy.accounting import PureEvent
from discreet.privacy.frequency import LaplaceOnCells
from discreet.privacy.noise import laplace_epsilon
from discreet.validation import BoolArray, FloatArray, IntArray, read_array


@dataclass(frozen=True, eq=False)
class LaplaceSourceReports(SourceReports):
    """Noisy U and V of n people of a source.

    Attributes:
        values: (n, 2C) for the C active (bin, arm) pairs, C columns of U and then C of V.
    """

    kind: ClassVar[str] = "laplace-source-reports"

    values: FloatArray

    def __len__(self) -> int:
        return len(self.values)

    def to_fields(self) -> dict[str, Any]:
        return {**self.origin_fields(), "values": self.values.tolist()}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(
            **cls.read_origin(fields),
            values=read_array(fields["values"], "values", "number", 2),
        )


@dataclass(frozen=True, eq=False)
class PublishedSourcePolicy(SourcePolicy):
    """The (bin, arm) pairs that people of a source report on.

    Attributes:
        tree: the partition, which sources share with the target.
        active: (L, K) the arms that are left in each leaf.
    """

    kind: ClassVar[str] = "published-partition-source-policy"

    tree: Tree
    active: BoolArray

    @cached_property
    def mechanism(self) -> LaplaceOnCells:
        """The noise on the active pairs of this policy."""
        return LaplaceOnCells(int(self.active.sum()), self.epsilon, partial=True)

    @cached_property
    def _cell(self) -> IntArray:
        """(L, K) the number of each active pair, -1 for others."""
        cell = np.full(self.active.shape, -1)
        cell[self.active] = np.arange(self.mechanism.cells)
        return cell

    def _report(
        self, unit: FloatArray, arms: IntArray, rewards: FloatArray, noise: NoiseSource
    ) -> LaplaceSourceReports:
        leaves = self.tree.leaf_position[self.tree.locate(unit)]
        values = self.mechanism.privatise(self._cell[leaves, arms], rewards, noise)
        return LaplaceSourceReports(**self.origin(noise.name), values=values)

    def release(self, noise: str) -> Release:
        mechanism = self.mechanism
        held = laplace_epsilon(noise, mechanism.sensitivity, mechanism.scale, 2 * mechanism.cells)
        return Release(
            mechanism=f"Laplace on U and V of {mechanism.cells} (bin, arm) pairs, eq. (25)",
            event=PureEvent(held),
            sensitivity=mechanism.sensitivity,
            sensitivity_source="largest l1 distance of (U, V) over records at the reward bounds",
            scale=mechanism.scale,
            people=self.group,
            data="the bin of the context, the arm and the reward",
            noise=noise,
        )

    def check(self, reports: LaplaceSourceReports) -> None:
        """Refuse reports that this policy cannot have made."""
        check_values(
            reports.values, self.mechanism, f"policy {self.version} of source {self.name!r}"
        )

    def sums(self, reports: LaplaceSourceReports) -> CellSums:
        """What checked reports of this policy add."""
        return sums_of(reports.values, self.tree, self.active)

    def to_fields(self) -> dict[str, Any]:
        return {**self.header(), **Bins(self.tree, self.active).to_fields()}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        header = cls.read_header(fields)
        bins = Bins.from_fields(fields, header["domain"].dimension, header["arms"])
        return cls(**header, **vars(bins))
