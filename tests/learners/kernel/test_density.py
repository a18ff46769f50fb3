"""Where people are, learnt from the cells that they report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import beta

from discreet.gaussian import GaussianNaturalParameters
from discreet.lab.environments.synthetic import BetaContexts, exponential
from discreet.lab.experiments import run_learner
from discreet.learners.kernel.cells import Ranks
from discreet.learners.kernel.density import _LOG_ODDS, Density, _fisher_information, _Prior
from discreet.learners.kernel.design import Measurements
from discreet.learners.kernel.features import (
    CosineFeatures,
    DensityBins,
    Implied,
    grid_of,
    on_levels,
    with_implied,
)
from discreet.learners.kernel.learner import LocalKernel
from discreet.learners.kernel.policy import KernelPolicy
from discreet.learners.policy import Policy
from discreet.learners.registry import make_learner
from discreet.learners.signs import SignedReports
from discreet.people.domain import Box, unit_cube
from discreet.privacy import Joint, Local, NonPrivate, SimulatedNoise
from discreet.validation import FloatArray, InvalidInput

from .scene import SQUARE, random_policy, reported

SKEWED = BetaContexts(((2.0, 5.0), (1.0, 1.0)))


def beta_law() -> FloatArray:
    """The density of `SKEWED` over the bins of the square, relative to uniform."""
    rows, columns = DensityBins((None, None)).shape
    share = np.diff(beta.cdf(np.linspace(0.0, 1.0, rows + 1), 2, 5))
    return np.repeat(share * rows, columns)


def distance(one: FloatArray, two: FloatArray) -> float:
    """The total variation distance of two densities over bins."""
    return float(0.5 * np.abs(one / one.sum() - two / two.sum()).sum())


def crowd(policy: KernelPolicy, people: int, seed: int) -> SignedReports:
    """Reports of people who come from `SKEWED`."""
    rng = np.random.default_rng(seed)
    contexts = SKEWED(people, rng)
    actions, _ = policy.act(contexts, rng)
    return reported(policy, contexts, actions, np.ones(people), SimulatedNoise(1000 + seed))


def likelihood(policy: KernelPolicy, reports: SignedReports) -> float:
    """The mean log probability of the reported cells under the policy's density."""
    _, partition = policy.picked(reports.public_coins)
    return float(np.log(Measurements(policy).shown[partition, reports.places[:, 0]]).mean())


class TestBins:
    @pytest.mark.parametrize(
        ("levels", "shape"),
        [
            ((None,), (24,)),
            ((None, None), (24, 24)),
            ((5, 30), (5, 24)),
            ((None, 2, None), (10, 2, 10)),
            ((None,) * 4, (6,) * 4),
            ((None,) * 6, (3,) * 6),
            ((None, 2) * 10, (1,) * 20),
        ],
    )
    def test_shapes(self, levels: tuple[int | None, ...], shape: tuple[int, ...]) -> None:
        bins = DensityBins(levels)
        assert bins.shape == shape
        assert len(bins) == np.prod(shape)

    @pytest.mark.parametrize("levels", [(None, None), (5, 3), (None, 4, None)])
    def test_every_point_is_in_its_bin(self, levels: tuple[int | None, ...]) -> None:
        bins = DensityBins(levels)
        points = np.random.default_rng(0).random((500, len(levels)))
        points[:2] = [[0.0] * len(levels), [1.0] * len(levels)]
        index = np.stack(np.unravel_index(bins.of(points), bins.shape), axis=1)
        assert (index <= points * bins.shape).all()
        assert (points * bins.shape <= index + 1).all()


ZERO = Box.of({"x": {"lower": 0, "upper": 1, "indicators": [0]}})
MANY = Box.of(
    {
        "x": {"lower": 0, "upper": 4, "missing": "unknown", "indicators": [0, 4]},
        "steps": {"lower": 0, "upper": 2, "levels": 3, "indicators": [2]},
    }
)
YEARS = Box.of({"age": {"lower": 0, "upper": 25, "levels": 26, "indicators": [1]}})
REST = dict.fromkeys("abcdefg", (0, 1))
NINE = Box.of({"x": {"lower": 0, "upper": 1, "indicators": [1]}, **REST})


