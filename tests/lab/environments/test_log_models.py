"""Models of rewards and propensities: nobody's reward is in what is expected of them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.lab.environments.log_worlds import DOMAIN, chosen_with, means, world

from discreet.lab.environments.log_models import likely_actions, reward_models, split
from discreet.people.domain import Box


def test_all_rows_of_a_person_are_in_one_part(rng: np.random.Generator) -> None:
    people = rng.integers(0, 40, size=300)
    parts = split(people, 4, rng)
    assert all(len(set(parts[people == person])) == 1 for person in set(people))
    present = np.unique(people)
    sizes = np.bincount([parts[people == person][0] for person in present])
    assert sizes.max() - sizes.min() <= 1


def test_what_is_expected_comes_from_the_other_half(rng: np.random.Generator) -> None:
    log = world(400, 0.0, rng)
    people = np.arange(400)
    before = reward_models(log.contexts, log.actions, log.rewards, people, DOMAIN, 3, ("ridge",))
    own = before.halves == 0
    changed = np.where(own, 1.0 - log.rewards, log.rewards)
    after = reward_models(log.contexts, log.actions, changed, people, DOMAIN, 3, ("ridge",))
    np.testing.assert_array_equal(before.halves, after.halves)
    np.testing.assert_array_equal(before.expected[own], after.expected[own])
    assert np.abs(before.expected[~own] - after.expected[~own]).max() > 0.1


def test_the_model_that_predicts_better_is_taken(rng: np.random.Generator) -> None:
    """A square wave for trees, a plane for ridge regression, noise for the mean."""
    contexts = rng.random((1600, 2))
    actions = np.tile([0, 1, 2, 3], 400)
    mean = np.stack(
        [
            np.floor(4.0 * contexts[:, 0]) % 2,
            contexts @ [0.5, 0.5],
            np.full(1600, 0.5),
            np.full(1600, 0.7),
        ]
    )
    rewards = mean[actions, np.arange(1600)] + np.where(actions < 3, 0.1, 0.0) * rng.normal(
        size=1600
    )
    people, domain = np.arange(1600), Box((0, 0), (1, 1))
    models = reward_models(contexts, actions, rewards, people, domain, 4)
    for kinds in models.kinds:
        assert kinds[:2] == ("boosting", "ridge")
        assert kinds[3] == "mean"
    error = np.abs(models.expected - mean.T).mean(axis=0)
    assert error[0] < 0.1
    assert error[1] < 0.02
    assert error[2] < 0.05
    assert error[3] < 1e-12


def test_simulated_rewards_have_the_mean_expected_and_the_noise_of_the_log(
    rng: np.random.Generator,
) -> None:
    contexts = rng.random((1200, 1))
    actions = rng.integers(2, size=1200)
    # Of arm 0 rewards are 0, 1 or 2; of arm 1 they are noisier on the right.
    right = contexts[:, 0]
    of_first = rng.binomial(2, 0.2 + 0.6 * right)
    of_second = np.clip(1.0 + rng.normal(size=1200) * (0.1 + 0.4 * right), 0.0, 2.0) * right
    rewards = np.where(actions == 0, of_first, of_second).astype(np.float64)
    domain = Box((0.0,), (1.0,))
    models = reward_models(contexts, actions, rewards, np.arange(1200), domain, 2, ("ridge",))
    rows = np.flatnonzero(models.halves == 1)
    drawn = np.stack([models.draw(rows, rng) for _ in range(400)])
    assert set(np.unique(drawn[..., 0])) == {0.0, 1.0, 2.0}
    assert 0.0 <= drawn.min() <= drawn.max() <= 2.0
    np.testing.assert_allclose(drawn.mean(axis=0), models.expected[rows], atol=0.2)
    assert abs((drawn.mean(axis=0) - models.expected[rows]).mean()) < 0.005
    spread = drawn[..., 1].std(axis=0)
    left, far = right[rows] < 0.3, right[rows] > 0.8
    assert spread[far].mean() > 2.0 * spread[left].mean()
    assert spread[far].mean() == pytest.approx(0.42, abs=0.1)


def test_rewards_of_0_and_1_are_bernoulli(rng: np.random.Generator) -> None:
    log = world(600, 0.0, rng)
    people = np.arange(600)
    models = reward_models(log.contexts, log.actions, log.rewards, people, DOMAIN, 3, ("ridge",))
    rows = np.flatnonzero(models.halves == 0)
    drawn = np.stack([models.draw(rows, rng) for _ in range(500)])
    assert set(np.unique(drawn)) == {0.0, 1.0}
    error = np.abs(drawn.mean(axis=0) - models.expected[rows])
    assert error.max() < 5.0 * 0.5 / 500**0.5


def test_propensities_are_estimated_from_others(rng: np.random.Generator) -> None:
    log = world(1500, 2.0, rng)
    likely, kind = likely_actions(log.contexts, log.actions, np.arange(1500), DOMAIN, 3)
    truth = chosen_with(log.contexts, 2.0)
    assert kind == "logistic"
    np.testing.assert_allclose(likely.sum(axis=1), 1.0)
    assert np.abs(likely - truth).mean() < 0.03
    assert np.abs(likely - truth).mean() < 0.4 * np.abs(truth - truth.mean(axis=0)).mean()


def test_an_arm_of_one_person_all_in_one_half(rng: np.random.Generator) -> None:
    log = world(90, 0.0, rng)
    people = np.where(log.actions == 2, 1000, np.arange(90))
    models = reward_models(log.contexts, log.actions, log.rewards, people, DOMAIN, 3, ("ridge",))
    assert np.isfinite(models.expected).all()
    likely, _ = likely_actions(log.contexts, log.actions, people, DOMAIN, 3)
    assert np.isfinite(likely).all()
    assert means(log.contexts).shape == likely.shape
