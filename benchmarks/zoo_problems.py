"""Problems that nobody tuned a learner for, each the simplest example of one difficulty.

Arms over contexts: fine structure under halves that look alike, borders that no axis follows,
declared bounds that are far too wide, columns that do not matter, uneven noise, a changing world.

Points of a box: test functions of global optimisation, turned so that higher is better and scaled
to [0, 1] by their extremes, and four humps of which the best is the narrowest.

Decision sets: the same points for everyone, with a linear mean reward.

| array    | shape  | meaning                                                                 |
|----------|--------|-------------------------------------------------------------------------|
| unit     | (n, d) | contexts on [0, 1]^d, where the means are written down                   |
| means    | (n, K) | the mean reward of each arm, on [0, 1] unless `Lognormal` pays           |
| points   | (n, d) | points in the units of the problem's domain                             |
| values   | (n,)   | the function at the points, in [0, 1]                                   |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtr

from discreet.lab.environments.base import People, Problem
from discreet.lab.environments.catalog import load_problem
from discreet.lab.environments.decision_sets import directions
from discreet.lab.environments.functions import (
    Function,
    FunctionPopulation,
    FunctionProblem,
    Noise,
    benchmark,
)
from discreet.lab.environments.synthetic import (
    ContextSampler,
    ExponentialMeans,
    MeanFunction,
    SyntheticProblem,
    UniformContexts,
)
from discreet.people.domain import (
    ActionSpace,
    Ball,
    Box,
    DecisionSets,
    PublicSet,
    RewardBounds,
    unit_cube,
)
from discreet.validation import BoolArray, FloatArray


def load(name: str, options: Mapping[str, Any] | None = None) -> Problem:
    """A problem of the zoo or of the catalogue."""
    if name in PROBLEMS:
        return PROBLEMS[name](**(options or {}))
    return load_problem(name, options)


class Lognormal(SyntheticProblem):
    """Rewards with a long tail: log-normal with scale 1, cut to [0, 100].

    An arm with unit mean m (see `ExponentialMeans`) has the median 3 exp(1.5 m): from 3 to 13.
    `upper` is the bound that is declared.
    """

    reward_bounds = RewardBounds(0.0, 100.0)

    def sample(self, people: int, rng: np.random.Generator) -> People:
        self.check_size(people)
        contexts = self._contexts(people, rng)
        centre = math.log(3.0) + 1.5 * self._means(contexts)
        rewards = np.minimum(np.exp(centre + rng.standard_normal(centre.shape)), 100.0)
        return People(contexts, rewards, cut_lognormal_mean(centre, 100.0))


def cut_lognormal_mean(centre: FloatArray, bound: float) -> FloatArray:
    """The mean of min(exp(centre + Z), bound), Z standard normal."""
    away = math.log(bound) - centre
    mean: FloatArray = np.exp(centre + 0.5) * ndtr(away - 1.0) + bound * ndtr(-away)
    return mean


class Spending(SyntheticProblem):
    """Of [0, 500]: 10%, 6% or 4% buy, and what fewer buy costs more: 15, 30 or 50 times .4 + 1.2 m,
    with a log-normal factor of scale 1/2."""

    reward_bounds = RewardBounds(0.0, 500.0)

    def sample(self, people: int, rng: np.random.Generator) -> People:
        self.check_size(people)
        contexts = self._contexts(people, rng)
        price = np.array([15.0, 30.0, 50.0]) * (0.4 + 1.2 * self._means(contexts))
        share = np.array([0.10, 0.06, 0.04])
        factor = np.exp(0.5 * rng.standard_normal(price.shape) - 0.125)
        buys = rng.random(price.shape) < share
        return People(
            contexts, np.where(buys, np.minimum(price * factor, 500.0), 0.0), share * price
        )


class Balance(SyntheticProblem):
    """Of [-1000, 1000]: normal with mean 150 (m - 1/2) and deviation 40."""

    reward_bounds = RewardBounds(-1000.0, 1000.0)

    def sample(self, people: int, rng: np.random.Generator) -> People:
        self.check_size(people)
        contexts = self._contexts(people, rng)
        mean = 150.0 * (self._means(contexts) - 0.5)
        return People(contexts, mean + 40.0 * rng.standard_normal(mean.shape), mean)


class Waiting(SyntheticProblem):
    """Of [-120, 0]: minutes of waiting, gamma of shape 2 with mean 15 - 10 m, counted as losses."""

    reward_bounds = RewardBounds(-120.0, 0.0)

    def sample(self, people: int, rng: np.random.Generator) -> People:
        self.check_size(people)
        contexts = self._contexts(people, rng)
        mean = 15.0 - 10.0 * self._means(contexts)
        return People(contexts, -np.minimum(rng.gamma(2.0, 0.5 * mean), 120.0), -mean)


class UnevenNoise(SyntheticProblem):
    """Rewards that are almost certain for half of the people: Beta(50 m, 50 (1 - m)) where x_2 <
    1/2, Bernoulli(m) elsewhere; the mean is m everywhere."""

    def sample(self, people: int, rng: np.random.Generator) -> People:
        drawn = super().sample(people, rng)
        assert drawn.means is not None
        inner = np.clip(drawn.means, 1e-6, 1.0 - 1e-6)
        sure = rng.beta(50.0 * inner, 50.0 * (1.0 - inner))
        rewards = np.where(drawn.contexts[:, 1:2] < 0.5, sure, drawn.rewards)
        return People(drawn.contexts, rewards, drawn.means)


class Rotation(SyntheticProblem):
    """Arms change places for the second half of the people: arm k then pays as arm k - 1 did."""

    def sample(self, people: int, rng: np.random.Generator) -> People:
        self.check_size(people)
        contexts = self._contexts(people, rng)
        means = self._means(contexts)
        later = np.arange(people)[:, None] >= people // 2
        return People.bernoulli(contexts, np.where(later, np.roll(means, 1, axis=1), means), rng)


@dataclass(frozen=True)
class CornerOfBox:
    """Contexts, and means, that fill only a small square (cube) at the lower corner of the box.

    Attributes:
        side: of the square, as a share of the declared bounds.
        means: what is paid on the square, as a function on [0, 1]^d.
        dimension: d.
    """

    side: float
    means: MeanFunction
    dimension: int = 2

    def __call__(self, unit: FloatArray) -> FloatArray:
        return self.means(np.minimum(unit / self.side, 1.0))

    def contexts(self, people: int, rng: np.random.Generator) -> FloatArray:
        """(people, d) uniform on the square."""
        return self.side * rng.random((people, self.dimension))


@dataclass(frozen=True)
class ManyZeros:
    """Uniform contexts whose first column is 0 for a share of people.

    Attributes:
        share: of people.
        indicator: whether an indicator of these follows the column.
        dimension: the number of columns without it.
    """

    share: float
    indicator: bool
    dimension: int

    def __call__(self, people: int, rng: np.random.Generator) -> FloatArray:
        unit = rng.random((people, self.dimension))
        zero = rng.random(people) < self.share
        unit[zero, 0] = 0.0
        return np.insert(unit, 1, zero, axis=1) if self.indicator else unit


@dataclass(frozen=True)
class PointContexts:
    """Contexts that are three points of the square, with probabilities 1/2, 3/10 and 1/5."""

    def __call__(self, people: int, rng: np.random.Generator) -> FloatArray:
        contexts: FloatArray = _POINTS[rng.choice(3, people, p=(0.5, 0.3, 0.2))]
        return contexts


_POINTS = np.array([[0.2, 0.3], [0.5, 0.8], [0.9, 0.4]])


def wave_means(unit: FloatArray) -> FloatArray:
    """.5 + .45 sin(2 pi (3 x_1 + k/3)) cos(6 pi x_2), k = 1, 2, 3; eight waves of x_1 if d = 1."""
    waves, across = 8.0, np.ones((len(unit), 1))
    if unit.shape[1] > 1:
        waves, across = 3.0, np.cos(6.0 * np.pi * unit[:, 1:2])
    means: FloatArray = 0.5 + 0.45 * np.sin(2.0 * np.pi * (waves * unit[:, :1] + _THIRDS)) * across
    return means


_THIRDS = np.array([1.0, 2.0, 3.0]) / 3.0


def checker_means(unit: FloatArray) -> FloatArray:
    """7 x 5 fields: arm 1 pays .8 on one colour and .2 on the other, arm 2 the reverse."""
    field = np.floor(7.0 * unit[:, 0]) + np.floor(5.0 * unit[:, 1])
    return _sides(np.mod(field, 2.0) == 0.0, 0.3)


def diagonal_means(unit: FloatArray) -> FloatArray:
    """Two arms, .8 and .2 on the two sides of the diagonal x_1 = x_2."""
    return _sides(unit[:, 0] > unit[:, 1], 0.3)


def gap_means(unit: FloatArray) -> FloatArray:
    """.5, .55 and .6 everywhere."""
    return np.tile(np.array([0.5, 0.55, 0.6]), (len(unit), 1))


def equal_means(unit: FloatArray) -> FloatArray:
    """.5 for each of three arms, everywhere."""
    return np.full((len(unit), 3), 0.5)


def dominated_means(unit: FloatArray) -> FloatArray:
    """Waves that all arms share; arm 1 pays .3 more than arm 2 and .2 more than arm 3."""
    shared = 0.45 + 0.2 * np.sin(2.0 * np.pi * unit[:, :1]) * np.cos(2.0 * np.pi * unit[:, 1:2])
    means: FloatArray = shared + np.array([0.3, 0.0, 0.1])
    return means


def strip_means(unit: FloatArray) -> FloatArray:
    """Arm 1 pays .6; arm 2 pays .9 in the strip .62 <= x_1 < .72 and .3 elsewhere."""
    inside = (unit[:, 0] >= 0.62) & (unit[:, 0] < 0.72)
    return np.stack([np.full(len(unit), 0.6), np.where(inside, 0.9, 0.3)], axis=1)


def point_means(unit: FloatArray) -> FloatArray:
    """The arm of the nearest of the three points pays .8, the two others .3."""
    nearest = ((unit[:, None, :2] - _POINTS) ** 2).sum(axis=2).argmin(axis=1)
    means: FloatArray = 0.3 + 0.5 * np.eye(3)[nearest]
    return means


def wheel_means(unit: FloatArray) -> FloatArray:
    """.5 + .4 cos(angle - 2 pi k/3), k = 0, 1, 2: the angle of (x_1, x_2) around the middle."""
    x, y = (unit[:, :2] - 0.5).T
    angle = np.arctan2(y, x)[:, None]
    means: FloatArray = 0.5 + 0.4 * np.cos(angle - 2.0 * np.pi * np.arange(3) / 3.0)
    return means


def means_apart_at_zero(unit: FloatArray) -> FloatArray:
    """.7 and .4 where x_1 = 0, and elsewhere .35 + .1 x and .6 - .1 x in the last column x."""
    last = unit[:, -1:]
    elsewhere = np.hstack([0.35 + 0.1 * last, 0.6 - 0.1 * last])
    means: FloatArray = np.where(unit[:, :1] == 0.0, [0.7, 0.4], elsewhere)
    return means


def faint_means(unit: FloatArray) -> FloatArray:
    """.62, .26 and .12, of which a context moves .04: three doses of which most need the same."""
    moved = 0.04 * (unit[:, :1] + unit[:, 1:2] - 1.0)
    means: FloatArray = np.array([0.62, 0.26, 0.12]) + moved * np.array([-1.0, 1.0, 0.0])
    return means


def _sides(first: BoolArray, margin: float) -> FloatArray:
    """(n, 2) means: arm 1 is best where `first`, by twice the margin."""
    signed = np.where(first, margin, -margin)
    return np.stack([0.5 + signed, 0.5 - signed], axis=1)


def branin_values(points: FloatArray) -> FloatArray:
    """(n,) the Branin function on [-5, 10] x [0, 15]: three equal peaks, at (pi, 2.275) and so on.

    (y - 5.1 x^2 / (4 pi^2) + 5 x / pi - 6)^2 + 10 (1 - 1 / (8 pi)) cos x + 10.
    """
    lowest, highest = 0.39788735772973816, 308.12909601160663
    x, y = points.T
    across = y - 5.1 * x**2 / (4.0 * np.pi**2) + 5.0 * x / np.pi - 6.0
    raw = across**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(x) + 10.0
    return _turned(raw, lowest, highest)


def ackley_values(points: FloatArray) -> FloatArray:
    """(n,) the Ackley function on [-5, 5]^2: one peak at 0 among many small ones.

    20 + e - 20 exp(-.2 sqrt(mean x_i^2)) - exp(mean cos 2 pi x_i).
    """
    bowl = 20.0 * np.exp(-0.2 * np.sqrt((points**2).mean(axis=1)))
    ripple = np.exp(np.cos(2.0 * np.pi * points).mean(axis=1))
    return _turned(20.0 + np.e - bowl - ripple, 0.0, 14.302667500265278)


def levy_values(points: FloatArray) -> FloatArray:
    """(n,) the Levy function on [-10, 10]^2: ridges across a bowl, the peak at (1, 1).

    With w = 1 + (x - 1) / 4: sin^2(pi w_1) + (w_1 - 1)^2 (1 + 10 sin^2(pi w_1 + 1))
    + (w_2 - 1)^2 (1 + sin^2(2 pi w_2)).
    """
    u, v = 1.0 + (points.T - 1.0) / 4.0
    raw = np.sin(np.pi * u) ** 2 + (u - 1.0) ** 2 * (1.0 + 10.0 * np.sin(np.pi * u + 1.0) ** 2)
    raw = raw + (v - 1.0) ** 2 * (1.0 + np.sin(2.0 * np.pi * v) ** 2)
    return _turned(raw, 0.0, 95.38280895184609)


def rosenbrock_values(points: FloatArray) -> FloatArray:
    """(n,) Rosenbrock's valley on [-2, 2] x [-1, 3], 100 (y - x^2)^2 + (1 - x)^2: a flat crest."""
    x, y = points.T
    return _turned(100.0 * (y - x**2) ** 2 + (1.0 - x) ** 2, 0.0, 2509.0)


_HEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
_SCALES: dict[int, FloatArray] = {
    3: np.array([[3.0, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]]),
    6: np.array(
        [
            [10.0, 3, 17, 3.5, 1.7, 8],
            [0.05, 10, 17, 0.1, 8, 14],
            [3, 3.5, 1.7, 10, 17, 8],
            [17, 8, 0.05, 10, 0.1, 14],
        ]
    ),
}
_CENTRES: dict[int, FloatArray] = {
    3: 1e-4
    * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]),
    6: 1e-4
    * np.array(
        [
            [1312, 1696, 5569, 124, 8283, 5886],
            [2329, 4135, 8307, 3736, 1004, 9991],
            [2348, 1451, 3522, 2883, 3047, 6650],
            [4047, 8828, 8732, 5743, 1091, 381],
        ]
    ),
}
_HIGHEST = {3: 3.862779787332663, 6: 3.322368011415515}


def hartmann_values(points: FloatArray) -> FloatArray:
    """(n,) the Hartmann function on [0, 1]^3 or [0, 1]^6, with tables h, a, c of four rows:

    sum_i h_i exp(-sum_j a_ij (x_j - c_ij)^2).
    """
    size = points.shape[1]
    away = ((points[:, None, :] - _CENTRES[size]) ** 2 * _SCALES[size]).sum(axis=2)
    return _turned(-np.exp(-away) @ _HEIGHTS, -_HIGHEST[size], 0.0)


