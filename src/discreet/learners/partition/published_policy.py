"""Policies and reports of the published learner (Ma et al. 2025, eqs (8), (11) and (12)).

Arms are chosen uniformly among those that are left. A report holds U and V for every active bin and
every arm active in it, with Laplace(4 / epsilon) noise on each number, whether the person is in the
bin or not: silence in a bin would reveal that they are not in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from discreet.learners.messages import Actions, Reports
from discreet.learners.partition.bins import Bins
from discreet.learners.partition.elimination import CellSums, EliminationPolicy
from discreet.learners.partition.tree import Tree
from discreet.privacy import NoiseSource, Release
from discreet.privacy.accounting import PureEvent
from discreet.privacy.frequency import LaplaceOnCells
from discreet.privacy.noise import laplace_epsilon
from discreet.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    InvalidInput,
    positive_number,
    read_array,
)


@dataclass(frozen=True, eq=False)
class LaplaceReports(Reports):
    """Noisy U and V of n people.

    Attributes:
        values: (n, 2C) for the C active (bin, arm) pairs, C columns of U and then C of V.
    """

    kind: ClassVar[str] = "laplace-reports"

    values: FloatArray

    def __len__(self) -> int:
        return len(self.values)

    def to_fields(self) -> dict[str, Any]:
        return {
            **self.origin_fields(),
            "values": self.values.tolist(),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(
            **cls.read_origin(fields),
            values=read_array(fields["values"], "values", "number", 2),
        )


@dataclass(frozen=True, eq=False)
class PublishedPolicy(EliminationPolicy):
    """Uniform choice among active arms; Laplace noise on every active (bin, arm) pair."""

    kind: ClassVar[str] = "published-partition-policy"

    epsilon: float

    @cached_property
    def mechanism(self) -> LaplaceOnCells:
        """The noise on the active pairs of this policy. Who got an arm that was given up in their
        bin, in spite of the policy, is in none of them."""
        return LaplaceOnCells(int(self.active.sum()), self.epsilon, partial=True)

    @cached_property
    def _cell(self) -> IntArray:
        """(L, K) the number of each active pair, -1 for others."""
        cell = np.full(self.active.shape, -1)
        cell[self.active] = np.arange(self.mechanism.cells)
        return cell

    @property
    def reports_are_private(self) -> bool:
        return True

    def _report(
        self, unit: FloatArray, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> LaplaceReports:
        leaves = self.leaf_of(unit)
        values = self.mechanism.privatise(self._cell[leaves, actions.arms], rewards, noise)
        return LaplaceReports(**self.origin(noise.name), values=values)

    def release(self, noise: str) -> Release | None:
        mechanism = self.mechanism
        return Release(
            mechanism=f"Laplace on U and V of {mechanism.cells} (bin, arm) pairs, eq. (12)",
            event=PureEvent(
                laplace_epsilon(noise, mechanism.sensitivity, mechanism.scale, 2 * mechanism.cells)
            ),
            sensitivity=mechanism.sensitivity,
            sensitivity_source="largest l1 distance of (U, V) over records at the reward bounds",
            scale=mechanism.scale,
            people=self.group,
            data="the bin of the context, the arm and the reward",
            noise=noise,
        )

    def sums(self, reports: LaplaceReports) -> CellSums:
        """What reports of this policy add; `InvalidInput` if it cannot have made them."""
        check_values(reports.values, self.mechanism, f"policy {self.version}")
        result = sums_of(reports.values, self.tree, self.active)
        return replace(result, reports=len(reports))

    def to_fields(self) -> dict[str, Any]:
        return {**super().to_fields(), "epsilon": self.epsilon}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        header = cls.read_header(fields)
        bins = Bins.from_fields(fields, header["domain"].dimension, header["arms"])
        return cls(**header, **vars(bins), epsilon=positive_number(fields["epsilon"], "epsilon"))


def check_values(values: FloatArray, mechanism: LaplaceOnCells, policy: str) -> None:
    """Refuse noisy numbers (n, 2C) that a mechanism cannot have made; `policy` names its policy."""
    cells = mechanism.cells
    if values.ndim != 2 or values.shape[1] != 2 * cells or len(values) == 0:
        raise InvalidInput(
            f"reports had values of shape {values.shape}; under {policy} it must be (people, "
            f"{2 * cells}) with at least one person."
        )
    most = largest_value(mechanism)
    if not (np.abs(values) <= most).all():
        raise InvalidInput(
            f"reports had NaN or values beyond {most:g}, which this policy's noise does not "
            "reach; send them as the policy made them."
        )


def largest_value(mechanism: LaplaceOnCells) -> float:
    """The largest size of a reported number that is accepted.

    Laplace noise exceeds 60 scales with probability e^-60; one such value could undo everything
    that others reported.
    """
    return 1.0 + 60.0 * mechanism.scale


def sums_of(values: FloatArray, tree: Tree, active: BoolArray) -> CellSums:
    """The sums by node of noisy numbers (n, 2C) for the active pairs of a tree's leaves."""
    result = CellSums.zeros(len(tree), active.shape[1])
    leaf, arm = np.nonzero(active)
    node = tree.leaves[leaf]
    total = values.sum(axis=0)
    result.chosen[node, arm] = total[: len(leaf)]
    result.rewards[node, arm] = total[len(leaf) :]
    result.times[tree.leaves] = len(values)
    return result
