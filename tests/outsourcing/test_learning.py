"""Learning a prior from answers: the gradient, and what comes back from simulated outcomes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.outsourcing import posterior as learning
from discreet.outsourcing.beliefs import RowBeliefs
from discreet.outsourcing.posterior import (
    FAMILIES,
    Family,
    RowPrior,
    column_spread,
    first_prior,
    learn_prior,
)


def outcomes(points: np.ndarray, prior: RowPrior, rng: np.random.Generator) -> np.ndarray:
    """Outcomes (n,) of rows that stand at `points`, drawn from the prior."""
    exact = RowBeliefs.exact(points)
    covariance = np.stack([prior.covariance(row, exact) for row in range(exact.count)])
    root = np.linalg.cholesky(covariance + 1e-8 * np.eye(len(points)))
    return prior.mean + root @ rng.standard_normal(len(points))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("separate", [True, False])
@pytest.mark.parametrize("known", [0.0, 0.3])
def test_the_gradient_is_that_of_the_objective(
    family: Family, separate: bool, known: float
) -> None:
    rng = np.random.default_rng(4)
    beliefs = RowBeliefs(rng.random((30, 3)), rng.uniform(0.0, 0.2, (30, 3)) ** 2)
    rows = np.array([3, 9, 1, 22, 9, 14, 0, 7, 19])  # row 9 twice
    data = learning._data(beliefs, rows, rng.standard_normal(9), known)
    scales = 3 if separate else 1
    step = 1e-6
    for _ in range(3):
        theta = rng.normal(-0.5, 0.7, scales + 2)
        value, gradient = learning._objective(theta, data, family, scales)
        assert math.isfinite(value)
        for place in range(len(theta)):
            high, low = theta.copy(), theta.copy()
            high[place] += step
            low[place] -= step
            slope = (
                learning._objective(high, data, family, scales)[0]
                - learning._objective(low, data, family, scales)[0]
            ) / (2.0 * step)
            assert gradient[place] == pytest.approx(slope, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_covariance_is_that_of_the_prior(family: Family) -> None:
    rng = np.random.default_rng(6)
    beliefs = RowBeliefs(rng.random((20, 2)), rng.uniform(0.0, 0.3, (20, 2)) ** 2)
    rows = np.array([4, 11, 4, 17])
    data = learning._data(beliefs, rows, np.zeros(4), 0.0)
    theta = np.array([math.log(0.7), math.log(1.9), math.log(1.4), math.log(0.2)])
    found, _ = learning._covariance(theta, data, family, 2)
    scales = np.exp(theta[:2]) * column_spread(beliefs)
    prior = RowPrior(tuple(scales), 1.4, 0.2, family=family)
    expected = np.stack([prior.covariance(int(row), beliefs)[rows] for row in rows])
    np.testing.assert_allclose(found, expected + 0.2 * np.eye(4), rtol=1e-12)


@pytest.mark.parametrize("seed", [0, 1])
def test_length_scales_come_back(seed: int) -> None:
    """One column matters at a short scale, the other hardly: both are told apart."""
    rng = np.random.default_rng(seed)
    points = rng.random((150, 2))
    truth = RowPrior((0.2, 1.0), 4.0, 0.01, mean=10.0)
    answers = outcomes(points, truth, rng) + rng.normal(0.0, 0.1, 150)
    rows = np.arange(120)
    found = learn_prior(RowBeliefs.exact(points), rows, answers[rows])
    assert isinstance(found.length_scale, tuple)
    short, long = found.length_scale
    assert short == pytest.approx(0.2, rel=0.25)
    assert 0.6 < long < 2.0
    assert 1.0 < found.variance < 16.0
    assert 0.005 < found.noise < 0.03
    assert abs(found.mean - 10.0) < 3.0


def test_noisy_rows_give_the_length_scale_of_the_true_ones() -> None:
    """Who took noisy rows for exact ones would learn sqrt(l^2 + 2 s^2) and noisy answers."""
    learnt = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        true = rng.random((130, 1)) * 20.0
        answers = outcomes(true, RowPrior(1.5, 1.0), rng) + rng.normal(0.0, 0.1, 130)
        released = true + rng.normal(0.0, 0.6, true.shape)
        rows = np.arange(130)
        aware = learn_prior(RowBeliefs.noisy(released, 0.6), rows, answers)
        naive = learn_prior(RowBeliefs.exact(released), rows, answers)
        learnt.append((aware.scales(1)[0], naive.scales(1)[0]))
        assert naive.noise > 2.0 * aware.noise
    ours, theirs = np.exp(np.log(learnt).mean(axis=0))
    assert ours == pytest.approx(1.5, rel=0.2)
    assert ours < theirs


def test_known_noise_is_not_learnt_again() -> None:
    rng = np.random.default_rng(9)
    points = rng.random((120, 1))
    quiet = outcomes(points, RowPrior(0.3, 1.0), rng)
    answers = quiet + rng.normal(0.0, 0.7, 120)
    rows = np.arange(120)
    told = learn_prior(RowBeliefs.exact(points), rows, answers, known_noise=0.49)
    untold = learn_prior(RowBeliefs.exact(points), rows, answers)
    # At least what is known, and in all what it is.
    assert told.noise >= 0.49
    assert told.noise == pytest.approx(0.49, rel=0.35)
    assert untold.noise == pytest.approx(0.49, rel=0.35)


def test_units_do_not_matter() -> None:
    rng = np.random.default_rng(12)
    points = rng.random((40, 2))
    answers = np.sin(6.0 * points[:, 0]) + points[:, 1]
    rows = np.arange(40)
    one = learn_prior(RowBeliefs.exact(points), rows, answers)
    other = learn_prior(RowBeliefs.exact(points * [100.0, 0.01]), rows, 1000.0 * answers - 5.0)
    np.testing.assert_allclose(
        other.length_scale, np.multiply(one.length_scale, [100.0, 0.01]), 1e-3
    )
    assert other.variance == pytest.approx(1e6 * one.variance, rel=1e-3)
    assert other.mean == pytest.approx(1000.0 * one.mean - 5.0, rel=1e-3, abs=1.0)


@pytest.mark.parametrize("answers", [[2.0, 2.0, 2.0], [5.0, 5.0]])
def test_answers_that_are_all_equal(answers: list[float]) -> None:
    beliefs = RowBeliefs.exact(np.random.default_rng(0).random((5, 2)))
    found = learn_prior(beliefs, np.arange(len(answers)), np.array(answers))
    assert found.mean == pytest.approx(answers[0])
    assert found.variance > 0.0
    assert found.noise > 0.0


def test_many_columns_share_one_length_scale() -> None:
    rng = np.random.default_rng(1)
    points = rng.random((30, learning.MOST_SEPARATE + 1)) * np.arange(1, learning.MOST_SEPARATE + 2)
    found = learn_prior(RowBeliefs.exact(points), np.arange(30), rng.standard_normal(30))
    ratio = np.array(found.length_scale) / column_spread(RowBeliefs.exact(points))
    np.testing.assert_allclose(ratio, ratio[0])


def test_the_spread_of_a_column_is_that_of_the_rows_without_noise() -> None:
    """Posterior means of rows in a box vary less than the rows, noisy points more."""
    rng = np.random.default_rng(2)
    rows = rng.random((20_000, 1)) * 4.0
    exact = column_spread(RowBeliefs.exact(rows))[0]
    assert exact == pytest.approx(4.0 / math.sqrt(12.0), rel=0.02)
    start = first_prior(RowBeliefs.exact(rows), "matern52")
    assert start.family == "matern52"
    assert isinstance(start.length_scale, tuple)
    assert start.length_scale[0] == pytest.approx(0.5 * exact)


def test_a_column_without_spread() -> None:
    points = np.column_stack([np.random.default_rng(3).random(12), np.zeros(12)])
    found = learn_prior(RowBeliefs.exact(points), np.arange(12), points[:, 0])
    assert all(math.isfinite(scale) and scale > 0.0 for scale in np.array(found.length_scale))
