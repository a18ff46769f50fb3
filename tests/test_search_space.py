"""Settings and their coordinates."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

from discreet import Column, InvalidInput
from discreet.people.columns import declared_columns
from discreet.people.domain import PublicBox, PublicSet
from discreet.search import MOST_POINTS, SearchSpace

RATE = {"lower": 1e-4, "upper": 1.0, "log": True}
UNITS = {"lower": 1, "upper": 64, "levels": 64, "log": True}


def space(columns: Any) -> SearchSpace:
    return SearchSpace(declared_columns(columns))


MIXED = space(
    {
        "x": (-2, 6),
        "rate": RATE,
        "layers": {"lower": 1, "upper": 8, "levels": 8},
        "half": {"lower": 0, "upper": 1, "levels": 3},
        "units": UNITS,
        "form": ["pill", "drop", "spray"],
    }
)


def test_settings_are_what_people_would_write() -> None:
    low, high, middle = MIXED.params(np.array([np.zeros(6), np.ones(6), np.full(6, 0.5)]))
    assert low == {
        "x": -2.0, "rate": 1e-4, "layers": 1, "half": 0.0, "units": 1, "form": "pill"
    }  # fmt: skip
    assert list(high.values()) == [6.0, 1.0, 8, 1.0, 64, "spray"]
    assert list(middle.values()) == [2.0, pytest.approx(1e-2), 5, 0.5, 8, "drop"]
    assert isinstance(middle["layers"], int)
    assert isinstance(middle["units"], int)
    assert isinstance(middle["half"], float)


def test_reading_settings_undoes_writing_them() -> None:
    unit = np.random.default_rng(1).random((200, 6))
    params = MIXED.params(unit)
    again = MIXED.params(MIXED.read(params))
    for one, other in zip(params, again, strict=True):
        assert one.pop("form") == other.pop("form")
        np.testing.assert_allclose(list(one.values()), list(other.values()))
    params = MIXED.params(unit)
    frame = pd.DataFrame(params)
    np.testing.assert_array_equal(MIXED.read(frame), MIXED.read(params))


@pytest.mark.parametrize(
    ("columns", "kind", "size"),
    [
        ({"x": (0, 1), "rate": RATE}, PublicBox, None),
        ({"x": (0, 1), "k": ["a", "b"]}, PublicBox, None),
        ({"k": ["a", "b"], "n": {"lower": 1, "upper": 64, "levels": 64}}, PublicSet, 128),
        ({"units": UNITS, "k": ["a", "b", "c"]}, PublicSet, 192),
    ],
)
def test_what_is_offered(columns: Any, kind: type, size: int | None) -> None:
    offered = space(columns).offered
    assert isinstance(offered, kind)
    assert size is None or len(offered) == size  # type: ignore[arg-type]


def test_all_settings_of_a_finite_space_are_offered_once() -> None:
    small = space({"k": ["a", "b"], "n": {"lower": 2, "upper": 8, "levels": 4, "log": True}})
    offered = small.offered
    assert isinstance(offered, PublicSet)
    params = {tuple(each.values()) for each in small.params(offered.array)}
    assert params == set(itertools.product(["a", "b"], [2, 4, 6, 8]))


def test_a_sample_of_a_mixed_space_holds_settings_alone() -> None:
    offered = MIXED.offered
    assert isinstance(offered, PublicSet)
    assert 0.9 * MOST_POINTS < len(offered) <= MOST_POINTS
    snapped = MIXED.unit(MIXED.values(offered.array))
    np.testing.assert_allclose(snapped, offered.array, atol=1e-9)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"x": 1, "rate": 2.0}, r"had 2 in column 'rate', row 0; the declared bounds are \[0.0001"),
        ({"x": 1}, "lacked the column 'rate'"),
        ([[1, 0.1]], r"give a dictionary with the keys x, rate"),
    ],
)
def test_what_is_no_setting(params: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        space({"x": (0, 1), "rate": RATE}).read(params)


def test_brackets_are_no_setting() -> None:
    with pytest.raises(InvalidInput, match="column 'hours' has thresholds"):
        SearchSpace((Column("hours", thresholds=(10, 20)),))
    with pytest.raises(InvalidInput, match="column 'hours' has indicators"):
        SearchSpace((Column("hours", 0, 9, indicators=(0,)),))
    with pytest.raises(InvalidInput, match="column 'hours' has missing = 'unknown'"):
        SearchSpace((Column("hours", 0, 24, missing="unknown"),))
