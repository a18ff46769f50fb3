"""CAPRI: explore, release, eliminate (Pavlovic et al. 2025), with exact expected covariances.

Epochs double, from ceil(sqrt T) people on. In an epoch every arm that is still active in a person's
context is offered by a design; at its end one statistic is released and arms that are surely worse
are given up. The paper estimates the covariance of an epoch from random sets S and R; here it is
known, because contexts have a public distribution (the sets are in the reproduction). Each person
enters one release, so none of the budget is divided by log T.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

import numpy as np

from discreet.action_space import ArmPoints
from discreet.domain import Box
from discreet.learners.epochs.belief import Belief
from discreet.learners.epochs.decisions import Offers
from discreet.learners.epochs.design import offers_of
from discreet.learners.epochs.elimination import RULES, Elimination, Posterior, rule_of
from discreet.learners.epochs.learner import EpochCommon, EpochLearner
from discreet.learners.epochs.policy import EpochPolicy
from discreet.learners.epochs.rows import RowMap
from discreet.privacy import Budget, Joint
from discreet.validation import BoolArray, InvalidInput


class Capri(EpochLearner):
    """Offers the arms that may be best, and gives up those that are not.

    Args:
        horizon: how many people are expected; required.
        rule: which arms are given up and what is measured: `Posterior()` by default, `Bernstein()`
            for widths with a proof (elimination.py).

    See `EpochLearner` for the others.
    """

    name: ClassVar[str] = "capri"

    def __init__(
        self,
        domain: Box,
        arms: int | ArmPoints,
        budget: Budget,
        *,
        rule: Elimination | None = None,
        **common: Unpack[EpochCommon],
    ) -> None:
        if rule is not None and not isinstance(rule, Elimination):
            raise InvalidInput(f"rule was {rule!r:.80}; pass Posterior(..) or Bernstein(..).")
        self.rule = rule or Posterior()
        super().__init__(domain, arms, budget, **common)
        self._active: BoolArray = np.ones((len(self.features.contexts), self.arms), dtype=np.bool_)

    def _first_length(self) -> int:
        first = 0 if self.horizon is None else math.ceil(math.sqrt(self.horizon))
        if self.horizon is None or first >= self.horizon:
            raise InvalidInput(
                f"horizon was {self.horizon}; {self.name} has epochs of ceil(sqrt(horizon)) people "
                "and more, so give a horizon of at least 3."
            )
        return first

    @property
    def active(self) -> BoolArray:
        """(N, K) the arms that are not given up; public."""
        return self._active.copy()

    def _multiplier(self, rows: RowMap) -> float:
        assert isinstance(self.budget, Joint)
        return self.rule.noise_multiplier(self.budget, self, rows)

    def _next(self, header: dict[str, Any], belief: Belief) -> tuple[EpochPolicy, int]:
        version = header["version"]
        if version:
            self._active = self.rule.survivors(self, belief, self._active)
        length = self._length if version == 0 else 2 * self._length
        table, weights = self.features.table, self.features.contexts.weights
        offers = offers_of(self.rule.design, table, weights, self._active)
        rows = self.rule.rows(self, belief, offers, length)
        if length > self.left:
            length = 2**53
            if self.rule.last_greedy:
                mean = np.where(self._active, table @ belief.mean, -np.inf)
                offers = np.eye(self.arms)[mean.argmax(axis=1)]
        policy = EpochPolicy(
            **header,
            features=self.features,
            decision=Offers(self.features, offers),
            rows=rows,
            local=self.hidden(rows.size),
            believed=belief.mean,
        )
        return policy, length

    @classmethod
    def read_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        rest = dict(options)
        rule = rule_of(rest)
        return {**super().read_options(rest), "rule": rule}

    @classmethod
    def _rule_options(cls) -> tuple[str, ...]:
        own = {name for kind in RULES.values() for name in kind.__annotations__}
        return "rule", *sorted(own - {"name"})

    def _options(self) -> dict[str, Any]:
        if type(self.rule) not in RULES.values():
            raise InvalidInput(
                f"a learner with the rule {self.rule.name!r} cannot be saved; only those of "
                f"{', '.join(RULES)} can."
            )
        return {**super()._options(), **self.rule.fields()}

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "active": self._active.tolist()}

    def _restore(self, fields: dict[str, Any]) -> None:
        super()._restore(fields)
        active = np.array(fields["active"], dtype=np.bool_)
        if active.shape != self._active.shape or not active.any(axis=1).all():
            raise InvalidInput(
                f"the saved active arms had shape {active.shape}; read them as save() wrote them."
            )
        self._active = active
