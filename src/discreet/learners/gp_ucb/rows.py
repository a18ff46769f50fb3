"""One person's row, and how far it moves when the person is replaced.

A person with features phi (||phi|| <= 1) and centred reward y (|y| <= b) gives the row

    (phi_i phi_i, w phi_i phi_j for i < j, c y phi, g y^2)

with w = sqrt 2, so that its first part has the inner product (phi'psi)^2 ("svec"). Replacing one
person by any other moves the row by at most (k = phi'psi, both of norm 1)

    max over k, y, y' of 2 - 2 k^2 + c^2 (y^2 + y'^2 - 2 y y' k)
      = (2 + c^2 b^2)^2 / 2 if c b <= sqrt 2, else 4 c^2 b^2          (squared),

attained at y y' = b^2, k = -c^2 b^2 / 2 (or k = -1). There y^2 = y'^2, so the last entry is free
for g = c / b: with p = y^2, q = y'^2 it adds g^2 (p - q)^2, the maximum over k is convex in p and
in q, hence largest at corners, and at (b^2, 0) it is 2 + 2 c^2 b^2. Shorter vectors move the row
less, and so does any w in [0, sqrt 2]. `row_sensitivity` includes the rounding below.

Features and rewards are rounded to multiples of 2^-18 first. Their products are then whole
multiples of 2^-36, and sums of them are exact in 64-bit integers: statistics add without rounding,
in any order, and sensitivity does not rest on exact real arithmetic.

| array   | shape           | meaning                                        |
|---------|-----------------|------------------------------------------------|
| phi     | (n, m)          | features divided by their norm bound           |
| gram    | (m (m + 1)/2,)  | upper triangle of sum phi phi', by rows        |
| rewards | (m,)            | sum y phi                                      |
| squares | (1,)            | sum y^2                                        |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    finite_number,
    positive_number,
)

_BITS = 18
RESOLUTION = 2.0**_BITS
# Of the integer sums.
UNIT = 2.0 ** (-2 * _BITS)
# So many products of two numbers below 2^18 add up exactly in float64.
_EXACT = 2 ** (53 - 2 * _BITS)
# Integer sums of this many people fit into 64 bits, with room for a second copy.
MOST_PEOPLE = 2 ** (61 - 2 * _BITS)
SYMMETRIC = math.sqrt(2.0)


def row_size(features: int) -> int:
    """How many numbers a row has: gram, rewards and squares."""
    return features * (features + 1) // 2 + features + 1


@dataclass(frozen=True)
class RowWeights:
    """The weights of the parts of a row, and the range of centred rewards.

    Attributes:
        rewards: c, the weight of y phi.
        off_diagonal: w, the weight of phi_i phi_j for i < j; at most sqrt 2.
        centre: what is subtracted from rewards in [0, 1].
        with_squares: whether y^2 is released.
    """

    rewards: float = 2.0
    off_diagonal: float = SYMMETRIC
    centre: float = 0.5
    with_squares: bool = True

    def __post_init__(self) -> None:
        positive_number(self.rewards, "rewards")
        if not 0.0 < self.off_diagonal <= SYMMETRIC or not 0.0 <= self.centre <= 1.0:
            raise InvalidInput(
                f"weights were {self}; off_diagonal must be above 0 and at most {SYMMETRIC}, and "
                "centre from 0 to 1."
            )

    @property
    def squares(self) -> float:
        """g, the weight of y^2."""
        return self.rewards / self.bound if self.with_squares else 0.0

    @property
    def bound(self) -> float:
        """b, the largest |y|."""
        return max(self.centre, 1.0 - self.centre)

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> RowWeights:
        """The weights from their JSON form."""
        if not isinstance(fields["with_squares"], bool):
            raise InvalidInput(
                f"with_squares was {fields['with_squares']!r}; it must be true or false."
            )
        return cls(
            positive_number(fields["rewards"], "rewards"),
            positive_number(fields["off_diagonal"], "off_diagonal"),
            finite_number(fields["centre"], "centre"),
            fields["with_squares"],
        )


def row_sensitivity(features: int, weights: RowWeights) -> float:
    """How far (l2) a row of `features` features moves when its person is replaced."""
    # A bound that is no whole multiple of 2^-18 may be rounded upwards.
    moved = weights.rewards * math.ceil(weights.bound * RESOLUTION) / RESOLUTION
    exact = (2.0 + moved**2) / math.sqrt(2.0) if moved <= SYMMETRIC else 2.0 * moved
    # Rounding moves each feature by at most half a unit, so norms grow to at most this.
    norm = 1.0 + math.sqrt(features) / (2.0 * RESOLUTION)
    return exact * norm**2


@lru_cache(maxsize=64)
def triangle(features: int) -> tuple[IntArray, IntArray]:
    """Row and column numbers of the upper triangle of an m x m matrix, by rows."""
    rows, columns = np.triu_indices(features)
    return rows, columns


def triangle_weights(features: int, off_diagonal: float) -> FloatArray:
    """(m (m + 1)/2,) 1 on the diagonal and w elsewhere."""
    rows, columns = triangle(features)
    weights: FloatArray = np.where(rows == columns, 1.0, off_diagonal)
    return weights


def symmetric(upper: FloatArray, features: int) -> FloatArray:
    """The (m, m) matrix whose upper triangle is given."""
    full = np.zeros((features, features))
    full[triangle(features)] = upper
    mirrored: FloatArray = full + np.triu(full, 1).T
    return mirrored


def in_unit_ball(phi: FloatArray) -> FloatArray:
    """(n, m) features with norm at most 1, whatever map made them.

    Those of a certified map stay as they are. Longer ones are shortened and what is not finite
    becomes 0, so that sensitivity does not rest on the arithmetic of a map that was sent.
    """
    finite = np.where(np.isfinite(phi).all(axis=1, keepdims=True), phi, 0.0)
    with np.errstate(over="ignore"):
        norms = np.sqrt((finite**2).sum(axis=1, keepdims=True))
    shortened: FloatArray = finite / np.maximum(norms, 1.0)
    return shortened


def rounded(values: FloatArray) -> FloatArray:
    """Whole multiples of 2^-18, as whole numbers in float64."""
    whole: FloatArray = np.rint(values * RESOLUTION)
    return whole


def exact_product(left: FloatArray, right: FloatArray) -> IntArray:
    """left' right for whole numbers below 2^18 in float64, exactly."""
    total = np.zeros((left.shape[1], right.shape[1]), dtype=np.int64)
    for start in range(0, len(left), _EXACT):
        people = slice(start, start + _EXACT)
        total += (left[people].T @ right[people]).astype(np.int64)
    return total


def exact_sums(phi: FloatArray, centred: FloatArray) -> tuple[IntArray, IntArray]:
    """`gram`, and `rewards` with `squares` behind them, of n people, in units of 2^-36."""
    whole = rounded(phi)
    gram = exact_product(whole, whole)[triangle(phi.shape[1])]
    reward = rounded(centred)[:, None]
    seen = exact_product(np.hstack([whole, reward]), reward)[:, 0]
    return gram, seen


def single_rows(phi: FloatArray, centred: FloatArray, weights: RowWeights) -> FloatArray:
    """(n, size) the row of each of n people."""
    whole, reward = rounded(phi) / RESOLUTION, rounded(centred) / RESOLUTION
    rows, columns = triangle(phi.shape[1])
    gram = whole[:, rows] * whole[:, columns]
    gram *= triangle_weights(phi.shape[1], weights.off_diagonal)
    squares = weights.squares * reward[:, None] ** 2
    joined: FloatArray = np.hstack([gram, weights.rewards * reward[:, None] * whole, squares])
    return joined
