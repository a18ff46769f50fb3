"""Options of learners: their names are the keyword arguments of constructors."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, get_type_hints


@cache
def keywords(kind: type) -> list[str]:
    """The keyword arguments of a constructor."""
    parameters = inspect.signature(kind).parameters.values()
    return [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]


@cache
def hints_of(kind: type) -> dict[str, Any]:
    """What a class says about its attributes."""
    return get_type_hints(kind, include_extras=True)
