"""Public domains: what they refuse, and how they map onto the unit cube."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import DotProduct

from discreet.codec import from_json, to_json
from discreet.kernels import feature_map
from discreet.people.columns import Column
from discreet.people.domain import Ball, Box, RewardBounds, unit_cube
from discreet.validation import InvalidInput

PEOPLE = Box((21.0, 6.0), (64.0, 20.0), ("age", "education"), (44, 15))


def test_box_names_and_levels_have_defaults() -> None:
    box = Box((0.0, 0.0), (1.0, 2.0))
    assert box.dimension == 2
    assert box.names == ("x1", "x2")
    assert box.levels == (None, None)
    assert unit_cube(3) == Box((0.0,) * 3, (1.0,) * 3)


def test_box_maps_bounds_onto_the_unit_cube() -> None:
    corners = np.array([[21.0, 6.0], [64.0, 20.0], [42.5, 13.0]])
    np.testing.assert_allclose(PEOPLE.to_unit(corners), [[0, 0], [1, 1], [0.5, 0.5]])


@given(
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-3, 1e6),
    share=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20),
)
def test_box_round_trip(low: float, width: float, share: list[float]) -> None:
    box = Box((low,), (low + width,))
    unit = np.array(share)[:, None]
    points = np.clip(box.from_unit(unit), box.lower, box.upper)
    back = box.to_unit(points)
    assert back.min() >= 0.0
    assert back.max() <= 1.0
    np.testing.assert_allclose(back, unit, atol=1e-6)


@pytest.mark.parametrize(
    ("lower", "upper", "names", "levels", "message"),
    [
        ((), (), (), (), "at least one"),
        ((0.0,), (1.0, 2.0), (), (), "1 lower and 2 upper bounds"),
        ((1.0,), (1.0,), ("age",), (), r"'age' had bounds \[1.0, 1.0\]"),
        ((0.0,), (float("inf"),), (), (), "upper bound was inf"),
        ((float("nan"),), (1.0,), (), (), "lower bound was nan"),
        ((0.0,), (1.0,), ("a", "b"), (), "2 names"),
        ((0.0,), (1.0,), (), (2, 2), "2 levels"),
        ((0.0,), (1.0,), (), (1,), "levels of column 'x1' was 1"),
        ((0.0, 0.0), (1.0, 1.0), ("x", "x"), (), "its own name"),
        ((-1e308,), (1e308,), (), (), "bounds"),
    ],
)
def test_box_refuses(lower, upper, names, levels, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        Box(lower, upper, names, levels)


@pytest.mark.parametrize(
    ("contexts", "message"),
    [
        ([[30.0, 5.0]], r"5.0 in column 'education', row 0; the declared bounds are \[6.0, 20.0\]"),
        ([[30.0, 6.0], [65.0, 6.0]], "65.0 in column 'age', row 1"),
        ([30.0, 6.0], "one row for each person"),
        ([[30.0, 6.0, 1.0]], r"shape \(1, 3\)"),
        ([[30.0, float("nan")]], "NaN or infinity in 1 of 1 rows"),
        (np.empty((0, 2)), "was empty"),
        ([["young", "high"]], "could not be read as numbers"),
    ],
)
def test_box_refuses_contexts(contexts, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        PEOPLE.to_unit(contexts)


def test_reward_bounds_map_and_clip() -> None:
    bounds = RewardBounds(-1.0, 3.0)
    np.testing.assert_allclose(bounds.to_unit([-1.0, 1.0, 3.0], 3), [0.0, 0.5, 1.0])
    np.testing.assert_allclose(bounds.clip([-9.0, 1.0, 9.0]), [-1.0, 1.0, 3.0])


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        ([0.0, 4.0], r"4.0 at position 1; the declared bounds are \[-1.0, 3.0\]"),
        ([0.0], r"shape \(1,\)"),
        ([0.0, float("inf")], "NaN or infinity"),
    ],
)
def test_reward_bounds_refuse_rewards(rewards, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        RewardBounds(-1.0, 3.0).to_unit(rewards, 2)


def test_levels_stay_on_their_side_of_a_threshold() -> None:
    """0.3 in [0.1, 0.9] is level 2 of 9 and the threshold 1/4, in spite of rounding."""
    box = Box((0.1,), (0.9,), levels=(9,))
    assert box.to_unit([[0.3]])[0, 0] < 0.25
    assert box.people_to_unit([[0.3]])[0, 0] == 0.25


def test_people_stand_on_levels() -> None:
    """Geometry knows every point; people take no value between two levels."""
    box = Box((0.0, 20.0), (1.0, 40.0), ("smoker", "age"), (2, 21), (("no", "yes"), ()))
    assert box.people_to_unit([[1.0, 25.0]]).tolist() == [[1.0, 0.25]]
    assert box.to_unit([[0.5, 20.5]]).tolist() == [[0.5, 0.025]]
    with pytest.raises(InvalidInput, match="takes 2 values from 0 to 1 in steps of 1"):
        box.people_to_unit([[0.0, 20.0], [0.5, 20.0]])
    assert (box.text(0, 1.0), box.text(1, 25.0)) == ("yes", "25")
    assert from_json(to_json(box), Box) == box
    with pytest.raises(InvalidInput, match="categories"):
        Box((0.0,), (1.0,), levels=(2,), categories=(("no", "yes", "maybe"),))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("value", "unit"),
    [(10**400, 1.0), (-(10**400), 0.0), (np.longdouble("1e4000"), 1.0)]
    + [(missing, 0.5) for missing in (None, np.nan, pd.NA, pd.NaT, Decimal("sNaN"))],
    ids=lambda value: str(value)[:8],
)
def test_the_nearest_is_found_for_every_number(value: object, unit: float) -> None:
    """Fault once found: numbers that no float reaches raised OverflowError, and a missing value
    was refused or not by the type that stood for it."""
    assert unit_cube(2).nearest_unit([[value, 0.25]]).tolist() == [[unit, 0.25]]
    assert RewardBounds().nearest_unit([value, 0.25], 2).tolist() == [unit, 0.25]
    assert RewardBounds().nearest_unit(pd.Series([value, 0.25], dtype=object), 2)[0] == unit
    with pytest.raises(InvalidInput, match="contexts"):
        unit_cube(2).to_unit([[value, 0.25]])


class TestBall:
    def test_points_of_the_ball_are_taken_and_longer_ones_refused(self) -> None:
        ball = Ball(2.0, 3)
        drawn = np.random.default_rng(0).standard_normal((50, 3))
        sphere = 2.0 * drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
        np.testing.assert_allclose(ball.to_unit(sphere), (sphere + 2.0) / 4.0, atol=1e-9)
        with pytest.raises(InvalidInput, match=r"length 2.002 in row 1.*radius 2"):
            ball.to_unit(np.vstack([sphere[0], 1.001 * sphere[1]]))
        with pytest.raises(InvalidInput, match="length inf"):
            ball.to_unit([[1e200, 1e200, 0.0]])

    def test_on_a_persons_side_longer_points_are_shortened(self) -> None:
        ball = Ball(1.0, 2)
        moved = ball.nearest([[3.0, 4.0], [0.3, 0.4], [np.nan, 2.0], [np.inf, -np.inf]])
        corner = 0.5**0.5
        np.testing.assert_allclose(moved, [[corner] * 2, [0.3, 0.4], [0, 1], [corner, -corner]])
        ball.to_unit(moved)

    def test_the_corners_of_the_cube_map_into_the_ball(self) -> None:
        ball = Ball(1.5, 4)
        points = ball.from_unit(np.random.default_rng(1).integers(0, 2, (30, 4)).astype(float))
        np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.5)
        ball.to_unit(points)

    def test_it_is_a_box_without_corners_and_travels_as_what_it_is(self) -> None:
        ball = Ball(2.0, names=("u", "v"))
        assert (ball.dimension, ball.lower, ball.upper) == (2, (-2.0, -2.0), (2.0, 2.0))
        assert from_json(to_json(ball, Box), Box) == ball
        assert ball != Box(ball.lower, ball.upper, ball.names)
        assert ball != Ball(1.0, names=("u", "v"))

    @pytest.mark.parametrize(
        ("radius", "dimension"),
        [(0.0, 2), (1e-200, 2), (1e200, 2), (np.inf, 2), (1.0, 0), (1.0, None)],
    )
    def test_what_is_no_ball_is_refused(self, radius: float, dimension: int | None) -> None:
        with pytest.raises(InvalidInput, match=r"radius|dimension"):
            Ball(radius, dimension)

    @pytest.mark.parametrize("dimension", [1, 2, 9])
    def test_linear_features_have_a_norm_without_sqrt_d(self, dimension: int) -> None:
        features = feature_map(DotProduct(sigma_0=0.0), Ball(3.0, dimension))
        assert features.norm_bound == pytest.approx(3.0, rel=1e-8)
        drawn = np.random.default_rng(2).standard_normal((200, dimension))
        sphere = 3.0 * drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
        assert np.linalg.norm(features.transform(sphere), axis=1).max() <= features.norm_bound


UNKNOWNS = Box.of(
    [
        Column("age", 18, 90, missing="unknown"),
        Column("smoker", values=["no", "yes"], missing="unknown"),
        Column("height", 100.0, 200.0),
    ]
)


@pytest.mark.parametrize("nearest", [False, True])
@pytest.mark.parametrize(
    ("contexts", "filled"),
    [
        ({"age": None, "smoker": None, "height": 170}, [54.0, 1.0, 2.0, 170.0]),
        ({"age": 40, "smoker": "no", "height": 170}, [40.0, 0.0, 0.0, 170.0]),
        (
            {"age": float("nan"), "age unknown": "no", "smoker": "yes", "height": 170},
            [54.0, 1.0, 1.0, 170.0],
        ),
        (
            pd.DataFrame({"age": [None], "smoker": ["yes"], "height": [170]}),
            [54.0, 1.0, 1.0, 170.0],
        ),
        ([[None, None, None, 170.0]], [54.0, 1.0, 2.0, 170.0]),
        ([[40.0, None, 1.0, 170.0]], [40.0, 0.0, 1.0, 170.0]),
    ],
)
def test_missing_values_count_as_unknown(contexts: Any, filled: list[float], nearest: bool) -> None:
    unit = (UNKNOWNS.nearest_unit if nearest else UNKNOWNS.people_to_unit)(contexts)
    assert UNKNOWNS.from_unit(unit)[0] == pytest.approx(filled)


def test_arrays_of_contexts_are_left_alone() -> None:
    given = np.array([[np.nan, 0.0, 1.0, 170.0]])
    UNKNOWNS.people_to_unit(given)
    assert np.isnan(given[0, 0])


@pytest.mark.parametrize(
    "contexts",
    [
        {"age": 40, "smoker": "no", "height": None},
        {"age": 40, "smoker": "perhaps", "height": 170},
        {"age": "old", "smoker": "no", "height": 170},
        {"smoker": "no", "height": 170},
        [[40.0, 0.0, 1.0, None]],
    ],
)
def test_other_values_are_refused_still(contexts: Any) -> None:
    with pytest.raises(InvalidInput):
        UNKNOWNS.people_to_unit(contexts)


def test_a_domain_keeps_its_rule_for_missing_values() -> None:
    assert from_json(to_json(UNKNOWNS), Box) == UNKNOWNS
    assert Box.of(UNKNOWNS.columns) == UNKNOWNS
    assert "unknown" not in to_json(Box.of({"age": (18, 90)}))
    with pytest.raises(InvalidInput, match="lacked x1 unknown behind it"):
        Box((0.0,), (1.0,), unknown=(True,))
    with pytest.raises(InvalidInput, match="lacked the label 'unknown'"):
        Box((0.0,), (1.0,), levels=(2,), categories=(("no", "yes"),), unknown=(True,))
    with pytest.raises(InvalidInput, match="2 values of unknown"):
        Box((0.0,), (1.0,), unknown=(True, True))


INDICATED = Box.of(
    [
        Column("income", 0, 200, missing="unknown", indicators=(0, 100)),
        Column("share", 0, 1, 11, indicators=(0, 0.3)),
    ]
)


@pytest.mark.parametrize("nearest", [False, True])
@pytest.mark.parametrize(
    ("contexts", "filled"),
    [
        ({"income": 0, "share": 0}, [0, 0, 1, 0, 0, 1, 0]),
        ({"income": 1e-3, "share": 1}, [1e-3, 0, 0, 0, 1, 0, 0]),
        ({"income": 100, "share": 0.1 * 3}, [100, 0, 0, 1, 0.3, 0, 1]),
        # The middle stands for a missing number, which is none of the indicators.
        ({"income": None, "share": 0}, [100, 1, 0, 0, 0, 1, 0]),
        (pd.DataFrame({"share": [0.2], "income": [0.0]}), [0, 0, 1, 0, 0.2, 0, 0]),
        ([[0, None, None, None, 0.5, None, None]], [0, 0, 1, 0, 0.5, 0, 0]),
        # One that is given stands, as where a learner describes the people of a bin.
        ({"income": 20, "share": 1, "income = 0": "yes"}, [20, 0, 1, 0, 1, 0, 0]),
        (np.array([[20.0, 0, 1, 0, 0, 0, 0]]), [20, 0, 1, 0, 0, 0, 0]),
    ],
)
def test_indicators_follow_from_values(contexts: Any, filled: list[float], nearest: bool) -> None:
    to_unit = INDICATED.nearest_unit if nearest else INDICATED.people_to_unit
    unit = to_unit(contexts)
    assert INDICATED.from_unit(unit)[0] == pytest.approx(filled)
    # What was filled once stays, in either units.
    np.testing.assert_array_equal(to_unit(INDICATED.from_unit(unit)), unit)
    np.testing.assert_array_equal(INDICATED.nearest(INDICATED.nearest(contexts))[0, 1], filled[1])


def test_in_private_reports_values_have_the_indicators_of_what_they_are_moved_to() -> None:
    unit = INDICATED.nearest_unit({"income": -1e300, "share": 0.04})
    assert INDICATED.from_unit(unit)[0].tolist() == [0, 0, 1, 0, 0, 1, 0]
    unit = INDICATED.nearest_unit({"income": 1, "share": None})
    assert INDICATED.from_unit(unit)[0, 4:].tolist() == [0.5, 0, 0]


def test_the_indicators_of_a_person_follow_from_that_person_alone() -> None:
    rows = np.array(
        [[0, 0, np.nan, np.nan, 0, np.nan, np.nan], [np.nan] * 7, [100.0, 0, 1, 0, 1, 0, 1]]
    )
    together = INDICATED.nearest_unit(rows)
    alone = np.vstack([INDICATED.nearest_unit(row[None]) for row in rows])
    np.testing.assert_array_equal(together, alone)


def test_a_domain_keeps_its_indicators() -> None:
    assert from_json(to_json(INDICATED), Box) == INDICATED
    assert Box.of(INDICATED.columns) == INDICATED
    assert "indicators" not in to_json(UNKNOWNS)
    with pytest.raises(InvalidInput, match=r"lacked x1 = 0\.5 behind it"):
        Box((0.0,), (1.0,), indicators=((0.5,),))
    with pytest.raises(InvalidInput, match="2 values of indicators"):
        Box((0.0,), (1.0,), indicators=((0.5,), ()))
    with pytest.raises(InvalidInput, match="left out: labels"):
        Box((0.0,), (1.0,), levels=(2,), categories=(("a", "b"),), indicators=((0.0,),))
    named = {"x": {"lower": 0, "upper": 1, "indicators": [0]}, "x = 0": (0, 1)}
    with pytest.raises(InvalidInput, match="is the indicator that column 'x' adds"):
        Box.of(named)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"lower": 0, "upper": 1, "indicators": [0, 2]}, r"was 2\.0; .* the bounds \[0, 1\]"),
        ({"lower": 0, "upper": 1, "indicators": [1, 1]}, "another number than those before it"),
        (
            {"lower": 0, "upper": 1, "levels": 11, "indicators": [0.35]},
            r"was 0\.35; it must be one of the 11 values from 0 to 1",
        ),
        ({"lower": 0, "upper": 1, "indicators": "0"}, r"was '0'; it must be a list of numbers"),
        ({"lower": 0, "upper": 1, "indicators": 0}, r"was 0; it must be a list of numbers"),
        ({"values": ["no", "yes"], "indicators": [1]}, "left out: labels are distinct already"),
        ({"lower": 0, "upper": 1, "indicators": ["0"]}, "an indicator of column 'x' was '0'"),
        ({"lower": 0, "upper": 1, "indicators": [float("nan")]}, "of column 'x' was nan"),
    ],
)
def test_indicators_that_no_value_has(column: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Box.of({"x": column})
