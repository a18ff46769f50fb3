"""Cosine features: an orthonormal basis, its spectrum, and sums that are exact in any order."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from discreet.learners.kernel.features import (
    _COS_PI,
    CONSTANT_VARIANCE,
    LARGEST_COEFFICIENT,
    LENGTH_SCALES,
    VARYING_VARIANCE,
    CosineFeatures,
    column_matters,
    cos_pi,
    whole_coefficients,
)
from discreet.learners.kernel.policy import KernelPolicy, arms_of_all
from discreet.people.domain import Box, unit_cube
from discreet.privacy import SimulatedNoise
from discreet.validation import FloatArray

from .scene import all_contexts, midpoints, random_policy, reported

# Rounding moves a feature by at most 2^-17.
CLOSE = 3e-4


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_features_are_orthonormal_under_uniform_contexts(dimension: int) -> None:
    """On midpoints the cosines below the number of points are orthonormal exactly."""
    features = CosineFeatures.of((None,) * dimension, 2)
    phi = features(midpoints((64, 24, 14)[dimension - 1], dimension))
    assert np.allclose(phi.T @ phi / len(phi), np.eye(len(features)), atol=CLOSE)


@pytest.mark.parametrize("levels", [(2,), (3,), (12,), (5, 3), (2, 2, 4)])
def test_features_are_orthonormal_on_levels(levels: tuple[int, ...]) -> None:
    size = len(levels)
    features = CosineFeatures.of(levels, 2)
    phi = features(all_contexts(Box((0.0,) * size, (1.0,) * size, levels=levels)))
    assert np.allclose(phi.T @ phi / len(phi), np.eye(len(features)), atol=CLOSE)
    if math.prod(levels) <= 12:
        assert len(features) == math.prod(levels), "every function of the levels has its features"


def test_columns_with_levels_have_no_more_cosines_than_levels() -> None:
    features = CosineFeatures.of((None, 3, 40), 2)
    assert np.max(features.frequencies, axis=0).tolist() == [11, 2, 11]


def test_cosines_are_a_polynomial_that_any_language_can_evaluate() -> None:
    """In the stated order on Python's floats: the same bits; and close to the true cosine."""
    x = np.concatenate(
        [[0.0, 0.25, 0.5, np.nextafter(0.5, 1.0), 1.0], np.random.default_rng(0).random(2_000)]
    )
    expected = []
    for each in x.tolist():
        nearest, value = min(each, 1.0 - each), _COS_PI[-1]
        for coefficient in reversed(_COS_PI[:-1]):
            value = value * (nearest * nearest) + coefficient
        expected.append(value if each <= 0.5 else -value)
    assert cos_pi(x).tolist() == expected
    assert np.abs(cos_pi(x) - np.cos(np.pi * x)).max() < 1e-15


def test_levels_lie_at_the_centres_of_their_cells() -> None:
    features = CosineFeatures.of((None, 4), 2)
    column = np.array([0.0, 1 / 3, 2 / 3, 1.0])
    assert np.allclose(features.place(column, 1), [1 / 8, 3 / 8, 5 / 8, 7 / 8])
    assert features.place(column, 0) is column


def spectrum(
    frequencies: tuple[int, ...], scales: tuple[float, ...], counts: tuple[int, ...]
) -> float:
    """The formula of the specification, for one feature."""
    value = VARYING_VARIANCE
    for i, length, count in zip(frequencies, scales, counts, strict=True):
        weights = [(3.0 / length**2 + (math.pi * j) ** 2) ** -2 for j in range(count)]
        value *= weights[i] / sum(weights)
    return value + (CONSTANT_VARIANCE if not any(frequencies) else 0.0)


