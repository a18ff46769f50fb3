"""What a release would be before it is drawn, and what must be asked for by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from discreet.outsourcing.answers import AnswerRules, Question
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.curator import Allowed, Curator, Proposal
from discreet.outsourcing.exchange import ReleasedTable
from discreet.outsourcing.key import read_key
from discreet.privacy import SecureNoise, SimulatedNoise
from discreet.validation import InvalidInput
from tests.learners.spy import Spy
from tests.outsourcing.cases import BUDGET, PROTECTED, bounds, contents, release, table


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return tmp_path / "key"


def publish(key: Path, certificate: Certificate, out: Path) -> bool:
    return Curator(key).publish(certificate.release, out)


def person(key: Path, certificate: Certificate, row: int) -> int:
    """Which of the people, in the order of their ids, a released row is."""
    found = read_key(key)
    assert found is not None
    return int(found.find(certificate.release).order[row])


class Untouchable(SimulatedNoise):
    """A source of which nothing may be drawn."""

    def _refuse(self, *_: object) -> NoReturn:
        raise AssertionError("something was drawn")

    keys = below = coins = add_laplace = add_gaussian = _refuse  # type: ignore[assignment]


def everything(folder: Path) -> dict[str, tuple[int, bytes | None]]:
    """All files and folders, hidden ones too, with when they were changed and what they hold."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else None,
        )
        for path in folder.rglob("*")
    }


def proposed(key: Path, **wish: Any) -> Proposal:
    """A proposal whose noise cannot be drawn."""
    settings = {"seed": 7, "answers": PROTECTED, **wish}
    return Curator(key).propose(table(), bounds(), BUDGET, Untouchable(7), **settings)


class TestProposals:
    """What a release would be, before it is drawn."""

    @pytest.mark.parametrize("projected", [None, 1])
    def test_nothing_is_drawn_and_nothing_is_written(
        self, key: Path, tmp_path: Path, projected: int | None
    ) -> None:
        before = proposed(key, projected=projected)
        assert list(tmp_path.iterdir()) == []
        made = release(key, answers=PROTECTED, projected=projected)
        # It shows what the release then promises, word for word.
        assert before.certificate.sentences == made.sentences
        assert before.certificate.guarantee.epsilon == pytest.approx(made.guarantee.epsilon)
        assert before.certificate.mechanism.scale == pytest.approx(made.mechanism.scale)
        assert not before.drawn

    def test_nor_beside_earlier_releases(self, key: Path, tmp_path: Path) -> None:
        made = release(key, answers=PROTECTED)
        before = everything(tmp_path)
        same = proposed(key)
        assert same.drawn
        assert same.certificate.to_json() == made.to_json()
        with pytest.raises(InvalidInput, match="released before"):
            proposed(key, projected=1)
        both = proposed(key, projected=1, allowed=Allowed(again=True))
        assert both.certificate.earlier == (made.mechanism,)
        assert everything(tmp_path) == before

    def test_what_changed_meanwhile_is_seen_when_it_is_drawn(self, key: Path) -> None:
        """Another process may release the table between a proposal and its draw."""
        first = Curator(key).propose(table(), bounds(), BUDGET, SimulatedNoise(7), seed=7)
        made = release(key)
        assert Curator(key).draw(first).release == made.release
        other = Curator(key.with_name("two"))
        late = other.propose(table(), bounds(), BUDGET, SimulatedNoise(8), seed=8)
        release(other.folder)
        with pytest.raises(InvalidInput, match="released before"):
            other.draw(late)

    def test_a_key_that_lost_its_file_is_refused_already_here(
        self, key: Path, tmp_path: Path
    ) -> None:
        publish(key, release(key), tmp_path / "out")
        (key / "key.sqlite").unlink()
        with pytest.raises(InvalidInput, match="is gone or empty"):
            proposed(key)


