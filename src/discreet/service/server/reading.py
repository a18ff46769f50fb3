"""Reports of several messages, read together.

Messages that say the same but for the rows of their people are put together
as lists, and become arrays and are checked once: many messages of one person each cost little more
than one of many. Where that is refused, or may not give what each message gives by itself, each is
read by itself, and the refusal is that of the first that is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.codec import SCHEMA, class_of, decode, fields_from_json
from discreet.learners.messages import Reports
from discreet.validation import InvalidInput

# What the leaves of a list may be. One kind at a time: NumPy reads [1, true] and [1, 0.5] as what
# neither [1] nor [true] is by itself.
_LEAVES = ({int}, {float}, {bool})


@dataclass(frozen=True)
class ReadReports:
    """The content of several messages.

    Attributes:
        reports: of all of them, one after another.
        places: of the messages among those that were read, increasing.
        sizes: how many reports each of them had.
    """

    reports: Reports
    places: list[int]
    sizes: list[int]


@dataclass
class _Alike:
    """Messages with the same header, and their rows one after another."""

    header: dict[str, Any]
    names: list[str]
    rows: list[list[Any]]
    places: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)


def read_reports(texts: Sequence[str]) -> list[ReadReports]:
    """The reports of messages, together where they can be.

    Args:
        texts: messages as `encode` made them.

    Raises:
        InvalidInput: as `decode`, for the first message that is wrong.
    """
    try:
        return [_together(each) for each in _alike(texts)]
    except (InvalidInput, ValueError, TypeError, RecursionError):
        made = [decode(text, Reports) for text in texts]
        return [ReadReports(each, [place], [len(each)]) for place, each in enumerate(made)]


def _alike(texts: Sequence[str]) -> list[_Alike]:
    """Messages by their headers, in the order in which these came first."""
    groups: dict[Any, _Alike] = {}
    for place, text in enumerate(texts):
        header, end = _READER.raw_decode(text)
        if end != len(text) or type(header) is not dict:
            raise ValueError("not one object")
        names = [name for name, value in header.items() if type(value) is list and value]
        rows = [header.pop(name) for name in names]
        (size,) = set(map(len, rows))
        # Values as text, because 1, 1.0 and true are equal numbers and different values.
        key = (*names, None, *header, repr([*header.values()]))
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Alike(header, names, [[] for _ in names])
        for their, row in zip(group.rows, rows, strict=True):
            their += row
        group.places.append(place)
        group.sizes.append(size)
    return list(groups.values())


def _together(alike: _Alike) -> ReadReports:
    header = dict(alike.header)
    schema = header.pop("schema", None)
    message: Any = class_of(header.pop("kind", None), Reports, "the message")
    if type(schema) is not int or schema != SCHEMA:
        raise ValueError("another schema")
    arrays = dict(zip(alike.names, map(_array, alike.rows), strict=True))
    reports = fields_from_json({**header, **arrays}, message)
    if len(reports) != sum(alike.sizes):
        raise ValueError("messages with other rows than those of people")
    return ReadReports(reports, alike.places, alike.sizes)


def _array(values: list[Any]) -> NDArray[Any]:
    """Nested lists as an array; `ValueError` unless their leaves are of one kind of numbers."""
    leaves = values
    while (kinds := set(map(type, leaves))) == {list}:
        leaves = list(chain.from_iterable(leaves))
    if kinds not in _LEAVES:
        raise ValueError("lists of several kinds")
    return np.asarray(values)


def _no_constant(name: str) -> None:
    raise ValueError(f"it held {name}")


_READER = json.JSONDecoder(parse_constant=_no_constant)
