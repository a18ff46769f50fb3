"""Curves against known truths: between horizons, beyond them, and how often intervals cover."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.lab.planning.curves import (
    REACH,
    along,
    curve_of,
    first_from,
    grid_of,
    interval,
    power_of,
    resampled_means,
    resamples,
    steady_ceiling,
    stretch,
)

from .cases import FIXED, HORIZONS, drawn, growing

PEOPLE = np.asarray(HORIZONS, dtype=np.float64)


@pytest.mark.parametrize("power", [0.0, 0.3, 0.5, 0.9])
def test_regret_that_grows_as_a_power_goes_on_so(power: float) -> None:
    means = np.stack([growing(2.0, power)] * 3)
    curve = curve_of(means, PEOPLE, FIXED)
    for people in (4000, 7000, 15_999):
        truth = FIXED - 2.0 * people ** (power - 1.0)
        assert curve.at(people) == pytest.approx(truth, abs=2e-4)


def test_a_curve_meets_every_horizon_and_ends_at_its_reach() -> None:
    means = growing(3.0, 0.6)[None]
    curve = curve_of(means, PEOPLE, FIXED)
    assert [curve.at(people)[0] for people in HORIZONS] == pytest.approx(means[0])
    assert curve.grid[0] == HORIZONS[0]
    assert curve.grid[-1] == pytest.approx(REACH * HORIZONS[-1])
    assert (np.diff(grid_of(PEOPLE)) > 0.0).all()


def test_who_learns_nothing_goes_on_learning_nothing() -> None:
    falling = np.array([[-0.03, -0.03, -0.04, -0.03, -0.05]])
    curve = curve_of(falling, PEOPLE, FIXED)
    assert (curve.gain[0][curve.grid > 4000] == pytest.approx(-0.05)) is True


def test_nobody_rises_above_the_ceiling() -> None:
    means = np.array([[0.1, 0.2, 0.3, 0.39, 0.399], [0.1, 0.2, 0.3, 0.39, 0.41]])
    curve = curve_of(means, PEOPLE, FIXED)
    beyond = curve.gain[:, curve.grid > 4000]
    assert (beyond[0] <= FIXED).all()
    assert beyond[1] == pytest.approx(0.41)  # above it by chance, and stays


def test_privacy_makes_nobody_learn_faster() -> None:
    """One mean that is high by chance would let the private curve overtake the other."""
    free, private = growing(1.0, 0.5)[None], growing(1.2, 0.5)[None].copy()
    private[0, -1] += 0.002
    assert power_of(private, PEOPLE, FIXED) < power_of(free, PEOPLE, FIXED)
    without = curve_of(free, PEOPLE, FIXED)
    beyond = without.grid > PEOPLE[-1]
    with_privacy = curve_of(private, PEOPLE, FIXED, without)
    for gain in (with_privacy.gain, with_privacy.best):
        assert (gain[0, beyond] < without.gain[0, beyond]).all()


def test_at_best_people_miss_no_more_than_without_privacy() -> None:
    free = curve_of(growing(1.0, 0.5)[None], PEOPLE, FIXED)
    slow = curve_of(growing(0.4, 1.0)[None], PEOPLE, FIXED, free)  # has learnt nothing
    assert (slow.gain == pytest.approx(0.0, abs=1e-12)) is True
    missed = FIXED * 4000 + 1.0 * (16_000**0.5 - 4000**0.5)
    assert slow.best[0, -1] == pytest.approx(FIXED - missed / 16_000)
    inside = slow.grid <= 4000
    assert np.array_equal(slow.best[:, inside], slow.gain[:, inside])


def test_the_bend_of_a_take_off_is_followed() -> None:
    """Regret that grows in step with people at first and as their root later, halves far apart."""

    def gain(people: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return FIXED - np.minimum(FIXED, (FIXED / 700.0) * np.sqrt(700.0 * people) * 700.0 / people)

    curve = curve_of(gain(PEOPLE)[None], PEOPLE, FIXED)
    inside = curve.grid <= PEOPLE[-1]
    straight = np.interp(np.log(curve.grid[inside]), np.log(PEOPLE), gain(PEOPLE))
    truth = gain(curve.grid[inside])
    error, before = (np.abs(each - truth).mean() for each in (curve.gain[0, inside], straight))
    assert error < 0.7 * before


def test_a_single_horizon_goes_on_as_it_is() -> None:
    curve = curve_of(np.array([[0.2]]), np.array([100.0]), FIXED)
    assert curve.gain[0] == pytest.approx(0.2)
    assert steady_ceiling(np.array([[0.2]]), np.array([100.0])) == pytest.approx(0.2)


def test_the_ceiling_of_steady_learning() -> None:
    gain = (0.4 - 2.0 * PEOPLE**-0.5)[None]
    assert steady_ceiling(gain, PEOPLE) == pytest.approx(0.4)
    assert steady_ceiling(gain[:, ::-1], PEOPLE) == pytest.approx(gain[0, 0])  # no rise, no more


def test_the_place_from_which_on() -> None:
    places = np.array([1.0, 2.0, 4.0, 8.0])
    rows = np.array(
        [
            [0.0, 0.0, 1.0, 2.0],
            [1.0, 0.0, 0.5, 1.0],
            [1.0, 1.0, 1.0, 1.0],
            [2.0, 2.0, 2.0, 0.0],
            [np.nan, np.nan, 3.0, 3.0],
        ]
    )
    crossed = first_from(places, rows, 0.5)
    assert crossed == pytest.approx([2.0 * 2**0.5, 4.0, 1.0, np.inf, 4.0])


def test_reading_along_a_curve() -> None:
    places, rows = np.array([1.0, 4.0, 16.0]), np.array([[0.0, 1.0, 3.0]])
    assert [along(places, rows, at)[0] for at in (1.0, 2.0, 8.0, 16.0)] == [0.0, 0.5, 2.0, 3.0]


def test_intervals_of_what_may_be_infinite() -> None:
    values = np.concatenate([np.arange(90.0), np.full(10, np.inf)])
    assert interval(values) == (2.0, np.inf)


def test_resamples_are_stretched_as_students_t() -> None:
    assert stretch(1) == 0.0
    assert stretch(4) == pytest.approx(3.182446 / 1.959964 * (4 / 3) ** 0.5, rel=1e-6)
    gain = drawn(np.zeros(1), 8, 1.0, 2)
    low, high = interval(resampled_means(gain, resamples(8, 1))[1:, 0])
    half = 2.364624 * gain.std(ddof=1) / 8**0.5
    assert high - low == pytest.approx(2.0 * half, rel=0.15)


def test_intervals_of_means_cover_as_often_as_they_say() -> None:
    """Of 400 samples of 6 replicates each; the bootstrap alone would cover 86% of them."""
    covered = 0
    for seed in range(400):
        low, high = interval(
            resampled_means(drawn(np.zeros(1), 6, 1.0, seed), resamples(6, seed))[1:, 0]
        )
        covered += low <= 0.0 <= high
    assert 0.92 <= covered / 400 <= 0.99
