"""Scores of rows: expected improvement by quadrature, confidence bounds by their formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from discreet.outsourcing.modeler import (
    ACQUISITIONS,
    Acquisition,
    ExpectedImprovement,
    PublishedUCB,
    UpperConfidence,
)
from discreet.validation import InvalidInput


def log_improvement_by_quadrature(u: float) -> float:
    """log E max(N(u, 1), 0) = log phi(u) + log integral of t exp(t u - t^2 / 2) over t > 0."""
    stretch = max(abs(u), 1.0)
    inner, _ = integrate.quad(
        lambda v: v * math.exp(v * u / stretch - 0.5 * (v / stretch) ** 2),
        0.0,
        max(60.0, (u + 12.0) * stretch),
        limit=300,
        points=[max(u, 0.0) * stretch] if u > 0.0 else None,
    )
    return float(stats.norm.logpdf(u)) + math.log(inner) - 2.0 * math.log(stretch)


@pytest.mark.parametrize(
    "u", [5.0, 2.0, 0.5, 0.0, -0.5, -0.999, -1.0, -1.001, -3.0, -8.0, -20.0, -40.0, -1e3, -9999.0]
)
def test_expected_improvement_also_far_in_the_tail(u: float) -> None:
    for sd in (1.0, 0.03):
        score = ExpectedImprovement().scores(np.array([2.0 + sd * u]), np.array([sd]), 2.0, 1)
        expected = log_improvement_by_quadrature((2.0 + sd * u - 2.0) / sd) + math.log(sd)
        assert score[0] == pytest.approx(expected, rel=1e-9, abs=1e-7)


def test_the_two_branches_of_the_tail_meet() -> None:
    u = -np.geomspace(0.5, 1e6, 4000)
    score = ExpectedImprovement().scores(u, np.ones_like(u), 0.0, 1)
    assert np.isfinite(score).all()
    assert (np.diff(score) < 0.0).all()
    # log EI = log phi(u) - 2 log |u| + log(1 - 3/u^2 + ...)
    far = u < -1e3
    leading = stats.norm.logpdf(u[far]) - 2.0 * np.log(-u[far])
    np.testing.assert_allclose(score[far], leading, rtol=1e-7)


def test_expected_improvement_itself() -> None:
    rng = np.random.default_rng(0)
    mean, deviation = np.array([0.0, 1.0, 3.0]), np.array([1.0, 0.5, 2.0])
    draws = mean + deviation * rng.standard_normal((400_000, 3))
    gain = np.maximum(draws - 1.2, 0.0)
    found = np.exp(ExpectedImprovement().scores(mean, deviation, 1.2, 9))
    error = gain.std(axis=0) / math.sqrt(len(gain))
    assert (np.abs(found - gain.mean(axis=0)) < 5.0 * error).all()


def test_a_known_row_improves_by_what_it_is_above_the_best() -> None:
    score = ExpectedImprovement().scores(np.array([1.0, 3.0, 2.0]), np.zeros(3), 2.0, 1)
    found = np.exp(score)
    np.testing.assert_allclose(found, [0.0, 1.0, 0.0], atol=1e-11)


@pytest.mark.parametrize(("rows", "question"), [(10_000, 1), (10_000, 50), (3, 7)])
def test_the_published_bound(rows: int, question: int) -> None:
    """beta_t = 2 log(n t^2 pi^2 / (6 delta')), with delta' = 0.05 / 2."""
    mean, deviation = np.linspace(-1.0, 1.0, rows), np.linspace(2.0, 0.5, rows)
    score = PublishedUCB().scores(mean, deviation, 99.0, question)
    beta = 2.0 * (
        math.log(rows) + 2.0 * math.log(question) + 2.0 * math.log(math.pi) - math.log(6 * 0.025)
    )
    np.testing.assert_allclose(score, mean + math.sqrt(beta) * deviation, rtol=1e-12)
    wider = PublishedUCB(0.5).scores(mean, deviation, 99.0, question)
    assert (wider < score).all()


def test_the_multiplier_of_the_confidence_bound() -> None:
    mean, deviation = np.zeros(1000), np.ones(1000)
    default = UpperConfidence().scores(mean, deviation, 0.0, 1)
    np.testing.assert_allclose(default, math.sqrt(2.0 * math.log(1000)))
    np.testing.assert_allclose(UpperConfidence(3.0).scores(mean, deviation, 0.0, 1), 3.0)
    alone = UpperConfidence().scores(np.zeros(1), np.ones(1), 0.0, 1)
    assert alone[0] > 0.0


@pytest.mark.parametrize("name", ACQUISITIONS)
def test_what_every_rule_prefers(name: str) -> None:
    rule = ACQUISITIONS[name]()
    assert isinstance(rule, Acquisition)
    assert rule.name == name
    mean, deviation = np.array([0.0, 1.0, 0.0]), np.array([0.5, 0.5, 2.0])
    before = mean.copy(), deviation.copy()
    score = rule.scores(mean, deviation, 0.5, 3)
    # The higher of two as uncertain rows, the less certain of two as high ones.
    assert score.shape == (3,)
    assert score[1] > score[0]
    assert score[2] > score[0]
    np.testing.assert_array_equal((mean, deviation), before)


def test_confidence_bounds_look_at_what_rows_share_every_other_time() -> None:
    assert [UpperConfidence().shared(question) for question in (1, 2, 3, 4)] == [
        False,
        True,
        False,
        True,
    ]
    assert ExpectedImprovement().shared(1)
    assert not PublishedUCB().shared(2)


def test_which_row_is_chosen() -> None:
    """A high mean for expected improvement with little at stake elsewhere, doubt for the bounds."""
    mean, deviation = np.array([0.9, 0.0]), np.array([0.3, 0.6])
    chosen = {
        name: int(np.argmax(make().scores(mean, deviation, 0.8, 1)))
        for name, make in ACQUISITIONS.items()
    }
    assert chosen["expected_improvement"] == 0
    assert int(np.argmax(UpperConfidence(4.0).scores(mean, deviation, 0.8, 1))) == 1
    assert chosen["gp_ucb"] == 1


def test_bad_parameters() -> None:
    for delta in (0.0, 1.0, -0.1, math.nan):
        with pytest.raises(InvalidInput, match="delta was"):
            PublishedUCB(delta)
    for multiplier in (0.0, -1.0, math.inf):
        with pytest.raises(InvalidInput, match="multiplier was"):
            UpperConfidence(multiplier)
