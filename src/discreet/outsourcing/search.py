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
from typing import Annotated

from discreet import codec
from discreet.atomic_files import StateFile
from discreet.codec import Coded, Range
from discreet.outsourcing.answers import Question
from discreet.outsourcing.beliefs import RowBeliefs
from discreet.outsourcing.exchange import (
    ASK_COLUMNS,
    ReleasedTable,
    read_answers,
    read_questions,
    refuse_foreign,
    write_questions,
)
from discreet.outsourcing.modeler import ACQUISITIONS, AcquisitionName, BestRow, Modeler
from discreet.outsourcing.posterior import Family, RowPrior
from discreet.records import check_path
from discreet.validation import InvalidInput, positive_number, whole_number

_APPLICATION = 0x73656172
_SCHEMA = (
    "CREATE TABLE search (release TEXT NOT NULL, settings TEXT NOT NULL)",
    """CREATE TABLE asked (
        question INTEGER PRIMARY KEY, row INTEGER NOT NULL, status TEXT NOT NULL, answer)""",
)


@dataclass(frozen=True)
class SearchSettings(Coded):
    """What decides which rows are asked for; fixed when a search begins.

    Attributes:
        acquisition: `portfolio`, `expected_improvement`, `upper_confidence` or `gp_ucb` (as
            published).
        family: of the kernel: `rbf`, `matern32`, `matern52`.
        minimize: whether the lowest outcome is searched.
        prior: known beforehand; None to learn it from the answers.
        seed: of the first rows, which are drawn at random.
    """

    acquisition: AcquisitionName = "portfolio"
    family: Family = "rbf"
    minimize: bool = False
    prior: RowPrior | None = None
    seed: Annotated[int, Range(0)] = 0


@dataclass(frozen=True)
class Turn:
    """What one turn did.

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
        """Take over what is new, and say how many answers that are; check everything first."""
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
    """What a search was begun with, and what became of it; None before it began."""
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
