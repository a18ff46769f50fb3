"""What a request is refused with, beside `InvalidInput` for what is wrong with itself."""

from __future__ import annotations

from discreet.validation import InvalidInput


class NotFound(InvalidInput):
    """What was asked for is not here, or not for this key."""


class Conflict(InvalidInput):
    """It does not go with what is stored already."""


class Gone(InvalidInput):
    """It was here, and is no longer: a decision that expired, reports to a study that ended."""
