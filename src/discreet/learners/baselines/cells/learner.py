"""What both learners of this room have in common: a grid, sums for each cell and arm, and when
the next policy is due."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeVar, Unpack

import numpy as np

from discreet.codec import Range
from discreet.learners.arm_learner import ArmLearner
from discreet.learners.base import Common
from discreet.learners.baselines.cells.grid import Grid, Parts, Shares, matching_shares
from discreet.learners.messages import ArmPolicy, Reports, Totals
from discreet.people.actions import Arms
from discreet.people.domain import Box
from discreet.privacy import Local
from discreet.validation import FloatArray, InvalidInput

# People between two policies: at least so many, and this share of those so far.
_FIRST, _GROWTH = 200, 0.1


@dataclass(frozen=True, eq=False)
class CellPolicy(ArmPolicy):
    """A policy that knows of a context in which cell it is.

    Attributes:
        grid: the cells.
        shares: (J, K) the probability of each arm.
        epsilon: of one report.
    """

    grid: Grid
    shares: Shares
    epsilon: Annotated[float, Range(above=0.0)]

    def __post_init__(self) -> None:
        super().__post_init__()
        columns, rows = len(self.grid.cuts), len(self.shares)
        if columns != self.domain.dimension or rows != self.grid.cells:
            raise InvalidInput(
                f"a policy has a grid of {columns} columns and shares of {rows} cells; contexts "
                f"have {self.domain.dimension} columns, and the grid {self.grid.cells} cells."
            )

    @property
    def reports_are_private(self) -> bool:
        return True


P = TypeVar("P", bound=CellPolicy)
R = TypeVar("R", bound=Reports)


class CellLearner(ArmLearner[P, R, Totals]):
    """A mean for each arm in each cell of a public grid.

    Args:
        cells: parts of every column; or a list with, for each column, its number of parts or its
            cuts in the column's units. 4 parts unless something is known.
    """

    trust_models: ClassVar[tuple[str, ...]] = ("local",)
    statistics_type = Totals

    def __init__(
        self,
        domain: Box,
        arms: Arms,
        budget: Local,
        *,
        cells: Parts = 4,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(domain, arms, budget, **common)
        self.cells = cells
        self.grid = Grid.of(domain, cells)

    @property
    def batch_size(self) -> int:
        return max(_FIRST, int(_GROWTH * self._published_at))

    @property
    @abstractmethod
    def _size(self) -> int:
        """How many numbers are summed."""

    @abstractmethod
    def _estimates(self, values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """From the sums: sums of signs (J, K), counts (J, K) and the variance of the former."""

    def _empty(self) -> Totals:
        return Totals(values=np.zeros(self._size), reports=0)

    def policy_header(self) -> dict[str, Any]:
        return {**super().policy_header(), "grid": self.grid, "epsilon": self.budget.visit_epsilon}

    def _shares(self) -> FloatArray:
        """(J, K) of the next policy."""
        if not self.people:
            return np.full((self.grid.cells, self.arms), 1.0 / self.arms)
        return matching_shares(*self._estimates(self._sums.values))
