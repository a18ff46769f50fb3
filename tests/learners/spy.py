"""A noise source that watches what is released."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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
