"""Reading tables: bounds are declared, and whatever does not fit is refused or follows a rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from discreet.people.columns import Column
from discreet.people.domain import Box
from discreet.people.tables import RowCounts, encode_columns, kept_rows, person_numbers, read_table
from discreet.validation import InvalidInput
from tests.lab.environments.cases import read_contexts

AGE = Column("age", 21, 64, 44)
GENDER = Column("gender", values=("female", "male"))


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {"age": [21, 40, 64], "gender": ["male", "female", "male"], "pay": [1.5] * 3}
    )


def test_contexts_and_domain(frame) -> None:
    contexts, domain = read_contexts(frame, [AGE, GENDER])
    np.testing.assert_array_equal(contexts, [[21, 1], [40, 0], [64, 1]])
    assert contexts.dtype == np.float64
    assert domain == Box.of([AGE, GENDER])
    assert (domain.lower, domain.upper) == ((21.0, 0.0), (64.0, 1.0))
    assert (domain.names, domain.levels) == (("age", "gender"), (44, 2))
    domain.to_unit(contexts)


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_every_format_reads_the_same(frame, tmp_path, ending) -> None:
    path = tmp_path / f"people.{ending}"
    if ending == "parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    contexts, _ = read_contexts(read_table(path, ["gender"]), [AGE, GENDER])
    np.testing.assert_array_equal(contexts, [[21, 1], [40, 0], [64, 1]])


def test_labels_that_look_like_numbers_or_gaps_stay_labels(tmp_path) -> None:
    path = tmp_path / "zones.csv"
    path.write_text("zone,plan\n01,None\n1,basic\n01,basic\n")
    zone = Column("zone", values=("1", "01"))
    plan = Column("plan", values=("None", "basic"))
    contexts, _ = read_contexts(read_table(path, ["zone", "plan"]), [zone, plan])
    np.testing.assert_array_equal(contexts, [[1, 0], [0, 1], [1, 1]])


def test_whole_numbers_and_booleans_can_be_labels() -> None:
    frame = pd.DataFrame({"tip": [1.0, 0.0, np.nan], "new": [True, False, True]})
    tip = Column("tip", values=("0", "1"), missing="drop")
    contexts, _ = read_contexts(frame, [tip, Column("new", values=("False", "True"))])
    np.testing.assert_array_equal(contexts, [[1, 1], [0, 0]])


@pytest.mark.parametrize(
    ("declared", "written"),
    [
        ((0, 1), ["0", "1", "0"]),
        ((0, 1), ["0.0", "1.0", "0"]),
        ((0, 1), [0.0, 1.0, 0.0]),
        ((0.5, 1), ["0.5", "1", "0.5"]),
        ((False, True), [False, True, False]),
        ((False, True), ["FALSE", "true", "False"]),
        (("False", "True"), [False, True, False]),
        (("0", "1"), [0, 1, 0]),
    ],
)
def test_numbers_and_truth_values_are_labels_however_they_are_written(declared, written) -> None:
    column = Column("tip", values=declared)
    contexts, _ = read_contexts(pd.DataFrame({"tip": written}), [column])
    np.testing.assert_array_equal(contexts[:, 0], [0, 1, 0])


def test_truth_values_with_gaps_are_numbers() -> None:
    frame = pd.DataFrame({"new": [True, None, False]})
    contexts, _ = read_contexts(frame, [Column("new", 0, 1, 2, missing="drop")])
    np.testing.assert_array_equal(contexts[:, 0], [1, 0])


def test_booleans_and_nullable_integers_are_numbers() -> None:
    frame = pd.DataFrame({"new": [True, False], "count": pd.array([3, 4], dtype="Int64")})
    contexts, _ = read_contexts(frame, [Column("new", 0, 1, 2), Column("count", 0, 9)])
    np.testing.assert_array_equal(contexts, [[1, 3], [0, 4]])


def test_outside_rules() -> None:
    frame = pd.DataFrame({"age": [10, 30, 80, 40], "x": [1, 2, 3, 4]})
    other = Column("x", 0, 9)
    clipped, _ = read_contexts(frame, [Column("age", 21, 64, outside="clip"), other])
    np.testing.assert_array_equal(clipped, [[21, 1], [30, 2], [64, 3], [40, 4]])
    _, rows = encode_columns(frame, [Column("age", 21, 64, outside="clip"), other])
    assert rows == RowCounts(4, 4, clipped=(("age", 2),))
    (warning,) = rows.warnings
    assert warning.startswith("2 of 4 values of column 'age' lie beyond its declared bounds")
    assert RowCounts(10, 10, clipped=(("age", 2),)).warnings == ()
    dropped, _ = read_contexts(frame, [Column("age", 21, 64, outside="drop"), other])
    np.testing.assert_array_equal(dropped, [[30, 2], [40, 4]])
    label = pd.DataFrame({"gender": ["male", "robot", "female"]})
    known, _ = read_contexts(label, [Column("gender", values=GENDER.values, outside="drop")])
    np.testing.assert_array_equal(known, [[1], [0]])


@pytest.mark.parametrize("gap", [None, np.nan, "", "?", "NA"])
def test_missing_rules(gap) -> None:
    frame = pd.DataFrame({"age": pd.Series([30, gap, 40], dtype=object)})
    values, _ = encode_columns(frame, [Column("age", 21, 64, missing="drop")])
    np.testing.assert_array_equal(kept_rows(values), [True, False, True])
    np.testing.assert_array_equal(values[:, 0], [30, np.nan, 40])
    with pytest.raises(InvalidInput, match=r"no value in 1 of 3 rows, first in row 3.*\"drop\""):
        encode_columns(frame, [Column("age", 21, 64)])


def test_missing_and_unknown_labels_are_told_apart() -> None:
    frame = pd.DataFrame({"gender": ["male", None, "robot"]})
    keep_known = Column("gender", values=GENDER.values, outside="drop")
    with pytest.raises(InvalidInput, match="no value in 1 of 3 rows"):
        encode_columns(frame, [keep_known])
    with pytest.raises(InvalidInput, match=r"not declared in 1 of 3 rows, first robot in row 4"):
        encode_columns(frame, [GENDER])


@pytest.mark.parametrize(
    ("values", "column", "message"),
    [
        ([30, 99, 70], AGE, r"bounds \[21, 64\] in 2 of 3 rows, first 99 in row 3"),
        ([30, np.inf], AGE, "first inf in row 3"),
        ([30, 30.5], AGE, "between two of its 44 declared levels .* first 30.5 in row 3"),
        ([30, "old"], AGE, "held text in 1 of 2 rows, first old in row 3"),
        ([[30], [31]], AGE, "held text in 2 of 2 rows"),
        (pd.to_datetime(["2020-01-01", "2020-01-02"]), AGE, "datetime64.* plain numbers"),
        ([np.nan], Column("age", 0, 1, missing="drop"), "no row is left: 0 of 1 rows; 1 lacks age"),
        ([7], Column("age", 0, 1, outside="drop"), "1 outside the declared age"),
    ],
)
def test_values_that_are_refused(values, column, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_contexts(pd.DataFrame({"age": values}), [column])


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("1,234", "1234, not 1,234"),
        ("1.234,5", "decimal point"),
        ("1,5", "separate the columns by semicolons"),
        ("12 %", "5 or 0.05, not 5%"),
        ("2024-03-01", "days since a fixed one"),
        ("1.3.2024", "days since a fixed one"),
        ("old", "values ="),
    ],
)
def test_text_among_numbers_gets_the_advice_that_helps(text, advice) -> None:
    with pytest.raises(InvalidInput, match=advice):
        read_contexts(pd.DataFrame({"age": ["30", text]}), [AGE])


def test_all_columns_that_do_not_fit_are_named_at_once(frame) -> None:
    columns = [Column("age", 50, 60), Column("wage", 0, 1), Column("gender", values=("m", "f"))]
    with pytest.raises(InvalidInput) as refused:
        encode_columns(frame, columns)
    assert len(refused.value.args) == 3
    assert str(refused.value).startswith("3 things are wrong.\n1. column 'age' was outside")
    for what in ("\n2. column 'wage' is not in the table", "\n3. column 'gender' had a label"):
        assert what in str(refused.value)


def test_advice_to_leave_rows_out_depends_on_who_asks() -> None:
    frame = pd.DataFrame({"age": [30, None], "pay": [1, 99], "sex": ["m", "x"]})
    columns = [AGE, Column("pay", 0, 9), Column("sex", values=("f", "m"))]
    for may_drop in (True, False):
        with pytest.raises(InvalidInput) as refused:
            encode_columns(frame, columns, may_drop)
        assert [("drop" in text) for text in refused.value.args] == [may_drop] * 3


def test_people_who_are_left_out_are_counted() -> None:
    frame = pd.DataFrame({"age": [30, None, 99, 40], "sex": ["m", None, "f", "x"]})
    age = Column("age", 21, 64, outside="drop", missing="drop")
    sex = Column("sex", values=("f", "m"), outside="drop", missing="drop")
    _, rows = encode_columns(frame, [age, sex])
    assert rows == RowCounts(4, 1, (("age", 1), ("sex", 1)), (("age", 1), ("sex", 1)))
    assert rows.sentence == (
        "1 of 4 rows; 1 lacks age, 1 lacks sex, 1 outside the declared age, 1 outside the declared "
        "sex (some rows count for several columns)"
    )
    more = RowCounts(5700, 2477, (("VKORC1", 2911), ("age", 312)))
    assert more.sentence == "2,477 of 5,700 rows; 2,911 lack VKORC1, 312 lack age"
    assert RowCounts(5700, 5700).sentence == "All 5,700 rows"


def test_a_column_that_is_not_there_suggests_the_nearest(frame) -> None:
    with pytest.raises(InvalidInput, match=r"Did you mean 'gender'\?$"):
        read_contexts(frame, [Column("Gender", 0, 1)])
    garbled = pd.DataFrame({"Ïîë": [1]})
    with pytest.raises(InvalidInput, match="save the table as UTF-8"):
        read_contexts(garbled, [Column("Пол", 0, 1)])


def test_columns_that_are_not_there(frame) -> None:
    with pytest.raises(InvalidInput, match=r"'wage' is not in the table, which has: age, gender"):
        read_contexts(frame, [Column("wage", 0, 1)])
    twice = pd.concat([frame, frame[["age"]]], axis=1)
    with pytest.raises(InvalidInput, match="'age' occurs 2 times in the table"):
        read_contexts(twice, [AGE])


@pytest.mark.parametrize("columns", [[], [AGE, AGE]])
def test_columns_must_be_named_once(frame, columns) -> None:
    with pytest.raises(InvalidInput, match="at least one, each once"):
        read_contexts(frame, columns)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Column("", 0, 1), "name was ''"),
        (lambda: Column("age", 1, 1), r"'age' had bounds \[1.0, 1.0\]"),
        (lambda: Column("age", 0, np.inf), "upper bound of column 'age' was inf"),
        (lambda: Column("age", 0, "1"), "upper bound of column 'age' was '1'"),
        (lambda: Column("age", 0, 1, 1), "levels of column 'age' was 1"),
        (lambda: Column("age", 0, 1, outside="ignore"), "'ignore'.* error, clip, drop"),
        (lambda: Column("age", 0, 1, missing="clip"), "'clip'.* error, drop"),
        (lambda: Column("g", 0, 5, 2, ("a", "b")), "labels are encoded 0 to 1"),
        (lambda: Column("g", values=("a",)), "at least two"),
        (lambda: Column("g", values=("a", "a")), "each once"),
        (lambda: Column("g", values="ab"), "list of texts"),
        (lambda: Column("g", values=(1, "1")), "each once"),
        (lambda: Column("g", values=(0, None)), "list of texts"),
        (lambda: Column("g", values=("a", "b"), outside="clip"), "no nearest bound"),
    ],
)
def test_columns_that_are_refused(make, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()


def test_ids_of_people_become_numbers() -> None:
    texts = pd.Series(["07", "7", "07", "b"], name="user")
    assert person_numbers(texts).tolist() == [0, 1, 0, 2]
    assert person_numbers(pd.Series([7, 3, 7])).tolist() == [1, 0, 1]
    assert person_numbers(pd.Series([7.0, 3.0, 7.0])).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1.0, np.nan], "empty in 1 of 2 rows, first in row 3"),
        (["a", ""], "empty in 1 of 2 rows"),
        (["a", None], "empty in 1 of 2 rows"),
        ([0.5, 1.0], "texts or whole numbers"),
        ([True, False], "texts or whole numbers"),
        (pd.to_datetime(["2020-01-01", "2020-01-02"]), "texts or whole numbers"),
    ],
)
def test_ids_that_are_missing_or_none_are_refused(ids: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        person_numbers(pd.Series(ids, name="user"))


class TestUnknownValues:
    """missing = "unknown": a further label, or the middle of the bounds and an indicator."""

    FRAME = pd.DataFrame(
        {
            "age": [20.0, None, 90.0, 40.0],
            "region": ["north", "?", "south", None],
            "rooms": [2, 3, None, 1],
            "hours": [None, 5.0, 20.0, 1.0],
        }
    )
    COLUMNS = (
        Column("age", 0, 100, missing="unknown"),
        Column("region", values=["north", "south"], missing="unknown"),
        Column("rooms", 1, 4, 4, missing="unknown"),
        Column("hours", thresholds=(3, 10), missing="unknown"),
    )

    def test_indicators_follow_from_values_once_these_are_within_the_bounds(self) -> None:
        age = Column("age", 30, 80, outside="clip", missing="unknown", indicators=(30, 55))
        values, rows = encode_columns(self.FRAME, [age])
        assert Box.of([age]).names == ("age", "age unknown", "age = 30", "age = 55")
        expected = [[30, 0, 1, 0], [55, 1, 0, 0], [80, 0, 0, 0], [40, 0, 0, 0]]
        np.testing.assert_array_equal(values, expected)
        assert rows.used == 4
        unit = Box.of([age]).people_to_unit(values)
        np.testing.assert_array_equal(Box.of([age]).from_unit(unit), values)

    def test_columns_of_the_table_with_the_name_of_an_indicator_are_refused(self) -> None:
        age = Column("age", 0, 100, indicators=(20,))
        for values in (("no", "yes"), ("a", "b")):
            with pytest.raises(InvalidInput, match="indicator that column 'age' adds"):
                encode_columns(self.FRAME, [age, Column("age = 20", values=values)])

    def test_every_row_stays_and_says_what_it_lacks(self) -> None:
        values, rows = encode_columns(self.FRAME, self.COLUMNS)
        domain = Box.of(self.COLUMNS)
        names = ("age", "age unknown", "region", "rooms", "rooms unknown", "hours")
        assert domain.names == names
        assert domain.categories[2] == ("north", "south", "unknown")
        assert domain.categories[5] == ("under 3", "3 to 10", "10 or more", "unknown")
        np.testing.assert_array_equal(
            values,
            [
                [20, 0, 0, 2, 0, 3],
                [50, 1, 2, 3, 0, 1],
                [90, 0, 1, 2, 1, 2],
                [40, 0, 2, 1, 0, 0],
            ],
        )
        assert (rows.used, rows.sentence, rows.warnings) == (4, "All 4 rows", ())
        domain.people_to_unit(values)

    def test_what_is_filled_in_is_public(self) -> None:
        """The middle of the declared bounds, whatever the table holds."""
        others = self.FRAME.assign(age=[99.0, None, 98.0, 97.0])
        values, _ = encode_columns(others, self.COLUMNS)
        assert values[1, 0] == 50.0

    def test_a_column_that_is_copied_stays_as_it_is(self) -> None:
        for column in self.COLUMNS:
            assert replace(column) == column

    def test_many_rows_that_go_are_the_first_warning(self) -> None:
        frame = pd.DataFrame({"age": [None, None, *range(20, 38)], "rooms": [9] * 5 + [1] * 15})
        columns = [Column("age", 0, 100, missing="drop"), Column("rooms", 1, 4, outside="clip")]
        _, rows = encode_columns(frame, columns)
        assert not any("left out" in text for text in rows.warnings)
        _, rows = encode_columns(frame.iloc[:19], columns)
        assert rows.warnings[0].startswith("2 of 19 rows (11%) are left out: 2 lack age.")
        assert 'missing = "unknown" keeps people' in rows.warnings[0]
