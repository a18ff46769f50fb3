"""Priors: what they are the mean of, and which of them reports make likely."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import Matern

from discreet import Box, KernelBandit, NonPrivate
from discreet.gaussian import GaussianNaturalParameters
from discreet.lab.environments.synthetic import ExponentialMeans, symmetric_means
from discreet.learners.kernel.features import FLAT, LENGTH_SCALES, CosineFeatures
from discreet.learners.kernel.posterior import (
    ARM_LENGTH_SCALES,
    SCALES,
    SHARES,
    CoefficientPosterior,
    FeaturePrior,
    HyperparameterPosterior,
    Hyperparameters,
    arm_correlation,
    coefficient_places,
    hyperparameter_posterior,
)
from discreet.people.domain import ArmPoints
from discreet.privacy import Unprotected
from discreet.validation import FloatArray

FEATURES = CosineFeatures.of((None, None), 2)


def evidence_of(
    features: CosineFeatures, information: GaussianNaturalParameters, arms: ArmPoints | None = None
) -> Callable[[Hyperparameters], float]:
    """The evidence of each prior, by default of arms without points."""
    count = len(information.weighted) // len(features)

    def evidence(smooth: Hyperparameters) -> float:
        prior = smooth.prior(features, arms or count)
        return CoefficientPosterior.of(features, prior, information).evidence

    return evidence


def learnt(
    features: CosineFeatures,
    information: GaussianNaturalParameters,
    start: HyperparameterPosterior | None = None,
) -> HyperparameterPosterior:
    """After ten sweeps, from draws from the prior where no start is given."""
    none = HyperparameterPosterior(Hyperparameters.first(len(features.levels)))
    rng = np.random.default_rng(12)
    return hyperparameter_posterior(
        start or none, evidence_of(features, information), rng, sweeps=10
    )


def certain(length_scales: tuple[float, ...], scale: float = 1.0) -> HyperparameterPosterior:
    """All particles at one place."""
    only = Hyperparameters(length_scales, scale)
    return HyperparameterPosterior(only, (only,), (1.0,), (0.0,))


def test_the_precision_is_the_inverse_of_the_covariance() -> None:
    rng = np.random.default_rng(0)
    own, common = rng.random(5) + 0.1, rng.random(5)
    points = ArmPoints.of([[0.0, 10.0, 7.0], [1.0, 40.0, 7.0], [0.5, 20.0, 7.0]])
    for length_scale in (None, 0.0, 0.4):
        prior = FeaturePrior(np.arange(5), own, common, arm_correlation(points, length_scale))
        log_det = 0.0
        for feature in range(5):
            covariance = own[feature] * _correlation(length_scale) + common[feature]
            assert np.allclose(prior.precision[:, :, feature] @ covariance, np.eye(3))
            log_det += np.linalg.slogdet(covariance)[1]
        assert prior.log_det == pytest.approx(log_det)


def _correlation(length_scale: float | None) -> FloatArray:
    """Of three arms whose last coordinate is the same; the others fill [0, 1] as below."""
    correlation = np.eye(3)
    if length_scale:
        places = np.array([[0.0, 0.0], [1.0, 1.0], [0.5, 1 / 3]])
        kernel = Matern(length_scale, nu=1.5)
        correlation *= 0.01
        correlation += 0.99 * kernel(places[:, :1]) * kernel(places[:, 1:])
    return correlation


def test_arm_points_have_a_length_scale_that_may_say_nothing() -> None:
    first = Hyperparameters.first(1, points=True)
    drawn, _ = HyperparameterPosterior(first).draw(4000, np.random.default_rng(0))
    for scale, chance in ARM_LENGTH_SCALES.items():
        share = np.mean([each.arm_length_scale == scale for each in drawn])
        assert share == pytest.approx(chance, abs=0.04)
        without = Hyperparameters((0.2,))
        with_it = replace(without, arm_length_scale=scale)
        assert with_it.log_prior - without.log_prior == pytest.approx(math.log(chance))
    rng = np.random.default_rng(1)
    proposed = [first.proposal(rng, LENGTH_SCALES) for _ in range(600)]
    assert {each.arm_length_scale for each in proposed} == set(ARM_LENGTH_SCALES)
    others = [Hyperparameters.first(1).proposal(rng, LENGTH_SCALES) for _ in range(200)]
    assert {each.arm_length_scale for each in others} == {None}


@pytest.mark.parametrize("truth", [0.0, 0.4])
def test_evidence_tells_whether_arm_points_matter(truth: float) -> None:
    """Evidence of the truth is larger on average; in 40 draws by at least 5 standard errors."""
    arms, features = ArmPoints.of(np.arange(8.0)), CosineFeatures.of((None,), 8)
    rng = np.random.default_rng(3)
    right, wrong = (Hyperparameters((0.4,), arm_length_scale=each) for each in (truth, 0.4 - truth))
    prior = right.prior(features, arms)
    used = coefficient_places(prior.used, 8, len(features))
    factor = np.linalg.cholesky(np.linalg.inv(prior.precision[:, :, 0]) / prior.own[0])
    more = []
    for _ in range(40):
        drawn = factor @ rng.standard_normal((8, len(prior.used))) * np.sqrt(prior.own)
        theta = np.zeros(8 * len(features))
        theta[used] = drawn.ravel()
        noise = rng.standard_normal(len(theta)) * math.sqrt(20.0)
        known = GaussianNaturalParameters(20.0 * np.eye(len(theta)), 20.0 * theta + noise)
        evidence = evidence_of(features, known, arms)
        more.append(evidence(right) - evidence(wrong))
    assert np.mean(more) > 5.0 * np.std(more) / math.sqrt(40)


def test_each_column_matters_with_the_probability_that_two_of_d_have() -> None:
    for dimension, matters in ((1, 0.9), (3, 2 / 3), (6, 1 / 3), (20, 0.1)):
        smooth = Hyperparameters((0.2, *(FLAT,) * (dimension - 1)))
        exact = math.log(matters / 3) + (dimension - 1) * math.log(1.0 - matters)
        assert smooth.log_prior == pytest.approx(exact)
        rng = np.random.default_rng(0)
        drawn, shares = HyperparameterPosterior(Hyperparameters.first(dimension)).draw(2000, rng)
        assert np.allclose(shares, 1 / 2000)
        counts = [sum(value < FLAT for value in each.length_scales) for each in drawn]
        assert np.mean(counts) == pytest.approx(matters * dimension, abs=0.15)
        assert {each.level for each in drawn} == {each.surface for each in drawn} == set(SHARES)


def test_features_that_hardly_vary_are_left_out() -> None:
    for smooth in (
        Hyperparameters((0.2, 0.2)),
        Hyperparameters((0.2, 3.2)),
        Hyperparameters((3.2, 3.2), 2.0),
    ):
        prior = smooth.prior(FEATURES, 2)
        used, variance = prior.used, prior.own + prior.common
        everything = FEATURES.variances(smooth.length_scales, smooth.output_scale)
        rest = np.delete(everything, used)
        assert (variance >= 1e-4 * everything.sum()).all()
        assert (rest < 1e-4 * everything.sum()).all()
        assert used[0] == 0
    assert len(used) < 20
    counts = [
        len(Hyperparameters((value, value)).prior(FEATURES, 2).used) for value in LENGTH_SCALES
    ]
    assert counts == sorted(counts, reverse=True)


def informed(
    values: FloatArray, contexts: FloatArray, features: CosineFeatures, weight: float
) -> GaussianNaturalParameters:
    """J and b where 2 f - 1 of all arms was measured at these contexts, each `weight` times."""
    phi = features(contexts)
    count, arms = len(features), values.shape[1]
    rng = np.random.default_rng(5)
    noisy = values + rng.standard_normal(values.shape) / math.sqrt(weight)
    precision = np.zeros((arms, count, arms, count))
    for arm in range(arms):
        precision[arm, :, arm] = weight * phi.T @ phi
    weighted = weight * (phi.T @ noisy).T.ravel()
    return GaussianNaturalParameters(precision.reshape(arms * count, arms * count), weighted)


def test_length_scales_are_learnt_for_each_axis() -> None:
    """The exponential problem changes along the first column only."""
    contexts = np.random.default_rng(6).random((300, 2))
    features = CosineFeatures.of((None, None), 3)
    sums = informed(2.0 * ExponentialMeans(3)(contexts) - 1.0, contexts, features, 10.0)
    found = learnt(features, sums)
    assert found.best.length_scales[0] <= 0.4
    assert found.best.length_scales[1] == 3.2


@pytest.mark.parametrize("weight", [1.0, 2.0, 10.0])
def test_both_axes_are_found_at_once(weight: float) -> None:
    """In the symmetric problem no single column seems to matter, only both together."""
    contexts = np.random.default_rng(7).random((300, 2))
    sums = informed(2.0 * symmetric_means(contexts) - 1.0, contexts, FEATURES, weight)
    for start in (
        None,
        certain((3.2, 3.2)),
        certain((0.8, 3.2), 2.0),
    ):
        found = learnt(FEATURES, sums, start)
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
    found = learnt(features, sums)
    for axis in range(2):
        place = LENGTH_SCALES.index(found.best.length_scales[axis])
        assert abs(place - LENGTH_SCALES.index(length_scales[axis])) <= 1
    evidence = evidence_of(features, sums)
    truth = Hyperparameters(length_scales)
    assert evidence(found.best) + found.best.log_prior >= evidence(truth) + truth.log_prior


def test_large_functions_have_a_large_scale() -> None:
    contexts = np.random.default_rng(9).random((300, 2))
    for size, scale in ((0.5, 1.0), (3.0, 2.0)):
        values = size * np.stack([np.cos(np.pi * contexts[:, 0]), contexts[:, 1] - 0.5], axis=1)
        found = learnt(FEATURES, informed(values, contexts, FEATURES, 50.0))
        assert found.best.output_scale == scale


def random_sums(features: CosineFeatures = FEATURES) -> GaussianNaturalParameters:
    """40 measurements of nothing."""
    rng = np.random.default_rng(0)
    rows = 0.5 * rng.standard_normal((40, 2 * len(features)))
    return GaussianNaturalParameters(rows.T @ rows, rows.T @ rng.standard_normal(40))


def test_particles_are_drawn_from_the_posterior() -> None:
    """Against all 128 hyperparameters of two columns, over 400 updates without new reports."""
    evidence = cache(evidence_of(FEATURES, random_sums()))
    everything = [
        Hyperparameters(scales, scale, level, surface)
        for scales in product(LENGTH_SCALES, repeat=2)
        for scale, level, surface in product(SCALES, SHARES, SHARES)
    ]
    worth = np.array([evidence(each) + each.log_prior for each in everything])
    exact = np.exp(worth - worth.max())
    exact /= exact.sum()
    found, rng = HyperparameterPosterior(Hyperparameters.first(2)), np.random.default_rng(0)
    times = dict.fromkeys(everything, 0.0)
    for _ in range(400):
        found = hyperparameter_posterior(found, evidence, rng)
        assert sum(found.weights) == pytest.approx(1.0)
        assert list(found.weights) == sorted(found.weights, reverse=True)
        assert len(set(found.candidates)) == len(found.candidates)
        assert found.best == max(found.candidates, key=lambda each: evidence(each) + each.log_prior)
        assert found.evidence == tuple(evidence(each) for each in found.candidates)
        for each, weight in zip(found.candidates, found.weights, strict=True):
            times[each] += weight / 400
    assert 0.5 * np.abs(np.array(list(times.values())) - exact).sum() < 0.07


def test_new_reports_weigh_particles_by_what_their_evidence_gains() -> None:
    """Two that prior and reports hold for equally likely, of which one gained ten times as much."""
    one, other = Hyperparameters((0.2,) * 3), Hyperparameters((0.4,) * 3)
    gains = {one: math.log(10.0), other: 0.0}
    before = HyperparameterPosterior(one, (one, other), (0.5, 0.5), (3.0, 5.0))
    found = hyperparameter_posterior(
        before,
        lambda each: 3.0 * (each == one) + 5.0 * (each == other) + gains.get(each, -1e9),
        np.random.default_rng(0),
    )
    assert found.weights == (14 / 16, 2 / 16) or found.weights == (15 / 16, 1 / 16)


def test_candidates_are_drawn_by_their_weights() -> None:
    found, rng, share = learnt(FEATURES, random_sums()), np.random.default_rng(0), 0.0
    first = found.candidates[0]
    for _ in range(400):
        drawn, shares = found.draw(3, rng)
        assert len(set(drawn)) == len(drawn) <= 3
        assert shares.sum() == pytest.approx(1.0)
        share += dict(zip(drawn, shares, strict=True)).get(first, 0.0) / 400
    # The commonest takes its weight of the shares, rounded up or down to thirds each time.
    assert share == pytest.approx(found.weights[0], abs=0.04)


def test_few_of_many_columns_are_found_to_matter() -> None:
    """The waves of the second of six columns, and those of two columns of which neither matters
    alone."""
    features = CosineFeatures.of((None,) * 6, 2)
    contexts = np.random.default_rng(6).random((400, 6))
    one = np.stack([np.sin(5.0 * contexts[:, 1]), np.cos(5.0 * contexts[:, 1])], axis=1)
    both = 2.0 * symmetric_means(contexts[:, [4, 1]]) - 1.0
    for values, matter in ((one, {1}), (both, {1, 4})):
        sums = informed(values, contexts, features, 2.0)
        found = learnt(features, sums, certain((FLAT,) * 6))
        assert {a for a, value in enumerate(found.best.length_scales) if value < FLAT} == matter


def test_what_arms_have_in_common_is_learnt() -> None:
    contexts = np.random.default_rng(11).random((300, 2))
    features = CosineFeatures.of((None, None), 5)
    waves = np.cos(np.pi * np.arange(1, 6) * contexts[:, :1])
    for common, own in ((1.0, 0.1), (0.0, 1.0)):
        values = common * np.sin(4.0 * contexts[:, :1]) - 0.5 + own * 0.7 * waves
        found = learnt(features, informed(values, contexts, features, 20.0))
        assert found.best.level == 0.8
        assert found.best.surface == (0.8 if common else 0.0)


def test_what_one_dose_earns_tells_most_about_its_neighbours() -> None:
    def expected(space: int | ArmPoints) -> FloatArray:
        learner = KernelBandit(Box((0.0,), (1.0,)), space, NonPrivate(), public_seed=3)
        contexts = np.random.default_rng(1).random((40, 1))
        reports = learner.policy().report(contexts, np.zeros(40, int), np.ones(40), Unprotected())
        learner.update(reports)
        mean, _ = learner.predict([[0.5]])
        return mean[0]

    doses = expected(ArmPoints.of([10.0, 20.0, 30.0, 60.0, 90.0, 110.0]))
    assert (np.diff(doses) < 0.0).all()
    arms = expected(6)
    assert np.allclose(arms[1:], arms[1], atol=1e-9)
    assert arms[0] > arms[1]
