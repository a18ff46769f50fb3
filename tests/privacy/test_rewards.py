"""Local reports of one number: the law of the sign, and which report has the least variance."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.audit.output_distributions import vector_ratio
from discreet.codec import from_json, to_json
from discreet.privacy import Local, SimulatedNoise
from discreet.privacy.calibration import AdditiveNoise
from discreet.privacy.vectors import PrivUnit, RandomizedSign, reward_noise
from discreet.validation import InvalidInput


def variances(epsilon: float, spread: float) -> tuple[float, float]:
    """Of the sign and of Laplace noise on a number in [-1/2, 1/2] with mean 0 and that variance."""
    return 0.25 / math.tanh(epsilon / 2.0) ** 2, spread + 2.0 / epsilon**2


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.2])
def test_a_sign_is_taken_where_it_has_less_variance_for_any_reward(epsilon: float) -> None:
    sign, laplace = variances(epsilon, 0.0)
    assert sign < laplace
    assert isinstance(reward_noise(Local(epsilon), 1.0), RandomizedSign)


@pytest.mark.parametrize("epsilon", [2.4, 5.0, 20.0])
def test_laplace_noise_is_taken_where_a_sign_may_have_more(epsilon: float) -> None:
    sign, laplace = variances(epsilon, 0.0)
    assert sign > laplace
    assert reward_noise(Local(epsilon), 1.0).laplace


def test_a_delta_means_gaussian_noise() -> None:
    noise = reward_noise(Local(1.0, 1e-6), 1.0)
    assert type(noise) is AdditiveNoise
    assert not noise.laplace


def test_a_sign_is_unbiased_and_has_its_variance() -> None:
    mechanism = RandomizedSign(1.0, 2.0)
    values = np.full((200_000, 1), 0.3)
    reports = mechanism.add(values, SimulatedNoise(1))[:, 0]
    deviation = math.sqrt(1.0 + mechanism.variance)
    assert abs(reports.mean() - 0.3) < 5.0 * deviation / math.sqrt(len(values))
    # The size is public: the square of every report is the variance about 0.
    np.testing.assert_allclose(reports**2, 1.0 + mechanism.variance, rtol=1e-9)
    assert mechanism.variance == pytest.approx(1.0 / math.tanh(0.5) ** 2 - 1.0, rel=1e-6)
    mechanism.check_reports(reports[:, None])
    with pytest.raises(InvalidInput, match="position 0"):
        mechanism.check_reports(2.0 * reports[:, None])


def test_what_leaves_is_private_whatever_the_value() -> None:
    """By the coins that are tossed: of 1 and -1 no report is e^epsilon times likelier for one."""
    mechanism = RandomizedSign(1.0, 1.0)
    held = vector_ratio(PrivUnit(1, mechanism.scale), np.ones(1), -np.ones(1))
    assert 1.0 - 1e-6 < held <= 1.0
    sizes = [mechanism.add(np.array([[value]]), SimulatedNoise(3)) for value in (7.0, math.nan)]
    for each in sizes:
        mechanism.check_reports(each)


def test_it_travels_as_noise_does() -> None:
    mechanism = RandomizedSign(0.7, 1.0)
    assert from_json(to_json(mechanism, AdditiveNoise), AdditiveNoise) == mechanism
    with pytest.raises(InvalidInput):
        RandomizedSign(1e-9, 1.0)
