"""Features of contexts with arms, held against the kernels themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from discreet.codec import from_json, to_json
from discreet.kernels import kernel_from_text
from discreet.learners.epochs.features import (
    ArmFeatures,
    CodedFeatures,
    ContextDistribution,
    GridFeatures,
    MapFeatures,
    arm_features,
    feature_box,
    joint_box,
    usual_kernel,
)
from discreet.people.domain import Box, unit_cube
from discreet.validation import InvalidInput

from .cases import DOMAIN, DOSES, GRID, SMOOTH

ERROR = 0.01
KERNELS = ["RBF([0.5, 0.7])", "0.5 * RBF([0.5, 0.7])", "Matern([1.0, 2.0], nu=2.5)"]


def pairs_of(contexts: np.ndarray) -> np.ndarray:
    """(n 4, 2) contexts with doses."""
    return np.hstack([np.repeat(contexts, 4, axis=0), np.tile(DOSES.array, (len(contexts), 1))])


def made_for(domain: Box, arms: Any, kernel: str, likeness: float = 0.4) -> Any:
    contexts = ContextDistribution.sample(domain, GRID)
    if domain is DOMAIN:
        contexts = ContextDistribution.grid(domain)
    return arm_features(domain, arms, contexts, kernel=kernel, error=ERROR, likeness=likeness)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("domain", [DOMAIN, SMOOTH], ids=["levels", "continuum"])
def test_arm_points_are_compared_by_the_kernel(domain: Box, kernel: str) -> None:
    made = made_for(domain, DOSES, kernel)
    assert isinstance(made, GridFeatures if domain is DOMAIN else MapFeatures)
    phi = made.all(GRID).reshape(-1, made.features)
    # (On a continuum a Matern kernel of two columns is the product of one for each.)
    meant = kernel_from_text(kernel) if domain is DOMAIN else made.map.kernel
    exact = meant(pairs_of(GRID))
    # Features are scaled such that none is longer than 1.
    assert np.allclose(phi @ phi.T, exact / exact.max(), atol=2.5 * ERROR / exact.max())
    assert np.linalg.norm(phi, axis=1).max() <= 1.0 + 1e-12


@pytest.mark.parametrize("likeness", [0.0, 0.4, 0.99])
@pytest.mark.parametrize("domain", [DOMAIN, SMOOTH], ids=["levels", "continuum"])
def test_arms_without_an_order_are_equally_alike(domain: Box, likeness: float) -> None:
    made = made_for(domain, 4, "RBF(0.5)", likeness)
    assert isinstance(made, GridFeatures if domain is DOMAIN else CodedFeatures)
    phi = made.all(GRID).reshape(-1, made.features)
    alike = likeness * np.ones((4, 4)) + (1.0 - likeness) * np.eye(4)
    exact = np.kron(kernel_from_text("RBF(0.5)")(GRID), alike)
    assert np.allclose(phi @ phi.T, exact, atol=2.5 * ERROR)


@pytest.mark.parametrize("space", [DOSES, 4], ids=["points", "codes"])
@pytest.mark.parametrize("domain", [DOMAIN, SMOOTH], ids=["levels", "continuum"])
def test_one_arm_is_a_row_of_all_and_features_travel(domain: Box, space: Any) -> None:
    made = made_for(domain, space, "RBF(0.5)")
    arms = np.array([3, 0, 2, 1, 1])
    assert np.allclose(made.at(GRID, arms), made.all(GRID)[np.arange(5), arms], atol=1e-15)
    again = from_json(to_json(made), ArmFeatures)
    assert to_json(again) == to_json(made)
    assert np.array_equal(again.table, made.table)
    assert np.array_equal(again.at(GRID, arms), made.at(GRID, arms))
    assert [some.stop for some in made.portions(10)][-1] >= 10


def test_tables_are_shared_and_cannot_be_changed() -> None:
    one, two = (made_for(DOMAIN, DOSES, KERNELS[0]) for _ in range(2))
    assert one is two
    with pytest.raises(ValueError, match="read-only"):
        one.table[0, 0, 0] = 9.0


def test_a_table_of_any_norm_is_shortened() -> None:
    contexts = ContextDistribution.grid(DOMAIN)
    values = np.zeros((5, 2, 2))
    values[0] = [[3.0, 4.0], [1e200, 1e200]]
    values[1] = [[1.0 + 2.0**-52, 0.0], [0.6, 0.8]]
    made = GridFeatures(contexts, values)
    assert made.values[0, 0].tolist() == pytest.approx([0.6, 0.8])
    assert np.isfinite(made.values).all()
    assert np.linalg.norm(made.values, axis=2).max() <= 1.0 + 1e-12
    again = GridFeatures(contexts, made.values.copy())
    assert np.array_equal(again.values, made.values)


@pytest.mark.parametrize(
    ("columns", "arms"),
    [(2, 4), (5, 4), (5, DOSES)],
    ids=["two columns", "five columns", "five columns and arm points"],
)
def test_features_fit_any_number_of_columns(
    monkeypatch: pytest.MonkeyPatch, columns: int, arms: Any
) -> None:
    """Fault once found: features of five columns took 86 seconds to be refused."""
    computed = 0
    kernel = RBF.__call__

    def counted(self: RBF, left: Any, right: Any = None, **options: Any) -> Any:
        nonlocal computed
        computed += len(left) * len(left if right is None else right)
        return kernel(self, left, right, **options)

    monkeypatch.setattr(RBF, "__call__", counted)
    domain = unit_cube(columns)
    box = feature_box(domain, arms)
    # A length scale of its own, which no other test has left in the cache.
    chosen = RBF([0.31] * box.dimension)
    contexts = ContextDistribution.usual(domain)
    made = arm_features(domain, arms, contexts, kernel=chosen, error=0.001, likeness=0.5)
    assert made.features <= 600
    assert computed < 20e6
    x = np.random.default_rng(0).random((50, columns))
    phi = made.all(x).reshape(-1, made.features)
    exact = 1.0 - (phi**2).sum(axis=1)
    assert exact.min() > -1e-9
    if columns == 2:
        assert made.residual <= 0.001
    else:
        # Between the points that were looked at it may be a little more.
        assert 0.01 < exact.max() < min(1.0, 1.2 * made.residual)


def test_a_finite_set_has_no_more_features_than_can_be_computed_with() -> None:
    domain = Box((0.0,) * 4, (1.0,) * 4, levels=(6, 6, 6, 6))
    contexts = ContextDistribution.usual(domain)
    made = arm_features(domain, 3, contexts, kernel="RBF(0.3)", error=1e-4, likeness=0.5)
    assert isinstance(made, GridFeatures)
    assert made.features == 600
    assert 0.001 < made.residual < 1.0
    lost = 1.0 - (made.table**2).sum(axis=2)
    assert lost.max() == pytest.approx(made.residual, rel=1e-6)


def test_the_joint_box() -> None:
    box = joint_box(SMOOTH, np.array([[0.0, 5.0], [2.0, 7.0]]))
    assert box.names == ("context", "arm1", "arm2")
    assert (box.lower, box.upper) == ((0.0, 0.0, 5.0), (1.0, 2.0, 7.0))
    with pytest.raises(InvalidInput, match="column 1; leave that column out"):
        joint_box(SMOOTH, np.array([[0.0, 5.0], [2.0, 5.0]]))
    with pytest.raises(InvalidInput, match="own name"):
        joint_box(Box((0.0,), (1.0,), ("arm1",)), DOSES.array)


def test_the_usual_kernel_knows_the_units() -> None:
    kernel = usual_kernel(Box((0.0, 20.0), (1.0, 60.0)))
    assert isinstance(kernel, RBF)
    assert np.allclose(kernel.length_scale, [0.3, 12.0])
