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
from dataclasses import replace
from pathlib import Path

import pytest

from discreet.durable import write_bytes
from discreet.outsourcing import answers as answering
from discreet.outsourcing.answers import AnswerRules, Question
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.curator import Curator
from discreet.outsourcing.exchange import ReleasedTable, read_answers, write_answers
from discreet.outsourcing.key import keep_answers, read_key, state_of
from discreet.privacy import SimulatedNoise
from discreet.validation import InvalidInput
from tests.chance import RARE
from tests.outsourcing.cases import contents, release, table
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
    Curator(folder / "key").publish(made.release, folder / out)
    return made


def key_of(folder: Path) -> list[Certificate]:
    key = read_key(folder / "key")
    assert key is not None
    return [drawn.certificate for drawn in key.drawn]


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


def test_a_first_release(tmp_path: Path, stopped: Stopped) -> None:
    for step in range(MANY):
        folder = tmp_path / str(step)
        folder.mkdir()
        reached = stopped(step, lambda folder=folder: draw(folder))  # type: ignore[misc]
        before = seen(folder)
        final = draw(folder)
        # One release, whatever happened; what could be seen before is what is there now.
        assert before | seen(folder) == {final.sha256}
        assert [one.release for one in key_of(folder)] == [final.release]
        assert final.earlier == ()
        assert ReleasedTable.read(folder / "out").certificate.to_json() == final.to_json()
        # Nothing is left over.
        assert sorted(path.name for path in folder.iterdir()) == ["key", "out"]
        names = {path.name for path in (folder / "key").iterdir()}
        assert names == {"key.sqlite", "SECRET.txt", f"{final.release}.published"}
        if not reached:
            break
    assert step > 25


def test_a_new_release(tmp_path: Path, stopped: Stopped) -> None:
    (tmp_path / "first").mkdir()
    first = draw(tmp_path / "first")
    for step in range(MANY):
        folder = tmp_path / str(step)
        shutil.copytree(tmp_path / "first", folder)
        reached = stopped(
            step,
            lambda folder=folder: draw(folder, again=True, out="two"),  # type: ignore[misc]
        )
        if not reached:
            break
        key = read_key(folder / "key")
        assert key is not None
        between = key_of(folder)
        known = {one.sha256 for one in between}
        assert seen(folder) <= known
        if len(seen(folder)) > 1:
            assert older_is_refused(folder, tmp_path / "first")
        last = between[-1].release
        finished = key.drawn[-1].published and last != first.release
        final = draw(folder, again=True, out="three" if finished else "two")
        # Everything that anybody could see is counted in the last certificate.
        known = {one.sha256 for one in key_of(folder)}
        assert {first.sha256, final.sha256} <= seen(folder) <= known
        assert len(final.earlier) == len(known) - 1
        # A stopped command repeated means the same release, unless it was done but for goodbye.
        assert len(known) == (3 if finished else 2)
    assert step > 20


def test_a_release_that_is_written_out_again(tmp_path: Path, stopped: Stopped) -> None:
    (tmp_path / "first").mkdir()
    made = draw(tmp_path / "first")
    for step in range(MANY):
        folder = tmp_path / str(step)
        shutil.copytree(tmp_path / "first", folder)
        (folder / "out" / "rows.csv").write_text("damaged")
        reached = stopped(step, lambda folder=folder: draw(folder))  # type: ignore[misc]
        assert draw(folder).release == made.release
        assert seen(folder) == {made.sha256}
        if not reached:
            break
    assert step > 5


@pytest.mark.parametrize("protected", [True, False])
def test_answers(tmp_path: Path, stopped: Stopped, protected: bool) -> None:
    rules = AnswerRules(2, 1.0, 1e-6, (0.0, 10.0)) if protected else AnswerRules(2)
    for step in range(MANY):
        folder = tmp_path / str(step)
        folder.mkdir()
        key, out = folder / "key", folder / "answers.csv"
        made = release(key, answers=rules)

        def answer(
            *rows: int, key: Path = key, out: Path = out, name: str = made.release
        ) -> list[float | None]:
            given = Curator(key).answer(name, [Question(1 + i, r) for i, r in enumerate(rows)])
            write_answers(name, given, out)
            return [one.answer for one in given]

        first = answer(4, 0)
        reached = stopped(step, lambda answer=answer: answer(4, 0, 7, 4, 2))  # type: ignore[misc]
        visible = [one.answer for one in read_answers(out)[1]]
        assert visible[:2] == first
        assert len(visible) in (2, 5)
        noted = [one.value for one in key_log(key)]
        final = answer(4, 0, 7, 4, 2)
        # What was seen stays, and so does what was noted and perhaps seen.
        assert final[: len(visible)] == visible
        assert final[: len(noted)] == noted
        assert answer(4, 0, 7, 4, 2) == final
        assert [one.answer for one in read_answers(out)[1]] == final
        if protected:
            assert len(set(final)) == 5
        else:
            assert final[0] == final[3]
        assert len(key_log(key)) == 5
        if not reached:
            break
    assert step > 4


def key_log(key: Path) -> tuple[answering.GivenAnswer, ...]:
    found = read_key(key)
    assert found is not None
    return found.answers


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
            assert key_log(folder / "key") == ()
            assert len(key_of(folder)) == 1
            act(folder / "key")
            assert len(key_log(folder / "key")) == (count if name == "answers" else 0)
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
        assert [one.value for one in key_log(key)][: len(seen)] == seen


def test_a_second_draw_is_refused_by_the_key_itself(tmp_path: Path) -> None:
    key = tmp_path / "key"
    made = release(key, answers=AnswerRules(2, 1.0, 1e-6, (0.0, 10.0)))
    Curator(key).answer(made.release, [Question(1, 3)])
    (before,) = key_log(key)
    other = replace(before, question=2, value=(before.value or 0.0) + 1.0)
    with (
        pytest.raises(InvalidInput, match="UNIQUE"),
        state_of(key).changing() as state,
    ):
        keep_answers(state, [other])
    assert key_log(key) == (before,)
