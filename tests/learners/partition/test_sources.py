"""Auxiliary sources of the partition learner: reports, masses, projection, trust."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from discreet.domain import RewardBounds, unit_cube
from discreet.experiments import run_learner
from discreet.learners.messages import Reports
from discreet.learners.partition.learner import Partition
from discreet.learners.partition.policy import (
    NodeSums,
    PartitionReports,
    PartitionSourcePolicy,
    PartitionStatistics,
)
from discreet.learners.partition.posterior import Information, Kept, Smoothness, condition
from discreet.learners.partition.rules import badly_cut
from discreet.learners.partition.sources import (
    PRIOR_LOG_ODDS,
    Projection,
    added,
    cell_masses,
    trust,
)
from discreet.learners.partition.tree import Bins, Tree
from discreet.learners.saving import load, save
from discreet.learners.schema import decode, encode
from discreet.learners.sources import SourcePolicy
from discreet.privacy import Local, SimulatedNoise
from discreet.problems.synthetic import CornerContexts, exponential
from discreet.validation import InvalidInput

ARMS = 3


def grown(dimension: int = 2) -> Tree:
    tree = Tree.root(dimension)
    tree = tree.split(np.array([0]), np.array([0]))
    return tree.split(np.array([1]), np.array([dimension - 1]))


def policy_of(
    tree: Tree, active: np.ndarray, epsilon: float, dimension: int = 2
) -> PartitionSourcePolicy:
    return PartitionSourcePolicy(
        name="clinic",
        version=0,
        learner_id="scene",
        domain=unit_cube(dimension),
        reward_bounds=RewardBounds(),
        arms=active.shape[1],
        epsilon=epsilon,
        public_seed=1,
        bins=Bins(tree, active),
    )


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_no_report_is_more_than_e_epsilon_times_as_likely(epsilon: float) -> None:
    """All (bin, arm, sign) against all reports, through the policy's own cells."""
    tree = Tree.root(1).split(np.array([0]), np.array([0]))
    active = np.array([[True, True], [True, False]])
    policy = policy_of(tree, active, epsilon, dimension=1)
    mechanism = policy.mechanism
    assert mechanism.bins == 3  # two wanted cells, and all the rest
    values = set()
    for leaf, arm, sign in itertools.product(range(2), range(2), (-1, 1)):
        wanted = bool(policy.wanted[leaf, arm])
        values.add((int(policy._cell[leaf, arm]), sign if wanted else 1))
    logs = []
    for size_set in itertools.combinations(range(mechanism.bins), mechanism.size):
        for signs in itertools.product((-1, 1), repeat=mechanism.size):
            chosen, reported = np.array(size_set), np.array(signs, dtype=np.int8)
            each = [mechanism.log_probability(chosen, reported, j, s) for j, s in values]
            logs.append(max(each) - min(each))
    assert max(logs) <= epsilon + 1e-12
    assert max(logs) == pytest.approx(epsilon)
    assert policy.release("none").event.epsilon == epsilon  # type: ignore[union-attr]


def test_sums_are_unbiased_for_masses_and_signed_masses() -> None:
    tree, people = grown(), 40_000
    policy = policy_of(tree, np.ones((3, ARMS), dtype=bool), 2.0)
    rng = np.random.default_rng(1)
    contexts = rng.random((people, 2))
    shares = np.array([0.2, 0.3, 0.5])
    arms = rng.choice(ARMS, people, p=shares)
    means = np.array([0.1, 0.5, 0.9])
    rewards = (rng.random(people) < means[arms]).astype(float)
    reports = policy.report(contexts, arms, rewards, SimulatedNoise(2))
    assert isinstance(reports, PartitionReports)
    policy.check(reports)
    sums = policy.sums(reports)
    leaves = tree.leaves
    volume = np.prod(tree.upper[leaves] - tree.lower[leaves], axis=1)
    expected = volume[:, None] * shares * (2.0 * means - 1.0)
    deviation = np.sqrt(sums.noise_other[leaves] + sums.noise_own[leaves]) / people
    assert (np.abs(sums.signed[leaves] / people - expected) < 4.0 * deviation).all()
    found, _ = cell_masses(tree, sums)
    np.testing.assert_allclose(found.mass[0], shares, atol=0.03)
    np.testing.assert_allclose(found.mass[leaves], volume[:, None] * shares, atol=0.03)


def test_masses_of_halves_add_up_and_shares_of_arms_to_one() -> None:
    tree = grown()
    sums = NodeSums.zeros(len(tree), ARMS, ARMS)
    rng = np.random.default_rng(0)
    weight = rng.uniform(50.0, 500.0, sums.mass_weight.shape)
    total = weight * rng.uniform(0.0, 0.5, weight.shape)
    sums = replace(sums, mass_weight=weight, mass_sum=total)
    found, _ = cell_masses(tree, sums)
    for parent in np.flatnonzero(tree.axis >= 0):
        left = tree.left[parent]
        np.testing.assert_allclose(found.mass[left] + found.mass[left + 1], found.mass[parent])
    assert found.mass[0].sum() == pytest.approx(1.0, abs=0.05)
    assert (found.mass > 0.0).all()


