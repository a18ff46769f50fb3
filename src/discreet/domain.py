"""The public domain of contexts and rewards: what anyone may know before the first person comes.

Learners work on the unit cube; a `Box` maps declared bounds onto it. Bounds are public facts (an
age lies between 21 and 64), never read from the data, because a bound taken from data would leak
the extreme person.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreet.validation import (
    FloatArray,
    InvalidInput,
    finite_matrix,
    finite_number,
    finite_vector,
    whole_number,
)


@dataclass(frozen=True)
class Box:
    """A product of closed intervals, one for each column of a context.

    Attributes:
        lower: d lower bounds.
        upper: d upper bounds, each above its lower bound.
        names: d column names, shown in plots and messages.
        levels: for each column the number of equally spaced values it can take, from `lower` to
            `upper` (2 for a yes/no column), or None for a continuous column. A learner never
            splits between two levels that do not exist.
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    names: tuple[str, ...] = ()
    levels: tuple[int | None, ...] = ()

    def __post_init__(self) -> None:
        lower = tuple(finite_number(value, "a lower bound") for value in self.lower)
        upper = tuple(finite_number(value, "an upper bound") for value in self.upper)
        dimension = len(lower)
        if dimension == 0 or len(upper) != dimension:
            raise InvalidInput(
                f"a domain got {dimension} lower and {len(upper)} upper bounds; give at least one "
                "column, and one lower and one upper bound for each."
            )
        names = tuple(self.names) or tuple(f"x{i + 1}" for i in range(dimension))
        levels = tuple(self.levels) or (None,) * dimension
        if len(names) != dimension or len(levels) != dimension:
            raise InvalidInput(
                f"a domain of {dimension} columns got {len(names)} names and {len(levels)} "
                "levels; give one of each for every column, or none at all."
            )
        for name, low, high, count in zip(names, lower, upper, levels, strict=True):
            if not low < high:
                raise InvalidInput(
                    f"column {name!r} had bounds [{low}, {high}]; the lower must be below the "
                    "upper bound."
                )
            if count is not None:
                whole_number(count, f"the levels of column {name!r}", minimum=2)
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "levels", levels)

    @property
    def dimension(self) -> int:
        """The number of columns d."""
        return len(self.lower)

    def to_unit(self, contexts: ArrayLike) -> FloatArray:
        """Contexts (n, d) mapped onto [0, 1]^d; `InvalidInput` when one lies outside the box."""
        array = finite_matrix(contexts, "contexts", self.dimension)
        low, high = np.asarray(self.lower), np.asarray(self.upper)
        outside = (array < low) | (array > high)
        if outside.any():
            row, column = (int(i) for i in np.argwhere(outside)[0])
            raise InvalidInput(
                f"contexts had {array[row, column]} in column {self.names[column]!r}, row {row}; "
                f"the declared bounds are [{self.lower[column]}, {self.upper[column]}]. Declare "
                "wider bounds if such people exist, or leave them out."
            )
        unit: FloatArray = (array - low) / (high - low)
        return unit

    def from_unit(self, unit: FloatArray) -> FloatArray:
        """Points of [0, 1]^d mapped back to the declared units."""
        low, high = np.asarray(self.lower), np.asarray(self.upper)
        points: FloatArray = low + unit * (high - low)
        return points

    def to_dict(self) -> dict[str, Any]:
        """The box as JSON values."""
        return {
            "lower": list(self.lower),
            "upper": list(self.upper),
            "names": list(self.names),
            "levels": list(self.levels),
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Box:
        """The inverse of `to_dict`."""
        return cls(
            lower=tuple(fields["lower"]),
            upper=tuple(fields["upper"]),
            names=tuple(fields["names"]),
            levels=tuple(fields["levels"]),
        )


def unit_cube(dimension: int, names: Sequence[str] = ()) -> Box:
    """The box [0, 1]^d of the papers."""
    size = whole_number(dimension, "dimension", minimum=1)
    return Box((0.0,) * size, (1.0,) * size, tuple(names))


@dataclass(frozen=True)
class RewardBounds:
    """The declared interval of rewards; learners see rewards mapped onto [0, 1]."""

    lower: float = 0.0
    upper: float = 1.0

    def __post_init__(self) -> None:
        lower = finite_number(self.lower, "the lower reward bound")
        upper = finite_number(self.upper, "the upper reward bound")
        if not lower < upper:
            raise InvalidInput(
                f"reward bounds were [{lower}, {upper}]; the lower must be below the upper bound."
            )
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    def clip(self, rewards: ArrayLike) -> FloatArray:
        """Rewards moved to the nearest bound; for data whose tails you mean to cut."""
        clipped: FloatArray = np.clip(
            np.asarray(rewards, dtype=np.float64), self.lower, self.upper
        )
        return clipped

    def to_unit(self, rewards: ArrayLike, people: int) -> FloatArray:
        """Rewards (people,) mapped onto [0, 1]; `InvalidInput` for one outside the bounds."""
        array = finite_vector(rewards, "rewards", people)
        outside = (array < self.lower) | (array > self.upper)
        if outside.any():
            first = int(np.argmax(outside))
            raise InvalidInput(
                f"rewards had {array[first]} at position {first}; the declared bounds are "
                f"[{self.lower}, {self.upper}]. Declare wider bounds, or cut the tails with "
                "RewardBounds.clip, which is part of what you then optimise."
            )
        unit: FloatArray = np.clip((array - self.lower) / (self.upper - self.lower), 0.0, 1.0)
        return unit
