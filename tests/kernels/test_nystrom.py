"""Nystrom maps: how close they come, what they never exceed, and how they and others travel."""

from __future__ import annotations

import base64
import json
from functools import cache

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    Kernel,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from discreet.kernels import (
    NystromFeatures,
    finite_features,
    nystrom_features,
    public_points,
)
from discreet.people.domain import Box, unit_cube
from discreet.validation import InvalidInput
from tests.kernels.cases import BOX, SLANTED, inside, received, sent

SQUARE = unit_cube(2)
MATERN = Matern(0.3, nu=2.5)


def grid(side: int) -> np.ndarray:
    line = np.linspace(0.0, 1.0, side)
    return np.column_stack([axis.ravel() for axis in np.meshgrid(line, line)])


def test_features_are_the_projection_onto_the_basis() -> None:
    given = nystrom_features(MATERN, SQUARE, error=0.1)
    x = inside(SQUARE, 200)
    cross, basis = MATERN(x, given.basis), MATERN(given.basis)
    phi = given.transform(x)
    np.testing.assert_allclose(phi @ phi.T, cross @ np.linalg.solve(basis, cross.T), atol=1e-9)


@pytest.mark.parametrize(
    ("kernel", "error", "most"), [(MATERN, 1e-2, 90), (MATERN, 1e-3, 180), (RBF(0.3), 1e-3, 45)]
)
def test_an_error_is_reached_between_the_sample_points_too(kernel, error, most) -> None:
    given = nystrom_features(kernel, SQUARE, error=error)
    assert given.features <= most
    x = inside(SQUARE, 5000, seed=7)
    assert given.residual(x).max() <= 1.1 * error
    assert given.residual(x).min() >= -1e-9
    phi = given.transform(x[:500])
    assert np.abs(kernel(x[:500]) - phi @ phi.T).max() <= 1.1 * error


def test_the_error_falls_as_features_are_added() -> None:
    residuals = [
        float(nystrom_features(MATERN, SQUARE, error=error).residual(grid(30)).max())
        for error in (0.3, 0.1, 0.03, 0.01)
    ]
    assert residuals == sorted(residuals, reverse=True)
    assert residuals[-1] <= 0.01
    # The greedy basis of a smaller error continues that of a larger one.
    few, many = (nystrom_features(MATERN, SQUARE, error=error) for error in (0.1, 0.03))
    np.testing.assert_array_equal(many.basis[: few.features], few.basis)


@pytest.mark.parametrize("kernel", [RBF(5.0), 3.0 * RBF([5.0, 9.0]), RBF(5.0) + RBF(4.0)])
def test_a_singular_kernel_matrix_lifts_no_norm_above_the_bound(kernel) -> None:
    basis = grid(15)
    assert np.linalg.cond(kernel(basis)) > 1e15
    x = inside(SQUARE, 10_000)
    given = nystrom_features(kernel, SQUARE, points=basis, error=1e-8)
    assert given.features < 30
    assert np.linalg.norm(given.transform(x), axis=1).max() <= given.norm_bound
    assert given.norm_bound == pytest.approx(np.sqrt(kernel.diag(x[:1])[0]), abs=1e-15)
    # An inversion without regard to rounding does exceed it, and is cut.
    careless = NystromFeatures(SQUARE, basis, np.linalg.inv(kernel(basis)), kernel)
    raw = kernel(x, basis) @ careless.coefficients
    assert np.linalg.norm(raw, axis=1).max() > 2.0 * given.norm_bound
    assert np.linalg.norm(careless.transform(x), axis=1).max() <= given.norm_bound


def test_hostile_coefficients_are_cut_and_overflowing_ones_refused() -> None:
    given = nystrom_features(RBF(0.5), SQUARE, error=0.1)
    x = inside(SQUARE, 100)
    for factor in (2.0, 1e90):
        grown = given.coefficients * factor
        norms = np.linalg.norm(NystromFeatures(SQUARE, given.basis, grown, RBF(0.5)).transform(x))
        assert norms <= np.sqrt(len(x))
    with pytest.raises(InvalidInput, match="at most 1e"):
        NystromFeatures(SQUARE, given.basis, given.coefficients * 1e101, RBF(0.5))


def test_the_bound_of_a_dot_product_is_that_of_the_farthest_corner() -> None:
    given = nystrom_features(DotProduct(0.5) + 2.0, SLANTED)
    assert given.features == 4
    assert given.norm_bound**2 == pytest.approx(0.25 + 9.0 + 6.25 + 100.0 + 2.0)
    assert np.abs(given.residual(inside(SLANTED, 100))).max() <= 1e-9


def test_boxes_with_levels_give_basis_points_on_their_levels() -> None:
    domain = Box((0.0, 0.0), (1.0, 1.0), levels=(3, 5))
    given = nystrom_features(MATERN, domain, error=1e-9)
    assert given.features == 15
    assert set(np.asarray(given.basis)[:, 0]) == {0.0, 0.5, 1.0}


