"""Sessions of the dashboard: encrypted, authenticated cookies that any server process can read.

A cookie holds the token of the key that signed in, encrypted (Fernet) under a key derived from the
hash of that token in the database. So all processes on a database know the same sessions, a cookie
opens nothing elsewhere and nothing after it has expired, and the database alone is not enough to
make one. The key is checked at every request: when it is revoked or expires, its sessions end.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass, field
from typing import Literal

from cryptography.fernet import Fernet, InvalidToken

from discreet.service.server.errors import Unauthorized
from discreet.service.server.keys import ApiKey, Keys

COOKIE = "discreet_session"
SESSION_SECONDS = 8 * 3600
LINK_SECONDS = 600
_Use = Literal["session", "link"]


@dataclass(frozen=True, repr=False)
class Session:
    """One browser that signed in.

    Attributes:
        token: of the key that it signed in with.
        opened: when, in seconds since 1970.
        csrf: a secret of its forms, so that no other site can make one.
    """

    token: str
    opened: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    def check(self, given: str) -> bool:
        """Whether a form was one of this session."""
        return same(self.csrf, given)


class Sessions:
    """Cookies and links for the keys of a database."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def open(self, token: str) -> str:
        """The cookie of a new session of a key that was checked."""
        return self._sealed(Session(token, self._keys.now()), "session")

    def link(self, token: str) -> str:
        """A code that signs in with a key for ten minutes."""
        return self._sealed(Session(token, self._keys.now()), "link")

    def follow(self, code: str) -> str | None:
        """The token of a link's code; None for one that is none, or is too old."""
        found = self._opened(code, "link", LINK_SECONDS)
        return None if found is None else found.token

    def find(self, cookie: str) -> tuple[Session, ApiKey] | None:
        """The session of a cookie, with its key; None where it has ended, or never was one."""
        session = self._opened(cookie, "session", SESSION_SECONDS)
        if session is None:
            return None
        try:
            key = self._keys.check(session.token)
        except Unauthorized:
            return None
        return None if session.opened <= key.signed_out else (session, key)

    def _sealed(self, session: Session, use: _Use) -> str:
        identity = session.token.split("_")[1]
        content = json.dumps([session.token, session.opened, session.csrf]).encode()
        return f"{identity}.{self._cipher(identity, use).encrypt(content).decode()}"

    def _opened(self, text: str, use: _Use, seconds: int) -> Session | None:
        identity, _, sealed = text.partition(".")
        try:
            content = self._cipher(identity, use).decrypt(sealed, ttl=seconds)
        except (InvalidToken, LookupError):
            return None
        return Session(*json.loads(content))

    def _cipher(self, identity: str, use: _Use) -> Fernet:
        known = self._keys.hash_of(identity)
        if known is None:
            raise LookupError(identity)
        derived = hmac.new(known, f"discreet {use}".encode(), hashlib.sha256).digest()
        return Fernet(base64.urlsafe_b64encode(derived))


def same(wanted: str, given: str) -> bool:
    """Whether two secrets are equal, in a time that does not depend on where they differ."""
    return hmac.compare_digest(wanted.encode(), given.encode())
