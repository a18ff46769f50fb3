"""Smooth functions of a context and an arm, both on public grids (Pavlovic et al. 2025).

A person's context is one of C equally spaced values on [0, 1], known to be such; everyone can be
given the same K arms, which are equally spaced points on [0, 1]. The mean reward is a draw of a
Gaussian process on the C x K grid, fresh for every sample of people.

| array           | shape  | meaning                                                          |
|-----------------|--------|------------------------------------------------------------------|
| grid            | (C,)   | the values that a context can take                               |
| function        | (C, K) | f: the mean reward of every arm in every context                 |
| context_weights | (C,)   | how likely each context is; they sum to 1                        |
| cells           | (n,)   | the number of each person's context on the grid                  |
| draws           | (n,)   | the noise of each person, the same whatever they are given       |

Rewards are never tabulated: a million people with 60 arms need three columns, not sixty.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from discreet.lab.environments.base import Chosen, Population, Problem
from discreet.lab.environments.catalog import named
from discreet.people.domain import ArmPoints, Box, RewardBounds
from discreet.toml_files import NotNegative, Positive, Two
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    finite_matrix,
    number_from,
    one_of,
    positive_number,
    whole_number,
)

Smoothness = Literal["squared_exponential", "matern52"]

# The factor of the covariance takes (C K)^3 steps and (C K)^2 numbers: 17 seconds and 134 MB here.
_MOST_POINTS = 4096
# Directions with a smaller share of the largest eigenvalue are rounding errors.
_NEGLIGIBLE = 1e-12


def squared_exponential(distance: FloatArray) -> FloatArray:
    """exp(-r^2 / 2) at distances r in units of the length scale."""
    return np.exp(-0.5 * distance**2)


def matern52(distance: FloatArray) -> FloatArray:
    """(1 + s + s^2 / 3) exp(-s), s = sqrt(5) r, at distances r in units of the length scale."""
    scaled = math.sqrt(5.0) * distance
    return (1.0 + scaled + scaled**2 / 3.0) * np.exp(-scaled)


_KERNELS: dict[Smoothness, Callable[[FloatArray], FloatArray]] = {
    "squared_exponential": squared_exponential,
    "matern52": matern52,
}


@dataclass(frozen=True, eq=False)
class GridPopulation(Population):
    """People with contexts on a public grid, and the function that pays them.

    Attributes:
        contexts: (n, 1) the context of each person, values of `grid`.
        cells, draws, grid, function, context_weights: see the module's table.
    """

    contexts: FloatArray
    cells: IntArray
    draws: FloatArray
    grid: FloatArray
    function: FloatArray
    context_weights: FloatArray

    def received(self, actions: Chosen, start: int) -> FloatArray:
        stop = start + len(actions.arms)
        return self.function[self.cells[start:stop], actions.arms] + self.draws[start:stop]

    def value(self, actions: Chosen, start: int) -> FloatArray:
        """The regret max over arms of f - f(arm) in the person's context, without noise."""
        return self._regret(actions.arms, start)

    def earned(self, chosen: IntArray | FloatArray) -> float:
        return float(self.function[self.cells, chosen.astype(np.int64)].mean())

    def best_fixed(self) -> FloatArray:
        met = np.bincount(self.cells, minlength=len(self.grid))
        best = int((met @ self.function).argmax())
        return self._regret(np.full(len(self), best), 0)

    def oracle(self) -> FloatArray:
        """Zero for everyone: f is known for every context."""
        return np.zeros(len(self))

    def regret_of(self, probabilities: ArrayLike) -> float:
        """The mean regret of a policy for one new person, without sampling error.

        Args:
            probabilities: (C, K) the probability of every arm in every context of `grid`.
        """
        offers = finite_matrix(probabilities, "probabilities", self.function.shape[1])
        if len(offers) != len(self.grid):
            raise InvalidInput(
                f"probabilities had {len(offers)} rows; give one for each of the "
                f"{len(self.grid)} contexts of the grid."
            )
        lost = self.function.max(axis=1) - (offers * self.function).sum(axis=1)
        return float(self.context_weights @ lost)

    def _regret(self, arms: IntArray, start: int) -> FloatArray:
        cells = self.cells[start : start + len(arms)]
        regret: FloatArray = self.function.max(axis=1)[cells] - self.function[cells, arms]
        return regret