def cliff_values(points: FloatArray) -> FloatArray:
    """(n,) a plateau on [0, 1]^2 that rises towards its edge x = .7, and .05 below the cliff.

    .4 + .5 (x / .7) (1 - (y - 1/2)^2) for x <= .7; the best point, (.7, 1/2) with .9, is the edge.
    """
    x, y = points.T
    plateau = 0.4 + 0.5 * (x / 0.7) * (1.0 - (y - 0.5) ** 2)
    values: FloatArray = np.where(x <= 0.7, plateau, 0.05)
    return values


def _turned(raw: FloatArray, lowest: float, highest: float) -> FloatArray:
    """Lower is better becomes higher is better, scaled to [0, 1] by the extremes."""
    values: FloatArray = (highest - raw) / (highest - lowest)
    return values


_BOX = Box((0.0, -5.0), (10.0, 5.0))
_FLOOR = 0.05


@dataclass(frozen=True, eq=False)
class Humps:
    """f(x) = .05 + sum_i h_i exp(-|x - x_i|^2 / (2 w_i^2)) on [0, 10] x [-5, 5].

    Attributes:
        centres: (4, 2) the centres x_i, the best hump first.
        heights: (4,) h_i.
        widths: (4,) w_i.
    """

    centres: FloatArray
    heights: FloatArray
    widths: FloatArray

    def __call__(self, points: FloatArray) -> FloatArray:
        """Points (n, 2) -> values (n,)."""
        squares = ((points[:, None, :] - self.centres) ** 2).sum(axis=2)
        values: FloatArray = _FLOOR + np.exp(-0.5 * squares / self.widths**2) @ self.heights
        return values

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Humps:
        """The best hump has the height .9 and the width .8, the others heights of .5 to .7 and
        widths of .8 to 2; centres are uniform, at least 3 apart, and f stays below 1."""
        while True:
            centres = _BOX.from_unit(rng.random((4, 2)))
            heights = np.append(0.9, rng.uniform(0.5, 0.7, 3))
            widths = np.append(0.8, rng.uniform(0.8, 2.0, 3))
            apart = np.hypot(*(centres[:, None] - centres).T)[np.triu_indices(4, 1)]
            humps = cls(centres, heights, widths)
            # The tails of the others must neither lift the best hump past 1 nor hide it.
            top = humps(centres)
            if apart.min() >= 3.0 and top[0] < 0.99 and top[1:].max() < top[0] - 0.15:
                return humps

    @property
    def best(self) -> float:
        """The largest value: near the centre of the best hump, found on ever finer grids."""
        centre, reach, steps = self.centres[0], 0.4, np.linspace(-1.0, 1.0, 21)
        square = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
        for _ in range(8):
            points = _BOX.nearest(centre + reach * square)
            values = self(points)
            centre, reach = points[values.argmax()], reach / 5.0
        return float(values.max())


