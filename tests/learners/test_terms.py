"""The digest of terms, which clients in other languages compute, too."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from discreet.codec import canonical_json
from discreet.learners.policy import Terms
from discreet.people.domain import Box, RewardBounds


@pytest.mark.parametrize(
    ("number", "text"),
    [
        # Those of RFC 8785, appendix B, and where JavaScript changes its notation.
        (0.0, "0"),
        (-0.0, "0"),
        (5e-324, "5e-324"),
        (-5e-324, "-5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (9007199254740992.0, "9007199254740992"),
        (295147905179352830000.0, "295147905179352830000"),
        (9.999999999999997e22, "9.999999999999997e+22"),
        (1e23, "1e+23"),
        (999999999999999900000.0, "999999999999999900000"),
        (1e21, "1e+21"),
        (9.999999999999997e-7, "9.999999999999997e-7"),
        (0.000001, "0.000001"),
        (333333333.3333332, "333333333.3333332"),
        (-0.0000033333333333333333, "-0.0000033333333333333333"),
        (1424953923781206.2, "1424953923781206.2"),
        (18.0, "18"),
        (18, "18"),
    ],
)
def test_numbers_are_written_as_javascript_does(number: float, text: str) -> None:
    assert canonical_json(number) == text
    assert float(text) == number


def test_texts_and_names_are_those_of_rfc_8785() -> None:
    fields = {"b": [None, True, '\u20ac$\u000f\nA\'B"\\\\"/'], "a": {}}
    assert (
        canonical_json(fields) == '{"a":{},"b":[null,true,"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"]}'
    )


def test_terms_have_one_digest_in_every_language() -> None:
    terms = Terms(Box.of({"age": (18, 90), "\u017dena": ["ne", "ano"]}), 2, 1, delta=1e-6)
    text = (
        '{"arm_names":[],"delta":0.000001,"domain":{"categories":[[],["ne","ano"]],"levels":'
        '[null,2],"lower":[18,0],"names":["age","\u017dena"],"upper":[90,1]},"max_contributions":1,'
        '"most_epsilon":1,"reward_bounds":{"lower":0,"upper":1},"space":2}'
    )
    assert canonical_json(terms._fields()) == text
    assert terms.digest == hashlib.sha256(text.encode()).hexdigest()
    assert replace(terms, most_epsilon=1.0).digest == terms.digest
    assert replace(terms, reward_bounds=RewardBounds(0.0, 2.0)).digest != terms.digest


def test_a_name_with_half_a_surrogate_has_a_digest() -> None:
    """JavaScript escapes it."""
    terms = Terms(Box.of({"age": (18, 90)}), ["a", "\ud800"], 1.0)
    text = canonical_json(terms._fields()).replace("\ud800", "\\ud800")
    assert terms.digest == hashlib.sha256(text.encode()).hexdigest()
