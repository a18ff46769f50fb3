"""The kernel bandit as a whole: regret, calibration, many columns and arms, files, options."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.codec import encode
from discreet.lab.environments.base import People
from discreet.lab.environments.synthetic import (
    ExponentialMeans,
    SyntheticProblem,
    UniformContexts,
    exponential,
    symmetric,
)
from discreet.lab.experiments import run_learner
from discreet.learners.kernel.design import CELL_COUNTS, most_cells
from discreet.learners.kernel.learner import LocalKernel
from discreet.learners.kernel.policy import KernelPolicy
from discreet.learners.saving import load, save
from discreet.people.domain import Box, RewardBounds, unit_cube
from discreet.privacy import Local, NonPrivate, SimulatedNoise
from discreet.validation import FloatArray, InvalidInput

from .scene import midpoints


def taught(
    problem: SyntheticProblem, people: int, seed: int, budget: Local | NonPrivate, **options: Any
) -> tuple[LocalKernel, FloatArray]:
    """The learner after so many people, and their regret."""
    learner = LocalKernel(problem.domain, problem.arms, budget, public_seed=seed, **options)
    rng = np.random.default_rng(seed)
    regret = run_learner(learner, problem.sample(people, rng), rng, SimulatedNoise(1000 + seed))
    return learner, regret


def serve(learner: LocalKernel, contexts: FloatArray, rewards: FloatArray, seed: int) -> None:
    """One batch of people with these contexts and the rewards (n, K) of all arms."""
    policy = learner.policy()
    actions, _ = policy.act(contexts, np.random.default_rng(seed))
    received = rewards[np.arange(len(contexts)), actions.arms]
    learner.update(policy.report(contexts, actions, received, SimulatedNoise(1000 + seed)))


@pytest.mark.slow
def test_it_learns_quickly() -> None:
    """Regret of 4,000 people at epsilon 4 beside 0.414 a person for arms drawn at random."""
    problem = exponential()
    regret = taught(problem, 4000, 1, Local(4.0))[1]
    assert regret.sum() < 0.2 * 0.414 * 4000
    assert regret[-1000:].mean() < 0.1 * 0.414


@pytest.mark.slow
def test_waves_of_a_sixteenth_of_a_column_are_found() -> None:
    """.372 a person is what arms drawn at random lose; length scales down to .2 see nothing."""

    def waves(unit: FloatArray) -> FloatArray:
        means: FloatArray = 0.5 + 0.45 * np.sin(2.0 * np.pi * (8.0 * unit + np.arange(1, 4) / 3.0))
        return means

    problem = SyntheticProblem(waves, UniformContexts(1), 1, 3, "eight waves")
    regret = taught(problem, 3000, 1, Local(10.0))[1]
    assert regret[-1000:].mean() < 0.1 * 0.372


@pytest.mark.slow
def test_open_reports_are_used_as_they_are() -> None:
    """Rewards without noise are known to have none."""
    rng = np.random.default_rng(3)
    contexts = rng.random((1500, 2))
    means = exponential()._means(contexts)
    learner = LocalKernel(unit_cube(2), 3, NonPrivate(), horizon=1500, public_seed=3)
    regret = run_learner(learner, People(contexts, means, means), rng, SimulatedNoise(3))
    assert learner._noise < 0.02
    assert regret.sum() < 0.1 * 0.414 * 1500
    mean, deviation = learner.predict(contexts[:200])
    assert (np.abs(mean - means[:200]) < 4.0 * deviation + 0.02).mean() > 0.95


@pytest.mark.slow
def test_people_in_a_corner_of_the_box_are_found() -> None:
    """Bounds twenty times too wide along both columns; .414 a person is what arms drawn at random
    lose, and what is lost of them where contexts are measured as they are."""

    def contexts(people: int, rng: np.random.Generator) -> FloatArray:
        return 0.05 * rng.random((people, 2))

    def means(unit: FloatArray) -> FloatArray:
        return ExponentialMeans(3)(np.minimum(unit / 0.05, 1.0))

    problem = SyntheticProblem(means, contexts, 2, 3, "a corner")
    learner, regret = taught(problem, 3000, 1, Local(4.0), horizon=3000)
    assert regret[-1000:].mean() < 0.15 * 0.414
    assert learner._ranks.stage >= 1
    policies = [each for each in learner._policies if isinstance(each, KernelPolicy)]
    assert {each.ranks.stage for each in policies} == set(range(learner._ranks.stage + 1))


def test_reports_of_an_earlier_stage_say_nothing_any_more() -> None:
    """They are counted, in whatever order they come; and nobody claims a later stage."""
    learner = LocalKernel(unit_cube(1), 2, Local(8.0), horizon=5000, public_seed=1)
    rng = np.random.default_rng(1)
    first = learner.policy()
    contexts = 0.03 * rng.random((80, 1))
    actions, _ = first.act(contexts, rng)
    late = first.report(contexts[:5], actions[:5], np.ones(5), SimulatedNoise(1))
    learner.update(first.report(contexts, actions, np.ones(80), SimulatedNoise(2)))
    finer = learner.policy()
    assert isinstance(finer, KernelPolicy)
    assert finer.ranks.stage == 0, "parts of the first eighth say where there"
    actions, _ = finer.act(contexts, rng)
    learner.update(finer.report(contexts, actions, np.ones(80), SimulatedNoise(3)))
    second = learner.policy()
    assert isinstance(second, KernelPolicy)
    assert second.ranks.stage == 1
    assert not learner._sums.precision.any()
    actions, _ = second.act(contexts[:20], rng)
    new = learner.statistics(second.report(contexts[:20], actions, np.ones(20), SimulatedNoise(4)))
    old = learner.statistics(late)
    for both in (old + new, new + old):
        assert both.reports == 25
        assert np.array_equal(both.precision, new.precision)
    learner.update(late)
    assert learner.people == 165
    assert not learner._sums.precision.any()
    with pytest.raises(InvalidInput, match="stage"):
        learner.merge(replace(new, stage=2))


@pytest.mark.slow
def test_it_finds_the_best_arms_early_at_a_small_epsilon() -> None:
    """Where 20,000 people are expected the first 4,000 are asked what teaches; 0.414 a person is
    what arms drawn at random lose. Draws alone lost half of it in bad runs."""
    totals = []
    for seed in (1, 2):
        regret = taught(exponential(), 4000, seed, Local(1.0), horizon=20_000)[1]
        totals.append(regret.sum())
        assert regret[-1000:].mean() < 0.4 * 0.414
    assert np.mean(totals) < 0.45 * 0.414 * 4000


@pytest.mark.slow
def test_privacy_costs_something() -> None:
    problem = exponential()
    totals = [
        np.mean([taught(problem, 5000, seed, budget)[1].sum() for seed in (4, 5, 6)])
        for budget in (NonPrivate(), Local(1.0))
    ]
    assert totals[0] < totals[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "epsilon", "most"),
    [(exponential(), 1.0, 0.35), (exponential(), 4.0, 0.1), (symmetric(), 2.0, 0.6)],
    ids=["exponential 1", "exponential 4", "symmetric 2"],
)
def test_regret_is_a_small_share_of_that_of_chance(
    problem: SyntheticProblem, epsilon: float, most: float
) -> None:
    people = 20_000
    found, chance = [], []
    for seed in (20, 21, 22):
        found.append(taught(problem, people, seed, Local(epsilon))[1].sum())
        means = problem.mean_rewards(np.random.default_rng(seed).random((people, 2)))
        chance.append((means.max(axis=1) - means.mean(axis=1)).sum())
    assert np.mean(found) < most * np.mean(chance)


@pytest.mark.slow
@pytest.mark.parametrize("problem", [exponential(), symmetric()], ids=["exponential", "symmetric"])
def test_likelihood_is_calibrated(problem: SyntheticProblem) -> None:
    """Residuals b - J theta at the true theta have covariance J, whatever the prior."""
    points = midpoints(96, 2)
    squares = []
    for seed in range(3):
        learner, _ = taught(problem, 4_000, seed, Local(2.0))
        truth = 2.0 * problem.mean_rewards(points) - 1.0
        theta = np.linalg.lstsq(learner.features(points), truth, rcond=None)[0].T.ravel()
        known = learner._sums.information
        values, axes = np.linalg.eigh(known.precision)
        told = values > 1e-2 * values[-1]
        apart = axes[:, told].T @ (known.weighted - known.precision @ theta)
        squares.extend(apart**2 / values[told])
    assert 0.85 <= math.sqrt(np.mean(squares)) <= 1.1


@pytest.mark.slow
@pytest.mark.xfail(
    strict=True, reason="deviations are too wide: z has deviation .74, and .77 over 20 other seeds"
)
def test_beliefs_are_calibrated() -> None:
    """z-scores of the arms' means over the square, where the density of contexts is known.

    Where it is learnt, and with one cell, the learner finds kappa f, which is another function.
    The prior takes these functions for rougher than they are (posterior.py).
    """
    problem = exponential()
    grid = midpoints(24, 2)
    truth = problem.mean_rewards(grid)
    scores = []
    for seed in range(30, 35):
        learner, _ = taught(problem, 20_000, seed, Local(2.0))
        mean, deviation = learner.predict(grid)
        scores.append((mean - truth) / deviation)
    assert 0.8 <= np.std(scores) <= 1.3
    assert abs(np.mean(scores)) < 0.4


def bumps(contexts: FloatArray, arms: int) -> FloatArray:
    """Rewards (n, K) of arms that are good in different places along the first column."""
    centres = (np.arange(arms) + 0.5) / arms
    return np.exp(-8.0 * (contexts[:, :1] - centres) ** 2)


@pytest.mark.parametrize(
    ("domain", "arms", "budget", "batches"),
    [
        (unit_cube(1), 2, Local(1.0), 20),
        (Box((0.0,) * 3, (1.0,) * 3, levels=(None, 4, 2)), 3, Local(3.0), 12),
        pytest.param(
            Box((0.0,) * 2, (1.0,) * 2, levels=(2, 2)), 2, Local(8.0), 25, marks=pytest.mark.slow
        ),
        pytest.param(Box((0.0,), (1.0,), levels=(40,)), 2, Local(4.0), 25, marks=pytest.mark.slow),
        (unit_cube(6), 3, Local(2.0), 3),
        pytest.param(unit_cube(20), 2, Local(4.0), 3, marks=pytest.mark.slow),
        pytest.param(unit_cube(2), 20, Local(4.0), 7, marks=pytest.mark.slow),
        (unit_cube(2), 3, NonPrivate(), 12),
        (unit_cube(1), 2, Local(0.01), 8),
        pytest.param(unit_cube(1), 2, Local(100.0), 8, marks=pytest.mark.slow),
    ],
    ids=[
        "1 column",
        "levels",
        "4 kinds",
        "40 levels",
        "6 columns",
        "20 columns",
        "20 arms",
        "non-private",
        "epsilon 0.01",
        "epsilon 100",
    ],
)
def test_all_kinds_of_problems_run_without_a_warning(
    domain: Box, arms: int, budget: Local | NonPrivate, batches: int
) -> None:
    learner = LocalKernel(domain, arms, budget, public_seed=1)
    rng = np.random.default_rng(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for batch in range(batches):
            contexts = rng.random((60, domain.dimension))
            for column, count in enumerate(domain.levels):
                if count is not None:
                    contexts[:, column] = rng.integers(count, size=60) / (count - 1)
            serve(learner, contexts, bumps(contexts, arms), batch)
        policy = learner.policy()
        mean, deviation = learner.predict(contexts)
    assert policy.version == batches
    assert mean.shape == deviation.shape == (60, arms)
    assert np.isfinite(mean).all()
    assert (deviation > 0.0).all()
    counts = {each.cells.count for each in learner._policies if isinstance(each, KernelPolicy)}
    assert counts <= {count for count in CELL_COUNTS if count <= most_cells(budget.epsilon)}
    assert np.allclose(policy.probabilities(contexts).sum(axis=1), 1.0)


def test_columns_with_few_values_are_learnt() -> None:
    """Which arm is best depends on two yes/no columns together."""
    domain = Box((0.0, 0.0), (1.0, 1.0), levels=(2, 2))
    learner = LocalKernel(domain, 2, Local(4.0), public_seed=2)
    rng = np.random.default_rng(2)
    for batch in range(8):
        contexts = rng.integers(2, size=(150, 2)).astype(float)
        first = (contexts[:, 0] == contexts[:, 1]).astype(float)
        serve(learner, contexts, np.stack([first, 1.0 - first], axis=1), batch)
    people = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    shares = learner.policy().probabilities(people)
    assert shares.argmax(axis=1).tolist() == [0, 1, 1, 0]
    assert shares.max(axis=1).min() > 0.8


@pytest.mark.slow
def test_the_number_of_cells_follows_epsilon() -> None:
    """1 up to epsilon 1, and at most one and a half times the most informative number."""
    assert [most_cells(epsilon) for epsilon in (0.1, 1.0, 2.0, 4.0)] == [1, 1, 4, 40]
    assert most_cells(math.inf) == 256
    learner, _ = taught(exponential(), 1500, 3, Local(4.0))
    policies = [each for each in learner._policies if isinstance(each, KernelPolicy)]
    asked = [each for each in policies if each.ranks.asked.size]
    assert {each.cells.count for each in asked} == {8}, "parts of a column, at first"
    later = policies[len(asked) :]
    counts = [policy.cells.count for policy in later]
    assert 1 < counts[-1] <= 40
    # Most last for four policies.
    cuts = [policy.cells.cut for policy in later]
    same = [np.array_equal(*pair) for pair in pairwise(cuts)]
    assert 0.4 < np.mean(same) < 0.9
    place = same.index(True)
    first, second = later[place : place + 2]
    assert np.array_equal(first.cells.cut, second.cells.cut)
    assert not np.array_equal(first.values, second.values)


@pytest.mark.slow
def test_cells_are_many_before_rewards_are_known_to_vary() -> None:
    """The first questions are about levels, yet after 400 people cells say where rewards vary. How
    many there are is drawn, and one cell now and then is as it should be."""
    counts = []
    for seed in range(5):
        learner = LocalKernel(unit_cube(4), 2, Local(4.0), public_seed=seed)
        for batch in range(8):
            contexts = np.random.default_rng(batch).random((50, 4))
            serve(learner, contexts, np.full((50, 2), 0.5), batch)
        counts.append(learner.policy().cells.count)
    assert sum(count > 1 for count in counts) >= 3, counts


def test_batches_grow() -> None:
    learner = LocalKernel(unit_cube(1), 2, Local(1.0), batch=10, growth=0.5)
    sizes = []
    for batch in range(6):
        learner.policy()
        sizes.append(learner.batch_size)
        contexts = np.random.default_rng(batch).random((learner.batch_size, 1))
        serve(learner, contexts, bumps(contexts, 2), batch)
    assert sizes == [10, 10, 10, 15, 22, 33]
    usual = LocalKernel(unit_cube(1), 2, Local(1.0))
    assert usual.batch_size == 10


class TestPredict:
    def learner(self) -> LocalKernel:
        bounds = RewardBounds(-2.0, 3.0)
        domain = Box((20.0, -1.0), (60.0, 1.0))
        return LocalKernel(domain, 3, Local(4.0), reward_bounds=bounds)

    def test_before_anyone_came_it_is_the_prior(self) -> None:
        mean, deviation = self.learner().predict([[20.0, -1.0], [40.0, 0.0]])
        assert mean.shape == deviation.shape == (2, 3)
        assert (mean == 0.5).all()
        assert (np.abs(deviation - deviation[:, :1]) < 1e-9).all()
        # 2 f - 1 has variance 1/2 on average over the box, and more at its corners.
        learner = self.learner()
        inside = learner.domain.from_unit(midpoints(12, 2))
        variance = learner.predict(inside)[1] ** 2
        assert variance.mean() == pytest.approx(0.5 * 2.5**2, rel=0.02)

    def test_it_is_in_the_units_of_rewards(self) -> None:
        """All arms always give 2 of [-2, 3]."""
        learner = self.learner()
        rng = np.random.default_rng(0)
        for batch in range(5):
            contexts = learner.domain.from_unit(rng.random((150, 2)))
            serve(learner, contexts, np.full((150, 3), 2.0), batch)
        mean, deviation = learner.predict(learner.domain.from_unit(midpoints(6, 2)))
        assert mean.mean() == pytest.approx(2.0, abs=0.25)
        assert deviation.max() < 2.5 * math.sqrt(0.5)
        assert np.abs((mean - 2.0) / deviation).mean() < 2.0

    def test_it_changes_nothing(self) -> None:
        learner = self.learner()
        learner.policy()
        before = json.dumps(learner.secret_fields())
        learner.predict([[30.0, 0.5]])
        assert json.dumps(learner.secret_fields()) == before


class TestSaving:
    def half_taught(self) -> LocalKernel:
        return taught(exponential(), 760, 6, Local(4.0), batch=40)[0]

    @pytest.mark.slow
    def test_it_goes_on_bit_for_bit(self, tmp_path: Path) -> None:
        """Past new length scales, new cells and a new number of them."""
        learner = self.half_taught()
        assert learner.policy().version == 19
        late = learner.published(3)
        save(learner, tmp_path / "learner.json")
        again = load(tmp_path / "learner.json")
        assert isinstance(again, LocalKernel)
        people = exponential().sample(400, np.random.default_rng(7))
        for one in (learner, again):
            for batch in range(10):
                part = slice(40 * batch, 40 * (batch + 1))
                serve(one, people.contexts[part], people.rewards[part], batch)
            actions, _ = late.act(people.contexts[:30], np.random.default_rng(1))
            one.update(late.report(people.contexts[:30], actions, np.ones(30), SimulatedNoise(9)))
        assert again.policy().version == learner.policy().version == 29
        assert encode(again.policy()) == encode(learner.policy())
        states = [json.dumps(one.secret_fields()) for one in (learner, again)]
        assert states[0] == states[1]
        contexts = people.contexts[:50]
        assert np.array_equal(again.predict(contexts)[0], learner.predict(contexts)[0])
        assert again.length_scales == learner.length_scales


def test_two_people_may_draw_the_same_public_coin() -> None:
    """Among ten million people two do so six times in a thousand; nobody's report is lost by it."""
    learner = LocalKernel(unit_cube(2), 2, Local(4.0))
    policy = learner.policy()
    contexts = np.random.default_rng(0).random((20, 2))
    actions, _ = policy.act(contexts, np.random.default_rng(1))
    same = replace(actions, public_coins=np.full(20, actions.public_coins[0]))
    reports = policy.report(contexts, same, np.ones(20), SimulatedNoise(2))
    learner.update(reports)
    assert learner.people == 20
    alone = [
        replace(
            reports, **{n: getattr(reports, n)[[i]] for n in ("public_coins", "places", "signs")}
        )
        for i in range(20)
    ]
    other = LocalKernel(unit_cube(2), 2, Local(4.0), identity=learner.identity)
    other.policy()
    other.update(alone)
    assert np.array_equal(other._sums.precision, learner._sums.precision)
    assert np.array_equal(other._sums.weighted, learner._sums.weighted)
    assert np.allclose(other._sums.located, learner._sums.located)


