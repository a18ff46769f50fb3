"""Runs learners on problems: replicates, progress, traces.

People come in batches as large as the learner's policy lasts; within a batch everything is
vectorised. Replicate r of a study draws its people from the study's seed and r alone, so all
learners of a replicate meet the same people in the same order, and the result does not depend on
how many processes shared the work.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import joblib
import numpy as np

from discreet.learners.base import Learner
from discreet.learners.messages import Policy
from discreet.learners.registry import make_learner
from discreet.learners.sources import SourceLearner
from discreet.privacy import Budget, Guarantee, NonPrivate, SimulatedNoise
from discreet.problems.auxiliary import AuxiliaryData
from discreet.problems.base import Crowd, Problem
from discreet.records import RunRecord
from discreet.validation import FloatArray, IntArray, InvalidInput, whole_number

# Called after each batch with the policy that served it and how many people were served by then.
AfterBatch = Callable[[Policy[Any], int], None]
# When the people of an auxiliary source report: before the target's first person, or spread evenly
# between the target's people.
Arrival = Literal["before", "during"]

# A task of joblib: a function, its arguments and its keywords.
Task = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]

# How long a replicate takes is tried on one person in so many, but on no fewer than so many, as
# learners also take a time that does not depend on how many people there are. Studies of fewer
# people are too small to try anything first.
_PILOT_SHARE, _PILOT_PEOPLE, _SMALL_STUDY = 100, 500, 5000
# Points of a trace: enough for a smooth curve, few enough for a small report.
_TRACE_POINTS = 200

UNIFORM = "uniform"
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
    """

    learner: str
    label: str
    budget: Budget = field(default_factory=NonPrivate)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def private(self) -> bool:
        """Whether anything is promised."""
        return not isinstance(self.budget, NonPrivate)


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
    """

    setting: Setting
    record: RunRecord
    rounds: IntArray
    trace: FloatArray
    guarantee: Guarantee | None = None
    policy: Policy[Any] | None = None


def run_learner(
    learner: Learner[Any, Any, Any],
    people: Crowd,
    rng: np.random.Generator,
    noise: SimulatedNoise,
    after: Sequence[AfterBatch] = (),
) -> FloatArray:
    """Let the learner serve all people in order.

    Args:
        learner: which has served nobody yet.
        people: of the target, in order.
        rng: draws tickets.
        noise: protects their reports.
        after: called after each batch, when its reports have been added.

    Returns:
        (n,) what each person contributed to the metric.
    """
    values = np.empty(len(people))
    start = 0
    while start < len(people):
        policy = learner.policy()
        stop = min(start + learner.batch_size, len(people))
        contexts = people.contexts[start:stop]
        actions, _ = policy.act(contexts, rng)
        rewards = people.received(actions, start)
        values[start:stop] = people.value(actions, start)
        learner.update(policy.report(contexts, actions, rewards, noise))
        start = stop
        for call in after:
            call(policy, stop)
    return values


@dataclass(frozen=True, eq=False)
class Source:
    """An auxiliary source as a simulation plays it.

    Attributes:
        name: what the learner calls it.
        epsilon: what a report of its people costs.
        data: what happened to them.
        arrives: whether they report before the target's first person, or in step with the target's
            people: once a share of these was served, as large a share of the source has reported.
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
    learner: SourceLearner[Any, Any, Any, Any],
    name: str,
    data: AuxiliaryData,
    noise: SimulatedNoise,
) -> None:
    """Let the people of an open source report in order, batch by batch under its policies."""
    policy, under, start = None, 0, 0
    while start < len(data):
        current = learner.source_policy(name)
        under = under if current is policy else 0
        policy = current
        left = max(learner.source_batch(name) - under, 1)
        stop = min(start + left, len(data))
        rows = slice(start, stop)
        learner.update_source(
            current.report(data.contexts[rows], data.arms[rows], data.rewards[rows], noise)
        )
        under += stop - start
        start = stop


def feed_sources(
    learner: Learner[Any, Any, Any], sources: Sequence[Source], noise: SimulatedNoise
) -> None:
    """Open all sources, then let those that arrive before report in the order given (the
    jump-start).

    Raises:
        InvalidInput: for a learner that hears from no sources, before anything is opened.
    """
    if not sources:
        return
    if not isinstance(learner, SourceLearner):
        raise InvalidInput(
            f"{learner.name} was given {len(sources)} sources, but it hears from none; use a "
            "learner that does, such as partition, or leave the sources out."
        )
    for source in sources:
        learner.open_source(source.name, source.epsilon)
    for source in sources:
        if source.arrives == "before":
            feed_source(learner, source.name, source.data, noise)


class _InStep:
    """Lets the people of sources report in step with `people` of the target."""

    def __init__(
        self,
        learner: SourceLearner[Any, Any, Any, Any],
        sources: Sequence[Source],
        people: int,
        noise: SimulatedNoise,
    ) -> None:
        self._learner, self._people, self._noise = learner, people, noise
        self._sources = sources
        self._heard = [0] * len(sources)

    def __call__(self, policy: Policy[Any], served: int) -> None:
        for place, source in enumerate(self._sources):
            heard, due = self._heard[place], len(source.data) * served // self._people
            if due > heard:
                feed_source(self._learner, source.name, source.data.part(heard, due), self._noise)
                self._heard[place] = due