def implied(domain: Box) -> Implied:
    return Ranks.plain(domain.dimension).implied(domain)


class TestIndicators:
    """Points, volumes and the basis where a number has indicators."""

    @pytest.mark.parametrize("domain", [ZERO, MANY, YEARS, NINE])
    def test_points_are_where_people_can_be(self, domain: Box) -> None:
        """Their indicators are those that follow from the number, missing where it is unknown."""
        features = CosineFeatures.of(domain.levels, 2)
        grid = grid_of(3, 1, features, implied(domain))
        contexts = domain.from_unit(on_levels(grid.points, domain.levels))
        bare = contexts.copy()
        for place, column in enumerate(domain.columns):
            behind = place + 1 + np.arange(len(column.indicator_names))
            if column.missing == "unknown":
                bare[contexts[:, place + 1] == 1.0, place] = np.nan
            shown = contexts[:, behind].sum(axis=1)
            # With steps a person at the number is never without its indicator.
            if len(behind) and column.levels is None:
                assert set(shown) == {0.0, 1.0}
                assert shown.mean() == pytest.approx(0.5, abs=0.03)
            bare[np.ix_(shown > 0.0, behind)] = np.nan
        filled = np.asarray(domain.in_order(bare))
        assert filled == pytest.approx(contexts, abs=1e-12)

    @pytest.mark.parametrize("domain", [ZERO, MANY, YEARS, NINE])
    def test_volumes_are_shares_of_points(self, domain: Box) -> None:
        """Of 400,000 random points, to six deviations."""
        features, pinned = CosineFeatures.of(domain.levels, 2), implied(domain)
        uniform = np.random.default_rng(4).random((400_000, domain.dimension))
        bins = features.bins(pinned)
        counts = np.bincount(bins.of(with_implied(uniform, pinned)), minlength=len(bins))
        expected = bins.volume / len(bins)
        assert ((counts > 0) == (expected > 0.0)).all()
        deviations = np.sqrt(expected * (1.0 - expected) / len(uniform))
        assert (np.abs(counts / len(uniform) - expected) <= 6.0 * deviations + 1e-12).all()
        assert features.bins(pinned, 3).volume == pytest.approx(np.repeat(bins.volume, 3))

    @pytest.mark.parametrize("domain", [ZERO, MANY, YEARS, NINE])
    def test_the_basis_is_orthonormal_and_spans_the_features(self, domain: Box) -> None:
        bins = CosineFeatures.of(domain.levels, 2).bins(implied(domain))
        prior = _Prior.of(bins)
        share, basis = bins.volume / len(bins), prior.basis
        products = basis.T @ (share[:, None] * basis)  # a projection
        assert products @ products == pytest.approx(products, abs=1e-9)
        # The same on each machine: of all such bases the one nearest to the features is unique.
        apart = basis.T @ (share[:, None] * prior.phi)
        assert apart == pytest.approx(apart.T, abs=1e-9)
        assert np.linalg.eigvalsh(apart).min(initial=0.0) > -1e-9
        assert share @ basis == pytest.approx(np.zeros(basis.shape[1]), abs=1e-9)
        spanned = basis @ (basis.T @ (share[:, None] * prior.phi)) + share @ prior.phi
        inside = share > 0.0
        assert spanned[inside] == pytest.approx(prior.phi[inside], abs=1e-6)

    @pytest.mark.parametrize("domain", [ZERO, MANY, YEARS, NINE])
    @pytest.mark.parametrize("budget", [Local(2.0), NonPrivate(), Joint(1.0, 1e-6)])
    def test_values_are_of_people_that_there_can_be(self, domain: Box, budget: Any) -> None:
        """In each trust model, in few columns and in many."""
        noise = SimulatedNoise(1001) if isinstance(budget, Joint) else None
        learner = make_learner("kernel", domain, 2, budget, public_seed=1, noise=noise)
        rng = np.random.default_rng(1)
        bare = domain.from_unit(rng.random((1200, domain.dimension)))
        for place, column in enumerate(domain.columns):
            behind = len(column.indicator_names)
            if behind:
                bare[:, place] = rng.choice([0.0, domain.upper[place]], 1200)
                bare[:, place + 1 : place + 1 + behind] = np.nan
        for start in range(0, 1200, 300):
            contexts = np.asarray(domain.in_order(bare[start : start + 300]))
            policy = learner.policy()
            actions, _ = policy.act(contexts, rng)
            reports = policy.report(contexts, actions, np.ones(300), SimulatedNoise(start + 1))
            learner.update(reports)
        found = learner._value_posterior(None).contexts
        for behind, place, at in domain.implied:
            yes, low, high = found[:, behind] == 1.0, domain.lower[place], domain.upper[place]
            assert 0.1 < yes.mean() < 0.9
            assert found[yes, place] == pytest.approx(low + at * (high - low), abs=1e-9)

    @pytest.mark.parametrize("budget", [NonPrivate(), Local(8.0), Joint(8.0, 1e-6)])
    def test_after_ranks_moved(self, budget: Any) -> None:
        """Three in ten are at .31, all others just above .3: points follow the ranks, and the
        share of people at the number is found."""
        domain = Box.of({"x": {"lower": 0, "upper": 1, "indicators": [0.31]}})
        noise = SimulatedNoise(1001) if isinstance(budget, Joint) else None
        learner: Any = make_learner(
            "kernel", domain, 2, budget, public_seed=1, noise=noise, horizon=200_000
        )
        rng, _ = np.random.default_rng(1), learner._located  # which may be asked for early
        for step in range(16):
            numbers = np.where(rng.random(500) < 0.3, 0.31, 0.3 + 0.02 * rng.random(500))
            bare = np.column_stack([numbers, np.full(500, np.nan)])
            contexts, policy = np.asarray(domain.in_order(bare)), learner.policy()
            actions, _ = policy.act(contexts, rng)
            learner.update(policy.report(contexts, actions, np.ones(500), SimulatedNoise(step)))
        policy = learner.policy()
        place = float(policy.ranks(np.array([[0.31, 1.0]]))[0, 0])
        assert abs(place - 0.31) > 0.01
        points, weights, phi = learner._located
        yes = points[:, 1] >= 0.5
        assert points[yes, 0] == pytest.approx(np.full(int(yes.sum()), place))
        assert phi == pytest.approx(learner.features(on_levels(points, domain.levels)))
        assert weights[yes].sum() == pytest.approx(0.3, abs=0.06)
        if isinstance(budget, Joint):
            assert learner._placed == pytest.approx(learner.features.placed(points))
            return
        density = learner._density_of(learner._target)
        mass = density * learner._grid(0).volume / len(density)
        assert mass.sum() == pytest.approx(1.0)
        assert mass.reshape(-1, 2)[:, 1].sum() == pytest.approx(0.3, abs=0.06)
        if isinstance(budget, Local):
            grid = policy.grid
            assert grid.points[grid.points[:, 1] >= 0.5, 0] == pytest.approx(place)
            assert len(policy.density) == len(grid.volume)
            assert (policy.density * grid.volume).mean() == pytest.approx(1.0)
            assert grid.with_arms(3).volume == pytest.approx(np.repeat(grid.volume, 3))

    def test_first_weights_under_joint_privacy(self) -> None:
        """Of a number with three indicators, and of another; with little noise."""
        columns: dict[str, Any] = {
            "x": {"lower": 0, "upper": 1, "indicators": [0, 0.5, 1]},
            "y": {"lower": 0, "upper": 1, "indicators": [0]},
        }
        domain, rng = Box.of(columns), np.random.default_rng(5)
        noise = SimulatedNoise(1005)
        learner: Any = make_learner(
            "kernel", domain, 2, Joint(20.0, 1e-6), public_seed=1, noise=noise, first=4000
        )
        drawn = rng.random((4000, 2))
        x = np.select([drawn[:, 0] < each for each in (0.1, 0.3, 0.6)], [0.0, 0.5, 1.0], 0.2)
        y = np.where(drawn[:, 1] < 0.7, 0.0, 0.1 + 0.9 * rng.random(4000))
        bare = np.full((4000, 6), np.nan)
        bare[:, 0], bare[:, 4] = x, y
        contexts, policy = np.asarray(domain.in_order(bare)), learner.policy()
        actions, _ = policy.act(contexts, rng)
        learner.update(policy.report(contexts, actions, np.ones(4000), SimulatedNoise(6)))
        learner.policy()
        shares = learner.weights @ learner._points
        assert shares[[1, 2, 3, 5]] == pytest.approx([0.1, 0.2, 0.3, 0.7], abs=0.05)

    @pytest.mark.parametrize("budget", [Local(8.0), Joint(8.0, 1e-6)])
    def test_every_cell_holds_people(self, budget: Any) -> None:
        """Of policies for the target and for a source."""
        domain = Box.of({"x": {"lower": 0, "upper": 1, "indicators": [0]}, "y": (0, 1)})
        noise = SimulatedNoise(1001) if isinstance(budget, Joint) else None
        learner: Any = make_learner("kernel", domain, 2, budget, public_seed=1, noise=noise)
        rng = np.random.default_rng(3)
        policies = [learner.policy()]
        for step in range(6):
            bare = np.where(rng.random((1000, 1)) < 0.7, 0.0, rng.random((1000, 1)))
            contexts = np.hstack([bare, bare == 0.0, rng.random((1000, 1))])
            actions, _ = policies[-1].act(contexts, rng)
            reports = policies[-1].report(contexts, actions, np.ones(1000), SimulatedNoise(step))
            learner.update(reports)
            policies.append(learner.policy())
        if isinstance(budget, Local):
            learner.open_source("clinic", 8.0)
            policies.append(learner.policy("clinic"))
        several = 0
        for policy in policies:
            points = learner._placed if isinstance(budget, Joint) else policy.grid.points
            for found in policy.cells.locate_all(points):
                used = policy.cells.child[policy.cells.axis < 0].max() + 1
                assert len(np.unique(found)) == used
                several += used > 3
        assert several

    def test_how_many_are_at_the_number_is_learnt(self) -> None:
        """Three in ten at 0, and nobody above .7; without reports half are taken to be at 0."""
        policy = random_policy(ZERO, 2, 4.0, 8, partitions=8)
        bins, rng = policy.density_bins, np.random.default_rng(8)
        density, located = Density.uniform(bins), np.zeros(len(bins))
        for step in range(1, 6):
            numbers = np.where(rng.random(3000) < 0.3, 0.0, 0.7 * rng.random(3000))
            contexts = np.asarray(ZERO.in_order(np.column_stack([numbers, np.full(3000, np.nan)])))
            actions, _ = policy.act(contexts, rng)
            reports = reported(policy, contexts, actions, np.ones(3000), SimulatedNoise(step))
            located = located + Measurements(policy).statistics(reports).located
            density = density.after(policy, located, 3000 * step)
            policy = replace(policy, density=density.shares)
        mass = (density.shares * bins.volume / len(bins)).reshape(bins.shape)
        assert mass.sum() == pytest.approx(1.0)
        assert mass[0, 1] == pytest.approx(0.3, abs=0.03)
        assert mass[17:, 0].sum() < 0.04
        assert mass[1:, 1].max() == 0.0


