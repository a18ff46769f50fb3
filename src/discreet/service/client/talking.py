"""How every party talks to the service: requests and answers, patience, and two ways to carry them.

What a party does is written once, as a generator that yields a `Request`, or a `Pause`, and is sent
the `Answer`: None where nothing came back. Two drivers carry it: `Plain` (httpx2.Client, blocks)
and `Asynchronous` (httpx2.AsyncClient). So `Device` and `AsyncDevice` are the same code.

What was not answered is sent again after a while that doubles and is drawn at random; a service
that says when to come back (Retry-After) is obeyed. What it refused (4xx) is never sent again.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload
from urllib.parse import quote, urlsplit

import numpy as np

from discreet.validation import InvalidInput, positive_number, whole_number

try:
    import httpx2
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'clients of a service need httpx2, which is not installed; run pip install "httpx2>=2", or '
        'pip install "discreet[service]".'
    ) from error

P = ParamSpec("P")
T = TypeVar("T")

# Refused for now, not for what it is: too slow, too early, too many.
_LATER = (408, 425, 429)
_LOCAL = ("localhost", "127.0.0.1", "::1")
# What a header can hold.
_TOKEN = re.compile("[!-~]+")
# Of what a service says, so much is shown.
_MOST_SHOWN = 500


class Refused(InvalidInput):
    """The service refused a request for what it is; it is not sent again.

    Attributes:
        status: of the answer, 300 to 499.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Unreachable(ConnectionError):
    """The service did not answer, or cannot work now. What was to be sent is kept where a party
    keeps anything; try again later.

    Attributes:
        status: of the last answer; None where there was none.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Request:
    """What a party asks.

    Attributes:
        method: of HTTP.
        path: under the address of the service, quoted.
        body: JSON as it is sent; None for none.
        etag: of what is here already; None for nothing.
    """

    method: str
    path: str
    body: bytes | None = None
    etag: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        headers = {}
        if self.body is not None:
            # A proxy that compressed the answer would bring back the length that padding hides.
            headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        return headers if self.etag is None else {**headers, "If-None-Match": f'"{self.etag}"'}


@dataclass(frozen=True)
class Answer:
    """What the service says.

    Attributes:
        status: of HTTP.
        headers: whatever their case.
        body: as it came.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    def fields(self) -> Any:
        """The JSON values; `Unreachable` where something else answered."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise Unreachable(
                f"what answered with {self.status} sent no JSON, so it is not the service, or not "
                "all of it arrived; look at what is between here and there, and try again."
            ) from error


@dataclass(frozen=True)
class Pause:
    """So many seconds nothing is done."""

    seconds: float


# What a party does, from its first request to what comes of it.
Talk = Generator[Request | Pause, Answer | None, T]


@dataclass(frozen=True)
class Patience:
    """How often and how long a request is tried.

    Attributes:
        attempts: in all.
        first: seconds up to which the first pause is drawn; each further one up to twice as many.
        longest: seconds that no pause exceeds; a service that asks for more is asked no more now.
        timeout: seconds that an answer may take.
    """

    attempts: int = 6
    first: float = 0.5
    longest: float = 60.0
    timeout: float = 10.0

    def __post_init__(self) -> None:
        whole_number(self.attempts, "attempts", minimum=1)
        for name in ("first", "longest", "timeout"):
            positive_number(getattr(self, name), name)

    def pause(self, attempt: int, answer: Answer | None) -> float:
        """Seconds to wait after that attempt, the first of which is 0."""
        drawn = random.uniform(0.0, min(self.longest, self.first * 2.0**attempt))
        asked = 0.0 if answer is None else retry_after(answer.headers)
        return drawn if asked == 0.0 else asked + random.uniform(0.0, self.first)


# Where somebody waits: once.
AT_ONCE = Patience(attempts=1)


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float:
    """Seconds that a service asks for; 0 where it does not."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return 0.0
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        then = parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return max(then - (time.time() if now is None else now), 0.0)


def ask(request: Request, patience: Patience) -> Talk[Answer]:
    """The answer to a request, 2xx or 304, however often it takes.

    Raises:
        Refused: for what the service will not have.
        Unreachable: when patience is at its end.
    """
    answer = None
    for attempt in range(patience.attempts):
        answer = yield request
        status = 503 if answer is None else answer.status
        if answer is not None and (200 <= status < 300 or status == 304):
            return answer
        if answer is not None and status < 500 and status not in _LATER:
            raise Refused(f"the service refused {_said(request, answer)}", status)
        pause = patience.pause(attempt, answer)
        if attempt + 1 == patience.attempts or pause > patience.longest + patience.first:
            break
        yield Pause(pause)
    if answer is None:
        raise Unreachable(f"the service did not answer {request.method} {request.path}.")
    raise Unreachable(f"the service put off {_said(request, answer)}", answer.status)


def _said(request: Request, answer: Answer) -> str:
    try:
        said = str(json.loads(answer.body)["error"])
    except (ValueError, TypeError, LookupError, RecursionError):
        said = "it said no more."
    return f"{request.method} {request.path} ({answer.status}): {said:.{_MOST_SHOWN}}"


