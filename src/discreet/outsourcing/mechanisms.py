"""Mechanisms of a curator: rows of a table, and answers about them, with Gaussian noise.

**Rows.** Claim. Two tables are neighbours if they differ in one row, by at most `radius` in the
units of the public bounds. The law of the release changes by at most (epsilon, delta) between
neighbours.

Argument. Coordinates are rounded to a grid, so a row moves by at most radius + sqrt(d) 2^-31; a
public matrix M, drawn without the table, lengthens that by at most its largest singular value
s_max(M); computing the product adds a bounded rounding error. Every number gets independent
Gaussian noise of standard deviation `scale`, so with one row different the release is a Gaussian
mechanism of that sensitivity. Bounds, units, M, the radius and the scale never depend on the table.
The number of rows and of columns is public. Rows are put in a random order first, because the order
of a file (sorted by cost, say) may reveal something about people; the order stays with the curator.

A projection, where one is asked for, is random and drawn without looking at the table. What decides
the noise is its gain, the largest factor by which M lengthens a vector, from the M that was drawn:
r random orthonormal columns times sqrt(d / r) keep lengths on average, and their gain is
sqrt(d / r). (Entries N(0, 1 / r), as Kharkovskii et al. (2020) draw them, have about
1 + sqrt(d / r).) That saves space, not noise: the total noise variance of a row stays
d (radius / mu)^2, while what it says about a distance gets coarser. M is public: that costs
nothing, because the noise alone protects the table.

Scaling by the largest norm, or choosing by the smallest singular value of the table, would not be
private; subtracting the mean would be harmless. None of them is done.

| array  | shape  | meaning                                             | symbol |
|--------|--------|-----------------------------------------------------|--------|
| points | (n, r) | rows as released                                    | Z      |
| order  | (n,)   | the place in the table of every released row (secret)|       |

**Answers.** Claim. Each person's outcome leaves at most `repeats` times, cut to public bounds,
with Gaussian noise sized for all of them together, however many releases of the table there are.
Each person is one row and pays for answers about that row alone. Which rows are queried is a
function of the release and of earlier answers.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
import pandas as pd

from discreet.codec import CheckedBy, Range, Serializable, Shape
from discreet.outsourcing.bounds import ROUNDING
from discreet.privacy import NoiseSource, Outsourced, Release, Rounds, SecureNoise, SimulatedNoise
from discreet.privacy.accounting import GaussianEvent
from discreet.privacy.calibration import gaussian_noise_multiplier, least_scale
from discreet.privacy.noise import NO_NOISE, check_noise_name, gaussian_multiplier
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    finite_matrix,
    finite_number,
    positive_number,
    probability,
    whole_number,
)

# Numbers drawn in one call. A row stays within one call, so this is the size that counts.
AT_ONCE = 2**16
# Covers the rounding errors of the singular value decomposition and of the gain itself.
_MARGIN = 1.0 + 2.0**-36


def _of_noise(name: str) -> str:
    if check_noise_name(name) == NO_NOISE:
        raise InvalidInput("a mechanism names no noise source; nothing protects this release.")
    return name


# Numbers with which sums and squares do not overflow.
Sensible = Annotated[float, Range(1e-60, 1e60)]
NoiseName = Annotated[str, CheckedBy(_of_noise)]


@dataclass(frozen=True, eq=False)
class RowProjection(Serializable):
    """A public linear map of rows.

    Attributes:
        matrix: M, (d, r).
    """

    matrix: Annotated[FloatArray, Shape("columns", "kept")]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.matrix.size == 0:
            raise InvalidInput(f"matrix had shape {self.matrix.shape}; it must not be empty.")

    @classmethod
    def draw(cls, columns: int, kept: int, rng: np.random.Generator) -> RowProjection:
        """r = `kept` random orthonormal columns times sqrt(d / r); r is from 1 to d."""
        size = whole_number(kept, "the number of projected columns", 1, columns)
        directions, _ = np.linalg.qr(rng.standard_normal((columns, size)))
        return cls(directions * np.sqrt(columns / size))

    @property
    def gain(self) -> float:
        """The largest singular value of M, rounded up."""
        return float(np.linalg.norm(self.matrix, 2)) * _MARGIN

    def rounding(self, extent: FloatArray) -> float:
        """A bound on how much rounding adds to the distance of two rows.

        A product of d terms is off by at most d u / (1 - d u) of the sum of its absolute terms
        (Higham 2002, eq. 3.5); the factor 4 covers two rows and orders of summation.
        """
        d = len(self.matrix)
        largest = np.abs(self.matrix).T @ extent
        return float(np.linalg.norm(largest)) * 4.0 * (d + 2) * 2.0**-53

    def box(self, extent: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(r,) least and largest coordinates of images of points between 0 and `extent` (d,)."""
        ends = self.matrix * extent[:, None]
        return np.minimum(ends, 0.0).sum(axis=0), np.maximum(ends, 0.0).sum(axis=0)


