"""A public domain cut into coordinate groups, each with a public grid.

Where everyone can be given the same points, the points are chosen from earlier releases and public
tickets, so only rewards need protection. What is released is sum s(x) y with

    s(x) = (1, a_1(x_1), .., a_d(x_d)) / ||..||,

a_g the features of group g, centred over what the policy offers, with the covariance S_g that they
have there multiplied by S_g^(-1/4) (half of the whitening that would favour rough axes), and scaled
to mean square 1. So no part of the budget is spent on d copies of a constant, everybody uses all
of it, and once a policy has narrowed down, it is the differences between the points left that are
measured. s may be any function of x and of what is public, because sum s(x) psi(x)' is known.

| array | shape      | meaning                                                    | symbol |
|-------|------------|------------------------------------------------------------|--------|
| grid  | (N_g, d_g) | public points of group g, in the units of the domain       | x_g    |
| psi   | (N_g, m_g) | features minus their mean over the grid                    | psi_g  |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from discreet.action_space import PublicBox, PublicSet
from discreet.kernels import FeatureMap, public_points
from discreet.learners.gp_ucb.belief import UNIFORM_VARIANCE, Belief
from discreet.learners.gp_ucb.rows import RESOLUTION, rounded
from discreet.validation import FloatArray, IntArray, InvalidInput

# Grid points of a group of one and of two columns; more columns share low-discrepancy points.
_POINTS = {1: 201, 2: 41 * 41}
_SCATTERED = 4096
# Directions with less than this share of a policy's largest variance are not whitened further.
_LEAST_SPREAD = 1e-6
# Prior standard deviations of f stand in ratios of 2; the middle one spans the reward range.
PRIOR_LEVELS = 4.0 ** np.arange(-3.0, 3.0)


@dataclass(frozen=True, eq=False)
class GridGroup:
    """One coordinate group (see the module's table).

    Attributes:
        columns: the columns of the domain that it reads.
        features: its features within the whole map.
        grid, psi: see the module's table.
        mean: (m_g,) the mean feature over the grid.
    """

    columns: tuple[int, ...]
    features: slice
    grid: FloatArray
    psi: FloatArray
    mean: FloatArray


@dataclass(frozen=True, eq=False)
class DomainGrid:
    """All groups of a feature map on a public domain.

    Attributes:
        groups: the groups.
        size: the number p of coefficients: one, and m_g for each group.
        features: the number of features m of the whole map.
    """

    groups: tuple[GridGroup, ...]
    features: int

    @property
    def size(self) -> int:
        return 1 + sum(int(group.psi.shape[1]) for group in self.groups)

    @cached_property
    def _places(self) -> tuple[slice, ...]:
        ends = np.cumsum([1, *(group.psi.shape[1] for group in self.groups)])
        return tuple(slice(a, b) for a, b in pairwise(ends.tolist()))

    @property
    def sensitivity(self) -> float:
        """The largest ||s(x)||: how far u moves when a reward moves by 1."""
        # s(x) has norm 1 before it is rounded, which moves each entry by half a unit at most.
        return 1.0 + float(np.sqrt(self.size)) / (2.0 * RESOLUTION)

    def sent(self, places: IntArray, offers: Sequence[FloatArray]) -> FloatArray:
        """(n, p) s(x) in units of 2^-18.

        Args:
            places: (n, groups) places of the points in the grids.
            offers: for each group (N_g,) the probabilities with which its points were offered.
        """
        parts = [
            _whitened(group.psi, offered)[places[:, g]]
            for g, (group, offered) in enumerate(zip(self.groups, offers, strict=True))
        ]
        joined = np.hstack([np.ones((len(places), 1)), *parts])
        return rounded(joined / np.linalg.norm(joined, axis=1, keepdims=True))

    def psi(self, places: IntArray) -> FloatArray:
        """(n, p) the regressors (1, psi_1, .., psi_d)."""
        parts = [group.psi[places[:, g]] for g, group in enumerate(self.groups)]
        return np.hstack([np.ones((len(places), 1)), *parts])

    @cached_property
    def prior_shape(self) -> FloatArray:
        """(p,) prior variances up to a factor: the groups share the spread of f equally."""
        shape = np.full(self.size, UNIFORM_VARIANCE / len(self.groups))
        shape[0] = UNIFORM_VARIANCE
        return shape

    def of_group(self, belief: Belief, group: int) -> Belief:
        """What is believed of one group's coefficients."""
        place = self._places[group]
        return Belief(belief.mean[place], belief.root[place])

    def in_features(self, belief: Belief) -> Belief:
        """The belief about theta (m + 1,) in f = 1/2 + (1, phi)' theta (model.py)."""
        turn = np.zeros((self.features + 1, self.size))
        turn[0, 0] = 1.0
        for group, place in zip(self.groups, self._places, strict=True):
            turn[1 + group.features.start : 1 + group.features.stop, place] = np.eye(
                len(group.mean)
            )
            turn[0, place] = -group.mean
        return Belief(turn @ belief.mean, turn @ belief.root)


@lru_cache(maxsize=8)
def domain_grid(features: FeatureMap, norm: float, space: PublicSet | PublicBox) -> DomainGrid:
    """The grid of a feature map; kept, because several learners may share it."""
    if isinstance(space, PublicSet):
        everything = slice(0, features.features)
        columns = tuple(range(features.domain.dimension))
        parts = [(columns, everything, space.array, features.transform(space.array))]
    else:
        parts = [
            (group.columns, group.features, grid, group.map.transform(grid))
            for group in features.groups
            for grid in [_grid(group.map)]
        ]
        seen = [column for columns, *_ in parts for column in columns]
        if sorted(seen) != list(range(features.domain.dimension)):
            raise InvalidInput(
                f"the groups of the kernel read the columns {sorted(seen)}; to search a box, every "
                f"one of its {features.domain.dimension} columns must be in exactly one group: use "
                "one kernel on all columns, or Additive(kernel, groups)."
            )
    made = []
    for columns, place, grid, phi in parts:
        mean = phi.mean(axis=0) / norm
        made.append(GridGroup(tuple(columns), place, grid, phi / norm - mean, mean))
    return DomainGrid(tuple(made), features.features)


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


def _whitened(psi: FloatArray, offers: FloatArray) -> FloatArray:
    """(N_g, m_g) a_g at the points of a group, from the probabilities of being offered."""
    centred = psi - offers @ psi
    values, vectors = np.linalg.eigh((centred * offers[:, None]).T @ centred)
    if not len(values) or values[-1] <= 0.0:
        return np.zeros_like(psi)
    # A symmetric power keeps the meaning of coordinates from policy to policy, so sums build up.
    powers = np.maximum(values, _LEAST_SPREAD * values[-1]) ** -0.25
    shown = centred @ (vectors * powers) @ vectors.T
    spread = float(offers @ np.sum(shown**2, axis=1))
    whitened: FloatArray = shown / np.sqrt(spread)
    return whitened
