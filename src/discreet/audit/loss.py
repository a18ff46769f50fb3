"""The exact privacy loss of everything that one run drew and another did not.

Together (epsilon, delta) is, for Gaussian noise alone,

    delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)

(Balle and Wang 2018, Theorem 8), solved here without the library's accounting. Several others
count at a delta as randomised responses do, which are told apart best. With both kinds the larger
of the two is a lower bound, and is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.optimize import brentq
from scipy.special import log_ndtr


@dataclass(frozen=True)
class Loss:
    """What tells two runs apart.

    Attributes:
        squared: mu^2 of all Gaussian noise.
        losses: all others.
        reason: what tells them apart with certainty; empty if nothing does.
    """

    squared: float = 0.0
    losses: tuple[float, ...] = ()
    reason: str = ""

    @property
    def pure(self) -> float:
        """The sum of all losses but those of Gaussian noise."""
        return math.fsum(self.losses)

    def epsilon(self, delta: float) -> float:
        """The least epsilon at `delta` of the two data sets."""
        if self.reason:
            return math.inf
        if self.squared == 0.0:
            return responses_epsilon(self.losses, delta)
        if delta == 0.0:
            return math.inf
        mu = math.sqrt(self.squared)
        return max(responses_epsilon(self.losses, delta), gaussian_epsilon(mu, delta))

    @property
    def order(self) -> tuple[bool, float]:
        """What larger losses are larger in."""
        return bool(self.reason), self.pure + math.sqrt(self.squared)


def responses_epsilon(losses: Sequence[float], delta: float) -> float:
    """Epsilon at `delta` of randomised responses with these losses; their sum without a delta."""
    if delta == 0.0 or len(losses) < 2:
        return math.fsum(losses)
    shares = {0.0: 1.0}  # of the first data set, by how much likelier an outcome is there
    for loss in losses:
        before, shares = shares, {}
        for lost, share in before.items():
            for said in (loss, -loss):  # the truth, or not
                key, part = round(lost + said, 12), share / (1.0 + math.exp(-said))
                shares[key] = shares.get(key, 0.0) + part

    def excess(epsilon: float) -> float:
        above = [s * -math.expm1(epsilon - lost) for lost, s in shares.items() if lost > epsilon]
        return math.fsum(above) - delta

    return 0.0 if excess(0.0) <= 0.0 else float(brentq(excess, 0.0, math.fsum(losses), xtol=1e-12))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Epsilon at `delta` of N(0, 1) against N(mu, 1) (see the module)."""

    def excess(epsilon: float) -> float:
        first = log_ndtr(0.5 * mu - epsilon / mu)
        second = epsilon + log_ndtr(-0.5 * mu - epsilon / mu)
        return float(math.exp(first) * -math.expm1(min(second - first, 0.0))) - delta

    if excess(0.0) <= 0.0:
        return 0.0
    highest = 1.0
    while excess(highest) > 0.0:
        highest *= 2.0
        if highest > 1e6:
            return math.inf
    return float(brentq(excess, 0.0, highest, xtol=1e-12, rtol=1e-14))
