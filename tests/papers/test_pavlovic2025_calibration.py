"""CAPRI and USCA as published, against the kernel formulas of the papers."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.lab.environments.kernel_grid import KernelGridProblem
from discreet.lab.experiments import run_learner
from discreet.learners.epochs.capri import Capri
from discreet.learners.epochs.contribution import BOUND
from discreet.learners.epochs.sums import contribution_sensitivity
from discreet.learners.epochs.usca import Usca
from discreet.learners.saving import load, save
from discreet.papers.pavlovic2025.calibration import (
    PublishedElimination,
    PublishedUsca,
    beta,
    beta_1,
    drawn_counts,
    information_gain,
    noise_deviation,
    projected_turn,
    surrogate_deviation,
)
from discreet.privacy import Budget, Joint, Local, NonPrivate, SimulatedNoise
from discreet.privacy.accounting import gaussian_epsilon
from discreet.validation import FloatArray, InvalidInput

PROBLEM = KernelGridProblem(contexts=4, arms=5)
BUDGET = Joint(2.0, 1e-5)


def capri(rule: PublishedElimination, budget: Budget = BUDGET, horizon: int = 400) -> Capri:
    return Capri(
        PROBLEM.domain,
        PROBLEM.space,
        budget,
        calibration=rule,
        horizon=horizon,
        reward_bounds=PROBLEM.reward_bounds,
        public_seed=3,
        noise=SimulatedNoise(1),
    )


def usca(budget: Budget = BUDGET, horizon: int = 60, **options: Any) -> Usca:
    return Usca(
        PROBLEM.domain,
        PROBLEM.space,
        budget,
        horizon=horizon,
        reward_bounds=PROBLEM.reward_bounds,
        public_seed=3,
        noise=SimulatedNoise(1),
        **{"design": "uniform", "predictions": 1, "calibration": PublishedUsca(), **options},
    )


def features(points: int, size: int, seed: int = 0) -> FloatArray:
    drawn = np.random.default_rng(seed).standard_normal((points, size))
    phi: FloatArray = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return phi


def inverse_root(matrix: FloatArray) -> FloatArray:
    """M^(-1/2) on the range of M."""
    values, axes = np.linalg.eigh(matrix)
    kept = values > 1e-10 * values[-1]
    root: FloatArray = (axes[:, kept] / np.sqrt(values[kept])) @ axes[:, kept].T
    return root


# S of fewer points than features, of all directions with points twice, and of one point often.
SETS = ([0, 3, 5], [1, 1, 2, 4, 6, 6, 7, 0], [2, 2, 2])


@pytest.mark.parametrize("basis", SETS)
@pytest.mark.parametrize("tau", [0.3, 1.0, 4.0])
def test_rows_in_m_dimensions_are_those_of_the_kernel_formula(basis: list[int], tau: float) -> None:
    phi = features(8, 5)
    kernel = phi @ phi.T
    covariance = [0, 1, 1, 3, 5, 7, 7, 7]
    k_sr, k_ss = kernel[np.ix_(basis, covariance)], kernel[np.ix_(basis, basis)]
    theirs = inverse_root(k_sr @ k_sr.T + tau * k_ss) @ kernel[basis]  # M^(-1/2) k_S(w)

    counts = [np.bincount(points, minlength=8).astype(float) for points in (basis, covariance)]
    turn, span = projected_turn(phi, counts[0], counts[1], tau)
    ours = (phi @ turn).T
    # The same inner products: one is an isometry of the other, for rows and for what noise does.
    assert np.allclose(ours.T @ ours, theirs.T @ theirs, atol=1e-9)
    # The estimator (4) without noise.
    rewards = np.array([0.5, -0.2, 0.1])
    seen = [4, 0, 6]
    assert np.allclose(ours.T @ ours[:, seen] @ rewards, theirs.T @ theirs[:, seen] @ rewards)

    # (6), with K_SS inverted on its range.
    inverse = inverse_root(k_ss) @ inverse_root(k_ss)
    inner = tau * np.eye(len(covariance)) + k_sr.T @ inverse @ k_sr
    middle = inverse @ k_sr @ np.linalg.solve(inner, k_sr.T) @ inverse
    left = np.diag(kernel) - np.einsum("sw,st,tw->w", kernel[basis], middle, kernel[basis])
    sigma = surrogate_deviation(phi, turn, span, tau)
    assert tau * sigma**2 == pytest.approx(left.max())


def test_the_constants_of_a_hand_example() -> None:
    # T = 1000: log T = 6.907755 and sqrt(log(1.25 log T / 1e-5)) = 3.697122, B = 1/2.
    budget = Joint(2.0, 1e-5)
    assert noise_deviation(budget, 1000, 0.1) == pytest.approx(
        0.1 * 4.0 * 0.5 * 6.907755 / 2.0 * 3.697122, rel=1e-6
    )
    # delta = 0.06, tau = 4: log(168000 / 0.06) = 14.845130, log(200) = 5.298317.
    first = 90.0 * 0.5 * 3.852938 + 52.0 * 0.5 * math.sqrt(14.845130 * 5.298317) / 2.0
    last = 3.0 * 0.5 * math.sqrt(2.0 * math.log(100.0)) + math.sqrt(96.0)
    assert beta(0.06, 1000, 4.0) == pytest.approx(first + last, rel=1e-6)
    # log(3 / 0.06) = 3.912023.
    assert beta_1(budget, 0.06, 1000) == pytest.approx(
        8.0 * 0.5 * 6.907755 / 2.0 * 3.912023 * 3.697122, rel=1e-6
    )


def test_information_gain_of_known_kernels() -> None:
    one = np.ones((3, 1))
    assert information_gain(one, 10, 2.0) == pytest.approx(0.5 * math.log(1.0 + 5.0))
    # Points that have nothing to do with each other share the rounds equally.
    apart = np.vstack([np.eye(4), np.eye(4)])
    assert information_gain(apart, 8, 1.0) == pytest.approx(4 * 0.5 * math.log(3.0))
    # No choice of points gains more; all of 12 are tried.
    phi = features(4, 3)
    tried = [
        0.5 * float(np.linalg.slogdet(np.eye(3) + phi[list(some)].T @ phi[list(some)])[1])
        for some in product(range(4), repeat=4)
    ]
    assert max(tried) <= information_gain(phi, 4, 1.0) + 1e-6
    assert information_gain(phi, 4, 1.0) < max(tried) + 0.2


def test_draws_are_public_and_apart() -> None:
    chances = np.array([0.5, 0.5, 0.0])
    first = drawn_counts(chances, 1000, 7, 0)
    assert first.sum() == 1000
    assert first[2] == 0.0
    assert abs(first[0] - 500.0) < 80.0
    assert (drawn_counts(chances, 1000, 7, 0) == first).all()
    assert (drawn_counts(chances, 1000, 7, 1) != first).any()
    assert (drawn_counts(chances, 1000, 8, 0) != first).any()


def test_published_rows_move_a_release_as_far_as_the_library_says() -> None:
    rule = PublishedElimination()
    learner = capri(rule)
    contribution, deviation = (
        learner.policy().contribution,
        rule.deviation(learner, learner.policy()),
    )
    pairs = learner.pairs
    rewards = (np.full(len(pairs), y) for y in (-BOUND, 0.3, BOUND))
    everyone = np.vstack([contribution.contributions(pairs, each) for each in rewards])
    apart = np.linalg.norm(everyone[:, None] - everyone, axis=2)
    assert apart.max() <= contribution_sensitivity(contribution.size)
    assert apart.max() == pytest.approx(2.0, abs=1e-6)
    # Rows are at most B sigma long, less where S leaves features out, and none is cut.
    assert 0.5 * BOUND * deviation < contribution.clipping_norm < BOUND * deviation
    plain = pairs @ contribution.projection * 0.3 / contribution.clipping_norm
    assert np.allclose(contribution.contributions(pairs, np.full(len(pairs), 0.3)), plain)


def test_the_noise_is_as_printed_and_holds_what_the_formula_says() -> None:
    learner = capri(PublishedElimination())
    assert isinstance(learner.calibration, PublishedElimination)
    noise = SimulatedNoise(2)
    people = PROBLEM.sample(400, np.random.default_rng(0))
    run_learner(learner, people, np.random.default_rng(1), noise)
    assert [policy.version for policy in learner._policies] == [0, 1, 2, 3, 4]
    assert (learner.active).all()
    for drawn in learner._released.drawn:
        policy = learner.published(drawn.version)
        deviation = learner.calibration.deviation(learner, policy)
        printed = noise_deviation(BUDGET, 400, deviation)
        assert drawn.scale * policy.contribution.clipping_norm == pytest.approx(printed, rel=1e-6)
    held = learner.guarantee().epsilon
    # 2 log T sqrt(log(1.25 log T / delta)) / epsilon times the sensitivity.
    multiplier = math.log(400) * math.sqrt(math.log(1.25e5 * math.log(400)))
    assert held == pytest.approx(gaussian_epsilon(multiplier, 1e-5), rel=1e-4)
    assert 0.0 < held < 0.1 * BUDGET.epsilon


def test_widths_are_far_beyond_rewards_and_deviations_give_arms_up() -> None:
    # So much epsilon that hardly any noise is left.
    budget = Joint(1e4, 1e-5)
    people = PROBLEM.sample(5000, np.random.default_rng(5))
    left = []
    for rule in (PublishedElimination(), PublishedElimination(deviations=3.0)):
        learner = capri(rule, budget, horizon=5000)
        run_learner(learner, people, np.random.default_rng(1), SimulatedNoise(2))
        assert 4.0 * rule.width(learner, learner.policy()) > 1.0
        left.append(learner.active)
    assert left[0].all()
    assert left[1].mean() < 0.7
    assert left[1][np.arange(4), people.function.argmax(axis=1)].all()


def test_usca_is_that_of_the_kernel_formulas() -> None:
    learner = usca(Joint(2.0, 0.0))
    people = PROBLEM.sample(60, np.random.default_rng(0))
    policy = learner.policy()
    actions, _ = policy.act(people.contexts, np.random.default_rng(1))
    rewards = people.received(actions, 0)
    learner.update(policy.report(people.contexts, actions, rewards, SimulatedNoise(0)))

    phi, tau = learner.pairs, 1.0
    repeats = math.ceil(60 / information_gain(phi, 60, tau))
    uniform = np.full(len(phi), 1.0 / len(phi))
    counts = drawn_counts(uniform, 60 * repeats, 3, 2).astype(int)
    points = np.repeat(np.arange(len(phi)), counts)
    assert len(points) == 60 * repeats
    kernel = phi @ phi.T
    inner = kernel[np.ix_(points, points)] + repeats * tau * np.eye(len(points))
    solved = np.linalg.solve(inner, kernel[points])
    sigma = (np.diag(kernel) - (kernel[points] * solved).sum(axis=0)) / tau  # (5)
    seen = people.cells * PROBLEM.arms + actions.arms
    # The scale of rewards in [0, 1], centred.
    y = (rewards - PROBLEM.reward_bounds.lower) / 2.1 - 0.5
    mean = (kernel[:, seen] @ y - solved.T @ kernel[np.ix_(points, seen)] @ y) / tau  # (4)
    weights = np.exp(2.0 * mean / (4.0 * BOUND * sigma.max())).reshape(4, 5)

    told = learner.secret_probabilities(PROBLEM.grid[:, None])
    assert np.allclose(told, weights / weights.sum(axis=1, keepdims=True), rtol=1e-6)


def test_usca_holds_about_half_of_its_promise_by_brute_force() -> None:
    learner = usca(Joint(1.0, 0.0))
    contribution = learner.policy().contribution
    divisor = PublishedUsca().score_range(learner, contribution)
    turned = learner.pairs @ contribution.projection
    # What one person with y = 1/2 or -1/2 adds to the scores of all pairs.
    shares = np.vstack([turned @ turned.T * BOUND, -turned @ turned.T * BOUND])
    worst = 0.0
    for base in np.vstack([np.zeros(len(turned)), 8.0 * shares]):
        scores = (base + shares).reshape(len(shares), 4, 5) / divisor
        logs = scores - np.log(np.exp(scores).sum(axis=2, keepdims=True))
        worst = max(worst, float((logs.max(axis=0) - logs.min(axis=0)).max()))
    # The bound for any data is nearly reached by these.
    assert 0.85 * learner.cost_of_one < worst <= learner.cost_of_one
    assert 0.4 < learner.cost_of_one < 0.75

    people = PROBLEM.sample(60, np.random.default_rng(0))
    run_learner(learner, people, np.random.default_rng(1), SimulatedNoise(2))
    assert learner.guarantee().epsilon == 0.0
    learner.predict(people.contexts[:1])
    assert learner.guarantee().epsilon == pytest.approx(learner.cost_of_one)
    assert learner.predictions_left == 0


def test_a_calibration_that_promises_too_much_is_found_out() -> None:
    class Careless(PublishedUsca):
        def score_range(self, learner: Usca, contribution: Any) -> float:
            return 0.1 * super().score_range(learner, contribution)

    learner = usca(Joint(1.0, 0.0), calibration=Careless())
    learner.policy()
    assert learner.cost_of_one > 4.0


def test_own_ranges_cost_what_was_promised() -> None:
    learner = usca(Joint(1.0, 0.0), calibration=None)
    learner.policy()
    assert learner.mechanism_of_one is not None
    assert learner.cost_of_one == learner.mechanism_of_one.epsilon == 1.0


@pytest.mark.parametrize(
    "make",
    [lambda: capri(PublishedElimination(deviations=3.0)), lambda: usca(horizon=400)],
    ids=["capri", "usca"],
)
def test_what_is_as_published_is_saved_and_goes_on_the_same(make: Any, tmp_path: Path) -> None:
    learner, noise = make(), SimulatedNoise(2)
    people = PROBLEM.sample(200, np.random.default_rng(0))
    run_learner(learner, people, np.random.default_rng(1), noise)
    save(learner, tmp_path / "learner")
    again = load(tmp_path / "learner", copy.deepcopy(learner.noise))
    assert again.calibration == learner.calibration
    assert again.releases == learner.releases
    for each in (learner, again):
        run_learner(each, people, np.random.default_rng(3), SimulatedNoise(4))
    assert again.policy().digest == learner.policy().digest
    assert again.guarantee() == learner.guarantee()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PublishedElimination(deviations=0.0), "deviations"),
        (lambda: PublishedElimination(regulariser=-1.0), "regulariser"),
        (lambda: PublishedElimination(failure=1.0), "failure"),
        (lambda: PublishedElimination(design="optimal"), "must be 'uniform'"),  # type: ignore[arg-type]
        (lambda: PublishedUsca(regulariser=0.0), "regulariser"),
        (lambda: capri(PublishedElimination(), Local(1.0)).policy(), r"Joint\(epsilon, delta\)"),
        (lambda: capri(PublishedElimination(), NonPrivate()).policy(), r"Joint\(epsilon, delta\)"),
        (lambda: usca(predictions=None), "predictions"),
        (lambda: usca(contexts=[[0.0], [1.0]]), "finite set"),
    ],
)
def test_bad_input_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()
