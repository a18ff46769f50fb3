"""How much a server takes: bytes, seconds, requests a second."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_MOST_NAMES = 10_000


@dataclass(frozen=True)
class Rate:
    """So many a second in the long run, and at most `burst` at once."""

    a_second: float
    burst: float


@dataclass(frozen=True)
class Limits:
    """What one server takes.

    Attributes:
        body, table: bytes of a request's body; of a released table.
        body_seconds: in which a body arrives as a whole.
        send_seconds: in which the other side takes each part of an answer.
        requests: of one key.
        failures: of one address without a key that opens anything.
    """

    body: int = 2**20
    table: int = 2**26
    body_seconds: float = 10.0
    send_seconds: float = 30.0
    requests: Rate = Rate(1000.0, 2000.0)
    failures: Rate = Rate(1.0, 30.0)


class Buckets:
    """A bucket of tokens for each name, which fills at a rate.

    The names that were not seen for the longest time are forgotten first: their buckets have had
    the most time to fill.
    """

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> float:
        """Take a token; 0, or the seconds until there is one."""
        left, now = self._now(name)
        if left < 1.0:
            return (1.0 - left) / self._rate.a_second
        self._left[name] = (left - 1.0, now)
        self._left.move_to_end(name)
        if len(self._left) > _MOST_NAMES:
            self._left.popitem(last=False)
        return 0.0

    def wait(self, name: str) -> float:
        """The seconds until there is a token; none is taken."""
        return max(1.0 - self._now(name)[0], 0.0) / self._rate.a_second

    def _now(self, name: str) -> tuple[float, float]:
        now = self._clock()
        left, since = self._left.get(name, (self._rate.burst, now))
        return min(left + (now - since) * self._rate.a_second, self._rate.burst), now
