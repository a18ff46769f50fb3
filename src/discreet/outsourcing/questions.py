"""The two files that travel between the parties: questions one way, answers the other.

    ask.csv       release, question, row             what the modeler wants to know
    answers.csv   release, question, row, answer     what the curator says; an empty answer means
                                                     that the row cannot be measured

`release` ties a file to one release, `question` numbers the questions from 1, `row` is the row of
the released table. An answers file holds all answers that were given so far, so a lost one is made
good by the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from discreet.outsourcing.files import read_numbers, write_table
from discreet.problems.tables import column_of
from discreet.validation import InvalidInput

ASK_COLUMNS = ("release", "question", "row")
ANSWER_COLUMNS = (*ASK_COLUMNS, "answer")


@dataclass(frozen=True, order=True)
class Question:
    """One row that is asked for.

    Attributes:
        number: from 1, in the order of asking.
        row: of the released table, from 0.
    """

    number: int
    row: int


@dataclass(frozen=True)
class Answer:
    """What was measured.

    Attributes:
        question: what was asked.
        value: the outcome; None where the row cannot be measured.
    """

    question: Question
    value: float | None


def write_questions(release: str, questions: Sequence[Question], path: Path) -> None:
    """The ask file."""
    refuse_foreign(path, ASK_COLUMNS)
    frame = pd.DataFrame(
        {
            "release": [release] * len(questions),
            "question": np.array([one.number for one in questions], dtype=np.int64),
            "row": np.array([one.row for one in questions], dtype=np.int64),
        }
    )
    write_table(frame, path)


def write_answers(release: str, answers: Sequence[Answer], path: Path) -> None:
    """The answers file."""
    refuse_foreign(path, ANSWER_COLUMNS)
    values = [math.nan if one.value is None else one.value for one in answers]
    frame = pd.DataFrame(
        {
            "release": [release] * len(answers),
            "question": np.array([one.question.number for one in answers], dtype=np.int64),
            "row": np.array([one.question.row for one in answers], dtype=np.int64),
            "answer": np.array(values, dtype=np.float64),
        }
    )
    write_table(frame, path)


def read_questions(path: Path) -> tuple[str, list[Question]]:
    """The release and the questions of an ask file.

    Raises:
        InvalidInput: a file that is no ask file, or one that asks the same question twice.
    """
    frame = _read(path, ASK_COLUMNS, "an ask file")
    return _release_of(frame, path), _questions(frame, path)


def read_answers(path: Path) -> tuple[str, list[Answer]]:
    """The release and the answers of an answers file.

    Raises:
        InvalidInput: a file that is no answers file, or answers that are not numbers.
    """
    frame = _read(path, ANSWER_COLUMNS, "an answers file")
    questions = _questions(frame, path)
    values = pd.to_numeric(frame["answer"], errors="coerce").to_numpy(np.float64, na_value=np.nan)
    bad = (np.isnan(values) & frame["answer"].notna().to_numpy()) | np.isinf(values)
    if bad.any():
        place = int(np.argmax(bad))
        raise InvalidInput(
            f"{path} has the answer {frame['answer'].iloc[place]!r} to question "
            f"{questions[place].number}; an answer is a finite number, or empty if the row cannot "
            "be measured."
        )
    answers = [
        Answer(question, None if math.isnan(value) else float(value))
        for question, value in zip(questions, values.tolist(), strict=True)
    ]
    return _release_of(frame, path), answers


def _read(path: Path, columns: tuple[str, ...], what: str) -> pd.DataFrame:
    frame = read_numbers(path, ("release",))
    if tuple(map(str, frame.columns)) != columns:
        raise InvalidInput(
            f"{path} has the columns {', '.join(map(str, frame.columns))}; {what} has "
            f"{', '.join(columns)}. Give the file as the other party sent it."
        )
    return frame


def _release_of(frame: pd.DataFrame, path: Path) -> str:
    names = frame["release"].astype(str).unique().tolist()
    if len(names) != 1:
        raise InvalidInput(
            f"{path} is about {len(names)} releases; a file is about one. Give each its own file."
        )
    return str(names[0])


def _questions(frame: pd.DataFrame, path: Path) -> list[Question]:
    found = []
    for name in ("question", "row"):
        values = column_of(frame, name)
        numbers = pd.to_numeric(values, errors="coerce").to_numpy(np.float64, na_value=np.nan)
        least = 1 if name == "question" else 0
        bad = ~((numbers >= least) & (numbers < 2**53) & (numbers == np.round(numbers)))
        if bad.any():
            place = int(np.argmax(bad))
            raise InvalidInput(
                f"{path} has the {name} {values.iloc[place]!r} in line {place + 2}; it must be a "
                f"whole number of at least {least}."
            )
        found.append(numbers.astype(np.int64).tolist())
    numbers_, rows = found
    if len(set(numbers_)) < len(numbers_):
        twice = next(one for one in numbers_ if numbers_.count(one) > 1)
        raise InvalidInput(f"{path} has question {twice} twice; each question is asked once.")
    return [Question(number, row) for number, row in zip(numbers_, rows, strict=True)]


def refuse_foreign(path: Path, columns: tuple[str, ...]) -> None:
    """Refuse to write over a file that is something else."""
    if not path.exists():
        return
    try:
        mine = tuple(map(str, read_numbers(path).columns)) == columns
    except InvalidInput:
        mine = False
    if not mine:
        raise InvalidInput(
            f"{path} exists and is not a file with the columns {', '.join(columns)}; name another "
            "file, or move that one away."
        )
