"""The knowledge gradient in decision sets: against quadrature, who explores, and what it saves."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from discreet.lab.experiments import Setting, simulate
from discreet.learners.gp_ucb.sets.policy import KnowledgeGradient, SetPolicy
from discreet.privacy import NonPrivate
from tests.learners.gp_ucb.cases import People, learner, serve

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from zoo_problems import LinearSetProblem

GRADIENT = KnowledgeGradient(
    came=400, remaining=5000, reward_variance=0.2, release_variance=3.0, own_variance=0.1
)


def sets(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means, roots and rooms of sets of five points."""
    rng = np.random.default_rng(seed)
    mean, root = 0.1 * rng.normal(size=(count, 5)), 0.1 * rng.normal(size=(count, 5, 3))
    root[: count // 2] *= 0.2
    return mean, root, 0.5 - mean.max(axis=1)


class TestKnowledgeGradient:
    @pytest.mark.parametrize("gap", [0.0, 0.05, 0.3])
    @pytest.mark.parametrize("spread", [0.02, 0.15])
    @pytest.mark.parametrize("room", [0.03, 0.4])
    def test_gain_is_the_expected_rise_of_the_best_mean(
        self, gap: float, spread: float, room: float
    ) -> None:
        """Brute force: pulls move the mean as a Gaussian measurement does, and three in ten of the
        people to come gain its rise above the best, up to the end of the rewards."""
        net = GRADIENT.net(np.array([gap]), np.array([spread]), np.array([room]))[0]
        for count, value in zip(GRADIENT.counts, net, strict=True):
            noise = (0.2 + 2.0 * 0.1) / count + 2.0 * 3.0 / count**2
            left = 1.0 / (1.0 / spread**2 + 1.0 / noise)
            moved = np.sqrt(spread**2 - left)
            at = np.linspace(-9.0, 9.0, 200_001)
            rise = np.clip(moved * at - gap, 0.0, room)
            gain = np.sum(rise * norm.pdf(at)) * (at[1] - at[0])
            assert value == pytest.approx(1500.0 * gain - count * gap, rel=1e-5, abs=1e-6)

    def test_counts_end_at_half_of_the_remaining_horizon(self) -> None:
        assert GRADIENT.counts.tolist() == [1, 4, 16, 64, 256, 1024]
        assert replace(GRADIENT, remaining=0).counts.tolist() == [1]

    def test_choice_is_the_largest_net_worth(self) -> None:
        mean, root, room = sets(40, 1)
        places, shares = GRADIENT.choose(mean, root, room)
        for person in range(40):
            best = mean[person].argmax()
            worth = np.full(5, -np.inf)
            count = np.zeros(5)
            for place in set(range(5)) - {best}:
                gap = mean[person, best] - mean[person, place]
                spread = np.linalg.norm(root[person, place] - root[person, best])
                net = GRADIENT.net(np.array([gap]), np.array([spread]), room[[person]])[0]
                worth[place], count[place] = net.max(), GRADIENT.counts[net.argmax()]
            if worth.max() <= 0.0:
                assert shares[person] == 0.0
                continue
            assert places[person] == worth.argmax()
            assert shares[person] == pytest.approx(min(count[worth.argmax()] / 400, 0.8))
        assert 0.0 < np.mean(shares > 0.0) < 1.0

    def test_absent_points_and_nan_are_not_explored(self) -> None:
        """A forged policy may hold any numbers; no choice may fail for it."""
        mean, root, room = sets(40, 2)
        mean[:, 3] = -np.inf
        places, shares = GRADIENT.choose(mean, root, room)
        assert not np.any((places == 3) & (shares > 0.0))
        root[:, 1] = np.nan
        with np.errstate(all="ignore"):
            places, shares = GRADIENT.choose(mean, root, room)
        assert not np.any(((places == 1) | (places == 3)) & (shares > 0.0))
        assert np.all((shares >= 0.0) & (shares <= 0.8))

    def test_no_exploration_for_an_empty_horizon(self) -> None:
        mean, root, room = sets(40, 3)
        mean[:, 0] += 0.01
        assert not replace(GRADIENT, remaining=0).choose(mean, root, room)[1].any()


class TestPolicy:
    def test_propensities_are_frequencies(self) -> None:
        policy = serve(learner(horizon=2000), People(200, 4))[-1]
        assert isinstance(policy, SetPolicy)
        assert policy.knowledge_gradient is not None
        rng = np.random.default_rng(5)
        seen = 0
        for own in rng.random((12, 4, 2)):
            contexts = np.broadcast_to(own, (4000, 4, 2))
            actions, odds = policy.act(contexts, rng)
            for arm in np.unique(actions.arms):
                given = actions.arms == arm
                assert np.ptp(odds[given]) == 0.0
                assert abs(given.mean() - odds[given][0]) < 0.04
                seen += odds[given][0] < 1.0
        assert seen > 0

    @pytest.mark.parametrize("scale", [0.0, 1.0, 1e160, 1e300])
    def test_chosen_points_are_in_the_set(self, scale: float) -> None:
        """Fault once found: a policy whose deviations overflow chose places that are not there."""
        policy = serve(learner(horizon=400), People(60, 4))[-1]
        assert isinstance(policy, SetPolicy)
        assert policy.knowledge_gradient is not None
        model = replace(policy.model, root=scale * policy.model.root)
        rng = np.random.default_rng(5)
        contexts = [rng.random((size, 2)) for size in (1, 2, 3, 4)] * 20
        actions, odds = replace(policy, model=model).act(contexts, rng)
        assert np.all(actions.arms < [len(own) for own in contexts])
        assert np.all((odds > 0.0) & (odds <= 1.0))

    @pytest.mark.parametrize("choose", ["ucb", "thompson"])
    def test_other_rules_do_not_explore(self, choose: str) -> None:
        policy = serve(learner(horizon=60, choose=choose), People(60, 4))[-1]
        assert isinstance(policy, SetPolicy)
        assert policy.knowledge_gradient is None


@pytest.mark.slow
def test_a_set_that_everyone_brings_is_searched() -> None:
    """Fault once found: with no other sets to lead people elsewhere, runs stayed with a point that
    was lucky early."""
    lost = {}
    for choose in (None, "ucb"):
        options = {"kernel": "DotProduct(sigma_0=0.0)", "choose": choose}
        setting = Setting("gp_ucb", "gp_ucb", NonPrivate(), options)
        runs = [simulate(LinearSetProblem(30, 4), setting, 3000, 31, r) for r in range(3)]
        lost[choose] = [run.record.value for run in runs]
    assert np.mean(lost[None]) < 0.5 * np.mean(lost["ucb"])
    assert max(lost[None]) < max(lost["ucb"])
