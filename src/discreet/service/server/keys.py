"""Keys to a service: who may ask for what, of which study.

| role     | may                                                                             |
|----------|---------------------------------------------------------------------------------|
| operator | pause, finish, export, make and revoke keys, and read what auditors read        |
| client   | ask for decisions under joint privacy, and send their rewards                   |
| device   | send reports that are private already                                           |
| shuffler | pass on groups of encrypted reports                                             |
| auditor  | read certificate, releases, ledger and the operators' log                       |
| curator  | publish a table, and answer questions about its rows                            |
| modeler  | read a table, and ask about its rows                                            |

A token is `dk_ID_SECRET`. Only its hash is kept; the secret has 256 random bits, so a plain
SHA-256 is enough. Every request reads the key's row, so a key that is revoked or has expired opens
nothing from then on, in every process. Reports and decisions carry the id of their key until their
release, so those of a leaked key can be discarded.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sqlalchemy import Connection, Row, bindparam, delete, insert, or_, select, update

from discreet.service.server.database import Database
from discreet.service.server.errors import NotFound, Unauthorized
from discreet.service.server.ledger import note
from discreet.service.server.schema import (
    ERASED,
    IN_NONE,
    RECORD_SECONDS,
    SET_ASIDE,
    batches,
    decisions,
    held,
    keys,
)
from discreet.validation import InvalidInput, one_of, positive_number

Role = Literal["operator", "client", "device", "shuffler", "auditor", "curator", "modeler"]
ROLES: tuple[Role, ...] = get_args(Role)

_PREFIX = "dk"
_TOKEN = re.compile(rf"{_PREFIX}_([0-9a-f]{{16}})_([A-Za-z0-9_-]{{43}})", re.ASCII)
_LONGEST = 100
_DAY = 86_400.0
# Made once: every request asks this.
_OPENS = select(keys).where(keys.c.id == bindparam("identity"))
_UNKNOWN = (
    "the key opens nothing here: it was revoked, or never made; send the token that `discreet keys "
    "make` printed, as `Authorization: Bearer TOKEN`."
)


@dataclass(frozen=True)
class ApiKey:
    """What a token opens.

    Attributes:
        id: public; by which logs name it.
        role: what it may do.
        study: the one study or table that it is for; None for all.
        rate: requests a second; None for the server's own limit.
        signed_out: sessions of the dashboard opened before this time have ended.
    """

    id: str
    role: Role
    study: str | None
    rate: float | None = None
    signed_out: float = 0.0

    def covers(self, study: str) -> bool:
        """Whether it is for that study or table."""
        return self.study is None or self.study == study


class Keys:
    """The keys of one database.

    Attributes:
        near: whether the database is a file here, which is read faster than another thread woken.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.near = database.sqlite

    def make(
        self,
        role: str,
        study: str | None = None,
        label: str = "",
        by: str = "",
        days: float | None = None,
        rate: float | None = None,
    ) -> str:
        """A new key, which expires no later than the key that asked for it.

        Args:
            role: one of `ROLES`.
            study: the study or table that it is for; None for all.
            label: whose it is, in words.
            by: the id of the key that asked for it; empty on the server itself.
            days: after which it expires; None for never, or with the key that asked for it.
            rate: requests a second of each server process; None for the server's own limit.

        Returns:
            Its token, which is in no other place: show it once.
        """
        one_of(role, "role", ROLES)
        for name, text in [("study", study or ""), ("label", label)]:
            if not isinstance(text, str) or len(text) > _LONGEST or not text.isprintable():
                raise InvalidInput(
                    f"{name} was {text!r:.200}; it must be a text of at most {_LONGEST} printable "
                    "characters."
                )
        now, lasts = time.time(), None if days is None else positive_number(days, "days")
        identity, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        token = f"{_PREFIX}_{identity}_{secret}"
        with self._database.writing() as connection:
            least = connection.scalar(select(keys.c.expires).where(keys.c.id == by))
            ends = [least, None if lasts is None else now + lasts * _DAY]
            connection.execute(
                insert(keys).values(
                    id=identity,
                    role=role,
                    study=study,
                    label=label,
                    hash=_hash(token),
                    made=now,
                    expires=min((end for end in ends if end is not None), default=None),
                    rate=None if rate is None else positive_number(rate, "rate"),
                )
            )
            note(connection, by, f"made the key {identity} with the role {role}", study)
        return token

    def check(self, token: str) -> ApiKey:
        """What a token opens.

        Raises:
            Unauthorized: for a token that opens nothing. It is not shown.
        """
        if not token:
            raise Unauthorized(
                "no key came with the request; send `Authorization: Bearer TOKEN`, with the token "
                "that `discreet keys make` printed."
            )
        parts = _TOKEN.fullmatch(token)
        if parts is None:
            raise Unauthorized(_UNKNOWN)
        row = self._database.first(_OPENS, {"identity": parts[1]})
        given = _hash(token)
        same = hmac.compare_digest(row.hash if row is not None else bytes(len(given)), given)
        if row is None or not same or row.revoked is not None:
            raise Unauthorized(_UNKNOWN)
        if _expired(row.expires, self.now()):
            raise Unauthorized("the key has expired; ask the operator for a new one.")
        return ApiKey(parts[1], row.role, row.study, row.rate, row.signed_out or 0.0)

    def now(self) -> float:
        """The time by which keys and sessions end; a clock that is set back revives none."""
        return max(time.time(), self._database.clock.now())

    def hash_of(self, identity: str) -> bytes | None:
        """The hash of a token by the id of its key; None for an unknown id."""
        row = self._database.first(_OPENS, {"identity": identity})
        return None if row is None else row.hash

    def sign_out(self, identity: str) -> None:
        """End all sessions of the dashboard that this key opened."""
        with self._database.writing() as connection:
            connection.execute(
                update(keys).where(keys.c.id == identity).values(signed_out=self.now())
            )

    def revoke(self, identity: str, by: str = "") -> bool:
        """A key opens nothing from now on; whether it did until now.

        Raises:
            NotFound: where there is none of that id.
        """
        with self._database.writing() as connection:
            row = _row(connection, identity)
            if row.revoked is not None:
                return False
            connection.execute(
                update(keys).where(keys.c.id == identity).values(revoked=time.time())
            )
            note(connection, by, f"revoked the key {identity}", row.study)
        return True

    def discard(self, identity: str, by: str = "") -> int:
        """Erase all reports and decisions that came by a key and that no release, or group, has.

        Their public coins and ids stay, so none of them can come again.

        Returns:
            The number of reports and decisions.

        Raises:
            NotFound: where there is no key of that id.
        """
        with self._database.writing() as connection:
            key = _row(connection, identity)
            reports = connection.scalars(
                update(batches)
                .where(
                    batches.c.key == identity,
                    or_(batches.c.released.is_(None), batches.c.released == SET_ASIDE),
                )
                .values(body=None, key=None, released=IN_NONE)
                .returning(batches.c.stored)
            ).all()
            decided = connection.execute(
                update(decisions)
                .where(decisions.c.key == identity, decisions.c.released.is_(None))
                .values(state="expired", expires=self.now() + RECORD_SECONDS, **ERASED)
            )
            waited = connection.execute(delete(held).where(held.c.key == identity))
            discarded = sum(reports) + int(decided.rowcount) + int(waited.rowcount)
            note(connection, by, f"discarded {discarded} entries of the key {identity}", key.study)
        return int(discarded)

    def list(self) -> list[dict[str, Any]]:
        """The keys without their hashes, in the order in which they were made."""
        shown = [each for each in keys.c if each.name not in ("hash", "signed_out")]
        with self._database.reading() as connection:
            rows = connection.execute(select(*shown).order_by(keys.c.made, keys.c.id))
            return [dict(row._mapping) for row in rows]


def opens(key: Mapping[str, Any]) -> bool:
    """Whether a key of `Keys.list` is neither revoked nor expired."""
    return key["revoked"] is None and not _expired(key["expires"], time.time())


def _row(connection: Connection, identity: str) -> Row[Any]:
    row = connection.execute(_OPENS, {"identity": identity}).one_or_none()
    if row is None:
        raise NotFound("there is no key with this id; `discreet keys list` shows ids, not tokens.")
    return row


def _expired(expires: float | None, now: float) -> bool:
    return expires is not None and expires <= now


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
