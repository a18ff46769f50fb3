"""Every check passes what it allows as it stands, and names what it refuses and what it allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from discreet.validation import (
    ErrorCollector,
    InvalidInput,
    distinct,
    finite_number,
    instance_of,
    number_from,
    one_of,
    ordered,
    positive_number,
    probability,
    whole_number,
)

PASSES: list[tuple[Callable[[Any], Any], Any, Any]] = [
    (lambda x: finite_number(x, "it"), np.float32(0.5), 0.5),
    (lambda x: positive_number(x, "it"), 2, 2.0),
    (lambda x: probability(x, "it"), 0.25, 0.25),
    (lambda x: number_from(x, "it", 0.0, 1.0), 1, 1.0),
    (lambda x: number_from(x, "it", 0.0), 0, 0.0),
    (lambda x: whole_number(x, "it", 1, 3), np.int64(3), 3),
    (lambda x: one_of(x, "it", ("a", "b")), "b", "b"),
    (lambda x: instance_of(x, "it", dict, "a table"), {}, {}),
    (lambda x: distinct(x, "they"), ["a", "b"], ("a", "b")),
]
REFUSES: list[tuple[Callable[[Any], Any], Any, str]] = [
    (lambda x: finite_number(x, "it"), True, "it was True; it must be a finite number."),
    (lambda x: finite_number(x, "it"), 10**400, "must be a finite number"),
    (lambda x: finite_number(x, "it"), math.nan, "it was nan"),
    (lambda x: positive_number(x, "it"), 0.0, "it was 0.0; it must be a finite number above 0."),
    (lambda x: probability(x, "it"), 1.0, "strictly between 0 and 1"),
    (lambda x: number_from(x, "it", 0.0, 1.0), 1.5, "it was 1.5; it must be a number from 0 to 1."),
    (lambda x: number_from(x, "it", 0.0), -1, "it was -1; it must be a finite number of at least"),
    (lambda x: number_from(x, "it", 0.0, 1.0, "a share"), -1, "it was -1; it must be a share."),
    (lambda x: number_from(x, "it", 0.0), math.inf, "it was inf"),
    (lambda x: whole_number(x, "it", 1, 3), 4, "it was 4; it must be a whole number from 1 to 3."),
    (lambda x: whole_number(x, "it"), 1.0, "it was 1.0; it must be a whole number of at least 0."),
    (lambda x: one_of(x, "it", ("left", "up")), "lefd", "'lefd'; it must be one of left, up. Did"),
    (lambda x: one_of(x, "it", (0, 1)), True, "it was True; it must be one of 0, 1."),
    (lambda x: one_of(x, "it", ("a",)), ["a"], "must be one of a."),
    (lambda x: instance_of(x, "it", dict, "a table"), 3, "it was an int; give a table."),
    (lambda x: distinct(x, "they"), ["a", "a"], "they were ['a', 'a']; give at least one, each"),
    (lambda x: distinct(x, "they", 2), ["a"], "give at least two, each once."),
    (lambda x: ordered(*x, "bounds were"), (1.0, 1.0), "bounds were [1.0, 1.0]; the lower must be"),
    (lambda x: ordered(*x, "bounds were"), (-1.7e308, 1.7e308), "bounds were"),
]


@pytest.mark.parametrize(("check", "given", "value"), PASSES)
def test_what_is_allowed_passes(check: Callable[[Any], Any], given: Any, value: Any) -> None:
    passed = check(given)
    assert passed == value
    assert type(passed) is type(value)


@pytest.mark.parametrize(("check", "given", "message"), REFUSES)
def test_what_is_refused_is_named(check: Callable[[Any], Any], given: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        check(given)
    assert message in str(refusal.value)


def test_everything_that_is_wrong_is_said_once() -> None:
    errors = ErrorCollector()
    for value in (-1.0, 2.0, -1.0):
        with errors.collected("line 3: "):
            number_from(value, "it", 0.0, 1.0)
    with pytest.raises(InvalidInput) as refusal:
        errors.raise_if_any()
    assert str(refusal.value).startswith("2 things are wrong.\n1. line 3: it was -1.0")
