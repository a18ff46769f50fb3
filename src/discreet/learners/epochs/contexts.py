"""What is known in public about the contexts that people bring.

A learner that knows how contexts are distributed knows what its own policy will show it on
average, and needs to learn only rewards. A wrong distribution costs reward, never privacy: bounds
on one person's share hold for every context of the domain, whatever its probability here.

| array   | shape  | meaning                                              | symbol |
|---------|--------|------------------------------------------------------|--------|
| points  | (N, d) | public contexts, as points of [0, 1]^d               | c      |
| weights | (N,)   | their probabilities, adding up to 1                  | kappa  |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree
from scipy.stats import qmc

from discreet.domain import Box
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    finite_vector,
    freeze_arrays,
    read_array,
    whole_number,
)

# Two contexts this close in every coordinate of the unit cube are the same one.
_SAME = 1e-9
# Larger grids are represented by a sample of them.
MOST_CONTEXTS = 4096
# So many low-discrepancy contexts stand for a box of which nothing more is known.
_SAMPLED = 512


@dataclass(frozen=True, eq=False)
class ContextDistribution:
    """A distribution on finitely many public contexts (see the module's table).

    Attributes:
        exact: whether people bring these contexts only. Otherwise they are a sample that stands
            for a larger set, and tables are read at the nearest one.
    """

    points: FloatArray
    weights: FloatArray
    exact: bool

    def __post_init__(self) -> None:
        freeze_arrays(self)
        points, weights = self.points, self.weights
        if (
            points.ndim != 2
            or len(points) == 0
            or weights.shape != points.shape[:1]
            or not ((points >= 0.0) & (points <= 1.0)).all()
            or not (weights >= 0.0).all()
            or abs(float(weights.sum()) - 1.0) > 1e-9
        ):
            raise InvalidInput(
                f"a context distribution had points of shape {points.shape} and weights of shape "
                f"{weights.shape} that add up to {float(weights.sum())}; give each point of the "
                "domain one weight of at least 0."
            )
        pairs = self._tree.query_pairs(_SAME, p=np.inf)
        if pairs:
            first, second = min(pairs)
            raise InvalidInput(f"contexts {first} and {second} were the same; give each once.")

    @classmethod
    def finite(
        cls, domain: Box, points: ArrayLike, weights: ArrayLike | None = None
    ) -> ContextDistribution:
        """Contexts (N, d) in the units of the domain, with their probabilities or counts (N,)."""
        unit = domain.people_to_unit(points)
        return cls(unit, _shares(weights, len(unit)), True)

    @classmethod
    def grid(cls, domain: Box, weights: ArrayLike | None = None) -> ContextDistribution:
        """All combinations of the levels of a domain, the last column changing fastest."""
        counts = [count for count in domain.levels if count is not None]
        if len(counts) < domain.dimension or math.prod(counts) > MOST_CONTEXTS:
            raise InvalidInput(
                f"the domain had the levels {domain.levels}; a grid of contexts needs levels in "
                f"every column and at most {MOST_CONTEXTS} combinations. Pass a sample instead."
            )
        mesh = np.meshgrid(*(np.arange(n) / (n - 1) for n in counts), indexing="ij")
        unit = np.stack(mesh, axis=-1).reshape(-1, domain.dimension)
        return cls(unit, _shares(weights, len(unit)), True)

    @classmethod
    def sample(cls, domain: Box, contexts: ArrayLike) -> ContextDistribution:
        """A public sample (n, d) of contexts, in the units of the domain; repeats are counted."""
        unit, counts = np.unique(domain.people_to_unit(contexts), axis=0, return_counts=True)
        return cls(unit, counts / counts.sum(), False)

    @classmethod
    def sampler(
        cls,
        domain: Box,
        draw: Callable[[int, np.random.Generator], ArrayLike],
        size: int = _SAMPLED,
        seed: int = 0,
    ) -> ContextDistribution:
        """`size` contexts drawn by a public sampler, `draw(size, rng)` -> (size, d)."""
        count = whole_number(size, "size", minimum=1)
        return cls.sample(domain, draw(count, np.random.default_rng(seed)))

    @classmethod
    def usual(cls, domain: Box) -> ContextDistribution:
        """Uniform: on the grid of a domain of levels, otherwise by low-discrepancy points."""
        if None not in domain.levels and math.prod(map(int, filter(None, domain.levels))) <= (
            MOST_CONTEXTS
        ):
            return cls.grid(domain)
        unit = qmc.Halton(domain.dimension, seed=0).random(_SAMPLED)
        for column, count in enumerate(domain.levels):
            if count is not None:
                unit[:, column] = np.minimum(np.floor(unit[:, column] * count), count - 1) / (
                    count - 1
                )
        points, counts = np.unique(unit, axis=0, return_counts=True)
        return cls(points, counts / counts.sum(), False)

    def __len__(self) -> int:
        return len(self.points)

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(self.points)

    def check(self, unit: FloatArray) -> None:
        """`InvalidInput` for contexts in [0, 1]^d that nobody brings."""
        if not self.exact:
            return
        away, _ = self._tree.query(unit, p=np.inf)
        if (away > _SAME).any():
            row = int(np.argmax(away > _SAME))
            raise InvalidInput(
                f"contexts had {unit[row].tolist()} (as shares of the bounds) in row {row}, which "
                f"is not one of the {len(self)} contexts of this learner; round contexts by a "
                "public rule, or give the learner a sample instead of a finite set."
            )

    def places(self, unit: FloatArray) -> IntArray:
        """(n,) the place of the nearest of these contexts."""
        _, found = self._tree.query(unit, p=np.inf)
        return np.asarray(found, dtype=np.int64)

    def to_fields(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "points": self.points.tolist(),
            "weights": self.weights.tolist(),
            "exact": self.exact,
        }

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> ContextDistribution:
        """The inverse of `to_fields`."""
        if not isinstance(fields["exact"], bool):
            raise InvalidInput(f"exact was {fields['exact']!r}; it must be true or false.")
        return cls(
            read_array(fields["points"], "points", "number", 2),
            read_array(fields["weights"], "weights", "number", 1),
            fields["exact"],
        )


def _shares(weights: ArrayLike | None, count: int) -> FloatArray:
    if weights is None:
        return np.full(count, 1.0 / count)
    given = finite_vector(weights, "weights", count)
    if (given < 0.0).any() or given.sum() <= 0.0:
        raise InvalidInput(
            f"weights had the least value {given.min()} and the sum {given.sum()}; give counts or "
            "probabilities of at least 0, not all 0."
        )
    shares: FloatArray = given / given.sum()
    return shares
