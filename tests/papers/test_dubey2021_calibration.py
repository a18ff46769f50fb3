"""The published calibration of Dubey (2021): its formulas, and what it really guarantees."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.lab.environments.decision_sets import BumpProblem
from discreet.lab.environments.functions import camelback
from discreet.lab.experiments import run_learner
from discreet.learners.gp_ucb.posterior import NoisyStatistics
from discreet.learners.gp_ucb.sets.policy import row_sensitivity
from discreet.learners.saving import load, save
from discreet.papers.dubey2021.calibration import PublishedJoint, PublishedLocal
from discreet.papers.dubey2021.figures import BUMP_KERNEL, ball_points
from discreet.papers.reproduction import Case
from discreet.privacy import Budget, Joint, Local, SimulatedNoise
from discreet.privacy.accounting import gaussian_epsilon
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.validation import InvalidInput

FEATURES = 22
JOINT = PublishedJoint(1024)


def learner(budget, calibration, rounds=1024):  # type: ignore[no-untyped-def]
    arguments = {
        "kernel": BUMP_KERNEL, "public_points": ball_points(), "calibration": calibration
    }  # fmt: skip
    case = Case("published", BumpProblem(), "gp_ucb", rounds, budget, arguments)
    return case.make(0, SimulatedNoise(3))


def seen(scale: float, people: int = 100, variance: float = 3.0) -> NoisyStatistics:
    noise = variance * scale**2
    return NoisyStatistics(people, noise, noise / 2.0, came=people, scale=scale)


def held(rule: PublishedJoint | PublishedLocal, budget: Budget) -> float:
    """The epsilon of the published noise at the delta of a budget, without a run."""
    return gaussian_epsilon(rule.noise_multiplier(budget, FEATURES), budget.delta)


def test_lemma_2_as_a_variance() -> None:
    # 16 * 11 * 4 * ln(100)^2 at T = 1024, epsilon = 1, delta = 0.1.
    assert JOINT.nodes == 11
    assert JOINT.sigma(Joint(1.0, 0.1)) ** 2 == pytest.approx(704.0 * math.log(100.0) ** 2)
    assert JOINT.sigma(Joint(10.0, 0.1)) == pytest.approx(JOINT.sigma(Joint(1.0, 0.1)) / 10.0)
    assert PublishedJoint(10_000).nodes == 15


def test_the_stream_draws_the_published_noise() -> None:
    kernel_learner = learner(Joint(1.0, 0.1), JOINT)
    assert kernel_learner._stream.scale == pytest.approx(
        math.sqrt(2.0) * JOINT.sigma(Joint(1.0, 0.1))
    )
    assert kernel_learner.batch_size == 1


def test_the_coordinates_of_a_node_are_iid() -> None:
    # (U + U') / sqrt 2 in coordinates (A_ii, sqrt 2 A_ij) has variance 2 everywhere.
    draws = np.random.default_rng(0).standard_normal((20_000, 3, 3))
    nodes = (draws + draws.transpose(0, 2, 1)) / math.sqrt(2.0)
    rows, columns = np.triu_indices(3)
    weights = np.where(rows == columns, 1.0, math.sqrt(2.0))
    covariance = np.cov((nodes[:, rows, columns] * weights).T)
    assert np.allclose(covariance, 2.0 * np.eye(6), atol=0.12)


def test_at_delta_a_tenth_the_tree_is_17_times_too_noisy() -> None:
    budget = Joint(1.0, 0.1)
    needed = gaussian_noise_multiplier(1.0, 0.1)
    given = math.sqrt(2.0) * JOINT.sigma(budget) / (2.0 * math.sqrt(2.0) * math.sqrt(11.0))
    assert given / needed == pytest.approx(17.0, abs=0.1)
    assert JOINT.noise_multiplier(budget, FEATURES) == pytest.approx(given, rel=1e-4)
    # So much noise that delta alone pays for it.
    assert held(JOINT, budget) == 0.0


@pytest.mark.parametrize(("epsilon", "honest"), [(600.0, True), (631.0, True), (633.0, False)])
def test_above_epsilon_632_the_tree_keeps_less_than_it_promises(
    epsilon: float, honest: bool
) -> None:
    assert (held(JOINT, Joint(epsilon, 0.1)) <= epsilon) is honest


@pytest.mark.parametrize(
    ("budget", "calibration"),
    [(Joint(10.0, 0.1), PublishedJoint(20)), (Local(10.0, 0.1), PublishedLocal(20))],
    ids=["joint", "local"],
)
def test_what_is_as_published_is_saved_and_goes_on_the_same(
    budget: Budget, calibration: PublishedJoint | PublishedLocal, tmp_path: Path
) -> None:
    kernel_learner = learner(budget, calibration, 20)
    people = BumpProblem().sample(10, np.random.default_rng(0))
    run_learner(kernel_learner, people, np.random.default_rng(1), SimulatedNoise(2))
    assert kernel_learner.guarantee().epsilon == pytest.approx(held(calibration, budget), rel=1e-5)
    assert kernel_learner.guarantee().trust_model == budget.trust_model
    save(kernel_learner, tmp_path / "learner")
    again = load(tmp_path / "learner", copy.deepcopy(kernel_learner.noise))
    assert again.calibration == calibration
    for each in (kernel_learner, again):
        run_learner(each, people, np.random.default_rng(3), SimulatedNoise(4))
    assert again.policy().digest == kernel_learner.policy().digest
    assert again.guarantee() == kernel_learner.guarantee()


def test_lemma_3_and_theorem_1() -> None:
    scale, size = math.sqrt(2.0) * 5.0, 4
    least, kappa = JOINT.spectrum(seen(scale), size)
    tail = math.log(2.0 * 1024 / 0.1)
    assert least == pytest.approx(5.0 * math.sqrt(22.0) * (4.0 * 2.0 + 2.0 * tail))
    assert kappa == pytest.approx(5.0 * math.sqrt(11.0 / least) * (2.0 + math.sqrt(2.0 * tail)))
    gram, rewards = np.diag([4.0, 3.0, 2.0, 1.0]), np.array([2.0, 1.0, 0.5, 0.0])
    posterior, width = JOINT.posterior(gram, rewards, seen(scale), None)  # type: ignore[arg-type]
    shifted = gram + (2.0 * least + 1.0) * np.eye(size)
    assert np.allclose(posterior.mean, np.linalg.solve(shifted, rewards))
    assert np.allclose(posterior.root @ posterior.root.T, 0.25 * np.linalg.inv(shifted))
    volume = np.linalg.slogdet(shifted / (1.0 + least))[1]
    assert width == pytest.approx(
        math.sqrt(3.0 * least / 0.25 + 1.0)
        + kappa / 0.5
        + math.sqrt(volume + 2.0 * math.log(2.0 / 0.1))
    )


def test_before_any_release_nothing_is_shifted() -> None:
    for rule in (JOINT, PublishedLocal(1024)):
        nothing = seen(0.0, 0, 0.0)
        posterior, width = rule.posterior(np.zeros((3, 3)), np.zeros(3), nothing, None)  # type: ignore[arg-type]
        assert np.allclose(posterior.mean, 0.0)
        assert width == pytest.approx(1.0 + math.sqrt(2.0 * math.log(20.0)))


def test_lemma_5_and_6() -> None:
    budget, rule = Local(5.0, 0.1), PublishedLocal(1024)
    assert rule.sigma_gram(budget) ** 2 == pytest.approx(8.0 * math.log(25.0) / 25.0)
    assert rule.sigma_rewards(budget) ** 2 == pytest.approx(8.0 * math.log(50.0) / 25.0)
    kernel_learner = learner(budget, rule)
    assert kernel_learner.local.scale == pytest.approx(rule.sigma_gram(budget))
    least, kappa = rule.spectrum(seen(rule.sigma_gram(budget), 10, 10.0), 4)
    base = 32.0 * (8.0 + 2.0 * math.log(20_480.0))
    assert least == pytest.approx(rule.sigma_gram(budget) * base)
    assert kappa == pytest.approx(rule.sigma_rewards(budget) * math.sqrt(4 * 1024 / base))


def test_what_local_reports_really_keep() -> None:
    rule = PublishedLocal(1024)
    # The part phi phi' at its share (epsilon, delta) = (5, 0.05): sensitivity sqrt 2, not 1.
    alone = rule.sigma_gram(Local(10.0, 0.1)) / math.sqrt(2.0)
    assert gaussian_epsilon(alone, 0.05) == pytest.approx(7.69, abs=0.01)
    # Both parts together, by brute force over pairs of people at the bounds.
    gram, rewards = rule.sigma_gram(Local(10.0, 0.1)), rule.sigma_rewards(Local(10.0, 0.1))
    cosine = np.linspace(-1.0, 1.0, 20_001)
    moved = ((2.0 - 2.0 * cosine**2) / gram**2 + (2.0 - 2.0 * cosine) / rewards**2).max()
    whole = held(rule, Local(10.0, 0.1))
    assert whole == pytest.approx(gaussian_epsilon(moved**-0.5, 0.1), rel=1e-4)
    assert whole == pytest.approx(11.92, abs=0.01)
    assert held(rule, Local(5.0, 0.1)) == pytest.approx(3.70, abs=0.01)


def test_the_sensitivity_of_an_upper_triangle_with_weight_1_is_attained() -> None:
    # Each entry once: e1, e2 turned so that phi phi' - psi psi' is diagonal.
    rule = PublishedLocal(1024)
    weight = rule.weights.rewards
    product = -(weight**2) / 2.0
    angle = 0.5 * math.acos(product)
    best = 0.0
    for turn in np.linspace(0.0, math.pi, 721):
        phi = np.array([math.cos(turn + angle), math.sin(turn + angle)])
        psi = np.array([math.cos(turn - angle), math.sin(turn - angle)])
        upper = (np.outer(phi, phi) - np.outer(psi, psi))[np.triu_indices(2)]
        best = max(best, math.hypot(*upper, *(weight * (phi - psi))))
    assert best == pytest.approx(row_sensitivity(2, rule.weights), rel=1e-4)


@pytest.mark.parametrize(
    ("budget", "make", "rounds", "message"),
    [
        (Joint(1.0, 0.1), lambda: PublishedJoint(0), 64, "horizon"),
        (Joint(1.0, 0.1), lambda: PublishedJoint(64), 65, "horizon"),
        (Local(1.0, 0.1), lambda: PublishedJoint(64), 64, "Joint"),
        (Local(1.0, 0.2), lambda: PublishedLocal(64), 64, "delta"),
    ],
)
def test_bad_input_is_refused(budget: Budget, make: Any, rounds: int, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        learner(budget, make(), rounds)


def test_public_points_have_no_published_rule() -> None:
    arguments = {"calibration": PublishedJoint(64)}
    case = Case("published", camelback(), "gp_ucb", 64, Joint(1.0, 0.1), arguments)
    with pytest.raises(InvalidInput, match="public"):
        case.make(0, SimulatedNoise(0))
