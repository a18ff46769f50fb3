"""What is estimated from a log, and what is said where it tells little."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.lab.environments.log_worlds import DOMAIN, chosen_with, means, world

from discreet.lab.environments.log_values import (
    estimate,
    likely_actions,
    reward_models,
    split,
)
from discreet.lab.environments.logs import Log
from discreet.people.domain import Box
from discreet.validation import InvalidInput


@pytest.fixture(scope="module")
def uneven() -> Log:
    return world(900, 4.0, np.random.default_rng(5))


def test_an_even_log_needs_no_model_of_its_choices_and_no_warning(
    rng: np.random.Generator,
) -> None:
    log = world(900, 0.0, rng)
    estimated = estimate(log)
    assert estimated.warnings == ()
    assert (estimated.estimates.likely == 1.0 / 3.0).all()
    assert log.propensities is not None
    np.testing.assert_array_equal(estimated.estimates.propensities, log.propensities)
    for arm, truth in enumerate(means(log.contexts).mean(axis=0)):
        value = estimated.estimates.value(arm, resamples=100)
        assert abs(value.mean - truth) < 4.0 * value.standard_error


def test_where_propensities_are_estimated_that_is_said(uneven: Log) -> None:
    estimated = estimate(replace(uneven, propensities=None))
    assert "estimated by multinomial logistic regression, cross-fitted" in estimated.warnings[0]
    propensities = estimated.estimates.propensities
    assert uneven.propensities is not None
    assert propensities.min() >= 0.01
    assert np.corrcoef(propensities, uneven.propensities)[0, 1] > 0.9


def test_small_estimated_propensities_are_raised(rng: np.random.Generator) -> None:
    """Whoever is on the right was given the third arm, but for a few by mistake."""
    log = world(600, 0.0, rng)
    right = log.contexts[:, 0] > 0.5
    actions = np.where(right, 2, np.arange(600) % 2)
    actions[np.flatnonzero(right)[:4]] = 0
    estimated = estimate(replace(log, actions=actions, propensities=None))
    assert estimated.estimates.propensities.min() == 0.01
    assert "were so small that they were raised" in estimated.warnings[1]
    assert "% of people are unlike the people who were given 'none' (less than once in 15" in str(
        estimated.warnings
    )


def test_propensities_of_something_else_are_noticed(uneven: Log) -> None:
    """Too large, or the same for everybody where they were not."""
    assert uneven.propensities is not None
    fitting = str(estimate(uneven).warnings)
    assert "do not fit how often it was taken" not in fitting
    for wrong in (np.sqrt(uneven.propensities), np.full(900, 0.9)):
        said = str(estimate(replace(uneven, propensities=wrong)).warnings)
        assert "do not fit how often it was taken: their inverses add up to" in said


def test_little_support_is_said(uneven: Log) -> None:
    few = replace(
        uneven,
        propensities=np.where(uneven.actions == 2, 0.02, uneven.propensities),
        actions=np.where((uneven.actions == 2) & (np.arange(900) % 4 > 0), 1, uneven.actions),
    )
    said = str(estimate(few).warnings)
    assert "for everyone is known only as well as from" in said


def test_arms_hardly_ever_taken_are_refused(uneven: Log) -> None:
    actions = np.where(np.arange(900) < 7, 1, 0)
    with pytest.raises(InvalidInput, match=r"was taken 7 times, .* was taken 0 times in the log"):
        estimate(replace(uneven, actions=actions))


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
    before = reward_models(log.contexts, log.actions, log.rewards, people, DOMAIN, 3)
    own = before.halves == 0
    changed = np.where(own, 1.0 - log.rewards, log.rewards)
    after = reward_models(log.contexts, log.actions, changed, people, DOMAIN, 3)
    np.testing.assert_array_equal(before.halves, after.halves)
    np.testing.assert_array_equal(before.expected[own], after.expected[own])
    assert np.abs(before.expected[~own] - after.expected[~own]).max() > 0.1


def test_models_find_steps_planes_and_constants(rng: np.random.Generator) -> None:
    contexts = rng.random((1600, 2))
    actions = np.tile([0, 1, 2], 534)[:1600]
    mean = np.stack([np.floor(2.0 * contexts[:, 0]), contexts @ [0.5, 0.5], np.full(1600, 0.5)])
    rewards = mean[actions, np.arange(1600)] + 0.1 * rng.normal(size=1600)
    people, domain = np.arange(1600), Box((0, 0), (1, 1))
    models = reward_models(contexts, actions, rewards, people, domain, 3)
    error = np.abs(models.expected - mean.T).mean(axis=0)
    assert (error < [0.06, 0.06, 0.04]).all()


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
    models = reward_models(contexts, actions, rewards, np.arange(1200), domain, 2)
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
    models = reward_models(log.contexts, log.actions, log.rewards, people, DOMAIN, 3)
    rows = np.flatnonzero(models.halves == 0)
    drawn = np.stack([models.draw(rows, rng) for _ in range(500)])
    assert set(np.unique(drawn)) == {0.0, 1.0}
    error = np.abs(drawn.mean(axis=0) - models.expected[rows])
    assert error.max() < 5.0 * 0.5 / 500**0.5


def test_propensities_are_estimated_from_others(rng: np.random.Generator) -> None:
    log = world(1500, 2.0, rng)
    likely = likely_actions(log.contexts, log.actions, np.arange(1500), DOMAIN, 3)
    truth = chosen_with(log.contexts, 2.0)
    np.testing.assert_allclose(likely.sum(axis=1), 1.0)
    assert np.abs(likely - truth).mean() < 0.03
    assert np.abs(likely - truth).mean() < 0.4 * np.abs(truth - truth.mean(axis=0)).mean()


def test_an_arm_of_one_person_all_in_one_half(rng: np.random.Generator) -> None:
    log = world(90, 0.0, rng)
    people = np.where(log.actions == 2, 1000, np.arange(90))
    models = reward_models(log.contexts, log.actions, log.rewards, people, DOMAIN, 3)
    assert np.isfinite(models.expected).all()
    likely = likely_actions(log.contexts, log.actions, people, DOMAIN, 3)
    assert np.isfinite(likely).all()
    assert means(log.contexts).shape == likely.shape
