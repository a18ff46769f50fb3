"""The partition learner as a whole: calibration, use of late reports, options, published form."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from discreet.lab.environments.base import Problem
from discreet.lab.environments.synthetic import (
    BetaContexts,
    ContextSampler,
    ExponentialMeans,
    MeanFunction,
    SyntheticProblem,
    UniformContexts,
    exponential,
    symmetric,
)
from discreet.lab.experiments import run_learner
from discreet.learners.partition.learner import Partition
from discreet.learners.partition.policy import NodeSums, PartitionStatistics
from discreet.learners.partition.rules import Rules, badly_cut
from discreet.learners.partition.tree import Bins, Ranked, Tree
from discreet.learners.registry import make_learner
from discreet.learners.saving import load, save
from discreet.papers.ma2025.learners.abse import Abse
from discreet.papers.ma2025.learners.published_partition import CellSums, PublishedPartition
from discreet.people.domain import Box, unit_cube
from discreet.privacy import Budget, Local, NonPrivate, SimulatedNoise
from discreet.validation import InvalidInput

from ..contract import ARMS
from ..source_scene import regret


def taught(problem: Problem, people: int, seed: int, budget: Local | NonPrivate) -> Partition:
    learner = Partition(problem.domain, problem.arms, budget, public_seed=seed)
    rng = np.random.default_rng(seed)
    run_learner(learner, problem.sample(people, rng), rng, SimulatedNoise(seed))
    return learner


def z_scores(problem: Problem, learner: Partition) -> np.ndarray:
    """Of all arms in bins with more than 0.5% of the mass."""
    bins, state = learner.beliefs()
    people = problem.sample(100_000, np.random.default_rng(1))
    leaf = bins.tree.leaf_position[bins.tree.locate(people.contexts)]
    count = np.bincount(leaf, minlength=len(bins.tree.leaves))
    truth = (
        np.stack(
            [
                np.bincount(leaf, 2.0 * people.means[:, k] - 1.0, minlength=len(count))
                for k in range(problem.arms)
            ],
            axis=1,
        )
        / np.maximum(count, 1)[:, None]
    )
    big = count > 0.005 * len(leaf)
    return ((state.mean - truth) / np.sqrt(state.variance))[big].ravel()


def check_calibration(problem: Problem, epsilon: float, seeds: range, people: int) -> None:
    scores = [z_scores(problem, taught(problem, people, s, Local(epsilon))) for s in seeds]
    # Deviations that are a little too wide cost regret; those that are too narrow are untrue.
    assert 0.8 <= np.std(np.concatenate(scores)) <= 1.2


def test_beliefs_are_calibrated() -> None:
    check_calibration(exponential(), 2.0, range(500, 502), 6_000)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 2.0])
@pytest.mark.parametrize(
    "problem",
    [exponential(), symmetric(), exponential().under(BetaContexts(((2, 5), (1, 1))))],
    ids=["exponential", "symmetric", "beta"],
)
def test_beliefs_are_calibrated_everywhere(
    problem: Problem, epsilon: float, request: pytest.FixtureRequest
) -> None:
    if request.node.callspec.id == "exponential-2.0":
        reason = "deviations are too wide: z has deviation .78, and .82 over 30 other seeds"
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))
    check_calibration(problem, epsilon, range(510, 520), 80_000)


def regret_of(problem: Problem, people: int, seed: int, budget: Budget) -> float:
    learner = Partition(problem.domain, problem.arms, budget, public_seed=seed)
    rng = np.random.default_rng(seed)
    return float(run_learner(learner, problem.sample(people, rng), rng, SimulatedNoise(seed)).sum())


def test_it_learns_and_privacy_costs_something() -> None:
    """Regret of 4,000 people: non-private and epsilon 4 < epsilon 1 < 60% of uniform choice."""
    budgets = (NonPrivate(), Local(4.0), Local(1.0))
    totals = [regret_of(exponential(), 4_000, 3, budget) for budget in budgets]
    assert max(totals[:2]) < totals[2] < 0.6 * 0.414 * 4_000


def lost(means: MeanFunction, contexts: ContextSampler, people: int, budget: Budget) -> float:
    """The share of what uniform choice loses that the learner loses."""
    problem = SyntheticProblem(means, contexts, 2, 3, "For this test.")
    learner = Partition(problem.domain, 3, budget, public_seed=4)
    rng = np.random.default_rng(4)
    crowd = problem.sample(people, rng)
    regret = run_learner(learner, crowd, rng, SimulatedNoise(4)).sum()
    return float(regret / (crowd.means.max(axis=1) - crowd.means.mean(axis=1)).sum())


@pytest.mark.parametrize(
    ("budget", "share"),
    [pytest.param(NonPrivate(), 0.4, marks=pytest.mark.slow), (Local(4.0), 0.55)],
)
def test_five_hundred_people_are_enough_where_bins_are_free(
    budget: Local | NonPrivate, share: float
) -> None:
    """Of what uniform choice loses; no bin that all people share tells them apart."""
    lost = [regret_of(exponential(), 500, seed, budget) for seed in range(150, 153)]
    assert np.mean(lost) < share * 0.414 * 500


@pytest.mark.slow
def test_arms_that_were_found_bad_are_not_tried_again_when_bins_are_split() -> None:
    """Nearly all who were offered them came before; the last half of the people loses next to
    nothing."""
    problem = exponential(arms=10)
    learner = Partition(problem.domain, 10, NonPrivate(), public_seed=7)
    rng = np.random.default_rng(7)
    lost = run_learner(learner, problem.sample(6_000, rng), rng, SimulatedNoise(7))
    assert lost[3_000:].mean() < 0.25 * lost[:600].mean()


@pytest.mark.slow
def test_bounds_that_are_far_too_wide_cost_depth_and_not_learning() -> None:
    """All people are in a corner of side 0.05, and the best arm changes within it."""

    def corner(people: int, rng: np.random.Generator) -> np.ndarray:
        return 0.05 * rng.random((people, 2))

    def means(contexts: np.ndarray) -> np.ndarray:
        return ExponentialMeans(3)(20.0 * contexts)

    assert lost(means, corner, 6_000, NonPrivate()) < 0.5
    assert lost(means, corner, 12_000, Local(4.0)) < 0.5


@pytest.mark.slow
def test_structure_under_halves_that_look_alike_is_found() -> None:
    """The mean of every arm is the same in either half of the square, and in those of halves."""

    def waves(contexts: np.ndarray) -> np.ndarray:
        phase = 3.0 * contexts[:, :1] + np.arange(3) / 3.0
        return 0.5 + 0.45 * np.sin(2 * np.pi * phase) * np.cos(6 * np.pi * contexts[:, 1:])

    assert lost(waves, UniformContexts(2), 8_000, NonPrivate()) < 0.75


def test_reports_for_bins_that_were_split_still_count() -> None:
    problem = exponential()
    learner = taught(problem, 10_000, 1, Local(4.0))
    first = learner.published(0)
    assert len(learner.policy().tree) > 1
    rng = np.random.default_rng(9)
    people = problem.sample(2000, rng)
    actions, _ = first.act(people.contexts, rng)
    rewards = people.rewards[np.arange(2000), actions.arms]
    before, _ = learner.beliefs()
    spread = learner.beliefs()[1].variance.sum()
    place = bisect_right(learner._decided.started, 0)
    asked = learner._target._sums.trees[place].offered[first.tree.leaves].sum()
    learner.update(first.report(people.contexts, actions, rewards, SimulatedNoise(1)))
    more = learner._target._sums.trees[place].offered[first.tree.leaves].sum() - asked
    assert more == 2000 * first.tree.leaf_count  # everybody reports on every bin
    assert learner.beliefs()[0] is before
    assert learner.beliefs()[1].variance.sum() < spread


def test_columns_with_few_values_are_not_split_further() -> None:
    domain = Box((0.0, 0.0), (1.0, 1.0), ("x", "yes"), (None, 2))
    learner = Partition(domain, 2, NonPrivate())
    rng = np.random.default_rng(0)
    for _ in range(15):
        policy = learner.policy()
        contexts = np.stack([rng.random(300), rng.integers(2, size=300)], axis=1)
        actions, _ = policy.act(contexts, rng)
        good = (contexts[:, 0] > 0.5) ^ (contexts[:, 1] > 0.5)
        rewards = (actions.arms == good).astype(float)
        learner.update(policy.report(contexts, actions, rewards, SimulatedNoise(1)))
    tree = learner.policy().tree
    assert (tree.upper - tree.lower)[:, 1].min() >= 0.5
    assert np.mean(rewards) > 0.9


def test_rules_from_a_study_file() -> None:
    learner = make_learner(
        "partition", unit_cube(1), 2, Local(1.0), options={"caution": 2.5, "temperature": 0.5}
    )
    assert isinstance(learner, Partition)
    assert learner.rules == Rules(caution=2.5, temperature=0.5)


@pytest.mark.parametrize("most", [7, pytest.param(16, marks=pytest.mark.slow)])
def test_the_number_of_bins_fills_up_to_its_limit(most: int) -> None:
    problem = exponential()
    learner = Partition(problem.domain, 3, NonPrivate(), rules=Rules(max_bins=most))
    rng = np.random.default_rng(0)
    run_learner(learner, problem.sample(700 * most, rng), rng, SimulatedNoise(0))
    assert len(learner.policy().tree.leaves) == most


class TestPublished:
    """Algorithm 2 by hand on sums that are set by hand."""

    def learner(self, epsilon: float = 1.0) -> PublishedPartition:
        return PublishedPartition(unit_cube(2), 2, Local(epsilon), horizon=10_000)

    @staticmethod
    def sums(times: float, chosen: list[float], rewards: list[float]) -> CellSums:
        """The sums of one leaf."""
        return CellSums(np.array([times]), np.array([chosen]), np.array([rewards]), reports=0)

    def test_radius_is_equation_14(self) -> None:
        learner = self.learner(2.0)
        sums = self.sums(500.0, [300.0, -20.0], [200.0, 5.0])
        radius = learner._bounds(np.array([0]), sums)[1][0]
        log = math.log(10_000)
        assert radius[0] == pytest.approx(math.sqrt(log * max(500 / 4, 300)) / 300)
        assert radius[1] == pytest.approx(math.sqrt(log * 125) / 20)

    @pytest.mark.parametrize(
        ("times", "gap", "beaten"), [(5000, 0.9, True), (5000, 0.1, False), (50, 0.9, False)]
    )
    def test_elimination_is_equation_16(self, times: float, gap: float, beaten: bool) -> None:
        learner = self.learner(8.0)
        sums = self.sums(times, [2500.0, 2500.0], [2500.0 * (0.05 + gap), 2500.0 * 0.05])
        assert learner._beaten(np.array([0]), sums)[0].tolist() == [False, beaten]

    def test_splitting_is_equation_17(self) -> None:
        learner = self.learner()
        tau = 2.0 * math.sqrt(2.0)
        for radius, known in [(0.99 * tau, True), (1.01 * tau, False)]:
            chosen = math.sqrt(math.log(10_000) * 100.0) / radius
            sums = self.sums(100.0, [chosen, chosen], [0.0, 0.0])
            assert learner._known(np.array([0]), sums)[0] == known

    def test_beyond_its_horizon_n_is_the_people_so_far(self) -> None:
        learner = PublishedPartition(unit_cube(2), 2, Local(1.0), horizon=3)
        policy = learner.policy()
        contexts = np.full((2, 2), 0.5)
        actions, _ = policy.act(contexts, np.random.default_rng(1))
        report = policy.report(contexts, actions, np.ones(2), SimulatedNoise(2))
        for people, expected in [(2, 3), (4, 4), (6, 6)]:
            learner.update(report)
            assert learner.people == people
            assert learner.log_people == math.log(expected)

    def test_one_report_cannot_undo_all_others(self) -> None:
        learner = self.learner()
        policy = learner.policy()
        actions, _ = policy.act([[0.5, 0.5]], np.random.default_rng(1))
        report = policy.report([[0.5, 0.5]], actions, [1.0], SimulatedNoise(2))
        with pytest.raises(InvalidInput, match="does not reach"):
            learner.update(replace(report, values=report.values * 1e6))

    def test_every_person_adds_noise_to_every_pair(self) -> None:
        learner = self.learner()
        policy = learner.policy()
        contexts = np.random.default_rng(0).random((4000, 2))
        actions, _ = policy.act(contexts, np.random.default_rng(1))
        report = policy.report(contexts, actions, np.ones(4000), SimulatedNoise(2))
        assert report.values.shape == (4000, 4)
        assert np.allclose(report.values.var(axis=0), 32.0, rtol=0.15)
        release = policy.release("SecureNoise")
        assert release is not None
        found = (release.sensitivity, release.scale, release.event.epsilon)
        assert found == pytest.approx((4.0, 4.0, 1.0))


def test_abse_finds_the_best_arm() -> None:
    problem = exponential(dimension=1)
    learner = Abse(problem.domain, 3, NonPrivate(), horizon=40_000, smoothness=2.0)
    rng = np.random.default_rng(0)
    regret = run_learner(learner, problem.sample(40_000, rng), rng, SimulatedNoise(0))
    assert regret[-5000:].mean() < 0.1 < regret[:2000].mean()
    assert not learner.policy().bins.active.all()


def test_bins_cut_along_an_idle_axis_are_badly_cut() -> None:
    tree = Tree.root(2).split(np.array([0]), np.array([1]))
    mass = np.array([1.0, 0.5, 0.5])
    contending, resolved = np.ones((2, ARMS), dtype=bool), np.eye(2, ARMS, dtype=bool)
    for active, scales, badly in [
        (contending, (0.2, 3.2), True),  # the other axis came first
        (contending, (3.2, 0.2), False),
        (contending, (0.8, 0.8), False),
        (resolved, (0.2, 3.2), False),  # one arm left: nothing to be told apart
    ]:
        assert badly_cut(Bins(tree, active), Ranked.plain(tree), mass, scales) == badly


def test_bins_are_made_anew_once_length_scales_are_known(tmp_path: Path) -> None:
    """A tree that was cut along an axis that does not matter is not kept, nor are its reports
    lost."""
    learner = Partition(exponential().domain, ARMS, Local(1.0), public_seed=5)
    tree = Tree.root(2).split(np.array([0]), np.array([1]))
    tree = tree.split(tree.leaves, np.array([1, 1]))
    bins = Bins(tree, np.ones((4, ARMS), dtype=np.bool_))
    now = replace(learner._decided.now, bins=bins, mass=np.full(4, 0.25))
    learner._decide(now=now)
    learner._target._sums += PartitionStatistics((NodeSums.zeros(len(tree), ARMS),), reports=0)
    lost = regret(learner, 6000, 6)
    assert learner._decided.left_behind[0] is tree
    assert learner.people == 6000
    assert lost < 0.65 * 6000 * 0.41
    save(learner, tmp_path / "learner.json")
    again = load(tmp_path / "learner.json")
    assert isinstance(again, Partition)
    restart = again._decided.may_restart_at
    assert restart == learner._decided.may_restart_at > learner.rules.first_learning
