"""Decision rules of public points: exploration where it pays, batches of upper bounds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from discreet.gaussian import Posterior
from discreet.learners.gp_ucb.public.decision import (
    GroupPosterior,
    expected_improvement_of_decision,
    exploratory_pulls,
    probability_matching,
    rougher,
    upper_bounds,
)

POINTS, FEATURES = 30, 4
RNG = np.random.default_rng(0)


def posterior(**changes: object) -> GroupPosterior:
    rng = np.random.default_rng(3)
    posteriors = [
        Posterior(0.1 * rng.normal(size=FEATURES), 0.3 * rng.normal(size=(FEATURES, 3)))
        for _ in range(3)
    ]
    fields = {
        "psi": rng.normal(size=(POINTS, FEATURES)),
        "average": posteriors[0],
        "wide": tuple(posteriors[1:]),
        "weights": np.array([0.2, 0.8]),
        "seen": np.array([3.0, 2.0]),
        "alike": np.array([np.full(POINTS, 2.0), np.full(POINTS, 6.0)]),
        "room": 0.3,
        "people": 64,
        "remaining": 1000,
        "reward_variance": 0.05,
        "release_variance": 0.5,
    }
    return GroupPosterior(**{**fields, **changes})  # type: ignore[arg-type]


def test_improvement_is_the_expectation_of_the_best_mean() -> None:
    """Against the expectation of min(max(m + s Z, 0), c) on a fine grid of Z."""
    given = posterior()
    counts = np.array([1.0, 4.0, 16.0])
    best = int((given.psi @ given.average.mean).argmax())
    away = given.psi - given.psi[best]
    z = np.linspace(-9.0, 9.0, 20_001)
    density = norm.pdf(z) * (z[1] - z[0])
    wanted = np.zeros((POINTS, 3))
    for weight, wide in zip(rougher(given.weights, given.seen), given.wide, strict=True):
        mean = np.minimum(away @ wide.mean, 0.0)
        variance = np.sum((away @ wide.root) ** 2, axis=1)
        for k, count in enumerate(counts):
            noise = 0.05 / count + 0.5 / count**2
            moved = variance / np.sqrt(variance + noise + 1e-300)
            better = np.clip(mean[:, None] + moved[:, None] * z, 0.0, 0.3)
            wanted[:, k] += 2.0 * 1000 * weight * (better @ density)
    assert np.allclose(
        expected_improvement_of_decision(given, counts)[away.any(axis=1)],
        wanted[away.any(axis=1)],
        atol=0.05,
    )


def test_weights_of_length_scales_follow_the_rule_of_succession() -> None:
    """Rule of succession over regions of 20 places: of 2 + 1 before, one is rough."""
    weights = np.array([0.0, 0.0, 0.75, 0.25])
    before, later, late = (rougher(weights, np.full(4, seen)) for seen in (0.0, 540.0, 1e9))
    # 1/3 of .75 and of .25, then 1/30 of them; what is below a thousandth counts nothing.
    assert np.allclose(before, np.array([0.0, 0.25, 0.75 + 0.25 / 3.0, 0.25]) * 3.0 / 4.0)
    assert np.allclose(later, np.array([0.0, 0.025, 0.75 + 0.25 / 30.0, 0.25]) * 30.0 / 31.0)
    assert np.allclose(late, weights)


@pytest.mark.parametrize("people", [1, 7, 64, 5000])
def test_exploration_takes_no_more_people_than_the_epoch_has(people: int) -> None:
    wanted = exploratory_pulls(posterior(people=people))
    assert (wanted >= 0.0).all()
    assert wanted.sum() <= 0.8 * people
    assert probability_matching(posterior(people=people), 1.0, RNG).sum() == pytest.approx(1.0)


def test_no_exploration_for_an_empty_horizon() -> None:
    assert not exploratory_pulls(posterior(remaining=0)).any()


def test_a_batch_of_bounds_counts_its_earlier_points_as_measured() -> None:
    given = posterior(people=8)
    mean = given.psi @ given.average.mean
    noise = given.reward_variance + given.release_variance
    wide = [given.psi @ posterior.root for posterior in given.wide]
    shares = rougher(given.weights, given.seen)
    covariance = sum(share * root @ root.T for share, root in zip(shares, wide, strict=True))
    probabilities = np.zeros(POINTS)
    for _ in range(8):
        bound = mean + 2.0 * np.sqrt(np.maximum(np.diag(covariance), 0.0))
        place = int(bound.argmax())
        probabilities[place] += 1.0 / 8.0
        column = covariance[:, place]
        covariance = covariance - np.outer(column, column) / (column[place] + noise)
    assert np.allclose(upper_bounds(given, 2.0, RNG), probabilities)
    assert (probabilities > 0.0).sum() > 1
