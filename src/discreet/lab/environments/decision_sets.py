"""Synthetic problems in which every person brings their own finite set of points.

| array    | shape     | meaning                                                           |
|----------|-----------|-------------------------------------------------------------------|
| points   | (..., d)  | points in the units of the problem's domain                       |
| contexts | (n, c, d) | c candidates for each of n people                                 |
| means    | (n, c)    | the mean reward of every candidate; rewards are Bernoulli         |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit

from discreet.lab.environments.base import People, Problem
from discreet.lab.environments.catalog import named
from discreet.people.domain import Ball, Box, DecisionSets, RewardBounds
from discreet.toml_files import One, Positive, Two
from discreet.validation import FloatArray, InvalidInput, positive_number, whole_number

Link = Literal["linear", "logistic"]

# Dubey (2021), section 6.1.
_RADIUS = 2.0
_BUMPS = 4
_HIGH, _LOW = 0.8, 0.6
# f must be high, and low, on this share of the ball: otherwise candidates would be hard to find.
_LEAST_AREA = 0.005
_LATTICE = 4096
_POOL = 65_536


@dataclass(frozen=True, eq=False)
class Bumps:
    """f(x) = sum_i w_i exp(-|x - x_i|^2 / 2): Gaussian bumps of length scale 1.

    Attributes:
        centres: (k, 2) the centres x_i.
        weights: (k,) the weights w_i >= 0 with sum at most 1, so that f lies in [0, 1].
    """

    centres: FloatArray
    weights: FloatArray

    def __call__(self, points: FloatArray) -> FloatArray:
        """Points (n, 2) -> values (n,)."""
        values = np.zeros(len(points))
        for centre, weight in zip(self.centres, self.weights, strict=True):
            values += weight * np.exp(-0.5 * ((points - centre) ** 2).sum(axis=1))
        return values

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Bumps:
        """Four bumps in the ball of radius 2 such that decision sets can be drawn.

        Centres are uniform in the ball, weights uniform in the non-negative part of the unit l1
        ball. A draw is rejected unless f reaches 0.8, and stays at 0.6 or less, on at least 0.5%
        of the ball each (measured on a fixed lattice of 4096 points).
        """
        while True:
            share = rng.exponential(size=_BUMPS + 1)
            bumps = cls(_in_ball(_BUMPS, rng), share[:-1] / share.sum())
            # f is at most the sum of the weights: most draws fall without a look at the lattice.
            if bumps.weights.sum() < _HIGH:
                continue
            values = bumps(_BALL)
            if min((values >= _HIGH).mean(), (values <= _LOW).mean()) >= _LEAST_AREA:
                return bumps


class BumpProblem(Problem):
    """Find the one good candidate among many, f drawn afresh for every sample.

    The experiment of Dubey (2021), section 6.1: one candidate has f >= 0.8 and all others have
    f <= 0.6, so every mistake costs at least 0.2. Candidates are drawn uniformly from the ball of
    radius 2 and sorted by f; none is used twice, so the law is that of drawing each person's set
    point by point until it fits. Rewards are Bernoulli with mean f.

    Args:
        candidates: the number of points that each person brings, at least 2; 25 in the paper.
    """

    source = "Synthetic: sums of four Gaussian bumps of Dubey (2021), section 6.1."

    def __init__(self, candidates: Two = 25) -> None:
        self.candidates = whole_number(candidates, "candidates", minimum=2)
        self._space = DecisionSets(self.candidates)
        self.domain = Box((-_RADIUS,) * 2, (_RADIUS,) * 2)

    def sample(self, people: int, rng: np.random.Generator) -> People:
        self.check_size(people)
        bumps = Bumps.draw(rng)
        good, rest = _pools(bumps, people, people * (self.candidates - 1), rng)
        sets = np.concatenate([good[:, None], rest.reshape(people, -1, 2)], axis=1)
        rows, place = np.arange(people), rng.integers(self.candidates, size=people)
        displaced = sets[rows, place]
        sets[rows, place] = sets[:, 0]
        sets[:, 0] = displaced
        means = bumps(sets.reshape(-1, 2)).reshape(people, -1)
        return People.bernoulli(sets, means, rng)


def _pools(
    bumps: Bumps, high: int, low: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """(high, 2) points with f >= 0.8 and (low, 2) with f <= 0.6, independent and uniform there."""
    good, rest = [np.empty((0, 2))], [np.empty((0, 2))]
    missing = [high, low]
    while max(missing) > 0:
        points = _in_ball(_POOL, rng)
        values = bumps(points)
        for pool, chosen, side in ((good, values >= _HIGH, 0), (rest, values <= _LOW, 1)):
            taken = points[chosen][: max(missing[side], 0)]
            pool.append(taken)
            missing[side] -= len(taken)
    return np.concatenate(good), np.concatenate(rest)


def _in_ball(count: int, rng: np.random.Generator) -> FloatArray:
    """(count, 2) points uniform in the ball of radius 2."""
    return _polar(rng.random(count), 2.0 * np.pi * rng.random(count))


def _polar(area: FloatArray, angle: FloatArray) -> FloatArray:
    """Points at an angle, on the circle that holds a share `area` of the ball of radius 2."""
    radius = _RADIUS * np.sqrt(area)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


# A sunflower: turning by the golden angle covers the ball evenly.
_STEPS = np.arange(_LATTICE) + 0.5
_BALL = _polar(_STEPS / _LATTICE, np.pi * (3.0 - np.sqrt(5.0)) * _STEPS)


class RandomSetProblem(Problem):
    """Every person brings random points of the unit ball, and rewards follow a generalised linear
    model (Han, Liang, Wang and Zhang 2021, section 6; Sarmasarkar et al. 2026).

    With theta a uniform direction of that length, new in each sample:

    | link     | reward                                            | bounds            |
    |----------|---------------------------------------------------|-------------------|
    | linear   | <theta, x> itself, without noise, as in their     | -length to length |
    |          | program                                           |                   |
    | logistic | Bernoulli with mean 1 / (1 + exp(-<theta, x>))    | 0 to 1            |

    Args:
        candidates: the number of points that each person brings, at least 2.
        dimension: the number of their columns, at least 1.
        link: `linear` or `logistic`.
        length: of theta.
        inside: whether points are uniform in the unit ball; otherwise on its sphere.
    """

    source = "Synthetic: a generalised linear model on random points."

    def __init__(
        self,
        candidates: Two = 10,
        dimension: One = 2,
        link: Link = "linear",
        length: Positive = 1.0,
        inside: bool = False,
    ) -> None:
        self.candidates = whole_number(candidates, "candidates", minimum=2)
        self.link, self.inside = link, inside
        self.length = positive_number(length, "length")
        self.domain = Ball(1.0, dimension)
        self._space = DecisionSets(self.candidates)
        if link == "linear":
            self.reward_bounds = RewardBounds(-self.length, self.length)

    def sample(self, people: int, rng: np.random.Generator) -> People:
        self.check_size(people)
        size = self.domain.dimension
        theta = self.length * directions(rng, 1, size)[0]
        sets = directions(rng, people * self.candidates, size)
        if self.inside:
            sets *= rng.random(len(sets))[:, None] ** (1.0 / size)
        sets = sets.reshape(people, self.candidates, size)
        scores = sets @ theta
        if self.link == "logistic":
            return People.bernoulli(sets, expit(scores), rng)
        means = np.clip(scores, -self.length, self.length)
        return People(sets, means, means)


def directions(rng: np.random.Generator, count: int, dimension: int) -> FloatArray:
    """(count, dimension) independent uniform points of the unit sphere."""
    drawn = rng.standard_normal((count, dimension))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return drawn


# Dose finding. All numbers below are invented for this example and are no medical advice.
_DOSE_PER_KG = 4.0
_AGES = (18.0, 95.0)
_WEIGHTS = (40.0, 140.0)
_KIDNEY = (10.0, 130.0)


def exposure(points: FloatArray) -> FloatArray:
    """Dose over clearance, in mg per ml/min, of points (..., 4) -> (...).

    Clearance = 10 + kidney function * (weight / 70 kg)^0.75, in ml/min.
    """
    dose, _, weight, kidney = np.moveaxis(points, -1, 0)
    ratio: FloatArray = dose / (10.0 + kidney * (weight / 70.0) ** 0.75)
    return ratio


def dose_means(points: FloatArray) -> FloatArray:
    """The probability of success without harm, (..., 4) -> (...).

    With exposure e: benefit e^2 / (1 + e^2), less the share of it that comes with harm, which is
    logistic in e: 1 / (1 + exp(-(e - tolerated) / 0.4)). An exposure of 4 is tolerated at 18
    years and 2 at 95.
    """
    level, age = exposure(points), points[..., 1]
    benefit = level**2 / (1.0 + level**2)
    tolerated = 4.0 - 2.0 * (age - _AGES[0]) / (_AGES[1] - _AGES[0])
    harm = 1.0 / (1.0 + np.exp(-(level - tolerated) / 0.4))
    return benefit - benefit * harm


class DoseProblem(Problem):
    """Invented dose finding: which of a patient's feasible doses helps without harm?

    A point is (dose in mg, age in years, weight in kg, kidney function in ml/min). The candidates
    of a patient are equally spaced doses up to a limit of 4 mg for each kg of weight, so the sets
    differ between patients. Weak kidneys clear less, and the old tolerate less: the same dose
    helps one patient and harms another. The reward is 1 if the treatment succeeds without harm
    (`dose_means`), otherwise 0.

    Age is uniform on [18, 95]; weight is normal with mean 78 and standard deviation 16; kidney
    function is (120 - 0.9 (age - 18)) times a log-normal factor of scale 0.3; both are moved into
    [40, 140] and [10, 130].

    Args:
        candidates: the number of doses for each patient, at least 2.
    """

    source = "Synthetic: dose finding with invented patients and an invented dose response."

    def __init__(self, candidates: Two = 8) -> None:
        self.candidates = whole_number(candidates, "candidates", minimum=2)
        self._space = DecisionSets(self.candidates)
        low, high = zip((0.0, _DOSE_PER_KG * _WEIGHTS[1]), _AGES, _WEIGHTS, _KIDNEY, strict=True)
        self.domain = Box(low, high, ("dose_mg", "age_years", "weight_kg", "kidney_ml_min"))

    def sample(self, people: int, rng: np.random.Generator) -> People:
        self.check_size(people)
        age = rng.uniform(*_AGES, people)
        weight = np.clip(rng.normal(78.0, 16.0, people), *_WEIGHTS)
        usual = 120.0 - 0.9 * (age - _AGES[0])
        kidney = np.clip(usual * np.exp(0.3 * rng.standard_normal(people)), *_KIDNEY)
        patients = np.stack([age, weight, kidney], axis=1)
        sets = self.doses(patients)
        return People.bernoulli(sets, dose_means(sets), rng)

    def doses(self, patients: FloatArray) -> FloatArray:
        """Patients (n, 3) as (age, weight, kidney function) -> their candidates (n, c, 4).

        Raises:
            InvalidInput: patients outside the domain, or of another shape.
        """
        if np.ndim(patients) != 2 or np.shape(patients)[1] != 3:
            raise InvalidInput(
                f"patients had shape {np.shape(patients)}; it must have shape (people, 3): age in "
                "years, weight in kg, kidney function in ml/min."
            )
        self.domain.to_unit(np.insert(patients, 0, 0.0, axis=1))
        share = np.arange(1, self.candidates + 1) / self.candidates
        dose = _DOSE_PER_KG * patients[:, 1, None] * share
        brought = np.broadcast_to(patients[:, None], (*dose.shape, 3))
        return np.concatenate([dose[..., None], brought], axis=2)


named(
    "bumps",
    "everyone brings 25 points of which one is good",
    BumpProblem.source,
    candidates="points that each person brings",
)(BumpProblem)
named(
    "dose",
    "each patient's best dose among feasible ones",
    DoseProblem.source,
    candidates="feasible doses of each patient",
)(DoseProblem)
named(
    "random_sets",
    "10 points of the sphere each; a generalised linear f",
    RandomSetProblem.source,
    candidates="points that each person brings",
    dimension="columns of a point",
    link="linear (rewards have no noise) or logistic (Bernoulli)",
    length="of the vector of coefficients",
    inside="whether points fill the unit ball",
)(RandomSetProblem)
