"""The partition policy: the privacy of one report, by enumeration, and the sums it feeds."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

from discreet.codec import to_json
from discreet.domain import Box, RewardBounds, unit_cube
from discreet.learners.messages import Policy
from discreet.learners.partition.policy import PartitionPolicy
from discreet.learners.partition.posterior import node_masses, observations
from discreet.learners.partition.tree import Bins, Tree
from discreet.learners.public_randomness import public_uniforms
from discreet.learners.schema import decode, encode
from discreet.learners.signs import SignedReports
from discreet.learners.terms import Terms
from discreet.privacy import NoiseSource, SecureNoise, SimulatedNoise
from discreet.validation import InvalidInput

# Four bins of the square: two open with three arms, one with two, one resolved.
ACTIVE = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1], [0, 1, 0]], dtype=bool)
OFFERS = np.array([[0.5, 0.2, 0.3], [0.6, 0.0, 0.4], [0.1, 0.8, 0.1], [0.0, 1.0, 0.0]])


def quarters(epsilon: float = 1.0) -> PartitionPolicy:
    tree = Tree.root(2).split(np.array([0]), np.array([0]))
    tree = tree.split(np.array([1, 2]), np.array([1, 1]))
    return PartitionPolicy(
        version=0,
        learner_id="scene",
        domain=unit_cube(2),
        reward_bounds=RewardBounds(),
        arms=3,
        public_seed=5,
        bins=Bins(tree, ACTIVE),
        offers=OFFERS,
        epsilon=epsilon,
    )


def law_of_a_report(policy: PartitionPolicy, leaf: int, reward: float) -> np.ndarray:
    """The exact probabilities of all reports of a person in `leaf` with `reward`."""
    mechanism = policy.mechanism
    j = policy.place[leaf, 0]
    plus = reward if policy.wanted[leaf, 0] else 1.0
    law = []
    for bins in combinations(range(mechanism.bins), mechanism.size):
        for signs in product((-1, 1), repeat=mechanism.size):
            y, s = np.array(bins), np.array(signs, dtype=np.int8)
            up, down = (np.exp(mechanism.log_probability(y, s, j, sign)) for sign in (1, -1))
            law.append(plus * up + (1.0 - plus) * down)
    return np.array(law)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_no_report_is_more_than_e_epsilon_times_as_likely(epsilon: float) -> None:
    """Over all leaves and rewards; the bound is reached, so nothing is wasted either."""
    policy = quarters(epsilon)
    laws = [law_of_a_report(policy, leaf, y) for leaf in range(4) for y in (0.0, 0.3, 1.0)]
    assert all(law.sum() == pytest.approx(1.0) for law in laws)
    worst = max(float(np.log(one / two).max()) for one, two in product(laws, laws))
    assert worst == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("noise", [SimulatedNoise(3), SecureNoise()], ids=["simulated", "secure"])
def test_reports_are_drawn_from_that_law(noise: NoiseSource) -> None:
    policy = quarters()
    people, reward = 60_000, 0.3
    contexts = np.tile([0.7, 0.2], (people, 1))
    actions, _ = policy.act(contexts, np.random.default_rng(0))
    terms = Terms(policy.domain, policy.arms, policy.epsilon)
    reports = policy.report(contexts, actions, np.full(people, reward), noise, terms)
    assert isinstance(reports, SignedReports)
    leaf = int(policy.tree.leaf_position[policy.tree.locate(contexts[:1])][0])
    expected = law_of_a_report(policy, leaf, reward)
    size, bins = policy.mechanism.size, policy.mechanism.bins
    outputs = [
        (*y, *s) for y in combinations(range(bins), size) for s in product((-1, 1), repeat=size)
    ]
    seen: dict[tuple[int, ...], int] = dict.fromkeys(outputs, 0)
    for y, s in zip(reports.places.tolist(), reports.signs.tolist(), strict=True):
        seen[(*y, *s)] += 1
    counts = np.array([seen[output] for output in outputs])
    chi_square = ((counts - people * expected) ** 2 / (people * expected)).sum()
    assert chi_square < len(outputs) + 5.0 * np.sqrt(2.0 * len(outputs))


def test_a_report_says_nothing_about_the_context_but_what_is_privatised() -> None:
    """With the mechanism's randomness fixed to 'hidden', all contexts give the same report."""

    class Hiding(SimulatedNoise):
        def coins(self, probability, shape):  # type: ignore[no-untyped-def]
            return np.ones(shape, dtype=bool)

        def below(self, bound, shape):  # type: ignore[no-untyped-def]
            return np.full(shape, bound - 1, dtype=np.int64)

    policy = quarters()
    fields = []
    for context in ([0.1, 0.1], [0.1, 0.9], [0.9, 0.9]):
        actions, _ = policy.act([context], np.random.default_rng(0))
        fields.append(json.loads(encode(policy.report([context], actions, [1.0], Hiding(1)))))
    assert len({tuple(field) for field in fields}) == 1
    assert all(field["tickets"] == fields[0]["tickets"] for field in fields)
    assert set(fields[0]) == {
        *("kind", "schema", "policy_version", "source", "noise"),
        *("tickets", "places", "signs"),
    }


def test_the_learner_reproduces_the_offer_of_every_ticket() -> None:
    policy = quarters()
    tickets = np.random.default_rng(0).integers(2**53, size=50_000, dtype=np.uint64)
    offered = policy.offered(tickets[:, None], np.arange(4)[None, :])
    for leaf in range(4):
        shares = np.bincount(offered[:, leaf], minlength=3) / len(tickets)
        assert np.allclose(shares, OFFERS[leaf], atol=0.01)
    # Bins are independent of one another.
    joint = np.mean((offered[:, 0] == 0) & (offered[:, 2] == 1))
    assert joint == pytest.approx(0.5 * 0.8, abs=0.01)


