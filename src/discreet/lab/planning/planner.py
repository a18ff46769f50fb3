"""One plan: select learners, measure them on fresh people, within a limit on time.

Short runs estimate how long learners take. A plan whose fewest replicates of a verdict do not fit
into the limit is made smaller before it starts: fewer horizons, then fewer epsilons, then fewer
people. A limit that is too short even then is announced by a warning at once. Contenders of a
budget are selected by `successive_halving`; winners are measured replicate by replicate, and at the
limit an unfinished replicate is dropped, unless it is the first.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import joblib

from discreet.lab.experiments import BEST_FIXED, REFERENCES, UNIFORM, Setting
from discreet.lab.planning.design import EPSILONS, PlanDesign, checked_epsilons, plan_design
from discreet.lab.planning.forecast import (
    FEWEST,
    LOSE_AT_MOST,
    Asked,
    Forecast,
    Kind,
    PlanLine,
)
from discreet.lab.planning.grid import (
    FIRST_REPLICATE,
    FIRST_RUNG,
    RaceResult,
    Run,
    SimulationGrid,
    runs_of,
    successive_halving,
    tried_seconds,
)
from discreet.lab.studies import Study
from discreet.learners.registry import learner_class
from discreet.parallel import in_parallel
from discreet.validation import ErrorCollector, number_from, positive_number, whole_number

REPLICATES = 8
SECONDS = 75.0
"""The limit on time of a plan on the command line, where none is given."""
_LEAST_HORIZONS = _LEAST_EPSILONS = 3
_SHARE = 0.4  # of the limit, for the selection of learners

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
        seconds: a limit on time; None for none.
        jobs: processes.
    """

    people: int | None = None
    lose_at_most: float | None = None
    epsilon: float | None = None
    epsilons: tuple[float, ...] = EPSILONS
    learners: tuple[str, ...] = ()
    trust_model: str | None = None
    replicates: int = REPLICATES
    seconds: float | None = None
    jobs: int = 1

    def __post_init__(self) -> None:
        errors = ErrorCollector()
        checks: list[tuple[Any, Callable[[Any], object]]] = [
            (self.people, lambda value: whole_number(value, "people", minimum=1)),
            (self.lose_at_most, lambda value: number_from(value, "lose_at_most", 0.0, 1.0)),
            (self.epsilon, lambda value: positive_number(value, "epsilon")),
            (self.seconds, lambda value: positive_number(value, "seconds")),
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
    whole = plan_design(study, people, request.tried, request.learners, request.trust_model)
    left_out = list(whole.left_out)
    if people < expected:
        left_out.append(
            f"Left out: more than {people:,} people, as the table has no more; curves go on beyond."
        )
    limit = math.inf if request.seconds is None else request.seconds
    grid = SimulationGrid(whole.problem, whole.seed, request.jobs, limit)
    design = whole
    if request.seconds is not None:
        show("Measuring how long the learners take", 0, 0)
        design = _within(grid, whole, request)
        left_out += _gone(whole, design)
    races = _select(grid, design, request, left_out, show)
    winners = {each.epsilon: each.setting for each in races if each.won}
    count = _measure(grid, design, winners, request, show)
    if count < request.replicates:
        left_out.append(
            f"Left out: replicates {count + 1} to {request.replicates}, as the limit "
            "on time was used up; intervals are wider for it."
        )
    everything = replace(whole, epsilons=design.epsilons)
    return Forecast(
        name=study.name,
        title=study.title,
        problem=design.problem,
        data=data,
        horizons=design.horizons,
        expected=expected,
        lines=tuple(_lines(grid, design, winners, count)),
        races=tuple(races),
        left_out=tuple(left_out),
        lose_at_most=LOSE_AT_MOST if request.lose_at_most is None else request.lose_at_most,
        seed=design.seed,
        seconds=grid.elapsed,
        seconds_each=grid.total(_replicate(everything, winners, 0)),
        path=study.path,
        question=request.question,
    )


def _within(grid: SimulationGrid, whole: PlanDesign, request: PlanRequest) -> PlanDesign:
    """The largest design whose fewest replicates of a verdict fit into the limit on time."""
    middle = whole.epsilons[len(whole.epsilons) // 2]
    tries = [
        (each.at(middle), [each.at(other) for other in whole.epsilons]) for each in whole.private
    ]
    tries += [(each.at(None), [each.at(None)]) for each in whole.free]
    tasks = (
        joblib.delayed(tried_seconds)(whole.problem, whole.seed, setting, whole.horizons[0])
        for setting, _ in tries
    )
    for (_, alike), seconds in zip(tries, in_parallel(tasks, grid.jobs), strict=True):
        grid.seconds.update({each.label: dict(seconds) for each in alike})
    grid.seconds.update({each.label: {1: 0.0} for each in whole.references})

    def one(design: PlanDesign) -> list[Run]:
        winners = {epsilon: group[0] for epsilon, group in design.groups().items()}
        return _replicate(design, winners, 0)

    racing = any(len(group) > 1 for group in whole.groups().values())
    share = 1.0 - _SHARE if racing else 1.0
    designs = list(_smaller(whole, request))
    fitting = (each for each in designs if grid.allows(one(each), FEWEST, share))
    design = next(fitting, designs[-1])
    runs = one(design)
    if not grid.allows(runs):
        warnings.warn(
            "The limit on time will not be kept: the smallest plan takes about "
            f"{grid.total(runs):,.0f} s more. Give a longer limit or fewer epsilons.",
            stacklevel=2,
        )
    elif not grid.allows(runs, FEWEST):
        warnings.warn(
            "The limit on time is too short for a yes or a no: the smallest plan that may give one "
            f"takes about {FEWEST * grid.total(runs):,.0f} s more.",
            stacklevel=2,
        )
    return design


def _smaller(whole: PlanDesign, request: PlanRequest) -> Iterator[PlanDesign]:
    """The design, and smaller ones: fewer horizons, then epsilons, then people."""
    yield whole
    horizons, epsilons = whole.horizons, whole.epsilons
    yield replace(whole, horizons=_three(horizons))
    if len(epsilons) > _LEAST_EPSILONS:
        own = request.epsilon
        kept = epsilons[::2] if own is None else (own, epsilons[0], epsilons[-1])
        epsilons = tuple(sorted(set(kept)))
    for cut in range(max(len(horizons) - _LEAST_HORIZONS, 0) + 1):
        fewer = _three(horizons[: len(horizons) - cut])
        yield replace(whole, horizons=fewer, epsilons=epsilons)


def _three(horizons: tuple[int, ...]) -> tuple[int, ...]:
    """The first, the middle and the last of horizons."""
    return tuple(sorted({horizons[0], horizons[len(horizons) // 2], horizons[-1]}))


def _gone(whole: PlanDesign, design: PlanDesign) -> Iterator[str]:
    """What a smaller design leaves out."""
    horizons = [f"{each:,}" for each in whole.horizons if each not in design.horizons]
    if horizons:
        yield (
            f"Left out: simulations with {' and '.join(horizons)} people: too much for the limit "
            "on time."
        )
    epsilons = [f"{each:g}" for each in whole.epsilons if each not in design.epsilons]
    if epsilons:
        yield f"Left out: epsilon = {' and '.join(epsilons)}: too much for the limit on time."


def _select(
    grid: SimulationGrid,
    design: PlanDesign,
    request: PlanRequest,
    left_out: list[str],
    show: Progress,
) -> list[RaceResult]:
    """The contender of each budget, selected with as many people as the limit on time allows."""
    groups = design.groups()
    racing = [each for group in groups.values() if len(group) > 1 for each in group]
    numbers = range(FIRST_REPLICATE, FIRST_REPLICATE + FIRST_RUNG)
    people = next(
        (
            each
            for each in reversed(design.horizons)
            if grid.allows(runs_of(racing, (each,), numbers), share=_SHARE)
        ),
        None,
    )
    done = 0

    def one_more() -> None:
        nonlocal done
        done += 1
        show("Selecting learners", done, 0)

    if people is None and racing:
        left_out.append(
            "Left out: the selection of learners: too much for the limit on time; the first was "
            "taken."
        )
        groups = {epsilon: group[:1] for epsilon, group in groups.items()}
    elif people is not None and racing and people < design.people:
        left_out.append(
            f"Left out: selection with more than {people:,} people: too much for the limit on "
            "time; with more, another learner may be the better one."
        )
    most = people or design.people
    return successive_halving(grid, groups, most, request.replicates, _SHARE, one_more)


def _measure(
    grid: SimulationGrid,
    design: PlanDesign,
    winners: Mapping[float | None, Setting],
    request: PlanRequest,
    show: Progress,
) -> int:
    """Simulate fresh replicates; how many the limit on time allowed."""
    replicates = [_replicate(design, winners, number) for number in range(request.replicates)]
    done = 0

    def one_more() -> None:
        nonlocal done
        done += 1
        show("Simulating", done, sum(map(len, replicates)))

    if math.isinf(grid.limit):
        grid.carry_out([run for runs in replicates for run in runs], one_more)
        return request.replicates
    for count, runs in enumerate(replicates):
        if count and not grid.allows(runs):
            return count
        if not grid.carry_out(runs, one_more, grid.limit if count else math.inf):
            return count
    return request.replicates


def _replicate(
    design: PlanDesign, winners: Mapping[float | None, Setting], number: int
) -> list[Run]:
    """The runs of one replicate: the winners of the epsilons, no privacy, and references."""
    settings = [*(winners[epsilon] for epsilon in (*design.epsilons, None)), *design.references]
    return runs_of(settings, design.horizons, (number,))


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
