"""Looks in decision sets: which point of a person's own set is worth a look, and for how many.

| array | shape     | meaning                                                              |
|-------|-----------|----------------------------------------------------------------------|
| mean  | (n, c)    | posterior means of the candidates of n people                        |
| root  | (n, c, r) | a root of their posterior covariance                                 |

Notes
-----
Where everyone brings the same set, a nearly greedy choice can stay with a wrong point; wider
bonuses for everyone cure that at two to three times the regret where sets differ. The knowledge
gradient of N people at once against the price N gap ends by itself. N is spread over as many people
as came so far; three in ten of those still expected count, because other sets may lack the point;
one point of a set at a time. All inputs are releases, the horizon and the person's own set.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np

from discreet.codec import Range, Serializable
from discreet.learners.gp_ucb.policy import normal_excess
from discreet.privacy.prefix_sums.system import MOST_PEOPLE as MOST_COUNTED
from discreet.validation import FloatArray, IntArray

# Of those who still come, the share whom a look is taken to help.
_PROFIT = 0.3
# At most this share of people look.
_MOST_LOOKING = 0.8
# A point more deviations behind the best one is not worth a look.
_REACH = 3.0


@dataclass(frozen=True, eq=False)
class KnowledgeGradient(Serializable):
    """What a look at a point is worth to those who still come; public.

    In a person's own set x* is the best point by the mean, gap(x) = m(x*) - m(x) and s(x) the
    deviation of f(x) - f(x*). If N people look at x, that difference is measured with variance

        v_N = (rho^2 + 2 s_o^2) / N + 2 s_u^2 / N^2

    (s_u^2: noise on the sum of y phi; s_o^2: noise that each person puts on their own; twice,
    because the Gram matrix has as much). What is believed of it moves by q = s^2 / sqrt(s^2 + v_N),
    and `later` people gain

        later q (h(z) - h(z + room / q)),   z = gap / q,   h(z) = E max(Z - z, 0), Z ~ N(0, 1),

    as rewards end `room` above m(x*) (knowledge gradient: Frazier, Powell and Dayanik 2008). The
    price is N gap(x). The point and the N with the largest gain less price are looked at, if that
    is positive, by N of as many people as came so far. `later` is three in ten of those who still
    come: where sets differ, others lack the point, or are led to its like by their own sets.

    Attributes:
        came: how many people came so far.
        remaining: how many still come.
        reward_variance: rho^2.
        release_variance: s_u^2.
        own_variance: s_o^2.
    """

    came: Annotated[int, Range(1, MOST_COUNTED)]
    remaining: Annotated[int, Range(0, MOST_COUNTED)]
    reward_variance: Annotated[float, Range(above=0.0)]
    release_variance: Annotated[float, Range(0.0)]
    own_variance: Annotated[float, Range(0.0)]

    @cached_property
    def counts(self) -> FloatArray:
        """(k,) the numbers N that are compared: 1, 4, 16, .. up to half of those to come."""
        most = max(self.remaining // 2, 1)
        return np.asarray(4.0 ** np.arange((most.bit_length() + 1) // 2))

    def net(self, gap: FloatArray, spread: FloatArray, room: FloatArray) -> FloatArray:
        """(p, k) gain less price of `counts` people, from gap, s and room of p points (p,)."""
        counts = self.counts
        noise = (self.reward_variance + 2.0 * self.own_variance) / counts
        noise = noise + 2.0 * self.release_variance / counts**2
        variance, gap = spread[:, None] ** 2, gap[:, None]
        moved = np.maximum(variance / np.sqrt(variance + noise), 1e-300)
        z = gap / moved
        gain = moved * (normal_excess(z) - normal_excess(z + room[:, None] / moved))
        net: FloatArray = _PROFIT * self.remaining * np.maximum(gain, 0.0) - counts * gap
        return net

    def choose(
        self, mean: FloatArray, root: FloatArray, room: FloatArray
    ) -> tuple[IntArray, FloatArray]:
        """Which point of each set is most worth a look, and who looks.

        Args:
            mean: (n, c) posterior means of the candidates; -inf for those that a set lacks.
            root: (n, c, r) a root of their posterior covariance.
            room: (n,) how far rewards reach above the best mean.

        Returns:
            (n,) places in the sets, and (n,) the probabilities with which they are looked at.
        """
        rows, best = np.arange(len(mean)), mean.argmax(axis=1)
        gap = mean[rows, best][:, None] - mean
        own = np.einsum("ncr,ncr->nc", root, root)
        shared = np.einsum("ncr,nr->nc", root, root[rows, best])
        spread = np.sqrt(np.maximum(own - 2.0 * shared + own[rows, best][:, None], 0.0))
        # Beyond so many deviations h(z) is too small for any number of people; NaN is no point.
        people, places = np.nonzero(
            (gap < _REACH * spread) & (np.arange(mean.shape[1]) != best[:, None])
        )
        net = self.net(gap[people, places], spread[people, places], np.maximum(room, 0.0)[people])
        number = net.argmax(axis=1) if len(net) else np.zeros(0, dtype=np.int64)
        value = np.zeros(mean.shape)
        wanted = np.zeros(mean.shape)
        value[people, places] = net[np.arange(len(net)), number]
        wanted[people, places] = self.counts[number]
        challenger = value.argmax(axis=1)
        looking = np.where(value[rows, challenger] > 0.0, wanted[rows, challenger], 0.0)
        share: FloatArray = np.minimum(looking / self.came, _MOST_LOOKING)
        return challenger, share
