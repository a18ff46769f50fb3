"""Posterior sampling of arms, epoch by epoch: the best learner here under joint privacy.

The arms of an epoch may follow any public function of earlier releases. CAPRI eliminates arms for
good (capri.py); here what is offered follows the latest posterior, so an arm can come back. Nothing
else changes in the argument for privacy.

| sampling    | a person is given                                                               |
|-------------|---------------------------------------------------------------------------------|
| `plausible` | an arm within 0.8 posterior deviations (of the difference) of the best, by a    |
|             | D-optimal design on those arms; a few people of every epoch are given an arm    |
|             | within twice as many deviations; for finite sets of contexts                    |
| `thompson`  | the best arm under one of some public draws from the posterior, spread by 0.7   |
|             | of its deviations; for any contexts                                             |

| budget | epochs                                                                              |
|--------|-------------------------------------------------------------------------------------|
| joint  | the first until the variance about the best arm would be little more than halved,   |
|        | then 1.5 times longer each                                                          |
| local  | batches of max(100, T/1000, t/15)                                                   |
| none   | from 10 people on, 1.2 times longer each                                            |

Unless privacy is local, length scales down to an eighth of the kernel's are weighed by evidence
(contribution.py). After a tenth of the horizon deviations are cut to 0.7 of themselves,
and when the next epoch would not end before the horizon, everybody gets the best arm by the mean.
There is no proof of regret; `capri` with `calibration = "bernstein"` has one.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Unpack

import numpy as np

from discreet.codec import Range
from discreet.learners.base import ENDLESS
from discreet.learners.discounting import check_half_life, longest
from discreet.learners.epochs.capri import within
from discreet.learners.epochs.contribution import ClippedContribution, QueryPosterior
from discreet.learners.epochs.learner import EpochCommon, EpochLearner
from discreet.learners.epochs.policy import (
    ActionTable,
    Decision,
    Thompson,
    design_probabilities,
    usual_draws,
)
from discreet.people.domain import Arms, Box
from discreet.privacy import Budget
from discreet.validation import FloatArray, InvalidInput, positive_number

SAMPLINGS = ("plausible", "thompson")
# How far arms may be behind the best, and draws be spread, in posterior deviations: more explores
# too long, much less may stay with the wrong arm for good.
_DEVIATIONS = {"plausible": 0.8, "thompson": 0.7}
# Arms within this many times the deviations are still tried by a few people of every epoch, because
# an arm that was unlucky in an early release would otherwise be lost: by the number of the first
# epoch, the fewest that are informative, or one for every 500 people still to come.
_SECOND_LOOK = 2.0
_PROFIT = 500
# Late exploration pays for few people: after this share of the horizon deviations are cut.
_LATE = 0.1
_LATE_DEVIATIONS = 0.7
# The first epoch ends when it would leave this share of the variance about the best arm.
_DOUBT_LEFT = 0.6
_FEWEST = 10
_GROWTH = 1.5
_FREE_GROWTH = 1.2
_MOST_FIRST = 0.1
# An epoch is at most this share of a half-life, unless the first one had to be longer: each has
# noise of its own.
_SHARE = 0.25


class ReleasedThompson(EpochLearner):
    """Samples arms from the released posterior (see the module).

    Args:
        sampling: `plausible` or `thompson`; by default the first where contexts are a finite set
            and privacy is not local.
        deviations: how far plausible arms may be behind the best, or draws are spread, in
            posterior deviations; by default 0.8 and 0.7.
        half_life: half-life of reports in people; None where rewards do not change.

    See `EpochLearner` for the others.
    """

    name: ClassVar[str] = "released_thompson"
    learns_length_scales: ClassVar[bool] = True
    saved = (*EpochLearner.saved, "_first")
    # Number of people in the first epoch.
    _first: Annotated[int, Range(1)]

    def __init__(
        self,
        domain: Box,
        arms: Arms,
        budget: Budget,
        *,
        sampling: str | None = None,
        deviations: float | None = None,
        half_life: float | None = None,
        **common: Unpack[EpochCommon],
    ) -> None:
        super().__init__(domain, arms, budget, **common)
        self.half_life = check_half_life(half_life)
        self._check_gaussian()
        if self.horizon is not None and self.horizon <= _FEWEST:
            raise InvalidInput(
                f"horizon was {self.horizon}; {self.name} learns nothing from fewer than "
                f"{_FEWEST + 1} people, the first epoch and one to profit from it. Give a longer "
                "horizon."
            )
        exact = self.features.contexts.exact
        if sampling not in (None, *SAMPLINGS) or (sampling == SAMPLINGS[0] and not exact):
            raise InvalidInput(
                f"sampling was {sampling!r:.80}; it must be thompson, or plausible where contexts "
                "are a finite set (levels in every column)."
            )
        central = exact and not budget.is_local
        self.sampling = sampling or SAMPLINGS[0 if central else 1]
        self._first = self._length = _FEWEST
        usual = _DEVIATIONS[self.sampling]
        self.deviations = usual if deviations is None else positive_number(deviations, "deviations")

    def _next(
        self, version: int, belief: QueryPosterior
    ) -> tuple[Decision, ClippedContribution, int]:
        length = self._planned_length()
        decision, doubtful = self._sampled(belief, version, length)
        doubt = self.doubt(belief, doubtful)
        candidates = self.contribution_candidates(belief, self.chances(decision.table))
        contribution, left = self.best_contribution(candidates, belief, doubt, length)
        if version == 0:
            most = self.remaining * _MOST_FIRST if self.budget.is_central else 0.0
            while left > _DOUBT_LEFT * np.trace(doubt) and length < most:
                length = math.ceil(length * _GROWTH)
                contribution, left = self.best_contribution(candidates, belief, doubt, length)
            self._first = length
        if length >= self.remaining:
            # The epoch would not end, so its reports are not needed.
            decision = Thompson.greedy(self.features, belief, self.public_seed, version)
            length = ENDLESS
        return decision, contribution, length

    def _sampled(
        self, belief: QueryPosterior, version: int, people: int
    ) -> tuple[Decision, FloatArray]:
        """The law of arms, and (N, K) probabilities of arms that may be the best."""
        deviations = self.deviations
        # Exploration under `half_life` pays as long as it is remembered, late or not.
        late = self.horizon is not None and self.people > _LATE * self.horizon
        if late and self.half_life is None:
            deviations *= _LATE_DEVIATIONS
        if self.sampling == SAMPLINGS[0]:
            weights, table = self.features.contexts.weights, self.features.table
            likely, others = (
                design_probabilities("optimal", table, weights, within(table, belief, how_far))
                for how_far in (deviations, _SECOND_LOOK * self.deviations)
            )
            share = min(1.0, min(self._first, self.remaining / _PROFIT) / people)
            probabilities = (1.0 - share) * likely + share * others
            return ActionTable(self.features, probabilities), probabilities
        common = self.features, belief.mean, belief.root
        draws = usual_draws(self.features), self.public_seed, version
        doubtful = Thompson(*common, 1.0, *draws).table
        return Thompson(*common, deviations, *draws), doubtful

    def _planned_length(self) -> int:
        if self.budget.is_local:
            batch = max(100, (self.horizon or 0) // 1000, self.people // 15)
            return longest(self.half_life, batch, _SHARE)
        if not self._policies:
            return _FEWEST
        growth = _GROWTH if self.budget.is_central else _FREE_GROWTH
        length = longest(self.half_life, math.ceil(self._length * growth), _SHARE)
        return max(self._first, length)
