"""From scikit-learn kernels to maps: each supported kernel, and what is refused and why."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from discreet.kernels import (
    Additive,
    AdditiveFeatures,
    feature_map,
    finite_features,
    public_points,
    scaled,
)
from discreet.kernels.base import sub_box
from discreet.kernels.compose import RotatedFeatures
from discreet.people.domain import Box, unit_cube
from discreet.validation import InvalidInput
from tests.kernels.cases import BOX, inside, quadrature

SQUARE = unit_cube(2)
CUBE = unit_cube(4)
KERNELS = {
    "rbf": RBF(0.35),
    "anisotropic": RBF([0.2, 1.0]),
    "scaled": 0.3 * RBF(0.5),
    "sum": RBF(0.5) + 0.5 * RBF(1.0) + 0.2,
    "linear": DotProduct(0.5),
    "square": DotProduct(0.5) ** 2,
    "product": RBF(0.8) * DotProduct(1.0),
    "merged": RBF(0.5) * RBF([0.5, 1.0]) * 2.0,
    "power": RBF(0.9) ** 2,
    "root": RBF(0.9) ** 0.5,
    "rational": RationalQuadratic(1.0, 2.0),
    "additive": Additive(Matern(0.5, nu=2.5)),
    "additive plus": 2.0 * Additive([RBF(0.5), RBF(0.2)]) + 0.5 * DotProduct(0.1),
    "one column": Additive(RBF(0.3), [(1,)]) * Additive(RBF(0.7), [(0,)]),
}


@pytest.mark.parametrize("name", KERNELS)
def test_every_supported_kernel_is_met_within_the_error(name) -> None:
    kernel = KERNELS[name]
    given = feature_map(kernel, SQUARE, error=2e-3)
    x = inside(SQUARE, 300)
    phi = given.transform(x)
    assert np.abs(kernel(x) - phi @ phi.T).max() <= 2.4e-3
    assert np.linalg.norm(phi, axis=1).max() <= given.norm_bound * (1 + 1e-13)
    assert given.norm_bound**2 <= kernel.diag(public_points(SQUARE)).max() * 1.01


def test_twenty_columns_have_few_features() -> None:
    given = feature_map(Additive(RBF(0.25)), unit_cube(20))
    assert given.sup_error() <= 1e-3
    x = inside(unit_cube(20), 1000)
    phi = given.transform(x)
    assert given.features <= 20 * 12
    assert len(given.groups) == 20
    assert given.norm_bound == 1.0
    assert np.abs(Additive(RBF(0.25))(x) - phi @ phi.T).max() <= 1e-3


def test_groups_of_several_columns_keep_their_own_features() -> None:
    kernel = Additive([RBF(0.5), Matern(0.5, nu=2.5)], [(2, 0), (3,)])
    given = feature_map(kernel, CUBE, error=1e-2)
    assert [group.columns for group in given.groups] == [(2, 0), (3,)]
    x = inside(CUBE, 50)
    moved = x.copy()
    moved[:, 3] = 0.5
    place = given.groups[0].features
    np.testing.assert_array_equal(given.transform(x)[:, place], given.transform(moved)[:, place])


def test_rotation_and_explicit_points_save_features() -> None:
    plain = quadrature(RBF(0.5), SQUARE, 7)
    turned = feature_map(RBF(0.5), SQUARE, error=plain.sup_error())
    assert turned.features < plain.features
    turned = feature_map(RBF(0.5), SQUARE)
    line = np.column_stack([np.linspace(0, 1, 50), np.full(50, 0.5)])
    narrow = feature_map(RBF(0.5), SQUARE, points=line)
    assert narrow.features < turned.features
    assert narrow.sup_error(line) <= 1e-3


def test_finite_maps_are_exact_for_any_kernel() -> None:
    points = inside(SQUARE, 150)
    points = np.unique(points, axis=0)
    for kernel in (Matern(0.3, nu=1.5), 3.0 * RBF(0.5) + DotProduct(1.0), RBF([0.1, 2.0])):
        given = finite_features(kernel, SQUARE, points, error=1e-10)
        phi = given.transform(points)
        assert np.abs(kernel(points) - phi @ phi.T).max() < 1e-8
        assert given.norm_bound <= np.sqrt(kernel.diag(points).max())
        assert np.linalg.norm(phi, axis=1).max() <= given.norm_bound


def test_a_finite_map_knows_its_points_only() -> None:
    points = public_points(SQUARE, 32)
    given = finite_features(RBF(0.5), SQUARE, points)
    near = points[[3, 1]] * (1 - 1e-13)
    np.testing.assert_array_equal(given.transform(near), given.transform(points)[[3, 1]])
    with pytest.raises(InvalidInput, match="not one of the"):
        given.transform([[0.123, 0.456]])
    # Where a refusal would tell something, others have no features, whoever is among them.
    mixed = given.compute(np.vstack([points[:4], [[0.123, 0.456], [9.0, 9.0]], points[4:]]))
    np.testing.assert_array_equal(np.delete(mixed, [4, 5], axis=0), given.transform(points))
    assert not mixed[4:6].any()
    for composed in (
        AdditiveFeatures(SQUARE, [((0, 1), given, 1.0)]),
        scaled(given, 2.0),
        RotatedFeatures(given, np.eye(given.features)),
    ):
        with pytest.raises(InvalidInput, match="not one of the"):
            composed.transform([[0.123, 0.456]])
    with pytest.raises(InvalidInput, match="were equal"):
        finite_features(DotProduct(), SQUARE, [[0.1, 0.1], [0.1, 0.1]])
    with pytest.raises(InvalidInput, match="5 features reach"):
        finite_features(Matern(0.1, nu=0.5), SQUARE, points, most_features=5)


@pytest.mark.parametrize(
    ("sigma", "degree", "features"),
    [(0.0, 1, 2), (0.0, 2, 3), (0.0, 3, 4), (0.7, 1, 3), (0.7, 2, 6), (0.7, 3, 10)],
)
def test_polynomial_features_are_exact_and_as_few_as_monomials(sigma, degree, features) -> None:
    x = inside(BOX, 100)
    given = feature_map(DotProduct(sigma) ** degree, BOX)
    phi = given.transform(x)
    np.testing.assert_allclose(phi @ phi.T, (sigma**2 + x @ x.T) ** degree, atol=1e-9)
    assert given.features == features
    # The longest is that of a corner.
    assert given.norm_bound == pytest.approx((sigma**2 + 8.0) ** (degree / 2))
    assert np.linalg.norm(phi, axis=1).max() == pytest.approx(given.norm_bound)


def test_linear_features_are_exact_whatever_the_units() -> None:
    """A projection onto points lost the small columns beside an income in dollars."""
    wide = Box((0.0, 0.0, 0.0), (1e6, 1.0, 50.0))
    given = feature_map(DotProduct(1.0), wide)
    x = inside(wide, 50)
    x[:, 0] = 0.0
    phi = given.transform(x)
    assert np.abs(DotProduct(1.0)(x) - phi @ phi.T).max() <= 1e-11
    # Where a projection is all there is, and rounding forbids the error, that is said.
    with pytest.raises(InvalidInput, match="features reach"):
        feature_map(DotProduct(1.0) ** 2 * RBF(1e6), wide)


def test_scaling_a_map_scales_its_kernel_error_and_groups() -> None:
    plain = feature_map(Additive(RBF(0.5)), SQUARE)
    given = scaled(plain, 4.0)
    x = inside(SQUARE, 30)
    np.testing.assert_array_equal(given.transform(x), 2.0 * plain.transform(x))
    assert given.norm_bound == 2.0 * plain.norm_bound
    assert given.error_range() == tuple(4.0 * end for end in plain.error_range())
    assert given.kernel == 4.0 * plain.kernel
    assert [group.columns for group in given.groups] == [(0,), (1,)]
    assert scaled(plain, 1.0) is plain


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: feature_map(RBF(0.3) + WhiteKernel(), SQUARE), "noise is not part"),
        (lambda: feature_map(RBF(0.3) ** -0.5, SQUARE), "power of a kernel was -0.5"),
        (lambda: feature_map("RBF(0.3)", SQUARE), "scikit-learn kernels"),
        (lambda: feature_map(RBF([1, 1, 1]), SQUARE), "length scales"),
        (lambda: feature_map(RBF(0.0), SQUARE), "above 0"),
        (lambda: feature_map(Matern(1e-4, nu=0.5), unit_cube(1)), "2049 nodes do not reach"),
        (lambda: feature_map(DotProduct(1.0) ** 10, unit_cube(20)), "at most 20000"),
        (lambda: feature_map(Additive("RBF"), SQUARE), "or a list of them"),
        (lambda: quadrature(RBF(1.0), SQUARE, 3000), "1 to 2049"),
        (lambda: feature_map(RBF(0.3), "square"), "Box"),
        (lambda: feature_map(RBF(0.3), SQUARE, error=0.0), "error"),
        (lambda: feature_map(RBF(0.3), SQUARE, points=[[0.5, 2.0]]), "declared bounds"),
        (lambda: feature_map(Additive(RBF(0.3), [(0, 5)]), SQUARE), "from 0 to 1"),
        (lambda: feature_map(Additive([RBF(0.3)]), SQUARE), "1 kernels for 2 groups"),
        (lambda: feature_map(ConstantKernel(0.0) * RBF(1.0), SQUARE), "above 0"),
        (lambda: feature_map(RBF(0.5), unit_cube(12)), "frequencies"),
        (lambda: sub_box(SQUARE, (0, 0)), "each once"),
    ],
)
def test_what_is_refused_and_why(call, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        call()


def test_an_error_out_of_reach_names_the_one_within() -> None:
    with pytest.raises(InvalidInput, match=r"with at most 10 features; \d+ features reach 0\.\d+"):
        feature_map(RBF(0.3), SQUARE, most_features=10)


def test_additive_is_a_scikit_learn_kernel_whose_parts_are_constants() -> None:
    x = inside(CUBE, 12)[:15]
    kernel = Additive([RBF(0.5), 2.0 * Matern(0.7, nu=1.5)], [(0, 3), (1,)])
    one, two = RBF(0.5)(x[:, [0, 3]]), 2.0 * Matern(0.7, nu=1.5)(x[:, [1]])
    np.testing.assert_allclose(kernel(x), 0.5 * (one + two))
    np.testing.assert_allclose(np.diag(kernel(x)), kernel.diag(x))
    assert kernel.is_stationary()
    model = GaussianProcessRegressor(2.0 * Additive(RBF(0.5)), alpha=1e-2).fit(x, x.sum(axis=1))
    assert np.abs(model.predict(x) - x.sum(axis=1)).max() < 0.1
    assert model.kernel_.k2 == Additive(RBF(0.5))
