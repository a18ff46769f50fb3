"""What mechanisms cost, held against the formulas of Balle and Wang (2018) by numerical means."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from discreet.privacy.accounting import (
    Event,
    GaussianEvent,
    PureEvent,
    composed_epsilon,
    gaussian_epsilon,
)
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.validation import InvalidInput


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Balle and Wang (2018), Theorem 8; it holds for negative epsilon as well."""
    tail = norm.logcdf(-mu / 2 - epsilon / mu)
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon + tail))


def mixed_delta(pure: list[float], mu: float, epsilon: float) -> float:
    """Exact delta of randomized responses beside a Gaussian: average over the responses' losses.

    delta(epsilon) = E[(1 - e^(epsilon - L))+], and L is a Gaussian loss plus +-epsilon_i, the
    plus sign with probability e^epsilon_i / (1 + e^epsilon_i).
    """
    total = 0.0
    for signs in product((1, -1), repeat=len(pure)):
        chance = math.prod(1 / (1 + math.exp(-s * e)) for s, e in zip(signs, pure, strict=True))
        shift = sum(s * e for s, e in zip(signs, pure, strict=True))
        total += chance * gaussian_delta(mu, epsilon - shift)
    return total


CHECK_VALUES = [(0.1, 0.351), (0.5, 0.643), (1.0, 0.921), (10.0, 3.548)]
GRID = list(product([0.05, 0.3, 1.0, 3.0, 10.0], [1e-9, 1e-5, 0.01, 0.1]))


class TestOneGaussian:
    @pytest.mark.parametrize(("epsilon", "mu"), CHECK_VALUES)
    def test_values_known_at_delta_one_tenth(self, epsilon: float, mu: float) -> None:
        assert 1.0 / gaussian_noise_multiplier(epsilon, 0.1) == pytest.approx(mu, abs=5e-4)
        assert gaussian_epsilon(1.0 / mu, 0.1) == pytest.approx(epsilon, abs=0.005)

    @pytest.mark.parametrize(("mu", "delta"), GRID)
    def test_epsilon_solves_the_exact_formula(self, mu: float, delta: float) -> None:
        epsilon = gaussian_epsilon(1.0 / mu, delta)
        if gaussian_delta(mu, 0.0) <= delta:
            assert epsilon == 0.0
        else:
            assert gaussian_delta(mu, epsilon) == pytest.approx(delta, rel=1e-4)

    @pytest.mark.parametrize(("epsilon", "delta"), GRID)
    def test_multiplier_and_epsilon_are_inverse(self, epsilon: float, delta: float) -> None:
        multiplier = gaussian_noise_multiplier(epsilon, delta)
        assert gaussian_delta(1.0 / multiplier, epsilon) == pytest.approx(delta, rel=1e-4)
        assert gaussian_epsilon(multiplier, delta) == pytest.approx(epsilon, rel=1e-4)

    def test_the_classical_formula_is_not_used(self) -> None:
        """sqrt(2 ln(1.25 / delta)) / epsilon promises too much at epsilon = 10."""
        classical = math.sqrt(2 * math.log(1.25 / 1e-5)) / 10.0
        assert gaussian_epsilon(classical, 1e-5) > 10.0
        assert gaussian_noise_multiplier(10.0, 1e-5) > classical

    @pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, math.nan])
    def test_delta_must_lie_between_0_and_1(self, delta: float) -> None:
        with pytest.raises(InvalidInput, match="delta was"):
            gaussian_epsilon(1.0, delta)
        with pytest.raises(InvalidInput, match="delta was"):
            gaussian_noise_multiplier(1.0, delta)

    @pytest.mark.parametrize("number", [0.0, -1.0, math.inf, math.nan])
    def test_multiplier_and_epsilon_must_be_positive(self, number: float) -> None:
        with pytest.raises(InvalidInput, match="noise_multiplier was"):
            gaussian_epsilon(number, 0.1)
        with pytest.raises(InvalidInput, match="epsilon was"):
            gaussian_noise_multiplier(number, 0.1)

    @pytest.mark.parametrize(
        ("epsilon", "delta"), [(1e-12, 1e-17), (1e-9, 1e-17), (1e16, 1e-5), (1e30, 1e-5)]
    )
    def test_an_epsilon_that_somebody_sent_never_takes_for_ever(
        self, epsilon: float, delta: float
    ) -> None:
        multiplier = gaussian_noise_multiplier(epsilon, delta)
        assert get_epsilon_gaussian(multiplier, delta) <= epsilon

    def test_an_epsilon_out_of_reach_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="out of reach"):
            gaussian_noise_multiplier(1e300, 1e-5)


