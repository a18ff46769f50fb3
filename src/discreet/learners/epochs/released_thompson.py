"""Batched Thompson sampling on the released posterior: our best learner in this setting.

The arms of an epoch may follow any public function of earlier releases. CAPRI eliminates arms
(capri.py); here each person is given the best arm under one of some public draws from the released
posterior, spread by 0.7 of its deviations. Nothing else changes in the argument for privacy.

| budget | epochs                                                                            |
|--------|-----------------------------------------------------------------------------------|
| joint  | the first until it would halve the doubt about the best arm, then 1.5 times longer |
| local  | batches of max(100, T/1000, t/15)                                                 |
| none   | from 10 people on, 1.2 times longer each                                          |

When the next epoch would not end before the horizon, everybody gets the best arm by the mean.
There is no proof of regret; the elimination learner with rigorous widths is for those who want one.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Unpack

import numpy as np

from discreet.action_space import ArmPoints
from discreet.domain import Box
from discreet.learners.epochs.belief import Belief
from discreet.learners.epochs.decisions import Thompson, usual_draws
from discreet.learners.epochs.learner import EpochCommon, EpochLearner
from discreet.learners.epochs.policy import EpochPolicy
from discreet.privacy import Budget, Joint, Local
from discreet.validation import InvalidInput, positive_number

# How far draws are spread, in posterior deviations: 1 explores too long, less than a half may stay
# with the wrong arm for ever.
_FACTOR = 0.7
# The first epoch ends when it would leave this share of the doubt about the best arm.
_DOUBT_LEFT = 0.5
_FEWEST = 10
_GROWTH = 1.5
_FREE_GROWTH = 1.2
_MOST_FIRST = 0.1


class ReleasedThompson(EpochLearner):
    """Gives arms by Thompson sampling from the last released posterior (see the module).

    Args:
        thompson_factor: how far draws are spread, in posterior deviations.

    See `EpochLearner` for the others.
    """

    name: ClassVar[str] = "released_thompson"

    def __init__(
        self,
        domain: Box,
        arms: int | ArmPoints,
        budget: Budget,
        *,
        thompson_factor: float = _FACTOR,
        **common: Unpack[EpochCommon],
    ) -> None:
        self.thompson_factor = positive_number(thompson_factor, "thompson_factor")
        super().__init__(domain, arms, budget, **common)

    @classmethod
    def _own_options(cls) -> tuple[str, ...]:
        return ("thompson_factor",)

    def _first_length(self) -> int:
        if self.horizon is not None and self.horizon <= _FEWEST:
            raise InvalidInput(
                f"horizon was {self.horizon}; {self.name} learns nothing from fewer than "
                f"{_FEWEST + 1} people, the first epoch and one to profit from it. Give a longer "
                "horizon."
            )
        return _FEWEST

    def _next(self, header: dict[str, Any], belief: Belief) -> tuple[EpochPolicy, int]:
        version = header["version"]
        common = self.features, belief.mean, belief.root
        draws = usual_draws(self.features), self.public_seed, version
        spread = Thompson(*common, self.thompson_factor, *draws)
        matters = self.matters(belief, Thompson(*common, 1.0, *draws).table)
        chances = self.chances(spread.table)

        length = self._planned_length()
        rows, doubt = self.best_rows(belief, chances, matters, length)
        if version == 0 and isinstance(self.budget, Joint):
            most = self.left * _MOST_FIRST
            while doubt > _DOUBT_LEFT * np.trace(matters) and length < most:
                length = math.ceil(length * _GROWTH)
                rows, doubt = self.best_rows(belief, chances, matters, length)
        decision = spread
        if length >= self.left:
            decision = Thompson(*common, 0.0, 1, *draws[1:])
            length = 2**53
        policy = EpochPolicy(
            **header,
            features=self.features,
            decision=decision,
            rows=rows,
            local=self.hidden(rows.size),
            believed=belief.mean,
        )
        return policy, length

    def _planned_length(self) -> int:
        if isinstance(self.budget, Local):
            horizon = self.horizon or 0
            return max(100, horizon // 1000, self.people // 15)
        if not self._policies:
            return _FEWEST
        growth = _GROWTH if isinstance(self.budget, Joint) else _FREE_GROWTH
        return math.ceil(self._length * growth)
