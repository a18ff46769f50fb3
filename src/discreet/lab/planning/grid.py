"""The simulations of a plan: a grid of settings, numbers of people and replicates.

All settings of a replicate serve the same people. Each number of people is simulated by itself,
because learners may plan for their horizon.

| array | shape  | meaning                                                          |
|-------|--------|------------------------------------------------------------------|
| worth | (r, h) | the metric per person, more is better; a row for each replicate, |
|       |        | a column for each horizon                                        |

Notes
-----
*Successive halving.* The contenders of a budget run in rungs of 4, 8, 16, .. replicates. After each
rung those are dropped whose paired difference from the leader is below 0 by Student's t, at the
one-sided level

    0.01 / (rungs * the sum over budgets of (contenders - 1)).

By the union bound a true best is dropped anywhere in a plan with probability at most 1%, as far as
means over replicates are normal. After the last rung the highest mean wins. It is flattered by
having been selected (the winner's curse), so a plan measures winners on fresh replicates.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import joblib
import numpy as np

from discreet.lab.environments.base import Problem
from discreet.lab.experiments import REFERENCES, Setting, grown, simulate
from discreet.lab.experiments.means import mean_and_error, p_value
from discreet.learners.registry import learner_class
from discreet.parallel import in_parallel
from discreet.privacy import Guarantee
from discreet.validation import FloatArray, InvalidInput

ERROR = 0.01
"""The probability that a true best is dropped anywhere in a plan."""
FIRST_RUNG = 4
FIRST_REPLICATE = 1_000_000
"""Number of the first replicate that selects; those that measure start at 0."""
_TRIES, _LONG = (100, 400, 1600, 6400), 0.3  # people, until a run takes this many seconds


class Run(NamedTuple):
    """One replicate of one setting.

    Attributes:
        setting: what runs.
        people: how many are served.
        replicate: its number.
    """

    setting: Setting
    people: int
    replicate: int


class Ran(NamedTuple):
    """A finished run: its worth per person, its seconds, and the guarantee of its learner."""

    run: Run
    worth: float
    seconds: float
    guarantee: Guarantee | None


def carry_out(problem: Problem, seed: int, run: Run) -> Ran:
    """One run; the same arguments give the same anywhere."""
    if run.setting.learner not in REFERENCES:
        learner_class(run.setting.learner)  # its import is not part of the run's time
    started = time.perf_counter()
    outcome = simulate(problem, run.setting, run.people, seed, run.replicate)
    sign = 1.0 if problem.metric == "reward" else -1.0
    worth = sign * outcome.record.value / run.people
    return Ran(run, worth, time.perf_counter() - started, outcome.guarantee)


def tried_seconds(problem: Problem, seed: int, setting: Setting, people: int) -> dict[int, float]:
    """Seconds of short runs, by their numbers of people; {} where it works with none of these."""
    seconds: dict[int, float] = {}
    for count in (*(each for each in _TRIES if each < people), people):
        if seconds and (count == people or max(seconds.values()) > _LONG):
            break
        try:
            seconds[count] = carry_out(problem, seed, Run(setting, count, FIRST_REPLICATE)).seconds
        except InvalidInput:  # too few people for it
            continue
    return seconds


@dataclass
class SimulationGrid:
    """The runs of a plan that are finished.

    Attributes:
        problem, seed: as in every run.
        jobs: processes.
        limit: seconds that the plan may take; infinity for no limit.
        seconds: by label and number of people, how long a run takes.
        guarantees: by label, the weakest of any run.
    """

    problem: Problem
    seed: int
    jobs: int = 1
    limit: float = math.inf
    seconds: dict[str, dict[int, float]] = field(default_factory=dict)
    guarantees: dict[str, Guarantee] = field(default_factory=dict)
    _worth: dict[tuple[str, int, int], float] = field(default_factory=dict)
    _started: float = field(default_factory=time.monotonic)

    @property
    def elapsed(self) -> float:
        """Seconds since the plan began."""
        return time.monotonic() - self._started

    def allows(self, runs: Sequence[Run], times: int = 1, share: float = 1.0) -> bool:
        """Whether unfinished runs, so often, end within a share of the limit."""
        if math.isinf(self.limit):
            return True
        return self.elapsed + times * self.total(runs) <= share * self.limit

    def carry_out(
        self,
        runs: Sequence[Run],
        done: Callable[[], None] = lambda: None,
        until: float = math.inf,
    ) -> bool:
        """Simulate what is not there yet, the longest runs first; whether all are finished.

        Args:
            runs: what is simulated.
            done: called after each run.
            until: seconds since the plan began, after which no other run is waited for.
        """
        missing = [run for run in runs if not self._has(run)]
        tasks = (
            joblib.delayed(carry_out)(self.problem, self.seed, run)
            for run in sorted(missing, key=self._expected, reverse=True)
        )
        for run, worth, seconds, guarantee in in_parallel(tasks, self.jobs):
            label = run.setting.label
            self._worth[label, run.people, run.replicate] = worth
            self.seconds.setdefault(label, {})[run.people] = seconds
            kept = self.guarantees.get(label)
            if guarantee is not None and (kept is None or guarantee.epsilon > kept.epsilon):
                self.guarantees[label] = guarantee
            done()
            if self.elapsed > until:
                break
        return all(map(self._has, runs))

    def _has(self, run: Run) -> bool:
        return (run.setting.label, run.people, run.replicate) in self._worth

    def _expected(self, run: Run) -> float:
        known = self.seconds.get(run.setting.label, {})
        return known[run.people] if run.people in known else grown(known, run.people)

    def total(self, runs: Iterable[Run]) -> float:
        """About how many seconds all processes together take for runs; those of which nothing is
        known count as the average of the others."""
        seconds = [self._expected(run) for run in runs]
        known = [each for each in seconds if math.isfinite(each)]
        if not known:
            return 0.0
        return max(sum(known) * len(seconds) / len(known) / self.jobs, max(known))

    def worth(self, label: str, horizons: Sequence[int], replicates: Sequence[int]) -> FloatArray:
        """(r, h) see the module; NaN where it was not simulated."""
        rows = [
            [self._worth.get((label, people, number), math.nan) for people in horizons]
            for number in replicates
        ]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(horizons))


def runs_of(
    settings: Iterable[Setting], horizons: Sequence[int], replicates: Iterable[int]
) -> list[Run]:
    """One run for each setting, horizon and replicate."""
    return [
        Run(setting, people, number)
        for number in replicates
        for setting in settings
        for people in horizons
    ]


@dataclass(frozen=True)
class RaceResult:
    """How a contender did in the selection for a budget.

    Attributes:
        epsilon: of the budget; None for no privacy.
        setting: the contender under it.
        people: with how many it ran.
        replicates: how many it ran.
        mean: its worth per person, in these replicates; NaN without any.
        won: whether it was chosen.
        dropped: whether it was clearly behind after some rung.
    """

    epsilon: float | None
    setting: Setting
    people: int
    replicates: int
    mean: float
    won: bool
    dropped: bool


def rungs(replicates: int) -> tuple[int, ...]:
    """The numbers of replicates after which contenders are compared: 4, 8, 16, .., `replicates`."""
    counts, count = [], FIRST_RUNG
    while count < replicates:
        counts.append(count)
        count *= 2
    return (*counts, max(replicates, 2))


def successive_halving(
    grid: SimulationGrid,
    groups: Mapping[float | None, Sequence[Setting]],
    people: int,
    replicates: int,
    share: float = 1.0,
    done: Callable[[], None] = lambda: None,
) -> list[RaceResult]:
    """The results of all contenders, budget by budget.

    Args:
        grid: takes what is simulated.
        groups: the contenders of each budget; a single one wins without a run.
        people: with how many they run.
        replicates: of the last rung.
        share: of the limit on time; no rung starts that would end later.
        done: called after each run.
    """
    stops = rungs(replicates)
    level = ERROR / max(sum(len(group) - 1 for group in groups.values()) * len(stops), 1)
    left = {epsilon: list(group) for epsilon, group in groups.items()}
    counts = {each.label: 0 for group in groups.values() for each in group}

    def worth(setting: Setting) -> FloatArray:
        numbers = range(FIRST_REPLICATE, FIRST_REPLICATE + counts[setting.label])
        return grid.worth(setting.label, (people,), numbers)[:, 0]

    for stop in stops:
        racing = [each for group in left.values() if len(group) > 1 for each in group]
        numbers = range(FIRST_REPLICATE, FIRST_REPLICATE + stop)
        fresh = runs_of(racing, (people,), numbers[max(counts.values()) :])
        if not racing or not grid.allows(fresh, share=share):
            break
        if not grid.carry_out(runs_of(racing, (people,), numbers), done, share * grid.limit):
            break
        counts |= {each.label: stop for each in racing}
        for epsilon, rest in left.items():
            if len(rest) > 1:
                behind = p_values({each.label: worth(each) for each in rest})
                left[epsilon] = [each for each in rest if behind[each.label] >= level]
    results = []
    for epsilon, group in groups.items():
        means = {each.label: float(worth(each).mean()) for each in group if counts[each.label]}
        names = [each.label for each in left[epsilon]]
        winner = max(names, key=lambda name: means.get(name, -math.inf))
        results += [
            RaceResult(
                epsilon,
                each,
                people,
                counts[each.label],
                means.get(each.label, math.nan),
                won=each.label == winner,
                dropped=each.label not in names,
            )
            for each in group
        ]
    return results


def p_values(worths: Mapping[str, FloatArray]) -> dict[str, float]:
    """By contender the one-sided p-value of being no worse than the leader; 1 for the leader.

    Args:
        worths: (r,) of each, on the same people.
    """
    leader = max(worths, key=lambda label: float(worths[label].mean()))
    behind = {}
    for label, worth in worths.items():
        mean, error = mean_and_error(worths[leader] - worth)
        behind[label] = 1.0 if mean <= 0.0 else 0.5 * p_value(mean, error, len(worth))
    return behind
