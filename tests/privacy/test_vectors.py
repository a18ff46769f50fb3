"""Local reports of vectors: their law held against the definition, in both ways of drawing it.

The density of PrivUnit has two values, so privacy is a ratio of two numbers; the rest is whether
what is drawn has that density. The cosine with the private direction decides it, and its law on
the sphere is known in closed form (SciPy's beta distribution).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats
from tests.chance import RARE, check_law

from discreet.privacy import NoiseSource, SecureNoise, SimulatedNoise, Unprotected
from discreet.privacy.accounting import GaussianEvent, gaussian_epsilon
from discreet.privacy.vectors import (
    GaussianVector,
    PrivUnit,
    VectorReport,
    best_threshold,
    cap_mass,
    l2_ball,
    mean_cosine,
)
from discreet.validation import InvalidInput

UNLUCKY = 1e-6  # with words from a seed, so that such a test fails always or never
EPSILONS = [0.05, 0.5, 1.0, 4.0, 8.0, 16.0, 50.0]
DIMENSIONS = [1, 2, 3, 5, 20, 150, 500]


class Rejecting(SimulatedNoise):
    """Seeded words for the secure way of drawing; counts the words, and can fix the coins."""

    secure = True

    def __init__(self, seed: int, shown: bool | None = None) -> None:
        super().__init__(seed)
        self.words = 0
        self.shown = shown

    def keys(self, shape):  # type: ignore[no-untyped-def]
        self.words += int(np.prod(shape))
        return super().keys(shape)

    def coins(self, probability, shape):  # type: ignore[no-untyped-def]
        drawn = super().coins(probability, shape)
        # Signs have a probability for each person, the coin that hides has one for all.
        fixed = self.shown is not None and np.ndim(probability) == 0
        return np.full(shape, self.shown) if fixed else drawn


@pytest.fixture(params=["simulated", "rejecting", "secure"])
def noise(request: pytest.FixtureRequest) -> NoiseSource:
    if request.param == "simulated":
        return SimulatedNoise(20240607)
    if request.param == "rejecting":
        return Rejecting(20240608)
    pytest.importorskip("opendp")
    return SecureNoise()


def direction(dimension: int, seed: int = 3) -> NDArray[np.float64]:
    drawn = np.random.default_rng(seed).normal(size=dimension)
    return drawn / np.linalg.norm(drawn)


def sphere_cosine(dimension: int) -> stats.rv_continuous:
    """The cosine of a uniform point with a fixed direction: 2 Beta((d-1)/2, (d-1)/2) - 1."""
    half = (dimension - 1) / 2
    return stats.beta(half, half, loc=-1, scale=2)


def cosine_cdf(mechanism: PrivUnit, p: float):  # type: ignore[no-untyped-def]
    """The law of <x, v> by definition: p in the cap, 1 - p outside, uniform within each."""
    law, t = sphere_cosine(mechanism.dimension), mechanism.threshold
    outside = law.cdf(t)

    def cdf(c: NDArray[np.float64]) -> NDArray[np.float64]:
        above = p * (1 - law.sf(c) / law.sf(t))
        return np.where(c < t, (1 - p) * law.cdf(c) / outside, 1 - p + above)

    return cdf


class TestPrivacy:
    @pytest.mark.parametrize("dimension", DIMENSIONS)
    @pytest.mark.parametrize("epsilon", [*EPSILONS, 1e-6, 1e-3, 700.0, 1e4])
    def test_the_largest_log_ratio_is_epsilon(self, dimension: int, epsilon: float) -> None:
        """p (1 - P) / ((1 - p) P), with P from SciPy's beta law rather than from the library.

        P must be exact to far less than the 1e-9 that is kept back: an earlier version lost the
        digits of small thresholds.
        """
        for mechanism in (PrivUnit(dimension, epsilon), l2_ball(dimension, epsilon)):
            mass, hidden = 0.5, mechanism.hiding_probability
            if dimension > 1:
                mass = float(sphere_cosine(dimension).sf(mechanism.threshold))
            assert mechanism.cap_mass == pytest.approx(mass, rel=1e-11)
            ratio = math.log1p(-hidden) - math.log(hidden) + math.log1p(-mass) - math.log(mass)
            assert ratio <= epsilon
            if epsilon <= 20:  # beyond that coins of 64 bits hide more than was asked
                assert ratio == pytest.approx(epsilon, abs=1e-6)

    def test_dimension_1_by_enumeration(self) -> None:
        """Two reports, +1/m and -1/m; P(+ | u) = (1 + u)/2 p + (1 - u)/2 (1 - p)."""
        mechanism = PrivUnit(1, 2.0)
        hidden = mechanism.hiding_probability
        p = 1 - hidden
        reports = mechanism.privatise(np.full((1000, 1), 0.5), SimulatedNoise(0))
        assert sorted({abs(float(report)) for report in reports[:, 0]}) == [
            1 / mechanism.mean_cosine
        ]
        laws = {u: (1 + u) / 2 * p + (1 - u) / 2 * hidden for u in np.linspace(-1, 1, 21)}
        worst = max(laws.values()) / min(laws.values())
        assert math.log(worst) == pytest.approx(2.0, abs=1e-8)
        assert math.log(worst) <= 2.0
        for u, positive in laws.items():
            assert (2 * positive - 1) / mechanism.mean_cosine == pytest.approx(u, abs=1e-12)

    @pytest.mark.parametrize("rejecting", [False, True])
    def test_an_attack_by_histogram_in_the_plane(self, rejecting: bool) -> None:
        """Reports of u and -u in 24 sectors: no ratio of counts is significantly above e^epsilon,
        and the sectors inside one cap and outside the other reach it."""
        epsilon, people = 1.0, 100_000
        u = direction(2)
        mechanism = PrivUnit(2, epsilon)
        counts = []
        for seed, vector in enumerate((u, -u)):
            noise = (Rejecting if rejecting else SimulatedNoise)(seed)
            reports = mechanism.privatise(np.tile(vector, (people, 1)), noise)
            angles = np.arctan2(reports[:, 1], reports[:, 0]) - math.atan2(u[1], u[0])
            counts.append(np.histogram(angles % (2 * math.pi), 24, (0, 2 * math.pi))[0])
        logs = np.log(counts[0] / counts[1])
        errors = np.sqrt(1 / counts[0] + 1 / counts[1])
        assert (np.abs(logs) <= epsilon + 4.5 * errors).all()
        assert logs.max() == pytest.approx(epsilon, abs=0.1)
        assert logs.min() == pytest.approx(-epsilon, abs=0.1)

    @pytest.mark.parametrize("source", [SecureNoise, SimulatedNoise])
    @pytest.mark.parametrize("dimension", [1, 20, 500])
    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
    def test_gaussian_epsilon_never_exceeds_what_was_asked(
        self, source: type[NoiseSource], dimension: int, epsilon: float
    ) -> None:
        event = GaussianVector(dimension, epsilon, 1e-5).event(source.name)
        assert isinstance(event, GaussianEvent)
        held = gaussian_epsilon(event.noise_multiplier, 1e-5)
        assert held <= epsilon
        assert held == pytest.approx(epsilon, rel=1e-6)


class TestLaw:
    @pytest.mark.parametrize("dimension", [2, 3, 20])
    @pytest.mark.parametrize("epsilon", [0.5, 4.0])
    def test_cosines(self, dimension: int, epsilon: float, noise: NoiseSource) -> None:
        people = 5000
        u = direction(dimension)
        mechanism = PrivUnit(dimension, epsilon)
        points = mechanism.privatise(np.tile(u, (people, 1)), noise) * mechanism.mean_cosine
        np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0, rtol=1e-12)
        cdf = cosine_cdf(mechanism, 1 - mechanism.hiding_probability)
        assert stats.kstest(points @ u, cdf).pvalue > UNLUCKY

    def test_the_smallest_cap(self, noise: NoiseSource) -> None:
        """At epsilon = 20 the threshold is at its bound, P = 2^-12."""
        people = 100
        mechanism = PrivUnit(4, 20.0)
        assert mechanism.cap_mass == pytest.approx(2.0**-12)
        u = direction(4)
        points = mechanism.privatise(np.tile(u, (people, 1)), noise) * mechanism.mean_cosine
        cdf = cosine_cdf(mechanism, 1 - mechanism.hiding_probability)
        assert stats.kstest(points @ u, cdf).pvalue > UNLUCKY

    @pytest.mark.parametrize("hidden", [False, True])
    def test_within_the_cap_and_outside_points_are_uniform(
        self, hidden: bool, noise: NoiseSource
    ) -> None:
        """The part orthogonal to u has a uniform direction, whatever the cosine."""
        people = 4000
        u = np.array([0.0, 0.6, 0.8])
        mechanism = PrivUnit(3, 2.0)
        points = mechanism.privatise(np.tile(u, (people, 1)), noise) * mechanism.mean_cosine
        points = points[(points @ u < mechanism.threshold) == hidden]
        angles = np.arctan2(points @ [1.0, 0.0, 0.0], points @ [0.0, 0.8, -0.6])
        law = stats.uniform(-math.pi, 2 * math.pi)
        assert stats.kstest(angles, law.cdf).pvalue > UNLUCKY
        assert abs(stats.spearmanr(np.abs(angles), points @ u).statistic) < 5 / math.sqrt(
            len(points)
        )

    @pytest.mark.parametrize("epsilon", [0.5, 8.0])
    @pytest.mark.parametrize("dimension", [1, 2, 20])
    @pytest.mark.parametrize("length", [0.0, 0.3, 1.0])
    def test_unbiased_with_the_stated_covariance(
        self, epsilon: float, dimension: int, length: float
    ) -> None:
        """(1 - t m)/(d m^2) identity + (t/m - ||u||^2) v v', and its two bounds."""
        people = 10_000
        v = direction(dimension) if length > 0 else np.eye(dimension)[0]
        u = length * v
        for mechanism in (PrivUnit(dimension, epsilon), l2_ball(dimension, epsilon)):
            m, t = mechanism.mean_cosine, mechanism.threshold
            reports = mechanism.privatise(np.tile(u, (people, 1)), SimulatedNoise(11))
            error = np.sqrt(reports.var(axis=0) / people)
            assert (np.abs(reports.mean(axis=0) - u) <= 5 * error).all()
            along = (reports @ v - length) ** 2
            squares = ((reports - u) ** 2).sum(axis=1)
            expected = (1 - t * m) / (dimension * m**2) + t / m - length**2
            if dimension == 1:
                expected = 1 / m**2 - length**2
            total = 1 / m**2 - length**2
            assert along.mean() == pytest.approx(expected, abs=5 * along.std() / people**0.5 + 1e-9)
            assert squares.mean() == pytest.approx(
                total, abs=5 * squares.std() / people**0.5 + 1e-9
            )
            assert total <= dimension * mechanism.variance * (1 + 1e-12)
            assert expected <= mechanism.largest_variance * (1 + 1e-12)

    @pytest.mark.parametrize("length", [0.0, 0.5, 1.0])
    def test_unbiased_when_points_are_chosen(self, length: float, noise: NoiseSource) -> None:
        people = 20_000
        u = length * direction(5)
        mechanism = PrivUnit(5, 3.0)
        reports = mechanism.privatise(np.tile(u, (people, 1)), noise)
        error = np.sqrt(reports.var(axis=0) / people)
        assert (np.abs(reports.mean(axis=0) - u) <= 5.5 * error).all()

    @pytest.mark.chance(RARE)
    def test_gaussian(self, noise: NoiseSource) -> None:
        people = 2000
        u = np.array([0.6, -0.8, 0.0])
        mechanism = GaussianVector(3, 1.0, 1e-5)
        reports = mechanism.privatise(np.tile(u, (people, 1)), noise)
        residual = (reports - u).ravel() / mechanism.scale
        check_law(residual, stats.norm.cdf)
        assert mechanism.variance == mechanism.largest_variance == mechanism.scale**2

    def test_people_are_independent(self) -> None:
        """In portions too: rows of different people have no two reports in common."""
        reports = PrivUnit(2, 1.0).privatise(np.zeros((600_000, 2)), SimulatedNoise(2))
        assert len(np.unique(reports[:, 0])) > 599_000