def outcomes(policy: KernelPolicy) -> tuple[list[SignedReports], FloatArray]:
    """A report of each cell of each partition, and its probability under the policy's density."""
    shown = Measurements(policy).shown
    coins = np.arange(400, dtype=np.uint64)
    _, partition = policy.picked(coins)
    _, first = np.unique(partition, return_index=True)
    person = [[0.5, *[0.0] * (policy.domain.dimension - 1)]]
    actions, _ = policy.act(person, np.random.default_rng(0))
    template = reported(policy, person, actions, np.ones(1), SimulatedNoise(1000))
    reports = [
        replace(template, public_coins=coins[[at]], places=np.full_like(template.places, cell))
        for at in first
        for cell in range(policy.cells.count)
    ]
    return reports, shown.ravel() / len(shown)


class TestStep:
    LINE = unit_cube(1)
    BINS = DensityBins((None,))

    @pytest.fixture
    def policy(self) -> KernelPolicy:
        kappa = 1.0 + 0.5 * np.cos(np.pi * (np.arange(24) + 0.5) / 24)
        return random_policy(self.LINE, 2, 4.0, 5, density=kappa)

    def test_indicators(self) -> None:
        """The same two claims as below, where half of the volume is in one bin."""
        kappa = np.linspace(0.5, 2.0, 48)
        policy = random_policy(ZERO, 2, 4.0, 5, density=kappa)
        bins = policy.density_bins
        policy = replace(policy, density=kappa / (kappa * bins.volume).mean())
        here, basis = policy.density, _Prior.of(bins).basis
        reports, chances = outcomes(policy)
        expected = np.zeros((basis.shape[1], basis.shape[1]))
        for report, chance in zip(reports, chances, strict=True):
            located = Measurements(policy).statistics(report).located
            score = basis.T @ (located / here)
            for wave in (0, 3):
                ends = [
                    likelihood(replace(policy, density=here + step * basis[:, wave]), report)
                    for step in (1e-5, -1e-5)
                ]
                assert score[wave] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=2e-2)
            expected += chance * np.outer(score, score)
        found = _fisher_information(policy, basis)
        assert np.allclose(found, expected, atol=1e-2 * np.abs(expected).max())

    def test_scores_are_the_derivatives_of_the_log_likelihood(self, policy: KernelPolicy) -> None:
        """In one column, where every bin has points."""
        here = policy.density
        for report in outcomes(policy)[0][::3]:
            located = Measurements(policy).statistics(report).located
            for frequency in (1, 4):
                wave = np.sqrt(2.0) * np.cos(np.pi * frequency * (np.arange(24) + 0.5) / 24)
                ends = [
                    likelihood(replace(policy, density=here + step * wave), report)
                    for step in (1e-5, -1e-5)
                ]
                assert wave @ (located / here) == pytest.approx(
                    (ends[0] - ends[1]) / 2e-5, abs=1e-2
                )

    def test_information_is_the_mean_of_squared_scores(self, policy: KernelPolicy) -> None:
        """Enumerated over partitions and cells."""
        empty = Density.uniform(self.BINS)
        reports, chances = outcomes(policy)
        at = empty.after(policy, np.zeros(24), 1)
        expected = np.zeros_like(at.precision)
        for report, chance in zip(reports, chances, strict=True):
            located = Measurements(policy).statistics(report).located
            score = empty.after(policy, located, 1).weighted - at.weighted
            expected += chance * np.outer(score, score)
        assert chances.sum() == pytest.approx(1.0)
        assert np.allclose(at.precision, expected, atol=1e-2 * np.abs(expected).max())

    def test_nobody_is_ruled_out(self) -> None:
        density, policy = Density.uniform(self.BINS), random_policy(self.LINE, 2, 4.0, 5)
        located = np.zeros(24)
        for people in range(1000, 10_000, 1000):
            located = located + 1000.0 * np.eye(24)[3]
            density = density.after(policy, located, people)
            policy = replace(policy, density=density.shares)
        assert density.shares.min() >= 0.0099
        assert density.shares.mean() == pytest.approx(1.0)
        assert abs(density.shares.argmax() - 3) <= 1  # blurred by the prior

    def test_nobody_located_changes_nothing(self, policy: KernelPolicy) -> None:
        density = Density.uniform(self.BINS)
        assert density.after(policy, np.zeros(24), 0) is density


