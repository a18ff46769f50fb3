"""What counts of right and wrong guesses prove about epsilon."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from discreet.audit.trials import Attack, attack, rate_bounds
from discreet.privacy.accounting import gaussian_epsilon
from discreet.validation import InvalidInput


def test_clopper_pearson_bounds() -> None:
    # P(no success in 10 trials) = (1 - p)^10 = 0.025.
    assert rate_bounds(0, 10, 0.025) == (0.0, pytest.approx(1.0 - 0.025**0.1))
    assert rate_bounds(10, 10, 0.025) == (pytest.approx(0.025**0.1), 1.0)
    # Printed tables: 95% intervals of 5 and 2 of 10.
    assert rate_bounds(5, 10, 0.025) == pytest.approx((0.1871, 0.8129), abs=5e-5)
    assert rate_bounds(2, 10, 0.025) == pytest.approx((0.0252, 0.5561), abs=5e-5)
    low, high = rate_bounds(37, 200, 0.01)
    assert binom.sf(36, 200, low) == pytest.approx(0.01)
    assert binom.cdf(37, 200, high) == pytest.approx(0.01)


def test_certain_guesses_are_limited_by_the_number_of_trials() -> None:
    miss = 1.0 - 0.025 ** (1.0 / 20_000)
    by_hand = math.log((1.0 - miss - 1e-5) / miss)
    assert Attack(20_000, 0, 20_000, 1e-5).epsilon == pytest.approx(by_hand)
    assert by_hand == pytest.approx(8.6, abs=0.01)
    _, miss = rate_bounds(0, 1000, 0.025)
    assert Attack(1000, 0, 1000, 1e-5).mu == pytest.approx(-2.0 * norm.ppf(miss))


def test_both_kinds_of_error_count() -> None:
    low, _ = rate_bounds(900, 1000, 0.025)
    _, high = rate_bounds(300, 1000, 0.025)
    first = math.log((low - 0.01) / high)
    second = math.log((1.0 - high - 0.01) / (1.0 - low))
    assert Attack(900, 300, 1000, 0.01).epsilon == pytest.approx(max(first, second))
    # With the two tables exchanged, 100 and 700 are guesses of the first.
    assert Attack(700, 100, 1000, 0.01).epsilon == pytest.approx(max(first, second))


def test_guesses_at_random_or_the_wrong_way_round_prove_nothing() -> None:
    assert Attack(500, 500, 1000).epsilon == 0.0
    assert Attack(3, 0, 1000, 0.5).epsilon == 0.0
    # A delta as large as the difference pays for it.
    assert Attack(600, 500, 1000, 0.2).epsilon == 0.0
    for right, wrong in ((500, 500), (200, 700), (0, 0), (1000, 1000)):
        assert Attack(right, wrong, 1000, 1e-5).proved("gaussian") == 0.0


def test_bounds_hold_with_their_confidence_and_are_close() -> None:
    rng = np.random.default_rng(1)
    # Randomised response, epsilon = 1: the truth is told with probability e / (1 + e).
    truth = math.e / (1.0 + math.e)
    right, wrong = rng.binomial(500, truth, 400), rng.binomial(500, 1.0 - truth, 400)
    proved = np.array([Attack(*counts, 500).epsilon for counts in zip(right, wrong, strict=True)])
    assert np.mean(proved > 1.0) <= 0.05
    assert proved.mean() > 0.6
    # Normal laws at a distance of 1: mu = 1.
    numbers = rng.normal(size=(400, 2, 2000))
    proved = np.array([attack(1.0 + one, two, 0.5, 1e-5).mu for one, two in numbers])
    assert np.mean(proved > 1.0) <= 0.05
    assert 0.85 < proved.mean() < 1.0


def test_as_many_trials_on_either_are_needed() -> None:
    for first, second in ((np.zeros(3), np.zeros(4)), (np.zeros(0), np.zeros(0))):
        with pytest.raises(InvalidInput, match="as many trials"):
            attack(first, second, 0.0, 0.0)


def test_mu_is_the_difference_of_the_normal_scores_of_both_rates() -> None:
    least, _ = rate_bounds(700, 1000, 0.025)
    _, most = rate_bounds(200, 1000, 0.025)
    expected = norm.ppf(least) - norm.ppf(most)
    counted = Attack(700, 200, 1000, 1e-5)
    assert counted.mu == pytest.approx(expected)
    assert counted.proved("gaussian") == pytest.approx(gaussian_epsilon(1.0 / expected, 1e-5))


def test_mu_needs_no_rare_events_where_counts_alone_do() -> None:
    # mu = 0.27: epsilon = 1 at delta = 1e-5, which counts alone cannot see.
    rng = np.random.default_rng(2)
    counted = attack(rng.normal(0.27, 1.0, 100_000), rng.normal(0.0, 1.0, 100_000), 0.13, 1e-5)
    assert counted.proved("counts") < 0.35
    assert counted.proved("gaussian") > 0.85
