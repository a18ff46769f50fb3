"""One plan: choose learners, measure them on fresh people, stay within a limit on time.

The order is that in which a plan can be cut short. Learners are first tried for moments: does what
they do depend on the horizon, and how long do they take? Then they race (race.py), and the winners
are measured, replicate by replicate, with all lines in each, so that whatever is finished can be
compared. Where a limit on time does not allow for the fewest replicates of a verdict, the plan is
made smaller: first fewer horizons, then fewer epsilons, then one run for all horizons, then fewer
people. When the limit is reached, unfinished replicates are dropped, except the first. A limit that
is too short for a verdict, or for one replicate, is announced by a warning before the simulations.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from discreet.lab.experiments import BEST_FIXED, REFERENCES, UNIFORM, Setting
from discreet.lab.planning.facts import FEWEST, Asked, Kind, PlanLine
from discreet.lab.planning.forecast import LOSE_AT_MOST, Forecast
from discreet.lab.planning.race import FIRST_REPLICATE, SHARE, Standing, first_rung, race
from discreet.lab.planning.results import Clock, Ran, Results, Run, depends_on_horizon
from discreet.lab.planning.stage import EPSILONS, Stage, checked_epsilons, make_stage, works
from discreet.lab.studies import Study
from discreet.learners.registry import learner_class
from discreet.validation import ErrorCollector, number_from, positive_number, whole_number

REPLICATES = 8
_LEAST_HORIZONS = 3
_LEAST_EPSILONS = 3
# People with whom learners are timed where that is limited, and how many times as many.
_TIMED, _GROWN = 100, 4
SECONDS = 75.0
"""The limit on time of a plan on the command line, where none is given."""

# The setting that each epsilon got, and no privacy.
Winners = Mapping[float | None, Setting]
# What a plan is doing: a word for the step, how much of it is done, how much there is.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Wish:
    """What a user asks of a plan.

    Attributes:
        people: how many are expected; the study's number if None.
        lose_at_most: the share of the gain that may be lost; None if not asked.
        epsilon: that somebody has in mind; None if not asked.
        epsilons: that are tried.
        learners: names in place of those of the study.
        trust_model: where the study has learners under several.
        replicates: fresh ones that numbers rest on.
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
                if name not in REFERENCES:  # what learns nothing is refused by the stage
                    learner_class(name)
        errors.raise_if_any()

    @property
    def tried(self) -> tuple[float, ...]:
        """The epsilons that are simulated: the one in mind is among them."""
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
    wished: int,
    data: tuple[str, ...],
    wish: Wish,
    progress: Progress | None = None,
) -> Forecast:
    """Simulate what a study asks for.

    Args:
        study: names the problem and the learners.
        wished: how many people are expected.
        data: whose data are used, in sentences.
        wish: what is asked of the plan.
        progress: called as it goes on.

    Raises:
        InvalidInput: before anything is simulated, for a wish that the study cannot have.
    """
    clock = Clock(wish.seconds)
    size = study.problem.size
    people = wished if size is None else min(wished, size)
    stage = make_stage(study, people, wish.tried, wish.learners, wish.trust_model)
    left_out = list(stage.left_out)
    if people < wished:
        left_out.append(
            f"Left out: more than {people:,} people, as the table has no more; curves go on beyond."
        )
    results = Results(stage.problem, stage.seed, wish.jobs)
    say = progress or (lambda *_: None)
    _try_out(results, stage, say, clock)
    full = stage
    stage = _within(results, stage, wish, clock, left_out)
    standings = _choose(results, stage, wish, clock, left_out, say)
    winners = {each.epsilon: each.setting for each in standings if each.won}
    whole = replace(full, epsilons=stage.epsilons)
    count, stage = _measure(results, stage, winners, wish, clock, left_out, say)
    if count < wish.replicates:
        left_out.append(
            f"Left out: replicates {count + 1} to {wish.replicates}, as the limit "
            "on time was used up; intervals are wider for it."
        )
    return Forecast(
        study.name,
        study.title,
        stage.problem,
        data,
        stage.horizons,
        wished,
        tuple(_lines(results, stage, winners, count)),
        tuple(standings),
        tuple(left_out),
        LOSE_AT_MOST if wish.lose_at_most is None else wish.lose_at_most,
        stage.seed,
        clock.elapsed,
        results.total(_runs(results, whole, winners, 0)),
        study.path,
        wish.question,
        stage.along,
    )


