"""Action spaces, and the decision sets that people bring."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from discreet.people.domain import (
    ArmPoints,
    Box,
    Candidates,
    DecisionSets,
    PublicBox,
    PublicSet,
    arm_count,
    people_count,
)
from discreet.validation import InvalidInput

DOMAIN = Box((20.0, -1.0), (60.0, 1.0), ("age", "score"))


def read(sets: Any, most: int = 3) -> Candidates:
    return Candidates.read(sets, DOMAIN, most)


@pytest.mark.parametrize("most", [0, -1, 1.5, True, "3", None])
def test_a_decision_set_may_hold_at_least_one_point(most: Any) -> None:
    with pytest.raises(InvalidInput, match="most"):
        DecisionSets(most)


def test_public_sets() -> None:
    made = PublicSet.of([[1, 2], [3, 4]])
    assert made == PublicSet(((1.0, 2.0), (3.0, 4.0)))
    assert made.array.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    made.array[0] = 9.0
    assert made.array.tolist() == [[1.0, 2.0], [3.0, 4.0]], "it is a fact and cannot be changed"
    for bad in ((), ((1.0,), (1.0, 2.0)), ((np.nan,),), ((np.inf,),)):
        with pytest.raises(InvalidInput, match="points"):
            PublicSet(bad)


class TestCandidates:
    def test_sets_of_one_size(self) -> None:
        points = DOMAIN.from_unit(np.random.default_rng(0).random((5, 3, 2)))
        people = read(points)
        assert len(people) == 5
        assert np.array_equal(people.points, points)
        assert people.present.all()
        assert np.array_equal(read(points.tolist()).points, points)

    def test_sets_of_several_sizes_are_padded_with_their_last_point(self) -> None:
        people = read([[[30.0, 0.0]], [[20.0, -1.0], [60.0, 1.0], [30.0, 0.5]]])
        assert people.points.shape == (2, 3, 2)
        assert people.present.tolist() == [[True, False, False], [True, True, True]]
        assert (people.points[0] == [30.0, 0.0]).all()

    def test_whole_numbers_are_points_too(self) -> None:
        people = read(np.full((1, 2, 2), 1) * np.array([30, 1]))
        assert people.points.dtype == np.float64

    def test_tables_are_read_by_the_names_of_the_box(self) -> None:
        """Fault once found: checked by name and then read in the order of the table, which put
        values into other columns, and out of their bounds."""
        table = pd.DataFrame({"score": [0.5, -0.5], "age": [25.0, 50.0]})
        people = read([table])
        assert people.points[0].tolist() == [[25.0, 0.5], [50.0, -0.5], [50.0, -0.5]]
        with pytest.raises(InvalidInput, match="age"):
            read([table[["score"]]])

    @pytest.mark.parametrize(
        "sets",
        [
            [],
            (),
            np.empty((0, 2, 2)),
            np.empty((2, 0, 2)),
            [[]],
            [[[30.0, 0.0]], []],
            np.full((1, 4, 2), 30.0),
            [np.full((4, 2), 30.0)],
            [[[30.0, 2.0]]],
            np.array([[[30.0, 2.0]]]),
            [[[np.nan, 0.0]]],
            np.array([[[30.0, np.inf]]]),
            [[[30.0]]],
            [[[30.0, 0.0, 0.0]]],
            np.array([[[30.0]]]),
            np.array([[30.0, 0.0]]),
            [[30.0, 0.0]],
            [30.0, 0.0],
            5,
            None,
            "sets",
            {"a": 1},
            [["ab", "cd"]],
            [None],
            np.array([[["a", "b"]]]),
            np.ma.masked_array(np.full((1, 1, 2), 30.0), mask=True),
        ],
    )
    def test_bad_sets_are_refused(self, sets: Any) -> None:
        with pytest.raises(InvalidInput, match="contexts"):
            read(sets)

    def test_the_message_says_who(self) -> None:
        with pytest.raises(InvalidInput, match="person 1 a decision set of 4 points"):
            read([[[30.0, 0.0]], [[30.0, 0.0]] * 4])


def test_the_number_of_people() -> None:
    assert people_count(3) == 3
    assert people_count(np.int64(4)) == 4
    assert people_count(np.empty((5, 0))) == 5
    for bad in (0, -1, 2.0, True, None, "3", [1], np.empty((0, 0)), np.ones((3, 1)), np.ones(3)):
        with pytest.raises(InvalidInput, match="contexts"):
            people_count(bad)


def test_indicators_of_an_array_of_sets_follow_as_in_a_list() -> None:
    price = {"lower": 0, "upper": 9, "indicators": [0], "missing": "unknown"}
    domain = Box.of({"price": price})
    sets = np.array([[[0.0, 0.0, np.nan], [np.nan, np.nan, np.nan]]])
    for given in (sets, list(sets)):
        assert Candidates.read(given, domain, 2).points.tolist() == [[[0, 0, 1], [4.5, 1, 0]]]


@pytest.mark.parametrize("points", [[[1.0]], [[1.0], [1.0]], [], [[1.0], [float("nan")]]])
def test_arm_points_are_at_least_two_and_all_different(points: list[list[float]]) -> None:
    with pytest.raises(InvalidInput, match="points"):
        ArmPoints(tuple(map(tuple, points)))


def test_arms_are_counted() -> None:
    arms = ArmPoints.of([1.0, 2.5, 4.0])
    assert len(arms) == arm_count(arms) == arm_count(3) == 3
    assert arm_count(PublicBox()) is None
