"""A search that can be stopped: the modeler's side of the workflow, with its state in one file.

`step` does one turn: it takes over the answers that came, and asks the next batch if none is
waiting. The state (one SQLite file, for its owner alone) is written before the ask file, and the
ask file says nothing that is not in the state, so a turn that was cut short can be repeated: no
question is asked twice under two numbers and no answer is lost. A search without a state begins
with the answers that there are, so a lost state, or a second search of the same release, costs no
question.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from discreet import codec
from discreet.codec import Coded, Range
from discreet.codec.values import CheckedBy
from discreet.durable import StateFile
from discreet.outsourcing.answers import Answer, Question
from discreet.outsourcing.beliefs import RowBeliefs
from discreet.outsourcing.exchange import (
    ASK_COLUMNS,
    ReleasedTable,
    read_answers,
    read_questions,
    refuse_foreign,
    write_questions,
)
from discreet.outsourcing.modeler import ACQUISITIONS, BestRow, Modeler
from discreet.outsourcing.posterior import Family, RowPrior
from discreet.records import check_path
from discreet.validation import InvalidInput, positive_number, whole_number

Status = Literal["waiting", "answered", "impossible"]
_APPLICATION = 0x73656172
_SCHEMA = (
    "CREATE TABLE search (release TEXT NOT NULL, settings TEXT NOT NULL)",
    """CREATE TABLE asked (
        question INTEGER PRIMARY KEY, row INTEGER NOT NULL, status TEXT NOT NULL, answer)""",
)


def _known(acquisition: str) -> str:
    if acquisition not in ACQUISITIONS:
        raise InvalidInput(
            f"the acquisition was {acquisition!r}; it must be one of {', '.join(ACQUISITIONS)}."
        )
    return acquisition


@dataclass(frozen=True)
class SearchSettings(Coded):
    """What decides which rows are asked for; fixed when a search begins.

    Attributes:
        acquisition: `expected_improvement`, `upper_confidence` or `gp_ucb` (as published).
        family: of the kernel: `rbf`, `matern32`, `matern52`.
        minimize: whether the lowest outcome is searched.
        prior: known beforehand; None to learn it from the answers.
        seed: of the first rows, which are drawn at random.
    """

    acquisition: Annotated[str, CheckedBy(_known)] = "expected_improvement"
    family: Family = "rbf"
    minimize: bool = False
    prior: RowPrior | None = None
    seed: Annotated[int, Range(0)] = 0


@dataclass(frozen=True)
class Asked:
    """One question and what became of it.

    Attributes:
        question: its number and row.
        status: `waiting`, `answered`, or `impossible` where the row cannot be measured.
        answer: the outcome, if it was answered.
    """

    question: Question
    status: Status = "waiting"
    answer: float | None = None

    @classmethod
    def settled(cls, answer: Answer) -> Asked:
        """A question with what came of it."""
        status: Status = "impossible" if answer.value is None else "answered"
        return cls(answer.question, status, answer.value)


@dataclass(frozen=True)
class Turn:
    """What one turn did.

    Attributes:
        asked: all questions so far.
        new_answers: how many answers were taken over.
        new_questions: how many questions were asked.
        done: whether the search is over.
        reason: why it is over; "" if it goes on.
        best: the best answered row; None before the first answer.
        gain: the largest expected improvement of one more question.
    """

    asked: tuple[Asked, ...]
    new_answers: int
    new_questions: int
    done: bool
    reason: str
    best: BestRow | None
    gain: float

    @property
    def waiting(self) -> int:
        """How many questions wait."""
        return sum(each.status == "waiting" for each in self.asked)

    @property
    def answered(self) -> int:
        """How many questions were answered."""
        return sum(each.status == "answered" for each in self.asked)


class Search:
    """One search over one release, resumed from its state file if there is one.

    Args:
        table: the release.
        state: the file with what was asked and answered.
        settings: what decides which rows are asked for; None takes those of the state file.

    Raises:
        InvalidInput: for a state of another release, of other settings, or a damaged one.
    """

    def __init__(
        self, table: ReleasedTable, state: str | Path, settings: SearchSettings | None = None
    ) -> None:
        self.table = table
        self.path = Path(state)
        self._kept = _read(self.path, table.certificate.release)
        known = self._kept or (settings or SearchSettings(), ())
        if settings is not None and known[0] != settings:
            before, now = asdict(known[0]), asdict(settings)
            differing = [f"{name} = {before[name]}" for name in now if before[name] != now[name]]
            raise InvalidInput(
                f"the search in {self.path} was begun with other settings "
                f"({', '.join(differing)}); repeat those, or name another state file to begin anew."
            )
        self.settings, self.asked = known
        self.beliefs: RowBeliefs = table.beliefs()
        self._make_modeler()

    @property
    def release(self) -> str:
        """The name of the release."""
        return self.table.certificate.release

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
        asked_now, reason = 0, ""
        if not self._waiting():
            reason = self._finished(most, least)
            if not reason:
                rows = self.modeler.ask(min(size, most - len(self.asked)))
                asked_now = len(rows)
                first = 1 + max((each.question.number for each in self.asked), default=0)
                new = [Asked(Question(first + i, int(row))) for i, row in enumerate(rows)]
                self.asked = (*self.asked, *new)
                reason = "" if new else "every row has been asked for as often as is allowed"
        self._save()
        waiting = self._waiting()
        if waiting:
            write_questions(self.release, [each.question for each in waiting], asking)
        elif asking.exists() and _is_ask_file(asking, self.release):
            asking.unlink()
        return Turn(
            self.asked,
            taken,
            asked_now,
            bool(reason),
            reason,
            self.modeler.best(),
            self.modeler.expected_gain(),
        )

    def _waiting(self) -> list[Asked]:
        return [each for each in self.asked if each.status == "waiting"]

    def _finished(self, most: int, least: float | None) -> str:
        if len(self.asked) >= most:
            return f"all {len(self.asked)} questions have been asked and settled"
        if least is not None and self.modeler.expected_gain() < least:
            return f"one more question promises less than {least:g}"
        return ""

    def _take(self, release: str, answers: list[Answer]) -> int:
        """Take over what is new; check everything first."""
        if release != self.release:
            raise InvalidInput(
                f"the answers belong to release {release}, the search to {self.release}; give the "
                "answers file of this release."
            )
        if not self.asked:
            answers = sorted(answers, key=lambda each: each.question)
            self.asked = tuple(map(Asked.settled, answers))
            self._make_modeler()
            return len(answers)
        known = {each.question.number: each for each in self.asked}
        fresh: dict[int, Answer] = {}
        for answer in answers:
            number = answer.question.number
            if number not in known or known[number].question != answer.question:
                raise InvalidInput(
                    f"the answers file answers question {number} about row {answer.question.row}, "
                    f"which was not asked (asked: {_asked_about(known, number)}). Nothing was "
                    "read in. If another search asked it, name a state file that is not there "
                    "yet: a new search reads all answers."
                )
            before = known[number]
            if before.status == "waiting":
                fresh[number] = answer
            elif before.answer != answer.value:
                raise InvalidInput(
                    f"the answers file answers question {number} with {answer.value}, but "
                    f"{before.answer} came before; ask the curator which is right. Nothing was "
                    "read in."
                )
        if not fresh:
            return 0
        settled = [each.question.number for each in self.asked if each.status != "waiting"]
        self.asked = tuple(
            Asked.settled(fresh[each.question.number]) if each.question.number in fresh else each
            for each in self.asked
        )
        if min(fresh) > max(settled, default=0):
            self._tell([each for each in self.asked if each.question.number in fresh])
        else:
            # Learn from answers in the order of their questions, as a search taken up again does.
            self._make_modeler()
        return len(fresh)

    def _tell(self, settled: list[Asked]) -> None:
        good = [each for each in settled if each.answer is not None]
        bad = [each.question.row for each in settled if each.status == "impossible"]
        if good:
            values = [each.answer for each in good]
            self.modeler.tell(
                np.array([each.question.row for each in good]), np.array(values, dtype=np.float64)
            )
        if bad:
            self.modeler.close(np.array(bad))

    def _make_modeler(self) -> None:
        """A modeler that knows what the state file knows."""
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
        waiting = [each.question.row for each in self._waiting()]
        self.modeler.expect(np.array(waiting, dtype=np.int64))

    def _save(self) -> None:
        """The search as it is, if it has changed."""
        if self._kept == (self.settings, self.asked):
            return
        rows = [
            (each.question.number, each.question.row, each.status, each.answer)
            for each in self.asked
        ]
        with _state(self.path).changing() as state:
            state.execute("DELETE FROM search")
            state.execute("DELETE FROM asked")
            settings = json.dumps(codec.to_json(self.settings), allow_nan=False)
            state.execute("INSERT INTO search VALUES (?, ?)", (self.release, settings))
            state.executemany("INSERT INTO asked VALUES (?, ?, ?, ?)", rows)
        self._kept = (self.settings, self.asked)


def _asked_about(known: dict[int, Asked], number: int) -> str:
    if number in known:
        return f"question {number} is about row {known[number].question.row}"
    return f"questions 1 to {len(known)}" if known else "nothing yet"


def _is_ask_file(path: Path, release: str) -> bool:
    try:
        return read_questions(path)[0] == release
    except InvalidInput:
        return False


def _state(path: Path) -> StateFile:
    return StateFile(path, "a search", _SCHEMA, _APPLICATION)


def _read(path: Path, release: str) -> tuple[SearchSettings, tuple[Asked, ...]] | None:
    """What a search was begun with, and what became of it; None before it began."""
    with _state(path).reading() as state:
        if state is None:
            return None
        about, settings = state.execute("SELECT release, settings FROM search").fetchone()
        asked = state.execute("SELECT question, row, status, answer FROM asked ORDER BY question")
        questions = [Asked(Question(number, row), *rest) for number, row, *rest in asked]
    if about != release:
        raise InvalidInput(
            f"the search in {path} is about release {about}, not {release}; name another state "
            "file."
        )
    try:
        begun = codec.from_json(json.loads(settings), SearchSettings, "the settings")
    except ValueError as error:
        raise InvalidInput(f"the search in {path} is damaged ({error}); restore it.") from error
    return begun, tuple(questions)
