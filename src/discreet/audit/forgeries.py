"""Policies that a dishonest server may send: an honest one, of which something is forged.

Every number, list and array in a policy's JSON is forged, one after the other: halved, doubled, a
hundred times as large or as small (a narrow domain, a norm that is false), set to 0 (so that all
choices tie), made the same everywhere; and all numbers of a part are halved together (a scale with
its sensitivity). What the reader accepts is a policy that a device may meet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from operator import mul
from typing import Any

from discreet.learners.messages import Policy
from discreet.learners.schema import decode, encode
from discreet.learners.sources import SourcePolicy

# Lists longer than this are forged as a whole, never entry by entry.
_FEW = 2
_FACTORS = (0.01, 0.5, 2.0, 100.0)
_QUIETER = 0.5


def forgeries(policy: Policy[Any] | SourcePolicy) -> Iterator[tuple[str, Any]]:
    """Forged policies that a reader accepts, with what was forged."""
    kind = SourcePolicy if isinstance(policy, SourcePolicy) else Policy
    content = json.loads(encode(policy))
    for words, forged in _forged(content, ""):
        if forged == content:
            continue
        try:
            yield words, decode(json.dumps(forged), kind)
        except ValueError:
            continue  # refused by the reader, before anybody's data is there


def without_flags(policy: Policy[Any] | SourcePolicy) -> Iterator[tuple[str, Any]]:
    """Policies that differ by one flag that is off, such as an arm that was given up somewhere."""
    kind = SourcePolicy if isinstance(policy, SourcePolicy) else Policy
    for words, forged in _off(json.loads(encode(policy)), ""):
        try:
            yield words, decode(json.dumps(forged), kind)
        except ValueError:
            continue  # no state of a learner


def _off(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """(words, other value) of a message with the first flag of each table off."""
    if isinstance(value, dict):
        for key, item in value.items():
            for words, other in _off(item, f"{name}.{key}".removeprefix(".")):
                yield words, {**value, key: other}
    elif isinstance(value, list) and value and isinstance(value[0], bool | list):
        for words, other in _off(value[0], name):
            yield words, [other, *value[1:]]
        if value[0] is True:
            yield f"one of {name} false", [False, *value[1:]]


def _forged(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """(words, other value) of all forgeries of a part of the message with that name."""
    if isinstance(value, dict):
        numbers = {key: item for key, item in value.items() if isinstance(item, float)}
        if len(numbers) > 1:
            quieter = {key: _QUIETER * item for key, item in numbers.items()}
            yield f"all numbers of {name} halved", {**value, **quieter}
        for key, item in value.items():
            for words, other in _forged(item, f"{name}.{key}".removeprefix(".")):
                yield words, {**value, key: other}
    elif isinstance(value, float):
        for factor in _FACTORS:
            yield f"{name} times {factor:g}", factor * value
    elif isinstance(value, list) and value:
        leaves = list(_leaves(value))
        if all(isinstance(item, bool) for item in leaves):
            yield f"all of {name} true", _each(value, lambda item: True)
        elif all(isinstance(item, int | float) for item in leaves):
            for factor in _FACTORS:
                yield f"{name} times {factor:g}", _each(value, partial(mul, factor))
            yield f"{name} all 0", _each(value, lambda item: 0 * item)
            yield f"{name} all the same", _each(value, lambda item: leaves[0])
        elif len(value) <= _FEW:
            for place, item in enumerate(value):
                for words, other in _forged(item, f"{name}.{place}"):
                    yield words, [*value[:place], other, *value[place + 1 :]]


def _leaves(value: Any) -> Iterator[Any]:
    for item in value:
        yield from _leaves(item) if isinstance(item, list) else (item,)


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    return [_each(item, change) for item in value] if isinstance(value, list) else change(value)
