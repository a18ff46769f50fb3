"""A feature map on a public grid of its domain, and what longer length scales say about it.

A map that resolves the shortest length scale can tell functions of every longer one. With Phi the
features on the grid and k_l the usual kernel with its length scales multiplied by l,

    theta ~ N(0, P_l),   P_l = Phi^+ ((1 - r) k_l(X, X) + r k_s(X, X)) Phi^+',

is the Gaussian process of k_l, and a little of that of the shortest length scale s, in the
coefficients of the map. M_l(x) = sum over the grid of
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

from discreet.kernels.base import FeatureMap, public_points
from discreet.kernels.text import Additive, kernel_from_text
from discreet.people.domain import PublicBox, PublicSet
from discreet.validation import FloatArray, IntArray, InvalidInput

# Length scales that are thought possible, in units of those of the usual kernel. A map that cannot
# show the shorter ones shows what it can of them.
LENGTH_SCALES = (0.25, 0.5, 1.0, 2.0)
# The share of the variance of f that has the shortest length scale in any case: without it a
# smooth kernel that is not quite right soon becomes certain of places that were never measured.
_ROUGH = 1e-3
# Grid points of a group of one and of two columns; more columns share low-discrepancy points.
_POINTS = {1: 201, 2: 41 * 41}
_SCATTERED = 4096
# Of a larger grid, this many points are enough to tell a kernel by.
_MOST_KNOWN = 41 * 41
# Directions below this share of the largest one are left out of the prior of a length scale.
_LEAST_SHARE = 1e-6
# Singular values of features below this share of the largest are taken for zero.
_LEAST_SINGULAR = 1e-5
# How often the top of a cell is looked for along each column.
_SWEEPS = 2


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
        map: its feature map.
        norm: what features are divided by.
        reach: (d_g,) how far the cell that a grid point stands for extends to either side of it in
            each column; 0 where there are no points between those of the grid.
    """

    columns: tuple[int, ...]
    features: slice
    grid: FloatArray
    psi: FloatArray
    mean: FloatArray
    roots: tuple[FloatArray, ...]
    alike: tuple[FloatArray, ...]
    map: FeatureMap
    norm: float
    reach: FloatArray

    def regressors(self, points: FloatArray) -> FloatArray:
        """(n, m_g) what `psi` holds, of any points (n, d_g) of the group's box."""
        return self.map.compute(points) / self.norm - self.mean

    def summits(self, places: IntArray, coefficients: FloatArray) -> FloatArray:
        """(n, d_g) where f = psi' coefficients is largest in the cells of some grid points.

        Column by column, at the top of the parabola through the middle and both ends of the cell.
        """
        box = self.map.domain
        low = np.maximum(self.grid[places] - self.reach, box.lower)
        high = np.minimum(self.grid[places] + self.reach, box.upper)
        points = self.grid[places].copy()
        for column in _SWEEPS * list(np.flatnonzero(self.reach)):
            half = 0.5 * (high[:, column] - low[:, column])
            middle = low[:, column] + half
            across = np.repeat(points[None], 3, axis=0)
            across[:, :, column] = low[:, column], middle, high[:, column]
            values = self.regressors(across.reshape(-1, points.shape[1])) @ coefficients
            left, centre, right = values.reshape(3, -1)
            bend, slope = 2.0 * centre - left - right, 0.5 * (right - left)
            # Where f bends upwards it is largest at an end.
            steps = np.where(bend > np.abs(slope), slope / np.maximum(bend, 1e-300), np.sign(slope))
            points[:, column] = np.clip(middle + half * steps, low[:, column], high[:, column])
        return points


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

    def moments(self, probabilities: Sequence[FloatArray]) -> FloatArray:
        """(p, p) the mean of psi psi' where each group's points have its probabilities."""
        means = [
            shares @ group.psi for group, shares in zip(self.groups, probabilities, strict=True)
        ]
        mean = np.concatenate([[1.0], *means])
        moments = np.outer(mean, mean)
        for group, shares, place in zip(self.groups, probabilities, self.places, strict=True):
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
def domain_grid(
    features: FeatureMap, norm: float, space: PublicSet | PublicBox, kernel: str | None = None
) -> DomainGrid:
    """The grid of a feature map; kept, because several learners may share it.

    Args:
        features: the map.
        norm: what its features are divided by, so that they are no longer than 1.
        space: the points that everyone can be given.
        kernel: the text of the usual kernel; by default it is that of the map.
    """
    usual = features.kernel if kernel is None else kernel_from_text(kernel)
    if isinstance(space, PublicSet):
        everything = slice(0, features.features)
        columns = tuple(range(features.domain.dimension))
        parts = [(columns, everything, features, space.array, np.zeros(len(columns)))]
    else:
        parts = [
            (group.columns, group.features, group.map, *_grid(group.map))
            for group in features.groups
        ]
        read = [column for columns, *_ in parts for column in columns]
        if sorted(read) != list(range(features.domain.dimension)):
            raise InvalidInput(
                f"the groups of the kernel read the columns {sorted(read)}; to search a box, every "
                f"one of its {features.domain.dimension} columns must be in exactly one group: use "
                "one kernel on all columns, or Additive(kernel, groups)."
            )
    if len(parts) > 1:
        usual = None
    return DomainGrid(tuple(_group(*part, norm, usual) for part in parts), features.features)


