"""What leaves a person: its mean, its law under replacement, and what the learner refuses."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from discreet.codec import decode, encode
from discreet.learners.policy import Terms
from discreet.papers.ma2025.learners.gradients.learner import PrivateLinear
from discreet.papers.ma2025.learners.gradients.models import LinearModel
from discreet.papers.ma2025.learners.gradients.policy import (
    MECHANISMS,
    GradientMechanism,
    GradientPolicy,
)
from discreet.people.domain import unit_cube
from discreet.privacy import Local, NonPrivate, SecureNoise, SimulatedNoise, Unprotected
from discreet.privacy.accounting import PureEvent
from discreet.validation import InvalidInput

ARMS, SIZE = 2, 2
# Two numbers on a circle, or a matrix of 2 x 2: small enough to compare laws cell by cell.
MANY = 80_000
NOISE = SimulatedNoise(0)


def cells(reports: np.ndarray) -> np.ndarray:
    """(n,) a cell for each report: the octant of a row on the circle, or the signs of a matrix."""
    flat = reports.reshape(len(reports), -1)
    if np.abs(flat[:, SIZE:]).max() == 0.0:
        angle = np.arctan2(flat[:, 1], flat[:, 0])
        return np.floor((angle / (2.0 * np.pi) + 0.5) * 8.0).astype(np.int64) % 8
    return (flat > 0.0) @ (2 ** np.arange(flat.shape[1]))


def law(mechanism: GradientMechanism, vector: list[float], arm: int, explores: bool) -> np.ndarray:
    """(16,) how often each cell is reported by one person."""
    reports = mechanism.privatise(
        np.tile(vector, (MANY, 1)),
        np.full(MANY, arm),
        np.full(MANY, explores),
        SimulatedNoise([*MECHANISMS].index(mechanism.name) + arm),
    )
    return np.bincount(cells(reports), minlength=16) / MANY


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
class TestReplacement:
    """No cell of reports is more than e^epsilon times as likely for one person as for another."""

    def ratio(self, one: np.ndarray, two: np.ndarray) -> float:
        """The largest ratio, less four of its standard errors."""
        seen = (one > 0.0) & (two > 0.0)
        error = np.sqrt(1.0 / one[seen] + 1.0 / two[seen]) / math.sqrt(MANY)
        logs = np.abs(np.log(one[seen] / two[seen])) - 4.0 * error
        return float(logs.max())

    def test_where_the_arm_is_private(self, name: str, epsilon: float) -> None:
        mechanism = GradientMechanism(ARMS, SIZE, epsilon, name)
        people = [([1.0, 0.0], 0), ([-1.0, 0.0], 0), ([1.0, 0.0], 1), ([0.6, -0.8], 1)]
        laws = [law(mechanism, vector, arm, False) for vector, arm in people]
        assert all(self.ratio(one, two) <= epsilon for one in laws for two in laws)
        # Another arm alone makes a difference, and is hidden no worse than another gradient.
        assert self.ratio(laws[0], laws[2]) > 0.05 * epsilon

    def test_where_the_arm_is_public(self, name: str, epsilon: float) -> None:
        mechanism = GradientMechanism(ARMS, SIZE, epsilon, name)
        people = [[0.6, 0.8], [-0.6, -0.8], [0.0, 0.0], [0.3, -0.4]]
        laws = [law(mechanism, vector, 0, True) for vector in people]
        assert all(self.ratio(one, two) <= epsilon for one in laws for two in laws)
        assert self.ratio(laws[0], laws[1]) > 0.5 * epsilon, "opposite gradients are told apart"


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("explores", [False, True])
def test_the_mean_of_reports_is_the_gradient_in_its_row(name: str, explores: bool) -> None:
    mechanism = GradientMechanism(3, 4, 3.0, name)
    vector = np.array([0.1, -0.5, 0.3, 0.2])
    reports = mechanism.privatise(
        np.tile(vector, (MANY, 1)), np.ones(MANY, int), np.full(MANY, explores), SimulatedNoise(1)
    )
    expected = np.zeros((3, 4))
    expected[1] = vector
    error = reports.std(axis=0) / math.sqrt(MANY)
    assert (np.abs(reports.mean(axis=0) - expected) <= 4.5 * error + 1e-12).all()
    if explores:
        assert (reports[:, [0, 2]] == 0.0).all()
    lengths = np.sqrt((reports**2).sum(axis=(1, 2)))
    assert np.allclose(lengths, mechanism.lengths[int(explores)], rtol=1e-9)


def test_without_privacy_reports_are_the_gradients() -> None:
    mechanism = GradientMechanism(2, 3, math.inf, "l2_ball")
    vectors = np.array([[0.1, 0.2, 0.3], [-0.5, 0.0, 0.5]])
    reports = mechanism.privatise(vectors, np.array([1, 0]), np.array([True, False]), Unprotected())
    assert np.array_equal(reports[[0, 1], [1, 0]], vectors)
    assert np.abs(reports).sum() == np.abs(vectors).sum()


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_mean_square_that_weights_use(name: str) -> None:
    mechanism = GradientMechanism(2, 3, 2.0, name)
    vectors = np.tile([0.3, 0.0, 0.4], (1000, 1))
    reports = mechanism.privatise(
        vectors, np.zeros(1000, int), np.zeros(1000, bool), SimulatedNoise(2)
    )
    assert (reports**2).mean() == pytest.approx(mechanism.mean_square, rel=1e-9)
    assert GradientMechanism(2, 3, math.inf, name).mean_square == 0.25 / 6


def policy_of(epsilon: float | None, exploring: float, arms: int = 3) -> GradientPolicy:
    """A policy at some parameters; no epsilon is no privacy."""
    budget = NonPrivate() if epsilon is None else Local(epsilon)
    made = PrivateLinear(unit_cube(2), arms, budget, public_seed=3).policy()
    rng = np.random.default_rng(4)
    parameters, averages = rng.normal(size=(arms, 3)), rng.normal(size=(arms, 3))
    return replace(made, parameters=parameters, averages=averages, exploring=exploring)


class TestPolicy:
    def test_who_explores_gets_an_arm_that_knows_nothing_of_them(self) -> None:
        policy = policy_of(1.0, 0.4)
        here, there = np.full((5000, 2), 0.1), np.full((5000, 2), 0.9)
        one, _ = policy.act(here, np.random.default_rng(0))
        two, _ = policy.act(there, np.random.default_rng(0))
        explorers, given = policy.lots(one.public_coins, 5000)
        assert explorers.mean() == pytest.approx(0.4, abs=0.03)
        assert np.array_equal(one.arms[explorers], given[explorers])
        assert np.array_equal(two.arms[explorers], given[explorers])
        assert np.bincount(given[explorers]).min() > 550
        assert len(set(one.arms[~explorers])) == len(set(two.arms[~explorers])) == 1

    def test_the_others_get_the_best_arm_under_the_averages(self) -> None:
        policy = policy_of(1.0, 0.0)
        contexts = np.random.default_rng(1).random((200, 2))
        actions, odds = policy.act(contexts, np.random.default_rng(0))
        best = LinearModel(2).logits(policy.averages, contexts).argmax(axis=1)
        assert np.array_equal(actions.arms, best)
        assert (odds == 1.0).all()

    def test_reports_are_gradients_at_the_parameters(self) -> None:
        policy = policy_of(None, 0.3)
        contexts = np.random.default_rng(1).random((40, 2))
        actions, _ = policy.act(contexts, np.random.default_rng(0))
        rewards = np.random.default_rng(2).random(40)
        reports = policy.report(contexts, actions, rewards, SimulatedNoise(0))
        plain = policy.model.gradients(policy.parameters, contexts, actions.arms, rewards)
        expected = np.zeros((3, 3))
        np.add.at(expected, actions.arms, plain)
        assert np.allclose(policy.sums(reports).gradients, expected)

    def test_who_explores_reports_on_the_arm_of_their_public_coin(self) -> None:
        """Everybody can see that they explore, and so which arm a report is on, whatever it was."""
        policy = policy_of(None, 1.0)
        contexts = np.random.default_rng(1).random((6, 2))
        actions, _ = policy.act(contexts, np.random.default_rng(0))
        for step in range(3):
            other = replace(actions, arms=(actions.arms + step) % 3)
            sent = policy.report(contexts, other, np.zeros(6), NOISE).gradients
            assert (np.abs(sent).sum(axis=2).argmax(axis=1) == actions.arms).all()
            assert (np.count_nonzero(np.abs(sent).sum(axis=2), axis=1) == 1).all()

    def test_nobody_else_is_refused_because_of_their_context(self) -> None:
        """Whether an arm is the greedy one depends on the context, and so would a refusal."""
        policy = policy_of(1.0, 0.0)
        contexts = np.random.default_rng(1).random((6, 2))
        actions, _ = policy.act(contexts, np.random.default_rng(0))
        for arm in range(3):
            arms = np.full(6, arm)
            policy.report(contexts, replace(actions, arms=arms), np.zeros(6), NOISE)
            trusted = policy_of(None, 0.0)
            others = replace(actions, arms=arms, policy=trusted)
            plain = trusted.report(contexts, others, np.zeros(6), NOISE)
            assert plain.gradients[:, arm].any()
            assert not np.delete(plain.gradients, arm, axis=1).any(), "on the arm that they got"

    def test_the_arm_is_the_same_in_a_batch_and_alone(self) -> None:
        """A policy whose two arms are as good as each other for half of the people."""
        start = PrivateLinear(unit_cube(8), 2, Local(1.0)).policy()
        for seed in range(10):
            draw = np.random.default_rng(seed)
            one = draw.normal(size=9)
            both = np.stack([one, np.concatenate([one[:1], one[:0:-1]])])
            policy = replace(start, parameters=both, averages=both, exploring=0.0)
            half = draw.integers(0, 2, (64, 4)).astype(np.float64)
            contexts = np.concatenate([half, half[:, ::-1]], axis=1)
            actions, _ = policy.act(contexts, np.random.default_rng(1))
            alone = [
                policy.act(contexts[i : i + 1], np.random.default_rng(1))[0].arms[0]
                for i in range(64)
            ]
            assert actions.arms.tolist() == alone
            for i in range(64):
                policy.report(contexts[i : i + 1], actions[i : i + 1], [0.5], NOISE)

    def test_the_record_of_a_report(self) -> None:
        release = policy_of(1.5, 0.5).release("mine")
        assert release is not None
        assert release.event == PureEvent(1.5)
        assert (release.sensitivity, release.noise) == (2.0, "mine")
        assert "9 numbers" in release.mechanism
        assert "on 3 of them" in release.mechanism
        plain = PrivateLinear(unit_cube(2), 3, NonPrivate()).policy().release("mine")
        assert plain is not None
        assert plain.event == PureEvent(math.inf)

    def test_reports_with_noise_for_people(self) -> None:
        pytest.importorskip("opendp")
        policy = policy_of(1.0, 0.5)
        contexts = np.random.default_rng(1).random((40, 2))
        actions, _ = policy.act(contexts, np.random.default_rng(0))
        terms = Terms(policy.domain, 3, 1.0)
        reports = policy.report(contexts, actions, np.zeros(40), SecureNoise(), terms)
        assert policy.sums(reports).reports == 40
        with pytest.raises(InvalidInput, match="agreed"):
            policy_of(1.1, 0.5).report(contexts, actions, np.zeros(40), SecureNoise(), terms)

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("parameters", [[0.0, 0.0]] * 3),
            ("parameters", [[0.0, 0.0, 0.0]] * 2),
            ("averages", [[0.0, 0.0, 0.0, 0.0]] * 3),
            ("averages", [[0.0, 0.0, None]] * 3),
            ("averages", [[0.0, 0.0, -2e6]] * 3),
            ("parameters", [[0.0, 1e308, 0.0]] * 3),
            ("exploring", 1.2),
            ("exploring", None),
            ("epsilon", 0.0),
            ("epsilon", 1e-9),
            ("mechanism_name", "laplace"),
            ("mechanism_name", 3),
            ("model", {"kind": "linear", "dimension": 3}),
            ("model", {"kind": "network", "dimension": 2, "hidden": 1}),
        ],
    )
    def test_damaged_policies_are_refused(self, field: str, value: object) -> None:
        policy = encode(policy_of(1.0, 0.5))
        decode(policy, GradientPolicy)
        with pytest.raises(InvalidInput):
            decode(json.dumps({**json.loads(policy), field: value}), GradientPolicy)
