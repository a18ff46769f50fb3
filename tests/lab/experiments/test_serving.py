"""Sources in simulations: batch by batch under their policies, before the target is served or
while it is."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from discreet.lab.environments.synthetic import draw_auxiliary, exponential
from discreet.lab.experiments import (
    Arrival,
    Source,
    feed_source,
    run_learner,
    run_with_sources,
)
from discreet.learners.registry import make_learner
from discreet.privacy import Local, NonPrivate, SimulatedNoise
from discreet.validation import InvalidInput

PROBLEM = exponential()
ROOT = Path(__file__).resolve().parents[3]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def fresh(name: str = "published_partition"):  # type: ignore[no-untyped-def]
    options = {"published_partition": {"batch_size": 50}, "local_kernel": {"growth": 0.3}}
    options = options.get(name, {})
    return make_learner(name, PROBLEM.domain, 3, Local(4.0), options=options, horizon=1000)


def sources(people: int = 170, arrives: Arrival = "before") -> list[Source]:
    return [
        Source(name, epsilon, draw_auxiliary(PROBLEM, people, rng(seed)), arrives)
        for seed, (name, epsilon) in enumerate((("near", 8.0), ("far", 2.0)))
    ]


@pytest.mark.parametrize("name", ["local_kernel", "published_partition"])
def test_every_person_of_a_source_reports_once_in_batches(name: str) -> None:
    learner = fresh(name)
    data = draw_auxiliary(PROBLEM, 530, rng())
    learner.open_source("near", 8.0)
    feed_source(learner, "near", data, SimulatedNoise(1))
    assert learner.streams["near"].people == 530
    assert learner.people == 0
    if name == "published_partition":
        assert learner.policy("near").version == 530 // 50


def test_a_batch_that_was_begun_is_finished_under_its_policy() -> None:
    learner = fresh()
    learner.open_source("near", 8.0)
    for people in (30, 40):
        feed_source(learner, "near", draw_auxiliary(PROBLEM, people, rng()), SimulatedNoise(1))
    assert learner.streams["near"].people == 70
    assert learner.policy("near").version == 1


@pytest.mark.parametrize("name", ["local_kernel", "published_partition"])
def test_sources_come_first_and_are_promised_their_own_epsilon(name: str) -> None:
    learner = fresh(name)
    people = PROBLEM.sample(300, rng(5))
    values = run_with_sources(learner, people, sources(), rng(6), SimulatedNoise(7))
    assert values.shape == (300,)
    assert learner.people == 300
    assert learner.sources == ("near", "far")
    held = {source: learner.streams[source].guarantee().epsilon for source in learner.sources}
    assert held == pytest.approx({"near": 8.0, "far": 2.0})
    assert learner.guarantee().epsilon == pytest.approx(4.0)


HEARING = ["local_kernel", "published_partition", "private_linear", "private_neural"]


@pytest.mark.parametrize("name", HEARING)
def test_sources_that_stream_keep_step_with_the_target(name: str) -> None:
    learner = fresh(name)
    given = [*sources(170, "during"), Source("first", 8.0, sources()[0].data)]
    seen: list[tuple[int, int, int]] = []

    def look(policy: object, served: int) -> None:
        assert learner.streams["first"].people == 170, "it came before the target"
        seen.append((served, learner.streams["near"].people, learner.streams["far"].people))

    people = PROBLEM.sample(600, rng(5))
    values = run_with_sources(learner, people, given, rng(6), SimulatedNoise(7), [look])
    assert values.shape == (600,)
    assert len(seen) > 2
    # What is watched is watched before the sources' share of the batch.
    for (earlier, _, _), (_, near, far) in pairwise([(0, 0, 0), *seen]):
        assert near == far == 170 * earlier // 600
    assert learner.streams["near"].people == learner.streams["far"].people == 170
    held = {source: learner.streams[source].guarantee().epsilon for source in learner.sources}
    assert held == pytest.approx({"near": 8.0, "far": 2.0, "first": 8.0})
    assert learner.guarantee().epsilon == pytest.approx(4.0)


def test_a_long_source_takes_several_policies_between_two_batches() -> None:
    learner = fresh()
    data = draw_auxiliary(PROBLEM, 4000, rng())
    people = PROBLEM.sample(200, rng(5))
    run_with_sources(
        learner, people, [Source("near", 8.0, data, "during")], rng(6), SimulatedNoise(7)
    )
    assert learner.streams["near"].people == 4000
    assert learner.policy("near").version == 4000 // 50


@pytest.mark.slow
def test_a_source_that_streams_helps_ours_while_the_target_runs() -> None:
    """Epsilon 1 learns little from 3000 people alone; players at epsilon 8 tell it on the way."""

    def halves(given: list[Source]) -> tuple[float, float]:
        learner = make_learner("local_kernel", PROBLEM.domain, 3, Local(1.0), public_seed=0)
        values = run_with_sources(
            learner, PROBLEM.sample(3000, rng()), given, rng(), SimulatedNoise(0)
        )
        return float(values[:1500].mean()), float(values[1500:].mean())

    data = draw_auxiliary(PROBLEM, 6000, rng(1))
    streaming = [Source("near", 8.0, data, "during")]
    alone, before, during = map(halves, ([], [Source("near", 8.0, data)], streaming))
    assert during[1] < 0.25 * alone[1], "late people profit as from a jump-start"
    assert before[0] < during[0] < alone[0], "early people less"


def test_the_order_in_which_datasets_report_does_not_change_estimates_as_published() -> None:
    """Eqs (26) and (28) do not say which data came when (section 5 of the paper)."""
    target, source = PROBLEM.sample(40, rng(1)), draw_auxiliary(PROBLEM, 40, rng(2))
    states = []
    for source_first in (True, False):
        learner = fresh()
        learner.open_source("near", 8.0)
        ours, theirs = learner.policy(), learner.policy("near")
        actions, _ = ours.act(target.contexts, rng(3))
        rewards = target.received(actions, 0)
        reports = ours.report(target.contexts, actions, rewards, SimulatedNoise(4))
        told = theirs.report(source.contexts, source.arms, source.rewards, SimulatedNoise(5))
        steps = [partial(learner.update, told), partial(learner.update, reports)]
        for step in steps if source_first else reversed(steps):
            step()
        states.append(learner._bounds(np.array([0]), learner._sums))
    for one, other in zip(*states, strict=True):
        np.testing.assert_array_equal(one, other)


def test_when_a_source_arrives_must_be_known() -> None:
    with pytest.raises(InvalidInput, match="arrives was 'after'"):
        sources(10, "after")  # type: ignore[arg-type]
    learner = make_learner("uniform", PROBLEM.domain, 3, NonPrivate())
    people = PROBLEM.sample(10, rng())
    with pytest.raises(InvalidInput, match="but takes none"):
        run_with_sources(learner, people, sources(10, "during"), rng(), SimulatedNoise(0))


def test_parts_of_data_are_the_people_in_order() -> None:
    data = draw_auxiliary(PROBLEM, 10, rng())
    part = data.part(3, 7)
    assert len(part) == 4
    assert (part.contexts == data.contexts[3:7]).all()
    assert (part.arms == data.arms[3:7]).all()
    assert (part.rewards == data.rewards[3:7]).all()


def test_no_source_changes_nothing() -> None:
    people = PROBLEM.sample(300, rng(5))
    plain = run_learner(fresh(), people, rng(6), SimulatedNoise(7))
    assert (plain == run_with_sources(fresh(), people, [], rng(6), SimulatedNoise(7))).all()


def test_a_source_is_opened_once() -> None:
    twice, people = [sources()[0]] * 2, PROBLEM.sample(10, rng())
    with pytest.raises(InvalidInput, match="open already"):
        run_with_sources(fresh(), people, twice, rng(), SimulatedNoise(0))


def test_a_policy_lasts_from_crowd_to_crowd() -> None:
    learner, served = fresh(), []
    for seed, size in enumerate((30, 40, 5, 75)):  # batches have 50 people
        people = PROBLEM.sample(size, rng(seed))
        after = [lambda policy, stop: served.append(policy.version)]
        values = run_learner(learner, people, rng(seed), SimulatedNoise(seed), after)
        assert len(values) == size
    assert served == [0, 0, 1, 1, 1, 2]
    assert learner.people == 150


@pytest.mark.slow
def test_memory_does_not_grow_with_people() -> None:
    """A million people of `partition`, and ten million, each in a process of its own."""
    peaks = []
    for line in ("0", "1"):
        command = [sys.executable, "benchmarks/large.py", "--line", line]
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        peaks.append(json.loads(done.stdout)["megabytes"])
    assert peaks[1] < 1.1 * peaks[0]
