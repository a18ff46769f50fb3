"""Projections: how much further apart they can carry two rows, exactly and in floating point."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.outsourcing.bounds import GRID
from discreet.outsourcing.mechanisms import RowProjection
from discreet.validation import InvalidInput
from tests.outsourcing.cases import KINDS, projection

kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
@pytest.mark.parametrize(("columns", "kept"), [(1, 1), (3, 3), (5, 2), (40, 7), (200, 20)])
def test_the_gain_is_how_much_the_longest_direction_is_lengthened(
    kind: str, columns: int, kept: int
) -> None:
    drawn = projection(columns, kept, kind, seed=columns)
    directions = np.random.default_rng(1).standard_normal((2000, columns))
    directions = np.vstack([directions, np.eye(columns), drawn.matrix.T])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    assert np.linalg.norm(directions @ drawn.matrix, axis=1).max() <= drawn.gain
    # The longest one is found by iterating, not by a singular value decomposition.
    direction, square = directions[0], drawn.matrix @ drawn.matrix.T
    for _ in range(3000):
        direction = square @ direction
        direction /= np.linalg.norm(direction)
    assert np.linalg.norm(direction @ drawn.matrix) == pytest.approx(drawn.gain, rel=1e-6)


def test_the_gain_is_rounded_up() -> None:
    """In fractions: the longest image of a unit vector is no longer than the gain."""
    for matrix in ([[0.1], [0.2]], [[3.0, 4.0]], [[1e-9], [1e9]]):
        square = sum(Fraction(entry) ** 2 for row in matrix for entry in row)
        assert Fraction(RowProjection(np.array(matrix)).gain) ** 2 >= square


def test_columns_are_orthonormal_but_for_their_length() -> None:
    drawn = projection(30, 6)
    np.testing.assert_allclose(drawn.matrix.T @ drawn.matrix, 5.0 * np.eye(6), atol=1e-12)
    assert drawn.gain == pytest.approx(math.sqrt(5.0), rel=1e-10)
    assert projection(6, 6).gain == pytest.approx(1.0, rel=1e-10)
    # Of independent entries about 1 + sqrt(d / r), as large matrices have it.
    assert projection(800, 200, "gaussian").gain == pytest.approx(1.0 + 2.0, rel=0.03)


@kinds
@pytest.mark.parametrize("kept", [1, 4, 11, 12])
def test_lengths_are_kept_on_average_and_noise_is_not_lowered(kind: str, kept: int) -> None:
    """Noise has the scale gain x radius / mu on each of `kept` numbers: a total variance of
    kept x gain^2 against 12 without projection, while squared distances stay as they are on
    average and become uncertain besides."""
    vector = np.ones(12)
    drawn = [projection(12, kept, kind, seed) for seed in range(400)]
    totals = np.array([kept * each.gain**2 for each in drawn])
    squares = np.array([np.square(vector @ each.matrix).sum() for each in drawn])
    assert abs(squares.mean() - 12.0) < 5.0 * squares.std() / math.sqrt(len(squares)) + 1e-9
    assert totals.mean() >= 12.0 * 0.95
    if kind == "orthonormal":
        np.testing.assert_allclose(totals, 12.0, rtol=1e-9)
    spread = squares.std() / 12.0
    assert spread > 0.1 if (kept, kind) != (12, "orthonormal") else spread < 1e-9


@kinds
@pytest.mark.parametrize(("columns", "kept"), [(2, 1), (40, 7), (150, 3)])
@pytest.mark.parametrize("extent", [1.0, 4096.0])
def test_computed_images_against_fractions(
    kind: str, columns: int, kept: int, extent: float
) -> None:
    drawn = projection(columns, kept, kind, seed=3)
    rows = np.round(np.random.default_rng(6).random((6, columns)) * extent / GRID) * GRID
    rows[4] = extent
    # A row whose first image nearly cancels is the hardest for relative errors.
    rows[5] = np.where(drawn.matrix[:, 0] > 0.0, extent, 0.0)
    bound = Fraction(drawn.rounding(np.full(columns, extent)))
    assert drawn.rounding(np.full(columns, 3.0 * extent)) == pytest.approx(3.0 * float(bound))
    exact = [
        [
            sum(Fraction(x) * Fraction(m) for x, m in zip(row, column, strict=True))
            for column in drawn.matrix.T
        ]
        for row in rows
    ]
    # Together and alone: how a product is computed may depend on how many rows there are.
    for images in (rows @ drawn.matrix, np.vstack([row[None] @ drawn.matrix for row in rows])):
        errors = [
            [Fraction(got) - want for got, want in zip(image, wants, strict=True)]
            for image, wants in zip(images.tolist(), exact, strict=True)
        ]
        worst = max(
            sum((a - b) ** 2 for a, b in zip(one, two, strict=True))
            for one in errors
            for two in errors
        )
        assert 0 < worst <= bound**2
    assert float(bound) < 1e-9 * extent


@kinds
def test_images_lie_in_the_box_and_reach_its_sides(kind: str) -> None:
    drawn, extent = projection(4, 2, kind, seed=9), np.array([1.0, 5.0, 0.2, 3.0])
    low, high = drawn.box(extent)
    corners = np.stack(np.meshgrid(*[[0.0, e] for e in extent]), axis=-1).reshape(-1, 4)
    images = corners @ drawn.matrix
    np.testing.assert_allclose(images.min(axis=0), low, rtol=1e-12)
    np.testing.assert_allclose(images.max(axis=0), high, rtol=1e-12)


def test_a_projection_cannot_be_changed() -> None:
    source = np.ones((3, 2))
    for matrix in (RowProjection(source).matrix, source):
        with pytest.raises(ValueError, match="read-only"):
            matrix[0, 0] = 5.0


@pytest.mark.parametrize("kept", [0, -1, 4, 1.5, True, None])
def test_bad_numbers_of_columns(kept: object) -> None:
    with pytest.raises(InvalidInput, match="number of projected columns"):
        RowProjection.draw(3, kept, np.random.default_rng(0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "matrix", [np.ones(3), np.empty((0, 2)), np.array([[math.nan]]), np.ones((1, 1, 1))]
)
def test_bad_matrices(matrix: np.ndarray) -> None:
    with pytest.raises(InvalidInput, match="matrix had"):
        RowProjection(matrix)
