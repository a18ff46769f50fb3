"""What counts prove about a promise of Gaussian differential privacy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from discreet.audit.gaussian_bound import empirical_mu, gaussian_lower_bound
from discreet.audit.lower_bound import Attack, attack, rate_bounds
from discreet.privacy.accounting import gaussian_epsilon


def test_mu_is_the_difference_of_the_normal_scores_of_both_rates() -> None:
    least, _ = rate_bounds(700, 1000, 0.025)
    _, most = rate_bounds(200, 1000, 0.025)
    expected = norm.ppf(least) - norm.ppf(most)
    assert empirical_mu(Attack(700, 200, 1000, 1e-5)) == pytest.approx(expected)
    assert gaussian_lower_bound(Attack(700, 200, 1000, 1e-5)) == pytest.approx(
        gaussian_epsilon(1.0 / expected, 1e-5)
    )


def test_guesses_at_random_or_the_wrong_way_round_prove_nothing() -> None:
    for right, wrong in ((500, 500), (200, 700), (0, 0), (1000, 1000)):
        assert gaussian_lower_bound(Attack(right, wrong, 1000, 1e-5)) == 0.0


def test_certain_guesses_are_limited_by_the_number_of_trials() -> None:
    _, miss = rate_bounds(0, 1000, 0.025)
    assert empirical_mu(Attack(1000, 0, 1000, 1e-5)) == pytest.approx(-2.0 * norm.ppf(miss))


def test_the_bound_holds_with_its_confidence_and_is_close() -> None:
    mu, trials = 1.0, 2000
    rng = np.random.default_rng(1)
    found = np.array(
        [
            empirical_mu(
                attack(rng.normal(mu, 1.0, trials), rng.normal(0.0, 1.0, trials), 0.5 * mu, 1e-5)
            )
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
    assert gaussian_lower_bound(counted) > 0.85
