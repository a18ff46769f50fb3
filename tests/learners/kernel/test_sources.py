"""Auxiliary sources of the kernel bandit: reports, measurements, densities, trust."""

from __future__ import annotations

import copy
import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.codec import decode, encode
from discreet.lab.environments.synthetic import exponential
from discreet.learners.kernel.design import Measurements
from discreet.learners.kernel.joint import JointKernel
from discreet.learners.kernel.learner import LocalKernel, source_cell_counts
from discreet.learners.kernel.policy import KernelPolicy
from discreet.learners.kernel.posterior import PRIOR_LOG_ODDS, CoefficientPosterior
from discreet.learners.policy import Policy
from discreet.learners.saving import load, save
from discreet.learners.signs import SignedReports
from discreet.people.domain import Box, RewardBounds, unit_cube
from discreet.privacy import Joint, Local, SimulatedNoise, Unprotected
from discreet.validation import FloatArray, IntArray, InvalidInput

from ..contract import ARMS
from ..source_scene import hear, regret, reversed_truth, truth
from .scene import FOUR, source_policy

SQUARE = unit_cube(2)


def told(policy: KernelPolicy, contexts: Any, arms: Any, rewards: Any, seed: int) -> SignedReports:
    reports = policy.report(contexts, arms, rewards, SimulatedNoise(seed))
    assert isinstance(reports, SignedReports)
    policy.reporter.check(policy, reports)
    return reports


def people_on_points(
    policy: KernelPolicy, count: int, rng: np.random.Generator
) -> tuple[FloatArray, IntArray]:
    """Contexts and arms under the policy's density, on its integration points."""
    share = policy.density[policy.grid.bins]
    row = rng.choice(len(share), count, p=share / share.sum())
    return policy.grid.points[row, :-1], row % policy.arms


@pytest.mark.parametrize(("epsilon", "count"), [(1.0, 6), (4.0, 12), (1.0, 1)])
def test_measurements_are_unbiased(epsilon: float, count: int) -> None:
    """E[t 1(cell = j)] = P_j a' theta, for every question and cell, and P_j is how often j."""
    policy = source_policy(epsilon=epsilon, count=count, shares=np.array([0.2, 0.3, 0.5]))
    rng = np.random.default_rng(2)
    size, people = len(policy.features), 150_000
    theta = np.zeros((ARMS, size))
    theta[:, :4] = 0.1 * rng.standard_normal((ARMS, 4))
    contexts, arms = people_on_points(policy, people, rng)
    phi = policy.features(contexts, np.arange(4))
    signed = (phi * theta[arms, :4]).sum(axis=1)
    assert np.abs(signed).max() < 1.0
    rewards = (rng.random(people) < 0.5 * (1.0 + signed)).astype(float)
    reports = told(policy, contexts, arms, rewards, 3)
    measured = Measurements(policy)
    partitions = len(policy.cells.axis)
    errors, rates = [], []
    for question, cell in itertools.product(range(policy.questions), range(count)):
        function, partition = divmod(question, partitions)
        vector = measured.vectors(*(np.array([one]) for one in (function, partition, cell)))[0]
        shown = measured.shown[partition, cell]
        asked = reports.public_coins == question
        told_so = np.where(reports.places[:, 0] == cell, reports.signs[:, 0], 0)[asked]
        error = math.sqrt(shown / asked.sum())
        errors.append((told_so.mean() - shown * float(vector @ theta.ravel())) / error)
        rates.append((np.abs(told_so).mean() - shown) / error)
    for scaled in (np.array(errors), np.array(rates)):
        assert np.abs(scaled).max() < 3.0 + 0.5 * (len(scaled) > 30)
        assert (scaled**2).mean() < 1.6


def test_sums_are_exact_in_any_order() -> None:
    policy = source_policy(epsilon=4.0, count=12)
    rng = np.random.default_rng(5)
    reports = told(policy, rng.random((90, 2)), rng.integers(3, size=90), rng.random(90), 6)
    measured = Measurements(policy)
    whole = measured.statistics(reports)
    parts = []
    for some in np.array_split(rng.permutation(90), 4):
        cut = {name: getattr(reports, name)[some] for name in ("public_coins", "places", "signs")}
        parts.append(measured.statistics(replace(reports, **cut)))
    total = parts[3] + parts[1] + parts[0] + parts[2]
    np.testing.assert_array_equal(total.precision, whole.precision)
    np.testing.assert_array_equal(total.weighted, whole.weighted)
    np.testing.assert_allclose(total.located, whole.located, rtol=1e-9)
    assert total.reports == total.placed == 90


