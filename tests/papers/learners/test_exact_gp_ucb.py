"""GP-UCB with the exact posterior, against scikit-learn and against itself done at once."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from discreet.codec import decode, encode, fields_from_json, fields_to_json, to_json
from discreet.kernels import kernel_from_text, kernel_to_text
from discreet.lab.environments.decision_sets import BumpProblem
from discreet.lab.environments.functions import camelback
from discreet.lab.experiments import Setting, simulate
from discreet.learners.gp_ucb.policy import PointObservations
from discreet.learners.policy import Actions
from discreet.learners.registry import make_learner
from discreet.learners.saving import load, save
from discreet.papers.dubey2021.learners import exact_gp_ucb
from discreet.papers.dubey2021.learners.exact_gp import ExactPosterior, GrowingPosterior, Prior
from discreet.papers.dubey2021.learners.exact_gp_ucb import (
    ExactGPPolicy,
    ExactGPUCB,
    ObservedRows,
    climb,
)
from discreet.people.domain import Box, DecisionSets, PublicBox, PublicSet, RewardBounds
from discreet.privacy import Local, NonPrivate, SimulatedNoise
from discreet.validation import InvalidInput

DOMAIN = Box((20.0, -1.0), (60.0, 1.0), ("age", "score"))
BOUNDS = RewardBounds(-2.0, 3.0)
GRID = PublicSet.of(
    np.stack(np.meshgrid(np.linspace(20, 60, 9), np.linspace(-1, 1, 7)), axis=-1).reshape(-1, 2)
)
SPACES = {"own sets": DecisionSets(8), "set": GRID, "box": PublicBox()}
KERNELS = [
    "RBF(length_scale=[12.0, 0.6])",
    "Matern(length_scale=[10.0, 1.0], nu=2.5) + ConstantKernel(constant_value=0.3)",
    "Additive([RBF(length_scale=9.0), Matern(length_scale=0.7, nu=1.5)])",
]


def learner(space=SPACES["own sets"], **options) -> ExactGPUCB:
    common = {"reward_bounds": BOUNDS, "public_seed": 3, "identity": "exact"}
    return ExactGPUCB(DOMAIN, space, NonPrivate(), **common, **options)


def mean_reward(points: np.ndarray) -> np.ndarray:
    unit = DOMAIN.to_unit(points)
    return BOUNDS.lower + 5.0 * np.exp(-8.0 * ((unit - [0.7, 0.4]) ** 2).sum(axis=1))


def contexts_for(policy: ExactGPPolicy, people: int, rng: np.random.Generator):
    if isinstance(policy.offered, DecisionSets):
        return DOMAIN.from_unit(rng.random((people * 8, 2))).reshape(people, 8, 2)
    return people


def visit(policy: ExactGPPolicy, people: int, seed: int) -> PointObservations:
    rng = np.random.default_rng(seed)
    contexts = contexts_for(policy, people, rng)
    actions, odds = policy.act(contexts, rng)
    assert (odds == 1.0).all()
    rewards = np.clip(mean_reward(actions.points) + rng.normal(0, 0.5, people), -2.0, 3.0)
    return policy.report(contexts, actions, rewards, SimulatedNoise(seed))


def taught(space=SPACES["own sets"], people=(5, 1, 30, 1, 1, 40, 2), **options) -> ExactGPUCB:
    one = learner(space, **options)
    for seed, count in enumerate(people):
        one.update(visit(one.policy(), count, seed))
    return one


def state(one: ExactGPUCB) -> str:
    return json.dumps(one.secret_fields())


def data(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return DOMAIN.from_unit(rng.random((count, 2))), rng.random(count)


# The posterior.


@pytest.mark.parametrize("text", KERNELS)
@pytest.mark.parametrize("variance", [0.25, 0.01])
def test_the_posterior_is_that_of_scikit_learn(text: str, variance: float) -> None:
    points, rewards = data(300)
    prior = Prior(text, variance)
    growing = GrowingPosterior(prior, 512, 2)
    for block in np.split(np.arange(300), [1, 2, 3, 40, 41, 299]):
        growing.append(points[block], rewards[block])
    kernel = ConstantKernel(1.0 / 12.0) * kernel_from_text(text)
    reference = GaussianProcessRegressor(kernel, alpha=variance, optimizer=None)
    reference.fit(points, rewards - 0.5)
    where, _ = data(700, 1)
    mean, deviation = growing.posterior().unit(where)
    expected, spread = reference.predict(where, return_std=True)
    assert np.abs(mean - 0.5 - expected).max() < 1e-8
    assert np.abs(deviation - spread).max() < 1e-8


def test_step_by_step_is_the_same_as_at_once() -> None:
    points, rewards = data(400)
    prior = Prior(KERNELS[0], 0.05)
    where, _ = data(50, 1)
    growing = GrowingPosterior(prior, 400, 2, watched=where)
    for i in range(400):
        growing.append(points[[i]], rewards[[i]])
    at_once = ExactPosterior(prior, points, rewards)
    for one, other in zip(growing.posterior().unit(where), at_once.unit(where), strict=True):
        assert np.abs(one - other).max() < 1e-10
    # The table of watched points is kept up to date by another route.
    for one, other in zip(growing.watched(), at_once.unit(where), strict=True):
        assert np.abs(one - other).max() < 1e-10
    product = growing.posterior().solved[0] @ np.linalg.cholesky(
        prior.covariance(points, points) + 0.05 * np.eye(400)
    )
    assert np.abs(product - np.eye(400)).max() < 1e-9


def test_earlier_policies_stay_as_they_were_and_share_one_factor() -> None:
    one = learner(batch_size=1, reward_variance=0.1)
    where, _ = data(20, 5)
    told = []
    for seed in range(60):
        told.append([array.copy() for array in one.policy().predict(where)])
        one.update(visit(one.policy(), 1, seed))
    for version, (mean, deviation) in enumerate(told):
        again = one.published(version).predict(where)
        assert np.array_equal(again[0], mean)
        assert np.array_equal(again[1], deviation)
    factors = [one.published(n).posterior.solved[0] for n in range(33, 60)]
    assert all(np.shares_memory(factor, factors[-1]) for factor in factors)
    with pytest.raises(ValueError, match="read-only"):
        factors[-1][...] = 0.0
    with pytest.raises(ValueError, match="read-only"):
        one.policy().posterior.rewards[...] = 0.0


def test_predictions_are_in_units_of_rewards() -> None:
    policy = learner().policy()
    mean, deviation = policy.predict([[30.0, 0.0], [50.0, 0.5]])
    assert np.allclose(mean, 0.5)  # the middle of [-2, 3]
    assert np.allclose(deviation, 5.0 * np.sqrt(1.0 / 12.0))
    policy = taught(people=(50,) * 20).policy()
    where = np.array([[48.0, -0.2], [44.0, 0.0], [50.0, -0.3]])
    mean, deviation = policy.predict(where)
    assert (np.abs(mean - mean_reward(where)) < 4.0 * deviation + 0.2).all()
    with pytest.raises(InvalidInput, match="contexts"):
        policy.predict([[99.0, 0.0]])


def test_the_variance_of_rewards_is_learnt() -> None:
    learnt = {}
    for spread in (0.05, 0.3):
        growing = GrowingPosterior(Prior(KERNELS[0], 0.25), 500, 2)
        points, _ = data(500)
        noise = np.random.default_rng(2).normal(0.0, spread, 500)
        growing.append(points, 0.5 + 0.3 * np.sin(points[:, 0] / 10.0) + noise)
        learnt[spread] = growing.reward_variance()
    assert learnt[0.3] == pytest.approx(0.09, rel=0.2)
    assert learnt[0.05] < 0.02
    assert taught().policy().posterior.prior.reward_variance < 0.25
    fixed = taught(reward_variance=0.2)
    assert fixed.policy().posterior.prior.reward_variance == 0.2


# Policies and reports.


def test_it_takes_the_point_with_the_largest_bound() -> None:
    policy = taught(confidence_multiplier=0.7).policy()
    sets = contexts_for(policy, 30, np.random.default_rng(0))
    actions, _ = policy.act(sets, np.random.default_rng(0))
    mean, deviation = policy.predict(sets.reshape(-1, 2))
    best = (mean + 0.7 * deviation).reshape(30, 8).argmax(axis=1)
    assert np.array_equal(actions.arms, best)
    # Sets of different sizes: places that are not there are never chosen.
    short = [one[: 1 + i % 8] for i, one in enumerate(sets)]
    actions, _ = policy.act(short, np.random.default_rng(0))
    assert (actions.arms < [len(one) for one in short]).all()


def test_public_points_are_the_best_of_all() -> None:
    policy = taught(GRID, people=(1,) * 40).policy()
    mean, deviation = policy.predict(GRID.array)
    actions, _ = policy.act(3, np.random.default_rng(0))
    assert (actions.arms == (mean + policy.confidence * deviation).argmax()).all()
    policy = taught(PublicBox(), people=(1,) * 40).policy()
    actions, _ = policy.act(3, np.random.default_rng(0))
    axes = [np.linspace(a, b, 201) for a, b in zip(DOMAIN.lower, DOMAIN.upper, strict=True)]
    fine = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    bound = [m + policy.confidence * s for m, s in map(policy.predict, (actions.points, fine))]
    assert (bound[0] >= bound[1].max() - 1e-3).all()
    assert (actions.arms == -1).all()


def test_steps_in_a_box_keep_to_its_levels() -> None:
    box = Box((0.0, 0.0), (1.0, 4.0), levels=(None, 5))
    target = np.array([0.613, 2.6])
    found = climb(lambda x: -((x - target) ** 2).sum(axis=1), np.array([[0.5, 1.0]]), box)
    assert found == pytest.approx([0.613, 3.0], abs=1 / 64)
    policy = ExactGPUCB(box, PublicBox(), NonPrivate()).policy()
    assert policy.choice[1] in range(5)


def test_a_public_report_cannot_smuggle_another_point_in() -> None:
    one = taught(GRID)
    policy = one.policy()
    other = (policy._place + 1) % len(GRID.points)
    smuggled = Actions(np.array([other]), np.array([5]), policy)
    with pytest.raises(InvalidInput, match="public coin"):
        policy.report(1, smuggled, [0.0], SimulatedNoise(0))
    rows = one.statistics(visit(policy, 4, 0)).rows
    assert (rows[:, :2] == policy.choice).all()


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_saved_learners_whose_people_wait_go_on_to_the_last_bit(space, tmp_path) -> None:
    one = taught(space, batch_size=5, people=(5,) * 9)
    one.update(visit(one.policy(), 3, 50))
    save(one, tmp_path / "learner.json")
    again = load(tmp_path / "learner.json")
    assert state(again) == state(one)
    for seed in range(20):
        for each in (one, again):
            each.update(visit(each.policy(), 5, seed))
    assert encode(one.policy()) == encode(again.policy())


def test_damaged_messages_are_refused(tmp_path) -> None:
    one = taught(GRID)
    policy = json.loads(encode(one.policy()))
    posterior, prior = policy["posterior"], policy["posterior"]["prior"]
    for change in [
        *(
            {"posterior": {**posterior, "prior": {**prior, **wrong}}}
            for wrong in (
                {"kernel": "RBF(length_scale=[1.0, 2.0, 3.0])"},
                {"kernel": "open('x')"},
                {"reward_variance": 0.0},
            )
        ),
        {"posterior": {**posterior, "rewards": posterior["rewards"][1:]}},
        {"posterior": {**posterior, "rewards": [2.0 for _ in posterior["rewards"]]}},
        {"posterior": {**posterior, "points": [[1.0] for _ in posterior["rewards"]]}},
        {"choice": [20.5, 0.123]},
        {"choice": []},
        {"confidence": "much"},
    ]:
        with pytest.raises(InvalidInput):
            decode(json.dumps({**policy, **change}), ExactGPPolicy)
    sums = json.loads(encode(one._sums))
    rows = np.array(sums["rows"])
    before = state(one)
    for change in [
        {"rows": (rows + np.array([0.0, 0.0, 1.0])).tolist()},
        {"rows": (rows - [90.0, 0.0, 0.0]).tolist()},
        {"rows": rows[:, :2].tolist()},
        {"rows": rows[1:].tolist()},
        {"reports": -1},
    ]:
        with pytest.raises(InvalidInput):
            one.merge(decode(json.dumps({**sums, **change}), ObservedRows))
    reports = fields_to_json(visit(one.policy(), 3, 0))
    for change in [
        {"rewards": [0.5, 0.5]},
        {"rewards": [0.5, 0.5, 1.5]},
        {"public_coins": [1]},
        {"points": [[30.0, 0.0]] * 3},
    ]:
        with pytest.raises(InvalidInput):
            one.update(fields_from_json({**reports, **change}, PointObservations))
    assert state(one) == before
    save(one, tmp_path / "learner.json")
    content = json.loads((tmp_path / "learner.json").read_text())
    for own in [{"blocks": [1]}, {"blocks": ["x"]}, {"new": to_json(one._sums)}]:
        damaged = {
            **content,
            "state": {**content["state"], "own": {**json.loads(before)["own"], **own}},
        }
        (tmp_path / "damaged.json").write_text(json.dumps(damaged))
        with pytest.raises(InvalidInput):
            load(tmp_path / "damaged.json")


def test_impossible_arguments_are_refused() -> None:
    for options, message in [
        ({"kernel": "RBF(length_scale=[1.0, 2.0, 3.0])"}, "kernel"),
        ({"kernel": WhiteKernel()}, "no text"),
        ({"kernel": 3}, "kernel"),
        ({"reward_variance": 1e-9}, "reward_variance"),
        ({"confidence_multiplier": -1.0}, "confidence_multiplier"),
        ({"batch_size": 0}, "batch_size"),
        ({"horizon": 5000}, "gp_ucb with NonPrivate"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            learner(**options)
    with pytest.raises(InvalidInput, match="budget"):
        ExactGPUCB(DOMAIN, PublicBox(), Local(1.0))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="contexts"):
        learner(PublicSet.of([[0.0, 0.0]]))


def test_too_many_people_are_sent_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_gp_ucb, "MOST_PEOPLE", 64)
    one = taught(people=(30, 30))
    before = state(one)
    reports = visit(one.published(1), 5, 0)
    with pytest.raises(InvalidInput, match="NonPrivate"):
        one.update(reports)
    assert state(one) == before
    assert one.people == 60


def test_options_are_read_from_a_study() -> None:
    options = {"kernel": "Matern(length_scale=9.0, nu=1.5)", "confidence_multiplier": 0.5}
    one = make_learner("exact_gp_ucb", DOMAIN, GRID, NonPrivate(), options=options)
    assert one._options()["kernel"] == kernel_to_text(Matern(9.0, nu=1.5))
    assert kernel_from_text(learner()._options()["kernel"]) == RBF([12.0, 0.6])
    with pytest.raises(InvalidInput, match="its options are kernel"):
        make_learner("exact_gp_ucb", DOMAIN, GRID, NonPrivate(), options={"rule": "posterior"})


# Regret.


def test_it_finds_the_good_candidate() -> None:
    problem = BumpProblem()
    outcome = simulate(problem, Setting("exact_gp_ucb", "exact"), 400, 0, 0)
    assert outcome.record.value <= 20.0  # uniform: 230


@pytest.mark.slow
def test_it_finds_the_top_of_a_box() -> None:
    options = {"kernel": "RBF(length_scale=0.35)", "batch_size": 2}
    outcome = simulate(camelback(), Setting("exact_gp_ucb", "exact", options=options), 300, 5, 0)
    assert outcome.record.value <= 30.0  # uniform: 96
