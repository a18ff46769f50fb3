"""Releases: waiting reports enter the learner, and the next policy is published.

A release is computed from a numbered snapshot, and written in one transaction that begins by
raising this number. Of two aggregators that work on the same people one fails there, and its noise
is never seen; so is that of one that dies, at any point. A lease keeps others from working in vain.

Reports of a release enter the learner in the order of their versions and public coins, in parts of
one size, so sums do not depend on the order in which they came, on who took them in, or in which
batches: the learner is the same, bit for bit, as one that was given `in_order(reports)`.

A stored row that cannot be read is set aside, and releases go on. Operators alone learn how many:

* *Joint privacy.* The row stays a contribution of its release and adds 0, as a contribution beyond
  those covered does. Whether a row is readable may depend on a person's data, so it must not change
  how many people a release holds or when it comes. Its payload goes as that of every released row
  does.
* *Local privacy.* The batch enters no release, and its body stays. Its public coins stay too, so
  none of its people report again.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import func, select, update

from discreet.codec import encode
from discreet.learners.base import ENDLESS
from discreet.learners.contributions import read_ids
from discreet.learners.messages import Reports
from discreet.learners.policy import TARGET_NAME
from discreet.privacy import Unprotected
from discreet.service.aggregation import in_order
from discreet.service.hpke import DAMAGE, report_without_data
from discreet.service.server.database import Unavailable
from discreet.service.server.deployment import (
    AnyLearner,
    decrypted,
    noise_for,
    pseudonym,
    put_together,
    unpacked,
)
from discreet.service.server.errors import Conflict
from discreet.service.server.forgetting import Forgetting
from discreet.service.server.ingest import read_reports
from discreet.service.server.ledger import check_recorded
from discreet.service.server.schema import (
    ERASED,
    RECORD_SECONDS,
    SET_ASIDE,
    batches,
    decisions,
    leases,
    ledger,
    policies,
    snapshots,
    studies,
)
from discreet.service.server.store import SNAPSHOT_HELD, STATE_HELD, Store
from discreet.validation import InvalidInput

_LOG = logging.getLogger(__name__)
_LEASE_SECONDS = 60.0
# Reports of one release, unless its learner needs more; the rest waits for the next.
_MOST_REPORTS = 200_000
# Reports that are read at once, about.
_TOGETHER = 5_000


class Superseded(Exception):
    """Another aggregator released first; nothing of this one was published."""


@dataclass(frozen=True)
class ReleaseInput:
    """The input of a release.

    Attributes:
        reports: as they enter the learner.
        people: for each of them the ids, where contributions of people are counted; else None.
        rows: the ids of their rows in the database.
        aside: the ids of rows that cannot be read; under joint privacy they are among `rows`.
    """

    reports: list[Reports]
    people: list[list[str]] | None
    rows: list[Any]
    aside: set[Any]


class Aggregator:
    """Releases what is due in every study of a store.

    Args:
        store: whose studies.
        name: by which others see who holds a lease.
    """

    def __init__(self, store: Store, name: str | None = None) -> None:
        self.store = store
        self.name = name or secrets.token_hex(8)
        # A learner with the number of the snapshot that it is, so that it need not be read again.
        self._learners: dict[str, tuple[int, AnyLearner]] = {}
        self._forgetting = Forgetting(store)

    def step(self) -> int:
        """Release whatever is due; how many releases that were."""
        released, running = 0, self.store.names(running=True)
        # What others no longer need is in no memory either.
        self._learners = {name: self._learners[name] for name in running if name in self._learners}
        for name in running:
            try:
                released += self._study(name)
            except Unavailable:
                raise
            except Superseded:
                self._learners.pop(name, None)
            except (InvalidInput, ArithmeticError, LookupError, TypeError, ValueError):
                self._learners.pop(name, None)
                # What is wrong may quote people; it stays in the process.
                _LOG.error("a release of %s was refused and the study is paused", name)
                with suppress(Conflict):  # it has been finished meanwhile
                    self.store.set_state(name, "paused")
            except Exception as error:
                # Other studies go on, and what has expired is erased. Its words may quote people.
                self._learners.pop(name, None)
                _LOG.error("releases of %s wait after %s", name, type(error).__name__)
        self._forgetting.step()
        return released

    def run(self, stop: threading.Event, seconds: float = 0.2) -> None:
        """Repeat `step` until the event is set, whatever goes wrong meanwhile."""
        while not stop.is_set():
            busy = False
            try:
                busy = self.step() > 0
            except Unavailable as error:
                self._learners.clear()
                _LOG.warning("releases wait: %s", error)
            except Exception as error:
                # Its words may quote people.
                self._learners.clear()
                _LOG.error("releases wait after %s", type(error).__name__)
            stop.wait(0.0 if busy else seconds)

    def _study(self, name: str) -> int:
        if not self._due(name, self._learner(name)[1]) or not self._lease(name):
            return 0
        # Again, as another may have released before the lease.
        number, learner = self._learner(name)
        due = self._due(name, learner)
        for stream in due:
            room = _room(learner, stream)
            if _batch(learner, stream) > room:
                _LOG.warning("%s has had all the people it was planned for, and is finished", name)
                self.store.set_state(name, "finished")
                break
            number, learner = self._release(name, stream, number, learner, room)
        return len(due)

    def _due(self, name: str, learner: AnyLearner) -> list[str]:
        """The streams for which enough people have come."""
        return [
            stream
            for stream in learner.streams
            if self.waiting(name, stream) >= min(_batch(learner, stream), _room(learner, stream))
        ]

    def waiting(self, name: str, stream: str = TARGET_NAME) -> int:
        """How many reports, or rewarded decisions, no release has yet."""
        with self.store.database.reading() as connection:
            if self.store.study(name).secret and stream == TARGET_NAME:
                counted = select(func.count()).where(
                    decisions.c.study == name,
                    decisions.c.state == "rewarded",
                    decisions.c.payload.is_not(None),
                    decisions.c.released.is_(None),
                )
            else:
                counted = select(func.coalesce(func.sum(batches.c.stored), 0)).where(
                    batches.c.study == name,
                    batches.c.stream == stream,
                    batches.c.released.is_(None),
                )
            return int(connection.scalar(counted) or 0)

    def _lease(self, name: str) -> bool:
        """Whether this study is for this aggregator now."""
        now = time.time()
        with self.store.database.writing() as connection:
            row = connection.execute(
                select(leases.c.holder, leases.c.expires)
                .join(studies, studies.c.name == leases.c.study)
                .where(leases.c.study == name, studies.c.state == "running")
                .with_for_update(skip_locked=True, of=leases)
            ).one_or_none()
            if row is None:
                return False
            # A clock that was set back must not lock everybody out.
            free = row.expires < now or row.expires > now + 2.0 * _LEASE_SECONDS
            if row.holder != self.name and not free:
                return False
            connection.execute(
                update(leases)
                .where(leases.c.study == name)
                .values(holder=self.name, expires=now + _LEASE_SECONDS)
            )
        return True

    def _learner(self, name: str) -> tuple[int, AnyLearner]:
        """The learner after the last release, with its snapshot's number."""
        with self.store.database.reading() as connection:
            number = connection.scalar(select(snapshots.c.number).where(snapshots.c.study == name))
            known = self._learners.get(name)
            if known is not None and known[0] == number:
                return known
            row = connection.execute(select(snapshots).where(snapshots.c.study == name)).one()
            published = connection.execute(
                select(policies.c.stream, policies.c.body)
                .where(policies.c.study == name)
                .order_by(policies.c.stream, policies.c.version)
            ).all()
            recorded = connection.execute(
                select(ledger).where(ledger.c.study == name).order_by(ledger.c.version)
            ).all()
        secret = self.store.study(name).secret
        cipher = self.store.database.cipher
        kept = decrypted(cipher, row.learner, secret, name, "snapshot")
        pairs = [(each.stream, each.body) for each in published]
        learner = put_together(kept, pairs, noise_for(secret), f"the study {name!r}")
        check_recorded(learner, recorded, name)
        self._learners[name] = (row.number, learner)
        return self._learners[name]

    def _learnt(
        self, name: str, stream: str, number: int, learner: AnyLearner, room: int
    ) -> tuple[AnyLearner, ReleaseInput]:
        """The learner of a snapshot after what waits for it, and what that was.

        Raises:
            Superseded: where another aggregator released meanwhile.
        """
        # Whatever happens from here on, this learner is used again only if it was written.
        del self._learners[name]
        try:
            gathered = self._gathered(name, stream, learner, room)
            _learn(learner, stream, gathered)
        except DAMAGE:
            # Reports under a policy that another aggregator published meanwhile are no fault.
            current, again = self._learner(name)
            if current != number:
                raise Superseded from None
            del self._learners[name]
            gathered = self._gathered(name, stream, again, room, apart=True)
            if not gathered.aside:
                raise
            damaged = len(gathered.aside)
            _LOG.warning("set aside %d stored rows of %s that cannot be read", damaged, name)
            if _trusted(again, stream):
                _learn(again, stream, gathered)
            return again, gathered
        return learner, gathered

    def _gathered(
        self, name: str, stream: str, learner: AnyLearner, room: int, apart: bool = False
    ) -> ReleaseInput:
        """What waits for a release.

        Args:
            name, stream: whose.
            learner: that takes it.
            room: the number of reports that ends reading, or the most decisions.
            apart: whether each row is read and checked by itself, and set aside where it fails.
        """
        if _trusted(learner, stream):
            return self._rewarded(name, learner, room, apart)
        rows: list[int] = []
        aside: set[int] = set()
        found: list[tuple[Reports, Sequence[Any]]] = []
        texts: list[str] = []
        numbers: list[list[int]] = []
        with self.store.database.reading() as connection:
            waiting = connection.execute(
                select(batches.c.id, batches.c.body, batches.c.stored)
                .where(
                    batches.c.study == name,
                    batches.c.stream == stream,
                    batches.c.released.is_(None),
                )
                .order_by(batches.c.id)
            )
            total = read = 0
            for row in waiting:
                if total >= room:
                    break
                try:
                    kept = json.loads(unpacked(row.body))
                    if apart:
                        _check(learner, stream, _read(kept["reports"], kept["ids"]), row.stored)
                except DAMAGE:
                    if not apart:
                        raise
                    aside.add(row.id)
                    continue
                total += row.stored
                rows.append(row.id)
                texts += kept["reports"]
                numbers += kept["ids"]
                if total >= read + _TOGETHER:
                    found += _read(texts, numbers)
                    texts, numbers, read = [], [], total
        found += _read(texts, numbers)
        ordered = in_order(found, learner.streams[stream].budget.group)
        return ReleaseInput([reports for reports, _ in ordered], None, rows, aside)

    def _rewarded(self, name: str, learner: AnyLearner, most: int, apart: bool) -> ReleaseInput:
        """Observations of people who trust the service, in the order of their ids."""
        cipher = self.store.database.cipher
        counted = learner.budget.max_contributions > 1
        texts: list[str] = []
        rows: list[str] = []
        aside: set[str] = set()
        who: dict[str, str] = {}
        with self.store.database.reading() as connection:
            waiting = connection.execute(
                select(decisions.c.id, decisions.c.version, decisions.c.payload)
                .where(
                    decisions.c.study == name,
                    decisions.c.state == "rewarded",
                    decisions.c.payload.is_not(None),
                    decisions.c.released.is_(None),
                )
                .order_by(decisions.c.id)
                .limit(most)
            )
            for row in waiting:
                rows.append(row.id)
                try:
                    kept = json.loads(
                        decrypted(cipher, row.payload, True, name, f"decision {row.id}")
                    )
                    text, person = kept["report"], kept["person"]
                    if counted:
                        (given,) = read_ids([person], 1)
                        who[row.id] = pseudonym(cipher, name, given)
                    if apart:
                        _check(learner, TARGET_NAME, _read([text], [[row.id]]), 1)
                except DAMAGE:
                    if not apart:
                        raise
                    aside.add(row.id)
                    policy = learner.published(min(row.version, len(learner._policies) - 1))
                    text = encode(report_without_data(policy, Unprotected(), None))
                    # Nothing is learnt of the contribution, so it need be no one's.
                    who.setdefault(row.id, pseudonym(cipher, name, row.id))
                texts.append(text)
        parts = in_order(_read(texts, [[each] for each in rows]))
        people = [[who[each] for each in ids] for _, ids in parts] if counted else None
        if aside:
            parts = [
                (part.limited(np.array([each in aside for each in ids])), ids)
                for part, ids in parts
            ]
        return ReleaseInput([reports for reports, _ in parts], people, rows, aside)

    def _release(
        self, name: str, stream: str, number: int, learner: AnyLearner, room: int
    ) -> tuple[int, AnyLearner]:
        """One release, as a whole or not at all; the learner after it, with its snapshot's
        number."""
        now = self.store.clock.now()
        learner, gathered = self._learnt(name, stream, number, learner, room)
        if gathered.aside and not _trusted(learner, stream):
            # The others may be fewer than a release waits for; the next step counts them.
            with self.store.database.writing() as connection:
                # What another aggregator took, or published meanwhile, is not damaged.
                if connection.scalar(SNAPSHOT_HELD, {"name": name}) != number:
                    raise Superseded
                for some in _chunks(sorted(gathered.aside)):
                    connection.execute(
                        update(batches)
                        .where(batches.c.id.in_(some), batches.c.released.is_(None))
                        .values(released=SET_ASIDE)
                    )
            return self._learner(name)
        made = self.store.prepared(learner, (stream,), name)
        with self.store.database.writing() as connection:
            raised = connection.execute(
                update(snapshots)
                .where(snapshots.c.study == name, snapshots.c.number == number)
                .values(number=number + 1)
            )
            if raised.rowcount != 1:
                raise Superseded
            if connection.scalar(STATE_HELD, {"name": name}) != "running":
                raise Superseded
            self.store.publish(connection, made, name, number + 1, now)
            taken = self._take(connection, name, stream, learner, gathered, now)
            if taken != len(gathered.rows):
                raise Superseded
        self.store.database.remember()
        self._learners[name] = (number + 1, learner)
        _LOG.info("released %d reports of %s", sum(map(len, gathered.reports)), name)
        return self._learners[name]

    def _take(
        self,
        connection: Any,
        name: str,
        stream: str,
        learner: AnyLearner,
        gathered: ReleaseInput,
        now: float,
    ) -> int:
        """Note that a release has these, and erase them; the number of those that are still
        there."""
        version = learner.streams[stream].policies[-1].version
        table: Any = batches
        held: Any = batches.c.body
        values: dict[str, Any] = {"released": version, "body": None, "key": None}
        if _trusted(learner, stream):
            kept_for = self.store.study(name).deployment.retention_seconds
            table, held = decisions, decisions.c.payload
            values = {"released": version, "expires": now + RECORD_SECONDS, **ERASED}
            if kept_for > 0.0:
                values = {"released": version, "expires": now + kept_for, "key": None}
        taken = 0
        for some in _chunks(gathered.rows):
            waiting = (table.c.id.in_(some), table.c.released.is_(None), held.is_not(None))
            taken += connection.execute(update(table).where(*waiting).values(values)).rowcount
        for some in _chunks(sorted(gathered.aside)):
            connection.execute(
                update(decisions).where(decisions.c.id.in_(some)).values(state="unreadable")
            )
        return taken


