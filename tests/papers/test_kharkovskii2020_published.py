"""Algorithm 1 of Kharkovskii et al. (2020) and attacks on it.

Its formulas and distances are those of the paper, it promises nothing, and its release is broken
with certainty; ours stays below its certificate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from discreet.audit.trials import attack
from discreet.lab.experiments.engine import Row, Seed
from discreet.papers.kharkovskii2020.data_sets import synthetic
from discreet.papers.kharkovskii2020.published import (
    ATTACKS,
    LARGEST_ERROR,
    LIKELIHOOD_RATIO,
    LOWER_BOUND,
    REASON,
    RECONSTRUCTION,
    SUBSPACE,
    RandomProjection,
    Taken,
    attacked,
    best_threshold,
    centred,
    distinguish,
    example,
    likelihood_ratio,
    neighbour,
    noisy,
    projected,
    reconstructed,
    subspace_score,
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


BRANCHES: tuple[Taken, ...] = ("if", "else")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RandomProjection(0.0, 1e-5, 10), "epsilon"),
        (lambda: RandomProjection(1.0, 1.0, 10), "delta"),
        (lambda: RandomProjection(1.0, 1e-5, 0), "columns"),
        (lambda: RandomProjection(1.0, 1e-5, 10, "other"), "as stated, if, else"),
        (
            lambda: RandomProjection(1.0, 1e-5, 10).release([[0.0, math.nan], [1.0, 2.0]], RNG),
            "NaN",
        ),
        (lambda: reconstructed(ROWS, ROWS[:2]), "give 3 rows"),
        (lambda: reconstructed(ROWS, np.array([[k, k] for k in range(3)])), "one plane"),
        (lambda: ATTACKS.plan(1), "trials"),
    ],
)
def test_bad_input_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        call()
