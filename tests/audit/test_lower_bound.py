"""What counts of right and wrong guesses prove about epsilon."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from discreet.audit.lower_bound import (
    Attack,
    attack,
    best_threshold,
    rate_bounds,
)
from discreet.privacy.accounting import gaussian_epsilon
from discreet.validation import InvalidInput


def test_clopper_pearson_at_the_ends_is_a_power() -> None:
    # P(no success in 10 trials) = (1 - p)^10 = 0.025.
    assert rate_bounds(0, 10, 0.025) == (0.0, pytest.approx(1.0 - 0.025**0.1))
    assert rate_bounds(10, 10, 0.025) == (pytest.approx(0.025**0.1), 1.0)


def test_clopper_pearson_as_in_printed_tables() -> None:
    # 95% intervals of 5 and 2 of 10.
    assert rate_bounds(5, 10, 0.025) == pytest.approx((0.1871, 0.8129), abs=5e-5)
    assert rate_bounds(2, 10, 0.025) == pytest.approx((0.0252, 0.5561), abs=5e-5)


def test_clopper_pearson_inverts_the_binomial_tails() -> None:
    low, high = rate_bounds(37, 200, 0.01)
    assert binom.sf(36, 200, low) == pytest.approx(0.01)
    assert binom.cdf(37, 200, high) == pytest.approx(0.01)


def test_certain_guesses_are_limited_by_the_number_of_trials() -> None:
    miss = 1.0 - 0.025 ** (1.0 / 20_000)
    by_hand = math.log((1.0 - miss - 1e-5) / miss)
    assert Attack(20_000, 0, 20_000, 1e-5).epsilon == pytest.approx(by_hand)
    assert by_hand == pytest.approx(8.6, abs=0.01)


def test_both_kinds_of_error_count() -> None:
    low, _ = rate_bounds(900, 1000, 0.025)
    _, high = rate_bounds(300, 1000, 0.025)
    first = math.log((low - 0.01) / high)
    second = math.log((1.0 - high - 0.01) / (1.0 - low))
    assert Attack(900, 300, 1000, 0.01).epsilon == pytest.approx(max(first, second))
    # With the two tables exchanged, 100 and 700 are guesses of the first.
    mirrored = Attack(700, 100, 1000, 0.01).epsilon
    assert mirrored == pytest.approx(max(first, second))


def test_guesses_at_random_prove_nothing() -> None:
    assert Attack(500, 500, 1000).epsilon == 0.0
    assert Attack(3, 0, 1000, 0.5).epsilon == 0.0
    # A delta as large as the difference pays for it.
    assert Attack(600, 500, 1000, 0.2).epsilon == 0.0


def test_the_bound_holds_with_its_confidence_on_randomized_response() -> None:
    # Epsilon = 1 exactly: the truth is told with probability e / (1 + e).
    truth, trials, repeats = math.e / (1.0 + math.e), 500, 400
    rng = np.random.default_rng(1)
    right = rng.binomial(trials, truth, repeats)
    wrong = rng.binomial(trials, 1.0 - truth, repeats)
    proved = [Attack(int(a), int(b), trials).epsilon for a, b in zip(right, wrong, strict=True)]
    assert np.mean(np.array(proved) > 1.0) <= 0.05
    assert np.mean(proved) > 0.6


def test_the_threshold_parts_scores_that_do_not_overlap() -> None:
    rng = np.random.default_rng(2)
    for size in (2, 7, 300):
        high, low = 1e-6 + rng.random(size), -1e-6 - rng.random(size)
        found = attack(high, low, best_threshold(high, low, 1e-5), 1e-5)
        assert (found.true_positives, found.false_positives) == (size, 0)
        assert (found.true_positive_rate, found.false_positive_rate) == (1.0, 0.0)


def test_a_gaussian_shift_is_found_and_not_overestimated() -> None:
    # Two normal laws at distance 2: mu = 2, epsilon = 10.97 at delta = 1e-5.
    rng = np.random.default_rng(3)
    first, second = rng.normal(2.0, 1.0, (2, 4000)), rng.normal(0.0, 1.0, (2, 4000))
    threshold = best_threshold(first[0], second[0], 1e-5)
    assert 2.0 < attack(first[1], second[1], threshold, 1e-5).epsilon < 10.97


def test_as_many_trials_on_either_are_needed() -> None:
    for second in (np.zeros(4), np.zeros(0)):
        with pytest.raises(InvalidInput, match="as many trials"):
            attack(np.zeros(3 if len(second) else 0), second, 0.0, 0.0)


# Where the promise is one of Gaussian differential privacy.


def test_mu_is_the_difference_of_the_normal_scores_of_both_rates() -> None:
    least, _ = rate_bounds(700, 1000, 0.025)
    _, most = rate_bounds(200, 1000, 0.025)
    expected = norm.ppf(least) - norm.ppf(most)
    assert Attack(700, 200, 1000, 1e-5).mu == pytest.approx(expected)
    assert Attack(700, 200, 1000, 1e-5).proved("gaussian") == pytest.approx(
        gaussian_epsilon(1.0 / expected, 1e-5)
    )


def test_of_mu_guesses_at_random_or_the_wrong_way_round_prove_nothing() -> None:
    for right, wrong in ((500, 500), (200, 700), (0, 0), (1000, 1000)):
        assert Attack(right, wrong, 1000, 1e-5).proved("gaussian") == 0.0


def test_of_mu_certain_guesses_are_limited_by_the_number_of_trials() -> None:
    _, miss = rate_bounds(0, 1000, 0.025)
    assert Attack(1000, 0, 1000, 1e-5).mu == pytest.approx(-2.0 * norm.ppf(miss))


def test_of_mu_the_bound_holds_with_its_confidence_and_is_close() -> None:
    mu, trials = 1.0, 2000
    rng = np.random.default_rng(1)
    found = np.array(
        [
            attack(rng.normal(mu, 1.0, trials), rng.normal(0.0, 1.0, trials), 0.5 * mu, 1e-5).mu
            for _ in range(400)
        ]
    )
    assert np.mean(found > mu) <= 0.05
    assert 0.85 * mu < found.mean() < mu


def test_it_needs_no_rare_events_where_counts_alone_do() -> None:
    # mu = 0.27: epsilon = 1 at delta = 1e-5, which counts alone cannot see.
    rng = np.random.default_rng(2)
    counted = attack(rng.normal(0.27, 1.0, 100_000), rng.normal(0.0, 1.0, 100_000), 0.13, 1e-5)
    assert counted.epsilon < 0.35
    assert counted.proved("gaussian") > 0.85
