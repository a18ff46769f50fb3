"""What is known in public about contexts."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.codec import from_json, to_json
from discreet.learners.epochs.features import ContextDistribution
from discreet.people.domain import Box
from discreet.validation import InvalidInput

LEVELLED = Box((0.0, 20.0), (1.0, 60.0), (), (2, 3))
MIXED = Box((0.0, 20.0), (1.0, 60.0), (), (2, None))


def test_a_grid_has_all_combinations() -> None:
    made = ContextDistribution.grid(LEVELLED, [1, 2, 3, 4, 5, 5])
    assert made.points.tolist() == [[a, b] for a in (0.0, 1.0) for b in (0.0, 0.5, 1.0)]
    assert np.allclose(made.weights, np.array([1, 2, 3, 4, 5, 5]) / 20.0)
    assert made.exact
    assert made.places(np.array([[1.0, 0.5], [0.0, 0.0]])).tolist() == [4, 0]


def test_a_sample_counts_repeats() -> None:
    made = ContextDistribution.sample(MIXED, [[1.0, 40.0], [0.0, 20.0], [1.0, 40.0]])
    assert made.points.tolist() == [[0.0, 0.0], [1.0, 0.5]]
    assert np.allclose(made.weights, [1 / 3, 2 / 3])
    assert not made.exact
    made.check(np.array([[0.3, 0.3]]))


def test_finite_contexts_refuse_others() -> None:
    made = ContextDistribution.finite(MIXED, [[1.0, 40.0], [0.0, 30.0]])
    made.check(np.array([[1.0, 0.5]]))
    with pytest.raises(InvalidInput, match="not one of the 2 contexts"):
        made.check(np.array([[1.0, 0.5], [1.0, 0.25]]))


@pytest.mark.parametrize("domain", [LEVELLED, MIXED, Box((0.0,), (1.0,), (), (5000,))], ids=str)
def test_the_usual_one_is_uniform(domain: Box) -> None:
    made = ContextDistribution.usual(domain)
    assert made.exact == (domain is LEVELLED)
    assert made.weights.sum() == pytest.approx(1.0)
    assert np.allclose(made.weights @ made.points, 0.5, atol=0.02)
    domain.people_to_unit(domain.from_unit(made.points))


def test_what_a_study_file_says() -> None:
    counts = [1, 2, 3, 4, 5, 5]
    grid = ContextDistribution.grid(LEVELLED, counts)
    for given in ({"weights": counts}, to_json(grid), grid):
        read = ContextDistribution.read(LEVELLED, given)
        assert to_json(read) == to_json(grid)
    few = ContextDistribution.read(MIXED, {"points": [[0.0, 30.0], [1.0, 40.0]]})
    assert (few.exact, few.weights.tolist()) == (True, [0.5, 0.5])
    assert not ContextDistribution.read(MIXED, [[0.0, 30.0]]).exact
    assert ContextDistribution.read(LEVELLED, None).exact
    with pytest.raises(InvalidInput, match="had 2 columns"):
        ContextDistribution.read(Box((0.0,), (1.0,)), grid)


def test_the_nearest_point_is_found_on_grids_and_elsewhere() -> None:
    """Grids are searched column by column, other sets by a tree."""
    grid = ContextDistribution.grid(LEVELLED)
    order = np.random.default_rng(0).permutation(6)
    shuffled = ContextDistribution(grid.points[order], grid.weights, True)
    unit = np.random.default_rng(1).random((500, 2))
    for made in (grid, shuffled):
        away = np.abs(unit[:, None] - made.points[None]).max(axis=2)
        found = away[np.arange(500), made.places(unit)]
        assert (found <= away.min(axis=1) + 1e-12).all()


def test_it_travels() -> None:
    made = ContextDistribution.grid(LEVELLED, [1, 2, 3, 4, 5, 5])
    again = from_json(to_json(made), ContextDistribution)
    assert to_json(again) == to_json(made)
    with pytest.raises(ValueError, match="read-only"):
        again.weights[0] = 1.0


def test_many_contexts_that_are_the_same_are_refused_without_filling_the_memory() -> None:
    """Fault once found: all pairs of them were listed, 2 10^9 here."""
    with pytest.raises(InvalidInput, match="twice"):
        ContextDistribution(np.zeros((60_000, 1)), np.full(60_000, 1 / 60_000), True)
