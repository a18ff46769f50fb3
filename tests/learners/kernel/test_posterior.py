"""The posterior against Gaussian conditioning by brute force, and the evidence of a prior."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from discreet.gaussian import GaussianNaturalParameters
from discreet.learners.kernel.features import CosineFeatures
from discreet.learners.kernel.posterior import (
    CoefficientPosterior,
    Hyperparameters,
    PosteriorMixture,
)
from discreet.people.domain import ArmPoints
from discreet.validation import FloatArray

FEATURES = CosineFeatures.of((None, None), 2)
ARMS = ArmPoints.of([1.0, 3.0])
SMOOTH = Hyperparameters((0.4, 0.8), 2.0)
ALIKE = Hyperparameters((0.4, 3.2), 1.0, level=0.8, surface=0.5)
POINTS = replace(ALIKE, arm_length_scale=0.8)


def measurements(count: int, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Random rows a (count, K M) and what was measured, t (count,)."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((count, 2 * len(FEATURES))) * 0.5
    return rows, rng.standard_normal(count)


def columns(smooth: Hyperparameters) -> tuple[np.ndarray, FloatArray]:
    """Which of all K M coefficients a posterior holds, and their prior covariance."""
    prior = smooth.prior(FEATURES, ARMS)
    places = np.concatenate([arm * len(FEATURES) + prior.used for arm in range(2)])
    apart = math.sqrt(3.0) / 0.8
    alike = 0.99 * (1.0 + apart) * math.exp(-apart) if smooth.arm_length_scale else 0.0
    covariance = np.kron(np.array([[1.0, alike], [alike, 1.0]]), np.diag(prior.own))
    covariance += np.kron(np.ones((2, 2)), np.diag(prior.common))
    return places, covariance


def brute_force(
    smooth: Hyperparameters, rows: FloatArray, seen: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of theta given A theta + noise = t, by the textbook."""
    places, prior = columns(smooth)
    a = rows[:, places]
    gain = prior @ a.T @ np.linalg.inv(a @ prior @ a.T + np.eye(len(a)))
    return gain @ seen, prior - gain @ a @ prior


@pytest.mark.parametrize(
    "smooth", [Hyperparameters.first(2), SMOOTH, ALIKE, POINTS, Hyperparameters((3.2, 3.2), 1.0)]
)
@pytest.mark.parametrize("count", [1, 30, 400])
def test_it_is_gaussian_conditioning(count: int, smooth: Hyperparameters) -> None:
    rows, seen = measurements(count)
    found = CoefficientPosterior.of(
        FEATURES,
        smooth.prior(FEATURES, ARMS),
        GaussianNaturalParameters(rows.T @ rows, rows.T @ seen),
    )
    mean, covariance = brute_force(smooth, rows, seen)
    assert found.arms == 2
    assert np.allclose(found.mean.ravel(), mean, atol=1e-9)
    vectors = np.random.default_rng(1).standard_normal((len(mean), 3))
    assert np.allclose(found.covariance_times(vectors), covariance @ vectors, atol=1e-9)
    # Draws are a linear map of normals, L z; L L' is the covariance.
    half = found.draws(np.eye(len(mean)))
    assert np.allclose(half @ half.T, covariance, atol=1e-9)
    known = rows[:, columns(smooth)[0]]
    assert found.degrees_of_freedom == pytest.approx(np.trace(covariance @ known.T @ known))
    contexts = np.random.default_rng(2).random((5, 2))
    phi = FEATURES(contexts, found.used)
    deviations = found.deviations(phi)
    size = len(found.used)
    for arm in range(2):
        own = covariance[arm * size : (arm + 1) * size, arm * size : (arm + 1) * size]
        exact = np.sqrt(np.einsum("nm,mk,nk->n", phi, own, phi))
        assert np.allclose(deviations[:, arm], exact, atol=1e-9)


def test_a_precision_that_is_no_sum_over_reports_is_refused() -> None:
    size = 2 * len(FEATURES)
    wrong = GaussianNaturalParameters(-100.0 * np.eye(size), np.zeros(size))
    with pytest.raises(np.linalg.LinAlgError, match="not positive semidefinite"):
        CoefficientPosterior.of(FEATURES, SMOOTH.prior(FEATURES, ARMS), wrong)


