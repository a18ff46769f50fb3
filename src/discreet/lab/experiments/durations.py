"""How long learners take, extrapolated from short runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import joblib

from discreet.lab.environments.base import Problem
from discreet.lab.experiments.simulation import HIGHEST, REFERENCES, UNIFORM, Setting, simulate
from discreet.learners.registry import learner_class
from discreet.parallel import in_parallel
from discreet.validation import InvalidInput

# A try begins with so many people and takes this factor more while it is over within so many
# seconds, up to one person in so many. Studies of fewer people than the last number are not tried.
_PILOT_PEOPLE, _PILOT_GROWTH, _LONG, _PILOT_SHARE, _SMALL_STUDY = 125, 4, 0.5, 25, 5000
# The largest power of the number of people with which time is taken to grow; 1 where runs are over
# within so many seconds, as chance decides which was longer.
_FASTEST_GROWTH, _CHANCE = 3.0, 0.2
# A process gets so many learners to try, as it takes seconds to start one.
_EACH = 3


def expected_seconds(
    problem: Problem, settings: Sequence[Setting], rounds: int, seed: int, jobs: int = 1
) -> dict[str, float]:
    """About how many seconds a replicate takes, by label; infinity where unknown.

    In small studies only choices without learning are known to be quick (0). Settings that differ
    in epsilon alone share one try.
    """
    if rounds < _SMALL_STUDY:
        quick = (*REFERENCES, UNIFORM, HIGHEST)
        return {each.label: 0.0 if each.learner in quick else math.inf for each in settings}
    tried = {_but_for_epsilon(each): each for each in settings}
    trials = (joblib.delayed(_pilot)(problem, each, rounds, seed) for each in tried.values())
    seconds = dict(in_parallel(trials, min(jobs, -(-len(tried) // _EACH))))
    return {each.label: seconds[tried[_but_for_epsilon(each)].label] for each in settings}


def _but_for_epsilon(setting: Setting) -> str:
    """What settings share that differ in label and epsilon alone."""
    budget = setting.budget.at(1.0) if setting.private else setting.budget
    return repr((setting.learner, budget, dict(setting.options)))


def _pilot(problem: Problem, setting: Setting, rounds: int, seed: int) -> tuple[str, float]:
    """A setting's label, and its seconds with all people; infinity if it cannot be tried."""
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
    return setting.label, grown(seconds, rounds)


def grown(seconds: Mapping[int, float], people: int, most: float = _FASTEST_GROWTH) -> float:
    """The seconds of a run, by the power law through the two largest numbers of people measured.

    Args:
        seconds: by number of people; a single one grows in proportion.
        people: the size of the run.
        most: the largest power.

    Returns:
        Infinity without measurements.
    """
    if not seconds:
        return math.inf
    *before, last = sorted(seconds)
    if not before or not seconds[before[-1]] > 0.0 or not seconds[last] > 0.0:
        return seconds[last] * people / last
    rise = math.log(seconds[last] / seconds[before[-1]]) / math.log(last / before[-1])
    power = min(max(rise, 0.0), most if seconds[last] > _CHANCE else 1.0)
    result: float = seconds[last] * (people / last) ** power
    return result
