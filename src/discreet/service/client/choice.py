"""The action that a device or a decision client chose for a person."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from discreet.learners.policy import Actions, Policy
from discreet.people.domain import whole_names


@dataclass(frozen=True)
class ChosenAction:
    """An action for one person.

    Attributes:
        id: of the decision, for its reward; None where the person is not learnt from.
        version: of the policy that chose; None for the default arm.
        arm: what was chosen, by number: one of the arms, or the place in a decision set; -1 for a
            point, None where only the name is known.
        name: of the arm; None where arms have no names.
        point: what was chosen, where actions are points.
        propensity: the probability with which it was chosen; 1 for the default arm.
        offered: whether a policy chose, and not the default for when there is none.
        warning: why a service moved values of the context to the nearest that the domain allows;
            None where it moved none.
    """

    id: str | None
    version: int | None
    arm: int | None = field(repr=False)
    name: str | None = field(repr=False)
    point: tuple[float, ...] | None = field(repr=False)
    propensity: float = field(repr=False)
    offered: bool
    warning: str | None = field(default=None, repr=False)

    @classmethod
    def made(
        cls, identity: str | None, policy: Policy[Any], actions: Actions, propensity: float
    ) -> ChosenAction:
        """The first of the actions that a policy chose."""
        arm = int(actions.arms[0])
        return cls(
            identity,
            policy.version,
            arm,
            policy.arm_names[arm] if policy.arm_names and arm >= 0 else None,
            None if actions.points is None else tuple(map(float, actions.points[0])),
            propensity,
            True,
        )

    @classmethod
    def default(cls, arm: int | str, names: tuple[str, ...] = ()) -> ChosenAction:
        """The default arm, by name or number, while no policy can choose.

        Raises:
            InvalidInput: for one that is not among the arms whose names are given.
        """
        if names:
            number: int | None = int(whole_names([arm], names, len(names))[0])
            return cls(None, None, number, names[number or 0], None, 1.0, False)
        number = arm if isinstance(arm, int) else None
        name = arm if isinstance(arm, str) else None
        return cls(None, None, number, name, None, 1.0, False)
