"""Files and state that are written whole or not at all, and are on disk when the call returns."""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from discreet.validation import InvalidInput

# What others may do with a file; of the second the user's umask takes its share.
PRIVATE_FILE, _OPEN_FILE = 0o600, 0o666
_DRAFT = re.compile(r"\..+\.[0-9a-f]{8}\.draft", re.DOTALL)
_BINARY = getattr(os, "O_BINARY", 0)
_MAKING = threading.Lock()


def write_bytes(path: Path, content: bytes, private: bool = False) -> None:
    """The file appears whole and is on disk when this returns; a process killed while writing
    leaves what was there before.

    Args:
        path: the file, in a folder that exists.
        content: what it shall hold.
        private: whether only its owner may read it.
    """
    name = path.with_name(draft_name(path.name))
    mode = PRIVATE_FILE if private else _OPEN_FILE
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        name.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def draft_name(name: str) -> str:
    """The hidden name of a file while it is being written."""
    return f".{name}.{os.urandom(4).hex()}.draft"


def is_draft(name: str) -> bool:
    """Whether `draft_name` made this name."""
    return _DRAFT.fullmatch(name) is not None


def sweep_drafts(folder: Path, name: str) -> None:
    """Remove drafts of `name` that a killed process left behind."""
    for draft in folder.glob(f".{glob.escape(name)}.{'[0-9a-f]' * 8}.draft"):
        if draft.is_dir():
            shutil.rmtree(draft)
        else:
            draft.unlink()


def sync_folder(folder: Path) -> None:
    """Names in `folder` are on disk when this returns, where the system can promise that."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems know no such thing.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


class Busy(InvalidInput):
    """Another process is changing the same state."""


class Damaged(InvalidInput):
    """A file that holds something else, or parts of what it should."""


@dataclass(frozen=True)
class StateFile:
    """State in one SQLite file: each change is there whole and on disk, or not at all.

    Nothing but SQLite may open the file. POSIX locks belong to a process, and go when the process
    closes any handle of the file, whichever thread does: another process could come in between.

    Attributes:
        path: the file; only its owner may read it.
        what: what it holds, as messages call it: `a key`.
        schema: the statements that make its tables.
        application: the number by which SQLite files of this kind are known, not 0.
        wait: seconds that a change waits for another process.
    """

    path: Path
    what: str
    schema: tuple[str, ...]
    application: int
    wait: float = 0.0

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """The state at one moment; None where nothing was ever kept. Nothing is written.

        Raises:
            InvalidInput: for a file that holds something else, or that is damaged.
        """
        if not self.path.exists() or self.path.stat().st_size == 0:
            yield None
            return
        with self._opened("BEGIN", wait=5.0) as (state, begun):
            yield state if begun else None

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """The state for this process alone, made if need be.

        What is done within the block is on disk when it ends. If the block fails, or the process is
        stopped at any point before that, all is as it was.

        Raises:
            Busy: when another process works on it.
            InvalidInput: as from `reading`.
        """
        # Of two that begin, one is refused here and not when it has drawn something.
        with self._to_change("BEGIN IMMEDIATE") as state:
            yield state
            state.execute("COMMIT")

    @contextmanager
    def held(self) -> Iterator[sqlite3.Connection]:
        """The same, but each statement by itself is on disk when it returns."""
        with self._to_change("PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE") as state:
            state.commit()
            yield state

    @contextmanager
    def _to_change(self, *begin: str) -> Iterator[sqlite3.Connection]:
        # One thread makes the file, and none goes on before it is closed.
        with _MAKING:
            if not self.path.exists():
                self._make()
        with self._opened(*begin, wait=self.wait) as (state, begun):
            if not begun:
                for statement in (f"PRAGMA application_id = {self.application}", *self.schema):
                    state.execute(statement)
            yield state

    def _make(self) -> None:
        """An empty file; SQLite would let others read it, as the umask says."""
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        except FileExistsError:  # another process was faster
            return
        except OSError as error:
            raise InvalidInput(
                f"{self.what} cannot be kept in {str(self.path)!r:.200} ({error.strerror}); name a "
                "file in a folder that is there and that you may write to."
            ) from error
        os.close(handle)
        sync_folder(self.path.parent)

    @contextmanager
    def _opened(self, *begin: str, wait: float = 0.0) -> Iterator[tuple[sqlite3.Connection, bool]]:
        """The file after the statements that begin a transaction, and whether its tables are there.

        Whatever was not committed when the block ends is taken back.
        """
        size = self.path.stat().st_size
        name = f"{self.path.resolve().as_uri()}?mode=rw"
        try:
            with closing(
                sqlite3.connect(name, timeout=wait, isolation_level=None, uri=True)
            ) as state:
                # As FULL, and the folder too: a journal that came back after a power cut would
                # take back what was seen.
                state.execute("PRAGMA synchronous = EXTRA")
                for statement in ("PRAGMA foreign_keys = ON", *begin):
                    state.execute(statement)
                try:
                    yield state, self._is_begun(state, size)
                finally:
                    # At once, even if a cursor is still open, for which closing would wait.
                    state.rollback()
        except sqlite3.Error as error:
            if "locked" in str(error):
                raise Busy(
                    f"another process is working in {self.path.parent}; wait until it is done and "
                    "repeat the command."
                ) from error
            if type(error) is sqlite3.DatabaseError:
                raise Damaged(
                    f"{self.path} is damaged or is not {self.what} ({error}); restore it, or name "
                    "another."
                ) from error
            raise InvalidInput(
                f"{self.path} could not be read or written ({error}); nothing was changed."
            ) from error

    def _is_begun(self, state: sqlite3.Connection, size: int) -> bool:
        """Whether its tables exist; not if the first change was never committed.

        `size` is that of the file before SQLite opened it.
        """
        (tables,) = state.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (application,) = state.execute("PRAGMA application_id").fetchone()
        # SQLite takes a few bytes of anything for an empty file. It may have put one there itself,
        # and taken back by now what it found.
        if not tables and size and self.path.stat().st_size:
            raise sqlite3.DatabaseError("file is not a database")
        if tables and application != self.application:
            raise Damaged(
                f"{self.path} is not {self.what} of this version; restore it, or name another."
            )
        return bool(tables)
