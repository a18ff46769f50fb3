"""Where people are, learnt from the cells that they report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from discreet.lab.environments.synthetic import BetaContexts, exponential
from discreet.lab.experiments import run_learner
from discreet.learners.kernel.design import Measurements
from discreet.learners.kernel.features import DensityBins, moved
from discreet.learners.kernel.learner import LocalKernel
from discreet.learners.kernel.policy import KernelPolicy
from discreet.learners.policy import Policy
from discreet.learners.signs import SignedReports
from discreet.privacy import Local, SimulatedNoise
from discreet.validation import FloatArray

from .scene import SQUARE, random_policy, reported

SKEWED = BetaContexts(((2.0, 5.0), (1.0, 1.0)))


def beta_law() -> FloatArray:
    """The density of `SKEWED` over the bins of the square, relative to uniform."""
    rows, columns = DensityBins((None, None)).shape
    share = np.diff(beta.cdf(np.linspace(0.0, 1.0, rows + 1), 2, 5))
    return np.repeat(share * rows, columns)


def distance(one: FloatArray, two: FloatArray) -> float:
    """The total variation distance of two densities over bins."""
    return float(0.5 * np.abs(one / one.sum() - two / two.sum()).sum())


def crowd(policy: KernelPolicy, people: int, seed: int) -> SignedReports:
    """Reports of people who come from `SKEWED`."""
    rng = np.random.default_rng(seed)
    contexts = SKEWED(people, rng)
    actions, _ = policy.act(contexts, rng)
    return reported(policy, contexts, actions, np.ones(people), SimulatedNoise(1000 + seed))


def likelihood(policy: KernelPolicy, reports: SignedReports) -> float:
    """The mean log probability of the reported cells under the policy's density."""
    _, partition = policy.picked(reports.public_coins)
    return float(np.log(Measurements(policy).shown[partition, reports.places[:, 0]]).mean())


class TestBins:
    @pytest.mark.parametrize(
        ("levels", "shape"),
        [
            ((None,), (24,)),
            ((None, None), (24, 24)),
            ((5, 30), (5, 24)),
            ((None, 2, None), (10, 2, 10)),
            ((None,) * 4, (6,) * 4),
            ((None,) * 6, (3,) * 6),
            ((None, 2) * 10, (1,) * 20),
        ],
    )
    def test_shapes(self, levels: tuple[int | None, ...], shape: tuple[int, ...]) -> None:
        bins = DensityBins(levels)
        assert bins.shape == shape
        assert len(bins) == np.prod(shape)

    @pytest.mark.parametrize("levels", [(None, None), (5, 3), (None, 4, None)])
    def test_every_point_is_in_its_bin(self, levels: tuple[int | None, ...]) -> None:
        bins = DensityBins(levels)
        points = np.random.default_rng(0).random((500, len(levels)))
        points[:2] = [[0.0] * len(levels), [1.0] * len(levels)]
        index = np.stack(np.unravel_index(bins.of(points), bins.shape), axis=1)
        assert (index <= points * bins.shape).all()
        assert (points * bins.shape <= index + 1).all()


class TestStep:
    def test_it_goes_part_of_the_way(self) -> None:
        found = np.array([0.0, 10.0, 30.0, 0.0])
        density = moved(np.ones(4), found, version=0)
        step = 4.0**-0.75
        expected = (1.0 - step) + step * np.array([0.0, 1.0, 3.0, 0.0])
        assert np.allclose(density, expected)
        later = moved(np.ones(4), found, version=1000)
        assert np.abs(later - 1.0).max() < 0.02

    def test_nobody_is_ruled_out(self) -> None:
        density = np.ones(10)
        for version in range(30):
            density = moved(density, np.eye(10)[3], version)
        assert density.min() >= 0.02
        assert density.mean() == pytest.approx(1.0)
        assert density.argmax() == 3

    def test_what_was_located_in_proportion_changes_nothing(self) -> None:
        density = np.array([0.5, 1.5, 1.0, 1.0])
        assert np.allclose(moved(density, 70.0 * density, 3), density)
        assert np.isfinite(moved(density, np.zeros(4), 3)).all()


