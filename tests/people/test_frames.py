"""Contexts as people have them: frames and dictionaries, with labels, are the arrays they mean."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from discreet import (
    GPUCB,
    Box,
    DecisionSets,
    InvalidInput,
    Local,
    LocalKernel,
    NonPrivate,
    SimulatedNoise,
    Unprotected,
)
from discreet.people.columns import Column, declared_columns
from discreet.people.domain import Candidates

BOX = Box.of(
    {
        "age": (18, 90),
        "region": ["north", "south", "east"],
        "smoker": [False, True],
        "children": {"lower": 0, "upper": 5, "levels": 6},
    }
)
PEOPLE = [[47.0, 1.0, 1.0, 2.0], [18.5, 2.0, 0.0, 0.0]]
FRAME = pd.DataFrame(
    {
        "smoker": [True, False],
        "children": [2, 0],
        "region": pd.Categorical(["south", "east"]),
        "age": [47, 18.5],
    }
)
ROWS: list[dict[str, Any]] = FRAME.to_dict("records")


class OtherFrame:
    """A table of another library: it has columns, and gives one by its name."""

    columns: ClassVar = list(FRAME.columns)

    def __getitem__(self, name: str) -> list[Any]:
        return list(FRAME[name])


@pytest.mark.parametrize("contexts", [PEOPLE, FRAME, ROWS, OtherFrame()])
def test_all_of_them_mean_the_same(contexts: Any) -> None:
    np.testing.assert_array_equal(BOX.in_order(contexts), PEOPLE)
    np.testing.assert_array_equal(BOX.people_to_unit(contexts), BOX.people_to_unit(PEOPLE))
    np.testing.assert_array_equal(BOX.nearest_unit(contexts), BOX.nearest_unit(PEOPLE))


def test_one_dictionary_is_one_person() -> None:
    np.testing.assert_array_equal(BOX.to_unit(ROWS[0]), BOX.to_unit(PEOPLE[:1]))


def test_labels_are_read_as_programs_write_them() -> None:
    box = Box.of([Column("grade", values=[1, 2, 3]), Column("left", values=[False, True])])
    rows = [
        {"grade": 1.0, "left": "TRUE"},
        {"grade": "2", "left": np.True_},
        {"grade": np.int64(3), "left": False},
    ]
    np.testing.assert_array_equal(box.in_order(rows), [[0, 1], [1, 1], [2, 0]])


def test_categories_take_the_units_of_their_box() -> None:
    box = Box((10.0,), (20.0,), ("dose",), (3,), (("low", "middle", "high"),))
    np.testing.assert_array_equal(
        box.in_order([{"dose": "middle"}, {"dose": "high"}]), [[15], [20]]
    )


def test_brackets_read_the_number() -> None:
    rows = Box.of([Column("hours", thresholds=(10, 20))])
    with pytest.raises(InvalidInput, match="it takes one of under 10, 10 to 20, 20 or more"):
        rows.in_order([{"hours": 12}])
    np.testing.assert_array_equal(rows.in_order([{"hours": "10 to 20"}]), [[1]])


class TestRefused:
    def test_two_numbers_in_a_list_are_labels(self) -> None:
        box = Box.of({"age": [18, 90]})
        with pytest.raises(InvalidInput, match=r"one of 18, 90\. A list holds labels; declare two"):
            box.to_unit([{"age": 40}])
        with pytest.raises(InvalidInput, match=r"\[0\.0, 1\.0\], the codes of its labels 18, 90"):
            box.to_unit([[40.0]])

    def test_a_label_with_its_column_row_and_what_is_allowed(self) -> None:
        rows = [*ROWS, {**ROWS[0], "region": "nort"}]
        message = (
            r"contexts had 'nort' in column 'region', row 2; it takes one of north, south, east\. "
            r"Did you mean 'north'\?"
        )
        with pytest.raises(InvalidInput, match=message):
            BOX.to_unit(rows)
        with pytest.raises(InvalidInput, match=message):
            BOX.to_unit(pd.DataFrame(rows))

    def test_everything_that_is_wrong_at_once(self) -> None:
        rows = [{**ROWS[0], "region": 1, "age": "47"}, {**ROWS[0], "age": None}]
        with pytest.raises(InvalidInput) as refusal:
            BOX.to_unit(rows)
        assert str(refusal.value).splitlines() == [
            "2 things are wrong.",
            "1. contexts had '47' in column 'age', row 0 (and 1 more); it takes numbers "
            "from 18 to 90.",
            "2. contexts had 1 in column 'region', row 0; it takes one of north, south, east.",
        ]

    @pytest.mark.parametrize("missing", [None, math.nan, pd.NA, pd.NaT])
    def test_a_value_that_is_missing(self, missing: Any) -> None:
        with pytest.raises(InvalidInput, match="had no value in column 'region', row 0"):
            BOX.to_unit({**ROWS[0], "region": missing})

    def test_names_that_are_missing_or_too_many(self) -> None:
        with pytest.raises(InvalidInput, match=r"lacked the column 'age'.*Did you mean 'ages'\?"):
            BOX.to_unit(FRAME.rename(columns={"age": "ages"}))
        with pytest.raises(InvalidInput, match="had the column 'income', which the domain lacks"):
            BOX.to_unit(FRAME.assign(income=3.0))
        with pytest.raises(InvalidInput, match=r"lacked the column 'age'; .*, row 1 has smoker"):
            BOX.to_unit([ROWS[0], {k: v for k, v in ROWS[1].items() if k != "age"}])

    def test_more_columns_unless_they_are_to_be_ignored(self) -> None:
        more = FRAME.assign(income=3.0)
        np.testing.assert_array_equal(BOX.in_order(more, extra="ignore"), PEOPLE)
        rows = more.to_dict("records")
        np.testing.assert_array_equal(BOX.in_order(rows, extra="ignore"), PEOPLE)
        with pytest.raises(InvalidInput, match="extra was 'drop'; it must be one of refuse"):
            BOX.in_order(more, extra="drop")  # type: ignore[arg-type]

    def test_a_number_of_thousands_of_digits_in_place_of_a_label(self) -> None:
        with pytest.raises(InvalidInput, match="had a number of thousands of digits in column"):
            BOX.to_unit({**ROWS[0], "region": 10**5000})


class TestReportsThatArePrivate:
    """Nothing of a person is refused, because silence is not private."""

    @pytest.mark.parametrize("odd", ["west", None, 7, [1], math.nan])
    def test_an_odd_value_counts_as_missing(self, odd: Any) -> None:
        unit = BOX.nearest_unit({**ROWS[0], "region": odd})
        assert unit[0].tolist() == BOX.nearest_unit([[47.0, math.nan, 1.0, 2.0]])[0].tolist()

    def test_so_does_a_number_that_has_no_text(self) -> None:
        unit = BOX.nearest_unit({**ROWS[0], "region": 10**5000})
        assert unit[0].tolist() == BOX.nearest_unit([[47.0, math.nan, 1.0, 2.0]])[0].tolist()

    def test_so_does_a_key_that_is_not_there(self) -> None:
        person = {key: value for key, value in ROWS[0].items() if key != "age"}
        unit = BOX.nearest_unit(person)
        assert unit[0].tolist() == BOX.nearest_unit([[math.nan, 1.0, 1.0, 2.0]])[0].tolist()

    def test_names_of_no_column_are_a_mistake_of_the_program(self) -> None:
        with pytest.raises(InvalidInput, match="had the column 'agee', which the domain lacks"):
            BOX.nearest_unit({**ROWS[0], "agee": 40})
        person = {key: value for key, value in ROWS[0].items() if key != "age"}
        with pytest.raises(InvalidInput, match=r"'agee', .* Did you mean 'age'\?$"):
            BOX.nearest_unit({**person, "agee": 40})


def test_a_policy_takes_them_on_both_sides() -> None:
    policy = LocalKernel(BOX, 2, Local(1.0)).policy()
    rng = (np.random.default_rng(1) for _ in range(2))
    by_name, by_place = (policy.act(each, next(rng)) for each in (ROWS, PEOPLE))
    np.testing.assert_array_equal(by_name[0].arms, by_place[0].arms)
    reports = [
        policy.report(each, by_place[0], [1.0, 0.0], SimulatedNoise(1)) for each in (FRAME, PEOPLE)
    ]
    np.testing.assert_array_equal(reports[0].places, reports[1].places)
    np.testing.assert_array_equal(policy.probabilities(FRAME), policy.probabilities(PEOPLE))


def test_decision_sets_may_be_frames_or_dictionaries() -> None:
    domain = Box.of({"dose": (0, 200), "kind": ["pill", "drop"]})
    sets = [
        pd.DataFrame({"kind": ["pill", "drop"], "dose": [20, 40]}),
        [{"dose": 100, "kind": "drop"}],
        {"dose": 7, "kind": "pill"},
    ]
    read = Candidates.read(sets, domain, 3)
    arrays = [[[20.0, 0.0], [40.0, 1.0]], [[100.0, 1.0]], [[7.0, 0.0]]]
    plain = Candidates.read(arrays, domain, 3)
    np.testing.assert_array_equal(read.points, plain.points)
    np.testing.assert_array_equal(read.present, plain.present)
    np.testing.assert_array_equal(Candidates.nearest(sets, domain, 3).points, plain.points)
    learner = GPUCB(domain, DecisionSets(3), NonPrivate())
    policy = learner.policy()
    actions, _ = policy.act(sets, np.random.default_rng(1))
    learner.update(policy.report(sets, actions, [0.0, 1.0, 0.5], Unprotected()))
    assert learner.people == 3


class TestDeclaredColumns:
    def test_a_box_gives_its_columns_back(self) -> None:
        assert Box.of(BOX.columns) == BOX
        assert BOX.columns[1] == Column("region", values=["north", "south", "east"])

    def test_columns_keep_what_they_say(self) -> None:
        column = Column("x", 0, 1, outside="clip")
        assert declared_columns({"y": column})[0] == Column("y", 0, 1, outside="clip")

    @pytest.mark.parametrize(
        ("bounds", "message"),
        [
            ({"age": 90}, r"the bounds of column 'age' were 90; give a tuple \(lower, upper\)"),
            ("age", "the columns were 'age'; give a list of Column"),
            ([("age", 1, 2)], r"a column was \('age', 1, 2\); give Column"),
            ([Column("x", 0, 1), Column("x", 0, 1)], "each once"),
            ({"rate": {"lower": 0, "upper": 1, "log": True}}, "lower bound 0; logarithms need"),
        ],
    )
    def test_what_is_wrong_is_said(self, bounds: Any, message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            declared_columns(bounds)

    def test_a_box_takes_no_logarithms(self) -> None:
        with pytest.raises(InvalidInput, match="has log = True, which columns of a Search have"):
            Box.of([Column("rate", 0.1, 1.0, log=True)])
