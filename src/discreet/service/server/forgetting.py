"""What a service forgets, and when; a portion at a time, so that no writer waits long.

| what                                 | is erased or deleted                      |
|--------------------------------------|-------------------------------------------|
| a decision that waits for its reward | erased when it expires (`expires_days`)   |
| an observation that is kept          | erased `retention_days` after its release |
| the empty row of a decision          | deleted `RECORD_DAYS` after it was erased |
| the empty row of a released batch    | deleted `RECORD_DAYS` after it came       |
| the public coins of a version        | deleted once the version is closed        |

A version is *closed* when a newer one was published `VERSION_DAYS` ago, or its study is finished:
from then on its reports are refused, for good.

*No report counts twice.* A report enters a batch only in a transaction that finds its version open
and its public coin new (ingest.py), and versions are closed in a transaction that waits for those
and that none of them overtakes: both lock the row of the study, which holds what is closed. So when
a public coin is deleted, every report under it has been refused or counted, and later ones are
refused. The row of a batch only repeats the first answer to a request: without it, its public coins
are known. A reward counts only for a decision whose row waits for it, so without a row it counts
for none. Who took part how often is in the learner, and is never deleted.

What was deleted stays in the counts of a study, by version and state (`pruned`).
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, case, delete, func, literal_column, or_, select, update

from discreet.learners.policy import TARGET_NAME
from discreet.service.server.ledger import note
from discreet.service.server.schema import (
    ERASED,
    RECORD_SECONDS,
    batches,
    decisions,
    policies,
    pruned,
    public_coins,
    server,
    studies,
)
from discreet.service.server.store import Store

VERSION_DAYS = 90.0
_DAY = 86_400.0
_LOG = logging.getLogger(__name__)
_SECONDS = 60.0
# Rows of a portion, at most and at least. On a busy server a transaction waits longer than its rows
# take, and deletion must be faster than arrivals. Rows of public coins are adjacent on disk.
_ROWS, _FEWEST, _PUBLIC_COINS = 250, 100, 2_000
# Seconds aimed at for a portion, as an old row can cost a millisecond, and the share of the time.
_HELD_SECONDS, _SHARE = 0.01, 0.1
_TO_ERASE = (
    decisions.c.payload.is_not(None),
    or_(decisions.c.state == "waiting", decisions.c.released.is_not(None)),
)


# Forgets a portion of what is due at a time; whether there may be more.
_Kind = Callable[[float], bool]


class Forgetting:
    """Forgets what is due in a store, once a minute, or as long as there is more."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._due = self._clock_due = self._all_due = -math.inf
        self._more: list[_Kind] = []
        self._told = False
        self._rows = _ROWS

    def step(self) -> None:
        """Record the time, and forget a portion, if it is time to."""
        steady = time.monotonic()
        if steady >= self._clock_due:
            self._clock()
            self._clock_due = steady + _SECONDS
        if steady >= self._due:
            if steady >= self._all_due:
                self._more, self._all_due = [], steady + _SECONDS
            self._more = self.portion(only=self._more)
            took = time.monotonic() - steady
            fitting = self._rows * _HELD_SECONDS / max(took, 1e-6)
            self._rows = int(min(max(fitting, _FEWEST), _ROWS))
            self._due = steady + (took / _SHARE if self._more else _SECONDS)

    def portion(self, now: float | None = None, only: Sequence[_Kind] = ()) -> list[_Kind]:
        """Forget at most a portion of each kind, or of `only`; the kinds that may have more."""
        now = self.store.clock.now() if now is None else now
        if not only:
            self._close(now)
        every = (self.erase, self._decisions, self._batches, self._public_coins)
        return [kind for kind in only or every if kind(now)]

    def _clock(self) -> None:
        """Record the time, and tell the operator of a clock that is not believed."""
        now, ahead = self.store.clock.now(), self.store.clock.ahead
        with self.store.database.writing() as connection:
            connection.execute(
                update(server)
                .where(or_(server.c.clock.is_(None), server.c.clock < now))
                .values(clock=now)
            )
            if ahead and not self._told:
                note(connection, "", f"the clock is {ahead:+.0f} seconds off; expiry ignores it")
        if ahead:
            _LOG.error(
                "this machine's clock is %+.0f seconds off what passed; expiry goes on without "
                "it. If it is right, start the server once with --confirm-clock",
                ahead,
            )
        self._told = bool(ahead)

    def erase(self, now: float) -> bool:
        """Erase a portion of the decisions that have expired, and of observations whose retention
        ended."""
        due = select(decisions.c.id).where(*_TO_ERASE, decisions.c.expires < now)
        ended = case((decisions.c.state == "waiting", "expired"), else_=decisions.c.state)
        with self.store.database.writing() as connection:
            ids = connection.scalars(due.order_by(decisions.c.expires).limit(self._rows)).all()
            connection.execute(
                update(decisions)
                # Again, as a reward may have come in between.
                .where(decisions.c.id.in_(ids), *_TO_ERASE)
                .values(state=ended, expires=now + RECORD_SECONDS, **ERASED)
            )
        return len(ids) == self._rows

    def _decisions(self, now: float) -> bool:
        empty = decisions.c.payload.is_(None)
        due = select(decisions.c.id).where(empty, decisions.c.expires < now)
        with self.store.database.writing() as connection:
            ids = connection.scalars(due.order_by(decisions.c.expires).limit(self._rows)).all()
            gone = connection.execute(
                delete(decisions)
                .where(decisions.c.id.in_(ids), empty)
                .returning(decisions.c.study, decisions.c.version, decisions.c.state)
            ).all()
            self._count(connection, Counter((each[0], TARGET_NAME, *each[1:]) for each in gone))
        return len(ids) == self._rows

    def _batches(self, now: float) -> bool:
        # What is set aside stays: its body is there to be looked into.
        had = batches.c.released >= literal_column("0")
        due = select(batches.c.id).where(had, batches.c.received < now - RECORD_SECONDS)
        with self.store.database.writing() as connection:
            ids = connection.scalars(due.order_by(batches.c.received).limit(self._rows)).all()
            shown = [batches.c[name] for name in ("study", "stream", "stored", "repeated")]
            gone = connection.execute(
                delete(batches).where(batches.c.id.in_(ids), had).returning(*shown)
            ).all()
            counts: Counter[tuple[str, str, int, str]] = Counter()
            for row in gone:
                counts[row.study, row.stream, 0, "stored"] += row.stored
                counts[row.study, row.stream, 0, "repeated"] += row.repeated
            self._count(connection, counts)
        return len(ids) == self._rows

    def _close(self, now: float) -> None:
        """Close versions whose time is over."""
        old = policies.c.published < now - VERSION_DAYS * _DAY
        before = case(
            (studies.c.state == "finished", func.max(policies.c.version) + 1),
            else_=func.max(case((old, policies.c.version), else_=0)),
        )
        wanted = (
            select(studies.c.name, studies.c.closed, policies.c.stream, before.label("before"))
            .join(policies, policies.c.study == studies.c.name)
            .group_by(studies.c.name, studies.c.state, studies.c.closed, policies.c.stream)
        )
        with self.store.database.reading() as connection:
            rows = connection.execute(wanted).all()
        for row in rows:
            if row.before > closed_before(row.closed, row.stream):
                self._close_stream(row.name, row.stream, row.before)

    def _close_stream(self, name: str, stream: str, before: int) -> None:
        with self.store.database.writing() as connection:
            # A transaction that takes reports holds this row until it ends.
            known = connection.scalar(
                select(studies.c.closed).where(studies.c.name == name).with_for_update()
            )
            closed = json.loads(known or "{}")
            closed[stream] = max(before, closed.get(stream, 0))
            connection.execute(
                update(studies).where(studies.c.name == name).values(closed=json.dumps(closed))
            )

    def _public_coins(self, now: float) -> bool:
        with self.store.database.reading() as connection:
            known = connection.execute(select(studies.c.name, studies.c.closed)).all()
        return any(
            self._public_coins_of(row.name, stream, before)
            for row in known
            for stream, before in json.loads(row.closed).items()
        )

    def _public_coins_of(self, name: str, stream: str, before: int) -> bool:
        """Delete a portion of the public coins of the first version that has any."""
        coin = public_coins.c.public_coin
        own = (public_coins.c.study == name, public_coins.c.stream == stream)
        first = select(public_coins.c.version).where(*own, public_coins.c.version < before)
        with self.store.database.writing() as connection:
            version = connection.scalar(first.order_by(public_coins.c.version).limit(1))
            if version is None:
                return False
            some = [*own, public_coins.c.version == version]
            in_order = select(coin).where(*some).order_by(coin)
            last = connection.scalar(in_order.offset(_PUBLIC_COINS - 1).limit(1))
            if last is not None:
                some.append(coin <= last)
            gone = connection.execute(delete(public_coins).where(*some)).rowcount
            self._count(connection, Counter({(name, stream, version, "reported"): gone}))
        return True

    def _count(self, connection: Connection, counts: Counter[tuple[str, str, int, str]]) -> None:
        """Add to the counts of what is there no longer."""
        inserting = self.store.database.inserting(pruned)
        adding = inserting.on_conflict_do_update(
            index_elements=list(pruned.primary_key),
            set_={"number": pruned.c.number + inserting.excluded.number},
        )
        names = [column.name for column in pruned.primary_key]
        rows: Sequence[dict[str, Any]] = [
            {**dict(zip(names, key, strict=True)), "number": number}
            for key, number in sorted(counts.items())
            if number
        ]
        if rows:
            connection.execute(adding, rows)


def deleted_rows(connection: Connection, study: str) -> Counter[tuple[str, int, str]]:
    """How many rows of a study were deleted, by stream, version and state."""
    rows = connection.execute(select(pruned).where(pruned.c.study == study))
    return Counter({(row.stream, row.version, row.state): row.number for row in rows})


def closed_before(closed: str, stream: str) -> int:
    """The first version of a stream that takes reports, as `studies` holds it."""
    return int(json.loads(closed).get(stream, 0))
