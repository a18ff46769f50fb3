"""Functions to be maximised: everyone can be given any point of a public box, or of a public grid.

| array    | shape  | meaning                                                       |
|----------|--------|---------------------------------------------------------------|
| points   | (n, d) | points in the units of the problem's domain                   |
| values   | (n,)   | f at the points, in [0, 1]                                    |
| contexts | (n, 0) | nothing: people differ only in the noise of their reward      |

The three named functions are the benchmarks of Dubey (2021), section 6.2 (from Mutny and Krause
2018). Each is turned so that higher is better and scaled to [0, 1] by its exact extremes over the
box. Their mean over the box gives the regret of uniform choice, for 10,000 people: Camelback 3192,
Styblinski-Tang 2132 (in any dimension), Michalewicz 8859 (d = 10).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from pydantic import PlainValidator

from discreet.lab.environments.base import Chosen, Population, Problem
from discreet.lab.environments.catalog import named
from discreet.people.domain import Box, PublicBox, PublicSet
from discreet.toml_files import One, Two
from discreet.validation import FloatArray, IntArray, InvalidInput, number_from, whole_number

Function = Callable[[FloatArray], FloatArray]

BERNOULLI: Literal["bernoulli"] = "bernoulli"
UNEVEN: Literal["uneven"] = "uneven"
NOISES = 'a standard deviation of 0 or more, "bernoulli", or "uneven" (.02 where f = 0 to .3 at 1)'


def _declared_noise(value: object) -> object:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value in (BERNOULLI, UNEVEN) or (number and 0.0 <= value < math.inf):  # type: ignore[operator]
        return value
    raise ValueError(f"must be {NOISES}")


Noise = Annotated[float | Literal["bernoulli", "uneven"], PlainValidator(_declared_noise)]
_BENCHMARK = "Benchmark of Dubey (2021), section 6.2, scaled to [0, 1] by its extremes."
_DUBEY = "benchmark of Dubey (2021), section 6.2"
# Values may leave [0, 1], or pass the best value, by rounding only.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class FunctionPopulation(Population):
    """People who can all be given the same points; f is evaluated where they are.

    Attributes:
        contexts: (n, 0).
        draws: (n,) the noise of each person, the same whatever is chosen: standard normal, or
            uniform on [0, 1) for Bernoulli rewards.
        function: points (n, d) -> values (n,).
        best: the largest value that can be reached.
        noise: the standard deviation of rewards, "bernoulli" or "uneven".
    """

    contexts: FloatArray
    draws: FloatArray
    function: Function
    best: float
    noise: Noise

    def received(self, actions: Chosen, start: int) -> FloatArray:
        values = self._values(actions)
        draws = self.draws[start : start + len(values)]
        if self.noise == BERNOULLI:
            return (draws < values).astype(np.float64)
        spread = 0.02 + 0.28 * values if self.noise == UNEVEN else self.noise
        return np.clip(values + spread * draws, 0.0, 1.0)

    def earned(self, chosen: IntArray | FloatArray) -> float:
        return float(self.function(np.atleast_2d(chosen))[0])

    def value(self, actions: Chosen, start: int) -> FloatArray:
        """The regret best - f(point), where f is without noise."""
        values = self._values(actions)
        if values.max() > self.best + _ROUNDING:
            raise InvalidInput(
                f"the function gave {values.max():g}, more than best = {self.best:g}; declare the "
                "largest value over the domain as best."
            )
        return np.maximum(self.best - values, 0.0)

    def best_fixed(self) -> FloatArray:
        """Zero for everyone: the maximum of f is the best point for all."""
        return np.zeros(len(self))

    def oracle(self) -> FloatArray:
        return self.best_fixed()

    def _values(self, actions: Chosen) -> FloatArray:
        if actions.points is None:
            raise InvalidInput(
                "the actions were arms without points; on this problem an action is a point, so "
                "use a learner for public points."
            )
        return _evaluate(self.function, actions.points)


class FunctionProblem(Problem):
    """Any function with values in [0, 1] as a problem: regret is measured on f, before noise.

    With Gaussian noise the reward is f(x) + noise * z cut to [0, 1]: near 0 and 1 its mean is
    therefore not exactly f(x). Bernoulli rewards have mean f(x) everywhere. A person's z (or
    uniform number) is fixed before anyone chooses, so learners are compared on the same noise.

    Args:
        function: points (n, d) in the units of the domain -> values (n,) in [0, 1]; vectorised.
        domain: the public bounds of a point.
        best: the largest value of f over the domain. A `PublicSet` can do without: there regret
            is counted against its own best point, whatever `best` says.
        noise: the standard deviation of a reward around f, "bernoulli", or "uneven": a standard
            deviation of .02 + .28 f.
        space: `PublicBox()` for every point of the domain, or a `PublicSet` of some of them (see
            `grid_of`).
        source: one sentence for reports.

    Raises:
        InvalidInput: for arguments that do not fit together, and, when it is evaluated, for a
            function with values of another shape or outside [0, 1].
    """

    def __init__(
        self,
        function: Function,
        domain: Box,
        best: float | None = None,
        noise: Noise = 0.1,
        space: PublicBox | PublicSet | None = None,
        source: str = "A function.",
    ) -> None:
        if not callable(function):
            raise InvalidInput(
                f"function was {function!r:.80}; give a Python function of points (n, d)."
            )
        self.function = function
        self.domain = domain
        if not isinstance(noise, str) or noise not in (BERNOULLI, UNEVEN):
            noise = number_from(noise, "noise", 0.0, requirement=NOISES)
        self.noise: Noise = noise
        self._space = PublicBox() if space is None else space
        self.best = self._best(best)
        self.source = source

    def _best(self, best: float | None) -> float:
        if isinstance(self._space, PublicSet):
            points = self._space.array
            self.domain.to_unit(points)
            return float(_evaluate(self.function, points).max())
        if not isinstance(self._space, PublicBox):
            raise InvalidInput(
                f"space was {self._space!r:.80}; everyone is offered the same points here, so give "
                "PublicBox() or a PublicSet."
            )
        allowed = "the largest value of the function over the domain, from 0 to 1"
        return number_from(best, "best", 0.0, 1.0, allowed)

    def sample(self, people: int, rng: np.random.Generator) -> FunctionPopulation:
        self.check_size(people)
        bernoulli = self.noise == BERNOULLI
        draws = rng.random(people) if bernoulli else rng.standard_normal(people)
        return FunctionPopulation(
            np.empty((people, 0)), draws, self.function, self.best, self.noise
        )


def grid_of(domain: Box, points: int) -> PublicSet:
    """The regular grid with `points` values from bound to bound on each axis; points^d in all."""
    count = whole_number(points, "grid", minimum=2)
    if domain.dimension > 2:
        raise InvalidInput(
            f"grid was {count} for {domain.dimension} columns, which makes {count}^"
            f"{domain.dimension} points; a grid is for 1 or 2 columns, so leave it out to offer "
            "the whole box."
        )
    axes = [np.linspace(*bounds, count) for bounds in zip(domain.lower, domain.upper, strict=True)]
    mesh = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    return PublicSet.of(mesh.reshape(-1, domain.dimension))


def camelback_values(points: FloatArray) -> FloatArray:
    """(n,) the six-hump camelback function, turned and scaled: 1 at +-(0.0898, -0.7126).

    (4 - 2.1 a^2 + a^4 / 3) a^2 + a b + (4 b^2 - 4) b^2 lies between -1.0316 and 86/15 on
    [-2, 2] x [-1, 1]; the largest value is at the corners (2, 1) and (-2, -1).
    """
    lowest, highest = -1.031628453489877, 86.0 / 15.0
    a, b = points[:, 0] ** 2, points[:, 1] ** 2
    raw = (4.0 - 2.1 * a + a**2 / 3.0) * a + points[:, 0] * points[:, 1] + 4.0 * (b - 1.0) * b
    return (highest - raw) / (highest - lowest)


def styblinski_tang_values(points: FloatArray) -> FloatArray:
    """(n,) the Styblinski-Tang function, turned and scaled: 1 where every coordinate is -2.9035.

    It is the sum of (z^4 - 16 z^2 + 5 z) / 2 over coordinates z in [-5, 5], each term between
    -39.1662 and 125 (at z = 5).
    """
    lowest, highest = -39.16616570377142, 125.0
    square = points**2
    raw = (0.5 * (square * (square - 16.0) + 5.0 * points)).mean(axis=1)
    values: FloatArray = (highest - raw) / (highest - lowest)
    return values


@dataclass(frozen=True)
class Michalewicz:
    """The Michalewicz function, scaled: steep valleys that say little about where the top is.

    The sum over i = 1..d of sin(x_i) sin(i x_i^2 / pi)^20 on [0, pi]^d, between 0 (at the origin)
    and the sum of the maxima of its terms (9.6602 for d = 10).

    Attributes:
        dimension: d.
    """

    dimension: int

    def __post_init__(self) -> None:
        whole_number(self.dimension, "dimension", minimum=1)

    @cached_property
    def highest(self) -> float:
        """The maximum over the box, one coordinate at a time (to 1e-10)."""
        total = 0.0
        for i in range(1, self.dimension + 1):
            low, high = 0.0, math.pi
            # Term i has about i peaks: look at many points, then closer and closer at the best.
            for count in (1000 * i, 1000, 1000):
                at = np.linspace(low, high, count)
                term = self._terms(at[:, None], np.array([float(i)]))[:, 0]
                top = int(term.argmax())
                low, high = at[max(top - 1, 0)], at[min(top + 1, count - 1)]
            total += float(term[top])
        return total

    def __call__(self, points: FloatArray) -> FloatArray:
        """Points (n, d) -> values (n,) in [0, 1]."""
        values: FloatArray = self._terms(points, np.arange(1.0, self.dimension + 1.0)).sum(axis=1)
        return values / self.highest

    def _terms(self, points: FloatArray, places: FloatArray) -> FloatArray:
        """Terms number `places` (d,), counted from 1, at points (n, d) -> (n, d)."""
        terms: FloatArray = np.sin(points) * (np.sin(places * points**2 / math.pi) ** 2) ** 10
        return terms


def _evaluate(function: Function, points: FloatArray) -> FloatArray:
    """f at points (n, d), or `InvalidInput` if that is not (n,) values in [0, 1]."""
    values = np.asarray(function(points), dtype=np.float64)
    if values.shape != (len(points),):
        raise InvalidInput(
            f"the function gave an array of shape {values.shape} for {len(points)} points; it must "
            f"give one value for each point, shape ({len(points)},)."
        )
    # Written so that NaN is outside.
    outside = ~((values >= -_ROUNDING) & (values <= 1.0 + _ROUNDING))
    if outside.any():
        raise InvalidInput(
            f"the function gave {values[outside][0]:g}; its values must lie in [0, 1], so scale it "
            "by public bounds."
        )
    return values


_OFFERED = {
    "noise": f"the noise of a reward: {NOISES}",
    "grid": "offer a public grid with this many values on each axis (1 or 2 columns); None offers "
    "the whole box",
}
_DIMENSION = "number of columns of a point"


def benchmark(
    function: Function, domain: Box, noise: Noise, grid: int | None, name: str, origin: str
) -> FunctionProblem:
    """A named function with best value 1 on the whole box, or on a grid of it."""
    space = None if grid is None else grid_of(domain, grid)
    offered = "the whole box" if grid is None else f"a grid of {grid} values on each axis"
    source = f"{name} in {domain.dimension} dimensions on {offered}, {origin}."
    return FunctionProblem(function, domain, 1.0, noise, space, source)


@named(
    "camelback",
    "a function of 2 columns with six humps",
    _BENCHMARK,
    **_OFFERED,
)
def camelback(noise: Noise = 0.1, grid: Two | None = None) -> FunctionProblem:
    """The six-hump camelback function on [-2, 2] x [-1, 1].

    Args:
        noise: the standard deviation of a reward, "bernoulli" or "uneven".
        grid: the values on each axis of a public grid (41 gives the uniform regret 3293 of 10,000
            people); None for the whole box.
    """
    domain = Box((-2.0, -1.0), (2.0, 1.0))
    return benchmark(camelback_values, domain, noise, grid, "Six-hump camelback function", _DUBEY)


@named(
    "styblinski_tang",
    "a function of 20 columns, each with two valleys",
    _BENCHMARK,
    **_OFFERED,
    dimension=_DIMENSION,
)
def styblinski_tang(
    noise: Noise = 0.1, grid: Two | None = None, dimension: One = 20
) -> FunctionProblem:
    """The Styblinski-Tang function on [-5, 5]^d; `noise` and `grid` as in `camelback`."""
    size = whole_number(dimension, "dimension", minimum=1)
    domain = Box((-5.0,) * size, (5.0,) * size)
    return benchmark(
        styblinski_tang_values, domain, noise, grid, "Styblinski-Tang function", _DUBEY
    )


@named(
    "michalewicz",
    "a function of 10 columns, flat but for steep valleys",
    _BENCHMARK,
    **_OFFERED,
    dimension=_DIMENSION,
)
def michalewicz(
    noise: Noise = 0.1, grid: Two | None = None, dimension: One = 10
) -> FunctionProblem:
    """The Michalewicz function on [0, pi]^d; `noise` and `grid` as in `camelback`."""
    function = Michalewicz(dimension)
    domain = Box((0.0,) * dimension, (math.pi,) * dimension)
    return benchmark(function, domain, noise, grid, "Michalewicz function", _DUBEY)
