"""How long learners take, from how long short runs took."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import discreet.lab.experiments.durations
from discreet.lab.environments.base import Problem
from discreet.lab.environments.synthetic import exponential
from discreet.lab.experiments import (
    BEST_FIXED,
    Outcome,
    Setting,
    expected_seconds,
    grown,
    policies_until,
    simulate,
)
from discreet.learners.registry import LEARNERS
from discreet.privacy import Local, NonPrivate
from discreet.validation import InvalidInput

PARTITION = Setting("partition", "partition", Local(2.0))
UNIFORM = Setting("uniform", "uniform")
FIXED = Setting(BEST_FIXED, BEST_FIXED)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_time_of_a_policy_grows_as_on_short_runs(
    monkeypatch: pytest.MonkeyPatch, power: float
) -> None:
    """Each person is a policy here."""

    def timed(problem: Problem, setting: Setting, people: int, *others: object) -> Outcome:
        if setting is UNIFORM:
            raise InvalidInput("too few people")
        record = simulate(problem, setting, 5, 1, 0).record
        met.append(people)
        seconds = 3e-4 * people ** (1.0 + power)
        return Outcome(setting, replace(record, seconds=seconds), np.arange(1), np.ones(1))

    met: list[int] = []
    monkeypatch.setattr(discreet.lab.experiments.durations, "simulate", timed)
    monkeypatch.setattr(
        discreet.lab.experiments.durations, "policies_until", lambda *given: given[-1]
    )
    for rounds in (5000, 100_000):
        expected = expected_seconds(exponential(), [PARTITION, FIXED, UNIFORM], rounds, 1)
        long = pytest.approx(3e-4 * rounds ** (1.0 + power))
        assert expected == {"partition": long, BEST_FIXED: long, "uniform": math.inf}
    # No longer than it takes.
    assert max(met) == {0.0: 2000, 0.5: 500, 1.0: 500, 2.0: 500}[power]


def test_small_studies_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(discreet.lab.experiments.durations, "simulate")
    small = expected_seconds(exponential(), [PARTITION, FIXED, UNIFORM], 4999, 1)
    assert small == {"partition": math.inf, BEST_FIXED: 0.0, "uniform": 0.0}


def test_epsilons_share_a_short_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(problem: Problem, setting: Setting, people: int, *others: object) -> Outcome:
        met.append((setting.label, people))
        record = simulate(problem, setting, 5, 1, 0).record
        return Outcome(setting, replace(record, seconds=1.0), np.arange(1), np.ones(1))

    met: list[tuple[str, int]] = []
    alike = [Setting("partition", f"epsilon {e:g}", Local(e)) for e in (1.0, 2.0, 4.0)]
    free = Setting("partition", "free")
    other = Setting("partition", "fewer", Local(1.0), {"drift": 50.0})
    monkeypatch.setattr(discreet.lab.experiments.durations, "simulate", timed)
    expected = expected_seconds(exponential(), [*alike, free, other], 5000, 1)
    assert set(expected) == {each.label for each in (*alike, free, other)}
    assert len({expected[each.label] for each in alike}) == 1
    assert met == [(name, n) for name in ("epsilon 4", "free", "fewer") for n in (125, 500)]


def test_fewer_policies_take_less() -> None:
    """Ten of the first hundred people, and twenty for ten thousand."""
    policies = {100: 10, 400: 14, 10_000: 20}.__getitem__
    assert grown({100: 1.0, 400: 1.4}, 10_000, policies) == pytest.approx(2.0)
    # The time of a policy rose with the root of people, and may fall by chance.
    assert grown({100: 1.0, 400: 2.8}, 10_000, policies) == pytest.approx(2.8 * 20 / 14 * 5)
    assert grown({100: 1.0, 400: 0.7}, 10_000, policies) == pytest.approx(1.0)
    assert grown({400: 0.7}, 10_000, policies) == pytest.approx(17.5)
    assert math.isinf(grown({}, 10_000, policies))


@pytest.mark.parametrize("people", [300, pytest.param(5000, marks=pytest.mark.slow)])
def test_policies_are_as_many_as_in_a_run(people: int) -> None:
    for learner, budget in (("partition", Local(2.0)), ("local_kernel", NonPrivate())):
        setting = Setting(learner, learner, budget)
        policy = simulate(exponential(), setting, people, 1, 0).policy
        assert policy is not None
        # A policy after the last person serves nobody.
        assert policies_until(exponential(), setting, people) - policy.version in (0, 1)
    assert policies_until(exponential(), FIXED, people) == people


def test_policies_of_every_learner_can_be_counted() -> None:
    for name, kind in LEARNERS.items():
        budget = NonPrivate() if "none" in kind.trust_models else Local(2.0)
        assert 1 <= policies_until(exponential(), Setting(name, name, budget), 100_000) <= 100_000
