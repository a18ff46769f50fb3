"""What sums of rows tell: their mean and covariance, the posterior, and how well it is used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from discreet.gaussian import GaussianNaturalParameters
from discreet.lab.environments.kernel_grid import GridPopulation, KernelGridProblem
from discreet.lab.experiments import run_learner
from discreet.learners.epochs.capri import BernsteinElimination, Capri, PosteriorElimination
from discreet.learners.epochs.contribution import (
    BOUND,
    SCALES,
    believe,
)
from discreet.learners.epochs.learner import EpochLearner
from discreet.privacy import Joint, Local, NonPrivate, SimulatedNoise

from .cases import GRID, LEVELS, People, learner, serve

PROBLEM = KernelGridProblem(contexts=6, arms=8, length_scale=0.4)


def on_the_grid(
    make: Any, budget: Any, people: int, seed: int, **options: Any
) -> tuple[EpochLearner, GridPopulation, np.ndarray]:
    """A learner that served people of the problem, the people, and their regrets."""
    crowd = PROBLEM.sample(people, np.random.default_rng([seed, 1]))
    noise = SimulatedNoise(seed)
    made = make(
        PROBLEM.domain,
        PROBLEM.space,
        budget,
        noise=noise if isinstance(budget, Joint) else None,
        horizon=people,
        reward_bounds=PROBLEM.reward_bounds,
        kernel="RBF([0.4, 0.4])",
        reward_noise=PROBLEM.noise,
        **{"error": 0.001, **options},
    )
    return made, crowd, run_learner(made, crowd, np.random.default_rng([seed, 2]), noise)


class TestMoments:
    """Of what one person adds, where nothing is cut: with a reward noise as wide as the rewards."""

    PEOPLE = 40_000

    def drawn(self, version: int, budget: Any) -> tuple[EpochLearner, Any, np.ndarray, np.ndarray]:
        made = learner("posterior", budget, reward_noise=1.0)
        policy = serve(made, People(200, 1))[version]
        rng = np.random.default_rng(2)
        theta = rng.standard_normal(made.features.features)
        theta *= 0.25 / np.abs(made.features.table @ theta).max()
        contexts = GRID[rng.integers(LEVELS, size=self.PEOPLE)]
        actions, _ = policy.act(contexts, rng)
        mean = (made.features.at(contexts, actions.arms) * theta).sum(axis=1)
        rewards = 0.5 + mean + rng.uniform(-0.2, 0.2, self.PEOPLE)
        rows = policy.contributions_of(contexts, actions.arms, rewards)
        return made, policy, theta, rows * policy.contribution.clipping_norm

    @pytest.mark.parametrize("version", [0, 1, 2])
    @pytest.mark.parametrize("budget", [Joint(2.0, 1e-5), NonPrivate()], ids=["joint", "none"])
    def test_mean(self, version: int, budget: Any) -> None:
        made, policy, theta, rows = self.drawn(version, budget)
        expected = made.expected(policy.version)
        error = rows.std(axis=0) / np.sqrt(self.PEOPLE)
        predicted = expected.slope @ theta - expected.offset
        assert (np.abs(rows.mean(axis=0) - predicted) <= 4.0 * error + 1e-12).all()
        if version:
            assert (np.abs(expected.offset) > 10.0 * error).any(), "there is a control variate"

    @pytest.mark.parametrize("version", [0, 2])
    def test_covariance(self, version: int) -> None:
        made, policy, _, rows = self.drawn(version, Joint(2.0, 1e-5))
        spread = made.expected(policy.version).spread
        root = np.linalg.inv(np.linalg.cholesky(spread))
        largest = np.linalg.eigvalsh(root @ np.cov(rows.T).reshape(spread.shape) @ root.T).max()
        assert largest <= 1.0 + 4.0 * np.sqrt(2.0 / self.PEOPLE)

    def test_information_recovers_what_was_there(self) -> None:
        made, policy, theta, rows = self.drawn(1, NonPrivate())
        expected = made.expected(policy.version)
        total = rows.sum(axis=0) / policy.contribution.clipping_norm
        told = expected.information(total, self.PEOPLE, 0.0)
        assert np.allclose(told.precision, told.precision.T, atol=1e-9 * told.precision.max())
        belief = believe(told)
        error = made.pairs @ (belief.mean - theta)
        deviations = np.sqrt(((made.pairs @ belief.root) ** 2).sum(axis=1))
        assert (np.abs(error) <= 5.0 * deviations).all()
        assert np.abs(error).max() < 0.05

    def test_information_adds(self) -> None:
        made, policy, _, rows = self.drawn(1, NonPrivate())
        expected = made.expected(policy.version)
        halves = [rows[::2], rows[1::2]]
        parts = [
            expected.information(
                half.sum(axis=0) / policy.contribution.clipping_norm, len(half), 0.0
            )
            for half in halves
        ]
        together = expected.information(
            rows.sum(axis=0) / policy.contribution.clipping_norm, len(rows), 0.0
        )
        added = parts[0] + parts[1]
        assert np.allclose(added.precision, together.precision, rtol=1e-9)
        assert np.allclose(added.weighted, together.weighted, rtol=1e-9)
        nothing = GaussianNaturalParameters.zeros(made.features.features)
        assert np.array_equal((nothing + added).weighted, added.weighted)


class TestPosterior:
    @pytest.mark.parametrize(
        ("budget", "people"),
        [(Joint(4.0, 1e-5), 3000), (Local(4.0), 3000), (NonPrivate(), 1000)],
        ids=["joint", "local", "none"],
    )
    def test_it_is_as_sure_as_it_may_be(self, budget: Any, people: int) -> None:
        scores = []
        for seed in range(6):
            made, crowd, _ = on_the_grid(Capri, budget, people, seed)
            bounds = PROBLEM.reward_bounds
            truth = crowd.function.ravel() / (bounds.upper - bounds.lower)
            belief = believe(made.information())
            deviations = np.sqrt(((made.pairs @ belief.root) ** 2).sum(axis=1))
            scores.append((truth - made.pairs @ belief.mean) / deviations)
        assert 0.7 <= np.sqrt(np.mean(np.square(scores))) <= 1.4

    def test_the_level_is_the_likeliest(self) -> None:
        """Against the marginal likelihoods of nine noisy sums of theta, level by level."""
        rng, noise = np.random.default_rng(0), 0.4
        design = rng.standard_normal((9, 6))
        theta = np.array([0.3, -0.4, 0.1, 0.0, 0.2, 0.1])
        seen = design @ theta + noise * rng.standard_normal(9)
        precision, shift = design.T @ design / noise**2, design.T @ seen / noise**2
        belief = believe(GaussianNaturalParameters(precision, shift))
        evidence = []
        for scale in SCALES:
            spread = (scale * BOUND) ** 2 * design @ design.T + noise**2 * np.eye(9)
            density = multivariate_normal(np.zeros(9), spread).logpdf(seen)
            evidence.append(density - 0.5 * np.log2(2.0 * scale) ** 2)
        likeliest = (SCALES[int(np.argmax(evidence))] * BOUND) ** 2
        covariance = np.linalg.inv(precision + np.eye(6) / likeliest)
        assert 0 < np.argmax(evidence) < len(SCALES) - 1
        assert np.allclose(belief.root @ belief.root.T, covariance, rtol=1e-9)
        assert belief.mean == pytest.approx(covariance @ shift, rel=1e-9)

    def test_before_anything_is_known(self) -> None:
        belief = believe(GaussianNaturalParameters.zeros(7))
        assert (belief.mean == 0.0).all()
        assert np.allclose(belief.root @ belief.root.T, belief.root[0] @ belief.root[0] * np.eye(7))


class TestRegret:
    @pytest.mark.parametrize(
        ("budget", "share"),
        [(Joint(2.0, 1e-5), 0.35), (Local(4.0), 0.6), (NonPrivate(), 0.2)],
        ids=["joint", "local", "none"],
    )
    def test_it_is_well_below_uniform(self, budget: Any, share: float) -> None:
        _, crowd, regret = on_the_grid(Capri, budget, 3000, 0)
        uniform = crowd.function.max(axis=1) - crowd.function.mean(axis=1)
        assert regret.sum() <= share * uniform[crowd.cells].sum()

    @pytest.mark.parametrize("budget", [Joint(4.0, 1e-5), NonPrivate()], ids=["joint", "none"])
    def test_capri_keeps_the_best_arm(self, budget: Any) -> None:
        kept, given_up = 0, 0.0
        for seed in range(3):
            made, crowd, _ = on_the_grid(
                Capri, budget, 5000, seed, calibration=PosteriorElimination(deviations=3.0)
            )
            assert isinstance(made, Capri)
            best = crowd.function.argmax(axis=1)
            kept += bool(made.active[np.arange(6), best].all())
            given_up += 1.0 - made.active.mean()
        assert kept == 3
        assert given_up > 3 * 0.2


def released(made: Any, rule: BernsteinElimination) -> tuple[np.ndarray, np.ndarray]:
    """What is estimated after the first epoch, and the widths that the rule gives it."""
    if not isinstance(made.budget, Local):
        made._release()
    last = made.last_estimate()
    assert last is not None
    policy, count, estimate, chances = last
    return estimate, rule.widths(made, policy.contribution, chances, count)


class TestBernstein:
    @pytest.mark.parametrize(
        "budget", [Joint(4.0, 1e-5), Local(4.0), NonPrivate()], ids=["joint", "local", "none"]
    )
    def test_widths_cover_the_function(self, budget: Any) -> None:
        rule, covered, ratios = BernsteinElimination(norm=0.8, failure=0.05), 0, []
        for seed in range(25):
            rng = np.random.default_rng(seed)
            noise = SimulatedNoise(seed) if isinstance(budget, Joint) else None
            made = learner("bernstein", budget, noise, horizon=4000)
            made.calibration = rule  # type: ignore[attr-defined]
            theta = rng.standard_normal(made.features.features)
            theta *= 0.8 / np.linalg.norm(theta)
            truth = made.features.table @ theta
            scale = min(1.0, 0.5 / np.abs(truth).max())
            theta, truth = scale * theta, scale * truth
            policy, people = made.policy(), made.batch_size
            cells = rng.integers(LEVELS, size=people)
            actions, _ = policy.act(GRID[cells], rng)
            # Rewards of 0 and 1 only: as noisy as they can be.
            rewards = rng.random(people) < 0.5 + truth[cells, actions.arms]
            made.update(
                policy.report(GRID[cells], actions, rewards.astype(float), SimulatedNoise(seed))
            )
            estimate, width = released(made, rule)
            error = np.abs(estimate - truth.ravel())
            covered += bool((error <= width).all())
            ratios.append((error / width).max())
        assert covered >= 24
        assert np.median(ratios) >= 0.02, "widths so large that they could not fail say nothing"

    @pytest.mark.parametrize(
        ("budget", "least"),
        [(Joint(4.0, 1e-5), 0.3), (Local(4.0), 0.1), (NonPrivate(), 0.3)],
        ids=["joint", "local", "none"],
    )
    def test_widths_of_chance_alone(self, budget: Any, least: float) -> None:
        """Where nothing is there to be found, and rewards are as noisy as they can be."""
        rule, ratios = BernsteinElimination(norm=1e-6, failure=0.5), []
        for seed in range(20):
            rng = np.random.default_rng(seed)
            noise = SimulatedNoise(seed) if isinstance(budget, Joint) else None
            made = learner("bernstein", budget, noise, horizon=4_000_000)
            made.calibration = rule  # type: ignore[attr-defined]
            policy, people = made.policy(), made.batch_size
            contexts = GRID[rng.integers(LEVELS, size=people)]
            actions, _ = policy.act(contexts, rng)
            rewards = rng.integers(2, size=people).astype(float)
            made.update(policy.report(contexts, actions, rewards, SimulatedNoise(seed)))
            estimate, width = released(made, rule)
            ratios.append((np.abs(estimate) / width).max())
        assert np.mean(np.array(ratios) <= 1.0) >= 0.95
        assert np.median(ratios) >= least

    def test_it_gives_up_arms_when_there_are_many_people(self) -> None:
        made, crowd, _ = on_the_grid(
            Capri, NonPrivate(), 60_000, 0, calibration=BernsteinElimination(norm=2.0), error=1e-6
        )
        assert isinstance(made, Capri)
        best = crowd.function.argmax(axis=1)
        assert made.active[np.arange(6), best].all()
        assert made.active.mean() < 0.95
