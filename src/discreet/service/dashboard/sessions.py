"""Who has signed in to the dashboard: sessions in memory, which end with the process.

A browser keeps a random number in a cookie that scripts cannot read and other sites cannot send;
what it stands for is here. The key of a session is checked again at every request, so a key that
is revoked ends its sessions at once.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from dataclasses import dataclass, field

COOKIE = "discreet_session"
SESSION_SECONDS = 8 * 3600.0
LINK_SECONDS = 600.0
_MOST = 1000


@dataclass(frozen=True, repr=False)
class Session:
    """One browser that signed in.

    Attributes:
        token: of the key that it signed in with.
        expires: when it ends, in seconds since 1970.
        csrf: what every form of it carries, so that no other site can make one.
    """

    token: str
    expires: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    def check(self, given: str) -> bool:
        """Whether a form was one of this session."""
        return same(self.csrf, given)


class Sessions:
    """The sessions of one process, and links that open one."""

    def __init__(self) -> None:
        self._sessions: dict[bytes, Session] = {}
        self._links: dict[bytes, Session] = {}
        self._lock = threading.Lock()

    def open(self, token: str) -> str:
        """Begin a session of a key that was checked; what its cookie holds."""
        return self._add(self._sessions, Session(token, time.time() + SESSION_SECONDS))

    def link(self, token: str) -> str:
        """A code that opens one session of a key, once and soon."""
        return self._add(self._links, Session(token, time.time() + LINK_SECONDS))

    def follow(self, code: str) -> str | None:
        """The token that a code stands for, which opens nothing from then on."""
        with self._lock:
            known = self._links.pop(_hash(code), None)
        return known.token if known is not None and known.expires > time.time() else None

    def find(self, cookie: str) -> Session | None:
        """The session of a cookie; None where there is none, or it has ended."""
        with self._lock:
            known = self._sessions.get(_hash(cookie))
        return known if known is not None and known.expires > time.time() else None

    def close(self, cookie: str) -> None:
        """End a session."""
        with self._lock:
            self._sessions.pop(_hash(cookie), None)

    def _add(self, kept: dict[bytes, Session], session: Session) -> str:
        number, now = secrets.token_urlsafe(32), time.time()
        with self._lock:
            for old in [key for key, each in kept.items() if each.expires <= now]:
                del kept[old]
            if len(kept) >= _MOST:
                del kept[next(iter(kept))]
            kept[_hash(number)] = session
        return number


def same(wanted: str, given: str) -> bool:
    """Whether two secrets are equal, in a time that does not say where they differ."""
    return hmac.compare_digest(wanted.encode(), given.encode())


def _hash(number: str) -> bytes:
    return hashlib.sha256(number.encode()).digest()
