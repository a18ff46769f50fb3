"""Which row to ask for next: a score for every row, from its posterior mean and deviation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from discreet.validation import FloatArray, positive_number, probability

_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)


@runtime_checkable
class Acquisition(Protocol):
    """A rule that scores rows; the largest score is asked for.

    Attributes:
        name: as settings call it.
        shared: whether it is given the deviation of what a row shares with others, in place of the
            whole. With noisy rows the rest is luck of the row's own, the same for all that were
            not asked.
    """

    name: str
    shared: bool

    def scores(
        self, mean: FloatArray, deviation: FloatArray, best: float, question: int
    ) -> FloatArray:
        """(n,) scores.

        Args:
            mean: (n,) posterior means.
            deviation: (n,) posterior standard deviations.
            best: the best posterior mean of a row that was answered, or the prior mean.
            question: the number of the question, from 1.
        """
        ...


@dataclass(frozen=True)
class ExpectedImprovement:
    """log E max(f - best, 0) (Jones, Schonlau and Welch 1998, eq. 15).

    The logarithm keeps rows apart whose improvement would underflow. Of a noisy row only what it
    shares with others counts: with its own luck in, the rule would buy tickets beside the best row
    instead of looking elsewhere.
    """

    name = "expected_improvement"
    shared = True

    def scores(
        self, mean: FloatArray, deviation: FloatArray, best: float, question: int
    ) -> FloatArray:
        sd = np.maximum(deviation, 1e-12)
        score: FloatArray = np.log(sd) + _log_improvement((mean - best) / sd)
        return score


@dataclass(frozen=True)
class PublishedUCB:
    """Algorithm 2 of Kharkovskii et al. (2020): beta_t = 2 log(n t^2 pi^2 / (6 delta')).

    Attributes:
        delta: delta', the chance with which the regret bound may fail (the paper: 0.025).
    """

    delta: float = 0.025
    name = "gp_ucb"
    shared = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", probability(self.delta, "delta of GP-UCB"))

    def scores(
        self, mean: FloatArray, deviation: FloatArray, best: float, question: int
    ) -> FloatArray:
        beta = 2.0 * math.log(len(mean) * question**2 * math.pi**2 / (6.0 * self.delta))
        score: FloatArray = mean + math.sqrt(beta) * deviation
        return score


@dataclass(frozen=True)
class UpperConfidence:
    """mean + multiplier x deviation.

    Attributes:
        multiplier: None for sqrt(2 log n), about the largest of n independent standard normal
            numbers. With noisy rows each row has some luck of its own; a smaller multiplier spends
            many questions on neighbours of the first high answer.
    """

    multiplier: float | None = None
    name = "upper_confidence"
    shared = False

    def __post_init__(self) -> None:
        if self.multiplier is not None:
            object.__setattr__(self, "multiplier", positive_number(self.multiplier, "multiplier"))

    def scores(
        self, mean: FloatArray, deviation: FloatArray, best: float, question: int
    ) -> FloatArray:
        multiplier = self.multiplier
        if multiplier is None:
            multiplier = math.sqrt(2.0 * math.log(max(len(mean), 2)))
        score: FloatArray = mean + multiplier * deviation
        return score


ACQUISITIONS: dict[str, Callable[[], Acquisition]] = {
    kind.name: kind for kind in (ExpectedImprovement, UpperConfidence, PublishedUCB)
}


def expected_improvement(mean: FloatArray, deviation: FloatArray, best: float) -> FloatArray:
    """(n,) E max(f - best, 0) itself."""
    improvement: FloatArray = np.exp(ExpectedImprovement().scores(mean, deviation, best, 1))
    return improvement


def _log_improvement(u: FloatArray) -> FloatArray:
    """log(phi(u) + u Phi(u)), also far in the lower tail, where the two terms cancel."""
    from scipy.special import erfcx, log_ndtr

    log_density = -0.5 * u * u - _LOG_ROOT_TWO_PI
    low = u < -1.0
    safe = np.where(low, u, -1.0)
    # Phi(u) / phi(u) = sqrt(pi / 2) erfcx(-u / sqrt 2); beyond -1e4 the bracket is 1 / u^2.
    mills = math.sqrt(math.pi / 2.0) * erfcx(-safe / math.sqrt(2.0))
    bracket = np.where(safe > -1e4, np.maximum(1.0 + safe * mills, 1e-300), 1.0 / safe**2)
    high = np.where(low, 0.0, u)
    direct = np.exp(-0.5 * high * high - _LOG_ROOT_TWO_PI) + high * np.exp(log_ndtr(high))
    found: FloatArray = np.where(low, log_density + np.log(bracket), np.log(direct))
    return found
