"""Every key, header and entry of a TOML file is known by its line."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.toml_lines import Location, value_lines
from discreet.toml_words import toml_text

TEXT = '''# "not" = 1 [nor] this
seed = 1 # [nor] = this
title = """
[no header]
key = 1 \\"""
"""
raw = \'\'\'it's
[none]\'\'\'
"a key" = [ [1, 2],
  [3] ]
a . b = { c = "}", "d]" = [1,
  { e = 2 }] }

[problem] # a table
columns = [ { name = "x # 1", lower = 0 },
  # between
  { name = "y", values = ["a",
    "b"] }, { name = "z" },
]
[problem.options.deep]
at = 1979-05-27 07:32:00
[[learners]]
name = 'one'
[learners.options]
b = 1
[[learners]]
[[learners.sources]]
[[learners.sources]]
name = "s"
[[problem.other]]
'''


@pytest.mark.parametrize(
    ("location", "line"),
    [
        (("seed",), 2),
        (("title",), 3),
        (("raw",), 7),
        (("a key",), 9),
        (("a key", 0, 1), 9),
        (("a key", 1), 10),
        (("a",), 11),
        (("a", "b", "c"), 11),
        (("a", "b", "d]", 1, "e"), 12),
        (("problem",), 14),
        (("problem", "columns"), 15),
        (("problem", "columns", 0, "lower"), 15),
        (("problem", "columns", 1, "values"), 17),
        (("problem", "columns", 1, "values", 1), 18),
        (("problem", "columns", 2, "name"), 18),
        (("problem", "options", "deep", "at"), 21),
        (("learners",), 22),
        (("learners", 0, "options", "b"), 25),
        (("learners", 1), 26),
        (("learners", 1, "sources", 0), 27),
        (("learners", 1, "sources", 1, "name"), 29),
        (("problem", "other", 0), 30),
    ],
)
def test_lines(location: Location, line: int) -> None:
    tomllib.loads(TEXT)
    assert value_lines(TEXT)[location] == line


def test_nothing_else_is_taken_for_a_value() -> None:
    known = value_lines(TEXT)
    assert {location[0] for location in known} == set(tomllib.loads(TEXT))
    assert locations(tomllib.loads(TEXT)) == set(known)


def test_line_ends_of_another_system() -> None:
    text = TEXT.replace("\n", "\r\n")
    assert value_lines(text) == value_lines(TEXT)


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.integers(-9, 9) | st.text() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_whatever_is_written_is_passed_whole(content: dict[str, Any]) -> None:
    text = "".join(f"{toml_text(key)} = {toml_text(value)}\n" for key, value in content.items())
    assert tomllib.loads(text) == content
    known = value_lines(text)
    assert set(known) == locations(content)
    for line, key in enumerate(content, start=1):
        assert known[key,] == line


def locations(value: Any, so_far: Location = ()) -> set[Location]:
    """All locations of a value that was read."""
    parts: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, list):
        parts = list(enumerate(value))
    inner = [locations(part, (*so_far, key)) for key, part in parts]
    return set().union({so_far} if so_far else set(), *inner)