@pytest.mark.parametrize(
    ("levels", "scales", "counts"),
    [
        ((None,), (0.4,), (48,)),
        ((None, None), (0.2, 3.2), (18, 18)),
        ((None, 3, 30), (0.2, 0.4, 0.8), (12, 3, 12)),
    ],
)
def test_the_prior_has_the_matern_spectrum(
    levels: tuple[int | None, ...], scales: tuple[float, ...], counts: tuple[int, ...]
) -> None:
    features = CosineFeatures.of(levels, 2)
    expected = [spectrum(row, scales, counts) for row in features.frequencies]
    assert np.allclose(features.variances(scales, 1.0), expected, rtol=1e-12)
    assert np.allclose(features.variances(scales, 2.0), np.multiply(2.0, expected), rtol=1e-12)
    assert features.frequencies[0] == (0,) * len(levels)


def test_functions_of_few_columns_or_many_arms_may_vary_faster() -> None:
    one, two = (CosineFeatures.of((None,) * columns, 3) for columns in (1, 2))
    few, many = (CosineFeatures.of((None,) * 3, arms) for arms in (10, 20))
    assert (len(one), one.length_scales) == (48, (0.025, 0.05, 0.1, *LENGTH_SCALES))
    assert (np.max(two.frequencies), two.length_scales) == (17, (0.1, *LENGTH_SCALES))
    assert (np.max(few.frequencies), few.length_scales) == (11, LENGTH_SCALES)
    assert many.length_scales == (0.1, *LENGTH_SCALES)


def test_waves_of_a_third_of_a_column_have_features() -> None:
    """Six half waves along both columns, of which length scales down to .2 leave nothing."""
    features = CosineFeatures.of((None, None), 3)
    place = features.frequencies.index((6, 6))
    assert (
        features.variances((0.1, 0.1), 1.0)[place] > 5 * features.variances((0.2, 0.2), 1.0)[place]
    )


@pytest.mark.parametrize("length_scale", [0.2, 0.8, 3.2])
def test_prior_variances_add_up_to_one_half(length_scale: float) -> None:
    """All of it with few levels; features that are left out carry little."""
    most = CONSTANT_VARIANCE + VARYING_VARIANCE
    one = CosineFeatures.of((None,), 3).variances((length_scale,), 1.0).sum()
    two = CosineFeatures.of((None, None), 3).variances((length_scale,) * 2, 1.0).sum()
    levels = CosineFeatures.of((3, 2), 3).variances((length_scale,) * 2, 1.0).sum()
    assert 0.999 * most < one <= most * (1.0 + 1e-12)
    assert levels == pytest.approx(most)
    assert 0.98 * most < two <= most


def cosines(features: CosineFeatures) -> int:
    """How many there are of a column."""
    return {0.2: 12, 0.1: 18, 0.025: 48}[features.length_scales[0]]


def mean_variances(features: CosineFeatures) -> FloatArray:
    """(M,) the mean prior variances, less that of levels: a product over columns, each of which
    matters with the same probability."""
    most = cosines(features)
    spectra = [
        np.array([spectrum((i,), (value,), (most,)) for i in range(most)])
        for value in features.length_scales
    ]
    chances = np.minimum(np.array(features.length_scales[:-1]) / 0.2, 1.0)
    varying = chances @ spectra[:-1] / chances.sum()
    matters = column_matters(features.dimension)
    mean = matters * varying + (1.0 - matters) * spectra[-1]
    mean[0] -= CONSTANT_VARIANCE
    weight: FloatArray = (mean / VARYING_VARIANCE)[np.array(features.frequencies)].prod(axis=1)
    return weight


