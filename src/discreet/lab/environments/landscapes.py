"""Functions to be maximised that nobody tuned a learner for: a table of landscapes.

| array    | shape  | meaning                                                             |
|----------|--------|---------------------------------------------------------------------|
| points   | (n, d) | points in the units of the problem's domain                         |
| values   | (n,)   | f at the points, in [0, 1]                                          |

The test functions of global optimisation are turned so that higher is better and scaled to [0, 1]
by their extremes over the box. `Humps` is new in each replicate: most of the box is flat, and the
best of four humps is the narrowest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from discreet.lab.environments.functions import (
    Function,
    FunctionCrowd,
    FunctionProblem,
    Noise,
    benchmark,
)
from discreet.people.columns import Whole
from discreet.people.domain import Box, unit_cube
from discreet.toml_words import Two
from discreet.validation import FloatArray, whole_number

Draw = Annotated[Whole, Field(ge=0)] | None
Columns = Literal[3, 6]


@dataclass(frozen=True)
class Landscape:
    """What one entry of the table is called and does.

    Attributes:
        build: the problem for its options.
        description: one line.
        meanings: what each option means, beside `noise` and `grid`.
    """

    build: Callable[..., FunctionProblem]
    description: str
    meanings: Mapping[str, str] = field(default_factory=dict)


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


# Four humps.
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

    def __init__(self, noise: Noise = 0.1, draw: Draw = None) -> None:
        number = None if draw is None else whole_number(draw, "draw")
        self.fixed = number is not None
        humps = Humps.draw(np.random.default_rng(number or 0))
        source = "Synthetic: four Gaussian humps, the best of them narrow."
        super().__init__(humps, _BOX, humps.best, noise, None, source)

    def truth(self, points: FloatArray) -> FloatArray | None:
        return super().truth(points) if self.fixed else None

    def sample(self, people: int, rng: np.random.Generator) -> FunctionCrowd:
        if self.fixed:
            return super().sample(people, rng)
        humps = Humps.draw(rng)
        source = FunctionProblem(humps, _BOX, humps.best, self.noise, None, self.source)
        return source.sample(people, rng)


_ORIGIN = "test function of global optimisation"


def hartmann(
    noise: Noise = 0.1, grid: Two | None = None, dimension: Columns = 3
) -> FunctionProblem:
    """The Hartmann function on [0, 1]^3 or [0, 1]^6."""
    box = unit_cube(dimension)
    return benchmark(hartmann_values, box, noise, grid, "Hartmann function", _ORIGIN)


def cliff(noise: Noise = 0.1) -> FunctionProblem:
    """A plateau that ends in a cliff."""
    source = "Synthetic: a plateau that rises towards a cliff."
    return FunctionProblem(cliff_values, unit_cube(2), 0.9, noise, None, source)


def _known(
    name: str, function: Function, lower: tuple[float, ...], upper: tuple[float, ...]
) -> Callable[..., FunctionProblem]:
    """A function of two columns on its usual box."""

    def build(noise: Noise = 0.1, grid: Two | None = None) -> FunctionProblem:
        return benchmark(function, Box(lower, upper), noise, grid, f"{name} function", _ORIGIN)

    return build


LANDSCAPES: dict[str, Landscape] = {
    "branin": Landscape(
        _known("Branin", branin_values, (-5.0, 0.0), (10.0, 15.0)), "three equal peaks, 2 columns"
    ),
    "hartmann": Landscape(
        hartmann, "a function of 3 or 6 columns with four peaks", {"dimension": "3 or 6 columns"}
    ),
    "ackley": Landscape(
        _known("Ackley", ackley_values, (-5.0, -5.0), (5.0, 5.0)), "one peak among small ones"
    ),
    "levy": Landscape(
        _known("Levy", levy_values, (-10.0, -10.0), (10.0, 10.0)), "ridges across a bowl"
    ),
    "rosenbrock": Landscape(
        _known("Rosenbrock", rosenbrock_values, (-2.0, -1.0), (2.0, 3.0)), "a bent, flat crest"
    ),
    "four_humps": Landscape(
        HumpProblem,
        "four humps, the best of them narrow, new in each replicate",
        {"draw": "the number of a draw for all replicates; None draws afresh"},
    ),
    "cliff": Landscape(cliff, "a plateau whose best edge is a cliff"),
}
