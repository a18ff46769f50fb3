"""Sums over many pairs: in portions, over the pairs that count, and without comparing all."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from discreet.learners.epochs import contribution as sums
from discreet.learners.epochs.capri import Capri, influence
from discreet.learners.epochs.policy import design_probabilities
from discreet.people.domain import ArmPoints, unit_cube
from discreet.privacy import Joint, SimulatedNoise

RNG = np.random.default_rng


def table(contexts: int = 20, arms: int = 7, features: int = 5) -> np.ndarray:
    values = RNG(0).standard_normal((contexts, arms, features))
    return values / np.linalg.norm(values, axis=2, keepdims=True)


@pytest.fixture(params=["one portion", "many"])
def _portions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "many":
        monkeypatch.setattr(sums, "_AT_ONCE", 32)


@pytest.mark.usefixtures("_portions")
def test_sums_in_portions_are_those_of_the_formulas() -> None:
    phi, turn, weights = table().reshape(-1, 5), RNG(1).random((5, 3)), RNG(2).random(140)
    turned = phi @ turn
    moment = sum(w * np.outer(t, t) for w, t in zip(weights, turned, strict=True))
    np.testing.assert_allclose(sums.second_moment(phi, weights, turn), moment)
    np.testing.assert_allclose(sums.lengths(phi, turn), np.linalg.norm(turned, axis=1))
    covariance = phi.T @ phi
    wanted = np.diag(phi @ np.linalg.inv(covariance) @ phi.T)
    np.testing.assert_allclose(sums.leverages(phi, covariance), wanted)
    best, values = RNG(3).integers(7, size=20), table()
    away = (values - values[np.arange(20), best][:, None]) @ turn
    np.testing.assert_allclose(sums.spreads(values, turn, best), (away**2).sum(axis=2))


def test_arms_that_were_given_up_change_no_design(monkeypatch: pytest.MonkeyPatch) -> None:
    active, weights = RNG(4).random((20, 7)) < 0.5, np.full(20, 0.05)
    active[:, 0] = True
    whole = design_probabilities("optimal", table(), weights, active)
    monkeypatch.setattr(sums, "_AT_ONCE", 32)
    np.testing.assert_allclose(
        design_probabilities("optimal", table(), weights, active), whole, atol=1e-12
    )
    assert (whole[~active] == 0.0).all()


def test_how_far_others_sway_an_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    turned, offered = table().reshape(-1, 5), RNG(5).random(140) < 0.7
    chances = RNG(6).random(offered.sum())
    all_pairs = turned @ turned[offered].T
    square, largest = influence(turned, offered, chances)
    np.testing.assert_allclose(square, 0.25 * all_pairs**2 @ chances)
    np.testing.assert_allclose(largest, 0.5 * np.abs(all_pairs).max(axis=1))
    monkeypatch.setattr("discreet.learners.epochs.capri._MOST_COMPARED", 10)
    square_of_many, bound = influence(turned, offered, chances)
    np.testing.assert_array_equal(square_of_many, square)
    assert (bound >= largest - 1e-12).all()


@pytest.mark.parametrize("calibration", ["posterior", "bernstein"])
def test_memory_does_not_grow_with_the_square_of_pairs(calibration: str) -> None:
    contexts, arms = 90, 100  # 9,000 pairs, of which 0.6 GB would compare each with each other
    options = Capri.read_options({"calibration": calibration})
    tracemalloc.start()
    learner = Capri(
        unit_cube(1),
        ArmPoints([[place] for place in np.linspace(0.0, 1.0, arms).tolist()]),
        Joint(1.0, 1e-6),
        horizon=10_000,
        kernel="RBF(length_scale=0.5)",
        contexts={"points": np.linspace(0.0, 1.0, contexts)[:, None]},
        noise=SimulatedNoise(0),
        **options,
    )
    learner.policy()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(learner.pairs) == contexts * arms
    assert peak < 40 * learner.pairs.nbytes
