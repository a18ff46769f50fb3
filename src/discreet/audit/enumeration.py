"""Exact privacy of code whose randomness takes finitely many values.

`EnumeratedNoise` stands in for a noise source: code that draws from it is run once for every
combination of what it can draw, and each run has a known probability. So the law of what the code
returns is known, of the code itself and not of a formula beside it.

| drawn            | outcomes                                                       |
|------------------|----------------------------------------------------------------|
| a coin           | True with its probability, False otherwise; certain ones are 1 |
| below(bound)     | 0 .. bound - 1, equally likely                                 |
| keys of m words  | all m! orders of m words (ties have probability below m^2/2^64)|

Between two laws P and Q epsilon at delta is the least one with

    sum over outcomes of max(P - e^epsilon Q, 0) <= delta,   and the same with P and Q exchanged,

which for delta = 0 is the largest log-ratio of two probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from itertools import permutations
from typing import NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.noise import NoiseSource, Probability, Shape, SimulatedNoise, Words
from discreet.validation import FloatArray, IntArray, InvalidInput

Outcome = TypeVar("Outcome", bound=Hashable)

# Runs of the code; a few seconds of work.
MOST_RUNS = 50_000
# Orders of more keys than this are too many.
_MOST_KEYS = 7
# Halving the distance between two epsilons so often leaves less than a part in 10^12.
_HALVINGS = 60
_LARGEST = 700.0


class NotFinite(InvalidInput):
    """The code drew something that takes infinitely, or too, many values."""


class EnumeratedNoise(NoiseSource):
    """Hands out the outcomes of one path, and notes how many others there were."""

    # What messages accept as the name of a source.
    name = SimulatedNoise.name
    secure = False

    def __init__(self) -> None:
        self._path: list[int] = []
        self._counts: list[int] = []
        self._place = 0
        self.probability = 1.0

    def begin(self) -> None:
        """Start the next run on the present path."""
        self._counts = self._counts[: len(self._path)]
        self._place = 0
        self.probability = 1.0

    def advance(self) -> bool:
        """Go on to the next path; whether there is one."""
        while self._path and self._path[-1] + 1 == self._counts[-1]:
            self._path.pop()
            self._counts.pop()
        if not self._path:
            return False
        self._path[-1] += 1
        return True

    def _branch(self, count: int) -> int:
        if self._place == len(self._path):
            self._path.append(0)
            self._counts.append(count)
        taken = self._path[self._place]
        self._place += 1
        return taken

    def coins(self, probability: Probability, shape: Shape) -> NDArray[np.bool_]:
        chances = np.broadcast_to(np.asarray(probability, dtype=np.float64), shape)
        shown = np.empty(chances.shape, dtype=np.bool_)
        for place in np.ndindex(chances.shape):
            chance = float(chances[place])
            certain = chance <= 0.0 or chance >= 1.0
            shown[place] = chance >= 1.0 if certain else self._branch(2) == 0
            if not certain:
                self.probability *= chance if shown[place] else 1.0 - chance
        return shown

    def below(self, bound: int, shape: Shape) -> IntArray:
        drawn = np.empty(shape, dtype=np.int64)
        for place in np.ndindex(drawn.shape):
            drawn[place] = self._branch(int(bound)) if bound > 1 else 0
            self.probability /= bound
        return drawn

    def keys(self, shape: Shape) -> Words:
        count = int(np.prod(shape))
        if count > _MOST_KEYS:
            self._refuse(f"{count} keys")
        orders = list(permutations(range(1, count + 1)))
        words = np.array(orders[self._branch(len(orders))], dtype=np.uint64)
        self.probability /= len(orders)
        return words.reshape(shape)

    def add_laplace(self, values: FloatArray, scale: float) -> FloatArray:
        self._refuse("Laplace noise")

    def add_gaussian(self, values: FloatArray, scale: float) -> FloatArray:
        self._refuse("Gaussian noise")

    def laplace_epsilon(self, sensitivity: float, scale: float, size: int) -> float:
        return sensitivity / scale

    def gaussian_multiplier(self, sensitivity: float, scale: float, size: int) -> float:
        return scale / sensitivity

    def _refuse(self, what: str) -> NoReturn:
        raise NotFinite(
            f"the code drew {what}, which takes too many values to go through; attack it by trials."
        )


def law_of(run: Callable[[NoiseSource], Hashable], most: int = MOST_RUNS) -> dict[Hashable, float]:
    """The probability of everything that `run` can return.

    Args:
        run: code that draws from the source it is given, and from nowhere else.
        most: the number of runs after which it gives up.

    Raises:
        NotFinite: if the code draws additive noise, too many keys, or takes more runs.
    """
    noise = EnumeratedNoise()
    law: dict[Hashable, float] = {}
    for _ in range(most):
        noise.begin()
        outcome = run(noise)
        law[outcome] = law.get(outcome, 0.0) + noise.probability
        if not noise.advance():
            return law
    raise NotFinite(f"the code has more than {most} outcomes; attack it by trials.")


def exact_epsilon(
    first: Mapping[Outcome, float], second: Mapping[Outcome, float], delta: float = 0.0
) -> float:
    """The least epsilon at `delta` between two laws; infinity if there is none.

    Args:
        first: probabilities of outcomes on the first data set.
        second: probabilities of outcomes on the second.
        delta: at least 0 and below 1.
    """
    outcomes = list({*first, *second})
    p = np.array([first.get(outcome, 0.0) for outcome in outcomes])
    q = np.array([second.get(outcome, 0.0) for outcome in outcomes])
    if delta == 0.0:
        return max(_largest_ratio(p, q), _largest_ratio(q, p))
    return max(_at(p, q, delta), _at(q, p, delta))


def _largest_ratio(p: FloatArray, q: FloatArray) -> float:
    possible = p > 0.0
    if (q[possible] == 0.0).any():
        return math.inf
    return float(np.log(p[possible] / q[possible]).max())


def _at(p: FloatArray, q: FloatArray, delta: float) -> float:
    def excess(epsilon: float) -> float:
        return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())

    if excess(0.0) <= delta:
        return 0.0
    if excess(_LARGEST) > delta:
        return math.inf
    low, high = 0.0, _LARGEST
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) > delta else (low, middle)
    return low
