"""benchmarks/zoo_problems.py: what arms pay, what choosing blindly costs, and where maxima are."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from discreet.lab.environments.base import People
from discreet.lab.environments.functions import FunctionProblem
from discreet.lab.environments.synthetic import ExponentialMeans
from discreet.people.domain import PublicSet

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
from zoo_problems import (
    LANDSCAPES,
    PROBLEMS,
    SURFACES,
    HumpProblem,
    Humps,
    LinearSetProblem,
    cut_lognormal_mean,
    load,
    wave_means,
)

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
    "band": (0.4136, 0.3827),
    "gaps": (0.05, 0.0),
    "alike": (0.05, 0.0),
    "equal_arms": (0.0, 0.0),
    "dominating_arm": (1 / 6, 0.0),
    "faint_contexts": (0.62 - 1 / 3, 0.0),
    "uneven_noise": (0.4139, 0.3838),
    "rotation": (0.4139, 0.405),
}

# The published places of the maxima.
TOPS = {
    "branin": [(-np.pi, 12.275), (np.pi, 2.275), (9.42477796, 2.475)],
    "ackley": [(0.0, 0.0)],
    "levy": [(1.0, 1.0)],
    "rosenbrock": [(1.0, 1.0)],
    "cliff": [(0.7, 0.5)],
}
HARTMANN = {
    3: [(0.114614, 0.555649, 0.852547)],
    6: [(0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573)],
}
BOTTOMS = {"branin": (-5.0, 0.0), "levy": (-10.0, -10.0), "rosenbrock": (-2.0, -1.0)}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def sample(name: str, rng: np.random.Generator, people: int = MANY, **options: object) -> People:
    drawn = load(name, options).sample(people, rng)
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
    problem, people = load(name), sample(name, rng)
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


def landscape(name: str, **options: object) -> FunctionProblem:
    problem = load(name, options)
    assert isinstance(problem, FunctionProblem)
    return problem


@pytest.mark.parametrize("name", LANDSCAPES)
def test_values_fill_the_unit_interval(name, rng) -> None:
    problem = landscape(name)
    values = problem.function(
        problem.domain.from_unit(rng.random((50_000, 2 + (name == "hartmann"))))
    )
    assert values.min() >= 0.0
    assert problem.best - 0.05 < values.max() <= problem.best <= 1.0


@pytest.mark.parametrize("name", TOPS)
def test_published_maxima(name) -> None:
    problem = landscape(name)
    np.testing.assert_allclose(problem.function(np.array(TOPS[name])), problem.best, atol=1e-7)
    if name in BOTTOMS:
        assert problem.function(np.array([BOTTOMS[name]]))[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("dimension", HARTMANN)
def test_published_maxima_of_hartmann(dimension) -> None:
    problem = landscape("hartmann", dimension=dimension)
    values = problem.function(np.array(HARTMANN[dimension]))
    np.testing.assert_allclose(values, 1.0, atol=1e-7)


def test_the_floor_under_the_cliff() -> None:
    values = landscape("cliff").function(np.array([[0.7001, 0.5], [0.0, 0.5]]))
    np.testing.assert_allclose(values, [0.05, 0.4])


@pytest.mark.parametrize("draw", range(5))
def test_the_best_hump_stands_out(draw) -> None:
    problem = landscape("four_humps", draw=draw)
    humps = problem.function
    assert isinstance(humps, Humps)
    top = humps(humps.centres)
    # By a lattice that knows nothing of humps.
    steps = np.linspace(0.0, 10.0, 401)
    lattice = np.stack(np.meshgrid(steps, steps - 5.0), axis=-1).reshape(-1, 2)
    assert problem.best == pytest.approx(humps(lattice).max(), abs=2e-3)
    assert problem.best >= humps(lattice).max()
    assert top[0] - top[1:].max() > 0.15


def test_humps_are_new_in_each_replicate_unless_they_are_fixed(rng) -> None:
    fresh, fixed = HumpProblem(), HumpProblem(draw=3)
    first, second = (fresh.sample(5, np.random.default_rng(seed)) for seed in (1, 2))
    assert not np.allclose(first.function.centres, second.function.centres)
    again = fresh.sample(5, np.random.default_rng(1))
    np.testing.assert_array_equal(first.function.centres, again.function.centres)
    assert fixed.sample(5, rng).function is fixed.function


@pytest.mark.parametrize("name", PROBLEMS)
def test_problems_travel_to_other_processes(name) -> None:
    assert pickle.loads(pickle.dumps(load(name))).source == load(name).source


def test_uneven_noise_grows_with_the_value() -> None:
    problem = landscape("four_humps", draw=0, noise="uneven")
    people = problem.sample(20_000, np.random.default_rng(0))
    humps = problem.function

    class At:
        def __init__(self, point: np.ndarray) -> None:
            self.points = np.tile(point, (20_000, 1))
            self.arms = np.zeros(20_000, dtype=np.int64)

    for point in (humps.centres[1], np.array([0.0, -5.0])):
        expected = 0.02 + 0.28 * humps(point[None])[0]
        spread = people.received(At(point), 0).std()
        assert spread == pytest.approx(expected, rel=0.25)


def test_a_linear_set_is_the_same_for_everyone() -> None:
    people = LinearSetProblem(7, 3).sample(2_000, np.random.default_rng(4))
    assert people.contexts.shape == (2_000, 7, 3)
    assert people.means is not None
    np.testing.assert_array_equal(people.contexts, people.contexts[:1].repeat(2_000, axis=0))
    np.testing.assert_allclose(np.linalg.norm(people.contexts[0], axis=1), 1.0)
    columns = np.column_stack([people.contexts[0], np.ones(7)])
    theta, *_ = np.linalg.lstsq(columns, people.means[0], rcond=None)
    np.testing.assert_allclose(columns @ theta, people.means[0])
    assert np.linalg.norm(theta[:3]) == pytest.approx(0.5)
    assert np.abs(people.rewards.mean(axis=0) - people.means[0]).max() < 0.05


def test_a_public_linear_set_stays_the_same_and_nobody_brings_it() -> None:
    problem = LinearSetProblem(7, 3, public=True)
    assert isinstance(problem.space, PublicSet)
    assert problem.space == LinearSetProblem(7, 3, public=True).space
    people, others = (problem.sample(500, np.random.default_rng(seed)) for seed in (4, 5))
    assert people.contexts.shape == (500, 0)
    assert people.means is not None
    assert others.means is not None
    theta, *_ = np.linalg.lstsq(problem.space.array, 2.0 * people.means[0] - 1.0, rcond=None)
    assert np.linalg.norm(theta) == pytest.approx(1.0)
    assert (people.means[0] != others.means[0]).all()
