"""Decisions of a service that people trust (joint privacy), for the product that serves them.

    decisions = Decisions(URL, "prices", key=TOKEN, store="decisions.db", default_arm="standard")
    choice = decisions.decide({"age": 40})
    decisions.reward(choice.id, 1.0)        # minutes or weeks later; kept until the service has it
    decisions.send()                        # now and then, until nothing waits

Requests and answers have lengths that follow from the study alone, so a network that counts bytes
learns neither context nor arm nor reward. The service says to which length a decision's request is
padded, and is asked before the first one.

While the service cannot be reached, or makes no decisions, people get the default arm, with
propensity 1, and nothing is learnt from them. A reward is on the disk before it is sent, and is
taken away when the service has it. A decision that was made and did not arrive expires unrewarded.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from discreet.atomic_files import StateFile
from discreet.codec import padded
from discreet.service.client.choice import Choice
from discreet.service.client.talking import (
    AT_ONCE,
    Answer,
    Asynchronous,
    Conversation,
    Party,
    Patience,
    Plain,
    Refused,
    Request,
    Talk,
    Unreachable,
    ask,
    body_of,
    paused,
    study_path,
)
from discreet.validation import InvalidInput, finite_number

_APPLICATION = 0x64726577
_WAIT = 10.0
_SCHEMA = (
    """CREATE TABLE rewards (
        id TEXT PRIMARY KEY, service TEXT NOT NULL, study TEXT NOT NULL, reward REAL,
        made REAL NOT NULL, reason TEXT)""",
)
# A study that is paused or finished makes no decisions, and one that has too much to do none now.
_NO_DECISIONS = (409, 410)
# More than any reward has.
_REWARD_BYTES = 64


class _Decisions(Party):
    """The product's side of a study under joint privacy.

    Args:
        url: of the service.
        study: its name.
        key: a token for decision clients of this study.
        store: a file for rewards that the service does not have yet; private.
        default_arm: what is given while the service makes no decision, by name or number; None to
            raise `Unreachable` then.
        options: as of `Party`: `patience`, `transport`, `allow_http`.
    """

    def __init__(
        self,
        url: str,
        study: str,
        *,
        key: str,
        store: str | Path,
        default_arm: str | int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(url, key=key, **options)
        self.study = study
        self.default_arm = default_arm
        self._file = StateFile(Path(store), "an outbox", _SCHEMA, _APPLICATION, wait=_WAIT)
        self._request_bytes: int | None = None

    @Conversation
    def decide(self, context: Any = None, person: str | None = None) -> Talk[Choice]:
        """Choose for one person; it is asked for once, because somebody waits.

        Args:
            context: values by column, or in order; the points of a decision set; None where
                everyone can be given the same points.
            person: who it is, where a promise covers several visits of a person.

        Raises:
            Refused: for a context of another shape, or a key that opens nothing. Values outside
                the domain are moved to the nearest within, and `Choice.warning` says so.
            Unreachable: where there is no default arm either.
        """
        fields = {"context": context} if person is None else {"context": context, "person": person}
        body = body_of(fields)
        try:
            if self._request_bytes is None:
                facts = yield from ask(Request("GET", study_path(self.study)), AT_ONCE)
                self._request_bytes = _request_bytes(facts)
            body = padded(body, self._request_bytes)
            wanted = Request("POST", study_path(self.study, "decisions"), body)
            return _read((yield from ask(wanted, AT_ONCE)))
        except Refused as refusal:
            if refusal.status not in _NO_DECISIONS or self.default_arm is None:
                raise
        except Unreachable:
            if self.default_arm is None:
                raise
        return Choice.default(self.default_arm)

    @Conversation
    def reward(self, identity: str | None, reward: float) -> Talk[bool]:
        """Keep what followed from a decision, and send it, if the service is there; else `send`
        sends it.

        Args:
            identity: of the decision; None for a default arm, of which nothing is learnt.
            reward: within the bounds of the study.

        Returns:
            Whether the service has it now.

        Raises:
            InvalidInput: where another reward of this decision waits already.
        """
        if identity is None:
            return False
        number = finite_number(reward, "reward")
        with self._file.changing() as state:
            row = state.execute("SELECT reward FROM rewards WHERE id = ?", (identity,)).fetchone()
            if row is not None and row[0] not in (None, number):
                raise InvalidInput(
                    f"the decision {identity!r:.80} has another reward already; a reward is told "
                    "once, and cannot be changed."
                )
            state.execute(
                "INSERT OR REPLACE INTO rewards VALUES (?, ?, ?, ?, ?, NULL)",
                (identity, self.url, self.study, number, time.time()),
            )
        try:
            yield from self._send(AT_ONCE, identity)
        except Unreachable:
            return False
        return identity not in self.refused()

    @Conversation
    def send(self) -> Talk[int]:
        """Send rewards that wait.

        Returns:
            How many the service has now.

        Raises:
            Unreachable: where some wait still.
        """
        return (yield from self._send(self.patience, None))

    def waiting(self) -> int:
        """How many rewards the service does not have yet."""
        return len(self._rows("reward IS NOT NULL"))

    def refused(self) -> dict[str, str]:
        """Why the service refused rewards, by the id of their decision; it has none of them."""
        return {row[0]: row[2] for row in self._rows("reason IS NOT NULL")}

    def _rows(self, which: str) -> list[tuple[str, float | None, str]]:
        with self._file.reading() as state:
            if state is None:
                return []
            return state.execute(
                "SELECT id, reward, reason FROM rewards WHERE service = ? AND study = ? AND "
                f"{which} ORDER BY made",
                (self.url, self.study),
            ).fetchall()

    def _send(self, patience: Patience, only: str | None) -> Talk[int]:
        sent = 0
        for identity, reward, _ in self._rows("reward IS NOT NULL"):
            if only not in (None, identity):
                continue
            path = study_path(self.study, "decisions", identity, "reward")
            wanted = Request("POST", path, padded(body_of({"reward": reward}), _REWARD_BYTES))
            try:
                answer = yield from ask(wanted, patience)
                if answer.status != 202 or "new" not in answer.fields():
                    raise Unreachable(
                        f"something answered {answer.status} in place of the service; the reward "
                        "is kept, and sent again later."
                    )
            except Refused as refusal:
                if refusal.status == 409 and (yield from paused(self.study, patience)):
                    raise Unreachable(str(refusal), 409) from refusal
                self._settle(identity, str(refusal))
                continue
            self._settle(identity, None)
            sent += 1
        return sent

    def _settle(self, identity: str, reason: str | None) -> None:
        """Take a reward away: the service has it, or never will."""
        with self._file.changing() as state:
            state.execute("PRAGMA secure_delete = ON")
            if reason is None:
                state.execute("DELETE FROM rewards WHERE id = ?", (identity,))
            else:
                state.execute(
                    "UPDATE rewards SET reward = NULL, reason = ? WHERE id = ?", (reason, identity)
                )


class Decisions(Plain, _Decisions):
    __doc__ = _Decisions.__doc__


class AsyncDecisions(Asynchronous, _Decisions):
    __doc__ = _Decisions.__doc__


def _request_bytes(answer: Answer) -> int:
    """Bytes to which a study's requests are padded; `Unreachable` where something else answered."""
    fields = answer.fields()
    size = fields.get("request_bytes") if isinstance(fields, dict) else None
    if not isinstance(size, int) or size < 1:
        raise Unreachable(
            f"something answered {answer.status} in place of a service that makes decisions, or "
            "one of another version; no decision was made."
        )
    return size


def _read(answer: Answer) -> Choice:
    """A decision; `Unreachable` where something else answered."""
    fields = answer.fields()
    try:
        point = fields["point"]
        return Choice(
            str(fields["id"]),
            int(fields["version"]),
            int(fields["arm"]),
            fields["name"],
            None if point is None else tuple(map(float, point)),
            float(fields["propensity"]),
            True,
            fields.get("warning"),
        )
    except (LookupError, TypeError, ValueError) as error:
        raise Unreachable(
            f"something answered {answer.status} in place of the service; no decision was made."
        ) from error
