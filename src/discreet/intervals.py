"""Means over repetitions, and how far chance may have moved them: Student's t, 95%.

The one place where they are worked out, for every ± of a study and every band and bar of a figure.
With m repetitions of mean x and standard deviation s (divisor m - 1) the interval is

    x ± t s / sqrt(m),        t the 97.5% quantile of Student's t with m - 1 degrees of freedom,

and the two-sided p-value of a mean of 0 is that of x sqrt(m) / s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from discreet.validation import FloatArray

CONFIDENCE = 0.95
_ROUNDING = 1e-12  # an error of this share of the values is that of their arithmetic


def mean_and_error(values: ArrayLike) -> tuple[float, float]:
    """The mean of values (m,) and its standard error, NaN for a single one."""
    array = np.asarray(values, dtype=np.float64)
    count = len(array)
    if count == 1:
        return float(array[0]), math.nan
    error = float(array.std(ddof=1)) / math.sqrt(count)
    return float(array.mean()), error if error > _ROUNDING * float(abs(array).max()) else 0.0


def half_width(error: float, count: int) -> float:
    """Half the width of the interval around a mean of `count` values with a standard error.

    NaN for a single value, which has no error.
    """
    if count < 2:
        return math.nan
    return float(stdtrit(count - 1, 0.5 + 0.5 * CONFIDENCE)) * error


def mean_and_band(traces: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """The mean (T,) of traces (m, T) and the half width of the interval there, 0 for one trace."""
    array = np.asarray(traces, dtype=np.float64)
    count = len(array)
    half: FloatArray = np.zeros(array.shape[1:])
    if count > 1:
        half = half_width(1.0, count) * array.std(axis=0, ddof=1) / math.sqrt(count)
    return array.mean(axis=0), half


def p_value(mean: float, error: float, count: int) -> float:
    """Two-sided, of the hypothesis that the true mean is 0; NaN for a single value."""
    if count < 2:
        return math.nan
    if error == 0.0:
        return float(mean == 0.0)
    return 2.0 * float(stdtr(count - 1, -abs(mean) / error))


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for their number, NaN where there is none.

    Calling those below 0.05 more than chance errs anywhere with a probability of at most 0.05
    (S. Holm, A simple sequentially rejective multiple test procedure, 1979).
    """
    order = sorted(
        (place for place, p in enumerate(p_values) if not math.isnan(p)),
        key=lambda place: p_values[place],
    )
    adjusted = [math.nan] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted
