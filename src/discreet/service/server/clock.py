"""The time that expiry counts: what passed while a service ran, whatever is done to its clock.

It is the machine's clock as long as this moves as a steady clock does. After a jump it goes on from
where it was, so a clock that is set wrong erases nothing early, and nothing stays for longer.
When a server starts, only the time that its database recorded last is known: a clock that is ahead
of it by the length of a usual stop is believed, any other has to be confirmed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

# A machine that sleeps is no jump; other systems have no such clock.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
# Corrections of a clock that are believed while a server runs, and stops, in seconds.
_CORRECTION, _STOP = 300.0, 86_400.0


class SteadyClock:
    """Seconds since 1970 (UTC), without jumps.

    Args:
        wall: the machine's clock.
        steady: seconds that passed since some moment.

    Attributes:
        ahead: seconds by which the machine's clock is ahead of this one, negative where it is
            behind; 0 while it is believed.
    """

    def __init__(
        self,
        wall: Callable[[], float] = lambda: time.time(),
        steady: Callable[[], float] = lambda: time.clock_gettime(_STEADY),
    ) -> None:
        self._wall, self._steady = wall, steady
        self._lock = threading.Lock()
        self._base, self._at = wall(), steady()
        self.ahead = 0.0

    def begin(self, recorded: float | None) -> None:
        """Go on from the time that was recorded last; None believes the machine's clock."""
        with self._lock:
            wall, self._at = self._wall(), self._steady()
            if recorded is None or -_CORRECTION <= wall - recorded <= _STOP:
                recorded = wall
            self._base, self.ahead = recorded, wall - recorded

    def now(self) -> float:
        """The time; corrections of the machine's clock are followed, jumps are not."""
        with self._lock:
            wall, steady = self._wall(), self._steady()
            self._base, self._at = self._base + steady - self._at, steady
            self.ahead = wall - self._base
            if abs(self.ahead) <= _CORRECTION:
                self._base, self.ahead = wall, 0.0
            return self._base
