"""Local frequency reports, held against enumeration of everything they can say.

For few bins all reports can be written down, so privacy is not argued but counted: the definition
"e^epsilon likelier with the truth in it" gives every probability, and the library's formulas and
its sampler must agree with them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.chance import RARE, check_law

from discreet.privacy import NoiseSource, SecureNoise, SimulatedNoise
from discreet.privacy.frequency import (
    LaplaceOnCells,
    SignedSubsetSelection,
    UnaryEncoding,
    k_ary_response,
    round_to_signs,
)
from discreet.validation import InvalidInput

Report = tuple[tuple[int, ...], tuple[int, ...]]
UNLUCKY = 1e-6  # with words from a seed, so that such a test fails always or never

EPSILONS = [0.1, 1.0, 3.0, 10.0]
SHAPES = [(bins, size) for bins in range(1, 5) for size in range(1, bins + 1)]


def all_reports(bins: int, size: int) -> list[Report]:
    """Every set of `size` bins with every choice of signs."""
    return list(product(combinations(range(bins), size), product((-1, 1), repeat=size)))


def says(report: Report, j: int, s: int) -> bool:
    return (j, s) in zip(*report, strict=True)


@cache
def by_definition(bins: int, size: int, epsilon: float, j: int, s: int) -> dict[Report, float]:
    """P(report | j, s), proportional to e^epsilon where (j, s) is in it and to 1 elsewhere."""
    weights = {
        report: math.exp(epsilon) if says(report, j, s) else 1.0
        for report in all_reports(bins, size)
    }
    total = math.fsum(weights.values())
    return {report: weight / total for report, weight in weights.items()}


def private_values(bins: int) -> Iterator[tuple[int, int]]:
    return product(range(bins), (-1, 1))


@pytest.mark.parametrize(("bins", "size"), SHAPES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_subset_selection_by_enumeration(bins: int, size: int, epsilon: float) -> None:
    """Probabilities, the largest log ratio, and p, b and q of the module's table."""
    mechanism = SignedSubsetSelection(bins, size, epsilon)
    reports = all_reports(bins, size)
    logs = np.empty((2 * bins, len(reports)))
    for person, (j, s) in enumerate(private_values(bins)):
        table = by_definition(bins, size, epsilon, j, s)
        logs[person] = [mechanism.log_probability(*map(np.array, each), j, s) for each in reports]
        expected = [table[report] for report in reports]
        np.testing.assert_allclose(np.exp(logs[person]), expected, rtol=1e-9)
        assert math.fsum(np.exp(logs[person])) == pytest.approx(1.0, abs=1e-9)

        def shown(i: int, sign: int, table: dict[Report, float] = table) -> float:
            """P(h_i = sign)."""
            return math.fsum(p for report, p in table.items() if says(report, i, sign))

        p, b = shown(j, s), shown(j, -s)
        assert mechanism.true_probability == pytest.approx(p, rel=1e-9)
        assert mechanism.false_probability == pytest.approx(b, rel=1e-9)
        assert mechanism.contrast == pytest.approx(p - b, rel=1e-9)
        q = shown((j + 1) % bins, s) if bins > 1 else 0.0
        for i, sign in product(set(range(bins)) - {j}, (-1, 1)):
            assert mechanism.other_probability == pytest.approx(shown(i, sign), rel=1e-9)
        assert mechanism.mass_contrast == pytest.approx(p + b - 2 * q, abs=1e-9)
    assert np.ptp(logs, axis=0).max() == pytest.approx(epsilon, abs=1e-9)


