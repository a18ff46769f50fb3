"""Quadrature against numpy's Gauss-Hermite and known errors; random features against the kernel."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.polynomial.hermite import hermgauss, hermval
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern

from discreet.kernels import FourierFeatures, public_points, quadrature_features, random_features
from discreet.kernels.compose import RotatedFeatures, principal_axes, rotate
from discreet.kernels.fourier import hermite_rule, rule_error, smallest_rule, trapezoid_rule
from discreet.people.domain import Box, unit_cube
from discreet.validation import InvalidInput
from tests.kernels.cases import BOX, inside


def ball() -> np.ndarray:
    """Points of the disc of radius 2, its rim included."""
    angle = np.linspace(0.0, 2.0 * np.pi, 24, endpoint=False)
    radius = np.sqrt(np.linspace(0.0, 1.0, 25)) * (2.0 - 1e-12)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    return np.unique(np.vstack([r * circle for r in radius]), axis=0)


@pytest.mark.parametrize("n", [1, 2, 5, 8, 14])
def test_hermite_weights_are_the_right_formula_not_the_misprinted_one(n) -> None:
    nodes, weights = hermite_rule(n)
    h = hermval(nodes / math.sqrt(2.0), np.eye(n)[n - 1])
    formula = 2.0 ** (n - 1) * math.factorial(n) * math.sqrt(math.pi) / (n * h) ** 2
    np.testing.assert_allclose(formula / math.sqrt(math.pi), weights, rtol=1e-9)
    np.testing.assert_array_equal(nodes, math.sqrt(2.0) * hermgauss(n)[0])


@pytest.mark.parametrize(
    ("nodes", "error"), [(8, 0.18), (10, 0.035), (12, 4.5e-3), (14, 4.2e-4), (16, 3e-5)]
)
def test_gauss_hermite_errors_on_the_ball_of_radius_2(nodes, error) -> None:
    hermite = quadrature_features(RBF(1.0), BOX, nodes, rule="hermite")
    assert hermite.sup_error(ball()) == pytest.approx(error, rel=0.05)
    assert hermite.features <= nodes**2
    # The trapezoid rule is far better at the same size.
    assert quadrature_features(RBF(1.0), BOX, nodes).sup_error(ball()) < 0.1 * error


@pytest.mark.parametrize(("error", "low", "high"), [(1e-2, 19, 23), (1e-3, 28, 34), (1e-4, 38, 46)])
def test_rotation_needs_few_axes_on_the_ball(error, low, high) -> None:
    base = quadrature_features(RBF(1.0), BOX, 20)
    turned = rotate(base, error, points=ball())
    assert low <= turned.features <= high
    assert turned.sup_error(ball()) <= error
    assert turned.norm_bound == 1.0
    # One axis fewer is not enough: bisection found the smallest.
    fewer = RotatedFeatures(base, turned.axes[:, :-1])
    assert fewer.sup_error(ball()) > error


def test_rotation_holds_between_its_points_and_shortens_everywhere() -> None:
    base = quadrature_features(RBF(1.0), BOX, 17)
    turned = rotate(base, 1e-3)
    assert turned.sup_error(seed=11) < 1.5e-3
    far = np.random.default_rng(0).uniform(-50, 50, size=(5000, 2))
    assert np.linalg.norm(turned.compute(far), axis=1).max() <= 1 + 1e-13
    mean = (turned.transform(public_points(BOX)) ** 2).mean(axis=0)
    assert (np.diff(mean) <= 0.0).all(), "the longest axis first"


def test_axes_by_the_small_matrix_agree_with_those_by_svd() -> None:
    base = random_features(RBF(1.0), BOX, 300, seed=1)
    points = inside(BOX, 40)[:60]
    axes = principal_axes(base, points)
    phi = base.compute(points)
    expected = np.linalg.svd(phi, compute_uv=False)
    lengths = np.linalg.norm(phi @ axes, axis=0)
    np.testing.assert_allclose(lengths[:20], expected[:20], rtol=1e-8)
    np.testing.assert_allclose(axes.T @ axes, np.eye(axes.shape[1]), atol=1e-12)


def test_unreachable_rotation_says_what_is_reached() -> None:
    with pytest.raises(InvalidInput, match=r"reaches 0\.\d+ with all its"):
        rotate(quadrature_features(RBF(1.0), BOX, 4), 1e-6)


@pytest.mark.parametrize("kernel", [RBF([0.7, 3.0]), Matern(1.0, nu=0.5), Matern(2.0, nu=2.5)])
@pytest.mark.parametrize("nodes", [6, 9])
def test_the_norm_is_one_far_outside_the_box(kernel, nodes) -> None:
    given = quadrature_features(kernel, BOX, nodes, prune=1e-4)
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
    given = quadrature_features(Matern(0.25, nu=nu), unit_cube(1), nodes)
    assert given.sup_error() == pytest.approx(rule_error(rule, nu, 4.0), rel=0.1)
    assert given.features == nodes


@pytest.mark.parametrize(("nu", "error"), [(math.inf, 1e-5), (2.5, 1e-3), (0.5, 2e-2)])
def test_the_smallest_rule_is_smallest(nu, error) -> None:
    nodes, weights = smallest_rule(nu, 1.0 / 0.3, error)
    assert rule_error((nodes, weights), nu, 1.0 / 0.3) <= error
    fewer = trapezoid_rule(len(nodes) - 1, nu, 1.0 / 0.3)
    assert rule_error(fewer, nu, 1.0 / 0.3) > error


def test_matern_in_two_columns_is_the_product_form_and_says_so() -> None:
    given = quadrature_features(Matern([0.5, 1.0], nu=2.5), unit_cube(2), 31)
    x = inside(unit_cube(2), 30)
    product = Matern(0.5, nu=2.5)(x[:, :1]) * Matern(1.0, nu=2.5)(x[:, 1:])
    np.testing.assert_allclose(given.kernel(x), product, atol=1e-14)
    assert given.sup_error() < 5e-3
    assert np.abs(product - Matern([0.5, 1.0], nu=2.5)(x)).max() > 0.02


@pytest.mark.parametrize("kernel", [RBF([0.5, 1.0]), Matern(1.0, nu=1.5), Matern(0.7, nu=0.5)])
def test_random_features_are_unbiased_and_isotropic(kernel) -> None:
    x = inside(BOX, 12)[:20]
    maps = [random_features(kernel, BOX, 200, seed=s) for s in range(200)]
    grams = np.array([m.transform(x) @ m.transform(x).T for m in maps])
    standard_error = grams.std(axis=0) / np.sqrt(len(maps)) + 1e-12
    z = (grams.mean(axis=0) - kernel(x)) / standard_error
    assert np.abs(z).max() < 5.0
    assert all(m.norm_bound == 1.0 for m in maps)
    np.testing.assert_allclose(np.diagonal(grams, axis1=1, axis2=2), 1.0, atol=1e-13)


def test_the_frequency_zero_has_no_sine_and_pairs_are_merged() -> None:
    odd = quadrature_features(RBF(1.0), unit_cube(2), 5, rule="hermite", prune=0.0)
    assert odd.features == 25
    even = quadrature_features(RBF(1.0), unit_cube(2), 4, rule="hermite", prune=0.0)
    assert even.features == 16


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: quadrature_features(DotProduct(), BOX, 5), "RBF and Matern"),
        (lambda: quadrature_features(RBF([1.0, 1.0, 1.0]), BOX, 5), "3 length scales for 2"),
        (lambda: quadrature_features(RBF(1.0), BOX, (5, 5, 5)), "nodes had 3"),
        (lambda: quadrature_features(RBF(1.0), BOX, 0), "nodes"),
        (lambda: quadrature_features(RBF(1.0), BOX, 5, rule="simpson"), "'trapezoid'"),
        (lambda: quadrature_features(Matern(1.0), BOX, 5, rule="hermite"), "'hermite' for an RBF"),
        (lambda: quadrature_features(RBF(1.0), unit_cube(9), 9), "frequencies"),
        (lambda: random_features(RBF(1.0), BOX, 7), "even number"),
        (lambda: FourierFeatures(BOX, [[1.0, 2.0]], [0.0]), "above 0"),
        (lambda: FourierFeatures(BOX, [[1.0]], [1.0]), "shape"),
        (lambda: hermite_rule(1000), "1 to 180"),
    ],
)
def test_bad_requests_are_refused(call, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        call()


def test_the_box_of_one_column_with_levels_is_measured_on_its_levels() -> None:
    box = Box((0.0,), (1.0,), levels=(2,))
    given = rotate(quadrature_features(RBF(0.3), box, 15), 1e-6)
    assert given.features == 2  # a yes/no column has two values only
