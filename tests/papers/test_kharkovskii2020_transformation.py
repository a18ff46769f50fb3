"""Algorithm 1 of Kharkovskii et al. (2020): formulas, distances, and that it promises nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from discreet.papers.kharkovskii2020.data_sets import synthetic
from discreet.papers.kharkovskii2020.published import (
    REASON,
    RandomProjection,
    centred,
)
from discreet.validation import FloatArray, InvalidInput

RNG = np.random.default_rng(0)
ROWS = RNG.normal(3.0, [8.0, 5.0], (60, 2))


def squared_distances(points: FloatArray) -> FloatArray:
    gaps = points[:, None] - points[None, :]
    return np.square(gaps).sum(axis=2)[np.triu_indices(len(points), 1)]


def test_omega() -> None:
    by_hand = 16.0 * math.sqrt(10.0) * math.log(2e5) * math.log(160.0 / 1e-5) / math.exp(1.1)
    algorithm = RandomProjection(math.exp(1.1), 1e-5, 10)
    assert algorithm.omega == pytest.approx(by_hand)
    assert algorithm.omega == pytest.approx(3410.0, abs=0.5)
    assert RandomProjection(2.0, 1e-5, 10).omega == pytest.approx(by_hand * math.exp(1.1) / 2.0)


def test_no_table_of_the_papers_size_has_such_singular_values() -> None:
    # The squares of two singular values add up to at most n times the largest squared norm.
    most = 25.0 * math.sqrt(10_000 / 2.0)
    assert most == pytest.approx(1768.0, abs=0.5)
    assert np.linalg.svd(synthetic().rows, compute_uv=False).min() < most
    assert RandomProjection(math.exp(1.1), 1e-5, 10).taken(synthetic().rows) == "else"


def test_the_branch_if_is_a_random_projection_of_the_centred_rows() -> None:
    algorithm = RandomProjection(1.0, 1e-5, 7, branch="if")
    points = algorithm.release(ROWS, np.random.default_rng(5))
    drawn = np.random.default_rng(5).standard_normal((2, 7))
    assert np.allclose(points, (ROWS - ROWS.mean(axis=0)) @ drawn / math.sqrt(7.0))


def test_the_branch_else_lifts_singular_values() -> None:
    algorithm = RandomProjection(1.0, 1e-5, 7, branch="else")
    middle = ROWS - ROWS.mean(axis=0)
    left, values, right = np.linalg.svd(middle)
    diagonal = np.zeros((60, 2))
    np.fill_diagonal(diagonal, np.sqrt(values**2 + algorithm.omega**2))
    lifted = left @ diagonal @ right
    assert np.allclose(algorithm.prepared(ROWS), lifted)
    points = algorithm.release(ROWS, np.random.default_rng(5))
    drawn = np.random.default_rng(5).standard_normal((2, 7))
    assert np.allclose(points, lifted @ drawn / math.sqrt(7.0))
    # What the proof overlooks: the covariance of a column is X X' + omega^2 U U', of rank d.
    thin = left[:, :2]
    assert np.allclose(lifted @ lifted.T, middle @ middle.T + algorithm.omega**2 * thin @ thin.T)
    assert np.linalg.matrix_rank(lifted @ lifted.T) == 2


def test_as_stated_the_smallest_singular_value_decides() -> None:
    algorithm = RandomProjection(1.0, 1e-5, 10)
    assert algorithm.taken(ROWS) == "else"
    least = np.linalg.svd(centred(ROWS), compute_uv=False).min()
    assert algorithm.taken(ROWS * algorithm.omega / least * 1.001) == "if"
    assert algorithm.taken(ROWS * algorithm.omega / least * 0.999) == "else"
    assert RandomProjection(1.0, 1e-5, 10, branch="if").taken(ROWS) == "if"


def test_distances_are_kept_by_one_branch_and_bounded_in_the_other() -> None:
    # Theorem 2 with many columns: nu is about 4 / sqrt(r).
    true = squared_distances(ROWS)
    rng = np.random.default_rng(6)
    kept = squared_distances(RandomProjection(1.0, 1e-5, 2000, branch="if").release(ROWS, rng))
    assert (np.abs(kept / true - 1.0) < 0.15).all()
    algorithm = RandomProjection(200.0, 1e-5, 2000, branch="else")
    least = np.linalg.svd(centred(ROWS), compute_uv=False).min()
    most = 1.0 + algorithm.omega**2 / least**2
    ratios = squared_distances(algorithm.release(ROWS, rng)) / true
    assert ratios.min() > 0.85
    assert ratios.max() < 1.15 * most
    assert ratios.max() > 2.0


def test_columns_lie_in_the_column_space_of_the_table() -> None:
    basis = np.linalg.svd(centred(ROWS), full_matrices=False)[0]
    for branch in ("if", "else"):
        algorithm = RandomProjection(3.0, 1e-5, 10, branch=branch)  # type: ignore[arg-type]
        points = algorithm.release(ROWS, np.random.default_rng(7))
        outside = points - basis @ (basis.T @ points)
        assert np.linalg.norm(outside) < 1e-12 * np.linalg.norm(points)


def test_nothing_is_promised() -> None:
    algorithm = RandomProjection(math.exp(1.1), 1e-5, 10)
    guarantee = algorithm.guarantee()
    assert guarantee.trust_model == "none"
    assert guarantee.epsilon == math.inf
    assert guarantee.adjacency.radius == 1.0
    assert guarantee.sentence.startswith("No privacy is promised")
    assert "column space" in REASON


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 1e-5, 10), "epsilon"),
        ((1.0, 1.0, 10), "delta"),
        ((1.0, 1e-5, 0), "columns"),
        ((1.0, 1e-5, 10, "other"), "as stated, if, else"),
    ],
)
def test_bad_input_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        RandomProjection(*arguments)


def test_rows_without_a_number_are_refused() -> None:
    with pytest.raises(InvalidInput, match="NaN"):
        RandomProjection(1.0, 1e-5, 10).release([[0.0, math.nan], [1.0, 2.0]], RNG)