def _grid(features: FeatureMap) -> tuple[FloatArray, FloatArray]:
    """A public grid of a group's box: equally spaced, with the levels of columns that have them;
    and half the distance of its points in columns without levels."""
    domain = features.domain
    columns = domain.dimension
    widths = np.subtract(domain.upper, domain.lower) * [levels is None for levels in domain.levels]
    if columns not in _POINTS:
        scattered = public_points(domain, _SCATTERED)
        return scattered, 0.5 * widths * len(scattered) ** (-1.0 / columns)
    steps = round(_POINTS[columns] ** (1.0 / columns))
    axes = [np.linspace(0.0, 1.0, min(levels or steps, steps)) for levels in domain.levels]
    for axis, levels in enumerate(domain.levels):
        if levels is not None:
            axes[axis] = np.round(axes[axis] * (levels - 1)) / (levels - 1)
    mesh = np.meshgrid(*axes, indexing="ij")
    return domain.from_unit(np.stack(mesh, axis=-1).reshape(-1, columns)), 0.5 * widths / (
        steps - 1
    )


def _group(
    columns: tuple[int, ...],
    place: slice,
    features: FeatureMap,
    grid: FloatArray,
    reach: FloatArray,
    norm: float,
    usual: Kernel | None,
) -> GridGroup:
    phi = features.transform(grid) / norm
    mean = phi.mean(axis=0)
    roots: list[FloatArray] = []
    alike: list[FloatArray] = []
    if usual is None or stretched(usual, 1.0) is None:
        # Without length scales that are known, or for one of several groups, there is the map's own
        # kernel only.
        roots = [np.eye(phi.shape[1])]
        alike = [_alike(phi @ phi.T, np.sum(phi**2, axis=1))]
    else:
        step = -(-len(grid) // _MOST_KNOWN)
        known = grid[::step]
        inverse = np.linalg.pinv(phi[::step], rcond=_LEAST_SINGULAR)
        rough = None
        for scale in LENGTH_SCALES:
            kernel = stretched(usual, scale)
            assert kernel is not None
            values = np.asarray(kernel(grid, known))
            rough = values if rough is None else rough
            alike.append(step * _alike(values, kernel.diag(grid), kernel.diag(known)))
            values = (1.0 - _ROUGH) * values + _ROUGH * rough
            roots.append(_covariance_root(inverse @ values[::step] @ inverse.T / norm**2))
    return GridGroup(
        columns, place, grid, phi - mean, mean, tuple(roots), tuple(alike), features, norm, reach
    )


def _covariance_root(covariance: FloatArray) -> FloatArray:
    """(m, r) a square root of a covariance matrix, without its smallest directions."""
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
