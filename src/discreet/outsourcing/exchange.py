"""The public files that travel between curator and modeler.

    release/certificate.json    what was released and what it promises
    release/rows.csv            the released rows (or .parquet)
    ask.csv                     release, question, row             what the modeler wants to know
    answers.csv                 release, question, row, answer     what the curator says; an empty
                                                                   answer: it cannot be measured

`release` ties a file to one release, `question` numbers the questions from 1, `row` is the row of
the released table. An answers file holds all answers that were given so far, so a lost one is made
good by the next.

| array  | shape  | meaning                                      | symbol |
|--------|--------|----------------------------------------------|--------|
| points | (n, r) | the released rows, in units of distance      | Z      |
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import math
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from discreet.atomic_files import draft_name, sweep_drafts, sync_folder, write_bytes
from discreet.outsourcing.beliefs import RowBeliefs
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.mechanisms import Question
from discreet.people.tables import column_of, numbers_of, read_table
from discreet.records import check_path
from discreet.validation import FloatArray, InvalidInput

Format = Literal["csv", "parquet"]
FORMATS: tuple[Format, ...] = ("csv", "parquet")
CERTIFICATE = "certificate.json"
ASK_COLUMNS = ("release", "question", "row")
ANSWER_COLUMNS = (*ASK_COLUMNS, "answer")


@dataclass(frozen=True, eq=False)
class ReleasedTable:
    """A release as it arrived.

    Attributes:
        certificate: what it is and what it promises.
        points: (n, r) the released rows, in units of distance.
    """

    certificate: Certificate
    points: FloatArray

    @classmethod
    def read(cls, folder: str | Path) -> ReleasedTable:
        """The release in a folder.

        Raises:
            InvalidInput: for a folder without a release, a certificate whose figures do not
                follow, or rows that are not those it was made for.
        """
        path = Path(folder)
        try:
            certificate = Certificate.from_json((path / CERTIFICATE).read_text(encoding="utf-8"))
            rows = path / certificate.file
            content = rows.read_bytes()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(
                f"there is no release in {path}, or not all of it ({error}); give the folder that "
                "the curator sent."
            ) from error
        if sha256_of(content) != certificate.sha256:
            raise InvalidInput(
                f"{rows} is not the file that the certificate was made for; take both from the "
                "same release."
            )
        frame = read_table(rows)
        if len(frame) != certificate.rows:
            raise InvalidInput(f"{rows} has {len(frame)} rows; expected are {certificate.rows}.")
        columns = [
            numbers_of(column_of(frame, name), "error", may_drop=False)
            for name in certificate.names
        ]
        return cls(certificate, np.stack(columns, axis=1))

    @property
    def box(self) -> tuple[FloatArray, FloatArray]:
        """(r,) the least and largest coordinates that a row without noise can have."""
        extent = self.certificate.bounds.extent
        if self.certificate.projection is None:
            return np.zeros(len(extent)), extent
        return self.certificate.projection.box(extent)

    def beliefs(self) -> RowBeliefs:
        """The posterior of the rows' coordinates, given the release."""
        low, high = self.box
        return RowBeliefs.within(self.points, self.certificate.mechanism.scale, low, high)


def write_release(certificate: Certificate, rows: bytes, out: Path) -> bool:
    """Write a release and the file of its rows to a folder that `check_out` allows; False if it was
    there already, whole."""
    out = out.resolve()
    contents = {certificate.file: rows, CERTIFICATE: certificate.to_json().encode("utf-8")}
    sweep_drafts(out.parent, out.name)
    if all(
        (out / name).is_file() and (out / name).read_bytes() == content
        for name, content in contents.items()
    ):
        return False
    replaced = out.is_dir() and any(out.iterdir())
    draft = out.with_name(draft_name(out.name))
    draft.mkdir()
    try:
        for name, content in contents.items():
            write_bytes(draft / name, content)
        if replaced:
            os.replace(out, out.with_name(draft_name(out.name)))
        os.replace(draft, out)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    sync_folder(out.parent)
    sweep_drafts(out.parent, out.name)
    return True


