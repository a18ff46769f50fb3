"""One plan: learners are selected by successive halving, and measured on fresh people.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import joblib
import numpy as np

from discreet.lab.environments.base import Problem
from discreet.lab.experiments import BEST_FIXED, REFERENCES, UNIFORM, Setting, simulate
from discreet.lab.experiments.means import mean_and_error, p_value
from discreet.lab.planning.design import EPSILONS, PlanDesign, checked_epsilons, plan_design
from discreet.lab.planning.forecast import LOSE_AT_MOST, Asked, Forecast, Kind, PlanLine, RaceResult
from discreet.lab.studies import Study
from discreet.learners.registry import learner_class
from discreet.parallel import in_parallel
from discreet.privacy import Guarantee
from discreet.validation import (
    ErrorCollector,
    FloatArray,
    number_from,
    positive_number,
    whole_number,
)

ERROR = 0.01
"""The probability that a true best is dropped anywhere in a plan."""
FIRST_RUNG = 4
FIRST_REPLICATE = 1_000_000
"""Number of the first replicate that selects; those that measure start at 0."""


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
    """A finished run: its worth per person, and the guarantee of its learner."""

    run: Run
    worth: float
    guarantee: Guarantee | None


def carry_out(problem: Problem, seed: int, run: Run) -> Ran:
    """One run; the same arguments give the same anywhere."""
    outcome = simulate(problem, run.setting, run.people, seed, run.replicate)
    sign = 1.0 if problem.metric == "reward" else -1.0
    worth = sign * outcome.record.value / run.people
    return Ran(run, worth, outcome.guarantee)


@dataclass
class SimulationGrid:
    """The runs of a plan that are finished.

    Attributes:
        problem, seed: as in every run.
        jobs: processes.
        guarantees: by label, the weakest of any run.
    """

    problem: Problem
    seed: int
    jobs: int = 1
    guarantees: dict[str, Guarantee] = field(default_factory=dict)
    _worth: dict[tuple[str, int, int], float] = field(default_factory=dict)

    def carry_out(self, runs: Sequence[Run], done: Callable[[], None] = lambda: None) -> None:
        """Simulate what is not there yet, runs of most people first.

        Args:
            runs: what is simulated.
            done: called after each run.
        """
        missing = [run for run in runs if not self._has(run)]
        tasks = (
            joblib.delayed(carry_out)(self.problem, self.seed, run)
            for run in sorted(missing, key=lambda run: run.people, reverse=True)
        )
        for run, worth, guarantee in in_parallel(tasks, self.jobs):
            label = run.setting.label
            self._worth[label, run.people, run.replicate] = worth
            kept = self.guarantees.get(label)
            if guarantee is not None and (kept is None or guarantee.epsilon > kept.epsilon):
                self.guarantees[label] = guarantee
            done()

    def _has(self, run: Run) -> bool:
        return (run.setting.label, run.people, run.replicate) in self._worth

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
    done: Callable[[], None] = lambda: None,
) -> list[RaceResult]:
    """The results of all contenders, budget by budget.

    Args:
        grid: takes what is simulated.
        groups: the contenders of each budget; a single one wins without a run.
        people: with how many they run.
        replicates: of the last rung.
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
        grid.carry_out(runs_of(racing, (people,), numbers), done)
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


# The plan.

REPLICATES = 8

