"""Tables in files: separators, encodings and decimal commas of different programs."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest

from discreet.people.columns import Column
from discreet.people.tables import column_of, read_table
from discreet.validation import InvalidInput
from tests.lab.environments.cases import read_contexts

PEOPLE = (Column("Größe", 0, 3), Column("Ort", values=("Köln", "Bad, Ems")))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252", "latin-1"])
@pytest.mark.parametrize(
    "text",
    [
        'Größe,Ort\n1.75,Köln\n2,"Bad, Ems"\n',
        "Größe; Ort \n1,75;Köln\n2;Bad, Ems\n",
        "Größe\tOrt\n1.75\tKöln\n2\tBad, Ems\n",
        "\nGröße;Ort;\n1.75;Köln;\n2;Bad, Ems;\n",
    ],
    ids=["comma", "decimal comma", "tab", "semicolon"],
)
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_programs_write_csv_in_many_ways(tmp_path, text, encoding, ending) -> None:
    path = tmp_path / f"people.{ending}"
    content = text.encode(encoding)
    path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    contexts, _ = read_contexts(read_table(path, ["Ort"]), PEOPLE)
    np.testing.assert_array_equal(contexts, [[1.75, 0], [2, 1]])


def test_decimal_commas_leave_labels_and_text_alone(tmp_path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("code;pay;note;gap\n1,5;1,5e2;a, b;\n2;-3;;7\n")
    frame = read_table(path, ["code"])
    assert frame["code"].tolist() == ["1,5", "2"]
    assert frame["note"].iloc[0] == "a, b"
    contexts, _ = read_contexts(frame, [Column("pay", -9, 999)])
    np.testing.assert_array_equal(contexts[:, 0], [150, -3])


def test_decimal_commas_and_points_in_one_table_are_refused(tmp_path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("height;pay\n1,75;1.234\n1,80;2.500\n")
    with pytest.raises(InvalidInput, match=r"commas in column 'height' and the number 1\.234"):
        read_table(path)


def test_names_that_occur_twice_stay_twice(tmp_path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age,pay,age\n1,2,3\n")
    frame = read_table(path)
    assert frame.columns.tolist() == ["age", "pay", "age"]
    with pytest.raises(InvalidInput, match="'age' occurs 2 times"):
        column_of(frame, "age")


def test_trailing_commas_do_not_shift_columns(tmp_path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age, pay\n30, 2,\n40, 3,\n")
    contexts, _ = read_contexts(read_table(path), [Column("age", 0, 99), Column("pay", 0, 9)])
    np.testing.assert_array_equal(contexts, [[30, 2], [40, 3]])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("people.xlsx", b"x", "must end in .csv, .csv.gz or .parquet"),
        ("empty.csv", b"", "is empty"),
        ("header.csv", b"age,pay\n", "has no rows"),
        ("longer.csv", b"age,pay\n1,2\n1,2,3,4\n", "has 4 fields in line 3 and 2 in its header"),
        ("rownames.csv", b"age,pay\nanna,1,2\n", "has 3 fields in line 2 and 2 in its header"),
        ("binary.csv", b"PK\x03\x04\x00\x00", "holds no text"),
        ("plain.csv.gz", b"age\n1\n", "could not be read as CSV"),
        (
            "cut.csv.gz",
            gzip.compress(b"age\n" + b"1\n" * 99, mtime=0)[:-9],
            "could not be read as CSV",
        ),
        ("text.parquet", b"age\n1\n", "could not be read as Parquet"),
    ],
)
def test_files_that_are_refused(tmp_path, name, content, message) -> None:
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=message):
        read_table(path)


def test_a_file_that_is_not_there(tmp_path) -> None:
    with pytest.raises(InvalidInput, match=r"nobody\.csv' is not a file that exists"):
        read_table(tmp_path / "nobody.csv")


def test_parquet_without_pyarrow(tmp_path, monkeypatch) -> None:
    path = tmp_path / "people.parquet"
    path.write_bytes(b"PAR1")

    def refuse(*arguments: object, **settings: object) -> None:
        raise ImportError("no pyarrow")

    monkeypatch.setattr(pd, "read_parquet", refuse)
    with pytest.raises(InvalidInput, match=r'pip install "discreet\[parquet\]"'):
        read_table(path)
