"""The prior of the arms' functions: which columns matter, how, and what arms have in common.

2 f_k - 1 = phi(x)' theta_k, where theta_k = common + own_k, both with independent coordinates. So
for every feature two numbers say what is believed:

| array  | shape | meaning                                                             |
|--------|-------|---------------------------------------------------------------------|
| used   | (m,)  | the features that are used, of M                                    |
| own    | (m,)  | variance of what an arm has for itself                              |
| common | (m,)  | variance of what all arms share                                     |

and the covariance of theta is own I + common 1 1' over arms, for each feature. Hyperparameters
say what these variances are:

* a length scale for each column (features.py), the longest of which says that it does not matter.
  Of d columns about two are thought to matter, so functions of one column or of two are likely,
  and what many columns do together hardly is;
* the share of the variance that arms have in common, of their levels and of how they vary;
* a scale of all variances.

No single one is chosen: what is believed is a mixture of posteriors under some of those which
reports make likely (posterior.py), and before there are reports, under some of all. Their mean
covariance would not do: where each of many columns may matter, it says that none matters much.

Notes
-----
*Columns.* The prior probability that a column matters is min(0.9, 2 / d). Features are ranked by
the mean prior variance: at one short length scale 250 features of six columns were mostly products
of three and more.

*Short length scales* are rare a priori (fourth power of their size), and none is drawn before there
are reports: with a flatter prior smooth functions lost half as much again at epsilon 1. With more
than ten arms a length scale of 0.1 and eighteen cosines a column are allowed as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Annotated

import numpy as np

from discreet.codec import Range
from discreet.learners.local_kernel.features import (
    FLAT,
    LEFT_OUT,
    LENGTH_SCALES,
    CosineFeatures,
    column_matters,
    commonness,
)
from discreet.validation import FloatArray, IntArray

SCALES = (1.0, 2.0)
SHARES = (0.0, 0.8)
FIRST_LENGTH_SCALE = 0.8
# Hyperparameters less likely than the best by a factor e^6 are left out.
_LOG_RATIO = 6.0
# Log prior of the scale: - 1/4 log2(scale)^2.
_SCALE_PENALTY = 0.25
# Short length scales have this power of their share among features as prior probability: where
# reports say little, evidence is flat over length scales, and the shortest would hold out long.
_RARER = 4
# The length scale that two columns get which are tried together.
_TOGETHER = 0.4


@dataclass(frozen=True, eq=False)
class Prior:
    """Variances of the features that are used (see the module's table)."""

    used: IntArray
    own: FloatArray
    common: FloatArray

    def places(self, arms: int, features: int) -> IntArray:
        """(K m,) where coefficients that are used are among all K M."""
        places: IntArray = (np.arange(arms)[:, None] * features + self.used[None]).ravel()
        return places

    def root_times(self, vectors: FloatArray, arms: int) -> FloatArray:
        """L V for the symmetric root L of the covariance, and V (K m, F) or (K m,).

        Over arms, root(own I + common 1 1') = root(own) (I + c 1 1' / K) with
        c = root(1 + K common / own) - 1.
        """
        parts = vectors.reshape(arms, len(self.used), -1)
        scaled: FloatArray = np.sqrt(self.own)[:, None] * parts
        if self.common.any():
            excess = np.sqrt(1.0 + arms * self.common / self.own) - 1.0
            scaled += excess[:, None] * scaled.mean(axis=0)
        return scaled.reshape(vectors.shape)


@dataclass(frozen=True)
class Smooth:
    """Hyperparameters (see the module).

    Attributes:
        length_scales: of each column.
        scale: of all prior variances.
        level: the share of the variance of levels that arms have in common.
        surface: the share of how functions vary that arms have in common.
    """

    length_scales: tuple[Annotated[float, Range(above=0.0)], ...]
    scale: Annotated[float, Range(above=0.0)] = 1.0
    level: Annotated[float, Range(0.0, 1.0)] = 0.0
    surface: Annotated[float, Range(0.0, 1.0)] = 0.0

    @classmethod
    def first(cls, dimension: int) -> Smooth:
        return cls((FIRST_LENGTH_SCALE,) * dimension)

    @classmethod
    def drawn(cls, dimension: int, rng: np.random.Generator) -> Smooth:
        """From their prior, with scale 1."""
        matters = rng.random(dimension) < column_matters(dimension)
        varying = rng.choice(LENGTH_SCALES[:-1], dimension)
        level, surface = rng.choice(SHARES, 2).tolist()
        return cls(tuple(np.where(matters, varying, FLAT).tolist()), 1.0, level, surface)

    def near(self, length_scales: Sequence[float] = LENGTH_SCALES) -> Iterator[Smooth]:
        """Those that differ in one of the numbers, and those with one length scale for all
        columns: where rewards depend on columns together, no single one seems to matter."""
        for scale in SCALES:
            yield replace(self, scale=scale)
        for share in SHARES:
            yield replace(self, level=share)
            yield replace(self, surface=share)
        for value in length_scales:
            for column in range(len(self.length_scales)):
                yield self.with_columns((column,), value)
            yield replace(self, length_scales=(value,) * len(self.length_scales))

    def pairs(self) -> Iterator[Smooth]:
        """Those in which two columns matter that did not."""
        flat = [column for column, value in enumerate(self.length_scales) if value >= FLAT]
        for pair in combinations(flat, 2):
            yield self.with_columns(pair, _TOGETHER)

    def with_columns(self, columns: tuple[int, ...], value: float) -> Smooth:
        """The same with another length scale of these columns."""
        changed = [value if a in columns else old for a, old in enumerate(self.length_scales)]
        return replace(self, length_scales=tuple(changed))

    @property
    def log_prior(self) -> float:
        matters = column_matters(len(self.length_scales))
        each = matters / (len(LENGTH_SCALES) - 1)
        columns = sum(
            math.log(1.0 - matters if value >= FLAT else each * commonness(value) ** _RARER)
            for value in self.length_scales
        )
        return columns - _SCALE_PENALTY * math.log2(self.scale) ** 2

    def prior(self, features: CosineFeatures) -> Prior:
        """The variances of features; those with less than 1e-4 of the whole are left out."""
        whole = features.variances(self.length_scales, self.scale)
        used = np.flatnonzero(whole >= LEFT_OUT * whole.sum())
        share = np.full(len(whole), self.surface)
        share[0] = self.level
        return Prior(used, ((1.0 - share) * whole)[used], (share * whole)[used])


@dataclass(frozen=True)
class Likely:
    """Hyperparameters that the reports make likely.

    Attributes:
        best: the most likely; before there are reports, where to look first.
        candidates: those with which the best is compared, itself among them; none before there are
            reports.
        weights: their probabilities.
    """

    best: Smooth
    candidates: tuple[Smooth, ...] = ()
    weights: tuple[Annotated[float, Range(above=0.0)], ...] = ()

    def draw(self, count: int, rng: np.random.Generator) -> tuple[list[Smooth], FloatArray]:
        """At most so many of them, drawn evenly by their probabilities, and their shares; before
        there are reports any of all."""
        if not self.candidates:
            columns = len(self.best.length_scales)
            return [Smooth.drawn(columns, rng) for _ in range(count)], np.full(count, 1.0 / count)
        ends = np.cumsum(self.weights)
        at = np.searchsorted(ends, (np.arange(count) + rng.random()) * (ends[-1] / count))
        drawn, times = np.unique(np.minimum(at, len(ends) - 1), return_counts=True)
        return [self.candidates[place] for place in drawn], times / count


def likely(
    start: Smooth,
    evidence: Callable[[Smooth], float],
    length_scales: Sequence[float] = LENGTH_SCALES,
) -> Likely:
    """Climbs from `start`, one step at a time; keeps all it saw that are not much less likely
    than the best.

    Args:
        evidence: log, up to what hyperparameters do not change.
        length_scales: those that a column may have.
    """
    known: dict[Smooth, float] = {}

    def worth(smooth: Smooth) -> float:
        if smooth not in known:
            known[smooth] = evidence(smooth) + smooth.log_prior
        return known[smooth]

    best = start
    while True:
        top = max(best.near(length_scales), key=worth)
        if worth(top) <= worth(best):
            top = max(best.pairs(), key=worth, default=best)
        if worth(top) <= worth(best):
            break
        best = top
    ranked = sorted(known, key=worth, reverse=True)
    kept = [smooth for smooth in ranked if worth(smooth) > worth(best) - _LOG_RATIO]
    chances = np.exp([worth(smooth) - worth(best) for smooth in kept])
    return Likely(best, tuple(kept), tuple((chances / chances.sum()).tolist()))
