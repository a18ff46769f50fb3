"""HTTP transport of the clients: retries, the asynchronous wrapper, and chosen actions.

A request without an answer is sent again after a random pause whose bound doubles. `Retry-After` is
obeyed. A request that the service refused (4xx) is never sent again.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Self
from urllib.parse import quote, urlsplit

import numpy as np

from discreet.learners.policy import Actions, Policy
from discreet.people.domain import whole_names
from discreet.validation import InvalidInput, positive_number, whole_number

if TYPE_CHECKING:
    import httpx2
# Loaded at the first request, because it takes as long as NumPy.
elif find_spec("httpx2") is None:
    raise ModuleNotFoundError(
        'clients of a service need httpx2, which is not installed; run pip install "httpx2>=2", or '
        'pip install "discreet[service]".'
    )

# Temporary refusals: too slow, too early, too many.
_LATER = (408, 425, 429)
_LOCAL = ("localhost", "127.0.0.1", "::1")
_TOKEN = re.compile("[!-~]+")  # of a header's value
# Characters of an error of the service that are shown.
_MOST_SHOWN = 500


class Refused(InvalidInput):
    """The service refused a request, which is not sent again.

    Attributes:
        status: of the answer, 400 to 499.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Unreachable(ConnectionError):
    """The service did not answer, or cannot work now; try again later.

    Data to be sent stay in the client's file, if it has one.

    Attributes:
        status: of the last answer; None where there was none.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Patience:
    """How often and how long a request is tried.

    Attributes:
        attempts: in all.
        first: bound of the first pause in seconds; it doubles with each further pause.
        longest: bound of every pause in seconds; the client stops if the service asks for more.
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

    def pause(self, attempt: int, answer: httpx2.Response | None) -> float:
        """Seconds to wait after an attempt, counted from 0."""
        drawn = random.uniform(0.0, min(self.longest, self.first * 2.0**attempt))
        asked = 0.0 if answer is None else retry_after(answer.headers)
        return drawn if asked == 0.0 else asked + random.uniform(0.0, self.first)


# While a person waits: one attempt.
AT_ONCE = Patience(attempts=1)


class Client:
    """A connection to a service with a key; its methods block.

    Args:
        url: of the service, such as https://trial.example.org.
        key: the token that the operator gave out.
        patience: how long requests are tried; None for six attempts within a minute or two.
        transport: of httpx2, such as a proxy; None for the network.
        allow_http: whether the key may travel unencrypted to another machine.

    Attributes:
        url: as it was given.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str,
        patience: Patience | None = None,
        transport: httpx2.BaseTransport | None = None,
        allow_http: bool = False,
    ) -> None:
        self.url = _checked_url(url, allow_http)
        if not isinstance(key, str) or not _TOKEN.fullmatch(key):
            raise InvalidInput(
                f"key was {'empty' if key == '' else 'no token'}; give the one that `discreet keys "
                "make` showed, as a text without a new line at its end."
            )
        self.patience = patience or Patience()
        self._options: dict[str, Any] = {
            "base_url": self.url,
            "headers": {"Authorization": f"Bearer {key}", "Accept": "application/json"},
            "timeout": self.patience.timeout,
            "transport": transport,
        }

    @cached_property
    def _http(self) -> httpx2.Client:
        import httpx2

        return httpx2.Client(**self._options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def close(self) -> None:
        """Close the connections; files stay."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        etag: str | None = None,
        patience: Patience | None = None,
    ) -> httpx2.Response:
        """The answer to a request, 2xx or 304, after as many attempts as patience allows.

        Args:
            method: of HTTP.
            path: under the address of the service, quoted.
            body: JSON as it is sent; None for none.
            etag: of the copy at hand; None for none.
            patience: None for that of the client.

        Raises:
            Refused: for a request that the service does not accept.
            Unreachable: after the last attempt.
        """
        import httpx2

        patience, headers = patience or self.patience, _headers(body, etag)
        what = f"{method} {path}"
        answer, cause = None, ""
        for attempt in range(patience.attempts):
            try:
                answer = self._http.request(method, path, content=body, headers=headers)
                status = answer.status_code
            except (httpx2.TransportError, httpx2.DecodingError) as error:
                answer, status, cause = None, 503, f"{type(error).__name__} {error}"[:_MOST_SHOWN]
            if answer is not None and (200 <= status < 300 or status == 304):
                return answer
            # An answer without a reason is not the service's but, say, a proxy's.
            if answer is not None and status < 500 and status not in _LATER and _error(answer):
                raise Refused(f"the service refused {what} {_reason(answer)}", status)
            pause = patience.pause(attempt, answer)
            if attempt + 1 == patience.attempts or pause > patience.longest + patience.first:
                break
            time.sleep(pause)
        if answer is None:
            raise Unreachable(
                f"the service did not answer {what} ({cause.strip()}); check its address, "
                f"{self.url}, and its certificate."
            )
        raise Unreachable(f"the service put off {what} {_reason(answer)}", answer.status_code)

    def _paused(self, study: str, patience: Patience) -> bool:
        """Whether a study is paused, and may accept the request later."""
        facts = fields_of(self._ask("GET", study_path(study), patience=patience))
        return isinstance(facts, Mapping) and facts.get("state") == "paused"


