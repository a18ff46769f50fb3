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
        body, device, table: bytes of a request's body; of one with a device's key; of a released
            table.
        body_seconds: in which a body arrives as a whole.
        send_seconds: in which the other side takes each part of an answer.
        requests: of one key.
        failures: of one address without a key that opens anything.
    """

    body: int = 2**20
    device: int = 2**18
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

    def take(self, name: str, rate: Rate | None = None) -> float:
        """Take a token; 0, or the seconds until there is one.

        Args:
            name: of the bucket.
            rate: of this bucket; None for that of all.
        """
        rate = rate or self._rate
        left, now = self._now(name, rate)
        if left < 1.0:
            return (1.0 - left) / rate.a_second
        self._left[name] = (left - 1.0, now)
        self._left.move_to_end(name)
        if len(self._left) > _MOST_NAMES:
            self._left.popitem(last=False)
        return 0.0

    def wait(self, name: str) -> float:
        """The seconds until there is a token; none is taken."""
        return max(1.0 - self._now(name, self._rate)[0], 0.0) / self._rate.a_second

    def _now(self, name: str, rate: Rate) -> tuple[float, float]:
        now = self._clock()
        left, since = self._left.get(name, (rate.burst, now))
        return min(left + (now - since) * rate.a_second, rate.burst), now