def test_sources_have_two_cells_for_each_arm() -> None:
    assert source_cell_counts(3, 1.0) == [6]
    assert source_cell_counts(2, 0.1) == [4]
    assert source_cell_counts(7, 1.0) == [16]
    assert source_cell_counts(200, 1.0) == [192]
    assert source_cell_counts(3, 3.0) == [6, 8, 12]
    assert min(source_cell_counts(3, 8.0)) == 6
    assert max(source_cell_counts(3, 8.0)) == 192


def made(seed: int = 0) -> LocalKernel:
    domain = exponential().domain
    return LocalKernel(domain, ARMS, Local(1.0), public_seed=seed, identity=f"made {seed}")


@pytest.mark.slow
def test_shares_of_arms_are_learnt() -> None:
    learner = hear(made(), truth, 2000, 4.0, 1, shares=(0.1, 0.3, 0.6))
    density = learner.policy("source 0").density.reshape(-1, ARMS)
    np.testing.assert_allclose(density.mean(axis=0) / ARMS, (0.1, 0.3, 0.6), atol=0.1)


@pytest.mark.slow
def test_sources_give_a_start() -> None:
    alone = regret(made(1), 1200, 31)
    heard = made(1)
    for k in range(2):
        hear(heard, truth, 1500, 8.0, 40 + k)
    assert regret(heard, 1200, 31) < 0.3 * alone
    assert min(heard.source_weights().values()) > 0.9


def joint(domain: Box = SQUARE, **options: Any) -> JointKernel:
    budget = Joint(1.0, 1e-6, max_contributions=options.pop("max_contributions", 1))
    common: dict[str, Any] = {"noise": SimulatedNoise(3), "horizon": 2000, "public_seed": 5}
    return JointKernel(domain, ARMS, budget, first=200, **{**common, **options})


@pytest.mark.slow
def test_sources_give_a_start_under_joint_privacy() -> None:
    alone = regret(joint(horizon=4000), 4000, 31)
    heard = hear(joint(horizon=4000), truth, 3000, 4.0, 40)
    assert regret(heard, 4000, 31) < 0.3 * alone
    contrary = hear(joint(horizon=4000), reversed_truth, 1500, 4.0, 75)
    assert regret(contrary, 4000, 31) < 1.5 * alone
    assert contrary.source_weights() == {"source 0": 0.0}


def epoch(learner: JointKernel, people: FloatArray, reward: float = 1.0) -> None:
    """Serve everybody of an epoch, drawn from these contexts."""
    policy, rng = learner.policy(), np.random.default_rng(learner.people)
    contexts = rng.choice(people, learner.batch_size)
    actions, _ = policy.act(contexts, rng)
    rewards = np.full(len(contexts), reward)
    learner.update(policy.report(contexts, actions, rewards, Unprotected()))


def test_a_source_goes_on_after_the_target_has_clipped() -> None:
    """Fault once found: its later reports were refused, and in a service the study paused."""
    learner = joint(reward_bounds=RewardBounds(0.0, 1000.0))
    learner.open_source("bank", 4.0)
    rng, count = np.random.default_rng(0), 0
    for version in range(4):
        bank = learner.policy("bank")
        assert bank.version == version
        size = learner.batch_of("bank")
        contexts, rewards = rng.random((size, 2)), 100.0 * rng.random(size)
        learner.update(told(bank, contexts, rng.integers(ARMS, size=size), rewards, version))
        epoch(learner, rng.random((200, 2)), 50.0)
        count += size
    assert learner.policy().clipping_range != (0.0, 1.0)
    assert learner.streams["bank"].people == count
    known = learner._of_source(learner.streams["bank"])
    plain = learner.streams["bank"]._sums.information
    assert not np.allclose(known.weighted, plain.weighted)


def test_predictions_do_not_depend_on_who_looked_before(tmp_path: Path) -> None:
    """Fault once found: they were kept where a policy of a source had learnt hyperparameters."""
    learner = hear(joint(), truth, 400, 8.0, 3)
    points = np.random.default_rng(0).random((20, 2))
    for publish in (lambda: learner.policy("source 0"), learner.policy):
        learner.predict(points)
        publish()
        save(learner, tmp_path / "learner.json")
        again: Any = load(tmp_path / "learner.json", SimulatedNoise(9))
        np.testing.assert_array_equal(again.predict(points), learner.predict(points))


def test_ranks_stay_where_sources_were_asked_before(tmp_path: Path) -> None:
    """Their reports are about functions of these ranks; a file knows which ones were chosen."""
    corner = 0.2 * np.random.default_rng(1).random((50, 2))
    plain = [[0.0, 1.0]] * 2
    for first in (True, False):
        learner = joint()
        learner.open_source("bank", 2.0)
        if first:
            learner.policy("bank")
        epoch(learner, corner)
        learner.policy()
        assert (learner.weights @ (learner._points.max(axis=1) < 0.25) > 0.15) == first
        policy = learner.policy("bank")
        found = policy.ranks(np.full((1, 2), 0.2))
        assert (found > 0.4).all() == (not first)
        np.testing.assert_allclose(policy.ranks(corner), learner.policy().ranks(corner))
        assert (policy.ranks(np.array(plain)) == np.array(plain)).all()
        learner.update(told(policy, corner, [0] * 50, [1.0] * 50, 7))
        epoch(learner, corner)
        save(learner, tmp_path / "learner.json")
        again = load(tmp_path / "learner.json", noise=copy.deepcopy(learner.noise))
        assert isinstance(again, JointKernel)
        assert encode(again.policy()) == encode(learner.policy())
        assert encode(again.policy("bank")) == encode(learner.policy("bank"))
        there, here = again.predict(corner), learner.predict(corner)
        np.testing.assert_array_equal(there, here)


def test_the_histogram_beside_a_vector_shows_where_people_are() -> None:
    corner = 0.2 * np.random.default_rng(1).random((50, 2))
    learner = hear(joint(), truth, 400, 8.0, 3)
    assert learner.policy().directions > 0
    epoch(learner, corner)
    learner.policy()
    inside = learner._points.max(axis=1) < 0.25
    assert learner.weights @ inside > 2.0 * inside.mean()


def test_reports_of_sources_are_in_units_of_the_clipping_range() -> None:
    """A short range changes predictions in the units of rewards by what the prior says alone."""
    learner = hear(joint(reward_bounds=RewardBounds(0.0, 1.0)), truth, 20_000, 20.0, 4)
    points = np.random.default_rng(0).random((50, 2))
    before, _ = learner.predict(points)
    for clipped in ((0.0, 0.75), (0.0, 1.5)):  # the latter only to have other units
        learner.clipping_range, learner._kept = clipped, None
        np.testing.assert_allclose(learner.predict(points)[0], before, atol=0.02)


def test_people_of_sources_have_no_ids() -> None:
    """Contributions of the target are counted by person; a source's people report once each."""
    learner = joint(max_contributions=2)
    learner.open_source("bank", 2.0)
    target, bank = learner.policy(), learner.policy("bank")
    contexts, rng = np.full((3, 2), 0.5), np.random.default_rng(0)
    actions, _ = target.act(contexts, rng)
    own = target.report(contexts, actions, np.ones(3), Unprotected())
    theirs = told(bank, contexts, [0, 1, 2], np.ones(3), 1)
    for given, people, message in (
        (own, None, "without people"),
        ([theirs, own], None, "without people"),
        (theirs, ["a", "b", "c"], "takes no ids"),
        ([own, theirs], [["a", "b", "c"], ["d", "e", "f"]], "takes no ids"),
    ):
        with pytest.raises(InvalidInput, match=message):
            learner.update(given, people)
        assert (learner.people, learner.source_total) == (0, 0)
    learner.update(theirs)
    learner.update(own, ["a", "b", "b"])
    with pytest.raises(InvalidInput, match="several streams"):
        learner.statistics([theirs, own])
    learner.merge(learner.statistics(told(bank, contexts, [0, 1, 2], np.ones(3), 2)))
    assert (learner.people, learner.source_total) == (3, 6)


