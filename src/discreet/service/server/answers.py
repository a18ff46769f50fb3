"""Answers to errors: a status, and a message for a person."""

from __future__ import annotations

import logging
import math
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from discreet.codec import padded
from discreet.service.server.database import Unavailable
from discreet.service.server.errors import RequestError, TooMany, Unauthorized
from discreet.service.server.logs import place_of
from discreet.validation import InvalidInput

_LOG = logging.getLogger(__name__)
_RETRY_SECONDS = 1
_REFUSAL_BYTES = 1024
_WORDS = {
    404: "there is nothing at this path; see /v1/openapi.json for what there is.",
    405: "this path does not take this method; the header Allow says which ones it takes.",
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
