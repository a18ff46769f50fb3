"""A noise source that watches what is released, and methods that fail."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from discreet.privacy import SimulatedNoise


class Spy(SimulatedNoise):
    """Simulated noise that keeps what it was given and what it handed out, or replays it."""

    def __init__(self, seed: int = 0, replay: Sequence[np.ndarray] | None = None) -> None:
        super().__init__(seed)
        self.given: list[np.ndarray] = []
        self.handed: list[np.ndarray] = []
        self._replay = replay

    def add_gaussian(self, values: np.ndarray, scale: float) -> np.ndarray:
        noisy = super().add_gaussian(values, scale)
        if self._replay is not None:
            noisy = self._replay[len(self.handed)]
        self.given.append(values.copy())
        self.handed.append(noisy.copy())
        return noisy


class SlowSpy(Spy):
    """Threads that ask at once all find that nothing was drawn yet."""

    def add_gaussian(self, values: np.ndarray, scale: float) -> np.ndarray:
        time.sleep(0.05)
        return super().add_gaussian(values, scale)


def furthest(rows: np.ndarray) -> float:
    """The largest distance of two rows."""
    gram = rows @ rows.T
    squares = np.diag(gram)
    return float(np.sqrt((squares[:, None] + squares - 2.0 * gram).max()))


@contextmanager
def breaking(owner: object, name: str, error: Exception) -> Iterator[None]:
    """A method that fails, and the same error inside the block."""

    def fails(*arguments: object) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, fails)
        with pytest.raises(type(error)):
            yield