def test_a_mixture_has_the_mean_and_covariance_of_its_parts() -> None:
    """Against the second moments of all coefficients, worked out one part at a time."""
    rows, seen = measurements(60)
    information = GaussianNaturalParameters(rows.T @ rows, rows.T @ seen)
    smooths = [SMOOTH, ALIKE, POINTS, Hyperparameters((0.2, 0.2))]
    shares = np.array([0.4, 0.2, 0.2, 0.2])
    mixed = PosteriorMixture.of(
        [
            CoefficientPosterior.of(FEATURES, smooth.prior(FEATURES, ARMS), information)
            for smooth in smooths
        ],
        shares,
    )
    total = 2 * len(FEATURES)
    first, second = np.zeros(total), np.zeros((total, total))
    for smooth, share in zip(smooths, shares, strict=True):
        places, _ = columns(smooth)
        mean, covariance = brute_force(smooth, rows, seen)
        first[places] += share * mean
        second[np.ix_(places, places)] += share * (covariance + np.outer(mean, mean))
    at = np.concatenate([arm * len(FEATURES) + mixed.used for arm in range(2)])
    exact = (second - np.outer(first, first))[np.ix_(at, at)]
    assert np.allclose(mixed.mean.ravel(), first[at], atol=1e-9)
    assert np.allclose(mixed.covariance_times(np.eye(len(at))), exact, atol=1e-9)
    phi = FEATURES(np.random.default_rng(2).random((5, 2)), mixed.used)
    size = len(mixed.used)
    for arm in range(2):
        own = exact[arm * size : (arm + 1) * size, arm * size : (arm + 1) * size]
        assert np.allclose(
            mixed.deviations(phi)[:, arm] ** 2, np.einsum("nm,mk,nk->n", phi, own, phi), atol=1e-9
        )
    drawn = mixed.draws(20_000, np.random.default_rng(3))
    scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    assert np.abs((drawn @ drawn.T / 20_000 - exact) / scale).max() < 0.1


def test_without_reports_it_is_the_prior() -> None:
    size = 2 * len(FEATURES)
    found = CoefficientPosterior.of(
        FEATURES,
        SMOOTH.prior(FEATURES, ARMS),
        GaussianNaturalParameters(np.zeros((size, size)), np.zeros(size)),
    )
    assert (found.mean == 0.0).all()
    assert found.evidence == pytest.approx(0.0, abs=1e-9)
    _, prior = columns(SMOOTH)
    variance = np.diag(prior)
    assert np.allclose(found.covariance_times(np.eye(len(variance))), prior)
    phi = FEATURES(np.random.default_rng(0).random((4, 2)), found.used)
    assert np.allclose(found.deviations(phi) ** 2, (phi**2 @ variance[: len(found.used)])[:, None])


def test_draws_scatter_as_the_posterior_says() -> None:
    rows, seen = measurements(50)
    found = CoefficientPosterior.of(
        FEATURES,
        SMOOTH.prior(FEATURES, ARMS),
        GaussianNaturalParameters(rows.T @ rows, rows.T @ seen),
    )
    _, covariance = brute_force(SMOOTH, rows, seen)
    normals = np.random.default_rng(3).standard_normal((len(covariance), 20_000))
    drawn = found.draws(normals)
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    assert np.abs((np.cov(drawn) - covariance) / scale).max() < 0.05
    assert np.abs(drawn.mean(axis=1) / np.sqrt(np.diag(covariance))).max() < 0.05


@pytest.mark.parametrize("count", [5, 200])
def test_evidence_is_the_likelihood_of_what_was_measured(count: int) -> None:
    """log N(t; 0, A D A' + I), up to a constant that all hyperparameters share."""
    rows, seen = measurements(count)
    offsets = []
    for smooth in (Hyperparameters.first(2), SMOOTH, ALIKE, POINTS, Hyperparameters((3.2, 3.2))):
        places, prior = columns(smooth)
        a = rows[:, places]
        law = multivariate_normal(np.zeros(count), a @ prior @ a.T + np.eye(count))
        found = CoefficientPosterior.of(
            FEATURES,
            smooth.prior(FEATURES, ARMS),
            GaussianNaturalParameters(rows.T @ rows, rows.T @ seen),
        )
        offsets.append(law.logpdf(seen) - found.evidence)
    assert np.ptp(offsets) < 1e-7 * count
    exact = -0.5 * (seen @ seen + count * math.log(2.0 * math.pi))
    assert offsets[0] == pytest.approx(exact)
