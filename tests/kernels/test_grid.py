"""Grids: longer length scales in the features of the shortest."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.kernels import feature_map, kernel_from_text
from discreet.kernels.grid import LENGTH_SCALES, domain_grid, stretched
from discreet.people.domain import Box, PublicBox, PublicSet, unit_cube


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


@pytest.mark.parametrize(
    "usual",
    [
        pytest.param("RBF(length_scale=0.8)", marks=pytest.mark.slow),
        "RBF(length_scale=[0.8, 1.2])",
    ],
)
def test_roots_are_those_of_the_stretched_kernels(usual: str) -> None:
    features = feature_map(kernel_from_text("RBF(length_scale=0.2)"), unit_cube(2), error=1e-4)
    grid = domain_grid(features, 1.0, PublicBox(), usual)
    group = grid.groups[0]
    phi = group.psi + group.mean
    for scale, root, alike in zip(LENGTH_SCALES, group.roots, group.alike, strict=True):
        kernel = stretched(kernel_from_text(usual), scale)
        assert kernel is not None
        values = kernel(group.grid)
        assert np.allclose(phi @ root @ root.T @ phi.T, values, atol=0.02 * values.max())
        correlations = values / values[0, 0]
        assert np.allclose(alike, (correlations**2).sum(axis=1), rtol=1e-6)


def test_a_map_without_a_kernel_beside_it_shows_what_it_can_of_shorter_length_scales() -> None:
    features = feature_map(kernel_from_text("RBF(length_scale=0.4)"), unit_cube(1), error=1e-2)
    group = domain_grid(features, 1.0, PublicBox()).groups[0]
    phi = group.psi + group.mean
    shown = phi @ np.linalg.pinv(phi)
    for scale, root in zip(LENGTH_SCALES, group.roots, strict=True):
        kernels = [stretched(features.kernel, each) for each in (scale, LENGTH_SCALES[0])]
        smooth, rough = (kernel(group.grid) for kernel in kernels if kernel is not None)
        values = shown @ (0.999 * smooth + 0.001 * rough) @ shown
        assert np.allclose(phi @ root @ root.T @ phi.T, values, atol=1e-3)


def test_summits_are_the_best_points_of_their_cells() -> None:
    """Against 81 x 81 points of each cell: cells in the middle and at the edge of the box."""
    features = feature_map(kernel_from_text("RBF(length_scale=0.4)"), unit_cube(2), error=1e-3)
    group = domain_grid(features, 1.0, PublicBox()).groups[0]
    assert np.allclose(group.reach, 0.5 / 40.0)
    coefficients = np.random.default_rng(2).normal(size=group.psi.shape[1])
    values = group.psi @ coefficients
    places = np.append(np.argsort(-values)[:12], [0, 40, 1680])
    summits = group.summits(places, coefficients)
    steps = np.linspace(-1.0, 1.0, 81)
    offsets = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2) * group.reach
    for place, summit in zip(places, summits, strict=True):
        assert (np.abs(summit - group.grid[place]) <= group.reach + 1e-12).all()
        cell = np.clip(group.grid[place] + offsets, 0.0, 1.0)
        best = (group.regressors(cell) @ coefficients).max()
        reached = (group.regressors(summit[None]) @ coefficients)[0]
        assert reached >= values[place] - 1e-9
        assert reached == pytest.approx(best, abs=0.03 * max(best - values[place], 1e-6))


def test_points_that_are_given_or_have_levels_stay_where_they_are() -> None:
    points = np.random.default_rng(0).random((9, 2))
    features = feature_map(kernel_from_text("RBF(length_scale=0.4)"), unit_cube(2), error=1e-2)
    given = domain_grid(features, 1.0, PublicSet.of(points)).groups[0]
    places = np.arange(9)
    assert (given.summits(places, np.ones(given.psi.shape[1])) == points).all()
    box = Box((0.0, 0.0), (1.0, 8.0), levels=(None, 5))
    features = feature_map(kernel_from_text("RBF(length_scale=[0.4, 4.0])"), box, error=1e-2)
    levels = domain_grid(features, 1.0, PublicBox()).groups[0]
    moved = levels.summits(places, np.ones(levels.psi.shape[1]))
    assert (moved[:, 1] == levels.grid[places, 1]).all()
    assert (moved[:, 0] != levels.grid[places, 0]).any()


def test_moments_are_those_of_points_drawn_group_by_group() -> None:
    features = feature_map(kernel_from_text("Additive(RBF(0.5))"), unit_cube(2), error=0.05)
    grid = domain_grid(features, features.norm_bound or 1.0, PublicBox())
    rng = np.random.default_rng(0)
    probabilities = [rng.dirichlet(np.full(len(group.grid), 0.1)) for group in grid.groups]
    first, second = (np.arange(len(group.grid)) for group in grid.groups)
    places = np.stack([side.ravel() for side in np.meshgrid(first, second, indexing="ij")], axis=1)
    odds = probabilities[0][places[:, 0]] * probabilities[1][places[:, 1]]
    psi = grid.psi(places)
    assert np.allclose(grid.moments(probabilities), (psi * odds[:, None]).T @ psi)
