"""The Gaussian posterior of all arms' coefficients, and the evidence for length scales.

A report is one noisy linear measurement t = a' theta + e with E[e^2] = 1, so the sums
J = sum a a' and b = sum t a say all: precision D^-1 + J and mean (D^-1 + J)^-1 b, where D holds the
prior variances. With R R' = I + D^1/2 J D^1/2 the log evidence is |R^-1 D^1/2 b|^2 / 2 - log det R.

Features whose prior variance is below 1e-4 of the whole are left out.

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
and more rarely the truth. Their number is the one with the largest expected information
sum_j (a_j' delta)^2 P_j about directions delta other than the one that was asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy.linalg import cho_factor, solve_triangular

from discreet.codec import Range
from discreet.learners.local_kernel.cells import MOST_CELLS, Cells
from discreet.learners.local_kernel.features import CosineFeatures, round_coefficients
from discreet.learners.local_kernel.measurement import Measurements
from discreet.learners.local_kernel.policy import KernelOffer
from discreet.learners.sources import Information
from discreet.validation import FloatArray, IntArray

LENGTH_SCALES = (0.2, 0.4, 0.8, 3.2)
SCALES = (1.0, 2.0)
FIRST_LENGTH_SCALE = 0.8
_LEFT_OUT = 1e-4
# Hyperparameters less likely than the best by a factor e^6 are left out.
_LOG_RATIO = 6.0
# Log prior: - 1/4 log2(scale)^2, and a nat for each axis that is said not to matter. Noise alone
# makes the flattest functions likeliest, and under those nobody asks what could tell otherwise.
_SCALE_PENALTY, _FLAT_PENALTY = 0.25, 1.0
_FLAT = LENGTH_SCALES[-1]


@dataclass(frozen=True)
class Smooth:
    """Hyperparameters: a length scale for each axis, and the scale of the prior variance."""

    length_scales: tuple[Annotated[float, Range(above=0.0)], ...]
    scale: Annotated[float, Range(above=0.0)] = 1.0

    @classmethod
    def first(cls, dimension: int) -> Smooth:
        return cls((FIRST_LENGTH_SCALE,) * dimension)

    def near(self) -> list[Smooth]:
        """Those that differ in one of the numbers, and those with one length scale for all axes:
        where rewards depend on two axes together, no single one seems to matter."""
        others = [Smooth(self.length_scales, scale) for scale in SCALES if scale != self.scale]
        for axis, now in enumerate(self.length_scales):
            for value in LENGTH_SCALES:
                if value != now:
                    changed = (*self.length_scales[:axis], value, *self.length_scales[axis + 1 :])
                    others.append(Smooth(changed, self.scale))
        alike = [Smooth((value,) * len(self.length_scales), self.scale) for value in LENGTH_SCALES]
        return others + [smooth for smooth in alike if smooth != self]

    @property
    def log_prior(self) -> float:
        flat = sum(value >= _FLAT for value in self.length_scales)
        return float(-_SCALE_PENALTY * np.log2(self.scale) ** 2 - _FLAT_PENALTY * flat)


def used_features(features: CosineFeatures, smooth: Smooth) -> tuple[IntArray, FloatArray]:
    """The features (m,) that matter, and their prior variances (m,)."""
    variance = features.variances(smooth.length_scales, smooth.scale)
    used = np.flatnonzero(variance >= _LEFT_OUT * variance.sum())
    return used, variance[used]


@dataclass(frozen=True, eq=False)
class KernelPosterior:
    """The posterior under one set of hyperparameters (see the module's table).

    Attributes:
        root: (K m, K m) the upper triangular R'.
        deviation: (K m,) prior standard deviations.
        evidence: log, up to what hyperparameters do not change.
    """

    used: IntArray
    mean: FloatArray
    root: FloatArray
    deviation: FloatArray
    evidence: float

    @classmethod
    def of(
        cls, features: CosineFeatures, smooth: Smooth, information: Information
    ) -> KernelPosterior:
        """From J (K M, K M) and b (K M,), ordered by arm and then by feature."""
        precision, weighted, count = information.precision, information.weighted, len(features)
        arms = len(weighted) // count
        used, variance = used_features(features, smooth)
        at = (np.arange(arms)[:, None] * count + used[None]).ravel()
        deviation = np.tile(np.sqrt(variance), arms)
        inner = precision[np.ix_(at, at)] * deviation[:, None] * deviation[None]
        inner[np.diag_indices_from(inner)] += 1.0
        root, _ = cho_factor(inner, lower=False, overwrite_a=True, check_finite=False)
        seen = deviation * weighted[at]
        whitened = solve_triangular(root, seen, trans=1, check_finite=False)
        mean = deviation * solve_triangular(root, whitened, check_finite=False)
        evidence = 0.5 * float(whitened @ whitened) - float(np.log(np.diagonal(root)).sum())
        return cls(used, mean.reshape(arms, -1), root, deviation, evidence)

    @property
    def arms(self) -> int:
        return len(self.mean)

    def draws(self, normals: FloatArray) -> FloatArray:
        """Deviations from the mean (K m, F) with the posterior covariance, from normals."""
        whitened = solve_triangular(self.root, normals, check_finite=False)
        scaled: FloatArray = self.deviation[:, None] * whitened
        return scaled

    def covariance_times(self, vectors: FloatArray) -> FloatArray:
        """S V for the posterior covariance S and V (K m, F)."""
        half = solve_triangular(
            self.root, self.deviation[:, None] * vectors, trans=1, check_finite=False
        )
        return self.draws(half)

    def deviations(self, phi: FloatArray) -> FloatArray:
        """(n, K) posterior standard deviations of 2 f - 1 at contexts with features (n, m)."""
        size = len(self.used)
        columns = []
        for arm in range(self.arms):
            rows = np.zeros((len(self.deviation), len(phi)))
            rows[arm * size : (arm + 1) * size] = phi.T
            half = solve_triangular(
                self.root, self.deviation[:, None] * rows, trans=1, check_finite=False
            )
            columns.append(np.sqrt((half**2).sum(axis=0)))
        return np.stack(columns, axis=1)


@dataclass(frozen=True)
class Likely:
    """Hyperparameters that the reports make likely.

    Attributes:
        candidates: the most likely first.
        weights: their probabilities.
    """

    candidates: tuple[Smooth, ...]
    weights: tuple[Annotated[float, Range(above=0.0)], ...]

    @classmethod
    def first(cls, dimension: int) -> Likely:
        return cls((Smooth.first(dimension),), (1.0,))

    @property
    def best(self) -> Smooth:
        return self.candidates[0]

    def draw(self, rng: np.random.Generator) -> Smooth:
        """One of them, by its probability."""
        return self.candidates[int(rng.choice(len(self.candidates), p=self.weights))]


def likely(features: CosineFeatures, start: Smooth, information: Information) -> Likely:
    """Climbs from `start`, one number at a time; keeps all it saw that are not much less likely
    than the best."""
    known: dict[Smooth, float] = {}

    def worth(smooth: Smooth) -> float:
        if smooth not in known:
            posterior = KernelPosterior.of(features, smooth, information)
            known[smooth] = posterior.evidence + smooth.log_prior
        return known[smooth]

    best = start
    while True:
        top = max(best.near(), key=worth)
        if worth(top) <= worth(best):
            break
        best = top
    ranked = sorted(known, key=worth, reverse=True)
    kept = [smooth for smooth in ranked if worth(smooth) > worth(best) - _LOG_RATIO]
    chances = np.exp([worth(smooth) - worth(best) for smooth in kept])
    return Likely(tuple(kept), tuple((chances / chances.sum()).tolist()))


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


def expected_information(measured: Measurements, questions: Questions, used: IntArray) -> float:
    """What reports in these cells are expected to tell: sum_j P_j (a_j' delta)^2, the mean over all
    sign functions delta but the one that was asked, over every fourth pair of functions."""
    partitions, count = measured.shown.shape
    functions, arms, _ = questions.directions.shape
    total = 0.0
    for place, function in enumerate(range(0, functions, 4)):
        partition = place % partitions
        vectors = measured.vectors(
            np.full(count, function), np.full(count, partition), np.arange(count)
        )
        others = np.zeros((functions - 1, arms, vectors.shape[1] // arms))
        others[:, :, used] = np.delete(questions.directions, function, axis=0)
        seen = vectors @ others.reshape(functions - 1, -1).T
        squares = float((measured.shown[partition][:, None] * seen**2).sum())
        total += squares / (functions - 1)
    return total


# Cells are cut anew for every so many policies, into a number that is chosen every so many.
CELLS_EVERY, COUNT_EVERY = 4, 20


def next_cells(
    before: Sequence[KernelOffer],
    counts: Sequence[int],
    cut: Callable[[int], Cells],
    policy: Callable[..., KernelOffer],
    questions: Questions,
) -> Cells:
    """The cells of the next policy, those of the last one most of the time.

    When it is time, cells in the number with the largest expected information.

    Args:
        before: the policies so far.
        counts: the numbers of cells that are allowed, increasing.
        cut: makes so many cells.
        policy: makes the next one, with the `cells` that it is given.
        questions: those of the next one.
    """
    version = len(before)
    if version % CELLS_EVERY:
        return before[-1].cells
    if version % COUNT_EVERY:
        return cut(before[-1].cells.count)
    if version > COUNT_EVERY and before[-1].cells.count in counts:
        at = counts.index(before[-1].cells.count)
        counts = counts[max(at - 1, 0) : at + 2]  # the neighbours of the present number
    candidates = [cut(count) for count in counts]
    if len(candidates) == 1:
        return candidates[0]
    offers = [policy(cells=cells) for cells in candidates]
    worth = [expected_information(Measurements(o), questions, o.used) for o in offers]
    return candidates[int(np.argmax(worth))]
