"""Local privacy: reports, and policies of learners that are not honest."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import DotProduct

from discreet.codec import decode, encode
from discreet.kernels import FiniteFeatures, FourierFeatures, nystrom_features, scaled
from discreet.learners.epochs.contribution import ClippedContribution
from discreet.learners.epochs.features import CodedFeatures, ContextDistribution, MapFeatures
from discreet.learners.epochs.policy import ActionTable, EpochPolicy, PrivateRows
from discreet.learners.policy import Policy, Terms
from discreet.people.domain import Box, unit_cube
from discreet.privacy import Joint, Local, NonPrivate, SecureNoise, SimulatedNoise
from discreet.privacy.vectors import GaussianVector, PrivUnit, VectorReport
from discreet.validation import InvalidInput

from .cases import DOSES, GRID, SMOOTH, People, every_record, learner, observe, serve

PURE, GAUSSIAN = Local(2.0), Local(2.0, 1e-5)
BUDGETS = {
    "privunit": (PURE, {}),
    "l2_ball": (PURE, {"mechanism": "l2_ball"}),
    "gaussian": (GAUSSIAN, {"mechanism": "gaussian"}),
}
every_mechanism = pytest.mark.parametrize("name", BUDGETS)


def policy_of(name: str = "privunit", **options: Any) -> EpochPolicy:
    budget, more = BUDGETS[name]
    return learner("posterior", budget, **more, **options).policy()


def reported(
    policy: EpochPolicy,
    context: float,
    arm: int,
    reward: float,
    people: int,
    seed: int,
    noise: Any = None,
) -> np.ndarray:
    """Reports of so many people with the same record."""
    one = policy.contributions_of(np.array([[context]]), np.array([arm]), np.array([reward]))
    assert policy.local is not None
    return policy.local.privatise(np.repeat(one, people, axis=0), noise or SimulatedNoise(seed))


def sent(policy: Policy[Any], change: Callable[[dict[str, Any]], object]) -> Any:
    """What a device makes of a policy that was tampered with on the way."""
    fields = json.loads(encode(policy))
    change(fields)
    return decode(json.dumps(fields), Policy)


class Kept(VectorReport):
    """Keeps what it should hide."""

    name = "kept"

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.seen: list[np.ndarray] = []

    variance = largest_variance = scale = 1.0
    mechanism = "kept"

    def event(self, noise_name: str) -> Any:
        return PrivUnit(self.dimension, 1.0).event(noise_name)

    def _made_by_someone(self, reports: Any) -> Any:
        return np.ones(len(reports), dtype=np.bool_)

    def _report(self, directions: Any, lengths: Any, noise: Any) -> Any:
        self.seen.append(lengths[:, None] * directions)
        return np.zeros_like(directions)


class TestReports:
    @every_mechanism
    def test_they_are_rows_on_average(self, name: str) -> None:
        policy = policy_of(name)
        assert policy.local is not None
        people = 20_000
        error = 4.5 * np.sqrt(policy.local.largest_variance / people)
        for context, arm, reward in [(0.0, 0, 1.0), (0.5, 3, 0.0), (1.0, 2, 0.3), (0.25, 1, 0.5)]:
            row = policy.contributions_of(
                np.array([[context]]), np.array([arm]), np.array([reward])
            )[0]
            mean = reported(policy, context, arm, reward, people, 3).mean(axis=0)
            assert (np.abs(mean - row) <= error).all()

    @every_mechanism
    def test_only_rows_in_the_ball_are_hidden_and_nothing_else_is_sent(self, name: str) -> None:
        policy = policy_of(name)
        kept = Kept(policy.contribution.size)
        watched = replace(policy, local=kept)
        people = People(50, 1)
        actions, _ = watched.act(people.contexts, np.random.default_rng(0))
        reports = watched.report(people.contexts, actions, people.luck, SimulatedNoise(0))
        assert isinstance(reports, PrivateRows)
        assert (reports.rows == 0.0).all()
        (seen,) = kept.seen
        expected = policy.contributions_of(people.contexts, actions.arms, people.luck)
        assert np.allclose(seen, expected, atol=1e-14)
        fields = set(json.loads(encode(reports)))
        assert fields == {"kind", "schema", "policy_version", "source", "noise", "rows"}

    @every_mechanism
    def test_the_guarantee_is_the_budget(self, name: str) -> None:
        budget, more = BUDGETS[name]
        made = learner("posterior", budget, horizon=300, **more)
        serve(made, People(300, 1))
        guarantee = made.guarantee()
        assert budget.epsilon * (1.0 - 1e-6) <= guarantee.epsilon <= budget.epsilon
        assert guarantee.delta == budget.delta
        assert guarantee.trust_model == "local"

    @every_mechanism
    @pytest.mark.parametrize("epsilon", [0.1, 0.7, 2.0, 3.3, 10.0])
    def test_a_person_who_agreed_to_the_budget_can_report(self, name: str, epsilon: float) -> None:
        delta = 1e-5 if name == "gaussian" else 0.0
        more = BUDGETS[name][1]
        policy = learner("posterior", Local(epsilon, delta), **more).policy()
        Terms(policy.domain, DOSES, epsilon, delta=delta).check(policy)
        with pytest.raises(InvalidInput, match="at most"):
            Terms(policy.domain, 4, epsilon * 0.999, delta=delta).check(policy)

    @pytest.mark.chance(0)
    @every_mechanism
    def test_secure_noise(self, name: str) -> None:
        pytest.importorskip("opendp")
        policy = policy_of(name)
        contexts = GRID[:3]
        actions, _ = policy.act(contexts, np.random.default_rng(0))
        with pytest.raises(InvalidInput, match="terms"):
            policy.report(contexts, actions, np.zeros(3), SecureNoise())
        terms = Terms(policy.domain, DOSES, 2.0, delta=1e-5 if name == "gaussian" else 0.0)
        reports = policy.report(contexts, actions, np.zeros(3), SecureNoise(), terms)
        assert reports.noise == SecureNoise.name
        assert isinstance(reports, PrivateRows)
        assert reports.rows.shape == (3, policy.contribution.size)

    def test_plain_observations_are_refused(self) -> None:
        made, plain = learner("posterior", PURE), learner("posterior", NonPrivate())
        made.policy()
        reports = observe(plain, People(10, 1), 0, 10)
        with pytest.raises(InvalidInput, match="PrivateRows"):
            made.update(replace(reports, source=made.identity, noise=SimulatedNoise.name))
        private = observe(made, People(10, 1), 0, 10)
        with pytest.raises(InvalidInput, match="Observations"):
            plain.update(replace(private, source=plain.identity))

    @every_mechanism
    def test_law_of_reports_of_two_people(self, name: str) -> None:
        """Counts in the directions that tell two opposite records apart best."""
        policy = policy_of(name, horizon=50)
        assert policy.local is not None
        rows = policy.contributions_of(*every_record())
        first = rows[np.linalg.norm(rows, axis=1).argmax()]
        second = rows[(rows @ first).argmin()]
        people = 40_000
        one, two = (
            policy.local.privatise(np.repeat(row[None], people, axis=0), SimulatedNoise(seed))
            for seed, row in enumerate((first, second))
        )
        edges = np.quantile(np.r_[one @ first, two @ first], np.linspace(0.1, 0.9, 9))
        counts = [np.histogram(x @ first, np.r_[-np.inf, edges, np.inf])[0] for x in (one, two)]
        ratio = np.abs(np.log(counts[0] / counts[1]))
        error = 4.5 * np.sqrt(1.0 / counts[0] + 1.0 / counts[1])
        assert (ratio <= 2.0 + error).all()
        assert ratio.max() >= 0.5


class TestTamperedPolicies:
    """A learner is not trusted: a device must notice, or send as little as was promised."""

    def test_no_noise_at_all(self) -> None:
        bare = sent(policy_of(), lambda f: f.update(local=None))
        for most in (1.0, 1e9, 1e300):
            with pytest.raises(InvalidInput, match="inf"):
                Terms(bare.domain, DOSES, most, delta=1e-5).check(bare)

    @pytest.mark.parametrize(
        ("name", "change", "delta", "message"),
        [
            ("privunit", {"epsilon": 2.1}, 0.0, "promises"),
            ("gaussian", {"epsilon": 2.1}, 1e-5, "promises"),
            ("gaussian", {"delta": 0.1}, 1e-5, "promises"),
            ("gaussian", {"delta": 0.1}, 0.0, "delta"),
        ],
    )
    def test_another_promise(
        self, name: str, change: dict[str, Any], delta: float, message: str
    ) -> None:
        worse = sent(policy_of(name), lambda f: f["local"].update(change))
        with pytest.raises(InvalidInput, match=message):
            Terms(worse.domain, DOSES, 2.0, delta=delta).check(worse)

    @pytest.mark.parametrize(
        "local",
        [
            {"threshold": 0.9999999},
            {"threshold": -0.5},
            {"threshold": None, "dimension": 3},
            {"epsilon": 0.0},
            {"epsilon": "2"},
            {"name": "nothing"},
            {"scale": 0.0},
            {"sensitivity": 1e-9},
        ],
        ids=str,
    )
    def test_settings_of_the_mechanism(self, local: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput):
            sent(policy_of(), lambda f: f["local"].update(local))

    @pytest.mark.parametrize(
        ("part", "change"),
        [
            ("contribution", {"clipping_norm": 0.0}),
            ("contribution", {"clipping_norm": float("1e400")}),
            ("contribution", {"clipping_norm": True}),
            ("contribution", {"clipping_norm": "1"}),
            ("contribution", {"reward_noise": -1.0}),
            ("contribution", {"mean": [0.0]}),
            ("contribution", {"root": [[0.0]]}),
            ("contribution", {"projection": [[]]}),
            ("decision", {"draws": 0}),
            ("decision", {"draws": 10**6}),
            ("decision", {"seed": 2**70}),
            ("decision", {"version": 2**70}),
            ("decision", {"kind": "best"}),
            ("decision", {"root": [[1.0]]}),
            ("decision", {"factor": float("nan")}),
            ("features", {"kind": "table"}),
            ("features", {"values": [[[1.0]]]}),
            ("features", {"contexts": {"points": [[0.0]], "weights": [1.0], "exact": True}}),
            (
                "features",
                {"contexts": {"points": [[0.0], [0.0]], "weights": [0.5, 0.5], "exact": True}},
            ),
        ],
        ids=lambda value: str(value)[:60],
    )
    def test_parts_that_do_not_fit_are_refused_on_arrival(
        self, part: str, change: dict[str, Any]
    ) -> None:
        """Not only when somebody acts: then it would be too late to refuse without looking."""
        with pytest.raises(InvalidInput):
            sent(policy_of(), lambda f: {**f, **f["decision"]}[part].update(change))

    @pytest.mark.parametrize("value", [10**300, 1e-300, 5e-324])
    def test_a_bound_of_any_size_keeps_rows_in_the_ball(self, value: Any) -> None:
        policy = sent(
            policy_of(), lambda f: f["contribution"].update(clipping_norm=value, reward_noise=value)
        )
        rows = policy.contributions_of(*every_record())
        assert np.linalg.norm(rows, axis=1).max() <= 1.0 + 1e-15

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("kind", ["overflow", "underflow", "table", "elsewhere", "linear"])
    def test_features_whose_arithmetic_fails_for_some(self, kind: str) -> None:
        """Nobody falls silent, warns, or sends more than a row in the ball."""
        wide = Box((0.0,), (10.0,))
        maps: dict[str, Any] = {
            "overflow": FourierFeatures(wide, [[1.7e308]], [1.0]),
            "underflow": scaled(FourierFeatures(wide, [[1.0]], [1e-200]), 1e-200),
            "table": FiniteFeatures(wide, [[2.0], [4.0]], np.eye(2)),
            "elsewhere": FiniteFeatures(Box((5.0,), (6.0,)), [[5.5]], [[1.0]]),
            "linear": nystrom_features(DotProduct(1e-6), Box((0.0,), (1e-6,)), error=1e-15),
        }
        made = maps[kind]
        contexts = ContextDistribution(np.array([[0.5]]), np.array([1.0]), True)
        features = CodedFeatures(contexts, made, np.array([[1.0, 0.0], [1e200, 1e200]]))
        size = features.features
        rows = ClippedContribution(
            np.full(size, 1e300), np.eye(size), np.ones((size, 2)), 1e-9, 0.5
        )
        policy = EpochPolicy(
            version=0,
            learner_id="forged",
            domain=wide,
            reward_bounds=policy_of().reward_bounds,
            public_seed=0,
            arms=2,
            decision=ActionTable(features, np.array([[0.5, 0.5]])),
            contribution=rows,
            local=PrivUnit(2, 1.0),
            believed=np.zeros(size),
        )
        policy = decode(encode(policy), Policy)
        Terms(wide, 2, 1.0).check(policy)
        people = np.linspace(0.0, 10.0, 101)[:, None]
        actions, _ = policy.act(people, np.random.default_rng(0))
        reports = policy.report(people, actions, np.ones(101), SimulatedNoise(0))
        assert len(reports) == 101
        assert isinstance(reports, PrivateRows)
        lengths = np.linalg.norm(reports.rows, axis=1)
        assert np.allclose(lengths, lengths[0]), "PrivUnit sends points on one sphere"

    @pytest.mark.parametrize(
        ("upper", "points"),
        [(3.6e300, [[0.0], [1e-8]]), (1e-8, [[0.0], [1.8e300]])],
        ids=["context", "arm"],
    )
    def test_features_beyond_the_box_of_their_map_are_refused_on_arrival(
        self, upper: float, points: list[list[float]]
    ) -> None:
        """Fault once found: a finite map could not look up points that far beyond its box, so only
        people with x >= 1/2, or with the other arm, failed to report."""
        box = Box((0.0, 0.0), (1e-8, 1e-8))
        table = FiniteFeatures(box, [[0.0, 0.0], [1e-8, 1e-8]], np.eye(2))
        contexts = ContextDistribution(np.array([[0.5]]), np.array([1.0]), False)
        made = MapFeatures(contexts, Box((0.0,), (1e-8,)), np.array([[0.0], [1e-8]]), table)
        policy = EpochPolicy(
            version=0,
            learner_id="forged",
            domain=unit_cube(1),
            reward_bounds=policy_of().reward_bounds,
            public_seed=0,
            arms=2,
            decision=ActionTable(made, np.array([[0.5, 0.5]])),
            contribution=ClippedContribution(np.zeros(2), np.eye(2), np.ones((2, 2)), 1.0, 0.5),
            local=PrivUnit(2, 1.0),
            believed=np.zeros(2),
        )
        assert decode(encode(policy), Policy).digest == policy.digest

        def beyond(fields: dict[str, Any]) -> None:
            fields["decision"]["features"]["domain"].update(upper=[upper])
            fields["decision"]["features"].update(points=points)

        with pytest.raises(InvalidInput, match="beyond the box"):
            sent(policy, beyond)

    def test_strange_contexts_are_the_nearest_and_say_nothing(self) -> None:
        """Whoever chose the contexts would learn from a refusal that a person has another one."""
        few = ContextDistribution.finite(policy_of().domain, GRID[:2])
        for name in BUDGETS:
            budget, more = BUDGETS[name]
            policy = learner("posterior", budget, contexts=few, **more).policy()
            actions, _ = policy.act(GRID, np.random.default_rng(0))
            policy.probabilities(GRID)
            reports = policy.report(GRID, actions, np.zeros(5), SimulatedNoise(0))
            assert len(reports) == 5
            near = np.repeat(GRID[1:2], 3, axis=0)
            arms, rewards = np.arange(3), np.full(3, 0.7)
            far = policy.contributions_of(GRID[2:], arms, rewards)
            assert np.array_equal(far, policy.contributions_of(near, arms, rewards))
        trusted = learner("posterior", Joint(1.0, 1e-5), contexts=few).policy()
        with pytest.raises(InvalidInput, match="contexts"):
            trusted.act(GRID, np.random.default_rng(0))

    def test_what_the_terms_compare(self) -> None:
        policy = policy_of()
        agreed = Terms(policy.domain, DOSES, 2.0)
        agreed.check(policy)
        for change in (
            lambda f: f.update(reward_bounds={"lower": 0.0, "upper": 0.5}),
            lambda f: f["domain"].update(upper=[2.0]),
            lambda f: f["domain"].update(levels=[3]),
        ):
            with pytest.raises(InvalidInput):
                agreed.check(sent(policy, change))
        with pytest.raises(InvalidInput):
            sent(policy, lambda f: f.update(arms=3))

    def test_features_for_other_columns(self) -> None:
        two = unit_cube(2)
        contexts = ContextDistribution(np.array([[0.5]]), np.array([1.0]), False)
        features = FourierFeatures(two, [[1.0, 1.0]], [1.0])
        with pytest.raises(InvalidInput, match="columns"):
            CodedFeatures(contexts, features, np.eye(2))
        with pytest.raises(InvalidInput, match="columns"):
            MapFeatures(contexts, two, np.zeros((2, 1)), features)
        with pytest.raises(InvalidInput, match="columns"):
            MapFeatures(contexts, two, np.zeros((2, 0)), features)


def test_rows_of_a_continuum_travel() -> None:
    made = learner("posterior", PURE, domain=SMOOTH, contexts=[[0.1], [0.6]])
    policy = serve(made, People(300, 1))[-1]
    copy = decode(encode(policy), Policy)
    unit = np.linspace(0.0, 1.0, 77)[:, None]
    arms, rewards = np.arange(77) % 4, np.linspace(0.0, 1.0, 77)
    assert isinstance(copy, EpochPolicy)
    assert np.array_equal(
        copy.contributions_of(unit, arms, rewards), policy.contributions_of(unit, arms, rewards)
    )
    assert isinstance(policy.local, PrivUnit)
    assert not isinstance(policy.local, GaussianVector)
