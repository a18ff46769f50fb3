"""A bandit with scikit-learn's conventions: whose decisions it learns from, what it promises."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_checks

from discreet import Actions, ArmPoints, InvalidInput, PrivateBandit, decode, encode
from discreet.privacy import SecureNoise

ARMS = ["none", "call", "visit"]
BOUNDS: dict[str, Any] = {"age": (18, 90), "smoker": [False, True]}
JOINT: dict[str, Any] = {
    "trust_model": "joint",
    "delta": 1e-6,
    "learner": "capri",
    "horizon": 4000,
    "options": {"kernel": "RBF(length_scale=[30, 1])", "error": 0.05},
}
CENTRAL = {"trust_model": "joint", "delta": 1e-6}
# Under which a log is learnt from as a source; few policies keep it quick.
KERNEL: dict[str, Any] = {"learner": "kernel", "options": {"growth": 0.2}}
HALF = 54.0


def means(people: pd.DataFrame) -> np.ndarray:
    """Younger people should be called, older ones visited; nobody left alone."""
    young = (people["age"] < HALF).to_numpy()
    return np.column_stack([np.full(len(people), 0.3), 0.2 + 0.6 * young, 0.8 - 0.6 * young])


def people(count: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    smokers = rng.random(count) < 0.4
    return pd.DataFrame({"smoker": smokers, "age": rng.uniform(18, 90, count)})


def log(count: int, uneven: bool = False, seed: int = 1) -> tuple[Any, ...]:
    """Decisions, rewards, contexts and propensities; in an uneven log most people were given what
    is worst for them."""
    rng, crowd = np.random.default_rng([seed, 7]), people(count, seed)
    expected = means(crowd)
    chances = np.full((count, 3), 1 / 3)
    if uneven:
        chances[:] = 0.2
        chances[np.arange(count), expected.argmin(axis=1)] = 0.6
    arms = (rng.random(count)[:, None] > chances.cumsum(axis=1)).sum(axis=1)
    rewards = (rng.random(count) < expected[np.arange(count), arms]).astype(float)
    return np.array(ARMS)[arms], rewards, crowd, chances[np.arange(count), arms]


def bandit(epsilon: float = 4.0, **options: Any) -> PrivateBandit:
    given = {"bounds": BOUNDS, "noise": "simulated", "random_state": 3, **options}
    return PrivateBandit(ARMS, epsilon, **given)


def right(fitted: PrivateBandit) -> float:
    """The share of people who would be given what is best for them."""
    crowd = people(500, 99)
    return float(np.mean(fitted.predict(crowd) == np.array(ARMS)[means(crowd).argmax(axis=1)]))


@pytest.fixture(scope="module")
def fitted() -> PrivateBandit:
    """In two parts, without propensities, which a local learner does not need."""
    decisions, rewards, crowd, _ = log(3000)
    made = bandit(**KERNEL)
    for some in (slice(0, 1000), slice(1000, 3000)):
        made.partial_fit(decisions[some], rewards[some], crowd[some])
    return made


class TestDecisionsOfOthers:
    """Whatever decided, the best arm of each half is found; a bandit that took who was given an arm
    for what the arm does would leave everybody with what most people had."""

    @pytest.mark.parametrize(
        ("options", "count"),
        [
            (KERNEL, 4000),
            ({"least_propensity": 0.2, **JOINT}, 4000),
            ({"least_propensity": 0.2, **CENTRAL}, 2000),
            ({"trust_model": "none"}, 1000),
        ],
        ids=["kernel", "joint", "joint kernel", "none"],
    )
    def test_what_is_best_is_learnt(self, options: dict[str, Any], count: int) -> None:
        learnt = bandit(**options).fit(*log(count, uneven=True))
        assert right(learnt) > 0.85

    def test_later_people_add(self, fitted: PrivateBandit) -> None:
        assert fitted.learner_.streams["log"].people == 3000
        assert right(fitted) > 0.85
        decisions, rewards, crowd, _ = log(50)
        again = pickle.loads(pickle.dumps(fitted)).fit(decisions, rewards, crowd)
        assert again.learner_.streams["log"].people == 50

    def test_joint_learners_need_propensities(self) -> None:
        decisions, rewards, crowd, chances = log(100, uneven=True)
        with pytest.raises(InvalidInput, match="give least_propensity, and the propensities of"):
            bandit(**JOINT).fit(decisions, rewards, crowd, chances)
        joint = bandit(**JOINT, least_propensity=0.25)
        with pytest.raises(InvalidInput, match="propensities was not given; pass the probability"):
            joint.fit(decisions, rewards, crowd)
        row = int(np.argmax(chances < 0.25))
        message = rf"propensities was 0\.2 in row {row}; each must be from least_propensity = 0\.25"
        with pytest.raises(InvalidInput, match=message):
            joint.fit(decisions, rewards, crowd, chances)

    def test_local_learners_without_sources_refuse_them(self) -> None:
        with pytest.raises(InvalidInput, match="choose kernel, which takes a log"):
            bandit(learner="capri", horizon=99).fit(*log(50)[:3])

    @pytest.mark.parametrize("name", ["kernel", "best_arm"])
    def test_a_joint_kernel_reads_them_in_two_releases(self, name: str) -> None:
        """Of a histogram and of the rest, and later logs in one; those who wait come before."""
        joint = bandit(**CENTRAL, least_propensity=0.2, learner=name, horizon=2000)
        learner, first = joint.fit(*log(900, uneven=True)).learner_, 2 - (name == "best_arm")
        assert (learner.people, joint.waiting_, len(learner.releases)) == (900, 0, first)
        # The people of a log are none of the horizon.
        assert learner.policy().least_propensity == 0.0
        assert learner.batch_of() == 360
        joint.partial_fit(*log(300, uneven=True))
        assert (learner.people, joint.waiting_, len(learner.releases)) == (900, 300, first)
        joint.partial_fit(*log(60, uneven=True))
        assert (learner.people, joint.waiting_, len(learner.releases)) == (1260, 0, first + 1)
        actions, _ = joint.act(people(10, 1))
        assert joint.partial_fit(actions, np.ones(10), people(10, 1)).waiting_ == 10
        # A short epoch has as much noise as a long one, so few people of a log wait for others.
        joint.partial_fit(*log(5, uneven=True))
        assert (learner.people, joint.waiting_, len(learner.releases)) == (1270, 15, first + 1)
        joint.partial_fit(*log(600, uneven=True))
        assert (learner.people, joint.waiting_, len(learner.releases)) == (1875, 0, first + 3)
        assert joint.guarantee_.epsilon <= joint.epsilon

    def test_few_people_of_a_log_wait_for_others(self) -> None:
        joint = bandit(**CENTRAL, least_propensity=0.2).fit(*log(20, uneven=True))
        assert (joint.learner_.people, joint.waiting_) == (0, 20)
        actions, _ = joint.act(people(10, 1))
        assert joint.partial_fit(actions, np.ones(10), people(10, 1)).waiting_ == 30
        with pytest.raises(InvalidInput, match=r"least_propensity was 0\.9.* at most 0\.333333"):
            bandit(**CENTRAL, least_propensity=0.9).act(people(10, 1))

    def test_the_reward_that_counts_is_unbiased(self) -> None:
        """Its mean is that of the arm which the policy drew, for people with any propensities."""
        decisions, rewards, crowd, chances = log(6_000, uneven=True)
        joint = bandit(**JOINT, least_propensity=0.2).partial_fit(
            decisions[:1], rewards[:1], crowd[:1], chances[:1]
        )
        learning, heard = joint._fitted, []
        learner = learning.learner
        learner.update = lambda reports, people=None: heard.append(reports)  # type: ignore[method-assign]
        learning.learn(decisions, rewards, crowd, chances)
        (reports,) = heard
        bounds = learner.reward_bounds
        assert (bounds.lower, bounds.upper) == (pytest.approx(-2.0), pytest.approx(3.0))
        counted = bounds.lower + (bounds.upper - bounds.lower) * reports.rewards
        ages = learner.domain.from_unit(reports.contexts)[:, 0]
        truth = means(pd.DataFrame({"age": ages}))
        for young in (False, True):
            for arm in range(3):
                some = ((ages < HALF) == young) & (reports.arms == arm)
                error = counted[some].std() / np.sqrt(some.sum())
                assert counted[some].mean() == pytest.approx(truth[some, arm][0], abs=5 * error)


class TestServing:
    def test_it_learns_from_its_own_decisions(self) -> None:
        served, rng = bandit(learner="partition"), np.random.default_rng(4)
        for day in range(10):
            crowd = people(300, 100 + day)
            actions, chances = served.act(crowd)
            assert set(actions.names) <= set(ARMS)
            np.testing.assert_allclose(
                chances, served.predict_proba(crowd)[np.arange(300), actions.arms]
            )
            happened = (rng.random(300) < means(crowd)[np.arange(300), actions.arms]).astype(float)
            served.partial_fit(actions, happened, crowd)
        assert served.learner_.people == 3000
        assert right(served) > 0.85

    @pytest.mark.parametrize(
        ("points", "arms"),
        [
            (ArmPoints.of([5, 10, 40]), [5.0, 10.0, 40.0]),
            (ArmPoints.of([[1, 2], [3, 4]], ["a", "b"]), ["a", "b"]),
            (ArmPoints.of([[1, 2], [3, 4]]), [0, 1]),
        ],
    )
    def test_arms_may_be_points(self, points: ArmPoints, arms: list[Any]) -> None:
        served = PrivateBandit(points, 4.0, bounds=BOUNDS, noise="simulated", random_state=3)
        assert clone(served).arms == points
        crowd = people(20, 1)
        actions, _ = served.act(crowd)
        assert set(actions.names) <= set(map(str, arms))
        served.partial_fit(actions, np.ones(20), crowd)
        served.partial_fit(np.array(arms)[np.arange(20) % len(arms)], np.ones(20), crowd)
        assert served.arms_.tolist() == arms
        assert served.learner_.space == ArmPoints.of(points.array, list(map(str, arms)))
        assert set(served.predict(crowd)) <= set(arms)

    def test_after_a_log_as_well(self, fitted: PrivateBandit) -> None:
        both = pickle.loads(pickle.dumps(fitted))
        crowd = people(5, 1)
        pending = decode(encode(both.act(crowd)[0]), Actions)
        both.partial_fit(pending, np.ones(5), crowd)
        assert both.learner_.people == 5
        assert both.guarantee_.epsilon == pytest.approx(4.0)
        with pytest.raises(InvalidInput, match="5 actions for 4 people"):
            both.partial_fit(pending, np.ones(4), crowd[:4])

    @pytest.mark.parametrize(
        ("options", "learner"),
        [
            ({}, "kernel"),
            ({"least_propensity": 0.2}, "kernel"),
            ({"options": {"kernel": "RBF(length_scale=[30, 1])"}}, "kernel"),
            (JOINT, "capri"),
            ({"learner": "best_arm"}, "best_arm"),
        ],
    )
    def test_the_usual_joint_learner(self, options: dict[str, Any], learner: str) -> None:
        joint, crowd = bandit(**{"trust_model": "joint", "delta": 1e-6, **options}), people(3, 1)
        actions, _ = joint.act(crowd)
        assert joint.partial_fit(actions, np.ones(3), crowd).learner_.name == learner

    def test_joint_people_wait_for_their_release(self) -> None:
        joint, crowd = bandit(**JOINT), people(3, 1)
        assert joint.partial_fit(joint.act(crowd)[0], np.ones(3), crowd).waiting_ == 3


class TestPredictions:
    def test_expectations_of_a_frame_are_a_frame(self, fitted: PrivateBandit) -> None:
        crowd = people(4, 5).set_index(pd.Index(list("abcd")))
        expected = fitted.predict_expectations(crowd)
        assert expected.columns.tolist() == ARMS
        assert expected.index.tolist() == list("abcd")
        assert (expected.to_numpy() >= 0).all()
        assert (expected.to_numpy() <= 1).all()
        best = expected.idxmax(axis=1).tolist()
        assert fitted.predict(crowd).tolist() == best
        rows = fitted.predict_expectations(crowd.to_dict("records"))
        assert rows == expected.to_dict("records")
        np.testing.assert_allclose(fitted.predict_proba(crowd).sum(axis=1), 1.0)

    def test_they_are_those_of_the_data(self, fitted: PrivateBandit) -> None:
        crowd = people(400, 6)
        error = fitted.predict_expectations(crowd).to_numpy() - means(crowd)
        assert np.sqrt(np.mean(error**2)) < 0.15

    def test_numbers_are_arms_too(self) -> None:
        decisions, rewards, crowd, _ = log(200)
        numbers = np.array([10 * ARMS.index(arm) for arm in decisions])
        numbered = PrivateBandit([0, 10, 20], 4.0, bounds=BOUNDS, noise="simulated", **KERNEL).fit(
            numbers, rewards, crowd
        )
        assert set(numbered.predict(crowd).tolist()) <= {0, 10, 20}
        # A number is its own name, not its place.
        assert numbered.learner_.arm_names == ("0", "10", "20")
        actions, _ = numbered.act(crowd)
        assert actions.names.tolist() == [str(arm) for arm in numbered.arms_[actions.arms]]
        assert list(numbered.predict_expectations([{"age": 30, "smoker": True}])[0]) == [0, 10, 20]

    def test_learners_without_expected_rewards_are_refused(self) -> None:
        plain = bandit(learner="private_linear")
        crowd = people(20, 1)
        plain.partial_fit(plain.act(crowd)[0], np.ones(20), crowd)
        with pytest.raises(InvalidInput, match="has no expected rewards; kernel"):
            plain.predict(crowd)
        assert plain.predict_proba(crowd).shape == (20, 3)


class TestPromise:
    def test_the_guarantee_is_that_of_the_reports(self, fitted: PrivateBandit) -> None:
        guarantee = fitted.guarantee_
        assert guarantee.trust_model == "local"
        assert guarantee.epsilon == pytest.approx(4.0)
        assert "simulated" in guarantee.sentence

    def test_secure_noise_unless_asked_otherwise(self) -> None:
        secure = bandit(noise="secure", learner="kernel").fit(*log(30)[:3])
        assert secure.guarantee_.noise == (SecureNoise.name,)

    def test_a_joint_one_is_not_copied(self) -> None:
        decisions, rewards, crowd, chances = log(30)
        joint = bandit(**JOINT, least_propensity=0.3).fit(decisions, rewards, crowd, chances)
        with pytest.raises(InvalidInput, match="people would pay twice"):
            pickle.dumps(joint)
        assert clone(joint).get_params()["least_propensity"] == 0.3

    @pytest.mark.parametrize("rewards", [(0.1, 0.7), (-0.3, 0.9), (0.0, 1.0)])
    @pytest.mark.parametrize("below", [0.0, 0.5e-9])
    def test_rounding_refuses_no_log(self, rewards: tuple[float, float], below: float) -> None:
        """Rewards at their bounds whose decisions were as improbable as any."""
        decisions, _, crowd, _ = log(60)
        given, least = np.tile(rewards, 30), 0.1
        joint = bandit(**JOINT, least_propensity=least, rewards=rewards)
        joint.fit(decisions, given, crowd, np.full(60, least * (1.0 - below)))
        bounds = joint.learner_.reward_bounds
        assert bounds.upper - bounds.lower == pytest.approx((rewards[1] - rewards[0]) / least)
        assert joint.learner_.people == 60

    @pytest.mark.parametrize("model", [JOINT, {"learner": "partition"}])
    def test_nobody_who_was_served_is_learnt_from_twice(self, model: dict[str, Any]) -> None:
        served, crowd = bandit(**model), people(20, 5)
        actions, _ = served.act(crowd)
        with pytest.raises(InvalidInput, match="held 1 of 2 actions a second time"):
            served.partial_fit(actions[np.array([3, 3])], np.ones(2), crowd.iloc[[3, 3]])
        served.partial_fit(actions[:10], np.ones(10), crowd[:10])
        with pytest.raises(InvalidInput, match="held 10 of 20 actions a second time"):
            served.partial_fit(decode(encode(actions), Actions), np.ones(20), crowd)
        assert served.learner_.people == 10
        served.partial_fit(actions[10:], np.ones(10), crowd[10:])
        assert served.learner_.people == 20

    @pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
    def test_who_is_interrupted_is_told_who_would_pay_twice(
        self, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        decisions, rewards, crowd, chances = log(30)
        joint = bandit(**JOINT, least_propensity=0.3).fit(decisions, rewards, crowd, chances)
        learner, publish = joint.learner_, joint.learner_.policy

        def interrupted() -> Any:
            if learner.people == 60:
                raise error
            return publish()

        monkeypatch.setattr(learner, "policy", interrupted)
        with pytest.raises(error) as raised:
            joint.partial_fit(decisions, rewards, crowd, chances)
        assert learner.people == 60
        assert any("Do not pass them again" in note for note in raised.value.__notes__)

    def test_a_local_one_is(self, fitted: PrivateBandit) -> None:
        again = pickle.loads(pickle.dumps(fitted))
        crowd = people(20, 3)
        np.testing.assert_array_equal(again.predict(crowd), fitted.predict(crowd))


class TestConventions:
    @pytest.mark.parametrize(
        "name",
        [
            "check_parameters_default_constructible",
            "check_no_attributes_set_in_init",
            "check_estimators_unfitted",
            "check_get_params_invariance",
            "check_set_params",
        ],
    )
    def test_of_scikit_learn(self, name: str) -> None:
        getattr(estimator_checks, name)("PrivateBandit", bandit())

    def test_parameters(self) -> None:
        one = bandit(learner="partition", options={"caution": 2.0})
        assert clone(one).get_params() == one.get_params()
        assert one.set_params(epsilon=1.0).epsilon == 1.0
        assert repr(one).startswith("PrivateBandit(arms=['none', 'call', 'visit']")

    def test_what_is_not_fitted(self) -> None:
        for ask in ("predict", "predict_expectations", "predict_proba"):
            with pytest.raises(NotFittedError):
                getattr(bandit(), ask)(people(1, 1))
        with pytest.raises(NotFittedError):
            _ = bandit().guarantee_

    def test_columns(self, fitted: PrivateBandit) -> None:
        assert fitted.n_features_in_ == 2
        assert fitted.feature_names_in_.tolist() == ["age", "smoker"]

    def test_one_random_state_gives_one_result(self) -> None:
        crowd = people(5, 1)
        results = [bandit(**KERNEL).fit(*log(60)).predict_expectations(crowd) for _ in "ab"]
        pd.testing.assert_frame_equal(*results)


def test_the_usual_learner_of_many_columns_takes_logs() -> None:
    rng = np.random.default_rng(3)
    bounds = {f"x{column}": (0, 1) for column in range(7)}
    usual = PrivateBandit(["a", "b"], 1.0, bounds=bounds, noise="simulated", random_state=1)
    usual.fit(rng.choice(["a", "b"], 40), rng.integers(2, size=40), rng.random((40, 7)))
    assert usual.learner_.name == "kernel"
