"""The surfaces of the zoo: what is paid, to whom, and what choosing blindly costs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from discreet.lab.environments.base import People
from discreet.lab.environments.catalog import load_problem
from discreet.lab.environments.surfaces import SURFACES, cut_lognormal_mean, wave_means
from discreet.lab.environments.synthetic import ExponentialMeans
from discreet.validation import InvalidInput

MANY = 100_000
# Regret of uniform choice and of the best fixed arm for a person, by hand or by integration.
COSTS = {
    "waves": (0.2365, 0.2364),
    "checker": (0.3, 0.3 * (1 - 1 / 35)),
    "diagonal": (0.3, 0.3),
    "strip": (0.15, 0.03),
    "three_points": (1 / 3, 0.25),
    "corner": (0.4139, 0.3838),
    "few_columns": (0.331, 0.3305),
    "gaps": (0.05, 0.0),
    "equal_arms": (0.0, 0.0),
    "dominating_arm": (1 / 6, 0.0),
    "faint_contexts": (0.62 - 1 / 3, 0.0),
    "uneven_noise": (0.4139, 0.3838),
    "rotation": (0.4139, 0.405),
}


def sample(name: str, rng: np.random.Generator, people: int = MANY, **options: object) -> People:
    drawn = load_problem(name, options).sample(people, rng)
    assert isinstance(drawn, People)
    assert drawn.means is not None
    return drawn


@pytest.mark.parametrize("name", COSTS)
def test_what_choosing_blindly_costs(name, rng) -> None:
    people = sample(name, rng)
    uniform = (people.means.max(axis=1) - people.means.mean(axis=1)).mean()
    assert uniform == pytest.approx(COSTS[name][0], abs=0.004)
    assert people.best_fixed().mean() == pytest.approx(COSTS[name][1], abs=0.006)


@pytest.mark.parametrize("name", SURFACES)
def test_rewards_lie_in_their_bounds_and_follow_the_means(name, rng) -> None:
    problem, people = load_problem(name), sample(name, rng)
    bounds = problem.reward_bounds
    assert bounds.lower <= people.rewards.min()
    assert people.rewards.max() <= bounds.upper
    spread = people.rewards.std(axis=0) / np.sqrt(MANY)
    assert (np.abs((people.rewards - people.means).mean(axis=0)) < 5 * spread).all()
    problem.domain.to_unit(people.contexts)


def test_no_half_of_the_waves_has_a_better_arm(rng) -> None:
    unit = rng.random((MANY, 2))
    for column in (0, 1):
        half = unit[unit[:, column] < 0.5]
        assert np.ptp(wave_means(half).mean(axis=0)) < 0.02 + 0.12 * (column == 0)
    eight = wave_means(np.array([[0.0], [1 / 32]]))
    np.testing.assert_allclose(eight[:, 2], [0.5, 0.95])


def test_the_corner_pays_as_the_exponential_problem(rng) -> None:
    people = sample("corner", rng, 1000, side=0.1)
    assert people.contexts.max() <= 0.1
    np.testing.assert_allclose(people.means, ExponentialMeans(3)(people.contexts / 0.1))


def test_arms_change_places_halfway(rng) -> None:
    people = sample("rotation", rng, 9)
    means = ExponentialMeans(3)(people.contexts)
    np.testing.assert_array_equal(people.means[:4], means[:4])
    np.testing.assert_array_equal(people.means[4:, [1, 2, 0]], means[4:])


def test_uneven_noise_is_small_for_half_of_the_people(rng) -> None:
    people = sample("uneven_noise", rng)
    away = (people.rewards - people.means) ** 2
    sure = people.contexts[:, 1] < 0.5
    assert away[sure].mean() < 0.04 * away[~sure].mean()


@pytest.mark.parametrize("centre", [1.0, 3.0])
def test_the_mean_of_a_cut_lognormal(centre) -> None:
    by_integration = quad(lambda z: min(np.exp(centre + z), 100.0) * norm.pdf(z), -12, 12)[0]
    assert cut_lognormal_mean(np.array([centre]), 100.0)[0] == pytest.approx(by_integration, 1e-6)


def test_contexts_of_three_points(rng) -> None:
    places, counts = np.unique(sample("three_points", rng).contexts, axis=0, return_counts=True)
    np.testing.assert_allclose(places, [[0.2, 0.3], [0.5, 0.8], [0.9, 0.4]])
    np.testing.assert_allclose(counts / MANY, [0.5, 0.3, 0.2], atol=0.01)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("corner", {"side": 0}, "side was 0"),
        ("corner", {"side": 1.5}, "side was 1.5"),
        ("waves", {"dimension": 3}, "dimension was 3"),
        ("few_columns", {"dimension": 1}, "dimension was 1"),
        ("checker", {"arms": 3}, "arms is not a key; keys here are: none"),
    ],
)
def test_refusals(name, options, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        load_problem(name, options)
