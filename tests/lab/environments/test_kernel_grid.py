"""Gaussian processes on a grid: the law of f, rewards within bounds, regret against f."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import numpy as np
import pytest

from discreet.lab.environments.kernel_grid import (
    GridPopulation,
    KernelGridProblem,
    matern52,
    point_names,
    squared_exponential,
)
from discreet.people.domain import ArmPoints
from discreet.validation import FloatArray, IntArray, InvalidInput


@dataclass
class Chosen:
    arms: IntArray
    points: FloatArray | None = None


def small(**changes: object) -> KernelGridProblem:
    return KernelGridProblem(**{"contexts": 5, "arms": 7, **changes})  # type: ignore[arg-type]


def test_the_public_facts() -> None:
    problem = KernelGridProblem()
    assert isinstance(problem.space, ArmPoints)
    np.testing.assert_allclose(problem.space.array[:, 0], np.linspace(0, 1, 60))
    assert problem.arm_names[:3] + problem.arm_names[-1:] == ("0.00", "0.02", "0.03", "1.00")
    assert (problem.arms, problem.metric, problem.size) == (60, "regret", None)
    assert problem.domain.levels == (30,)
    assert (problem.reward_bounds.lower, problem.reward_bounds.upper) == (-1.05, 1.05)
    assert problem.offer == "60 arms, which are points from 0 to 1"


@pytest.mark.parametrize("arms", [2, 3, 101, 102, 2000])
def test_names_differ(arms) -> None:
    assert len(set(point_names(arms))) == arms


def test_kernels_are_those_of_scikit_learn() -> None:
    kernels = pytest.importorskip("sklearn.gaussian_process.kernels")
    points = np.linspace(0.0, 3.0, 50)[:, None]
    for ours, theirs in (
        (squared_exponential, kernels.RBF(0.3)),
        (matern52, kernels.Matern(0.3, nu=2.5)),
    ):
        np.testing.assert_allclose(
            ours(points[:, 0] / 0.3), theirs(points[:1], points)[0], atol=1e-14
        )


@pytest.mark.parametrize("smoothness", ["squared_exponential", "matern52"])
def test_f_follows_the_kernel(smoothness, rng) -> None:
    kernels = pytest.importorskip("sklearn.gaussian_process.kernels")
    problem = small(smoothness=smoothness, length_scale=0.5)
    draws = np.stack([problem.draw_function(rng).ravel() for _ in range(4000)])
    assert np.abs(draws).max(axis=1) == pytest.approx(0.8)
    # Scaling a draw changes neither signs nor ratios: signs of two points agree with probability
    # 1/2 + arcsin(correlation) / pi.
    agree = (np.sign(draws).T @ np.sign(draws) / len(draws) + 1.0) / 2.0
    kernel = kernels.RBF(0.5) if smoothness[0] == "s" else kernels.Matern(0.5, nu=2.5)
    mesh = np.meshgrid(problem.grid, problem.space.array[:, 0], indexing="ij")
    points = np.stack(mesh, axis=-1).reshape(-1, 2)
    expected = 0.5 + np.arcsin(np.clip(kernel(points), -1.0, 1.0)) / np.pi
    np.testing.assert_allclose(agree, expected, atol=5 * 0.5 / np.sqrt(len(draws)))


def test_f_is_new_in_each_sample_and_does_not_depend_on_the_number_of_people() -> None:
    problem = small()
    one, same, other = (
        problem.sample(people, np.random.default_rng(seed)).function
        for people, seed in ((3, 1), (50, 1), (3, 2))
    )
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)


def test_rewards_are_f_plus_one_noise_for_each_person(rng) -> None:
    crowd = small().sample(4000, rng)
    rows = np.arange(1000, 3000)
    arms = rng.integers(7, size=len(rows))
    rewards = crowd.received(Chosen(arms), 1000)
    noise = rewards - crowd.function[crowd.cells[rows], arms]
    np.testing.assert_allclose(noise, crowd.draws[rows])
    assert np.abs(noise).max() <= 0.25 + 1e-12
    assert noise.std() == pytest.approx(0.25 / np.sqrt(3), rel=0.05)
    np.testing.assert_array_equal(crowd.contexts[:, 0], crowd.grid[crowd.cells])


def test_every_reward_is_within_the_declared_bounds(rng) -> None:
    problem = small(bound=0.7, noise=0.1)
    for _ in range(50):
        crowd = problem.sample(40, rng)
        for arm in range(7):
            rewards = crowd.received(Chosen(np.full(40, arm)), 0)
            problem.reward_bounds.to_unit(rewards, 40)
        problem.domain.people_to_unit(crowd.contexts)


def test_regret_and_references_by_hand() -> None:
    function = np.array([[0.0, 0.5, 0.2], [0.3, -0.1, 0.4]])
    cells = np.array([0, 1, 1])
    grid = np.array([0.0, 1.0])
    weights = np.array([0.25, 0.75])
    crowd = GridPopulation(grid[cells][:, None], cells, np.zeros(3), grid, function, weights)
    np.testing.assert_allclose(crowd.value(Chosen(np.array([0, 1])), 1), [0.1, 0.5])
    # Arm 3 has 0.2 + 0.4 + 0.4, more than any other.
    np.testing.assert_allclose(crowd.best_fixed(), [0.3, 0.0, 0.0])
    np.testing.assert_array_equal(crowd.oracle(), np.zeros(3))
    lost = crowd.regret_of([[0.0, 1.0, 0.0], [0.5, 0.5, 0.0]])
    assert lost == pytest.approx(0.75 * 0.3)
    with pytest.raises(InvalidInput, match="had 1 rows; give one for each of the 2 contexts"):
        crowd.regret_of([[0.0, 1.0, 0.0]])


def test_a_million_people_take_little_room(rng) -> None:
    crowd = small(arms=60).sample(1_000_000, rng)
    stored = sum(array.nbytes for array in vars(crowd).values())
    assert stored < 30_000_000


def test_it_can_be_sent_to_another_process(rng) -> None:
    problem = pickle.loads(pickle.dumps(small()))
    assert problem.sample(4, rng).function.shape == (5, 7)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"contexts": 1}, "contexts was 1"),
        ({"arms": 2.0}, "arms was 2.0"),
        ({"contexts": 100, "arms": 100}, "a grid of 10,000 points; ask for 4,096 or fewer"),
        ({"smoothness": "matern32"}, "smoothness was 'matern32'; it must be one of squared_exp"),
        ({"length_scale": 0}, "length_scale was 0"),
        ({"bound": -1}, "bound was -1"),
        ({"noise": -0.1}, "noise was -0.1"),
    ],
)
def test_arguments_that_are_refused(changes, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        small(**changes)