class TestThreshold:
    @pytest.mark.parametrize("dimension", [2, 3, 20, 500])
    @pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0, 50.0])
    def test_no_other_threshold_is_better(self, dimension: int, epsilon: float) -> None:
        best = PrivUnit(dimension, epsilon)
        for t in np.linspace(0.0, PrivUnit(dimension, 1e3).threshold, 100):
            assert PrivUnit(dimension, epsilon, float(t)).variance >= best.variance * (1 - 1e-12)

    @pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
    def test_the_best_threshold_is_the_mean_cosine(self, epsilon: float) -> None:
        mechanism = PrivUnit(20, epsilon)
        assert mechanism.threshold == pytest.approx(mechanism.mean_cosine, rel=1e-9)

    @pytest.mark.parametrize("dimension", [2, 3, 7, 100])
    def test_mean_cosine_by_quadrature(self, dimension: int) -> None:
        mechanism = PrivUnit(dimension, 2.0)
        law, t, hidden = sphere_cosine(dimension), mechanism.threshold, mechanism.hiding_probability
        inside, _ = integrate.quad(lambda c: c * law.pdf(c), t, 1, limit=200)
        p, mass = 1 - hidden, mechanism.cap_mass
        expected = inside * (p / mass - hidden / (1 - mass))
        assert mechanism.mean_cosine == pytest.approx(expected, rel=1e-7)

    @pytest.mark.parametrize("dimension", [3, 5, 21, 151])
    @pytest.mark.parametrize("threshold", [1e-9, 1e-4, 0.1, 0.2, 0.7, 0.71, 0.99])
    def test_cap_mass_in_rational_numbers(self, dimension: int, threshold: float) -> None:
        """In odd dimensions the density is a polynomial, c (1 - x^2)^((d - 3)/2)."""
        power = (dimension - 3) // 2

        def integral(x: Fraction) -> Fraction:
            terms = ((-1) ** i * math.comb(power, i) * x ** (2 * i + 1) for i in range(power + 1))
            return sum((term / (2 * i + 1) for i, term in enumerate(terms)), Fraction(0))

        whole = integral(Fraction(1))
        exact = (whole - integral(Fraction(threshold))) / (2 * whole)
        if exact > 2.0**-13:
            assert abs(Fraction(cap_mass(dimension, threshold)) / exact - 1) < 1e-14

    def test_known_values(self) -> None:
        assert PrivUnit(1, 1.0).mean_cosine == pytest.approx(math.tanh(0.5), abs=1e-8)
        assert PrivUnit(1, 1.0, 0.7) == PrivUnit(1, 1.0)
        assert PrivUnit(2, 1.0, 0.5).cap_mass == pytest.approx(1 / 3, rel=1e-12)
        assert PrivUnit(3, 1.0, 0.5).cap_mass == pytest.approx(1 / 4, rel=1e-12)
        assert l2_ball(3, 1.0).mean_cosine == pytest.approx(math.tanh(0.5) / 2, abs=1e-8)

    @pytest.mark.parametrize("dimension", [2, 5, 20, 150, 500])
    def test_what_the_bound_on_small_caps_costs(self, dimension: int) -> None:
        """Nothing up to epsilon = 8, at most 5% at 12 and 50% at 16, as the docstring says."""
        for epsilon, most in ((8.0, 1e-6), (12.0, 0.05), (16.0, 0.5)):
            free = best_threshold(dimension, epsilon, 1e-7)
            least = 1 / (dimension * mean_cosine(dimension, free, epsilon) ** 2)
            assert PrivUnit(dimension, epsilon).variance <= least * (1 + most)


