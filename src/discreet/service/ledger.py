"""The ledger: what every release may cost a person, and what it does.

Epsilons are whole millionths, rounded up, so that they add without rounding. A row is written in
the transaction that publishes what it is about.
"""

from __future__ import annotations

import math
from typing import Any

from discreet.codec import encode
from discreet.learners.base import Learner
from discreet.learners.sources import SourceLearner
from discreet.learners.stream import TARGET_NAME
from discreet.learners.terms import Offer
from discreet.validation import InvalidInput

MILLION = 1_000_000
# Calibrations meet an epsilon from below but for roundings.
_ROUNDING = 1e-9


def millionths(epsilon: float) -> int:
    """An epsilon in whole millionths, rounded up."""
    return math.ceil(epsilon * MILLION * (1.0 - _ROUNDING))


def ledger_row(learner: Learner[Any, Any, Any], stream: str, policy: Offer) -> dict[str, Any]:
    """The row of the release of a policy, but for the study and the time.

    Raises:
        InvalidInput: where people would be promised less than they agreed to; then nothing is
            published.
    """
    if stream == TARGET_NAME:
        guarantee, budget, reports = learner.guarantee(), learner.budget, learner.people
    else:
        assert isinstance(learner, SourceLearner)
        guarantee = learner.source_guarantees()[stream]
        budget, reports = learner.source(stream).budget, learner.source_people(stream)
    asked, held = millionths(budget.epsilon), millionths(guarantee.epsilon)
    if held > asked or guarantee.delta > budget.delta:
        raise InvalidInput(
            f"the release of {policy.title} of {stream} would hold epsilon = {guarantee.epsilon!r} "
            f"and delta = {guarantee.delta!r}, but {budget!r} was promised; it is not published."
        )
    return {
        "stream": stream,
        "version": policy.version,
        "asked": asked,
        "held": held,
        "delta": guarantee.delta,
        "reports": reports,
        "guarantee": encode(guarantee),
        "digest": policy.digest,
    }