def test_projection_onto_the_same_leaves_changes_nothing() -> None:
    tree = grown()
    rng = np.random.default_rng(3)
    root = rng.normal(size=(2, 3, 3))
    information = Information(root @ root.transpose(0, 2, 1), rng.normal(size=(2, 3)))
    same = Projection.between(tree, tree, np.full(3, 0.1)).apply(information)
    np.testing.assert_allclose(same.precision, information.precision, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(same.weighted, information.weighted, rtol=1e-6, atol=1e-6)


def test_projection_is_that_of_a_linear_gaussian_model() -> None:
    """Against the information of observations S f + e + noise, written out."""
    old, new = grown(), Tree.root(2).split(np.array([0]), np.array([1]))
    projection = Projection.between(old, new, np.full(2, 0.2))
    np.testing.assert_allclose(projection.shares.sum(axis=1), 1.0)
    noise = np.array([0.3, 0.5, 0.2])
    seen = np.array([0.4, -0.1, 0.7])
    information = Information(np.diag(1.0 / noise)[None], (seen / noise)[None])
    found = projection.apply(information)
    inverse = np.diag(1.0 / (noise + projection.blur))
    expected = projection.shares.T @ inverse @ projection.shares
    np.testing.assert_allclose(found.precision[0], expected, rtol=1e-9)
    np.testing.assert_allclose(found.weighted[0], projection.shares.T @ inverse @ seen, rtol=1e-9)


def test_trust_is_a_ratio_of_evidence() -> None:
    """Against the densities of all observations under one function or two."""
    prior = Smoothness.of(grown(), (0.4, 0.4))
    covariance = prior.root @ prior.root.T

    def log_density(seen: list[np.ndarray], noise: list[float], shared: bool) -> float:
        blocks = np.kron(np.ones((2, 2)) if shared else np.eye(2), covariance)
        total = blocks + np.diag(np.repeat(noise, 3))
        values = np.concatenate(seen)
        return -0.5 * float(
            values @ np.linalg.solve(total, values) + np.linalg.slogdet(2 * np.pi * total)[1]
        )

    one, two = np.array([0.5, -0.2, 0.1]), np.array([0.4, -0.5, 0.3])
    noises = [0.05, 0.1]
    parts = [
        Information(np.eye(3)[None] / v, y[None] / v)
        for y, v in zip((one, two), noises, strict=True)
    ]
    ratio = log_density([one, two], noises, True) - log_density([one, two], noises, False)
    expected = 1.0 / (1.0 + math.exp(-(PRIOR_LOG_ODDS + ratio)))
    assert trust(prior, parts[0], {"a": parts[1]})["a"] == pytest.approx(expected)
    assert condition(prior, added(parts))[1].max() < condition(prior, parts[0])[1].max()


def fed(
    learner: Partition, means, people: int, epsilon: float, seed: int, gamma: float = 0.0
) -> Partition:
    rng = np.random.default_rng(seed)
    contexts = CornerContexts(2, gamma)(people, rng)
    arms = rng.integers(ARMS, size=people)
    rewards = (rng.random(people) < means(contexts)[np.arange(people), arms]).astype(float)
    name = f"source {len(learner.sources)}"
    learner.open_source(name, epsilon)
    start = 0
    while start < people:
        stop = min(people, start + learner.source_batch(name))
        some = slice(start, stop)
        policy = learner.source_policy(name)
        noise = SimulatedNoise(seed + start)
        learner.update_source(policy.report(contexts[some], arms[some], rewards[some], noise))
        start = stop
    return learner


def made(seed: int = 0) -> Partition:
    problem = exponential()
    return Partition(problem.domain, ARMS, Local(1.0), public_seed=seed)


def regret(learner: Partition, people: int, seed: int) -> float:
    problem = exponential()
    crowd = problem.sample(people, np.random.default_rng(seed))
    noise = SimulatedNoise(seed)
    return float(run_learner(learner, crowd, np.random.default_rng(seed + 1), noise).sum())


def test_a_source_gives_a_jump_start_and_is_trusted() -> None:
    problem = exponential()
    alone = np.mean([regret(made(seed), 3000, seed) for seed in range(2)])
    learners = [fed(made(seed), problem._means, 5000, 8.0, 10 + seed) for seed in range(2)]
    helped = np.mean([regret(one, 3000, seed) for seed, one in enumerate(learners)])
    assert helped < 0.1 * alone
    assert all(one.source_trust()["source 0"] > 0.95 for one in learners)
    guarantees = learners[0].source_guarantees()
    assert guarantees["source 0"].epsilon == 8.0
    assert learners[0].guarantee().epsilon == 1.0


def test_a_source_that_contradicts_is_given_up_and_does_not_ruin_the_target() -> None:
    problem = exponential()

    def reversed_means(contexts: np.ndarray) -> np.ndarray:
        return problem._means(contexts)[:, ::-1]

    learner = fed(made(3), reversed_means, 5000, 8.0, 4)
    lost = regret(learner, 8000, 5)
    assert learner.source_trust() == {"source 0": 0.0}
    assert lost < 0.65 * 8000 * 0.41  # of what choosing at random loses
    assert learner.guarantee().epsilon == 1.0
    assert learner._left_behind  # it began with one bin again


def test_what_sources_said_is_worked_out_anew_when_they_say_more() -> None:
    """Sums are new objects that may lie where old ones lay."""
    problem, learner = exponential(), made(2)
    learner.open_source("clinic", 4.0)
    rng = np.random.default_rng(3)
    for _ in range(60):
        contexts = rng.random((40, 2))
        arms = rng.integers(ARMS, size=40)
        rewards = (rng.random(40) < problem._means(contexts)[np.arange(40), arms]).astype(float)
        policy = learner.source_policy("clinic")
        learner.update_source(
            policy.report(contexts, arms, rewards, SimulatedNoise(rng.integers(9**9)))
        )
        kept = learner._at_home()["clinic"]
        learner._known = Kept()
        anew = learner._at_home()["clinic"]
        assert np.array_equal(kept.precision, anew.precision)
        assert np.array_equal(kept.weighted, anew.weighted)


def test_bins_cut_along_an_idle_axis_are_badly_cut() -> None:
    tree = Tree.root(2).split(np.array([0]), np.array([1]))
    active = np.ones((2, ARMS), dtype=np.bool_)
    mass = np.array([1.0, 0.5, 0.5])
    assert badly_cut(Bins(tree, active), mass, (0.2, 3.2))  # the other axis came first
    assert not badly_cut(Bins(tree, active), mass, (3.2, 0.2))
    assert not badly_cut(Bins(tree, active), mass, (0.8, 0.8))
    active = np.array([[True, False, False]] * 2)  # one arm left: nothing to be told apart
    assert not badly_cut(Bins(tree, active), mass, (0.2, 3.2))


def test_bins_are_made_anew_once_length_scales_are_known(tmp_path) -> None:
    """A tree that was cut along an axis that does not matter is not kept, nor are its reports
    lost."""
    learner = made(5)
    tree = Tree.root(2).split(np.array([0]), np.array([1]))
    tree = tree.split(tree.leaves, np.array([1, 1]))
    learner._bins = Bins(tree, np.ones((4, ARMS), dtype=np.bool_))
    learner._target.sums += PartitionStatistics((NodeSums.zeros(len(tree), ARMS),), reports=0)
    lost = regret(learner, 3000, 6)
    assert learner._left_behind[0] is tree
    assert learner.people == 3000
    assert lost < 0.65 * 3000 * 0.41
    save(learner, tmp_path / "learner.json")
    again = load(tmp_path / "learner.json")
    assert isinstance(again, Partition)
    assert again._may_restart_at == learner._may_restart_at > learner.rules.first_learning


def test_save_and_load_with_sources(tmp_path) -> None:
    problem = exponential()
    learner = fed(made(6), problem._means, 2000, 4.0, 7)
    regret(learner, 1500, 8)
    save(learner, tmp_path / "learner.json")
    again = load(tmp_path / "learner.json")
    assert isinstance(again, Partition)
    assert again.source_people("source 0") == 2000
    assert encode(again.policy()) == encode(learner.policy())
    assert again.source_guarantees() == learner.source_guarantees()
    assert regret(again, 800, 9) == regret(learner, 800, 9)


def test_messages_round_trip() -> None:
    learner = made(1)
    learner.open_source("clinic", 2.0)
    policy = learner.source_policy("clinic")
    text = encode(policy)
    assert encode(decode(text, SourcePolicy)) == text
    reports = policy.report([[0.2, 0.3]], [1], [1.0], SimulatedNoise(0))
    copy = decode(encode(reports), Reports)
    learner.update_source(copy)  # type: ignore[arg-type]
    assert learner.source_people("clinic") == 1


def test_reports_that_no_policy_makes_change_nothing() -> None:
    learner = made()
    learner.open_source("clinic", 2.0)
    policy = learner.source_policy("clinic")
    good = policy.report([[0.2, 0.3]] * 4, [0, 1, 2, 0], [1.0] * 4, SimulatedNoise(0))
    bad = PartitionReports(
        **policy.origin(good.noise), tickets=None, bins=good.bins + 50, signs=good.signs
    )
    with pytest.raises(InvalidInput, match="different cells"):
        learner.update_source([good, bad])
    assert learner.source_people("clinic") == 0