def check_out(out: Path, key: Path, certificate: Certificate) -> None:
    """Refuse a folder `out` that a release should not be written to; nothing changes.

    The release with this certificate may be there already, even damaged.
    """
    if out.exists() and not out.is_dir():
        raise InvalidInput(f"{out} is a file; name a folder for the release.")
    if not out.parent.is_dir():
        raise InvalidInput(f"the folder of {out} does not exist; make it first.")
    if not os.access(out.resolve().parent, os.W_OK):
        raise InvalidInput(f"{out} cannot be written; choose a folder that you may write to.")
    inner, outer = key.resolve(), out.resolve()
    if inner == outer or outer in inner.parents or inner in outer.parents:
        raise InvalidInput(
            f"the key {key} and the release {out} are one inside the other; the release goes to "
            "the modeler and the key stays, so give them folders apart."
        )
    if out.is_dir() and any(out.iterdir()) and not _replaceable(out, certificate):
        raise InvalidInput(
            f"the folder {out} holds something other than this release; name another folder, or "
            "move that one away. If this command was cut short before, and was to draw a new "
            "release, the folder has it, and nothing is left to do."
        )


def _replaceable(out: Path, certificate: Certificate) -> bool:
    """Whether a folder holds nothing but this release, or a simulated one, which has no
    protection and can be drawn again."""
    there = {path.name for path in out.iterdir()}
    try:
        text = (out / CERTIFICATE).read_text(encoding="utf-8")
        if there == {CERTIFICATE, certificate.file} and text == certificate.to_json():
            return True
        old = Certificate.from_json(text)
        rows = (out / old.file).read_bytes()
    except (OSError, UnicodeDecodeError, InvalidInput):
        return False
    return old.simulated and there == {CERTIFICATE, old.file} and sha256_of(rows) == old.sha256


# Questions and answers.


def write_questions(release: str, questions: Sequence[Question], path: Path) -> None:
    """The ask file."""
    _write(release, questions, path, ASK_COLUMNS)


def write_answers(release: str, answers: Sequence[Question], path: Path) -> None:
    """The answers file."""
    _write(release, answers, path, ANSWER_COLUMNS)


def _write(
    release: str, questions: Sequence[Question], path: Path, columns: tuple[str, ...]
) -> None:
    refuse_foreign(path, columns)
    facts = {
        "release": [release] * len(questions),
        "question": np.array([each.number for each in questions], dtype=np.int64),
        "row": np.array([each.row for each in questions], dtype=np.int64),
        "answer": np.array([each.answer for each in questions], dtype=np.float64),
    }
    write_table(pd.DataFrame({name: facts[name] for name in columns}), path)


def read_questions(path: Path) -> tuple[str, list[Question]]:
    """The release and the questions of an ask file.

    Raises:
        InvalidInput: a file that is no ask file, or one that asks the same question twice.
    """
    name, numbers, rows, _ = _read(path, ASK_COLUMNS, "an ask file")
    return name, [Question(*each) for each in zip(numbers, rows, strict=True)]


def read_answers(path: Path) -> tuple[str, list[Question]]:
    """The release and the answered questions of an answers file.

    Raises:
        InvalidInput: a file that is no answers file, or answers that are not numbers.
    """
    name, numbers, rows, frame = _read(path, ANSWER_COLUMNS, "an answers file")
    answers = _numbers(frame["answer"])
    bad = (np.isnan(answers) & frame["answer"].notna().to_numpy()) | np.isinf(answers)
    if bad.any():
        place = int(np.argmax(bad))
        raise InvalidInput(
            f"{path} has the answer {frame['answer'].tolist()[place]!r} to question "
            f"{numbers[place]}; an answer is a finite number, or empty if the row cannot be "
            "measured."
        )
    return name, [
        Question(number, row).answered(None if math.isnan(answer) else answer)
        for number, row, answer in zip(numbers, rows, answers.tolist(), strict=True)
    ]


