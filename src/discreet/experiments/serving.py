"""People are served: learners choose, people report, auxiliary sources are heard.

People come in batches as large as the learner's policy lasts; within a batch everything is
vectorised.

| array  | shape  | meaning                                             |
|--------|--------|-----------------------------------------------------|
| values | (n,)   | what each person contributed to the metric          |
| at     | (t,)   | numbers of people at which a trace is taken         |
| trace  | (t,)   | the metric summed over so many people               |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from discreet.learners.base import Learner
from discreet.learners.messages import Policy
from discreet.learners.sources import SourceLearner
from discreet.privacy import SimulatedNoise
from discreet.problems.auxiliary import AuxiliaryData
from discreet.problems.base import Crowd
from discreet.validation import FloatArray, IntArray, InvalidInput

# Called after each batch with the policy that served it and how many people were served by then.
AfterBatch = Callable[[Policy[Any], int], None]
# When the people of an auxiliary source report: before the target's first person, or spread evenly
# between the target's people.
Arrival = Literal["before", "during"]

# Points of a trace: enough for a smooth curve, few enough for a small report.
_TRACE_POINTS = 200


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


def _in_step(
    learner: SourceLearner[Any, Any, Any, Any],
    sources: Sequence[Source],
    people: int,
    noise: SimulatedNoise,
) -> AfterBatch:
    """Lets the people of sources report in step with `people` of the target."""
    reported = [0] * len(sources)

    def report(policy: Policy[Any], served: int) -> None:
        for place, source in enumerate(sources):
            due = len(source.data) * served // people
            if due > reported[place]:
                part = source.data.part(reported[place], due)
                feed_source(learner, source.name, part, noise)
                reported[place] = due

    return report


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
        calls.append(_in_step(learner, later, len(people), noise))
    return run_learner(learner, people, rng, noise, calls)


def trace_of(values: FloatArray) -> tuple[IntArray, FloatArray]:
    """Where a trace of values (n,) is taken, `at`, and the trace."""
    points = min(_TRACE_POINTS, len(values))
    at = np.unique(np.linspace(1, len(values), points).astype(np.int64))
    trace: FloatArray = np.cumsum(values)[at - 1]
    return at, trace
