"""The query design: contrasts, gains and costs against the formulas that they stand for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from discreet.gaussian import GaussianNaturalParameters
from discreet.learners.kernel.cells import Cells, Ranks
from discreet.learners.kernel.design import (
    DecisionContrasts,
    Measurements,
    ResponseModel,
    _Responses,
)
from discreet.learners.kernel.features import CosineFeatures, grid_of
from discreet.learners.kernel.learner import LocalKernel
from discreet.learners.kernel.policy import KernelPolicy, arms_of_all
from discreet.learners.kernel.posterior import (
    CoefficientPosterior,
    Hyperparameters,
    PosteriorMixture,
)
from discreet.privacy import Local
from discreet.privacy.frequency import k_ary_response
from discreet.validation import FloatArray, IntArray

from .scene import unit_cube

ARMS = 3
FEATURES = CosineFeatures.of((None,), ARMS)
GRID = grid_of(5, 0, FEATURES)
RNG = np.random.default_rng(0)
MASS = GRID.weights(RNG.random(24) + 0.5)


def belief(reports: int) -> PosteriorMixture:
    rows = np.random.default_rng(1).standard_normal((reports, ARMS * len(FEATURES))) * 0.3
    seen = np.random.default_rng(2).standard_normal(reports)
    information = GaussianNaturalParameters(rows.T @ rows, rows.T @ seen)
    smooths = [Hyperparameters((0.4,)), Hyperparameters((0.2,), 2.0)]
    parts = [
        CoefficientPosterior.of(FEATURES, smooth.prior(FEATURES, 3), information)
        for smooth in smooths
    ]
    return PosteriorMixture.of(parts, np.array([0.7, 0.3]))


def contrasts_of(mixed: PosteriorMixture, seed: int = 3) -> DecisionContrasts:
    return DecisionContrasts.of(mixed, GRID.phi[:, mixed.used], MASS, np.random.default_rng(seed))


def covariance(mixed: PosteriorMixture) -> FloatArray:
    return mixed.covariance_times(np.eye(mixed.mean.size))


def test_the_total_is_how_fast_the_expected_loss_falls() -> None:
    """T = sum over points and rivals of mass * variance * d(expected loss)/d(variance), where the
    loss of f is half that of 2 f - 1; deviations come from 96 draws, so about 7% off each."""
    mixed = belief(40)
    phi, whole = GRID.phi[:, mixed.used], covariance(mixed)
    means = mixed.mean @ phi.T
    total = 0.0
    for x, best in enumerate(means.argmax(axis=0)):
        for rival in set(range(ARMS)) - {int(best)}:
            u = np.zeros((ARMS, phi.shape[1]))
            u[best], u[rival] = phi[x], -phi[x]
            gap, variance = means[best, x] - means[rival, x], u.ravel() @ whole @ u.ravel()

            def loss(v: float, gap: float = gap) -> float:
                s = math.sqrt(v)
                return float(s * (norm.pdf(gap / s) - gap / s * norm.sf(gap / s)))

            slope = (loss(1.001 * variance) - loss(0.999 * variance)) / (0.002 * variance)
            total += 0.5 * MASS[x] * variance * slope
    assert np.mean([contrasts_of(mixed, seed).total for seed in range(5)]) == pytest.approx(
        total, rel=0.05
    )
    # The formula of the loss itself, by integration.
    integral = quad(lambda gain: max(-gain, 0.0) * norm.pdf(gain, 0.4, 0.5), -4.0, 4.0)[0]
    assert 0.5 * (norm.pdf(0.8) - 0.8 * norm.sf(0.8)) == pytest.approx(integral, rel=1e-4)


def test_covariances_are_those_of_coefficients_with_scaled_contrasts() -> None:
    """Their square is the mean over contrasts of S u u' S / s^2: a report that measures one exactly
    lowers its variance by all of it."""
    mixed = belief(40)
    contrasts = contrasts_of(mixed)
    inverse = np.linalg.pinv(covariance(mixed), rcond=1e-9)
    shares = np.einsum("ir,ij,jr->r", contrasts.covariances, inverse, contrasts.covariances) * 96
    assert np.median(np.abs(shares - 1.0)) < 0.15  # the s^2 of 96 draws
    assert shares.mean() == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("count", [1, 2, 6])
def test_gains_are_those_of_the_measurements(count: int, epsilon: float) -> None:
    """Against the vectors a of a policy with these functions and cells."""
    mixed = belief(40)
    contrasts = contrasts_of(mixed)
    if count == 1:
        cells = Cells.whole(8)
    else:
        rng = np.random.default_rng(4)
        cells = Cells.split(GRID.points, MASS, count, 8, np.array([0.4]), (None,), rng)
    response = ResponseModel.of(cells, k_ary_response(count, epsilon), GRID.points, MASS)
    design = contrasts.design(response, 1000.0, np.random.default_rng(5))
    density = (MASS / np.bincount(GRID.bins, minlength=24)[GRID.bins]) * len(MASS)
    of_bins = np.array([density[GRID.bins == z].mean() for z in range(24)])
    learner = LocalKernel(unit_cube(1), ARMS, Local(epsilon), public_seed=5)
    policy = KernelPolicy(
        **learner.policy_header(),
        frequencies=learner.features.index[mixed.used],
        ranks=Ranks.plain(1),
        values=design.values,
        directions=design.directions,
        cells=cells,
        density=of_bins / of_bins.mean(),
        epsilon=epsilon,
    )
    measured = Measurements(policy)
    functions = len(design.values)
    columns = np.concatenate([arm * len(FEATURES) + mixed.used for arm in range(ARMS)])
    phi = GRID.phi[:, mixed.used]
    arms = arms_of_all(policy.values, phi)
    given = (arms[None] == np.arange(ARMS)[:, None, None]) * measured._weights[:, None]
    local = (phi @ contrasts.covariances.reshape(ARMS, len(mixed.used), -1)).reshape(-1, 96)
    responses = _Responses(
        local.astype(np.float32),
        given.reshape(-1, functions).astype(np.float32),
        response,
        np.tile(np.arange(len(phi)), ARMS),
    )
    directions, *_ = np.linalg.lstsq(
        contrasts.covariances.astype(float), design.directions.reshape(functions, -1).T, rcond=None
    )
    _, squares = responses.of(directions.astype(np.float32))
    for function in range(0, functions, 5):
        partition = function % 8
        vectors = measured.vectors(
            np.full(count, function), np.full(count, partition), np.arange(count)
        )
        alignments = vectors[:, columns] @ contrasts.covariances
        exact = (measured.shown[partition][:, None] * alignments**2).sum(axis=0)
        assert np.allclose(squares[:, function], exact, rtol=0.05, atol=2e-3 * exact.max())


def untried() -> PosteriorMixture:
    """Arm 2 is about as far behind arm 1 as it is uncertain, arm 0 is known to be bad."""
    size = len(FEATURES)
    precision = np.diag(np.repeat([3000.0, 3000.0, 3.0], size))
    mean = np.zeros((ARMS, size))
    mean[:, 0] = [-0.8, 0.4, 0.0]
    information = GaussianNaturalParameters(precision, precision @ mean.ravel())
    part = CoefficientPosterior.of(
        FEATURES, Hyperparameters((0.4,)).prior(FEATURES, 3), information
    )
    return PosteriorMixture.of([part], np.ones(1))


def arms_given(contrasts: DecisionContrasts, left: float) -> IntArray:
    """(Q, F) the arms of the design when `left` people are still to come."""
    response = ResponseModel.of(Cells.whole(8), k_ary_response(1, 1.0), GRID.points, MASS)
    design = contrasts.design(response, left, np.random.default_rng(6))
    phi = GRID.phi[:, contrasts.posterior.used]
    values = phi @ design.values.reshape(-1, phi.shape[1]).T
    arms: IntArray = values.reshape(len(phi), -1, ARMS).argmax(axis=2)
    return arms


def test_an_arm_that_may_be_best_is_tried_if_enough_people_still_come() -> None:
    """One that is known to be bad is not."""
    contrasts = contrasts_of(untried())
    shares = [
        np.bincount(arms_given(contrasts, left).ravel(), minlength=ARMS) / (len(MASS) * 32)
        for left in (0.0, 300.0, 1e5)
    ]
    assert shares[0][1] == 1.0
    assert shares[0][2] <= shares[1][2] < shares[2][2]
    assert shares[2][2] > 0.1
    assert shares[2][0] < 0.01
