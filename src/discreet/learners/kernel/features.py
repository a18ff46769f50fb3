"""Cosine features and the spectrum of the prior over them.

Every arm's function is 2 f_k - 1 = phi(x)' theta_k with phi(x) a product over axes of

    c_0(x_a) = 1,    c_i(x_a) = sqrt(2) cos(pi i x_a),

an orthonormal basis under uniform contexts. Coordinates of theta are independent a priori, with
variance 0.2 on the constant plus 0.3 times the product over axes of the normalised Matern-3/2
spectrum (3 / l_a^2 + (pi i)^2)^-2 for the length scales l, all times a scale.

A column with L levels is mapped to the centres (j + 1/2) / L of L cells, where the first L cosines
are orthonormal too.

*Exact evaluation.* Cosines are polynomials, computed by +, - and * of doubles in a stated order.
Features are multiples of 2^-16 and coefficients whole numbers, in units of 2^-20, both so small
that every sum of products of them is exact in double precision, in whatever order it is added. So
a device that evaluates one context, in any language, and a site that evaluates thousands find the
same arms and signs, bit for bit.

| array       | shape  | meaning                                                     |
|-------------|--------|-------------------------------------------------------------|
| frequencies | (M, d) | i_a of each feature; the first feature is the constant      |
| phi(x)      | (n, M) | features of n contexts                                      |

*Points.* A low-discrepancy set, shifted anew for each policy: the additive recurrence with powers
of the generalised golden ratio (Roberts 2018) fills [0, 1]^d evenly for up to six columns, Sobol's
sequence (1967) for more, and a random shift modulo 1
makes averages over it unbiased (Cranley and Patterson 1976). Columns with levels keep the shifted
value; features and cells look only at the level it falls into. Indicators and their numbers agree
(`with_implied`).

"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.validation import FloatArray, IntArray, InvalidInput

Coefficients = NDArray[np.int32]
# With more columns there are too many pairs of them.
MOST_COLUMNS = 32
CONSTANT_VARIANCE, VARYING_VARIANCE = 0.2, 0.3
# Length scales of a column; one with the longest does not matter.
LENGTH_SCALES = (0.2, 0.4, 0.8, 3.2)
FLAT = LENGTH_SCALES[-1]
# How many columns are thought to matter, and the largest probability of each that it does.
_COLUMNS_THAT_MATTER, _MOST_SURE = 2.0, 0.9
# Functions of one or two columns may vary faster: there features reach so far. So may those of many
# arms, each best somewhere, which leave little room to each.
_FASTER = {1: (0.025, 0.05, 0.1), 2: (0.1,)}
_FEW_ARMS, _FASTER_OF_MANY_ARMS = 10, (0.1,)
# Cosines per axis, by the shortest length scale.
_PER_AXIS = {0.2: 12, 0.1: 18, 0.025: 48}
# Features with a smaller share of the prior variance are left out (more under strong noise).
LEFT_OUT = 1e-4
# At most this many features per arm, with more columns more, and numbers in all of theta.
_MOST_FEATURES, _MOST_COEFFICIENTS, _FEWEST = 250, 1200, 30
_USUAL_COLUMNS, _FEATURES_PER_COLUMN = 6, 10
# Grids (see the module): |phi| <= root(2)^(columns along which it varies), which adds up to less
# than 2^14 over all features, and |coefficient| < 2^3 leave 53 - 14 - 3 = 36 bits behind the point.
_FEATURE_GRID, _COEFFICIENT_GRID = 2.0**-16, 2.0**-20
_LARGEST = 7.5
LARGEST_COEFFICIENT = int(_LARGEST / _COEFFICIENT_GRID)
# (-1)^k pi^(2k) / (2k)!: the cosine of pi t, 0 <= t <= 1/2, to 5e-16. Libraries differ.
_COS_PI = (
    1.0,
    -4.934802200544679,
    4.0587121264167685,
    -1.3352627688545895,
    0.2353306303588932,
    -0.02580689139001406,
    0.0019295743094039231,
    -0.0001046381049248457,
    4.303069587032947e-06,
    -1.3878952462213771e-07,
    3.604730797462501e-09,
    -7.700707130601354e-11,
)


@dataclass(frozen=True)
class CosineFeatures:
    """Features for contexts in [0, 1]^d (see the module).

    Attributes:
        frequencies: M rows of d whole numbers.
        levels: the number of levels of each column, None for continuous ones.
        length_scales: those that a column may have, increasing.
    """

    frequencies: tuple[tuple[int, ...], ...]
    levels: tuple[int | None, ...]
    length_scales: tuple[float, ...]

    @classmethod
    def of(cls, levels: Sequence[int | None], arms: int, varies: bool = True) -> CosineFeatures:
        """The features for columns with these levels and K arms, or the constant alone.

        Raises:
            InvalidInput: for too many columns.
        """
        if not varies:
            return cls(((0,) * len(levels),), tuple(levels), (FLAT,))
        if len(levels) > MOST_COLUMNS:
            raise InvalidInput(
                f"contexts had {len(levels)} columns; there are features of at most {MOST_COLUMNS}."
            )
        return _features(tuple(levels), arms)

    def __len__(self) -> int:
        return len(self.frequencies)

    @property
    def dimension(self) -> int:
        return len(self.levels)

    def bins(self, implied: Implied = (), arms: int = 1) -> DensityBins:
        """The bins in which people are counted; one where functions are constant."""
        return DensityBins(*((self.levels, implied) if len(self) > 1 else ((), ())), arms)

    @cached_property
    def index(self) -> IntArray:
        """(M, d) the frequencies."""
        return np.array(self.frequencies, dtype=np.int64)

    @cached_property
    def _places(self) -> dict[tuple[int, ...], int]:
        return {row: place for place, row in enumerate(self.frequencies)}

    def places(self, frequencies: IntArray) -> IntArray:
        """(m,) which features have these frequencies (m, d); -1 for none."""
        rows = map(tuple, frequencies.tolist())
        places = np.array([self._places.get(row, -1) for row in rows], dtype=np.int64)
        places.setflags(write=False)
        return places

    @cached_property
    def _most(self) -> int:
        """The largest frequency."""
        return int(self.index.max())

    @cached_property
    def _factors(self) -> IntArray:
        """(M, f) the rows of `_cosines`, as d (most + 1) of them, whose product a feature is: those
        of the axes along which it varies, in their order, and then row 0, which holds ones."""
        rows = self.index + (self._most + 1) * np.arange(self.dimension)
        varying = self.index > 0
        factors = np.zeros((len(self), max(int(varying.sum(axis=1).max()), 1)), dtype=np.int64)
        feature, axis = np.nonzero(varying)
        place = (np.cumsum(varying, axis=1) - 1)[feature, axis]
        factors[feature, place] = rows[feature, axis]
        return factors

    def __call__(self, unit: FloatArray, used: IntArray | None = None) -> FloatArray:
        """(n, M) features of contexts (n, d) in [0, 1]^d, or of those `used` only."""
        factors = self._factors if used is None else self._factors[used]
        places = np.stack([self.place(x, axis) for axis, x in enumerate(unit.T)])
        cosines = _cosines(places, self._most).reshape(-1, len(unit))
        # A row for each feature, so that all factors are read and written in one piece.
        product = cosines[factors[:, 0]]
        for column in range(1, factors.shape[1]):
            more = np.flatnonzero(factors[:, column])
            product[more] *= cosines[factors[more, column]]
        product *= 1.0 / _FEATURE_GRID  # a power of two
        np.rint(product, out=product)
        product *= _FEATURE_GRID
        return np.ascontiguousarray(product.T)

    def place(self, column: FloatArray, axis: int) -> FloatArray:
        """Where values of a column lie: unchanged, or at the centre of the cell of their level."""
        count = self.levels[axis]
        if count is None:
            return column
        return (np.round(column * (count - 1)) + 0.5) / count

    def placed(self, unit: FloatArray) -> FloatArray:
        """(n, d) contexts as cells and bins look them up."""
        return np.stack([self.place(x, axis) for axis, x in enumerate(unit.T)], axis=1)

    def variances(self, length_scales: Sequence[float], scale: float) -> FloatArray:
        """(M,) prior variances for length scales l (d,) and a scale."""
        return scale * _spectrum(self, tuple(length_scales))


def column_matters(dimension: int) -> float:
    """The prior probability of each of d columns that it matters."""
    return min(_MOST_SURE, _COLUMNS_THAT_MATTER / max(dimension, 1))


def commonness(length_scale: float) -> float:
    """The prior probability of a length scale, relative to a usual one: shorter ones are rarer in
    proportion."""
    return min(length_scale / LENGTH_SCALES[0], 1.0)


def whole_coefficients(values: FloatArray) -> Coefficients:
    """Coefficients as policies hold them (see the module), the largest cut."""
    inside = np.clip(values, -_LARGEST, _LARGEST)
    return np.round(inside / _COEFFICIENT_GRID).astype(np.int32)


def decoded(values: FloatArray) -> FloatArray:
    """Exact sums of features times such coefficients, as numbers."""
    return values * _COEFFICIENT_GRID


def cos_pi(x: FloatArray) -> FloatArray:
    """cos(pi x) for x in [0, 1], by Horner's scheme in the square of the distance from the nearest
    end."""
    nearest = np.minimum(x, 1.0 - x)
    square = nearest * nearest
    value = np.full_like(x, _COS_PI[-1])
    for coefficient in _COS_PI[-2::-1]:
        value *= square
        value += coefficient
    return np.where(x <= 0.5, value, -value)


def _cosines(x: FloatArray, most: int) -> FloatArray:
    """(d, most + 1, n) of c_0 .. c_most at x (d, n), by the recurrence of Chebyshev."""
    cosines = np.ones((len(x), most + 1, x.shape[1]))
    if most:
        cosines[:, 1] = first = cos_pi(x)
        twice = 2.0 * first
        for i in range(2, most + 1):
            np.multiply(twice, cosines[:, i - 1], out=cosines[:, i])
            cosines[:, i] -= cosines[:, i - 2]
        cosines[:, 1:] *= np.sqrt(2.0)
    return cosines


@lru_cache(maxsize=4096)
def _spectrum(features: CosineFeatures, length_scales: tuple[float, ...]) -> FloatArray:
    """(M,) prior variances for scale 1."""
    variance = np.full(len(features), VARYING_VARIANCE)
    for axis, length_scale in enumerate(length_scales):
        weights = _axis_spectrum(length_scale, features.levels[axis], features.length_scales)
        variance = variance * weights[features.index[:, axis]]
    variance[0] += CONSTANT_VARIANCE
    variance.flags.writeable = False
    return variance


def _axis_spectrum(
    length_scale: float, levels: int | None, length_scales: tuple[float, ...]
) -> FloatArray:
    """The normalised Matern-3/2 spectrum of one axis, that may have these length scales."""
    most = _PER_AXIS[length_scales[0]]
    count = most if levels is None else min(levels, most)
    weights = (3.0 / length_scale**2 + (np.pi * np.arange(count)) ** 2) ** -2.0
    normal: FloatArray = weights / weights.sum()
    return normal


def _mean_axis_spectrum(
    levels: int | None, dimension: int, length_scales: tuple[float, ...]
) -> FloatArray:
    """The mean spectrum of one of d axes: it may not matter."""
    matters = column_matters(dimension)
    spectra = [_axis_spectrum(value, levels, length_scales) for value in length_scales]
    chances = [commonness(value) for value in length_scales[:-1]]
    varying = np.average(spectra[:-1], axis=0, weights=chances)
    return matters * varying + (1.0 - matters) * spectra[-1]


@lru_cache(maxsize=64)
def _features(levels: tuple[int | None, ...], arms: int) -> CosineFeatures:
    """Those with the largest prior variance, found best first: a feature has no more than the one
    with a frequency less, so it is looked at when that one is kept."""
    more = _FEATURES_PER_COLUMN * max(len(levels) - _USUAL_COLUMNS, 0)
    most = min(_MOST_FEATURES + more, max(_MOST_COEFFICIENTS // arms, _FEWEST))
    faster = _FASTER.get(len(levels), _FASTER_OF_MANY_ARMS if arms > _FEW_ARMS else ())
    scales = (*faster, *LENGTH_SCALES)
    spectra = [_mean_axis_spectrum(levels_of, len(levels), scales) for levels_of in levels]
    relative = [[float(weight / weights[0]) for weight in weights] for weights in spectra]
    finest = [_axis_spectrum(scales[0], levels_of, scales) for levels_of in levels]
    least = LEFT_OUT * (CONSTANT_VARIANCE + VARYING_VARIANCE) / VARYING_VARIANCE

    def counts(row: tuple[int, ...]) -> bool:
        """Whether it is ever used: where functions vary as fast as they may along its columns."""
        return math.prod(float(finest[axis][i]) for axis, i in enumerate(row) if i) >= least

    def ranked(row: tuple[int, ...]) -> tuple[float, tuple[int, ...]]:
        # In order of size, so that rows which differ by the order of axes tie on every machine.
        return -math.prod(sorted(relative[axis][i] for axis, i in enumerate(row) if i)), row

    waiting = [ranked((0,) * len(levels))]
    kept: list[tuple[int, ...]] = []
    while waiting and len(kept) < most:
        _, row = heapq.heappop(waiting)
        kept.append(row)
        last = max((axis for axis, i in enumerate(row) if i), default=0)
        for axis in range(last, len(row)):  # so that each row is reached in one way only
            higher = (*row[:axis], row[axis] + 1, *row[axis + 1 :])
            if higher[axis] < len(relative[axis]) and counts(higher):
                heapq.heappush(waiting, ranked(higher))
    return CosineFeatures(tuple(kept), levels, scales)


# For each indicator its column, the column of its number, and the value of that number when the
# indicator is yes, as cells and bins look it up (`Ranks.implied`).
Implied = tuple[tuple[int, int, float], ...]
# Points in one, two, three, ... dimensions, and the binary logarithm of their number in more.
_POINTS = (512, 576, 1000, 1400, 1800, 2200)
_POWER_OF_POINTS = 12


@lru_cache(maxsize=8)
def integration_points(seed: int, version: int, levels: tuple[int | None, ...]) -> FloatArray:
    """(Q, d) points in [0, 1)^d that depend on the public seed and the policy's version."""
    dimension = len(levels)
    even = _recurrent_points(dimension) if dimension <= len(_POINTS) else sobol_points(dimension)
    shift = np.random.default_rng([seed, version, 1]).random(dimension)
    points: FloatArray = (even + shift) % 1.0
    points.flags.writeable = False
    return points