def _try_out(results: Results, stage: Stage, say: Progress, clock: Clock) -> None:
    """Which learners may be read along their trace, and about how long all of them take."""
    middle = stage.epsilons[len(stage.epsilons) // 2]
    tried = [
        *(
            (each.at(middle), [each.at(other) for other in stage.epsilons])
            for each in stage.private
        ),
        *((each.at(None), [each.at(None)]) for each in stage.free),
    ]
    for number, (setting, alike) in enumerate(tried):
        say("Trying learners", number, 0)
        first, last = stage.horizons[0], stage.people
        if not depends_on_horizon(stage.problem, setting, first, last, stage.seed):
            results.traced.update(each.label for each in alike)
    results.traced.update(each.label for each in stage.references if each.learner == UNIFORM)
    if clock.limit is not None:
        _time_them(results, stage, {setting.label: each for setting, each in tried})


def _time_them(results: Results, stage: Stage, alike_of: Mapping[str, Sequence[Setting]]) -> None:
    """Time learners with two numbers of people, which show how time grows: small ones, as the limit
    holds for this too."""

    def keep(ran: Ran) -> None:
        for each in alike_of[ran.run.setting.label]:
            if each.label != ran.run.setting.label:
                results.timed(each.label, ran.run.people, ran.seconds)

    runs = []
    for label, alike in alike_of.items():
        setting = next(each for each in alike if each.label == label)
        few = _TIMED if works(stage.problem, [setting], _TIMED) else stage.horizons[0]
        numbers = {min(each, stage.people) for each in (few, _GROWN * few)}
        runs += [Run(setting, each, (each,), FIRST_REPLICATE) for each in sorted(numbers)]
    results.carry_out(runs, keep)


def _within(results: Results, stage: Stage, wish: Wish, clock: Clock, left_out: list[str]) -> Stage:
    """The stage, made smaller until the fewest replicates fit into the limit on time.

    A first run of the slowest learner checks what short tries promise.
    """
    if clock.limit is None:
        return stage

    def runs(smaller: Stage) -> list[Run]:
        settings = [group[0] for group in smaller.groups().values()]
        return results.runs(settings, smaller.horizons, 0, smaller.along)

    racing = any(len(group) > 1 for group in stage.groups().values())

    def fits(smaller: Stage) -> bool:
        share = 1.0 - SHARE if racing else 1.0
        return clock.allows(FEWEST * results.total(runs(smaller)), share)

    while True:
        sizes = list(_smaller(stage, wish))
        smaller = next(filter(fits, sizes), sizes[-1])
        longest = max(runs(smaller), key=results.expected)
        if results.has(longest) or not clock.allows(results.expected(longest)):
            break
        results.carry_out([longest])
    _announce(FEWEST * results.total(runs(smaller)), results.total(runs(smaller)), clock)
    return _take(results, stage, smaller, left_out)


def _announce(enough: float, least: float, clock: Clock) -> None:
    """Warn of a limit that is too short: for a verdict, or for a single replicate."""
    if not clock.allows(least):
        warnings.warn(
            "The limit on time will not be kept: the smallest plan takes about "
            f"{least:,.0f} s more. Give a longer limit or fewer epsilons.",
            stacklevel=2,
        )
    elif not clock.allows(enough):
        warnings.warn(
            "The limit on time is too short for a yes or a no: the smallest plan that may give one "
            f"takes about {enough:,.0f} s more.",
            stacklevel=2,
        )


def _take(results: Results, stage: Stage, smaller: Stage, left_out: list[str]) -> Stage:
    """Go on with a smaller stage, and say what it leaves out."""
    left_out += _gone(stage, smaller)
    if smaller.along:
        groups = stage.groups().values()
        results.rough |= {each.label for group in groups for each in group} - results.traced
    return smaller


def _gone(before: Stage, after: Stage) -> Iterator[str]:
    """What a smaller stage leaves out, and why."""
    why = "too much for the limit on time."
    horizons = [f"{each:,}" for each in before.horizons if each not in after.horizons]
    if horizons:
        yield f"Left out: simulations with {' and '.join(horizons)} people: {why}"
    epsilons = [f"{each:g}" for each in before.epsilons if each not in after.epsilons]
    if epsilons:
        yield f"Left out: epsilon = {' and '.join(epsilons)}: {why}"
    if after.along and not before.along:
        yield f"Left out: runs of their own with fewer than {after.people:,} people: {why}"


def _smaller(stage: Stage, wish: Wish) -> Iterator[Stage]:
    """The stage, and what is left of it with fewer horizons, then epsilons, then one run for all
    horizons, then people."""
    yield stage
    horizons, epsilons = stage.horizons, stage.epsilons
    kept = epsilons[::2] if wish.epsilon is None else (wish.epsilon, epsilons[0], epsilons[-1])
    fewer = stage.with_epsilons(sorted(set(kept)) if len(epsilons) > _LEAST_EPSILONS else epsilons)
    if len(horizons) > _LEAST_HORIZONS and not stage.along:
        yield stage.with_horizons(horizons[::-2][::-1])
        yield fewer.with_horizons(horizons[::-2][::-1])
    # What learners need for few people is often most of what they need for many.
    yield stage.along_one_run(horizons)
    yield fewer.along_one_run(horizons)
    for cut in range(1, len(horizons) - _LEAST_HORIZONS + 1):
        yield fewer.along_one_run(horizons[:-cut])


def _choose(
    results: Results,
    stage: Stage,
    wish: Wish,
    clock: Clock,
    left_out: list[str],
    say: Progress,
) -> list[Standing]:
    """The races of all budgets, with as many people as the limit on time allows."""
    done = 0

    def one_more(ran: Ran) -> None:
        nonlocal done
        done += 1
        say("Choosing learners", done, 0)

    groups = stage.groups()
    for people in reversed(stage.horizons):
        if clock.allows(first_rung(results, groups, people), SHARE):
            standings = race(results, groups, people, wish.replicates, clock, one_more)
            if not done or any(each.replicates for each in standings):
                if people < stage.people:
                    left_out.append(
                        f"Left out: races with more than {people:,} people: too much for the limit "
                        "on time; with more, another learner may be the better one."
                    )
                return standings
            break
    left_out.append(
        "Left out: the race of learners: too much for the limit on time; the first was taken."
    )
    alone = {epsilon: group[:1] for epsilon, group in groups.items()}
    return race(results, alone, stage.people, wish.replicates, clock)


def _measure(
    results: Results,
    stage: Stage,
    winners: Winners,
    wish: Wish,
    clock: Clock,
    left_out: list[str],
    say: Progress,
) -> tuple[int, Stage]:
    """Simulate fresh replicates, as many as the limit on time allows.

    Returns:
        How many these were, and the stage: a smaller one where time was running out before there
        were the fewest replicates.
    """
    done = 0

    def one_more(ran: Ran) -> None:
        nonlocal done
        done += 1
        say("Simulating", done, wish.replicates * len(_runs(results, stage, winners, 0)))

    if clock.limit is None:
        replicates = range(wish.replicates)
        runs = [run for number in replicates for run in _runs(results, stage, winners, number)]
        results.carry_out(runs, one_more)
        return wish.replicates, stage
    for count in range(wish.replicates):

        def allows(smaller: Stage, replicates: int, count: int = count) -> bool:
            return clock.allows(replicates * results.total(_runs(results, smaller, winners, count)))

        if 0 < count < FEWEST and not allows(stage, FEWEST - count):
            # Of the same number of people, as what was simulated so far is kept.
            smaller = [each for each in _smaller(stage, wish) if each.people == stage.people]
            chosen = next((each for each in smaller if allows(each, FEWEST - count)), stage)
            stage = _take(results, stage, chosen, left_out)
        if count and not allows(stage, 1):
            return count, stage
        runs = _runs(results, stage, winners, count)
        if not results.carry_out(runs, one_more, clock if count else None):
            return count, stage
    return wish.replicates, stage


def _runs(results: Results, stage: Stage, winners: Winners, replicate: int) -> list[Run]:
    """The runs of one replicate: the winners of the stage's epsilons, no privacy, references."""
    settings = [winners[epsilon] for epsilon in (*stage.epsilons, None)]
    return [
        *results.runs(settings, stage.horizons, replicate, stage.along),
        *results.reference_runs(stage.references, stage.horizons, replicate),
    ]


def _lines(results: Results, stage: Stage, winners: Winners, count: int) -> Iterable[PlanLine]:
    """The lines of the winners and references over the first replicates."""
    replicates = range(count)
    reference = BEST_FIXED if stage.fixed else UNIFORM

    def line(kind: Kind, setting: Setting) -> PlanLine:
        label = setting.label
        return PlanLine(
            kind,
            setting,
            results.worth(label, stage.horizons, replicates),
            results.gain(label, reference, stage.horizons, replicates),
            results.guarantee(label),
            label in results.traced,
        )

    yield from (line("private", winners[epsilon]) for epsilon in stage.epsilons)
    yield line("none", winners[None])
    yield from (line("reference", setting) for setting in stage.references)
