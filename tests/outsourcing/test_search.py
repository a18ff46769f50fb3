"""The whole search between two parties, in files: to its end, and interrupted on the way."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from discreet.outsourcing.curator import Curator
from discreet.outsourcing.exchange import (
    ReleasedTable,
    read_questions,
    write_answers,
    write_questions,
)
from discreet.outsourcing.key import read_key
from discreet.outsourcing.mechanisms import AnswerRules, Question
from discreet.outsourcing.modeler import RowSearch, SearchSettings, Turn
from discreet.outsourcing.posterior import RowPrior
from discreet.privacy import Outsourced
from discreet.validation import InvalidInput
from tests.chance import RARE
from tests.outsourcing.cases import contents, refused, release, table
from tests.outsourcing.stopping import WAYS

ROWS, ROUNDS, BATCH = 40, 12, 4


def hills(rows: int = ROWS) -> pd.DataFrame:
    """People whose outcome is a smooth function of where they are."""
    frame = table(rows)
    high = (frame["a"] - 7.0) ** 2 + (frame["b"] - 3.0) ** 2
    return frame.assign(expense=10.0 - 0.1 * high)


class Parties:
    """A folder with both parties in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key, self.out = folder / "key", folder / "release"
        self.ask, self.answers = folder / "ask.csv", folder / "answers.csv"
        self.state = folder / "search.sqlite"

    @classmethod
    def begin(
        cls, folder: Path, answers: AnswerRules | None = None, frame: pd.DataFrame | None = None
    ) -> Parties:
        made = cls(folder)
        certificate = release(
            made.key,
            hills() if frame is None else frame,
            budget=Outsourced(8.0, 1e-5, 0.5),
            answers=answers,
        )
        Curator(made.key).publish(certificate.release, made.out)
        return made

    def twin(self, folder: Path) -> Parties:
        """The same at this moment, in another folder."""
        shutil.copytree(self.folder, folder)
        return Parties(folder)

    @property
    def table(self) -> ReleasedTable:
        return ReleasedTable.read(self.out)

    def search(self, settings: SearchSettings | None = None) -> RowSearch:
        return RowSearch(self.table, self.state, settings)

    def model(self, settings: SearchSettings | None = None, **change: object) -> Turn:
        """One turn of the modeler, who remembers nothing but the files."""
        options = {"rounds": ROUNDS, "batch": BATCH, **change}
        return self.search(settings).step(self.ask, self.answers, **options)  # type: ignore[arg-type]

    def curate(self, outcomes: pd.DataFrame | None = None) -> None:
        """One turn of the curator."""
        name, questions = read_questions(self.ask)
        write_answers(name, Curator(self.key).answer(name, questions, outcomes), self.answers)

    def play(self, settings: SearchSettings | None = None, **change: object) -> Turn:
        """To the end."""
        turn = self.model(settings, **change)
        while not turn.done:
            self.curate()
            turn = self.model(settings, **change)
        return turn

    def rewrite(self, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
        """Edit the answers file."""
        frame = pd.read_csv(self.answers, dtype={"release": str})
        change(frame).to_csv(self.answers, index=False)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Parties:
    return Parties.begin(tmp_path_factory.mktemp("fresh"))


@pytest.fixture(scope="module")
def begun_once(fresh: Parties, tmp_path_factory: pytest.TempPathFactory) -> Parties:
    """A search of which two batches were asked and answered, the last not yet read."""
    begun = fresh.twin(tmp_path_factory.mktemp("begun") / "work")
    for _ in range(2):
        begun.model()
        begun.curate()
    return begun


@pytest.fixture
def parties(fresh: Parties, tmp_path: Path) -> Parties:
    return fresh.twin(tmp_path / "work")


def story(turn: Turn) -> list[tuple[int, int, str, float | None]]:
    return [(one.number, one.row, one.status, one.answer) for one in turn.asked]


class TestTheWholeSearch:
    @pytest.mark.parametrize(
        "settings",
        [
            None,
            SearchSettings(acquisition="expected_improvement", family="matern52"),
            SearchSettings(acquisition="gp_ucb", prior=RowPrior((3.0, 3.0), 4.0, 0.01, 7.0)),
        ],
        ids=["default", "improvement", "as published, known prior"],
    )
    def test_it_ends_with_a_good_row(
        self, parties: Parties, settings: SearchSettings | None
    ) -> None:
        turn = parties.play(settings)
        assert turn.done
        assert (turn.answered, turn.waiting) == (ROUNDS, 0)
        assert f"all {ROUNDS} questions" in turn.reason
        assert [one.number for one in turn.asked] == list(range(1, ROUNDS + 1))
        rows = [one.row for one in turn.asked]
        assert len(set(rows)) == ROUNDS
        assert turn.best is not None
        assert turn.best.answer == max(one.answer for one in turn.asked if one.answer is not None)
        best = sorted(hills()["expense"])
        assert turn.best.answer >= best[-4]
        # No questions are left, so there is no file of them.
        assert not parties.ask.exists()
        # Who looks again sees the same.
        assert story(parties.model(settings)) == story(turn)

    def test_protected_answers(self, tmp_path: Path) -> None:
        rules = AnswerRules(2, 20.0, 1e-6, (0.0, 10.0))
        parties = Parties.begin(tmp_path, rules)
        turn = parties.play()
        assert turn.answered == ROUNDS
        answers = parties.table.certificate.answers
        assert answers is not None
        assert parties.search().modeler.prior.noise >= answers.scale**2

    def test_repeats_are_asked_for_where_they_are_allowed(self, tmp_path: Path) -> None:
        frame = hills(3)
        parties = Parties.begin(tmp_path, AnswerRules(2), frame)
        turn = parties.play(rounds=50, batch=5)
        rows = [one.row for one in turn.asked]
        assert sorted(rows) == [0, 0, 1, 1, 2, 2]
        assert "as often as is allowed" in turn.reason

    def test_it_stops_where_little_is_to_be_gained(self, parties: Parties) -> None:
        turn = parties.play(least_gain=5.0, rounds=ROWS)
        assert turn.done
        assert "promises less than 5" in turn.reason
        assert len(turn.asked) < ROWS
        # And goes on if more is wanted.
        turn = parties.play(rounds=len(turn.asked) + 2)
        assert turn.answered == len(turn.asked)

    def test_rows_that_cannot_be_measured(self, tmp_path: Path) -> None:
        frame = hills()
        parties = Parties.begin(tmp_path, frame=frame.assign(expense=None))
        truth = frame[["citizen", "expense"]]
        # Every third person cannot be measured.
        truth = truth.assign(expense=truth["expense"].where(np.arange(ROWS) % 3 > 0))
        turn = parties.model()
        while not turn.done:
            parties.curate(truth)
            turn = parties.model()
        lost = [one for one in turn.asked if one.status == "impossible"]
        assert lost
        assert all(one.answer is None for one in lost)
        assert turn.answered == ROUNDS - len(lost)
        assert len({one.row for one in turn.asked}) == ROUNDS


class TestInterruptions:
    def test_a_repeated_turn_does_nothing(self, parties: Parties) -> None:
        first = parties.model()
        written = contents(parties.folder)
        again = parties.model()
        assert story(again) == story(first)
        assert (again.new_answers, again.new_questions) == (0, 0)
        assert (first.new_answers, first.new_questions) == (0, BATCH)
        assert contents(parties.folder) == written
        parties.curate()
        answered = contents(parties.folder)
        parties.curate()
        assert contents(parties.folder) == answered

    # A child process that drew the names of drafts, 32 bits each, and the one that goes on.
    @pytest.mark.chance(RARE)
    @pytest.mark.parametrize(
        ("way", "turns", "every"),
        [("killed", 1, 7)]
        + [
            pytest.param(way, turns, 1, marks=pytest.mark.slow)
            for way, turns in (("killed", 0), ("killed", 1), ("failed", 0), ("failed", 1))
        ],
    )
    def test_a_turn_that_is_stopped_at_any_step(
        self, tmp_path: Path, way: str, turns: int, every: int
    ) -> None:
        """Both sides' next turns are stopped and repeated, at so many of their steps."""
        stopped = WAYS[way]
        (tmp_path / "whole").mkdir()
        whole = Parties.begin(tmp_path / "whole")
        for _ in range(turns):
            whole.model()
            whole.curate()
        before = whole.twin(tmp_path / "before")
        whole.model()
        whole.curate()
        expected = whole.model()
        for step in range(0, 60, every):
            parties = before.twin(tmp_path / f"at {step}")
            reached = stopped(step, parties.model)
            parties.model()
            reached |= stopped(step, parties.curate)
            parties.curate()
            assert story(parties.model()) == story(expected)
            for name in ("ask.csv", "answers.csv"):
                assert (parties.folder / name).read_bytes() == (whole.folder / name).read_bytes(), (
                    name
                )
            keys = [read_key(side.key) for side in (parties, whole)]
            assert len({key and key.answers for key in keys}) == 1
            if not reached:
                break
        assert 4 < step < 57

    def test_lost_files_are_made_good(self, parties: Parties) -> None:
        parties.model()
        written = parties.ask.read_bytes()
        parties.curate()
        parties.ask.unlink()
        parties.answers.unlink()
        # Nothing came, so the same questions wait; the curator gives the same answers.
        assert parties.model().waiting == BATCH
        assert parties.ask.read_bytes() == written
        parties.curate()
        assert parties.model().answered == BATCH

    def test_a_lost_state_costs_no_question(self, parties: Parties) -> None:
        for _ in range(2):
            parties.model()
            parties.curate()
        parties.state.unlink()
        turn = parties.model()
        assert turn.new_answers == 2 * BATCH
        assert [one.number for one in turn.asked] == list(range(1, 3 * BATCH + 1))
        # What is asked next does not clash with what was asked before.
        parties.curate()
        assert parties.model().answered == 3 * BATCH

    def test_a_second_search_begins_with_what_the_first_found(self, parties: Parties) -> None:
        first = parties.play()
        parties.state = parties.folder / "second.sqlite"
        turn = parties.model(SearchSettings(minimize=True), rounds=ROUNDS + BATCH)
        assert turn.new_answers == ROUNDS
        assert story(turn)[:ROUNDS] == story(first)
        parties.curate()
        parties.model(SearchSettings(minimize=True), rounds=ROUNDS + BATCH)

    def test_old_answers_teach_nothing_new(self, parties: Parties) -> None:
        parties.model()
        parties.curate()
        old = parties.answers.read_bytes()
        turn = parties.model()
        parties.curate()
        parties.answers.write_bytes(old)
        stale = parties.model()
        assert story(stale) == story(turn)
        assert (stale.new_answers, stale.waiting) == (0, BATCH)

    def test_some_answers_of_a_batch(self, parties: Parties) -> None:
        asked = parties.model()
        parties.curate()
        parties.rewrite(lambda frame: frame.iloc[[2, 0]])
        turn = parties.model()
        assert (turn.new_answers, turn.new_questions, turn.waiting) == (2, 0, 2)
        # Only what still waits is asked for.
        _, questions = read_questions(parties.ask)
        assert questions == [asked.asked[1], asked.asked[3]]
        parties.curate()
        assert parties.model().answered == BATCH

    def test_the_order_in_which_answers_come_does_not_matter(
        self, parties: Parties, tmp_path: Path
    ) -> None:
        """Not even within one process, and across the moment at which a prior is learnt."""
        other = parties.twin(tmp_path / "other")
        rounds = ROUNDS + BATCH
        usual = parties.play(rounds=rounds)
        search = other.search()
        options = {"rounds": rounds, "batch": BATCH}
        turn = search.step(other.ask, other.answers, **options)  # type: ignore[arg-type]
        while not turn.done:
            other.curate()
            whole = other.answers.read_bytes()
            for places in ([3], [3, 1], [3, 1, 0, 2]):
                settled = turn.answered
                other.answers.write_bytes(whole)
                other.rewrite(
                    lambda frame, settled=settled, places=places: frame[  # type: ignore[misc]
                        (frame["question"] <= len(frame) // BATCH * BATCH - BATCH)
                        | frame["question"].sub(1).mod(BATCH).isin(places)
                    ]
                )
                latest = search.step(other.ask, other.answers, **options)  # type: ignore[arg-type]
                # Whoever takes the search up again at this point has learnt the same.
                assert search.modeler.prior == other.search().modeler.prior
                if latest.new_questions or latest.done:
                    break
            turn = latest
        assert story(turn) == story(usual)


class TestRefusals:
    @pytest.fixture
    def begun(self, begun_once: Parties, tmp_path: Path) -> Parties:
        return begun_once.twin(tmp_path / "work")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda f: f.assign(row=(f["row"] + 1) % ROWS), "which was not asked"),
            (lambda f: f.assign(question=f["question"] + 50), "which was not asked"),
            (lambda f: f.assign(answer=f["answer"] + 1.0), "came before"),
            (lambda f: f.assign(answer=[None, *f["answer"][1:]]), "with None, but"),
            (lambda f: f.assign(release="f" * 32), "the answers belong to release ffff"),
            (lambda f: f.assign(answer=["high", *f["answer"][1:]]), "a finite number"),
            (lambda f: f.assign(answer=np.inf), "a finite number"),
            (lambda f: pd.concat([f, f]), "question 1 twice"),
            (lambda f: f.assign(question=0), "at least 1"),
            (lambda f: f.assign(question=1.5), "at least 1"),
            (lambda f: f.assign(row=-1), "at least 0"),
            (lambda f: f.drop(columns="row"), "has release, question, row, answer"),
            (lambda f: f.rename(columns={"answer": "outcome"}), "has the columns"),
            (lambda f: f[:0], "has no rows"),
            (lambda f: f.assign(release=["f" * 32, *f["release"][1:]]), "is about 2 releases"),
        ],
    )
    def test_answers(
        self, begun: Parties, change: Callable[[pd.DataFrame], pd.DataFrame], message: str
    ) -> None:
        begun.rewrite(change)
        with refused(message, begun.folder):
            begun.model()

    def test_answers_about_rows_that_there_are_not(self, parties: Parties) -> None:
        """Where no question is known, answers are taken over, but not any."""
        name = parties.table.certificate.release
        write_answers(name, [Question(1, ROWS).answered(1.0)], parties.answers)
        with refused("every entry must be", parties.folder):
            parties.model()

    @pytest.mark.parametrize(
        "other",
        [
            SearchSettings(minimize=True),
            SearchSettings(seed=1),
            SearchSettings(acquisition="gp_ucb"),
            SearchSettings(family="matern32"),
            SearchSettings(prior=RowPrior(1.0)),
        ],
    )
    def test_other_settings(self, begun: Parties, other: SearchSettings) -> None:
        with refused("begun with other settings", begun.folder):
            begun.model(other)
        # Without settings those of the state are kept.
        assert begun.search().settings == SearchSettings()

    def test_another_release(self, begun: Parties, tmp_path: Path) -> None:
        (tmp_path / "other").mkdir()
        other = Parties.begin(tmp_path / "other")
        other.state = begun.state
        with refused("is about release", begun.folder, other.folder):
            other.model()
        other.state, other.answers = other.folder / "search.sqlite", begun.answers
        with refused("the answers belong to release", begun.folder, other.folder):
            other.model()
        other.ask = begun.ask
        with refused("is not one of the 1", begun.folder):
            other.curate()

    @pytest.mark.parametrize("text", ["{", "[]", "ten years of work", "SQLite format 3\0"])
    def test_state_files_that_are_none(self, parties: Parties, text: str) -> None:
        parties.state.write_text(text)
        with refused("is damaged|is not a search", parties.folder):
            parties.model()

    def test_the_key_is_no_search(self, parties: Parties) -> None:
        parties.state = parties.key / "key.sqlite"
        with refused("is not a search", parties.folder):
            parties.model()

    @pytest.mark.parametrize(
        "statement",
        [
            "DROP TABLE asked",
            "DROP TABLE search",
            "UPDATE search SET settings = '{}'",
            "UPDATE search SET settings = 'x'",
            "UPDATE search SET settings = replace(settings, 'rbf', 'cubic')",
            "UPDATE search SET settings = replace(settings, '}', ', \"more\": 1}')",
            f"UPDATE asked SET row = {ROWS} WHERE question = 1",
        ],
    )
    def test_damaged_states(self, begun: Parties, statement: str) -> None:
        with closing(sqlite3.connect(begun.state)) as state, state:
            state.execute(statement)
        message = "damaged|it must|every entry|could not be read"
        with refused(message, begun.folder):
            begun.search()

    @pytest.mark.parametrize("name", ["thesis.csv", "thesis.parquet", "thesis.txt"])
    def test_other_peoples_files_are_not_overwritten(self, parties: Parties, name: str) -> None:
        if name.endswith("parquet"):
            pytest.importorskip("pyarrow")
        thesis, usual = parties.folder / name, parties.ask
        thesis.write_text("a,b\n1,2\n")
        parties.ask = thesis
        with refused("is not a file with the columns|must end in", parties.folder):
            parties.model()
        parties.ask = usual
        parties.model()
        parties.answers = thesis
        with pytest.raises(InvalidInput, match=r"is not a file with the columns|must end in"):
            parties.curate()
        with refused("has the columns|must end in|could not be read", parties.folder):
            parties.model()

    def test_a_foreign_ask_file_stays_when_the_search_is_over(self, parties: Parties) -> None:
        parties.play()
        write_questions("f" * 32, [Question(1, 2)], parties.ask)
        written = parties.ask.read_bytes()
        parties.model()
        assert parties.ask.read_bytes() == written

    @pytest.mark.parametrize("file", ["ask", "state"])
    def test_folders_that_are_not_there(self, parties: Parties, file: str) -> None:
        setattr(parties, file, parties.folder / "no" / "file.csv")
        with refused("does not exist", parties.folder):
            parties.model()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"rounds": 0}, "rounds was 0"),
            ({"batch": 0}, "batch was 0"),
            ({"batch": 1.5}, "batch was 1.5"),
            ({"least_gain": 0.0}, "least gain was 0"),
        ],
    )
    def test_bad_wishes(self, parties: Parties, change: dict[str, object], message: str) -> None:
        with refused(message, parties.folder):
            parties.model(**change)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"acquisition": "guess"}, "acquisition was 'guess'"),
            ({"family": "cubic"}, "family was 'cubic'"),
            ({"seed": -1}, "seed was -1"),
        ],
    )
    def test_bad_settings(self, change: dict[str, object], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            SearchSettings(**change)  # type: ignore[arg-type]
