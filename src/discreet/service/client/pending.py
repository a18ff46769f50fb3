"""Actions of a person that wait for their reward, and the reports that become of them.

A report is drawn once: its action is marked, on the disk, before anything is drawn, and a marked
action is never drawn. The report is kept in one transaction with its row of the ledger before it is
seen; from then on the same bytes are sent.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Sequence
from sqlite3 import Connection
from typing import Any

import numpy as np

from discreet.codec import decode, encode
from discreet.learners.contributions import ContributionCounter
from discreet.learners.messages import Reports
from discreet.learners.policy import Actions, Policy, Terms
from discreet.people.domain import arm_numbers
from discreet.privacy import SecureNoise
from discreet.service.client.choice import ChosenAction
from discreet.service.client.person import (
    Agreement,
    PersonFile,
    State,
    affordable,
    agreement_of,
    event_fields,
    event_of,
)
from discreet.service.client.transport import body_of, plain_value
from discreet.validation import InvalidInput, nearest_whole

_ID_BITS = 62
# Held while a report is drawn: of two threads with one action, one draws.
_DRAWING = threading.Lock()


class Pending:
    """What one person did in one study, until the service has its report.

    Args:
        file: of the person.
        service, study: to whom it goes.
        reward_seconds: the time after its action within which a reward counts.
        missing: the reward that counts where none came by then.
    """

    def __init__(
        self,
        file: PersonFile,
        service: str,
        study: str,
        reward_seconds: float,
        missing: float,
    ) -> None:
        self._file = file
        self._place = service, study
        self._reward_seconds, self._missing = reward_seconds, missing

    def policy(self, digest: str | None) -> Policy[Any] | None:
        """A policy that is kept; None where it is not."""
        with self._file.reading() as state:
            body = None if state is None else self._policy_text(state, digest)
        return None if body is None else decode(body, Policy)

    def act(
        self, agreement: Agreement, policy: Policy[Any], context: Any, hold_seconds: float
    ) -> ChosenAction:
        """Put by what a report will cost, choose, and keep the action until its reward comes."""
        people = 1 if context is None else [context]
        facts = self._facts(agreement, policy)
        with self._file.changing() as state:
            # Before the context is read: whether there is a report must not depend on it.
            identity = secrets.token_hex(16) if affordable(state, agreement, facts) else None
            # A refusal would be silence, which tells something about the context.
            actions, propensities = policy.act(
                people, np.random.default_rng(), agreement.terms, nearest=True
            )
            if identity is not None:
                _keep(state, identity, facts, people, encode(actions), hold_seconds)
        return ChosenAction.made(identity, policy, actions, float(propensities[0]))

    def observe(
        self, agreement: Agreement, policy: Any, context: Any, arm: Any, hold_seconds: float
    ) -> str | None:
        """As `act`, for an action chosen elsewhere, of a source; the action's id."""
        facts = self._facts(agreement, policy)
        with self._file.changing() as state:
            identity = secrets.token_hex(16) if affordable(state, agreement, facts) else None
            policy.domain.nearest_unit([context])
            given = arm_numbers(np.array([arm], dtype=object), policy.arm_names)
            arms = nearest_whole(given, "arm", 0, policy.arms - 1, 1)
            if identity is not None:
                _keep(state, identity, facts, [context], json.dumps(arms.tolist()), hold_seconds)
        return identity

    def draw(self, identity: str, reward: float) -> bool:
        """Draw the report of an action, unless that was ever begun; a late reward counts as none.

        Returns:
            Whether there is a report now.

        Raises:
            InvalidInput: for an action that the file does not know.
        """
        mark = secrets.token_hex(16)
        with _DRAWING:
            with self._file.changing() as state:
                row = self._row(state, identity)
                if row is None:
                    return _was_made(state, identity)
                if row["drawing"] is not None:
                    self._settle(state, row)
                    return False
                state.execute("UPDATE pending SET drawing = ? WHERE id = ?", (mark, identity))
                terms = agreement_of(state, *self._place, row["sha256"]).terms
                others = self._others(state, row)
            policy = self.policy(row["policy"])
            assert policy is not None
            given = self._missing if self._late(row["made"], time.time()) else reward
            report = _drawn(policy, terms, others, row, given)
            with self._file.changing() as state:
                marked = self._row(state, identity)
                if marked is None or marked["drawing"] != mark:
                    return _was_made(state, identity)
                body = _body(report, policy.chooses)
                self._settle(state, row, report.policy_version, body)
        return True

    def lapse(self, now: float) -> None:
        """Report actions whose reward had not come in time, so that silence says nothing."""
        for row in self._rows("SELECT id, made FROM pending WHERE service = ? AND study = ?"):
            if self._late(row["made"], now):
                self.draw(row["id"], self._missing)

    def _late(self, made: float, now: float) -> bool:
        """Whether rewards of an action no longer count at a time."""
        # Either way, so that a clock that was far ahead keeps no context forever.
        return abs(now - made) >= self._reward_seconds

    def reports(self, states: Sequence[State]) -> list[Any]:
        """Reports in one of these states, in the order in which they are due: `number`, `body`,
        `due`. Their numbers are in the order of rewards, which must not show under hold."""
        wanted = (
            "SELECT number, body, due, state FROM ledger WHERE service = ? AND study = ? "
            "ORDER BY due, id"
        )
        return [row for row in self._rows(wanted) if row["state"] in states]

    def mark(self, number: int, to: State, reason: str | None = None) -> None:
        """What became of a report that was sent."""
        sent = time.time() if to == "accepted" else None
        with self._file.changing() as state:
            state.execute(
                "UPDATE ledger SET state = ?, sent = ?, reason = ? WHERE number = ? "
                "AND state <> 'accepted'",
                (to, sent, reason, number),
            )

    def _facts(self, agreement: Agreement, policy: Policy[Any]) -> dict[str, Any]:
        """To whom a report would go, under what, and what it would cost."""
        return {
            "service": self._place[0],
            "study": self._place[1],
            "sha256": agreement.sha256,
            "policy": policy.digest,
            **event_fields(event_of(policy)),
        }

    def _rows(self, wanted: str) -> list[Any]:
        with self._file.reading() as state:
            return [] if state is None else state.execute(wanted, self._place).fetchall()

    def _row(self, state: Connection, identity: str) -> Any:
        return state.execute(
            "SELECT * FROM pending WHERE id = ? AND service = ? AND study = ?",
            (identity, *self._place),
        ).fetchone()

    def _others(self, state: Connection, row: Any) -> int:
        """How many other reports of this agreement were made or begun."""
        wanted = "SELECT count(*) FROM {} WHERE service = ? AND study = ? AND sha256 = ?"
        agreed = *self._place, row["sha256"]
        (made,) = state.execute(wanted.format("ledger"), agreed).fetchone()
        begun = wanted.format("pending") + " AND drawing IS NOT NULL AND id <> ?"
        return int(made + state.execute(begun, (*agreed, row["id"])).fetchone()[0])

    def _policy_text(self, state: Connection, digest: str | None) -> str | None:
        row = state.execute(
            "SELECT body FROM policies WHERE service = ? AND study = ? AND digest = ?",
            (*self._place, digest),
        ).fetchone()
        return None if row is None else str(row["body"])

    def _settle(
        self, state: Connection, row: Any, version: int | None = None, body: bytes | None = None
    ) -> None:
        """The action becomes a row of the ledger with its report; None where that was lost."""
        if version is None:
            text = self._policy_text(state, row["policy"])
            assert text is not None
            version = decode(text, Policy).version
        state.execute(
            "INSERT INTO ledger (id, service, study, sha256, version, epsilon, multiplier, made, "
            "due, state, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(row[name] for name in ("id", "service", "study", "sha256")),
                version,
                *(row[name] for name in ("epsilon", "multiplier")),
                time.time(),
                row["due"],
                "lost" if body is None else "waiting",
                body,
            ),
        )
        state.execute("DELETE FROM pending WHERE id = ?", (row["id"],))