class KernelGridProblem(Problem):
    """Contexts and arms on public grids, mean rewards drawn from a Gaussian process.

    f ~ GP(0, k) on the grid, k a kernel of the distance between two pairs (context, arm), then
    multiplied by a number such that max |f| = bound. A reward is f(context, arm) plus noise that
    is uniform on [-noise, noise]. All people of a sample share one f; every sample draws another.

    Args:
        contexts: C, the number of values of a context, at least 2.
        arms: K, at least 2.
        smoothness: the kernel, `squared_exponential` or `matern52`.
        length_scale: of the kernel, above 0; contexts and arms lie in [0, 1].
        bound: the largest mean reward in absolute value, above 0.
        noise: the largest noise, at least 0.

    Raises:
        InvalidInput: for arguments that are not allowed, and for grids of more than 4,096 points.
    """

    source = "Synthetic: a Gaussian process on a grid, the setting of Pavlovic et al. (2025)."

    def __init__(
        self,
        contexts: Two = 30,
        arms: Two = 60,
        smoothness: Smoothness = "squared_exponential",
        length_scale: Positive = 0.3,
        bound: Positive = 0.8,
        noise: NotNegative = 0.25,
    ) -> None:
        rows = whole_number(contexts, "contexts", minimum=2)
        columns = whole_number(arms, "arms", minimum=2)
        if rows * columns > _MOST_POINTS:
            raise InvalidInput(
                f"contexts was {rows} and arms {columns}, a grid of {rows * columns:,} points; ask "
                f"for {_MOST_POINTS:,} or fewer, since f is drawn on all of them together."
            )
        self.smoothness: Smoothness = one_of(smoothness, "smoothness", _KERNELS)
        self.length_scale = positive_number(length_scale, "length_scale")
        self.bound = positive_number(bound, "bound")
        self.noise = number_from(noise, "noise", 0.0)
        largest = self.bound + self.noise
        self.reward_bounds = RewardBounds(-largest, largest)
        self.domain = Box((0.0,), (1.0,), ("context",), (rows,))
        self._space = ArmPoints.of(np.linspace(0.0, 1.0, columns))
        self.arm_names = point_names(columns)
        self.grid: FloatArray = np.linspace(0.0, 1.0, rows)
        self.context_weights: FloatArray = np.full(rows, 1.0 / rows)

    def sample(self, people: int, rng: np.random.Generator) -> GridPopulation:
        self.check_size(people)
        # f comes first, so that it does not depend on how many people there are.
        function = self.draw_function(rng)
        cells = rng.choice(len(self.grid), people, p=self.context_weights)
        draws = rng.uniform(-self.noise, self.noise, people)
        contexts = self.grid[cells][:, None]
        return GridPopulation(contexts, cells, draws, self.grid, function, self.context_weights)

    def draw_function(self, rng: np.random.Generator) -> FloatArray:
        """(C, K) a fresh f with max |f| = bound."""
        shape = (len(self.grid), self.arms)
        factor = _factor(self.smoothness, self.length_scale, *shape)
        draw = (factor @ rng.standard_normal(factor.shape[1])).reshape(shape)
        scaled = draw * (self.bound / np.abs(draw).max())
        # Rounding must not carry f past the declared bounds.
        function: FloatArray = np.clip(scaled, -self.bound, self.bound)
        return function


def point_names(arms: int) -> tuple[str, ...]:
    """The names of equally spaced points on [0, 1]: as few digits as tell them apart, at least 2.

    Sixty points are called 0.00, 0.02, 0.03, ..., 1.00.
    """
    digits = max(2, math.ceil(math.log10(arms - 1)))
    return tuple(f"{value:.{digits}f}" for value in np.linspace(0.0, 1.0, arms))


@lru_cache(maxsize=2)
def _factor(smoothness: Smoothness, length_scale: float, contexts: int, arms: int) -> FloatArray:
    """(C K, m) F with F F' = the kernel matrix of all pairs (context, arm), row by row.

    Built from eigenvectors, because a smooth kernel's matrix is singular to working precision.
    """
    axes = np.linspace(0.0, 1.0, contexts), np.linspace(0.0, 1.0, arms)
    across, along = (part.ravel() for part in np.meshgrid(*axes, indexing="ij"))
    distance = np.hypot(across[:, None] - across, along[:, None] - along) / length_scale
    values, vectors = np.linalg.eigh(_KERNELS[smoothness](distance))
    kept = values > _NEGLIGIBLE * values[-1]
    factor: FloatArray = vectors[:, kept] * np.sqrt(values[kept])
    factor.setflags(write=False)
    return factor


named(
    "kernel_grid",
    "60 ordered arms, rewards smooth in context and arm",
    KernelGridProblem.source,
    contexts="values of a context, equally spaced on [0, 1]",
    arms="arms, equally spaced points on [0, 1]",
    smoothness="the kernel: squared_exponential or matern52",
    length_scale="of the kernel, over [0, 1] x [0, 1]",
    bound="the largest mean reward, in absolute value",
    noise="rewards have uniform noise on [-noise, noise]",
)(KernelGridProblem)
