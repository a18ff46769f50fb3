"""Files that are written whole or not at all, and tables that come back as they were."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from discreet.durable import append_durably, draft_name, is_draft, sweep_drafts, write_bytes
from discreet.outsourcing.files import format_of, locked, read_numbers, write_table
from discreet.validation import InvalidInput
from tests.chance import RARE
from tests.outsourcing.stopping import WAYS, Stopped


@pytest.fixture(params=WAYS)
def stopped(request: pytest.FixtureRequest) -> Stopped:
    return WAYS[request.param]


class TestBytes:
    # A child process that drew the name of a draft, 32 bits, and the one that goes on.
    @pytest.mark.chance(RARE)
    def test_a_file_is_there_whole_or_as_it_was(self, tmp_path: Path, stopped: Stopped) -> None:
        path, old, new = tmp_path / "file", b"old" * 1000, b"new" * 1000
        for step in range(9):
            path.write_bytes(old)
            reached = stopped(step, lambda: write_bytes(path, new))
            # What is not whole is called otherwise.
            assert path.read_bytes() in (old, new)
            names = [one.name for one in tmp_path.iterdir() if one != path]
            assert all(is_draft(name) for name in names)
            if not reached:
                break
        assert path.read_bytes() == new
        # Draft, disk, name, and the name on disk.
        assert step >= 4

    def test_a_failure_leaves_nothing_behind(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"old")

        def fails(*arguments: object) -> None:
            raise OSError("full")

        monkeypatch.setattr(os, "replace", fails)
        with pytest.raises(OSError, match="full"):
            write_bytes(path, b"new")
        assert path.read_bytes() == b"old"
        assert [one.name for one in tmp_path.iterdir()] == ["file"]

    def test_a_private_file_is_private_from_the_beginning(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen = []
        real = os.replace

        def watching(source: Path, target: Path) -> None:
            seen.append(stat.S_IMODE(os.stat(source).st_mode))
            real(source, target)

        monkeypatch.setattr(os, "replace", watching)
        before = os.umask(0)
        try:
            write_bytes(tmp_path / "file", b"x", private=True)
            write_bytes(tmp_path / "file", b"x")
            append_durably(tmp_path / "log", "x")
        finally:
            os.umask(before)
        assert seen == [0o600, 0o666]
        assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600

    def test_appending(self, tmp_path: Path) -> None:
        for text in ("ä\n", "b\n"):
            append_durably(tmp_path / "log", text)
        assert (tmp_path / "log").read_text(encoding="utf-8") == "ä\nb\n"

    def test_drafts_of_one_name_are_swept(self, tmp_path: Path) -> None:
        mine, folder, other = (
            tmp_path / draft_name("out"),
            tmp_path / draft_name("out"),
            tmp_path / draft_name("out.b"),
        )
        mine.write_text("x")
        folder.mkdir()
        (folder / "rows.csv").write_text("x")
        other.write_text("x")
        (tmp_path / ".out.notes.draft").write_text("the user's own")
        sweep_drafts(tmp_path, "out")
        assert {one.name for one in tmp_path.iterdir()} == {other.name, ".out.notes.draft"}
        assert is_draft(other.name)
        assert not is_draft(".out.notes.draft")


class TestTables:
    frame = pd.DataFrame(
        {
            "name": ["a,b", 'say "hi"', "line\nbreak", "car\rriage", "007"],
            "number": [0.1, 1e-300, -0.0, np.nan, 1 / 3],
        }
    )

    @pytest.mark.parametrize(
        "name", ["t.csv", "t.CSV", "t.csv.gz", "t.parquet", "t.pq", "two.dots.csv"]
    )
    def test_they_come_back(self, tmp_path: Path, name: str) -> None:
        if "p" in format_of(Path(name)):
            pytest.importorskip("pyarrow")
        write_table(self.frame, tmp_path / name)
        found = read_numbers(tmp_path / name, ("name",))
        assert found["name"].tolist() == self.frame["name"].tolist()
        np.testing.assert_array_equal(found["number"], self.frame["number"])
        assert [one.name for one in tmp_path.iterdir()] == [name]

    def test_numbers_to_the_last_digit(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(0)
        values = 10.0 ** rng.uniform(-200, 200, 20_000) * rng.choice([-1.0, 1.0], 20_000)
        write_table(pd.DataFrame({"x": values}), tmp_path / "t.csv")
        np.testing.assert_array_equal(read_numbers(tmp_path / "t.csv")["x"], values)

    def test_refusals(self, tmp_path: Path) -> None:
        for name in ("t.txt", "t", "t.csv.zip"):
            with pytest.raises(InvalidInput, match="must end in"):
                write_table(self.frame, tmp_path / name)
        for path in (tmp_path / "none.csv", tmp_path):
            with pytest.raises(InvalidInput, match=r"not a file|must end in"):
                read_numbers(path)
        with pytest.raises(InvalidInput, match="does not exist"):
            write_table(self.frame, tmp_path / "no" / "t.csv")
        (tmp_path / "bad.csv").write_text("a,b\n1,2,3\n")
        with pytest.raises(InvalidInput, match="has 3 fields in line 2"):
            read_numbers(tmp_path / "bad.csv")
        assert [one.name for one in tmp_path.iterdir()] == ["bad.csv"]


class TestLocks:
    def test_a_lock_is_held_and_given_back(self, tmp_path: Path) -> None:
        with (
            locked(tmp_path),
            pytest.raises(InvalidInput, match="another process"),
            locked(tmp_path),
        ):
            pass
        with locked(tmp_path):
            pass

    def test_it_goes_with_the_process(self, tmp_path: Path) -> None:
        if not hasattr(os, "fork"):
            pytest.skip("needs fork")
        child = os.fork()
        if child == 0:
            with locked(tmp_path):
                os._exit(0)
        os.waitpid(child, 0)
        with locked(tmp_path):
            pass
