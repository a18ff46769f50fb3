"""Local privacy: the noise of one report, and policies of learners that are not honest."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import DotProduct

from discreet.codec import decode, encode, to_json
from discreet.kernels import (
    FeatureMap,
    FiniteFeatures,
    FourierFeatures,
    nystrom_features,
    scaled,
)
from discreet.learners.gp_ucb.policy import NoisyRows
from discreet.learners.gp_ucb.public.policy import PublicPolicy
from discreet.learners.gp_ucb.sets.policy import SetPolicy, row_sensitivity
from discreet.learners.policy import Policy, Terms
from discreet.people.domain import Box
from discreet.privacy import Local, NonPrivate, SecureNoise, SimulatedNoise, Unprotected
from discreet.privacy.accounting import gaussian_epsilon
from discreet.privacy.calibration import AdditiveNoise, gaussian_noise_multiplier
from discreet.validation import InvalidInput

from ..spy import Spy
from .cases import DOMAIN, SETS, SPACES, People, learner, observe, serve

LOCAL, PURE = Local(2.0, 1e-5), Local(2.0)


def set_policy() -> SetPolicy:
    policy = learner(budget=LOCAL).policy()
    assert isinstance(policy, SetPolicy)
    return policy


def box_policy(budget: Local = PURE) -> PublicPolicy:
    policy = learner(SPACES["box"], budget).policy()
    assert isinstance(policy, PublicPolicy)
    return policy


def sent(policy: Policy[Any], change: Callable[[dict[str, Any]], object]) -> Policy[Any]:
    """What a device makes of a policy that was tampered with on the way."""
    fields = json.loads(encode(policy))
    change(fields)
    return decode(json.dumps(fields), Policy)


class TestReports:
    @pytest.mark.parametrize("policy", [set_policy(), box_policy(LOCAL)], ids=["set", "box"])
    def test_gaussian_noise_is_scaled_to_the_budget(self, policy: Any) -> None:
        assert policy.local.sensitivity >= 1.0
        multiplier = policy.local.scale / policy.local.sensitivity
        assert gaussian_epsilon(multiplier, 1e-5) == pytest.approx(2.0, rel=1e-6)
        assert gaussian_epsilon(multiplier, 1e-5) <= 2.0
        assert not policy.local.laplace

    def test_the_row_of_a_person_is_what_gets_noise(self) -> None:
        """Any two people differ by no more than the claimed sensitivity, before noise."""
        policy, spy = set_policy(), Spy(0)
        people = People(200, 1)
        actions, _ = policy.act(people.sets, np.random.default_rng(0))
        for rewards in (np.zeros(200), np.ones(200), people.luck):
            policy.report(people.sets, actions, rewards, spy)
        rows = np.concatenate(spy.given)
        gram = rows @ rows.T
        lengths = np.diag(gram)
        furthest = np.sqrt(np.max(lengths[:, None] + lengths[None, :] - 2.0 * gram))
        assert policy.local is not None
        assert furthest <= policy.local.sensitivity
        assert furthest >= 0.5 * policy.local.sensitivity

    def test_noise_of_a_report_has_the_law_it_claims(self) -> None:
        policy = box_policy(Local(4.0))
        actions, _ = policy.act(20_000, np.random.default_rng(0))
        reports = policy.report(20_000, actions, np.full(20_000, 0.25), SimulatedNoise(1))
        assert isinstance(reports, NoisyRows)
        law = stats.laplace(loc=-0.25, scale=0.25)
        assert stats.kstest(reports.rows[:, 0], law.cdf).pvalue > 1e-6

    def test_a_public_report_costs_epsilon_and_no_delta(self) -> None:
        made = learner(SPACES["box"], Local(2.0))
        serve(made, People(30, 1))
        guarantee = made.guarantee()
        assert guarantee.epsilon == pytest.approx(2.0, rel=1e-6)
        assert guarantee.epsilon <= 2.0
        assert guarantee.delta == 0.0
        assert guarantee.adjacency.record == "reward"

    @pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())
    @pytest.mark.parametrize("epsilon", [0.1, 0.7, 1.5, 2.0, 3.3, 10.0])
    @pytest.mark.parametrize("delta", [0.0, 0.1, 1e-8])
    def test_a_person_who_agreed_to_the_budget_can_report(
        self, space: Any, epsilon: float, delta: float
    ) -> None:
        """Fault once found: a rounding error above the epsilon that was asked for was refused."""
        if delta == 0.0 and space is SETS:
            return
        policy = learner(space, Local(epsilon, delta)).policy()
        Terms(policy.domain, policy.space, epsilon, delta=delta).check(policy)
        less = Terms(policy.domain, policy.space, epsilon * 0.999, delta=delta)
        with pytest.raises(InvalidInput, match="at most"):
            less.check(policy)

    @pytest.mark.chance(0)
    def test_secure_noise(self) -> None:
        pytest.importorskip("opendp")
        for policy in (set_policy(), box_policy(), box_policy(LOCAL)):
            people = People(3, 1).sets if isinstance(policy, SetPolicy) else 3
            actions, _ = policy.act(people, np.random.default_rng(0))
            with pytest.raises(InvalidInput, match="terms"):
                policy.report(people, actions, np.zeros(3), SecureNoise())
            terms = Terms(policy.domain, policy.space, 2.0, delta=1e-5)
            reports = policy.report(people, actions, np.zeros(3), SecureNoise(), terms)
            assert reports.noise == SecureNoise.name
            release = policy.release(SecureNoise.name)
            assert release is not None
            assert release.noise == SecureNoise.name

    def test_reports_without_noise_are_refused(self) -> None:
        for policy in (set_policy(), box_policy(), box_policy(LOCAL)):
            people = People(3, 1).sets if isinstance(policy, SetPolicy) else 3
            actions, _ = policy.act(people, np.random.default_rng(0))
            with pytest.raises(InvalidInput, match="Unprotected"):
                policy.report(people, actions, np.zeros(3), Unprotected())

    def test_a_delta_is_needed_for_gaussian_rows(self) -> None:
        policy = set_policy()
        with pytest.raises(InvalidInput, match="delta"):
            Terms(policy.domain, policy.space, 5.0).check(policy)

    def test_observations_are_refused_where_reports_must_be_private(self) -> None:
        for space, budget in product(SPACES.values(), [LOCAL]):
            made = learner(space, budget)
            plain = learner(space, NonPrivate())
            people = People(3, 1).sets if space is SETS else 3
            policy = plain.policy()
            actions, _ = policy.act(people, np.random.default_rng(0))
            reports = policy.report(people, actions, np.zeros(3), Unprotected())
            with pytest.raises(InvalidInput):
                made.update(replace(reports, source=made.identity))

    def test_reports_of_another_shape_or_kind_are_refused(self) -> None:
        for space in (SETS, SPACES["box"]):
            made = learner(space, LOCAL)
            good = observe(made, People(4, 1), 0, 4)
            for wrong in (
                replace(good, rows=np.hstack([good.rows, good.rows])),
                replace(good, rows=good.rows[:0], public_coins=good.public_coins[:0]),
                replace(good, public_coins=np.arange(3, dtype=np.uint64), rows=good.rows[:, :0]),
            ):
                with pytest.raises(InvalidInput, match="reports had"):
                    made.update(wrong)
            trusted = learner(space, NonPrivate())
            assert trusted.policy().version == good.policy_version
            with pytest.raises(InvalidInput, match="PointObservations"):
                trusted.update(good)


class TestTamperedPolicies:
    """A learner is not trusted: a device must notice, or send as little as was promised."""

    @pytest.mark.parametrize("by", [0.999, 0.5, 1e-6])
    def test_a_sensitivity_that_is_too_small(self, by: float) -> None:
        for policy in (set_policy(), box_policy(), box_policy(LOCAL)):

            def change(fields: dict[str, Any]) -> None:
                fields["local"]["sensitivity"] *= by
                fields["local"]["scale"] *= by

            with pytest.raises(InvalidInput, match="sensitivity"):
                sent(policy, change)

    def test_a_scale_that_is_too_small_shows_in_epsilon(self) -> None:
        for policy in (set_policy(), box_policy(Local(4.0)), box_policy(LOCAL)):
            worse = sent(policy, lambda f: f["local"].update(scale=f["local"]["scale"] / 2))
            with pytest.raises(InvalidInput, match="promises"):
                Terms(DOMAIN, worse.space, 4.0, delta=1e-5).check(worse)

    def test_a_sign_of_a_larger_epsilon_shows_in_epsilon(self) -> None:
        for epsilon in (2.1, 50.0):
            worse = sent(box_policy(), lambda f, e=epsilon: f["local"].update(scale=e))
            with pytest.raises(InvalidInput, match="promises"):
                Terms(DOMAIN, worse.space, 2.0).check(worse)

    def test_a_sign_is_no_noise_for_a_row(self) -> None:
        """It would hide a single number."""
        sign = json.loads(encode(box_policy()))["local"]
        with pytest.raises(InvalidInput, match="Gaussian"):
            sent(set_policy(), lambda f: f.update(local=sign))

    def test_a_larger_sensitivity_with_the_same_scale_shows_in_epsilon(self) -> None:
        policy = sent(set_policy(), lambda f: f["local"].update(sensitivity=1e3))
        with pytest.raises(InvalidInput, match="promises"):
            Terms(DOMAIN, policy.space, 2.0, delta=1e-5).check(policy)

    def test_laplace_noise_on_a_row(self) -> None:
        """Fault once found: Laplace noise needs the l1 sensitivity, which is far larger."""
        with pytest.raises(InvalidInput, match="Gaussian"):
            sent(set_policy(), lambda f: f["local"].update(laplace=True))

    def test_no_noise_at_all(self) -> None:
        for policy in (set_policy(), box_policy()):
            bare = sent(policy, lambda f: f.update(local=None))
            with pytest.raises(InvalidInput, match="inf"):
                Terms(DOMAIN, bare.space, 1e9, delta=1e-5).check(bare)

    @pytest.mark.parametrize("value", [0.0, -1.0, "1", None, True])
    @pytest.mark.parametrize("name", ["scale", "sensitivity"])
    def test_numbers_that_are_none(self, name: str, value: object) -> None:
        for policy in (set_policy(), box_policy()):
            with pytest.raises(InvalidInput):
                sent(policy, lambda f: f["local"].update({name: value}))
        with pytest.raises(InvalidInput):
            sent(box_policy(), lambda f: f["local"].update(laplace=1))

    @pytest.mark.parametrize(
        "weights",
        [
            {"rewards": 1e6},
            {"centre": 0.0},
            {"centre": 1.0},
            {"centre": 1.5},
            {"centre": -3.0},
            {"off_diagonal": 100.0},
            {"rewards": -2.0},
            {"with_squares": 3},
        ],
    )
    def test_other_weights(self, weights: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput):
            sent(set_policy(), lambda f: f["weights"].update(weights))

    @pytest.mark.parametrize("norm", [1e-3, 0.999, 0.0, -1.0, 1e-300])
    def test_a_norm_under_the_features_own(self, norm: float) -> None:
        """Fault once found: features are divided by it, so rows grew without bound."""
        for policy in (set_policy(), box_policy()):
            with pytest.raises(InvalidInput, match="norm"):
                sent(policy, lambda f: f["model"].update(norm=norm))

    def test_a_norm_that_is_claimed(self) -> None:
        """Norm bounds are worked out anew, so none can be sent along."""
        for change in (
            lambda f: f["model"]["features"].update(norm_bound=1.0),
            lambda f: f["model"]["features"].update(kind="additive"),
        ):
            with pytest.raises(InvalidInput):
                sent(set_policy(), change)

    def test_features_of_another_domain(self) -> None:
        """Fault once found: linear features are short on a small box, and long on the real one."""
        tiny = nystrom_features(DotProduct(1e-6), Box((0.0, 0.0), (1e-6, 1e-6)), error=1e-15)

        def change(fields: dict[str, Any]) -> None:
            size = tiny.features
            fields["model"].update(
                features=to_json(tiny, FeatureMap),
                norm=tiny.norm_bound,
                mean=[0.0] * (size + 1),
                root=[[0.0]] * (size + 1),
            )

        with pytest.raises(InvalidInput, match="domain"):
            sent(set_policy(), change)

    @staticmethod
    def with_features(features: Any, norm: float) -> SetPolicy:
        policy = set_policy()
        size = features.features
        model = replace(
            policy.model,
            features=features,
            norm=norm,
            mean=np.zeros(size + 1),
            root=np.zeros((size + 1, 1)),
        )
        needed = row_sensitivity(size, policy.weights)
        noise = AdditiveNoise(needed, needed)
        return replace(policy, model=model, local=noise, domain=features.domain)

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("kind", ["overflow", "underflow"])
    def test_features_whose_arithmetic_fails(self, kind: str) -> None:
        """Fault once found: angles that overflow for some people gave NaN, on which no noise
        falls, and a warning, which tells for whom; products of tiny numbers gave a norm of 0 for
        features that are not."""
        wide = Box((0.0, 0.0), (10.0, 10.0))
        bad: Any = FourierFeatures(wide, [[1.7e308, 0.0]], [1.0])
        norm = 1.0
        if kind == "underflow":
            bad = scaled(FourierFeatures(wide, [[1.0, 0.0]], [1e-200]), 1e-200)
            norm = 1e-300
            assert bad.norm_bound < 1e-290
        policy = self.with_features(bad, norm)
        people, spy = People(50, 1), Spy(0)
        sets = 10.0 * people.sets
        with np.errstate(all="ignore"):
            assert not (np.linalg.norm(bad.compute(sets[:, 0]) / norm, axis=1) <= 1.1).all()
        actions, _ = policy.act(sets, np.random.default_rng(0))
        policy.report(sets, actions, np.ones(50), spy)
        rows = spy.given[0]
        assert np.isfinite(rows).all()
        assert policy.local is not None
        assert np.linalg.norm(rows, axis=1).max() <= policy.local.sensitivity

    def test_a_table_that_lacks_somebodys_points(self) -> None:
        """Fault once found: a device that falls silent tells the learner about its person."""
        points = np.array([[0.1, 0.1], [0.9, 0.9]])
        policy = self.with_features(FiniteFeatures(DOMAIN, points, np.eye(2)), 1.0)
        sets = np.array([[[0.1, 0.1], [0.9, 0.9]], [[0.5, 0.5], [0.9, 0.9]], [[0.3, 0.3]] * 2])
        actions, _ = policy.act(sets, np.random.default_rng(0))
        spy = Spy(0)
        reports = policy.report(sets, actions, np.ones(3), spy)
        assert len(reports) == 3
        assert np.isfinite(spy.given[0]).all()
        with pytest.raises(InvalidInput, match="finite map"):
            replace(policy, local=None).act(sets, np.random.default_rng(0))

    def test_what_the_terms_compare(self) -> None:
        policy = set_policy()
        agreed = Terms(DOMAIN, SETS, 2.0, delta=1e-5)
        agreed.check(policy)
        for change, word in (
            (lambda f: f.update(reward_bounds={"lower": 0.0, "upper": 0.5}), "reward_bounds"),
            (lambda f: f["offered"].update(most=5), "arms"),
        ):
            with pytest.raises(InvalidInput, match=word):
                agreed.check(sent(policy, change))
        with pytest.raises(InvalidInput):
            agreed.check(sent(policy, lambda f: f["domain"].update(upper=[1.0, 2.0])))
        with pytest.raises(InvalidInput):
            sent(policy, lambda f: f.update(offered={}))
        with pytest.raises(InvalidInput, match="public points"):
            sent(box_policy(), lambda f: f.update(offered={"kind": "DecisionSets", "most": 4}))

    def test_offers_and_grids(self) -> None:
        def grows(fields: dict[str, Any]) -> None:
            fields["groups"][0]["probabilities"][0] += 0.1

        def negative(fields: dict[str, Any]) -> None:
            probabilities = fields["groups"][0]["probabilities"]
            probabilities[:2] = [-0.1, 0.1 + sum(probabilities[:2])]

        def shorter(fields: dict[str, Any]) -> None:
            fields["groups"][0]["grid"].pop()

        def columns(fields: dict[str, Any]) -> None:
            fields["groups"][0]["columns"] = [0, 0]

        for change in (grows, negative, shorter, columns):
            with pytest.raises(InvalidInput):
                sent(box_policy(), change)


def test_terms_count_what_the_sampler_holds() -> None:
    """Fault once found: a device was told 1 and sent a report that held 1.0000000051."""
    policy = set_policy()
    exact = gaussian_noise_multiplier(2.0, 1e-5) * policy.local.sensitivity
    forged = replace(policy, local=replace(policy.local, scale=exact))
    terms = Terms(policy.domain, policy.space, 2.0, delta=1e-5)
    terms.check(forged, SimulatedNoise.name)
    with pytest.raises(InvalidInput, match="agreed to at most"):
        terms.check(forged)
    with pytest.raises(InvalidInput, match="agreed to at most"):
        forged.act("no contexts", np.random.default_rng(0), terms)