def run_with_sources(
    learner: Learner[Any, Any, Any],
    people: Crowd,
    sources: Sequence[Source],
    rng: np.random.Generator,
    noise: SimulatedNoise,
    after: Sequence[AfterBatch] = (),
) -> FloatArray:
    """Let the learner serve all people in order, and hear each source when it arrives.

    All sources are opened first. Those that arrive before report; then, after each batch of the
    target, those that arrive during its time have their share of people report.

    Returns:
        (n,) what each person of the target contributed to the metric.
    """
    feed_sources(learner, sources, noise)
    later = [source for source in sources if source.arrives == "during"]
    calls = list(after)
    if later and isinstance(learner, SourceLearner):
        calls.append(_InStep(learner, later, len(people), noise))
    return run_learner(learner, people, rng, noise, calls)


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
    _, acting, noise, public = _seeds(seed, replicate)
    people = people_of(problem, rounds, seed, replicate)
    started = time.perf_counter()
    guarantee = policy = None
    if setting.learner in REFERENCES:
        values = people.best_fixed() if setting.learner == BEST_FIXED else people.oracle()
    else:
        simulated = SimulatedNoise(noise)
        learner = _learner(problem, setting, rounds, int(public.generate_state(1)[0]), simulated)
        values = run_learner(learner, people, np.random.default_rng(acting), simulated)
        guarantee = learner.guarantee()
        policy = learner.policy() if replicate == 0 else None
    seconds = time.perf_counter() - started
    at, trace = _trace(values)
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
    return Outcome(setting, record, at, trace, guarantee, policy)


def people_of(problem: Problem, rounds: int, seed: int, replicate: int) -> Crowd:
    """The people of a replicate, whom all its settings meet."""
    return problem.sample(rounds, np.random.default_rng(_seeds(seed, replicate)[0]))


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
    result is there early. joblib's backend decides where the work is done: `loky` processes by
    default, or Dask or Ray through `joblib.parallel_config(backend=...)`.

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
    whole_number(replicates, "replicates", minimum=1)
    whole_number(jobs, "jobs", minimum=1)
    for setting in settings:
        check_setting(problem, setting, rounds)
    skipped = set(done)
    return _shared_out(
        (
            joblib.delayed(simulate)(problem, setting, rounds, seed, replicate, study, digest)
            for setting in settings
            for replicate in range(replicates)
            if (setting.label, replicate) not in skipped
        ),
        jobs,
    )


def expected_seconds(
    problem: Problem, settings: Sequence[Setting], rounds: int, seed: int, jobs: int = 1
) -> dict[str, float]:
    """About how many seconds a replicate takes, by label, as far as a few people show.

    In small studies only choices that need no learning are known to be quick: they have 0, all
    others infinity.
    """
    if rounds < _SMALL_STUDY:
        quick = (*REFERENCES, UNIFORM)
        return {one.label: 0.0 if one.learner in quick else math.inf for one in settings}
    people = max(rounds // _PILOT_SHARE, _PILOT_PEOPLE)
    trials = (joblib.delayed(_pilot)(problem, setting, people, seed) for setting in settings)
    seconds = dict(_shared_out(trials, jobs))
    return {one.label: seconds[one.label] * rounds / people for one in settings}


def _pilot(problem: Problem, setting: Setting, people: int, seed: int) -> tuple[str, float]:
    """The seconds of a short run; infinity for a setting that cannot be this short."""
    try:
        return setting.label, simulate(problem, setting, people, seed, 0).record.seconds
    except InvalidInput:
        return setting.label, math.inf


def _shared_out(tasks: Iterable[Task], jobs: int) -> Iterator[Any]:
    """The results of joblib's tasks, in the order in which they finish."""
    # Each replicate is one thread of arithmetic: BLAS threads would only fight over the cores.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    if jobs == 1:
        return (function(*arguments, **keywords) for function, arguments, keywords in tasks)
    results: Iterator[Any] = joblib.Parallel(
        n_jobs=jobs, return_as="generator_unordered", pre_dispatch="2*n_jobs", batch_size=1
    )(tasks)
    return results


def check_setting(problem: Problem, setting: Setting, rounds: int) -> tuple[str, ...]:
    """Refuse a setting that cannot run on this problem, before anything runs.

    Returns:
        What the user should know about its options, each one sentence.
    """
    if setting.learner in REFERENCES:
        if setting.options:
            raise InvalidInput(f"{setting.learner} has no options; remove {dict(setting.options)}.")
        return ()
    return _learner(problem, setting, rounds, 0, SimulatedNoise(0)).warnings


def _seeds(seed: int, replicate: int) -> list[np.random.SeedSequence]:
    """For the people, their actions, the noise and the learner's public randomness."""
    return np.random.SeedSequence([seed, replicate]).spawn(4)


def _learner(
    problem: Problem, setting: Setting, rounds: int, public_seed: int, noise: SimulatedNoise
) -> Learner[Any, Any, Any]:
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


def _trace(values: FloatArray) -> tuple[IntArray, FloatArray]:
    points = min(_TRACE_POINTS, len(values))
    at = np.unique(np.linspace(1, len(values), points).astype(np.int64))
    trace: FloatArray = np.cumsum(values)[at - 1]
    return at, trace
