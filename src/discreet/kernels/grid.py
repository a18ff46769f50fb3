"""A feature map on a public grid of its domain, and what longer length scales say about it.

A map that resolves the shortest length scale can tell functions of every longer one. With Phi the
features on the grid and k_l the map's kernel with its length scales multiplied by l,

    theta ~ N(0, P_l),   P_l = Phi^+ k_l(X, X) Phi^+',

is the Gaussian process of k_l in the coefficients of the map. M_l(x) = sum over the grid of
k_l(x, x')^2 / (k_l(x, x) k_l(x', x')) counts the grid points that a look at x tells about.

| array   | shape      | meaning                                                        | symbol |
|---------|------------|----------------------------------------------------------------|--------|
| grid    | (N_g, d_g) | public points of group g, in the units of the domain           | x_g    |
| psi     | (N_g, m_g) | features of group g minus their mean over the grid             | psi_g  |
| roots   | (p, r_l)   | for each length scale a square root of the prior covariance of |        |
|         |            | the p coefficients: of a constant (0 there), then of each group |       |
| alike   | (N_g,)     | for each length scale how many grid points a look tells about  | M_l    |
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from discreet.action_space import PublicBox, PublicSet
from discreet.kernels.additive import Additive
from discreet.kernels.base import FeatureMap, public_points
from discreet.validation import FloatArray, IntArray, InvalidInput

# Length scales that are thought possible, in units of those of the map's kernel.
LENGTH_SCALES = (1.0, 2.0, 4.0, 8.0)
# Grid points of a group of one and of two columns; more columns share low-discrepancy points.
_POINTS = {1: 201, 2: 41 * 41}
_SCATTERED = 4096
# Of a larger grid, this many points are enough to tell a kernel by.
_MOST_KNOWN = 41 * 41
# Directions below this share of the largest one are left out of the prior of a length scale.
_LEAST_SHARE = 1e-6
# Singular values of features below this share of the largest are taken for zero.
_LEAST_SINGULAR = 1e-5


def stretched(kernel: Kernel, factor: float) -> Kernel | None:
    """The kernel with all its length scales multiplied, or None if it has no length scale."""
    if isinstance(kernel, Additive):
        parts = [stretched(part, factor) for part in kernel.kernels]
        if any(part is None for part in parts):
            return None
        single = not isinstance(kernel.kernel, list | tuple)
        return Additive(parts[0] if single else parts, kernel.groups)
    changed = copy.deepcopy(kernel)
    any_scale = False
    for name, value in kernel.get_params(deep=False).items():
        if name == "length_scale":
            longer: Any = np.asarray(value, dtype=np.float64) * factor
            setattr(changed, name, float(longer) if longer.ndim == 0 else longer)
            any_scale = True
        elif isinstance(value, Kernel) and (part := stretched(value, factor)) is not None:
            setattr(changed, name, part)
            any_scale = True
    return changed if any_scale else None


@dataclass(frozen=True)
class GridGroup:
    """One coordinate group (see the module's table).

    Attributes:
        columns: the columns of the domain that it reads.
        features: its features within the whole map.
        grid, psi: see the module's table.
        mean: (m_g,) the mean feature over the grid.
        roots: for each length scale (m_g, r) a root of P_l, for features of norm at most 1.
        alike: see the module's table.
    """

    columns: tuple[int, ...]
    features: slice
    grid: FloatArray
    psi: FloatArray
    mean: FloatArray
    roots: tuple[FloatArray, ...]
    alike: tuple[FloatArray, ...]


@dataclass(frozen=True, eq=False)
class DomainGrid:
    """All groups of a feature map on a public domain.

    Attributes:
        groups: the groups.
        features: the number of features m of the whole map.
    """

    groups: tuple[GridGroup, ...]
    features: int

    @property
    def size(self) -> int:
        """The number p of coefficients: one, and m_g for each group."""
        return 1 + sum(int(group.psi.shape[1]) for group in self.groups)

    @cached_property
    def places(self) -> tuple[slice, ...]:
        """Where the coefficients of each group are among the p."""
        ends = np.cumsum([1, *(group.psi.shape[1] for group in self.groups)])
        return tuple(slice(a, b) for a, b in pairwise(ends.tolist()))

    def psi(self, places: IntArray) -> FloatArray:
        """(n, p) the regressors (1, psi_1, .., psi_d) at places (n, groups) of the grids."""
        parts = [group.psi[places[:, g]] for g, group in enumerate(self.groups)]
        return np.hstack([np.ones((len(places), 1)), *parts])

    def moments(self, offers: Sequence[FloatArray]) -> FloatArray:
        """(p, p) the mean of psi psi' where each group's points are drawn by its own offers."""
        means = [shares @ group.psi for group, shares in zip(self.groups, offers, strict=True)]
        mean = np.concatenate([[1.0], *means])
        moments = np.outer(mean, mean)
        for group, shares, place in zip(self.groups, offers, self.places, strict=True):
            moments[place, place] = (group.psi * shares[:, None]).T @ group.psi
        return moments

    @cached_property
    def roots(self) -> tuple[FloatArray, ...]:
        """For each length scale (p, r), f varying by 1 in all; the constant not at all."""
        scales = []
        for parts in zip(*(group.roots for group in self.groups), strict=True):
            root = np.zeros((self.size, sum(part.shape[1] for part in parts)))
            start = 0
            for place, part in zip(self.places, parts, strict=True):
                stop = start + part.shape[1]
                root[place, start:stop] = part / np.sqrt(len(parts))
                start = stop
            scales.append(root)
        return tuple(scales)

    @cached_property
    def to_features(self) -> FloatArray:
        """(m + 1, p) the turn from coefficients to theta in f = (1, phi)' theta."""
        turn = np.zeros((self.features + 1, self.size))
        turn[0, 0] = 1.0
        for group, place in zip(self.groups, self.places, strict=True):
            own = slice(1 + group.features.start, 1 + group.features.stop)
            turn[own, place] = np.eye(len(group.mean))
            turn[0, place] = -group.mean
        return turn


@lru_cache(maxsize=16)
def domain_grid(features: FeatureMap, norm: float, space: PublicSet | PublicBox) -> DomainGrid:
    """The grid of a feature map; kept, because several learners may share it."""
    if isinstance(space, PublicSet):
        everything = slice(0, features.features)
        columns = tuple(range(features.domain.dimension))
        parts = [(columns, everything, features, space.array)]
    else:
        parts = [
            (group.columns, group.features, group.map, _grid(group.map))
            for group in features.groups
        ]
        read = [column for columns, *_ in parts for column in columns]
        if sorted(read) != list(range(features.domain.dimension)):
            raise InvalidInput(
                f"the groups of the kernel read the columns {sorted(read)}; to search a box, every "
                f"one of its {features.domain.dimension} columns must be in exactly one group: use "
                "one kernel on all columns, or Additive(kernel, groups)."
            )
    alone = len(parts) == 1
    return DomainGrid(tuple(_group(*part, norm, alone) for part in parts), features.features)


def _grid(features: FeatureMap) -> FloatArray:
    """A public grid of a group's box: equally spaced, with the levels of columns that have them."""
    domain = features.domain
    columns = domain.dimension
    if columns not in _POINTS:
        return public_points(domain, _SCATTERED)
    steps = round(_POINTS[columns] ** (1.0 / columns))
    axes = [np.linspace(0.0, 1.0, min(levels or steps, steps)) for levels in domain.levels]
    for axis, levels in enumerate(domain.levels):
        if levels is not None:
            axes[axis] = np.round(axes[axis] * (levels - 1)) / (levels - 1)
    mesh = np.meshgrid(*axes, indexing="ij")
    return domain.from_unit(np.stack(mesh, axis=-1).reshape(-1, columns))


def _group(
    columns: tuple[int, ...],
    place: slice,
    features: FeatureMap,
    grid: FloatArray,
    norm: float,
    alone: bool,
) -> GridGroup:
    phi = features.transform(grid) / norm
    mean = phi.mean(axis=0)
    kernels = [features.kernel] if alone and features.kernel is not None else []
    longer = [stretched(features.kernel, scale) for scale in LENGTH_SCALES[1:] if kernels]
    kernels += [kernel for kernel in longer if kernel is not None]
    if len(kernels) < len(LENGTH_SCALES):
        # Without length scales that are known, or for one of several groups, there is the map's own
        # kernel only.
        roots, alike = [np.eye(phi.shape[1])], [_alike(phi @ phi.T, np.sum(phi**2, axis=1))]
    else:
        step = -(-len(grid) // _MOST_KNOWN)
        known = grid[::step]
        inverse = np.linalg.pinv(phi[::step], rcond=_LEAST_SINGULAR)
        roots, alike = [], []
        for kernel in kernels:
            values = np.asarray(kernel(grid, known))
            roots.append(_root(inverse @ values[::step] @ inverse.T / norm**2))
            alike.append(step * _alike(values, kernel.diag(grid), kernel.diag(known)))
    return GridGroup(columns, place, grid, phi - mean, mean, tuple(roots), tuple(alike))


def _root(covariance: FloatArray) -> FloatArray:
    """(m, r) a square root of a covariance matrix, without directions of hardly any variance."""
    values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
    kept = values > _LEAST_SHARE * max(float(values[-1]), 0.0)
    root: FloatArray = vectors[:, kept] * np.sqrt(values[kept])
    return root


def _alike(values: FloatArray, rows: FloatArray, columns: FloatArray | None = None) -> FloatArray:
    """(N,) sums of squared correlations; at least 1, as a point tells about itself."""
    columns = rows if columns is None else columns
    squared = values**2 / np.maximum(np.outer(rows, columns), 1e-12)
    alike: FloatArray = np.maximum(np.sum(squared, axis=1), 1.0)
    return alike
