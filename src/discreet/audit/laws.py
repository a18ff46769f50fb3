"""What mechanisms that are not additive really do, from the coins that their code tosses.

The code runs on many copies of one person, with every outcome of its coins and whole numbers
enumerated and all else drawn from a seed. What it does with them tells the class of a report:

| mechanism        | classes of reports                          | within a class                  |
|------------------|---------------------------------------------|---------------------------------|
| subset selection | the truth is in; its bin with another sign; | all sets of a class are equally |
|                  | neither                                     | likely, by exchange of bins     |
| PrivUnit         | in the cap of the vector; outside           | uniform, by rotation            |

For subset selection with few bins `enumeration.py` goes through every single outcome besides; that
points of PrivUnit are uniform is compared with the masses of caps.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from discreet.privacy.frequency import SignedSubsetSelection
from discreet.privacy.noise import Probability, Shape, SimulatedNoise
from discreet.privacy.vectors import PrivUnit
from discreet.validation import FloatArray, IntArray, InvalidInput

# Points on the sphere for each outcome of the coins.
_POINTS = 400
# The largest distance of empirical masses from uniform, times sqrt(points): exceeded with a
# probability of 2 exp(-2 x^2) < 1e-13 (Massart 1990); the seed is fixed besides.
_UNIFORM = 4.0


class _Lots(SimulatedNoise):
    """Gives every row its own outcome of the first coins and of the first whole numbers."""

    def __init__(self, coins: int, below: int) -> None:
        super().__init__(11)
        self._coins, self._bound = coins, below
        self._tossed: list[tuple[NDArray[np.bool_], FloatArray]] = []
        self._divided = 0

    def probabilities(self, rows: int) -> FloatArray:
        """(rows,) of the outcomes that were handed out."""
        found = np.full(rows, 1.0 / max(1, self._divided))
        for shown, chance in self._tossed:
            found *= np.where(shown, chance, 1.0 - chance)
        return found

    def coins(self, probability: Probability, shape: Shape) -> NDArray[np.bool_]:
        if len(self._tossed) == self._coins:
            return super().coins(probability, shape)
        rows = np.arange(int(np.prod(shape)))
        shown: NDArray[np.bool_] = (rows >> len(self._tossed)) % 2 == 1
        chance = np.broadcast_to(
            np.clip(np.asarray(probability, dtype=np.float64), 0.0, 1.0), shape
        )
        self._tossed.append((shown, chance))
        return shown

    def below(self, bound: int, shape: Shape) -> IntArray:
        if self._divided or not self._bound:
            return super().below(bound, shape)
        self._divided = int(bound)
        if self._divided != self._bound:
            raise InvalidInput(
                f"the first whole number was below {bound}, not {self._bound}; the law of this "
                "mechanism is not known to the audit."
            )
        return (np.arange(int(np.prod(shape))) >> self._coins) % self._divided


@lru_cache(maxsize=4096)
def subset_ratio(mechanism: SignedSubsetSelection) -> float:
    """The log of the largest ratio of two reports' probabilities (see the module)."""
    bins, size = mechanism.bins, mechanism.size
    if math.isinf(mechanism.epsilon):
        return math.inf
    bound = 2 * bins - size
    lots = _Lots(1, bound)
    rows = 2 * bound
    own, sign = np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=np.int8)
    chosen, signs = mechanism.privatise(own, sign, lots)
    chances = lots.probabilities(rows)
    mine = chosen == 0
    truth, wrong = ((mine & (signs == which)).any(axis=1) for which in (1, -1))
    with_bin = math.comb(bins - 1, size - 1) * 2 ** (size - 1)
    classes = [(truth, with_bin), (wrong, with_bin)]
    if size < bins:
        classes.append((~truth & ~wrong, math.comb(bins - 1, size) * 2**size))
    densities = [float(chances[one].sum()) / count for one, count in classes]
    return math.log(max(densities) / min(densities)) if min(densities) > 0.0 else math.inf


@lru_cache(maxsize=4096)
def cap_ratios(mechanism: PrivUnit) -> tuple[float, float, bool]:
    """Densities, relative to uniform, in the cap of a vector of length 1 and outside; and whether
    the cap is half of the sphere."""
    rows = 4 * _POINTS
    lots = _Lots(2, 0)
    vector = np.zeros(mechanism.dimension)
    vector[0] = 1.0
    reports = mechanism.privatise(np.tile(vector, (rows, 1)), lots)
    cosines = reports[:, 0] / np.linalg.norm(reports, axis=1)
    chances = lots.probabilities(rows) / _POINTS
    threshold = mechanism.threshold
    inside = cosines >= threshold - 1e-12
    mass = _mass_above(mechanism.dimension, np.array([threshold]))[0]
    share = float(chances[inside].sum())
    if mechanism.dimension > 1:
        # Of the rows with one outcome of the coins.
        for pattern in range(4):
            _check_uniform(mechanism.dimension, cosines[pattern::4], mass)
    return share / mass, (1.0 - share) / (1.0 - mass), mass >= 0.5 - 1e-12


def _mass_above(dimension: int, cosines: FloatArray) -> FloatArray:
    """(n,) the share of the sphere with larger cosines."""
    if dimension == 1:
        return np.where(cosines > -1.0, 0.5, 1.0)
    half = 0.5 * betainc(0.5 * (dimension - 1), 0.5, 1.0 - np.minimum(np.square(cosines), 1.0))
    found: FloatArray = np.where(cosines >= 0.0, half, 1.0 - half)
    return found


def _check_uniform(dimension: int, cosines: FloatArray, mass: float) -> None:
    """`InvalidInput` unless points fill a cap, its complement, or their mirror images evenly."""
    above = np.sort(_mass_above(dimension, cosines))
    ends = [(0.0, mass), (mass, 1.0), (1.0 - mass, 1.0), (0.0, 1.0 - mass)]
    steps = (np.arange(len(above)) + 0.5) / len(above)
    away = min(float(np.abs((above - low) / (high - low) - steps).max()) for low, high in ends)
    if away * math.sqrt(len(above)) > _UNIFORM:
        raise InvalidInput(
            f"points of a cap in {dimension} dimensions are not uniform (distance {away:.3g} at "
            f"{len(above)} points)."
        )