class TestModels:
    """Terms of columns, and of their interactions, in the log density."""

    @pytest.mark.parametrize(
        ("shape", "terms", "others"),
        [
            ((24,), "0", ["1"]),
            ((24, 24), "000", ["100", "010", "111"]),
            ((24, 24), "110", ["010", "100", "111"]),
            ((24, 24), "111", ["010", "100", "110"]),
            ((4, 1, 4), "100", ["000", "110", "111"]),  # a column with one bin has no term
            ((1, 1), "", []),
        ],
    )
    def test_interactions_need_all_columns(
        self, shape: tuple[int, ...], terms: str, others: list[str]
    ) -> None:
        prior = _Prior.of(DensityBins(shape))
        here = np.array([digit == "1" for digit in terms], dtype=np.bool_)
        assert prior.terms == len(terms)
        found = ["".join(str(int(x)) for x in model) for model in prior.neighbours(here)]
        assert found == others

    @pytest.mark.parametrize("people", [0.3, 30.0, 3000.0])
    def test_the_evidence_is_the_integral_over_coefficients(self, people: float) -> None:
        """Over two coefficients, on a grid; Laplace's is exact up to the skewness of the mode."""
        prior = _Prior.of(DensityBins((3,)))
        truth = np.array([0.4, 1.1, 1.5])
        known = GaussianNaturalParameters(people * np.array([[1.0, 0.2], [0.2, 0.5]]), np.zeros(2))
        known.weighted[:] = known.precision @ (prior.phi.T @ truth / 3)
        coefficients, _, evidence = prior.mode(known, (True,), np.zeros(2))

        line = np.linspace(-8.0, 8.0, 801)
        whitened = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
        shares = np.exp(whitened * prior.deviations @ prior.phi.T)
        moments = shares @ prior.phi / shares.sum(axis=1, keepdims=True)
        fit = moments @ known.weighted
        fit -= 0.5 * ((moments @ known.precision) * moments).sum(axis=1)
        log_density = fit - 0.5 * (whitened**2).sum(axis=1)
        assert coefficients == pytest.approx(
            prior.deviations * whitened[log_density.argmax()], abs=0.1
        )
        area = (line[1] - line[0]) ** 2 / (2.0 * np.pi)
        integral = np.log(np.exp(log_density - log_density.max()).sum() * area) + log_density.max()
        assert evidence - _LOG_ODDS == pytest.approx(integral, abs=0.5)

    @pytest.mark.parametrize("domain", [unit_cube(1), ZERO])
    def test_the_mode_is_the_largest_posterior(self, domain: Box) -> None:
        """Within the gain at which steps end, of what a general optimiser finds."""
        bins = CosineFeatures.of(domain.levels, 2).bins(implied(domain))
        prior, rng = _Prior.of(bins), np.random.default_rng(4)
        root = 0.7 * rng.standard_normal((20, prior.basis.shape[1]))
        kappa = np.exp(1.5 * rng.standard_normal(len(bins)))
        share = bins.volume / len(bins)
        moments = prior.basis.T @ (share * kappa / (share @ kappa))
        known = GaussianNaturalParameters(root.T @ root, root.T @ root @ moments)

        def loss(whitened: FloatArray) -> float:
            density = np.exp(prior.phi @ (prior.deviations * whitened))
            found = prior.basis.T @ (share * density / (share @ density))
            fit = found @ (known.weighted - 0.5 * known.precision @ found)
            return float(0.5 * whitened @ whitened - fit)

        all_terms = (True,) * prior.terms
        coefficients, shares, _ = prior.mode(known, all_terms, np.zeros(len(prior.deviations)))
        best = minimize(loss, np.zeros(len(prior.deviations)), method="BFGS")
        assert loss(coefficients / prior.deviations) < float(best.fun) + 0.02
        assert share @ shares == pytest.approx(1.0)

    def test_a_model_without_terms_is_uniform(self) -> None:
        prior = _Prior.of(DensityBins((24, 24)))
        size = len(prior.deviations)
        known = GaussianNaturalParameters(np.eye(size), np.ones(size))
        coefficients, shares, evidence = prior.mode(known, (False,) * 3, np.ones(size))
        assert (shares == 1.0).all()
        assert (coefficients == 0.0).all()
        assert evidence == 0.0

    def test_the_density_is_averaged_over_models(self) -> None:
        """Those one term from uniform, of which the likely ones are kept, the likeliest first."""
        policy = random_policy(SQUARE, 2, 4.0, 12, partitions=8)
        bins = DensityBins((None, None))
        prior, people = _Prior.of(bins), 60
        located = Measurements(policy).statistics(crowd(policy, people, 5)).located
        density = Density.uniform(bins).after(policy, located, people)
        known = GaussianNaturalParameters(density.precision, density.weighted)
        models = [(False,) * 3, (True, False, False), (False, True, False), (True,) * 3]
        modes = [prior.mode(known, terms, np.zeros(len(prior.deviations))) for terms in models]
        weights = np.exp([evidence for *_, evidence in modes])
        weights /= weights.sum()
        shares = np.maximum(weights @ np.array([shares for _, shares, _ in modes]), 0.01)
        assert np.sort(weights)[-2] > 0.02
        assert density.shares == pytest.approx(shares / shares.mean(), abs=5e-3)
        likely = [place for place in np.argsort(-weights) if weights[place] > 0.01 * weights.max()]
        assert density.terms.tolist() == [list(models[place]) for place in likely]
        for terms, coefficients in zip(density.terms, density.coefficients, strict=True):
            assert ((coefficients != 0.0) == terms[prior.term]).all()
        # Between two powers of 1.3 no other model is looked at.
        again = density.after(policy, located * 61 / 60, 61)
        assert {*map(tuple, again.terms.tolist())} <= {*map(tuple, density.terms.tolist())}

    def test_columns_that_are_independent_have_no_interactions(self) -> None:
        """The second column of `SKEWED` is even, and is found to be exactly so."""
        policy = random_policy(SQUARE, 2, 4.0, 12, partitions=8)
        located = Measurements(policy).statistics(crowd(policy, 12_000, 5)).located
        bins = DensityBins((None, None))
        density = Density.uniform(bins).after(policy, located, 12_000)
        assert density.terms[0].tolist() == [True, False, False]
        by_column = density.shares.reshape(bins.shape)
        assert distance(by_column.sum(axis=0), np.ones(24)) < 0.01
        assert distance(by_column.sum(axis=1), beta_law().reshape(bins.shape).sum(axis=1)) < 0.1


