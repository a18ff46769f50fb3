"""What a request is refused with, beside `InvalidInput` for what is wrong with itself."""

from __future__ import annotations

from discreet.validation import InvalidInput


class NotFound(InvalidInput):
    """What was asked for is not here, or not for this key."""


class Conflict(InvalidInput):
    """It does not go with what is stored already."""


class Gone(InvalidInput):
    """It was here, and is no longer: a decision that expired, reports to a study that ended."""


class Unauthorized(InvalidInput):
    """No key came with a request, or one that opens nothing."""


class Forbidden(InvalidInput):
    """The key is one for something else."""


class TooLarge(InvalidInput):
    """A request has more bytes than are taken."""


class TooLate(InvalidInput):
    """A request did not arrive as a whole in time."""


class TooMany(InvalidInput):
    """Requests come faster than they are taken.

    Attributes:
        seconds: after which the next one is taken.
    """

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds
