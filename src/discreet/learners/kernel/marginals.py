"""Where people are along each column, and how far rewards reach, from the first reports.

The first people report in which of G parts of a column they are; without privacy every report shows
it. The marginal distribution of contexts along a column is one of a family: even, or with
probability s even on an interval of length 2^-k, k = 1 .. 6, and else even, for s = .95 and .5.
Parts are cut where the report has most mutual information with the marginal. A column is settled
once its marginal is known up to `_UNSURE` nats. If the mean marginal then has `_ALMOST_ALL` people
in a quarter of the column, it becomes the column's ranks, and the column is queried again.

| array          | shape     | meaning                                             |
|----------------|-----------|-----------------------------------------------------|
| MARGINALS      | (H, BINS) | the family, in ranks                                |
| log_likelihood | (d, H)    | of each column's marginals, given reports: sums     |
| tails          | (E, 2)    | of `REWARD_EDGES`: how many were asked, answered yes |

*Rewards* count as parts of their declared bounds, which may be far too wide. Of the first policies
every second asks each person whether the reward reaches one of a few thresholds, by binary
randomised response, in place of the reward. With c = tanh(epsilon / 2) the standard error of an
arm's mean is about sqrt(K / n) / c of the range, for n people in all; a tail that holds less than
1.5 times that share, and at most 5%, or a quarter of 1 / K, is light: none holds the rewards of an
arm. It is taken for light once its posterior mean is a deviation below, and for heavy two
deviations above. Edges between the two are bisected, up to 5% of the people. Rewards are then
clipped to the shortest range whose tails are light, and earlier reports of rewards are discarded.

Notes
-----
Ranks are not estimated where that would take over 5% of the expected people, in more than six
columns, for columns with levels, and once a source is open. A new stage discards earlier reports;
ranks of a value that half of the people share are no use. No one is asked about rewards in [0, 1],
which most often is their range, where 5% of the people or eight batches could not settle it (below
an epsilon of about 4), where rewards change, or once a source is open: its reports would measure
other functions.
*Tried without gain:* to settle columns sooner, which misses narrow ones for good.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from discreet.learners.kernel.cells import BINS, EDGES, Cells, Ranks
from discreet.privacy.frequency import SignedSubsetSelection, k_ary_response
from discreet.validation import BoolArray, FloatArray, IntArray

# The prior probability of the even marginal, and s.
_EVEN, _SHARES = 0.5, (0.95, 0.5)
_UNSURE, _ALMOST_ALL = 0.2, 0.85
_TO_SETTLE = 10.0  # nats of information after which a filled column is settled, about
# A part has at least this mass: the log probability of a report is bounded (design.py).
LEAST_MASS = 1e-6
# Where rewards may be clipped.
REWARD_EDGES = np.array([1, 2, 4, 8, *range(16, 241, 16), 248, 252, 254, 255]) / 256.0
# A light tail in standard errors of an arm's mean; at most, and at most of the people of one arm.
_LIGHT_ERRORS, _LIGHTEST, _LIGHTEST_OF_ARM = 1.5, 0.05, 0.25
# By how many deviations a tail has to be below or above it; at about how many edges an empty tail
# has to be recognised; an edge with this many times the answers that this takes is known.
_SURE_LIGHT, _SURE_HEAVY, EDGES_TESTED, _ENOUGH = 1.0, 2.0, 12, 5
# Reports are discarded for a range that is so much shorter.
_SHORTER = 0.7
# Of the edges in doubt, the place of the next one to ask about, until that is known.
_BISECTED = (0.5, 0.75, 0.25, 0.875, 0.625, 0.375, 0.125)
# The largest number of parts; they are a power of two.
MOST_PARTS = 8
# Each stage sees the 64th part; more would follow a value that people share.
_MOST_STAGES = 2


def _family() -> tuple[FloatArray, FloatArray]:
    """The marginals (H, BINS), and their log prior probabilities (H,)."""
    family, prior = [np.full(BINS, 1.0 / BINS)], [_EVEN]
    lengths = [BINS >> k for k in range(1, BINS.bit_length())]
    for length, share in product(lengths, _SHARES):
        starts = range(0, BINS - length + 1, max(length // 2, 1))
        for start in starts:
            marginal = np.full(BINS, (1.0 - share) / BINS)
            marginal[start : start + length] += share / length
            family.append(marginal)
            prior.append((1.0 - _EVEN) / (len(lengths) * len(_SHARES) * len(starts)))
    return np.array(family), np.log(prior)


MARGINALS, _LOG_PRIOR = _family()


def cell_probabilities(mechanism: SignedSubsetSelection) -> tuple[float, float]:
    """2 b, how often a wrong cell is reported, and how much more often the true one is."""
    wrong = 2.0 * mechanism.other_probability if mechanism.bins > 1 else 0.0
    return wrong, mechanism.true_probability + mechanism.false_probability - wrong


def reported_parts(parts: IntArray, mechanism: SignedSubsetSelection) -> FloatArray:
    """(.., H, G) how often each part is reported under each marginal, for the part of each bin
    (.., BINS)."""
    wrong, gain = cell_probabilities(mechanism)
    masses = MARGINALS @ np.eye(mechanism.bins)[parts]
    return wrong + gain * np.maximum(masses, LEAST_MASS)


def people_asked(mechanism: SignedSubsetSelection) -> float:
    """How many people it takes to see that others fill a column."""
    wrong, gain = cell_probabilities(mechanism)
    true = np.r_[wrong + gain, np.full(mechanism.bins - 1, wrong)]
    information = math.log(mechanism.bins) - float(_entropy(true[true > 0.0]))
    return _TO_SETTLE / information


def cells_asked(
    ranks: Ranks, log_likelihood: FloatArray, mechanism: SignedSubsetSelection
) -> Cells:
    """A partition of each column that people are asked about into parts of about equal mass."""
    cuts, shifts = [], np.linspace(-0.9, 0.9, 19)[:, None]
    levels = (np.arange(1, mechanism.bins) + shifts) / mechanism.bins
    for column in ranks.asked:
        weights = _posterior(log_likelihood[column])
        ends = np.searchsorted(_below(weights @ MARGINALS), levels)  # (19, G - 1)
        parts = (ends[:, None] <= np.arange(BINS)[:, None]).sum(axis=2)
        shown = reported_parts(parts, mechanism)  # (19, H, G)
        information = _entropy(weights @ shown) - _entropy(shown) @ weights
        cuts.append(EDGES[ends[information.argmax()]])
    return Cells.along(ranks.asked, np.array(cuts))


def ranks_after(ranks: Ranks, log_likelihood: FloatArray) -> Ranks:
    """The ranks, and the columns to ask about, after reports."""
    means, unsure, narrow = {}, set(), set()
    for column in ranks.asked.tolist():
        weights = _posterior(log_likelihood[column])
        means[column] = mean = weights @ MARGINALS
        if _entropy(mean) - weights @ _entropy(MARGINALS) > _UNSURE:
            unsure.add(column)
        if np.convolve(mean, np.ones(BINS // 4), mode="valid").max() > _ALMOST_ALL:
            narrow.add(column)
    if unsure:
        return replace(ranks, asked=np.array(sorted(unsure | narrow), dtype=np.int64))
    if not narrow or ranks.stage == _MOST_STAGES:
        return ranks.settled()
    knots = ranks.fine_knots()
    for column in narrow:
        places = np.interp(EDGES, _below(means[column]), EDGES)
        knots[column] = np.interp(places, EDGES, knots[column])
    return Ranks(knots, ranks.stage + 1, np.array(sorted(narrow), dtype=np.int64))


def _posterior(log_likelihood: FloatArray) -> FloatArray:
    """(H,) the probabilities of `MARGINALS`."""
    weights = np.exp(_LOG_PRIOR + log_likelihood - log_likelihood.max())
    normal: FloatArray = weights / weights.sum()
    return normal


def _below(marginal: FloatArray) -> FloatArray:
    """(BINS + 1,) the share of people below each edge."""
    below = np.concatenate([[0.0], np.cumsum(marginal)])
    below[-1] = 1.0
    return below


def _entropy(shares: FloatArray) -> FloatArray:
    """In nats, over the last axis."""
    entropy: FloatArray = -(shares * np.log(shares)).sum(axis=-1)
    return entropy


@dataclass(frozen=True)
class RewardTails:
    """What reports say of the shares of rewards beyond `REWARD_EDGES` (see the module).

    Attributes:
        above, below: (E,) posterior means of the shares that reach an edge, and that do not.
        deviation: (E,) their posterior deviation.
        known: (E,) whether enough were asked.
        light: the most that a light tail holds.
    """

    above: FloatArray
    below: FloatArray
    deviation: FloatArray
    known: BoolArray
    light: float

    @classmethod
    def of(cls, tails: FloatArray, epsilon: float, light: float) -> RewardTails:
        """From `tails` (E, 2), by reports of this epsilon."""
        asked, yes = tails.T
        contrast = k_ary_response(1, epsilon).contrast
        mean = (yes + 0.5) / (asked + 1.0)
        deviation = np.sqrt(mean * (1.0 - mean) / (asked + 2.0)) / contrast
        above = 0.5 + (mean - 0.5) / contrast
        known = asked >= max(_ENOUGH * people_for_tail(epsilon, light), 3.0 / light)
        return cls(above, 1.0 - above, deviation, known, light)

    def _sides(self) -> Iterator[tuple[BoolArray, BoolArray]]:
        """Where the tail above, and below, an edge is light, and where it is heavy. A tail within a
        light one is light, and one around a heavy one is heavy."""
        for share, order in ((self.above, slice(None)), (self.below, slice(None, None, -1))):
            heavy = share - _SURE_HEAVY * self.deviation >= self.light
            heavy[order] = np.logical_or.accumulate(heavy[order][::-1])[::-1]
            light = (share + _SURE_LIGHT * self.deviation <= self.light) & ~heavy
            light[order] = np.logical_or.accumulate(light[order])
            yield light, heavy

    @property
    def in_doubt(self) -> FloatArray:
        """The edges to ask about: of those in doubt on each side the middle, or the next one of
        which not enough is known, further out first."""
        edges = []
        for (light, heavy), outwards in zip(self._sides(), (1, -1), strict=True):
            doubt = np.flatnonzero(~(light | heavy))[::outwards]
            places = [doubt[int(part * len(doubt))] for part in _BISECTED if len(doubt)]
            edges += [place for place in places if not self.known[place]][:1]
        return REWARD_EDGES[edges]

    @property
    def range(self) -> tuple[float, float]:
        """The shortest range whose tails are known to be light."""
        (up, up_heavy), (down, down_heavy) = self._sides()
        if not (up_heavy.any() and down_heavy.any()):  # where almost all are is not known
            return 0.0, 1.0
        low = float(REWARD_EDGES[down].max(initial=0.0))
        high = float(REWARD_EDGES[up].min(initial=1.0))
        return (low, high) if 0.0 < high - low <= _SHORTER else (0.0, 1.0)

    def lost(self, low: float, high: float) -> float:
        """What clipping to a range takes from a mean reward, at most, on [0, 1], about."""
        ends = np.concatenate([[0.0], REWARD_EDGES, [1.0]])
        # A tail further out holds no more than one that contains it.
        above = np.minimum.accumulate(np.maximum(self.above, 0.0) + self.deviation)
        below = np.maximum(self.below, 0.0) + self.deviation
        below = np.minimum.accumulate(below[::-1])[::-1]
        upper = np.where(high <= REWARD_EDGES, np.minimum(above, 1.0), 0.0) @ np.diff(ends)[1:]
        lower = np.where(low >= REWARD_EDGES, np.minimum(below, 1.0), 0.0) @ np.diff(ends)[:-1]
        return float(upper + lower)


def light_tail(arms: int, epsilon: float, people: int) -> float:
    """The share of people that a light tail of rewards holds at most."""
    error = math.sqrt(arms / people) / k_ary_response(1, epsilon).contrast
    return min(_LIGHT_ERRORS * error, _LIGHTEST, _LIGHTEST_OF_ARM / arms)


def people_for_tail(epsilon: float, light: float) -> float:
    """How many people it takes to see that an empty tail is light, about."""
    contrast = k_ary_response(1, epsilon).contrast
    return 0.25 * (1.0 / contrast**2 - 1.0) / light**2
