"""What columns of a table seem to hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from discreet.lab.environments.scaffold import ColumnProfile, profile_table
from discreet.validation import InvalidInput

ROWS = 120


def written(folder: Path, columns: dict[str, Sequence[object]], name: str = "people.csv") -> Path:
    path = folder / name
    frame = pd.DataFrame(columns)
    if name.endswith(".csv"):
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    return path


def profiled(folder: Path, values: Sequence[object], name: str = "x") -> ColumnProfile:
    """The profile of one column with these values, again and again."""
    whole = [values[row % len(values)] for row in range(max(ROWS, len(values)))]
    (profile,) = profile_table(written(folder, {name: whole})).columns
    return profile


@pytest.mark.parametrize(
    ("values", "kind", "holds"),
    [
        ([1.5, 2.25, 100.0], "numbers", "numbers"),
        (list(range(18, 91)), "numbers", "whole numbers"),
        ([1, 2, 3, 4, 5], "levels", "whole numbers, 5 different ones"),
        ([1.0, 2.0, 3.0, ""], "levels", "whole numbers, 3 different ones"),
        ([1, 4, 20], "numbers", "whole numbers"),
        ([36, 60, ""], "labels", "36 and 60"),
        ([10, 200, 3000], "numbers", "whole numbers"),
        ([0, 1], "labels", "0 and 1"),
        (["1", "2", "3+"], "labels", "3 labels"),
        (["yes", "no"], "labels", "2 labels"),
        ([True, False], "labels", "true and false"),
        (["TRUE", "FALSE", "NA"], "labels", "2 labels"),
        (["01", "02"], "labels", "2 labels"),
        (["5%", "10%"], "labels", "2 labels"),
        (["a"], "left out", "the same text in every row"),
        ([7], "left out", "the same number in every row"),
        (["", "?", "NA"], "left out", "nothing"),
        (["2024-01-31", "2024-02-01 12:00"], "left out", "dates"),
        (["31.1.2024", "1.2.2024"], "left out", "dates"),
        ([20240131, 20231231], "left out", "dates, as whole numbers"),
        (list(range(1000, 1400, 2)), "left out", "whole numbers that rise from row to row"),
        ([f"p{n}" for n in range(200)], "left out", "ids or free text: no value comes twice"),
        ([f"p{n}" for n in range(70)], "left out", "free text, or labels of which there are 70"),
        ([f"{n},{n}00" for n in range(1, 80)], "numbers", "numbers with a separator of thousands"),
        ([f"{n}.5%" for n in range(80)], "left out", "percentages"),
        (
            [n + 0.5 for n in range(59)] + ["unknown"],
            "left out",
            "numbers, but 2 rows hold text such as 'unknown'",
        ),
    ],
)
def test_kinds_of_columns(tmp_path: Path, values: Sequence[object], kind: str, holds: str) -> None:
    profile = profiled(tmp_path, values)
    assert profile.kind == kind
    assert profile.holds.startswith(holds)
    assert bool(profile.labels) or kind not in ("labels", "levels")


@pytest.mark.parametrize(
    ("values", "kind", "question"),
    [
        (["2024-01-31", "31/12/2024"], "numbers", "dates are written in several ways"),
        (["31/12/2024", "12/31/2024"], "numbers", "dates are written in several ways"),
        (["31/12/2024", "01/12/2024"], "left out", ""),
        (["1,5", "2,75", "3.5"], "numbers", "'1,5' may have a decimal comma"),
        (["1,234", "2,345"], "numbers", "'1,234' may have a decimal comma"),
        (["ja", "Ja", "nein"], "labels", "'Ja' and 'ja' differ in capitals alone"),
        (["ja", "nein"], "labels", ""),
    ],
)
def test_what_can_be_read_in_two_ways_is_a_question(
    tmp_path: Path, values: Sequence[object], kind: str, question: str
) -> None:
    profile = profiled(tmp_path, values)
    assert profile.kind == kind
    assert question in profile.question
    assert bool(profile.question) == bool(question)


@pytest.mark.parametrize("name", ["id", "person_id", "Patient ID", "customerId", "UUID", "uuid"])
def test_ids_are_known_by_their_names(tmp_path: Path, name: str) -> None:
    numbers = profiled(tmp_path, list(range(0, 90, 3)), name)
    assert (numbers.kind, numbers.names_people) == ("left out", True)
    texts = profiled(tmp_path, ["x7", "x9", "x11"], name)
    assert (texts.kind, texts.names_people) == ("left out", True)


def test_other_names_are_no_ids(tmp_path: Path) -> None:
    for name in ("humid", "paid", "valid", "IDEA"):
        assert profiled(tmp_path, ["x7", "x9"], name).kind == "labels"


def test_missing_values_and_rare_labels_are_counted(tmp_path: Path) -> None:
    values = ["b"] * 100 + ["a"] * 20 + ["", "NA", " null "] + ["c"] * 9
    profile = profiled(tmp_path, values)
    assert (profile.labels, profile.missing, profile.rare) == (("a", "b", "c"), 3, 1)
    assert profile.advice == "rows with 'NA' or 'null' count as such, unless that is declared too"


def test_labels_are_written_as_the_table_has_them(tmp_path: Path) -> None:
    assert profiled(tmp_path, ["010", "9", "1e1"]).labels == ("9", "010", "1e1")
    assert profiled(tmp_path, ["b", "a", "10", "9"]).labels == ("9", "10", "a", "b")
    assert profiled(tmp_path, ["TRUE", "false"]).labels == (False, True)
    assert profiled(tmp_path, [3, 1, 2]).labels == (1, 2, 3)


@pytest.mark.parametrize("mark", [-9, 99, -999, 9999])
def test_numbers_that_mark_a_missing_value_are_pointed_out(tmp_path: Path, mark: int) -> None:
    profile = profiled(tmp_path, [1, 2, 3, 4, mark])
    assert (profile.kind, profile.labels) == ("levels", (1, 2, 3, 4))
    assert (profile.mark, profile.marked) == (mark, ROWS // 5)


def test_numbers_that_could_be_values_are_no_marks(tmp_path: Path) -> None:
    for values in (
        [90.5, 95.0, 99.0],
        [1, 2, 3, 4, 5, 9],
        [0, 99],
        [-9, 0, 9],
        [98, 99, 999, 1800],
    ):
        assert profiled(tmp_path, values).mark is None


def test_a_table_knows_its_columns_by_name(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(",x,x,y\n" + "\n".join(f"{n},1,2,{n % 3}" for n in range(30)) + "\n")
    table = profile_table(path)
    assert table.rows == 30
    assert [each.holds for each in table.columns[:3]] == [
        "a column without a name",
        "2 columns have this name",
        "2 columns have this name",
    ]
    assert list(table.named) == ["y"]


def test_decimal_commas_are_read_where_semicolons_separate(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("x;y\n" + "\n".join(f"{n},5;a" for n in range(80)) + "\n")
    assert profile_table(path).columns[0].kind == "numbers"


def test_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    days = pd.date_range("2024-01-01", periods=ROWS)
    columns = {
        "day": list(days),
        "flag": [row % 2 == 0 for row in range(ROWS)],
        "some": [None if row % 4 == 0 else row % 2 == 0 for row in range(ROWS)],
        "code": ["01", "02"] * (ROWS // 2),
        "x": [row * 0.5 for row in range(ROWS)],
    }
    table = profile_table(written(tmp_path, columns, "people.parquet"))
    kinds = {each.name: (each.kind, each.labels, each.missing) for each in table.columns}
    assert kinds == {
        "day": ("left out", (), 0),
        "flag": ("labels", (False, True), 0),
        "some": ("labels", (False, True), ROWS // 4),
        "code": ("labels", ("01", "02"), 0),
        "x": ("numbers", (), 0),
    }


def test_a_profile_names_no_lowest_or_highest_value(tmp_path: Path) -> None:
    for values in ([1234.5, 777.25, 42.125], [n * 37 + 4321 for n in range(90)]):
        text = str(profiled(tmp_path, values))
        assert str(min(values)) not in text
        assert str(max(values)) not in text


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not a file that exists"):
        profile_table(tmp_path / "none.csv")


def test_fields_that_hold_several_values_are_left_out(tmp_path: Path) -> None:
    columns = {"several": [[1, 2]] * 30, "parts": [{"a": 1}] * 30, "one": [1.5, 2.5, 4.0] * 10}
    table = profile_table(written(tmp_path, columns, "people.parquet"))
    assert [each.kind for each in table.columns] == ["left out", "left out", "numbers"]
    assert [each.holds for each in table.columns[:2]] == ["several values in a field"] * 2
