"""The facts of a plan: its lines, means with their intervals, answers and advice.

| array | shape  | meaning                                                              |
|-------|--------|----------------------------------------------------------------------|
| worth | (r, h) | what a person had on average, in each replicate and at each horizon   |
| gain  | (r, h) | the same less that of the reference on the same people                |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from discreet.lab.experiments import Setting
from discreet.lab.experiments.means import CONFIDENCE, half_width, mean_and_error
from discreet.privacy import Guarantee
from discreet.validation import FloatArray

FEWEST = 6
"""Replicates below which no verdict is given: even if all of 5 agreed, the sign test would have a
one-sided p-value of 1/32, above the 2.5% of a verdict."""
_MOST = 1000  # replicates that a plan may be advised to take
_POWER = 0.8  # with which that number decides, if mean and spread are as estimated

Word = Literal["yes", "no", "cannot tell yet"]
Kind = Literal["private", "none", "reference"]
Asked = Literal["people", "epsilon", "loss"]


@dataclass(frozen=True, eq=False)
class PlanLine:
    """One line of a plan: a budget with the learner that it got, or a reference.

    Attributes:
        kind: private, none (no privacy) or reference.
        setting: what was simulated.
        worth: (r, h) what a person had on average, more is better.
        gain: (r, h) the same less that of the reference on the same people.
        guarantee: what was promised; None for references.
        traced: whether all horizons are read along one run.
    """

    kind: Kind
    setting: Setting
    worth: FloatArray
    gain: FloatArray
    guarantee: Guarantee | None
    traced: bool

    @property
    def epsilon(self) -> float | None:
        """Of the budget; None without privacy."""
        return self.setting.budget.epsilon if self.kind == "private" else None

    @property
    def learner(self) -> str:
        """The registered name of the learner or reference."""
        return self.setting.learner


@dataclass(frozen=True)
class Answer:
    """An answer to an inverse question, with its 95% interval.

    Attributes:
        asked: what it is a number of: people, epsilon, or loss as a share.
        value: the estimate; infinite beyond `most`, None where there is no gain to keep.
        low, high: the ends of the interval; they may lie at `least` or be infinite.
        least, most: what could be told apart: beyond them an answer is "at most" or "more than".
        simulated: up to where it rests on simulations; beyond that on a curve.
    """

    asked: Asked
    value: float | None
    low: float
    high: float
    least: float
    most: float
    simulated: float

    @property
    def extrapolated(self) -> bool:
        """Whether the estimate lies beyond what was simulated."""
        return self.value is not None and self.simulated < self.value <= self.most

    @property
    def reached(self) -> bool:
        """Whether there is an estimate within what can be answered."""
        return self.value is not None and self.value <= self.most


@dataclass(frozen=True)
class Interval:
    """A mean over replicates with its 95% interval (Student's t); NaN with a single one."""

    mean: float
    low: float
    high: float


def student(values: FloatArray) -> Interval:
    """The mean of values (r,) with its interval."""
    mean, error = mean_and_error(values)
    half = half_width(error, len(values))
    return Interval(mean, mean - half, mean + half)


def ratio(part: FloatArray, whole: FloatArray) -> Interval:
    """Mean of `part` (r,) over mean of `whole` (r,), with Fieller's 95% interval.

    The interval holds all k for which Student's t does not reject mean(part - k whole) = 0, so it
    agrees with `verdict` on that difference. It is unbounded where the mean of `whole` is not
    clearly above 0, and NaN for a single replicate.

    Source: E. C. Fieller, Some problems in interval estimation (1954).
    """
    count = len(whole)
    p, w = float(part.mean()), float(whole.mean())
    if count < 2:
        return Interval(p / w, math.nan, math.nan)
    (pp, pw), (_, ww) = np.cov(part, whole) * half_width(1.0, count) ** 2 / count
    leading, middle = w * w - ww, p * w - pw
    if w <= 0.0 or leading <= 0.0:
        return Interval(p / w, -math.inf, math.inf)
    root = math.sqrt(max(middle * middle - leading * (p * p - pp), 0.0))
    return Interval(p / w, (middle - root) / leading, (middle + root) / leading)


@dataclass(frozen=True)
class Verdict:
    """Whether something holds, as far as the replicates tell.

    Attributes:
        word: yes, no, or cannot tell yet.
        replicates: in all that would probably decide; None where more than 1,000 would be needed.
    """

    word: Word
    replicates: int | None

    @property
    def open(self) -> bool:
        """Whether it cannot be told yet."""
        return self.word == "cannot tell yet"


def verdict(values: FloatArray, bar: float = 0.0) -> Verdict:
    """Whether the true mean of values (r,) is above a bar, by their 95% interval."""
    count, seen = len(values), student(values)
    if count >= FEWEST and seen.low > bar:
        return Verdict("yes", count)
    if count >= FEWEST and seen.high <= bar:
        return Verdict("no", count)
    counts = np.arange(max(count if count < FEWEST else count + 1, FEWEST), _MOST + 1)
    _, error = mean_and_error(values)
    spread = 0.0 if count < 2 else error * math.sqrt(count)
    sure = stdtrit(counts - 1, 0.5 + 0.5 * CONFIDENCE) + stdtrit(counts - 1, _POWER)
    enough = counts[spread * sure <= abs(seen.mean - bar) * np.sqrt(counts)]
    return Verdict("cannot tell yet", int(enough[0]) if len(enough) else None)


@dataclass(frozen=True)
class Advice:
    """What a plan recommends.

    Attributes:
        verdict: whether some epsilon that was tried keeps the gain asked for.
        epsilon: the smallest one that does, as all larger ones do; None unless the verdict is yes.
        best: the epsilon that keeps most of those simulated.
        people: with how many people.
        lose_at_most: the share of the gain that may be lost.
    """

    verdict: Verdict
    epsilon: float | None
    best: float
    people: int
    lose_at_most: float