def with_implied(points: FloatArray, implied: Implied) -> FloatArray:
    """Points (Q, d) in [0, 1]^d on which indicators and numbers agree. At half of the points one
    indicator of a number is yes, each equally often, and the number has its value."""
    points = points.copy()
    for number, places in by_number(implied).items():
        first = points[:, places[0][0]]
        which = np.floor((2.0 * first - 1.0) * len(places)).astype(np.int64)
        for k, (column, place) in enumerate(places):
            yes = which == k
            points[:, column] = np.where(yes, 0.75, 0.25)
            points[yes, number] = place
    return points


def by_number(implied: Implied) -> dict[int, list[tuple[int, float]]]:
    """For each number the columns of its indicators, and the values that they imply."""
    found: dict[int, list[tuple[int, float]]] = {}
    for column, number, place in implied:
        found.setdefault(number, []).append((column, place))
    return found


@lru_cache(maxsize=8)
def _recurrent_points(dimension: int) -> FloatArray:
    """The additive recurrence."""
    ratio = 2.0
    for _ in range(60):  # the root of r^(d+1) = r + 1
        ratio = (1.0 + ratio) ** (1.0 / (dimension + 1))
    steps = ratio ** -np.arange(1.0, dimension + 1.0)
    return np.arange(_POINTS[dimension - 1])[:, None] * steps[None]


