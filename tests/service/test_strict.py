"""JSON of requests means one thing, or is refused without being shown."""

from __future__ import annotations

import json
import time

import hypothesis.strategies as st
import pytest
from hypothesis import given

from discreet.service.strict import read_json
from discreet.validation import InvalidInput

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner),
    max_leaves=10,
)


@given(VALUES, st.booleans())
def test_what_is_json_is_read_as_by_everybody(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert read_json(text.encode()) == json.loads(text)


def test_an_empty_body_is_nothing() -> None:
    assert read_json(b"") is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "not JSON"),
        (b'{"a": 1} x', "not JSON"),
        (b"\xff", "not UTF-8"),
        (b'{"a": 1, "a": 1}', "a name twice"),
        (b'[{"a": {"b": 1, "b": 2}}]', "a name twice"),
        (b"[NaN]", "has NaN"),
        (b"[-Infinity]", "has -Infinity"),
        (b"[1e999]", "beyond 1.8e308"),
        (b"[-1e999]", "beyond 1.8e308"),
        (b"[18446744073709551616]", "more than 64 bits"),
        (b"[" + b"9" * 100_000 + b"]", "more than 64 bits"),
        (b'["\\u0000"]', "NUL"),
        (b'["\\ud800"]', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
        (b'{"a": [{"b": "\\u0000"}]}', "NUL"),
        (b"[" * 100_000, "more than 32 deep"),
        (b'{"a":' * 100_000, "more than 32 deep"),
        (b"[" * 33 + b"]" * 33, "more than 32 deep"),
    ],
)
def test_refused(body: bytes, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        read_json(body)


def test_depth() -> None:
    assert read_json(b"[" * 31 + b"{}" + b"]" * 31) != []
    with pytest.raises(InvalidInput, match="more than 32 deep"):
        read_json(b"[" * 32 + b"{}" + b"]" * 32)


def test_brackets_in_texts_are_no_depth() -> None:
    assert read_json(json.dumps(["[{" * 100, '"[' * 100]).encode()) == ["[{" * 100, '"[' * 100]
    assert read_json(b"[" + b"[]," * 99 + b"[]]") == [[]] * 100


def test_messages_show_nothing_of_the_body() -> None:
    for body in (b'{"age": 67, "age": 67}', b'{"smoker": NaN}', b'["Smith", ', b'["Smith\\u0000"]'):
        with pytest.raises(InvalidInput) as refused:
            read_json(body)
        assert not any(word in str(refused.value) for word in ("67", "smoker", "Smith"))


def test_a_large_body_takes_no_longer_than_its_length() -> None:
    started = time.perf_counter()
    with pytest.raises(InvalidInput):
        read_json(b'["' + b"[" * 2**20)
    read_json(json.dumps(["[" * 1000] * 1000).encode())
    assert time.perf_counter() - started < 5.0
