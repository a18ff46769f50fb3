"""Options of learners: their names are the keyword arguments of constructors."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, get_type_hints

from discreet.validation import InvalidInput, nearest


@cache
def keywords(kind: type) -> list[str]:
    """The keyword arguments of a constructor."""
    parameters = inspect.signature(kind).parameters.values()
    return [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]


@cache
def hints_of(kind: type) -> dict[str, Any]:
    """What a class says about its attributes."""
    return get_type_hints(kind, include_extras=True)


def check_options(owner: str, options: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse an option that is not among those known."""
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InvalidInput(
            f"{owner} got the option {unknown[0]!r}; its options are "
            f"{', '.join(known) or 'none'}.{nearest(unknown[0], known)}"
        )