def crowded(contexts: FloatArray, source: bool = False) -> LocalKernel:
    """A learner without privacy after 12 batches of these people, whose best arm changes at their
    median of the first column."""
    learner = LocalKernel(unit_cube(2), 2, NonPrivate(), horizon=5000)
    if source:
        learner.open_source("another", 2.0)
    for number, batch in enumerate(np.array_split(contexts, 12)):
        left = batch[:, 0] < np.median(contexts[:, 0])
        serve(learner, batch, np.stack([left, ~left], axis=1).astype(float), number)
    return learner


def test_open_reports_measure_a_narrow_column_in_ranks() -> None:
    rng = np.random.default_rng(5)
    contexts = rng.random((600, 2)) * [0.03, 1.0]
    learner = crowded(contexts)
    policy = learner.policy()
    assert policy.ranks.stage > 0
    quartiles = np.column_stack([np.quantile(contexts[:, 0], [0.25, 0.5, 0.75]), [0.5] * 3])
    assert np.abs(policy.ranks(quartiles)[:, 0] - [0.25, 0.5, 0.75]).max() < 0.2
    assert np.ptp(np.diff(policy.ranks.knots[1])) < 1e-12, "people fill the other column"
    best = policy.probabilities(np.array([[0.002, 0.5], [0.028, 0.5]]))
    assert best[0, 0] > 0.9
    assert best[1, 1] > 0.9


def test_columns_that_people_fill_are_not_rescaled() -> None:
    learner = crowded(np.random.default_rng(5).random((600, 2)))
    ranks = learner.policy().ranks
    assert (ranks.stage, ranks.asked.tolist()) == (0, [])
    assert learner._sums.reports == 600


def test_ranks_do_not_change_once_a_source_is_open() -> None:
    contexts = np.random.default_rng(5).random((600, 2)) * [0.03, 1.0]
    assert crowded(contexts, source=True).policy().ranks.stage == 0