@dataclass(frozen=True)
class Mechanism(Serializable):
    """The mechanism that released the rows of a table.

    Attributes:
        scale: the standard deviation of the noise on every number.
        gain: how much further apart the released points can be than the rows.
        rounding: by how much computing can add to that, whatever the distance.
        numbers: how many numbers of a release are drawn together.
        noise: the name of the noise source.
    """

    scale: Sensible
    gain: Sensible
    rounding: Sensible
    numbers: Annotated[int, Range(1, 2**31 - 1)]
    noise: NoiseName

    def sensitivity(self, distance: float) -> float:
        """The l2 sensitivity to one row that moves by `distance`."""
        return distance * self.gain + self.rounding

    def event(self, distance: float) -> GaussianEvent:
        """The cost for a person whose row may move by `distance`, with scale / sensitivity as the
        noise source achieves it."""
        law = self.noise, self.sensitivity(distance), self.scale, self.numbers
        return GaussianEvent(gaussian_multiplier(*law))

    def release(self, distance: float) -> Release:
        """For guarantees about such a person."""
        return Release(
            mechanism="Gaussian noise on every number of a row",
            event=self.event(distance),
            sensitivity=self.sensitivity(distance),
            sensitivity_source="the distance of rows times the largest singular value of the "
            "projection in use, and rounding",
            scale=self.scale,
            people=Rounds(0, 1),
            data="the released columns of a row",
            noise=self.noise,
        )


def noise_scale(
    budget: Outsourced, sensitivity: float, noise: NoiseSource, numbers: int, times: int = 1
) -> float:
    """The least standard deviation that keeps `budget`, as the noise source achieves it.

    Args:
        budget, noise: what is asked for, and the source.
        sensitivity: how far a release moves (l2) between neighbours.
        numbers: how many numbers are drawn together.
        times: how many releases share the budget; squared multipliers add.
    """
    wanted = gaussian_noise_multiplier(budget.epsilon, budget.delta) * math.sqrt(times)
    return least_scale(
        wanted,
        sensitivity * wanted,
        lambda scale: noise.gaussian_multiplier(sensitivity, scale, numbers),
    )


def mechanism_for(
    budget: Outsourced,
    radius: float,
    extent: FloatArray,
    rows: int,
    projection: RowProjection | None,
    noise: NoiseSource,
) -> Mechanism:
    """The mechanism for rows (n, d), from public facts alone.

    Args:
        budget, noise: what is asked for, and the source.
        radius: how far one row may move.
        extent: (d,) the largest coordinates.
        rows: how many there are, n.
        projection: of the columns; None for all of them.
    """
    gain, rounding = stretch(extent, projection)
    columns = len(extent) if projection is None else projection.matrix.shape[1]
    numbers = columns * min(rows, max(1, AT_ONCE // columns))
    blank = Mechanism(1.0, gain, rounding, numbers, noise.name)
    scale = noise_scale(budget, blank.sensitivity(radius), noise, numbers)
    return Mechanism(scale, gain, rounding, numbers, noise.name)


def stretch(extent: FloatArray, projection: RowProjection | None) -> tuple[float, float]:
    """Gain and rounding (see `Mechanism`) of rows within `extent` (d,) that are projected."""
    gain = 1.0 if projection is None else projection.gain
    rounding = gain * math.sqrt(len(extent)) * ROUNDING
    if projection is not None:
        rounding += projection.rounding(extent)
    return gain, rounding


def draw_rows(
    coordinates: FloatArray,
    mechanism: Mechanism,
    projection: RowProjection | None,
    noise: NoiseSource,
    progress: Callable[[int], None] | None = None,
) -> tuple[FloatArray, IntArray]:
    """The rows (n, d) in a random order, projected, with noise.

    Returns points (n, r), which are public, and (n,) which row of the table each is: secret.

    Args:
        coordinates: (n, d) rows within the public bounds, on their grid.
        mechanism: from `mechanism_for` with the same `projection` and `noise`.
        progress: called with the number of rows done.
    """
    if noise.name != mechanism.noise:
        raise InvalidInput(
            f"the mechanism was made for {mechanism.noise} and got {noise.name}; use one source."
        )
    rows = finite_matrix(coordinates, "the rows", coordinates.shape[1])
    order = np.argsort(noise.keys(len(rows)), kind="stable").astype(np.int64)
    columns = rows.shape[1] if projection is None else projection.matrix.shape[1]
    points = np.empty((len(rows), columns))
    step = max(1, mechanism.numbers // columns)
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        exact = rows[order[some]]
        image = exact if projection is None else exact @ projection.matrix
        points[some] = noise.add_gaussian(image, mechanism.scale)
        if progress is not None:
            progress(min(start + step, len(rows)))
    return points, order


Status = Literal["waiting", "answered", "impossible"]
# Bytes of JSON that are enough for every question or answer: lengths show their number alone.
QUESTION_BYTES = 128
_WIDEST = 1e60


@dataclass(frozen=True)
class AnswerNoise(Serializable):
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
        """The width of the bounds of outcomes."""
        return self.upper - self.lower

    @property
    def event(self) -> GaussianEvent:
        """The joint cost of all answers about one person."""
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
    """The limits and the protection of answers.

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
    """A question about one row, with its answer.

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
        outcome: the measured outcome; None for a person who cannot be measured.
        value: the answer drawn from it; None for a row that cannot be measured.
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
        """The part that the modeler sees."""
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
