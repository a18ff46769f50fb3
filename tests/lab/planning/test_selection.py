"""The grid of simulations, and successive halving: how rarely a true best is dropped."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from discreet.lab.environments.synthetic import exponential
from discreet.lab.experiments import Setting
from discreet.lab.planning.planner import (
    FIRST_REPLICATE,
    Run,
    SimulationGrid,
    p_values,
    rungs,
    runs_of,
    successive_halving,
)
from discreet.privacy import Local

PEOPLE = 1000


class Drawn(SimulationGrid):
    """Worths that are drawn from a normal law instead of simulated, on people in common.

    Args:
        means: of each label.
        seed: of what is drawn.
        spread: standard deviation of what learners do with the same people.
    """

    def __init__(self, means: Mapping[str, float], seed: int, spread: float = 0.1) -> None:
        super().__init__(exponential(), seed)
        self.means, self.spread = means, spread
        self.done: list[Run] = []

    def carry_out(self, runs: Sequence[Run], done: Callable[[], None] = lambda: None) -> None:
        for run in runs:
            if self._has(run):
                continue
            label = run.setting.label
            crowd = np.random.default_rng([self.seed, run.replicate]).standard_normal()
            own = np.random.default_rng([self.seed, run.replicate, *map(ord, label)])
            worth = self.means[label] + crowd + self.spread * own.standard_normal()
            self.done.append(run)
            self._worth[label, run.people, run.replicate] = worth


def group(*names: str) -> tuple[Setting, ...]:
    return tuple(Setting("partition", name, Local(1.0)) for name in names)


def test_rungs_double() -> None:
    assert rungs(16) == (4, 8, 16)
    assert rungs(6) == (4, 6)
    assert rungs(2) == (2,)


def test_the_best_is_dropped_as_rarely_as_is_stated() -> None:
    """200 selections among three contenders, the best ahead by next to nothing. With a probability
    of 0.01 in each, more than 8 of them drop the best with a probability below 0.001."""
    means = {"best": 0.0, "near": -1e-6, "also": -1e-6}
    dropped = 0
    for seed in range(200):
        results = successive_halving(Drawn(means, seed), {1.0: group(*means)}, PEOPLE, 8)
        dropped += next(each.dropped for each in results if each.setting.label == "best")
    assert dropped <= 8


def test_contenders_clearly_behind_stop_early() -> None:
    grid = Drawn({"good": 0.0, "bad": -5.0, "fair": -0.01}, 1)
    results = successive_halving(grid, {1.0: group("good", "bad", "fair")}, PEOPLE, 16)
    found = {each.setting.label: each for each in results}
    assert found["bad"].dropped
    assert found["bad"].replicates == 4
    assert found["good"].replicates == found["fair"].replicates == 16
    assert found["good"].won or found["fair"].won
    assert sum(each.won for each in results) == 1
    assert all(run.replicate >= FIRST_REPLICATE for run in grid.done)


def test_a_single_contender_needs_no_run() -> None:
    grid = Drawn({"only": 0.0}, 1)
    (result,) = successive_halving(grid, {1.0: group("only")}, PEOPLE, 8)
    assert (result.won, result.replicates, grid.done) == (True, 0, [])


def test_selection_flatters_the_winner_and_fresh_replicates_do_not() -> None:
    names = tuple("abcd")
    selected, fresh = [], []
    for seed in range(150):
        grid = Drawn(dict.fromkeys(names, 0.0), seed, spread=1.0)
        results = successive_halving(grid, {1.0: group(*names)}, PEOPLE, 4)
        winner = next(each for each in results if each.won)
        selected.append(winner.mean - float(np.mean([each.mean for each in results])))
        grid.carry_out(runs_of([winner.setting], (PEOPLE,), range(4)))
        alone = grid.worth(winner.setting.label, (PEOPLE,), range(4))
        crowd = [np.random.default_rng([seed, number]).standard_normal() for number in range(4)]
        fresh.append(float(alone.mean() - np.mean(crowd)))
    assert np.mean(selected) > 0.3
    assert abs(np.mean(fresh)) < 4.0 * 0.5 / math.sqrt(150)


def test_equal_results_are_no_reason_to_drop() -> None:
    same = np.array([1.0, 2.0, 3.0])
    assert p_values({"a": same, "b": same}) == {"a": 1.0, "b": 1.0}
    assert p_values({"a": same, "b": same - 0.5})["b"] == 0.0  # behind by the same, always


def test_every_number_of_people_is_a_run_of_its_own() -> None:
    (setting,) = group("p")
    runs = runs_of([setting], (50, 100), (0, 1))
    assert [(run.people, run.replicate) for run in runs] == [(50, 0), (100, 0), (50, 1), (100, 1)]
