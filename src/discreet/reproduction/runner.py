"""Runs the cases of a figure or table: the same people for every method of a trial.

Trial r draws its people, its noise and its public randomness from the reproduction's seed and r
alone, so the result does not depend on how many processes shared the work.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

import joblib
import numpy as np

from discreet.learners.base import Learner
from discreet.learners.gp_ucb.calibration import Calibration
from discreet.learners.registry import learner_class
from discreet.learners.sources import SourceLearner
from discreet.privacy import Budget, Guarantee, NonPrivate, SimulatedNoise
from discreet.privacy.accounting import GaussianEvent, gaussian_noise_multiplier
from discreet.problems.base import Crowd, Problem
from discreet.records import ReproductionRecord, Value
from discreet.reproduction.repeats import carried_out, mean_and_error
from discreet.simulation import Source, run_with_sources
from discreet.validation import FloatArray, IntArray, InvalidInput, probability, whole_number

# Points of a trace.
_TRACE_POINTS = 200
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
        sources: draws what auxiliary sources report before anybody is served, in their order.
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
        held = [e for trial in self.trials for e in trial.source_epsilons.values()]
        if held:
            promised["true_epsilon_auxiliary"] = max(held)
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

    def band(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Rounds, mean of the traces and its standard error (0 for one trial), each (points,)."""
        traces = np.stack([trial.trace for trial in self.trials])
        error = np.zeros(traces.shape[1])
        if len(traces) > 1:
            error = traces.std(axis=0, ddof=1) / math.sqrt(len(traces))
        return self.trials[0].rounds, traces.mean(axis=0), error


@dataclass(frozen=True)
class Request:
    """What a reproduction is asked for.

    Attributes:
        rounds: people in a trial.
        delta: of every budget, where the reproduction does not vary it.
        slow: whether methods that take long run too.
    """

    rounds: int
    delta: float | None
    slow: bool = False


@dataclass(frozen=True)
class Reproduction:
    """A figure or table of a paper.

    Attributes:
        name: how the command line calls it.
        title: what it shows, and where it comes from.
        trials: how many the paper ran.
        rounds: people in a trial in the paper, or several such numbers.
        delta: the paper's; None where delta is varied, or where budgets have none.
        seed: base of the trials' seeds.
        cases: what is run.
        note: what the numbers do and do not say.
        slow: what `Request.slow` adds, in words; "" for nothing.
        figure: whether its figure shows how regret grows over rounds, or results by epsilon.
    """

    name: str
    title: str
    trials: int
    rounds: int | tuple[int, ...]
    delta: float | None
    seed: int
    cases: Callable[[Request], list[Case]]
    note: str
    slow: str = ""
    figure: Literal["rounds", "epsilon"] = "rounds"

    @property
    def sizes(self) -> tuple[int, ...]:
        """All of `rounds`."""
        return (self.rounds,) if isinstance(self.rounds, int) else self.rounds

    def plan(
        self,
        rounds: int | Sequence[int] | None = None,
        delta: float | None = None,
        slow: bool = False,
        methods: Sequence[str] = (),
    ) -> list[Case]:
        """The cases of the named methods (all if none), with the paper's numbers by default.

        A method that runs only on request does so when it is named.

        Raises:
            InvalidInput: for numbers that are not allowed, a delta where it is varied, or a method
                that there is not.
        """
        asked = self.sizes if rounds is None else rounds
        sizes = [asked] if isinstance(asked, int) else list(asked)
        sizes = [whole_number(people, "rounds", minimum=2) for people in sizes]
        if delta is not None and self.delta is None:
            raise InvalidInput(
                f"delta was {delta}, but {self.name} varies it or needs none; leave it away."
            )
        if slow and not self.slow:
            raise InvalidInput(f"{self.name} leaves no method out; leave the wish for all away.")
        chosen = self.delta if delta is None else probability(delta, "delta")
        cases = self._made(sizes, chosen, slow)
        known = list(dict.fromkeys(case.method for case in cases))
        if self.slow and not set(methods) <= set(known):
            cases = self._made(sizes, chosen, True)
            known = list(dict.fromkeys(case.method for case in cases))
        unknown = [method for method in methods if method not in known]
        if unknown:
            raise InvalidInput(
                f"the method was {unknown[0]!r}; {self.name} has {', '.join(map(repr, known))}."
            )
        return [case for case in cases if not methods or case.method in methods]

    def _made(self, sizes: Sequence[int], delta: float | None, slow: bool) -> list[Case]:
        return [
            replace(case, rounds=people)
            for people in sizes
            for case in self.cases(Request(people, delta, slow))
        ]

    def run(self, cases: Sequence[Case], trials: int, jobs: int = 1) -> Iterator[Trial]:
        """Every case of a plan in every trial, in the order in which they finish."""
        return run_all(cases, trials, None, self.seed, jobs)

    def lines(
        self,
        trials: int | None = None,
        rounds: int | Sequence[int] | None = None,
        delta: float | None = None,
        slow: bool = False,
        jobs: int = 1,
    ) -> list[Line]:
        """Run everything and return it in the order of the cases."""
        cases = self.plan(rounds, delta, slow)
        number = self.trials if trials is None else trials
        return lines_of(cases, list(self.run(cases, number, jobs)))


