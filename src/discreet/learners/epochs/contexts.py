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
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree
from scipy.stats import qmc

from discreet.codec import Coded, Range, Shape, from_json
from discreet.people.domain import Box
from discreet.validation import FloatArray, IntArray, InvalidInput, finite_vector

# Two contexts this close in every coordinate of the unit cube are the same one.
_SAME = 1e-9
# Larger grids are represented by a sample of them.
MOST_CONTEXTS = 4096
# So many low-discrepancy contexts stand for a box of which nothing more is known.
_SAMPLED = 512


@dataclass(frozen=True, eq=False)
class ContextDistribution(Coded):
    """A distribution on finitely many public contexts (see the module's table).

    Attributes:
        exact: whether people bring these contexts only. Otherwise they are a sample that stands
            for a larger set, and tables are read at the nearest one.
    """

    points: Annotated[FloatArray, Shape("N", "d"), Range(0.0, 1.0)]
    weights: Annotated[FloatArray, Shape("N"), Range(0.0)]
    exact: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        points, weights = self.points, self.weights
        if len(points) == 0 or abs(float(weights.sum()) - 1.0) > 1e-9:
            raise InvalidInput(
                f"a context distribution had {len(points)} points and weights that add up to "
                f"{float(weights.sum())}; give at least one point of the domain, and weights that "
                "add up to 1."
            )
        # Not by listing all pairs that are the same, which may fill the memory.
        _, first, counts = np.unique(points, axis=0, return_index=True, return_counts=True)
        repeated = [int(first[counts > 1].min())] if (counts > 1).any() else []
        if not repeated:
            away, _ = self._tree.query(points, k=[2], p=np.inf)
            repeated = np.flatnonzero(away <= _SAME).tolist()
        if repeated:
            raise InvalidInput(
                f"context {repeated[0]}, {points[repeated[0]].tolist()} (as shares of the "
                "bounds), came twice; give each once."
            )

    @cached_property
    def _facts(self) -> tuple[object, ...]:
        return self.points.shape, self.points.tobytes(), self.weights.tobytes(), self.exact

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ContextDistribution) and self._facts == other._facts

    def __hash__(self) -> int:
        return hash(self._facts)

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
    def usual(cls, domain: Box) -> ContextDistribution:
        """Uniform: on the grid of a domain of levels, otherwise by low-discrepancy points."""
        steps = [None if count is None else count - 1 for count in domain.levels]
        if None not in steps and math.prod(filter(None, domain.levels)) <= MOST_CONTEXTS:
            return cls.grid(domain)
        unit = qmc.Halton(domain.dimension, seed=0).random(_SAMPLED)
        for column, last in zip(unit.T, steps, strict=True):
            if last is not None:
                column[:] = np.minimum(np.floor(column * (last + 1)), last) / last
        points, counts = np.unique(unit, axis=0, return_counts=True)
        return cls(points, counts / counts.sum(), False)

    @classmethod
    def read(cls, domain: Box, given: Any) -> ContextDistribution:
        """What learners take as `contexts`: see `EpochLearner`."""
        if given is None:
            return cls.usual(domain)
        if isinstance(given, ContextDistribution):
            if given.points.shape[1] != domain.dimension:
                raise InvalidInput(
                    f"contexts had {given.points.shape[1]} columns, the domain "
                    f"{domain.dimension}; give a distribution of this domain's contexts."
                )
            return given
        if not isinstance(given, Mapping):
            return cls.sample(domain, given)
        if set(given) == {"points", "weights", "exact"}:
            return cls.read(domain, from_json(dict(given), cls, "contexts"))
        if set(given) == {"weights"}:
            return cls.grid(domain, given["weights"])
        if set(given) in ({"points", "weights"}, {"points"}):
            return cls.finite(domain, given["points"], given.get("weights"))
        raise InvalidInput(
            f"contexts had the fields {sorted(map(str, given))}; give weights (for the grid of a "
            "domain with levels), points with or without weights, or a plain list of contexts."
        )

    def __len__(self) -> int:
        return len(self.points)

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(self.points)

    @cached_property
    def _levels(self) -> tuple[FloatArray, ...] | None:
        """The levels of each column, where the points are all their combinations in order."""
        levels = tuple(np.unique(column) for column in self.points.T)
        if math.prod(map(len, levels)) != len(self.points):
            return None
        mesh = np.stack(np.meshgrid(*levels, indexing="ij"), axis=-1)
        return levels if np.array_equal(mesh.reshape(self.points.shape), self.points) else None

    def _nearest(self, unit: FloatArray) -> tuple[FloatArray, IntArray]:
        """(n,) how far away the nearest point is in any coordinate, and its place."""
        if self._levels is None:
            away, place = self._tree.query(unit, p=np.inf)
            return np.asarray(away), np.asarray(place, dtype=np.int64)
        # Column by column, which is much faster than searching a tree.
        away, place = np.zeros(len(unit)), np.zeros(len(unit), dtype=np.int64)
        for column, levels in enumerate(self._levels):
            values = unit[:, column]
            step = np.searchsorted((levels[1:] + levels[:-1]) / 2.0, values)
            away = np.maximum(away, np.abs(values - levels[step]))
            place = place * len(levels) + step
        return away, place

    def check(self, unit: FloatArray) -> None:
        """`InvalidInput` for contexts in [0, 1]^d that nobody brings."""
        if not self.exact:
            return
        away, _ = self._nearest(unit)
        if (away > _SAME).any():
            row = int(np.argmax(away > _SAME))
            raise InvalidInput(
                f"contexts had {unit[row].tolist()} (as shares of the bounds) in row {row}, which "
                f"is not one of the {len(self)} contexts of this learner; round contexts by a "
                "public rule, or give the learner a sample instead of a finite set."
            )

    def places(self, unit: FloatArray) -> IntArray:
        """(n,) the place of the nearest of these contexts."""
        return self._nearest(unit)[1]


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
