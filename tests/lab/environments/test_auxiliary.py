"""Auxiliary data: behaviour policies, other laws of contexts, tables, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.lab.environments.base import People
from discreet.lab.environments.synthetic import (
    AuxiliaryData,
    CornerContexts,
    ExponentialMeans,
    auxiliary_from_table,
    behaviour,
    draw_auxiliary,
    exponential,
    logged,
)
from discreet.lab.environments.tables import ClassificationProblem
from discreet.people.domain import Box
from discreet.validation import InvalidInput


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def table() -> ClassificationProblem:
    contexts = np.arange(30.0)[:, None]
    return ClassificationProblem(
        contexts, np.arange(30) % 3, Box((0.0,), (29.0,)), ("a", "b", "c"), "a test"
    )


@pytest.mark.parametrize("arms", [2, 3, 7])
@pytest.mark.parametrize("kappa", [0.0, 0.3, 1.0])
def test_behaviour_policies_explore_as_much_as_they_say(arms: int, kappa: float) -> None:
    """kappa / K + (2 - 2 kappa) / (K (K - 1)) (0, ..., K - 1); K times the least of it is kappa."""
    mu = behaviour(arms, kappa)
    by_hand = [kappa / arms + (2 - 2 * kappa) / (arms * (arms - 1)) * k for k in range(arms)]
    np.testing.assert_allclose(mu, by_hand, atol=1e-12)
    assert mu.sum() == pytest.approx(1.0, abs=1e-12)
    assert arms * mu.min() == pytest.approx(kappa, abs=1e-12)
    people = People(np.zeros((20_000, 1)), np.zeros((20_000, arms)))
    chosen = logged(people, kappa, rng()).arms
    np.testing.assert_allclose(np.bincount(chosen, minlength=arms) / 20_000, mu, atol=0.015)


def test_synthetic_sources_share_mean_rewards_and_not_contexts() -> None:
    problem = exponential()
    data = draw_auxiliary(problem, 40_000, rng(1), contexts=CornerContexts(2, 5.0), kappa=0.4)
    assert data.contexts.shape == (40_000, 2)
    distance = np.abs(data.contexts - 0.5).max(axis=1)
    # Density proportional to the norm to the fifth: the share inside half the cube is 2^-7.
    assert (distance < 0.25).mean() == pytest.approx(2.0**-7, abs=0.002)
    means = ExponentialMeans(3)(data.contexts)[np.arange(len(data)), data.arms]
    assert (data.rewards - means).mean() == pytest.approx(0.0, abs=0.01)
    assert set(np.unique(data.rewards)) == {0.0, 1.0}
    assert (data.arms == 0).mean() == pytest.approx(0.4 / 3, abs=0.01)
    same = draw_auxiliary(problem, 40_000, rng(1))
    assert (np.abs(same.contexts - 0.5).max(axis=1) < 0.25).mean() == pytest.approx(0.25, abs=0.01)


def test_a_table_becomes_a_source_without_repeating_anybody() -> None:
    problem = table()
    data = auxiliary_from_table(problem, rng(2), kappa=1.0)
    assert sorted(data.contexts[:, 0]) == list(range(30))
    right = (data.contexts[:, 0].astype(int) % 3) == data.arms
    assert (data.rewards == right).all()
    assert len(auxiliary_from_table(problem, rng(2), people=7)) == 7
    with pytest.raises(InvalidInput, match="30 people"):
        auxiliary_from_table(problem, rng(2), people=31)


def test_data_are_copied_and_cannot_be_changed() -> None:
    contexts = np.zeros((2, 1))
    data = AuxiliaryData(contexts, np.array([0, 1]), np.array([0.0, 1.0]))
    contexts[0] = 9.0
    assert data.contexts[0, 0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        data.arms[0] = 1


@pytest.mark.parametrize(
    ("contexts", "arms", "rewards", "message"),
    [
        ([0.1, 0.2], [0, 1], [0.0, 1.0], r"must have shape \(n, d\)"),
        (np.empty((0, 2)), [], [], "empty"),
        ([[0.1], [np.nan]], [0, 1], [0.0, 1.0], "finite"),
        ([[0.1], [0.2]], [0, -1], [0.0, 1.0], "arms had -1 at"),
        ([[0.1], [0.2]], [0.5, 1.0], [0.0, 1.0], "array of int64"),
        (
            [[0.1], [0.2]],
            [0, 1],
            [0.0],
            r"must have shape \(n\) with n = 2|shape \(n,\) with n = 2",
        ),
        ([[0.1], [0.2]], [0, 1], [0.0, np.inf], "finite"),
    ],
)
def test_bad_data_are_refused(
    contexts: object, arms: object, rewards: object, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        AuxiliaryData(contexts, arms, rewards)  # type: ignore[arg-type]


def test_bad_behaviour_policies_are_refused() -> None:
    for arms, kappa, message in ((1, 1.0, "arms"), (3, 1.5, "kappa"), (3, -0.1, "kappa")):
        with pytest.raises(InvalidInput, match=message):
            behaviour(arms, kappa)
