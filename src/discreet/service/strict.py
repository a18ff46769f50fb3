"""JSON of requests, read so that it can mean one thing only.

Refused are: text that is not UTF-8, a name that an object has twice, NaN and infinity (1e999 too),
whole numbers of more than 64 bits, NUL and halves of surrogate pairs in texts, and values that lie
in each other too deep.
"""

from __future__ import annotations

import json
import math
from typing import Any

from discreet.validation import InvalidInput

_DEEPEST = 32
_MOST_DIGITS = 20


def read_json(body: bytes) -> Any:
    """The values of a request's body; None where it is empty.

    Raises:
        InvalidInput: which says what is wrong with it, and shows none of it.
    """
    if not body:
        return None
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise InvalidInput("the body is not UTF-8; send JSON in UTF-8.") from None
    try:
        values = json.loads(
            text,
            object_pairs_hook=_object,
            parse_float=_float,
            parse_int=_int,
            parse_constant=_no_constant,
        )
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"the body is not JSON ({error.msg} at character {error.pos}); send one JSON object."
        ) from None
    except RecursionError:
        raise _too_deep() from None
    _check_depth(values)
    if "\\u" in text:
        _check_texts(values)
    elif "\0" in text:
        raise _no_text()
    return values


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise InvalidInput("the body has a name twice in one object; send each name once.")
    return values


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise InvalidInput("the body has a number beyond 1.8e308; send finite numbers.")
    return number


def _int(text: str) -> int:
    number = int(text) if len(text) <= _MOST_DIGITS else 2**64
    if not -(2**63) <= number < 2**64:
        raise InvalidInput("the body has a whole number of more than 64 bits; send smaller ones.")
    return number


def _no_constant(name: str) -> None:
    raise InvalidInput(f"the body has {name}, which is not JSON; send finite numbers, or null.")


def _check_depth(values: Any) -> None:
    """Refuse what lies too deep for what goes through it later."""
    level = [values]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, (list, dict))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (list, dict))
        ]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> InvalidInput:
    return InvalidInput(f"the body is nested more than {_DEEPEST} deep; send it flatter.")


def _check_texts(values: Any) -> None:
    if isinstance(values, str):
        if "\0" in values or any("\ud800" <= each <= "\udfff" for each in values):
            raise _no_text()
    elif isinstance(values, dict):
        for name, value in values.items():
            _check_texts(name)
            _check_texts(value)
    elif isinstance(values, list):
        for value in values:
            _check_texts(value)


def _no_text() -> InvalidInput:
    return InvalidInput("the body has a text with NUL, or half a surrogate pair; send neither.")
