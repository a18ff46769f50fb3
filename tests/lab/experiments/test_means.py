"""Means, intervals and p-values against SciPy's reference implementations and hand calculation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from discreet.lab.experiments.means import half_width, holm, mean_and_band, mean_and_error, p_value

VALUES = [1.0, 2.0, 6.0]


def test_the_standard_error_of_a_mean() -> None:
    # Deviations -2, -1, 3: variance 7.
    assert mean_and_error(VALUES) == (3.0, pytest.approx(math.sqrt(7.0 / 3.0)))


def test_one_value_has_no_error_and_no_interval() -> None:
    mean, error = mean_and_error([4.0])
    assert mean == 4.0
    assert math.isnan(error)
    assert math.isnan(half_width(error, 1))
    assert math.isnan(p_value(mean, error, 1))


def test_what_only_rounding_tells_apart_has_no_error() -> None:
    assert mean_and_error([0.1 + 0.2, 0.3, 0.3])[1] == 0.0


def test_the_interval_is_that_of_students_t() -> None:
    mean, error = mean_and_error(VALUES)
    low, high = stats.t.interval(0.95, 2, loc=mean, scale=error)
    assert (mean - half_width(error, 3), mean + half_width(error, 3)) == pytest.approx((low, high))
    band = mean_and_band(np.array([VALUES, VALUES]).T)
    np.testing.assert_allclose(band, [[3.0, 3.0], [high - 3.0] * 2])
    np.testing.assert_array_equal(mean_and_band([[1.0, 2.0]]), [[1.0, 2.0], [0.0, 0.0]])


def test_the_p_value_is_that_of_students_t() -> None:
    mean, error = mean_and_error(VALUES)
    assert p_value(mean, error, 3) == pytest.approx(stats.ttest_1samp(VALUES, 0.0).pvalue)
    assert (p_value(1.0, 0.0, 3), p_value(0.0, 0.0, 3)) == (0.0, 1.0)


def test_holm_by_hand() -> None:
    # Smallest times 3, next times 2 (no less than before), largest as it is (no less than before).
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    adjusted = holm([math.nan, 0.04])
    assert math.isnan(adjusted[0])
    assert adjusted[1] == 0.04
    assert holm([]) == []
