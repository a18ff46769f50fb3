"""Runs the cases of a figure or table: the same people for every method of a trial.

Trial r draws its people, its noise and its public randomness from the reproduction's seed and r
alone, so the result does not depend on how many processes shared the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import joblib
import numpy as np

from discreet.experiments import run_with_sources
from discreet.learners.base import Learner
from discreet.learners.sources import SourceLearner
from discreet.privacy import Budget, NonPrivate, SimulatedNoise
from discreet.privacy.accounting import GaussianEvent
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.reproduction.cases import Case, Line, Measured, Trial, lines_of
from discreet.reproduction.probes import Probe
from discreet.reproduction.repeats import carried_out
from discreet.validation import InvalidInput, probability, whole_number

# Points of a trace.
_TRACE_POINTS = 200


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
                f"delta was {delta}, but {self.name} varies it or needs none; leave it out."
            )
        if slow and not self.slow:
            raise InvalidInput(f"{self.name} leaves no method out; do not ask for all of them.")
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
        if case.probe is not None:
            Probe(case.probe, case.problem)
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
    probe = None if case.probe is None else Probe(case.probe, case.problem)
    started = time.perf_counter()
    learner = case.make(rounds, int(public.generate_state(1)[0]), noise)
    acting_rng, watching = np.random.default_rng(acting), () if probe is None else (probe,)
    values = run_with_sources(learner, people, sources, acting_rng, noise, watching)
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
    local = None if probe is None else probe.trace(at)
    finals |= {} if local is None else local.finals
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
        local=local,
    )


def _excess_noise(budget: Budget, learner: Learner[Any, Any, Any]) -> float | None:
    events = [release.event for release in learner.releases]
    multipliers = [e.noise_multiplier for e in events if isinstance(e, GaussianEvent)]
    if isinstance(budget, NonPrivate) or len(multipliers) < len(events) or not events:
        return None
    # Kernel learners show each person once, so the weakest release counts.
    return min(multipliers) / gaussian_noise_multiplier(budget.epsilon, budget.delta)
