"""The private baseline that ignores contexts: one best arm for everyone.

`local_kernel` with the constant as its only feature, so its reports, their privacy, its posterior
and its queries are those of `local_kernel` with one cell: a person reports the sign of the rounded
reward, times a public sign for the arm, by randomised response on two values.
"""

from __future__ import annotations

from typing import ClassVar, Unpack

import numpy as np

from discreet.learners.base import Common
from discreet.learners.local_kernel.learner import LocalKernel
from discreet.learners.values import CONFIDENCE, AnyPolicy, Value, ValuePosterior
from discreet.people.domain import Arms, Box
from discreet.privacy import Local, NonPrivate
from discreet.validation import InvalidInput


class BestArm(LocalKernel):
    """Learns which arm is best for everyone together; contexts are not looked at.

    Args:
        budget: `Local(epsilon)`, or `NonPrivate()` for the same learner without noise.
        batch: least number of reports between two policies.
        growth: later, that number is this share of all reports so far.
        half_life: of a report's weight, in people; None where rewards do not change.
    """

    name: ClassVar[str] = "best_arm"
    varies: ClassVar[bool] = False

    def __init__(
        self,
        domain: Box,
        arms: Arms,
        budget: Local | NonPrivate,
        *,
        batch: int = 10,
        growth: float = 0.02,
        half_life: float | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(
            domain, arms, budget, batch=batch, growth=growth, half_life=half_life, **common
        )

    def _value_under(
        self,
        posterior: ValuePosterior,
        policy: AnyPolicy = None,
        against: AnyPolicy = None,
        given: bool = False,
        level: float = CONFIDENCE,
    ) -> Value:
        for each in (policy, against):
            arm = each is None or isinstance(each, int | np.integer)
            if not arm and getattr(each, "varies", True):
                raise InvalidInput(
                    f"a policy was {each!r:.80}, which may depend on the context; best_arm knows "
                    "what an arm earns over its people alone. Give an arm or its own policy."
                )
        return super()._value_under(posterior, policy, against, given, level)
