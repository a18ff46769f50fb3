"""What an adversary knows of a run whose noise is additive: the exact likelihood of what it saw.

A `Tape` stands in for the noise source. It records a run: which values were handed to it, at which
scale, and what came back. Played back, it hands out the same noisy values again while the code runs
on the *other* data set, and notes which values that one handed in. Since everything else that the
code does is a function of data and noise, two such tapes tell how likely what was seen is on either
data set:

    log p(seen | data) = sum over calls of  -|y - v|^2 / (2 s^2) - size log s      (Gaussian)
                                            -|y - v|_1 / s - size log s            (Laplace)

with v and s as handed in on that data set. A released value, or a scale, that is another function
of the data than the certificate thinks shows in that ratio. What is published beside the noisy
values (policies, other people's actions) must be the same on both tapes, because it is meant to be
a function of them; where it is not, the two data sets are told apart with certainty.

Ratios are rounded to 10^-9. What the last bits of noise that was added in floating point show
beyond that (Mironov 2012) is no property of a mechanism: SimulatedNoise does not hide it, and
SecureNoise does.

| array  | shape     | meaning                                       |
|--------|-----------|-----------------------------------------------|
| values | any       | v, before noise                               |
| noisy  | the same  | y, as handed back                             |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.noise import Probability, Shape, SimulatedNoise, Words
from discreet.validation import FloatArray, IntArray, InvalidInput

Kind = Literal["gaussian", "laplace"]

_DIGITS = 9


class NotAdditive(InvalidInput):
    """The code drew something other than additive noise."""


@dataclass(frozen=True, eq=False)
class Call:
    """One addition of noise.

    Attributes:
        kind: of the noise.
        values: before noise.
        scale: standard deviation, or Laplace scale.
        noisy: as handed back.
    """

    kind: Kind
    values: FloatArray
    scale: float
    noisy: FloatArray

    def log_density(self, rows: int) -> FloatArray:
        """(rows,) logs of the density of `noisy`, up to a constant; one for each trial."""
        away = (self.noisy - self.values).reshape(rows, -1)
        size = away.shape[1]
        lost = (
            np.square(away).sum(axis=1) / (2.0 * self.scale**2)
            if self.kind == "gaussian"
            else np.abs(away).sum(axis=1) / self.scale
        )
        density: FloatArray = -lost - size * np.log(self.scale)
        return density


class Tape(SimulatedNoise):
    """Records a run, or plays one back (see the module)."""

    def __init__(self, seed: int | np.random.SeedSequence = 0) -> None:
        super().__init__(seed)
        self.calls: list[Call] = []
        self._played: list[Call] | None = None

    def record(self, seed: int | np.random.SeedSequence) -> None:
        """Start to record, with fresh noise from `seed`."""
        self._rng = np.random.default_rng(seed)
        self.calls, self._played = [], None

    def play(self, calls: Sequence[Call]) -> None:
        """Start to hand out what was recorded."""
        self.calls, self._played = [], list(calls)

    def add_gaussian(self, values: FloatArray, scale: float) -> FloatArray:
        return self._add("gaussian", np.asarray(values, dtype=np.float64), float(scale))

    def add_laplace(self, values: FloatArray, scale: float) -> FloatArray:
        return self._add("laplace", np.asarray(values, dtype=np.float64), float(scale))

    def _add(self, kind: Kind, values: FloatArray, scale: float) -> FloatArray:
        drawn = super().add_gaussian if kind == "gaussian" else super().add_laplace
        noisy = drawn(values, scale)
        if self._played is not None and len(self.calls) < len(self._played):
            before = self._played[len(self.calls)].noisy
            # Another shape is a difference in public; `log_ratio` finds it.
            noisy = before if before.shape == values.shape else noisy
        self.calls.append(Call(kind, values.copy(), scale, noisy.copy()))
        return noisy.copy()

    def keys(self, shape: Shape) -> Words:
        self._refuse("keys")

    def below(self, bound: int, shape: Shape) -> IntArray:
        self._refuse("integers")

    def coins(self, probability: Probability, shape: Shape) -> NDArray[np.bool_]:
        self._refuse("coins")

    def _refuse(self, what: str) -> NoReturn:
        raise NotAdditive(
            f"the code drew {what}; only runs whose noise is additive can be played back. Use a "
            "classifier, or go through all outcomes."
        )


def log_ratio(seen: Sequence[Call], other: Sequence[Call], rows: int = 1) -> FloatArray:
    """(rows,) log p(seen | own data) - log p(seen | other data).

    Args:
        seen: the calls of the run that happened.
        other: the calls of the run on the other data set with the same noisy values.
        rows: how many independent trials the first axis of every call holds.

    Returns:
        Infinity where the runs differ in the number, the kind or the shape of what was released.
    """

    def outline(calls: Sequence[Call]) -> list[tuple[str, tuple[int, ...]]]:
        return [(call.kind, call.values.shape) for call in calls]

    if outline(seen) != outline(other):
        return np.full(rows, np.inf)
    ratio = np.zeros(rows)
    for mine, theirs in zip(seen, other, strict=True):
        ratio += mine.log_density(rows) - theirs.log_density(rows)
    return np.round(ratio, _DIGITS)


def separation(seen: Sequence[Call], other: Sequence[Call]) -> float:
    """How far apart the two data sets are: the mean of the log-ratio, which needs no noise.

    Half of mu^2 for Gaussian noise of one scale; an upper bound on it for Laplace noise.
    """
    total = 0.0
    for mine, theirs in zip(seen, other, strict=False):
        if mine.values.shape != theirs.values.shape or mine.scale != theirs.scale:
            return np.inf
        away = mine.values - theirs.values
        if mine.kind == "gaussian":
            total += float(np.square(away).sum()) / (2.0 * mine.scale**2)
        else:
            total += float(np.abs(away).sum()) / mine.scale
    return total
