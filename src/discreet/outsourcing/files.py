"""Files of the two parties: written whole or not at all, tables as CSV or Parquet."""

from __future__ import annotations

import csv
import errno
import glob
import gzip
import hashlib
import io
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pandas as pd

from discreet.problems.table_files import read_table
from discreet.records import check_path
from discreet.validation import InvalidInput

Format = Literal["csv", "parquet"]
# What others may do with a file; of the second the user's umask takes its share.
_PRIVATE_FILE, _OPEN_FILE = 0o600, 0o666
_DRAFT = re.compile(r"\..+\.[0-9a-f]{8}\.draft", re.DOTALL)
_BINARY = getattr(os, "O_BINARY", 0)


def write_bytes(path: Path, content: bytes, private: bool = False) -> None:
    """The file appears whole and is on disk when this returns; who is killed while writing leaves
    what was there before.

    Args:
        path: the file, in a folder that exists.
        content: what it shall hold.
        private: whether only its owner may read it.
    """
    name = path.with_name(draft_name(path.name))
    mode = _PRIVATE_FILE if private else _OPEN_FILE
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
    """What something is called, beside its place, until it is whole."""
    return f".{name}.{os.urandom(4).hex()}.draft"


def is_draft(name: str) -> bool:
    """Whether `draft_name` made this name."""
    return _DRAFT.fullmatch(name) is not None


def sweep_drafts(folder: Path, name: str) -> None:
    """Take away what was left of `name` by whoever was killed before it was whole."""
    for one in folder.glob(f".{glob.escape(name)}.{'[0-9a-f]' * 8}.draft"):
        if one.is_dir():
            shutil.rmtree(one)
        else:
            one.unlink()


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


def append_durably(path: Path, text: str) -> None:
    """Text at the end of a private file; on disk when this returns."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _BINARY, _PRIVATE_FILE)
    with os.fdopen(handle, "ab") as file:
        file.write(text.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def format_of(path: Path) -> Format:
    """Whether a table is CSV or Parquet, by the ending of its name."""
    name = path.name.lower()
    if name.endswith((".csv", ".csv.gz")):
        return "csv"
    if name.endswith((".parquet", ".pq")):
        return "parquet"
    raise InvalidInput(f"the table {path} must end in .csv or .parquet; name it so.")


def table_bytes(frame: pd.DataFrame, form: Format) -> bytes:
    """A table as CSV (numbers in full) or Parquet."""
    if form == "csv":
        text = frame.to_csv(index=False, lineterminator="\n")
        if "\r" in text:
            # It would end a line for readers, but pandas does not put quotes around it.
            text = frame.to_csv(index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        return text.encode("utf-8")
    buffer = io.BytesIO()
    try:
        frame.to_parquet(buffer, index=False)
    except ImportError as error:
        raise InvalidInput(
            "Parquet needs pyarrow, which is not installed; run "
            'pip install "discreet[parquet]", or ask for CSV.'
        ) from error
    return buffer.getvalue()


def write_table(frame: pd.DataFrame, path: Path, private: bool = False) -> None:
    """A table, whole or not at all, in the format of the file's ending."""
    form = format_of(path)
    check_path(path)
    content = table_bytes(frame, form)
    if path.name.lower().endswith(".gz"):
        content = gzip.compress(content, mtime=0)
    write_bytes(path, content, private)


def read_numbers(path: Path, text_columns: tuple[str, ...] = ()) -> pd.DataFrame:
    """A table; numbers in CSV are read to the last digit, `text_columns` as text."""
    return read_table(path, text_columns)


def sha256_of(content: bytes) -> str:
    """The digest by which a file is known."""
    return hashlib.sha256(content).hexdigest()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time in `folder`; the lock goes with the process, however it ends.

    Raises:
        InvalidInput: when another process works there.
    """
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, _PRIVATE_FILE)
    try:
        _lock(handle, folder)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: concurrent runs there are the user's to avoid.
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise InvalidInput(
            f"another process is working in {folder}; wait until it is done and repeat the command."
        ) from error
