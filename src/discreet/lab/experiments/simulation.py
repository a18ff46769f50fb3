"""Studies: learners under budgets, and references, all on the people of one problem.

Replicate r draws its people from the study's seed and r alone, so all learners of a replicate meet
the same people in the same order.

A learner serves people in batches as large as its policy lasts; within a batch everything is
vectorised. Auxiliary sources report too.

| array  | shape  | meaning                                             |
|--------|--------|-----------------------------------------------------|
| values | (n,)   | each person's contribution to the metric            |
| at     | (t,)   | numbers of people at which a trace is taken         |
| trace  | (t,)   | the metric summed over the people up to there       |
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from discreet.lab.environments.base import Population, Problem
from discreet.lab.experiments.engine import Seed, run_trials
from discreet.learners.base import Learner
from discreet.learners.contributions import earlier_contributions
from discreet.learners.policy import Actions, Policy
from discreet.learners.registry import make_learner
from discreet.learners.shuffler import Shuffler
from discreet.learners.values import Value
from discreet.privacy import Budget, Guarantee, NonPrivate, SimulatedNoise
from discreet.records import RunRecord
from discreet.validation import BoolArray, FloatArray, IntArray, InvalidInput, whole_number

if TYPE_CHECKING:
    from discreet.lab.environments.synthetic import AuxiliaryData

# Called after each batch with its policy and the number of people served by then.
AfterBatch = Callable[[Policy[Any], int], None]
# When the people of an auxiliary source report: before the target's first person, or in step with
# the target's people.
Arrival = Literal["before", "during"]

# Points of a trace: enough for a smooth curve, few enough for a small report.
_TRACE_POINTS = 200


def run_learner(
    learner: Learner[Any, Any, Any],
    people: Population,
    rng: np.random.Generator,
    noise: SimulatedNoise,
    after: Sequence[AfterBatch] = (),
) -> FloatArray:
    """Let the learner serve all people in order.

    Populations may follow each other, in the memory of one: a policy lasts from one to the next.
    All visits of a person must be in one population.

    Where people come more than once (`Population.ids`), a person under local privacy makes as many
    reports as the budget covers and then acts without reporting; a trusted learner gets the ids and
    counts for itself. Shuffled reports reach it in whole groups; the last of a population, which
    fill none, do not.

    Args:
        learner: which serves them.
        people: of the target, in order.
        rng: draws public coins.
        noise: of the reports.
        after: called after each batch, when its reports have been added.

    Returns:
        (n,) each person's contribution to the metric.

    Raises:
        InvalidInput: as `check_contributions`, before the first person is served.
    """
    values = np.empty(len(people))
    budget, ids = learner.budget, people.ids
    counted = ids is not None and budget.protects == "person"
    silent: BoolArray | None = None
    if ids is not None and counted and budget.is_local:
        silent = earlier_contributions(ids) >= budget.max_contributions
        check_contributions(learner, int(silent.sum()))
    shuffler, start = Shuffler(budget.group, rng) if budget.group > 1 else None, 0
    while start < len(people):
        policy = learner.policy()
        under = learner.people - learner.published_from + len(shuffler or ())
        stop = min(start + max(learner.batch_of() - under, 1), len(people))
        contexts, actions = people.served(start, stop, partial(_acted, policy, rng))
        stop = start + len(contexts)
        rewards = people.received(actions, start)
        values[start:stop] = people.value(actions, start)
        if silent is not None and silent[start:stop].any():
            some = np.flatnonzero(~silent[start:stop])
            contexts, actions, rewards = contexts[some], actions[some], rewards[some]
        if len(rewards):
            reports = policy.report(contexts, actions, rewards, noise)
            trusted = counted and budget.is_central
            given = (
                [reports]
                if shuffler is None
                else shuffler.add(reports, f"version {policy.version}")
            )
            for each in given:
                learner.update(each, ids[start:stop] if ids is not None and trusted else None)
        start = stop
        for call in after:
            call(policy, stop)
    return values


def _acted(policy: Policy[Any], rng: np.random.Generator, contexts: FloatArray) -> Actions:
    """The actions of a policy for people with these contexts."""
    actions, _ = policy.act(contexts, rng)
    return actions


def check_contributions(learner: Learner[Any, Any, Any], beyond: int) -> None:
    """Reject people whose visits would cost privacy without a report.

    Args:
        learner: which serves them.
        beyond: the number of visits beyond those that its budget covers.
    """
    if beyond and not learner.acts_silently:
        raise InvalidInput(
            f"{beyond} visits come after the first one of their person, but {learner.name} reveals "
            "something of a context at every action, also without a report; take another learner, "
            'let each person come once, or set protects = "contribution".'
        )


@dataclass(frozen=True, eq=False)
class Source:
    """An auxiliary source in a simulation.

    Attributes:
        name: of the stream.
        epsilon: the cost of a report.
        data: of its people.
        arrives: whether its people report before the target's first person, or in step with the
            target's people: once a share of these was served, the same share has reported.
    """

    name: str
    epsilon: float
    data: AuxiliaryData
    arrives: Arrival = "before"

    def __post_init__(self) -> None:
        if self.arrives not in get_args(Arrival):
            raise InvalidInput(
                f"arrives was {self.arrives!r:.80}; the people of a source report 'before' those "
                "of the target or 'during' their time."
            )


def feed_source(
    learner: Learner[Any, Any, Any],
    name: str,
    data: AuxiliaryData,
    noise: SimulatedNoise,
) -> None:
    """Let the people of an open source report in order, batch by batch under its policies."""
    policy, under, start = None, 0, 0
    while start < len(data):
        current = learner.policy(name)
        under = under if current is policy else 0
        policy = current
        left = max(learner.batch_of(name) - under, 1)
        stop = min(start + left, len(data))
        rows = slice(start, stop)
        learner.update(
            current.report(data.contexts[rows], data.arms[rows], data.rewards[rows], noise)
        )
        under += stop - start
        start = stop


def run_with_sources(
    learner: Learner[Any, Any, Any],
    people: Population,
    sources: Sequence[Source],
    rng: np.random.Generator,
    noise: SimulatedNoise,
    after: Sequence[AfterBatch] = (),
) -> FloatArray:
    """Let the learner serve all people in order, and add each source's reports as they arrive.

    All sources are opened first. Sources that arrive before report in the order given (the
    jump-start); after each batch of the target, the others report their share.

    Returns:
        (n,) the contribution of each person of the target to the metric.

    Raises:
        InvalidInput: for sources of a learner that takes none, before anything is opened.
    """
    if not sources:
        return run_learner(learner, people, rng, noise, after)
    if not learner.takes_sources:
        raise InvalidInput(
            f"{learner.name} was given {len(sources)} sources, but takes none; use a learner that "
            "does, such as kernel, or leave the sources out."
        )
    for source in sources:
        learner.open_source(source.name, source.epsilon)
    for source in sources:
        if source.arrives == "before":
            feed_source(learner, source.name, source.data, noise)
    reported = {source.name: 0 for source in sources if source.arrives == "during"}

    def in_step(policy: Policy[Any], served: int) -> None:
        for source in sources:
            due = len(source.data) * served // len(people)
            if due > reported.get(source.name, due):
                part = source.data.part(reported[source.name], due)
                feed_source(learner, source.name, part, noise)
                reported[source.name] = due

    return run_learner(learner, people, rng, noise, [*after, in_step])


def play(
    seed: Seed,
    people: Population,
    make: Callable[[int, SimulatedNoise], Learner[Any, Any, Any]],
    sources: Sequence[Source] = (),
    after: Sequence[AfterBatch] = (),
) -> tuple[Learner[Any, Any, Any], FloatArray, float]:
    """One trial: a new learner serves the people of `people_of`.

    Args:
        seed: of everything else that is drawn.
        people: in order.
        make: a new learner from its public seed and its noise.
        sources: auxiliary sources, if any.
        after: see `run_learner`.

    Returns:
        The learner, (n,) each person's contribution to the metric, and the seconds that the
        learner, its policies and reports took.
    """
    _, acting, drawn, public = seed.streams(4)
    noise, rng = SimulatedNoise(drawn), np.random.default_rng(acting)
    started = time.perf_counter()
    learner = make(int(public.generate_state(1)[0]), noise)
    values = run_with_sources(learner, people, sources, rng, noise, after)
    return learner, values, time.perf_counter() - started


def people_of(problem: Problem, rounds: int, seed: int, trial: int) -> Population:
    """The people of a trial, the same in all settings."""
    return problem.sample(rounds, np.random.default_rng(Seed(seed, trial).streams(1)[0]))


def trace_of(values: FloatArray) -> tuple[IntArray, FloatArray]:
    """Where a trace of values (n,) is taken, `at`, and the trace."""
    points = min(_TRACE_POINTS, len(values))
    at = np.unique(np.linspace(1, len(values), points).astype(np.int64))
    trace: FloatArray = np.cumsum(values)[at - 1]
    return at, trace


UNIFORM = "uniform"
HIGHEST = "highest"
BEST_FIXED = "best_fixed"
ORACLE = "oracle"
REFERENCES = {
    BEST_FIXED: "the choice that is best for everyone together, known in hindsight",
    ORACLE: "the best choice for each distinct context, known in hindsight (in sample)",
}
# What learns nothing from people.
FIXED_RULES = (UNIFORM, HIGHEST, *REFERENCES)


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

    @property
    def learns(self) -> bool:
        """Whether it learns from people; references and fixed rules do not."""
        return self.learner not in FIXED_RULES


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
