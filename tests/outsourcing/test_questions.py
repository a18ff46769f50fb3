"""The files that travel between the parties."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from discreet.outsourcing.questions import (
    Answer,
    Question,
    read_answers,
    read_questions,
    write_answers,
    write_questions,
)
from discreet.validation import InvalidInput

NAME = "0123456789abcdef" * 2
# All digits: as a number it would lose some of them.
DIGITS = "00012345678901234567890123456789"
QUESTIONS = [Question(1, 30), Question(2, 0), Question(7, 12)]
ANSWERS = [Answer(QUESTIONS[0], 1.25), Answer(QUESTIONS[1], None), Answer(QUESTIONS[2], -1e-17)]


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
    assert read_questions(asking) == (name, QUESTIONS)
    assert read_answers(telling) == (name, ANSWERS)


def test_answers_that_all_say_that_nothing_can_be_measured(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    nothing = [Answer(question, None) for question in QUESTIONS]
    write_answers(NAME, nothing, path)
    assert read_answers(path) == (NAME, nothing)


def test_what_spreadsheets_do_to_them(tmp_path: Path) -> None:
    """Whole numbers with a point, spaces after commas, carriage returns."""
    path = tmp_path / "answers.csv"
    path.write_bytes(
        f"release, question, row, answer\r\n{NAME}, 1.0, 30.0, 5\r\n{NAME}, 2.0, 0.0,\r\n".encode()
    )
    assert read_answers(path) == (
        NAME,
        [Answer(Question(1, 30), 5.0), Answer(Question(2, 0), None)],
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
        ({"row": [0, 1, -1]}, "in line 4"),
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


def test_questions_stand_in_order_of_their_numbers() -> None:
    assert sorted([Question(3, 0), Question(1, 9), Question(2, 5)]) == [
        Question(1, 9),
        Question(2, 5),
        Question(3, 0),
    ]
