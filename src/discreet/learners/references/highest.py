"""The baseline of a fixed rule: the candidate with the largest value in one column.

Examples are the most popular film or the cheapest offer. Nothing is learnt or reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np

from discreet.codec import Range
from discreet.learners.base import Common
from discreet.learners.policy import PointPolicy
from discreet.learners.references.uniform import Uniform, no_release, no_report
from discreet.people.domain import Box, Candidates, DecisionSets, PublicSet
from discreet.privacy import NonPrivate
from discreet.validation import CoinArray, FloatArray, IntArray, InvalidInput, one_of


@dataclass(frozen=True)
class HighestPolicy(PointPolicy):
    """The first of the points with the largest value in a column.

    Attributes:
        column: the column's place in the domain.
    """

    kind: ClassVar[str] = "highest-policy"
    reports_are_private = True
    _report = no_report
    release = no_release

    column: Annotated[int, Range(0)]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.column >= self.domain.dimension:
            raise InvalidInput(
                f"column was {self.column}; the domain has {self.domain.dimension} columns."
            )

    def _choose(self, people: Candidates, public_coins: CoinArray) -> tuple[IntArray, FloatArray]:
        values = np.where(people.present, people.points[..., self.column], -np.inf)
        return values.argmax(axis=1), np.ones(len(people))

    def _draw(self, public_coins: CoinArray) -> tuple[IntArray, FloatArray, FloatArray]:
        assert isinstance(self.offered, PublicSet)
        points = self.offered.array
        arms = np.full(len(public_coins), points[:, self.column].argmax())
        return arms, points[arms], np.ones(len(public_coins))


class Highest(Uniform):
    """Chooses the point with the largest value in one column.

    Args:
        column: the column's name.

    Raises:
        InvalidInput: for a column that the domain does not have.
    """

    name: ClassVar[str] = "highest"
    spaces: ClassVar[tuple[type[Any], ...]] = (DecisionSets, PublicSet)

    def __init__(
        self,
        domain: Box,
        space: DecisionSets | PublicSet,
        budget: NonPrivate,
        *,
        column: str = "",
        **common: Unpack[Common],
    ) -> None:
        super().__init__(domain, space, budget, **common)
        self.column = one_of(column, "column", domain.names)

    def _publish(self) -> HighestPolicy:  # type: ignore[override]
        assert isinstance(self.space, DecisionSets | PublicSet)
        place = self.domain.names.index(self.column)
        return HighestPolicy(**self.policy_header(), offered=self.space, column=place)
