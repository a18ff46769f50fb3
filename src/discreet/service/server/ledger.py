"""The ledger: the cost of every release per person, asked for and held.

Epsilons are whole millionths, rounded up, so that they add without rounding. A row is written in
the transaction that publishes its policy.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Row

from discreet.codec import encode, to_json
from discreet.learners.base import Learner
from discreet.learners.policy import TARGET_NAME, Policy
from discreet.validation import InvalidInput

MILLION = 1_000_000
# Calibrations meet an epsilon from below but for roundings.
_ROUNDING = 1e-9


def millionths(epsilon: float) -> int:
    """An epsilon in whole millionths, rounded up."""
    return math.ceil(epsilon * MILLION * (1.0 - _ROUNDING))


def ledger_row(learner: Learner[Any, Any, Any], stream: str, policy: Policy[Any]) -> dict[str, Any]:
    """The row of the release of a policy, but for the study and the time.

    Raises:
        InvalidInput: where people would be promised less than they agreed to; then nothing is
            published.
    """
    own = learner.streams[stream]
    guarantee = learner.guarantee() if stream == TARGET_NAME else own.guarantee()
    budget = own.budget
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
        "reports": published(learner, stream)[1],
        "guarantee": encode(guarantee),
        "digest": policy.digest,
        "declared": _declared(learner) if learner.secret and stream == TARGET_NAME else None,
    }


def _declared(learner: Learner[Any, Any, Any]) -> str:
    """The records of all releases so far, each with how often in a row there is one like it."""
    records = [to_json(release) for release in learner.releases]
    return json.dumps([[len(list(same)), record] for record, same in groupby(records)])


def check_recorded(learner: Learner[Any, Any, Any], rows: Sequence[Row[Any]], study: str) -> None:
    """Check that a learner from the database agrees with the ledger's rows.

    An older snapshot that was put back would release the same people a second time.

    Args:
        rows: of the study, those of a stream by version.

    Raises:
        InvalidInput: where it is another one.
    """
    for row in {row.stream: row for row in rows}.values():
        policies, people = published(learner, row.stream)
        last = (policies[-1].version, policies[-1].digest) if policies else None
        if last != (row.version, row.digest) or people != row.reports:
            raise InvalidInput(
                f"the ledger of {study!r} has {row.reports} people in version {row.version} of "
                f"{row.stream}, but the learner in the database has another number of them or "
                "another policy: the database was changed. Restore a backup."
            )


def published(learner: Learner[Any, Any, Any], stream: str) -> tuple[Sequence[Policy[Any]], int]:
    """The policies of a stream, and how many people the learner has met there."""
    return learner.streams[stream].policies, learner.streams[stream].people