@lru_cache(maxsize=8)
def sobol_points(dimension: int) -> FloatArray:
    """Even in each pair of columns, where the steps of the recurrence are too much alike."""
    from scipy.stats.qmc import Sobol  # only where there are many columns: it loads slowly

    points: FloatArray = Sobol(dimension, scramble=False, seed=0).random_base2(_POWER_OF_POINTS)
    return points


def on_levels(points: FloatArray, levels: tuple[int | None, ...]) -> FloatArray:
    """Contexts (Q, d) as people have them: columns with L levels take j / (L - 1) only."""
    placed = points.copy()
    for axis, count in enumerate(levels):
        if count is not None:
            level = np.minimum((points[:, axis] * count).astype(np.int64), count - 1)
            placed[:, axis] = level / (count - 1)
    return placed


# Bins per axis in one, two, three, ... dimensions. Nothing is learnt of where people are in more:
# reports of cells would have to tell more bins apart than there are people.
_BINS = (24, 24, 10, 6, 4, 3, 1)


@dataclass(frozen=True)
class DensityBins:
    """The bins of a domain with these levels, and of contexts with arms for `arms` arms."""

    MOST_COLUMNS: ClassVar[int] = len(_BINS) - 1

    levels: tuple[int | None, ...]
    implied: Implied = ()
    arms: int = 1

    @cached_property
    def shape(self) -> tuple[int, ...]:
        usual = _BINS[min(len(self.levels), len(_BINS)) - 1]
        shape = tuple(usual if count is None else min(count, usual) for count in self.levels)
        return (*(shape or (1,)), self.arms) if self.arms > 1 else shape or (1,)

    @cached_property
    def volume(self) -> FloatArray:
        """(Z,) the share of points in each bin, relative to the mean (`with_implied`): 1 without
        indicators."""
        volume = np.ones(self.shape)
        for number, places in by_number(self.implied).items():
            axes = [number, *(column for column, _ in places)]
            count, *levels = (self.shape[axis] for axis in axes)
            share = np.zeros((count, math.prod(levels)))
            share[:, 0] = 0.5 / count
            for k, (_, place) in enumerate(places):
                alone = (levels[k] - 1) * math.prod(levels[k + 1 :])
                share[min(int(place * count), count - 1), alone] += 0.5 / len(places)
            wide = [size if axis in axes else 1 for axis, size in enumerate(self.shape)]
            volume = volume * (share * share.size).reshape(wide)
        volume = volume.ravel()
        volume.flags.writeable = False
        return volume

    def __len__(self) -> int:
        return math.prod(self.shape)

    def of(self, points: FloatArray) -> IntArray:
        """(Q,) the bin of each point (Q, d) in [0, 1]^d."""
        index = np.zeros(len(points), dtype=np.int64)
        for axis, count in enumerate(self.shape[: len(self.levels)]):
            along = np.minimum((points[:, axis] * count).astype(np.int64), count - 1)
            index = index * count + along
        return index


