"""Answers to questions about rows: how they are protected, and that each is drawn once.

Claim. Under protection each person's outcome leaves at most `repeats` times, cut to public bounds,
with Gaussian noise sized for all of them together, however many releases of the table there are.
Each person is one row and pays for answers about that row alone. Which rows are queried is a
function of the release and of earlier answers.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
import pandas as pd

from discreet.codec import Coded, Range
from discreet.outsourcing.release import NoiseName, Sensible, noise_scale
from discreet.privacy import NoiseSource, Outsourced, Release, Rounds, SecureNoise, SimulatedNoise
from discreet.privacy.accounting import GaussianEvent
from discreet.privacy.noise import gaussian_multiplier
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    finite_number,
    positive_number,
    probability,
    whole_number,
)

Status = Literal["waiting", "answered", "impossible"]
# Bytes of JSON that are enough for every question or answer: lengths show their number alone.
QUESTION_BYTES = 128
_WIDEST = 1e60


@dataclass(frozen=True)
class AnswerNoise(Coded):
    """Gaussian noise on every answer.

    Each person's outcome leaves at most `repeats` times, so the total costs (epsilon, delta).

    Attributes:
        epsilon: what all answers about one person may cost together.
        delta: the same.
        lower: outcomes below are moved here before anything else happens.
        upper: outcomes above are moved here.
        repeats: how many answers about one person there may be.
        scale: standard deviation of the noise on one answer.
        noise: name of the noise source.
    """

    epsilon: Annotated[float, Range(above=0.0)]
    delta: Annotated[float, Range(above=0.0, below=1.0)]
    lower: float
    upper: float
    repeats: Annotated[int, Range(1)]
    scale: Sensible
    noise: NoiseName

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.lower < self.upper and self.upper - self.lower <= _WIDEST):
            raise InvalidInput(
                f"answers had the bounds [{self.lower}, {self.upper}]; the lower must be below the "
                f"upper bound, by at most {_WIDEST:.0e}."
            )

    @property
    def sensitivity(self) -> float:
        """How far an outcome can move."""
        return self.upper - self.lower

    @property
    def event(self) -> GaussianEvent:
        """What all answers about one person cost."""
        multiplier = gaussian_multiplier(self.noise, self.sensitivity, self.scale, 1)
        return GaussianEvent(multiplier / math.sqrt(self.repeats))

    @property
    def release(self) -> Release:
        """For guarantees."""
        return Release(
            mechanism=f"Gaussian noise on an answer, at most {self.repeats} for each person",
            event=self.event,
            sensitivity=self.sensitivity,
            sensitivity_source="the width of the public bounds of outcomes",
            scale=self.scale,
            people=Rounds(0, 1),
            data="outcome, where it was asked for",
            noise=self.noise,
        )

    def draw(self, outcome: float, words: str) -> float:
        """One answer. A missing outcome counts as the middle of the bounds: that a person cannot be
        measured is a fact about them too.

        Args:
            outcome: what was measured; NaN for nothing.
            words: what simulated noise is made from, so that it can be repeated; secure noise never
                looks at them.
        """
        inside = min(max(outcome, self.lower), self.upper)
        if math.isnan(outcome):
            inside = 0.5 * (self.lower + self.upper)
        source: NoiseSource
        if self.noise == SimulatedNoise.name:
            digest = hashlib.sha256(words.encode()).digest()
            source = SimulatedNoise(int.from_bytes(digest[:8], "big"))
        else:
            source = SecureNoise()
        return float(source.add_gaussian(np.array([inside]), self.scale)[0])


@dataclass(frozen=True)
class AnswerRules:
    """How questions will be answered.

    Attributes:
        repeats: how often one row may be asked for.
        epsilon, delta: what answers about one person may cost; None for answers as they are.
        bounds: of outcomes, public; needed where answers are protected.
    """

    repeats: int = 1
    epsilon: float | None = None
    delta: float | None = None
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "repeats", whole_number(self.repeats, "repeats", minimum=1))
        epsilon, delta, bounds = self.epsilon, self.delta, self.bounds
        if epsilon is None and delta is None and bounds is None:
            return
        if epsilon is None or delta is None or bounds is None:
            raise InvalidInput(
                f"answers had epsilon = {epsilon}, delta = {delta} and bounds = {bounds}; "
                "protected answers need all three, unprotected ones none."
            )
        low, high = (finite_number(bound, "a bound of answers") for bound in bounds)
        object.__setattr__(self, "bounds", (low, high))
        object.__setattr__(self, "epsilon", positive_number(epsilon, "epsilon of answers"))
        object.__setattr__(self, "delta", probability(delta, "delta of answers"))

    def calibrated(self, noise: NoiseSource) -> AnswerNoise | None:
        """The least noise that keeps (epsilon, delta) over all `repeats`; None for answers as they
        are.

        Gaussian releases compose by their squared multipliers, so each of m answers needs sqrt(m)
        times the scale that one would need.
        """
        if self.epsilon is None or self.delta is None or self.bounds is None:
            return None
        low, high = self.bounds
        blank = AnswerNoise(self.epsilon, self.delta, low, high, self.repeats, 1.0, noise.name)
        budget = Outsourced(self.epsilon, self.delta)
        return replace(blank, scale=noise_scale(budget, high - low, noise, 1, self.repeats))


@dataclass(frozen=True)
class Question:
    """One row that is asked for, and what became of it.

    Attributes:
        number: from 1, in the order of asking.
        row: of the released table, from 0.
        status: `waiting`, `answered`, or `impossible` where the row cannot be measured.
        answer: the outcome, if it was answered.
    """

    number: int
    row: int
    status: Status = "waiting"
    answer: float | None = None

    def answered(self, outcome: float | None) -> Question:
        """The same with its answer; None where the row cannot be measured."""
        status: Status = "impossible" if outcome is None else "answered"
        return Question(self.number, self.row, status, outcome)


@dataclass(frozen=True)
class GivenAnswer:
    """One answer as the curator keeps it; secret.

    Attributes:
        release: which release the question was about.
        question: its number.
        row: the released row.
        person: the row of the table.
        turn: which of the draws for this person it is, from 0; an earlier one if there may be no
            more.
        outcome: what the draw was made from; None for a person who cannot be measured.
        value: what was answered; None for a row that cannot be measured.
    """

    release: str
    question: int
    row: int
    person: int
    turn: int
    outcome: float | None
    value: float | None

    @property
    def public(self) -> Question:
        """What the modeler may know of it."""
        return Question(self.question, self.row).answered(self.value)


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


def new_questions(
    questions: Sequence[Question], asked: Iterable[Question], rows: int, repeats: int
) -> list[Question]:
    """The questions about a release that were not `asked` before; a row may be queried `repeats`
    times.

    Raises:
        InvalidInput: for a row that does not exist, one that is asked for too often, or a number
            that stood for another row before.
    """
    known = {question.number: question.row for question in asked}
    times = Counter(known.values())
    new = []
    for question in sorted(questions, key=lambda question: question.number):
        number, row = question.number, question.row
        before = known.get(number)
        if before == row:
            continue
        times[row] += 1
        reason = ""
        if not 0 <= row < rows:
            reason = f"the release has rows 0 to {rows - 1}"
        elif before is not None:
            reason = f"it asked for row {before} before, so give new questions new numbers"
        elif times[row] > repeats:
            reason = f"a row may be asked for {times_text(repeats)}"
        if reason:
            raise InvalidInput(
                f"question {number} asks for row {row}; {reason}. Nothing was answered."
            )
        known[number] = row
        new.append(Question(number, row))
    return new


def drawn_answers(
    release: str,
    questions: Sequence[Question],
    people: IntArray,
    known: FloatArray,
    before: Iterable[GivenAnswer],
    rules: tuple[int, AnswerNoise | None],
    seed: int | None,
) -> list[GivenAnswer]:
    """An answer to each question, drawn unless its person was asked for often enough already.

    Args:
        release: the one that is asked about.
        questions: the new ones.
        people: (m,) whom each is about.
        known: (n,) everybody's outcome, NaN where there is none.
        before: all answers so far, about every release.
        rules: how often a person may be asked for, and the noise; None for answers as they are.
        seed: of simulated noise.
    """
    repeats, noise = rules
    turns: dict[int, dict[int, GivenAnswer]] = {}
    for each in before:
        turns.setdefault(each.person, {})[each.turn] = each
    given = []
    for question, person in zip(questions, people.tolist(), strict=True):
        mine = turns.setdefault(person, {})
        again = len(mine) >= repeats
        turn = max(mine) if again else len(mine)
        if again:
            outcome, value = mine[turn].outcome, mine[turn].value
        else:
            measured = float(known[person])
            outcome = value = None if math.isnan(measured) else measured
            if noise is not None:
                value = noise.draw(measured, f"{seed} {release} {person} {turn}")
        given.append(
            GivenAnswer(release, question.number, question.row, person, turn, outcome, value)
        )
        mine[turn] = given[-1]
    return given


def times_text(count: int) -> str:
    """Once, or how many times."""
    return "once" if count == 1 else f"{count} times"