class HumpProblem(FunctionProblem):
    """Four humps, new in each replicate unless `draw` fixes them.

    Args:
        noise: as in `FunctionProblem`.
        draw: the number of a draw, the same for all replicates; None draws afresh.
    """

    def __init__(self, noise: Noise = 0.1, draw: int | None = None) -> None:
        self.fixed = draw is not None
        humps = Humps.draw(np.random.default_rng(draw or 0))
        source = "Synthetic: four Gaussian humps, the best of them narrow."
        super().__init__(humps, _BOX, humps.best, noise, None, source)

    def sample(self, people: int, rng: np.random.Generator) -> FunctionPopulation:
        if self.fixed:
            return super().sample(people, rng)
        humps = Humps.draw(rng)
        source = FunctionProblem(humps, _BOX, humps.best, self.noise, None, self.source)
        return source.sample(people, rng)


def _surface(
    name: str,
    means: MeanFunction,
    arms: int,
    contexts: ContextSampler | None = None,
    kind: type[SyntheticProblem] = SyntheticProblem,
    dimension: int = 2,
) -> SyntheticProblem:
    law = UniformContexts(dimension) if contexts is None else contexts
    return kind(means, law, dimension, arms, f"Synthetic: the surface {name!r} of the zoo.")


def _lognormal(upper: float = 100.0) -> SyntheticProblem:
    problem = _surface("lognormal", _THREE, 3, kind=Lognormal)
    problem.reward_bounds = RewardBounds(0.0, upper)
    return problem


