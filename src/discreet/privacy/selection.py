"""Choosing one of K options privately: the exponential mechanism with a certified range.

| array       | shape       | meaning                                                             |
|-------------|-------------|---------------------------------------------------------------------|
| scores      | (n, K)      | q, how good each option is; -infinity for one that is not offered   |
| score_range | () or (n,)  | R, at least max g - min g of g = q - q', for all neighbours q'      |
| choices     | (n,)        | the options drawn                                                   |

Option i is drawn with probability exp(epsilon q_i / R) / sum_j exp(epsilon q_j / R). For a
neighbour with scores q' = q - g,

    P(i) / P'(i) = exp(epsilon g_i / R) * sum_j exp(epsilon q'_j / R) / sum_j exp(epsilon q_j / R)
                <= exp(epsilon max g / R) * exp(-epsilon min g / R)  <=  exp(epsilon),

because q'_j = q_j - g_j <= q_j - min g. If |g| <= sensitivity then R = 2 sensitivity will do, which
is McSherry and Talwar (2007); where g has one sign, or nearly, R is up to half of that. Each of the
n rows is one selection, and selections from one person's data add up.

**What is really drawn.** Scores are compared with the best: x_i = epsilon (q_i - max q) / R, and
x_i below -48 ln 2 counts as -48 ln 2. This leaves the proof as it is: x - x' has values in an
interval of length at most epsilon, which contains 0 (it is >= 0 at the best option of q and <= 0 at
that of q'), and cutting moves differences towards 0 only. Then exp(x) is divided by its sum, the
shares are cut to multiples of 2^-106, and a uniform integer below 2^106 is looked up in their
sums; one beyond the last (probability below K 2^-50) is drawn again. So P(i) is a ratio of
integers, weight_i / sum of weights, and `probabilities` returns just that. Against the formula a
weight is wrong by a factor of at most 1 + 3e-13: 3 roundings of x (|x| <= 34), those of exp and of
the division, and the cut (a share is at least 2^-48 / K, so 2^-58 K of it; K <= 2^16). The division
by a sum that was itself rounded is common to all weights of a row and cancels. A ratio P/P' has
four weights or sums of them, hence is at most exp(epsilon' + 2e-12) when drawn at epsilon'; here
epsilon' = epsilon - 1e-10. Scores are taken as they are given: if they were rounded, R must cover
their rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from discreet.codec import Range, Serializable
from discreet.privacy.accounting import Event, PureEvent
from discreet.privacy.noise import NoiseSource
from discreet.validation import FloatArray, IntArray, InvalidInput

# Kept back from epsilon for the rounding of weights (see above).
_KEPT_BACK = 1e-10
_LEAST_EPSILON = 1e-6
_CUT = 48.0 * math.log(2.0)
# Weights are high 2^44 + low: 62 bits, the most that can be drawn at once, and 44 more, of which
# 2^16 still add up in a 64-bit integer.
_HIGH_BITS, _LOW_BITS = 62, 44
_MOST_OPTIONS = 2**16
# Rows are handled in portions of this many scores, which bounds memory.
_SCORES_AT_ONCE = 2**20


@dataclass(frozen=True)
class ExponentialMechanism(Serializable):
    """Selections that are epsilon-private each.

    Attributes:
        epsilon: what one selection costs; with less than 1e-6 options would be next to equally
            likely.
    """

    epsilon: Annotated[float, Range(_LEAST_EPSILON)]

    def event(self) -> Event:
        """The cost of one selection."""
        return PureEvent(self.epsilon)

    def probabilities(self, scores: ArrayLike, score_range: ArrayLike) -> FloatArray:
        """(n, K) probabilities with which `select` draws, to the precision of a float.

        Args:
            scores: (n, K); -infinity for options that are not offered, which must not depend on
                anybody's data.
            score_range: one number, or (n,) one for each row; public, and at least the range of the
                difference of the scores of any two neighbours.

        Raises:
            InvalidInput: for NaN or +infinity, a row without any option, more than 65,536 options,
                or a range that is not finite and above 0.
        """
        high, low = self._weights(*_checked(scores, score_range))
        weights = np.ldexp(high.astype(np.float64), _LOW_BITS) + low
        share: FloatArray = weights / weights.sum(axis=1, keepdims=True)
        return share

    def log_probabilities(self, scores: ArrayLike, score_range: ArrayLike) -> FloatArray:
        """(n, K) logs of `probabilities`; -infinity for options that are not offered."""
        with np.errstate(divide="ignore"):
            return np.log(self.probabilities(scores, score_range))

    def select(self, scores: ArrayLike, score_range: ArrayLike, noise: NoiseSource) -> IntArray:
        """(n,) options, one drawn for each row; arguments and errors as for `probabilities`."""
        quality, ranges = _checked(scores, score_range)
        chosen = np.empty(len(quality), dtype=np.int64)
        most = max(1, _SCORES_AT_ONCE // quality.shape[1])
        for start in range(0, len(quality), most):
            part = slice(start, start + most)
            chosen[part] = _draw(*self._weights(quality[part], ranges[part]), noise)
        return chosen

    def _weights(self, scores: FloatArray, ranges: FloatArray) -> tuple[IntArray, IntArray]:
        """Integers high and low (n, K): the weight of an option is high 2^44 + low."""
        best = scores.max(axis=1, keepdims=True)
        with np.errstate(over="ignore"):  # an overflow to -infinity is cut like all that is far off
            exponents = (scores - best) / ranges[:, None] * (self.epsilon - _KEPT_BACK)
        weights = np.where(np.isneginf(scores), 0.0, np.exp(np.maximum(exponents, -_CUT)))
        # A little more than the sum as it may have been rounded, so that shares add to at most 1.
        total = weights.sum(axis=1, keepdims=True) * (1.0 + scores.shape[1] * 2.0**-51)
        share = np.ldexp(weights / total, _HIGH_BITS)
        high = np.floor(share)
        low = np.floor(np.ldexp(share - high, _LOW_BITS))
        return high.astype(np.int64), low.astype(np.int64)


def _draw(high: IntArray, low: IntArray, noise: NoiseSource) -> IntArray:
    """(n,) options with probabilities in proportion to the weights high 2^44 + low (n, K)."""
    below_low = np.cumsum(low, axis=1)
    below_high = np.cumsum(high, axis=1) + (below_low >> _LOW_BITS)
    below_low &= 2**_LOW_BITS - 1
    people, options = high.shape
    chosen = np.full(people, options)
    beyond = np.arange(people)
    while len(beyond):
        drawn_high = noise.below(2**_HIGH_BITS, len(beyond))[:, None]
        drawn_low = noise.below(2**_LOW_BITS, len(beyond))[:, None]
        # The option is the number of sums that are at most the integer drawn.
        equal = below_high[beyond] == drawn_high
        passed = (below_high[beyond] < drawn_high) | (equal & (below_low[beyond] <= drawn_low))
        chosen[beyond] = passed.sum(axis=1)
        beyond = np.flatnonzero(chosen == options)
    return chosen


def _checked(scores: ArrayLike, score_range: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Scores (n, K) and ranges (n,) as floats."""
    quality, ranges = _numbers(scores, "scores"), _numbers(score_range, "score_range")
    if quality.ndim != 2 or not 1 <= quality.shape[1] <= _MOST_OPTIONS:
        raise InvalidInput(
            f"scores had shape {quality.shape}; they must have shape (selections, options), with "
            f"1 to {_MOST_OPTIONS} options."
        )
    offered = np.isfinite(quality)
    if not (offered | np.isneginf(quality)).all() or not offered.any(axis=1).all():
        raise InvalidInput(
            "scores had NaN or +infinity, or a row without any option; each must be a finite "
            "number, or -infinity for an option that is not offered, and one in each row is."
        )
    if (
        ranges.shape not in ((), (len(quality),))
        or not (np.isfinite(ranges) & (ranges > 0.0)).all()
    ):
        raise InvalidInput(
            f"score_range had shape {ranges.shape}, or an entry that is not a finite number above "
            f"0; give a bound on the range of the difference of the scores of two neighbours, or "
            f"{len(quality)} of them, one for each row of scores."
        )
    return quality, np.broadcast_to(ranges, len(quality))


def _numbers(values: ArrayLike, name: str) -> FloatArray:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InvalidInput(f"{name} had rows of different lengths; pass one array.") from error
    if array.dtype.kind not in "iuf":
        raise InvalidInput(f"{name} had type {array.dtype}; it must hold numbers.")
    return array.astype(np.float64)
