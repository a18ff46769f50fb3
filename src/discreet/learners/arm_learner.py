"""What learners share that choose among K arms."""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

from discreet.learners.base import Common, Learner, P, R, S
from discreet.people.domain import ArmPoints, Arms, Box, with_names
from discreet.privacy import Budget, Local
from discreet.validation import InvalidInput, whole_number


class ArmLearner(Learner[P, R, S]):
    """A learner that chooses among K arms.

    Args:
        arms: the number of arms K, at least 2, their names, or `ArmPoints`.

    Attributes:
        pure_reports: whether reports under local privacy take no delta.
    """

    spaces: ClassVar[tuple[type[Any], ...]] = (int, ArmPoints)
    pure_reports: ClassVar[bool] = True

    def __init__(self, domain: Box, arms: Arms, budget: Budget, **common: Unpack[Common]) -> None:
        space, _ = with_names(arms)
        self.arms = len(space) if isinstance(space, ArmPoints) else whole_number(space, "arms", 2)
        pure = isinstance(budget, Local) and self.pure_reports
        if pure and budget.delta > 0.0 and budget.visits == 1:
            raise InvalidInput(
                f"delta was {budget.delta:g}; the reports of {self.name} are pure, so give an "
                "epsilon without delta. (Several visits of a person may have one.)"
            )
        super().__init__(domain, arms, budget, **common)

    def policy_header(self) -> dict[str, Any]:
        return {**super().policy_header(), "arms": self.arms}