def _trusted(learner: AnyLearner, stream: str) -> bool:
    """Whether people of a stream trust the service with what they bring."""
    return learner.secret and stream == TARGET_NAME


def _read(
    texts: Sequence[str], public_coins: Sequence[Sequence[Any]]
) -> list[tuple[Reports, Sequence[Any]]]:
    """Messages with the public coins of each, as reports with theirs."""
    return [
        (
            each.reports,
            [public_coin for place in each.places for public_coin in public_coins[place]],
        )
        for each in read_reports(texts)
    ]


def _check(
    learner: AnyLearner, stream: str, found: Sequence[tuple[Reports, Sequence[Any]]], count: int
) -> None:
    """Refuse what a stored row cannot hold: reports that the learner does not take, or another
    number of them."""
    for reports, public_coins in found:
        if len(reports) != len(public_coins):
            raise InvalidInput(f"{len(reports)} reports had {len(public_coins)} numbers.")
        learner.check_reports(reports, stream)
    if sum(len(reports) for reports, _ in found) != count:
        raise InvalidInput(f"the row says that it holds {count} reports.")


def _learn(learner: AnyLearner, stream: str, gathered: ReleaseInput) -> None:
    learner.update(gathered.reports, gathered.people if stream == TARGET_NAME else None)


def _batch(learner: AnyLearner, stream: str) -> int:
    """How many reports the next release of a stream waits for."""
    return max(learner.batch_of(stream), 1)


def _room(learner: AnyLearner, stream: str) -> int:
    """The most people of one release; with plain reports no more than the study has planned."""
    # A last policy waits for no release.
    most = max(_MOST_REPORTS, batch if (batch := _batch(learner, stream)) < ENDLESS else 0)
    if not learner.secret or stream != TARGET_NAME or learner.horizon is None:
        return most
    return min(learner.horizon - learner.people, most)


def _chunks(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(rows), 500):
        yield rows[start : start + 500]
