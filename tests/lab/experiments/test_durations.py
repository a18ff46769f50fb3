"""How long learners take, from how long short runs took."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import discreet.lab.experiments.simulation
from discreet.lab.environments.base import Problem
from discreet.lab.environments.synthetic import exponential
from discreet.lab.experiments import (
    BEST_FIXED,
    Outcome,
    Setting,
    expected_seconds,
    grown,
    simulate,
)
from discreet.privacy import Local
from discreet.validation import InvalidInput

PARTITION = Setting("partition", "partition", Local(2.0))
UNIFORM = Setting("uniform", "uniform")
FIXED = Setting(BEST_FIXED, BEST_FIXED)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_time_grows_by_the_power_of_short_runs(
    monkeypatch: pytest.MonkeyPatch, power: float
) -> None:
    def timed(problem: Problem, setting: Setting, people: int, *others: object) -> Outcome:
        if setting is UNIFORM:
            raise InvalidInput("too few people")
        record = simulate(problem, setting, 5, 1, 0).record
        met.append(people)
        seconds = 3e-4 * people ** (1.0 + power)
        return Outcome(setting, replace(record, seconds=seconds), np.arange(1), np.ones(1))

    met: list[int] = []
    monkeypatch.setattr(discreet.lab.experiments.simulation, "simulate", timed)
    for rounds in (5000, 100_000):
        expected = expected_seconds(exponential(), [PARTITION, FIXED, UNIFORM], rounds, 1)
        long = pytest.approx(3e-4 * rounds ** (1.0 + power))
        assert expected == {"partition": long, BEST_FIXED: long, "uniform": math.inf}
    # No longer than it takes.
    assert max(met) == {0.0: 2000, 0.5: 500, 1.0: 500, 2.0: 500}[power]


def test_small_studies_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(discreet.lab.experiments.simulation, "simulate")
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
    monkeypatch.setattr(discreet.lab.experiments.simulation, "simulate", timed)
    expected = expected_seconds(exponential(), [*alike, free, other], 5000, 1)
    assert set(expected) == {each.label for each in (*alike, free, other)}
    assert len({expected[each.label] for each in alike}) == 1
    assert met == [(name, n) for name in ("epsilon 4", "free", "fewer") for n in (125, 500)]


def test_growth_stays_within_what_short_runs_can_tell() -> None:
    assert grown({100: 1.0, 400: 2.0}, 6400) == pytest.approx(8.0)
    assert grown({100: 1.0, 400: 0.7}, 6400) == pytest.approx(0.7)  # faster by chance
    assert grown({100: 0.01, 400: 0.1}, 800) == pytest.approx(0.2)  # slower by chance
    assert grown({400: 0.7}, 10_000) == pytest.approx(17.5)
    assert math.isinf(grown({}, 10_000))
