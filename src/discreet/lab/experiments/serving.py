"""Learners serve people: they choose, people report, auxiliary sources report too.

People come in batches as large as the learner's policy lasts; within a batch everything is
vectorised.

| array  | shape  | meaning                                             |
|--------|--------|-----------------------------------------------------|
| values | (n,)   | each person's contribution to the metric            |
| at     | (t,)   | numbers of people at which a trace is taken         |
| trace  | (t,)   | the metric summed over the people up to there       |
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from discreet.lab.environments.base import Population, Problem
from discreet.lab.experiments.engine import Seed
from discreet.learners.base import Learner
from discreet.learners.contributions import earlier_contributions
from discreet.learners.policy import Actions, Policy
from discreet.privacy import SimulatedNoise
from discreet.validation import BoolArray, FloatArray, IntArray, InvalidInput

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
    counts for itself.

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
    start = 0
    while start < len(people):
        policy = learner.policy()
        under = learner.people - learner.published_from
        stop = min(start + max(learner.batch_size - under, 1), len(people))
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
            learner.update(reports, ids[start:stop] if ids is not None and trusted else None)
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


# The auxiliary sources of a trial.
DrawSources = Callable[[np.random.Generator], Sequence[Source]]


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
            "does, such as local_kernel, or leave the sources out."
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
    sources: DrawSources | None = None,
    after: Sequence[AfterBatch] = (),
) -> tuple[Learner[Any, Any, Any], FloatArray, float]:
    """One trial: a new learner serves the people of `people_of`.

    Args:
        seed: of everything else that is drawn.
        people: in order.
        make: a new learner from its public seed and its noise.
        sources: draws the auxiliary sources, if any.
        after: see `run_learner`.

    Returns:
        The learner, (n,) each person's contribution to the metric, and the seconds that the
        learner, its policies and reports took.
    """
    _, acting, drawn, public, elsewhere = seed.streams(5)
    noise, rng = SimulatedNoise(drawn), np.random.default_rng(acting)
    given = () if sources is None else sources(np.random.default_rng(elsewhere))
    started = time.perf_counter()
    learner = make(int(public.generate_state(1)[0]), noise)
    values = run_with_sources(learner, people, given, rng, noise, after)
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
