"""Publications of the servers that this one was restored from, and what people may have paid there.

A backup does not show later releases of its server. So a person is assumed to have paid the whole
budget of its learner, not what the backup's ledger held. Under joint privacy the cost of taking
part in both is the composition, epsilons and deltas added (basic composition; Dwork and Roth 2014,
Theorem 3.16). Under local privacy a person's device counts every report, and nothing is added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, and_, insert, select

from discreet.codec import decode, encode
from discreet.learners.policy import TARGET_NAME, stream_id
from discreet.privacy import Guarantee, SecureNoise
from discreet.service.server.deployment import AnyLearner
from discreet.service.server.ledger import MILLION, millionths
from discreet.service.server.schema import former, ledger, policies


@dataclass(frozen=True)
class Paid:
    """What a person may have paid to former learners of a study.

    Attributes:
        learners: how many there were.
        epsilon: in millionths.
        delta: added likewise.
    """

    learners: int = 0
    epsilon: int = 0
    delta: float = 0.0

    def added_to(self, row: dict[str, Any]) -> dict[str, Any]:
        """A ledger row of which this has been paid before."""
        if not self.learners:
            return row
        guarantee = decode(row["guarantee"], Guarantee)
        whole = replace(
            guarantee,
            epsilon=guarantee.epsilon + self.epsilon / MILLION,
            delta=min(1.0, guarantee.delta + self.delta),
            noise=guarantee.noise or (SecureNoise.name,),
            releases=guarantee.releases + self.learners,
        )
        return {
            **row,
            "asked": row["asked"] + self.epsilon,
            "held": row["held"] + self.epsilon,
            "delta": whole.delta,
            "guarantee": encode(whole),
        }


def paid_before(connection: Connection, study: str) -> Paid:
    """What a person may have paid to all former learners of a study that people trusted."""
    rows = connection.execute(
        select(former.c.identity, former.c.budget, former.c.budget_delta)
        .where(former.c.study == study, former.c.stream == TARGET_NAME)
        .distinct()
    ).all()
    return Paid(len(rows), sum(row.budget for row in rows), sum(row.budget_delta for row in rows))


def former_streams(connection: Connection, study: str) -> frozenset[str]:
    """By which reports name learners of this study that are no more, and their sources."""
    rows = connection.execute(
        select(former.c.identity, former.c.stream).where(former.c.study == study).distinct()
    )
    return frozenset(stream_id(row.identity, row.stream) for row in rows)


def rows_of_former(connection: Connection, study: str) -> list[dict[str, Any]]:
    """What former learners of a study published, in that order, with their ledger rows."""
    rows = connection.execute(
        select(former)
        .where(former.c.study == study)
        .order_by(former.c.drawn, former.c.identity, former.c.stream, former.c.version)
    )
    return [dict(row._mapping) for row in rows]


def lay_by(connection: Connection, study: str, learner: AnyLearner) -> None:
    """Keep what a learner published and what it cost, as those of a former one."""
    budgets = {name: stream.budget for name, stream in learner.streams.items()}
    same = [ledger.c[name] == policies.c[name] for name in ("study", "stream", "version")]
    shown = [policies.c[name] for name in ("body", "people", "published")]
    rows = connection.execute(
        select(ledger, *shown).join(policies, and_(*same)).where(ledger.c.study == study)
    ).all()
    for row in rows:
        budget = budgets[row.stream]
        connection.execute(
            insert(former).values(
                **row._mapping,
                identity=learner.identity,
                budget=millionths(budget.epsilon),
                budget_delta=budget.delta,
            )
        )
