"""Errors of requests, each with its status of HTTP; others are `InvalidInput` (400)."""

from __future__ import annotations

from discreet.validation import InvalidInput


class RequestError(InvalidInput):
    """A request that is refused.

    Attributes:
        status: of HTTP.
    """

    status = 400


class Unauthorized(RequestError):
    """The request has no valid key."""

    status = 401


class Forbidden(RequestError):
    """The key is for another role or study."""

    status = 403


class NotFound(RequestError):
    """There is no such study, policy, decision, table or key, or not for this key."""

    status = 404


class TooLate(RequestError):
    """The request did not arrive as a whole in time."""

    status = 408


class Conflict(RequestError):
    """The request contradicts what is stored."""

    status = 409


class Gone(RequestError):
    """The decision expired, or the study ended."""

    status = 410


class TooLarge(RequestError):
    """The request has too many bytes or values."""

    status = 413


class TooMany(RequestError):
    """Requests arrive faster than the limit.

    Attributes:
        seconds: after which the next one is accepted.
    """

    status = 429

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


def place_of(error: BaseException | None) -> str:
    """The line of code that raised an exception."""
    trace = error.__traceback__ if error is not None else None
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
