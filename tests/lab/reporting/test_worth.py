"""Nothing private tells more than its worth in people, and the best mechanisms tell as much."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from discreet.lab.reporting.worth import difference_that_shows, worth_of_reports, worth_of_sums
from discreet.privacy import Joint
from discreet.privacy.accounting import GaussianEvent, PureEvent
from discreet.privacy.frequency import SignedSubsetSelection
from discreet.validation import FloatArray, InvalidInput

EPSILONS = (0.1, 1.0, 3.0)


def share(epsilon: float) -> float:
    return worth_of_reports(PureEvent(epsilon), 1.0)


def information(before: FloatArray, score: FloatArray, channel: FloatArray) -> float:
    """What a channel (x, y) leaves of the Fisher information of scores (x,), as a share."""
    shown = before @ channel
    passed = (before * score) @ channel
    return float((passed**2 / shown).sum() / (before @ score**2))


def channels(epsilon: float, rng: np.random.Generator) -> FloatArray:
    """A random channel in which no two inputs are told apart by more than e^epsilon."""
    inputs, outputs = rng.integers(2, 6, 2)
    ratios = np.exp(epsilon * rng.integers(0, 2, (inputs, outputs)))
    base = rng.dirichlet(np.ones(outputs))
    channel: FloatArray = ratios * base
    # Normalised rows could differ by more; what each lacks is put on an output of its own kind.
    rest = channel.sum(axis=1).max() - channel.sum(axis=1)
    low = channel.sum(axis=1).max() / math.expm1(epsilon)
    return np.column_stack([channel, rest + low]) / (channel.sum(axis=1).max() + low)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_pure_report_tells_more(epsilon: float) -> None:
    rng = np.random.default_rng(1)
    most = share(epsilon)
    for _ in range(300):
        channel = channels(epsilon, rng)
        largest = np.log(channel.max(axis=0) / channel.min(axis=0)).max()
        assert largest <= epsilon + 1e-9
        before = rng.dirichlet(np.ones(len(channel)))
        score = rng.normal(size=len(channel))
        score -= before @ score
        assert information(before, score, channel) <= most + 1e-12


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_randomised_response_tells_as_much(epsilon: float) -> None:
    keep = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    channel = np.array([[keep, 1.0 - keep], [1.0 - keep, keep]])
    told = information(np.array([0.5, 0.5]), np.array([-1.0, 1.0]), channel)
    assert told == pytest.approx(share(epsilon), rel=1e-12)
    # The report of a sign, as learners make it where nothing else is hidden.
    sign = SignedSubsetSelection.best(1, epsilon)
    assert sign.contrast**2 == pytest.approx(share(epsilon), rel=1e-6)


@pytest.mark.parametrize("scale", [0.05, 0.22, 0.3, 1.0, 8.0])
def test_gaussian_reports(scale: float) -> None:
    """Two values with Gaussian noise, integrated on a grid."""
    x = np.linspace(-12.0 * scale, 12.0 * scale + 1.0, 200_001)
    p, q = (np.exp(-0.5 * ((x - value) / scale) ** 2) for value in (0.0, 1.0))
    told = 0.5 * ((p - q) ** 2 / (p + q)).sum() / p.sum()
    assert worth_of_reports(GaussianEvent(scale), 1.0) == pytest.approx(told, rel=1e-9)


@pytest.mark.parametrize("visits", [1, 4])
def test_released_sums(visits: int) -> None:
    """The mean of n rewards of variance 1/4, from their sum with noise."""
    multiplier, people = Joint(1.0, 1e-6, max_contributions=visits).noise_multiplier, 1000.0
    without = 0.25 / people
    released = (0.25 * people + multiplier**2) / people**2
    normal = people * without / released
    assert worth_of_sums(multiplier, people) == pytest.approx(normal, rel=1e-4)
    assert worth_of_sums(multiplier, people) >= normal
    # Neither noise on each reward nor on sums over parts of the people tells more.
    for parts in (10.0, 1000.0):
        each = people / parts
        assert parts * each**2 / (0.25 * each + multiplier**2) <= 1.0 / released


@pytest.mark.parametrize("people", [1, 2, 5, 30])
@pytest.mark.parametrize("multiplier", [0.1, 0.3, 0.5, 1.0, 4.0])
def test_sums_of_rewards_of_0_and_1(people: int, multiplier: float) -> None:
    """Their steps show through little noise, so they tell more than normal rewards would."""
    worth = worth_of_sums(multiplier, people)
    normal = people / (1.0 + 4.0 * multiplier**2 / people)
    assert normal <= worth <= normal + 0.2
    x = np.arange(-9.0 * multiplier, people + 9.0 * multiplier, multiplier / 25.0)
    values = np.arange(people + 1)
    density = np.exp(-0.5 * ((x - values[:, None]) / multiplier) ** 2)
    density /= math.sqrt(2.0 * math.pi) * multiplier
    for mean in (0.5, 0.3, 0.1, 0.01):
        law = binom.pmf(values, people, mean)
        score = (values - people * mean) / math.sqrt(mean * (1.0 - mean))
        shown, passed = law @ density, (law * score) @ density
        told = float((passed**2 / np.maximum(shown, 1e-300)).sum() * multiplier / 25.0)
        assert told <= worth * (1.0 + 1e-9)
    # Nor does noise on each reward tell more.
    assert people * worth_of_reports(GaussianEvent(multiplier), 1.0) <= worth * (1.0 + 1e-9)


def test_more_noise_is_worth_less() -> None:
    sums = [worth_of_sums(noise, 500.0) for noise in (8.0, 1.0, 0.1)]
    gaussian = [worth_of_reports(GaussianEvent(noise), 500.0) for noise in (8.0, 1.0, 0.1)]
    pure = [worth_of_reports(PureEvent(epsilon), 500.0) for epsilon in EPSILONS]
    for worth in (sums, gaussian, pure):
        assert 0.0 < worth[0] < worth[1] < worth[2] <= 500.0
    assert worth_of_sums(1.0, 0.0) == worth_of_reports(PureEvent(1.0), 0.0) == 0.0


def test_differences_that_show() -> None:
    assert difference_that_shows(200.0) == pytest.approx(0.1)
    assert difference_that_shows(0.5) == 1.0


def test_numbers_that_are_none_are_refused() -> None:
    for people in (-1.0, math.nan, math.inf):
        with pytest.raises(InvalidInput, match="people was"):
            worth_of_reports(PureEvent(1.0), people)
        with pytest.raises(InvalidInput, match="people was"):
            worth_of_sums(1.0, people)
    with pytest.raises(InvalidInput, match="noise_multiplier was"):
        worth_of_sums(0.0, 10.0)
    with pytest.raises(InvalidInput, match="people was"):
        difference_that_shows(0.0)
