"""Studies: learners under budgets, and references, all on the people of one problem.

Replicate r draws its people from the study's seed and r alone, so all learners of a replicate meet
the same people in the same order.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import joblib
import numpy as np

from discreet.lab.environments.base import Population, Problem
from discreet.lab.experiments.engine import Seed, run_trials
from discreet.lab.experiments.serving import check_contributions, people_of, play, trace_of
from discreet.learners.base import Learner
from discreet.learners.policy import Policy
from discreet.learners.registry import learner_class, make_learner
from discreet.learners.values import Value
from discreet.parallel import in_parallel
from discreet.privacy import Budget, Guarantee, NonPrivate, SimulatedNoise
from discreet.records import RunRecord
from discreet.validation import FloatArray, IntArray, InvalidInput, whole_number

UNIFORM = "uniform"
HIGHEST = "highest"
BEST_FIXED = "best_fixed"
ORACLE = "oracle"
REFERENCES = {
    BEST_FIXED: "the choice that is best for everyone together, known in hindsight",
    ORACLE: "the best choice for each distinct context, known in hindsight (in sample)",
}


@dataclass(frozen=True)
class Setting:
    """One line of a study: a learner (or a reference) under one budget.

    Attributes:
        learner: its registered name, or one of `REFERENCES`.
        label: what tables and plots call it.
        budget: of the learner.
        options: of the learner, from the study file.
        reason: why this learner was chosen, where the study file names none; otherwise "".
    """

    learner: str
    label: str
    budget: Budget = field(default_factory=NonPrivate)
    options: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""

    @property
    def private(self) -> bool:
        """Whether its budget is private."""
        return self.budget.private


@dataclass(frozen=True)
class Appraisal:
    """The value of a learner's recommendation, estimated and true.

    Attributes:
        value: the learner's estimate, from its releases or private reports.
        truth: the mean reward of the simulated people under the final recommendation, which only
            a simulation knows.
    """

    value: Value
    truth: float


@dataclass(frozen=True)
class Outcome:
    """The result of one replicate of one setting.

    Attributes:
        setting: the learner and its budget.
        record: the result.
        rounds: (points,) numbers of people at which the trace was taken.
        trace: (points,) the cumulative metric there.
        guarantee: of each person; None for references.
        policy: the last policy; in replicate 0 only.
        remarks: of the problem on the run (`Population.remarks`); in replicate 0 only.
        appraisal: of the final recommendation; in replicate 0 only, where there is one.
    """

    setting: Setting
    record: RunRecord
    rounds: IntArray
    trace: FloatArray
    guarantee: Guarantee | None = None
    policy: Policy[Any] | None = None
    remarks: tuple[str, ...] = ()
    appraisal: Appraisal | None = None


def simulate(
    problem: Problem,
    setting: Setting,
    rounds: int,
    seed: int,
    replicate: int,
    study: str = "study",
    digest: str | None = None,
) -> Outcome:
    """One replicate of one setting; the same arguments give the same outcome anywhere."""
    people = people_of(problem, rounds, seed, replicate)
    guarantee = policy = appraisal = None
    remarks: tuple[str, ...] = ()
    if setting.learner in REFERENCES:
        started = time.perf_counter()
        values = people.best_fixed() if setting.learner == BEST_FIXED else people.oracle()
        seconds = time.perf_counter() - started
    else:
        make = partial(learner_of, problem, setting, rounds)
        learner, values, seconds = play(Seed(seed, replicate), people, make)
        guarantee = learner.guarantee()
        if replicate == 0:
            policy, appraisal = learner.policy(), appraised(learner, people)
            remarks = people.remarks(values)
    at, trace = trace_of(values)
    record = RunRecord(
        study=study,
        learner=setting.learner,
        trust_model=setting.budget.trust_model,
        epsilon=setting.budget.epsilon if setting.private else None,
        delta=setting.budget.delta if setting.private else None,
        replicate=replicate,
        rounds=rounds,
        metric=problem.metric,
        value=float(trace[-1]),
        seconds=seconds,
        label=setting.label,
        seed=seed,
        digest=digest,
        rows=None if problem.rows is None else problem.rows.sentence,
    )
    return Outcome(setting, record, at, trace, guarantee, policy, remarks, appraisal)


def appraised(learner: Learner[Any, Any, Any], people: Population) -> Appraisal | None:
    """The appraisal of a learner's recommendation; None where it or the truth is unknown.

    Budgets without privacy have none either.
    """
    if not learner.budget.private:
        return None
    try:
        return Appraisal(learner.value(), people.earned(learner.recommend(people.contexts)))
    except InvalidInput:
        return None


def simulate_all(
    problem: Problem,
    settings: Sequence[Setting],
    rounds: int,
    replicates: int,
    seed: int,
    jobs: int = 1,
    study: str = "study",
    digest: str | None = None,
    done: Collection[tuple[str, int]] = (),
) -> Iterator[Outcome]:
    """Every setting in every replicate, in the order in which they finish.

    All replicates of a setting start before those of the next, so that its line is complete early.

    Args:
        problem: where the people come from.
        settings: in the order in which they shall run.
        rounds: people in each replicate.
        replicates: of each setting.
        seed: with the replicate it fixes everything that is drawn.
        jobs: processes.
        study: the study's name, for the records.
        digest: of the study, for the records.
        done: labels and replicates that were simulated before, and are left out.

    Raises:
        InvalidInput: before anything runs, for sizes or settings that cannot work.
    """
    problem.check_size(whole_number(rounds, "rounds", minimum=1))
    for setting in settings:
        check_setting(problem, setting, rounds)
    labels = [setting.label for setting in settings]
    finished = run_trials(
        _replicate,
        [
            {
                "problem": problem,
                "setting": each,
                "rounds": rounds,
                "study": study,
                "digest": digest,
            }
            for each in settings
        ],
        replicates,
        seed,
        jobs,
        "setting by setting",
        {(labels.index(label), number) for label, number in done if label in labels},
    )
    return (each.result for each in finished)


def _replicate(seed: Seed, **setting: Any) -> Outcome:
    try:
        return simulate(seed=seed.base, replicate=seed.trial, **setting)
    except Exception as error:
        label = setting["setting"].label
        error.add_note(f"Raised by replicate {seed.trial} of {label!r} with seed {seed.base}.")
        raise


def check_setting(problem: Problem, setting: Setting, rounds: int) -> tuple[str, ...]:
    """Reject a setting that cannot run on this problem; warnings about one that can."""
    if setting.learner in REFERENCES:
        if setting.options:
            raise InvalidInput(f"{setting.learner} has no options; remove {dict(setting.options)}.")
        problem.check_reference(setting.learner)
        return ()
    learner = learner_of(problem, setting, rounds, 0, SimulatedNoise(0))
    return (*learner.warnings, *_contribution_warnings(problem, learner))


def _contribution_warnings(problem: Problem, learner: Learner[Any, Any, Any]) -> Iterator[str]:
    """Warnings about people who come more than once.

    Raises:
        InvalidInput: where a budget covers several visits of people without ids, or as
            `check_contributions`.
    """
    budget, visits = learner.budget, problem.visits
    if visits is None and budget.max_contributions > 1:
        raise InvalidInput(
            f"max_contributions was {budget.max_contributions}, but no column says which rows "
            'are of one person: name it as id = "..." under [people], or leave '
            "max_contributions out."
        )
    if visits is None or not budget.private or budget.protects == "contribution":
        return
    beyond = int(np.maximum(visits - budget.max_contributions, 0).sum())
    check_contributions(learner, beyond)
    if beyond:
        covered = budget.max_contributions
        yield (
            f"{beyond:,} of {int(visits.sum()):,} visits in the table come after the first "
            f"{'one' if covered == 1 else covered} of their person: those visits are served, and "
            f"ignored by the learner under max_contributions = {covered}."
        )


def learner_of(
    problem: Problem, setting: Setting, rounds: int, public_seed: int, noise: SimulatedNoise
) -> Learner[Any, Any, Any]:
    """A new learner of a setting, which is no reference, for a simulation."""
    return make_learner(
        setting.learner,
        problem.domain,
        problem.space,
        setting.budget,
        options=setting.options,
        horizon=rounds,
        reward_bounds=problem.reward_bounds,
        public_seed=public_seed,
        noise=noise,
    )


# Durations.

# A pilot run begins with _PILOT_PEOPLE and takes _PILOT_GROWTH times more while runs end within
# _LONG seconds, up to one person in _PILOT_SHARE. Smaller studies than _SMALL_STUDY have none.
_PILOT_PEOPLE, _PILOT_GROWTH, _LONG, _PILOT_SHARE, _SMALL_STUDY = 125, 4, 0.5, 25, 5000
# The largest power of the number of people by which time grows; 1 for runs of less than _CHANCE
# seconds, whose order is chance.
_FASTEST_GROWTH, _CHANCE = 3.0, 0.2
_EACH = 3  # learners that a process tries, as it takes seconds to start


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
    """A key that settings share which differ in label and epsilon alone."""
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