@pytest.mark.parametrize(
    ("dimension", "arms"),
    [*product([1, 2, 3, 4], [2, 3, 5, 12, 20]), (5, 2), (5, 20), (6, 3), (6, 20), (20, 3)],
)
def test_the_features_kept_are_few_and_the_weightiest(dimension: int, arms: int) -> None:
    features = CosineFeatures.of((None,) * dimension, arms)
    rows = features.frequencies
    assert len(set(rows)) == len(rows)
    assert len(rows) <= min(250 + 10 * max(dimension - 6, 0), max(1200 // arms, 30))
    assert rows[0] == (0,) * dimension
    assert max(map(max, rows)) < cosines(features)
    weight = mean_variances(features)
    # Rows that differ by the order of axes weigh the same, and come in the order of their numbers.
    order = list(zip((-weight).round(15), rows, strict=True))
    assert order == sorted(order)
    # Along each axis the function with one wave is there, and none is kept without those below it.
    kept = set(rows)
    for row in rows:
        for axis, i in enumerate(row):
            assert i == 0 or (*row[:axis], i - 1, *row[axis + 1 :]) in kept


@pytest.mark.parametrize(
    "levels", [(None,) * 1, (None,) * 2, (None,) * 3, (None,) * 4, (None,) * 6, (2,) * 8]
)
def test_grids_are_coarse_enough_for_exact_sums(levels: tuple[int | None, ...]) -> None:
    """53 bits hold every sum of M products of features and coefficients."""
    dimension, features = len(levels), CosineFeatures.of(levels, 2)
    places = (features.index > 0).sum(axis=1)
    total = float((math.sqrt(2.0) ** places).sum())
    assert total < 2.0**14
    assert total * LARGEST_COEFFICIENT * 2.0**16 < 2.0**53
    corners = np.array([[0.0] * dimension, [1.0] * dimension])
    rng = np.random.default_rng(0)
    phi = features(np.concatenate([corners, rng.random((50, dimension))]))
    assert (np.abs(phi) <= math.sqrt(2.0) ** places + 2.0**-17).all()
    assert (phi * 2.0**16 == np.round(phi * 2.0**16)).all()


def test_coefficients_are_whole_numbers() -> None:
    values = np.concatenate([np.random.default_rng(1).normal(0.0, 3.0, 500), [-1e9, 1e9, 7.5]])
    whole = whole_coefficients(values)
    assert np.abs(whole).max() == LARGEST_COEFFICIENT
    inside = np.abs(values) < 7.5
    assert np.abs(whole * 2.0**-20 - values)[inside].max() <= 2.0**-21
    assert (whole_coefficients(whole * 2.0**-20) == whole).all()


def test_sums_are_exact_in_every_order() -> None:
    """Against fractions; the sums of products that a matrix product makes, in three orders."""
    features = CosineFeatures.of((None,) * 3, 2)
    rng = np.random.default_rng(2)
    phi = features(rng.random((20, 3)))
    table = whole_coefficients(3.0 * rng.standard_normal((len(features), 6)))
    exact = [
        [sum(Fraction(a) * b for a, b in zip(row, c, strict=True)) for c in table.T.tolist()]
        for row in phi
    ]
    order = rng.permutation(len(features))
    for found in (phi @ table, phi[:, ::-1] @ table[::-1], phi[:, order] @ table[order]):
        assert [[Fraction(value) for value in row] for row in found] == exact


def mirrored(policy: KernelPolicy) -> KernelPolicy:
    """The policy with the second arm's functions those of the first with two columns exchanged.

    So the two arms tie wherever the columns are equal, but their sums are added in other orders.
    The third arm is the first plus or minus the smallest number on the grid, on the constant.
    """
    rows = policy.features.frequencies
    exchanged = [(row[1], row[0], *row[2:]) for row in rows]
    values, directions = policy.values.copy(), policy.directions.copy()
    # The last of the features may have lost their mirror image.
    values[..., [row not in rows for row in exchanged]] = 0
    swapped = [rows.index(row) if row in rows else i for i, row in enumerate(exchanged)]
    values[:, 1] = values[:, 0][:, swapped]
    values[:, 2] = values[:, 0]
    values[::2, 2, 0] += 1
    values[1::2, 2, 0] -= 1
    # Sign functions that are 0 where the columns are equal, up to the order of the sum.
    directions[:] = values[:, :1] - values[:, 1:2]
    return replace(policy, values=values, directions=directions)


@pytest.mark.parametrize("dimension", [2, 3, 6])
def test_one_by_one_and_together_people_get_the_same_arms_and_signs(dimension: int) -> None:
    """Even where arms tie or differ in the last bit, and where sign functions are 0."""
    policy = mirrored(random_policy(unit_cube(dimension), 3, 500.0, functions=6))
    rng = np.random.default_rng(3)
    contexts = rng.random((60, dimension))
    contexts[:30, 1] = contexts[:30, 0]
    phi = policy.features(contexts, policy.used)
    chosen = arms_of_all(policy.values, phi)
    signs = policy.signs_of_all(phi, chosen)
    # Where columns are equal the first arm beats the second, and the third wins by its last bit.
    assert (chosen[:30, ::2] == 2).all()
    assert (chosen[:30, 1::2] == 0).all()
    assert (signs[:30] == 1).all()
    assert (signs[30:] == -1).any()
    for person in range(60):
        alone = policy.features(contexts[person : person + 1], policy.used)
        assert np.array_equal(alone[0], phi[person])
        own = arms_of_all(policy.values, alone)
        assert np.array_equal(own[0], chosen[person])
        assert np.array_equal(policy.signs_of_all(alone, own)[0], signs[person])


def test_exact_arms_and_signs() -> None:
    """Against fractions, ties to the first arm and zeros to +1."""
    policy = mirrored(random_policy(unit_cube(2), 3, 500.0, functions=2, used=None))
    contexts = np.random.default_rng(4).random((12, 2))
    contexts[:6, 1] = contexts[:6, 0]
    phi = policy.features(contexts, policy.used)
    chosen = arms_of_all(policy.values, phi)
    signs = policy.signs_of_all(phi, chosen)

    def value(row: np.ndarray, theta: np.ndarray) -> Fraction:
        return sum(
            (Fraction(float(a)) * Fraction(float(b)) for a, b in zip(row, theta, strict=True)),
            Fraction(0),
        )

    for person, row in enumerate(phi):
        for function in range(2):
            values = [value(row, theta) for theta in policy.values[function]]
            arm = values.index(max(values))
            assert chosen[person, function] == arm
            sign = 1 if value(row, policy.directions[function, arm]) >= 0 else -1
            assert signs[person, function] == sign


@pytest.mark.parametrize("dimension", [2, 6])
def test_reports_use_the_same_arms_and_signs(dimension: int) -> None:
    """Without noise a report shows the sign function: the learner finds the same one for all."""
    policy = mirrored(random_policy(unit_cube(dimension), 3, 500.0, functions=6))
    rng = np.random.default_rng(5)
    contexts = rng.random((200, dimension))
    contexts[:150, 1] = contexts[:150, 0]
    actions, _ = policy.act(contexts, rng)
    reports = reported(policy, contexts, actions, np.ones(200), SimulatedNoise(0))
    phi = policy.features(contexts, policy.used)
    function, _ = policy.picked(actions.public_coins)
    rows = np.arange(200)
    chosen = arms_of_all(policy.values, phi)
    assert np.array_equal(actions.arms, chosen[rows, function])
    assert np.array_equal(reports.signs[:, 0], policy.signs_of_all(phi, chosen)[rows, function])
    for person in range(0, 200, 10):
        one = slice(person, person + 1)
        mine = actions[one]
        again = reported(policy, contexts[one], mine, [1.0], SimulatedNoise(0))
        assert again.signs[0] == reports.signs[:, 0][person]


def test_the_policy_with_its_features_in_another_order_is_the_same_policy() -> None:
    """Sums over columns in reverse are the same sums."""
    policy = mirrored(random_policy(unit_cube(2), 3, 500.0, functions=4))
    contexts = np.random.default_rng(6).random((80, 2))
    contexts[:40, 1] = contexts[:40, 0]
    phi = policy.features(contexts, policy.used)
    reverse = replace(
        policy,
        values=policy.values[..., ::-1].copy(),
        directions=policy.directions[..., ::-1].copy(),
    )
    chosen = arms_of_all(policy.values, phi)
    turned = np.ascontiguousarray(phi[:, ::-1])
    assert np.array_equal(arms_of_all(reverse.values, turned), chosen)
    assert np.array_equal(reverse.signs_of_all(turned, chosen), policy.signs_of_all(phi, chosen))
