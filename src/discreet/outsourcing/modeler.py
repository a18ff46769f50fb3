"""The modeler: searches the rows of a released table for the one with the highest outcome.

`Modeler` sees the release, never the table. `ask` names rows, `tell` takes their outcomes. It is
post-processing of the release and the answers, and costs no privacy. The next row is the one with
the largest score, from its posterior mean and deviation (`Acquisition`).

`RowSearch` is the same search with its state in one file, so it can be stopped and resumed. `step`
does one turn: it takes over new answers, and asks the next batch if none is waiting. The state (one
SQLite file, for its owner alone) is written before the ask file, and the ask file holds nothing
that is not in the state, so an interrupted turn can be repeated: no question is asked twice under
two numbers and no answer is lost. A search without a state begins with all answers in the file, so
a lost state, or a second search of the same release, costs no question.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from discreet import codec
from discreet.atomic_files import StateFile
from discreet.codec import Range, Serializable
from discreet.outsourcing.beliefs import RowBeliefs
from discreet.outsourcing.exchange import (
    ASK_COLUMNS,
    ReleasedTable,
    read_answers,
    read_questions,
    refuse_foreign,
    write_questions,
)
from discreet.outsourcing.mechanisms import Question
from discreet.outsourcing.posterior import (
    FAMILIES,
    Family,
    RowPosterior,
    RowPrior,
    first_prior,
    learn_prior,
)
from discreet.records import check_path
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    finite_vector,
    number_from,
    one_of,
    positive_number,
    whole_number,
    whole_vector,
)

AcquisitionName = Literal["portfolio", "expected_improvement", "upper_confidence", "gp_ucb"]
# A prior is learnt anew when this many times as many answers have come.
_GROWTH = 1.25
# Squares of answers must not overflow.
_MOST = 1e100
_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)


class Acquisition(Serializable, ABC):
    """A rule that scores rows; the largest score is asked for.

    Attributes:
        name: as settings call it.
    """

    name: ClassVar[AcquisitionName]

    def shared(self, question: int) -> bool:
        """Whether it is given the deviation of what a row shares with others, in place of the
        whole. With noisy rows the rest is luck of the row's own, the same for all that were not
        asked."""
        return False

    @abstractmethod
    def scores(
        self, mean: FloatArray, deviation: FloatArray, best: float, question: int
    ) -> FloatArray:
        """(n,) scores.

        Args:
            mean: (n,) posterior means.
            deviation: (n,) posterior standard deviations.
            best: the best posterior mean of a row that was answered, or the prior mean.
            question: the number of the question, from 1.
        """


@dataclass(frozen=True)
class ExpectedImprovement(Acquisition):
    """log E max(f - best, 0) (Jones, Schonlau and Welch 1998, eq. 15).

    The logarithm keeps rows apart whose improvement would underflow. Of a noisy row only what it
    shares with others counts: with its own luck in, the rule would buy public coins beside the best
    row instead of looking elsewhere.
    """

    name: ClassVar[AcquisitionName] = "expected_improvement"

    def shared(self, question: int) -> bool:
        return True

    def scores(
        self, mean: FloatArray, deviation: FloatArray, best: float, question: int
    ) -> FloatArray:
        sd = np.maximum(deviation, 1e-12)
        return np.log(sd) + _log_improvement((mean - best) / sd)


@dataclass(frozen=True)
class PublishedUCB(Acquisition):
    """Algorithm 2 of Kharkovskii et al. (2020): beta_t = 2 log(n t^2 pi^2 / (6 delta')).

    Attributes:
        delta: delta', the chance with which the regret bound may fail (the paper: 0.025).
    """

    delta: Annotated[float, Range(above=0.0, below=1.0)] = 0.025
    name: ClassVar[AcquisitionName] = "gp_ucb"

    def scores(
        self, mean: FloatArray, deviation: FloatArray, best: float, question: int
    ) -> FloatArray:
        beta = 2.0 * math.log(len(mean) * question**2 * math.pi**2 / (6.0 * self.delta))
        return mean + math.sqrt(beta) * deviation


@dataclass(frozen=True)
class UpperConfidence(Acquisition):
    """mean + multiplier x deviation.

    Attributes:
        multiplier: None for sqrt(2 log n), about the largest of n independent standard normal
            numbers. With noisy rows each row has some luck of its own; a smaller multiplier spends
            many questions on neighbours of the first high answer.
    """

    multiplier: Annotated[float | None, Range(above=0.0)] = None
    name: ClassVar[AcquisitionName] = "upper_confidence"

    def scores(
        self, mean: FloatArray, deviation: FloatArray, best: float, question: int
    ) -> FloatArray:
        multiplier = self.multiplier
        if multiplier is None:
            multiplier = math.sqrt(2.0 * math.log(max(len(mean), 2)))
        return mean + multiplier * deviation


@dataclass(frozen=True)
class Portfolio(Acquisition):
    """Upper bounds of what rows share, expected improvement, and upper bounds of all, in turn.

    Each has outcomes on which it stays far behind: expected improvement where the highest lie many
    deviations above what a prior learnt from a few ordinary answers expects; upper bounds where
    fifty questions are too few to rule out the rest; of all, where rows are noisy, because all that
    were not asked look promising for luck of their own; of what they share, where that is next to
    nothing. In turn each gets a third of the questions, and all learn from every answer (a
    portfolio: Hoffman, Brochu and de Freitas 2011, who weigh rules by how their choices fared; 50
    answers tell too little of that).
    """

    name: ClassVar[AcquisitionName] = "portfolio"

    def shared(self, question: int) -> bool:
        return question % 3 != 2

    def scores(
        self, mean: FloatArray, deviation: FloatArray, best: float, question: int
    ) -> FloatArray:
        rule = ExpectedImprovement() if question % 3 == 0 else UpperConfidence()
        return rule.scores(mean, deviation, best, question)


ACQUISITIONS: dict[AcquisitionName, type[Acquisition]] = {
    kind.name: kind for kind in (Portfolio, ExpectedImprovement, UpperConfidence, PublishedUCB)
}


def _log_improvement(u: FloatArray) -> FloatArray:
    """log(phi(u) + u Phi(u)), also far in the lower tail, where the two terms cancel."""
    from scipy.special import erfcx, log_ndtr

    log_density = -0.5 * u * u - _LOG_ROOT_TWO_PI
    low = u < -1.0
    safe = np.where(low, u, -1.0)
    # Phi(u) / phi(u) = sqrt(pi / 2) erfcx(-u / sqrt 2); beyond -1e4 the bracket is 1 / u^2.
    mills = math.sqrt(math.pi / 2.0) * erfcx(-safe / math.sqrt(2.0))
    bracket = np.where(safe > -1e4, np.maximum(1.0 + safe * mills, 1e-300), 1.0 / safe**2)
    high = np.where(low, 0.0, u)
    direct = np.exp(-0.5 * high * high - _LOG_ROOT_TWO_PI) + high * np.exp(log_ndtr(high))
    return np.where(low, log_density + np.log(bracket), np.log(direct))


@dataclass(frozen=True)
class BestRow:
    """The best of the rows that were answered.

    Attributes:
        row: which one.
        answer: the best answer; a lucky one if answers are noisy.
        expected: the posterior mean there.
        deviation: the posterior standard deviation there.
    """

    row: int
    answer: float
    expected: float
    deviation: float


class Modeler:
    """Asks for outcomes of rows, one batch after another.

    Args:
        beliefs: the posterior of the rows' coordinates.
        prior: of the outcomes; None to learn it from the answers.
        acquisition: the rule that chooses; None for `Portfolio()`.
        repeats: how often one row may be asked for.
        family: of the kernel, where the prior is learnt.
        known_noise: variance of the noise that the curator adds to answers.
        minimize: search for the lowest outcome instead.
        seed: of the rows that are drawn at random before a prior can be learnt.

    Raises:
        InvalidInput: for arguments that do not fit.
    """

    def __init__(
        self,
        beliefs: RowBeliefs,
        prior: RowPrior | None = None,
        acquisition: Acquisition | None = None,
        *,
        repeats: int = 1,
        family: Family = "rbf",
        known_noise: float = 0.0,
        minimize: bool = False,
        seed: int = 0,
    ) -> None:
        self.beliefs = beliefs
        self.acquisition = Portfolio() if acquisition is None else acquisition
        self.repeats = whole_number(repeats, "repeats", minimum=1)
        self.family = one_of(family, "the kernel family", FAMILIES)
        self.known_noise = number_from(known_noise, "known_noise", 0.0)
        self._sign = -1.0 if minimize else 1.0
        self._given = prior is not None
        self._seed = whole_number(seed, "seed")
        self._rows: list[int] = []
        self._answers: list[float] = []
        self._waiting: list[int] = []
        self._closed: set[int] = set()
        self._learnt_from = 0
        start = first_prior(beliefs, family) if prior is None else self._signed(prior)
        self._posterior = RowPosterior(beliefs, start)

    @property
    def prior(self) -> RowPrior:
        """The current prior of the outcomes."""
        return self._signed(self._posterior.prior)

    @property
    def waiting(self) -> tuple[int, ...]:
        """Rows that were asked for and not answered, in order."""
        return tuple(self._waiting)

    @property
    def answered(self) -> int:
        """The number of answers so far."""
        return len(self._answers)

    @property
    def warm_up(self) -> int:
        """How many answers a prior is first learnt from; 0 for a given prior. Rows are drawn at
        random until then."""
        return 0 if self._given else min(2 + 2 * self.beliefs.columns, 10)

    def ask(self, count: int = 1) -> IntArray:
        """The next `count` rows to ask for; fewer where no more may be asked.

        The rows of one batch differ from each other as they would if each was answered as expected
        before the next is chosen (Desautels, Krause and Burdick 2014).
        """
        asked_before = len(self._waiting)
        for _ in range(whole_number(count, "count", minimum=1)):
            closed = self._not_to_ask([*self._rows, *self._waiting])
            if len(closed) >= self.beliefs.count:
                break
            row = self._choose(closed)
            self._posterior.ask(row)
            self._waiting.append(row)
        return np.array(self._waiting[asked_before:], dtype=np.int64)

    def _not_to_ask(self, asked: list[int]) -> set[int]:
        """Rows that were asked for as often as is allowed, or cannot be measured."""
        spent = {row for row, times in Counter(asked).items() if times >= self.repeats}
        return spent | self._closed

    def expect(self, rows: ArrayLike) -> None:
        """Rows (m,) that were asked for elsewhere and whose answers will come."""
        for row in whole_vector(rows, "rows", 0, self.beliefs.count - 1).tolist():
            self._posterior.ask(row)
            self._waiting.append(row)

    def tell(self, rows: ArrayLike, answers: ArrayLike) -> None:
        """Take answers (m,) of rows (m,), in any order.

        Raises:
            InvalidInput: for rows that do not exist or answers that are not finite; nothing is
                taken over.
        """
        which = whole_vector(rows, "rows", 0, self.beliefs.count - 1)
        values = self._sign * finite_vector(answers, "answers", len(which))
        if (np.abs(values) > _MOST).any():
            raise InvalidInput(
                f"answers had {values[np.argmax(np.abs(values))]:g}; they must lie within "
                f"+-{_MOST:g}. Give them in a larger unit."
            )
        in_order = which.tolist() == self._waiting[: len(which)]
        for row in which.tolist():
            if row in self._waiting:
                self._waiting.remove(row)
        self._rows += which.tolist()
        self._answers += values.tolist()
        if self._lesson() > self._learnt_from:
            self._learn()
        elif in_order:
            for value in values:
                self._posterior.tell(float(value))
        else:
            self._posterior.forget_waiting()
            self._replay(self._posterior.answered)

    def close(self, rows: ArrayLike) -> None:
        """Rows that cannot be measured: no longer waited for, and never asked for again."""
        which = whole_vector(rows, "rows", 0, self.beliefs.count - 1)
        self._closed |= set(which.tolist())
        kept = [row for row in self._waiting if row not in self._closed]
        if kept != self._waiting:
            self._waiting = kept
            self._posterior.forget_waiting()
            self._replay(self._posterior.answered)

    def predict(self) -> tuple[FloatArray, FloatArray]:
        """(n,) means and standard deviations of the outcomes of all rows."""
        return self._sign * self._posterior.mean, self._posterior.deviation

    def best(self) -> BestRow | None:
        """The best answered row; None before the first answer."""
        if not self._rows:
            return None
        place = int(np.argmax(self._answers))
        row = self._rows[place]
        return BestRow(
            row,
            self._sign * self._answers[place],
            self._sign * float(self._posterior.mean[row]),
            float(self._posterior.deviation[row]),
        )

    def expected_gain(self) -> float:
        """The largest expected improvement of one more question; infinite at first."""
        if not self._rows or self.answered < self.warm_up:
            return math.inf
        improvements = ExpectedImprovement().scores(
            self._posterior.mean, self._posterior.deviation, self._incumbent(), self.answered
        )
        gains = np.delete(np.exp(improvements), list(self._not_to_ask(self._rows)))
        return float(gains.max(initial=0.0))

    def _signed(self, prior: RowPrior) -> RowPrior:
        """Inside, outcomes count negative where the lowest is searched."""
        return replace(prior, mean=self._sign * prior.mean)

    def _choose(self, closed: set[int]) -> int:
        number = len(self._rows) + len(self._waiting) + len(self._closed) + 1
        # Until a prior could be learnt, nothing is known that a choice could rest on.
        if not self._given and self._learnt_from == 0:
            # By the question's number, so that a search that is taken up again asks the same.
            rng = np.random.default_rng([self._seed, number])
            free = np.setdiff1d(np.arange(self.beliefs.count), np.array(sorted(closed), dtype=int))
            return int(rng.choice(free))
        posterior, rule = self._posterior, self.acquisition
        deviation = posterior.shared_deviation if rule.shared(number) else posterior.deviation
        scores = rule.scores(posterior.mean, deviation, self._incumbent(), number)
        scores[list(closed)] = -np.inf
        return int(np.argmax(scores))

    def _incumbent(self) -> float:
        """The best posterior mean of a row that was asked for: robust against lucky noise."""
        asked = [*self._rows, *self._waiting]
        if not asked:
            return self._posterior.prior.mean
        return float(self._posterior.mean[asked].max())

    def _lesson(self) -> int:
        """From how many answers a prior is to be learnt by now: at warm_up, and then whenever a
        quarter more came. It depends on their number alone, not on the batches they came in."""
        if self._given or self.answered < self.warm_up:
            return 0
        lesson = self.warm_up
        while math.ceil(_GROWTH * lesson) <= self.answered:
            lesson = math.ceil(_GROWTH * lesson)
        return lesson

    def _learn(self) -> None:
        count = self._lesson()
        prior = learn_prior(
            self.beliefs,
            np.array(self._rows[:count]),
            np.array(self._answers[:count]),
            self.family,
            self.known_noise,
        )
        self._learnt_from = count
        self._posterior = RowPosterior(self.beliefs, prior)
        self._replay(0)

    def _replay(self, start: int) -> None:
        """Tell the posterior every answer from `start` on, then ask again what waits."""
        for row, answer in zip(self._rows[start:], self._answers[start:], strict=True):
            self._posterior.ask(row)
            self._posterior.tell(answer)
        for row in self._waiting:
            self._posterior.ask(row)


_APPLICATION = 0x73656172
_SCHEMA = (
    "CREATE TABLE search (release TEXT NOT NULL, settings TEXT NOT NULL)",
    """CREATE TABLE asked (
        question INTEGER PRIMARY KEY, row INTEGER NOT NULL, status TEXT NOT NULL, answer)""",
)


@dataclass(frozen=True)
class SearchSettings(Serializable):
    """The settings that decide which rows are asked for; fixed when a search begins.

    Attributes:
        acquisition: `portfolio`, `expected_improvement`, `upper_confidence` or `gp_ucb` (as
            published).
        family: of the kernel: `rbf`, `matern32`, `matern52`.
        minimize: whether the lowest outcome is searched.
        prior: of the outcomes; None to learn it from the answers.
        seed: of the first rows, which are drawn at random.
    """

    acquisition: AcquisitionName = "portfolio"
    family: Family = "rbf"
    minimize: bool = False
    prior: RowPrior | None = None
    seed: Annotated[int, Range(0)] = 0


@dataclass(frozen=True)
class Turn:
    """The outcome of one turn.

    Attributes:
        asked: all questions so far, and what became of them.
        new_answers: how many answers were taken over.
        new_questions: how many questions were asked.
        reason: why the search is over; "" if it goes on.
        best: the best answered row; None before the first answer.
        gain: the largest expected improvement of one more question.
    """

    asked: tuple[Question, ...]
    new_answers: int
    new_questions: int
    reason: str
    best: BestRow | None
    gain: float

    @property
    def done(self) -> bool:
        """Whether the search is over."""
        return bool(self.reason)

    @property
    def waiting(self) -> int:
        """The number of waiting questions."""
        return sum(each.status == "waiting" for each in self.asked)

    @property
    def answered(self) -> int:
        """The number of answered questions."""
        return sum(each.status == "answered" for each in self.asked)


class RowSearch:
    """One search over one release, resumed from its state file if there is one.

    Args:
        table: the release.
        state: the file with questions and answers.
        settings: None takes those of the state file.

    Raises:
        InvalidInput: for a state of another release, of other settings, or a damaged one.
    """

    def __init__(
        self, table: ReleasedTable, state: str | Path, settings: SearchSettings | None = None
    ) -> None:
        self.table = table
        self.release = table.certificate.release
        self.path = Path(state)
        self._kept = _read(self.path, self.release)
        self.settings, self.asked = self._kept or (settings or SearchSettings(), ())
        if settings is not None and self.settings != settings:
            before, now = asdict(self.settings), asdict(settings)
            differing = [f"{name} = {before[name]}" for name in now if before[name] != now[name]]
            raise InvalidInput(
                f"the search in {self.path} was begun with other settings "
                f"({', '.join(differing)}); repeat those, or name another state file to begin anew."
            )
        self.beliefs: RowBeliefs = table.beliefs()
        self._make_modeler()

    def step(
        self,
        ask: str | Path,
        tell: str | Path | None = None,
        *,
        rounds: int,
        batch: int = 1,
        least_gain: float | None = None,
    ) -> Turn:
        """One turn: take over answers from `tell`, then write the next questions to `ask`.

        Args:
            ask: the file for questions; taken away when there are none left.
            tell: the file with answers; None, or a file that is not there yet, for none.
            rounds: how many questions there may be in all.
            batch: how many are asked at a time.
            least_gain: stop when one more question promises less improvement than this.

        Raises:
            InvalidInput: for files of another release or answers to questions that were not asked;
                nothing is written then.
        """
        most = whole_number(rounds, "rounds", minimum=1)
        size = whole_number(batch, "batch", minimum=1)
        least = None if least_gain is None else positive_number(least_gain, "the least gain")
        asking = Path(ask)
        check_path(asking)
        refuse_foreign(asking, ASK_COLUMNS)
        check_path(self.path)
        taken = 0
        if tell is not None and Path(tell).exists():
            taken = self._take(*read_answers(Path(tell)))
        new: list[Question] = []
        reason = ""
        if not self._waiting():
            if len(self.asked) >= most:
                reason = f"all {len(self.asked)} questions have been asked and settled"
            elif least is not None and self.modeler.expected_gain() < least:
                reason = f"one more question promises less than {least:g}"
            else:
                rows = self.modeler.ask(min(size, most - len(self.asked))).tolist()
                first = 1 + max((each.number for each in self.asked), default=0)
                new = [Question(first + place, row) for place, row in enumerate(rows)]
                self.asked = (*self.asked, *new)
                reason = "" if new else "every row has been asked for as often as is allowed"
        self._save()
        waiting = self._waiting()
        if waiting:
            write_questions(self.release, waiting, asking)
        elif asking.exists() and _is_ask_file(asking, self.release):
            asking.unlink()
        best, gain = self.modeler.best(), self.modeler.expected_gain()
        return Turn(self.asked, taken, len(new), reason, best, gain)

    def _waiting(self) -> list[Question]:
        return [each for each in self.asked if each.status == "waiting"]

    def _take(self, release: str, answers: list[Question]) -> int:
        """Take over new answers, after all were checked; the number of new ones."""
        if release != self.release:
            raise InvalidInput(
                f"the answers belong to release {release}, the search to {self.release}; give the "
                "answers file of this release."
            )
        if not self.asked:
            self.asked = tuple(sorted(answers, key=lambda each: each.number))
            self._make_modeler()
            return len(answers)
        known = {each.number: each for each in self.asked}
        fresh: dict[int, Question] = {}
        for answer in answers:
            number, before = answer.number, known.get(answer.number)
            if before is None or before.row != answer.row:
                asked = f"questions 1 to {len(known)}"
                if before is not None:
                    asked = f"question {number} is about row {before.row}"
                raise InvalidInput(
                    f"the answers file answers question {number} about row {answer.row}, which was "
                    f"not asked (asked: {asked}). Nothing was read in. If another search asked it, "
                    "name a state file that is not there yet: a new search reads all answers."
                )
            if before.status == "waiting":
                fresh[number] = answer
            elif before.answer != answer.answer:
                raise InvalidInput(
                    f"the answers file answers question {number} with {answer.answer}, but "
                    f"{before.answer} came before; ask the curator which is right. Nothing was "
                    "read in."
                )
        last = max((each.number for each in self.asked if each.status != "waiting"), default=0)
        self.asked = tuple(fresh.get(each.number, each) for each in self.asked)
        if min(fresh, default=0) > last:
            self._tell([each for each in self.asked if each.number in fresh])
        elif fresh:
            # Learn from answers in the order of their questions, as a search taken up again does.
            self._make_modeler()
        return len(fresh)

    def _tell(self, settled: list[Question]) -> None:
        good = [(each.row, each.answer) for each in settled if each.answer is not None]
        bad = [each.row for each in settled if each.status == "impossible"]
        if good:
            rows, answers = zip(*good, strict=True)
            self.modeler.tell(rows, answers)
        if bad:
            self.modeler.close(bad)

    def _make_modeler(self) -> None:
        """A modeler with all questions and answers of the state file."""
        certificate = self.table.certificate
        answers = certificate.answers
        self.modeler = Modeler(
            self.beliefs,
            self.settings.prior,
            ACQUISITIONS[self.settings.acquisition](),
            repeats=certificate.repeats,
            family=self.settings.family,
            known_noise=0.0 if answers is None else answers.scale**2,
            minimize=self.settings.minimize,
            seed=self.settings.seed,
        )
        self._tell([each for each in self.asked if each.status != "waiting"])
        self.modeler.expect([each.row for each in self._waiting()])

    def _save(self) -> None:
        """The search as it is, if it has changed."""
        if self._kept == (self.settings, self.asked):
            return
        rows = [(each.number, each.row, each.status, each.answer) for each in self.asked]
        with _state(self.path).changing() as state:
            state.execute("DELETE FROM search")
            state.execute("DELETE FROM asked")
            settings = json.dumps(codec.to_json(self.settings), allow_nan=False)
            state.execute("INSERT INTO search VALUES (?, ?)", (self.release, settings))
            state.executemany("INSERT INTO asked VALUES (?, ?, ?, ?)", rows)
        self._kept = (self.settings, self.asked)


def _is_ask_file(path: Path, release: str) -> bool:
    try:
        return read_questions(path)[0] == release
    except InvalidInput:
        return False


def _state(path: Path) -> StateFile:
    return StateFile(path, "a search", _SCHEMA, _APPLICATION)


def _read(path: Path, release: str) -> tuple[SearchSettings, tuple[Question, ...]] | None:
    """The settings and questions of a search; None before it began."""
    with _state(path).reading() as state:
        if state is None:
            return None
        about, settings = state.execute("SELECT release, settings FROM search").fetchone()
        asked = state.execute("SELECT question, row, status, answer FROM asked ORDER BY question")
        questions = tuple(Question(*fields) for fields in asked)
    if about != release:
        raise InvalidInput(
            f"the search in {path} is about release {about}, not {release}; name another state "
            "file."
        )
    try:
        begun = codec.from_json(json.loads(settings), SearchSettings, "the settings")
    except ValueError as error:
        raise InvalidInput(f"the search in {path} is damaged ({error}); restore it.") from error
    return begun, questions
