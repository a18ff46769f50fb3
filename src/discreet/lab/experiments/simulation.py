"""Studies: learners under budgets, and references, all on the people of one problem.

Replicate r of a study draws its people from the study's seed and r alone, so all learners of a
replicate meet the same people in the same order.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from discreet.lab.environments.base import Crowd, Problem
from discreet.lab.experiments.engine import Seed, run_trials
from discreet.lab.experiments.serving import check_visits, people_of, play, trace_of
from discreet.learners.base import Learner
from discreet.learners.messages import Policy
from discreet.learners.registry import make_learner
from discreet.learners.values import Value
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
        budget: what it is asked to keep.
        options: what the study file says beyond that.
        reason: why this learner was chosen, where the study file names none; "" where it does.
    """

    learner: str
    label: str
    budget: Budget = field(default_factory=NonPrivate)
    options: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""

    @property
    def private(self) -> bool:
        """Whether anything is promised."""
        return self.budget.private


@dataclass(frozen=True)
class Appraisal:
    """What a learner says that its recommendation earns, and what it would.

    Attributes:
        value: by the learner, from what it released or was reported to it in private.
        truth: the mean reward of the people of the simulation, had everybody got what it
            recommends at the end; nobody but a simulation knows it.
    """

    value: Value
    truth: float


@dataclass(frozen=True)
class Outcome:
    """What one replicate of one setting gave.

    Attributes:
        setting: what ran.
        record: the result.
        rounds: (points,) numbers of people at which the trace was taken.
        trace: (points,) the cumulative metric there.
        guarantee: what each person was promised; None for references.
        policy: the last policy; kept for replicate 0 only.
        remarks: what the problem says of the run (`Crowd.remarks`), in replicate 0 only.
        appraisal: of its recommendation at the end; for replicate 0 only, and where there is one.
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


def appraised(learner: Learner[Any, Any, Any], people: Crowd) -> Appraisal | None:
    """What a learner says of its recommendation; None for one that cannot tell, for budgets that
    promise nothing, and where the truth is not known or would take people's own decision sets."""
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

    All replicates of a setting start before those of the next setting, so that its line of the
    result is there early.

    Args:
        problem: where the people come from.
        settings: in the order in which they shall run.
        rounds: people in each replicate.
        replicates: of each setting.
        seed: with the replicate it fixes everything that is drawn.
        jobs: processes.
        study: the study's name, for the records.
        digest: of the study, for the records.
        done: labels and replicates that are left out, as they were simulated before.

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
    """Refuse a setting that cannot run on this problem, before anything runs.

    Returns:
        What the user should know about its options, each one sentence.
    """
    if setting.learner in REFERENCES:
        if setting.options:
            raise InvalidInput(f"{setting.learner} has no options; remove {dict(setting.options)}.")
        problem.check_reference(setting.learner)
        return ()
    learner = learner_of(problem, setting, rounds, 0, SimulatedNoise(0))
    return (*learner.warnings, *_visit_warnings(problem, learner))


def _visit_warnings(problem: Problem, learner: Learner[Any, Any, Any]) -> Iterator[str]:
    """What a user should know of people who come more than once.

    Raises:
        InvalidInput: where a budget covers several visits, and nothing says who comes, or as
            `check_visits`.
    """
    budget, visits = learner.budget, problem.visits
    if visits is None and budget.visits > 1:
        raise InvalidInput(
            f"visits was {budget.visits}, but nothing says which rows are of one person: name the "
            'column that does, as id = "..." under [people], or leave visits out.'
        )
    if visits is None or not budget.private or budget.protects == "visit":
        return
    beyond = int(np.maximum(visits - budget.visits, 0).sum())
    check_visits(learner, beyond)
    if beyond:
        yield (
            f"{beyond:,} of {int(visits.sum()):,} visits in the table come after the first "
            f"{'one' if budget.visits == 1 else budget.visits} of their person: those people are "
            f"served, and under visits = {budget.visits} nothing is learnt from that."
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
