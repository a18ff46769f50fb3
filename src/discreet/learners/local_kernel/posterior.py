"""The Gaussian posterior of all arms' coefficients, and the questions that follow from it.

A report is one noisy linear measurement t = a' theta + e with E[e^2] = 1, so the sums
J = sum a a' and b = sum t a say all: precision D^-1 + J and mean (D^-1 + J)^-1 b, where D is the
prior covariance (prior.py) and L its root. With R R' = I + L J L the log evidence is
|R^-1 L b|^2 / 2 - log det R.

| array    | shape  | meaning                                                        |
|----------|--------|----------------------------------------------------------------|
| used     | (m,)   | the features that are used, of M                               |
| mean     | (K, m) | posterior mean of theta                                        |

What the next people are asked follows from it.

*Arm functions* are posterior draws with deviations shrunk by 0.3 or 0.7 (Thompson sampling).

*Sign functions* ask about what is uncertain and matters: delta = S v, with S the posterior
covariance and v = sum over points x of sqrt(weight(x)) z_x phi(x) on arm A(x), for independent
normal z. So delta is a draw from N(0, S W S) for W = sum of weight phi phi'. The weight of x is 0.9
times its importance, how much a draw's best arm beats the arm that is best on average there, and
0.1 times its share of people.

*Cells* hold equal weight. With more of them a report says more precisely where something was seen,
and more rarely the truth. Their number is the one with the largest expected information about
everything that is uncertain, sum_j P_j a_j' S a_j. Information about what was asked alone would
keep one cell while levels are asked about, and say nothing of where rewards vary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, solve_triangular

from discreet.learners.local_kernel.cells import MOST_CELLS, Cells
from discreet.learners.local_kernel.features import CosineFeatures, round_coefficients
from discreet.learners.local_kernel.measurement import Measurements
from discreet.learners.local_kernel.policy import KernelOffer
from discreet.learners.local_kernel.prior import Prior
from discreet.learners.sources import Information
from discreet.validation import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class KernelPosterior:
    """The posterior under one prior (see the module's table).

    Attributes:
        prior: what was believed before.
        root: (K m, K m) the upper triangular R'.
        evidence: log, up to what the prior does not change.
    """

    prior: Prior
    mean: FloatArray
    root: FloatArray
    evidence: float

    @classmethod
    def of(
        cls, features: CosineFeatures, prior: Prior, information: Information
    ) -> KernelPosterior:
        """From J (K M, K M) and b (K M,), ordered by arm and then by feature."""
        precision, weighted, count = information.precision, information.weighted, len(features)
        arms = len(weighted) // count
        at = (np.arange(arms)[:, None] * count + prior.used[None]).ravel()
        inner = prior.root_times(precision[np.ix_(at, at)], arms)
        inner = prior.root_times(np.ascontiguousarray(inner.T), arms)
        inner[np.diag_indices_from(inner)] += 1.0
        root, _ = cho_factor(inner, lower=False, overwrite_a=True, check_finite=False)
        seen = prior.root_times(weighted[at], arms)
        whitened = solve_triangular(root, seen, trans=1, check_finite=False)
        mean = prior.root_times(solve_triangular(root, whitened, check_finite=False), arms)
        evidence = 0.5 * float(whitened @ whitened) - float(np.log(np.diagonal(root)).sum())
        return cls(prior, mean.reshape(arms, -1), root, evidence)

    @property
    def arms(self) -> int:
        return len(self.mean)

    @property
    def used(self) -> IntArray:
        """(m,) the features that are used."""
        return self.prior.used

    def draws(self, normals: FloatArray) -> FloatArray:
        """Deviations from the mean (K m, F) with the posterior covariance, from normals."""
        whitened = solve_triangular(self.root, normals, check_finite=False)
        return self.prior.root_times(whitened, self.arms)

    def covariance_times(self, vectors: FloatArray) -> FloatArray:
        """S V for the posterior covariance S and V (K m, F)."""
        scaled = self.prior.root_times(vectors, self.arms)
        return self.draws(solve_triangular(self.root, scaled, trans=1, check_finite=False))

    def deviations(self, phi: FloatArray) -> FloatArray:
        """(n, K) posterior standard deviations of 2 f - 1 at contexts with features (n, m)."""
        size = len(self.used)
        columns = []
        for arm in range(self.arms):
            rows = np.zeros((self.mean.size, len(phi)))
            rows[arm * size : (arm + 1) * size] = phi.T
            scaled = self.prior.root_times(rows, self.arms)
            half = solve_triangular(self.root, scaled, trans=1, check_finite=False)
            columns.append(np.sqrt((half**2).sum(axis=0)))
        return np.stack(columns, axis=1)


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
        posterior: KernelPosterior,
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
        drawn_values = (phi @ values.reshape(-1, size).T).reshape(points, FUNCTIONS, arms)
        chosen = drawn_values.argmax(axis=2)  # (Q, F)
        best = np.take_along_axis(drawn_values, chosen[..., None], axis=2)[..., 0].mean(axis=1)
        gain = np.maximum(best - (phi @ posterior.mean.T).max(axis=1), 0.0) * mass
        importance = gain / gain.sum() if gain.sum() > 0.0 else mass
        weights = _IMPORTANCE * importance + (1.0 - _IMPORTANCE) * mass

        z = rng.standard_normal((FUNCTIONS, points)) * np.sqrt(weights)
        sums = np.stack([(z * np.equal(chosen.T, arm)) @ phi for arm in range(arms)], axis=1)
        delta = posterior.covariance_times(sums.reshape(FUNCTIONS, -1).T).T
        largest = np.maximum(np.abs(delta).max(axis=1, keepdims=True), 1e-300)
        directions = round_coefficients(delta * (_DIRECTION_SIZE / largest))
        return cls(values, directions.reshape(values.shape), weights)

    def beginning_with(self, others: Questions, count: int) -> Questions:
        """The same with the first so many functions of others."""
        return Questions(
            values=np.concatenate([others.values[:count], self.values[count:]]),
            directions=np.concatenate([others.directions[:count], self.directions[count:]]),
            weights=self.weights,
        )


def most_cells(epsilon: float) -> int:
    """Beyond 1.5 times the number with the largest mutual information, more never pay."""
    usual = 0.5 * math.exp(min(epsilon, 20.0))
    return min(MOST_CELLS, max(1, int(1.5 * max(1.0, math.floor(usual)))))


def expected_information(measured: Measurements, posterior: KernelPosterior) -> float:
    """What reports in these cells are expected to tell: sum_j P_j a_j' S a_j with the posterior
    covariance S, the mean over every fourth pair of functions."""
    partitions, count = measured.shown.shape
    arms, used = posterior.arms, posterior.used
    total, pairs = 0.0, range(0, measured.functions, 4)
    for place, function in enumerate(pairs):
        partition = place % partitions
        vectors = measured.vectors(
            np.full(count, function), np.full(count, partition), np.arange(count)
        )
        own = vectors.reshape(count, arms, -1)[:, :, used].reshape(count, -1).T
        variances = (own * posterior.covariance_times(own)).sum(axis=0)
        total += float(measured.shown[partition] @ variances)
    return total / len(pairs)


# Cells are cut anew for every so many policies, into a number that is chosen every so many, and
# at first, while most is learnt, whenever they are cut.
CELLS_EVERY, COUNT_EVERY = 4, 20
_LATER = 60


def next_cells(
    before: Sequence[KernelOffer],
    counts: Sequence[int],
    cut: Callable[[int], Cells],
    policy: Callable[..., KernelOffer],
    posterior: KernelPosterior,
) -> Cells:
    """The cells of the next policy, those of the last one most of the time.

    When it is time, cells in the number with the largest expected information.

    Args:
        before: the policies so far.
        counts: the numbers of cells that are allowed, increasing.
        cut: makes so many cells.
        policy: makes the next one, with the `cells` that it is given.
        posterior: before the next one.
    """
    version = len(before)
    if version % CELLS_EVERY:
        return before[-1].cells
    if version > COUNT_EVERY and version % COUNT_EVERY:
        return cut(before[-1].cells.count)
    if version > _LATER and before[-1].cells.count in counts:
        at = counts.index(before[-1].cells.count)
        counts = counts[max(at - 1, 0) : at + 2]  # the neighbours of the present number
    candidates = [cut(count) for count in counts]
    if len(candidates) == 1:
        return candidates[0]
    offers = [policy(cells=cells) for cells in candidates]
    worth = [expected_information(Measurements(offer), posterior) for offer in offers]
    return candidates[int(np.argmax(worth))]
