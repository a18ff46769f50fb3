"""What people send about a cell is what is claimed, estimates are unbiased, and both learn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from discreet.lab.environments.catalog import load_problem
from discreet.lab.experiments import Setting, simulate
from discreet.learners.baselines.cells.context import NoisyContext, ShownActions, taken_rightly
from discreet.learners.baselines.cells.response import CellResponse
from discreet.learners.messages import Actions
from discreet.learners.terms import Terms
from discreet.people.domain import unit_cube
from discreet.privacy import Local, SecureNoise, SimulatedNoise
from discreet.privacy.accounting import composed_epsilon
from discreet.privacy.frequency import UnaryEncoding
from discreet.validation import InvalidInput

SQUARE = unit_cube(2)


def contexts_of(people: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((people, 2))


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


def test_estimates_of_noisy_context_are_of_those_taken_for_a_cell() -> None:
    people, learner = 50_000, NoisyContext(SQUARE, 2, Local(4.0), cells=2)
    contexts, policy = contexts_of(people), learner.policy()
    actions, _ = policy.act(contexts, np.random.default_rng(1))
    means = expected(contexts, actions.arms)
    learner.update(policy.report(contexts, actions, means, SimulatedNoise(2)))
    sums, counts, variance = learner._estimates(learner._sums.values)
    taken = policy.decoded(actions.shown, actions.tickets)
    for cell in range(4):
        for arm in range(2):
            own = (taken == cell) & (actions.arms == arm)
            assert counts[cell, arm] == own.sum()
            error = np.sqrt(variance[cell, arm] + own.sum())
            assert abs(sums[cell, arm] - (2.0 * means[own] - 1.0).sum()) < 4.5 * error


@pytest.mark.parametrize(("values", "epsilon", "shown"), [(2, 0.5, 0.5), (5, 2.0, 0.92)])
def test_how_often_a_part_is_decoded_rightly(values: int, epsilon: float, shown: float) -> None:
    """By every outcome of the bits."""
    column = UnaryEncoding(values, epsilon, shown)
    p, q = shown, column.other_probability
    right = 0.0
    for code in range(2**values):
        bits = [(code >> place) & 1 for place in range(values)]
        chance = (p if bits[0] else 1 - p) * np.prod([q if bit else 1 - q for bit in bits[1:]])
        right += chance * (1.0 / values if not any(bits) else bits[0] / sum(bits))
    assert taken_rightly(column) == pytest.approx(right, rel=1e-12)


def test_noisy_context_never_spends_more_than_its_budget() -> None:
    for share, shown in ((0.8, None), (0.3, 0.92), (0.999, 0.5)):
        options = {"cells": [4, 3], "context_share": share, "shown": shown}
        policy = NoisyContext(SQUARE, 3, Local(3.0), **options).policy()
        spent = [column.epsilon for column in policy.columns]
        assert spent == pytest.approx([3.0 * share / 2] * 2)
        release = policy.release("simulated")
        assert release is not None
        assert 3.0 * (1 - 1e-12) < composed_epsilon([release.event], 0.0) <= 3.0
        assert sum(spent) + policy.click.epsilon <= 3.0


def test_who_shows_a_context_at_every_visit_has_one_visit() -> None:
    with pytest.raises(InvalidInput, match="noisy_context learns from one visit of a person"):
        NoisyContext(SQUARE, 2, Local(4.0, visits=2))
    assert CellResponse(SQUARE, 2, Local(4.0, visits=2)).policy().mechanism.epsilon == 2.0


def test_what_the_server_was_shown_is_drawn_once_and_by_one_source() -> None:
    pytest.importorskip("opendp")
    policy = NoisyContext(SQUARE, 2, Local(4.0)).policy()
    contexts = contexts_of(20)
    actions, _ = policy.act(contexts, np.random.default_rng(0), noise=SimulatedNoise(3))
    first, again = (
        policy.report(contexts, actions, np.ones(20), SimulatedNoise(n)) for n in (1, 2)
    )
    np.testing.assert_array_equal(first.shown, again.shown)
    np.testing.assert_array_equal(first.shown, actions.shown)
    terms = Terms(SQUARE, 2, 4.0)
    with pytest.raises(InvalidInput, match="pass the same source"):
        policy.report(contexts, actions, np.ones(20), SecureNoise(), terms)
    with pytest.raises(InvalidInput, match="terms was not given"):
        policy.act(contexts, np.random.default_rng(0), noise=SecureNoise())
    plain = Actions(actions.arms, actions.tickets, policy)
    with pytest.raises(InvalidInput, match="without what the server was shown"):
        policy.report(contexts, plain, np.ones(20), SimulatedNoise(1))
    assert isinstance(actions[np.array([3, 4])], ShownActions)


def test_noisy_context_never_draws_a_real_person_from_simulated_noise() -> None:
    learner = NoisyContext(SQUARE, 2, Local(4.0))
    policy, rng = learner.policy(), np.random.default_rng(0)
    with pytest.raises(InvalidInput, match="pass the noise source that report"):
        policy.act(contexts_of(3), rng, learner.terms())
    actions, _ = policy.act(contexts_of(3), rng, learner.terms(), SecureNoise())
    assert actions.noise == SecureNoise.name


def test_reports_and_sums_that_nobody_makes_are_refused() -> None:
    contexts = contexts_of(5)
    for learner in (NoisyContext(SQUARE, 2, Local(4.0)), CellResponse(SQUARE, 2, Local(4.0))):
        policy = learner.policy()
        actions, _ = policy.act(contexts, np.random.default_rng(0))
        good = policy.report(contexts, actions, np.ones(5), SimulatedNoise(1))
        bits = "shown" if isinstance(learner, NoisyContext) else "bits"
        narrow = replace(good, **{bits: getattr(good, bits)[:, 1:]})
        with pytest.raises(InvalidInput, match="reports had bits of shape"):
            learner.statistics(narrow)
        sums = learner.statistics(good)
        for values in (sums.values[1:], sums.values + 6.0, -sums.values - 1.0):
            with pytest.raises(InvalidInput, match="statistics of 5 reports"):
                learner.merge(replace(sums, values=values))
    with pytest.raises(InvalidInput, match="no column is cut"):
        NoisyContext(SQUARE, 2, Local(4.0), cells=1).policy()


@pytest.mark.parametrize(
    ("learner", "epsilon", "most"), [("cell_response", 4.0, 0.15), ("noisy_context", 12.0, 0.3)]
)
def test_both_learn(learner: str, epsilon: float, most: float) -> None:
    """Regret beside that of choosing at random, on strips of the first column."""
    problem, people = load_problem("exponential"), 10_000
    chance, own = (
        simulate(problem, setting, people, 300, 0).record.value
        for setting in (
            Setting("uniform", "uniform"),
            Setting(learner, learner, Local(epsilon), {"cells": [3, 1]}),
        )
    )
    assert own < most * chance
