"""What was simulated, and the clock that limits it.

A run is one replicate of one setting with so many people. Whether its trace also says what fewer
people would have had depends on the learner: one that plans for its horizon does something else
with another. `depends_on_horizon` tries: only a learner that never looked at its horizon, and did
the same for all people under two of them, is read along its trace; all others, and those that
refuse one of the two, run once for each number of people, unless there is no time for that.

| array  | shape  | meaning                                                            |
|--------|--------|--------------------------------------------------------------------|
| worth  | (r, h) | what a person had on average, more is better; a row a replicate, a |
|        |        | column a horizon; NaN where it was not simulated                    |
| gain   | (r, h) | the same less that of a reference on the same people                |
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import joblib
import numpy as np

from discreet.lab.environments.base import Population, Problem
from discreet.lab.experiments import (
    REFERENCES,
    Seed,
    Setting,
    grown,
    people_of,
    simulate,
)
from discreet.lab.experiments.serving import run_learner
from discreet.learners.base import Learner
from discreet.learners.registry import learner_class, on_space
from discreet.parallel import in_parallel
from discreet.privacy import Guarantee, SimulatedNoise
from discreet.validation import FloatArray, InvalidInput

TRIED = 1000
"""People on whom a learner is tried under two horizons."""
# Where a single number of people was timed, time is taken to grow a little less than in proportion
# to people, as some of it does not depend on them.
_GROWTH = 0.8


class _Read(Exception):
    """The learner asked for its horizon."""


@dataclass(frozen=True)
class Run:
    """One replicate of one setting.

    Attributes:
        setting: what runs.
        people: how many are served.
        at: the numbers of people at which its worth is read, the last of them `people`.
        replicate: its number.
    """

    setting: Setting
    people: int
    at: tuple[int, ...]
    replicate: int


@dataclass(frozen=True, eq=False)
class Ran:
    """What a run gave: worth (h,) at its numbers of people, its time, and what was promised."""

    run: Run
    worth: FloatArray
    seconds: float
    guarantee: Guarantee | None


def carry_out(problem: Problem, seed: int, run: Run) -> Ran:
    """One run; the same arguments give the same anywhere."""
    if run.setting.learner not in REFERENCES:
        learner_class(run.setting.learner)  # which each process imports once, on nobody's time
    started = time.perf_counter()
    outcome = simulate(problem, run.setting, run.people, seed, run.replicate)
    sign = 1.0 if problem.metric == "reward" else -1.0
    at = np.asarray(run.at, dtype=np.float64)
    totals = np.interp(at, outcome.rounds, outcome.trace)
    return Ran(run, sign * totals / at, time.perf_counter() - started, outcome.guarantee)


def depends_on_horizon(
    problem: Problem, setting: Setting, people: int, longest: int, seed: int
) -> bool:
    """Whether what a learner does may depend on its horizon.

    It does where the learner reads its horizon while it serves people, and where it served the same
    people otherwise under a longer one.

    Args:
        problem: whose people are served.
        setting: a learner under a budget.
        people: how many are tried, at most 1,000; the shorter horizon.
        longest: the longer one; at least twice that.
        seed: of what is drawn.
    """
    short = min(people, TRIED)
    crowd = people_of(problem, short, seed, 0)
    try:
        first, second = (
            _serve(problem, setting, crowd, horizon, seed)
            for horizon in (short, max(longest, 2 * short))
        )
    except (_Read, InvalidInput):
        return True
    return not np.array_equal(first, second)


def _serve(
    problem: Problem, setting: Setting, crowd: Population, horizon: int, seed: int
) -> FloatArray:
    """What each person contributed; `_Read` as soon as the learner reads its horizon."""
    _, acting, drawn, public, _ = Seed(seed, 0).streams(5)
    noise = SimulatedNoise(drawn)
    kind = on_space(learner_class(setting.learner), problem.space)
    learner = _watched(kind)(
        problem.domain,
        problem.space,
        setting.budget,
        horizon=horizon,
        reward_bounds=problem.reward_bounds,
        public_seed=int(public.generate_state(1)[0]),
        noise=noise,
        **kind.read_options(setting.options),
    )
    return run_learner(learner, crowd, np.random.default_rng(acting), noise)


def _watched(kind: type[Learner[Any, Any, Any]]) -> Any:
    """The same class, which cannot read its horizon."""

    def read(learner: Any) -> int | None:
        raise _Read

    def keep(learner: Any, horizon: int | None) -> None:
        vars(learner)["horizon"] = horizon

    return type(kind.__name__, (kind,), {"horizon": property(read, keep)})


@dataclass
class Results:
    """What was simulated so far.

    Attributes:
        problem, seed: as in every run.
        jobs: processes.
        traced: labels of settings whose trace says what fewer people would have had.
        rough: those of others that are read along their trace too, as there is no time for more.
    """

    problem: Problem
    seed: int
    jobs: int = 1
    traced: set[str] = field(default_factory=set)
    rough: set[str] = field(default_factory=set)
    _worth: dict[tuple[str, int, int], dict[int, float]] = field(default_factory=dict)
    _seconds: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    _guarantees: dict[str, Guarantee] = field(default_factory=dict)

    def along(self, label: str) -> bool:
        """Whether a setting is read along its longest run."""
        return label in self.traced or label in self.rough

    def runs(
        self,
        settings: Iterable[Setting],
        horizons: Sequence[int],
        replicate: int,
        along: bool = False,
    ) -> list[Run]:
        """The runs that measure settings at horizons, in one replicate; all of them `along` one
        run each, or those that may be."""
        runs = []
        for setting in settings:
            once = along or self.along(setting.label)
            for people in horizons[-1:] if once else horizons:
                at = tuple(each for each in horizons if each <= people)
                runs.append(Run(setting, people, at, replicate))
        return runs

    def reference_runs(
        self, settings: Iterable[Setting], horizons: Sequence[int], replicate: int
    ) -> list[Run]:
        """The runs of references, on the people of traces as well as on those of each horizon."""
        longest = horizons[-1]
        return [
            Run(setting, people, tuple(horizons) if people == longest else (people,), replicate)
            for setting in settings
            for people in horizons
        ]

    def carry_out(
        self,
        runs: Sequence[Run],
        done: Callable[[Ran], None] | None = None,
        clock: Clock | None = None,
        share: float = 1.0,
    ) -> bool:
        """Simulate and keep what is not there yet.

        Args:
            runs: what is simulated, the longest first.
            done: called after each run.
            clock: whose limit, or share of it, ends this early; None to finish in any case.
            share: of the limit.

        Returns:
            Whether all runs are finished.
        """
        tasks = (
            joblib.delayed(carry_out)(self.problem, self.seed, run)
            for run in sorted(runs, key=self.expected, reverse=True)
            if not self.has(run)
        )
        for ran in in_parallel(tasks, self.jobs):
            self._keep(ran)
            if done is not None:
                done(ran)
            if clock is not None and not clock.allows(0.0, share):
                break
        return all(map(self.has, runs))

    def has(self, run: Run) -> bool:
        """Whether a run is finished."""
        key = (run.setting.label, run.people, run.people)
        return run.replicate in self._worth.get(key, {})

    def _keep(self, ran: Ran) -> None:
        run, label = ran.run, ran.run.setting.label
        for people, worth in zip(run.at, ran.worth.tolist(), strict=True):
            self._worth.setdefault((label, run.people, people), {})[run.replicate] = worth
        self._seconds.setdefault((label, run.people), []).append(ran.seconds)
        if ran.guarantee is not None:
            kept = self._guarantees.get(label)
            if kept is None or ran.guarantee.epsilon > kept.epsilon:
                self._guarantees[label] = ran.guarantee

    def timed(self, label: str, people: int, seconds: float) -> None:
        """How long a try took that was no run."""
        self._seconds.setdefault((label, people), []).append(seconds)

    def expected(self, run: Run) -> float:
        """About how many seconds a run takes: as measured, or from the nearest one that was;
        infinity where nothing is known."""
        label = run.setting.label
        known = {people for name, people in self._seconds if name == label}
        if not known:
            return math.inf
        nearest, *others = sorted(known, key=lambda people: abs(np.log(people / run.people)))
        seconds, times = fmean(self._seconds[label, nearest]), max(1.0, run.people / nearest)
        if not others or others[0] > nearest or times == 1.0:
            return seconds * float(times**_GROWTH)
        two = {people: fmean(self._seconds[label, people]) for people in (others[0], nearest)}
        return min(grown(two, run.people), seconds * times)

    def total(self, runs: Sequence[Run]) -> float:
        """About how many seconds all processes together take for runs; those of which nothing is
        known are taken to be as long as the others."""
        seconds = [self.expected(run) for run in runs]
        known = [each for each in seconds if math.isfinite(each)]
        if not known:
            return 0.0
        return max(sum(known) * len(seconds) / len(known) / self.jobs, max(known))

    def guarantee(self, label: str) -> Guarantee | None:
        """The weakest promise of any run of a setting."""
        return self._guarantees.get(label)

    def worth(self, label: str, horizons: Sequence[int], replicates: Sequence[int]) -> FloatArray:
        """(r, h) see the module."""
        return self._table(label, horizons, replicates, self.along(label))

    def gain(
        self, label: str, reference: str, horizons: Sequence[int], replicates: Sequence[int]
    ) -> FloatArray:
        """(r, h) the worth of a setting less that of a reference on the same people."""
        along = self.along(label)
        return self._table(label, horizons, replicates, along) - self._table(
            reference, horizons, replicates, along
        )

    def _table(
        self, label: str, horizons: Sequence[int], replicates: Sequence[int], along: bool
    ) -> FloatArray:
        """Worth read along the longest run, or at the end of one for each horizon."""
        return np.array(
            [
                [
                    self._worth.get((label, horizons[-1] if along else people, people), {}).get(
                        replicate, np.nan
                    )
                    for people in horizons
                ]
                for replicate in replicates
            ]
        )


@dataclass
class Clock:
    """What is left of a limit on time.

    Attributes:
        limit: in seconds; None for none.
    """

    limit: float | None
    _started: float = field(default_factory=time.monotonic)

    @property
    def elapsed(self) -> float:
        """Seconds since the plan began."""
        return time.monotonic() - self._started

    def allows(self, seconds: float, share: float = 1.0) -> bool:
        """Whether so many more seconds end within a share of the limit."""
        return self.limit is None or self.elapsed + seconds <= share * self.limit
