"""Work that is stopped at any of its steps: killed, as by a power cut, or failing, as on a full
disk.

A step is a change of the file system: a file or folder that appears, a rename, a file cut short or
taken away, or contents that reach the disk. A killed process cleans nothing up.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

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

    with pytest.MonkeyPatch.context() as patch:
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
    return False


Stopped = Callable[[int, Callable[[], object]], bool]
WAYS: dict[str, Stopped] = {"killed": killed, "failed": failed}
