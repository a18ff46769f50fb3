"""Synthetic problems: the laws of contexts and the mean rewards have the paper's values."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.lab.environments.base import People
from discreet.lab.environments.synthetic import (
    BetaContexts,
    CornerContexts,
    ExponentialMeans,
    UniformContexts,
    exponential,
    symmetric,
    symmetric_means,
)
from discreet.validation import InvalidInput

MANY = 200_000


def uniform_regret(people: People) -> float:
    """Regret a person when arms are drawn uniformly: the average over arms, exactly."""
    assert people.means is not None
    return float((people.means.max(axis=1) - people.means.mean(axis=1)).mean())


@pytest.mark.parametrize("problem", [exponential(), exponential(5, 3, "paper"), symmetric()])
def test_sample_has_the_promised_shapes(problem, rng) -> None:
    people = problem.sample(50, rng)
    assert len(people) == 50
    assert people.contexts.shape == (50, problem.domain.dimension)
    assert people.rewards.shape == people.means.shape == (50, problem.arms)
    assert set(np.unique(people.rewards)) <= {0.0, 1.0}
    assert people.rewards.dtype == np.float64
    assert problem.metric == "regret"
    assert problem.size is None
    problem.domain.to_unit(people.contexts)


def test_samples_repeat_with_the_seed() -> None:
    first = exponential().sample(20, np.random.default_rng(3))
    again = exponential().sample(20, np.random.default_rng(3))
    np.testing.assert_array_equal(first.contexts, again.contexts)
    np.testing.assert_array_equal(first.rewards, again.rewards)


def test_rewards_follow_the_means(rng) -> None:
    people = exponential().sample(MANY, rng)
    error = people.rewards.mean(axis=0) - people.means.mean(axis=0)
    assert np.abs(error).max() < 5 * 0.5 / np.sqrt(MANY)


def test_uniform_choice_costs_what_the_paper_prints(rng) -> None:
    assert uniform_regret(exponential().sample(MANY, rng)) == pytest.approx(0.414, abs=0.003)
    assert uniform_regret(symmetric().sample(MANY, rng)) == pytest.approx(1 / 6, abs=0.003)


def test_people_value_is_regret_of_the_chosen_arms(rng) -> None:
    people = symmetric().sample(10, rng)
    best = people.means.argmax(axis=1)
    np.testing.assert_array_equal(people.value_of(best), np.zeros(10))
    worst = people.value_of(1 - best[4:7], start=4)
    np.testing.assert_allclose(worst, np.ptp(people.means[4:7], axis=1))


@pytest.mark.parametrize(
    ("centres", "peaks"), [("paper", (1 / 3, 2 / 3, 1.0)), ("program", (0.25, 0.5, 0.75))]
)
def test_exponential_arms_peak_at_their_centres(centres, peaks) -> None:
    means = ExponentialMeans(3, centres)(np.array([[x, 0.9] for x in peaks]))
    np.testing.assert_allclose(np.diag(means), 1.0)
    e = np.exp(-2 * 9 * (peaks[0] - peaks[1]) ** 2)
    assert means[0, 1] == pytest.approx(2 * e / (1 + e))


def test_symmetric_arms_win_opposite_quarters() -> None:
    middles = np.array([[0.25, 0.25], [0.75, 0.75], [0.25, 0.75], [0.75, 0.25]])
    np.testing.assert_allclose(symmetric_means(middles)[:, 1], [1, 1, 0, 0])
    corners = np.array([[0.0, 0.0], [0.5, 0.3], [1.0, 0.2]])
    np.testing.assert_allclose(symmetric_means(corners), 0.5)


def test_uniform_contexts(rng) -> None:
    contexts = UniformContexts(2)(MANY, rng)
    np.testing.assert_allclose(contexts.mean(axis=0), 0.5, atol=0.005)


def test_beta_contexts_have_their_mean_and_variance(rng) -> None:
    contexts = BetaContexts(((2.0, 5.0), (1.0, 1.0)))(MANY, rng)
    np.testing.assert_allclose(contexts.mean(axis=0), [2 / 7, 0.5], atol=0.005)
    np.testing.assert_allclose(contexts.var(axis=0), [10 / (49 * 8), 1 / 12], atol=0.002)


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_corner_contexts_have_their_density(dimension, gamma, rng) -> None:
    """On a grid, cell counts match the integral of ||x - 1/2||_inf^gamma over the cell."""
    cells, fine = 4, 40  # `fine` midpoints along each axis, for the integral
    contexts = CornerContexts(dimension, gamma)(MANY, rng)
    assert contexts.min() >= 0.0
    assert contexts.max() <= 1.0
    found, _ = np.histogramdd(contexts, bins=cells, range=[(0.0, 1.0)] * dimension)
    axes = np.meshgrid(*[(np.arange(fine) + 0.5) / fine] * dimension)
    points = np.stack([axis.ravel() for axis in axes], axis=1)
    density = np.abs(points - 0.5).max(axis=1) ** gamma
    expected, _ = np.histogramdd(
        points, bins=cells, range=[(0.0, 1.0)] * dimension, weights=density / density.sum()
    )
    spread = np.sqrt(expected * (1 - expected) / MANY)
    assert (np.abs(found / MANY - expected) < 5 * spread + 1e-3).all()


def test_corner_contexts_without_gamma_are_uniform_in_radius(rng) -> None:
    radius = 2 * np.abs(CornerContexts(2, 0.0)(MANY, rng) - 0.5).max(axis=1)
    assert (radius**2).mean() == pytest.approx(0.5, abs=0.005)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ExponentialMeans(3, "middle"), "centres was 'middle'"),
        (lambda: exponential(arms=1), "arms was 1"),
        (lambda: exponential(dimension=0), "dimension was 0"),
        (lambda: CornerContexts(2, -1.0), "gamma was -1.0"),
        (lambda: CornerContexts(2, float("nan")), "gamma was nan"),
        (lambda: BetaContexts(((0.0, 1.0),)), "Beta shape was 0.0"),
        (lambda: symmetric().sample(0, np.random.default_rng(0)), "rounds was 0"),
    ],
)
def test_refusals(make, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()
