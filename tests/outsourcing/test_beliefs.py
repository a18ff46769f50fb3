"""What a modeler believes of a row: the moments of a normal distribution cut to an interval."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from discreet.outsourcing import beliefs as module
from discreet.outsourcing.beliefs import RowBeliefs
from discreet.validation import InvalidInput


def within(points: object, scale: float, lower: float, upper: float) -> tuple[float, float]:
    """Mean and variance of one number."""
    found = RowBeliefs.within([[points]], scale, [lower], [upper])
    return float(found.mean[0, 0]), float(found.variance[0, 0])


def by_quadrature(z: float, s: float, low: float, high: float) -> tuple[float, float]:
    """The same by numerical integration of the density over the interval, scaled by its peak."""
    peak = min(max(z, low), high)

    def density(x: float) -> float:
        return math.exp((peak - x) * (peak + x - 2.0 * z) / (2.0 * s * s))

    # Far outside, the mass lies within a few decay lengths of the nearer bound.
    reach = 60.0 * s * min(1.0, s / max(abs(peak - z), 1e-300))
    start, stop = max(low, peak - max(reach, 1e-300)), min(high, peak + max(reach, 1e-300))
    if low < z < high:
        start, stop = max(low, z - 12.0 * s), min(high, z + 12.0 * s)

    def moment(power: int, centre: float) -> float:
        whole, _ = integrate.quad(
            lambda x: density(x) * (x - centre) ** power, start, stop, epsabs=0.0, epsrel=1e-9
        )
        return whole

    mass = moment(0, 0.0)
    mean = peak + moment(1, peak) / mass
    return mean, moment(2, mean) / mass


INSIDE = [(0.3, 0.05), (0.3, 0.4), (0.9, 0.4), (0.0, 0.2), (1.0, 0.2), (0.5, 3.0), (0.5, 1e-3)]
OUTSIDE = [(-0.2, 0.3), (1.4, 0.2), (-2.0, 0.5), (4.0, 1.0), (-1.0, 0.1), (3.0, 0.1), (40.0, 2.0)]


@pytest.mark.filterwarnings("ignore:The occurrence of roundoff")
@pytest.mark.parametrize(("z", "s"), INSIDE + OUTSIDE)
def test_moments_are_those_of_a_truncated_normal(z: float, s: float) -> None:
    mean, variance = within(z, s, 0.0, 1.0)
    law = stats.truncnorm((0.0 - z) / s, (1.0 - z) / s, loc=z, scale=s)
    assert mean == pytest.approx(law.mean(), rel=1e-7)
    assert variance == pytest.approx(law.var(), rel=1e-5)
    integral = by_quadrature(z, s, 0.0, 1.0)
    assert mean == pytest.approx(integral[0], rel=1e-8)
    assert variance == pytest.approx(integral[1], rel=1e-6)


@pytest.mark.parametrize("away", [5.0, 10.0, 40.0, 100.0])
@pytest.mark.parametrize("above", [False, True])
def test_far_outside_the_box(away: float, above: bool) -> None:
    """Where the normal density itself is zero in floating point: 40 deviations and more."""
    border, z = (1.0, 1.0 + away * 0.5) if above else (0.0, -away * 0.5)
    mean, variance = within(z, 0.5, 0.0, 1.0)
    expected = by_quadrature(z, 0.5, 0.0, 1.0)
    assert abs(mean - border) == pytest.approx(abs(expected[0] - border), rel=1e-6)
    # The variance is a small difference of large numbers there; it must not be overstated wildly.
    assert variance == pytest.approx(expected[1], rel=max(1e-6, 1e-12 * away**4))


@pytest.mark.parametrize("away", [1e3, 1e5, 1e8])
def test_absurdly_far_outside_everything_stays_finite_and_in_the_box(away: float) -> None:
    with np.errstate(all="raise", under="ignore"):
        for z in (-away, 1.0 + away):
            mean, variance = within(z, 1.0, 0.0, 1.0)
            assert 0.0 <= mean <= 1.0
            if away <= 1e3:
                assert min(abs(mean), abs(mean - 1.0)) == pytest.approx(1.0 / away, rel=1e-3)
            assert 0.0 <= variance <= 1.0 / 12.0


def test_the_two_tails_mirror_each_other() -> None:
    z = np.linspace(-3.0, 4.0, 57)[:, None]
    left = RowBeliefs.within(z, 0.4, [0.0], [1.0])
    right = RowBeliefs.within(1.0 - z, 0.4, [0.0], [1.0])
    np.testing.assert_allclose(left.mean, 1.0 - right.mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(left.variance, right.variance, rtol=1e-8)


def test_every_column_has_its_own_interval() -> None:
    points = np.array([[0.5, 9.0], [-1.0, 4.0]])
    found = RowBeliefs.within(points, 0.7, [0.0, 3.0], [1.0, 10.0])
    for i in range(2):
        for k, (low, high) in enumerate([(0.0, 1.0), (3.0, 10.0)]):
            alone = within(points[i, k], 0.7, low, high)
            assert (found.mean[i, k], found.variance[i, k]) == alone


def test_rows_are_worked_on_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.random.default_rng(0).normal(0.5, 1.0, (23, 3))
    whole = RowBeliefs.within(points, 0.3, np.zeros(3), np.ones(3))
    monkeypatch.setattr(module, "_AT_ONCE", 5)
    parts = RowBeliefs.within(points, 0.3, np.zeros(3), np.ones(3))
    np.testing.assert_array_equal(parts.mean, whole.mean)
    np.testing.assert_array_equal(parts.variance, whole.variance)


def test_posterior_of_simulated_rows_is_right_on_average() -> None:
    """Rows uniform in the box: where many of them have the same Z, their mean is what is said."""
    rng = np.random.default_rng(3)
    rows = rng.random(400_000)
    noisy = rows + rng.normal(0.0, 0.3, rows.size)
    for centre in (-0.4, 0.1, 0.5, 1.2):
        near = np.abs(noisy - centre) < 0.01
        mean, variance = within(centre, 0.3, 0.0, 1.0)
        error = math.sqrt(variance / near.sum())
        assert abs(rows[near].mean() - mean) < 5.0 * error + 0.005
        assert rows[near].var() == pytest.approx(variance, rel=0.15)


@pytest.mark.parametrize(
    ("point", "scale", "mean", "variance"),
    [
        # Half a normal distribution.
        (0.0, 0.1, 0.1 * math.sqrt(2.0 / math.pi), 0.01 * (1.0 - 2.0 / math.pi)),
        # Noise much wider than the box: flat, with a slight slope. Hardly any noise: the point.
        (0.3, 1e5, 0.5, 1.0 / 12.0),
        (0.3, 50.0, 0.4999933334, 0.0833322222),
        (0.2, 1e-6, 0.2, 1e-12),
        # Far outside: an exponential that falls off from the border, by 50-digit integration.
        (29.0, 1.0, 0.9643762465, 0.0012658511),
        (31.0, 1.0, 0.9667403326, 0.0011037715),
        (-31.0, 1.0, 0.0321912768, 0.0010341416),
        (1e4, 1.0, 0.99989999, 1.0002e-8),
        (1e12, 1.0, 1.0, 1e-24),
        (5.0, 0.01, 0.999975, 6.2498e-10),
    ],
)
def test_extremes_keep_their_digits(
    point: float, scale: float, mean: float, variance: float
) -> None:
    assert within(point, scale, 0.0, 1.0) == (
        pytest.approx(mean, rel=2.5e-3),
        pytest.approx(variance, rel=1e-2),
    )


def test_exact_and_noisy_rows() -> None:
    points = np.array([[1.0, 2.0], [3.0, 4.0]])
    exact, noisy = RowBeliefs.exact(points), RowBeliefs.noisy(points, 0.5)
    assert (exact.count, exact.columns) == (2, 2)
    np.testing.assert_array_equal(exact.variance, [[0.0, 0.0]])
    np.testing.assert_array_equal(noisy.variance, [[0.25, 0.25]])
    np.testing.assert_array_equal(noisy.mean, points)
    with pytest.raises(ValueError, match="read-only"):
        exact.mean[0, 0] = 5.0
    points[0, 0] = 9.0  # the caller's array stays theirs to write
    # Without noise rows are known, and moved into the box.
    inside = RowBeliefs.within([[-1.0, 0.5]], 0.0, [0.0, 0.0], [1.0, 1.0])
    np.testing.assert_array_equal((inside.mean, inside.variance), [[[0.0, 0.5]], [[0.0, 0.0]]])


@pytest.mark.parametrize(
    ("points", "scale", "message"),
    [
        ([[math.nan]], 1.0, "NaN"),
        ([[math.inf]], 1.0, "NaN"),
        ([1.0, 2.0], 1.0, "shape"),
        (np.empty((0, 2)), 1.0, "empty"),
        ([["a"]], 1.0, "could not be read as numbers"),
        ([[1.0]], -1.0, "at least 0"),
        ([[1.0]], math.nan, "scale of the noise"),
        ([[1.0]], "1", "scale of the noise"),
        ([[1.0]], True, "scale of the noise"),
    ],
)
def test_bad_rows_and_scales(points: Any, scale: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        RowBeliefs.noisy(points, scale)
    with pytest.raises(InvalidInput, match=message):
        RowBeliefs.within(points, scale, 0.0, 1.0)


@pytest.mark.parametrize(
    ("lower", "upper"), [(1.0, 1.0), (2.0, 1.0), (math.nan, 1.0), (0.0, math.inf)]
)
def test_bad_intervals(lower: float, upper: float) -> None:
    with pytest.raises(InvalidInput, match="bounds of the rows"):
        RowBeliefs.within([[0.5]], 1.0, [lower], [upper])


@pytest.mark.parametrize(
    ("mean", "variance", "message"),
    [
        (np.zeros((2, 1)), np.zeros((3, 1)), "rows had shape"),
        (np.zeros((2, 1)), np.zeros((2, 2)), "variance had shape"),
        (np.zeros((2, 1)), np.zeros(1), "variance had shape"),
        (np.zeros((2, 1)), np.full((2, 1), -1e-300), "variance had -1e-300"),
        (np.zeros((2, 1)), np.full((1, 1), math.nan), "variance had nan"),
        (np.zeros((0, 1)), np.zeros((1, 1)), "rows had shape"),
        (np.zeros(3), np.zeros((1, 1)), "mean had shape"),
        (np.full((1, 1), math.nan), np.zeros((1, 1)), "mean had nan"),
    ],
)
def test_bad_beliefs(mean: np.ndarray, variance: np.ndarray, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        RowBeliefs(mean, variance)
