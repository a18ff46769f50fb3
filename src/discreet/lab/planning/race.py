"""Which learner each budget gets: successive halving of replicates, by paired differences.

The contenders of a budget meet the same people. They run in rungs of 4, 8, 16, ... replicates, and
after each rung those that are *clearly behind* run no further: the mean over replicates of the
difference from the leader, by Student's t, is below 0 at the one-sided level

    0.01 / (rungs * the sum over budgets of (contenders - 1)).

The best contender of a budget is dropped only if another one, which is truly no better, leads by
such a difference in some rung. By the union bound the probability that this happens anywhere in a
plan is at most 1%, as far as means over replicates are normal. The race ends when one contender is
left, or after the last rung, when the one with the highest mean wins.

Choosing the best of several by what they happened to reach flatters it (the winner's curse). So the
replicates of the race decide and nothing else: what a plan says about the winner is measured on
fresh ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

from discreet.lab.experiments import Setting
from discreet.lab.experiments.means import mean_and_error, p_value
from discreet.lab.planning.results import Clock, Ran, Results
from discreet.validation import FloatArray

ERROR = 0.01
"""The probability that a true best is dropped anywhere in a plan."""
FIRST_RUNG = 4
# Replicates of a race are others than those of the plan, whose numbers start at 0.
FIRST_REPLICATE = 1_000_000
# Of the limit on time, what a race may use.
SHARE = 0.4


@dataclass(frozen=True)
class Standing:
    """How a contender did in the race for a budget.

    Attributes:
        epsilon: of the budget; None for no privacy.
        setting: the contender under it.
        people: with how many the race was run.
        replicates: how many it ran.
        mean: what a person had on average, in these replicates.
        behind: the mean difference from the winner on the replicates that both ran; 0 for it.
        p_value: one-sided, of being no worse than the leader when it was last compared.
        won: whether it was chosen.
        dropped: whether it was clearly behind before the race was over.
    """

    epsilon: float | None
    setting: Setting
    people: int
    replicates: int
    mean: float
    behind: float
    p_value: float
    won: bool
    dropped: bool


def rungs(replicates: int) -> tuple[int, ...]:
    """The numbers of replicates after which contenders are compared: 4, 8, 16, .., `replicates`."""
    counts, count = [], FIRST_RUNG
    while count < replicates:
        counts.append(count)
        count *= 2
    return (*counts, max(replicates, 2))


def first_rung(
    results: Results, groups: Mapping[float | None, Sequence[Setting]], people: int
) -> float:
    """About how many seconds the first rung takes; 0 where there is no race."""
    racing = [each for group in groups.values() if len(group) > 1 for each in group]
    runs = results.runs(racing, (people,), FIRST_REPLICATE)
    return FIRST_RUNG * results.total(runs)


def level(groups: Mapping[float | None, Sequence[Setting]], stops: Sequence[int]) -> float:
    """The level of each comparison; see the module."""
    comparisons = sum(len(group) - 1 for group in groups.values()) * len(stops)
    return ERROR / max(comparisons, 1)


def race(
    results: Results,
    groups: Mapping[float | None, Sequence[Setting]],
    people: int,
    replicates: int,
    clock: Clock,
    done: Callable[[Ran], None] | None = None,
) -> list[Standing]:
    """The standings of all contenders, budget by budget.

    Args:
        results: takes what is simulated.
        groups: the contenders of each budget; a single one wins without a run.
        people: with how many the race is run.
        replicates: of the last rung.
        clock: the race stops at the end of a rung when the next one would take too much of it.
        done: called after each run.
    """
    stops = rungs(replicates)
    bound = level(groups, stops)
    left = {epsilon: list(group) for epsilon, group in groups.items()}
    p_values: dict[str, float] = {}
    counts = {each.label: 0 for group in groups.values() for each in group}
    for stop in stops:
        racing = [each for group in left.values() if len(group) > 1 for each in group]
        runs = [
            run
            for replicate in _numbers(stop)
            for run in results.runs(racing, (people,), replicate)
        ]
        if not runs or (stop > stops[0] and not clock.allows(results.total(runs), SHARE)):
            break
        if not results.carry_out(runs, done, clock, SHARE):
            break
        counts |= {each.label: stop for each in racing}
        for epsilon, group in left.items():
            if len(group) > 1:
                behind = compared(_worths(results, group, people, counts))
                p_values |= behind
                left[epsilon] = [each for each in group if behind[each.label] >= bound]
    return [
        standing
        for epsilon, group in groups.items()
        for standing in _standings(
            epsilon,
            people,
            group,
            {each.label for each in left[epsilon]},
            _worths(results, group, people, counts),
            p_values,
        )
    ]


def _numbers(count: int) -> range:
    return range(FIRST_REPLICATE, FIRST_REPLICATE + count)


def _worths(
    results: Results, group: Sequence[Setting], people: int, counts: Mapping[str, int]
) -> dict[str, FloatArray]:
    """(r,) of each contender, in as many replicates as it ran."""
    return {
        each.label: results.worth(each.label, (people,), _numbers(counts[each.label])).reshape(-1)
        for each in group
    }


def compared(worths: Mapping[str, FloatArray]) -> dict[str, float]:
    """For each contender the one-sided p-value of being no worse than the leader; 1 for that.

    Args:
        worths: (r,) of each, on the same people.
    """
    leader = max(worths, key=lambda label: float(worths[label].mean()))
    p_values = {}
    for label, worth in worths.items():
        mean, error = mean_and_error(worths[leader] - worth)
        p_values[label] = 1.0 if mean <= 0.0 else 0.5 * p_value(mean, error, len(worth))
    return p_values


def _standings(
    epsilon: float | None,
    people: int,
    group: Sequence[Setting],
    left: Set[str],
    worths: Mapping[str, FloatArray],
    p_values: Mapping[str, float],
) -> list[Standing]:
    """Everybody's result; the winner is the best of those who were not dropped."""
    means = {
        label: float(worth.mean()) if len(worth) else math.nan for label, worth in worths.items()
    }
    names = [each.label for each in group if each.label in left]
    ran = len(worths[names[0]]) > 0
    winner = max(names, key=means.__getitem__) if ran else names[0]
    standings = []
    for each in group:
        both = min(len(worths[each.label]), len(worths[winner]))
        behind = worths[winner][:both] - worths[each.label][:both]
        standings.append(
            Standing(
                epsilon,
                each,
                people,
                len(worths[each.label]),
                means[each.label],
                float(behind.mean()) if both else 0.0,
                p_values.get(each.label, 1.0),
                each.label == winner,
                each.label not in left,
            )
        )
    return standings