def test_a_map_keeps_its_features_when_the_callers_kernel_changes() -> None:
    kernel = RBF(0.5)
    given = nystrom_features(kernel, SQUARE, error=0.1)
    x = inside(SQUARE, 10)
    before = given.transform(x)
    kernel.set_params(length_scale=2.0)
    np.testing.assert_array_equal(received(sent(given)).transform(x), before)
    np.testing.assert_array_equal(given.transform(x), before)
    for array in (given.basis, given.coefficients):
        assert not array.flags.writeable


class Uneven(Kernel):
    """A kernel of which nothing is known."""

    def __init__(self) -> None:
        pass

    def __call__(self, X, Y=None, eval_gradient=False):  # noqa: N803
        return np.outer(X[:, 0], (X if Y is None else Y)[:, 0])

    def diag(self, X):  # noqa: N803
        return X[:, 0] ** 2

    def is_stationary(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nystrom_features(MATERN, SQUARE, most_features=10), r"10 features reach 0\.\d"),
        (lambda: nystrom_features(Uneven(), SQUARE), "largest k.* is unknown"),
        (lambda: nystrom_features(RBF() + WhiteKernel(), SQUARE), "noise"),
        (lambda: nystrom_features(CompoundKernel([RBF()]), SQUARE), "not a similarity"),
        (lambda: nystrom_features("RBF", SQUARE), "scikit-learn"),
        (lambda: nystrom_features(RBF([1, 1, 1]), SQUARE), "length scale"),
        (lambda: nystrom_features(RBF(0.3) ** -1.0, SQUARE), "power"),
        (lambda: nystrom_features(RBF(0.3) ** 0.5 * ConstantKernel(0.0), SQUARE), "above 0"),
        (lambda: nystrom_features(RBF(), "square"), "Box"),
        (lambda: nystrom_features(RBF(), SQUARE, error=0.0), "error"),
        (lambda: nystrom_features(RBF(), SQUARE, points=[[0.5, 3.0]]), "declared bounds"),
        (lambda: nystrom_features(RBF(), SQUARE, most_features=0), "most_features"),
        (lambda: NystromFeatures(SQUARE, grid(2), np.eye(3), RBF()), r"shape \(b, m\) with b = 4"),
        (lambda: NystromFeatures(SQUARE, grid(2), np.eye(4), None), "scikit-learn"),
    ],
)
def test_what_is_refused_and_why(call, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        call()


def test_a_kernel_without_a_text_cannot_travel() -> None:
    given = nystrom_features(RationalQuadratic(), SQUARE, error=0.1)
    with pytest.raises(InvalidInput, match="has no text"):
        sent(given)
    # Others do without, but for their error.
    x = public_points(SQUARE, 32)
    spare = finite_features(RationalQuadratic(), SQUARE, x)
    back = received(sent(spare))
    assert back.kernel is None
    np.testing.assert_array_equal(back.transform(x), spare.transform(x))
    fields = sent(nystrom_features(RBF(0.5), BOX, error=0.1))
    with pytest.raises(InvalidInput, match="it must be text"):
        received({**fields, "kernel": None})


@cache
def large() -> dict:
    points = public_points(SQUARE, 256)
    return sent(finite_features(MATERN, SQUARE, points, error=1e-2))


def test_large_arrays_travel_compactly_and_bit_for_bit() -> None:
    fields = json.loads(json.dumps(large()))
    assert isinstance(fields["points"], list)
    assert set(fields["values"]) == {"shape", "float64"}
    given = received(fields)
    spelled_out = {**fields, "values": np.asarray(given.values).tolist()}
    listed = received(json.loads(json.dumps(spelled_out)))
    np.testing.assert_array_equal(given.transform(given.points), listed.transform(given.points))
    assert len(json.dumps(fields["values"])) < 0.6 * len(json.dumps(spelled_out["values"]))
    assert sent(listed) == fields
    small = sent(nystrom_features(RBF(0.5), SQUARE, error=0.1))
    numbers = base64.b64encode(np.array(small["coefficients"]).astype("<f8").tobytes()).decode()
    shape = list(np.shape(small["coefficients"]))
    packed = received({**small, "coefficients": {"shape": shape, "float64": numbers}})
    np.testing.assert_array_equal(packed.coefficients, small["coefficients"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": [3, 3]}, "each number takes 8 bytes"),
        ({"shape": [-1, -1]}, "bytes"),
        ({"shape": [10**12, 10**12]}, "bytes"),
        ({"shape": [0, 2**62], "float64": ""}, "damaged"),
        ({"shape": []}, "bytes"),
        ({"shape": "big"}, "shape"),
        ({"shape": [1.5, 2.0]}, "int64"),
        ({"float64": "not base64!"}, "base64"),
        ({"float64": "\u00e9"}, "base64"),
        ({"float64": 3}, "exactly shape"),
        ({"dtype": "<f4"}, "exactly shape"),
        (
            {"shape": [1, 1], "float64": base64.b64encode(np.array(np.nan).tobytes()).decode()},
            "shape",
        ),
        ({"shape": [1], "float64": base64.b64encode(np.array(1.0).tobytes()).decode()}, "shape"),
    ],
)
def test_damaged_compact_arrays_are_refused(change, message) -> None:
    fields = large()
    with pytest.raises(InvalidInput, match=message):
        received({**fields, "values": {**fields["values"], **change}})
