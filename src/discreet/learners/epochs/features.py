"""What is public about contexts and arms: the law of contexts, and features phi(c, x).

A learner that knows how contexts are distributed knows what its own policy will show it on average,
and needs to learn only rewards. A wrong distribution costs reward, never privacy: bounds on one
person's contribution hold for every context of the domain, whatever its probability here.

| class          | what the kernel compares                                                   |
|----------------|----------------------------------------------------------------------------|
| `GridFeatures` | any kernel on a finite set of contexts times K arms, as a table            |
| `MapFeatures`  | contexts and arm points together, by a feature map on both                 |
| `CodedFeatures`| contexts by a feature map, arms without an order by a code for each        |

Features have norm at most 1.

| array    | shape     | meaning                                              | symbol |
|----------|-----------|------------------------------------------------------|--------|
| points   | (N, d)    | public contexts, as points of [0, 1]^d               | c      |
| weights  | (N,)      | their probabilities, adding up to 1                  | kappa  |
| contexts | (n, d)    | contexts as points of [0, 1]^d                       | c      |
| phi      | (n, K, m) | features of each context with each arm               | phi(w) |
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree
from scipy.stats import qmc
from sklearn.gaussian_process.kernels import RBF, Kernel

from discreet.codec import Range, Serializable, Shape, from_json
from discreet.kernels import (
    FeatureMap,
    feature_map,
    finite_features,
    kernel_from_text,
    kernel_to_text,
    nystrom_features,
    public_points,
    read_kernel,
)
from discreet.kernels.nystrom import CANDIDATES, pivoted_cholesky
from discreet.learners.epochs.contribution import portions
from discreet.people.domain import ArmPoints, Box
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    finite_number,
    finite_vector,
    positive_number,
)

# Two contexts this close in every coordinate of the unit cube are the same one.
_SAME = 1e-9
# Larger grids are represented by a sample of them.
MOST_CONTEXTS = 4096
# The number of low-discrepancy contexts that stand for a box without a declared distribution.
_SAMPLED = 512
# Length scale of the default kernel, as a share of each column's width.
_SHARE = 0.3
# In every epoch a learner solves systems as large as all its features: more would take minutes.
_MOST = 600
# Features of a box are computed for each person, from as many kernel values.
_MOST_OF_BOX = 400
# Quadrature takes the fewest features; with more columns than these it takes long to find them.
_MOST_COLUMNS = 3
# Computing with a map rounds a little differently from choosing it.
_ROUNDED = 1.001


@dataclass(frozen=True, eq=False)
class ContextDistribution(Serializable):
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
        """`InvalidInput` for contexts in [0, 1]^d outside of a finite set."""
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


class ArmFeatures(Serializable, ABC):
    """Features of contexts with arms.

    Attributes:
        contexts: what is known about the contexts that come.
        residual: the largest k(x, x) - ||phi(x)||^2 on the public points that the features were
            chosen by, in units of k; 0 where that is not known.
    """

    contexts: ContextDistribution
    residual: float

    @property
    @abstractmethod
    def arms(self) -> int:
        """The number of arms K."""

    @property
    @abstractmethod
    def features(self) -> int:
        """The number of features m."""

    @abstractmethod
    def all(self, contexts: FloatArray) -> FloatArray:
        """(n, K, m) the features of contexts (n, d) in [0, 1]^d with every arm."""

    @abstractmethod
    def at(self, contexts: FloatArray, arms: IntArray) -> FloatArray:
        """(n, m) the features of contexts with one arm each."""

    @cached_property
    def table(self) -> FloatArray:
        """(N, K, m) the features of the contexts of the distribution."""
        return self.all(self.contexts.points)

    def portions(self, people: int) -> list[slice]:
        """People in portions whose features fit into memory."""
        return portions(people, self.arms * self.features)


@dataclass(frozen=True, eq=False)
class GridFeatures(ArmFeatures):
    """A table: one row for each context of a finite set and each arm.

    Attributes:
        contexts: the finite set.
        values: (N, K, m) the features.
    """

    kind: ClassVar[str] = "grid"

    contexts: ContextDistribution
    values: Annotated[FloatArray, Shape("N", "K", "m")]
    residual: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.contexts.exact or len(self.values) != len(self.contexts):
            raise InvalidInput(
                f"features had shape {self.values.shape} for {len(self.contexts)} contexts; a "
                "table needs an exact set of contexts and one entry for each."
            )
        # A table that was sent may claim any norm; those that were made here stay as they are.
        # (Above 1 by a rounding error stays too, so that tables that travel again do not change.)
        with np.errstate(over="ignore"):
            norms = np.sqrt(np.einsum("nkm,nkm->nk", self.values, self.values))[:, :, None]
        values = self.values / np.where(norms > 1.0 + 1e-12, norms, 1.0)
        values.setflags(write=False)
        object.__setattr__(self, "values", values)

    @property
    def arms(self) -> int:
        return int(self.values.shape[1])

    @property
    def features(self) -> int:
        return int(self.values.shape[2])

    @cached_property
    def table(self) -> FloatArray:
        return self.values

    def all(self, contexts: FloatArray) -> FloatArray:
        return self.values[self.contexts.places(contexts)]

    def at(self, contexts: FloatArray, arms: IntArray) -> FloatArray:
        return self.values[self.contexts.places(contexts), arms]


class MappedFeatures(ArmFeatures):
    """Features from a feature map on a box, divided by its certified norm."""

    map: FeatureMap

    @cached_property
    def _norm(self) -> float:
        bound = self.map.norm_bound
        if bound is None or not np.isfinite(bound):
            raise InvalidInput(
                f"features was a {type(self.map).__name__} without a certified norm; use one that "
                "discreet.kernels.feature_map makes."
            )
        return float(bound)

    def _check_columns(self, *given: int) -> None:
        """Refuse a map without a norm, and one or a domain with other columns than contexts."""
        _ = self._norm
        if set(given) != {self.contexts.points.shape[1]}:
            raise InvalidInput(
                f"features were for {' and '.join(map(str, given))} columns of contexts; contexts "
                f"have {self.contexts.points.shape[1]}."
            )


@dataclass(frozen=True, eq=False)
class MapFeatures(MappedFeatures):
    """A feature map on the columns of contexts followed by those of arm points.

    Attributes:
        contexts: what is known about contexts.
        domain: the box of contexts.
        points: (K, a) arm points.
        map: with a certified norm on the box of both (`joint_box`).
    """

    kind: ClassVar[str] = "map"

    contexts: ContextDistribution
    domain: Box
    points: Annotated[FloatArray, Shape("K", "a")]
    map: FeatureMap
    residual: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_columns(self.domain.dimension, self.map.domain.dimension - self.points.shape[1])
        # Beyond its box a forged map could make its arithmetic fail for some people only.
        box, inside = self.map.domain, joint_box(self.domain, self.points)
        low, high = np.array(box.lower), np.array(box.upper)
        if (low > inside.lower).any() or (high < inside.upper).any():
            raise InvalidInput(
                f"contexts from {self.domain.lower} to {self.domain.upper} or their arm points lie "
                "beyond the box of their features; make the features on the box of both."
            )

    @property
    def arms(self) -> int:
        return len(self.points)

    @property
    def features(self) -> int:
        return self.map.features

    def all(self, contexts: FloatArray) -> FloatArray:
        people = np.repeat(contexts, self.arms, axis=0)
        arms = np.tile(np.arange(self.arms), len(contexts))
        return self.at(people, arms).reshape(len(contexts), self.arms, self.features)

    def at(self, contexts: FloatArray, arms: IntArray) -> FloatArray:
        joined = np.hstack([self.domain.from_unit(contexts), self.points[arms]])
        return self.map.compute(joined) / self._norm


@dataclass(frozen=True, eq=False)
class CodedFeatures(MappedFeatures):
    """Features of the context times a code for each arm: k(c, c') (code_x' code_x').

    Attributes:
        contexts: what is known about contexts.
        map: with a certified norm on the box of contexts.
        codes: (K, r) vectors of norm at most 1.
    """

    kind: ClassVar[str] = "coded"

    contexts: ContextDistribution
    map: FeatureMap
    codes: Annotated[FloatArray, Shape("K", "r")]
    residual: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_columns(self.map.domain.dimension)

    @property
    def arms(self) -> int:
        return len(self.codes)

    @property
    def features(self) -> int:
        return self.map.features * int(self.codes.shape[1])

    def _of(self, contexts: FloatArray) -> FloatArray:
        return self.map.compute(self.map.domain.from_unit(contexts)) / self._norm

    def all(self, contexts: FloatArray) -> FloatArray:
        joined: FloatArray = np.einsum("ni,kj->nkij", self._of(contexts), self.codes)
        return joined.reshape(len(contexts), self.arms, self.features)

    def at(self, contexts: FloatArray, arms: IntArray) -> FloatArray:
        joined: FloatArray = np.einsum("ni,nj->nij", self._of(contexts), self.codes[arms])
        return joined.reshape(len(contexts), self.features)


def arm_features(
    domain: Box,
    arms: int | ArmPoints,
    contexts: ContextDistribution,
    *,
    kernel: Kernel | str,
    error: float,
    likeness: float,
) -> ArmFeatures:
    """Features of a kernel.

    Args:
        domain: the box of contexts.
        arms: the number of arms K, which then have no order, or `ArmPoints`.
        contexts: what is known about contexts.
        kernel: on the columns of contexts and arm points, or of contexts alone where arms have no
            order.
        error: sup error of the features, where that takes no more of them than a learner can
            compute with (600 with the codes of arms, 400 of a box without them); otherwise there
            are as many as that, which leave out what `ArmFeatures.residual` says.
        likeness: correlation of the rewards of two arms without an order, from 0 to below 1.
    """
    chosen = checked_kernel(kernel, domain, arms)
    positive_number(error, "error")
    if not 0.0 <= finite_number(likeness, "likeness") < 1.0:
        raise InvalidInput(f"likeness was {likeness}; it must be from 0 to below 1.")
    return _features_of(kernel_to_text(chosen), domain, arms, contexts, error, likeness)


def checked_kernel(kernel: Kernel | str, domain: Box, arms: int | ArmPoints) -> Kernel:
    """A kernel that compares contexts, and arm points where arms have them.

    Raises:
        InvalidInput: where it does not fit the columns, or is not finite on the domain.
    """
    box, chosen = feature_box(domain, arms), read_kernel(kernel)
    try:
        values = np.asarray(chosen(np.array([box.lower, box.upper])))
    except (TypeError, ValueError) as reason:
        raise InvalidInput(
            f"kernel was {chosen}, for the columns {', '.join(box.names)}: {reason}."
        ) from reason
    if not np.isfinite(values).all():
        raise InvalidInput(f"kernel was {chosen}, which is not finite on the domain.")
    return chosen


@lru_cache(maxsize=16)
def _features_of(
    kernel: str,
    domain: Box,
    arms: int | ArmPoints,
    contexts: ContextDistribution,
    error: float,
    likeness: float,
) -> ArmFeatures:
    """Features are public and take a moment to make: replicates share them."""
    chosen, box = kernel_from_text(kernel), feature_box(domain, arms)
    where = domain.from_unit(contexts.points)
    features: ArmFeatures
    if isinstance(arms, ArmPoints):
        places, count = arms.array, len(arms)
        joined = np.hstack([np.repeat(where, count, axis=0), np.tile(places, (len(where), 1))])
        points = joined if contexts.exact else None
        fitted, residual = _affordable(chosen, box, points, error, 1)
        features = MapFeatures(contexts, domain, places, fitted, residual)
    else:
        codes = np.asarray(np.linalg.cholesky(likely_arms(arms, likeness)), dtype=np.float64)
        points = where if contexts.exact else None
        fitted, residual = _affordable(chosen, box, points, error, arms)
        features = CodedFeatures(contexts, fitted, codes, residual)
    return GridFeatures(contexts, features.table, residual) if contexts.exact else features


def _affordable(
    kernel: Kernel, box: Box, points: FloatArray | None, error: float, codes: int
) -> tuple[FeatureMap, float]:
    """A map with the error, or the best with as many features as a learner can compute with.

    Args:
        kernel: the kernel.
        box: what it compares.
        points: the finite set that occurs; None for the whole box.
        error: the sup error.
        codes: how many features each of the map's features will make.

    Returns:
        The map, and the largest part of k(x, x) that it leaves out on public points.
    """
    where = public_points(box, CANDIDATES, 0) if points is None else points
    most = min(max(1, _MOST // codes), len(where) if points is not None else _MOST_OF_BOX)
    diagonal = np.asarray(kernel.diag(where), dtype=np.float64)
    # Takes no more kernel values than points times features, however many columns there are.
    _, left, _ = pivoted_cholesky(kernel, where, diagonal, error, most)
    reached = max(float(left.max()), error)
    if points is not None:
        chosen: FeatureMap = finite_features(kernel, box, points, error=reached, most_features=most)
    elif reached <= error and box.dimension <= _MOST_COLUMNS:
        chosen = feature_map(kernel, box, error=error)
    else:
        chosen = nystrom_features(kernel, box, error=_ROUNDED * reached, most_features=most)
    return chosen, float(left.max())


def joint_box(domain: Box, points: FloatArray) -> Box:
    """The box of contexts and arm points; the arms' columns are called arm1, arm2, ..."""
    low, high = points.min(axis=0), points.max(axis=0)
    if not (low < high).all():
        column = int(np.argmin(low < high))
        raise InvalidInput(
            f"all arm points had {low[column]} in column {column}; leave that column out."
        )
    added = points.shape[1]
    return Box(
        domain.lower + tuple(low.tolist()),
        domain.upper + tuple(high.tolist()),
        domain.names + tuple(f"arm{i + 1}" for i in range(added)),
        domain.levels + (None,) * added,
    )


def feature_box(domain: Box, arms: int | ArmPoints) -> Box:
    """The box of what a kernel compares: contexts, and arm points where arms have them."""
    return joint_box(domain, arms.array) if isinstance(arms, ArmPoints) else domain


def likely_arms(arms: int, likeness: float) -> FloatArray:
    """(K, K) correlations of the rewards of arms without an order."""
    return likeness * np.ones((arms, arms)) + (1.0 - likeness) * np.eye(arms)


def usual_kernel(box: Box) -> Kernel:
    """A squared exponential kernel with length scales of 0.3 of each column's width."""
    return RBF([_SHARE * (b - a) for a, b in zip(box.lower, box.upper, strict=True)])
