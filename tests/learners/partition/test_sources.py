"""Auxiliary sources of the partition learner: reports, masses, projection, trust."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from discreet.lab.environments.synthetic import exponential
from discreet.learners.partition.learner import Partition
from discreet.learners.partition.policy import (
    NodeSums,
    PartitionStatistics,
)
from discreet.learners.partition.posterior import (
    SHARED_VARIANCE,
    cell_masses,
    log_evidence,
    projected,
    smoothness,
    source_information,
)
from discreet.learners.partition.rules import badly_cut
from discreet.learners.partition.tree import Bins, Ranked, Tree, overlaps
from discreet.learners.saving import load, save
from discreet.learners.signs import SignedReports
from discreet.learners.sources import PRIOR_LOG_ODDS, Information, believe
from discreet.privacy import Local, SimulatedNoise
from discreet.validation import InvalidInput

from ..contract import ARMS
from ..source_scene import hear, regret, reversed_truth, truth
from .scene import source_policy, three_leaves


def test_sums_are_unbiased_for_masses_and_signed_masses() -> None:
    tree, people = three_leaves(), 40_000
    policy = source_policy(tree, np.ones((3, ARMS), dtype=bool), 2.0)
    rng = np.random.default_rng(1)
    contexts = rng.random((people, 2))
    shares = np.array([0.2, 0.3, 0.5])
    arms = rng.choice(ARMS, people, p=shares)
    means = np.array([0.1, 0.5, 0.9])
    rewards = (rng.random(people) < means[arms]).astype(float)
    reports = policy.report(contexts, arms, rewards, SimulatedNoise(2))
    assert isinstance(reports, SignedReports)
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
    tree = three_leaves()
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
    tree = three_leaves()
    rng = np.random.default_rng(3)
    root = rng.normal(size=(2, 3, 3))
    information = Information(root @ root.transpose(0, 2, 1), rng.normal(size=(2, 3)))
    ranked = Ranked.plain(tree)
    same = projected(information, ranked, ranked, np.full(3, 0.1))
    np.testing.assert_allclose(same.precision, information.precision, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(same.weighted, information.weighted, rtol=1e-6, atol=1e-6)


def test_projection_is_that_of_a_linear_gaussian_model() -> None:
    """Against the information of observations S f + e + noise, written out."""
    old = Ranked.plain(three_leaves())
    new = Ranked.plain(Tree.root(2).split(np.array([0]), np.array([1])))
    shares, coverage = (part[old.tree.leaves] for part in overlaps(old, new))
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(coverage.sum(axis=0), 1.0)
    noise, seen = np.array([0.3, 0.5, 0.2]), np.array([0.4, -0.1, 0.7])
    information = Information(np.diag(1.0 / noise)[None], (seen / noise)[None])
    there = projected(information, old, new, np.full(2, 0.2))
    blur = np.maximum((0.2 * shares**2 * (1.0 - coverage)).sum(axis=1), 1e-9)
    inverse = np.diag(1.0 / (noise + blur))
    np.testing.assert_allclose(there.precision[0], shares.T @ inverse @ shares, rtol=1e-9)
    np.testing.assert_allclose(there.weighted[0], shares.T @ inverse @ seen, rtol=1e-9)


def test_trust_is_a_ratio_of_evidence() -> None:
    """Against the densities of all observations under one function or two."""
    prior = smoothness(Ranked.plain(three_leaves()), (0.4, 0.4))
    covariance = prior.root @ prior.root.T + SHARED_VARIANCE

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
    belief = believe(parts[0], {"a": parts[1]}, partial(log_evidence, prior))
    assert belief.trust["a"] == pytest.approx(expected)
    assert belief.doubt == pytest.approx(1.0 - expected)


def made(seed: int = 0) -> Partition:
    return Partition(exponential().domain, ARMS, Local(1.0), public_seed=seed)


@pytest.mark.slow
def test_a_source_gives_a_jump_start_and_is_trusted() -> None:
    alone = np.mean([regret(made(seed), 3000, seed) for seed in range(4)])
    learners = [hear(made(seed), truth, 5000, 8.0, 10 + seed) for seed in range(4)]
    helped = np.mean([regret(learner, 3000, seed) for seed, learner in enumerate(learners)])
    assert helped < 0.1 * alone
    assert all(learner.source_trust()["source 0"] > 0.9 for learner in learners)
    assert learners[0].source_guarantees()["source 0"].epsilon == 8.0
    assert learners[0].guarantee().epsilon == 1.0


def test_a_source_that_contradicts_is_given_up_and_does_not_ruin_the_target() -> None:
    learner = hear(made(13), reversed_truth, 5000, 8.0, 5)
    lost = regret(learner, 8000, 15)
    assert learner.source_trust() == {"source 0": 0.0}
    assert lost < 0.65 * 8000 * 0.41  # of what choosing at random loses
    assert learner.guarantee().epsilon == 1.0
    assert learner._decided.left_behind  # it began with one bin again


def test_what_sources_said_is_worked_out_anew_when_they_say_more() -> None:
    """What was kept of earlier sums is what is worked out from the present ones."""
    learner = made(2)
    for part in range(12):
        hear(learner, truth, 200, 4.0, part)
        shared = learner._decided.shared
        tree, scales = shared.tree, shared.length_scales[0]
        for name, kept in learner._of_sources().items():
            sums = learner.source(name).sums.trees[0]
            anew = source_information.__wrapped__(tree, sums, scales)
            assert np.array_equal(kept.precision, anew.precision)
            assert np.array_equal(kept.weighted, anew.weighted)


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


def test_sums_of_a_source_are_none_of_the_target() -> None:
    learner = made(5)
    learner.policy()
    # Whose arms are private has a mass for each arm, which would be added to all arms alike.
    foreign, noise = NodeSums.zeros(1, ARMS, ARMS), (SimulatedNoise.name,)
    sums = PartitionStatistics((foreign,), reports=1, noise=noise)
    with pytest.raises(InvalidInput, match="masses a node"):
        learner.merge(learner._target.marked(sums))


def test_bins_are_made_anew_once_length_scales_are_known(tmp_path: Path) -> None:
    """A tree that was cut along an axis that does not matter is not kept, nor are its reports
    lost."""
    learner = made(5)
    tree = Tree.root(2).split(np.array([0]), np.array([1]))
    tree = tree.split(tree.leaves, np.array([1, 1]))
    bins = Bins(tree, np.ones((4, ARMS), dtype=np.bool_))
    now = replace(learner._decided.now, bins=bins, mass=np.full(4, 0.25))
    learner._decide(now=now)
    learner._target.sums += PartitionStatistics((NodeSums.zeros(len(tree), ARMS),), reports=0)
    lost = regret(learner, 6000, 6)
    assert learner._decided.left_behind[0] is tree
    assert learner.people == 6000
    assert lost < 0.65 * 6000 * 0.41
    save(learner, tmp_path / "learner.json")
    again = load(tmp_path / "learner.json")
    assert isinstance(again, Partition)
    restart = again._decided.may_restart_at
    assert restart == learner._decided.may_restart_at > learner.rules.first_learning