def _few_columns(dimension: int = 6) -> SyntheticProblem:
    return _surface("few_columns", wheel_means, 3, dimension=dimension)


def _alike(means: Sequence[float] = (0.5, 0.55, 0.6)) -> SyntheticProblem:
    """Arms that are as good for everyone."""
    return _surface("alike", partial(_same_means, means), len(means))


def _same_means(means: Sequence[float], unit: FloatArray) -> FloatArray:
    return np.tile(means, (len(unit), 1))


def _zeros(share: float = 0.3, indicator: bool = False, dimension: int = 2) -> SyntheticProblem:
    contexts = ManyZeros(share, indicator, dimension)
    problem = _surface("zeros", means_apart_at_zero, 2, contexts, dimension=dimension)
    if indicator:
        first = {"x1": {"lower": 0, "upper": 1, "indicators": [0]}}
        problem.domain = Box.of({**first, **{f"x{i}": (0, 1) for i in range(2, dimension + 1)}})
    return problem


def _corner(side: float = 0.05) -> SyntheticProblem:
    corner = CornerOfBox(side, ExponentialMeans(3))
    return _surface("corner", corner, 3, corner.contexts)


def _known(
    name: str, function: Function, box: Box, noise: Noise = 0.1, grid: int | None = None
) -> FunctionProblem:
    return benchmark(
        function, box, noise, grid, f"{name} function", "test function of global optimisation"
    )


def _hartmann(noise: Noise = 0.1, grid: int | None = None, dimension: int = 3) -> FunctionProblem:
    return _known("Hartmann", hartmann_values, unit_cube(dimension), noise, grid)


def _cliff(noise: Noise = 0.1) -> FunctionProblem:
    source = "Synthetic: a plateau that rises towards a cliff."
    return FunctionProblem(cliff_values, unit_cube(2), 0.9, noise, None, source)


