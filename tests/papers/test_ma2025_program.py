"""The simulated rules of the program of Ma et al. (2025)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.lab.environments.base import People
from discreet.lab.experiments import Source
from discreet.papers.ma2025.data import (
    Rewards,
    SourceSpec,
    SyntheticSources,
    logged_mean,
    problem,
)
from discreet.papers.ma2025.program import Program, _State

NO_NOISE = 1e12


def state(epsilon: float, leaks: bool = True, people: int = 10_000) -> _State:
    rng = np.random.default_rng(0)
    return _State(2, 1, np.array([people]), np.array([epsilon]), rng, leaks)


def batch(size: int, low: float, high: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """People along one column who get both arms in turn; the second always has a reward."""
    arms = np.arange(size) % 2
    return np.linspace(low, high, size)[:, None], arms, arms.astype(float)


def test_cumulative_sums_are_added_after_each_batch_and_begin_anew_after_a_split() -> None:
    learner = state(NO_NOISE)
    assert learner.warm_up == 169
    learner.depth = 0  # a split would begin anew
    for _ in range(3):
        learner.add(0, *batch(100, 0.0, 1.0))
    chosen, rewarded, above, below, squared = learner._sums[0, 0]
    assert chosen == pytest.approx([150.0, 150.0])
    assert rewarded == pytest.approx([0.0, 150.0], abs=1e-6)
    # Batches 2 and 3 are beyond the warm-up: 100 and 150 people.
    assert below == pytest.approx([250.0, 250.0])
    assert above == pytest.approx([0.0, 250.0], abs=1e-6)
    assert squared == pytest.approx([250.0, 250.0])
    assert learner._estimates[0] == pytest.approx([0.0, 1.0], abs=1e-5)
    radius = math.sqrt(2.0 * math.log2(10_000) * 250.0) / 250.0
    assert radius < 1.0  # the side of the whole line, below which a bin is split
    learner.depth = 1
    learner.add(0, *batch(100, 0.0, 1.0))
    assert learner.bins.active.shape == (2, 2)
    assert not learner._sums.any()


def test_an_arm_is_eliminated_once_confidence_bands_are_disjoint() -> None:
    learner = state(NO_NOISE)
    while learner.bins.active.all() and learner.bins.tree.leaf_count < 64:
        learner.add(0, *batch(2000, 0.0, 1.0))
    # A gap of 1 needs bands below 1/2, which are at least as wide as a side.
    assert learner.bins.tree.depth.max() >= 2
    assert not learner.bins.active[:, 0].all()
    assert learner.bins.active[:, 1].all()
    alone = ~learner.bins.active[:, 0]
    middles = learner.bins.tree.lower[learner.bins.tree.leaves][alone] + 1e-6
    assert set(learner.choose(middles)) == {1}


@pytest.mark.parametrize("leaks", [True, False])
def test_an_empty_bin_has_noise_only_where_everybody_adds_some(leaks: bool) -> None:
    learner = state(1.0, leaks)
    learner.bins = learner.bins.split(np.array([True]), np.array([0]))
    learner._times, learner._sums = np.zeros((2, 1)), np.zeros((2, 1, 5, 2))
    learner._estimates = np.zeros((2, 2))
    learner.add(0, *batch(50, 0.0, 0.4))
    left, right = learner._sums[:, 0, :2]
    assert (left % 1.0 != 0.0).all()
    assert bool((right == 0.0).all()) is leaks


def test_the_variance_of_the_noise_is_that_of_one_draw_per_person() -> None:
    """A sum of 40 Laplace draws of scale 4 has the variance 40 x 32."""
    draws = []
    for seed in range(400):
        learner = state(1.0)
        learner.rng = np.random.default_rng(seed)
        learner.add(0, *batch(40, 0.0, 1.0))
        draws += [learner._sums[0, 0, 0] - 20.0]
    assert np.mean(np.square(draws)) == pytest.approx(40 * 32.0, rel=0.25)


@pytest.mark.parametrize(("rewards", "epsilon"), [("exponential", 8.0), ("symmetric", 8.0)])
def test_mean_regret_agrees_with_the_log(rewards: Rewards, epsilon: float) -> None:
    """Ten trials of Figure 7; the relative standard error of their mean is below 0.1."""
    target, regrets = problem(rewards), []
    for trial in range(10):
        people = target.sample(10_000, np.random.default_rng([1, trial]))
        sources = _sources(rewards, trial)
        rng = np.random.default_rng([3, trial])
        regrets.append(Program(epsilon, 100)(people, sources, rng).sum())
    setting = {"rounds": 10_000, "n_auxiliary": 5000, "sources": 1, "epsilon_auxiliary": 8.0,
               "gamma": 0.0, "kappa": 1.0}  # fmt: skip
    logged = logged_mean("sample_size_target", rewards, epsilon, setting)
    assert np.mean(regrets) == pytest.approx(logged, rel=0.3)


def _sources(rewards: Rewards, trial: int) -> list[Source]:
    draw = SyntheticSources((SourceSpec("source 1", 5000, 8.0),), rewards)
    return draw(np.random.default_rng([2, trial]))


def test_a_leak_holds_no_epsilon() -> None:
    assert Program(1.0, 100).true_epsilon == math.inf
    assert Program(1.0, 100, leaks=False).true_epsilon == 1.0


def test_regret_has_one_value_per_person() -> None:
    contexts = np.linspace(0.0, 1.0, 250)[:, None]
    means = np.tile([0.0, 1.0], (250, 1))
    people = People(contexts, means, means)
    values = Program(NO_NOISE, 100)(people, [], np.random.default_rng(0))
    assert values.shape == (250,)
    assert set(values) == {0.0, 1.0}
