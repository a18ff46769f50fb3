"""The prior of a given kernel, and rewards clipped about predicted ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF

from discreet.gaussian import GaussianNaturalParameters
from discreet.lab.environments.kernel_grid import KernelGridProblem
from discreet.lab.experiments import Setting, simulate_all
from discreet.lab.experiments.simulation import run_learner
from discreet.learners.kernel.design import Measurements
from discreet.learners.kernel.features import CosineFeatures
from discreet.learners.kernel.joint import JointKernel, _root
from discreet.learners.kernel.policy import KernelPolicy
from discreet.learners.kernel.posterior import Hyperparameters
from discreet.learners.kernel.prior_knowledge import KernelPrior, NoiseBound
from discreet.learners.registry import make_learner
from discreet.people.domain import ArmPoints, Box, RewardBounds, unit_cube
from discreet.privacy import Budget, Joint, Local, SimulatedNoise
from discreet.validation import FloatArray, InvalidInput

from .scene import SQUARE, random_policy, reported
from .test_measurement import exact_means, spread, true_theta, within_span

LINE = Box((0.0,), (2.0,))
DOSES = ArmPoints.of([1.0, 2.0, 3.0, 5.0])
ONE = Hyperparameters((1.0,), 0.2)


def known(text: str = "RBF([0.8, 1.5])", arms: Any = DOSES, domain: Box = LINE) -> KernelPrior:
    count = arms if isinstance(arms, int) else len(arms)
    return KernelPrior.of(text, domain, arms, CosineFeatures.of(domain.levels, count))


def covariance(at: FloatArray, arms: FloatArray, kernel: Any) -> FloatArray:
    """(n K, n K) .2 (k + 1) at contexts and arm points."""
    joined = np.column_stack([np.repeat(at, len(arms)), np.tile(arms, len(at))])
    return 0.2 * (np.asarray(kernel(joined)) + 1.0)


def test_the_posterior_is_that_of_the_gaussian_process() -> None:
    """Before reports, and after measurements of the functions at a few contexts and arms."""
    made, points, rng = known(), DOSES.array[:, 0], np.random.default_rng(0)
    at = np.array([0.1, 0.5, 0.9, 1.4, 1.9])
    prior = covariance(at, points, RBF([0.8, 1.5]))
    size = len(made.features)
    phi = made.features(LINE.to_unit(at[:, None]))
    rows = np.kron(phi, np.eye(len(points))).reshape(-1, size, len(points))
    rows = rows.transpose(0, 2, 1).reshape(len(prior), -1)  # of context and arm, by arm and feature
    nothing = GaussianNaturalParameters.zeros(rows.shape[1])
    before = made.posterior(ONE, nothing)

    def at_the_contexts(found: Any) -> tuple[FloatArray, FloatArray]:
        used = (np.arange(len(points))[:, None] * size + found.used).ravel()
        half = rows[:, used] @ found.half
        return rows[:, used] @ found.mean.ravel(), half @ half.T

    mean, variance = at_the_contexts(before)
    assert np.abs(mean).max() == 0.0
    assert np.abs(variance - prior).max() < 2e-3
    assert before.evidence == 0.0
    # After 2 f - 1 was measured at every second context and arm, with noise of variance 1 / 40.
    seen = np.arange(0, len(prior), 2)
    inner = prior[np.ix_(seen, seen)]
    values = np.linalg.cholesky(inner + 1e-9 * np.eye(len(seen))) @ rng.standard_normal(len(seen))
    information = GaussianNaturalParameters(
        40.0 * rows[seen].T @ rows[seen], 40.0 * rows[seen].T @ values
    )
    found = made.posterior(ONE, information)
    mean, variance = at_the_contexts(found)
    gram = inner + np.eye(len(seen)) / 40.0
    gain = np.linalg.solve(gram, prior[seen]).T
    assert np.abs(mean - gain @ values).max() < 0.02
    assert np.abs(variance - (prior - gain @ prior[seen])).max() < 2e-3
    deviations = found.deviations(phi[:, found.used]).ravel()
    assert np.allclose(deviations**2, np.diag(variance))
    # Evidence up to what the prior does not change.
    precision = 40.0 * values @ values
    exact = -0.5 * values @ np.linalg.solve(gram, values) - 0.5 * np.linalg.slogdet(40.0 * gram)[1]
    assert found.evidence == pytest.approx(exact + 0.5 * precision, abs=0.1)
    assert 0.0 < found.degrees_of_freedom < len(seen)
    vectors = rng.standard_normal((found.mean.size, 2))
    assert np.allclose(found.covariance_times(vectors), found.half @ (found.half.T @ vectors))


def test_arms_without_points_share_half_of_the_kernel() -> None:
    made = known("RBF(0.5)", 3, unit_cube(1))
    found = made.posterior(ONE, GaussianNaturalParameters.zeros(3 * len(made.features)))
    halves = found.half.reshape(3, len(found.used), -1)
    phi = made.features(np.array([[0.3], [0.6]]))[:, found.used]
    along = [phi @ half for half in halves]
    near = np.exp(-0.5 * (0.3 / 0.5) ** 2)
    assert float(along[0][0] @ along[0][1]) == pytest.approx(0.2 * (near + 1.0), abs=2e-3)
    assert float(along[0][0] @ along[1][1]) == pytest.approx(0.2 * (0.5 * near + 1.0), abs=2e-3)


def test_nearly_constant_and_very_rough_kernels() -> None:
    """No more directions than coefficients; and what features cannot show is said."""
    flat = known("Matern([100.0, 100.0], nu=2.5)")
    found = flat.posterior(ONE, GaussianNaturalParameters.zeros(4 * len(flat.features)))
    assert found.half.shape[1] <= found.mean.size
    assert flat.left_out < 1e-4
    made = make_learner(
        "kernel", unit_cube(2), 60, Local(1.0), options={"kernel": "RBF([0.03, 0.03])"}
    )
    (warning,) = made.warnings
    assert "leave out 84% of its kernel" in warning
    assert not make_learner(
        "kernel", unit_cube(2), 3, Local(1.0), options={"kernel": "RBF([0.5, 0.5])"}
    ).warnings


def test_evidence_selects_the_factor_of_the_length_scales() -> None:
    """Of a function that varies twice as slowly as the kernel says."""
    made = known("RBF(0.15)", 2, unit_cube(1))
    rng = np.random.default_rng(5)
    at = rng.random((400, 1))
    grid = np.linspace(0.0, 1.0, 200)[:, None]
    drawn = np.linalg.cholesky(RBF(0.3)(grid) + 1e-9 * np.eye(200)) @ rng.standard_normal((200, 2))
    size = len(made.features)
    phi, information = made.features(at), GaussianNaturalParameters.zeros(2 * size)
    for arm in range(2):
        rows = np.zeros((400, 2 * size))
        rows[:, arm * size : (arm + 1) * size] = phi
        values = 0.4 * np.interp(at[:, 0], grid[:, 0], drawn[:, arm])
        information += GaussianNaturalParameters(100.0 * rows.T @ rows, 100.0 * rows.T @ values)
    learnt = made.learnt(information)
    assert learnt.best.length_scales == (2.0,)
    assert sum(learnt.weights) == pytest.approx(1.0)
    assert len(learnt.candidates) < len(made.prior.candidates)
    assert {each.length_scales for each in made.prior.candidates} == {
        (2.0,),
        (1.0,),
        (0.5,),
        (0.25,),
    }


@pytest.mark.parametrize("deviation", [0.05, 0.3])
def test_the_gain_of_clipping_is_the_share_within_the_radius(deviation: float) -> None:
    """Of uniform noise and a Gaussian, by the middles of quantiles."""
    noise = NoiseBound(0.1)
    radius = noise.radius(deviation)
    assert radius == pytest.approx(0.1 + 0.5 * deviation)
    middles = (np.arange(1500) + 0.5) / 1500.0
    apart = 0.2 * (2.0 * middles - 1.0) + deviation * norm.ppf(middles)[:, None]
    gain, square = noise.clipped(radius)
    assert gain == pytest.approx((np.abs(apart) <= 2.0 * radius).mean(), abs=2e-3)
    assert square == pytest.approx((np.clip(apart, -2 * radius, 2 * radius) ** 2).mean(), rel=0.01)
    assert noise.radius(1.0) is None
    assert NoiseBound.of(1e-200, 2.0) == NoiseBound(2.0**-6)
    assert NoiseBound.of(1.0, 2.0) is None  # half the width tells nothing


# Measurement.


def centred(count: int, epsilon: float, about: FloatArray, width: float) -> KernelPolicy:
    """A policy whose centres are coefficients (K, m), in units of 1."""
    policy = random_policy(
        SQUARE, 3, epsilon, count, functions=2, partitions=2, used=tuple(range(24))
    )
    whole = np.round(about[:, policy.used] * 2.0**20).astype(np.int32)
    return replace(policy, centres=whole, clipping_range=(0.5 - width, 0.5 + width))


@pytest.mark.parametrize(("count", "epsilon"), [(1, 1.0), (6, 4.0)])
def test_reports_about_predictions_measure_theta_without_bias(count: int, epsilon: float) -> None:
    """Where nothing is clipped, what is added to t makes up for the predictions, in all cells
    together and in expectation: the average of t 1(cell = j) over people, times the slope, is the
    integral of 2 f - 1 minus the predicted."""
    plain = random_policy(
        SQUARE, 3, epsilon, count, functions=2, partitions=2, used=tuple(range(24))
    )
    theta = true_theta(plain)
    about = 0.6 * theta
    policy = centred(count, epsilon, about, 0.25)
    measured = Measurements(policy)
    functions, partitions = len(policy.directions), policy.partitions
    index = np.indices((functions, partitions, count)).reshape(3, -1)
    vectors, added = measured.vectors(*index), measured.added(*index)
    shown = measured.shown[index[1], index[2]]
    # Exactly, from the learner's own sums and by brute force on a fine grid.
    expected = shown * (vectors @ theta.ravel() - added)
    rest = exact_means(policy, lambda contexts: 0.5 + 0.4 * (within_span(plain)(contexts) - 0.5))
    assert np.abs(expected - 2.0 * rest.ravel()).max() < 0.02
    # In simulated reports, up to standard errors.
    people = 40_000
    rng = np.random.default_rng(7)
    contexts = spread(policy.density, people, rng)
    actions, _ = policy.act(contexts, rng)
    rewards = within_span(plain)(contexts)[np.arange(people), actions.arms]
    reports = reported(policy, contexts, actions, rewards, SimulatedNoise(11))
    function, partition = policy.picked(actions.public_coins)
    place = np.ravel_multi_index(
        (function, partition, reports.places[:, 0]), (functions, partitions, count)
    )
    asked = np.repeat(np.bincount(function * partitions + partition), count)
    mean = np.bincount(place, reports.signs[:, 0], minlength=len(added)) / asked
    square = np.bincount(place, minlength=len(added)) / asked
    z = (mean - 2.0 * rest.ravel()) / np.sqrt((square - mean**2) / asked)
    assert np.abs(z).max() < 6.5


def test_clipped_rewards_lie_in_the_unit_interval_for_any_centres() -> None:
    rng = np.random.default_rng(3)
    people = SQUARE.from_unit(rng.random((200, 2)))
    extreme = np.where(rng.random((3, 400)) < 0.5, -7.5, 7.5)
    for width in (2.0**-21, 0.1, 0.5):
        policy = centred(1, 1.0, extreme, width)
        arms, coins = rng.integers(3, size=200), np.zeros(200, dtype=np.uint64)
        for rewards in (np.zeros(200), np.ones(200), rng.random(200)):
            entering = policy._entering(people, arms, rewards, coins)
            assert (entering >= 0.0).all()
            assert (entering <= 1.0).all()
        # A missing reward counts as the predicted one.
        predicted = 0.5 * (1.0 + policy.predicted(policy.features(people, policy.used)))
        missing = policy._missing(people, arms)
        assert np.allclose(missing, predicted[np.arange(200), arms])
    assert "about the predicted one" in policy.reporter.data


def learner_of(budget: Budget, name: str = "kernel", **options: Any) -> Any:
    return make_learner(
        name,
        unit_cube(1),
        ArmPoints.of([0.0, 0.5, 1.0]),
        budget,
        options={"kernel": "RBF([0.3, 0.3])", "reward_noise": 0.2, **options},
        horizon=2000,
        reward_bounds=RewardBounds(-1.0, 1.0),
        noise=SimulatedNoise(0) if budget.is_central else None,
        public_seed=3,
        identity="known",
    )


def taught(learner: Any, batches: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(batches):
        policy = learner.policy()
        contexts = rng.random((min(learner.batch_size, 300), 1))
        actions, _ = policy.act(contexts, rng)
        means = 0.8 * np.cos(2.0 * (contexts[:, 0] - 0.5 * actions.arms))
        rewards = means + rng.uniform(-0.2, 0.2, len(means))
        learner.update(policy.report(contexts, actions, rewards, SimulatedNoise(2)))


def test_the_radius_shrinks_with_the_posterior_deviation() -> None:
    """And thresholds of rewards are not asked about."""
    learner = learner_of(Local(4.0), batch=30)
    taught(learner, 30)
    radii = [policy.radius for policy in learner._policies]
    assert all(policy.centres is not None for policy in learner._policies[-10:])
    assert 0.1 < radii[-1] < 0.2 < radii[0]
    assert not any(policy.thresholds for policy in learner._policies)
    joint = learner_of(Joint(8.0, 1e-6))
    taught(joint, 8)
    assert 0.1 < joint._policies[-1].radius < 0.3
    assert not any(policy.reward_weight for policy in joint._policies)
    assert joint._policies[0].directions


@pytest.mark.parametrize("noise", [1e-200, 0.3, 0.48])
def test_statistics_of_single_reports_pass_their_check(noise: float) -> None:
    """However sure predictions are, and however large what is added to a report."""
    options: dict[str, Any] = {"reward_noise": noise}
    learner: Any = make_learner("kernel", unit_cube(1), 2, Local(8.0), options=options)
    rng = np.random.default_rng(0)
    for people in (*[300] * 12, *[1] * 60):
        policy = learner.policy()
        contexts = rng.random((people, 1))
        actions, _ = policy.act(contexts, rng)
        rewards = (rng.random(people) < 0.95).astype(float)
        learner.update(policy.report(contexts, actions, rewards, SimulatedNoise(3)))
    assert learner.people == 3660


def test_a_log_does_not_set_the_length_of_later_epochs() -> None:
    learner = learner_of(Joint(8.0, 1e-6))
    learner.expect_log(900, 1.0 / 3.0)
    rng = np.random.default_rng(2)
    while learner.people < 900:
        policy, people = learner.policy(), min(learner.batch_size, 900 - learner.people)
        contexts, arms = rng.random((people, 1)), rng.integers(3, size=people)
        rewards = rng.uniform(-1.0, 1.0, people)
        reports = policy.logged(contexts, arms, rewards, np.full(people, 1.0 / 3.0))
        learner.update(reports)
    learner.policy()
    assert 50 <= learner.batch_size <= 500
    taught(learner, 3)
    assert learner._policies[-1].directions
    last = learner_of(Joint(8.0, 1e-6))
    taught(last, 30)
    assert len(last._policies[-1].values) == 1  # the last people get the best arm by the mean


def test_best_arm_takes_a_noise_bound_and_refuses_a_kernel() -> None:
    with pytest.raises(InvalidInput, match="ignores contexts, so leave it out"):
        learner_of(Local(1.0), "best_arm")
    learner = learner_of(Local(4.0), "best_arm", kernel=None)
    taught(learner, 20)
    assert learner._policies[-1].radius < 0.4


def joint_run(people: int = 800) -> JointKernel:
    """A learner of 30 arms that was given the true kernel and noise."""
    problem, noise = KernelGridProblem(arms=30), SimulatedNoise(2)
    learner = make_learner(
        "kernel",
        problem.domain,
        problem.space,
        Joint(4.0, 1e-6),
        options={"kernel": "RBF(0.3)", "reward_noise": 0.25},
        horizon=4 * people,
        reward_bounds=problem.reward_bounds,
        noise=noise,
        public_seed=2,
    )
    rng = np.random.default_rng(2)
    run_learner(learner, problem.sample(people, rng), rng, noise)
    assert isinstance(learner, JointKernel)
    return learner


def test_the_radius_of_a_joint_policy_follows_from_the_posterior() -> None:
    """Not from posteriors under hyperparameters drawn from their prior, which choose directions."""
    learner = joint_run()
    policy, bound, points = learner.policy(), learner._noise_bound, learner._points
    assert policy.radius is not None
    assert bound is not None
    width = learner.reward_bounds.upper - learner.reward_bounds.lower
    _, deviations = learner.predict(learner.domain.from_unit(points))
    where = learner._ranks.inverse(points)
    chances = learner.weights[:, None] * policy.probabilities(learner.domain.from_unit(where))
    deviation = np.sqrt((chances * (deviations / width) ** 2).sum())
    assert policy.radius - bound.bound == pytest.approx(deviation, rel=0.25)


def test_directions_are_the_same_by_the_smaller_matrix() -> None:
    learner, rng = joint_run(), np.random.default_rng(0)
    assert learner._kernel_prior is not None
    mixture = learner._model_average(3, rng)
    wide = [learner._posterior(learner._kernel_prior.prior.best, learner._known)]
    used = np.unique(np.concatenate([mixture.used, wide[0].used]))
    rank = sum(part.half.shape[1] for part in (*mixture.parts, *wide))
    assert rank < learner.arms * len(used)
    roots = [_root(mixture, wide, used, low_rank) for low_rank in (False, True)]
    covariances = [root @ root.T for root in roots]
    assert np.allclose(*covariances, atol=1e-5 * np.abs(covariances[0]).max())


@pytest.mark.slow
@pytest.mark.parametrize("budget", [Local(2.0), Joint(4.0, 1e-6)])
def test_the_posterior_is_calibrated_under_clipping(budget: Budget) -> None:
    """Runs of given seeds, whose functions are drawn from the kernel."""
    problem, squares = KernelGridProblem(arms=6), []
    batch = {} if budget.is_central else {"batch": 100}
    for seed in range(6):
        crowd = problem.sample(900, np.random.default_rng(seed))
        learner: Any = make_learner(
            "kernel",
            problem.domain,
            problem.space,
            budget,
            options={"kernel": "RBF(0.3)", "reward_noise": 0.25, **batch},
            horizon=900,
            reward_bounds=problem.reward_bounds,
            noise=SimulatedNoise(seed) if budget.is_central else None,
            public_seed=seed,
        )
        rng = np.random.default_rng(seed)
        while learner.people < len(crowd):
            policy, start = learner.policy(), learner.people
            contexts = crowd.contexts[start : start + learner.batch_size]
            actions, _ = policy.act(contexts, rng)
            rewards = crowd.received(actions, start)
            learner.update(policy.report(contexts, actions, rewards, SimulatedNoise(seed)))
        mean, deviation = learner.predict(problem.grid[:, None])
        squares.append((((mean - crowd.function) / deviation) ** 2).mean())
    assert 0.6 < np.mean(squares) < 1.6


@pytest.mark.slow
@pytest.mark.parametrize("budget", [Local(2.0), Joint(1.0, 1e-6)])
def test_a_given_kernel_and_noise_bound_reduce_regret(budget: Budget) -> None:
    """Two runs each, of given seeds; over seeds the saving is several standard errors."""
    problem = KernelGridProblem(arms=12)
    lost = []
    for options in ({}, {"kernel": "RBF(0.3)", "reward_noise": 0.25}):
        options = {**options, **({} if budget.is_central else {"batch": 100})}
        setting = Setting("kernel", "", budget, options)
        runs = simulate_all(problem, [setting], 1200, 2, 4)
        lost.append(sum(run.record.value for run in runs))
    assert lost[1] < 0.9 * lost[0]