@dataclass(frozen=True)
class BandContexts:
    """The second column follows the first, within about `width`."""

    width: float = 0.05

    def __call__(self, people: int, rng: np.random.Generator) -> FloatArray:
        first = rng.random(people)
        second = np.clip(first + self.width * rng.standard_normal(people), 0.0, 1.0)
        return np.column_stack([first, second])


_THREE = ExponentialMeans(3)
# name, means, arms, and where they differ from the usual ones contexts and the kind of problem
_PLAIN: tuple[tuple[Any, ...], ...] = (
    ("waves", wave_means, 3),  # takes dimension = 1 (eight waves) too
    ("checker", checker_means, 2),
    ("diagonal", diagonal_means, 2),
    ("strip", strip_means, 2),
    ("three_points", point_means, 3, PointContexts()),
    ("band", _THREE, 3, BandContexts()),
    ("gaps", gap_means, 3),
    ("equal_arms", equal_means, 3),
    ("dominating_arm", dominated_means, 3),
    ("faint_contexts", faint_means, 3),
    ("spending", _THREE, 3, None, Spending),
    ("balance", _THREE, 3, None, Balance),
    ("waiting", _THREE, 3, None, Waiting),
    ("uneven_noise", _THREE, 3, None, UnevenNoise),
    ("rotation", _THREE, 3, None, Rotation),
)
SURFACES: dict[str, Callable[..., SyntheticProblem]] = {
    **{facts[0]: partial(_surface, *facts) for facts in _PLAIN},
    "alike": _alike,
    "corner": _corner,
    "few_columns": _few_columns,
    "lognormal": _lognormal,
    "zeros": _zeros,
}
LANDSCAPES: dict[str, Callable[..., FunctionProblem]] = {
    "branin": partial(_known, "Branin", branin_values, Box((-5.0, 0.0), (10.0, 15.0))),
    "hartmann": _hartmann,
    "ackley": partial(_known, "Ackley", ackley_values, Box((-5.0, -5.0), (5.0, 5.0))),
    "levy": partial(_known, "Levy", levy_values, Box((-10.0, -10.0), (10.0, 10.0))),
    "rosenbrock": partial(_known, "Rosenbrock", rosenbrock_values, Box((-2.0, -1.0), (2.0, 3.0))),
    "four_humps": HumpProblem,
    "cliff": _cliff,
}


class LinearSetProblem(Problem):
    """The same points for everyone, and the mean reward is linear: arms that share what is learnt,
    without contexts.

    Points are uniform on the unit sphere, f(x) = 1/2 + <theta, x> / 2 with theta uniform there
    too and new in each sample. Rewards are Bernoulli with mean f.

    Args:
        candidates: the number of points, at least 2.
        dimension: the number of their columns, at least 1.
        public: whether the points are public, and then the same in each sample; otherwise
            everyone brings them as a decision set of their own, and each sample has new ones.
    """

    source = "Synthetic: a linear function on the same points for everyone."

    def __init__(self, candidates: int = 100, dimension: int = 5, public: bool = False) -> None:
        self.candidates = candidates
        self.domain = Ball(1.0, dimension)
        self.public = public
        self._space: ActionSpace = DecisionSets(self.candidates)
        if public:
            self._space = PublicSet.of(self._directions(np.random.default_rng(0)))

    def _directions(self, rng: np.random.Generator, more: int = 0) -> FloatArray:
        """(candidates + more, d) uniform points of the unit sphere."""
        return directions(rng, self.candidates + more, self.domain.dimension)

    def sample(self, people: int, rng: np.random.Generator) -> People:
        self.check_size(people)
        drawn = self._directions(rng, 1)
        points, theta = drawn[:-1], drawn[-1]
        if isinstance(self._space, PublicSet):
            points = self._space.array
        values = np.clip(0.5 + 0.5 * points @ theta, 0.0, 1.0)
        # Views: the same points and means for everyone take the room of one person.
        sets = np.broadcast_to(points, (people, *points.shape))
        means = np.broadcast_to(values, (people, len(values)))
        return People.bernoulli(np.zeros((people, 0)) if self.public else sets, means, rng)


PROBLEMS: dict[str, Callable[..., Problem]] = {
    **SURFACES,
    **LANDSCAPES,
    "linear_set": LinearSetProblem,
}
