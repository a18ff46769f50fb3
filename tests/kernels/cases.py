"""One map of every class, for the tests that hold of all of them."""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern

from discreet.codec import from_json, to_json
from discreet.kernels import (
    Additive,
    AdditiveFeatures,
    FeatureMap,
    feature_map,
    finite_features,
    nystrom_features,
    scaled,
)
from discreet.kernels.base import sub_box
from discreet.kernels.compose import rotate, sum_features
from discreet.kernels.fourier import (
    FourierFeatures,
    stationary_parts,
    tensor_features,
    trapezoid_rule,
    widths_in,
)
from discreet.kernels.linear import LinearFeatures
from discreet.people.domain import Box, unit_cube

BOX = Box((-2.0, -2.0), (2.0, 2.0))
SLANTED = Box((-1.0, 2.0, 0.0), (3.0, 2.5, 10.0))


def inside(domain: Box, count: int, seed: int = 0) -> np.ndarray:
    """Random points of a box, and its corners where they are few."""
    rng = np.random.default_rng(seed)
    unit = rng.uniform(size=(count, domain.dimension))
    corners = rng.integers(0, 2, size=(min(count, 200), domain.dimension))
    return domain.from_unit(np.vstack([unit, corners]))


def quadrature(kernel, domain: Box, nodes: int, prune: float = 1e-12) -> FourierFeatures:
    """Fourier features by the trapezoid rule with as many nodes in every column."""
    nu, scales = stationary_parts(kernel, domain.dimension)
    rules = [trapezoid_rule(nodes, nu, ratio) for ratio in widths_in(scales, domain)]
    return tensor_features(domain, kernel, rules, prune)


def sent(given: FeatureMap) -> dict:
    """A map as JSON values."""
    return to_json(given, FeatureMap)


def received(fields: object) -> FeatureMap:
    return from_json(fields, FeatureMap, "a feature map")


def all_maps() -> dict[str, FeatureMap]:
    rbf = quadrature(RBF(1.0), BOX, 13)
    matern = quadrature(Matern([1.0, 2.0], nu=1.5), BOX, 8)
    linear = LinearFeatures(BOX, 0.5)
    left = quadrature(RBF([1.0, 0.5]), sub_box(SLANTED, (0, 1)), 9)
    right = rotate(quadrature(Matern(3.0, nu=2.5), sub_box(SLANTED, (2,)), 31), 1e-2)
    grid = inside(BOX, 60)
    grid = np.unique(grid, axis=0)
    return {
        "trapezoid": rbf,
        "matern": matern,
        "rotated": rotate(rbf, 1e-2),
        "linear": linear,
        "cubic": LinearFeatures(BOX, 0.7, 3),
        "additive": AdditiveFeatures(SLANTED, (((0, 1), left, 0.3), ((2,), right, 0.9))),
        "overlapping": AdditiveFeatures(BOX, (((0, 1), rbf, 0.5), ((1, 0), matern, 2.0))),
        "sum": sum_features([rbf, linear]),
        "product": feature_map(RBF(1.0) * DotProduct(0.5), BOX, error=1e-2),
        "scaled": scaled(matern, 2.5),
        "finite": finite_features(Matern(1.0, nu=0.5), BOX, grid, error=1e-9),
        "nystrom": nystrom_features(Matern([1.0, 2.0], nu=2.5), BOX, error=1e-2),
        "nystrom sum": nystrom_features(
            0.5 * RBF([2.0, 0.5, 8.0]) + DotProduct(0.5) ** 2, SLANTED, error=0.05
        ),
        "nystrom rotated": rotate(nystrom_features(Matern(1.0, nu=1.5), BOX, error=0.05), 0.1),
        "built": feature_map(2.0 * Additive(RBF(0.3)) + DotProduct(1.0), unit_cube(3)),
    }
