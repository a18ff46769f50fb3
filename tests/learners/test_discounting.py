"""Forgetting: what sums count with time, what they say then, and that learners find their way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from discreet.lab.environments.base import People
from discreet.lab.experiments.simulation import run_learner
from discreet.learners.base import Learner
from discreet.learners.discounting import (
    check_half_life,
    discount_factor,
    effective_sample_factor,
    longest,
)
from discreet.learners.registry import LEARNERS, learner_class, make_learner
from discreet.people.domain import PublicBox, unit_cube
from discreet.privacy import Budget, Joint, Local, NonPrivate, SimulatedNoise
from discreet.validation import InvalidInput

FORGETFUL = ("kernel", "partition")
CHANGE = 1500


def make(name: str, budget: Budget, half_life: float | None) -> Learner[Any, Any, Any]:
    return make_learner(
        name,
        unit_cube(1),
        2,
        budget,
        options={} if half_life is None else {"half_life": half_life},
        horizon=2 * CHANGE,
        noise=SimulatedNoise(3) if isinstance(budget, Joint) else None,
        identity="forgetful",
    )


def crowd(seed: int) -> People:
    """The second arm is better for the first half of the people, the first for the others."""
    rng = np.random.default_rng(seed)
    means = np.tile([0.2, 0.8], (2 * CHANGE, 1))
    means[CHANGE:] = means[CHANGE:, ::-1]
    return People.bernoulli(rng.random((2 * CHANGE, 1)), means, rng)


def later(name: str, budget: Budget, half_life: float | None) -> float:
    """The regret of the second half; that of choosing at random is 450."""
    learner = make(name, budget, half_life)
    values = run_learner(learner, crowd(0), np.random.default_rng(3), SimulatedNoise(4))
    return float(values[CHANGE:].sum())


def test_weights_halve_and_multiply() -> None:
    assert discount_factor(None, 1e9) == 1.0
    assert discount_factor(200.0, 200) == 0.5
    assert discount_factor(200.0, 30) * discount_factor(200.0, 70) == pytest.approx(
        discount_factor(200.0, 100), rel=1e-15
    )
    assert longest(None, 700) == 700
    assert longest(2000.0, 700) == 100
    assert longest(2000.0, 70) == 70


@pytest.mark.parametrize("people", [1, 300, 5000])
def test_what_a_weighted_mean_says(people: int) -> None:
    """(sum w)^2 / sum w^2 reports, by brute force."""
    weights = np.array([discount_factor(1000.0, age) for age in range(people)])
    reports = weights.sum() ** 2 / (weights**2).sum()
    assert weights.sum() * effective_sample_factor(1000.0, people) == pytest.approx(
        reports, rel=2e-3
    )
    assert effective_sample_factor(None, people) == 1.0


@pytest.mark.parametrize("half_life", [0.0, -5.0, 9.0, 1e17, np.nan, "long"])
def test_a_half_life_is_a_number_of_people(half_life: object) -> None:
    with pytest.raises(InvalidInput, match="half_life was"):
        check_half_life(half_life)


def test_learners_that_forget_nothing_say_so() -> None:
    for name in set(LEARNERS) - {*FORGETFUL, "best_arm", "gp_ucb"}:
        with pytest.raises(InvalidInput, match="got the option 'half_life'; its options are"):
            learner_class(name).read_options({"half_life": 100.0})


def arrays(sums: Any) -> list[np.ndarray]:
    if hasattr(sums, "trees"):
        return [array for tree in sums.trees for array in vars(tree).values()]
    return [sums.precision, sums.weighted]


@pytest.mark.parametrize("name", FORGETFUL)
def test_sums_fade_by_the_people_who_came(name: str) -> None:
    """A batch counts half for each half-life from its first person on to the last policy."""
    learner = make(name, Local(2.0), 400.0)
    rng, noise, added = np.random.default_rng(0), SimulatedNoise(1), []
    for people in (300, 500, 250):
        policy = learner.policy()
        contexts = rng.random((people, 1))
        actions, _ = policy.act(contexts, rng)
        reports = policy.report(contexts, actions, rng.integers(0, 2, people), noise)
        added.append(learner.statistics(reports))
        learner.update(reports)
    expected = (
        added[0].discounted(0.5 ** (800 / 400)) + added[1].discounted(0.5 ** (500 / 400)) + added[2]
    )
    assert learner.people == 1050
    for have, want in zip(arrays(learner._sums), arrays(expected), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-12)


def test_sources_fade_with_the_targets_people() -> None:
    learner: Any = make("kernel", Local(2.0), 400.0)
    rng, noise = np.random.default_rng(0), SimulatedNoise(1)
    learner.open_source("past", 2.0)
    contexts, arms = rng.random((300, 1)), rng.integers(0, 2, 300)
    reports = learner.policy("past").report(contexts, arms, 1.0 * arms, noise)
    learner.update(reports)
    whole = learner.streams["past"]._sums
    policy = learner.policy()
    actions, _ = policy.act(contexts, rng)
    learner.update(policy.report(contexts, actions, 1.0 * arms, noise))
    assert learner.streams["past"]._sums is whole  # nothing is forgotten before anybody came
    learner.policy()
    for have, want in zip(arrays(learner.streams["past"]._sums), arrays(whole), strict=True):
        np.testing.assert_allclose(have, 0.5 ** (300 / 400) * want, rtol=1e-12)
    assert learner.streams["past"].people == 300


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "budget"),
    [
        ("kernel", Local(4.0)),
        ("partition", Local(4.0)),
        ("kernel", Joint(4.0, 1e-5)),
        ("kernel", NonPrivate()),
    ],
)
def test_what_changes_is_learnt_again(name: str, budget: Budget) -> None:
    never, forgetting = (later(name, budget, half_life) for half_life in (None, 250.0))
    assert forgetting < 225.0
    assert forgetting < 0.6 * never


def peak(points: Any, late: Any) -> Any:
    """A hump at 1/4, and later at 3/4."""
    centre = np.where(late, 0.75, 0.25)
    return 0.1 + 0.8 * np.exp(-0.5 * ((points[:, 0] - centre) / 0.1) ** 2)


@pytest.mark.parametrize(
    "budget",
    [
        Joint(4.0, 1e-5),
        pytest.param(Local(4.0), marks=pytest.mark.slow),
        pytest.param(NonPrivate(), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_peak_that_moves_is_found_again(budget: Budget) -> None:
    """At random the second half would lose about 1050."""
    people = 4000
    learner = make_learner(
        "gp_ucb",
        unit_cube(1),
        PublicBox(),
        budget,
        options={"kernel": "RBF([0.15])", "half_life": 250.0},
        horizon=people,
        noise=SimulatedNoise(1) if isinstance(budget, Joint) else None,
        identity="forgetful",
    )
    rng, noise, start, regret = np.random.default_rng(2), SimulatedNoise(3), 0, np.zeros(people)
    while start < people:
        policy = learner.policy()
        stop = min(start + learner.batch_size, people)
        actions, _ = policy.act(np.zeros((stop - start, 0)), rng)
        means = peak(actions.points, np.arange(start, stop) >= people // 2)
        rewards = np.clip(means + 0.1 * rng.standard_normal(stop - start), 0.0, 1.0)
        reports = policy.report(np.zeros((stop - start, 0)), actions, rewards, noise)
        learner.update(reports)
        regret[start:stop], start = 0.9 - means, stop
    assert regret[people // 2 :].sum() < 525.0
    assert learner.guarantee().epsilon <= budget.epsilon


@pytest.mark.parametrize(
    ("people", "batch"),
    [(1000, 20), (20_000, 1264), (80_000, 10_119), (10**6, 126_491)],
)
@pytest.mark.parametrize("learner", ["kernel", "partition"])
def test_late_batches_grow_by_the_root_of_the_people(
    learner: str, people: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2% of the people, times the root of people / 2,000, which is at most that of 40."""
    made = make_learner(learner, unit_cube(2), 3, Local(1.0))
    monkeypatch.setattr(type(made), "_published_at", people)
    least = 200 if learner == "partition" else 10
    assert made.batch_size == max(batch, least)
