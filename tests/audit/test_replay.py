"""Tapes: what was handed to the noise, and how likely what came back is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import laplace, norm

from discreet.audit.replay import NotAdditive, Tape, log_ratio, separation
from discreet.privacy import NoiseSource


def code(value: float, noise: NoiseSource, scale: float = 2.0) -> float:
    """Two releases, of which the second depends on the first."""
    first = noise.add_gaussian(np.array([value, -value]), scale)
    second = noise.add_laplace(np.array([value * np.sign(first[0])]), 3.0)
    return float(first.sum() + second.sum())


def tapes(one: float, two: float, scale: float = 2.0) -> tuple[Tape, Tape]:
    mine, theirs = Tape(), Tape()
    mine.record(7)
    shown = code(one, mine)
    theirs.play(mine.calls)
    assert code(two, theirs, scale) == shown
    return mine, theirs


def test_the_ratio_is_that_of_the_densities() -> None:
    mine, theirs = tapes(1.0, -0.5)
    (first, second), sign = [call.noisy for call in mine.calls], np.sign(mine.calls[0].noisy[0])

    def density(value: float) -> float:
        gauss = norm.logpdf(first, [value, -value], 2.0).sum()
        return float(gauss + laplace.logpdf(second, value * sign, 3.0).sum())

    assert log_ratio(mine.calls, theirs.calls)[0] == pytest.approx(density(1.0) - density(-0.5))
    assert log_ratio(theirs.calls, mine.calls)[0] == pytest.approx(density(-0.5) - density(1.0))


def test_a_scale_that_is_a_function_of_the_data_counts() -> None:
    mine, theirs = tapes(1.0, 1.0, scale=5.0)
    first = mine.calls[0].noisy
    expected = (norm.logpdf(first, [1, -1], 2.0) - norm.logpdf(first, [1, -1], 5.0)).sum()
    assert log_ratio(mine.calls, theirs.calls)[0] == pytest.approx(expected)
    assert separation(mine.calls, theirs.calls) == np.inf


def test_rows_are_trials_of_their_own() -> None:
    mine, theirs = Tape(), Tape()
    mine.record(3)
    mine.add_gaussian(np.ones((4, 2)), 1.0)
    theirs.play(mine.calls)
    theirs.add_gaussian(np.zeros((4, 2)), 1.0)
    noisy = mine.calls[0].noisy
    expected = (norm.logpdf(noisy, 1.0) - norm.logpdf(noisy, 0.0)).sum(axis=1)
    assert log_ratio(mine.calls, theirs.calls, 4) == pytest.approx(expected)
    assert separation(mine.calls, theirs.calls) == pytest.approx(4.0)


def test_another_number_of_releases_is_certain() -> None:
    mine, theirs = tapes(1.0, 1.0)
    assert log_ratio(mine.calls, theirs.calls[:1])[0] == np.inf
    theirs.play(mine.calls)
    theirs.add_gaussian(np.zeros(3), 2.0)
    assert log_ratio(mine.calls[:1], theirs.calls)[0] == np.inf
    assert separation(mine.calls[:1], theirs.calls) == np.inf


def test_a_tape_is_reproducible_and_hands_out_copies() -> None:
    one, two = Tape(), Tape()
    one.record(1)
    two.record(1)
    noisy = one.add_gaussian(np.zeros(3), 1.0)
    assert np.array_equal(noisy, two.add_gaussian(np.zeros(3), 1.0))
    noisy[:] = 99.0
    assert not (one.calls[0].noisy == 99.0).any()


def test_draws_that_are_no_addition_cannot_be_played_back() -> None:
    tape = Tape()
    for draw in (
        lambda: tape.coins(0.5, 1),
        lambda: tape.below(3, 1),
        lambda: tape.keys(1),
    ):
        with pytest.raises(NotAdditive, match="classifier"):
            draw()
