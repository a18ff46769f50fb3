"""ASGI middleware before every route: request checks, keys, rates, limits of bodies, the log.

In this order: the request line and headers, host and origin, the key, its rate, the body. So no
body is read without a key. The log and the metrics name routes by pattern and keys by id; they
contain nothing else of a request.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from urllib.parse import urlsplit

from anyio import fail_after, move_on_after, to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from discreet.service.server.access import KEY, answer_to
from discreet.service.server.errors import Forbidden, TooLarge, TooLate, TooMany, Unauthorized
from discreet.service.server.keys import ApiKey, Keys
from discreet.service.server.metrics import METHODS, Metrics
from discreet.validation import InvalidInput

_LOG = logging.getLogger(__name__)
LOOPBACK = ("127.0.0.1", "localhost", "::1")
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
# The rest of a refused body is read and dropped, so that the client reads the answer instead of
# a reset connection.
_DRAIN_SECONDS, _DRAIN_BYTES = 2.0, 2**24
# In logs: the client left before the answer.
_LEFT = 499
_MOST_SEEN = _MOST_BUCKETS = 10_000
_LONGEST_LINE, _MOST_HEADERS = 1_000, 2**14
# Proxies and this server may read these differently.
_AMBIGUOUS = re.compile(rb"%(?:2f|5c|2e|00)", re.IGNORECASE)
_VERSIONS = ("1.0", "1.1", "2")
_ONCE = (b"host", b"authorization", b"origin", b"content-type", b"content-length", b"cookie")
_READS = ("GET", "HEAD", "OPTIONS")
# What pages of other origins may ask for, and read of an answer.
_API = "/v1/"
_ASKED = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, If-None-Match",
    "Access-Control-Max-Age": "7200",
}


@dataclass(frozen=True)
class Rate:
    """A long-run rate per second, and the most at once."""

    a_second: float
    burst: float


@dataclass(frozen=True)
class Limits:
    """Limits of one server process.

    Attributes:
        body, device, table: bytes of a request's body; of one with a device's key; of a released
            table, or a shuffler's group.
        values, device_values: JSON values of a body, and of one with a device's key.
        body_seconds: in which a body arrives as a whole.
        requests: of one key.
        failures: of one address without a valid key.
    """

    body: int = 2**20
    device: int = 2**18
    table: int = 2**26
    values: int = 100_000
    device_values: int = 20_000
    body_seconds: float = 10.0
    requests: Rate = Rate(1000.0, 2000.0)
    failures: Rate = Rate(1.0, 30.0)


class Buckets:
    """Token buckets by name; the least recently used ones are dropped first."""

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, rate: Rate | None = None) -> float:
        """Take a token; 0, or the seconds until there is one.

        Args:
            name: of the bucket.
            rate: of this bucket; None for that of all.
        """
        rate = rate or self._rate
        left, now = self._now(name, rate)
        if left < 1.0:
            return (1.0 - left) / rate.a_second
        self._left[name] = (left - 1.0, now)
        self._left.move_to_end(name)
        if len(self._left) > _MOST_BUCKETS:
            self._left.popitem(last=False)
        return 0.0

    def wait(self, name: str) -> float:
        """The seconds until there is a token; none is taken."""
        return max(1.0 - self._now(name, self._rate)[0], 0.0) / self._rate.a_second

    def _now(self, name: str, rate: Rate) -> tuple[float, float]:
        now = self._clock()
        left, since = self._left.get(name, (rate.burst, now))
        return min(left + (now - since) * rate.a_second, rate.burst), now


class Middleware:
    """An application behind keys.

    Args:
        app: the application.
        keys: of its clients.
        hosts: the names of this server.
        origins: of pages on other servers that may use the API with a key, never with a cookie.
        limits: of requests.
        metrics: where requests are counted; None where nothing of them may stay, not even in the
            log, because times of requests would link keys to groups.
    """

    def __init__(
        self,
        app: ASGIApp,
        keys: Keys,
        hosts: Collection[str],
        origins: Collection[str],
        limits: Limits,
        metrics: Metrics | None,
    ) -> None:
        self._app, self._keys = app, keys
        self._hosts, self._limits, self._metrics = frozenset(hosts), limits, metrics
        self._origins = frozenset(origins)
        self._requests, self._failures = Buckets(limits.requests), Buckets(limits.failures)
        # Hashes of recently valid tokens: guesses from the same address do not delay them.
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # there are no web sockets here
        started, code, body = time.perf_counter(), 0, _Body(scope, receive)
        page = self._page(scope)

        async def answer(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if page:
                    headers["Access-Control-Allow-Origin"] = page
                    headers["Access-Control-Expose-Headers"] = "ETag, Retry-After"
                    headers.add_vary_header("Origin")
            await send(message)

        try:
            check_line(scope)
            check_headers(scope)
            check_host(scope, self._hosts)
            if page is None:
                check_origin(scope)
            elif scope["method"] == "OPTIONS":  # a browser asks before it sends a key
                await Response(status_code=204, headers=_ASKED)(scope, receive, answer)
                return
            if scope["path"].startswith(_CLOSED):
                scope[KEY] = await self._key(scope)
            size, values = self._most(scope)
            check_values(await body.read(size, self._limits.body_seconds), values)
            if not body.gone:
                await self._app(scope, body.replay, answer)
        except Exception as error:
            response = answer_to(error)
            if not code:
                if not body.complete:
                    response.headers["Connection"] = "close"
                    await body.drain()
                await response(scope, body.replay, answer)
        finally:
            self._note(scope, code or _LEFT, time.perf_counter() - started)

    def _page(self, scope: Scope) -> str | None:
        """The origin of a page on another server that may make this request."""
        if not scope["path"].startswith(_API):
            return None
        origin = Headers(scope=scope).get("origin")
        return origin if origin in self._origins else None

    async def _key(self, scope: Scope) -> ApiKey:
        """The key of a request, within its rate."""
        address = scope["client"][0] if scope.get("client") else ""
        token = token_of(scope)
        seen = hashlib.sha256(token.encode()).digest()
        seconds = 0.0 if seen in self._seen else self._failures.wait(address)
        if seconds:
            raise _too_many("too many requests without a valid key come from here", seconds)
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
        # A burst of two seconds, as by the server's own limit.
        own = None if key.rate is None else Rate(key.rate, max(2.0 * key.rate, 1.0))
        seconds = self._requests.take(key.id, own)
        if seconds:
            rate = (own or self._limits.requests).a_second
            raise _too_many(f"the key has more than {rate:g} requests per second", seconds)
        return key

    def _most(self, scope: Scope) -> tuple[int, int]:
        """Bytes and values of a body at most."""
        limits, key = self._limits, scope.get(KEY)
        if scope["method"] == "PUT" and scope["path"].startswith(_TABLES):
            return limits.table, limits.values
        if key is not None and key.role == "shuffler":
            return limits.table, limits.values
        if key is not None and key.role == "device":
            return min(limits.device, limits.body), limits.device_values
        return limits.body, limits.values

    def _note(self, scope: Scope, code: int, seconds: float) -> None:
        if self._metrics is None:
            return
        route = getattr(scope.get("route"), "path", None) or "none"
        key: ApiKey | None = scope.get(KEY)
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
    """The body of one request, read before the application is called.

    Attributes:
        complete: whether all of it has arrived.
        gone: whether the client left before.
    """

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        headers = Headers(scope=scope)
        self._announced = headers.get("content-length", "")
        self._content: list[bytes] = []
        self._given = False
        self.complete = self._announced in ("", "0") and "transfer-encoding" not in headers
        self.gone = False

    async def read(self, most: int, seconds: float) -> bytes:
        """All of it.

        Args:
            most: bytes that are read.
            seconds: in which they arrive.
        """
        too_large = TooLarge(f"the body had more than {most} bytes; send less at once.")
        if self._announced.isdecimal() and int(self._announced[:20]) > most:
            raise too_large
        size = 0
        try:
            with fail_after(seconds):
                while not self.complete and not self.gone:
                    self._content.append(await self._part())
                    size += len(self._content[-1])
                    if size > most:
                        self._content.clear()
                        raise too_large
        except TimeoutError:
            self._content.clear()
            raise TooLate(
                f"the body did not arrive within {seconds:g} seconds; send it at once, in smaller "
                "batches."
            ) from None
        self._content = [b"".join(self._content)]
        return self._content[0]

    async def replay(self) -> Message:
        """The body as the application receives it."""
        if self._given:
            return await self._receive()
        self._given = True
        return {"type": "http.request", "body": self._content[0], "more_body": False}

    async def drain(self) -> None:
        """Read and drop the rest, within limits."""
        size = 0
        with move_on_after(_DRAIN_SECONDS):
            while not self.complete and not self.gone and size < _DRAIN_BYTES:
                size += len(await self._part())

    async def _part(self) -> bytes:
        message = await self._receive()
        self.gone = message["type"] == "http.disconnect"
        self.complete = not message.get("more_body", False)
        content: bytes = message.get("body", b"")
        return content


def check_line(scope: Scope) -> None:
    """Refuse a path that two programs could read in two ways."""
    path, raw = scope["path"], scope.get("raw_path") or scope["path"].encode()
    if len(raw) > _LONGEST_LINE or len(scope["query_string"]) > _LONGEST_LINE:
        raise InvalidInput(
            f"the path or the query was longer than {_LONGEST_LINE} bytes; send long values in the "
            "body."
        )
    if (
        _AMBIGUOUS.search(raw)
        or not path.isprintable()
        or "\\" in path
        or "\ufffd" in path
        or "//" in path
        or any(part in (".", "..") for part in path.split("/"))
    ):
        raise InvalidInput(
            "the path had characters or parts that can be read in two ways; send names of "
            "printable characters, without slashes, and no part that is empty, `.` or `..`."
        )


def check_headers(scope: Scope) -> None:
    """Refuse headers that are too long, ambiguous, or of a compressed body."""
    if scope["http_version"] not in _VERSIONS:
        raise InvalidInput(f"the version of HTTP was {scope['http_version']}; send HTTP/1.1.")
    if sum(len(name) + len(value) for name, value in scope["headers"]) > _MOST_HEADERS:
        raise InvalidInput(f"the headers had more than {_MOST_HEADERS} bytes; send fewer.")
    names = [name for name, _ in scope["headers"]]
    for name in _ONCE:
        if names.count(name) > 1:
            raise InvalidInput(f"the header {name.decode()} came twice; send it once.")
    # RFC 9112, section 6.3: a proxy in front may have read the other length.
    if b"content-length" in names and b"transfer-encoding" in names:
        raise InvalidInput(
            "the headers had Content-Length and Transfer-Encoding, which two programs read in two "
            "ways; send one of them."
        )
    if Headers(scope=scope).get("content-encoding", "identity") != "identity":
        raise InvalidInput("the body was compressed; send it without Content-Encoding.")


def check_host(scope: Scope, hosts: Collection[str]) -> None:
    """Refuse a request to another name than this server has (DNS rebinding)."""
    given = Headers(scope=scope).get("host", "")
    try:
        parts = urlsplit(f"//{given}")
        known = parts.netloc == given and "@" not in given and parts.port != 0
        known = known and (parts.hostname or "") in hosts
    except ValueError:
        known = False
    if not known:
        raise InvalidInput(
            f"the host was {given!r:.100}, which is not a name of this server; its operator "
            "allows more names with --allow-host."
        )


def check_origin(scope: Scope) -> None:
    """Refuse changes that a page of another server makes a browser send (cross-site requests)."""
    if scope["method"] in _READS:
        return
    headers = Headers(scope=scope)
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is not None:
        try:
            same = urlsplit(origin).netloc == headers.get("host", "") != ""
        except ValueError:
            same = False
    else:
        same = site in ("same-origin", "none") or (site is None and "cookie" not in headers)
    if not same or site in ("cross-site", "same-site"):
        raise Forbidden(
            "the request came from a page of another server, or did not name its origin; send it "
            "from a page of this one, or with a key and no cookie."
        )


def check_values(body: bytes, most: int) -> None:
    """Refuse a body with too many JSON values, before it is parsed.

    A parser holds Python's lock for as long as it runs, and its time grows with the values. Every
    value but the outermost follows one of these characters.
    """
    if sum(map(body.count, (b",", b"[", b"{"))) > most:
        raise TooLarge(f"the body had more than {most} JSON values; send less at once.")


def token_of(scope: Scope) -> str:
    """The token of a request; empty where it has none."""
    scheme, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _too_many(what: str, seconds: float) -> TooMany:
    return TooMany(f"{what}; try again in {seconds:.3f} seconds.", seconds)
