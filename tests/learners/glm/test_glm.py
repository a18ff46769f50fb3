"""Scores of a generalised linear model: unbiased, as designed, private, and learnt from."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from discreet.audit.output_distributions import vector_ratio
from discreet.codec import decode, encode
from discreet.lab.environments.decision_sets import Link, RandomSetProblem, directions
from discreet.lab.experiments import Setting, simulate
from discreet.learners.glm.learner import PrivateGLM
from discreet.learners.glm.policy import ScorePolicy, mean_reward, slope, unit_directions
from discreet.learners.policy import Actions, Policy, Terms
from discreet.people.domain import Ball, DecisionSets
from discreet.privacy import Local, NoiseSource, SimulatedNoise
from discreet.privacy.vectors import PrivUnit
from discreet.validation import FloatArray, InvalidInput

LINEAR = "DotProduct(sigma_0=0.0)"
BALL, SETS = Ball(1.0, 2), DecisionSets(10)


def learner(epsilon: float = 1.0, link: Link = "linear", **options: Any) -> PrivateGLM:
    return PrivateGLM(
        BALL, SETS, Local(epsilon), kernel=LINEAR, link=link, identity="glm", **options
    )


def policy_at(mean: tuple[float, float], deviation: float, link: Link = "linear") -> ScorePolicy:
    """The first policy, but for a belief of one's own."""
    root = deviation * np.eye(2)
    return replace(learner(link=link).policy(), mean=np.array(mean), root=root, spread_share=0.0)


def brought(policy: ScorePolicy, sets: Any, actions: Actions, rewards: Any) -> list[FloatArray]:
    """The vectors that people bring to the mechanism: those of scores, then those of spreads."""
    seen = []

    def noted(self: PrivUnit, vectors: FloatArray, noise: NoiseSource) -> FloatArray:
        seen.append(vectors)
        return np.zeros_like(vectors)

    with patch.object(PrivUnit, "privatise", noted):
        policy.report(sets, actions, rewards, SimulatedNoise(0))
    return seen


def scores(policy: ScorePolicy, theta: FloatArray, people: int) -> FloatArray:
    """(n, 2) scores before noise, of people with rewards of 0 and 1 under the true theta."""
    rng = np.random.default_rng(5)
    sets = directions(rng, people * 10, 2).reshape(people, 10, 2)
    actions, _ = policy.act(sets, rng)
    assert actions.points is not None
    chance = mean_reward(policy.link, actions.points / policy.norm @ theta)
    return brought(policy, sets, actions, (rng.random(people) < chance).astype(float))[0]


@pytest.mark.parametrize("link", ["linear", "logistic"])
def test_scores_are_0_on_average_at_the_truth(link: Link) -> None:
    """Whatever the directions, and although residuals are divided by what depends on the point."""
    policy = policy_at((0.3, 0.3), 0.1, link)
    policy = replace(policy, directions=np.array([[1.0, 0.0], [0.0, 0.1]]))
    shown = scores(policy, policy.mean, 40_000)
    error = shown.std(axis=0) / np.sqrt(len(shown))
    assert (np.abs(shown.mean(axis=0)) < 4.5 * error).all()
    assert (np.linalg.norm(shown, axis=1) <= 1.0 + 1e-12).all()
    assert (np.abs(shown) > 0.3).any()


def test_scores_answer_as_designed() -> None:
    """Their mean under another theta is about J (theta - mean); points here lie on the sphere."""
    sphere = directions(np.random.default_rng(1), 2_000, 2)
    made = learner(public_points=sphere)
    drawn = made.policy()
    theta = drawn.mean + np.array([0.05, 0.1])
    policy = replace(drawn, spread_share=0.0)
    shown = scores(policy, theta, 40_000)
    error = shown.std(axis=0) / np.sqrt(len(shown))
    answer = policy.response @ (theta - policy.mean)
    assert np.linalg.norm(answer) > 0.05
    np.testing.assert_allclose(shown.mean(axis=0), answer, atol=4.5 * float(error.max()) + 0.01)


def test_what_is_asked_has_length_1_or_0() -> None:
    phi = np.array([[0.6, 0.0], [0.0, 0.0], [1e-100, 1e-100], [3.0, 4.0]])
    shown = unit_directions(phi, np.eye(2))
    np.testing.assert_allclose(np.linalg.norm(shown, axis=1), [1.0, 0.0, 1.0, 1.0], atol=1e-9)


@pytest.mark.parametrize("link", ["linear", "logistic"])
def test_slopes_are_those_of_the_link(link: Link) -> None:
    at, step = np.linspace(-0.4, 0.4, 9), 1e-6
    rise = (mean_reward(link, at + step) - mean_reward(link, at - step)) / (2.0 * step)
    np.testing.assert_allclose(slope(link, at), rise, rtol=1e-6)


class TestPrivacy:
    @pytest.mark.parametrize("epsilon", [0.5, 4.0])
    def test_two_people_are_told_apart_by_epsilon_at_most(self, epsilon: float) -> None:
        """The exact law of either report, for the vectors that people bring to it."""
        policy, rng = learner(epsilon).policy(), np.random.default_rng(2)
        sets = 5.0 * rng.standard_normal((300, 10, 2))
        sets[0] = np.nan
        actions, _ = policy.act(BALL.nearest(sets.reshape(-1, 2)).reshape(sets.shape), rng)
        scores, spreads = brought(policy, sets, actions, rng.normal(0.5, 3.0, 300))
        for vectors, mechanism in (
            (scores, policy.score_mechanism),
            (spreads, policy.spread_mechanism),
        ):
            pairs = combinations(vectors[:40], 2)
            held = max(vector_ratio(mechanism, one, other) for one, other in pairs)
            assert held <= epsilon * (1.0 + 1e-9)
            assert held > 0.9 * epsilon or mechanism is policy.spread_mechanism

    def test_who_reports_what_follows_from_the_public_coin(self) -> None:
        policy = learner().policy()
        people = directions(np.random.default_rng(3), 2_000, 2).reshape(200, 10, 2)
        rng = np.random.default_rng(4)
        actions, odds = policy.act(people, rng)
        checks = policy.reports_spread(actions.public_coins)
        assert 5 < checks.sum() < 45
        assert (odds == 1.0).all()
        for rewards in (np.zeros(200), np.ones(200)):
            reports = policy.report(people, actions, rewards, SimulatedNoise(1))
            np.testing.assert_array_equal(reports.vectors[:, 1] == 0.0, checks)

    def test_a_forged_epsilon_shows(self) -> None:
        fields = json.loads(encode(learner().policy()))
        forged = decode(json.dumps({**fields, "epsilon": 3.0}), Policy)
        with pytest.raises(InvalidInput, match="promises"):
            Terms(BALL, SETS, 1.0).check(forged)

    def test_reports_of_a_length_that_nobody_sends_are_refused(self) -> None:
        made, rng = learner(), np.random.default_rng(6)
        people = directions(rng, 400, 2).reshape(40, 10, 2)
        policy = made.policy()
        actions, _ = policy.act(people, rng)
        reports = policy.report(people, actions, np.ones(40), SimulatedNoise(1))
        longer = replace(reports, vectors=2.0 * reports.vectors)
        with pytest.raises(InvalidInput, match="position"):
            made.update(longer)
        spread = policy.reports_spread(reports.public_coins)
        fuller = np.where(spread[:, None], reports.vectors[:, :1], reports.vectors)
        with pytest.raises(InvalidInput, match="several numbers"):
            made.update(replace(reports, vectors=fuller))

    def test_a_delta_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="pure"):
            PrivateGLM(BALL, SETS, Local(1.0, 1e-6))


@pytest.mark.parametrize(("link", "most"), [("linear", 900.0), ("logistic", 180.0)])
def test_it_learns_from_pure_reports(link: Link, most: float) -> None:
    """Uniform choice loses about 0.86 (linear) and 0.19 (logistic) a person."""
    setting = Setting("private_glm", "glm", Local(2.0), {"kernel": LINEAR, "link": link})
    outcome = simulate(RandomSetProblem(link=link), setting, 5_000, 3, 0)
    assert outcome.record.value < most
    assert outcome.guarantee is not None
    assert outcome.guarantee.epsilon <= 2.0
    assert outcome.guarantee.delta == 0.0


def test_the_limit_falls_only_where_residuals_are_small() -> None:
    """Rewards without noise are divided by less; of rewards of 0 and 1 nothing is cut, and nobody
    is asked any more."""
    limits = {}
    for link in ("linear", "logistic"):
        setting = Setting("private_glm", "glm", Local(4.0), {"kernel": LINEAR, "link": link})
        policy = simulate(RandomSetProblem(link=link), setting, 6_000, 3, 0).policy
        assert isinstance(policy, ScorePolicy)
        limits[link] = policy.limit, policy.spread_share
    assert limits["linear"][0] < 0.7
    assert limits["logistic"] == (1.0, 0.0)
