"""Races: a true best is dropped as rarely as is written down, losers stop, and fresh replicates
undo the winner's curse."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from discreet.lab.environments.synthetic import exponential
from discreet.lab.experiments import Setting
from discreet.lab.planning.race import ERROR, FIRST_REPLICATE, compared, level, race, rungs
from discreet.lab.planning.results import Clock, Ran, Results, Run
from discreet.privacy import Local

PEOPLE = 1000


class Drawn(Results):
    """Results that are drawn from a normal law instead of simulated, on people in common.

    Args:
        means: of each label.
        seed: of what is drawn.
        spread: standard deviation of what learners do with the same people.
    """

    def __init__(self, means: Mapping[str, float], seed: int, spread: float = 0.1) -> None:
        super().__init__(exponential(), seed)
        self.means, self.spread = means, spread
        self.done: list[Run] = []

    def carry_out(
        self, runs: Sequence[Run], done: Callable[[Ran], None] | None = None, *_: object
    ) -> bool:
        for run in runs:
            if self.has(run):
                continue
            crowd = np.random.default_rng([self.seed, run.replicate]).standard_normal()
            own = np.random.default_rng([self.seed, run.replicate, *map(ord, run.setting.label)])
            worth = self.means[run.setting.label] + crowd + self.spread * own.standard_normal()
            self.done.append(run)
            self._keep(Ran(run, np.array([worth]), 1.0, None))
        return True


def group(*names: str) -> tuple[Setting, ...]:
    return tuple(Setting("partition", name, Local(1.0)) for name in names)


def test_rungs_double() -> None:
    assert rungs(16) == (4, 8, 16)
    assert rungs(6) == (4, 6)
    assert rungs(2) == (2,)


def test_the_level_allows_for_all_comparisons() -> None:
    groups = {1.0: group("a", "b", "c"), 2.0: group("d", "e"), None: group("f")}
    assert level(groups, (4, 8)) == pytest.approx(ERROR / 6)
    assert level({None: group("f")}, (4,)) == ERROR


def test_the_best_is_dropped_as_rarely_as_is_written() -> None:
    """600 races of three contenders, the best ahead by next to nothing. With a probability of 0.01
    in each, more than 16 of them drop the best with a probability below 0.001."""
    means = {"best": 0.0, "near": -1e-6, "also": -1e-6}
    dropped = 0
    for seed in range(600):
        standings = race(Drawn(means, seed), {1.0: group(*means)}, PEOPLE, 8, Clock(None))
        dropped += next(each.dropped for each in standings if each.setting.label == "best")
    assert dropped <= 16


def test_who_is_clearly_behind_stops_early() -> None:
    results = Drawn({"good": 0.0, "bad": -5.0, "fair": -0.01}, 1)
    standings = race(results, {1.0: group("good", "bad", "fair")}, PEOPLE, 16, Clock(None))
    told = {each.setting.label: each for each in standings}
    assert told["bad"].dropped
    assert told["bad"].replicates == 4
    assert told["bad"].behind == pytest.approx(5.0, abs=0.3)
    assert told["good"].replicates == told["fair"].replicates == 16
    assert told["good"].won or told["fair"].won
    assert sum(each.won for each in standings) == 1
    assert all(run.replicate >= FIRST_REPLICATE for run in results.done)


def test_a_single_contender_needs_no_race() -> None:
    results = Drawn({"only": 0.0}, 1)
    (standing,) = race(results, {1.0: group("only")}, PEOPLE, 8, Clock(None))
    assert standing.won
    assert standing.replicates == 0
    assert not results.done


def test_the_winner_is_flattered_by_the_race_and_not_by_fresh_replicates() -> None:
    names = tuple("abcd")
    in_race, fresh = [], []
    for seed in range(150):
        results = Drawn(dict.fromkeys(names, 0.0), seed, spread=1.0)
        standings = race(results, {1.0: group(*names)}, PEOPLE, 4, Clock(None))
        winner = next(each for each in standings if each.won)
        others = [each.mean for each in standings]
        in_race.append(winner.mean - float(np.mean(others)))
        results.carry_out([Run(winner.setting, PEOPLE, (PEOPLE,), number) for number in range(4)])
        alone = results.worth(winner.setting.label, (PEOPLE,), range(4))
        crowd = [np.random.default_rng([seed, number]).standard_normal() for number in range(4)]
        fresh.append(float(alone.mean() - np.mean(crowd)))
    assert np.mean(in_race) > 0.3
    assert abs(np.mean(fresh)) < 4.0 * 0.5 / math.sqrt(150)


def test_a_race_stops_where_the_limit_does_not_allow_another_rung() -> None:
    results = Drawn({"a": 0.0, "b": 0.0}, 2)  # a run takes a second, as it says
    standings = race(results, {1.0: group("a", "b")}, PEOPLE, 64, Clock(60.0))
    assert {each.replicates for each in standings} == {8}  # 16 more runs are 32 s, above 40%


def test_the_same_results_are_no_reason_to_drop() -> None:
    same = np.array([1.0, 2.0, 3.0])
    assert compared({"a": same, "b": same}) == {"a": 1.0, "b": 1.0}
    assert compared({"a": same, "b": same - 0.5})["b"] == 0.0  # behind by the same, always
