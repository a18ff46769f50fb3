"""The posterior against Gaussian conditioning by brute force, and the evidence of a prior."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from discreet.domain import unit_cube
from discreet.learners.local_kernel.features import CosineFeatures
from discreet.learners.local_kernel.learner import LocalKernel
from discreet.learners.local_kernel.measurement import Measurements
from discreet.learners.local_kernel.posterior import KernelPosterior, expected_information
from discreet.learners.local_kernel.prior import Prior, Smooth
from discreet.learners.sources import Information
from discreet.privacy import Local, SimulatedNoise
from discreet.validation import FloatArray

from .scene import random_policy

FEATURES = CosineFeatures.of((None, None), 2)
SMOOTH = Smooth((0.4, 0.8), 2.0)
ALIKE = Smooth((0.4, 3.2), 1.0, level=0.8, surface=0.5)


def measurements(count: int, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Random rows a (count, K M) and what was measured, t (count,)."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((count, 2 * len(FEATURES))) * 0.5
    return rows, rng.standard_normal(count)


def prior_of(smooth: Smooth) -> Prior:
    return Prior.of(*smooth.variances(FEATURES))


def columns(smooth: Smooth) -> tuple[np.ndarray, FloatArray]:
    """Which of all K M coefficients a posterior holds, and their prior covariance."""
    own, common = smooth.variances(FEATURES)
    used = prior_of(smooth).used
    places = np.concatenate([arm * len(FEATURES) + used for arm in range(2)])
    covariance = np.kron(np.eye(2), np.diag(own[used])) + np.kron(
        np.ones((2, 2)), np.diag(common[used])
    )
    return places, covariance


def brute_force(
    smooth: Smooth, rows: FloatArray, seen: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of theta given A theta + noise = t, by the textbook."""
    places, prior = columns(smooth)
    a = rows[:, places]
    gain = prior @ a.T @ np.linalg.inv(a @ prior @ a.T + np.eye(len(a)))
    return gain @ seen, prior - gain @ a @ prior


@pytest.mark.parametrize("smooth", [Smooth.first(2), SMOOTH, ALIKE, Smooth((3.2, 3.2), 1.0)])
@pytest.mark.parametrize("count", [1, 30, 400])
def test_it_is_gaussian_conditioning(count: int, smooth: Smooth) -> None:
    rows, seen = measurements(count)
    found = KernelPosterior.of(
        FEATURES, prior_of(smooth), Information(rows.T @ rows, rows.T @ seen)
    )
    mean, covariance = brute_force(smooth, rows, seen)
    assert found.arms == 2
    assert np.allclose(found.mean.ravel(), mean, atol=1e-9)
    vectors = np.random.default_rng(1).standard_normal((len(mean), 3))
    assert np.allclose(found.covariance_times(vectors), covariance @ vectors, atol=1e-9)
    # Draws are a linear map of normals, L z; L L' is the covariance.
    half = found.draws(np.eye(len(mean)))
    assert np.allclose(half @ half.T, covariance, atol=1e-9)
    contexts = np.random.default_rng(2).random((5, 2))
    phi = FEATURES(contexts, found.used)
    deviations = found.deviations(phi)
    size = len(found.used)
    for arm in range(2):
        own = covariance[arm * size : (arm + 1) * size, arm * size : (arm + 1) * size]
        exact = np.sqrt(np.einsum("nm,mk,nk->n", phi, own, phi))
        assert np.allclose(deviations[:, arm], exact, atol=1e-9)


def test_without_reports_it_is_the_prior() -> None:
    size = 2 * len(FEATURES)
    found = KernelPosterior.of(
        FEATURES, prior_of(SMOOTH), Information(np.zeros((size, size)), np.zeros(size))
    )
    assert (found.mean == 0.0).all()
    assert found.evidence == 0.0
    _, prior = columns(SMOOTH)
    variance = np.diag(prior)
    assert np.allclose(found.covariance_times(np.eye(len(variance))), prior)
    phi = FEATURES(np.random.default_rng(0).random((4, 2)), found.used)
    assert np.allclose(found.deviations(phi) ** 2, (phi**2 @ variance[: len(found.used)])[:, None])


def test_draws_scatter_as_the_posterior_says() -> None:
    rows, seen = measurements(50)
    found = KernelPosterior.of(
        FEATURES, prior_of(SMOOTH), Information(rows.T @ rows, rows.T @ seen)
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
    for smooth in (Smooth.first(2), SMOOTH, ALIKE, Smooth((3.2, 3.2))):
        places, prior = columns(smooth)
        a = rows[:, places]
        law = multivariate_normal(np.zeros(count), a @ prior @ a.T + np.eye(count))
        found = KernelPosterior.of(
            FEATURES, prior_of(smooth), Information(rows.T @ rows, rows.T @ seen)
        )
        offsets.append(law.logpdf(seen) - found.evidence)
    assert np.ptp(offsets) < 1e-7 * count
    exact = -0.5 * (seen @ seen + count * math.log(2.0 * math.pi))
    assert offsets[0] == pytest.approx(exact)


@pytest.mark.parametrize("count", [1, 3])
def test_what_cells_tell_is_the_variance_of_what_is_measured(count: int) -> None:
    """By brute force: the prior covariance in full, and the probability of every cell."""
    policy = random_policy(count=count, arms=2, used=range(20))
    measured = Measurements(policy)
    own, common = ALIKE.variances(FEATURES)
    prior = Prior.of(own, common)
    size = 2 * len(FEATURES)
    nothing = Information(np.zeros((size, size)), np.zeros(size))
    posterior = KernelPosterior.of(FEATURES, prior, nothing)
    places, covariance = columns(ALIKE)
    cells = np.arange(count)
    vectors = measured.vectors(np.zeros(count, int), np.zeros(count, int), cells)[:, places]
    expected = sum(
        measured.shown[0, cell] * vectors[cell] @ covariance @ vectors[cell] for cell in cells
    )
    assert expected_information(measured, posterior) == pytest.approx(expected)


def test_three_columns_in_eight_cells_tell_more_than_in_one() -> None:
    """Levels are asked about first, yet cells say where rewards vary."""
    learner = LocalKernel(unit_cube(3), 2, Local(4.0), public_seed=3)
    for batch in range(8):
        contexts = np.random.default_rng(batch).random((50, 3))
        policy = learner.policy()
        actions, _ = policy.act(contexts, np.random.default_rng(100 + batch))
        noise = SimulatedNoise(batch)
        learner.update(policy.report(contexts, actions, np.full(50, 0.5), noise))
    assert learner.policy().cells.count >= 4
