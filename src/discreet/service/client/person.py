"""The file of one person: what they agreed to, what waits for its reward, and what left.

| table      | a row is                                                                        |
|------------|---------------------------------------------------------------------------------|
| budget     | what the person may pay over all studies; one row                               |
| agreements | terms that the person agreed to, of one study of one service                    |
| policies   | a policy on these terms: the current one, and those that pending actions need   |
| pending    | an action until its report is drawn, with what that will cost; private          |
| ledger     | a report: what it cost, when, to whom, its bytes; never taken away               |

A change is one transaction and is on the disk when it ends. What an action will cost is put by
with it, before its context is read, so whether there is a report never depends on what happens to
them. An action is marked, on the disk, before its report is drawn, and a marked one is
never drawn: a device that is stopped between the two makes no report, and has paid for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from sqlite3 import Connection, Row
from typing import Any, Literal

from discreet.atomic_files import Busy, StateFile
from discreet.learners.policy import Policy, Terms
from discreet.privacy import SecureNoise
from discreet.privacy.accounting import (
    Event,
    GaussianEvent,
    PureEvent,
    ShuffledEvent,
    composed_epsilon,
)
from discreet.validation import number_from, positive_number

State = Literal["waiting", "accepted", "refused", "lost"]
_APPLICATION = 0x64706572
_WAIT = 10.0
# Columns of the ledger that a person sees as they are.
_SHOWN = ("number", "service", "study", "version", "made", "sent", "state", "reason", "body")
# Epsilons add with roundings.
_ROUNDING = 1.0 + 1e-9
_SCHEMA = (
    "CREATE TABLE budget (id INTEGER PRIMARY KEY, epsilon REAL NOT NULL, delta REAL NOT NULL)",
    """CREATE TABLE agreements (
        service TEXT NOT NULL, study TEXT NOT NULL, sha256 TEXT NOT NULL, terms TEXT NOT NULL,
        default_arm, agreed REAL NOT NULL, current INTEGER NOT NULL, policy TEXT,
        PRIMARY KEY (service, study, sha256))""",
    """CREATE TABLE policies (
        service TEXT NOT NULL, study TEXT NOT NULL, digest TEXT NOT NULL, body TEXT NOT NULL,
        PRIMARY KEY (service, study, digest))""",
    """CREATE TABLE pending (
        id TEXT PRIMARY KEY, service TEXT NOT NULL, study TEXT NOT NULL, sha256 TEXT NOT NULL,
        policy TEXT NOT NULL, context TEXT NOT NULL, actions TEXT NOT NULL, epsilon REAL,
        multiplier REAL, made REAL NOT NULL, due REAL NOT NULL, reward TEXT, drawing TEXT)""",
    """CREATE TABLE ledger (
        number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
        service TEXT NOT NULL, study TEXT NOT NULL, sha256 TEXT NOT NULL, version INTEGER NOT NULL,
        epsilon REAL, multiplier REAL, made REAL NOT NULL, due REAL NOT NULL, sent REAL,
        state TEXT NOT NULL, body BLOB, reason TEXT)""",
)


@dataclass(frozen=True)
class LedgerRow:
    """One report of a person.

    Attributes:
        number: from 1, in the order in which reports were made.
        service, study: to whom it went.
        terms: the SHA-256 of what the person had agreed to.
        version: of the policy under which it was made.
        epsilon, delta: what it cost; with a shuffler, as one of its group.
        report_epsilon: with a shuffler, what it cost by itself, if the shuffler conspires with the
            learner; else None.
        made: when the person acted, in seconds since 1970; by the clock of the device.
        sent: when the service had it; None before.
        state: `waiting` for the service, `accepted`, `refused` by the service, or `lost` where the
            device was stopped as it was drawn: then nothing left, and it counts all the same.
        reason: why it was refused.
        body: what left, or will, as it is sent; None where it is lost.
    """

    number: int
    service: str
    study: str
    terms: str
    version: int
    epsilon: float
    delta: float
    report_epsilon: float | None
    made: float
    sent: float | None
    state: State
    reason: str | None
    body: bytes | None = field(repr=False)


@dataclass(frozen=True)
class Spending:
    """What a person has paid, of what they may.

    Attributes:
        epsilon, delta: of all reports, and of actions that wait for their reward.
        most_epsilon, most_delta: over all studies; None before the person agreed to anything.
    """

    epsilon: float
    delta: float
    most_epsilon: float | None
    most_delta: float | None


@dataclass(frozen=True)
class Agreement:
    """What a person agreed to.

    Attributes:
        terms: all of it.
        sha256: by which the terms are known.
        default_arm: what is given while there is no policy.
        policy: the digest of the current one; None before the first.
    """

    terms: Terms
    sha256: str
    default_arm: str | int | None
    policy: str | None


def event_of(policy: Policy[Any]) -> Event:
    """What a report under a policy costs."""
    release = policy.release(SecureNoise.name)
    return PureEvent(0.0) if release is None else release.event


class PersonFile:
    """The file of one person (see the module); one person has one, whatever they take part in.

    Args:
        path: of the file; made if need be, for its owner alone.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file = StateFile(self.path, "the file of a person", _SCHEMA, _APPLICATION, wait=_WAIT)
        lock = self.path.with_name(f"{self.path.name}.lock")
        self._lock = StateFile(lock, "a lock", ("CREATE TABLE lock (id)",), _APPLICATION, _WAIT)

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        """A transaction that is on the disk when the block ends, or never was."""
        with self._file.changing() as state:
            state.row_factory = Row
            # What is taken away shall not stay on the disk.
            state.execute("PRAGMA secure_delete = ON")
            yield state

    @contextmanager
    def reading(self) -> Iterator[Connection | None]:
        """The file at one moment; None where there is none yet."""
        with self._file.reading() as state:
            if state is not None:
                state.row_factory = Row
            yield state

    @contextmanager
    def drawing(self) -> Iterator[bool]:
        """Yield whether this thread holds the lock on drawing. The system frees the lock of a
        process that ends, so under the lock a mark is that of a process that has stopped."""
        with ExitStack() as stack:
            alone = False
            with suppress(Busy):
                stack.enter_context(self._lock.changing())
                alone = True
            yield alone

    # The person's own view.

    def ledger(self) -> list[LedgerRow]:
        """Every report that was made, in order."""
        with self.reading() as state:
            if state is None:
                return []
            agreed = _terms_of(state)
            rows = state.execute("SELECT * FROM ledger ORDER BY number").fetchall()
        return [
            LedgerRow(
                terms=row["sha256"],
                epsilon=composed_epsilon([event], _delta_of(terms, [event])),
                delta=_delta_of(terms, [event]),
                report_epsilon=row["epsilon"] if terms.group_size > 1 else None,
                **{name: row[name] for name in _SHOWN},
            )
            for row in rows
            for terms in (agreed[_agreed(row)],)
            for event in (_event(row, terms),)
        ]

    def spending(self) -> Spending:
        """What all studies together have cost, and may."""
        with self.reading() as state:
            return Spending(0.0, 0.0, None, None) if state is None else spending(state)

    def allow(self, epsilon: float, delta: float = 0.0) -> None:
        """The person's word: what all studies together may cost them."""
        most = positive_number(epsilon, "epsilon"), number_from(delta, "delta", 0.0, 1.0)
        with self.changing() as state:
            state.execute("INSERT OR REPLACE INTO budget VALUES (1, ?, ?)", most)


