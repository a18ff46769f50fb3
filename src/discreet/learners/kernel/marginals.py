"""Where people are along each column, from the first reports.

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

Notes
-----
Ranks are not estimated where that would take over 5% of the expected people, under a declared
uniform density, in more than six columns, for columns with levels, and once a source is open.
A new stage discards earlier reports; ranks of a value that half of the people share are no use.
*Tried without gain:* to settle columns sooner, which misses narrow ones for good.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np

from discreet.learners.kernel.cells import BINS, EDGES, Cells, Ranks
from discreet.privacy.frequency import SignedSubsetSelection
from discreet.validation import FloatArray, IntArray

# The prior probability of the even marginal, and s.
_EVEN, _SHARES = 0.5, (0.95, 0.5)
_UNSURE, _ALMOST_ALL = 0.2, 0.85
_TO_SETTLE = 10.0  # nats of information after which a filled column is settled, about
# A part has at least this mass: the log probability of a report is bounded (design.py).
LEAST_MASS = 1e-6
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
    shown: FloatArray = wrong + gain * np.maximum(masses, LEAST_MASS)
    return shown


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
