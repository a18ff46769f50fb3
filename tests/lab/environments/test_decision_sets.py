"""Problems with decision sets: the candidates obey their rules, and choosing well matters."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.lab.environments.decision_sets import (
    BumpProblem,
    Bumps,
    DoseProblem,
    RandomSetProblem,
    dose_means,
    exposure,
)
from discreet.people.domain import Candidates, DecisionSets
from discreet.validation import InvalidInput


@pytest.mark.parametrize("kind", [BumpProblem, DoseProblem])
@pytest.mark.parametrize("candidates", [2, 7])
def test_sample_has_the_promised_shapes(kind, candidates, rng) -> None:
    problem = kind(candidates)
    people = problem.sample(50, rng)
    assert problem.space == DecisionSets(candidates)
    assert people.contexts.shape == (50, candidates, problem.domain.dimension)
    assert people.rewards.shape == people.means.shape == (50, candidates)
    assert set(np.unique(people.rewards)) <= {0.0, 1.0}
    assert (problem.metric, problem.size, problem.arm_names) == ("regret", None, ())
    Candidates.read(people.contexts, problem.domain, candidates)
    np.testing.assert_array_equal(people.oracle(), np.zeros(50))
    with pytest.raises(InvalidInput, match="other points"):
        people.best_fixed()


@pytest.mark.parametrize("kind", [BumpProblem, DoseProblem])
def test_the_seed_decides(kind) -> None:
    one, two, other = (kind().sample(30, np.random.default_rng(seed)) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.contexts, two.contexts)
    np.testing.assert_array_equal(one.rewards, two.rewards)
    assert (one.contexts != other.contexts).any()


@pytest.mark.parametrize("kind", [BumpProblem, DoseProblem])
def test_rewards_have_their_means(kind, rng) -> None:
    people = kind().sample(20_000, rng)
    error = (people.rewards - people.means).mean(axis=0)
    assert np.abs(error).max() < 4.5 * 0.5 / np.sqrt(len(people))


@pytest.mark.parametrize("kind", [BumpProblem, DoseProblem])
@pytest.mark.parametrize("candidates", [1, 2.0, True, None])
def test_candidates_that_are_refused(kind, candidates) -> None:
    with pytest.raises(InvalidInput, match="candidates was"):
        kind(candidates)


def test_no_people_are_refused(rng) -> None:
    with pytest.raises(InvalidInput, match="rounds was 0"):
        DoseProblem().sample(0, rng)


@pytest.mark.parametrize("seed", range(5))
def test_one_candidate_is_good_and_the_others_are_not(seed) -> None:
    people = BumpProblem().sample(1024, np.random.default_rng(seed))
    bumps = Bumps.draw(np.random.default_rng(seed))
    points = people.contexts.reshape(-1, 2)
    np.testing.assert_allclose(people.means, bumps(points).reshape(1024, 25))
    assert (people.means <= 1.0).all()
    np.testing.assert_array_equal((people.means >= 0.8).sum(axis=1), 1)
    np.testing.assert_array_equal((people.means <= 0.6).sum(axis=1), 24)
    assert np.linalg.norm(points, axis=1).max() <= 2.0
    assert len(np.unique(points, axis=0)) == len(points)


def test_the_good_candidate_is_anywhere(rng) -> None:
    people = BumpProblem(5).sample(20_000, rng)
    counts = np.bincount(people.means.argmax(axis=1), minlength=5)
    np.testing.assert_allclose(counts / 20_000, 0.2, atol=0.015)


def test_bumps_are_the_sum_of_kernels() -> None:
    bumps = Bumps(np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([0.5, 0.25]))
    values = bumps(np.array([[0.0, 0.0], [1.0, 0.0]]))
    expected = [0.5 + 0.25 * np.exp(-1.0), 0.75 * np.exp(-0.5)]
    np.testing.assert_allclose(values, expected)


def test_drawn_bumps_keep_to_the_l1_ball(rng) -> None:
    draws = [Bumps.draw(rng) for _ in range(20)]
    sums = np.array([bumps.weights.sum() for bumps in draws])
    assert (sums <= 1.0).all()
    assert all((bumps.weights >= 0.0).all() for bumps in draws)
    assert all(np.linalg.norm(bumps.centres, axis=1).max() <= 2.0 for bumps in draws)
    assert len(np.unique(sums)) == 20


def test_uniform_choice_among_bumps_costs_what_was_measured() -> None:
    # 597 +- 7 over 60 samples; one sample has a standard deviation of about 60.
    regret = []
    for seed in range(20):
        people = BumpProblem().sample(1024, np.random.default_rng(seed))
        regret.append((people.means.max(axis=1) - people.means.mean(axis=1)).sum())
    assert np.mean(regret) == pytest.approx(600, abs=60)


def test_doses_rise_to_the_limit_of_the_patient() -> None:
    doses = DoseProblem(4).doses(np.array([[30.0, 50.0, 90.0], [80.0, 100.0, 20.0]]))
    np.testing.assert_allclose(doses[:, :, 0], [[50, 100, 150, 200], [100, 200, 300, 400]])
    np.testing.assert_array_equal(doses[1, :, 1:], [[80.0, 100.0, 20.0]] * 4)


@pytest.mark.parametrize(
    ("patients", "message"),
    [
        (np.zeros((2, 4)), r"shape \(people, 3\)"),
        (np.zeros(3), r"shape \(people, 3\)"),
        (np.array([[17.0, 70.0, 90.0]]), "17.0 in column 'age_years'"),
    ],
)
def test_patients_that_are_refused(patients, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        DoseProblem().doses(patients)


def test_dose_response_by_hand() -> None:
    point = np.array([160.0, 18.0, 70.0, 70.0])
    assert exposure(point) == pytest.approx(2.0)
    assert dose_means(point) == pytest.approx(0.8 / (1.0 + np.exp(-5.0)))


def test_weak_kidneys_and_age_call_for_less() -> None:
    def best(age: float, kidney: float) -> float:
        dose = np.linspace(0.0, 560.0, 561)
        points = np.stack([dose, *(np.full(561, v) for v in (age, 75.0, kidney))], axis=1)
        return float(dose[dose_means(points).argmax()])

    assert best(40.0, 20.0) < 0.5 * best(40.0, 100.0)
    assert best(90.0, 60.0) < best(30.0, 60.0)


def test_the_best_dose_depends_on_the_patient(rng) -> None:
    means = DoseProblem().sample(50_000, rng).means
    assert means is not None
    assert means.min() >= 0.0
    assert means.max() <= 1.0
    loss = (means.max(axis=1, keepdims=True) - means).mean(axis=0)
    assert means.max(axis=1).mean() == pytest.approx(0.716, abs=0.005)
    assert loss.mean() == pytest.approx(0.269, abs=0.005)
    assert loss.argmin() == 3
    assert loss.min() == pytest.approx(0.146, abs=0.005)
    best = np.bincount(means.argmax(axis=1), minlength=8) / len(means)
    assert (best[1:] > 0.05).all()
    assert best.max() < 0.3


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("link", ["linear", "logistic"])
def test_random_sets_follow_their_model(link, inside) -> None:
    problem = RandomSetProblem(5, 3, link, 2.0, inside)
    people = problem.sample(4_000, np.random.default_rng(4))
    points, means = people.contexts.reshape(-1, 3), people.means.ravel()
    Candidates.read(people.contexts, problem.domain, 5)
    lengths = np.linalg.norm(points, axis=1)
    # Of a uniform point of the ball, the cube of the length is uniform.
    assert (lengths**3).mean() == pytest.approx(0.5 if inside else 1.0, abs=0.01)
    scores = means if link == "linear" else np.log(means / (1.0 - means))
    theta, *_ = np.linalg.lstsq(points, scores, rcond=None)
    np.testing.assert_allclose(points @ theta, scores, atol=1e-9)
    assert np.linalg.norm(theta) == pytest.approx(2.0)
    problem.reward_bounds.to_unit(people.rewards[:, 0], 4_000)
    if link == "linear":
        np.testing.assert_array_equal(people.rewards, people.means)
    else:
        assert abs((people.rewards - people.means).mean()) < 0.02