def body_of(fields: Any) -> bytes:
    """JSON values as they are sent, and those of NumPy.

    Raises:
        InvalidInput: for what JSON does not have.
    """
    try:
        text = json.dumps(fields, allow_nan=False, separators=(",", ":"), default=plain_value)
    except InvalidInput:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            "a value was NaN or infinite, or held what cannot be sent; give finite numbers and "
            "texts, by column or in order."
        ) from error
    return text.encode()


def plain_value(value: Any) -> Any:
    """A value of NumPy as JSON has it."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise InvalidInput(
        f"a value was {type(value).__name__}; give numbers and texts, by column or in order."
    )


class Party(ABC):
    """Whoever talks to a service with a key.

    Args:
        url: of the service, such as https://trial.example.org.
        key: the token that its operator gave out.
        patience: how long requests are tried; None for six times within a minute or two.
        transport: of httpx2, such as a proxy of one's own; None for the network.
        allow_http: whether the key may travel unprotected to another machine.

    Attributes:
        url: as it was given.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str,
        patience: Patience | None = None,
        transport: Any = None,
        allow_http: bool = False,
    ) -> None:
        self.url = _checked_url(url, allow_http)
        if not isinstance(key, str) or not _TOKEN.fullmatch(key):
            raise InvalidInput(
                f"key was {'empty' if key == '' else 'no token'}; give the one that `discreet keys "
                "make` showed, as a text."
            )
        self.patience = patience or Patience()
        headers = {"Authorization": f"Bearer {key}", "Accept": "application/json"}
        self._connect(
            base_url=self.url,
            headers=headers,
            timeout=self.patience.timeout,
            **({} if transport is None else {"transport": transport}),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @abstractmethod
    def _connect(self, **options: Any) -> None:
        """Make the client of httpx2 with these options."""


class Plain(Party):
    """A party whose calls return when they are done."""

    def _connect(self, **options: Any) -> None:
        self._client = httpx2.Client(**options)

    def _carry(self, talk: Talk[T]) -> T:
        answer = None
        try:
            while True:
                step = talk.send(answer)
                answer = None
                if isinstance(step, Pause):
                    time.sleep(step.seconds)
                    continue
                try:
                    response = self._client.request(
                        step.method, step.path, content=step.body, headers=step.headers
                    )
                except (httpx2.TransportError, httpx2.DecodingError):
                    continue
                answer = Answer(response.status_code, response.headers, response.content)
        except StopIteration as end:
            result: T = end.value
            return result

    def close(self) -> None:
        """Give back connections; what is kept in files stays."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Asynchronous(Party):
    """A party whose calls are awaited."""

    def _connect(self, **options: Any) -> None:
        self._client = httpx2.AsyncClient(**options)

    async def _carry(self, talk: Talk[T]) -> T:
        answer = None
        try:
            while True:
                step = talk.send(answer)
                answer = None
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    continue
                try:
                    response = await self._client.request(
                        step.method, step.path, content=step.body, headers=step.headers
                    )
                except (httpx2.TransportError, httpx2.DecodingError):
                    continue
                answer = Answer(response.status_code, response.headers, response.content)
        except StopIteration as end:
            result: T = end.value
            return result

    async def close(self) -> None:
        """Give back connections; what is kept in files stays."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Conversation(Generic[P, T]):
    """A method that is a `Talk`: called on a plain party it returns its result, on an asynchronous
    one it is awaited."""

    def __init__(self, talk: Callable[Concatenate[Any, P], Talk[T]]) -> None:
        self.talk = talk
        update_wrapper(self, talk)  # type: ignore[arg-type]

    @overload
    def __get__(self, party: None, kind: type) -> Self: ...
    @overload
    def __get__(self, party: Asynchronous, kind: type) -> Callable[P, Awaitable[T]]: ...
    @overload
    def __get__(self, party: Plain, kind: type) -> Callable[P, T]: ...

    def __get__(self, party: Any, kind: type) -> Any:
        if party is None:
            return self

        def carried(*args: P.args, **kwargs: P.kwargs) -> Any:
            return party._carry(self.talk(party, *args, **kwargs))

        return update_wrapper(carried, self.talk)


def study_path(study: str, *parts: str) -> str:
    """Where something of a study is."""
    return "/".join(["/v1/studies", *(quote(part, safe="") for part in (study, *parts))])


def paused(study: str, patience: Patience) -> Talk[bool]:
    """Whether a study takes nothing now, and may again."""
    facts = (yield from ask(Request("GET", study_path(study)), patience)).fields()
    return isinstance(facts, Mapping) and facts.get("state") == "paused"


def table_path(table: str, *parts: str) -> str:
    """Where something of an outsourced table is."""
    return "/".join(["/v1/tables", *(quote(part, safe="") for part in (table, *parts))])


def _checked_url(url: str, allow_http: bool) -> str:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname)
        known = known and not (parts.query or parts.fragment or parts.username)
    except (ValueError, TypeError, AttributeError):
        known = False
    if not known:
        raise InvalidInput(
            f"url was {url!r:.200}; give the address of the service, such as "
            "https://trial.example.org or http://127.0.0.1:8000."
        )
    if parts.scheme == "http" and parts.hostname not in _LOCAL and not allow_http:
        raise InvalidInput(
            f"url was {url!r:.200}, where anybody on the way can read the key; give an https "
            "address, or say allow_http=True inside a network that only you use."
        )
    return url.rstrip("/")
