"""Messages that are read together say what each says by itself, or are refused as it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from discreet.codec import decode, encode, fields_to_json
from discreet.learners.glm.policy import ScoreReports
from discreet.learners.gp_ucb.policy import NoisyRows
from discreet.learners.messages import Reports
from discreet.learners.references.uniform import EmptyReports
from discreet.learners.signs import SignedReports
from discreet.privacy import SecureNoise, SimulatedNoise
from discreet.service.server.ingest import read_reports
from discreet.validation import InvalidInput

ORIGIN: dict[str, Any] = {"policy_version": 0, "source": "s", "noise": SecureNoise.name}
GOOD = {
    "kind": "signed-reports",
    "schema": 1,
    **ORIGIN,
    "public_coins": [1],
    "places": [[3]],
    "signs": [[1]],
}


def signed(rng: np.random.Generator, people: int, **other: Any) -> SignedReports:
    public_coins = rng.integers(2**53, size=people, dtype=np.uint64)
    places = np.sort(rng.integers(9, size=(people, 2)), axis=1)
    signs = rng.choice([-1, 1], size=(people, 2)).astype(np.int8)
    return SignedReports(
        **{**ORIGIN, **other}, public_coins=public_coins, places=places, signs=signs
    )


def check_same(texts: Sequence[str]) -> int:
    """Whether reading together gives what reading each does; how many parts that were."""
    read = read_reports(texts)
    one_by_one = [decode(text, Reports) for text in texts]
    assert sorted(place for each in read for place in each.places) == list(range(len(texts)))
    for each in read:
        assert each.sizes == [len(one_by_one[place]) for place in each.places]
        joined: Any = type(each.reports).joined([one_by_one[place] for place in each.places])
        assert type(joined) is type(each.reports)
        assert fields_to_json(joined) == fields_to_json(each.reports)
        for name, value in vars(joined).items():
            if isinstance(value, np.ndarray):
                given = vars(each.reports)[name]
                assert (given.dtype, given.shape) == (value.dtype, value.shape)
                assert not given.flags.writeable
    return len(read)


def test_together_is_each() -> None:
    rng = np.random.default_rng(0)
    origins = [{}, {"policy_version": 1}, {"source": "t"}, {"noise": SimulatedNoise.name}]
    texts = [
        encode(signed(rng, int(rng.integers(1, 4)), **origins[rng.integers(4)])) for _ in range(60)
    ]
    assert check_same(texts) == 4
    vectors = [
        ScoreReports(
            **ORIGIN, public_coins=np.array([7], dtype=np.uint64), vectors=rng.normal(size=(1, 3))
        )
        for _ in range(5)
    ]
    rows = [
        NoisyRows(**ORIGIN, rows=rng.normal(size=(2, 3)), public_coins=np.zeros(0)) for _ in "ab"
    ]
    assert check_same([encode(each) for each in (*vectors, *rows, *vectors)]) == 2


def test_what_cannot_be_together() -> None:
    rng = np.random.default_rng(1)
    long = NoisyRows(**ORIGIN, rows=rng.normal(size=(2, 3000)), public_coins=np.zeros(0))
    wide = {**GOOD, "places": [[3, 4]], "signs": [[1, 1]]}
    for texts, parts in (
        ([encode(long), encode(long)], 2),
        ([encode(EmptyReports(**ORIGIN, count=2))] * 2, 2),
        ([json.dumps(GOOD), json.dumps(wide)], 2),
        ([json.dumps({**GOOD, "places": [[3.0]]}).replace("3.0", "3"), json.dumps(GOOD)], 1),
    ):
        assert check_same(texts) == parts


@pytest.mark.parametrize(
    "wrong",
    [
        {"places": [[True]]},
        {"places": [[3.0]]},
        {"places": [["3"]]},
        {"places": [[2**64]]},
        {"places": [[-(2**63) - 1]]},
        {"places": [[None]]},
        {"places": [3]},
        {"places": [[[3]]]},
        {"places": [[3], [4]]},
        {"places": [[3, 4], [5]]},
        {"places": []},
        {"places": {}},
        {"signs": [[2]]},
        {"public_coins": [2**53]},
        {"public_coins": [-1]},
        {"public_coins": [1, 2], "places": [[3]]},
        {"policy_version": True},
        {"policy_version": 0.0},
        {"policy_version": [0]},
        {"source": ["s"]},
        {"noise": "no such"},
        {"kind": "no such"},
        {"kind": "plain-observations"},
        {"kind": ["signed-reports"]},
        {"schema": 2},
        {"schema": True},
        {"schema": [1]},
        {"more": 1},
        {"more": [1]},
    ],
)
def test_one_that_is_wrong_among_good_ones(wrong: dict[str, Any]) -> None:
    """Refused with the words for it alone, wherever it is."""
    bad, good = json.dumps({**GOOD, **wrong}), json.dumps(GOOD)
    with pytest.raises(InvalidInput) as alone:
        decode(bad, Reports)
    for place in range(3):
        texts = [good, good]
        texts.insert(place, bad)
        with pytest.raises(InvalidInput) as refused:
            read_reports(texts)
        assert str(refused.value) == str(alone.value)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "1", "null", "NaN", '{"kind": NaN}', "\ufeff{}", "[" * 10_000, '{"a": 1} {}'],
)
def test_text_that_is_none(text: str) -> None:
    with pytest.raises(InvalidInput) as alone:
        decode(text, Reports)
    with pytest.raises(InvalidInput) as refused:
        read_reports([json.dumps(GOOD), text])
    assert str(refused.value) == str(alone.value)


def test_two_that_are_wrong_only_apart() -> None:
    """One with a public coin too many and one with a public coin too few are as long together as
    two good ones."""
    more, less = (
        {**GOOD, "public_coins": [1, 2]},
        {**GOOD, "places": [[3], [4]], "signs": [[1], [1]]},
    )
    with pytest.raises(InvalidInput, match="shape"):
        read_reports([json.dumps(more), json.dumps(less)])
    with pytest.raises(InvalidInput, match="bool"):
        read_reports([json.dumps({**GOOD, "places": [[True]]}), json.dumps(GOOD)])