def test_located_sums_count_people_and_add() -> None:
    policy = random_policy(SQUARE, 2, 4.0, 6)
    reports = [crowd(policy, people, seed) for seed, people in enumerate((50, 200, 1))]
    sums = [Measurements(policy).statistics(one) for one in reports]
    total = sums[0] + sums[1] + sums[2]
    together = Measurements(policy).statistics(
        replace(
            reports[0],
            public_coins=np.concatenate([r.public_coins for r in reports]),
            places=np.concatenate([r.places for r in reports]),
            signs=np.concatenate([r.signs for r in reports]),
        )
    )
    assert np.allclose(total.located, together.located)
    assert total.placed == together.placed == 251
    # Each person is somewhere: their probabilities add up to 1, up to the integration.
    assert total.located.sum() == pytest.approx(251.0, rel=0.02)
    assert (total.located > 0.0).all()


def test_what_is_learnt_explains_the_reports() -> None:
    """Better than uniform, nearly as well as the truth, and better with more people."""
    bins, truth = DensityBins((None, None)), beta_law()
    policy = random_policy(SQUARE, 2, 4.0, 12, partitions=8)
    density, away = Density.uniform(bins), [distance(np.ones(len(truth)), truth)]
    located, fresh = np.zeros(len(truth)), crowd(policy, 20_000, 99)
    for seed in range(4):
        reports = crowd(policy, 3000, seed)
        located = located + Measurements(policy).statistics(reports).located
        density = density.after(policy, located, 3000 * (seed + 1))
        policy = replace(policy, density=density.shares)
        away.append(distance(density.shares, truth))
    assert away[1] < 0.6 * away[0]
    assert away[-1] < 0.35 * away[0]
    at_first = likelihood(replace(policy, density=np.ones(len(truth))), fresh)
    best = likelihood(replace(policy, density=truth + 1e-6), fresh)
    assert likelihood(policy, fresh) > at_first + 0.9 * (best - at_first)


