"""Files and state that are written whole or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from discreet.atomic_files import (
    Busy,
    Damaged,
    StateFile,
    draft_name,
    is_draft,
    sweep_drafts,
    write_bytes,
)
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
        def fails(*arguments: object) -> None:
            raise OSError("full")

        (tmp_path / "file").write_bytes(b"old")
        monkeypatch.setattr(os, "replace", fails)
        with pytest.raises(OSError, match="full"):
            write_bytes(tmp_path / "file", b"new")
        assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"old"]

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
        finally:
            os.umask(before)
        assert seen == [0o600, 0o666]

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


KIND = ("a diary", ("CREATE TABLE days (day INTEGER PRIMARY KEY, words TEXT)",), 0x64617973)
WRITE = "INSERT INTO days (words) VALUES (?)"


ELSEWHERE = f"""
import sys
from pathlib import Path
from discreet.atomic_files import Busy, StateFile
try:
    with StateFile(Path(sys.argv[1]), *{KIND!r}).changing() as state:
        state.execute({WRITE!r}, ("elsewhere",))
except Busy:
    print("busy", end="")
"""


def elsewhere(file: StateFile) -> str:
    """Write from another process: `busy` if it was refused."""
    command = [sys.executable, "-c", ELSEWHERE, str(file.path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def words(file: StateFile) -> list[str] | None:
    with file.reading() as state:
        return state and [text for (text,) in state.execute("SELECT words FROM days")]


def write(file: StateFile, text: str) -> None:
    with file.changing() as state:
        state.execute(WRITE, (text,))


def hold(file: StateFile) -> None:
    with file.held():
        pass


class TestState:
    @pytest.fixture
    def file(self, tmp_path: Path) -> StateFile:
        return StateFile(tmp_path / "diary", *KIND)

    @pytest.mark.parametrize("name", ["diary", "50% #1 äöü?mode=memory"])
    def test_what_is_kept_comes_back(self, tmp_path: Path, name: str) -> None:
        """Also from names that mean something in addresses."""
        (tmp_path / name).mkdir()
        file = StateFile(tmp_path / name / name, *KIND)
        assert words(file) is None
        assert not file.path.exists()
        write(file, "rain")
        write(file, "sun")
        before = file.path.stat().st_mtime_ns, file.path.read_bytes()
        # Reading, and changing nothing, leave the file as it is.
        assert words(file) == ["rain", "sun"]
        with file.changing():
            pass
        assert (file.path.stat().st_mtime_ns, file.path.read_bytes()) == before
        assert list(file.path.parent.iterdir()) == [file.path]

    def test_a_block_that_fails_changes_nothing(self, file: StateFile) -> None:
        def fails() -> None:
            with file.changing() as state:
                state.execute(WRITE, ("rain",))
                raise RuntimeError

        def stops_reading() -> None:
            with file.changing() as state:
                held.append(state.execute("VALUES (1), (2)"))
                raise RuntimeError(held[0].fetchone())

        held: list[Any] = []

        def fills() -> None:
            with file.changing() as state:
                state.execute("PRAGMA max_page_count = 3")
                state.execute(WRITE, ("sun" * 10_000,))

        with pytest.raises(RuntimeError):
            fails()
        assert words(file) is None
        with pytest.raises(RuntimeError):
            stops_reading()
        assert elsewhere(file) == ""
        file.path.unlink()
        write(file, "sun")
        with pytest.raises(InvalidInput, match="UNIQUE"), file.changing() as state:
            state.execute("INSERT INTO days VALUES (2, 'mist'), (1, 'hail')")
        with pytest.raises(InvalidInput, match=r"full.*nothing was changed"):
            fills()
        assert words(file) == ["sun"]

    def test_held_by_one_process_each_statement_is_kept(self, file: StateFile) -> None:
        for text in ("rain", "sun"):
            with file.held() as state:
                state.execute(WRITE, (text,))
                assert elsewhere(file) == "busy"
                with pytest.raises(Busy, match="another process"):
                    hold(file)
        assert elsewhere(file) == ""
        assert words(file) == ["rain", "sun", "elsewhere"]

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    @pytest.mark.parametrize("held", [False, True])
    def test_a_lock_goes_with_the_process(self, file: StateFile, held: bool) -> None:
        child = os.fork()
        if child == 0:
            with file.held() if held else file.changing() as state:
                state.execute(WRITE, ("rain",))
                os._exit(0)
        os.waitpid(child, 0)
        write(file, "sun")
        assert words(file) == (["rain", "sun"] if held else ["sun"])

    @pytest.mark.parametrize("size", [1, 16, 100, 511, 512, 513, 5000])
    @pytest.mark.parametrize("begin", ["", "ten years of work", "SQLite format 3\0"])
    def test_files_that_hold_something_else(self, file: StateFile, begin: str, size: int) -> None:
        content = begin.encode().ljust(size, b"\0")[:size]
        file.path.write_bytes(content)
        for act in (lambda: words(file), lambda: write(file, "rain"), lambda: hold(file)):
            with pytest.raises(Damaged, match="damaged or is not a diary"):
                act()
        assert file.path.read_bytes() == content

    def test_states_of_another_kind(self, tmp_path: Path) -> None:
        other = StateFile(tmp_path / "other", "a ledger", KIND[1], 7)
        write(other, "rain")
        with pytest.raises(Damaged, match="not a diary of this version"):
            words(StateFile(other.path, *KIND))

    def test_only_its_owner_can_read_it(self, file: StateFile) -> None:
        before = os.umask(0)
        try:
            with file.changing() as state:
                state.execute(WRITE, ("secret" * 10_000,))
                modes = {stat.S_IMODE(path.stat().st_mode) for path in file.path.parent.iterdir()}
        finally:
            os.umask(before)
        # The journal too.
        assert modes == {0o600}

    def test_all_or_nothing(self, file: StateFile, stopped: Stopped) -> None:
        write(file, "rain")

        def more() -> None:
            with file.changing() as state:
                for text in ("sun", "snow"):
                    state.execute(WRITE, (text * 10_000,))

        for step in range(30):
            kept = file.path.read_bytes()
            reached = stopped(step, more)
            found = words(file)
            assert found in (["rain"], ["rain", "sun" * 10_000, "snow" * 10_000])
            file.path.write_bytes(kept)
            if not reached:
                break
        assert step > 6

    def test_other_threads_leave_the_lock_to_who_holds_it(self, file: StateFile) -> None:
        """POSIX locks go when the process closes the file anywhere, whoever opened it."""
        write(file, "rain")
        refused = []

        def look() -> None:
            # Whoever only reads sees what was there before.
            assert words(StateFile(file.path, *KIND)) == ["rain"]
            try:
                with StateFile(file.path, *KIND).changing():
                    pass
            except Busy as error:
                refused.append(error)

        with file.changing() as state:
            assert elsewhere(file) == "busy"
            other = threading.Thread(target=look)
            other.start()
            other.join()
            assert len(refused) == 1
            assert elsewhere(file) == "busy"
            state.execute(WRITE, ("sun",))
        assert words(file) == ["rain", "sun"]
        assert elsewhere(file) == ""
        assert words(file) == ["rain", "sun", "elsewhere"]

    def test_a_file_that_two_threads_make(
        self, file: StateFile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Who makes it closes it, and another thread may hold it by then."""
        real, holding, done = os.open, threading.Event(), threading.Event()

        def hold() -> None:
            with suppress(Busy), file.changing():
                holding.set()
                done.wait(60.0)

        other = threading.Thread(target=hold)

        def slowly(path: Any, flags: int, *mode: int) -> int:
            handle = real(path, flags, *mode)
            if flags & os.O_CREAT and not other.ident:
                other.start()
                holding.wait(0.5)
            return handle

        monkeypatch.setattr(os, "open", slowly)
        try:
            with file.changing():
                assert elsewhere(file) == "busy"
        except Busy:
            assert elsewhere(file) == "busy"
        finally:
            done.set()
            other.join()
        assert words(file) in (None, [])

    def test_a_file_that_another_process_makes_first(
        self, file: StateFile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert elsewhere(file) == ""
        with monkeypatch.context() as patch:
            patch.setattr(Path, "exists", lambda path: False)
            with file.changing() as state:
                state.execute(WRITE, ("rain",))
        assert words(file) == ["elsewhere", "rain"]