class TestEvents:
    @pytest.mark.parametrize("epsilon", [-1e-9, -math.inf, math.nan])
    def test_a_pure_event_has_an_epsilon_of_0_or_more(self, epsilon: float) -> None:
        with pytest.raises(InvalidInput, match="epsilon of an event"):
            PureEvent(epsilon)

    def test_reports_of_nothing_and_of_everything_are_events(self) -> None:
        assert PureEvent(0.0).epsilon == 0.0
        assert PureEvent(math.inf).epsilon == math.inf

    @pytest.mark.parametrize("multiplier", [0.0, -1.0, math.inf, math.nan])
    def test_a_gaussian_event_has_noise(self, multiplier: float) -> None:
        with pytest.raises(InvalidInput, match="noise_multiplier was"):
            GaussianEvent(multiplier)


class TestComposition:
    def test_nothing_costs_nothing(self) -> None:
        assert composed_epsilon([], 0.0) == 0.0
        assert composed_epsilon([], 0.1) == 0.0

    @settings(deadline=None, max_examples=50)
    @given(epsilons=st.lists(st.floats(0.0, 100.0), min_size=1, max_size=8))
    def test_pure_events_add(self, epsilons: list[float]) -> None:
        events = [PureEvent(epsilon) for epsilon in epsilons]
        assert composed_epsilon(events, 0.0) == pytest.approx(math.fsum(epsilons))
        assert composed_epsilon(events[::-1], 0.1) <= composed_epsilon(events, 0.0)

    @pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.05])
    @pytest.mark.parametrize("times", [2, 3, 7])
    def test_equal_pure_events_cost_at_a_delta_what_as_many_responses_lose(
        self, times: int, delta: float
    ) -> None:
        """Against all 2^k answers to k randomised responses: no response less is counted."""
        epsilon = 0.8
        truth = 1.0 / (1.0 + math.exp(-epsilon))
        answers = np.array(list(product((0, 1), repeat=times))).sum(axis=1)
        one, other = (
            truth**true * (1.0 - truth) ** (times - true) for true in (answers, times - answers)
        )
        found = composed_epsilon([PureEvent(epsilon)] * times, delta)
        lost = np.maximum(one - math.exp(found) * other, 0.0).sum()
        assert lost <= delta
        less = np.maximum(one - math.exp(found - 1e-6) * other, 0.0).sum()
        assert less > delta

    @settings(deadline=None, max_examples=50)
    @given(
        multipliers=st.lists(st.floats(0.2, 20.0), min_size=1, max_size=8),
        delta=st.sampled_from([1e-8, 1e-4, 0.1]),
    )
    def test_gaussian_events_add_their_mu_squared(
        self, multipliers: list[float], delta: float
    ) -> None:
        mu = math.sqrt(sum(1.0 / m**2 for m in multipliers))
        composed = composed_epsilon([GaussianEvent(m) for m in multipliers], delta)
        assert composed == pytest.approx(gaussian_epsilon(1.0 / mu, delta), rel=1e-9)

    def test_free_pure_events_leave_the_gaussian_exact(self) -> None:
        events: list[Event] = [GaussianEvent(1.0), PureEvent(0.0)]
        assert composed_epsilon(events, 1e-5) == gaussian_epsilon(1.0, 1e-5)

    @pytest.mark.parametrize(
        ("pure", "multiplier", "delta"),
        [([0.1], 2.0, 1e-5), ([0.5, 1.5], 0.5, 0.1)],
    )
    def test_mixed_events_meet_the_exact_answer(
        self, pure: list[float], multiplier: float, delta: float
    ) -> None:
        """At least the exact epsilon of randomized responses beside a Gaussian, and close to it."""
        events = [*map(PureEvent, pure), GaussianEvent(multiplier)]
        epsilon = composed_epsilon(events, delta)
        exact = brentq(lambda e: mixed_delta(pure, 1.0 / multiplier, e) - delta, 0.0, 100.0)
        assert epsilon >= exact - 1e-9
        assert epsilon == pytest.approx(exact, abs=1e-3)

    def test_mixed_events_cost_at_least_the_exact_cost_of_the_pure_part(self) -> None:
        """At a large delta a pure part alone is cheaper than its epsilon, but never free."""
        mixed = composed_epsilon([PureEvent(3.0), GaussianEvent(50.0)], 1e-9)
        assert mixed >= 3.0 - 1e-6

    def test_no_noise_at_all_is_an_infinite_epsilon(self) -> None:
        assert composed_epsilon([PureEvent(math.inf)], 0.0) == math.inf
        assert composed_epsilon([PureEvent(math.inf), GaussianEvent(1.0)], 0.1) == math.inf

    def test_a_gaussian_promises_nothing_at_delta_0(self) -> None:
        with pytest.raises(InvalidInput, match="delta was 0, but a Gaussian release"):
            composed_epsilon([GaussianEvent(1.0)], 0.0)
        with pytest.raises(InvalidInput, match="delta was 0"):
            composed_epsilon([PureEvent(1.0), GaussianEvent(1.0)], 0.0)


class TestFaultsOnceFound:
    """Each was a fault of an earlier version, found by an adversarial reading."""

    @pytest.mark.parametrize("multiplier", [1e-200, 1e200])
    def test_extreme_multipliers(self, multiplier: float) -> None:
        composed_epsilon([GaussianEvent(multiplier)], 0.1)
