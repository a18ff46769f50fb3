"""What stands before every route: who asks, how often, how much, and what is said of it later.

In this order: what the request looks like, host and origin, the key, its rate, the body. So nobody
without a key has a body read. Answers get headers that keep browsers from doing more with them
than was meant; each request is a line of the log and counts in the metrics, both without anything
that it brought.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Collection

from anyio import fail_after, move_on_after, to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from discreet.service.server.access import KEY
from discreet.service.server.answers import answer_to
from discreet.service.server.errors import TooLarge, TooLate, TooMany, Unauthorized
from discreet.service.server.keys import Key, Keys
from discreet.service.server.limits import Buckets, Limits, Rate
from discreet.service.server.metrics import METHODS, Metrics
from discreet.service.server.requests import (
    check_headers,
    check_host,
    check_line,
    check_origin,
    token_of,
)

_LOG = logging.getLogger(__name__)
_CLOSED = ("/v1/", "/metrics")
_TABLES = "/v1/tables/"
_HEADERS = {
    # A proxy that compressed an answer would bring its length back.
    "Cache-Control": "no-store, no-transform",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
# What is still sent of a body that was refused is thrown away for so long, so that the other side
# reads the answer instead of finding the connection closed.
_DRAIN_SECONDS, _DRAIN_BYTES = 2.0, 2**24
# In logs: nobody was there to take the answer.
_NOBODY = 499
_MOST_SEEN = 10_000


class Stalled(Exception):
    """The other side does not take the answer."""


class Guard:
    """An application behind keys.

    Args:
        app: what it guards.
        keys: that open it.
        hosts: the names of this server.
        limits: what it takes.
        metrics: where requests are counted.
    """

    def __init__(
        self, app: ASGIApp, keys: Keys, hosts: Collection[str], limits: Limits, metrics: Metrics
    ) -> None:
        self._app, self._keys = app, keys
        self._hosts, self._limits, self._metrics = frozenset(hosts), limits, metrics
        self._requests, self._failures = Buckets(limits.requests), Buckets(limits.failures)
        # Of tokens that opened something lately: who guesses from the same address keeps them from
        # nothing, and is refused without a look at the database.
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # there are no web sockets here
        started, answer = time.perf_counter(), _Answer(send, self._limits.send_seconds)
        body = _Body(scope, receive)
        try:
            check_line(scope)
            check_headers(scope)
            check_host(scope, self._hosts)
            check_origin(scope)
            if scope["path"].startswith(_CLOSED):
                scope[KEY] = await self._key(scope)
            await body.read(self._most(scope), self._limits.body_seconds)
            if not body.gone:
                await self._app(scope, body.replay, answer.send)
        except Stalled:
            pass
        except Exception as error:
            await self._refuse(error, scope, body, answer)
        finally:
            self._note(scope, answer.code or _NOBODY, time.perf_counter() - started)

    async def _key(self, scope: Scope) -> Key:
        """The key of a request, within its rate."""
        address = scope["client"][0] if scope.get("client") else ""
        token = token_of(scope)
        seen = hashlib.sha256(token.encode()).digest()
        seconds = 0.0 if seen in self._seen else self._failures.wait(address)
        if seconds:
            raise _too_many("requests without a key that opens anything come from here", seconds)
        try:
            check = self._keys.check
            key = check(token) if self._keys.near else await to_thread.run_sync(check, token)
        except Unauthorized:
            self._seen.pop(seen, None)
            self._failures.take(address)
            raise
        self._seen[seen] = None
        if len(self._seen) > _MOST_SEEN:
            self._seen.popitem(last=False)
        # Two seconds' worth may come at once, as by the server's own limit.
        own = None if key.rate is None else Rate(key.rate, max(2.0 * key.rate, 1.0))
        seconds = self._requests.take(key.id, own)
        if seconds:
            rate = (own or self._limits.requests).a_second
            raise _too_many(f"the key asks more than {rate:g} times a second", seconds)
        return key

    def _most(self, scope: Scope) -> int:
        if scope["method"] == "PUT" and scope["path"].startswith(_TABLES):
            return self._limits.table
        key: Key | None = scope.get(KEY)
        if key is not None and key.role == "device":
            return min(self._limits.device, self._limits.body)
        return self._limits.body

    async def _refuse(self, error: Exception, scope: Scope, body: _Body, answer: _Answer) -> None:
        response = answer_to(error)
        if answer.code:
            return  # it broke off while it was sent, and the connection is closed
        if body.complete:
            await response(scope, body.replay, answer.send)
            return
        response.headers["Connection"] = "close"
        held: list[Message] = []

        async def hold(message: Message) -> None:
            held.append(message)

        await response(scope, body.replay, hold)
        try:
            await answer.send(held[0])
            await answer.send({**held[1], "more_body": True})
            await body.drain()
            await answer.send({"type": "http.response.body", "body": b""})
        except Stalled:
            pass

    def _note(self, scope: Scope, code: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", None) or "none"
        key: Key | None = scope.get(KEY)
        method = scope["method"] if scope["method"] in METHODS else "other"
        self._metrics.request(method, route, code, seconds)
        facts = {
            "method": method,
            "route": route,
            "code": code,
            "seconds": round(seconds, 6),
            "key": key.id if key else None,
        }
        level = logging.WARNING if code >= 500 else logging.INFO
        _LOG.log(level, "request", extra={"facts": facts})


class _Body:
    """The body of one request, read before anything is made of it.

    Attributes:
        complete: whether all of it has arrived.
        gone: whether the other side went away before.
    """

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        headers = Headers(scope=scope)
        self._announced = headers.get("content-length", "")
        self._content: list[bytes] = []
        self._given = False
        self.complete = self._announced in ("", "0") and "transfer-encoding" not in headers
        self.gone = False

    async def read(self, most: int, seconds: float) -> None:
        """Read all of it; refuse more bytes or seconds than these."""
        if self._announced.isdecimal() and int(self._announced[:20]) > most:
            raise _too_large(most)
        size = 0
        try:
            with fail_after(seconds):
                while not self.complete and not self.gone:
                    message = await self._receive()
                    self.gone = message["type"] == "http.disconnect"
                    self._content.append(message.get("body", b""))
                    size += len(self._content[-1])
                    if size > most:
                        self._content.clear()
                        raise _too_large(most)
                    self.complete = not message.get("more_body", False)
        except TimeoutError:
            self._content.clear()
            raise TooLate(
                f"the body did not arrive within {seconds:g} seconds; send it at once, in smaller "
                "batches."
            ) from None

    async def replay(self) -> Message:
        """What the application receives."""
        if self._given:
            return await self._receive()
        self._given = True
        return {"type": "http.request", "body": b"".join(self._content), "more_body": False}

    async def drain(self) -> None:
        """Throw away what still comes, for a while."""
        size = 0
        with move_on_after(_DRAIN_SECONDS):
            while not self.complete and not self.gone and size < _DRAIN_BYTES:
                message = await self._receive()
                self.gone = message["type"] == "http.disconnect"
                size += len(message.get("body", b""))
                self.complete = not message.get("more_body", False)


class _Answer:
    """What is sent back, with the headers of this server.

    Attributes:
        code: of the answer; 0 before there is one.
    """

    def __init__(self, send: Send, seconds: float) -> None:
        self._send, self._seconds = send, seconds
        self.code = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.code = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        with move_on_after(self._seconds) as scope:
            await self._send(message)
        if scope.cancelled_caught:
            raise Stalled


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"the body had more than {most} bytes; send less at once.")


def _too_many(what: str, seconds: float) -> TooMany:
    return TooMany(f"{what}; try again in {seconds:.3f} seconds.", seconds)
