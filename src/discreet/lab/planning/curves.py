"""Gain against the number of people: interpolated, extrapolated, and with intervals.

| array | shape        | meaning                                                              |
|-------|--------------|----------------------------------------------------------------------|
| gain  | (r, h)       | of one line in each replicate, at each horizon                        |
| means | (1 + b, h)   | over replicates; row 0 the estimate, the others resampled             |
| grid  | (g,)         | numbers of people, from the smallest horizon to `REACH` times the      |
|       |              | largest                                                              |
| curve | (1 + b, g)   | gain at the grid, as an estimate and at best                          |

**Between horizons** a curve is the monotone cubic of Fritsch and Butland (SciPy's PCHIP) over the
logarithm of the number of people: straight lines would cut the bend where learning takes off.

**Beyond the largest horizon N** regret goes on growing as it did over the last doubling. With c the
most that a person could gain, S(n) = n (c - G(n)) is what n people missed together, and

    S(n) = S(N) (n / N)^p,        p = log(S(N) / S(N')) / log(N / N'), at most 1,

N' the horizon before N; with privacy p is never below that without. For a learner that learns, p
falls with n (to 1/2 where regret grows as sqrt(n), to 0 where it stops), so this curve promises too
little, and most of all where learning has just taken off. At best, people from N on miss no more
than without privacy, S(n) = S(N) + S_free(n) - S_free(N). The first curve is the estimate, and an
interval reaches from the one to the other, with what chance adds to each.

Where mean rewards are known c is that of the best choice for each person; otherwise it is where the
line without privacy ends if it misses something as sqrt(n) grows. Nothing is read beyond `REACH`
times N.

**Intervals** are of the bootstrap over replicates, all lines resampled together. A resample of r
replicates is too narrow by a factor, so deviations of resampled means from the mean are stretched
by sqrt(r / (r - 1)) t / z, t and z the 97.5% quantiles of Student's t with r - 1 degrees of freedom
and of the normal law (Hesterberg, What teachers should know about the bootstrap, 2015, has the same
correction on percentiles).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtri, stdtrit

from discreet.lab.experiments.means import CONFIDENCE
from discreet.validation import FloatArray

REACH = 4
"""How many times as many people as were simulated an answer may be about."""
RESAMPLES = 400
_POINTS = 160  # of the grid
_TAIL = 0.5 * (1.0 - CONFIDENCE)
_STEADY = 0.5  # the power with which people miss something in all, where nothing else is known


@dataclass(frozen=True, eq=False)
class Curve:
    """One line's gain at the grid; in row 0 of its arrays replicates are not resampled.

    Attributes:
        grid: (g,) numbers of people.
        gain: (1 + b, g) as regret goes on growing.
        best: (1 + b, g) the same up to the largest horizon, and beyond it as much as can be hoped
            for.
        power: (1 + b,) by which what is missed goes on growing.
    """

    grid: FloatArray
    gain: FloatArray
    best: FloatArray
    power: FloatArray

    def at(self, people: float) -> FloatArray:
        """(1 + b,) gain at a number of people within the grid."""
        return along(self.grid, self.gain, people)


def grid_of(horizons: FloatArray) -> FloatArray:
    """(g,) the numbers of people at which curves are kept; every horizon is one of them."""
    spread = np.geomspace(horizons[0], REACH * horizons[-1], _POINTS)
    grid: FloatArray = np.unique(np.concatenate([spread, horizons]))
    return grid


def resamples(replicates: int, seed: int) -> FloatArray:
    """(b, r) weights of replicates in each resample."""
    rng = np.random.default_rng([seed, replicates])
    drawn = rng.integers(replicates, size=(RESAMPLES, replicates))
    weights: FloatArray = (
        np.stack([(drawn == each).sum(axis=1) for each in range(replicates)], axis=1) / replicates
    )
    return weights


def stretch(replicates: int) -> float:
    """How much wider resampled means must lie for as many replicates; 0 for a single one."""
    if replicates < 2:
        return 0.0
    quantile = float(stdtrit(replicates - 1, 1.0 - _TAIL)) / float(ndtri(1.0 - _TAIL))
    return quantile * math.sqrt(replicates / (replicates - 1))


def resampled_means(gain: FloatArray, weights: FloatArray) -> FloatArray:
    """(1 + b, h) the mean over replicates, and stretched resampled means."""
    mean = gain.mean(axis=0)
    moved = mean + stretch(len(gain)) * (weights @ gain - mean)
    means: FloatArray = np.vstack([mean, moved])
    return means


def curve_of(
    means: FloatArray,
    horizons: FloatArray,
    ceiling: FloatArray | float,
    free: Curve | None = None,
) -> Curve:
    """A line's curve.

    Args:
        means: (1 + b, h) of `resampled_means`.
        horizons: (h,).
        ceiling: (1 + b,) or a number: the most that a person could gain.
        free: the curve without privacy; None for that curve itself.
    """
    grid = grid_of(horizons)
    inside = grid <= horizons[-1]
    power = power_of(means, horizons, ceiling)
    if free is not None:
        power = np.maximum(power, free.power)  # privacy makes no one learn faster
    most, last = _column(ceiling, len(means)), means[:, -1:]
    more = grid[~inside] / horizons[-1]
    # Who is above the ceiling by chance stays there.
    top, missed = np.maximum(most, last), np.maximum(most - last, 0.0)
    gain = best = top - missed * more ** (power[:, None] - 1.0)
    if free is not None:
        end = int(inside.sum()) - 1
        growth = more * (most - free.gain[:, ~inside]) - (most - free.gain[:, end : end + 1])
        best = np.maximum(gain, top - (missed + np.maximum(growth, 0.0)) / more)
    between = _between(means, horizons, grid[inside])
    return Curve(grid, np.hstack([between, gain]), np.hstack([between, best]), power)


def _between(means: FloatArray, horizons: FloatArray, people: FloatArray) -> FloatArray:
    """(1 + b, n) gains at numbers of people within the horizons."""
    if len(horizons) < 2:
        return np.repeat(means, len(people), axis=1)
    curve: FloatArray = PchipInterpolator(np.log(horizons), means, axis=1)(np.log(people))
    return curve


def power_of(means: FloatArray, horizons: FloatArray, ceiling: FloatArray | float) -> FloatArray:
    """(1 + b,) the power by which what all people missed grew over the last doubling, 0 to 1."""
    power = np.ones(len(means))
    if len(horizons) < 2:
        return power
    missed = np.maximum(_column(ceiling, len(means)) - means, 0.0) * horizons
    before, last = missed[:, -2], missed[:, -1]
    both = (before > 0.0) & (last > 0.0)
    steps = np.log(np.divide(last, before, out=np.ones_like(last), where=both))
    grown: FloatArray = np.clip(steps / math.log(horizons[-1] / horizons[-2]), 0.0, 1.0)
    return grown


def _column(values: FloatArray | float, rows: int) -> FloatArray:
    """(rows, 1) of a vector or a number."""
    return np.broadcast_to(np.asarray(values, dtype=np.float64), rows)[:, None]


def steady_ceiling(means: FloatArray, horizons: FloatArray) -> FloatArray:
    """(1 + b,) where a line ends that misses something as the square root of people grows.

    With G(n) = c - b n^(-1/2), c = G(N) + (G(N) - G(N')) / (sqrt(N / N') - 1).
    """
    if len(horizons) < 2:
        return means[:, -1]
    rise = np.maximum(means[:, -1] - means[:, -2], 0.0)
    ceiling: FloatArray = means[:, -1] + rise / ((horizons[-1] / horizons[-2]) ** _STEADY - 1.0)
    return ceiling


def along(places: FloatArray, rows: FloatArray, at: float) -> FloatArray:
    """(b,) each row (b, n) at a place between `places` (n,), straight over their logarithm."""
    spot = float(np.interp(math.log(at), np.log(places), np.arange(len(places))))
    low = min(int(spot), len(places) - 1)
    high = min(low + 1, len(places) - 1)
    value: FloatArray = rows[:, low] + (spot - low) * (rows[:, high] - rows[:, low])
    return value


def first_from(places: FloatArray, rows: FloatArray, target: float) -> FloatArray:
    """(b,) for each row (b, n) the place from which on it is at least `target` to the end.

    Infinity where the last value is not; the first place where all are. Between places it runs
    straight over their logarithm. NaN counts as below.
    """
    logs = np.log(places)
    above = rows >= target
    last_below = above.shape[1] - 1 - np.argmax(~above[:, ::-1], axis=1)
    crossed = np.empty(len(rows))
    for row in range(len(rows)):
        if above[row].all():
            crossed[row] = places[0]
        elif not above[row, -1]:
            crossed[row] = np.inf
        else:
            low = int(last_below[row])
            before, after = rows[row, low], rows[row, low + 1]
            share = (target - before) / (after - before) if np.isfinite(before) else 1.0
            crossed[row] = math.exp(logs[low] + share * (logs[low + 1] - logs[low]))
    return crossed


def interval(lower: FloatArray, upper: FloatArray | None = None) -> tuple[float, float]:
    """The middle 95% of resampled values, of which some may be infinite.

    Args:
        lower: of which the lower end is taken.
        upper: of which the upper end is taken, if these are others.
    """
    low = float(np.quantile(lower, _TAIL, method="lower"))
    high = float(np.quantile(lower if upper is None else upper, 1.0 - _TAIL, method="higher"))
    return low, high