def read_ledger(path: str | Path) -> list[LedgerRow]:
    """The ledger in a person's file; it needs no service and no key."""
    return PersonFile(path).ledger()


# Within a transaction.


def spending(state: Connection, more: tuple[Row | dict[str, Any], ...] = ()) -> Spending:
    """What reports and pending actions cost, and what `more` of them would.

    Reports under one agreement compose as what they are; several agreements add up.
    """
    terms = _terms_of(state)
    events: dict[tuple[str, str, str], list[Event]] = {}
    wanted = "SELECT service, study, sha256, epsilon, multiplier FROM"
    for row in (*state.execute(f"{wanted} ledger"), *state.execute(f"{wanted} pending"), *more):
        events.setdefault(_agreed(row), []).append(_event(row, terms[_agreed(row)]))
    deltas = {agreed: _delta_of(terms[agreed], some) for agreed, some in events.items()}
    most = state.execute("SELECT epsilon, delta FROM budget").fetchone() or (None, None)
    return Spending(
        sum(composed_epsilon(some, terms[agreed].delta) for agreed, some in events.items()),
        sum(deltas.values()),
        *most,
    )


def affordable(state: Connection, agreement: Agreement, facts: dict[str, Any]) -> bool:
    """Whether one more report is within the terms of its study, and within what the person allows
    over all studies.

    Args:
        state: a transaction.
        agreement: the one that it would be made under.
        facts: `service`, `study`, `sha256`, and its event as `event_fields` gives it.
    """
    wanted = "SELECT * FROM {} WHERE service = :service AND study = :study AND sha256 = :sha256"
    terms = agreement.terms
    before = [
        _event(row, terms)
        for table in ("ledger", "pending")
        for row in state.execute(wanted.format(table), facts)
    ]
    event = _event(facts, terms)
    if len(before) >= terms.max_contributions:
        return False
    # As a ContributionCounter has it: of two kinds of reports shares do not add up.
    if terms.delta > 0.0 and any(type(each) is not type(event) for each in before):
        return False
    after = spending(state, (facts,))
    assert after.most_epsilon is not None
    assert after.most_delta is not None
    return (
        after.epsilon <= after.most_epsilon * _ROUNDING
        and after.delta <= after.most_delta * _ROUNDING
    )


def event_fields(event: Event) -> dict[str, float | None]:
    """An event as the columns `epsilon` and `multiplier`."""
    if isinstance(event, GaussianEvent):
        return {"epsilon": None, "multiplier": event.noise_multiplier}
    return {"epsilon": event.epsilon, "multiplier": None}


def agreement_of(state: Connection, service: str, study: str, sha256: str | None) -> Agreement:
    """The agreement with these terms; the current one where none are named.

    Raises:
        LookupError: where there is none.
    """
    row = state.execute(
        "SELECT * FROM agreements WHERE service = ? AND study = ? AND "
        + ("current" if sha256 is None else "sha256 = ?"),
        (service, study) if sha256 is None else (service, study, sha256),
    ).fetchone()
    if row is None:
        raise LookupError(study)
    terms = Terms.from_fields(json.loads(row["terms"]))
    return Agreement(terms, row["sha256"], row["default_arm"], row["policy"])


def keep_agreement(
    state: Connection, service: str, study: str, terms: Terms, default_arm: Any, now: float
) -> None:
    """These are the terms from now on; the first ones of all are what the person allows."""
    state.execute(
        "UPDATE agreements SET current = 0, policy = NULL WHERE service = ? AND study = ?",
        (service, study),
    )
    text = json.dumps(terms.to_fields(), allow_nan=False)
    state.execute(
        "INSERT OR REPLACE INTO agreements VALUES (?, ?, ?, ?, ?, ?, 1, NULL)",
        (service, study, terms.digest, text, default_arm, now),
    )
    state.execute(
        "INSERT OR IGNORE INTO budget VALUES (1, ?, ?)", (terms.most_epsilon, terms.delta)
    )


def keep_policy(
    state: Connection, service: str, study: str, agreement: Agreement, digest: str, body: str
) -> None:
    """The current policy; those that no pending action needs go."""
    place = service, study
    state.execute("INSERT OR REPLACE INTO policies VALUES (?, ?, ?, ?)", (*place, digest, body))
    state.execute(
        "UPDATE agreements SET policy = ? WHERE service = ? AND study = ? AND sha256 = ?",
        (digest, *place, agreement.sha256),
    )
    state.execute(
        "DELETE FROM policies WHERE service = ? AND study = ? AND digest <> ? AND digest NOT IN "
        "(SELECT policy FROM pending WHERE service = ? AND study = ?)",
        (*place, digest, *place),
    )


def _agreed(row: Any) -> tuple[str, str, str]:
    return row["service"], row["study"], row["sha256"]


def _terms_of(state: Connection) -> dict[tuple[str, str, str], Terms]:
    rows = state.execute("SELECT service, study, sha256, terms FROM agreements").fetchall()
    return {_agreed(row): Terms.from_fields(json.loads(row["terms"])) for row in rows}


def _event(row: Any, terms: Terms) -> Event:
    if row["multiplier"] is not None:
        return GaussianEvent(row["multiplier"])
    if terms.group_size > 1:
        return ShuffledEvent(row["epsilon"], terms.group_size, terms.honest)
    return PureEvent(row["epsilon"])


def _delta_of(terms: Terms, events: Sequence[Event]) -> float:
    """The delta at which these are read; 0 for one pure report, which needs none."""
    alone = len(events) == 1 and type(events[0]) is PureEvent
    return 0.0 if alone else terms.delta
