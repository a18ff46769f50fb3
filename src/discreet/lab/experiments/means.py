"""Means over trials with 95% intervals by Student's t, as frames.

They stand behind every ± of a table and every band and bar of a figure.
With m trials of mean x and standard deviation s (divisor m - 1) the interval is

    x ± t s / sqrt(m),        t the 97.5% quantile of Student's t with m - 1 degrees of freedom,

and the two-sided p-value of a mean of 0 is that of x sqrt(m) / s.

A trial gives a row for each metric: its `value` when all people were served and, where it was
traced, `along` (t,) how many people were served and `trace` (t,) its value by then. Means over
trials stand in two frames: `ends` has a row for each case and metric, when all people were served;
`curves` has a row for each case, metric and point on the way there.

| column                      | of     | meaning                                                  |
|-----------------------------|--------|----------------------------------------------------------|
| case                        | both   | number of the case; rows stand in its order              |
| panel                       | both   | of the figure; None: in all panels, "": in none          |
| label                       | both   | what the figure calls the case                           |
| method                      | both   | ours, published, non-private, uniform, ...               |
| epsilon, delta              | both   | asked for, or claimed; None for a reference              |
| true_epsilon                | ends   | held, at that delta; infinite for none                   |
| ...                         | ends   | what was varied (rounds, kernel, gamma, r, ...)          |
| metric                      | both   | what was measured                                        |
| role                        | ends   | main: the figure shows it; other: another way to count   |
|                             |        | it; beside: what else was measured                       |
| at                          | curves | people served, or questions asked, so far                |
| mean                        | both   | over trials                                              |
| standard_error              | ends   | of the mean; NaN for a single trial                      |
| half_width                  | both   | of the mean's 95% interval; 0 for a single trial         |
| trials                      | both   | how many                                                 |
| paper                       | ends   | the number that the paper prints; None for none          |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from discreet.validation import FloatArray

if TYPE_CHECKING:
    import pandas as pd

CONFIDENCE = 0.95
_ROUNDING = 1e-12  # an error of this share of the values is that of their arithmetic
MEANS = ("mean", "standard_error", "half_width", "trials")


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


def means(frame: pd.DataFrame, by: Sequence[str], value: str = "value") -> pd.DataFrame:
    """Means over trials with their standard errors and 95% intervals, a row for each group.

    Args:
        frame: tidy, with a row for each trial; groups come in the order of their first rows.
        by: the columns that make a group; None and NaN are values like others.
        value: the column that is averaged.
    """
    import pandas as pd

    rows = []
    for keys, values in frame.groupby(list(by), sort=False, dropna=False)[value]:
        mean, error = mean_and_error(values.to_numpy(dtype=float))
        half = half_width(error, len(values)) if len(values) > 1 else 0.0
        rows.append((*keys, mean, error, half, len(values)))
    return pd.DataFrame(rows, columns=[*by, *MEANS])


def mean_traces(frame: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Means of traces over trials and the half widths of their intervals, a row for each point.

    Args:
        frame: with columns `along` and `trace`; rows without them are left out.
        by: the columns that make a group, whose traces were taken at the same points.
    """
    import pandas as pd

    curves = []
    for keys, rows in frame.dropna(subset="trace").groupby(list(by), sort=False):
        mean, half = mean_and_band(np.stack(list(rows["trace"])))
        curve = {"at": rows["along"].iloc[0], "mean": mean, "half_width": half}
        curves.append(pd.DataFrame({**dict(zip(by, keys, strict=True)), **curve}))
        curves[-1]["trials"] = len(rows)
    return pd.concat(curves, ignore_index=True) if curves else pd.DataFrame()
