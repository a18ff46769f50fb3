"""The partition policy: the privacy of one report, by enumeration, and the sums it feeds."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from discreet.codec import decode, encode, to_json
from discreet.learners.messages import public_uniforms
from discreet.learners.partition.posterior import node_masses, observations
from discreet.learners.partition.tree import Bins
from discreet.learners.policy import Policy
from discreet.privacy import SimulatedNoise
from discreet.validation import InvalidInput

from .scene import ACTIVE, OFFERS, quarters


def test_the_learner_reproduces_the_offer_of_every_public_coin() -> None:
    policy = quarters()
    public_coins = np.random.default_rng(0).integers(2**53, size=50_000, dtype=np.uint64)
    offered = policy.offered(public_coins[:, None], np.arange(4)[None, :])
    for leaf in range(4):
        shares = np.bincount(offered[:, leaf], minlength=3) / len(public_coins)
        assert np.allclose(shares, OFFERS[leaf], atol=0.01)
    # Bins are independent of one another.
    joint = np.mean((offered[:, 0] == 0) & (offered[:, 2] == 1))
    assert joint == pytest.approx(0.5 * 0.8, abs=0.01)


def test_public_uniforms_are_uniform_and_depend_on_everything() -> None:
    public_coins = np.arange(100_000, dtype=np.uint64)
    place = np.array([0])
    u = public_uniforms(1, 0, public_coins, place)
    assert abs(u.mean() - 0.5) < 0.004
    assert abs(np.histogram(u, 20, (0, 1))[0] - 5000).max() < 350
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.015
    for other in (
        public_uniforms(2, 0, public_coins, place),
        public_uniforms(1, 1, public_coins, place),
        public_uniforms(1, 0, public_coins, place + 1),
    ):
        assert abs(np.corrcoef(u, other)[0, 1]) < 0.015
    assert public_uniforms(1, 0, public_coins[:1], place)[0] == u[0]


@pytest.mark.parametrize("epsilon", [1.0, 12.0])
def test_sums_are_unbiased_with_the_stated_variance(epsilon: float) -> None:
    """S / T estimates mass (2 f - 1); its spread over repetitions is what R says."""
    policy = quarters(epsilon)
    rng, noise = np.random.default_rng(1), SimulatedNoise(2)
    means = np.array([[0.9, 0.5, 0.2], [0.3, 0.5, 0.6], [0.1, 0.2, 0.7], [0.5, 0.8, 0.5]])
    corner = np.array([0.2, 0.3, 0.4, 0.1])
    repetitions, people = 300, 400
    estimates, variances, masses = [], [], []
    for _ in range(repetitions):
        leaf = rng.choice(4, size=people, p=corner)
        node = policy.tree.leaves[leaf]
        contexts = 0.5 * (policy.tree.lower[node] + policy.tree.upper[node])
        actions, _ = policy.act(contexts, rng)
        rewards = (rng.random(people) < means[leaf, actions.arms]).astype(float)
        sums = policy.sums(policy.report(contexts, actions, rewards, noise))
        at = policy.tree.leaves[:3]
        offered = np.maximum(sums.offered[at], 1.0)
        estimates.append(sums.signed[at] / offered)
        mass = corner[:3, None]
        bound = (1.0 - mass) * sums.noise_other[at] + mass * sums.noise_own[at]
        variances.append(bound / offered**2)
        masses.append((sums.mass_sum[at] / sums.mass_weight[at])[:, 0])
    truth = corner[:3, None] * (2.0 * means[:3] - 1.0)
    used = OFFERS[:3] > 0.0
    error = np.std(estimates, axis=0) / np.sqrt(repetitions)
    assert (np.abs(np.mean(estimates, axis=0) - truth)[used] < 4.0 * error[used]).all()
    # R leaves out the square of the mean, so it is an upper bound, and a close one.
    exact = np.mean(variances, axis=0) - truth**2 / (people * OFFERS[:3].clip(1e-9))
    ratio = np.var(estimates, axis=0)[used] / exact[used]
    assert ratio.mean() == pytest.approx(1.0, abs=0.1)
    mass_error = np.std(masses, axis=0) / np.sqrt(repetitions)
    assert (np.abs(np.mean(masses, axis=0) - corner[:3]) < 4.0 * mass_error).all()


def test_observations_are_what_the_sums_say() -> None:
    policy = quarters(12.0)
    rng = np.random.default_rng(0)
    contexts = rng.random((4000, 2))
    actions, _ = policy.act(contexts, rng)
    rewards = (actions.arms == 0).astype(float)
    sums = policy.sums(policy.report(contexts, actions, rewards, SimulatedNoise(0)))
    tree = policy.tree
    precision, weighted = observations(tree, sums, node_masses(tree, sums), np.zeros(len(tree)))
    seen = (weighted[tree.leaves[0]] / precision[tree.leaves[0]])[:2]
    assert seen.tolist() == pytest.approx([1.0, -1.0], abs=0.15)


def test_without_noise_each_bin_counts_its_own_people() -> None:
    policy = quarters(np.inf)
    rng = np.random.default_rng(0)
    contexts = rng.random((500, 2))
    actions, _ = policy.act(contexts, rng)
    rewards = (rng.random(500) < 0.7).astype(float)
    sums = policy.sums(policy.report(contexts, actions, rewards, SimulatedNoise(0)))
    leaf = policy.bins.leaf_of(contexts)
    for position, node in enumerate(policy.tree.leaves):
        for arm in range(3):
            there = (leaf == position) & (actions.arms == arm) & policy.wanted[position]
            assert sums.offered[node, arm] == there.sum()
            assert sums.signed[node, arm] == (2.0 * rewards[there] - 1.0).sum()


def test_portions_do_not_change_the_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = quarters()
    contexts = np.random.default_rng(0).random((500, 2))
    actions, _ = policy.act(contexts, np.random.default_rng(1))
    whole = policy.report(contexts, actions, np.ones(500), SimulatedNoise(2))
    sums = to_json(policy.sums(whole))
    monkeypatch.setattr("discreet.learners.partition.policy._CELLS_AT_ONCE", 100)
    monkeypatch.setattr("discreet.privacy.frequency._KEYS_AT_ONCE", 100)
    parts = policy.report(contexts, actions, np.ones(500), SimulatedNoise(2))
    assert np.array_equal(parts.places, whole.places)
    assert to_json(policy.sums(whole)) == sums


def test_a_policy_with_every_bin_resolved_still_takes_reports() -> None:
    active = np.eye(4, 3, dtype=bool)[[0, 2, 1, 1]]
    policy = replace(
        quarters(), bins=Bins(quarters().tree, active), offers=active.astype(float), size=1
    )
    contexts = np.random.default_rng(0).random((20, 2))
    actions, odds = policy.act(contexts, np.random.default_rng(1))
    reports = policy.report(contexts, actions, np.ones(20), SimulatedNoise(2))
    policy.reporter.check(policy, reports)
    assert (odds == 1.0).all()
    assert policy.sums(reports).offered.sum() == 0.0


def test_resolved_bins_are_one_bin_that_costs_no_noise_elsewhere() -> None:
    policy = quarters()
    assert policy.mechanism.bins == 4
    assert policy.asked == 3
    active = ACTIVE & OFFERS.astype(bool) & np.eye(4, 3, dtype=bool)[[0, 2, 1, 1]]
    bins = Bins(policy.tree, active)
    resolved = replace(policy, bins=bins, offers=active.astype(float), size=1)
    assert resolved.mechanism.bins == 1
    assert resolved.release("SecureNoise").mechanism == "signed subset selection, 1 of 1 bins"


class TestAgainstALyingLearner:
    """Policies that a learner could send to make a person tell more than they agreed to."""

    @pytest.mark.parametrize(
        ("path", "value", "message"),
        [
            (("bins", "tree", "dimension"), 3, "columns"),
            (("bins", "tree", "axes"), [0, 2, 1], "must be a leaf"),
            (("bins", "tree", "axes"), [0, 1.0, 1], "axes"),
            (("bins", "tree", "nodes"), [0, 0, 2], "must be a leaf"),
            (("epsilon",), "1", "epsilon"),
            (("epsilon",), -1, "epsilon"),
            (("epsilon",), True, "epsilon"),
            (("offers",), [[True, False, False]] * 4, "offers"),
            (("offers",), [[0.5, 0.4, 0.3]] * 4, "offers"),
            (("bins", "active"), [["yes", "no", "no"]] * 4, "active"),
            (("public_seed",), 2**64, "public_seed"),
            (("version",), True, "version"),
        ],
    )
    def test_damaged_policies_are_refused(
        self, path: tuple[str, ...], value: object, message: str
    ) -> None:
        fields = json.loads(encode(quarters()))
        place = fields
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        with pytest.raises(InvalidInput, match=message):
            decode(json.dumps(fields), Policy)

    def test_deep_trees_are_refused(self) -> None:
        """The time to find a leaf would show where a person is."""
        fields = json.loads(encode(quarters()))
        chain = [0] + [2 * i + 2 for i in range(60)]
        fields["bins"]["tree"] = {"dimension": 2, "nodes": chain, "axes": [0] * len(chain)}
        with pytest.raises(InvalidInput, match="deeper"):
            decode(json.dumps(fields), Policy)


def test_arms_of_probability_0_are_never_offered() -> None:
    """Even where the probabilities before them add up to less than 1 by rounding."""
    policy = quarters()
    offers = np.tile([1 / 3, 2 / 3 - 1e-10, 0.0], (4, 1))
    sloppy = replace(policy, bins=Bins(policy.tree, offers > 0.0), offers=offers)
    assert (sloppy._thresholds[:, 1:] == 1.0).all()
