"""The exact privacy loss of two runs with the same public past (ledger.py).

| mechanism        | loss between the values x and x'                                              |
|------------------|-------------------------------------------------------------------------------|
| Gaussian noise   | mu = |x - x'|_2 / scale; mu^2 adds (Dong, Roth and Su 2022, Corollary 2)      |
| Laplace noise    | |x - x'|_1 / scale; these and all below add as they are                       |
| subset selection | log of the largest ratio of its classes, if (bin, sign) differ                |
| PrivUnit         | log of the largest ratio of the two mixtures of caps                          |
| exponential      | log of the largest ratio of the probabilities of an option                    |

Together (epsilon, delta) is, for Gaussian noise alone,

    delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)

(Balle and Wang 2018, Theorem 8), solved here without the library's accounting. With other losses
besides, the larger of the two is a lower bound, and is used.

**Laws.** What mechanisms that are not additive really do is known from the coins that their code
tosses, not from the epsilon that they were made with. The code runs on many copies of one person,
with every outcome of its coins and whole numbers enumerated and all else drawn from a seed. What it
does with them tells the class of a report:

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
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betainc, log_ndtr

from discreet.privacy.frequency import SignedSubsetSelection
from discreet.privacy.noise import Probability, Shape, SimulatedNoise
from discreet.privacy.vectors import PrivUnit
from discreet.validation import FloatArray, IntArray, InvalidInput

# Noise of two numbers is the same if it differs by the rounding of either at most.
_SAME = 1e-13
_NUMBERS = 64
# Points on the sphere for each outcome of the coins.
_POINTS = 400
# The largest distance of empirical masses from uniform, times sqrt(points): exceeded with a
# probability of 2 exp(-2 x^2) < 1e-13 (Massart 1990); the seed is fixed besides.
_UNIFORM = 4.0


@dataclass(frozen=True)
class Loss:
    """What tells two runs apart.

    Attributes:
        squared: mu^2 of all Gaussian noise.
        pure: the sum of all other losses.
        reason: what tells them apart with certainty; empty if nothing does.
    """

    squared: float = 0.0
    pure: float = 0.0
    reason: str = ""

    def epsilon(self, delta: float) -> float:
        """The least epsilon at `delta` of the two data sets."""
        if self.reason:
            return math.inf
        if self.squared == 0.0:
            return self.pure
        if delta == 0.0:
            return math.inf
        return max(self.pure, gaussian_epsilon(math.sqrt(self.squared), delta))

    @property
    def order(self) -> tuple[bool, float]:
        """What larger losses are larger in."""
        return bool(self.reason), self.pure + math.sqrt(self.squared)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Epsilon at `delta` of N(0, 1) against N(mu, 1) (see the module)."""

    def excess(epsilon: float) -> float:
        first = log_ndtr(0.5 * mu - epsilon / mu)
        second = epsilon + log_ndtr(-0.5 * mu - epsilon / mu)
        return float(math.exp(first) * -math.expm1(min(second - first, 0.0))) - delta

    if excess(0.0) <= 0.0:
        return 0.0
    highest = 1.0
    while excess(highest) > 0.0:
        highest *= 2.0
        if highest > 1e6:
            return math.inf
    return float(brentq(excess, 0.0, highest, xtol=1e-12, rtol=1e-14))


@dataclass(frozen=True, eq=False)
class Draw(ABC):
    """One mechanism, applied once.

    Attributes:
        kind: what it is called.
        mechanism: the scale of additive noise; else the mechanism itself.
        value: (n, ...) what was private: values before noise, (bin, sign), vectors, or scores.
        outcome: what came back.
        public: what the mechanism was told besides, as the ranges of scores.
        secure: whether noise came from SecureNoise, whose grid makes equal numbers by chance.
    """

    kind: ClassVar[str]
    mechanism: Any
    value: FloatArray
    outcome: Any
    public: FloatArray | None = None
    secure: bool = False

    def __str__(self) -> str:
        return str(self.mechanism)

    @abstractmethod
    def loss(self, other: Self) -> Loss:
        """What the same mechanism loses between this value and the other one."""

    def log_density(self, rows: int) -> FloatArray:
        """(rows,) the log-likelihood of the outcome, of trials along the first axis."""
        raise InvalidInput(f"the audit knows no likelihood of {self}; attack it by a statistic.")

    def moved(self, other: Self) -> IntArray:
        """The rows in which two values differ."""
        apart = (self.value != other.value).reshape(len(self.value), -1)
        return np.flatnonzero(apart.any(axis=1))


class AddedNoise(Draw):
    """Noise on every number; `norm` is that in which its sensitivity is measured."""

    norm: ClassVar[int]

    def __str__(self) -> str:
        return f"{self.kind} noise of scale {self.mechanism!r}"

    def distance(self, other: Draw) -> float:
        """How far apart two values are."""
        return float(np.linalg.norm((self.value - other.value).ravel(), self.norm))

    def _away(self, rows: int) -> FloatArray:
        """(rows, numbers) the noise that came out."""
        away: FloatArray = (np.asarray(self.outcome) - self.value).reshape(rows, -1)
        return away


class GaussianDraw(AddedNoise):
    """mu = |x - x'|_2 / scale."""

    kind, norm = "gaussian", 2

    def loss(self, other: Self) -> Loss:
        return Loss(squared=self.distance(other) ** 2 / self.mechanism**2)

    def log_density(self, rows: int) -> FloatArray:
        away, scale = self._away(rows), self.mechanism
        lost = np.square(away).sum(axis=1) / (2.0 * scale**2)
        density: FloatArray = -lost - away.shape[1] * np.log(scale)
        return density


