"""What a request may look like before anybody knows what it asks for."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from discreet.service.server.errors import Forbidden
from discreet.validation import InvalidInput

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LONGEST_PATH = 1_000
_LONGEST_QUERY = 1_000
_MOST_HEADERS = 2**14
_VERSIONS = ("1.0", "1.1", "2")
# Read by whom there is in front of this server in one way, and here in another.
_HIDDEN = re.compile(rb"%(?:2f|5c|2e|00)", re.IGNORECASE)
_ONCE = (b"host", b"authorization", b"origin", b"content-type", b"content-length", b"cookie")
_READS = ("GET", "HEAD", "OPTIONS")


def check_line(scope: Scope) -> None:
    """Refuse a path that two programs could read in two ways."""
    path, raw = scope["path"], scope.get("raw_path") or scope["path"].encode()
    if len(raw) > _LONGEST_PATH or len(scope["query_string"]) > _LONGEST_QUERY:
        raise InvalidInput(
            f"the path or the query was longer than {_LONGEST_PATH} bytes; send what is long in "
            "the body."
        )
    if (
        _HIDDEN.search(raw)
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
    """Refuse headers that are too long, that came twice where one counts, or that speak of another
    version of HTTP or of a compressed body."""
    if scope["http_version"] not in _VERSIONS:
        raise InvalidInput(f"the version of HTTP was {scope['http_version']}; send HTTP/1.1.")
    if sum(len(name) + len(value) for name, value in scope["headers"]) > _MOST_HEADERS:
        raise InvalidInput(f"the headers had more than {_MOST_HEADERS} bytes; send less of them.")
    names = [name for name, _ in scope["headers"]]
    for name in _ONCE:
        if names.count(name) > 1:
            raise InvalidInput(f"the header {name.decode()} came twice; send it once.")
    if b"content-length" in names and b"transfer-encoding" in names:
        raise InvalidInput(
            "the headers had Content-Length and Transfer-Encoding, which two programs read in two "
            "ways; send one of them."
        )
    if Headers(scope=scope).get("content-encoding", "identity") != "identity":
        raise InvalidInput("the body was compressed; send it as it is, without Content-Encoding.")


def check_host(scope: Scope, hosts: Collection[str]) -> None:
    """Refuse a request that was sent to another name than this server has."""
    given = Headers(scope=scope).get("host", "")
    if host_of(given) not in hosts:
        raise InvalidInput(
            f"the host was {given!r:.100}, which is not a name of this server; whoever runs it "
            "allows more names with --allow-host."
        )


def host_of(text: str) -> str:
    """The name in a Host header, without a port; empty where it is none."""
    try:
        parts = urlsplit(f"//{text}")
        valid = parts.netloc == text and "@" not in text and parts.port != 0
    except ValueError:
        return ""
    return (parts.hostname or "") if valid else ""


def check_origin(scope: Scope) -> None:
    """Refuse what a page of another server makes a browser send here."""
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
            "the request came from a page of another server, or did not say from which; send it "
            "from a page of this one, or with a key and no cookie."
        )


def token_of(scope: Scope) -> str:
    """The token of a request; empty where it has none."""
    scheme, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