class AsyncClient:
    """A client whose methods are awaited: each call runs in a thread (`asyncio.to_thread`).

    A call goes on when its await is cancelled; what it keeps in files is kept as ever.

    Args:
        args, options: as of the class `blocking`.
    """

    blocking: ClassVar[type[Client]]

    def __init__(self, *args: Any, **options: Any) -> None:
        self._client = self.blocking(*args, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self._client, name)
        if not callable(value):
            return value

        @wraps(value)
        async def awaited(*args: Any, **options: Any) -> Any:
            from asyncio import to_thread  # a device that blocks loads none of it

            return await to_thread(value, *args, **options)

        return awaited

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._client.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def fields_of(answer: httpx2.Response) -> Any:
    """The JSON values of an answer; `Unreachable` where another program answered."""
    try:
        return json.loads(answer.content)
    except (ValueError, RecursionError) as error:
        raise Unreachable(
            f"the answer {answer.status_code} is no JSON, so it is not the service's, or is "
            "incomplete; check the proxies on the way, and try again."
        ) from error


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that a service asks for; 0 where it does not."""
    text = headers.get("retry-after", "").strip()
    return float(text[:9]) if text.isascii() and text.isdigit() else 0.0


def body_of(fields: Any) -> bytes:
    """JSON values, among them those of NumPy, as they are sent.

    Raises:
        InvalidInput: for values that JSON does not have.
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
    if isinstance(value, np.ndarray | np.generic) and not isinstance(value, np.longdouble):
        return value.tolist()
    raise InvalidInput(
        f"a value was {type(value).__name__}; give numbers and texts, by column or in order."
    )


def study_path(study: str, *parts: str) -> str:
    """The path of a study, or of a part of it."""
    return "/".join(["/v1/studies", *(quote(part, safe="") for part in (study, *parts))])


def table_path(table: str, *parts: str) -> str:
    """The path of an outsourced table, or of a part of it."""
    return "/".join(["/v1/tables", *(quote(part, safe="") for part in (table, *parts))])


def _headers(body: bytes | None, etag: str | None) -> dict[str, str]:
    headers = {}
    if body is not None:
        # A proxy that compressed the answer would bring back the length that padding hides.
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    return headers if etag is None else {**headers, "If-None-Match": f'"{etag}"'}


def _error(answer: httpx2.Response) -> str | None:
    try:
        error = json.loads(answer.content)["error"]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return error if isinstance(error, str) else None


def _reason(answer: httpx2.Response) -> str:
    reason = _error(answer) or "no reason was given."
    # Half of a pair of surrogates cannot be kept.
    return f"({answer.status_code}): {reason[:_MOST_SHOWN].encode(errors='replace').decode()}"


def _checked_url(url: str, allow_http: bool) -> str:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname)
        known = known and not (parts.query or parts.fragment or "@" in parts.netloc)
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
            "address, or allow http (allow_http=True, --allow-http) inside a network that only "
            "you use."
        )
    return url.rstrip("/")


@dataclass(frozen=True)
class ChosenAction:
    """An action for one person.

    Attributes:
        id: of the decision, for its reward; None where the person is not learnt from.
        version: of the policy that chose; None for the default arm.
        arm: what was chosen, by number: one of the arms, or the place in a decision set; -1 for a
            point, None where only the name is known.
        name: of the arm; None where arms have no names.
        point: what was chosen, where actions are points.
        propensity: the probability with which it was chosen; 1 for the default arm.
        offered: whether a policy chose, and not the default for when there is none.
        warning: why a service moved values of the context to the nearest that the domain allows;
            None where it moved none.
    """

    id: str | None
    version: int | None
    arm: int | None = field(repr=False)
    name: str | None = field(repr=False)
    point: tuple[float, ...] | None = field(repr=False)
    propensity: float = field(repr=False)
    offered: bool
    warning: str | None = field(default=None, repr=False)

    @classmethod
    def made(
        cls, identity: str | None, policy: Policy[Any], actions: Actions, propensity: float
    ) -> ChosenAction:
        """The first of the actions that a policy chose."""
        arm = int(actions.arms[0])
        return cls(
            identity,
            policy.version,
            arm,
            policy.arm_names[arm] if policy.arm_names and arm >= 0 else None,
            None if actions.points is None else tuple(map(float, actions.points[0])),
            propensity,
            True,
        )

    @classmethod
    def default(cls, arm: int | str, names: tuple[str, ...] = ()) -> ChosenAction:
        """The default arm, by name or number, while no policy can choose.

        Raises:
            InvalidInput: for one that is not among the arms whose names are given.
        """
        if names:
            number: int | None = int(whole_names([arm], names, len(names))[0])
            return cls(None, None, number, names[number or 0], None, 1.0, False)
        number = arm if isinstance(arm, int) else None
        name = arm if isinstance(arm, str) else None
        return cls(None, None, number, name, None, 1.0, False)
