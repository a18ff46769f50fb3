"""The published release is broken with certainty; ours stays below what is certified."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from discreet.audit.trials import attack
from discreet.lab.experiments.engine import Row, Seed
from discreet.papers.kharkovskii2020.published import (
    ATTACKS,
    LARGEST_ERROR,
    LIKELIHOOD_RATIO,
    LOWER_BOUND,
    RECONSTRUCTION,
    SUBSPACE,
    RandomProjection,
    Taken,
    attacked,
    best_threshold,
    centred,
    column_space,
    distinguish,
    example,
    likelihood_ratio,
    neighbour,
    noisy,
    projected,
    reconstructed,
    subspace_score,
)
from discreet.validation import InvalidInput

BRANCHES: tuple[Taken, ...] = ("if", "else")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_neighbours_differ_in_one_row_by_1() -> None:
    rows = example("else", 12, rng())
    gap = neighbour(rows) - rows
    assert np.linalg.norm(gap) == pytest.approx(1.0)
    assert np.flatnonzero(gap.any(axis=1)).tolist() == [0]


@pytest.mark.parametrize("branch", BRANCHES)
def test_examples_take_their_branch_as_stated(branch: Taken) -> None:
    algorithm = RandomProjection(math.exp(1.1), 1e-5, 10)
    rows = example(branch, 40, rng(3))
    assert algorithm.taken(rows) == algorithm.taken(neighbour(rows)) == branch
    if branch == "else":
        assert np.linalg.norm(rows, axis=1).max() == pytest.approx(25.0)


@pytest.mark.parametrize("branch", BRANCHES)
def test_a_batch_of_releases_is_algorithm_1(branch: Taken) -> None:
    algorithm = RandomProjection(math.exp(1.1), 1e-5, 10)
    rows = example(branch, 9, rng(1))
    (batch,) = projected(algorithm)(rows, 1, rng(2))
    assert np.allclose(batch, algorithm.release(rows, rng(2)))


@pytest.mark.parametrize("branch", BRANCHES)
def test_the_published_release_is_broken_with_certainty(branch: Taken) -> None:
    (row,) = attacked(Seed(4, 0), SUBSPACE, branch, math.exp(1.1), 300)
    assert (row["true_positive_rate"], row["false_positive_rate"]) == (1.0, 0.0)
    # More than the 3.0 that is claimed, by 300 trials alone.
    assert row["mean"] > row["epsilon"] > 3.0
    assert row["true_epsilon"] == math.inf


def test_the_certainty_does_not_depend_on_which_row_moves_nor_where() -> None:
    algorithm = RandomProjection(math.exp(1.1), 1e-5, 10)
    draws = rng(5)
    for _ in range(5):
        rows = draws.normal(0.0, 8.0, (20, 3))
        moved = rows.copy()
        step = draws.standard_normal(3)
        moved[draws.integers(20)] += 0.1 * step / np.linalg.norm(step)
        score = subspace_score(centred(rows), centred(moved))
        row = distinguish(rows, moved, projected(algorithm), score, 40, 1e-5, draws)
        assert (row.true_positives, row.false_positives) == (40, 0)


@pytest.mark.parametrize("branch", BRANCHES)
def test_three_known_rows_give_away_all_others(branch: Taken) -> None:
    (row,) = attacked(Seed(6, 0), RECONSTRUCTION, branch, math.exp(1.1), 1)
    assert row["metric"] == LARGEST_ERROR
    assert row["mean"] < 1e-9


def test_reconstruction_works_in_more_dimensions() -> None:
    rows = rng(7).normal(10.0, 4.0, (200, 4))
    points = RandomProjection(2.0, 1e-4, 6).release(rows, rng(8))
    assert np.abs(reconstructed(points, rows[:5]) - rows).max() < 1e-9


def test_reconstruction_needs_enough_rows_in_general_position() -> None:
    rows = rng(7).normal(size=(9, 2))
    points = RandomProjection(2.0, 1e-4, 6).release(rows, rng(8))
    with pytest.raises(InvalidInput, match="give 3 rows"):
        reconstructed(points, rows[:2])
    with pytest.raises(InvalidInput, match="one plane"):
        reconstructed(points, np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]))


def test_the_likelihood_ratio_by_hand() -> None:
    rows = example("else", 5, rng(9))
    moved, scale = neighbour(rows), 0.7
    releases = noisy(scale)(rows, 6, rng(10))
    density = [
        [-np.square(release - table).sum() / (2.0 * scale**2) for table in (rows, moved)]
        for release in releases
    ]
    by_hand = [first - second for first, second in density]
    assert np.allclose(likelihood_ratio(rows, moved, scale)(releases), by_hand)
    # Under X it is normal with mean mu^2 / 2 and variance mu^2, mu = 1 / scale.
    many = likelihood_ratio(rows, moved, scale)(noisy(scale)(rows, 4000, rng(11)))
    assert many.mean() == pytest.approx(0.5 / scale**2, abs=0.08)
    assert many.std() == pytest.approx(1.0 / scale, rel=0.05)


def test_a_basis_spans_the_columns() -> None:
    table = rng(12).normal(size=(8, 3))
    basis = column_space(table)
    assert np.allclose(basis.T @ basis, np.eye(3))
    assert np.allclose(basis @ (basis.T @ table), table)


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
@pytest.mark.parametrize("name", [SUBSPACE, LIKELIHOOD_RATIO])
def test_our_release_stays_below_what_is_certified(epsilon: float, name: str) -> None:
    (row,) = attacked(Seed(13, 0), name, None, epsilon, 1500)
    assert row["true_epsilon"] == pytest.approx(epsilon)
    assert 0.0 < row["mean"] < epsilon


def test_all_attacks_are_recorded() -> None:
    records = ATTACKS.plan(60).results().records
    assert len(records) == 4 + 2 * 3
    assert {record["metric"] for record in records} == {LOWER_BOUND, LARGEST_ERROR}
    for record in records:
        published = record["method"] == "published"
        assert record["trust_model"] == ("none" if published else "outsourced")
        assert math.isinf(record["true_epsilon"]) is published
        if record["metric"] == LOWER_BOUND:
            assert record["trials"] == 60
            assert record["true_positive_rate"] <= 1.0
    branches = [record["branch"] for record in records if record["method"] == "published"]
    assert branches == ["if", "else", "if", "else"]

    def proved(rows: Sequence[Row]) -> list[float]:
        return [row["mean"] for row in rows]

    # The same seed gives the same findings.
    assert proved(ATTACKS.plan(60).results().records) == proved(records)
    with pytest.raises(InvalidInput, match="trials"):
        ATTACKS.plan(1)


def test_the_threshold_parts_scores_that_do_not_overlap() -> None:
    generator = rng(2)
    for size in (2, 7, 300):
        high, low = 1e-6 + generator.random(size), -1e-6 - generator.random(size)
        found = attack(high, low, best_threshold(high, low, 1e-5), 1e-5)
        assert (found.true_positives, found.false_positives) == (size, 0)
        assert (found.true_positive_rate, found.false_positive_rate) == (1.0, 0.0)


def test_a_gaussian_shift_is_found_and_not_overestimated() -> None:
    # Two normal laws at distance 2: mu = 2, epsilon = 10.97 at delta = 1e-5.
    generator = rng(3)
    first, second = generator.normal(2.0, 1.0, (2, 4000)), generator.normal(0.0, 1.0, (2, 4000))
    threshold = best_threshold(first[0], second[0], 1e-5)
    assert 2.0 < attack(first[1], second[1], threshold, 1e-5).epsilon < 10.97
