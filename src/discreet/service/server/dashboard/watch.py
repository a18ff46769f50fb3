"""A thread that reads the summaries of releases, and counts, for the pages.

A summary is written in the transaction of its release (findings.py), so every process shows the
same, whenever it began. No learner is asked here, and nothing sealed is opened.

A page is never kept waiting for this: it shows what is known by then.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import func, literal, select

from discreet.learners.policy import TARGET_NAME, ArmPolicy
from discreet.service.server.findings import (
    LevelShares,
    ReleaseSummary,
    finding_of_policy,
    parts_of,
    read,
)
from discreet.service.server.forgetting import deleted_rows
from discreet.service.server.schema import decisions, policies, public_coins
from discreet.service.server.store import Store

_LOG = logging.getLogger(__name__)
_SECONDS = 1.0
# Seconds without a visitor after which at most a tenth of the time is spent here.
_LOOKED_SECONDS, _REST = 30.0, 9.0
# Counting may take a twentieth of the time.
_COUNTING = 20.0


@dataclass(frozen=True)
class Seen:
    """What is known of a study.

    Attributes:
        policy: that was published last.
        parts: who it gives what, by column; of arms.
        findings: of all versions.
        arrived: how many reports, or rewarded decisions, were made under each version.
        waiting: how many decisions under each version still wait for their reward.
        counted: when they were counted, and how long that took.
    """

    policy: Any
    parts: dict[str, list[LevelShares]]
    findings: tuple[ReleaseSummary, ...]
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

    def step(self, counting: bool = True) -> None:
        """Look once at every study, and count its people, which reads a row of each."""
        for name in self.store.names():
            if self._stop.is_set():
                return
            self._look(name, counting)

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                self.step(began - self._looked < _LOOKED_SECONDS)
            except Exception as error:
                # Pages show less then; what was wrong may quote people.
                _LOG.warning("the dashboard could not look: %s", type(error).__name__)
            worked = time.monotonic() - began
            looked = began - self._looked < _LOOKED_SECONDS
            self._wake.wait(max(_SECONDS, worked * (1.0 if looked else _REST)))
            self._wake.clear()

    def _look(self, name: str, counting: bool) -> None:
        known = self._learnt(name, self._seen.get(name))
        at, took = known.counted
        if counting and time.monotonic() - at > max(_SECONDS, _COUNTING * took):
            known = self._counted(name, known)
        self._seen[name] = known

    def _learnt(self, name: str, known: Seen | None) -> Seen:
        before = () if known is None else known.findings
        with self.store.database.reading() as connection:
            rows = connection.execute(
                select(policies.c.version, policies.c.people, policies.c.finding)
                .where(policies.c.study == name, policies.c.stream == TARGET_NAME)
                .where(policies.c.version >= len(before))
                .order_by(policies.c.version)
            ).all()
        if known is not None and not rows:
            return known
        last = rows[-1]
        policy = self.store.study(name, fresh=True).policies(TARGET_NAME)[last.version]
        findings = [
            ReleaseSummary(row.version, row.people) if row.finding is None else read(row.finding)
            for row in rows
        ]
        if last.finding is None:
            findings[-1] = finding_of_policy(policy, last.people)
        parts = {}
        if isinstance(policy, ArmPolicy):
            names = enumerate(policy.domain.names)
            parts = {column: parts_of(policy, place) for place, column in names}
        seen = known or Seen(policy, parts, (), {}, {}, (0.0, 0.0))
        return replace(seen, policy=policy, parts=parts, findings=(*before, *findings))

    def _counted(self, name: str, known: Seen) -> Seen:
        """How many people reported under each version. Counts are of people, which neighbours do
        not differ in (replace-one), and say nothing of what they brought."""
        began = time.monotonic()
        counts: Counter[tuple[int, str]] = Counter()
        with self.store.database.reading() as connection:
            for (stream, version, state), number in deleted_rows(connection, name).items():
                if stream == TARGET_NAME:
                    counts[version, state] += number
            if self.store.study(name).secret:
                rows = connection.execute(
                    select(decisions.c.version, decisions.c.state, func.count())
                    .where(decisions.c.study == name)
                    .group_by(decisions.c.version, decisions.c.state)
                ).all()
            else:
                rows = connection.execute(
                    select(public_coins.c.version, literal("reported"), func.count())
                    .where(public_coins.c.study == name, public_coins.c.stream == TARGET_NAME)
                    .group_by(public_coins.c.version)
                ).all()
        for version, state, number in rows:
            counts[version, state] += number
        # Those that cannot be read are among the people of a release.
        arrived: Counter[int] = Counter()
        for (version, state), number in counts.items():
            if state in ("rewarded", "unreadable", "reported"):
                arrived[version] += number
        waiting = {version: n for (version, state), n in counts.items() if state == "waiting"}
        now = time.monotonic()
        return replace(known, arrived=arrived, waiting=waiting, counted=(now, now - began))