class TestComparison:
    @pytest.mark.parametrize("dimension", DIMENSIONS)
    @pytest.mark.parametrize("epsilon", EPSILONS)
    def test_variances(self, dimension: int, epsilon: float) -> None:
        """The default threshold is never worse than 0, and at small epsilon both beat Gaussian."""
        ours, half = PrivUnit(dimension, epsilon), l2_ball(dimension, epsilon)
        assert ours.variance <= half.variance * (1 + 1e-12)
        assert half.largest_variance == half.variance
        gaussian = GaussianVector(dimension, epsilon, 1e-5)
        if epsilon <= 1.0:
            assert half.variance < gaussian.variance
            assert ours.largest_variance < gaussian.largest_variance

    def test_large_epsilon_and_dimension_stay_finite(self) -> None:
        for dimension in (1, 500, 5000):
            for epsilon in (1e-6, 50.0, 1e6):
                mechanism = PrivUnit(dimension, epsilon)
                assert 0 < mechanism.mean_cosine <= 1
                assert mechanism.hiding_probability > 0
                report = mechanism.privatise(np.zeros((1, dimension)), SimulatedNoise(0))
                assert np.isfinite(report).all()


class TestNothingShowsWhichPointWasSent:
    def test_points_do_not_depend_on_the_private_vector(self) -> None:
        """With the same words, reports of different people are often the very same floats: they
        are points that were drawn without looking at the vector."""
        mechanism = PrivUnit(3, 1.0)
        one = mechanism.privatise(np.tile(direction(3, 1), (500, 1)), Rejecting(5))
        two = mechanism.privatise(np.tile(direction(3, 2), (500, 1)), Rejecting(5))
        assert (one == two).all(axis=1).sum() > 20

    @pytest.mark.parametrize("epsilon", [0.5, 4.0])
    def test_both_points_are_drawn_whatever_the_coin(self, epsilon: float) -> None:
        u = np.tile(direction(4), (300, 1))
        mechanism = PrivUnit(4, epsilon)
        sources = [Rejecting(5, shown) for shown in (False, True)]
        reports = [mechanism.privatise(u, source) for source in sources]
        assert sources[0].words == sources[1].words
        cosines = [(r * u).sum(axis=1) * mechanism.mean_cosine for r in reports]
        assert (cosines[0] >= mechanism.threshold).all()
        assert (cosines[1] < mechanism.threshold).all()


