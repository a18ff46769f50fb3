"""Quadrature against known errors, and rotation onto principal axes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern

from discreet.kernels import FourierFeatures, public_points
from discreet.kernels.compose import RotatedFeatures, principal_axes, rotate
from discreet.kernels.fourier import rule_error, smallest_rule, trapezoid_rule
from discreet.people.domain import Box, unit_cube
from discreet.validation import InvalidInput
from tests.kernels.cases import BOX, inside, quadrature


def ball() -> np.ndarray:
    """Points of the disc of radius 2, its rim included."""
    angle = np.linspace(0.0, 2.0 * np.pi, 24, endpoint=False)
    radius = np.sqrt(np.linspace(0.0, 1.0, 25)) * (2.0 - 1e-12)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    return np.unique(np.vstack([r * circle for r in radius]), axis=0)


@pytest.mark.parametrize(("error", "low", "high"), [(1e-2, 19, 23), (1e-3, 28, 34), (1e-4, 38, 46)])
def test_rotation_needs_few_axes_on_the_ball(error, low, high) -> None:
    base = quadrature(RBF(1.0), BOX, 20)
    turned = rotate(base, error, points=ball())
    assert low <= turned.features <= high
    assert turned.sup_error(ball()) <= error
    assert turned.norm_bound == 1.0
    # One axis fewer is not enough: bisection found the smallest.
    fewer = RotatedFeatures(base, turned.axes[:, :-1])
    assert fewer.sup_error(ball()) > error


def test_rotation_holds_between_its_points_and_shortens_everywhere() -> None:
    base = quadrature(RBF(1.0), BOX, 17)
    turned = rotate(base, 1e-3)
    assert turned.sup_error(seed=11) < 1.5e-3
    far = np.random.default_rng(0).uniform(-50, 50, size=(5000, 2))
    assert np.linalg.norm(turned.compute(far), axis=1).max() <= 1 + 1e-13
    mean = (turned.transform(public_points(BOX)) ** 2).mean(axis=0)
    assert (np.diff(mean) <= 0.0).all(), "the longest axis first"


def test_axes_by_the_small_matrix_agree_with_those_by_svd() -> None:
    base = quadrature(RBF(0.3), BOX, 20)
    points = inside(BOX, 40)[:60]
    axes = principal_axes(base, points)
    phi = base.compute(points)
    expected = np.linalg.svd(phi, compute_uv=False)
    lengths = np.linalg.norm(phi @ axes, axis=0)
    np.testing.assert_allclose(lengths[:20], expected[:20], rtol=1e-8)
    np.testing.assert_allclose(axes.T @ axes, np.eye(axes.shape[1]), atol=1e-12)


def test_unreachable_rotation_says_what_is_reached() -> None:
    with pytest.raises(InvalidInput, match=r"reaches 0\.\d+ with all its"):
        rotate(quadrature(RBF(1.0), BOX, 4), 1e-6)


@pytest.mark.parametrize("kernel", [RBF([0.7, 3.0]), Matern(1.0, nu=0.5), Matern(2.0, nu=2.5)])
@pytest.mark.parametrize("nodes", [6, 9])
def test_the_norm_is_one_far_outside_the_box(kernel, nodes) -> None:
    given = quadrature(kernel, BOX, nodes, prune=1e-4)
    assert given.norm_bound == 1.0
    far = np.random.default_rng(0).uniform(-1e3, 1e3, size=(2000, 2))
    np.testing.assert_allclose(np.linalg.norm(given.compute(far), axis=1), 1.0, atol=1e-13)


@pytest.mark.parametrize(
    ("nu", "nodes", "error"), [(0.5, 65, 3.2e-2), (1.5, 33, 2.3e-3), (2.5, 33, 2.3e-4)]
)
def test_trapezoid_errors_for_matern(nu, nodes, error) -> None:
    rule = trapezoid_rule(nodes, nu, 4.0)
    assert rule[1].min() > 0.0
    assert math.fsum(rule[1]) == pytest.approx(1.0, abs=1e-14)
    assert rule_error(rule, nu, 4.0) <= 1.1 * error
    given = quadrature(Matern(0.25, nu=nu), unit_cube(1), nodes)
    assert given.sup_error() == pytest.approx(rule_error(rule, nu, 4.0), rel=0.1)
    assert given.features == nodes


@pytest.mark.parametrize(("nu", "error"), [(math.inf, 1e-5), (2.5, 1e-3), (0.5, 2e-2)])
def test_the_smallest_rule_is_smallest(nu, error) -> None:
    nodes, weights = smallest_rule(nu, 1.0 / 0.3, error)
    assert rule_error((nodes, weights), nu, 1.0 / 0.3) <= error
    fewer = trapezoid_rule(len(nodes) - 1, nu, 1.0 / 0.3)
    assert rule_error(fewer, nu, 1.0 / 0.3) > error


def test_matern_in_two_columns_is_the_product_form_and_says_so() -> None:
    given = quadrature(Matern([0.5, 1.0], nu=2.5), unit_cube(2), 31)
    x = inside(unit_cube(2), 30)
    product = Matern(0.5, nu=2.5)(x[:, :1]) * Matern(1.0, nu=2.5)(x[:, 1:])
    np.testing.assert_allclose(given.kernel(x), product, atol=1e-14)
    assert given.sup_error() < 5e-3
    assert np.abs(product - Matern([0.5, 1.0], nu=2.5)(x)).max() > 0.02


def test_the_frequency_zero_has_no_sine_and_pairs_are_merged() -> None:
    odd = quadrature(RBF(1.0), unit_cube(2), 5, prune=0.0)
    assert odd.features == 25
    even = quadrature(RBF(1.0), unit_cube(2), 4, prune=0.0)
    assert even.features == 16


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: quadrature(DotProduct(), BOX, 5), "RBF and Matern"),
        (lambda: quadrature(RBF([1.0, 1.0, 1.0]), BOX, 5), "3 length scales for 2"),
        (lambda: quadrature(RBF(1.0), BOX, 0), "nodes"),
        (lambda: quadrature(RBF(1.0), unit_cube(9), 9), "frequencies"),
        (lambda: FourierFeatures(BOX, [[1.0, 2.0]], [0.0]), "above 0"),
        (lambda: FourierFeatures(BOX, [[1.0]], [1.0]), "shape"),
    ],
)
def test_bad_requests_are_refused(call, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        call()


def test_the_box_of_one_column_with_levels_is_measured_on_its_levels() -> None:
    box = Box((0.0,), (1.0,), levels=(2,))
    given = rotate(quadrature(RBF(0.3), box, 15), 1e-6)
    assert given.features == 2  # a yes/no column has two values only
