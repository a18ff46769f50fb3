"""The one place for the size of noise: multipliers, the cut to the unit ball, and scales."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from discreet import codec
from discreet.privacy import Joint, Local, NonPrivate, Outsourced, SecureNoise, SimulatedNoise
from discreet.privacy.accounting import composed_epsilon, gaussian_epsilon
from discreet.privacy.calibration import (
    AdditiveNoise,
    gaussian_noise_multiplier,
    in_unit_ball,
    least_scale,
    padded_multiplier,
    polar,
)
from discreet.validation import FloatArray, InvalidInput

WILD = np.array(
    [[3.0, 4.0], [1e200, 0.0], [1e300, 1e300], [np.inf, 1.0], [np.nan, 0.0], [0.3, 0.4]]
)


def by_polar(rows: FloatArray) -> FloatArray:
    directions, lengths = polar(rows, rows.shape[1])
    return lengths[:, None] * directions


class TestUnitBall:
    def test_longer_rows_are_shortened_and_what_is_not_finite_is_0(self) -> None:
        with np.errstate(all="raise"):
            inside = in_unit_ball(WILD)
        assert inside[0].tolist() == pytest.approx([0.6, 0.8])
        assert (np.linalg.norm(inside, axis=1) <= 1.0 + 1e-15).all()
        assert (inside[3:5] == 0.0).all()
        assert (inside[5] == WILD[5]).all()

    def test_rows_inside_stay_as_they_are(self) -> None:
        rows = np.random.default_rng(0).normal(size=(50, 4))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True) * 1.0001
        assert np.array_equal(in_unit_ball(rows), rows)

    @pytest.mark.parametrize("cut", [in_unit_ball, by_polar])
    def test_two_rows_lie_at_most_2_apart(self, cut: Callable[[FloatArray], FloatArray]) -> None:
        angles = np.linspace(0.0, 2.0 * math.pi, 41)
        circle = np.column_stack([np.cos(angles), np.sin(angles)])
        rows = cut(np.vstack([WILD, *(circle * r for r in (0.0, 0.5, 1.0, 1e10, 1e300))]))
        apart = np.linalg.norm(rows[:, None] - rows[None], axis=2)
        assert 2.0 - 1e-9 <= apart.max() <= 2.0 + 1e-14


class TestMultiplier:
    @pytest.mark.parametrize("make", [Local, Joint, Outsourced])
    def test_a_budget_knows_its_own(self, make: type[Joint]) -> None:
        assert make(0.7, 1e-6).noise_multiplier == gaussian_noise_multiplier(0.7, 1e-6)

    def test_none_without_a_promise_and_none_that_is_pure(self) -> None:
        assert NonPrivate().noise_multiplier == 0.0
        with pytest.raises(InvalidInput, match="delta was"):
            _ = Local(1.0).noise_multiplier

    @pytest.mark.parametrize("size", [1, 10, 100_000])
    def test_padding_pays_for_the_grid(self, size: int) -> None:
        pytest.importorskip("opendp")
        padded = padded_multiplier(3.0, size)
        assert 3.0 <= SecureNoise().gaussian_multiplier(1.0, padded, size) < 3.0 * (1 + 1e-5)


class TestLeastScale:
    @pytest.mark.parametrize(
        ("multiplier", "sensitivity"), [*product([0.01, 3.0, 1e4], [0.1, 7.0])]
    )
    def test_it_is_held_and_hardly_more(self, multiplier: float, sensitivity: float) -> None:
        def achieved(scale: float) -> float:
            return scale / (sensitivity + 1e-7 * min(scale, 1.0))

        scale = least_scale(multiplier, sensitivity * multiplier, achieved)
        assert multiplier <= achieved(scale) <= multiplier * (1.0 + 1e-12)

    @pytest.mark.parametrize("held", [0.0, 0.5])
    def test_what_cannot_be_kept(self, held: float) -> None:
        with pytest.raises(InvalidInput, match="no scale of noise"):
            least_scale(1.0, 1.0, lambda scale: held)


class TestAdditiveNoise:
    @pytest.mark.parametrize(("epsilon", "size"), [*product([0.1, 1.0, 8.0], [1, 1000])])
    def test_what_was_asked_for_is_held(self, epsilon: float, size: int) -> None:
        pytest.importorskip("opendp")
        multiplier = gaussian_noise_multiplier(epsilon, 1e-5)
        gaussian = AdditiveNoise.gaussian_for(multiplier, 1.0, size)
        laplace = AdditiveNoise.laplace_for(epsilon, 1.0, size)
        for source in (SimulatedNoise.name, SecureNoise.name):
            assert 0.99 * epsilon < composed_epsilon([laplace.event(source, size)], 0.0) <= epsilon
            held = composed_epsilon([gaussian.event(source, size)], 1e-5)
            assert 0.99 * epsilon < held <= epsilon * (1.0 + 1e-9)

    def test_scale_and_variance_follow_the_sensitivity(self) -> None:
        gaussian = AdditiveNoise.gaussian_for(3.0, 2.0, 1)
        assert gaussian.scale == pytest.approx(6.0)
        assert gaussian.variance == gaussian.scale**2
        assert gaussian_epsilon(gaussian.scale / 2.0, 0.1) <= gaussian_epsilon(3.0, 0.1)
        laplace = AdditiveNoise.laplace_for(0.5, 2.0, 1)
        assert laplace.scale == pytest.approx(4.0)
        assert laplace.variance == 2.0 * laplace.scale**2

    @pytest.mark.parametrize("noise", [AdditiveNoise(2.0, 1.0), AdditiveNoise(2.0, 1.0, True)])
    def test_it_is_what_is_drawn(self, noise: AdditiveNoise) -> None:
        drawn = noise.add(np.full(200_000, 5.0), SimulatedNoise(3))
        assert drawn.mean() == pytest.approx(5.0, abs=0.05)
        assert drawn.var() == pytest.approx(noise.variance, rel=0.03)

    def test_a_policy_may_not_claim_less_sensitivity(self) -> None:
        AdditiveNoise(2.0, 1.0).check(1.0)
        with pytest.raises(InvalidInput, match="claims sensitivity"):
            AdditiveNoise(2.0, 1.0).check(1.1)

    @pytest.mark.parametrize("noise", [AdditiveNoise(2.0, 1.0), AdditiveNoise(2.0, 1.0, True)])
    def test_fields(self, noise: AdditiveNoise) -> None:
        fields = codec.to_json(noise)
        assert codec.from_json(fields, AdditiveNoise) == noise
        for wrong in ({"scale": 0.0}, {"sensitivity": -1.0}, {"laplace": 1}):
            with pytest.raises(InvalidInput):
                codec.from_json({**fields, **wrong}, AdditiveNoise)
