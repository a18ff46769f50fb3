"""Files of the two parties: tables as CSV or Parquet, and the lock of a folder."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pandas as pd

from discreet.durable import PRIVATE_FILE, write_bytes
from discreet.problems.table_files import read_table
from discreet.records import check_path
from discreet.validation import InvalidInput

Format = Literal["csv", "parquet"]


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
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
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
