"""What travels between the parties: it comes back as it was, and what was changed is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from discreet.outsourcing.exchange import (
    ReleasedTable,
    format_of,
    read_answers,
    read_questions,
    write_answers,
    write_questions,
    write_table,
)
from discreet.outsourcing.mechanisms import Question
from discreet.people.tables import read_table
from discreet.validation import InvalidInput
from tests.outsourcing.cases import publish, release, table

NAME = "0123456789abcdef" * 2
# All digits: as a number it would lose some of them.
DIGITS = "00012345678901234567890123456789"
QUESTIONS = [Question(1, 30), Question(2, 0), Question(7, 12)]
ANSWERS = [QUESTIONS[0].answered(1.25), QUESTIONS[1].answered(None), QUESTIONS[2].answered(-1e-17)]


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("name", [NAME, DIGITS])
def test_they_come_back(tmp_path: Path, ending: str, name: str) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    asking, telling = tmp_path / f"ask.{ending}", tmp_path / f"answers.{ending}"
    # A second time over the first.
    for _ in range(2):
        write_questions(name, QUESTIONS, asking)
        write_answers(name, ANSWERS, telling)
    nothing = [question.answered(None) for question in QUESTIONS]
    write_answers(name, nothing, asking.with_name(f"nothing.{ending}"))
    assert read_answers(asking.with_name(f"nothing.{ending}")) == (name, nothing)
    assert read_questions(asking) == (name, QUESTIONS)
    assert read_answers(telling) == (name, ANSWERS)


def test_what_spreadsheets_do_to_them(tmp_path: Path) -> None:
    """Whole numbers with a point, spaces after commas, carriage returns."""
    path = tmp_path / "answers.csv"
    path.write_bytes(
        f"release, question, row, answer\r\n{NAME}, 1.0, 30.0, 5\r\n{NAME}, 2.0, 0.0,\r\n".encode()
    )
    assert read_answers(path) == (
        NAME,
        [Question(1, 30).answered(5.0), Question(2, 0).answered(None)],
    )


def test_an_ask_file_is_no_answers_file(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    write_questions(NAME, QUESTIONS, path)
    with pytest.raises(InvalidInput, match="an answers file has"):
        read_answers(path)
    with pytest.raises(InvalidInput, match="is not a file with the columns"):
        write_answers(NAME, ANSWERS, path)
    assert read_questions(path) == (NAME, QUESTIONS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"question": [1, 1, 2]}, "question 1 twice"),
        ({"question": [1, None, 2]}, "in line 3"),
        ({"question": [0, 1, 2]}, "at least 1"),
        ({"row": [0, 1, -1]}, "the row -1 in line 4"),
        ({"row": [0, 1, 2.5]}, "whole number"),
        ({"row": [0, 1, 1e300]}, "whole number"),
        ({"row": ["0", "one", "2"]}, "'one' in line 3"),
        ({"release": [NAME, NAME, DIGITS]}, "is about 2 releases"),
        ({"more": [1, 2, 3]}, "has the columns"),
    ],
)
def test_mistakes(tmp_path: Path, change: dict[str, list[object]], message: str) -> None:
    frame = pd.DataFrame({"release": [NAME] * 3, "question": [1, 2, 7], "row": [30, 0, 12]})
    frame.assign(**change).to_csv(tmp_path / "ask.csv", index=False)
    with pytest.raises(InvalidInput, match=message):
        read_questions(tmp_path / "ask.csv")


def test_edited_rows_are_refused(key: Path, tmp_path: Path) -> None:
    publish(key, release(key), tmp_path / "out")
    rows = tmp_path / "out" / "rows.csv"
    rows.write_text(rows.read_text().replace("0", "1", 1))
    with pytest.raises(InvalidInput, match="not the file that the certificate"):
        ReleasedTable.read(tmp_path / "out")
    rows.unlink()
    with pytest.raises(InvalidInput, match="or not all of it"):
        ReleasedTable.read(tmp_path / "out")


def test_folders_without_a_release(tmp_path: Path) -> None:
    (tmp_path / "latin").mkdir()
    (tmp_path / "latin" / "certificate.json").write_bytes(b"\xff")
    for folder in (tmp_path, tmp_path / "none", tmp_path / "latin"):
        with pytest.raises(InvalidInput, match="there is no release"):
            ReleasedTable.read(folder)


@pytest.mark.parametrize("projected", [None, 1])
def test_rows_and_beliefs_lie_in_the_public_box(
    key: Path, tmp_path: Path, projected: int | None
) -> None:
    made = release(key, projected=projected)
    publish(key, made, tmp_path / "out")
    arrived = ReleasedTable.read(tmp_path / "out")
    rows, (low, high) = table()[["a", "b"]].to_numpy(), arrived.box
    if made.projection is None:
        assert (low.tolist(), high.tolist()) == ([0.0, 0.0], [10.0, 10.0])
    else:
        rows = rows @ made.projection.matrix
    beliefs = arrived.beliefs()
    assert rows.shape == arrived.points.shape
    for inside in (rows, beliefs.mean):
        assert ((inside >= low) & (inside <= high)).all()
    assert (beliefs.variance <= made.mechanism.scale**2 * (1 + 1e-9)).all()


class TestTables:
    frame = pd.DataFrame(
        {
            "name": ["a,b", 'say "hi"', "line\nbreak", "car\rriage", "007"],
            "number": [0.1, 1e-300, -0.0, np.nan, 1 / 3],
        }
    )

    @pytest.mark.parametrize(
        "name", ["t.csv", "t.CSV", "t.csv.gz", "t.parquet", "t.pq", "two.dots.csv"]
    )
    def test_they_come_back(self, tmp_path: Path, name: str) -> None:
        if "p" in format_of(Path(name)):
            pytest.importorskip("pyarrow")
        write_table(self.frame, tmp_path / name)
        found = read_table(tmp_path / name, ("name",))
        assert found["name"].tolist() == self.frame["name"].tolist()
        np.testing.assert_array_equal(found["number"], self.frame["number"])
        assert [one.name for one in tmp_path.iterdir()] == [name]

    def test_numbers_to_the_last_digit(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(0)
        values = 10.0 ** rng.uniform(-200, 200, 20_000) * rng.choice([-1.0, 1.0], 20_000)
        write_table(pd.DataFrame({"x": values}), tmp_path / "t.csv")
        np.testing.assert_array_equal(read_table(tmp_path / "t.csv")["x"], values)

    def test_refusals(self, tmp_path: Path) -> None:
        for name in ("t.txt", "t", "t.csv.zip"):
            with pytest.raises(InvalidInput, match="must end in"):
                write_table(self.frame, tmp_path / name)
        for path in (tmp_path / "none.csv", tmp_path):
            with pytest.raises(InvalidInput, match=r"not a file|must end in"):
                read_table(path)
        with pytest.raises(InvalidInput, match="does not exist"):
            write_table(self.frame, tmp_path / "no" / "t.csv")
        (tmp_path / "bad.csv").write_text("a,b\n1,2,3\n")
        with pytest.raises(InvalidInput, match="has 3 fields in line 2"):
            read_table(tmp_path / "bad.csv")
        assert [one.name for one in tmp_path.iterdir()] == ["bad.csv"]