@pytest.mark.slow
def test_weak_sources_do_no_harm() -> None:
    alone, heard = [], []
    for seed in range(2):
        alone.append(regret(made(seed), 2000, 50 + seed))
        shares = (1 / 15, 1 / 3, 3 / 5)
        learner = hear(made(seed), truth, 2000, 1.0, 80 + seed, shares=shares, gamma=0.2)
        heard.append(regret(learner, 2000, 50 + seed))
    assert np.mean(heard) < 1.1 * np.mean(alone)


@pytest.mark.slow
def test_sources_that_contradict_are_given_up(tmp_path: Path) -> None:
    alone = regret(made(3), 3000, 74)
    learner = hear(made(3), reversed_truth, 1500, 4.0, 75)
    assert learner.source_weights()["source 0"] == pytest.approx(
        1.0 / (1.0 + math.exp(-PRIOR_LOG_ODDS))
    )
    assert regret(learner, 3000, 74) < 1.5 * alone
    assert learner.source_weights() == {"source 0": 0.0}
    save(learner, tmp_path / "learner.json")
    again = load(tmp_path / "learner.json")
    assert isinstance(again, LocalKernel)
    assert again.source_weights() == {"source 0": 0.0}
    # What it said counts for nothing, and what it says later neither.
    hear(again, truth, 100, 4.0, 73)
    policy = again.policy("source 0")
    before = again.predict([[0.2, 0.3]])[0]
    again.update(told(policy, [[0.2, 0.3]] * 50, [0] * 50, [1.0] * 50, 1))
    np.testing.assert_array_equal(again.predict([[0.2, 0.3]])[0], before)


def test_source_weights_are_a_ratio_of_evidence() -> None:
    learner = hear(made(3), truth, 200, 4.0, 74)
    regret(learner, 100, 75)
    source, target = learner.streams["source 0"]._sums.information, learner._sums.information
    prior = learner._hyperparameters.best.prior(learner.features, learner.space)
    one, two, both = (
        CoefficientPosterior.of(learner.features, prior, information).evidence
        for information in (source, target, source + target)
    )
    expected = 1.0 / (1.0 + math.exp(-(PRIOR_LOG_ODDS + both - one - two)))
    assert learner.source_weights()["source 0"] == pytest.approx(expected)


@pytest.mark.slow
def test_the_model_average_has_the_source_weight() -> None:
    """Without reports of the target it is that of the prior; else nothing is known."""
    learner = hear(made(4), truth, 600, 6.0, 76)
    learner.policy()
    weight = learner._source_weights.together
    assert weight == pytest.approx(1.0 / (1.0 + math.exp(-PRIOR_LOG_ODDS)))
    sure, doubting = (
        learner._model_average(4, np.random.default_rng(0), share) for share in (1.0, weight)
    )
    assert np.array_equal(sure.used, doubting.used)
    assert np.allclose(doubting.mean, weight * sure.mean)
    phi = learner.features(np.random.default_rng(0).random((50, 2)), sure.used)
    assert (doubting.deviations(phi) > sure.deviations(phi)).all()
    # The likelier case still decides who gets which arm.
    points = np.random.default_rng(0).random((500, 2))
    shares = learner.policy().probabilities(points)
    assert shares[np.arange(500), truth(points).argmax(axis=1)].mean() > 0.7


def test_malformed_policies_are_refused() -> None:
    policy = source_policy(FOUR, arms=2, count=4)
    fields = json.loads(encode(policy))
    assert encode(decode(json.dumps(fields), Policy)) == encode(policy)
    shape = policy.directions.shape
    for change in (
        {"frequencies": []},
        {"frequencies": fields["frequencies"][::-1]},
        {"frequencies": [[99] * 4] * len(fields["frequencies"])},
        {"directions": np.zeros((0, *shape[1:]), dtype=int).tolist()},
        {"directions": np.zeros((4, 3, shape[2]), dtype=int).tolist()},
        {"directions": np.full(shape, 9 * 2**20).tolist()},
        {"directions": np.full(shape, 1e-9).tolist()},
        {"density": [0.0] * len(fields["density"])},
        {"cells": {**fields["cells"], "axis": np.full((3, 7), 3).tolist()}},
        {"epsilon": 0.0},
        {"arms": 3},
    ):
        with pytest.raises(InvalidInput):
            decode(json.dumps({**fields, **change}), Policy)
