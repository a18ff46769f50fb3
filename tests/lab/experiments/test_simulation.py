"""Simulations are reproducible, paired, and the same however the work is shared.

How long learners take, from how long short runs took.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import joblib
import numpy as np
import pytest

from discreet.lab.environments.base import People, Problem
from discreet.lab.environments.catalog import load_problem
from discreet.lab.environments.functions import FunctionProblem
from discreet.lab.environments.kernel_grid import GridPopulation
from discreet.lab.environments.synthetic import draw_auxiliary, exponential
from discreet.lab.environments.tables import ClassificationProblem
from discreet.lab.experiments import (
    BEST_FIXED,
    ORACLE,
    Arrival,
    Seed,
    Setting,
    Source,
    feed_source,
    people_of,
    run_learner,
    run_trials,
    run_with_sources,
    simulate,
    simulate_all,
    simulation,
)
from discreet.learners.registry import make_learner
from discreet.people.domain import Box
from discreet.privacy import Joint, Local, NonPrivate, SimulatedNoise
from discreet.validation import InvalidInput

PARTITION = Setting("partition", "partition", Local(2.0))
UNIFORM = Setting("uniform", "uniform")


def table() -> ClassificationProblem:
    """30 people with three distinct contexts; classes 0, 1, 2 occur 14, 10 and 6 times."""
    contexts = np.repeat([[0.0], [1.0], [2.0]], [12, 10, 8], axis=0)
    labels = np.array([0] * 12 + [1] * 8 + [0] * 2 + [2] * 6 + [1] * 2)
    return ClassificationProblem(contexts, labels, Box((0.0,), (2.0,)), ("a", "b", "c"), "a test")


def test_the_same_seed_gives_the_same_outcome() -> None:
    one, two = (simulate(exponential(), PARTITION, 3000, 1, 0) for _ in range(2))
    assert one.record.value == two.record.value
    assert np.array_equal(one.trace, two.trace)
    assert simulate(exponential(), PARTITION, 3000, 2, 0).record.value != one.record.value
    other = simulate(exponential(), PARTITION, 3000, 1, 1)
    assert other.record.value != one.record.value
    # Policies are kept for the first replicate only, and traces end at the total.
    assert (one.policy is None, other.policy is None) == (False, True)
    assert (one.rounds[0], one.rounds[-1], one.trace[-1]) == (1, 3000, one.record.value)
    assert (np.diff(one.trace) >= 0.0).all()


def test_processes_do_not_change_the_result() -> None:
    settings = [PARTITION, UNIFORM, Setting(BEST_FIXED, BEST_FIXED)]
    values = []
    for jobs in (1, 2):
        with joblib.parallel_config("threading"):
            outcomes = list(simulate_all(exponential(), settings, 800, 2, 3, jobs))
        values.append({(o.record.label, o.record.replicate): o.record.value for o in outcomes})
    assert values[0] == values[1]
    assert len(values[0]) == 6


def _fails(seed: Seed) -> None:
    simulation._replicate(seed, problem=None, setting=PARTITION, rounds=5)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_errors_name_the_line_and_the_seed(jobs: int) -> None:
    with pytest.raises(AttributeError) as raised:
        list(run_trials(_fails, [{}], 2, 3, jobs))
    assert "Raised by replicate" in raised.value.__notes__[0]
    assert raised.value.__notes__[0].endswith("of 'partition' with seed 3.")


def test_all_learners_of_a_replicate_meet_the_same_people() -> None:
    met: list[np.ndarray] = []

    class Watched(type(exponential())):  # type: ignore[misc]
        def sample(self, people: int, rng: np.random.Generator) -> People:
            drawn = super().sample(people, rng)
            met.append(drawn.contexts)
            return drawn

    problem = exponential()
    problem.__class__ = Watched
    list(simulate_all(problem, [PARTITION, UNIFORM], 500, 2, 3))
    assert np.array_equal(met[0], met[2])
    assert np.array_equal(met[1], met[3])
    assert not np.array_equal(met[0], met[1])


def test_settings_come_one_after_the_other_without_what_is_done() -> None:
    outcomes = simulate_all(exponential(), [PARTITION, UNIFORM], 20, 3, 3, done=[("partition", 1)])
    came = [(outcome.record.label, outcome.record.replicate) for outcome in outcomes]
    assert came == [("partition", 0), ("partition", 2), *(("uniform", r) for r in range(3))]


def test_records_say_what_ran() -> None:
    record = simulate(exponential(), PARTITION, 500, 1, 4, "mine", "0123").record
    assert asdict(record) == {
        "study": "mine",
        "learner": "partition",
        "trust_model": "local",
        "epsilon": 2.0,
        "delta": 0.0,
        "replicate": 4,
        "rounds": 500,
        "metric": "regret",
        "value": record.value,
        "seconds": record.seconds,
        "label": "partition",
        "seed": 1,
        "digest": "0123",
        "rows": None,
    }
    uniform = simulate(exponential(), UNIFORM, 500, 1, 0).record
    assert (uniform.trust_model, uniform.epsilon, uniform.delta) == ("none", None, None)


def test_what_a_recommendation_earns_is_known_to_the_simulation() -> None:
    """Once, of private learners that can tell; the truth is that of the people of the replicate."""
    outcome = simulate(exponential(), PARTITION, 300, 1, 0)
    assert outcome.appraisal is not None
    value, truth = outcome.appraisal.value, outcome.appraisal.truth
    assert value.lower <= truth <= value.upper
    people = people_of(exponential(), 300, 1, 0)
    assert isinstance(people, People)
    assert people.means is not None
    assert people.earned(np.full(300, 2)) == people.means[:, 2].mean()
    assert people.means.min() <= truth <= people.means.max()
    assert simulate(exponential(), PARTITION, 300, 1, 1).appraisal is None
    for other in (UNIFORM, replace(PARTITION, budget=NonPrivate()), Setting(ORACLE, ORACLE)):
        assert simulate(exponential(), other, 300, 1, 0).appraisal is None
    drawn = table().sample(30, np.random.default_rng(0))
    assert drawn.earned(np.zeros(30)) == drawn.rewards[:, 0].mean()


@pytest.mark.parametrize(("name", "value"), [(BEST_FIXED, 14.0), (ORACLE, 26.0)])
def test_references_on_a_table(name: str, value: float) -> None:
    assert simulate(table(), Setting(name, name), 30, 1, 0).record.value == value


def test_references_on_known_means() -> None:
    problem = exponential()
    assert simulate(problem, Setting(ORACLE, ORACLE), 2000, 1, 0).record.value == 0.0
    fixed = simulate(problem, Setting(BEST_FIXED, BEST_FIXED), 2000, 1, 0)
    people = problem.sample(2000, np.random.default_rng(np.random.SeedSequence([1, 0]).spawn(4)[0]))
    assert people.means is not None
    regret = (people.means.max(axis=1, keepdims=True) - people.means).sum(axis=0)
    assert fixed.record.value == pytest.approx(regret.min())


@pytest.mark.parametrize(
    ("problem", "setting", "rounds", "message"),
    [
        (table(), UNIFORM, 31, "30 people"),
        (table(), UNIFORM, 0, "rounds"),
        (table(), Setting("nobody", "x"), 3, "unknown"),
        (table(), Setting("partition", "x", Joint(1.0, 1e-6)), 3, "trust model"),
        (table(), Setting("abse", "x", NonPrivate(), {"smooth": 1}), 3, "smooth"),
        (table(), Setting(ORACLE, "x", NonPrivate(), {"smooth": 1}), 3, "options"),
    ],
)
def test_bad_settings_are_refused_before_anything_runs(
    problem: Problem, setting: Setting, rounds: int, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        simulate_all(problem, [UNIFORM, setting], rounds, 1, 0)


def test_crowds_know_what_everybody_would_earn() -> None:
    """Of a function of public points, and of a grid of contexts."""
    points = load_problem("camelback", {})
    crowd, point = points.sample(5, np.random.default_rng(0)), np.array([0.1, -0.7])
    assert isinstance(points, FunctionProblem)
    assert crowd.earned(point) == points.function(point[None])[0]
    grid = load_problem("kernel_grid", {}).sample(50, np.random.default_rng(0))
    assert isinstance(grid, GridPopulation)
    best = grid.function.argmax(axis=1)[grid.cells]
    assert grid.earned(best) == pytest.approx(grid.function.max(axis=1)[grid.cells].mean())


# Sources.


PROBLEM = exponential()
ROOT = Path(__file__).resolve().parents[3]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def fresh(name: str = "published_partition"):  # type: ignore[no-untyped-def]
    options = {"published_partition": {"batch_size": 50}, "kernel": {"growth": 0.3}}
    options = options.get(name, {})
    return make_learner(name, PROBLEM.domain, 3, Local(4.0), options=options, horizon=1000)


def sources(people: int = 170, arrives: Arrival = "before") -> list[Source]:
    return [
        Source(name, epsilon, draw_auxiliary(PROBLEM, people, rng(seed)), arrives)
        for seed, (name, epsilon) in enumerate((("near", 8.0), ("far", 2.0)))
    ]


@pytest.mark.parametrize("name", ["kernel", "published_partition"])
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


@pytest.mark.parametrize(
    "name", [pytest.param("kernel", marks=pytest.mark.slow), "published_partition"]
)
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


HEARING = ["kernel", "published_partition", "private_linear", "private_neural"]


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
        learner = make_learner("kernel", PROBLEM.domain, 3, Local(1.0), public_seed=0)
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


def test_sources_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidInput, match="arrives was 'after'"):
        sources(10, "after")  # type: ignore[arg-type]
    learner = make_learner("uniform", PROBLEM.domain, 3, NonPrivate())
    people = PROBLEM.sample(10, rng())
    with pytest.raises(InvalidInput, match="but takes none"):
        run_with_sources(learner, people, sources(10, "during"), rng(), SimulatedNoise(0))
    with pytest.raises(InvalidInput, match="open already"):
        run_with_sources(fresh(), people, [sources()[0]] * 2, rng(), SimulatedNoise(0))


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
    for line in ("8", "9"):
        command = [sys.executable, "benchmarks/large.py", "--line", line]
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        peaks.append(json.loads(done.stdout)["megabytes"])
    assert peaks[1] < 1.1 * peaks[0]
