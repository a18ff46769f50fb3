"""The covariance of outcomes of rows that are known up to noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from discreet.outsourcing.beliefs import RowBeliefs
from discreet.outsourcing.posterior import FAMILIES, SMOOTHNESS, Family, RowPrior, mixture_of
from discreet.validation import InvalidInput


def matrix(prior: RowPrior, beliefs: RowBeliefs) -> np.ndarray:
    return np.stack([prior.covariance(row, beliefs) for row in range(beliefs.count)])


def exact_kernel(family: Family, scales: np.ndarray) -> RBF | Matern:
    """An independent implementation of the kernel of rows that are known."""
    return RBF(scales) if family == "rbf" else Matern(scales, nu=SMOOTHNESS[family])


def unsure_rows(rng: np.random.Generator, count: int, columns: int) -> RowBeliefs:
    return RowBeliefs(
        rng.normal(0.0, 1.5, (count, columns)), rng.uniform(0.0, 1.0, (count, columns)) ** 2
    )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("same_for_all", [False, True])
def test_covariance_is_the_expectation_of_the_kernel(family: Family, same_for_all: bool) -> None:
    rng = np.random.default_rng(11)
    beliefs = unsure_rows(rng, 4, 3)
    if same_for_all:
        beliefs = RowBeliefs(beliefs.mean, np.array([[0.3, 0.01, 0.8]]))
    prior = RowPrior((0.7, 1.5, 0.9), variance=2.5, family=family)
    found = matrix(prior, beliefs)
    kernel = exact_kernel(family, np.array(prior.length_scale))
    draws = 40_000
    deviation = np.sqrt(np.broadcast_to(beliefs.variance, beliefs.mean.shape))
    rows = beliefs.mean + deviation * rng.standard_normal((draws, 4, 3))
    for i in range(4):
        for j in range(i):
            gap = (rows[:, i] - rows[:, j])[:, None]
            values = 2.5 * np.array(kernel(np.zeros((1, 3)), gap[:, 0]))[0]
            error = values.std() / math.sqrt(draws)
            # Matern kernels are approximated; see the test of the mixture.
            allowed = 5.0 * error + (0.0 if family == "rbf" else 2.5 * 0.01)
            assert abs(found[i, j] - values.mean()) < allowed
    np.testing.assert_array_equal(np.diag(found), np.full(4, 2.5))


def test_the_formula_where_all_rows_are_as_uncertain() -> None:
    """c exp(-D^2 / (2 (l^2 + 2 s^2))) with c = (l^2 / (l^2 + 2 s^2))^(r/2)."""
    rng = np.random.default_rng(5)
    points, s, length = rng.random((6, 3)), 0.4, 0.8
    found = matrix(RowPrior(length), RowBeliefs.noisy(points, s))
    wide = length**2 + 2 * s**2
    squares = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    expected = (length**2 / wide) ** 1.5 * np.exp(-squares / (2.0 * wide))
    np.fill_diagonal(expected, 1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("family", SMOOTHNESS)
@pytest.mark.parametrize("length", [0.05, 1.0, 30.0])
def test_a_matern_kernel_is_a_mixture(family: Family, length: float) -> None:
    distances = np.concatenate([[0.0], np.geomspace(1e-4, 40.0, 800)]) * length
    rows = distances[:, None]
    found = RowPrior(length, family=family).covariance(0, RowBeliefs.exact(rows))
    expected = np.array(exact_kernel(family, np.array([length]))(rows[:1], rows))[0]
    assert np.abs(found - expected).max() < 0.01


def test_mixtures_have_weight_one() -> None:
    for family in FAMILIES:
        weights, factors = np.array(mixture_of(family)).T
        assert weights.sum() == pytest.approx(1.0, abs=1e-14)
        assert (weights > 0.0).all()
        # Both the Gamma distribution and its mixture have mean 1.
        assert weights @ factors == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(4))
def test_covariances_are_positive_definite(family: Family, seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = int(rng.integers(1, 5))
    beliefs = unsure_rows(rng, 40, columns)
    prior = RowPrior(tuple(rng.uniform(0.2, 3.0, columns)), family=family)
    found = matrix(prior, beliefs)
    np.testing.assert_allclose(found, found.T, rtol=1e-13)
    assert np.linalg.eigvalsh(found).min() > -1e-12


def test_the_same_place_twice_is_two_rows_unless_rows_are_known() -> None:
    """Two rows with equal beliefs share less than one row shares with itself."""
    points = np.zeros((2, 1))
    known = matrix(RowPrior(1.0), RowBeliefs.exact(points))
    np.testing.assert_array_equal(known, np.ones((2, 2)))
    unsure = matrix(RowPrior(1.0), RowBeliefs.noisy(points, 1.0))
    assert unsure[0, 1] == pytest.approx(math.sqrt(1.0 / 3.0))


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_a_rows_own(family: Family) -> None:
    """What it does not share with another row that is believed to be at the same place."""
    rng = np.random.default_rng(3)
    one = unsure_rows(rng, 6, 2)
    twice = RowBeliefs(np.vstack([one.mean] * 2), np.vstack([one.variance] * 2))
    prior = RowPrior((0.5, 2.0), 3.0, family=family)
    shared = [prior.covariance(row, twice)[row + 6] for row in range(6)]
    np.testing.assert_allclose(prior.own_variance(one), 3.0 - np.array(shared), rtol=1e-9)
    same = RowBeliefs(one.mean, np.array([[0.2, 0.0]]))
    assert prior.own_variance(same).shape == (1,)
    known = prior.own_variance(RowBeliefs.exact(one.mean))
    np.testing.assert_allclose(known, 0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"length_scale": 0.0}, "length_scale was 0"),
        ({"length_scale": math.nan}, "length_scale was nan"),
        ({"length_scale": ()}, "were empty"),
        ({"length_scale": (1.0, -1.0)}, "length_scale.* was -1"),
        ({"length_scale": "1"}, "length_scale was '1'"),
        ({"length_scale": True}, "length_scale was True"),
        ({"variance": 0.0}, "variance was 0"),
        ({"variance": math.inf}, "variance was inf"),
        ({"noise": 0.0}, "noise was 0"),
        ({"noise": -1.0}, "noise was -1"),
        ({"mean": math.nan}, "mean was nan"),
        ({"family": "matern"}, "family was 'matern'"),
    ],
)
def test_bad_priors(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        RowPrior(**{"length_scale": 1.0, **change})  # type: ignore[arg-type]


def test_length_scales_must_fit_the_columns() -> None:
    assert RowPrior(2).scales(3).tolist() == [2.0, 2.0, 2.0]
    assert RowPrior([1, 2]).scales(2).tolist() == [1.0, 2.0]  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="2 length scales for 3 columns"):
        RowPrior((1.0, 2.0)).scales(3)
    with pytest.raises(InvalidInput, match="2 length scales for 3 columns"):
        RowPrior((1.0, 2.0)).covariance(0, RowBeliefs.exact(np.zeros((2, 3))))
