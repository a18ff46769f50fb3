"""The key: what is damaged or older than what others have seen is refused, never replaced."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.curator import Curator
from discreet.outsourcing.key import read_key, simulated_key
from tests.outsourcing.cases import (
    Untouchable,
    answers_to,
    ask,
    bounds,
    change,
    kept,
    order_of,
    publish,
    refused,
    release,
    table,
)


@pytest.fixture
def made(key: Path, tmp_path: Path) -> Certificate:
    """A release that others have seen, and an answer."""
    certificate = release(key)
    publish(key, certificate, tmp_path / "out")
    ask(key, certificate, 4)
    return certificate


def useless(key: Path, certificate: Certificate, message: str) -> None:
    """Nothing is drawn or answered with this key, and nothing in the folder changes."""
    for again in (False, True):
        with refused(message, key):
            release(key, noise=Untouchable(7), again=again)
    with refused(message, key):
        ask(key, certificate, 5, first=2)


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
        people, outcomes = kept(key).roster.ids, dict(zip(ids, [0.1, 0.2, 0.3], strict=True))
        assert people == tuple(sorted(ids))
        expected = [outcomes[people[place]] for place in order_of(key, certificate)]
        assert answers_to(key, certificate, 0, 1, 2) == expected
        assert release(key, frame).release == certificate.release

    def test_outcomes_and_seeds_come_back_to_the_last_digit(self, key: Path) -> None:
        values = [*np.random.default_rng(0).normal(size=8) * 1e-7, 1e300, -0.0, 5e-324]
        release(key, table().assign(expense=[*values, None]), seed=2**80)
        found = kept(key).roster.outcomes
        assert (found[:-1].tolist(), bool(np.isnan(found[-1]))) == (values, True)
        assert kept(key).drawn[0].seed == 2**80
        release(key.with_name("other"), public=bounds(outcome=None))
        assert np.isnan(kept(key.with_name("other")).roster.outcomes).all()


class TestDamage:
    def test_a_lost_file_is_not_a_new_beginning(self, key: Path, made: Certificate) -> None:
        """Else the same table would be released twice, each with a certificate of its own."""
        (key / "key.sqlite").unlink()
        useless(key, made, "is gone or empty")

    def test_nor_is_one_that_nobody_published(self, key: Path) -> None:
        made = release(key)
        (key / "key.sqlite").unlink()
        useless(key, made, "is gone or empty")

    @pytest.mark.parametrize("content", ["", "{", "SQLite format 3\0", "x" * 5000])
    def test_a_damaged_file(self, key: Path, made: Certificate, content: str) -> None:
        (key / "key.sqlite").write_text(content)
        useless(key, made, "is damaged|is gone or empty")

    def test_pages_that_were_overwritten(self, key: Path, made: Certificate) -> None:
        content = bytearray((key / "key.sqlite").read_bytes())
        content[4096:] = b"\xff" * (len(content) - 4096)
        (key / "key.sqlite").write_bytes(bytes(content))
        useless(key, made, "is damaged")

    @pytest.mark.parametrize(
        "statement",
        [
            "PRAGMA application_id = 5",
            "UPDATE source SET bounds = '{\"columns\": []}'",
            "UPDATE source SET bounds = '5'",
            "UPDATE source SET bounds = 'x'",
            "UPDATE releases SET seed = 'x'",
            "UPDATE releases SET people = x'00'",
            "UPDATE releases SET certificate = ''",
            "UPDATE releases SET certificate = 'x'",
            "UPDATE releases SET certificate = '{}'",
            "UPDATE source SET ids = '[]'",
            "UPDATE source SET ids = 'x'",
            "UPDATE source SET outcomes = x'00'",
            "ALTER TABLE answers DROP COLUMN row",
        ],
    )
    def test_damaged_fields(self, key: Path, made: Certificate, statement: str) -> None:
        change(key, statement)
        useless(key, made, "damaged|at least one|is not a key of this version|could not be read")

    @pytest.mark.parametrize(
        "order", [np.arange(11), np.zeros(12, dtype=int), np.arange(1, 13), np.ones(13, dtype=int)]
    )
    def test_an_order_that_is_none(self, key: Path, made: Certificate, order: np.ndarray) -> None:
        change(key, f"UPDATE releases SET people = x'{order.astype('<i8').tobytes().hex()}'")
        useless(key, made, "does not name everybody once")

    def test_a_release_that_was_edited(self, key: Path, made: Certificate, tmp_path: Path) -> None:
        change(key, "UPDATE releases SET rows = CAST(rows || '12,0.0,0.0' AS BLOB)")
        with refused("was changed"):
            publish(key, made, tmp_path / "two")
        assert not (tmp_path / "two").exists()


class TestOlderCopies:
    """`key.sqlite` from a backup, beside releases that were published since."""

    @pytest.fixture
    def restored(self, key: Path, made: Certificate, tmp_path: Path) -> Certificate:
        """A second release that others have seen, and a key that knows the first alone."""
        backup = (key / "key.sqlite").read_bytes()
        second = release(key, again=True)
        publish(key, second, tmp_path / "two")
        (key / "key.sqlite").write_bytes(backup)
        return second

    def test_a_third_release_would_count_one_before_it(
        self, key: Path, made: Certificate, restored: Certificate, tmp_path: Path
    ) -> None:
        message = f"{restored.release} was published .* older copy; restore the latest"
        useless(key, made, message)
        for act in (
            lambda: publish(key, made, tmp_path / "out"),
            lambda: Curator(key).outcome_columns(),
            lambda: read_key(key),
        ):
            with refused(message, key):
                act()
        # What is wrong with one of the two keys is not wrong with that of simulated releases.
        beside = simulated_key(key)
        assert publish(beside, release(beside), tmp_path / "apart")

    def test_the_latest_copy_is_taken(self, key: Path, made: Certificate, tmp_path: Path) -> None:
        second = release(key, again=True)
        latest = (key / "key.sqlite").read_bytes()
        publish(key, second, tmp_path / "two")
        # It does not know that the second was published, and gives the same one once more.
        (key / "key.sqlite").write_bytes(latest)
        assert release(key, again=True).release == second.release
        assert not publish(key, second, tmp_path / "two")
        assert len(release(key, again=True).earlier) == 2

    def test_what_nobody_has_seen_is_not_missed(
        self, key: Path, made: Certificate, tmp_path: Path
    ) -> None:
        backup = (key / "key.sqlite").read_bytes()
        lost = release(key, again=True)
        # Not even written where it cannot go.
        (tmp_path / "file").write_text("x")
        with refused("is a file"):
            publish(key, lost, tmp_path / "file")
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
        useless(key, made, "is gone or empty")

    def test_a_key_without_a_table(self, key: Path, made: Certificate) -> None:
        change(key, "DELETE FROM answers", "DELETE FROM releases", "DELETE FROM source")
        useless(key, made, "is gone or empty")
        with refused("older copy", key):
            read_key(key)

    def test_other_things_of_such_a_name(self, key: Path, made: Certificate) -> None:
        (key / "notes.published").write_text("mine")
        assert release(key).release == made.release


@pytest.mark.parametrize("content", [None, b""])
def test_a_first_release_that_was_stopped_leaves_the_folder_usable(
    key: Path, content: bytes | None
) -> None:
    key.mkdir()
    if content is not None:
        (key / "key.sqlite").write_bytes(content)
    assert read_key(key) is None
    made = release(key)
    assert [drawn.certificate.release for drawn in kept(key).drawn] == [made.release]
    assert {path.name for path in key.iterdir()} == {"key.sqlite", "SECRET.txt"}
    assert "SECRET" in (key / "SECRET.txt").read_text()
