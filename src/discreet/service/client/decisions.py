"""Decisions under joint privacy, for the product that serves people.

    decisions = DecisionClient(URL, "prices", key=TOKEN, store="rewards.db", default_arm="a")
    choice = decisions.decide({"age": 40})
    decisions.reward(choice.id, 1.0)        # minutes or weeks later; kept until the service has it
    decisions.send()                        # now and then, until nothing waits

Requests and answers have lengths that follow from the study alone, so a network that counts bytes
learns neither context nor arm nor reward. The length of a decision's request is asked for before
the first one.

While the service cannot be reached, or makes no decisions, people get the default arm, with
propensity 1, and are not learnt from. A reward is on disk before it is sent, and is erased once
the service has it. A decision whose answer was lost expires unrewarded.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.atomic_files import StateFile
from discreet.codec import padded
from discreet.people.columns import is_missing
from discreet.service.client.transport import (
    AT_ONCE,
    AsyncClient,
    ChosenAction,
    Client,
    Patience,
    Refused,
    Unreachable,
    body_of,
    fields_of,
    study_path,
)
from discreet.validation import InvalidInput, finite_number

if TYPE_CHECKING:
    import httpx2

_APPLICATION = 0x64726577
_WAIT = 10.0
_SCHEMA = (
    """CREATE TABLE rewards (
        id TEXT PRIMARY KEY, service TEXT NOT NULL, study TEXT NOT NULL, reward REAL,
        made REAL NOT NULL, reason TEXT)""",
)
# A study that is paused or finished makes no decisions, and one that has too much to do none now.
_NO_DECISIONS = (409, 410)
# More bytes than any reward takes.
_REWARD_BYTES = 64


class DecisionClient(Client):
    """Decisions and rewards of a study under joint privacy.

    Args:
        url: of the service.
        study: its name.
        key: a token for decision clients of this study.
        store: a file for rewards that the service does not have yet; private.
        default_arm: what is given while the service makes no decision, by name or number; None to
            raise `Unreachable` then.
        options: as of `Client`: `patience`, `transport`, `allow_http`.
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

    def decide(self, context: Any = None, person: str | None = None) -> ChosenAction:
        """Choose for one person, in one attempt because the person waits.

        Args:
            context: values by column, or in order; the points of a decision set; None where
                everyone can be given the same points.
            person: an id, where the guarantee covers several contributions of a person.

        Raises:
            Refused: for a context of another shape, or a key that opens nothing. Values outside
                the domain are moved to the nearest within, and `ChosenAction.warning` says so.
            Unreachable: where there is no default arm either.
        """
        fields = {"context": _plain(context)} | ({} if person is None else {"person": person})
        body = body_of(fields)
        try:
            if self._request_bytes is None:
                facts = self._ask("GET", study_path(self.study), patience=AT_ONCE)
                self._request_bytes = _request_bytes(facts)
            body = padded(body, self._request_bytes)
            path = study_path(self.study, "decisions")
            return _read(self._ask("POST", path, body, patience=AT_ONCE))
        except Refused as refusal:
            if refusal.status not in _NO_DECISIONS or self.default_arm is None:
                raise
        except Unreachable:
            if self.default_arm is None:
                raise
        return ChosenAction.default(self.default_arm)

    def reward(self, identity: str | None, reward: float) -> bool:
        """Keep the reward of a decision and send it; `send` repeats a failed attempt.

        Args:
            identity: of the decision; None for a default arm, which is not learnt from.
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
                    f"the decision {identity!r:.80} has another reward already; a reward is given "
                    "once, and cannot be changed."
                )
            state.execute(
                "INSERT OR REPLACE INTO rewards VALUES (?, ?, ?, ?, ?, NULL)",
                (identity, self.url, self.study, number, time.time()),
            )
        try:
            self._send(AT_ONCE, identity)
        except Unreachable:
            return False
        return identity not in self.refused()

    def send(self) -> int:
        """Send rewards that wait.

        Returns:
            How many the service has now.

        Raises:
            Unreachable: where some wait still.
        """
        return self._send(self.patience, None)

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

    def _send(self, patience: Patience, only: str | None) -> int:
        sent = 0
        for identity, reward, _ in self._rows("reward IS NOT NULL"):
            if only not in (None, identity):
                continue
            path = study_path(self.study, "decisions", identity, "reward")
            body = padded(body_of({"reward": reward}), _REWARD_BYTES)
            try:
                answer = self._ask("POST", path, body, patience=patience)
                if answer.status_code != 202 or "new" not in fields_of(answer):
                    raise Unreachable(
                        f"something answered {answer.status_code} in place of the service; the "
                        "reward is kept, and sent again later."
                    )
            except Refused as refusal:
                if refusal.status == 409 and self._paused(self.study, patience):
                    raise Unreachable(str(refusal), 409) from refusal
                self._settle(identity, str(refusal))
                continue
            self._settle(identity, None)
            sent += 1
        return sent

    def _settle(self, identity: str, reason: str | None) -> None:
        """Erase a reward that the service has, or refused for good."""
        with self._file.changing() as state:
            state.execute("PRAGMA secure_delete = ON")
            if reason is None:
                state.execute("DELETE FROM rewards WHERE id = ?", (identity,))
            else:
                state.execute(
                    "UPDATE rewards SET reward = NULL, reason = ? WHERE id = ?", (reason, identity)
                )


class AsyncDecisionClient(AsyncClient):
    """A `DecisionClient` whose methods are awaited."""

    blocking = DecisionClient


def _request_bytes(answer: httpx2.Response) -> int:
    """Bytes to which a study's requests are padded; `Unreachable` for another program's answer."""
    fields = fields_of(answer)
    size = fields.get("request_bytes") if isinstance(fields, dict) else None
    if not isinstance(size, int) or size < 1:
        raise Unreachable(
            f"something answered {answer.status_code} in place of a service that makes decisions; "
            "no decision was made."
        )
    return size


def _read(answer: httpx2.Response) -> ChosenAction:
    """A decision; `Unreachable` where another program answered."""
    fields = fields_of(answer)
    try:
        point = fields["point"]
        return ChosenAction(
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
            f"something answered {answer.status_code} in place of the service; no decision was "
            "made."
        ) from error


def _plain(value: Any) -> Any:
    """A context as JSON has it: what is missing is null, what is infinite as large as can be."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if is_missing(value):
        return None
    return float(np.nan_to_num(value)) if isinstance(value, float) else value
