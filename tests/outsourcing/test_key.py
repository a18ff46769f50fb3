"""The key: what is damaged or older than what others have seen is refused, never replaced."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from discreet.outsourcing.answers import Question
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.curator import Curator
from discreet.outsourcing.key import read_key, simulated_key
from discreet.validation import InvalidInput
from tests.learners.spy import Spy
from tests.outsourcing.cases import bounds, change, contents, release, table


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return tmp_path / "key"


@pytest.fixture
def made(key: Path, tmp_path: Path) -> Certificate:
    """A release that others have seen, and an answer."""
    certificate = release(key)
    Curator(key).publish(certificate.release, tmp_path / "out")
    Curator(key).answer(certificate.release, [Question(1, 4)])
    return certificate


def refused(key: Path, certificate: Certificate, message: str, *, answers: bool = True) -> None:
    """Nothing is drawn, and nothing in the folder changes."""
    before = contents(key)
    spy = Spy(0)
    acts = [lambda: release(key, noise=spy), lambda: release(key, noise=spy, again=True)]
    if answers:
        acts = [lambda: Curator(key).answer(certificate.release, [Question(2, 5)])]  # type: ignore[list-item]
    for act in acts:
        with pytest.raises(InvalidInput, match=message):
            act()
    assert spy.given == []
    assert contents(key) == before


class TestRoundTrip:
    @pytest.mark.parametrize(
        "ids",
        [
            ["007", "7", "07"],
            ["1", "1.0", "1e0"],
            ["NA", "nan", "None"],
            ['say "hi"', "a,b", "x;y"],
            ["line\nbreak", "line", "break"],
            ["car\rriage", "ta\tb", "\\n"],
            ["Zoë", "日本", "🦆"],
            ["=1+1", "'quoted'", "#comment"],
        ],
    )
    def test_ids_come_back(self, key: Path, ids: list[str]) -> None:
        frame = table(3).assign(citizen=ids, expense=[0.1, 0.2, 0.3])
        certificate = release(key, frame)
        found = read_key(key)
        assert found is not None
        assert found.roster.ids == tuple(sorted(ids))
        outcomes = dict(zip(ids, [0.1, 0.2, 0.3], strict=True))
        questions = [Question(1 + row, row) for row in range(3)]
        order = found.find(certificate.release).order
        for answer in Curator(key).answer(certificate.release, questions):
            assert answer.answer == outcomes[found.roster.ids[order[answer.row]]]
        assert release(key, frame).release == certificate.release

    def test_outcomes_come_back_to_the_last_digit(self, key: Path) -> None:
        values = [*np.random.default_rng(0).normal(size=9) * 1e-7, 1e300, -0.0, 5e-324]
        release(key, table().assign(expense=values))
        found = read_key(key)
        assert found is not None
        assert found.roster.outcomes.tolist() == values

    def test_missing_outcomes_come_back(self, key: Path) -> None:
        release(key, table().assign(expense=[None, 3.0, *[None] * 10]))
        release(key.with_name("other"), table().assign(expense=[None] * 12))
        release(key.with_name("third"), public=bounds(outcome=None))
        counts = []
        for name in ("key", "other", "third"):
            found = read_key(key.with_name(name))
            assert found is not None
            counts.append(int(np.isnan(found.roster.outcomes).sum()))
        assert counts == [11, 12, 12]


class TestDamage:
    def test_a_lost_file_is_not_a_new_beginning(self, key: Path, made: Certificate) -> None:
        """Else the same table would be released twice, each with a certificate of its own."""
        (key / "key.sqlite").unlink()
        refused(key, made, "is gone or empty")
        refused(key, made, "is gone or empty", answers=False)

    def test_nor_is_one_that_nobody_published(self, key: Path) -> None:
        made = release(key)
        (key / "key.sqlite").unlink()
        refused(key, made, "is gone or empty", answers=False)

    @pytest.mark.parametrize("content", ["", "{", "SQLite format 3\0", "x" * 5000])
    def test_a_damaged_file(self, key: Path, made: Certificate, content: str) -> None:
        (key / "key.sqlite").write_text(content)
        refused(key, made, "is damaged|is gone or empty")
        refused(key, made, "is damaged|is gone or empty", answers=False)

    def test_pages_that_were_overwritten(self, key: Path, made: Certificate) -> None:
        file = key / "key.sqlite"
        content = bytearray(file.read_bytes())
        content[4096:] = b"\xff" * (len(content) - 4096)
        file.write_bytes(bytes(content))
        refused(key, made, "is damaged")
        refused(key, made, "is damaged", answers=False)

    @pytest.mark.parametrize(
        "statement",
        [
            "PRAGMA application_id = 5",
            "UPDATE source SET bounds = '{\"columns\": []}'",
            "UPDATE source SET bounds = '5'",
            "UPDATE source SET bounds = 'x'",
            "UPDATE releases SET seed = 'x'",
            "UPDATE releases SET people = x'00'",
            "UPDATE source SET ids = '[]'",
            "UPDATE source SET ids = 'x'",
            "UPDATE source SET outcomes = x'00'",
            "ALTER TABLE answers DROP COLUMN row",
        ],
    )
    def test_damaged_fields(self, key: Path, made: Certificate, statement: str) -> None:
        change(key, statement)
        message = "damaged|at least one|is not a key of this version|could not be read"
        refused(key, made, message)
        refused(key, made, message, answers=False)

    @pytest.mark.parametrize(
        "order", [np.arange(11), np.zeros(12, dtype=int), np.arange(1, 13), np.ones(13, dtype=int)]
    )
    def test_an_order_that_is_none(self, key: Path, made: Certificate, order: np.ndarray) -> None:
        change(key, f"UPDATE releases SET people = x'{order.astype('<i8').tobytes().hex()}'")
        refused(key, made, "does not name everybody once")

    @pytest.mark.parametrize("text", ["", "x", "{}"])
    def test_a_damaged_certificate(self, key: Path, made: Certificate, text: str) -> None:
        change(key, f"UPDATE releases SET certificate = '{text}'")
        refused(key, made, "damaged|not the certificate")

    def test_a_release_that_was_edited(self, key: Path, made: Certificate, tmp_path: Path) -> None:
        change(key, "UPDATE releases SET rows = CAST(rows || '12,0.0,0.0' AS BLOB)")
        with pytest.raises(InvalidInput, match="was changed"):
            Curator(key).publish(made.release, tmp_path / "two")
        assert not (tmp_path / "two").exists()


class TestOlderCopies:
    """`key.sqlite` from a backup, beside releases that were published since."""

    @pytest.fixture
    def restored(self, key: Path, made: Certificate, tmp_path: Path) -> Certificate:
        """A second release that others have seen, and a key that knows the first alone."""
        backup = (key / "key.sqlite").read_bytes()
        second = release(key, again=True)
        Curator(key).publish(second.release, tmp_path / "two")
        (key / "key.sqlite").write_bytes(backup)
        return second

    def test_a_third_release_would_count_one_before_it(
        self, key: Path, made: Certificate, restored: Certificate, tmp_path: Path
    ) -> None:
        message = f"{restored.release} was published .* older copy; restore the latest"
        refused(key, made, message)
        refused(key, made, message, answers=False)
        for act in (
            lambda: Curator(key).publish(made.release, tmp_path / "out"),
            lambda: Curator(key).outcome_columns(),
            lambda: read_key(key),
        ):
            with pytest.raises(InvalidInput, match=message):
                act()

    def test_the_latest_copy_is_taken(self, key: Path, made: Certificate, tmp_path: Path) -> None:
        second = release(key, again=True)
        latest = (key / "key.sqlite").read_bytes()
        Curator(key).publish(second.release, tmp_path / "two")
        # It does not know that the second was published, and gives the same one once more.
        (key / "key.sqlite").write_bytes(latest)
        assert release(key, again=True).release == second.release
        assert not Curator(key).publish(second.release, tmp_path / "two")
        assert len(release(key, again=True).earlier) == 2

    def test_what_nobody_has_seen_is_not_missed(
        self, key: Path, made: Certificate, tmp_path: Path
    ) -> None:
        backup = (key / "key.sqlite").read_bytes()
        lost = release(key, again=True)
        # Not even written where it cannot go.
        (tmp_path / "file").write_text("x")
        with pytest.raises(InvalidInput, match="is a file"):
            Curator(key).publish(lost.release, tmp_path / "file")
        (key / "key.sqlite").write_bytes(backup)
        again = release(key, again=True)
        assert again.release != lost.release
        assert again.earlier == (made.mechanism,)

    @pytest.mark.parametrize("content", [None, b""])
    def test_nor_is_it_a_new_beginning_without_the_notice(
        self, key: Path, made: Certificate, content: bytes | None
    ) -> None:
        (key / "SECRET.txt").unlink()
        (key / "key.sqlite").unlink()
        if content is not None:
            (key / "key.sqlite").write_bytes(content)
        refused(key, made, "is gone or empty")
        refused(key, made, "is gone or empty", answers=False)

    def test_a_key_without_a_table(self, key: Path, made: Certificate) -> None:
        change(key, "DELETE FROM answers", "DELETE FROM releases", "DELETE FROM source")
        refused(key, made, "is gone or empty", answers=False)
        with pytest.raises(InvalidInput, match="older copy"):
            read_key(key)

    def test_simulated_releases_stand_apart(
        self, key: Path, made: Certificate, restored: Certificate, tmp_path: Path
    ) -> None:
        """What is wrong with one of the two keys is not wrong with the other."""
        beside = simulated_key(key)
        apart = release(beside)
        assert Curator(beside).publish(apart.release, tmp_path / "apart")
        assert read_key(beside) is not None
        refused(key, made, "older copy")

    def test_other_things_of_such_a_name(self, key: Path, made: Certificate) -> None:
        (key / "notes.published").write_text("mine")
        assert release(key).release == made.release


class TestLeftovers:
    def test_a_first_release_that_was_stopped_leaves_the_folder_usable(self, key: Path) -> None:
        for content in (None, b""):
            key.mkdir(exist_ok=True)
            if content is not None:
                (key / "key.sqlite").write_bytes(content)
            assert read_key(key) is None
        made = release(key)
        found = read_key(key)
        assert found is not None
        assert [drawn.certificate.release for drawn in found.drawn] == [made.release]
        assert {path.name for path in key.iterdir()} == {"key.sqlite", "SECRET.txt"}
        assert "SECRET" in (key / "SECRET.txt").read_text()