def test_located_sums_count_people_and_add() -> None:
    policy = random_policy(SQUARE, 2, 4.0, 6)
    reports = [crowd(policy, people, seed) for seed, people in enumerate((50, 200, 1))]
    sums = [Measurements(policy).statistics(one) for one in reports]
    total = sums[0] + sums[1] + sums[2]
    together = Measurements(policy).statistics(
        replace(
            reports[0],
            public_coins=np.concatenate([r.public_coins for r in reports]),
            places=np.concatenate([r.places for r in reports]),
            signs=np.concatenate([r.signs for r in reports]),
        )
    )
    assert np.allclose(total.located, together.located)
    assert total.placed == together.placed == 251
    # Each person is somewhere: their probabilities add up to 1, up to the integration.
    assert total.located.sum() == pytest.approx(251.0, rel=0.02)
    assert (total.located > 0.0).all()


def test_steps_make_reports_likelier() -> None:
    """Expectation maximisation: each full step, and each of ours, on its own reports."""
    gains = []
    for seed in range(6):
        policy = random_policy(SQUARE, 2, 4.0, 12, partitions=8, seed=seed)
        reports = crowd(policy, 3000, seed)
        values = [likelihood(policy, reports)]
        for _ in range(4):
            located = Measurements(policy).statistics(reports).located
            full = replace(policy, density=len(located) * located / located.sum())
            assert likelihood(full, reports) > likelihood(policy, reports)
            policy = replace(policy, density=moved(policy.density, located, 6))
            values.append(likelihood(policy, reports))
        gains.append(np.diff(values))
    # The floor and the fewer points of the learner's grid may cost a little of it.
    assert np.mean(gains, axis=0).min() > 0.0
    assert np.min(gains) > -1e-4
    truth = replace(policy, density=beta_law() + 1e-6)
    assert values[0] < values[-1] < likelihood(truth, reports) + 0.01


@pytest.mark.slow
def test_the_law_of_contexts_is_learnt() -> None:
    """Beta(2, 5) contexts at epsilon 4; the distance of uniform people from it is 0.41."""
    problem = exponential().under(SKEWED)
    truth = beta_law()
    learner = LocalKernel(problem.domain, 3, Local(4.0), public_seed=1)
    rng = np.random.default_rng(1)
    people = problem.sample(5000, rng)
    seen: list[float] = []

    def watch(policy: Policy[Any], _: int) -> None:
        assert isinstance(policy, KernelPolicy)
        seen.append(distance(policy.density, truth))

    run_learner(learner, people, rng, SimulatedNoise(1001), [watch])
    start, quarter, end = seen[0], seen[len(seen) // 4], seen[-1]
    assert start == pytest.approx(0.41, abs=0.02)
    assert end < 0.4 * start
    assert end < quarter < start


@pytest.mark.slow
@pytest.mark.parametrize("density", ["learned", "uniform"])
def test_uniform_contexts_stay_nearly_uniform(density: str) -> None:
    problem = exponential()
    learner = LocalKernel(problem.domain, 3, Local(4.0), density=density)
    rng = np.random.default_rng(3)
    run_learner(learner, problem.sample(2000, rng), rng, SimulatedNoise(1003))
    found = learner.policy().density
    if density == "uniform":
        assert (found == 1.0).all()
        assert learner._sums.placed > 0
    else:
        assert 0.0 < distance(found, np.ones(len(found))) < 0.15


@pytest.mark.slow
def test_one_cell_says_nothing_about_where_people_are() -> None:
    """At epsilon 1 there is one cell, and the learner finds kappa f."""
    problem = exponential().under(SKEWED)
    learner = LocalKernel(problem.domain, 3, Local(1.0))
    rng = np.random.default_rng(4)
    run_learner(learner, problem.sample(2500, rng), rng, SimulatedNoise(1004))
    assert all(policy.cells.count == 1 for policy in learner._policies)
    assert (learner.policy().density == 1.0).all()
    assert learner._sums.placed == 0
    assert (learner._sums.located == 0.0).all()