class TestByName:
    """What is hardly ever meant must be asked for by name."""

    def test_a_delta_above_one_in_all_rows(self, key: Path, tmp_path: Path) -> None:
        large = replace(BUDGET, delta=0.09)  # 1 / 12 = 0.083
        spy = Spy(7)
        with pytest.raises(InvalidInput, match=r"above 1 / 12 = 0\.083 .*--allow-large-delta"):
            release(key, budget=large, noise=spy)
        assert spy.given == []
        assert list(tmp_path.iterdir()) == []
        made = release(key, budget=large, allowed=Allowed(large_delta=True))
        assert any("above 1 / 12" in one for one in made.sentences)
        # What was drawn is given without the word, as nothing is decided any more.
        assert release(key, budget=large).release == made.release
        assert not any("above 1 /" in one for one in release(tmp_path / "other").sentences)

    def test_a_large_delta_of_answers(self, key: Path, tmp_path: Path) -> None:
        rules = AnswerRules(1, 1.0, 0.2, (0.0, 10.0))
        with pytest.raises(InvalidInput, match="the delta of the answers was"):
            release(key, answers=rules)
        assert list(tmp_path.iterdir()) == []
        release(key, answers=rules, allowed=Allowed(large_delta=True))

    def test_an_epsilon_that_protects_nobody(self, key: Path, tmp_path: Path) -> None:
        spy = Spy(7)
        huge = replace(BUDGET, epsilon=1e9)
        with pytest.raises(InvalidInput, match=r"protects nobody.*--protects-nobody"):
            release(key, budget=huge, noise=spy)
        with pytest.raises(InvalidInput, match="protects nobody"):
            release(key, answers=AnswerRules(1, 80.0, 1e-6, (0.0, 10.0)), noise=spy)
        assert spy.given == []
        assert list(tmp_path.iterdir()) == []
        made = release(key, budget=huge, allowed=Allowed(protects_nobody=True))
        assert made.sentences[0].startswith("This protects nobody (epsilon = 1")
        assert "10^" not in " ".join(made.sentences)

    def test_many_releases_that_protect_nobody_together(self, key: Path, tmp_path: Path) -> None:
        """Each alone is within the limit; what counts is the promise of all together."""
        strong = replace(BUDGET, epsilon=20.0)
        release(key, budget=strong)
        publish(key, release(key, budget=strong), tmp_path / "out")
        spy = Spy(7)
        with pytest.raises(InvalidInput, match="above 30 it protects nobody"):
            release(key, budget=replace(strong, epsilon=19.0), noise=spy, again=True)
        assert spy.given == []


class TestOutcomesThatChanged:
    @pytest.mark.parametrize(
        ("change", "counts"),
        [
            ({0: 3.25}, "1 of 12 outcomes are .*1 changed, 0 new, 0 now empty"),
            ({0: None, 5: 1.0}, "2 of 12 outcomes are .*1 changed, 0 new, 1 now empty"),
            ({11: 2.0}, "1 of 12 outcomes are .*0 changed, 1 new, 0 now empty"),
        ],
    )
    @pytest.mark.parametrize("again", [False, True])
    def test_they_are_refused_with_how_many_and_what_to_do(
        self, key: Path, tmp_path: Path, change: dict[int, float | None], counts: str, again: bool
    ) -> None:
        frame = table()
        frame.loc[11, "expense"] = None
        made = release(key, frame)
        publish(key, made, tmp_path / "out")
        before = contents(tmp_path)
        other = frame.copy()
        for row, value in change.items():
            other.loc[row, "expense"] = value
        spy = Spy(7)
        with pytest.raises(InvalidInput, match=f"{counts}.*--outcomes TABLE") as refusal:
            release(key, other, noise=spy, again=again)
        # How many, not which: nobody is named.
        assert "Secret-" not in str(refusal.value)
        assert spy.given == []
        assert contents(tmp_path) == before
        # The table as it was gives what was drawn, and the advice works.
        assert release(key, frame).release == made.release
        row = next(i for i in range(12) if person(key, made, i) == next(iter(change)))
        new = other.loc[[next(iter(change))], ["citizen", "expense"]]
        (given,) = Curator(key).answer(made.release, [Question(1, row)], new)
        assert given.answer == (None if new["expense"].isna().all() else new["expense"].iloc[0])


class TestSimulatedAndReal:
    @pytest.mark.chance(0)
    def test_a_key_holds_releases_of_one_kind(self, tmp_path: Path) -> None:
        pytest.importorskip("opendp")
        release(tmp_path / "tried")
        release(tmp_path / "real", noise=SecureNoise(), seed=None)
        before = contents(tmp_path)
        for again in (False, True):
            with pytest.raises(InvalidInput, match="belongs to simulated releases"):
                release(tmp_path / "tried", noise=SecureNoise(), seed=None, again=again)
            with pytest.raises(InvalidInput, match="belongs to real releases"):
                release(tmp_path / "real", again=again)
        assert contents(tmp_path) == before

    @pytest.mark.chance(0)
    def test_a_real_release_replaces_a_simulated_one_and_never_the_other_way(
        self, tmp_path: Path
    ) -> None:
        pytest.importorskip("opendp")
        tried, real, out = (tmp_path / name for name in ("tried", "real", "out"))
        publish(tried, release(tried), out)
        made = release(real, noise=SecureNoise(), seed=None)
        assert publish(real, made, out)
        assert ReleasedTable.read(out).certificate.release == made.release
        with pytest.raises(InvalidInput, match="holds something other"):
            publish(tried, release(tried), out)
        assert ReleasedTable.read(out).certificate.release == made.release

    def test_a_simulated_release_that_holds_something_else_stays(self, tmp_path: Path) -> None:
        tried, out = tmp_path / "tried", tmp_path / "out"
        publish(tried, release(tried), out)
        (out / "rows.csv").write_text("row,a,b\n0,1,2\n")
        other = release(tmp_path / "two", budget=replace(BUDGET, epsilon=1.0))
        for name in ("rows.csv", "notes.txt"):
            (out / name).write_text("mine")
            with pytest.raises(InvalidInput, match="holds something other"):
                publish(tmp_path / "two", other, out)
            assert (out / name).read_text() == "mine"
