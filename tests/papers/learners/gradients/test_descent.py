"""Steps, weights and exploration, held against the formulas written out; and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.learners.registry import make_learner
from discreet.learners.saving import load, save
from discreet.papers.ma2025.learners.gradients.learner import (
    Descent,
    GradientLearner,
    Iterate,
    PrivateLinear,
    PrivateNeural,
)
from discreet.papers.ma2025.learners.gradients.models import LARGEST
from discreet.papers.ma2025.learners.gradients.policy import GradientReports
from discreet.people.domain import unit_cube
from discreet.privacy import Local, NonPrivate, SimulatedNoise
from discreet.validation import InvalidInput

ZERO = np.zeros((2, 3))


def test_steps_follow_the_formulas() -> None:
    descent = Descent(step=3.0, averaging=2.0)
    rng = np.random.default_rng(0)
    now, theta, average, time, delay = Iterate(ZERO, ZERO), ZERO, ZERO, 0.0, 40.0
    for weight in (5.0, 1.0, 200.0, 0.25):
        gradient = rng.normal(size=(2, 3))
        now = now.stepped(descent, gradient, weight, delay)
        time += weight
        theta = theta - min(6.0 / (time + 40.0), 4.0 / weight) * gradient
        share = min(1.0, 3.0 * weight / (time + 2.0 * weight))
        average = average + share * (theta - average)
        assert np.allclose(now.parameters, theta)
        assert np.allclose(now.averages, average)
        assert now.time == time


def test_the_weights_of_the_average_grow_like_a_power() -> None:
    """After n steps of equal weight iterate i weighs about (q + 1) i^q / n^(q + 1)."""
    now, iterates = Iterate(ZERO, ZERO), []
    for seed in range(400):
        gradient = np.random.default_rng(seed).normal(size=(2, 3))
        now = now.stepped(Descent(averaging=2.0), gradient, 1.0, 5.0)
        iterates.append(now.parameters)
    weights = np.arange(1, 401.0) ** 2
    expected = np.einsum("i,ikp->kp", weights / weights.sum(), iterates)
    assert np.allclose(now.averages, expected, rtol=0.02, atol=0.02 * np.abs(expected).max())


def test_no_averaging_and_nothing_new() -> None:
    now = Iterate(ZERO, ZERO).stepped(Descent(averaging=0.0), np.ones((2, 3)), 10.0, 5.0)
    assert np.array_equal(now.averages, now.parameters)
    assert now.stepped(Descent(), ZERO, 0.0, 5.0) is now


def test_no_parameter_grows_beyond_what_policies_may_hold() -> None:
    now = Iterate(ZERO, ZERO)
    for sign in (1.0, -1.0, -1.0):
        now = now.stepped(Descent(), np.full((2, 3), sign * 1e300), 2.0, 5.0)
        for array in (now.parameters, now.averages):
            assert np.abs(array).max() <= LARGEST


def test_exploration_falls_from_everybody_on() -> None:
    descent = Descent()
    shares = [descent.exploring(time, 1000.0) for time in (0.0, 350.0, 351.0, 1e3, 1e6)]
    assert shares[:2] == [1.0, 1.0]
    assert all(one >= two for one, two in pairwise(shares))
    assert shares[-1] == pytest.approx(350.0 / 1e6)
    assert Descent(warm_up=0).exploring(1.0, 1000.0) == 0.0
    assert Descent(warm_up=0).exploring(0.0, 1000.0) == 1.0, "nobody knows anything yet"
    assert Descent(warm_up=16).exploring(128.0, 1000.0) == 1.0 / 8.0


def test_noise_delays_the_descent() -> None:
    delays = [
        PrivateLinear(unit_cube(2), 3, budget)._delay
        for budget in (Local(0.5), Local(2.0), NonPrivate())
    ]
    assert delays[0] > 5 * delays[1] > 25 * delays[2]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("step", 0.0),
        ("scale", -1.0),
        ("warm_up", -1),
        ("warm_up", "long"),
        ("averaging", None),
        ("averaging", np.nan),
        ("batch", 0),
        ("batch", 2.5),
        ("growth", 0),
        ("mechanism", "laplace"),
        ("hidden", 0),
        ("momentum", 1.0),
    ],
)
def test_bad_options_are_refused(option: str, value: object) -> None:
    for name in ("private_linear", "private_neural"):
        with pytest.raises(InvalidInput, match=option):
            make_learner(name, unit_cube(1), 2, Local(1.0), options={option: value})


def test_other_settings_are_refused() -> None:
    with pytest.raises(InvalidInput, match="Descent"):
        PrivateLinear(unit_cube(1), 2, Local(1.0), calibration={"step": 1.0})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="delta"):
        PrivateLinear(unit_cube(1), 2, Local(1.0, 1e-5))
    with pytest.raises(InvalidInput, match="epsilon"):
        PrivateLinear(unit_cube(1), 2, Local(1e-9))
    learner = PrivateLinear(unit_cube(1), 2, Local(1.0))
    with pytest.raises(InvalidInput, match="epsilon"):
        learner.open_source("bank", 1e-9)
    assert learner.sources == ()


def follow(learner: GradientLearner, people: int, seed: int, policy: Any = None) -> GradientReports:
    """Reports of people for whom arm 1 is better on the right."""
    policy = policy or learner.policy()
    rng = np.random.default_rng(seed)
    contexts = rng.random((people, 1))
    actions, _ = policy.act(contexts, rng)
    means = np.where(actions.arms == 1, contexts[:, 0], 1.0 - contexts[:, 0])
    rewards = (rng.random(people) < means).astype(np.float64)
    return policy.report(contexts, actions, rewards, SimulatedNoise(seed))


def test_a_step_is_taken_with_everything_that_came() -> None:
    learner = PrivateLinear(unit_cube(1), 2, Local(3.0), calibration=Descent(batch=50))
    first = learner.policy()
    for seed in (1, 2):
        learner.update(follow(learner, 25, seed))
    second = learner.policy()
    total = learner._sums.gradients
    start = Iterate(first.parameters, first.averages)
    expected = start.stepped(learner.calibration, total, 50.0, learner._delay)
    assert np.allclose(second.parameters, expected.parameters)
    # Late gradients, taken at the first parameters, enter the next step as they are.
    late, due = follow(learner, 30, 3, first), follow(learner, 20, 4)
    learner.update([late, due])
    both = late.gradients.sum(axis=0) + due.gradients.sum(axis=0)
    expected = expected.stepped(learner.calibration, both, 50.0, learner._delay)
    assert np.allclose(learner.policy().parameters, expected.parameters)


@pytest.mark.parametrize("kind", [PrivateLinear, PrivateNeural])
def test_a_source_with_as_much_noise_counts_as_much(kind: type[GradientLearner]) -> None:
    learner = kind(unit_cube(1), 2, Local(3.0), calibration=Descent(batch=50))
    for name, epsilon in (("equal", 3.0), ("noisy", 0.5)):
        learner.open_source(name, epsilon)
    rng = np.random.default_rng(0)
    people = rng.random((60, 1)), rng.integers(2, size=60), rng.random(60)
    batches = [learner.policy(n).report(*people, SimulatedNoise(1)) for n in learner.sources]
    start = learner._iterate
    learner.update(batches)
    noisy = learner.policy("noisy").mechanism.mean_square
    worth = learner.policy("equal").mechanism.mean_square / noisy
    assert 0.02 < worth < 0.2
    gradient = batches[0].gradients.sum(axis=0) + worth * batches[1].gradients.sum(axis=0)
    expected = start.stepped(learner.calibration, gradient, 60.0 * (1.0 + worth), learner._delay)
    assert np.allclose(learner.policy().parameters, expected.parameters)
    assert learner.policy().exploring == learner.calibration.exploring(
        expected.time, learner._delay
    )


class TestRefusals:
    @pytest.fixture
    def learner(self) -> GradientLearner:
        settings = Descent(batch=50, warm_up=30)
        learner = PrivateLinear(unit_cube(1), 3, Local(1.0), calibration=settings)
        for seed in range(6):
            learner.update(follow(learner, 50, seed))
        return learner

    def test_reports_of_another_length(self, learner: GradientLearner) -> None:
        good = follow(learner, 20, 9)
        learner.statistics(good)
        for factor in (0.0, 0.99, 1.01, -2.0, 1e3):
            with pytest.raises(InvalidInput, match="length"):
                learner.statistics(replace(good, gradients=good.gradients * factor))
        with pytest.raises(InvalidInput, match="finite"):
            learner.statistics(replace(good, gradients=good.gradients * np.nan))

    def test_reports_of_another_shape(self, learner: GradientLearner) -> None:
        good = follow(learner, 20, 9)
        for wrong in (good.gradients[:, :2], good.gradients[:, :, :1], good.gradients[:0]):
            with pytest.raises(InvalidInput, match="shape"):
                learner.statistics(
                    replace(good, gradients=wrong, public_coins=good.public_coins[: len(wrong)])
                )
        for public_coins in (good.public_coins[:5], None):
            with pytest.raises(InvalidInput, match=r"public coins|shape"):
                learner.statistics(replace(good, public_coins=public_coins))

    def test_who_explores_reports_on_their_arm(self, learner: GradientLearner) -> None:
        good = follow(learner, 200, 9)
        explorers, _ = learner.policy().lots(good.public_coins, 200)
        assert 5 < explorers.sum() < 195
        moved = good.gradients.copy()
        moved[explorers] = np.roll(moved[explorers], 1, axis=1)
        with pytest.raises(InvalidInput, match="public coin"):
            learner.statistics(replace(good, gradients=moved))
        others = good.gradients.copy()
        others[~explorers] = np.roll(others[~explorers], 1, axis=1)
        learner.statistics(replace(good, gradients=others))

    def test_sums_that_no_reports_add_up_to(self, learner: GradientLearner) -> None:
        most = max(learner._mechanism.lengths)
        far = np.zeros((3, 2))
        far[0, 0] = 10.0 * most
        sums = replace(learner._target._sums, reports=10, noise=(SimulatedNoise.name,))
        learner.merge(replace(sums, gradients=0.999 * far))
        for gradients in (1.01 * far, far * np.nan, np.zeros((3, 4)), np.zeros((2, 2))):
            with pytest.raises(InvalidInput, match=r"statistics had|finite|shape"):
                learner.merge(replace(sums, gradients=gradients))

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("time", -1e9),
            ("time", "long"),
            ("parameters", [[0.0, 2e6]] * 3),
            ("averages", [[0.0, -1e308]] * 3),
        ],
    )
    def test_states_that_no_reports_lead_to(
        self, learner: GradientLearner, name: str, value: object, tmp_path: Path
    ) -> None:
        rng = np.random.default_rng(0)
        learner.open_source("bank", 2.0)
        people = rng.random((60, 1)), rng.integers(3, size=60), rng.random(60)
        learner.policy()
        learner.update(learner.policy("bank").report(*people, SimulatedNoise(1)))
        save(learner, tmp_path / "learner.json")
        again = load(tmp_path / "learner.json")
        saved = learner.secret_fields()
        assert again.secret_fields() == saved
        saved["own"]["iterate"][name] = value
        another = PrivateLinear(
            learner.domain,
            3,
            learner.budget,
            identity=learner.identity,
            calibration=learner.calibration,
        )
        with pytest.raises(InvalidInput, match=name):
            another.restore_fields(saved)

    def test_without_privacy_one_arm_at_most_and_length_one(self) -> None:
        learner = PrivateLinear(unit_cube(1), 2, NonPrivate())
        good = follow(learner, 20, 1)
        learner.statistics(good)
        for wrong in (good.gradients * 9.0, good.gradients + 0.1):
            with pytest.raises(InvalidInput, match="reports"):
                learner.statistics(replace(good, gradients=wrong))
