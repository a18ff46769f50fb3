"""Cells of a public grid, and shares of arms."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.learners.baselines.cells.grid import MOST_CELLS, Grid, matching_shares
from discreet.people.domain import Box
from discreet.validation import InvalidInput

DOMAIN = Box((20.0, 0.0, 0.0), (60.0, 1.0, 4.0), ("age", "score", "grade"), (None, None, 5))


def test_parts_and_cuts() -> None:
    grid = Grid.of(DOMAIN, [[30, 50.0], 2, 1])
    assert (grid.parts, grid.cells) == ((3, 2, 1), 6)
    contexts = [[29.9, 0.0, 4.0], [30.0, 0.49, 0.0], [60.0, 0.5, 2.0]]
    places = grid.places(DOMAIN.to_unit(contexts))
    assert places.tolist() == [[0, 0, 0], [1, 0, 0], [2, 1, 0]]
    assert grid.cell(places).tolist() == [0, 2, 5]


@pytest.mark.parametrize(("parts", "expected"), [(2, [0, 0, 1, 1, 1]), (9, [0, 1, 2, 3, 4])])
def test_levels_are_cut_between_them_and_into_no_empty_parts(parts, expected) -> None:
    grid = Grid.of(DOMAIN, [1, 1, parts])
    levels = DOMAIN.to_unit([[20.0, 0.0, grade] for grade in range(5)])
    assert grid.places(levels)[:, 2].tolist() == expected


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([2, 2], "for each column, its number of parts"),
        ("4", "cells was '4'"),
        ([0, 2, 2], "the parts of 'age' was 0"),
        ([[50, 30], 1, 1], "must increase"),
        ([[10], 1, 1], "within its bounds"),
        ([[20], 1, 1], "within its bounds"),
        ([[float("nan")], 1, 1], "a cut of 'age'"),
        (64, f"at most {MOST_CELLS}"),
    ],
)
def test_cells_that_are_refused(cells: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Grid.of(DOMAIN, cells)  # type: ignore[arg-type]


def test_shares_go_from_equal_to_the_best_arm() -> None:
    nothing, zero = np.zeros((1, 3)), np.zeros(())
    np.testing.assert_allclose(matching_shares(nothing, nothing, zero), 1.0 / 3.0)
    counts = np.full((1, 3), 1e4)
    shares = matching_shares(counts * [0.5, 0.1, 0.5], counts, zero)
    np.testing.assert_allclose(shares, [[0.5, 0.0, 0.5]], atol=1e-9)
    noisy = matching_shares(counts * [0.5, 0.1, 0.5], counts, np.array(1e16))
    np.testing.assert_allclose(noisy, 1.0 / 3.0)
    # An arm of which hardly anything is known shares the people with the best one.
    few = matching_shares(np.array([[5e3, 1e3, 0.0]]), np.array([[1e4, 1e4, 0.0]]), zero)
    assert few[0, 2] > 0.05 > few[0, 1]