@pytest.mark.slow
def test_the_law_of_contexts_is_learnt() -> None:
    """Beta(2, 5) contexts at epsilon 4; the distance of uniform people from it is 0.41."""
    problem = exponential().under(SKEWED)
    truth = beta_law()
    learner = LocalKernel(problem.domain, 3, Local(4.0), public_seed=1)
    rng = np.random.default_rng(1)
    people = problem.sample(5000, rng)
    seen: list[float] = []

    def watch(policy: Policy[Any], _: int) -> None:
        assert isinstance(policy, KernelPolicy)
        seen.append(distance(policy.density, truth))

    run_learner(learner, people, rng, SimulatedNoise(1001), [watch])
    start, quarter, end = seen[0], seen[len(seen) // 4], seen[-1]
    assert start == pytest.approx(0.41, abs=0.02)
    assert end < 0.4 * start
    assert end < quarter < start


@pytest.mark.slow
def test_uniform_contexts_stay_nearly_uniform() -> None:
    problem = exponential()
    learner = LocalKernel(problem.domain, 3, Local(4.0))
    rng = np.random.default_rng(3)
    run_learner(learner, problem.sample(2000, rng), rng, SimulatedNoise(1003))
    found = learner.policy().density
    assert learner._sums.placed > 0
    assert distance(found, np.ones(len(found))) < 0.03


def test_contexts_are_located_first() -> None:
    """A wrong density spoils what is measured: there are several cells where epsilon allows it."""
    problem = exponential()
    learner = LocalKernel(problem.domain, 3, Local(1.5))
    rng = np.random.default_rng(6)
    run_learner(learner, problem.sample(300, rng), rng, SimulatedNoise(1006))
    private = [policy for policy in learner._policies if isinstance(policy, KernelPolicy)]
    assert all(policy.cells.count >= 2 for policy in private if not policy.ranks.asked.size)


def test_reports_of_parts_of_columns_count_by_their_own_policies() -> None:
    """While columns are asked about: a policy may ask about some of them only."""
    problem = exponential(arms=2)
    learner = LocalKernel(problem.domain, 2, Local(1.0), horizon=60_000, batch=60, public_seed=2)
    rng = np.random.default_rng(2)
    run_learner(learner, problem.sample(900, rng), rng, SimulatedNoise(1002))
    density, policies = learner._densities["target"], learner._policies
    asking = [policy for policy in policies if policy.ranks.asked.size]
    assert len({policy.ranks.asked.size for policy in asking}) == 2
    assert not learner._ranks.asked.size
    phi = _Prior.of(learner.features.bins()).phi
    people = [60] * len(asking)
    expected = sum(
        count * _fisher_information(policy, phi)
        for count, policy in zip(people, asking, strict=True)
    )
    assert density.placed == sum(people)
    assert np.allclose(density.precision, expected)


def test_in_many_columns_nothing_is_learnt_of_where_people_are() -> None:
    domain = unit_cube(9)
    learner = LocalKernel(domain, 2, Local(4.0))
    rng = np.random.default_rng(7)
    contexts = rng.random((90, 9))
    for part in np.split(contexts, 3):
        policy = learner.policy()
        actions, _ = policy.act(part, rng)
        learner.update(policy.report(part, actions, np.ones(30), SimulatedNoise(1007)))
    learner.policy()
    assert learner._sums.placed > 0
    assert learner.policy().density.tolist() == [1.0]
    with pytest.raises(InvalidInput, match="says where its people are"):
        learner.value(contexts=contexts)


@pytest.mark.slow
def test_one_cell_says_nothing_about_where_people_are() -> None:
    """At epsilon 1 there is one cell, and the learner finds kappa f."""
    problem = exponential().under(SKEWED)
    learner = LocalKernel(problem.domain, 3, Local(1.0))
    rng = np.random.default_rng(4)
    run_learner(learner, problem.sample(2500, rng), rng, SimulatedNoise(1004))
    assert all(policy.cells.count == 1 for policy in learner._policies)
    assert (learner.policy().density == 1.0).all()
    assert learner._sums.placed == 0
    assert (learner._sums.located == 0.0).all()
