"""Projections: how much further apart they can carry two rows, exactly and in floating point."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.outsourcing.bounds import GRID
from discreet.outsourcing.release import KINDS, ProjectionKind, RowProjection
from discreet.validation import InvalidInput

SHAPES = [(1, 1), (3, 3), (5, 2), (40, 7), (200, 20)]


def projection(
    columns: int, kept: int, kind: ProjectionKind = "orthonormal", seed: int = 0
) -> RowProjection:
    return RowProjection.draw(columns, kept, np.random.default_rng(seed), kind)


class TestGain:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(("columns", "kept"), SHAPES)
    def test_no_direction_is_lengthened_by_more(
        self, kind: ProjectionKind, columns: int, kept: int
    ) -> None:
        drawn = projection(columns, kept, kind, seed=columns)
        rng = np.random.default_rng(1)
        directions = rng.standard_normal((20_000, columns))
        directions = np.vstack([directions, np.eye(columns), drawn.matrix.T])
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        lengths = np.linalg.norm(directions @ drawn.matrix, axis=1)
        assert lengths.max() <= drawn.gain

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(("columns", "kept"), SHAPES)
    def test_some_direction_is_lengthened_by_as_much(
        self, kind: ProjectionKind, columns: int, kept: int
    ) -> None:
        """Found by iterating, not by a singular value decomposition."""
        drawn = projection(columns, kept, kind, seed=columns)
        direction = np.random.default_rng(2).standard_normal(columns)
        square = drawn.matrix @ drawn.matrix.T
        for _ in range(3000):
            direction = square @ direction
            direction /= np.linalg.norm(direction)
        assert np.linalg.norm(direction @ drawn.matrix) == pytest.approx(drawn.gain, rel=1e-6)

    def test_the_gain_is_rounded_up(self) -> None:
        """In fractions: the longest image of a unit vector is no longer than the gain."""
        for matrix in ([[0.1], [0.2]], [[3.0, 4.0]], [[1e-9], [1e9]]):
            square = sum(Fraction(entry) ** 2 for row in matrix for entry in row)
            assert Fraction(RowProjection(np.array(matrix)).gain) ** 2 >= square

    def test_what_kinds_promise(self) -> None:
        drawn = projection(30, 6)
        gram = drawn.matrix.T @ drawn.matrix
        np.testing.assert_allclose(gram, 5.0 * np.eye(6), atol=1e-12)
        assert drawn.gain == pytest.approx(math.sqrt(5.0), rel=1e-10)
        assert projection(6, 6).gain == pytest.approx(1.0, rel=1e-10)
        # About 1 + sqrt(d / r), as large matrices have it.
        entries = projection(800, 200, "gaussian")
        assert entries.matrix.std() == pytest.approx(1.0 / math.sqrt(200.0), rel=0.01)
        assert entries.gain == pytest.approx(1.0 + 2.0, rel=0.03)


class TestNoise:
    @pytest.mark.parametrize("kind", KINDS)
    def test_lengths_are_kept_on_average(self, kind: ProjectionKind) -> None:
        rng = np.random.default_rng(4)
        vector = rng.random(12)
        squares = [
            float(np.square(vector @ RowProjection.draw(12, 3, rng, kind).matrix).sum())
            for _ in range(4000)
        ]
        error = np.std(squares) / math.sqrt(len(squares))
        assert abs(np.mean(squares) - vector @ vector) < 5.0 * error

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("kept", [1, 4, 11, 12])
    def test_a_projection_does_not_lower_noise_beside_distances(
        self, kind: ProjectionKind, kept: int
    ) -> None:
        """Noise has the scale gain x radius / mu on each of `kept` numbers: a total variance of
        kept x gain^2 against 12 without projection, while squared distances stay as they are on
        average and become uncertain besides."""
        rng = np.random.default_rng(5)
        vector = np.ones(12)
        totals, squares = [], []
        for _ in range(300):
            drawn = RowProjection.draw(12, kept, rng, kind)
            totals.append(kept * drawn.gain**2)
            squares.append(float(np.square(vector @ drawn.matrix).sum()))
        assert np.mean(totals) >= 12.0 * 0.95
        if kind == "orthonormal":
            np.testing.assert_allclose(totals, 12.0, rtol=1e-9)
        spread = np.std(squares) / 12.0
        assert spread > 0.1 if (kept, kind) != (12, "orthonormal") else spread < 1e-9


class TestRounding:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(("columns", "kept"), [(2, 1), (40, 7), (150, 3)])
    @pytest.mark.parametrize("extent", [1.0, 4096.0])
    def test_computed_images_against_fractions(
        self, kind: ProjectionKind, columns: int, kept: int, extent: float
    ) -> None:
        drawn = projection(columns, kept, kind, seed=3)
        rng = np.random.default_rng(6)
        rows = np.round(rng.random((6, columns)) * extent / GRID) * GRID
        rows[4] = extent
        # A row whose first image nearly cancels is the hardest for relative errors.
        rows[5] = np.where(drawn.matrix[:, 0] > 0.0, extent, 0.0)
        extents = np.full(columns, extent)
        bound = Fraction(drawn.rounding(extents))
        exact = [
            [
                sum(Fraction(x) * Fraction(m) for x, m in zip(row, drawn.matrix[:, k], strict=True))
                for k in range(kept)
            ]
            for row in rows
        ]
        # Together and alone: how a product is computed may depend on how many rows there are.
        for images in (drawn.apply(rows), np.vstack([drawn.apply(row[None]) for row in rows])):
            errors = [
                [Fraction(got) - want for got, want in zip(image, wants, strict=True)]
                for image, wants in zip(images.tolist(), exact, strict=True)
            ]
            worst = max(
                sum((a - b) ** 2 for a, b in zip(one, two, strict=True))
                for one in errors
                for two in errors
            )
            assert worst <= bound**2
            assert worst > 0
        assert float(bound) < 1e-9 * extent

    def test_the_bound_grows_with_the_table(self) -> None:
        drawn = projection(10, 4)
        one, more = drawn.rounding(np.ones(10)), drawn.rounding(np.full(10, 3.0))
        assert more == pytest.approx(3.0 * one)


class TestBox:
    @pytest.mark.parametrize("kind", KINDS)
    def test_images_lie_in_the_box_and_reach_its_sides(self, kind: ProjectionKind) -> None:
        drawn = projection(4, 2, kind, seed=9)
        extent = np.array([1.0, 5.0, 0.2, 3.0])
        low, high = drawn.box(extent)
        inner = drawn.apply(np.random.default_rng(0).random((5000, 4)) * extent)
        assert ((inner >= low) & (inner <= high)).all()
        corners = np.stack(np.meshgrid(*[[0.0, e] for e in extent]), axis=-1).reshape(-1, 4)
        images = drawn.apply(corners)
        np.testing.assert_allclose(images.min(axis=0), low, rtol=1e-12)
        np.testing.assert_allclose(images.max(axis=0), high, rtol=1e-12)


class TestDrawing:
    def test_the_same_seed_gives_the_same_projection(self) -> None:
        np.testing.assert_array_equal(projection(9, 4).matrix, projection(9, 4).matrix)
        assert (projection(9, 4).matrix != projection(9, 4, seed=1).matrix).any()

    def test_a_projection_cannot_be_changed(self) -> None:
        source = np.ones((3, 2))
        made = RowProjection(source)
        for matrix in (source, made.matrix):
            with pytest.raises(ValueError, match="read-only"):
                matrix[0, 0] = 5.0
        assert made.matrix[0, 0] == 1.0

    @pytest.mark.parametrize("kept", [0, -1, 4, 1.5, True, None])
    def test_bad_numbers_of_columns(self, kept: object) -> None:
        with pytest.raises(InvalidInput, match="number of projected columns"):
            RowProjection.draw(3, kept, np.random.default_rng(0))  # type: ignore[arg-type]

    def test_bad_kinds_and_matrices(self) -> None:
        with pytest.raises(InvalidInput, match="projection was 'sparse'"):
            RowProjection.draw(3, 2, np.random.default_rng(0), "sparse")  # type: ignore[arg-type]
        for matrix in (np.ones(3), np.empty((0, 2)), np.array([[math.nan]]), np.ones((1, 1, 1))):
            with pytest.raises(InvalidInput, match="matrix had"):
                RowProjection(matrix)
