"""Files that are written whole or not at all, and are on disk when the call returns."""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
from pathlib import Path

# What others may do with a file; of the second the user's umask takes its share.
PRIVATE_FILE, _OPEN_FILE = 0o600, 0o666
_DRAFT = re.compile(r"\..+\.[0-9a-f]{8}\.draft", re.DOTALL)
_BINARY = getattr(os, "O_BINARY", 0)


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
    """What something is called, beside its place, until it is whole."""
    return f".{name}.{os.urandom(4).hex()}.draft"


def is_draft(name: str) -> bool:
    """Whether `draft_name` made this name."""
    return _DRAFT.fullmatch(name) is not None


def sweep_drafts(folder: Path, name: str) -> None:
    """Take away what was left of `name` by whoever was killed before it was whole."""
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


def append_durably(path: Path, text: str) -> None:
    """Text at the end of a private file; on disk when this returns."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _BINARY, PRIVATE_FILE)
    with os.fdopen(handle, "ab") as file:
        file.write(text.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)
