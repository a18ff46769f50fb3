"""What an attack proves: the epsilon that a mechanism cannot be better than.

An adversary guesses between two neighbouring data sets. Whatever is (epsilon, delta)-private has

    TPR <= e^epsilon FPR + delta    and    1 - FPR <= e^epsilon (1 - TPR) + delta

(Kairouz, Oh and Viswanath 2015, Theorem 2.1), so counts of right and wrong guesses bound epsilon
from below. Rates are known up to chance only: both are replaced by Clopper-Pearson bounds that hold
together with the confidence asked for.

Where the promise is one of Gaussian differential privacy, counts prove more. A release with
certificate mu is mu-GDP: no test of size a has more power than that of N(0, 1) against N(mu, 1)
(Dong, Roth and Su 2022, Definition 4). So for every test

    Phi^-1(TPR) - Phi^-1(FPR) <= mu,

and counts of guesses bound mu from below; (epsilon, delta) follow as for the certificate (Nasr et
al. 2023, "Tight auditing", section 5). Unlike the bound on counts alone this needs no rare events:
a test that errs in one case of five says as much as one that errs once in a million. It refutes a
promise of Gaussian DP, and it bounds (epsilon, delta) itself where the mechanism is Gaussian noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from discreet.privacy.accounting import GaussianEvent, composed_epsilon
from discreet.validation import FloatArray, InvalidInput

# What is known of the mechanism: nothing, or that it is one of Gaussian DP.
Bound = Literal["counts", "gaussian"]
# A threshold is chosen among so many quantiles of the scores, and as many close to each end. An odd
# number has the median among them, which parts scores that do not overlap.
_CANDIDATES = 101
# Stands for an infinite score where thresholds are put between two scores.
_CERTAIN = 1e100


def rate_bounds(count: int, trials: int, failure: float) -> tuple[float, float]:
    """Lower and upper bound on the probability of which `count` of `trials` came true.

    Each of them fails with at most the probability `failure` (Clopper and Pearson 1934).
    """
    from scipy.special import betaincinv

    others = trials - count
    low = 0.0 if count == 0 else float(betaincinv(count, others + 1, failure))
    high = 1.0 if others == 0 else float(betaincinv(count + 1, others, 1.0 - failure))
    return low, high


@dataclass(frozen=True)
class Attack:
    """What a distinguisher reached on trials that its threshold was not chosen on.

    Attributes:
        true_positives: of `trials` on the first data set, how often it was guessed.
        false_positives: of as many on the second, how often the first was guessed.
        trials: on each.
        delta: at which epsilon is read.
        confidence: with which each of `epsilon` and `mu` holds.
    """

    true_positives: int
    false_positives: int
    trials: int
    delta: float = 0.0
    confidence: float = 0.95

    @property
    def true_positive_rate(self) -> float:
        """The share of trials on the first data set in which it was guessed."""
        return self.true_positives / self.trials

    @property
    def false_positive_rate(self) -> float:
        """The share of trials on the second data set in which the first was guessed."""
        return self.false_positives / self.trials

    def _rates(self) -> tuple[float, float]:
        """The least rate of true positives, and the largest of false ones."""
        # Two bounds are used, each of which may fail.
        failure = 0.5 * (1.0 - self.confidence)
        least_right, _ = rate_bounds(self.true_positives, self.trials, failure)
        _, most_wrong = rate_bounds(self.false_positives, self.trials, failure)
        return least_right, most_wrong

    @property
    def epsilon(self) -> float:
        """The epsilon below which the mechanism cannot be at `delta`, whatever it is."""
        least_right, most_wrong = self._rates()
        return max(
            0.0,
            _log_ratio(least_right - self.delta, most_wrong),
            _log_ratio(1.0 - most_wrong - self.delta, 1.0 - least_right),
        )

    @property
    def mu(self) -> float:
        """The mu, at least 0, below which the mechanism cannot be Gaussian-DP."""
        from scipy.special import ndtri

        least_right, most_wrong = self._rates()
        if least_right <= 0.0 or most_wrong >= 1.0:
            return 0.0
        return max(0.0, float(ndtri(least_right) - ndtri(most_wrong)))

    def proved(self, bound: Bound) -> float:
        """The lower bound on epsilon; for `gaussian` that of `mu`."""
        if bound == "counts":
            return self.epsilon
        mu = self.mu
        return 0.0 if mu == 0.0 else composed_epsilon([GaussianEvent(1.0 / mu)], self.delta)


def _log_ratio(above: float, below: float) -> float:
    return math.log(above / below) if above > 0.0 else -math.inf


def best_threshold(
    first: FloatArray, second: FloatArray, delta: float, bound: Bound = "counts"
) -> float:
    """The threshold whose guess "first, if the score is above" proves most on these scores.

    Args:
        first: (m,) scores of trials on the first data set; an infinite one is a certain guess.
        second: (m,) scores of trials on the second.
        delta: at which epsilon is read.
        bound: see `Attack.proved`.
    """
    pooled = np.sort(np.concatenate([first, second]))
    last = len(pooled) - 2
    tail = np.geomspace(1, last + 1, _CANDIDATES) - 1.0
    even = np.linspace(0, last, _CANDIDATES)
    places = np.unique(np.concatenate([even, tail, last - tail]).astype(np.int64))
    # Between two scores, where the next ones are as likely to fall on either side.
    finite = np.clip(pooled, -_CERTAIN, _CERTAIN)
    candidates = 0.5 * (finite[places] + finite[places + 1])
    proofs = np.array([attack(first, second, at, delta).proved(bound) for at in candidates])
    best = np.flatnonzero(proofs == proofs.max())
    return float(candidates[best[len(best) // 2]])


def attack(
    first: FloatArray, second: FloatArray, threshold: float, delta: float, confidence: float = 0.95
) -> Attack:
    """Guess "first" where the score is above `threshold`, and count.

    Args:
        first: (m,) scores of trials on the first data set.
        second: (m,) scores of trials on the second.
        threshold: chosen without looking at these scores.
        delta: at which epsilon is read.
        confidence: of the bound.

    Raises:
        InvalidInput: unless there are as many scores of either, at least one.
    """
    if first.shape != second.shape or first.ndim != 1 or len(first) == 0:
        raise InvalidInput(
            f"the scores had shapes {first.shape} and {second.shape}; give as many trials on the "
            "first data set as on the second, at least one."
        )
    right, wrong = int((first > threshold).sum()), int((second > threshold).sum())
    return Attack(right, wrong, len(first), delta, confidence)