@dataclass(frozen=True, eq=False)
class Grid:
    """What integrals under one policy version are sums over: points, or pairs of point and arm.

    Attributes:
        points: (R, c) in [0, 1]^c, as cells look them up.
        bins: (R,) the bin of the density.
        point: (R,) the point of each row, of Q.
        phi: (Q, M) all features there.
        volume: (Z,) that of each bin.
    """

    points: FloatArray
    bins: IntArray
    point: IntArray
    phi: FloatArray
    volume: FloatArray

    def weights(self, density: FloatArray) -> FloatArray:
        """(R,) the share of people that each row stands for."""
        shares_of_bins = density[self.bins]
        shares: FloatArray = shares_of_bins / shares_of_bins.sum()
        return shares

    def with_arms(self, arms: int) -> Grid:
        """For people whose arm is as private as their context: row q K + k is point q with arm k,
        and bin z K + k of the density is bin z of contexts with arm k."""
        point, arm = np.divmod(np.arange(len(self.points) * arms), arms)
        points = np.column_stack([self.points[point], arm_places(arm, arms)])
        volume = np.repeat(self.volume, arms)
        return Grid(points, self.bins[point] * arms + arm, point, self.phi, volume)


def arm_places(arms: IntArray, count: int) -> FloatArray:
    """(n,) where arms lie on the column of arms."""
    return (arms + 0.5) / count


@lru_cache(maxsize=4)
def grid_of(seed: int, version: int, features: CosineFeatures, implied: Implied = ()) -> Grid:
    """The grid of a policy version; the last few are kept."""
    if len(features) == 1:  # a constant has the same integral over any points
        points = np.full((1, features.dimension), 0.5)
    else:
        points = integration_points(seed, version, features.levels)
        points = with_implied(points, implied)
    phi, bins = features(on_levels(points, features.levels)), features.bins(implied)
    return Grid(points, bins.of(points), np.arange(len(points)), phi, bins.volume)
