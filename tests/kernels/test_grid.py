"""Grids: longer length scales in the features of the shortest."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.action_space import PublicBox
from discreet.domain import unit_cube
from discreet.kernels import feature_map, kernel_from_text
from discreet.kernels.grid import LENGTH_SCALES, domain_grid, stretched


@pytest.mark.parametrize(
    ("text", "longer"),
    [
        ("RBF(length_scale=0.2)", "RBF(length_scale=0.6)"),
        ("RBF(length_scale=[0.2, 0.4])", "RBF(length_scale=[0.6, 1.2])"),
        ("0.5 * RBF(0.2) + DotProduct(1.0)", "0.5 * RBF(0.6) + DotProduct(1.0)"),
        (
            "Additive(Matern(length_scale=1.0, nu=1.5))",
            "Additive(Matern(length_scale=3.0, nu=1.5))",
        ),
    ],
)
def test_all_length_scales_are_stretched(text: str, longer: str) -> None:
    points = np.random.default_rng(0).random((6, 2))
    changed = stretched(kernel_from_text(text), 3.0)
    assert changed is not None
    assert np.allclose(changed(points), kernel_from_text(longer)(points))


def test_kernels_without_a_length_scale() -> None:
    assert stretched(kernel_from_text("DotProduct(1.0) ** 2"), 3.0) is None


def test_roots_are_those_of_the_stretched_kernels() -> None:
    features = feature_map(kernel_from_text("RBF(length_scale=0.2)"), unit_cube(2), error=1e-4)
    grid = domain_grid(features, 1.0, PublicBox())
    group = grid.groups[0]
    phi = group.psi + group.mean
    for scale, root, alike in zip(LENGTH_SCALES, group.roots, group.alike, strict=True):
        kernel = stretched(features.groups[0].map.kernel, scale)
        assert kernel is not None
        values = kernel(group.grid)
        assert np.allclose(phi @ root @ root.T @ phi.T, values, atol=0.02 * values.max())
        correlations = values / values[0, 0]
        assert np.allclose(alike, (correlations**2).sum(axis=1), rtol=1e-6)


def test_moments_are_those_of_points_drawn_group_by_group() -> None:
    features = feature_map(kernel_from_text("Additive(RBF(0.5))"), unit_cube(2), error=0.05)
    grid = domain_grid(features, features.norm_bound or 1.0, PublicBox())
    rng = np.random.default_rng(0)
    offers = [rng.dirichlet(np.full(len(group.grid), 0.1)) for group in grid.groups]
    first, second = (np.arange(len(group.grid)) for group in grid.groups)
    places = np.stack([side.ravel() for side in np.meshgrid(first, second, indexing="ij")], axis=1)
    odds = offers[0][places[:, 0]] * offers[1][places[:, 1]]
    psi = grid.psi(places)
    assert np.allclose(grid.moments(offers), (psi * odds[:, None]).T @ psi)