class TestSubsetSelectionSampler:
    @pytest.mark.parametrize(("bins", "size"), [(1, 1), (3, 1), (3, 2), (4, 2), (4, 4)])
    @pytest.mark.parametrize("epsilon", [0.5, 3.0])
    def test_frequencies(self, bins: int, size: int, epsilon: float, noise: NoiseSource) -> None:
        """Chi-square of what the sampler reports against the definition, for every (j, s)."""
        people = 10_000
        mechanism = SignedSubsetSelection(bins, size, epsilon)
        # A report as one number: base 3 digits, one for each bin (0 hidden, 1 for -, 2 for +).
        place = 3 ** np.arange(bins)
        for j, s in private_values(bins):
            chosen, reported = mechanism.privatise(np.full(people, j), np.full(people, s), noise)
            codes = ((reported.astype(np.int64) + 3) // 2 * place[chosen]).sum(axis=1)
            table = by_definition(bins, size, epsilon, j, s)
            cells = {
                int(sum((sign + 3) // 2 * place[i] for i, sign in zip(*report, strict=True))): p
                for report, p in table.items()
            }
            assert set(codes.tolist()) <= set(cells)
            counts = np.bincount(codes, minlength=max(cells) + 1)[list(cells)]
            if len(cells) > 1:
                expected = people * np.array(list(cells.values()))
                assert stats.chisquare(counts, expected).pvalue > UNLUCKY

    def test_many_bins(self, noise: NoiseSource) -> None:
        """Marginals of 4 of 50 bins: own bin p and b, every other bin q for each sign."""
        people, j = 100_000, 17
        mechanism = SignedSubsetSelection(50, 4, 1.5)
        chosen, reported = mechanism.privatise(np.full(people, j), np.full(people, -1), noise)
        plus = np.bincount(chosen[reported > 0], minlength=50) / people
        minus = np.bincount(chosen[reported < 0], minlength=50) / people
        expected = np.full((2, 50), mechanism.other_probability)
        expected[:, j] = mechanism.false_probability, mechanism.true_probability
        error = np.sqrt(expected * (1 - expected) / people)
        assert (np.abs(np.stack([plus, minus]) - expected) / error).max() < 6.0

    @pytest.mark.parametrize("size", [1, 2, 5])
    def test_form_of_a_report(self, size: int, noise: NoiseSource) -> None:
        """Increasing bins, so nothing about the person shows in their order."""
        own = np.arange(500) % 5
        chosen, reported = SignedSubsetSelection(5, size, 1.0).privatise(
            own, np.where(own < 2, 1, -1), noise
        )
        assert chosen.shape == reported.shape == (500, size)
        assert (chosen.dtype, reported.dtype) == (np.int64, np.int8)
        assert (np.diff(chosen, axis=1) > 0).all()
        assert chosen.min() >= 0
        assert chosen.max() <= 4
        assert set(np.unique(reported)) == {-1, 1}

    @pytest.mark.parametrize("size", [1, 3])
    def test_reports_hide_no_array_of_the_person(self, size: int) -> None:
        """No array behind a view, and the inputs are not changed."""
        own, truth = np.array([0, 3, 2]), np.array([1, -1, 1])
        for array in SignedSubsetSelection(4, size, 1.0).privatise(own, truth, SimulatedNoise(1)):
            assert array.base is None or array.base.size == array.size
            assert not np.shares_memory(array, own)
            assert not np.shares_memory(array, truth)
        np.testing.assert_array_equal(own, [0, 3, 2])
        np.testing.assert_array_equal(truth, [1, -1, 1])

    def test_nobody(self) -> None:
        chosen, reported = SignedSubsetSelection(4, 2, 1.0).privatise(
            np.zeros(0, dtype=int), np.zeros(0, dtype=int), SimulatedNoise(0)
        )
        assert chosen.shape == reported.shape == (0, 2)


def people_of(masses: list[float], means: list[float], count: int) -> tuple[NDArray, NDArray]:
    """`count` people in exact proportions: their bins and signs, in a fixed random order."""
    rng = np.random.default_rng(3)
    bins, signs = [], []
    for j, (mass, mean) in enumerate(zip(masses, means, strict=True)):
        here = round(mass * count)
        plus = round(here * (1 + mean) / 2)
        bins += [j] * here
        signs += [1] * plus + [-1] * (here - plus)
    order = rng.permutation(len(bins))
    return np.array(bins)[order], np.array(signs)[order]


class TestSubsetSelectionEstimates:
    MASSES = (0.5, 0.3, 0.2, 0.0, 0.0, 0.0)
    MEANS = (0.6, -0.5, 0.0, 0.0, 0.0, 0.0)

    @pytest.mark.parametrize(("size", "epsilon"), [(1, 1.0), (2, 0.5), (3, 2.0), (6, 1.0)])
    def test_unbiased_with_the_stated_variance(self, size: int, epsilon: float) -> None:
        """5,000 estimates from 20 reports each, of signs, and of masses unless all are reported."""
        batches, batch = 5_000, 20
        bins, signs = people_of([*self.MASSES], [*self.MEANS], batches * batch)
        mechanism = SignedSubsetSelection(6, size, epsilon)
        drawn = mechanism.privatise(bins, signs, SimulatedNoise(11))
        chosen, reported = (part.reshape(batches, batch, size) for part in drawn)
        masses, means = np.array(self.MASSES), np.array(self.MEANS)

        def check(estimates: NDArray, expected: NDArray, variance: NDArray) -> None:
            error = np.sqrt(variance / batches)
            assert (np.abs(estimates.mean(axis=0) - expected) / error).max() < 4.5
            np.testing.assert_allclose(estimates.var(axis=0), variance, rtol=0.08)

        estimates = np.stack(
            [mechanism.estimate(c, r) for c, r in zip(chosen, reported, strict=True)]
        )
        exact = (mechanism.variance(masses) - (masses * means) ** 2) / batch
        check(estimates, masses * means, exact)
        if size < 6:
            shown = 2 * mechanism.other_probability + mechanism.mass_contrast * masses
            variance = shown * (1 - shown) / mechanism.mass_contrast**2 / batch
            check(np.stack([mechanism.estimate_mass(c) for c in chosen]), masses, variance)

    @pytest.mark.parametrize("bins", [2, 3, 10])
    def test_reports_of_all_bins_say_nothing_about_masses(self, bins: int) -> None:
        mechanism = SignedSubsetSelection(bins, bins, 1.0)
        assert mechanism.mass_contrast == 0.0
        with pytest.raises(InvalidInput, match="say nothing about the mass"):
            mechanism.estimate_mass(np.zeros((1, bins), dtype=int))

    def test_estimates_of_an_enumeration_are_exact(self) -> None:
        """Weighted by the definition, the estimators return the truth to the last digit."""
        mechanism = SignedSubsetSelection(3, 2, 1.0)
        table = by_definition(3, 2, 1.0, 1, -1)
        signs, mass = np.zeros(3), np.zeros(3)
        for (chosen, reported), p in table.items():
            signs += p * mechanism.estimate(np.array([chosen]), np.array([reported]))
            mass += p * mechanism.estimate_mass(np.array([chosen]))
        np.testing.assert_allclose(signs, [0, -1, 0], atol=1e-12)
        np.testing.assert_allclose(mass, [0, 1, 0], atol=1e-12)


class TestBestSize:
    @pytest.mark.parametrize("bins", [1, 2, 3, 4, 7, 50, 401])
    @pytest.mark.parametrize("estimate_mass", [True, False])
    def test_no_other_size_has_less_variance(self, bins: int, estimate_mass: bool) -> None:
        largest = max(1, bins // 2) if estimate_mass else bins
        for epsilon in (0.01, 0.5, 1.0, math.log(3), 2.0, 5.0, 10.0):
            best = SignedSubsetSelection.best(bins, epsilon, estimate_mass)
            assert 1 <= best.size <= largest
            variances = [
                SignedSubsetSelection(bins, size, epsilon).variance(1 / bins)
                for size in range(1, largest + 1)
            ]
            assert best.variance(1 / bins) <= min(variances) * (1 + 1e-9)

    @pytest.mark.parametrize("epsilon", [0.2, 0.5, 1.0, math.log(3), 2.0, 4.0])
    def test_variance_for_many_bins(self, epsilon: float) -> None:
        """8 / (e^epsilon - 1) from ln 3 on, below it ((e^epsilon + 1) / (e^epsilon - 1))^2."""
        e = math.exp(epsilon)
        limit = 8 / (e - 1) if epsilon >= math.log(3) else ((e + 1) / (e - 1)) ** 2
        best = SignedSubsetSelection.best(100_000, epsilon, estimate_mass=False)
        assert best.variance(0.0) == pytest.approx(limit, rel=1e-3)

    @pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0, 6.0])
    @pytest.mark.parametrize("bins", [8, 64, 1000])
    def test_it_beats_unary_encoding_and_laplace(self, bins: int, epsilon: float) -> None:
        best = SignedSubsetSelection.best(bins, epsilon, estimate_mass=False).variance(0.0)
        assert best < 2.0 * UnaryEncoding(2 * bins, epsilon).variance()
        assert best < LaplaceOnCells(bins, epsilon).variance()

    @pytest.mark.parametrize("bins", [1, 2, 10])
    def test_without_privacy_the_truth_alone_is_reported(self, bins: int) -> None:
        best = SignedSubsetSelection.best(bins, math.inf)
        assert best.size == 1
        own = np.arange(200) % bins
        truth = np.where(np.arange(200) % 3 == 0, 1, -1)
        chosen, reported = best.privatise(own, truth, SimulatedNoise(0))
        np.testing.assert_array_equal(chosen[:, 0], own)
        np.testing.assert_array_equal(reported[:, 0], truth)
        assert (best.true_probability, best.false_probability) == (1.0, 0.0)


@pytest.mark.filterwarnings("error")
class TestExtremeEpsilon:
    @pytest.mark.parametrize("epsilon", [40.0, 700.0, 1024.0, 1e6, math.inf])
    @pytest.mark.parametrize(("bins", "size"), [(1, 1), (5, 1), (5, 3), (5, 5)])
    def test_large_epsilon_does_not_overflow(self, bins: int, size: int, epsilon: float) -> None:
        mechanism = SignedSubsetSelection(bins, size, epsilon)
        assert mechanism.true_probability == pytest.approx(1.0)
        assert mechanism.false_probability == pytest.approx(0.0, abs=1e-15)
        assert mechanism.contrast == pytest.approx(1.0)
        others = (size - 1) / (2 * (bins - 1)) if bins > 1 else 0.0
        assert mechanism.other_probability == pytest.approx(others, abs=1e-15)
        assert np.isfinite(mechanism.variance(0.5))
        chosen, _ = mechanism.privatise(np.array([0]), np.array([1]), SimulatedNoise(1))
        assert (chosen == 0).any()

    @pytest.mark.parametrize("epsilon", [1e-12, 1e-6])
    def test_small_epsilon_keeps_its_contrast(self, epsilon: float) -> None:
        """p - b is (e^epsilon - 1) theta / Z, less what a coin of 64 bits is rounded by."""
        mechanism = SignedSubsetSelection(10, 5, epsilon)
        theta = 0.25
        rounding = 2.0**-62 / mechanism.contrast
        assert mechanism.contrast <= epsilon * theta * (1 + epsilon)
        assert mechanism.contrast == pytest.approx(epsilon * theta, rel=2 * epsilon + rounding)
        assert SignedSubsetSelection.best(10, epsilon).size == 5

    def test_unary_encoding_and_laplace(self) -> None:
        assert UnaryEncoding(3, 1024.0).other_probability == 2.0**-64
        assert UnaryEncoding(3, 700.0).variance() == pytest.approx(0.0, abs=1e-18)
        assert LaplaceOnCells(3, 1024.0).variance() == pytest.approx(32 / 1024**2)


def test_k_ary_response_is_size_1() -> None:
    assert k_ary_response(3, 2.0) == SignedSubsetSelection(3, 1, 2.0)


class TestUnaryEncoding:
    @pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
    @pytest.mark.parametrize("shown", [0.5, 0.92])
    def test_unbiased_with_the_stated_variance(self, epsilon: float, shown: float) -> None:
        batches, batch = 5_000, 20
        masses = np.array([0.6, 0.4, 0.0])
        values = np.random.default_rng(0).choice(3, batches * batch, p=masses)
        mechanism = UnaryEncoding(3, epsilon, shown)
        bits = mechanism.privatise(values, SimulatedNoise(5)).reshape(batches, batch, 3)
        estimates = mechanism.counts(bits.sum(axis=1), batch) / batch
        error = estimates.std(axis=0) / math.sqrt(batches)
        assert (np.abs(estimates.mean(axis=0) - masses) / error).max() < 4.5
        assert estimates[:, 2].var() == pytest.approx(mechanism.variance() / batch, rel=0.08)

    @pytest.mark.parametrize("epsilon", EPSILONS)
    def test_variance(self, epsilon: float) -> None:
        e = math.exp(epsilon)
        assert UnaryEncoding(7, epsilon).variance() == pytest.approx(4 * e / (e - 1) ** 2)
        plain = UnaryEncoding.symmetric(7, epsilon)
        assert plain.other_probability == pytest.approx(1.0 - plain.shown)

    def test_a_published_calibration(self) -> None:
        """p = .92 and q = .0288, as Firefox encodes interests, are an epsilon of 5.96."""
        epsilon = math.log(0.92 * (1 - 0.0288) / (0.0288 * (1 - 0.92)))
        assert UnaryEncoding(9, epsilon, 0.92).other_probability == pytest.approx(0.0288)

    @pytest.mark.parametrize("values", [[3], [-1], [0.5]])
    def test_values(self, values: list[float]) -> None:
        with pytest.raises(InvalidInput, match="values"):
            UnaryEncoding(3, 1.0).privatise(np.array(values), SimulatedNoise(0))


def exact_cells(cells: int, cell: int, reward: float) -> NDArray[np.float64]:
    """(U, V) before noise, written out: 1 and the reward in the person's own cell."""
    exact = np.zeros(2 * cells)
    exact[cell], exact[cells + cell] = 1.0, reward
    return exact


class TestLaplaceOnCells:
    @pytest.mark.parametrize("cells", [2, 3])
    @pytest.mark.parametrize("epsilon", EPSILONS)
    def test_the_largest_log_ratio_is_epsilon(self, cells: int, epsilon: float) -> None:
        """|log ratio| <= l1 distance / scale, attained at the second record's own numbers."""
        scale = LaplaceOnCells(cells, epsilon).scale
        records = [exact_cells(cells, c, r) for c, r in product(range(cells), (0, 0.3, 1))]
        rng = np.random.default_rng(0)
        worst = 0.0
        for one, two in product(records, repeat=2):
            outputs = np.vstack([two, one, rng.normal(0, 3 * scale, (20, 2 * cells))])
            law = stats.laplace(scale=scale)
            ratio = law.logpdf(outputs - two).sum(axis=1) - law.logpdf(outputs - one).sum(axis=1)
            worst = max(worst, float(np.abs(ratio).max()))
        assert worst == pytest.approx(epsilon, abs=1e-9)

    @pytest.mark.parametrize("secure", [True, False])
    def test_the_samplers_hold_no_more_than_epsilon(self, secure: bool) -> None:
        """To the last bit, however OpenDP rounds."""
        if secure:
            pytest.importorskip("opendp")
        noise = SecureNoise() if secure else SimulatedNoise(0)
        some = 10.0 ** np.random.default_rng(0).uniform(-6, 4, 100)
        for epsilon in [0.1, 0.3, 0.7, 1.0, 2.0, 3.3, *some.tolist()]:
            for cells in (2, 50):
                mechanism = LaplaceOnCells(cells, epsilon)
                size = 2 * cells
                held = noise.laplace_epsilon(mechanism.sensitivity, mechanism.scale, size)
                assert epsilon * (1.0 - 1e-12) < held <= epsilon

    @pytest.mark.parametrize("cells", [1, 2, 3, 8])
    def test_sensitivity_against_random_pairs(self, cells: int) -> None:
        rng = np.random.default_rng(1)
        rewards = np.concatenate([rng.random(300), np.zeros(50), np.ones(50)])
        records = [exact_cells(cells, int(rng.integers(cells)), reward) for reward in rewards]
        distances = np.abs(np.array(records)[:, None] - np.array(records)[None]).sum(axis=2)
        assert LaplaceOnCells(cells, 1.0).sensitivity == pytest.approx(distances.max())

    def test_variance_is_32_over_epsilon_squared(self) -> None:
        assert LaplaceOnCells(9, 0.5).variance() == pytest.approx(32 / 0.25)

    def test_unbiased_with_the_stated_variance(self) -> None:
        people = 300_000
        mechanism = LaplaceOnCells(3, 2.0)
        cells = np.arange(people) % 2
        reports = mechanism.privatise(cells, np.where(cells == 0, 0.75, 0.5), SimulatedNoise(4))
        assert reports.shape == (people, 6)
        mass, reward = mechanism.estimate(reports)
        error = 4.5 * math.sqrt(mechanism.variance() / people)
        np.testing.assert_allclose(mass, [0.5, 0.5, 0.0], atol=error)
        np.testing.assert_allclose(reward, [0.375, 0.25, 0.0], atol=error)
        np.testing.assert_allclose(reports[::2].var(axis=0), mechanism.variance(), rtol=0.03)

    @pytest.mark.chance(RARE)
    def test_noise_law(self, noise: NoiseSource) -> None:
        reports = LaplaceOnCells(2, 1.0).privatise(np.ones(1000, int), np.full(1000, 0.25), noise)
        residual = reports - exact_cells(2, 1, 0.25)
        check_law(residual, stats.laplace(scale=4.0).cdf)


class TestRounding:
    def test_certain_rewards(self, noise: NoiseSource) -> None:
        signs = round_to_signs(np.repeat([0.0, 1.0], 1000), noise)
        np.testing.assert_array_equal(signs, np.repeat([-1, 1], 1000))
        assert signs.dtype == np.int8

    @pytest.mark.parametrize("reward", [0.05, 0.5, 0.8])
    def test_unbiased(self, reward: float, noise: NoiseSource) -> None:
        signs = round_to_signs(np.full(100_000, reward), noise)
        error = 2 * math.sqrt(reward * (1 - reward) / 100_000)
        assert signs.mean() == pytest.approx(2 * reward - 1, abs=6 * error)


class TestRefusals:
    @pytest.mark.parametrize(
        "make",
        [
            lambda e: SignedSubsetSelection(4, 2, e),
            lambda e: SignedSubsetSelection.best(4, e),
            lambda e: UnaryEncoding(4, e),
            lambda e: LaplaceOnCells(4, e),
        ],
    )
    @pytest.mark.parametrize("epsilon", [-1.0, math.nan, -math.inf])
    @pytest.mark.filterwarnings("ignore::RuntimeWarning")
    def test_epsilon(self, make, epsilon: float) -> None:  # type: ignore[no-untyped-def]
        with pytest.raises(InvalidInput, match="epsilon was"):
            make(epsilon)

    @pytest.mark.parametrize("make", [UnaryEncoding, LaplaceOnCells])
    def test_only_subset_selection_has_a_reference_without_privacy(self, make: type) -> None:
        with pytest.raises(InvalidInput, match="epsilon was inf"):
            make(4, math.inf)

    @pytest.mark.parametrize(("bins", "size"), [(0, 1), (4, 0), (4, 5), (4, 1.5), (2.0, 1)])
    def test_bins_and_size(self, bins: object, size: object) -> None:
        with pytest.raises(InvalidInput, match=r"(bins|size) was"):
            SignedSubsetSelection(bins, size, 1.0)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("bins", "signs", "message"),
        [
            ([4], [1], "bins was 4 at position 0"),
            ([0, -1], [1, 1], "bins was -1 at position 1"),
            ([0.5], [1], "whole numbers"),
            ([[0]], [1], "shape"),
            ([0], [0], "each be -1 or"),
            ([0], [2], "each be -1 or"),
            ([0, 1], [1], r"must have shape \(2,\)"),
        ],
    )
    def test_bins_and_signs(self, bins: object, signs: object, message: str) -> None:
        mechanism = SignedSubsetSelection(4, 2, 1.0)
        with pytest.raises(InvalidInput, match=message):
            mechanism.privatise(np.array(bins), np.array(signs), SimulatedNoise(0))

    @pytest.mark.parametrize(
        ("cell", "reward", "message"),
        [
            *((cell, 0.5, "cells") for cell in (3, -1, 0.5)),
            *((0, reward, "rewards") for reward in (100.0, -1.0, math.nan)),
        ],
    )
    def test_cells_and_rewards(self, cell: float, reward: float, message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            LaplaceOnCells(3, 1.0).privatise(
                np.array([cell]), np.array([reward]), SimulatedNoise(0)
            )


class TestFaultsOnceFound:
    """Each was a fault of an earlier version, found by an adversarial reading."""

    @pytest.mark.chance(RARE)
    def test_secure_laplace_leaves_no_trace_in_the_low_bits(self) -> None:
        """1 + noise is a multiple of 2^-53, 0 + noise often is not (Mironov 2012).

        More than one in a hundred reports is near enough to 0 to be finer, and 0.99^2000 < 1e-8.
        """
        pytest.importorskip("opendp")
        people = 2000
        reports = LaplaceOnCells(2, 1.0).privatise(
            np.zeros(people, int), np.ones(people), SecureNoise()
        )
        fine = np.ldexp(reports, 53) % 1.0 != 0.0
        assert fine[:, 0].any() == fine[:, 1].any()

    @pytest.mark.parametrize("epsilon", [746.0, 1024.0])
    def test_finite_epsilon_never_reports_the_truth_for_certain(self, epsilon: float) -> None:
        asked: list[float] = []

        class Watched(SimulatedNoise):
            def coins(self, probability, shape):  # type: ignore[no-untyped-def]
                asked.append(float(probability))
                return super().coins(probability, shape)

        SignedSubsetSelection(4, 1, epsilon).privatise(np.array([0]), np.array([1]), Watched(0))
        UnaryEncoding(4, epsilon).privatise(np.array([0]), Watched(0))
        assert min(asked) > 0.0
