"""Games of mechanisms, which play all their trials at once.

| class      | score                                                                        |
|------------|------------------------------------------------------------------------------|
| `Additive` | the likelihood ratio, for code that only adds noise (replay.py)              |
| `Stated`   | a statistic of what comes out, which a function computes                     |

Neighbours are data sets by number: a `Side` is run with True for the first, False for the second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from discreet.audit.games import Bound, Claim, Game, Playable, Seed
from discreet.audit.replay import Call, Tape, log_ratio, separation
from discreet.privacy import NoiseSource, SimulatedNoise
from discreet.validation import FloatArray

# Runs so many independent trials on the first or the second data set, with this noise.
Side = Callable[[bool, int, NoiseSource], Any]


@dataclass(frozen=True)
class Additive(Game):
    """A mechanism that adds Gaussian or Laplace noise (see the module).

    Attributes:
        held: what is promised.
        sides: pairs of neighbours by name; the furthest apart is attacked.
        trials_last: whether trials are the last axis of what is handed to the noise.
        bound: `gaussian` for Gaussian noise.
        threshold: 0 for Gaussian noise, by symmetry; None to choose it.
        chosen: the name of the neighbours; empty until prepared.
        tape: what records and plays back.
    """

    held: Claim
    sides: tuple[tuple[str, Side], ...]
    trials_last: bool = False
    bound: Bound = "gaussian"
    threshold: float | None = 0.0
    chosen: str = ""
    tape: type[Tape] = Tape

    @property
    def claim(self) -> Claim:
        return self.held

    @property
    def attack(self) -> str:
        return f"likelihood ratio; {self.chosen}"

    def prepared(self, seed: Seed) -> Playable:
        """Choose the neighbours that are furthest apart."""
        games = [replace(self, chosen=name) for name, _ in self.sides]
        return max(games, key=lambda game: separation(*game._played(True, 1, seed)))

    def scores(self, first: bool, trials: int, seed: Seed) -> FloatArray:
        mine, theirs = (self._rows(calls) for calls in self._played(first, trials, seed))
        ratio = log_ratio(mine, theirs, trials)
        return ratio if first else -ratio

    def _played(self, first: bool, trials: int, seed: Seed) -> tuple[list[Call], list[Call]]:
        run, tape = dict(self.sides)[self.chosen], self.tape()
        tape.record(seed)
        run(first, trials, tape)
        mine = tape.calls
        tape.play(mine)
        run(not first, trials, tape)
        return mine, tape.calls

    def _rows(self, calls: list[Call]) -> list[Call]:
        if not self.trials_last:
            return calls
        return [
            replace(
                call,
                values=np.moveaxis(call.values, -1, 0),
                noisy=np.moveaxis(call.noisy, -1, 0),
            )
            for call in calls
        ]


@dataclass(frozen=True)
class Stated(Game):
    """A mechanism with a statistic for its score.

    Attributes:
        held: what is promised.
        statistic: (trials,) scores of a run.
        words: neighbours and statistic.
        source: makes the noise of a portion of trials.
        bound: `gaussian` only where the statistic is normal with one variance on either side.
        threshold: None to choose it.
    """

    held: Claim
    statistic: Callable[[bool, int, NoiseSource], FloatArray]
    words: str
    source: Callable[[Seed], NoiseSource] = SimulatedNoise
    bound: Bound = "counts"
    threshold: float | None = None

    @property
    def claim(self) -> Claim:
        return self.held

    @property
    def attack(self) -> str:
        return self.words

    def scores(self, first: bool, trials: int, seed: Seed) -> FloatArray:
        return self.statistic(first, trials, self.source(seed))
