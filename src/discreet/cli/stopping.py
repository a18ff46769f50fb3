"""How a command ends when it is stopped from outside: Ctrl-C, or SIGTERM from another program."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import NoReturn


class Terminated(SystemExit):
    """SIGTERM: whoever does not catch it ends with the exit code that a shell expects."""


@dataclass(frozen=True)
class Stop:
    """How a command was stopped: in a word, and its exit code."""

    word: str
    code: int


STOPPED = (KeyboardInterrupt, Terminated)

_INTERRUPTED = Stop("Interrupted", 128 + signal.SIGINT)
_TERMINATED = Stop("Terminated", 128 + signal.SIGTERM)


def stop_of(error: BaseException) -> Stop:
    """How this exception, one of `STOPPED`, stopped the command."""
    return _TERMINATED if isinstance(error, Terminated) else _INTERRUPTED


def catch_termination() -> None:
    """Let SIGTERM raise `Terminated` in this process, as Ctrl-C raises `KeyboardInterrupt`."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: object) -> NoReturn:
    raise Terminated(_TERMINATED.code)
