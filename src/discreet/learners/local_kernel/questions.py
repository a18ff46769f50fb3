"""What the next people are asked: arm functions, sign functions and cells.

*Arm functions* are posterior draws with deviations shrunk by 0.3 or 0.7 (Thompson sampling).

*Sign functions* ask about what is uncertain and matters: delta = S v, with S the posterior
covariance and v = sum over points x of sqrt(weight(x)) z_x phi(x) on arm A(x), for independent
normal z. So delta is a draw from N(0, S W S) for W = sum of weight phi phi'. The weight of x is 0.9
times its importance, how much a draw's best arm beats the arm that is best on average there, and
0.1 times its share of people.

*Cells* hold equal weight. With more of them a report says more precisely where something was seen,
and more rarely the truth. Their number is the one with the largest expected information
sum_j (a_j' delta)^2 P_j about directions delta other than the one that was asked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.learners.local_kernel.cells import MOST_CELLS, Cells
from discreet.learners.local_kernel.features import round_coefficients
from discreet.learners.local_kernel.measurement import RowMeasurements
from discreet.learners.local_kernel.posterior import Posterior
from discreet.validation import FloatArray, IntArray

FUNCTIONS, PARTITIONS = 32, 8
SHRINKING = (0.3, 0.7)
_IMPORTANCE = 0.9
# Largest absolute coefficient of a sign function, whose size says nothing.
_DIRECTION_SIZE = 4.0
CELL_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192)


@dataclass(frozen=True, eq=False)
class Questions:
    """Functions at the integration points, and what they are made of.

    Attributes:
        values: (F, K, m) coefficients of arm functions.
        directions: (F, K, m) coefficients of sign functions.
        weights: (Q,) how much each point matters; they add up to 1.
    """

    values: FloatArray
    directions: FloatArray
    weights: FloatArray

    @classmethod
    def draw(
        cls,
        posterior: Posterior,
        phi: FloatArray,
        mass: FloatArray,
        rng: np.random.Generator,
        shrinking: tuple[float, ...] = SHRINKING,
    ) -> Questions:
        """New functions, for points with features (Q, m) and shares of people (Q,)."""
        arms, size = posterior.mean.shape
        points = len(phi)
        factors = np.resize(np.array(shrinking), FUNCTIONS)
        normals = rng.standard_normal((arms * size, FUNCTIONS)) * factors
        drawn = posterior.mean.ravel()[:, None] + posterior.draws(normals)
        values = round_coefficients(drawn.T.reshape(FUNCTIONS, arms, size))
        found = (phi @ values.reshape(-1, size).T).reshape(points, FUNCTIONS, arms)
        chosen = found.argmax(axis=2)  # (Q, F)
        best = np.take_along_axis(found, chosen[..., None], axis=2)[..., 0].mean(axis=1)
        gain = np.maximum(best - (phi @ posterior.mean.T).max(axis=1), 0.0) * mass
        importance = gain / gain.sum() if gain.sum() > 0.0 else mass
        weights = _IMPORTANCE * importance + (1.0 - _IMPORTANCE) * mass

        z = rng.standard_normal((FUNCTIONS, points)) * np.sqrt(weights)
        sums = np.stack([(z * np.equal(chosen.T, arm)) @ phi for arm in range(arms)], axis=1)
        delta = posterior.covariance_times(sums.reshape(FUNCTIONS, -1).T).T
        largest = np.maximum(np.abs(delta).max(axis=1, keepdims=True), 1e-300)
        directions = round_coefficients(delta * (_DIRECTION_SIZE / largest))
        return cls(values, directions.reshape(values.shape), weights)

    def cells(
        self,
        points: FloatArray,
        count: int,
        length_scales: FloatArray,
        levels: tuple[int | None, ...],
        rng: np.random.Generator,
    ) -> Cells:
        """Partitions into `count` cells of equal weight."""
        return Cells.split(points, self.weights, count, PARTITIONS, length_scales, levels, rng)


def most_cells(epsilon: float) -> int:
    """Beyond 1.5 times the number with the largest mutual information, more never pay."""
    usual = 0.5 * math.exp(min(epsilon, 20.0))
    return min(MOST_CELLS, max(1, int(1.5 * max(1.0, math.floor(usual)))))


def information(vectors: FloatArray, shown: FloatArray, directions: FloatArray) -> float:
    """Mean over directions (D, K M) of sum_j P_j (a_j' delta)^2, for the cells of one partition."""
    total: float = float((shown[:, None] * (vectors @ directions.T) ** 2).sum())
    return total / len(directions)


def other_directions(
    function: int, directions: FloatArray, used: IntArray, size: int
) -> FloatArray:
    """The (F - 1, K M) sign functions other than this one, over all M features."""
    rest = np.delete(directions, function, axis=0)
    found = np.zeros((len(rest), rest.shape[1], size))
    found[:, :, used] = rest
    return found.reshape(len(rest), -1)


def expected_information(
    measured: RowMeasurements, questions: Questions, used: IntArray, size: int
) -> float:
    """What reports in these cells are expected to tell, over every fourth pair of functions."""
    partitions, count = measured.shown.shape
    total = 0.0
    for place, function in enumerate(range(0, len(questions.values), 4)):
        partition = place % partitions
        vectors = measured.vectors(
            np.full(count, function), np.full(count, partition), np.arange(count)
        )
        directions = other_directions(function, questions.directions, used, size)
        total += information(vectors, measured.shown[partition], directions)
    return total
