"""About how long learners take, as far as a few people show.

Most learners take a time for each policy, and make ever fewer of them: a hundred times as many
people take a few times as long. How many policies there are follows from the learner's batches, for
which nobody has to be served; how the time of one grows is seen on two short runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import joblib

from discreet.lab.environments.base import Problem
from discreet.lab.experiments.simulation import HIGHEST, REFERENCES, UNIFORM, Setting, simulate
from discreet.learners.registry import learner_class
from discreet.parallel import in_parallel
from discreet.privacy import SimulatedNoise
from discreet.validation import InvalidInput

# A try begins with so many people, and takes so many times as many for as long as that is over
# sooner than this, in seconds, up to one person in so many. Studies of fewer people than the last
# number are too small to try anything.
_PILOT_PEOPLE, _PILOT_GROWTH, _LONG, _PILOT_SHARE, _SMALL_STUDY = 125, 4, 0.5, 25, 5000
# The largest power of the number of people that the time of a policy is taken to grow with; where
# runs are over in so many seconds, chance decides which was longer, and the power is 1 at most.
_FASTEST_GROWTH, _CHANCE = 3.0, 0.2
# Policies are counted up to so many; from there on they are taken to go on as they came.
_COUNTED = 20_000
# A process gets so many learners to try, as it takes seconds to start one.
_EACH = 3


def expected_seconds(
    problem: Problem, settings: Sequence[Setting], rounds: int, seed: int, jobs: int = 1
) -> dict[str, float]:
    """About how many seconds a replicate takes, by label.

    In small studies only choices that need no learning are known to be quick: they have 0, all
    others infinity. Settings that differ in their epsilon alone take about as long: only the last
    of them is tried.
    """
    if rounds < _SMALL_STUDY:
        quick = (*REFERENCES, UNIFORM, HIGHEST)
        return {each.label: 0.0 if each.learner in quick else math.inf for each in settings}
    tried = {_but_for_epsilon(each): each for each in settings}
    trials = (joblib.delayed(_pilot)(problem, each, rounds, seed) for each in tried.values())
    seconds = dict(in_parallel(trials, min(jobs, -(-len(tried) // _EACH))))
    return {each.label: seconds[tried[_but_for_epsilon(each)].label] for each in settings}


def _but_for_epsilon(setting: Setting) -> str:
    """What two settings share that differ in nothing but their label and epsilon."""
    budget = setting.budget.at(1.0) if setting.private else setting.budget
    return repr((setting.learner, budget, dict(setting.options)))


def _pilot(problem: Problem, setting: Setting, rounds: int, seed: int) -> tuple[str, float]:
    """A setting's label, and the seconds of so many people; infinity if it cannot be tried."""
    if setting.learner not in REFERENCES:
        learner_class(setting.learner)  # to import it takes time once
    seconds: dict[int, float] = {}
    people, most = _PILOT_PEOPLE, max(rounds // _PILOT_SHARE, _SMALL_STUDY // 2)
    while people <= most and not (len(seconds) > 1 and seconds[max(seconds)] > _LONG):
        try:
            seconds[people] = simulate(problem, setting, people, seed, 0).record.seconds
        except InvalidInput:  # too few for it
            seconds.clear()
        people *= _PILOT_GROWTH
    return setting.label, grown(
        seconds, rounds, lambda people: policies_until(problem, setting, people)
    )


def grown(
    seconds: Mapping[int, float],
    people: int,
    policies: Callable[[int], int],
    most: float = _FASTEST_GROWTH,
) -> float:
    """The seconds of a number of people, from those of two smaller ones or of a single one.

    Args:
        seconds: by number of people; the two largest ones count.
        people: whose time is asked for.
        policies: how many a learner makes for a number of people.
        most: the largest power with which the time of a policy may grow.

    Returns:
        Infinity where no seconds are given.
    """
    if not seconds:
        return math.inf
    *before, last = sorted(seconds)
    here, there = policies(people), policies(last)
    if not before or not seconds[before[-1]] > 0.0 or not seconds[last] > 0.0:
        return seconds[last] * people / last
    first = before[-1]
    rise = seconds[last] / there / (seconds[first] / policies(first))
    power = max(math.log(rise) / math.log(last / first), 0.0)
    most = most if seconds[last] > _CHANCE else 1.0
    grown: float = seconds[last] * here / there * (people / last) ** min(power, most)
    return grown


def policies_until(problem: Problem, setting: Setting, people: int) -> int:
    """How many policies a learner makes for a number of people, as far as its batches follow from
    how many came; one for each person where nothing is known of batches."""
    if setting.learner in REFERENCES:
        return people
    kind = learner_class(setting.learner)
    came = 0
    counting = type(kind.__name__, (kind,), {"_published_at": property(lambda _: came)})
    try:
        learner: Any = counting(
            problem.domain,
            problem.space,
            setting.budget,
            horizon=people,
            reward_bounds=problem.reward_bounds,
            public_seed=0,
            noise=SimulatedNoise(0),
            **kind.read_options(setting.options),
        )
    except InvalidInput:
        return people
    for count in range(_COUNTED):
        if came >= people:
            return max(count, 1)
        came += max(learner.batch_size, 1)
    return _COUNTED * people // came
