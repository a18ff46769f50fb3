"""Sources in simulations: batch by batch under their policies, before the target is served."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.learners.registry import make_learner
from discreet.privacy import Local, NonPrivate, SimulatedNoise
from discreet.problems.auxiliary import draw_auxiliary
from discreet.problems.synthetic import exponential
from discreet.simulation import (
    Source,
    feed_source,
    feed_sources,
    run_learner,
    run_with_sources,
)
from discreet.validation import InvalidInput

PROBLEM = exponential()


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def fresh(name: str = "published_partition"):  # type: ignore[no-untyped-def]
    options = {"batch_size": 50} if name == "published_partition" else {}
    return make_learner(name, PROBLEM.domain, 3, Local(4.0), options=options, horizon=1000)


def sources(people: int = 170) -> list[Source]:
    return [
        Source(name, epsilon, draw_auxiliary(PROBLEM, people, rng(seed)))
        for seed, (name, epsilon) in enumerate((("near", 8.0), ("far", 2.0)))
    ]


@pytest.mark.parametrize("name", ["partition", "published_partition"])
def test_every_person_of_a_source_reports_once_in_batches(name: str) -> None:
    learner = fresh(name)
    data = draw_auxiliary(PROBLEM, 530, rng())
    learner.open_source("near", 8.0)
    feed_source(learner, "near", data, SimulatedNoise(1))
    assert learner.source_people("near") == 530
    assert learner.people == 0
    versions = learner.source_policy("near").version
    assert versions == 530 // (50 if name == "published_partition" else 200)


def test_a_batch_that_was_begun_is_finished_under_its_policy() -> None:
    learner = fresh()
    learner.open_source("near", 8.0)
    for people in (30, 40):
        feed_source(learner, "near", draw_auxiliary(PROBLEM, people, rng()), SimulatedNoise(1))
    assert learner.source_people("near") == 70
    assert learner.source_policy("near").version == 1


@pytest.mark.parametrize("name", ["partition", "published_partition"])
def test_sources_come_first_and_are_promised_their_own_epsilon(name: str) -> None:
    learner = fresh(name)
    people = PROBLEM.sample(300, rng(5))
    values = run_with_sources(learner, people, sources(), rng(6), SimulatedNoise(7))
    assert values.shape == (300,)
    assert learner.people == 300
    assert learner.sources == ("near", "far")
    held = {source: one.epsilon for source, one in learner.source_guarantees().items()}
    assert held == pytest.approx({"near": 8.0, "far": 2.0})
    assert learner.guarantee().epsilon == pytest.approx(4.0)


def test_no_source_changes_nothing() -> None:
    people = PROBLEM.sample(300, rng(5))
    plain = run_learner(fresh(), people, rng(6), SimulatedNoise(7))
    assert (plain == run_with_sources(fresh(), people, [], rng(6), SimulatedNoise(7))).all()


def test_learners_that_hear_from_none_are_refused() -> None:
    learner = make_learner("uniform", PROBLEM.domain, 3, NonPrivate())
    with pytest.raises(InvalidInput, match="it hears from none"):
        feed_sources(learner, sources(), SimulatedNoise(0))
    twice = [sources()[0]] * 2
    with pytest.raises(InvalidInput, match="open already"):
        feed_sources(fresh(), twice, SimulatedNoise(0))