# What a plan is doing: the step, how much of it is done, how much there is (0: unknown).
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class PlanRequest:
    """What a user asks of a plan.

    Attributes:
        people: how many are expected; the study's number if None.
        lose_at_most: the share of the gain that may be lost; None if not asked.
        epsilon: the user's own; None if not asked.
        epsilons: that are tried.
        learners: names in place of those of the study.
        trust_model: where the study has learners under several.
        replicates: fresh ones, on which all numbers rest.
        jobs: processes.
    """

    people: int | None = None
    lose_at_most: float | None = None
    epsilon: float | None = None
    epsilons: tuple[float, ...] = EPSILONS
    learners: tuple[str, ...] = ()
    trust_model: str | None = None
    replicates: int = REPLICATES
    jobs: int = 1

    def __post_init__(self) -> None:
        errors = ErrorCollector()
        checks: list[tuple[Any, Callable[[Any], object]]] = [
            (self.people, lambda value: whole_number(value, "people", minimum=1)),
            (self.lose_at_most, lambda value: number_from(value, "lose_at_most", 0.0, 1.0)),
            (self.epsilon, lambda value: positive_number(value, "epsilon")),
            (self.replicates, lambda value: whole_number(value, "replicates", minimum=2)),
            (self.jobs, lambda value: whole_number(value, "jobs", minimum=1)),
        ]
        for value, check in checks:
            with errors.collected():
                if value is not None:
                    check(value)
        if None not in (self.people, self.lose_at_most, self.epsilon):
            errors.add(
                f"people was {self.people}, lose_at_most {self.lose_at_most} and epsilon "
                f"{self.epsilon}; give at most two of them, and the plan answers with the third."
            )
        with errors.collected():
            checked_epsilons(self.epsilons)
        for name in self.learners:
            with errors.collected():
                if name not in REFERENCES:  # what learns nothing is refused by the design
                    learner_class(name)
        errors.raise_if_any()

    @property
    def tried(self) -> tuple[float, ...]:
        """The epsilons that are simulated, the user's own among them."""
        return self.epsilons if self.epsilon is None else (*self.epsilons, self.epsilon)

    @property
    def question(self) -> tuple[Asked, float, float] | None:
        """Which of the three is asked for, and the two that were given."""
        people, lost, epsilon = self.people, self.lose_at_most, self.epsilon
        if epsilon is not None and lost is not None:
            return "people", epsilon, lost
        if people is not None and lost is not None:
            return "epsilon", float(people), lost
        if people is not None and epsilon is not None:
            return "loss", epsilon, float(people)
        return None


def make_forecast(
    study: Study,
    expected: int,
    data: tuple[str, ...],
    request: PlanRequest,
    progress: Progress | None = None,
) -> Forecast:
    """Simulate what a study asks for.

    Args:
        study: names the problem and the learners.
        expected: how many people.
        data: whose data are used, in sentences.
        request: what is asked of the plan.
        progress: called as it goes on.

    Raises:
        InvalidInput: before anything is simulated, for a request that the study cannot have.
    """
    show = progress or (lambda *_: None)
    size = study.problem.size
    people = expected if size is None else min(expected, size)
    design = plan_design(study, people, request.tried, request.learners, request.trust_model)
    left_out = list(design.left_out)
    if people < expected:
        left_out.append(
            f"Left out: more than {people:,} people, as the table has no more; curves go on beyond."
        )
    grid = SimulationGrid(design.problem, design.seed, request.jobs)
    groups, started, done = design.groups(), time.monotonic(), 0

    def one_more(step: str, total: int) -> None:
        nonlocal done
        done += 1
        show(step, done, total)

    races = successive_halving(
        grid, groups, people, request.replicates, lambda: one_more("Selecting learners", 0)
    )
    winners = {each.epsilon: each.setting for each in races if each.won}
    settings = [*(winners[epsilon] for epsilon in (*design.epsilons, None)), *design.references]
    runs = runs_of(settings, design.horizons, range(request.replicates))
    selected, done = time.monotonic(), 0
    grid.carry_out(runs, lambda: one_more("Simulating", len(runs)))
    ended = time.monotonic()
    return Forecast(
        name=study.name,
        title=study.title,
        problem=design.problem,
        data=data,
        horizons=design.horizons,
        expected=expected,
        lines=tuple(_lines(grid, design, winners, request.replicates)),
        races=tuple(races),
        left_out=tuple(left_out),
        lose_at_most=LOSE_AT_MOST if request.lose_at_most is None else request.lose_at_most,
        seed=design.seed,
        seconds=ended - started,
        seconds_each=(ended - selected) / request.replicates,
        path=study.path,
        question=request.question,
    )


def _lines(
    grid: SimulationGrid, design: PlanDesign, winners: Mapping[float | None, Setting], count: int
) -> Iterator[PlanLine]:
    """The lines of the winners and references over the first replicates."""
    replicates = range(count)
    reference = grid.worth(BEST_FIXED if design.fixed else UNIFORM, design.horizons, replicates)

    def line(kind: Kind, setting: Setting) -> PlanLine:
        worth = grid.worth(setting.label, design.horizons, replicates)
        return PlanLine(kind, setting, worth, worth - reference, grid.guarantees.get(setting.label))

    yield from (line("private", winners[epsilon]) for epsilon in design.epsilons)
    yield line("none", winners[None])
    yield from (line("reference", setting) for setting in design.references)
