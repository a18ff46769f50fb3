"""How questions about rows are answered, and what an answer may be drawn from.

Claim. Under protection each person's outcome leaves at most `repeats` times, cut to public bounds,
with Gaussian noise sized for all of them together, however many releases of the table there are.
People are different rows, so those asked for pay for these answers, and nobody pays for another's.
Which rows are asked for is a function of the release and of earlier answers.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from discreet.outsourcing.answer_noise import AnswerNoise
from discreet.outsourcing.bounds import PublicBounds
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.key import Drawn, Key, LoggedAnswer
from discreet.outsourcing.questions import Question
from discreet.privacy import NoiseSource, SecureNoise, SimulatedNoise
from discreet.problems.tables import column_of, numbers_of
from discreet.validation import BoolArray, FloatArray, IntArray, InvalidInput


class Unmeasured(InvalidInput):
    """Questions about people whose outcome is not known yet.

    Attributes:
        ids: of these people; for the curator alone.
    """

    def __init__(self, ids: tuple[str, ...]) -> None:
        self.ids = ids
        shown = ", ".join(ids[:5]) + (", ..." if len(ids) > 5 else "")
        super().__init__(
            f"people who were asked for and have no outcome yet: {len(ids)} ({shown}); measure "
            "them and give a table with their ids and outcomes. Nothing was answered."
        )

    def frame(self, columns: tuple[str, str]) -> pd.DataFrame:
        """A table with these ids and an empty outcome, to fill in."""
        return pd.DataFrame({columns[0]: list(self.ids), columns[1]: [None] * len(self.ids)})


def ids_of(frame: pd.DataFrame, bounds: PublicBounds) -> tuple[str, ...]:
    """Names of the people, each once."""
    column = column_of(frame, bounds.id)
    if column.empty:
        raise InvalidInput("the table has no rows; give a table with people in it.")
    ids = tuple(
        "" if absent else str(value).strip()
        for value, absent in zip(column.tolist(), column.isna(), strict=True)
    )
    if "" in ids:
        raise InvalidInput(
            f"the id column {bounds.id!r} is empty in row {ids.index('')} (the first row is 0); "
            "give every person an id."
        )
    counts = Counter(ids)
    twice = [name for name, times in counts.items() if times > 1]
    if twice:
        raise InvalidInput(
            f"the id {twice[0]!r} occurs {counts[twice[0]]} times in the table (ids with more than "
            f"one row: {len(twice)}); the promise is for people with one row each. Merge the "
            "rows of a person first."
        )
    return ids


def new_questions(
    certificate: Certificate, release: str, questions: Sequence[Question], log: list[LoggedAnswer]
) -> list[Question]:
    """The questions that have no answer yet.

    Raises:
        InvalidInput: for a row that does not exist, one that is asked for too often, or a number
            that stood for another row before.
    """
    mine = {one.question: one.row for one in log if one.release == release}
    times = Counter(mine.values())
    new = []
    for question in sorted(questions):
        if not 0 <= question.row < certificate.rows:
            raise InvalidInput(
                f"question {question.number} asks for row {question.row}; the release has rows 0 "
                f"to {certificate.rows - 1}. Nothing was answered."
            )
        before = mine.get(question.number)
        if before == question.row:
            continue
        if before is not None:
            raise InvalidInput(
                f"question {question.number} asks for row {question.row}, but it asked for row "
                f"{before} before; give new questions new numbers. Nothing was answered."
            )
        times[question.row] += 1
        if times[question.row] > certificate.repeats:
            raise InvalidInput(
                f"question {question.number} asks for row {question.row} once too often; a row may "
                f"be asked for {times_text(certificate.repeats)}. Nothing was answered."
            )
        mine[question.number] = question.row
        new.append(question)
    return new


def times_text(count: int) -> str:
    """Once, or how many times."""
    return "once" if count == 1 else f"{count} times"


def outcome_columns(key: Key) -> tuple[str, str]:
    """What the columns of ids and outcomes are called in a table of outcomes."""
    return key.bounds.id, key.bounds.outcome or "outcome"


def known_outcomes(key: Key, frame: pd.DataFrame | None) -> tuple[FloatArray, BoolArray]:
    """(n,) outcomes, NaN where there is none, and (n,) whether somebody tried to measure it."""
    known = np.full(len(key.ids), math.nan) if key.outcomes is None else key.outcomes.copy()
    tried = np.zeros(len(key.ids), dtype=np.bool_)
    if frame is None:
        return known, tried
    _, name = outcome_columns(key)
    ids = ids_of(frame, key.bounds)
    places = {person: place for place, person in enumerate(key.ids)}
    strangers = [one for one in ids if one not in places]
    if strangers:
        raise InvalidInput(
            f"ids in the table of outcomes that are not in the released table: {len(strangers)}, "
            f"first {strangers[0]!r}; correct them. Nothing was answered."
        )
    values = finite_outcomes(frame, name)
    at = np.array([places[one] for one in ids], dtype=np.int64)
    known[at], tried[at] = values, True
    return known, tried


def finite_outcomes(frame: pd.DataFrame, name: str) -> FloatArray:
    """(n,) the outcomes in a table, NaN where there is none."""
    values = numbers_of(column_of(frame, name), "drop", may_drop=False)
    infinite = np.isinf(values)
    if infinite.any():
        raise InvalidInput(
            f"the outcome {name!r} is infinite in {int(infinite.sum())} of {len(values)} rows, "
            f"first in row {int(np.argmax(infinite))} (the first row is 0); an outcome is a finite "
            "number, or empty if it is not known. Nothing was done."
        )
    return values


def answered(
    key: Key,
    drawn: Drawn,
    certificate: Certificate,
    questions: Sequence[Question],
    people: IntArray,
    known: FloatArray,
    log: Sequence[LoggedAnswer],
) -> list[LoggedAnswer]:
    """An answer to each question, drawn unless its person was asked for often enough already."""
    given: dict[int, list[LoggedAnswer]] = {}
    for one in log:
        if one.drawn:
            given.setdefault(one.person, []).append(one)
    made = []
    for question, person in zip(questions, people.tolist(), strict=True):
        before = given.setdefault(person, [])
        again = len(before) >= certificate.repeats
        value = (
            before[-1].value
            if again
            else _noisy(float(known[person]), certificate.answers, drawn, person, len(before))
        )
        made.append(
            LoggedAnswer(
                certificate.release, question.number, question.row, person, value, not again
            )
        )
        if not again:
            before.append(made[-1])
    return made


def _noisy(
    outcome: float, answers: AnswerNoise | None, drawn: Drawn, person: int, place: int
) -> float | None:
    """One answer. With protection a missing outcome counts as the middle of the bounds: that a
    person cannot be measured is a fact about them too."""
    if answers is None:
        return None if math.isnan(outcome) else outcome
    inside = min(max(outcome, answers.lower), answers.upper)
    if math.isnan(outcome):
        inside = 0.5 * (answers.lower + answers.upper)
    source: NoiseSource
    if answers.noise == SimulatedNoise.name:
        words = f"{drawn.seed} {drawn.release} {person} {place}".encode()
        source = SimulatedNoise(int.from_bytes(hashlib.sha256(words).digest()[:8], "big"))
    else:
        source = SecureNoise()
    return float(source.add_gaussian(np.array([inside]), answers.scale)[0])
