"""The posterior, question by question, against solving the whole system at once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from discreet.outsourcing.beliefs import RowBeliefs
from discreet.outsourcing.posterior import FAMILIES, Family, RowPosterior, RowPrior
from discreet.validation import InvalidInput


def unsure_rows(count: int, seed: int = 0) -> RowBeliefs:
    rng = np.random.default_rng(seed)
    return RowBeliefs(rng.normal(0.0, 1.5, (count, 2)), rng.uniform(0.0, 0.6, (count, 2)) ** 2)


def dense(
    prior: RowPrior, beliefs: RowBeliefs, asked: list[int], answers: list[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Means given the answers, variances given all that was asked, by direct solution."""
    whole = np.stack([prior.covariance(row, beliefs) for row in range(beliefs.count)])

    def solved(rows: list[int], right: np.ndarray) -> np.ndarray:
        system = whole[np.ix_(rows, rows)] + prior.noise * np.eye(len(rows))
        return whole[:, rows] @ np.linalg.solve(system, right)

    known = asked[: len(answers)]
    mean = np.full(beliefs.count, prior.mean)
    if known:
        mean = mean + solved(known, np.array(answers) - prior.mean)
    variance = np.full(beliefs.count, prior.variance)
    if asked:
        variance = variance - np.diag(solved(asked, whole[asked]))
    return mean, variance


def assert_agrees(posterior: RowPosterior, answers: list[float]) -> None:
    mean, variance = dense(posterior.prior, posterior.beliefs, posterior.asked, answers)
    np.testing.assert_allclose(posterior.mean, mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(posterior.variance, variance, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(posterior.deviation, np.sqrt(posterior.variance))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_step_agrees_with_the_dense_solution(family: Family) -> None:
    beliefs = unsure_rows(50)
    prior = RowPrior((0.8, 1.3), 2.0, 0.05, mean=-0.7, family=family)
    posterior = RowPosterior(beliefs, prior)
    rng = np.random.default_rng(1)
    answers: list[float] = []
    assert_agrees(posterior, answers)
    # Past two blocks of questions, with rows asked again, and up to four of them waiting.
    for row in rng.integers(0, 50, 36).tolist():
        posterior.ask(row)
        while len(posterior.asked) - len(answers) > rng.integers(0, 5):
            answers.append(float(rng.normal()))
            posterior.tell(answers[-1])
        assert posterior.answered == len(answers)
        assert_agrees(posterior, answers)


def test_waiting_questions_lower_variances_and_leave_means() -> None:
    posterior = RowPosterior(unsure_rows(30), RowPrior(1.0, noise=0.1))
    posterior.ask(3)
    posterior.tell(1.5)
    mean, variance = posterior.mean.copy(), posterior.variance.copy()
    posterior.ask(8)
    np.testing.assert_array_equal(posterior.mean, mean)
    assert (posterior.variance <= variance).all()
    assert posterior.variance[8] < 0.2 * variance[8]
    posterior.forget_waiting()
    np.testing.assert_allclose(posterior.variance, variance, rtol=1e-12)
    assert posterior.asked == [3]


@pytest.mark.parametrize("told", [0, 3, 15, 16, 17, 31, 32])
def test_forgetting_what_waits_at_the_edges_of_blocks(told: int) -> None:
    rng = np.random.default_rng(told)
    posterior = RowPosterior(unsure_rows(40, 3), RowPrior(0.9, noise=0.2))
    answers = []
    for row in rng.integers(0, 40, told):
        posterior.ask(int(row))
        answers.append(float(rng.normal()))
        posterior.tell(answers[-1])
    for extra in (1, 20):
        for row in rng.integers(0, 40, extra):
            posterior.ask(int(row))
        posterior.forget_waiting()
        assert (len(posterior.asked), posterior.answered) == (told, told)
        assert_agrees(posterior, answers)
    # And on from there.
    posterior.ask(7)
    posterior.tell(0.25)
    assert_agrees(posterior, [*answers, 0.25])


def test_what_rows_share_with_others() -> None:
    """Deviations without each row's own part, which no question about others lowers."""
    beliefs, prior = unsure_rows(30), RowPrior(0.6, 2.0, 0.1)
    posterior = RowPosterior(beliefs, prior)
    own = prior.own_variance(beliefs)
    np.testing.assert_allclose(posterior.shared_deviation**2, 2.0 - own, rtol=1e-12)
    for row in range(1, 30):
        posterior.ask(row)
    found = posterior.shared_deviation
    assert found[0] ** 2 == pytest.approx(posterior.variance[0] - own[0], rel=1e-9)
    # Rows that were asked for keep all of it: their own part is being learnt.
    np.testing.assert_array_equal(found[1:], posterior.deviation[1:])
    # All others were asked for: of row 0 little more than its own is left.
    assert posterior.variance[0] > own[0]
    assert found[0] < 0.9 * math.sqrt(2.0 - own[0])


def test_repeats_average_out_noise() -> None:
    posterior = RowPosterior(unsure_rows(5), RowPrior(1.0, variance=1.0, noise=1.0))
    for answer in (2.0, 4.0, 3.0):
        posterior.ask(2)
        posterior.tell(answer)
    # One row alone: precision 1 of the prior and 1 of each answer.
    assert posterior.mean[2] == pytest.approx(9.0 / 4.0)
    assert posterior.variance[2] == pytest.approx(1.0 / 4.0)


def test_exact_rows_give_gaussian_process_regression() -> None:
    rng = np.random.default_rng(8)
    points = rng.random((80, 3))
    prior = RowPrior((0.4, 0.7, 1.1), 1.7, 0.02, mean=0.6)
    posterior = RowPosterior(RowBeliefs.exact(points), prior)
    rows = rng.choice(80, 25, replace=False)
    answers = np.sin(5.0 * points[rows, 0]) + points[rows, 1]
    for row, answer in zip(rows, answers, strict=True):
        posterior.ask(int(row))
        posterior.tell(float(answer))
    reference = GaussianProcessRegressor(
        ConstantKernel(1.7) * RBF([0.4, 0.7, 1.1]), alpha=0.02, optimizer=None
    ).fit(points[rows], answers - 0.6)
    mean, deviation = reference.predict(points, return_std=True)
    np.testing.assert_allclose(posterior.mean, mean + 0.6, rtol=1e-7)
    np.testing.assert_allclose(posterior.deviation, deviation, rtol=1e-6)


def test_hardly_any_noise_stays_stable() -> None:
    """Rows next to each other and almost exact answers: variances must not become negative."""
    points = np.linspace(0.0, 1e-3, 50)[:, None]
    posterior = RowPosterior(RowBeliefs.exact(points), RowPrior(1.0, noise=1e-10))
    for row in range(50):
        posterior.ask(row)
        posterior.tell(1.0)
    assert np.isfinite(posterior.mean).all()
    assert (posterior.variance >= 0.0).all()
    np.testing.assert_allclose(posterior.mean, 1.0, atol=1e-3)


def test_length_scales_must_fit() -> None:
    with pytest.raises(InvalidInput, match="3 length scales for 2 columns"):
        RowPosterior(unsure_rows(4), RowPrior((1.0, 1.0, 1.0)))
