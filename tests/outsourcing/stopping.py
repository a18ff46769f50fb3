"""Work that is stopped at any of its steps: killed, as by a power cut, or failing, as on a full
disk.

A step is a change of the file system (a file or folder that appears, a rename, a file cut short or
taken away, contents that reach the disk) or a statement that a database is given. A killed process
cleans nothing up, and SQLite has written to the disk what its smallest memory cannot hold.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from discreet.validation import InvalidInput

CHANGES = ("open", "fsync", "replace", "mkdir", "truncate", "unlink", "rmdir")
_KILLED, _WRONG = 9, 3


class DiskFull(OSError):
    """What a failing step raises."""


def _counts(name: str, arguments: tuple[Any, ...]) -> bool:
    return name != "open" or bool(arguments[1] & os.O_CREAT)


@contextmanager
def _stopping(step: int, stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` instead of the step with that number, from 0."""
    steps = itertools.count()

    def watched(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*arguments: Any, **keywords: Any) -> Any:
            if _counts(name, arguments) and next(steps) == step:
                stop()
            return real(*arguments, **keywords)

        return instead

    class Watched(sqlite3.Connection):
        def __init__(self, *arguments: Any, **keywords: Any) -> None:
            super().__init__(*arguments, **keywords)
            super().execute("PRAGMA cache_size = 1")

        execute = watched("execute", sqlite3.Connection.execute)
        executemany = watched("executemany", sqlite3.Connection.executemany)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Watched))
        for name in CHANGES:
            patch.setattr(os, name, watched(name, getattr(os, name)))
        yield


def killed(step: int, act: Callable[[], object]) -> bool:
    """Whether `act`, in a process of its own, reached that step and was killed there."""
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    child = os.fork()
    if child == 0:
        code = _WRONG
        try:
            with _stopping(step, lambda: os._exit(_KILLED)):
                act()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, _KILLED), "the act failed by itself"
    return code == _KILLED


def failed(step: int, act: Callable[[], object]) -> bool:
    """Whether `act` reached that step, where the disk was full."""

    def stop() -> None:
        raise DiskFull(28, "No space left on device")

    try:
        with _stopping(step, stop):
            act()
    except DiskFull:
        return True
    except InvalidInput as error:  # its message says that the disk is full
        if isinstance(error.__cause__, DiskFull):
            return True
        raise
    return False


Stopped = Callable[[int, Callable[[], object]], bool]
WAYS: dict[str, Stopped] = {"killed": killed, "failed": failed}