def run_all(
    cases: Sequence[Case], trials: int, rounds: int | None, seed: int, jobs: int = 1
) -> Iterator[Trial]:
    """Every case in every trial; all cases of a trial start before the next trial.

    Cases have `rounds` people in a trial unless they say otherwise.

    Raises:
        InvalidInput: before anything runs, for numbers or cases that cannot work.
    """
    whole_number(trials, "trials", minimum=1)
    whole_number(jobs, "jobs", minimum=1)
    sizes = [whole_number(case.rounds or rounds, "rounds", minimum=1) for case in cases]
    for case, people in zip(cases, sizes, strict=True):
        case.make(people, 0, SimulatedNoise(0))
    tasks = (
        joblib.delayed(run_trial)(place, case, people, seed, number)
        for number in range(trials)
        for place, (case, people) in enumerate(zip(cases, sizes, strict=True))
    )
    return carried_out(tasks, jobs)


def run_trial(place: int, case: Case, rounds: int, seed: int, number: int) -> Trial:
    """One trial of case number `place`; the same arguments give the same result anywhere."""
    crowd, acting, drawn, public, elsewhere = np.random.SeedSequence([seed, number]).spawn(5)
    people = case.problem.sample(rounds, np.random.default_rng(crowd))
    noise = SimulatedNoise(drawn)
    draw = case.sources
    sources = () if draw is None else draw(np.random.default_rng(elsewhere))
    started = time.perf_counter()
    learner = case.make(rounds, int(public.generate_state(1)[0]), noise)
    values = run_with_sources(learner, people, sources, np.random.default_rng(acting), noise)
    seconds = time.perf_counter() - started
    measured = {case.metric: values}
    if isinstance(case.problem, Measured):
        measured = case.problem.metrics(people, values)
    at = np.unique(np.linspace(1, rounds, min(_TRACE_POINTS, rounds)).astype(np.int64))
    main = next(iter(measured.values()))
    totals = {metric: float(each.sum()) for metric, each in measured.items()}
    finals = {} if case.measure is None else dict(case.measure(learner, people))
    if case.metric in finals:
        totals = {case.metric: finals.pop(case.metric)}
    return Trial(
        case=place,
        number=number,
        totals=totals,
        rounds=at,
        trace=np.cumsum(main)[at - 1],
        seconds=seconds,
        guarantee=learner.guarantee(),
        excess_noise=_excess_noise(case.budget, learner),
        finals=finals,
        source_epsilons=(
            {name: one.epsilon for name, one in learner.source_guarantees().items()}
            if isinstance(learner, SourceLearner)
            else {}
        ),
    )


def _excess_noise(budget: Budget, learner: Learner[Any, Any, Any]) -> float | None:
    events = [release.event for release in learner.releases]
    multipliers = [e.noise_multiplier for e in events if isinstance(e, GaussianEvent)]
    if isinstance(budget, NonPrivate) or len(multipliers) < len(events) or not events:
        return None
    # Kernel learners show each person once, so the weakest release counts.
    return min(multipliers) / gaussian_noise_multiplier(budget.epsilon, budget.delta)


def lines_of(cases: Sequence[Case], trials: Sequence[Trial]) -> list[Line]:
    """Finished trials by case; cases without any are left out."""
    found = []
    for place, case in enumerate(cases):
        mine = sorted((t for t in trials if t.case == place), key=lambda trial: trial.number)
        if mine:
            found.append(Line(case, tuple(mine)))
    return found
