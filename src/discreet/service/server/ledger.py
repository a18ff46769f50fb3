"""The ledger: the cost of every release per person, asked for and held; and the operators' log.

Epsilons are whole millionths, rounded up, so that they add without rounding. A row is written in
the transaction that publishes its policy.

**Rows that are never changed.** Triggers refuse to change or delete rows of the ledger and of the
log. The owner of the database can drop them; a server cannot change a row by mistake. They are set
whenever a server starts.

**Servers that this one was restored from.** A backup does not show later releases of its server. So
a person is assumed to have paid the whole budget of its learner, not what the backup's ledger held.
Under joint privacy the cost of taking part in both is the composition, epsilons and deltas added
(basic composition; Dwork and Roth 2014, Theorem 3.16). Under local privacy a person's device counts
every report, and nothing is added.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row, and_, insert, select

from discreet.codec import decode, encode, to_json
from discreet.learners.base import Learner
from discreet.learners.policy import TARGET_NAME, Policy, stream_id
from discreet.privacy import Guarantee, SecureNoise
from discreet.service.server.database import Database
from discreet.service.server.deployment import AnyLearner
from discreet.service.server.schema import former, ledger, operations, policies
from discreet.validation import InvalidInput

MILLION = 1_000_000
# Calibrations meet an epsilon from below but for roundings.
_ROUNDING = 1e-9
# The actor of what was done on the server itself, without a key.
SERVER = "server"
_TABLES = (ledger.name, operations.name)
_MESSAGE = "rows of this table are never changed"


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
        "reports": own.people,
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
        own = learner.streams[row.stream]
        last = (own.policies[-1].version, own.policies[-1].digest) if own.policies else None
        if last != (row.version, row.digest) or own.people != row.reports:
            raise InvalidInput(
                f"the ledger of {study!r} has {row.reports} people in version {row.version} of "
                f"{row.stream}, but the learner in the database has another number of them or "
                "another policy: the database was changed. Restore a backup."
            )


def note(connection: Connection, key: str, what: str, study: str | None = None) -> None:
    """Add a line to the log, in the transaction of the operation.

    Args:
        connection: a transaction that writes.
        key: the id of the key by which it was asked for; empty for the server itself.
        what: was done.
        study: that it was done to.
    """
    connection.execute(
        insert(operations).values(at=time.time(), key=key or SERVER, what=what, study=study)
    )


def noted(database: Database, study: str | None = None, after: int = 0) -> list[dict[str, Any]]:
    """The lines after one of that id, at most 1,000; of one study, or of all."""
    wanted = select(operations).where(operations.c.id > after)
    if study is not None:
        wanted = wanted.where(operations.c.study == study)
    with database.reading() as connection:
        rows = connection.execute(wanted.order_by(operations.c.id).limit(1000))
        return [dict(row._mapping) for row in rows]


def keep_rows(database: Database) -> None:
    """Set the triggers."""
    with database.writing() as connection:
        _set(connection, database.sqlite)


@contextmanager
def unlocked_rows(connection: Connection, on_sqlite: bool) -> Iterator[None]:
    """Drop the triggers until the block ends, within a transaction."""
    for table in _TABLES:
        if on_sqlite:
            for event in ("update", "delete"):
                connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS keep_{table}_{event}")
        else:
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS keep_{table} ON {table}")
    yield
    _set(connection, on_sqlite)


def _set(connection: Connection, on_sqlite: bool) -> None:
    for statement in _sqlite() if on_sqlite else _postgresql():
        connection.exec_driver_sql(statement)


def _sqlite() -> Iterator[str]:
    for table in _TABLES:
        for event in ("UPDATE", "DELETE"):
            yield (
                f"CREATE TRIGGER IF NOT EXISTS keep_{table}_{event.lower()} BEFORE {event} "
                f"ON {table} BEGIN SELECT RAISE(ABORT, '{_MESSAGE}'); END"
            )


def _postgresql() -> Iterator[str]:
    # Two servers may start at once.
    yield "SELECT pg_advisory_xact_lock(20210718)"
    yield (
        "CREATE OR REPLACE FUNCTION discreet_keep_rows() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_MESSAGE}'; END $$"
    )
    for table in _TABLES:
        yield (
            f"CREATE OR REPLACE TRIGGER keep_{table} BEFORE UPDATE OR DELETE ON {table} "
            "FOR EACH ROW EXECUTE FUNCTION discreet_keep_rows()"
        )


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
