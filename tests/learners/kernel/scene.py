"""Policies of the kernel bandit with random functions, for tests of its parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from discreet.learners.kernel.cells import Cells, Ranks
from discreet.learners.kernel.features import (
    CosineFeatures,
    DensityBins,
    grid_of,
    whole_coefficients,
)
from discreet.learners.kernel.policy import KernelPolicy
from discreet.learners.policy import Actions
from discreet.learners.signs import SignedReports
from discreet.people.domain import Box, RewardBounds, unit_cube
from discreet.privacy import NoiseSource
from discreet.validation import FloatArray

SEED = 7
SQUARE = unit_cube(2)
# Contexts that are few enough to go through all of them.
FOUR = Box((0.0, 0.0), (1.0, 1.0), levels=(2, 2))
THREE = Box((0.0,), (1.0,), levels=(3,))


def random_policy(
    domain: Box = SQUARE,
    arms: int = 3,
    epsilon: float = 1.0,
    count: int = 1,
    *,
    functions: int = 4,
    partitions: int = 3,
    used: Sequence[int] | None = None,
    density: FloatArray | None = None,
    seed: int = SEED,
    varies: bool = True,
) -> KernelPolicy:
    """A policy with random functions of the features `used` (all of them), and `count` cells."""
    rng = np.random.default_rng([seed, arms, count])
    levels = domain.levels
    features = CosineFeatures.of(levels, arms, varies)
    chosen = np.arange(len(features)) if used is None else np.array(used)
    shape = (functions, arms, len(chosen))
    values, directions = (whole_coefficients(0.7 * rng.standard_normal(shape)) for _ in range(2))
    kappa = np.ones(len(features.bins())) if density is None else density
    ranks = Ranks.plain(domain.dimension)
    grid = grid_of(seed, 0, features, ranks.implied(domain))
    scales = np.full(domain.dimension, 0.8)
    mass = grid.weights(kappa)
    return KernelPolicy(
        version=0,
        learner_id="scene",
        domain=domain,
        reward_bounds=RewardBounds(),
        public_seed=seed,
        arms=arms,
        frequencies=features.index[chosen],
        ranks=ranks,
        values=values,
        directions=directions,
        cells=Cells.split(grid.points, mass, count, partitions, scales, levels, rng),
        density=kappa,
        epsilon=epsilon,
        varies=varies,
    )


def source_policy(
    domain: Box = SQUARE,
    arms: int = 3,
    epsilon: float = 1.0,
    count: int = 6,
    shares: FloatArray | None = None,
    version: int = 0,
) -> KernelPolicy:
    """A policy with four random sign functions and three partitions; `shares` (K,) of arms."""
    rng = np.random.default_rng([arms, count])
    features = CosineFeatures.of(domain.levels, arms)
    grid = grid_of(3, version, features).with_arms(arms)
    given = np.full(arms, 1.0 / arms) if shares is None else shares
    density = np.tile(given * arms, len(DensityBins(domain.levels)))
    points = grid.points
    scales, levels = np.array([0.8] * domain.dimension + [0.5]), (*domain.levels, arms)
    used = np.arange(min(len(features), 12))
    directions = whole_coefficients(rng.standard_normal((4, arms, len(used))))
    return KernelPolicy(
        stream="clinic",
        version=version,
        learner_id="scene",
        domain=domain,
        reward_bounds=RewardBounds(),
        arms=arms,
        epsilon=epsilon,
        public_seed=3,
        frequencies=features.index[used],
        ranks=Ranks.plain(domain.dimension),
        values=None,
        directions=directions,
        cells=Cells.split(points, np.ones(len(points)), count, 3, scales, levels, rng),
        density=density,
    )


def reported(
    policy: KernelPolicy,
    contexts: ArrayLike,
    actions: Actions,
    rewards: ArrayLike,
    noise: NoiseSource,
) -> SignedReports:
    """The reports of people in a simulation."""
    reports = policy.report(contexts, actions, rewards, noise)
    assert isinstance(reports, SignedReports)
    return reports


def all_contexts(domain: Box) -> FloatArray:
    """Every context of a domain whose columns all have levels."""
    columns = [np.arange(count or 0) / ((count or 0) - 1) for count in domain.levels]
    return np.stack(np.meshgrid(*columns, indexing="ij"), axis=-1).reshape(-1, domain.dimension)


def midpoints(count: int, dimension: int) -> FloatArray:
    """The centres of count^d equal cubes."""
    axes = [(np.arange(count) + 0.5) / count] * dimension
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dimension)
