"""One person's row: sensitivity against brute force, and exact sums."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np
import pytest

from discreet.kernels import feature_map, kernel_from_text
from discreet.kernels.grid import domain_grid
from discreet.learners.gp_ucb.policy import (
    MOST_PEOPLE,
    RESOLUTION,
    SYMMETRIC,
    UNIT,
    RowWeights,
    exact_product,
    rounded,
)
from discreet.learners.gp_ucb.public.learner import (
    informative_directions,
    unit_direction_norm,
    unit_directions,
)
from discreet.learners.gp_ucb.sets.learner import exact_sums
from discreet.learners.gp_ucb.sets.policy import (
    row_sensitivity,
    single_rows,
    symmetric,
    triangle,
    triangle_weights,
)
from discreet.people.domain import PublicBox, PublicSet, unit_cube
from discreet.privacy.calibration import in_unit_ball

WEIGHTS = [
    RowWeights(rewards=c, off_diagonal=w, centre=centre, with_squares=squares)
    for c in (0.1, 1.0, 2.0, 2.5, 4.0)
    for w in (SYMMETRIC, 1.0)
    for centre in (0.5, 0.3)
    for squares in (True, False)
]


COSINES = [*np.linspace(-1.0, 1.0, 11), -0.125, -0.245, -0.5, -0.78]


def at_angle(cosine: float, features: int, rng: np.random.Generator) -> np.ndarray:
    """Two unit vectors with that inner product, in random directions."""
    if features == 1:
        return np.array([[1.0], [1.0 if cosine >= 0.0 else -1.0]])
    basis, _ = np.linalg.qr(rng.normal(size=(features, 2)))
    return np.stack([basis[:, 0], cosine * basis[:, 0] + math.sqrt(1.0 - cosine**2) * basis[:, 1]])


def rewards_of(weights: RowWeights) -> list[float]:
    """Centred rewards at the bounds and inside."""
    low, high = -weights.centre, 1.0 - weights.centre
    return [low, high, 0.0, 0.5 * low, 0.6 * high, max(low, min(high, 0.01))]


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
def test_no_pair_of_people_is_further_apart(weights: RowWeights) -> None:
    """All pairs of rewards, angles from k = -1 to 1 and norms up to 1, in 1 to 8 dimensions."""
    rng = np.random.default_rng(1)
    rewards = np.array(list(product(rewards_of(weights), repeat=2)))
    largest = 0.0
    for features in (1, 2, 8):
        bound = row_sensitivity(features, weights)
        for cosine, long, short in product(COSINES, (1.0, 0.8), (1.0, 0.5, 0.0)):
            one, two = at_angle(float(cosine), features, rng)
            a = single_rows(np.tile(long * one, (len(rewards), 1)), rewards[:, 0], weights)
            b = single_rows(np.tile(short * two, (len(rewards), 1)), rewards[:, 1], weights)
            moved = float(np.linalg.norm(a - b, axis=1).max())
            assert moved <= bound * (1.0 + 1e-12)
            largest = max(largest, moved / bound)
    if weights.off_diagonal == SYMMETRIC:
        assert largest > 0.99, "the docstring says that it is attained"


@pytest.mark.parametrize("centre", [0.5, 0.3, 1.0 / 3.0, 0.9])
def test_rounding_is_paid_for(centre: float) -> None:
    """Vectors whose entries, and bounds whose ends, are all rounded outwards.

    Fault once found: b was not rounded upwards, and the bound was too small with few features.
    """
    weights = RowWeights(rewards=4.0, centre=centre)
    for features in (1, 2, 3, 4, 8):
        entry = 1.0 / math.sqrt(features)
        # The largest vector of norm at most 1 whose entries all end on a half: rounded upwards.
        entry = (math.floor(entry * RESOLUTION - 0.5) + 0.5 + 1e-6) / RESOLUTION
        assert entry * math.sqrt(features) <= 1.0
        ends = np.array([-weights.centre, 1.0 - weights.centre])
        phi = np.full((1, features), entry)
        for one, two in product(ends, repeat=2):
            a = single_rows(phi, np.array([one]), weights)
            b = single_rows(-phi, np.array([two]), weights)
            assert np.linalg.norm(a - b) <= row_sensitivity(features, weights)


class TestExactness:
    def test_products_equal_those_of_python_integers(self) -> None:
        rng = np.random.default_rng(2)
        top = int(RESOLUTION)
        for people in (1, 7, 2**17 + 1):
            left = rng.integers(-top, top + 1, size=(people, 2)).astype(np.float64)
            left[:, 0] = top  # every product as large as can be, all of one sign
            total = exact_product(left, left)
            columns = [[int(x) for x in left[:, i]] for i in range(2)]
            for i, j in ((0, 0), (0, 1), (1, 1)):
                expected = sum(a * b for a, b in zip(columns[i], columns[j], strict=True))
                assert int(total[i, j]) == expected

    def test_sums_do_not_depend_on_order_or_grouping(self) -> None:
        rng = np.random.default_rng(3)
        phi = in_unit_ball(rng.normal(size=(500, 5)))
        y = rng.random(500) - 0.5
        total = exact_sums(phi, y)
        assert total.dtype == np.int64
        order = rng.permutation(500)
        parts = [exact_sums(phi[order[a:b]], y[order[a:b]]) for a, b in pairwise((0, 3, 250, 500))]
        assert np.array_equal(sum(parts), total)

    def test_sums_are_those_of_single_rows(self) -> None:
        """What is released for many people is the sum of what one person would send."""
        rng = np.random.default_rng(4)
        weights = RowWeights(rewards=2.5)
        phi, y = in_unit_ball(rng.normal(size=(40, 4))), rng.random(40) - 0.5
        scale = np.concatenate([triangle_weights(4, SYMMETRIC), [2.5] * 4, [weights.squares]])
        together = exact_sums(phi, y) * UNIT * scale
        assert np.allclose(together, single_rows(phi, y, weights).sum(axis=0), rtol=1e-12)

    def test_the_largest_number_of_people_fits_into_64_bits(self) -> None:
        top = int(RESOLUTION)
        assert 2 * MOST_PEOPLE * top * top < 2**63

    def test_triangles_and_matrices(self) -> None:
        rows, columns = triangle(3)
        full = np.arange(9.0).reshape(3, 3)
        full = full + full.T
        assert np.array_equal(symmetric(full[rows, columns], 3), full)

    def test_rounding_moves_no_entry_by_more_than_half_a_unit(self) -> None:
        values = np.random.default_rng(5).normal(size=1000)
        assert np.abs(rounded(values) / RESOLUTION - values).max() <= 0.5 / RESOLUTION


@pytest.mark.parametrize("kind", ["box", "set", "groups", "one point"])
def test_public_rows_move_no_further_than_they_say(kind: str) -> None:
    """All pairs of rewards on a grid, at every public point, with the entry for y^2."""
    domain = unit_cube(2)
    space: PublicBox | PublicSet = PublicBox()
    kernel = "RBF(length_scale=0.4)"
    if kind == "groups":
        kernel = "Additive(RBF(length_scale=0.4))"
    if kind == "set":
        space = PublicSet.of(np.random.default_rng(0).random((15, 2)))
    if kind == "one point":
        space = PublicSet.of([[0.3, 0.3]])
    features = feature_map(kernel_from_text(kernel), domain, error=1e-2)
    grid = domain_grid(features, features.norm_bound or 1.0, space)
    rng = np.random.default_rng(0)
    sizes = [len(group.grid) for group in grid.groups]
    places = np.stack([rng.integers(size, size=400) for size in sizes], axis=1)
    y = np.linspace(-0.5, 0.5, 41)
    one, two = (side.ravel() for side in np.meshgrid(y, y))
    bound = unit_direction_norm(grid.size)
    weight = 2.0 * bound
    for probabilities in (
        [np.full(size, 1.0 / size) for size in sizes],
        [rng.dirichlet(np.full(size, 0.02)) for size in sizes],
        [np.eye(size)[size // 2] for size in sizes],
        [0.5 * (np.eye(size)[0] + np.eye(size)[-1]) for size in sizes],
    ):
        wide = np.diag(rng.gamma(1.0, size=grid.size))
        asked = informative_directions(grid.moments(probabilities), wide, 50.0, 1.0)
        s = unit_directions(grid.psi(places), asked) / RESOLUTION
        assert np.isfinite(s).all()
        lengths = (s**2).sum(axis=1)
        moved = lengths[:, None] * (one - two) ** 2 + weight**2 * (one**2 - two**2) ** 2
        assert np.sqrt(moved.max()) <= bound
        assert np.sqrt(moved.max()) >= bound * 0.99
