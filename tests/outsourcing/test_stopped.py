"""A curator that is stopped at any step and repeated: what others can see is what is counted.

Whatever is drawn here is drawn anew each time, so that two draws would be two different things.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from discreet.atomic_files import write_bytes
from discreet.outsourcing import mechanisms as answering
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.curator import Curator
from discreet.outsourcing.exchange import ReleasedTable, read_answers, write_answers
from discreet.outsourcing.key import keep_answers, read_key, state_of
from discreet.outsourcing.mechanisms import AnswerRules, Question
from discreet.privacy import SimulatedNoise
from discreet.validation import InvalidInput
from tests.chance import RARE
from tests.outsourcing.cases import ask, contents, kept, publish, release, table
from tests.outsourcing.stopping import WAYS, Stopped, killed

MANY = 200
# What is drawn again must differ, in a child process too. Of the names of drafts, 32 bits each, two
# may be equal: fewer than 40 pairs in a test.
pytestmark = pytest.mark.chance(RARE)


class Unseeded(SimulatedNoise):
    """Noise that differs each time it is drawn, as secure noise does."""

    def __init__(self, seed: object = None) -> None:
        super().__init__(None)


# A kill leaves more behind than a failure, after which folders are tidied.
@pytest.fixture(params=["killed", pytest.param("failed", marks=pytest.mark.slow)])
def stopped(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Stopped:
    monkeypatch.setattr(answering, "SimulatedNoise", Unseeded)
    return WAYS[request.param]


def seen(folder: Path) -> set[str]:
    """Digests of all rows that lie anywhere outside of the key, in hidden folders too."""
    return {
        hashlib.sha256(content).hexdigest()
        for name, content in contents(folder).items()
        if not name.startswith("key/") and "rows.csv" in name and content
    }


def draw(folder: Path, again: bool = False, out: str = "out") -> Certificate:
    """What `discreet curate` does."""
    made = release(folder / "key", noise=Unseeded(), again=again)
    publish(folder / "key", made, folder / out)
    return made


def certificates(folder: Path) -> list[Certificate]:
    return [drawn.certificate for drawn in kept(folder / "key").drawn]


def stops(
    tmp_path: Path, stopped: Stopped, act: Callable[[Path], object], least: int
) -> Iterator[Path]:
    """Copies of the folder `first`, in each of which `act` was stopped at the next of its steps,
    of which there are more than `least`; in the last it came to its end."""
    (tmp_path / "first").mkdir(exist_ok=True)
    for step in range(MANY):
        folder = tmp_path / str(step)
        shutil.copytree(tmp_path / "first", folder)
        reached = stopped(step, lambda folder=folder: act(folder))  # type: ignore[misc]
        yield folder
        if not reached:
            break
    assert least < step < MANY - 1


def older_is_refused(folder: Path, older: Path) -> bool:
    """Whether the key would be refused if it were restored from an older copy."""
    copy = folder.with_name("restored")
    shutil.copytree(folder / "key", copy)
    (copy / "key.sqlite-journal").unlink(missing_ok=True)
    shutil.copy(older / "key" / "key.sqlite", copy)
    try:
        read_key(copy)
    except InvalidInput as error:
        return "older copy" in str(error)
    finally:
        shutil.rmtree(copy)
    return False


@pytest.mark.slow
def test_a_first_release(tmp_path: Path, stopped: Stopped) -> None:
    for folder in stops(tmp_path, stopped, draw, 25):
        before = seen(folder)
        final = draw(folder)
        # One release, whatever happened; what could be seen before is what is there now.
        assert before | seen(folder) == {final.sha256}
        assert [each.release for each in certificates(folder)] == [final.release]
        assert final.earlier == ()
        assert ReleasedTable.read(folder / "out").certificate.to_json() == final.to_json()
        # Nothing is left over.
        assert sorted(path.name for path in folder.iterdir()) == ["key", "out"]
        names = {path.name for path in (folder / "key").iterdir()}
        assert names == {"key.sqlite", "SECRET.txt", f"{final.release}.published"}


@pytest.mark.slow
def test_a_new_release(tmp_path: Path, stopped: Stopped) -> None:
    (tmp_path / "first").mkdir()
    first = draw(tmp_path / "first")
    for folder in stops(tmp_path, stopped, partial(draw, again=True, out="two"), 20):
        assert seen(folder) <= {each.sha256 for each in certificates(folder)}
        if len(seen(folder)) > 1:
            assert older_is_refused(folder, tmp_path / "first")
        last = kept(folder / "key").drawn[-1]
        finished = last.published and last.certificate.release != first.release
        final = draw(folder, again=True, out="three" if finished else "two")
        # Everything that anybody could see is counted in the last certificate.
        known = {each.sha256 for each in certificates(folder)}
        assert {first.sha256, final.sha256} <= seen(folder) <= known
        assert len(final.earlier) == len(known) - 1
        # A stopped command repeated means the same release, unless it was done but for goodbye.
        assert len(known) == (3 if finished else 2)


@pytest.mark.slow
def test_a_release_that_is_written_out_again(tmp_path: Path, stopped: Stopped) -> None:
    (tmp_path / "first").mkdir()
    made = draw(tmp_path / "first")
    (tmp_path / "first" / "out" / "rows.csv").write_text("damaged")
    for folder in stops(tmp_path, stopped, draw, 5):
        assert draw(folder).release == made.release
        assert seen(folder) == {made.sha256}


@pytest.mark.parametrize("protected", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_answers(tmp_path: Path, stopped: Stopped, protected: bool) -> None:
    rules = AnswerRules(2, 1.0, 1e-6, (0.0, 10.0)) if protected else AnswerRules(2)
    (tmp_path / "first").mkdir()
    made = release(tmp_path / "first" / "key", answers=rules)

    def answer(folder: Path, *rows: int) -> list[float | None]:
        answers = ask(folder / "key", made, *rows)
        write_answers(made.release, answers, folder / "answers.csv")
        return [each.answer for each in answers]

    def visible(folder: Path) -> list[float | None]:
        return [each.answer for each in read_answers(folder / "answers.csv")[1]]

    first, more = answer(tmp_path / "first", 4, 0), (4, 0, 7, 4, 2)
    for folder in stops(tmp_path, stopped, lambda folder: answer(folder, *more), 4):
        before, noted = visible(folder), [given.value for given in kept(folder / "key").answers]
        assert before[:2] == first
        assert len(before) in (2, 5)
        final = answer(folder, *more)
        # What was seen stays, and so does what was noted and perhaps seen.
        assert final[: len(before)] == before
        assert final[: len(noted)] == noted
        assert answer(folder, *more) == final == visible(folder)
        assert len(set(final)) == 5 if protected else final[0] == final[3]
        assert len(kept(folder / "key").answers) == 5


@pytest.mark.slow
def test_what_was_half_written_was_seen_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed when parts of the answers, or of a release, are in the file already."""
    monkeypatch.setattr(answering, "SimulatedNoise", Unseeded)
    count = 400
    (tmp_path / "first").mkdir()
    rules = AnswerRules(1, 1.0, 1e-6, (0.0, 10.0))
    made = release(tmp_path / "first" / "key", table(count), answers=rules)
    questions = [Question(1 + row, row) for row in range(count)]
    acts = {
        "answers": lambda key: Curator(key).answer(made.release, questions),
        "release": lambda key: release(key, table(count), answers=rules, seed=8, again=True),
    }
    for name, act in acts.items():
        before = (tmp_path / "first" / "key" / "key.sqlite").read_bytes()
        halves = 0
        for step in range(10, 1000, 1 if name == "release" else 97):
            folder = tmp_path / f"{name} {step}"
            shutil.copytree(tmp_path / "first", folder)
            file = folder / "key" / "key.sqlite"
            if not killed(step, lambda act=act, folder=folder: act(folder / "key")):  # type: ignore[misc]
                break
            halves += file.read_bytes() != before and file.with_name("key.sqlite-journal").exists()
            # It is taken back whole by whoever comes next.
            assert kept(folder / "key").answers == ()
            assert len(certificates(folder)) == 1
            act(folder / "key")
            assert len(kept(folder / "key").answers) == (count if name == "answers" else 0)
        assert halves > 0, name


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_answers_of_a_process_that_is_killed_at_any_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not between two steps of ours, but within those of SQLite too."""
    monkeypatch.setattr(answering, "SimulatedNoise", Unseeded)
    key, seen_file = tmp_path / "key", tmp_path / "seen"
    made = release(key, table(60), answers=AnswerRules(1, 1.0, 1e-6, (0.0, 10.0)))
    for turn in range(10):
        child = os.fork()
        if child == 0:
            for number in range(60):
                given = Curator(key).answer(made.release, [Question(1 + number, number)])
                write_bytes(seen_file, repr([answer.answer for answer in given]).encode())
            os._exit(0)
        known = seen_file.stat().st_mtime_ns if seen_file.exists() else 0
        while not seen_file.exists() or seen_file.stat().st_mtime_ns == known:
            time.sleep(0.0005)
        time.sleep(0.0013 * turn)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        seen = ast.literal_eval(seen_file.read_text())
        assert [one.value for one in kept(key).answers][: len(seen)] == seen


def test_a_second_draw_is_refused_by_the_key_itself(tmp_path: Path) -> None:
    key = tmp_path / "key"
    made = release(key, answers=AnswerRules(2, 1.0, 1e-6, (0.0, 10.0)))
    Curator(key).answer(made.release, [Question(1, 3)])
    (before,) = kept(key).answers
    other = replace(before, question=2, value=(before.value or 0.0) + 1.0)
    with (
        pytest.raises(InvalidInput, match="UNIQUE"),
        state_of(key).changing() as state,
    ):
        keep_answers(state, [other])
    assert kept(key).answers == (before,)
