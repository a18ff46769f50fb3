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

| number          | meaning                                                             |
|-----------------|---------------------------------------------------------------------|
| true positives  | trials on the first data set in which the adversary guessed it      |
| false positives | trials on the second in which the adversary guessed the first       |
| trials          | how many there were on each of the two                              |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discreet.privacy.accounting import GaussianEvent, composed_epsilon
from discreet.validation import (
    BoolArray,
    FloatArray,
    InvalidInput,
    finite_number,
    probability,
    whole_number,
)

# A threshold is chosen among so many quantiles of the scores, and as many close to each end. An odd
# number has the median among them, which parts scores that do not overlap.
_CANDIDATES = 101
# Stands for an infinite score where thresholds are put between two scores.
_CERTAIN = 1e100


def rate_bounds(count: int, trials: int, failure: float) -> tuple[float, float]:
    """Lower and upper bound on the probability of which `count` of `trials` came true.

    Each of them fails with at most the probability `failure` (Clopper and Pearson 1934).

    Args:
        count: from 0 to `trials`.
        trials: at least 1.
        failure: strictly between 0 and 1.
    """
    from scipy.special import betaincinv

    total = whole_number(trials, "trials", minimum=1)
    successes = whole_number(count, "count", maximum=total)
    others = total - successes
    chance = probability(failure, "failure")
    low = 0.0 if successes == 0 else float(betaincinv(successes, others + 1, chance))
    high = 1.0 if others == 0 else float(betaincinv(successes + 1, others, 1.0 - chance))
    return low, high


def empirical_epsilon(
    true_positives: int,
    false_positives: int,
    trials: int,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> float:
    """The epsilon below which the mechanism cannot be at `delta`, with that confidence.

    Args:
        true_positives: of `trials` on the first data set, how often it was guessed.
        false_positives: of as many on the second, how often the first was guessed.
        trials: on each of the two data sets.
        delta: at which epsilon is read; at least 0 and below 1.
        confidence: with which the bound holds, however the mechanism works.

    Returns:
        At least 0. The attack (its threshold, too) must have been fixed before these trials.

    Raises:
        InvalidInput: for counts beyond `trials` or other numbers that are not allowed.
    """
    total = whole_number(trials, "trials", minimum=1)
    right = whole_number(true_positives, "true_positives", maximum=total)
    wrong = whole_number(false_positives, "false_positives", maximum=total)
    allowed = "at least 0 and below 1"
    excess = finite_number(delta, "delta", allowed)
    if not 0.0 <= excess < 1.0:
        raise InvalidInput(f"delta was {delta}; it must be {allowed}.")
    # Two bounds are used, each of which may fail.
    failure = 0.5 * (1.0 - probability(confidence, "confidence"))
    least_right, _ = rate_bounds(right, total, failure)
    _, most_wrong = rate_bounds(wrong, total, failure)
    return max(
        0.0,
        _log_ratio(least_right - excess, most_wrong),
        _log_ratio(1.0 - most_wrong - excess, 1.0 - least_right),
    )


def _log_ratio(above: float, below: float) -> float:
    return math.log(above / below) if above > 0.0 else -math.inf


@dataclass(frozen=True)
class Attack:
    """What a distinguisher reached on trials that its threshold was not chosen on.

    Attributes:
        true_positives: of `trials` on the first data set, how often it was guessed.
        false_positives: of as many on the second, how often the first was guessed.
        trials: on each.
        delta: at which epsilon is read.
        confidence: of the bound.
    """

    true_positives: int
    false_positives: int
    trials: int
    delta: float
    confidence: float = 0.95

    @property
    def true_positive_rate(self) -> float:
        """The share of trials on the first data set in which it was guessed."""
        return self.true_positives / self.trials

    @property
    def false_positive_rate(self) -> float:
        """The share of trials on the second data set in which the first was guessed."""
        return self.false_positives / self.trials

    @property
    def epsilon(self) -> float:
        """The lower bound on epsilon."""
        return empirical_epsilon(
            self.true_positives, self.false_positives, self.trials, self.delta, self.confidence
        )


def counts_lower_bound(counted: Attack) -> float:
    """The epsilon, at the attack's delta, that counts prove whatever the mechanism is."""
    return counted.epsilon


def empirical_mu(counted: Attack) -> float:
    """The mu below which the mechanism cannot be Gaussian-DP, with the attack's confidence.

    Args:
        counted: guesses on trials that the threshold was not chosen on.

    Returns:
        At least 0.
    """
    from scipy.special import ndtri

    failure = 0.5 * (1.0 - probability(counted.confidence, "confidence"))
    least_right, _ = rate_bounds(counted.true_positives, counted.trials, failure)
    _, most_wrong = rate_bounds(counted.false_positives, counted.trials, failure)
    if least_right <= 0.0 or most_wrong >= 1.0:
        return 0.0
    return max(0.0, float(ndtri(least_right) - ndtri(most_wrong)))


def gaussian_lower_bound(counted: Attack) -> float:
    """The epsilon, at the attack's delta, of `empirical_mu`."""
    mu = empirical_mu(counted)
    return 0.0 if mu == 0.0 else composed_epsilon([GaussianEvent(1.0 / mu)], counted.delta)


Proof = Callable[[Attack], float]


def best_threshold(
    first: FloatArray, second: FloatArray, delta: float, proved: Proof = counts_lower_bound
) -> float:
    """The threshold whose guess "first, if the score is above" proves most on these scores.

    Args:
        first: (m,) scores of trials on the first data set; an infinite one is a certain guess.
        second: (m,) scores of trials on the second.
        delta: at which epsilon is read.
        proved: what counts prove; the lower bound on epsilon, if left out.
    """
    pooled = np.sort(np.concatenate([first, second]))
    last = len(pooled) - 2
    tail = np.geomspace(1, last + 1, _CANDIDATES) - 1.0
    even = np.linspace(0, last, _CANDIDATES)
    places = np.unique(np.concatenate([even, tail, last - tail]).astype(np.int64))
    # Between two scores, where the next ones are as likely to fall on either side.
    finite = np.clip(pooled, -_CERTAIN, _CERTAIN)
    candidates = 0.5 * (finite[places] + finite[places + 1])
    proofs = np.array([proved(_counted(first, second, at, delta)) for at in candidates])
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
    """
    if first.shape != second.shape or first.ndim != 1 or len(first) == 0:
        raise InvalidInput(
            f"the scores had shapes {first.shape} and {second.shape}; give as many trials on the "
            "first data set as on the second, at least one."
        )
    return _counted(first, second, threshold, delta, confidence)


def _counted(
    first: FloatArray, second: FloatArray, threshold: float, delta: float, confidence: float = 0.95
) -> Attack:
    right: BoolArray = first > threshold
    wrong: BoolArray = second > threshold
    return Attack(int(right.sum()), int(wrong.sum()), len(first), delta, confidence)
