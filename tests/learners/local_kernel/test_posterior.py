"""The posterior against Gaussian conditioning by brute force, and the evidence that it reads."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from discreet.codec import from_json, to_json
from discreet.learners.local_kernel.features import CosineFeatures
from discreet.learners.local_kernel.posterior import (
    LENGTH_SCALES,
    SCALES,
    KernelPosterior,
    Likely,
    MixedPosterior,
    Smooth,
    likely,
    used_features,
)
from discreet.learners.sources import Information
from discreet.problems.synthetic import ExponentialMeans, symmetric_means
from discreet.validation import FloatArray

FEATURES = CosineFeatures.of((None, None), 2)
SMOOTH = Smooth((0.4, 0.8), 2.0)


def measurements(count: int, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Random rows a (count, K M) and what was measured, t (count,)."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((count, 2 * len(FEATURES))) * 0.5
    return rows, rng.standard_normal(count)


def columns(smooth: Smooth) -> tuple[np.ndarray, FloatArray]:
    """Which of all K M coefficients a posterior holds, and their prior variances."""
    used, variance = used_features(FEATURES, smooth)
    places = np.concatenate([arm * len(FEATURES) + used for arm in range(2)])
    return places, np.tile(variance, 2)


def brute_force(
    smooth: Smooth, rows: FloatArray, seen: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of theta given A theta + noise = t, by the textbook."""
    places, variance = columns(smooth)
    prior, a = np.diag(variance), rows[:, places]
    gain = prior @ a.T @ np.linalg.inv(a @ prior @ a.T + np.eye(len(a)))
    return gain @ seen, prior - gain @ a @ prior


@pytest.mark.parametrize("smooth", [Smooth.first(2), SMOOTH, Smooth((3.2, 3.2), 1.0)])
@pytest.mark.parametrize("count", [1, 30, 400])
def test_it_is_gaussian_conditioning(count: int, smooth: Smooth) -> None:
    rows, seen = measurements(count)
    found = KernelPosterior.of(FEATURES, smooth, Information(rows.T @ rows, rows.T @ seen))
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


