"""The facts of a plan: its lines, means with their intervals, answers and advice.

| array | shape  | meaning                                                              |
|-------|--------|----------------------------------------------------------------------|
| worth | (r, h) | what a person had on average, in each replicate and at each horizon   |
| gain  | (r, h) | the same less that of the reference on the same people                |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from discreet.experiments import Setting
from discreet.experiments.means import half_width, mean_and_error
from discreet.privacy import Guarantee
from discreet.validation import FloatArray

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


@dataclass(frozen=True)
class Advice:
    """What a plan recommends.

    Attributes:
        epsilon: the smallest one that clearly keeps the gain asked for, as all larger ones do; None
            where none does.
        best: the epsilon that keeps most, where none does.
        people: with how many people.
        lose_at_most: the share of the gain that may be lost.
    """

    epsilon: float | None
    best: float
    people: int
    lose_at_most: float