def test_public_uniforms_are_uniform_and_depend_on_everything() -> None:
    tickets = np.arange(100_000, dtype=np.uint64)
    place = np.array([0])
    u = public_uniforms(1, 0, tickets, place)
    assert abs(u.mean() - 0.5) < 0.004
    assert abs(np.histogram(u, 20, (0, 1))[0] - 5000).max() < 350
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.015
    for other in (
        public_uniforms(2, 0, tickets, place),
        public_uniforms(1, 1, tickets, place),
        public_uniforms(1, 0, tickets, place + 1),
    ):
        assert abs(np.corrcoef(u, other)[0, 1]) < 0.015
    assert public_uniforms(1, 0, tickets[:1], place)[0] == u[0]


@pytest.mark.parametrize("epsilon", [1.0, 4.0, np.inf])
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
    policy = quarters(np.inf)
    rng = np.random.default_rng(0)
    contexts = rng.random((4000, 2))
    actions, _ = policy.act(contexts, rng)
    rewards = (actions.arms == 0).astype(float)
    sums = policy.sums(policy.report(contexts, actions, rewards, SimulatedNoise(0)))
    tree = policy.tree
    precision, weighted = observations(tree, sums, node_masses(tree, sums), np.zeros(len(tree)))
    seen = (weighted[tree.leaves[0]] / precision[tree.leaves[0]])[:2]
    assert seen.tolist() == pytest.approx([1.0, -1.0], abs=0.15)


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
    policy = replace(quarters(), bins=Bins(quarters().tree, active), offers=active.astype(float))
    contexts = np.random.default_rng(0).random((20, 2))
    actions, odds = policy.act(contexts, np.random.default_rng(1))
    reports = policy.report(contexts, actions, np.ones(20), SimulatedNoise(2))
    policy.check(reports)
    assert (odds == 1.0).all()
    assert policy.sums(reports).offered.sum() == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"places": np.array([[9]])}, "bins outside"),
        ({"places": np.array([[-1]])}, "bins outside"),
        (
            {"places": np.array([[0, 1]]), "signs": np.ones((1, 2), dtype=np.int8)},
            "shape",
        ),
        ({"signs": np.array([[0]], dtype=np.int8)}, "signs"),
    ],
)
def test_reports_that_the_policy_cannot_have_made_are_refused(
    change: dict[str, np.ndarray], message: str
) -> None:
    policy = quarters(8.0)
    actions, _ = policy.act([[0.1, 0.1]], np.random.default_rng(0))
    report = policy.report([[0.1, 0.1]], actions, [1.0], SimulatedNoise(0))
    assert report.places.shape == (1, 1)
    policy.check(report)
    with pytest.raises(InvalidInput, match=message):
        policy.check(replace(report, **change))
    with pytest.raises(InvalidInput, match="signs had shape"):
        replace(report, signs=np.array([[1, 1]], dtype=np.int8))


def test_resolved_bins_are_one_bin_that_costs_no_noise_elsewhere() -> None:
    policy = quarters()
    assert policy.mechanism.bins == 4
    assert policy.asked == 3
    active = ACTIVE & OFFERS.astype(bool) & np.eye(4, 3, dtype=bool)[[0, 2, 1, 1]]
    bins = Bins(policy.tree, active)
    resolved = replace(policy, bins=bins, offers=active.astype(float))
    assert resolved.mechanism.bins == 1
    assert resolved.release("SecureNoise").mechanism == "signed subset selection, 1 of 1 bins"


class TestAgainstALyingLearner:
    """Policies that a learner could send to make a person tell more than they agreed to."""

    def test_secure_noise_needs_terms(self) -> None:
        policy = quarters()
        actions, _ = policy.act([[0.1, 0.1]], np.random.default_rng(0))
        with pytest.raises(InvalidInput, match="terms"):
            policy.report([[0.1, 0.1]], actions, [1.0], SecureNoise())

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"epsilon": 2.0}, "epsilon = 2.0"),
            ({"epsilon": np.inf}, "epsilon = inf"),
            ({"domain": Box((0.0, 0.0), (0.5, 1.0))}, "domain"),
            ({"domain": Box((0.0, 0.0), (1.0, 1.0), levels=(3, None))}, "domain"),
            ({"reward_bounds": RewardBounds(0.0, 0.5)}, "reward_bounds"),
        ],
    )
    def test_other_terms_are_refused_before_data_is_seen(
        self, change: dict[str, object], message: str
    ) -> None:
        terms = Terms(unit_cube(2), arms=3, most_epsilon=1.0)
        terms.check(quarters())
        with pytest.raises(InvalidInput, match=message):
            terms.check(replace(quarters(), **change))

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


NO_MESSAGES = ["", "[]", "{", '{"kind": []}', "[" * 100_000, None, '{"kind": 1}']


@pytest.mark.parametrize("text", NO_MESSAGES, ids=range(len(NO_MESSAGES)))
def test_what_is_no_message_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        decode(text, Policy)


def test_arms_of_probability_0_are_never_offered() -> None:
    """Even where the probabilities before them add up to less than 1 by rounding."""
    policy = quarters()
    offers = np.tile([1 / 3, 2 / 3 - 1e-10, 0.0], (4, 1))
    sloppy = replace(policy, bins=Bins(policy.tree, offers > 0.0), offers=offers)
    assert (sloppy._thresholds[:, 1:] == 1.0).all()