def test_a_mixture_has_the_mean_and_covariance_of_its_parts() -> None:
    """Against the second moments of all coefficients, worked out one part at a time."""
    rows, seen = measurements(60)
    information = Information(rows.T @ rows, rows.T @ seen)
    smooths = [SMOOTH, Smooth((0.2, 0.2)), Smooth((3.2, 3.2), 1.0)]
    shares = np.array([0.5, 0.3, 0.2])
    mixed = MixedPosterior.of(
        [KernelPosterior.of(FEATURES, smooth, information) for smooth in smooths], shares
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
    found = KernelPosterior.of(
        FEATURES, SMOOTH, Information(np.zeros((size, size)), np.zeros(size))
    )
    assert (found.mean == 0.0).all()
    assert found.evidence == 0.0
    _, variance = columns(SMOOTH)
    assert np.allclose(found.covariance_times(np.eye(len(variance))), np.diag(variance))
    phi = FEATURES(np.random.default_rng(0).random((4, 2)), found.used)
    assert np.allclose(found.deviations(phi) ** 2, (phi**2 @ variance[: len(found.used)])[:, None])


def test_draws_scatter_as_the_posterior_says() -> None:
    rows, seen = measurements(50)
    found = KernelPosterior.of(FEATURES, SMOOTH, Information(rows.T @ rows, rows.T @ seen))
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
    for smooth in (Smooth.first(2), SMOOTH, Smooth((0.2, 3.2), 2.0), Smooth((3.2, 3.2))):
        places, variance = columns(smooth)
        a = rows[:, places]
        law = multivariate_normal(np.zeros(count), (a * variance) @ a.T + np.eye(count))
        found = KernelPosterior.of(FEATURES, smooth, Information(rows.T @ rows, rows.T @ seen))
        offsets.append(law.logpdf(seen) - found.evidence)
    assert np.ptp(offsets) < 1e-7 * count
    exact = -0.5 * (seen @ seen + count * math.log(2.0 * math.pi))
    assert offsets[0] == pytest.approx(exact)


def test_features_that_hardly_vary_are_left_out() -> None:
    for smooth in (Smooth((0.2, 0.2)), Smooth((0.2, 3.2)), Smooth((3.2, 3.2), 2.0)):
        used, variance = used_features(FEATURES, smooth)
        everything = FEATURES.variances(smooth.length_scales, smooth.scale)
        rest = np.delete(everything, used)
        assert (variance >= 1e-4 * everything.sum()).all()
        assert (rest < 1e-4 * everything.sum()).all()
        assert used[0] == 0
    assert len(used_features(FEATURES, Smooth((3.2, 3.2)))[0]) < len(used) * 2
    counts = [len(used_features(FEATURES, Smooth((one, one)))[0]) for one in LENGTH_SCALES]
    assert counts == sorted(counts, reverse=True)


def informed(
    values: FloatArray, contexts: FloatArray, features: CosineFeatures, weight: float
) -> Information:
    """J and b where 2 f - 1 of all arms was measured at these contexts, each `weight` times."""
    phi = features(contexts)
    count, arms = len(features), values.shape[1]
    rng = np.random.default_rng(5)
    noisy = values + rng.standard_normal(values.shape) / math.sqrt(weight)
    precision = np.zeros((arms, count, arms, count))
    for arm in range(arms):
        precision[arm, :, arm] = weight * phi.T @ phi
    weighted = weight * (phi.T @ noisy).T.ravel()
    return Information(precision.reshape(arms * count, arms * count), weighted)


def test_length_scales_are_learnt_for_each_axis() -> None:
    """The exponential problem changes along the first column only."""
    contexts = np.random.default_rng(6).random((300, 2))
    features = CosineFeatures.of((None, None), 3)
    sums = informed(2.0 * ExponentialMeans(3)(contexts) - 1.0, contexts, features, 10.0)
    found = likely(features, Smooth.first(2), sums)
    assert found.best.length_scales[0] <= 0.4
    assert found.best.length_scales[1] == 3.2


@pytest.mark.parametrize("weight", [1.0, 2.0, 10.0])
def test_both_axes_are_found_at_once(weight: float) -> None:
    """In the symmetric problem no single column seems to matter, only both together."""
    contexts = np.random.default_rng(7).random((300, 2))
    sums = informed(2.0 * symmetric_means(contexts) - 1.0, contexts, FEATURES, weight)
    for start in (Smooth.first(2), Smooth((3.2, 3.2)), Smooth((0.8, 3.2), 2.0)):
        found = likely(FEATURES, start, sums)
        assert max(found.best.length_scales) <= 0.4


@pytest.mark.parametrize("length_scales", [(0.2, 0.2), (0.2, 0.8), (0.8, 3.2), (0.4, 3.2)])
def test_functions_drawn_from_a_prior_are_read_with_it(length_scales: tuple[float, float]) -> None:
    """Ten arms, so that there is enough to go by; a neighbouring length scale is near enough."""
    rng = np.random.default_rng(8)
    features = CosineFeatures.of((None, None), 10)
    variance = features.variances(length_scales, 1.0)
    theta = rng.standard_normal((10, len(features))) * np.sqrt(variance)
    contexts = rng.random((400, 2))
    sums = informed(features(contexts) @ theta.T, contexts, features, 20.0)
    found = likely(features, Smooth.first(2), sums)
    for axis in range(2):
        place = LENGTH_SCALES.index(found.best.length_scales[axis])
        assert abs(place - LENGTH_SCALES.index(length_scales[axis])) <= 1
    truth = KernelPosterior.of(features, Smooth(length_scales), sums).evidence
    best = KernelPosterior.of(features, found.best, sums).evidence + found.best.log_prior
    assert best >= truth + Smooth(length_scales).log_prior


def test_large_functions_have_a_large_scale() -> None:
    contexts = np.random.default_rng(9).random((300, 2))
    for size, scale in ((0.5, 1.0), (3.0, 2.0)):
        values = size * np.stack([np.cos(np.pi * contexts[:, 0]), contexts[:, 1] - 0.5], axis=1)
        found = likely(FEATURES, Smooth.first(2), informed(values, contexts, FEATURES, 50.0))
        assert found.best.scale == scale


def test_without_reports_no_axis_is_said_not_to_matter() -> None:
    size = 2 * len(FEATURES)
    found = likely(FEATURES, Smooth.first(2), Information(np.zeros((size, size)), np.zeros(size)))
    assert found.best.log_prior == 0.0
    assert max(found.best.length_scales) < 3.2


def test_what_is_likely_is_ranked_and_adds_up() -> None:
    rows, seen = measurements(40)
    found = likely(FEATURES, Smooth.first(2), Information(rows.T @ rows, rows.T @ seen))
    assert sum(found.weights) == pytest.approx(1.0)
    assert list(found.weights) == sorted(found.weights, reverse=True)
    assert found.weights[-1] > found.weights[0] * math.exp(-6.0)
    assert len(set(found.candidates)) == len(found.candidates)
    worth = [
        KernelPosterior.of(FEATURES, one, Information(rows.T @ rows, rows.T @ seen)).evidence
        + one.log_prior
        for one in found.candidates[:2]
    ]
    assert math.log(found.weights[0] / found.weights[1]) == pytest.approx(worth[0] - worth[1])
    rng = np.random.default_rng(0)
    share = 0.0
    for _ in range(400):
        smooths, shares = found.draw(3, rng)
        assert len(set(smooths)) == len(smooths) <= 3
        assert shares.sum() == pytest.approx(1.0)
        share += dict(zip(smooths, shares, strict=True)).get(found.best, 0.0) / 400
    # The likeliest takes its probability of the shares, rounded up or down to thirds each time.
    assert share == pytest.approx(found.weights[0], abs=0.04)


def test_neighbours() -> None:
    near = Smooth((0.2, 3.2), 1.0).near()
    assert Smooth((0.2, 3.2), 1.0) not in near
    for one in (
        Smooth((0.8, 3.2)),
        Smooth((0.2, 0.4)),
        Smooth((0.4, 0.4)),
        Smooth((0.2, 3.2), 2.0),
    ):
        assert one in near
    assert all(one.scale in SCALES for one in near)


def test_likely_hyperparameters_round_trip() -> None:
    rows, seen = measurements(40)
    found = likely(FEATURES, Smooth.first(2), Information(rows.T @ rows, rows.T @ seen))
    for one in (found, Likely.first(2)):
        assert from_json(json.loads(json.dumps(to_json(one))), Likely) == one
