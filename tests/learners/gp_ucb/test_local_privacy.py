"""Local privacy: the noise of one report, and policies of learners that are not honest."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
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

from ..spy import Spy, furthest
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


POLICIES: dict[str, Policy[Any]] = {
    "set": set_policy(),
    "rows": box_policy(LOCAL),
    "signs": box_policy(),
    "4": box_policy(Local(4.0)),
}


def sent(policy: Policy[Any], path: str, value: Any) -> Policy[Any]:
    """What a device makes of a policy that was tampered with on the way: at a path of fields stands
    a value, or a function of what stood there."""
    fields = place = json.loads(encode(policy))
    *way, name = path.split(".")
    for key in way:
        place = place[int(key) if key.isdigit() else key]
    place[name] = value(place[name]) if callable(value) else value
    return decode(json.dumps(fields), Policy)


def weaker(local: dict[str, Any], by: float) -> dict[str, Any]:
    return {**local, "sensitivity": by * local["sensitivity"], "scale": by * local["scale"]}


# Policies, path, value, message.
DAMAGE: list[tuple[str, str, Any, str]] = [
    *(
        ("set rows signs", "local", partial(weaker, by=by), "sensitivity")
        for by in (0.999, 0.5, 1e-6)
    ),
    # A sign hides a single number, and Laplace noise needs the l1 sensitivity.
    ("set", "local", json.loads(encode(POLICIES["signs"]))["local"], "Gaussian"),
    ("set", "local.laplace", True, "Gaussian"),
    ("signs", "local.laplace", 1, ""),
    *(
        ("set signs", f"local.{name}", value, "")
        for name in ("scale", "sensitivity")
        for value in (0.0, -1.0, "1", None, True)
    ),
    *(("set", "weights.rewards", value, "") for value in (1e6, -2.0)),
    *(("set", "weights.centre", value, "") for value in (0.0, 1.0, 1.5, -3.0)),
    ("set", "weights.off_diagonal", 100.0, ""),
    ("set", "weights.with_squares", 3, ""),
    # Fault once found: features are divided by it, so rows grew without bound.
    *(("set signs", "model.norm", value, "norm") for value in (1e-3, 0.999, 0.0, -1.0, 1e-300)),
    # Norm bounds are computed anew, so none can be sent along.
    ("set", "model.features", lambda kept: {**kept, "norm_bound": 1.0}, ""),
    ("set", "model.features.kind", "additive", ""),
    ("set", "offered", {}, ""),
    ("signs", "offered", {"kind": "DecisionSets", "most": 4}, "public points"),
    ("signs", "groups.0.probabilities", lambda p: [p[0] + 0.1, *p[1:]], ""),
    ("signs", "groups.0.probabilities", lambda p: [-0.1, 0.1 + sum(p[:2]), *p[2:]], ""),
    ("signs", "groups.0.grid", lambda grid: grid[:-1], ""),
    ("signs", "groups.0.columns", [0, 0], ""),
]


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
        apart = furthest(np.concatenate(spy.given))
        assert policy.local is not None
        assert 0.5 * policy.local.sensitivity <= apart <= policy.local.sensitivity

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

    @pytest.mark.parametrize(("names", "path", "value", "message"), DAMAGE)
    def test_damaged_ones_are_refused(
        self, names: str, path: str, value: Any, message: str
    ) -> None:
        for name in names.split():
            with pytest.raises(InvalidInput, match=message or None):
                sent(POLICIES[name], path, value)

    @pytest.mark.parametrize(
        ("names", "path", "value", "epsilon", "message"),
        [
            ("set rows 4", "local.scale", lambda scale: scale / 2, 4.0, "promises"),
            ("signs", "local.scale", 2.1, 2.0, "promises"),
            ("signs", "local.scale", 50.0, 2.0, "promises"),
            ("set", "local.sensitivity", 1e3, 2.0, "promises"),
            ("set signs", "local", None, 1e9, "inf"),
        ],
    )
    def test_less_noise_shows_in_epsilon(
        self, names: str, path: str, value: Any, epsilon: float, message: str
    ) -> None:
        for name in names.split():
            worse = sent(POLICIES[name], path, value)
            with pytest.raises(InvalidInput, match=message or None):
                Terms(DOMAIN, worse.space, epsilon, delta=1e-5).check(worse)

    def test_features_of_another_domain(self) -> None:
        """Fault once found: linear features are short on a small box, and long on the real one."""
        tiny = nystrom_features(DotProduct(1e-6), Box((0.0, 0.0), (1e-6, 1e-6)), error=1e-15)

        def of_it(model: dict[str, Any]) -> dict[str, Any]:
            size = tiny.features + 1
            shapes = {"mean": [0.0] * size, "root": [[0.0]] * size}
            return {
                **model,
                **shapes,
                "features": to_json(tiny, FeatureMap),
                "norm": tiny.norm_bound,
            }

        with pytest.raises(InvalidInput, match="domain"):
            sent(set_policy(), "model", of_it)

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
        for path, value, word in (
            ("reward_bounds", {"lower": 0.0, "upper": 0.5}, "reward_bounds"),
            ("offered.most", 5, "arms"),
            ("domain.upper", [1.0, 2.0], ""),
        ):
            with pytest.raises(InvalidInput, match=word or None):
                agreed.check(sent(policy, path, value))


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