class TestDataNeverRaises:
    @pytest.mark.chance(0)
    @pytest.mark.parametrize("mechanism", [PrivUnit(2, 1.0), GaussianVector(2, 1.0, 1e-5)])
    def test_strange_rows_are_made_vectors(
        self, mechanism: VectorReport, noise: NoiseSource
    ) -> None:
        rows = [[3.0, 4.0], [math.nan, 0.1], [math.inf, 0], [1e308, 1e308], [5e-324, 0], [0, 0]]
        with np.errstate(all="raise", under="ignore"):
            assert np.isfinite(mechanism.privatise(np.array(rows), noise)).all()

    @pytest.mark.parametrize(
        ("given", "counts_as"),
        [
            ([3.0, 4.0], [0.6, 0.8]),
            ([1e308, -1e308], [math.sqrt(0.5), -math.sqrt(0.5)]),
            ([math.nan, 1.0], [0.0, 0.0]),
            ([0.5, -math.inf], [0.0, 0.0]),
            ([1e-200, 0.0], [0.0, 0.0]),
            ([1, 0], [1.0, 0.0]),
        ],
    )
    def test_what_they_count_as(self, given: list[float], counts_as: list[float]) -> None:
        for mechanism in (PrivUnit(2, 3.0), GaussianVector(2, 3.0, 1e-5)):
            people = 40_000
            reports = mechanism.privatise(np.tile(given, (people, 1)), SimulatedNoise(8))
            error = np.sqrt(reports.var(axis=0) / people)
            assert (np.abs(reports.mean(axis=0) - counts_as) < 5 * error).all()

    def test_nobody(self, noise: NoiseSource) -> None:
        assert PrivUnit(2, 1.0).privatise(np.empty((0, 2)), noise).shape == (0, 2)

    def test_the_vectors_are_left_as_they_are(self) -> None:
        vectors = np.array([[3.0, math.nan]])
        PrivUnit(2, 2.0).privatise(vectors, SimulatedNoise(0))
        assert vectors[0, 0] == 3.0


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "make", "bad"),
        [
            ("epsilon", lambda e: PrivUnit(3, e), [0.0, -1.0, math.nan, math.inf, 1e-7, "1", None]),
            ("epsilon", lambda e: l2_ball(3, e), [0.0, math.nan, 1e-7]),
            ("epsilon", lambda e: GaussianVector(3, e, 1e-5), [0.0, math.inf]),
            ("dimension", lambda d: PrivUnit(d, 1.0), [0, -1, 2.0, None, True]),
            ("dimension", lambda d: GaussianVector(d, 1.0, 1e-5), [0, -1, 2.0, None, True]),
            ("threshold", lambda t: PrivUnit(20, 1.0, t), [-0.1, 1.0, math.nan, 0.9999]),
            ("delta", lambda d: GaussianVector(3, 1.0, d), [0.0, 1.0, -1.0, math.nan]),
        ],
    )
    def test_settings(self, name: str, make: Callable[[Any], object], bad: list[Any]) -> None:
        for value in bad:
            with pytest.raises(InvalidInput, match=f"{name} was"):
                make(value)

    @pytest.mark.parametrize(
        "vectors", [[0.1, 0.2], [[0.1]], [[[0.1, 0.2]]], [["a", "b"]], [[1], [1, 2]]]
    )
    def test_vectors(self, vectors: object) -> None:
        for mechanism in (PrivUnit(2, 1.0), GaussianVector(2, 1.0, 1e-5)):
            with pytest.raises(InvalidInput, match="vectors had"):
                mechanism.privatise(vectors, SimulatedNoise(0))  # type: ignore[arg-type]

    def test_no_noise(self) -> None:
        for mechanism in (PrivUnit(2, 1.0), GaussianVector(2, 1.0, 1e-5)):
            with pytest.raises(InvalidInput, match="Unprotected"):
                mechanism.privatise(np.zeros((1, 2)), Unprotected())