def _read(
    path: Path, columns: tuple[str, ...], kind: str
) -> tuple[str, list[int], list[int], pd.DataFrame]:
    """The release, the numbers of questions and their rows in a table with these columns."""
    frame = read_table(path, ("release",))
    if tuple(map(str, frame.columns)) != columns:
        raise InvalidInput(
            f"{path} has the columns {', '.join(map(str, frame.columns))}; {kind} has "
            f"{', '.join(columns)}. Give the file as the other party sent it."
        )
    names = frame["release"].astype(str).unique().tolist()
    if len(names) != 1:
        raise InvalidInput(
            f"{path} is about {len(names)} releases; a file is about one. Give each its own file."
        )
    numbers, rows = _whole(frame, "question", 1, path), _whole(frame, "row", 0, path)
    number, times = Counter(numbers).most_common(1)[0]
    if times > 1:
        raise InvalidInput(f"{path} has question {number} twice; each question is asked once.")
    return str(names[0]), numbers, rows, frame


def _whole(frame: pd.DataFrame, name: str, least: int, path: Path) -> list[int]:
    numbers = _numbers(frame[name])
    bad = ~((numbers >= least) & (numbers < 2**53) & (numbers == np.round(numbers)))
    if bad.any():
        place = int(np.argmax(bad))
        raise InvalidInput(
            f"{path} has the {name} {frame[name].tolist()[place]!r} in line {place + 2}; it must "
            f"be a whole number of at least {least}."
        )
    whole: list[int] = numbers.astype(np.int64).tolist()
    return whole


def _numbers(values: pd.Series[Any]) -> FloatArray:
    """(n,) a column as numbers, NaN for what is none."""
    return pd.to_numeric(values, errors="coerce").to_numpy(np.float64, na_value=np.nan)


def refuse_foreign(path: Path, columns: tuple[str, ...]) -> None:
    """Refuse to write over a file that is something else."""
    if path.exists() and not has_columns(path, columns):
        raise InvalidInput(
            f"{path} exists and is not a file with the columns {', '.join(columns)}; name another "
            "file, or move that one away."
        )


def has_columns(path: Path, columns: tuple[str, ...]) -> bool:
    """Whether a file is a table with just these columns."""
    try:
        return tuple(map(str, read_table(path).columns)) == columns
    except InvalidInput:
        return False


# Tables.


def write_table(frame: pd.DataFrame, path: Path, private: bool = False) -> None:
    """A table, whole or not at all, in the format of the file's ending."""
    form = format_of(path)
    check_path(path)
    content = table_bytes(frame, form)
    if path.name.lower().endswith(".gz"):
        content = gzip.compress(content, mtime=0)
    write_bytes(path, content, private)


def format_of(path: Path) -> Format:
    """Whether a table is CSV or Parquet, by the ending of its name."""
    name = path.name.lower()
    if name.endswith((".csv", ".csv.gz")):
        return "csv"
    if name.endswith((".parquet", ".pq")):
        return "parquet"
    raise InvalidInput(f"the table {path} must end in .csv or .parquet; name it so.")


def table_bytes(frame: pd.DataFrame, form: Format) -> bytes:
    """A table as CSV (numbers in full) or Parquet."""
    if form == "csv":
        text = frame.to_csv(index=False, lineterminator="\n")
        if "\r" in text:
            # It would end a line for readers, but pandas does not put quotes around it.
            text = frame.to_csv(index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        return text.encode("utf-8")
    buffer = io.BytesIO()
    try:
        frame.to_parquet(buffer, index=False)
    except ImportError as error:
        raise InvalidInput(
            "Parquet needs pyarrow, which is not installed; run "
            'pip install "discreet[parquet]", or ask for CSV.'
        ) from error
    return buffer.getvalue()


def sha256_of(content: bytes) -> str:
    """The digest by which a file is known."""
    return hashlib.sha256(content).hexdigest()
