"""Trials of whole runs, and the epsilon that counts of right and wrong guesses refute.

A trial runs a learner on one of two neighbouring data sets, those that exact replay found worst.
The adversary's score is the likelihood ratio of everything that was drawn, and a positive one means
"the first data set":

    log p(y | data) = sum over draws of  -|y - v|^2 / (2 s^2) - size log s      (Gaussian)
                                         -|y - v|_1 / s - size log s            (Laplace)
                                         log P(option)                          (selection)

where v was handed to noise of scale s and y came out; on the other data set y is played back.
Ratios are rounded to 10^-9: what the last bits of noise show that was added in floating point
(Mironov 2012) is no property of a mechanism; SimulatedNoise does not hide it, SecureNoise does.

Whatever is (epsilon, delta)-private has

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
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from discreet.audit.replay import Exact, Transcript
from discreet.audit.tape import NoiseTape, watching
from discreet.privacy.accounting import GaussianEvent, composed_epsilon
from discreet.validation import FloatArray, InvalidInput

# What is known of the mechanism: nothing, or that it is one of Gaussian DP.
Bound = Literal["counts", "gaussian"]
Seed = np.random.SeedSequence
_DIGITS = 9


def run_scores(exact: Exact, first: bool, trials: int, seed: Seed) -> FloatArray:
    """(trials,) likelihood ratios of runs on the worst neighbours, the first one or the second.

    Args:
        exact: what exact replay found, with its `subject` and `pair`.
        first: whether runs are on the first data set.
        trials: how many runs.
        seed: of all of them.

    Returns:
        Infinity where two runs differ in the number, the kind or the shape of what was drawn.
    """
    ratio = np.empty(trials)
    mine, theirs = exact.pair if first else exact.pair[::-1]
    with watching():
        for trial, child in enumerate(seed.spawn(trials)):
            subject = replace(exact.subject, seed=int(child.generate_state(1)[0]))
            run = partial(subject.run, transcript=Transcript(wanted=False))
            ratio[trial] = _log_ratio(partial(run, mine), partial(run, theirs), child)
    return ratio if first else -ratio


def _log_ratio(mine: Callable[[], object], theirs: Callable[[], object], seed: Seed) -> float:
    """log p(what comes out of `mine` | its data) - log p(the same | the data of `theirs`)."""
    drawn, other = NoiseTape(seed), NoiseTape(seed)
    with drawn.recording():
        mine()
    with other.playing(drawn):
        theirs()
    if other.astray:
        return math.inf
    pairs = zip(drawn.draws, other.draws, strict=True)
    return round(math.fsum(one.log_density() - two.log_density() for one, two in pairs), _DIGITS)


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
    """The counts of guesses between two neighbouring data sets, and what they prove.

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
            _log_of_ratio(least_right - self.delta, most_wrong),
            _log_of_ratio(1.0 - most_wrong - self.delta, 1.0 - least_right),
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


def _log_of_ratio(above: float, below: float) -> float:
    return math.log(above / below) if above > 0.0 else -math.inf


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
