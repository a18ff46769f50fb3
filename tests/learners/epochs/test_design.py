"""Designs, and the laws by which arms are chosen."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

from discreet.codec import from_json, to_json
from discreet.learners.epochs.policy import (
    ActionTable,
    Decision,
    Design,
    Greedy,
    design_probabilities,
)

from .cases import GRID, learner

FEATURES = learner("posterior").features
TABLE, WEIGHTS = FEATURES.table, FEATURES.contexts.weights


def leverages(probabilities: np.ndarray) -> np.ndarray:
    """(N, K) phi' (sum rho phi phi' + a little)^-1 phi."""
    phi = FEATURES.table.reshape(-1, FEATURES.features)
    chances = (WEIGHTS[:, None] * probabilities).ravel()
    covariance = (phi * chances[:, None]).T @ phi
    covariance += 1e-3 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    found = np.einsum("wi,ij,wj->w", phi, np.linalg.inv(covariance), phi)
    return found.reshape(probabilities.shape)


class TestDesigns:
    def test_the_optimal_one_has_lower_leverage(self) -> None:
        everything = np.ones(TABLE.shape[:2], dtype=bool)
        optimal, uniform = (
            design_probabilities(d, TABLE, WEIGHTS, everything, 1e-3) for d in get_args(Design)
        )
        assert leverages(optimal).max() < 0.9 * leverages(uniform).max()

    @pytest.mark.parametrize("design", get_args(Design))
    def test_offers_are_probabilities_of_active_arms(self, design: str) -> None:
        rng = np.random.default_rng(0)
        for _ in range(20):
            active = rng.random(TABLE.shape[:2]) < 0.5
            active[np.arange(len(active)), rng.integers(4, size=len(active))] = True
            probabilities = design_probabilities(design, TABLE, WEIGHTS, active, 1e-3)
            assert np.allclose(probabilities.sum(axis=1), 1.0, atol=1e-12)
            assert (probabilities[~active] == 0.0).all()
            assert (probabilities[active] >= 0.1 / 4 - 1e-12).all()

    def test_contexts_that_do_not_come(self) -> None:
        everything = np.ones(TABLE.shape[:2], dtype=bool)
        weights = np.r_[1.0, np.zeros(len(WEIGHTS) - 1)]
        probabilities = design_probabilities("optimal", TABLE, weights, everything, 1e-3)
        assert np.allclose(probabilities.sum(axis=1), 1.0, atol=1e-12)


def decisions() -> list[Any]:
    size = FEATURES.features
    rng = np.random.default_rng(1)
    probabilities = rng.random((len(GRID), 4))
    return [
        Greedy(FEATURES, rng.standard_normal(size)),
        ActionTable(FEATURES, probabilities / probabilities.sum(axis=1, keepdims=True)),
        ActionTable(FEATURES, np.eye(4)[[3, 2, 1, 0, 1]]),
    ]


@pytest.mark.parametrize("decision", decisions(), ids=["greedy", "probabilities", "one arm"])
class TestDecisions:
    def test_arms_come_as_often_as_the_table_says(self, decision: Any) -> None:
        uniform = (np.arange(60_000) + 0.5) / 60_000
        for place in range(len(GRID)):
            arms = decision.choose(np.repeat(GRID[[place]], len(uniform), axis=0), uniform)
            shares = np.bincount(arms, minlength=4) / len(uniform)
            assert np.allclose(shares, decision.table[place], atol=2e-4)
            assert (shares[decision.table[place] == 0.0] == 0.0).all()

    def test_the_edges_of_the_unit_interval(self, decision: Any) -> None:
        for uniform in (0.0, np.nextafter(1.0, 0.0)):
            arms = decision.choose(GRID, np.full(len(GRID), uniform))
            assert (decision.table[np.arange(len(GRID)), arms] > 0.0).all()

    def test_it_travels(self, decision: Any) -> None:
        again = from_json(to_json(decision), Decision)
        assert to_json(again) == to_json(decision)
        assert np.array_equal(again.table, decision.table)
        assert np.array_equal(decision.probabilities(GRID), decision.table)


def test_continuous_contexts_are_chosen_for_like_tabulated_ones() -> None:
    from .cases import SMOOTH

    features = learner(domain=SMOOTH, contexts=GRID).features
    made = Greedy(features, np.random.default_rng(1).standard_normal(features.features))
    assert np.array_equal(made.probabilities(GRID), made.table)
    assert np.array_equal(made.choose(GRID, np.zeros(len(GRID))), made.table.argmax(axis=1))
