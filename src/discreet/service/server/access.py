"""Routes with the roles that may use them, and answers to errors: a status and a message.

A route without roles is closed to all keys. A key is checked before a body is read.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar
from fastapi import APIRouter, FastAPI, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.exceptions import HTTPException

from discreet.codec import padded
from discreet.service.server.bodies import Refusal
from discreet.service.server.database import Unavailable
from discreet.service.server.errors import Forbidden, RequestError, TooMany, Unauthorized, place_of
from discreet.service.server.keys import ROLES, ApiKey, Role
from discreet.validation import InvalidInput

ALL: tuple[Role, ...] = ROLES
# The name of a study, source or table in a path.
Named = Annotated[str, Path(min_length=1, max_length=100)]
_ROLES = "x-roles"
# What the OpenAPI document calls the way in which keys are sent.
SCHEME = "key"
# Where the middleware leaves a request's key.
KEY = "discreet.key"
# Bytes of a body that is read in the event loop; longer ones would keep others waiting.
_SMALL = 2**13
# Requests with longer bodies that an event loop serves at once. A thread that parses one holds
# Python's lock for milliseconds, and the event loop waits for each such thread in turn. With one
# alone, no request would be parsed while the database commits another.
_MOST_LARGE = 2
_LARGE: RunVar[CapacityLimiter] = RunVar("discreet large bodies")
_LOG = logging.getLogger(__name__)
_RETRY_SECONDS = 1
_REFUSAL_BYTES = 1024
_WORDS = {
    404: "there is nothing at this path; see /v1/openapi.json for what there is.",
    405: "this path does not take this method; the header Allow says which ones it takes.",
}


class ReadRequest(Request):
    """A request whose body has been read already, as `content`."""

    content: Any = None

    async def json(self) -> Any:
        return self.content


class Guarded(APIRoute):
    """A route for some roles."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()
        roles = (self.openapi_extra or {}).get(_ROLES, ())
        kind: Any = self.body_field and self.body_field.field_info.annotation
        model: TypeAdapter[Any] | None = None if kind is None else TypeAdapter(kind)

        async def handler(request: Request) -> Response:
            check_access(request, roles)
            read = ReadRequest(request.scope, request.receive)
            body = await read.body()
            check_json(read, body)
            if not body or model is None:
                return await inner(read)
            if len(body) <= _SMALL:
                read.content = read_body(model, body)
                return await inner(read)
            async with _large_bodies():
                read.content = await to_thread.run_sync(read_body, model, body)
                return await inner(read)

        return handler


def _large_bodies() -> CapacityLimiter:
    """The limiter of this event loop for requests with large bodies."""
    try:
        return _LARGE.get()
    except LookupError:
        _LARGE.set(limiter := CapacityLimiter(_MOST_LARGE))
        return limiter


def read_body(model: TypeAdapter[Any], body: bytes) -> Any:
    """What a body holds, which FastAPI takes as it is.

    Raises:
        RequestValidationError: for anything else, without its values.
    """
    try:
        return model.validate_json(body)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)
        places = [{**each, "loc": ("body", *each["loc"])} for each in wrong]
        raise RequestValidationError(places) from None


def check_access(request: Request, roles: tuple[Role, ...]) -> None:
    """Refuse a request whose key has none of these roles, or is for another study or table."""
    key: ApiKey | None = request.scope.get(KEY)
    if key is None:
        raise Unauthorized("no key came with the request; send `Authorization: Bearer TOKEN`.")
    if key.role not in roles:
        raise Forbidden(
            f"the key is one for the role {key.role}; this is for {' or '.join(roles) or 'none'}."
        )
    owner = request.path_params.get("study", request.path_params.get("table"))
    if owner is not None and not key.covers(owner):
        raise Forbidden(f"the key is one for {key.study!r} alone; ask with a key for this one.")


def check_json(request: Request, body: bytes) -> None:
    """Refuse a body that does not say that it is JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind != "application/json":
        raise InvalidInput(
            f"the body was {kind or 'of no type'!r:.80}; send JSON with Content-Type: "
            "application/json."
        )


def key_of(request: Request) -> ApiKey:
    """The key that a request came with."""
    key: ApiKey = request.scope[KEY]
    return key


def router(tag: str) -> APIRouter:
    """A router of such routes, under one tag of the OpenAPI document."""
    return APIRouter(route_class=Guarded, responses=REFUSALS, tags=[tag])


def only(*roles: Role) -> dict[str, Any]:
    """For `openapi_extra`: the roles that a route is for."""
    return {_ROLES: roles, "security": [{SCHEME: []}]}


REFUSALS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": Refusal, "description": "It was refused, and nothing has changed."},
    "503": {"model": Refusal, "description": "It cannot be done now; try again."},
}


def answer_to(error: Exception) -> JSONResponse:
    """The answer to an error.

    The message of an unexpected error may quote what a person sent, so only its kind and the line
    of code are logged.
    """
    if isinstance(error, Unavailable):
        return refusal(503, str(error), _headers(error))
    if isinstance(error, InvalidInput):
        code = error.status if isinstance(error, RequestError) else 400
        return refusal(code, str(error), _headers(error))
    _LOG.error("a request failed with %s at %s", type(error).__name__, place_of(error))
    return refusal(
        503,
        "the server failed, and nothing has changed; try again, and inform its operator.",
        {"Retry-After": str(_RETRY_SECONDS)},
    )


class PaddedResponse(JSONResponse):
    """JSON at a length that many contents have.

    Args:
        content, status_code, headers: as of `JSONResponse`.
        size: bytes of which the length is a multiple; public.
    """

    def __init__(
        self, content: Any, status_code: int, size: int, headers: dict[str, str] | None = None
    ) -> None:
        self._size = size
        super().__init__(content, status_code, headers)

    def render(self, content: Any) -> bytes:
        return padded(super().render(content), self._size)


def refusal(code: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """A refusal, of one length because its message may quote a value; the end of a long message is
    left out."""
    while len(JSONResponse({"error": message}).body) > _REFUSAL_BYTES:
        message = f"{message[: 9 * len(message) // 10]}…"
    return PaddedResponse({"error": message}, code, _REFUSAL_BYTES, headers)


def _headers(error: Exception) -> dict[str, str]:
    if isinstance(error, Unauthorized):
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(error, TooMany):
        return {"Retry-After": str(max(math.ceil(error.seconds), 1))}
    if isinstance(error, Unavailable):
        return {"Retry-After": str(_RETRY_SECONDS)}
    return {}


def add_answers(app: FastAPI) -> None:
    """Set the error handlers of an application."""

    async def refused(request: Request, error: Exception) -> JSONResponse:
        return answer_to(error)

    async def invalid(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return refusal(400, _in_words(error))

    async def unmatched(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        words = _WORDS.get(error.status_code, f"{error.detail.rstrip('.')}.")
        return refusal(error.status_code, words, dict(error.headers or {}))

    app.add_exception_handler(InvalidInput, refused)
    app.add_exception_handler(Unavailable, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, unmatched)


def _in_words(error: RequestValidationError) -> str:
    """What is wrong with the fields of a request, without their values."""
    wrong = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:3]]
    return f"the request was wrong ({'; '.join(wrong)}); see /v1/openapi.json for its form."
