"""What a case of a figure or table is, and what its trials gave."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from discreet.experiments import Source
from discreet.intervals import half_width, mean_and_band, mean_and_error
from discreet.learners.base import Learner
from discreet.learners.calibration import Calibration
from discreet.learners.registry import learner_class
from discreet.privacy import Budget, Guarantee, NonPrivate, SimulatedNoise
from discreet.problems.base import Crowd, Problem
from discreet.records import ReproductionRecord, Value
from discreet.reproduction.probes import Context, LocalTrace
from discreet.validation import FloatArray, IntArray

REGRET = "regret"
NON_PRIVATE, UNIFORM = "non-private", "uniform"


@runtime_checkable
class Measured(Protocol):
    """A problem whose regret is counted in several ways."""

    def metrics(self, people: Crowd, values: FloatArray) -> dict[str, FloatArray]:
        """Contributions (n,) by metric; the first is the main one."""
        ...


# What the learner is like when everybody has been served, by name.
Measure = Callable[[Learner[Any, Any, Any], Crowd], Mapping[str, float]]
# The auxiliary sources of a trial.
DrawSources = Callable[[np.random.Generator], Sequence[Source]]


@dataclass(frozen=True, eq=False)
class Case:
    """One method in one setting of a figure or table.

    Attributes:
        method: `published`, `ours`, `non-private`, `uniform`, ...
        problem: where people come from.
        learner: its registered name.
        budget: what it is asked to keep.
        options: of the learner, as in a study file.
        calibration: a published one; None for the learner's own.
        setting: what was varied, for records; keys that differ get a column of the table.
        panel: the panel of the plot; None for every panel, "" for none.
        label: what the plot calls it.
        paper: the numbers printed in the paper, by metric.
        metric: what its regret is called, where the problem does not count it in several ways; or
            the name of what `measure` finds, which is then reported in place of regret.
        slow: whether it runs only on request.
        arguments: of the learner, which no study file can hold.
        measure: what is measured of the learner when everybody has been served.
        rounds: people in a trial; None for as many as the run is asked for.
        sources: draws what auxiliary sources report, in their order.
        probe: a context at which policies are watched; None for none.
    """

    method: str
    problem: Problem
    learner: str
    budget: Budget = field(default_factory=NonPrivate)
    options: Mapping[str, Any] = field(default_factory=dict)
    calibration: Calibration | None = None
    setting: Mapping[str, Value] = field(default_factory=dict)
    panel: str | None = None
    label: str = ""
    paper: Mapping[str, float] = field(default_factory=dict)
    metric: str = REGRET
    slow: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)
    measure: Measure | None = None
    rounds: int | None = None
    sources: DrawSources | None = None
    probe: Context | None = None

    @property
    def private(self) -> bool:
        """Whether anything is promised."""
        return not isinstance(self.budget, NonPrivate)

    def make(self, rounds: int, public_seed: int, noise: SimulatedNoise) -> Learner[Any, Any, Any]:
        """A new learner for `rounds` people."""
        kind = learner_class(self.learner)
        read = {**kind.read_options(dict(self.options)), **self.arguments}
        if self.calibration is not None:
            read["calibration"] = self.calibration
        return kind(
            self.problem.domain,
            self.problem.space,
            self.budget,
            horizon=rounds,
            reward_bounds=self.problem.reward_bounds,
            public_seed=public_seed,
            noise=noise,
            **read,
        )


@dataclass(frozen=True, eq=False)
class Trial:
    """What one trial of one case gave.

    Attributes:
        case: the case's number.
        number: the trial's number.
        totals: the sums over all people, by metric; the first metric is the main one.
        rounds: (points,) numbers of people at which the trace was taken.
        trace: (points,) the main metric summed up to there.
        seconds: spent by the learner, its policies and reports.
        guarantee: what was really promised, derived from the releases.
        excess_noise: the noise over the least that keeps the budget, below 1 where the budget is
            not kept; None without Gaussian noise.
        finals: what the case measures of the learner at the end, besides `totals`.
        source_epsilons: what the people of each source were really promised.
        local: what policies did at the case's probe.
    """

    case: int
    number: int
    totals: Mapping[str, float]
    rounds: IntArray
    trace: FloatArray
    seconds: float
    guarantee: Guarantee
    excess_noise: float | None
    finals: Mapping[str, float] = field(default_factory=dict)
    source_epsilons: Mapping[str, float] = field(default_factory=dict)
    local: LocalTrace | None = None


@dataclass(frozen=True, eq=False)
class Line:
    """One case over its finished trials.

    Attributes:
        case: what ran.
        trials: at least one, in order.
    """

    case: Case
    trials: tuple[Trial, ...]

    @property
    def seconds(self) -> float:
        """Of a trial, on average."""
        return math.fsum(trial.seconds for trial in self.trials) / len(self.trials)

    @property
    def true_epsilon(self) -> float | None:
        """What the noise guarantees at the budget's delta; None where nothing is promised."""
        if not self.case.private:
            return None
        return max(trial.guarantee.epsilon for trial in self.trials)

    @property
    def true_epsilon_auxiliary(self) -> float | None:
        """What was really promised to people of sources, the largest; None without sources."""
        held = [e for trial in self.trials for e in trial.source_epsilons.values()]
        return max(held, default=None)

    @property
    def excess_noise(self) -> float | None:
        """The least over trials of `Trial.excess_noise`."""
        found = [trial.excess_noise for trial in self.trials if trial.excess_noise is not None]
        return min(found, default=None)

    @cached_property
    def records(self) -> tuple[ReproductionRecord, ...]:
        """One for each metric, the main one first, and for each final measure."""
        budget = self.case.budget
        promised: dict[str, Value] = {
            "trust_model": budget.trust_model,
            "epsilon": budget.epsilon if self.case.private else None,
            "delta": budget.delta if self.case.private else None,
            "true_epsilon": self.true_epsilon,
            "excess_noise": self.excess_noise,
            "protects": self.trials[0].guarantee.adjacency.record if self.case.private else None,
            "seconds": round(self.seconds, 3),
        }
        if self.true_epsilon_auxiliary is not None:
            promised["true_epsilon_auxiliary"] = self.true_epsilon_auxiliary
        made = []
        found = [{**trial.totals, **trial.finals} for trial in self.trials]
        for metric in found[0]:
            mean, error = mean_and_error([each[metric] for each in found])
            made.append(
                ReproductionRecord(
                    method=self.case.method,
                    metric=metric,
                    mean=mean,
                    standard_error=error,
                    trials=len(found),
                    paper=self.case.paper.get(metric),
                    setting={**self.case.setting, **promised},
                )
            )
        return tuple(made)

    @property
    def half_width(self) -> float:
        """Of the interval around the mean of the main metric; 0 for one trial."""
        record = self.records[0]
        return half_width(record.standard_error, record.trials) if record.trials > 1 else 0.0

    def band(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Rounds, and mean and half width of the traces' interval, each (points,)."""
        traces = np.stack([trial.trace for trial in self.trials])
        return self.trials[0].rounds, *mean_and_band(traces)

    @property
    def local(self) -> tuple[LocalTrace, ...]:
        """What was seen at the case's probe, by trial; () without one."""
        return tuple(trial.local for trial in self.trials if trial.local is not None)


def lines_of(cases: Sequence[Case], trials: Sequence[Trial]) -> list[Line]:
    """Finished trials by case; cases without any are left out."""
    found = []
    for place, case in enumerate(cases):
        mine = sorted((t for t in trials if t.case == place), key=lambda trial: trial.number)
        if mine:
            found.append(Line(case, tuple(mine)))
    return found
