"""The codec: what is declared at a field is what the constructor and the wire allow."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pytest

from discreet.codec import Range, Serializable, Shape, decode, encode, from_json, register, to_json
from discreet.people.domain import Box, RewardBounds
from discreet.validation import (
    BoolArray,
    CoinArray,
    FloatArray,
    IntArray,
    InvalidInput,
    SignArray,
)


class Colour:
    """A class that is no dataclass."""

    def __init__(self, name: str) -> None:
        self.name = name


def _read_colour(value: Any) -> Colour:
    return Colour({"r": "red", "g": "green"}[value])


register(Colour, lambda colour: colour.name[0], _read_colour, "colour")


class Rule(Serializable, ABC):
    """One of several rules."""

    @abstractmethod
    def act(self) -> int: ...


@dataclass(frozen=True)
class Always(Rule):
    kind: ClassVar[str] = "test-always"

    arm: Annotated[int, Range(0)]

    def act(self) -> int:
        return self.arm


@dataclass(frozen=True)
class After(Rule):
    kind: ClassVar[str] = "test-after"

    first: Rule

    def act(self) -> int:
        return self.first.act() + 1


@dataclass(frozen=True)
class Point:
    x: float


@dataclass(frozen=True)
class Nothing:
    """No fields."""


@dataclass(frozen=True, eq=False)
class Everything(Serializable):
    kind: ClassVar[str] = "test-everything"

    arms: Annotated[int, Range(2, 9)]
    epsilon: Annotated[float, Range(above=0.0, infinite=True)]
    name: str
    ready: bool
    mode: Literal["learned", "uniform"]
    domain: Box
    bounds: RewardBounds
    where: Point | Nothing | int
    rule: Rule
    colour: Colour
    counts: Annotated[IntArray, Shape("n"), Range(0)]
    sums: Annotated[FloatArray, Shape("n", "arms")]
    contexts: Annotated[FloatArray, Shape("n", "domain.dimension")]
    active: Annotated[BoolArray, Shape("n", "arms")]
    signs: Annotated[SignArray, Shape("n", 1), Range(-1, 1)]
    public_coins: Annotated[CoinArray, Shape("n"), Range(0, 2**53 - 1)]
    either: Annotated[IntArray | FloatArray, Shape("e")]
    maybe: Annotated[FloatArray, Shape("m")] | None
    scales: tuple[Annotated[float, Range(above=0.0)], ...]
    pair: tuple[str, int]
    table: Mapping[str, Point]
    epochs: Mapping[int, Annotated[FloatArray, Shape("k")]]


@dataclass(frozen=True, eq=False)
class Wide(Serializable):
    words: Annotated[CoinArray, Shape("n")]


def everything(**change: Any) -> Everything:
    fields: dict[str, Any] = {
        "arms": 3,
        "epsilon": 1.5,
        "name": "a",
        "ready": True,
        "mode": "learned",
        "domain": Box((0.0, 0.0), (1.0, 2.0), levels=(None, 2)),
        "bounds": RewardBounds(-1.0, 1.0),
        "where": Point(0.1),
        "rule": After(Always(1)),
        "colour": Colour("red"),
        "counts": np.array([1, 2]),
        "sums": np.array([[0.1, 0.2, 1 / 3], [1e-300, -0.0, 5.0]]),
        "contexts": np.zeros((2, 2)),
        "active": np.ones((2, 3), dtype=np.bool_),
        "signs": np.array([[1], [-1]]),
        "public_coins": np.array([2**53 - 1, 0], dtype=np.uint64),
        "either": np.array([2**60]),
        "maybe": None,
        "scales": [0.5, 2],
        "pair": ("b", 4),
        "table": {"p": Point(1.0)},
        "epochs": {3: np.array([0.5])},
    }
    return Everything(**{**fields, **change})


def fields_of(value: Any) -> dict[str, Any]:
    return json.loads(encode(value))  # type: ignore[no-any-return]


def test_what_is_written_is_read_to_the_bit() -> None:
    given = everything()
    again = decode(encode(given), Everything)
    assert encode(again) == encode(given)
    assert again.sums.tobytes() == given.sums.tobytes()
    assert again.domain == given.domain
    assert again.rule.act() == 2
    assert again.colour.name == "red"
    assert again.epochs[3].tolist() == [0.5]
    assert [
        again.counts.dtype,
        again.signs.dtype,
        again.public_coins.dtype,
        again.either.dtype,
    ] == [
        np.int64,
        np.int8,
        np.uint64,
        np.int64,
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"where": Nothing()},
        {"where": 4},
        {"epsilon": math.inf},
        {"either": np.array([0.5])},
        {"maybe": np.arange(3.0)},
        {"maybe": np.random.default_rng(0).standard_normal(6_000)},
        {"scales": ()},
        {"mode": "uniform"},
    ],
    ids=str,
)
def test_other_values_round_trip(change: dict[str, Any]) -> None:
    again = decode(encode(everything(**change)), Everything)
    assert encode(again) == encode(everything(**change))


def test_arrays_are_read_only_and_values_have_their_types() -> None:
    made = everything(counts=[4, 5], arms=np.int64(3), epsilon=2)
    assert not made.sums.flags.writeable
    assert type(made.arms) is int
    assert type(made.epsilon) is float
    assert made.scales == (0.5, 2.0)
    assert made.counts.dtype == np.int64


BAD = {
    "arms": [1, 10, 2.0, True, None, "3", 10**400, [3]],
    "epsilon": [0.0, -1.0, "1", True, [1.0], math.nan, 10**400],
    "name": [1, None, ["a"]],
    "ready": [1, "true", None],
    "mode": ["other", None, ["learned"]],
    "domain": [{}, 3, {"lower": [0.0]}],
    "bounds": [[0.0, 1.0], {"lower": 1.0, "upper": 0.0}, {"lower": "a", "upper": 1.0}],
    "where": [{"kind": "Point"}, {"kind": "Nothing", "x": 1}, {"x": 1.0}, 0.5, {"kind": ["a"]}],
    "rule": [{"kind": "test-everything"}, {"kind": "test-always", "arm": -1}, {"arm": 1}, 3, None],
    "colour": ["b", 3, None, ["r"]],
    "counts": [[1, -1], [1], [1, 2, 3], [[1], [2]], [1.0, 2.0], ["1", "2"], [True, False], {}, 3],
    "sums": [[[1.0] * 3], [[1.0] * 2] * 2, [[1.0] * 3, [1.0] * 2], [["a"] * 3] * 2],
    "contexts": [[[0.0]] * 2, {"shape": [2, 2], "float64": "!"}, {"shape": [2, 2]}],
    "active": [[[1, 1, 1]] * 2, [[True] * 2] * 2],
    "signs": [[[2], [1]], [[300], [1]], [[1]], [1, -1]],
    "public_coins": [[2**53, 0], [-1, 0], [0.5, 1.0], [2**70, 0]],
    "either": [[True], ["a"], [[1]], None],
    "maybe": [[["a"]], 3, {"shape": [10**12], "float64": ""}, {"shape": [-1], "float64": ""}],
    "scales": [[0.0], 3, ["a"], {"a": 1}],
    "pair": [["b"], ["b", 4, 5], [4, "b"], None],
    "table": [{"p": {"x": 1.0}}, [["p", {"y": 1.0}]], [[["p"], {"x": 1.0}]], None],
    "epochs": [{"3": [0.5]}, [[3]], [[3, [0.5]], [3, [0.5]]], [["3", [0.5]]], [3]],
}


@pytest.mark.parametrize("name", BAD)
def test_a_field_that_is_wrong_is_refused_by_name(name: str) -> None:
    assert set(BAD) | {"kind", "schema"} == set(fields_of(everything()))
    for value in BAD[name]:
        text = json.dumps({**fields_of(everything()), name: value})
        with pytest.raises(InvalidInput) as error:
            decode(text, Everything)
        assert "must" in str(error.value) or "send" in str(error.value).lower(), value
        # Lists are read as arrays on the wire only, and null as infinity.
        if not (isinstance(value, dict | list) or value is None):
            with pytest.raises(InvalidInput, match=name):
                everything(**{name: value})


def test_constructors_refuse_arrays_that_do_not_fit_together() -> None:
    with pytest.raises(InvalidInput, match=r"sums had shape \(2, 2\).*arms\) with .*arms = 3"):
        everything(sums=np.zeros((2, 2)))
    with pytest.raises(InvalidInput, match=r"contexts.*domain.dimension = 2"):
        everything(contexts=np.zeros((2, 1)))
    with pytest.raises(InvalidInput, match=r"sums had nan at \[1, 2\]; every entry must be finite"):
        everything(sums=np.array([[0.0] * 3, [0.0, 0.0, np.nan]]))
    with pytest.raises(InvalidInput, match="does not hold"):
        Wide(np.array([-1]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "no kind"),
        ("{}", "no kind"),
        ('{"kind": "test-everything"}', "lacks the field 'arms'"),
        ('{"kind": "test-everything", "schema": null}', "schema None"),
        ('{"kind": "test-everything", "schema": true}', "schema True"),
        ('{"kind": "test-everything", "schema": 2}', "schema 2"),
        ('{"kind": "test-everything", "schema": 1}', "lacks the field 'arms'"),
        ('{"kind": "test-always", "schema": 1, "arm": 1}', "expected here is Everything"),
        ('{"kind": ["a"], "schema": 1}', "expected here is Everything"),
    ],
)
def test_text_that_is_no_message_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        decode(text, Everything)


@pytest.mark.parametrize("kind", [FloatArray, IntArray])
def test_text_among_numbers_takes_no_memory(kind: Any) -> None:
    # NumPy would give each of the numbers the room of the text: 4 TB.
    long = [[0] * 10**6, ["x" * 10**6]]
    with pytest.raises(InvalidInput, match="held text"):
        from_json(long[0] + long[1], Annotated[kind, Shape("n")], "rewards")
    with pytest.raises(InvalidInput, match="held text"):
        from_json(long, Annotated[kind, Shape("n", "d")], "rewards")


def test_fields_are_exact() -> None:
    more = {**fields_of(everything()), "extra": 1}
    with pytest.raises(InvalidInput, match="must have exactly"):
        decode(json.dumps(more), Everything)


def test_objects_in_each_other_without_end_are_refused() -> None:
    rule: dict[str, Any] = {"kind": "test-always", "arm": 1}
    for _ in range(200):
        rule = {"kind": "test-after", "first": rule}
    with pytest.raises(InvalidInput, match="nested more than"):
        decode(json.dumps({**fields_of(everything()), "rule": rule}), Everything)


def test_parts_are_written_and_read_by_their_annotation() -> None:
    values = to_json(Nothing(), Point | Nothing)
    assert values == {"kind": "Nothing"}
    assert from_json(values, Point | Nothing) == Nothing()
    assert from_json(to_json(RewardBounds(0.0, 2.0)), RewardBounds) == RewardBounds(0.0, 2.0)
    with pytest.raises(InvalidInput, match="rewards was"):
        from_json(3, RewardBounds, "rewards")


def test_random_changes_of_a_message_raise_nothing_else() -> None:
    rng = np.random.default_rng(7)
    text = encode(everything())
    for _ in range(2_000):
        place, length = int(rng.integers(len(text))), int(rng.integers(1, 4))
        new = "".join(rng.choice(list('0123456789-.e[]{}",:tnu'), size=length))
        try:
            decode(text[:place] + new + text[place + length :], Everything)
        except InvalidInput:
            continue
