"""benchmarks/peers/cells.py: grids, unbiased estimates, learning, and the promise."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from discreet.audit.learners import checks_of
from discreet.lab.environments.catalog import load_problem
from discreet.lab.experiments import Setting, simulate
from discreet.people.domain import Box, unit_cube
from discreet.privacy import Local, SimulatedNoise
from discreet.validation import InvalidInput

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks/peers"))
from cells import MOST_CELLS, CellResponse, Grid, matching_shares

SQUARE = unit_cube(2)


def contexts_of(people: int) -> np.ndarray:
    return np.random.default_rng(0).random((people, 2))


def expected(contexts: np.ndarray, arms: np.ndarray) -> np.ndarray:
    """A mean reward that differs between four cells and two arms."""
    cell = 2 * (contexts[:, 0] > 0.5) + (contexts[:, 1] > 0.5)
    return np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5], [0.0, 1.0]])[cell, arms]


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_estimates_of_cell_response_are_unbiased(epsilon: float) -> None:
    people, learner = 100_000, CellResponse(SQUARE, 2, Local(epsilon), cells=2)
    contexts, policy = contexts_of(people), learner.policy()
    actions, _ = policy.act(contexts, np.random.default_rng(1))
    means = expected(contexts, actions.arms)
    learner.update(policy.report(contexts, actions, means, SimulatedNoise(2)))
    sums, counts, variance = learner._estimates(learner._sums.values)
    cells = policy.grid.cell(policy.grid.places(contexts))
    error = np.sqrt(variance + people / 8)
    for cell in range(4):
        for arm in range(2):
            own = (cells == cell) & (actions.arms == arm)
            assert abs(counts[cell, arm] - own.sum()) < 4.5 * error
            assert abs(sums[cell, arm] - (2.0 * means[own] - 1.0).sum()) < 4.5 * error


def test_reports_and_sums_that_nobody_makes_are_refused() -> None:
    learner = CellResponse(SQUARE, 2, Local(4.0))
    contexts, policy = contexts_of(5), learner.policy()
    actions, _ = policy.act(contexts, np.random.default_rng(0))
    good = policy.report(contexts, actions, np.ones(5), SimulatedNoise(1))
    with pytest.raises(InvalidInput, match="reports had bits of shape"):
        learner.statistics(replace(good, bits=good.bits[:, 1:]))
    sums = learner.statistics(good)
    for values in (sums.values[1:], sums.values + 6.0, -sums.values - 1.0):
        with pytest.raises(InvalidInput, match="statistics of 5 reports"):
            learner.merge(replace(sums, values=values))


def test_it_learns() -> None:
    """Regret beside that of choosing at random, on strips of the first column."""
    problem, people = load_problem("exponential"), 10_000
    home = "cells:CellResponse"
    settings = (
        Setting("uniform", "uniform"),
        Setting(home, "cell_response", Local(4.0), {"cells": [3, 1]}),
    )
    chance, own = (simulate(problem, each, people, 300, 0).record.value for each in settings)
    assert own < 0.15 * chance


@pytest.mark.slow
def test_its_promise_is_kept() -> None:
    promises = [check for check in checks_of("cells:CellResponse") if check.exact is not None]
    assert promises
    for check in promises:
        assert not check.exact().broken


DOMAIN = Box((20.0, 0.0, 0.0), (60.0, 1.0, 4.0), ("age", "score", "grade"), (None, None, 5))


def test_parts_and_cuts() -> None:
    grid = Grid.of(DOMAIN, [[30, 50.0], 2, 1])
    assert (grid.parts, grid.cells) == ((3, 2, 1), 6)
    contexts = [[29.9, 0.0, 4.0], [30.0, 0.49, 0.0], [60.0, 0.5, 2.0]]
    places = grid.places(DOMAIN.to_unit(contexts))
    assert places.tolist() == [[0, 0, 0], [1, 0, 0], [2, 1, 0]]
    assert grid.cell(places).tolist() == [0, 2, 5]


@pytest.mark.parametrize(("parts", "expected"), [(2, [0, 0, 1, 1, 1]), (9, [0, 1, 2, 3, 4])])
def test_levels_are_cut_between_them_and_into_no_empty_parts(parts, expected) -> None:
    grid = Grid.of(DOMAIN, [1, 1, parts])
    levels = DOMAIN.to_unit([[20.0, 0.0, grade] for grade in range(5)])
    assert grid.places(levels)[:, 2].tolist() == expected


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([2, 2], "for each column, its number of parts"),
        ("4", "cells was '4'"),
        ([0, 2, 2], "the parts of 'age' was 0"),
        ([[50, 30], 1, 1], "must increase"),
        ([[10], 1, 1], "within its bounds"),
        ([[20], 1, 1], "within its bounds"),
        ([[float("nan")], 1, 1], "a cut of 'age'"),
        (64, f"at most {MOST_CELLS}"),
    ],
)
def test_cells_that_are_refused(cells: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Grid.of(DOMAIN, cells)  # type: ignore[arg-type]


def test_shares_go_from_equal_to_the_best_arm() -> None:
    nothing, zero = np.zeros((1, 3)), np.zeros(())
    np.testing.assert_allclose(matching_shares(nothing, nothing, zero), 1.0 / 3.0)
    counts = np.full((1, 3), 1e4)
    shares = matching_shares(counts * [0.5, 0.1, 0.5], counts, zero)
    np.testing.assert_allclose(shares, [[0.5, 0.0, 0.5]], atol=1e-9)
    noisy = matching_shares(counts * [0.5, 0.1, 0.5], counts, np.array(1e16))
    np.testing.assert_allclose(noisy, 1.0 / 3.0)
    # An arm of which hardly anything is known shares the people with the best one.
    few = matching_shares(np.array([[5e3, 1e3, 0.0]]), np.array([[1e4, 1e4, 0.0]]), zero)
    assert few[0, 2] > 0.05 > few[0, 1]
