"""What one person adds to an epoch's statistic: a row in the unit ball.

A person at w = (c, x) with centred reward y, |y| <= B, adds

    row(w, y) = a(w) R_w clip(y - h(w), -c(w), c(w)) / D,     a(w) = min(1, D / (c(w) ||R_w||)),

where R_w = turn' phi(w), h = clip(mean'phi(w), -B, B) is what is believed already (a control
variate), c(w) = min(B + |h|, reward noise + 1.5 sd(w)) how far a reward may lie from it, and
sd(w) = ||root'phi(w)||. All of these are public before the epoch begins.

**Sensitivity.** ||row|| <= 1 for every w of any domain and every y, because whatever is longer is
shortened; so replacing one person moves the sum by at most 2. `in_unit_ball` makes that true of
the numbers that were computed, whatever a policy says, and rows are rounded to multiples of 2^-30,
which adds sqrt(d) 2^-30 to the distance: sums are whole numbers, so they add exactly.

Because the actions of an epoch follow a public law rho(w) = kappa(c) pi(x | c), its statistic has a
known mean: with F = sum rho a R phi', k = sum rho a h R and Q = sum rho a^2 q R R',

    E[D sum_t row_t] + n k = n F theta   (up to clipping),   Cov <= n Q.

**Which rows.** R whitens the features in the coordinates of the posterior, up to a threshold under
which directions are left out: that maximises log det of the information at a given mean square of
rows (water-filling). The threshold is the one that leaves the least variance where it matters.

| array | shape  | meaning                                                        | symbol |
|-------|--------|----------------------------------------------------------------|--------|
| phi   | (n, m) | features                                                       | phi    |
| turn  | (m, d) | directions that are measured                                   | L M    |
| rows  | (n, d) | what people add                                                |        |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.arrays import decode_array, encode_array
from discreet.learners.epochs.belief import Belief, Information
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    freeze_arrays,
    positive_number,
)

# Rewards in [0, 1] are centred at 1/2, which bounds what is left by 1/2.
CENTRE = 0.5
BOUND = 0.5
_BITS = 30
RESOLUTION = 2.0**_BITS
# Whole-number sums of so many people fit into 64 bits, with room for a second copy.
MOST_PEOPLE = 2 ** (61 - _BITS)
# How many posterior deviations a reward may lie from what is believed, besides its own noise.
_CLIP = 1.5
# D as a multiple of the root mean square of c ||R||; longer rows are shortened.
_SHORTENED = 0.7
# Directions with less than these shares of the largest variance are left out.
_THRESHOLDS = (0.001, 0.01, 0.03, 0.1, 0.3)


def row_sensitivity(size: int) -> float:
    """How far (l2) a sum of rows of `size` numbers moves when one person is replaced."""
    return 2.0 + math.sqrt(size) / RESOLUTION


@dataclass(frozen=True, eq=False)
class RowMap:
    """From features and rewards to rows (see the module's table).

    Attributes:
        mean: (m,) what is believed of theta.
        root: (m, m) a square root of its covariance.
        turn: (m, d) see the module's table.
        bound: D.
        reward_noise: bound of |y - f| on the scale of rewards in [0, 1].
    """

    mean: FloatArray
    root: FloatArray
    turn: FloatArray
    bound: float
    reward_noise: float

    def __post_init__(self) -> None:
        freeze_arrays(self)
        features = len(self.mean)
        if (
            self.root.ndim != 2
            or self.turn.ndim != 2
            or len(self.root) != features
            or len(self.turn) != features
            or self.turn.shape[1] == 0
        ):
            raise InvalidInput(
                f"a row map had arrays of shapes {self.mean.shape}, {self.root.shape} and "
                f"{self.turn.shape}; send it as made."
            )
        positive_number(self.bound, "bound")
        positive_number(self.reward_noise, "reward_noise")

    @property
    def size(self) -> int:
        """d, the numbers in a row."""
        return int(self.turn.shape[1])

    def around(self, phi: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """h, c and sd at features (n, m): (n,) each."""
        centre = np.clip(phi @ self.mean, -BOUND, BOUND)
        spread = np.sqrt(((phi @ self.root) ** 2).sum(axis=1))
        allowed = np.minimum(BOUND + np.abs(centre), self.reward_noise + _CLIP * spread)
        return centre, allowed, spread

    def rows(self, phi: FloatArray, centred: FloatArray) -> FloatArray:
        """(n, d) rows of people with features phi and centred rewards (n,)."""
        centre, allowed, _ = self.around(phi)
        turned = phi @ self.turn
        left = np.clip(centred - centre, -allowed, allowed)
        return in_unit_ball(
            turned * (self._shortened(turned, allowed) * left / self.bound)[:, None]
        )

    def _shortened(self, turned: FloatArray, allowed: FloatArray) -> FloatArray:
        length = allowed * np.sqrt((turned**2).sum(axis=1))
        factor: FloatArray = np.minimum(1.0, self.bound / np.maximum(length, 1e-300))
        return factor

    def expected(self, phi: FloatArray, chances: FloatArray) -> Expected:
        """What one person adds on average, if features phi come with probabilities (n,)."""
        some = chances > 0.0
        phi, chances = phi[some], chances[some]
        centre, allowed, spread = self.around(phi)
        turned = phi @ self.turn
        factor = self._shortened(turned, allowed)
        weighted = turned * (chances * factor)[:, None]
        variance = self.reward_noise**2 / 3.0 + spread**2
        return Expected(
            weighted.T @ phi,
            weighted.T @ centre,
            (weighted * (factor * variance)[:, None]).T @ turned,
            self.bound,
        )

    def to_fields(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "mean": self.mean.tolist(),
            "root": encode_array(self.root),
            "turn": encode_array(self.turn),
            "bound": self.bound,
            "reward_noise": self.reward_noise,
        }

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> RowMap:
        """The inverse of `to_fields`."""
        return cls(
            decode_array(fields["mean"], "mean", 1),
            decode_array(fields["root"], "root", 2),
            decode_array(fields["turn"], "turn", 2),
            fields["bound"],
            fields["reward_noise"],
        )


@dataclass(frozen=True, eq=False)
class Expected:
    """The mean and the covariance of what one person adds, times D (see the module).

    Attributes:
        slope: (d, m) F.
        offset: (d,) k.
        spread: (d, d) Q.
        bound: D.
    """

    slope: FloatArray
    offset: FloatArray
    spread: FloatArray
    bound: float

    def information(self, total: FloatArray, people: int, noise: float) -> Information:
        """What a noisy sum of rows tells.

        Args:
            total: (d,) the sum of rows with noise.
            people: how many people it is of.
            noise: variance of the noise on each number of `total`.
        """
        weighing = self._weighing(people, noise)
        seen = self.bound * total + people * self.offset
        return Information(people**2 * weighing @ self.slope, people * weighing @ seen)

    def precision(self, people: int, noise: float) -> FloatArray:
        """(m, m) `information` without the statistic."""
        precision: FloatArray = people**2 * self._weighing(people, noise) @ self.slope
        return precision

    def _weighing(self, people: int, noise: float) -> FloatArray:
        """(m, d) F' C^-1."""
        # The second part keeps C invertible where there is neither noise nor doubt.
        floor = self.bound**2 * (noise + 1e-12 * people)
        covariance = people * self.spread + floor * np.eye(len(self.spread))
        return np.asarray(np.linalg.solve(covariance, self.slope).T, dtype=np.float64)


# The variance of the noise on each number, from the numbers in a row.
NoiseVariance = Callable[[int], float]


def best_rows(
    belief: Belief,
    phi: FloatArray,
    chances: FloatArray,
    matters: FloatArray,
    people: int,
    reward_noise: float,
    noise: NoiseVariance,
) -> tuple[RowMap, float]:
    """The row map that leaves the least variance where it matters, and that variance.

    Args:
        belief: what is known before the epoch.
        phi: (w, m) features of all contexts with all arms.
        chances: (w,) their probabilities rho in the epoch.
        matters: (m, m) V: the variance that is left is trace(V Sigma), in the coordinates in which
            the posterior before the epoch is standard normal.
        people: how many people the epoch has.
        reward_noise: see `RowMap`.
        noise: variance of the noise on a sum of rows, or of `people` noisy rows.
    """
    some = chances > 0.0
    where = phi[some] @ belief.root
    values, axes = np.linalg.eigh((where * chances[some, None]).T @ where)
    values, axes = values[::-1], axes[:, ::-1]
    found: tuple[RowMap, float] | None = None
    for threshold in _THRESHOLDS:
        kept = values > threshold * values[0]
        shares = np.sqrt(values[kept] - threshold * values[0]) / values[kept]
        turn = np.asarray(belief.root @ (axes[:, kept] * shares), dtype=np.float64)
        made = sized_rows(belief, turn, phi[some], chances[some], reward_noise)
        told = made.expected(phi[some], chances[some])
        precision = told.precision(people, noise(made.size))
        inside = belief.root.T @ precision @ belief.root
        left = float(np.trace(np.linalg.solve(np.eye(len(inside)) + inside, matters)))
        if found is None or left < found[1]:
            found = made, left
    assert found is not None
    return found


def sized_rows(
    belief: Belief,
    turn: FloatArray,
    phi: FloatArray,
    chances: FloatArray,
    reward_noise: float,
    shortened: float = _SHORTENED,
) -> RowMap:
    """Rows along `turn`, with D from what is expected of them (public)."""
    loose = RowMap(belief.mean, belief.root, turn, 1.0, reward_noise)
    _, allowed, _ = loose.around(phi)
    lengths = allowed * np.sqrt(((phi @ turn) ** 2).sum(axis=1))
    bound = min(shortened * math.sqrt(float(chances @ lengths**2)), float(lengths.max()))
    return RowMap(belief.mean, belief.root, turn, bound, reward_noise)


def in_unit_ball(rows: FloatArray) -> FloatArray:
    """(n, d) rows with norm at most 1; what is not finite becomes 0."""
    finite: FloatArray = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
    with np.errstate(over="ignore"):
        norms = np.sqrt((finite**2).sum(axis=1, keepdims=True))
    shortened: FloatArray = finite / np.maximum(norms, 1.0)
    return shortened


def whole(rows: FloatArray) -> IntArray:
    """Rows as whole multiples of 2^-30."""
    rounded: IntArray = np.rint(rows * RESOLUTION).astype(np.int64)
    return rounded