class LaplaceDraw(AddedNoise):
    """|x - x'|_1 / scale."""

    kind, norm = "laplace", 1

    def loss(self, other: Self) -> Loss:
        return Loss(pure=self.distance(other) / self.mechanism)

    def log_density(self, rows: int) -> FloatArray:
        away, scale = self._away(rows), self.mechanism
        lost = np.abs(away).sum(axis=1) / scale
        density: FloatArray = -lost - away.shape[1] * np.log(scale)
        return density


class SubsetDraw(Draw):
    """Signed subset selection of (bin, sign)."""

    kind = "subset"

    def loss(self, other: Self) -> Loss:
        return Loss(pure=len(self.moved(other)) * subset_ratio(self.mechanism))


class VectorDraw(Draw):
    """PrivUnit of vectors."""

    kind = "vector"

    def loss(self, other: Self) -> Loss:
        rows = self.moved(other)
        pairs = ((self.value[row], other.value[row]) for row in rows)
        return Loss(pure=sum(_of_vectors(self.mechanism, *pair) for pair in pairs))


class SelectionDraw(Draw):
    """The exponential mechanism on scores."""

    kind = "selection"

    def loss(self, other: Self) -> Loss:
        with np.errstate(invalid="ignore"):
            away = np.abs(self._logs() - other._logs())
        return Loss(pure=float(np.where(np.isnan(away), 0.0, away).max(axis=1).sum()))

    def log_density(self, rows: int) -> FloatArray:
        logs = self._logs()
        chosen: FloatArray = logs[np.arange(len(logs)), self.outcome].reshape(rows, -1).sum(axis=1)
        return chosen

    def _logs(self) -> FloatArray:
        logs: FloatArray = self.mechanism.log_probabilities(self.value, self.public)
        return logs


def loss_between(mine: Sequence[Draw], theirs: Sequence[Draw]) -> Loss:
    """The loss of everything that two runs drew, the one with the other's outcomes."""
    squared = pure = 0.0
    if len(mine) != len(theirs):
        return Loss(reason=f"there are {len(mine)} draws on one, {len(theirs)} on the other")
    for number, (draw, other) in enumerate(zip(mine, theirs, strict=True)):
        if (draw.kind, draw.mechanism) != (other.kind, other.mechanism):
            return Loss(reason=f"draw {number + 1} is {draw} on one, {other} on the other")
        if not _same_public(draw, other):
            return Loss(reason=f"the ranges of draw {number + 1} differ")
        if not np.array_equal(draw.value, other.value):
            loss = draw.loss(other)
            squared, pure = squared + loss.squared, pure + loss.pure
    return Loss(squared, pure)


def _same_public(draw: Draw, other: Draw) -> bool:
    if draw.public is None or other.public is None:
        return draw.public is other.public
    return np.array_equal(draw.public, other.public)


def _of_vectors(mechanism: PrivUnit, vector: FloatArray, other: FloatArray) -> float:
    """The largest log ratio, either way round, of PrivUnit reports of two vectors.

    A report of u has the density w f(c) + (1 - w) f(-c) at a cosine c with u, where w = (1 + |u|)/2
    and f is `inside` in the cap and `outside` elsewhere (`cap_ratios`). For two vectors that are
    not parallel there are points in either cap of the one that lie in no cap of the other, if caps
    are smaller than half the sphere; else in its less likely half.
    """
    inside, outside, halves = cap_ratios(mechanism)
    if min(inside, outside) <= 0.0:
        return math.inf

    def densities(of: FloatArray) -> tuple[float, float]:
        weight = 0.5 * (1.0 + min(1.0, float(np.linalg.norm(of))))
        return (
            weight * inside + (1.0 - weight) * outside,
            weight * outside + (1.0 - weight) * inside,
        )

    (high, low), (other_high, other_low) = densities(vector), densities(other)
    norms = float(np.linalg.norm(vector)) * float(np.linalg.norm(other))
    cosine = float(vector @ other) / norms if norms > 0.0 else 0.0
    if cosine > 1.0 - 1e-14:  # the same direction: caps are the same
        return max(abs(math.log(high / other_high)), abs(math.log(low / other_low)))
    if halves:
        return max(math.log(high / other_low), math.log(other_high / low))
    return max(math.log(high / outside), math.log(other_high / outside))


def shared_noise(draws: Sequence[Draw]) -> str:
    """How noise that should be independent is not; empty if nothing shows.

    Losses add because each number has noise of its own. Noise that is 0, or that two numbers share,
    is found in the recorded run itself: the difference of two such numbers has no noise. (Of
    SecureNoise no two calls share anything, and samplers.py tests that it draws.)
    """
    noises, tolerances = [], []
    for draw in draws:
        if draw.secure or not isinstance(draw, AddedNoise):
            continue
        value, outcome = draw.value.ravel()[:_NUMBERS], np.ravel(draw.outcome)[:_NUMBERS]
        noises.append(np.abs(outcome - value) / draw.mechanism)
        tolerances.append(_SAME + 4e-16 * (np.abs(value) + np.abs(outcome)) / draw.mechanism)
    if not noises:
        return ""
    noise, tolerance = np.concatenate(noises), np.concatenate(tolerances)
    if (noise <= tolerance).any():
        return "a number was released without noise"
    order = np.argsort(noise)
    if (np.diff(noise[order]) <= np.maximum(tolerance[order][1:], tolerance[order][:-1])).any():
        return "two released numbers have the same noise"
    return ""


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
    densities = [float(chances[members].sum()) / count for members, count in classes]
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
