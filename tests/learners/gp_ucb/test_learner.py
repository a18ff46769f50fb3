"""What a kernel learner takes, what it knows, and whether it learns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from discreet.codec import decode, encode
from discreet.kernels import (
    Additive,
    feature_map,
    finite_features,
    kernel_from_text,
)
from discreet.lab.environments.decision_sets import BumpProblem
from discreet.lab.experiments import run_learner
from discreet.learners.gp_ucb.calibration import PosteriorBonus
from discreet.learners.gp_ucb.learner import GPUCB, GPUCBLearner
from discreet.learners.gp_ucb.policy import KernelModel
from discreet.learners.gp_ucb.public.evidence import SCALE_PRIOR
from discreet.learners.gp_ucb.public.learner import PublicGPUCB
from discreet.learners.gp_ucb.sets.learner import SetsGPUCB
from discreet.learners.registry import make_learner
from discreet.learners.saving import load, save
from discreet.people.domain import Box, DecisionSets, PublicBox, PublicSet, RewardBounds, unit_cube
from discreet.privacy import Joint, Local, NonPrivate, SimulatedNoise, Unprotected
from discreet.validation import InvalidInput

from .cases import DOMAIN, SETS, SPACES, People, learner, observe, serve

every_space = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())


class TestBudgets:
    @every_space
    @pytest.mark.parametrize("budget", [Joint(1000.0, 0.1), Joint(1e-3, 1e-5)], ids=str)
    @pytest.mark.parametrize(
        ("horizon", "mechanism"),
        [(200, "geometric_epochs"), (None, "geometric_epochs"), (200, "buffered_toeplitz")],
    )
    def test_joint_privacy_from_very_much_to_very_little(
        self, space: Any, budget: Joint, horizon: int | None, mechanism: str
    ) -> None:
        made = learner(space, budget, horizon=horizon, mechanism_name=mechanism, every=25)
        policies = serve(made, People(200, 1))
        assert made.people == 200
        # Without a horizon nothing is released before it would be worth anything.
        released = made.guarantee()
        if mechanism == "geometric_epochs" and horizon is None and budget.epsilon < 1.0:
            assert (len(policies), released.epsilon) == (1, 0.0)
        else:
            assert budget.epsilon * (1.0 - 1e-6) <= released.epsilon <= budget.epsilon
        mean, deviation = made.model.predict(np.random.default_rng(0).random((30, 2)))
        assert np.isfinite(mean).all()
        assert (deviation >= 0.0).all()

    @every_space
    @pytest.mark.parametrize("budget", [Local(1000.0, 0.1), Local(1e-3, 1e-5)], ids=str)
    def test_local_privacy_from_very_much_to_very_little(self, space: Any, budget: Local) -> None:
        made = learner(space, budget, update_growth=1.5)
        assert len(serve(made, People(100, 1))) > 5
        assert budget.epsilon * (1.0 - 1e-6) <= made.guarantee().epsilon <= budget.epsilon

    def test_more_noise_says_less(self) -> None:
        deviations = []
        for budget in (NonPrivate(), Joint(10.0, 0.1), Joint(0.1, 1e-5)):
            made = learner(SETS, budget, horizon=400)
            serve(made, People(400, 1))
            deviations.append(made.model.predict([[0.6, 0.6]])[1][0])
        assert deviations == sorted(deviations)


class TestKernels:
    @every_space
    def test_features_longer_than_1_are_divided_by_their_norm(self, space: Any) -> None:
        made = learner(space, horizon=60, kernel="4.0 * RBF(length_scale=0.6)")
        assert made.features.norm_bound == pytest.approx(2.0)
        serve(made, People(60, 1))
        model = made.model
        assert model.norm >= 2.0
        phi = model.features.compute(np.random.default_rng(0).random((200, 2))) / model.norm
        assert np.linalg.norm(phi, axis=1).max() <= 1.0
        assert made.guarantee().epsilon <= 1.0

    @pytest.mark.parametrize("groups", [[[0, 1], [1, 2]], [[0], [2]]], ids=["overlap", "missing"])
    def test_a_box_needs_groups_that_cut_it_up(self, groups: list[list[int]]) -> None:
        kernel = Additive(RBF(0.5), groups)
        with pytest.raises(InvalidInput, match="exactly one group"):
            GPUCB(unit_cube(3), PublicBox(), NonPrivate(), kernel=kernel, error=0.05)
        made = GPUCB(unit_cube(3), SETS, NonPrivate(), kernel=kernel, error=0.05)
        assert made.policy().version == 0, "decision sets do not"

    def test_twenty_columns(self) -> None:
        made = GPUCB(
            unit_cube(20), PublicBox(), Joint(1.0, 1e-5), noise=SimulatedNoise(0), horizon=50
        )
        actions, _ = made.policy().act(50, np.random.default_rng(0))
        made.update(made.policy().report(50, actions, np.full(50, 0.5), Unprotected()))
        assert made.policy().version == 1

    def test_a_single_public_point(self) -> None:
        made = learner(PublicSet.of([[0.5, 0.5]]), horizon=40)
        policies = serve(made, People(40, 1))
        actions, odds = policies[-1].act(3, np.random.default_rng(0))
        assert actions.arms.tolist() == [0, 0, 0]
        assert odds.tolist() == [1.0, 1.0, 1.0]


class TestOptions:
    def test_points_between_two_releases_follow_every(self) -> None:
        made = learner(horizon=60, mechanism_name="binary_tree", every=12)
        assert made.policy().version == 0
        assert made.batch_size == 12

    def test_prefix_sums_need_a_horizon(self) -> None:
        with pytest.raises(InvalidInput, match="give the horizon, or use geometric_epochs"):
            learner(horizon=None, mechanism_name="binary_tree")

    @pytest.mark.parametrize("choose", ["ucb", "thompson", "matching"])
    @pytest.mark.parametrize("name", ["set", "box"])
    def test_every_way_to_choose_public_points(self, choose: str, name: str) -> None:
        """Fault once found: Thompson sampling failed after the first release."""
        made = learner(SPACES[name], horizon=60, choose=choose)
        for policy in serve(made, People(60, 1)):
            for group in policy.groups:
                assert group.probabilities.sum() == pytest.approx(1.0)
        assert len(made._policies) > 3

    def test_options_are_saved(self, tmp_path: Path) -> None:
        points = np.random.default_rng(0).random((60, 2))
        made = GPUCB(
            DOMAIN,
            SETS,
            NonPrivate(),
            kernel="0.5 * RBF(0.7) + 0.5 * RBF(0.3)",
            error=0.05,
            public_points=points,
            calibration=PosteriorBonus(growth=1.4, choose="thompson", prior_variance=0.2),
        )
        serve(made, People(20, 1))
        save(made, tmp_path / "learner")
        again = load(tmp_path / "learner")
        assert isinstance(again, SetsGPUCB)
        assert again.calibration == made.calibration
        assert again._points is not None
        assert np.allclose(again._points.array, points)
        assert encode(again.policy()) == encode(made.policy())


class TestModel:
    def test_predictions_are_in_the_units_of_rewards(self) -> None:
        models = []
        for bounds in (RewardBounds(0.0, 1.0), RewardBounds(-3.0, 5.0)):
            made = GPUCB(
                DOMAIN,
                PublicBox(),
                Joint(1.0, 1e-5),
                kernel="RBF(0.6)",
                error=0.05,
                reward_bounds=bounds,
                noise=SimulatedNoise(1),
                horizon=100,
            )
            while made.people < 100:
                people = min(made.policy() and made.batch_size, 100 - made.people)
                actions, _ = made.policy().act(people, np.random.default_rng(people))
                assert actions.points is not None
                unit = actions.points[:, 0]
                rewards = bounds.lower + unit * (bounds.upper - bounds.lower)
                made.update(made.policy().report(people, actions, rewards, Unprotected()))
            models.append(made.model)
        where = np.random.default_rng(0).random((40, 2))
        (mean, deviation), (wide_mean, wide_deviation) = (m.predict(where) for m in models)
        assert np.allclose(wide_mean, -3.0 + 8.0 * mean, atol=1e-4)
        assert np.allclose(wide_deviation, 8.0 * deviation, atol=1e-4)

    def test_before_anybody_came_it_knows_the_prior(self) -> None:
        for space in SPACES.values():
            mean, deviation = learner(space).model.predict([[0.3, 0.6]])
            assert mean[0] == pytest.approx(0.5)
            assert 0.1 < deviation[0] < 0.6

    @pytest.mark.parametrize(
        "change",
        [
            {"norm": 0.5},
            {"norm": -1.0},
            {"mean": [0.0]},
            {"root": [[0.0]]},
            {"root": [0.0]},
            {"reward_bounds": {"lower": 1.0, "upper": 0.0}},
            {"features": {"kind": "fourier"}},
        ],
    )
    def test_damaged_models_are_refused(self, change: dict[str, Any]) -> None:
        fields = json.loads(encode(learner().model))
        with pytest.raises(InvalidInput):
            decode(json.dumps({**fields, **change}), KernelModel)


FEATURES = feature_map(kernel_from_text("RBF(length_scale=0.5)"), DOMAIN, error=0.03)


def drawn_coefficients(made: Any, rng: np.random.Generator) -> np.ndarray:
    """A constant and coefficients of features, drawn from the prior of a learner: on public points
    with one of several length scales."""
    if not isinstance(made, PublicGPUCB):
        return np.append(0.5, np.sqrt(1.0 / 12.0) * rng.normal(size=FEATURES.features))
    root = made.grid.roots[rng.choice(len(SCALE_PRIOR), p=SCALE_PRIOR / SCALE_PRIOR.sum())]
    drawn = np.sqrt(1.0 / 12.0) * root @ rng.normal(size=root.shape[1])
    theta = made.grid.to_features @ drawn
    return np.append(0.5 + theta[0], theta[1:] / made.norm)


def z_scores(space: Any, budget: Any, people: int, seed: int) -> np.ndarray:
    """(f - mean) / sd at points of the domain, f drawn from the prior that the learner believes in,
    given that f lies in [0, 1] there: rewards are coins that show 1 with probability f."""
    rng = np.random.default_rng(seed)
    where = np.vstack([rng.random((60, 2)), [[0, 0], [0, 1], [1, 0], [1, 1]]])
    made = GPUCB(
        DOMAIN,
        space,
        budget,
        features=FEATURES,
        horizon=people,
        public_seed=seed,
        noise=SimulatedNoise(seed) if isinstance(budget, Joint) else None,
        calibration=PosteriorBonus(update_growth=1.3),
    )
    phi = FEATURES.compute(where)
    truth = np.array([2.0])
    while truth.min() < 0.0 or truth.max() > 1.0:
        theta = drawn_coefficients(made, rng)
        truth = theta[0] + phi @ theta[1:]
    while made.people < people:
        policy = made.policy()
        count = min(made.batch_size, people - made.people)
        contexts = rng.random((count, 5, 2)) if isinstance(space, DecisionSets) else count
        actions, _ = policy.act(contexts, rng)
        assert actions.points is not None
        mean = theta[0] + FEATURES.compute(actions.points) @ theta[1:]
        rewards = (rng.random(count) < mean).astype(float)
        noise = SimulatedNoise([seed, made.people]) if isinstance(budget, Local) else Unprotected()
        made.update(policy.report(contexts, actions, rewards, noise))
    mean, deviation = made.model.predict(where[:50])
    return np.asarray((truth[:50] - mean) / deviation)


class TestCalibration:
    """Posterior deviations mean what they say: z-scores have a deviation near 1."""

    @pytest.mark.parametrize(
        "budget",
        [pytest.param(NonPrivate(), marks=pytest.mark.slow), Joint(1.0, 1e-5)],
        ids=str,
    )
    @pytest.mark.parametrize("space", [DecisionSets(5), PublicBox()], ids=["sets", "box"])
    def test_quick(self, space: Any, budget: Any) -> None:
        scores = np.concatenate([z_scores(space, budget, 300, seed) for seed in range(2)])
        assert 0.5 < scores.std() < 1.8

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "budget", [NonPrivate(), Joint(1.0, 1e-5), Joint(10.0, 0.1), Local(5.0, 1e-5)], ids=str
    )
    @pytest.mark.parametrize("space", [DecisionSets(5), PublicBox()], ids=["sets", "box"])
    def test_in_many_simulations(self, space: Any, budget: Any) -> None:
        scores = np.concatenate([z_scores(space, budget, 1000, seed) for seed in range(30)])
        assert 0.7 < scores.std() < 1.4


def regret_on_bumps(name: str, budget: Any, seed: int) -> float:
    problem = BumpProblem(candidates=10)
    people = problem.sample(512, np.random.default_rng(seed))
    noise = SimulatedNoise(seed)
    options = {} if name == "uniform" else {"kernel": "RBF(length_scale=1.0)"}
    made = make_learner(
        name,
        problem.domain,
        problem.space,
        budget,
        options=options,
        horizon=512,
        noise=noise if isinstance(budget, Joint) else None,
    )
    return float(run_learner(made, people, np.random.default_rng(seed), noise).sum())


def regret_on_a_box(budget: Any, seed: int) -> tuple[float, float]:
    """Two groups of one column each; also the regret of points chosen at random."""
    domain = Box((0.0, 0.0), (1.0, 1.0))

    def mean(points: np.ndarray) -> np.ndarray:
        bumps = np.exp(-8.0 * (points - np.array([0.8, 0.3])) ** 2)
        return np.asarray(0.1 + 0.4 * bumps.sum(axis=1))

    rng = np.random.default_rng(seed)
    made = GPUCB(
        domain,
        PublicBox(),
        budget,
        kernel=Additive(RBF(0.3)),
        horizon=512,
        public_seed=seed,
        noise=SimulatedNoise(seed) if isinstance(budget, Joint) else None,
    )
    regret = 0.0
    while made.people < 512:
        policy = made.policy()
        count = min(made.batch_size, 512 - made.people)
        actions, _ = policy.act(count, rng)
        assert actions.points is not None
        values = mean(actions.points)
        regret += float((0.9 - values).sum())
        rewards = (rng.random(count) < values).astype(float)
        made.update(policy.report(count, actions, rewards, Unprotected()))
    return regret, float((0.9 - mean(rng.random((512, 2)))).sum())


class TestRegret:
    def test_decision_sets(self) -> None:
        total = {
            name: regret_on_bumps(learner_name, budget, 0)
            for name, learner_name, budget in [
                ("uniform", "uniform", NonPrivate()),
                ("plain", "gp_ucb", NonPrivate()),
                ("joint", "gp_ucb", Joint(10.0, 0.1)),
            ]
        }
        assert total["plain"] < 0.2 * total["uniform"]
        assert total["joint"] < 0.4 * total["uniform"]

    @pytest.mark.parametrize(
        "budget",
        [pytest.param(NonPrivate(), marks=pytest.mark.slow), Joint(10.0, 0.1)],
        ids=str,
    )
    def test_a_public_box(self, budget: Any) -> None:
        mine, chance = regret_on_a_box(budget, 0)
        assert mine < 0.5 * chance


class TestCompany:
    """What a person is given never depends on who else is in the batch."""

    def test_how_many_points_others_bring(self) -> None:
        """Points of equal score are told apart by last bits, which the width of a batch moved."""
        rng = np.random.default_rng(0)
        made = serve_some(learner(SETS, NonPrivate()))
        policy = made.policy()
        for _ in range(100):
            point = rng.random(2)
            mine = np.stack([point, point * (1.0 - 1e-15)])
            others = [rng.random((count, 2)) for count in (1, SETS.most)]
            chosen = [
                int(policy.act([mine, other], np.random.default_rng(1))[0].arms[0])
                for other in others
            ]
            assert chosen[0] == chosen[1]
            assert np.array_equal(
                *(policy._features(policy._read([mine, other]).points[0]) for other in others)
            )

    def test_a_stranger_among_them(self) -> None:
        """One person's point that a finite map lacks changes nobody else's features."""
        points = np.random.default_rng(2).random((300, 2))
        made = GPUCB(
            DOMAIN,
            SETS,
            Local(2.0, 1e-5),
            features=finite_features(RBF(0.5), DOMAIN, points, error=1e-3),
            public_points=points,
        )
        policy = made.policy()
        company = points[:200].reshape(50, 4, 2)
        strange = company.copy()
        strange[7, 2] = [0.123, 0.456]
        first, second = (
            policy.act(sets, np.random.default_rng(3))[0].arms for sets in (company, strange)
        )
        assert np.array_equal(np.delete(first, 7), np.delete(second, 7))


def serve_some(made: GPUCBLearner[Any]) -> GPUCBLearner[Any]:
    """After forty people."""
    people = People(40, 4)
    for start in range(0, 40, 10):
        made.update(observe(made, people, start, start + 10))
    return made
