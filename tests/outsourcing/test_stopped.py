"""A curator that is stopped at any step and repeated: what others can see is what is counted.

Whatever is drawn here is drawn anew each time, so that two draws would be two different things.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from discreet.outsourcing import answering
from discreet.outsourcing.answer_noise import AnswerRules
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.curator import Curator
from discreet.outsourcing.key import read_key
from discreet.outsourcing.questions import Question, read_answers, write_answers
from discreet.outsourcing.table import ReleasedTable
from discreet.privacy import SimulatedNoise
from tests.chance import RARE
from tests.outsourcing.cases import contents, release
from tests.outsourcing.stopping import WAYS, Stopped

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
    return [key.certificate(one.release) for one in key.drawn]


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
        assert names == {".lock", "key.json", "people.csv", final.release}
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
        between = key_of(folder)
        known = {one.sha256 for one in between}
        assert seen(folder) <= known
        last = between[-1].release
        finished = (folder / "key" / last / "published").exists() and last != first.release
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
            return [one.value for one in given]

        first = answer(4, 0)
        reached = stopped(step, lambda answer=answer: answer(4, 0, 7, 4, 2))  # type: ignore[misc]
        visible = [one.value for one in read_answers(out)[1]]
        assert visible[:2] == first
        assert len(visible) in (2, 5)
        noted = [one.value for one in key_log(key)]
        final = answer(4, 0, 7, 4, 2)
        # What was seen stays, and so does what was noted and perhaps seen.
        assert final[: len(visible)] == visible
        assert final[: len(noted)] == noted
        assert answer(4, 0, 7, 4, 2) == final
        assert [one.value for one in read_answers(out)[1]] == final
        if protected:
            assert len(set(final)) == 5
        else:
            assert final[0] == final[3]
        assert len(key_log(key)) == 5
        if not reached:
            break
    assert step > 4


def key_log(key: Path) -> list[answering.LoggedAnswer]:
    found = read_key(key)
    assert found is not None
    return found.answers()


def test_a_line_that_was_cut_short_was_seen_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Power that fails within a line of the log: whole lines stay, the rest is drawn again."""
    monkeypatch.setattr(answering, "SimulatedNoise", Unseeded)
    key = tmp_path / "key"
    made = release(key, answers=AnswerRules(1, 1.0, 1e-6, (0.0, 10.0)))
    questions = [Question(1, 3), Question(2, 8), Question(3, 1)]
    log = key / "answers.jsonl"
    Curator(key).answer(made.release, questions[:1])
    kept = log.read_bytes()
    Curator(key).answer(made.release, questions)
    whole = log.read_bytes()
    lines = [json.loads(line)["value"] for line in whole.splitlines()]
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(kept), len(whole) + 1, 11):
        log.write_bytes(whole[:cut])
        complete = sum(end <= cut for end in ends)
        values = [one.value for one in Curator(key).answer(made.release, questions)]
        assert values[:complete] == lines[:complete]
        assert len(values) == 3
        # The log is whole again, and says what was answered.
        assert [json.loads(line)["value"] for line in log.read_text().splitlines()] == values
        assert [one.value for one in Curator(key).answer(made.release, questions)] == values
