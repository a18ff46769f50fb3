"""A thread that asks what a learner says once for each release, and keeps it for the pages.

A learner is read from the snapshot of its last release, never from the aggregator, which may hold
reports that no release has. What older releases said is kept in memory alone: the reports are
erased, so a server that starts anew begins with the last one.

A page is never kept waiting for this: it shows what is known by then.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import func, select

from discreet.learners.stream import TARGET_NAME
from discreet.service.dashboard.findings import Finding, finding
from discreet.service.deployment import noise_for, opened, put_together
from discreet.service.schema import decisions, policies, snapshots, tickets
from discreet.service.store import Store
from discreet.showing import logger

_LOG = logger(__name__)
_SECONDS = 1.0
# Where nobody has looked for so long, at most a tenth of the time is spent here.
_LOOKED_SECONDS, _REST = 30.0, 9.0
# Counting may take a twentieth of the time.
_COUNTING = 20.0
_MOST_FINDINGS = 400


@dataclass(frozen=True)
class Seen:
    """What is known of a study.

    Attributes:
        number: of the snapshot that it was read from.
        policy: that was published last.
        findings: by version, those that this process saw.
        arrived: how many reports, or rewarded decisions, were made under each version.
        waiting: how many decisions under each version still wait for their reward.
        counted: when they were counted, and how long that took.
    """

    number: int
    policy: Any
    findings: tuple[Finding, ...]
    arrived: dict[int, int]
    waiting: dict[int, int]
    counted: tuple[float, float]


class Watch:
    """Looks at the releases of the studies of a store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._seen: dict[str, Seen] = {}
        self._looked = -math.inf
        self._stop, self._wake = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name="dashboard", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(5.0)

    def seen(self, name: str) -> Seen | None:
        """What is known of a study by now; None where nothing is yet."""
        now = time.monotonic()
        known, before, self._looked = self._seen.get(name), self._looked, now
        if known is None or now - before > _LOOKED_SECONDS:
            self._wake.set()
        return known

    def step(self) -> None:
        """Look once at every study."""
        for name in self.store.names():
            if self._stop.is_set():
                return
            self._look(name)

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                self.step()
            except Exception as error:
                # Pages show less then; what was wrong may quote people.
                _LOG.warning("the dashboard could not look: %s", type(error).__name__)
            worked = time.monotonic() - began
            looked = began - self._looked < _LOOKED_SECONDS
            self._wake.wait(max(_SECONDS, worked * (1.0 if looked else _REST)))
            self._wake.clear()

    def _look(self, name: str) -> None:
        known = self._seen.get(name)
        with self.store.database.reading() as connection:
            number = connection.scalar(select(snapshots.c.number).where(snapshots.c.study == name))
        if known is None or known.number != number:
            known = self._learnt(name, known)
        at, took = known.counted
        if time.monotonic() - at > max(_SECONDS, _COUNTING * took):
            known = self._counted(name, known)
        self._seen[name] = known

    def _learnt(self, name: str, known: Seen | None) -> Seen:
        with self.store.database.reading() as connection:
            kept = connection.execute(select(snapshots).where(snapshots.c.study == name)).one()
            published = connection.execute(
                select(policies.c.stream, policies.c.body, policies.c.people)
                .where(policies.c.study == name)
                .order_by(policies.c.stream, policies.c.version)
            ).all()
        secret = self.store.study(name).secret
        body = opened(self.store.database.seal, kept.learner, secret, name, "snapshot")
        pairs = [(each.stream, each.body) for each in published]
        learner = put_together(body, pairs, noise_for(secret), f"the study {name!r}")
        own = [each.people for each in published if each.stream == TARGET_NAME]
        policy = learner.published(len(own) - 1)
        found = finding(learner, policy, own[-1])
        if known is None:
            return Seen(kept.number, policy, (found,), {}, {}, (0.0, 0.0))
        before = [each for each in known.findings if each.version != found.version]
        if len(before) >= _MOST_FINDINGS:
            before = before[::2]
        return replace(known, number=kept.number, policy=policy, findings=(*before, found))

    def _counted(self, name: str, known: Seen) -> Seen:
        """How many people reported under each version. Counts are of people, which neighbours do
        not differ in (replace-one), and say nothing of what they brought."""
        began = time.monotonic()
        waiting: dict[int, int] = {}
        with self.store.database.reading() as connection:
            if self.store.study(name).secret:
                rows = connection.execute(
                    select(decisions.c.version, decisions.c.state, func.count())
                    .where(decisions.c.study == name)
                    .group_by(decisions.c.version, decisions.c.state)
                ).all()
                arrived = {version: n for version, state, n in rows if state == "rewarded"}
                waiting = {version: n for version, state, n in rows if state == "waiting"}
            else:
                counts = connection.execute(
                    select(tickets.c.version, func.count())
                    .where(tickets.c.study == name, tickets.c.stream == TARGET_NAME)
                    .group_by(tickets.c.version)
                ).all()
                arrived = {row[0]: row[1] for row in counts}
        now = time.monotonic()
        return replace(known, arrived=arrived, waiting=waiting, counted=(now, now - began))