def _keep(
    state: Connection,
    identity: str,
    facts: dict[str, Any],
    people: Any,
    actions: str,
    hold_seconds: float,
) -> None:
    """An action waits for its reward from now on."""
    now = time.time()
    state.execute(
        "INSERT INTO pending VALUES (:id, :service, :study, :sha256, :policy, "
        ":context, :actions, :epsilon, :multiplier, :made, :due, NULL)",
        {
            **facts,
            "id": identity,
            "context": json.dumps(people, default=plain_value),
            "actions": actions,
            "made": now,
            "due": now + hold_seconds,
        },
    )


def _drawn(policy: Any, terms: Terms, others: int, row: Any, reward: float) -> Reports:
    """The report of an action, of which `others` were made or begun under the same terms."""
    context, noise, report = json.loads(row["context"]), SecureNoise(), None
    if policy.chooses:
        counter = ContributionCounter(terms, others, row["multiplier"] is not None)
        actions = decode(row["actions"], Actions)
        report = counter.report(policy, context, actions, [reward], noise)
    elif others < terms.max_contributions:
        arms = json.loads(row["actions"])
        report = policy.report(context, arms, [reward], noise, terms)
    assert report is not None
    return report


def _body(report: Reports, random: bool) -> bytes:
    """What is sent for one report, now and whenever it is sent again.

    The service knows it again by its public coin, where that is `random`, or else by an id: the
    public coins of a source are questions, which people share.
    """
    fields: dict[str, Any] = {"reports": [encode(report)]}
    if not random or len(getattr(report, "public_coins", ())) != len(report):
        fields["ids"] = [secrets.randbits(_ID_BITS)]
    return body_of(fields)


def _was_made(state: Connection, identity: str) -> bool:
    row = state.execute("SELECT state FROM ledger WHERE id = ?", (identity,)).fetchone()
    if row is None:
        raise InvalidInput(
            f"this file has no choice {identity!r:.80} that waits for its reward, and no report of "
            "it; give the id of a choice that act() made with this store."
        )
    return bool(row["state"] != "lost")
