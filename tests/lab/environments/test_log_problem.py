"""Replay of a log: what learners are told and said to earn, by rejection and by a model."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.lab.environments.log_worlds import DOMAIN, NAMES, frame_of, means, world

from discreet.lab.environments import log_problem
from discreet.lab.environments.log_problem import (
    LogProblem,
    ModelPopulation,
    RejectionPopulation,
    rejection_people,
)
from discreet.lab.environments.log_values import Estimated, estimate
from discreet.lab.environments.logs import Log
from discreet.lab.experiments import Setting, check_setting, people_of, run_learner, simulate
from discreet.lab.studies import load_study
from discreet.learners.registry import make_learner
from discreet.people.domain import Box, RewardBounds
from discreet.privacy import Local, NonPrivate, SimulatedNoise
from discreet.validation import InvalidInput

STUDY = """
name = "offers"
replicates = 2
seed = 1
[problem]
name = "log"
path = "log.csv"
columns = [
  { name = "u", lower = 0, upper = 1 },
  { name = "region", values = ["north east", "south", "50%"] },
]
action = { column = "action", names = ["none", "call us", "a=b|c:d"] }
reward = { column = "reward", lower = 0, upper = 1 }
propensity = { column = "propensity" }
[[learners]]
name = "uniform"
[[learners]]
name = "partition"
epsilon = 4
"""


class Fixed:
    """Actions of a rule, with what the replay needs of them; a policy of its own."""

    def __init__(self, arms: np.ndarray) -> None:
        self.arms, self.points = np.asarray(arms, dtype=np.int64), None
        self.policy = self

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        assert len(contexts) == len(self.arms)
        return np.eye(3)[self.arms]

    def __getitem__(self, people):
        return Fixed(self.arms[people])


def rule(contexts: np.ndarray) -> Fixed:
    return Fixed(np.where(contexts[:, 1] == 1, 2, (contexts[:, 0] > 0.4).astype(int)))


@cache
def even() -> Log:
    return world(1500, 0.0, np.random.default_rng(8))


@cache
def estimated() -> Estimated:
    return estimate(even(), draws=True)


@pytest.fixture(autouse=True)
def even_log_is_estimated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def once(log: Log, draws: bool) -> Estimated:
        return estimated() if log is even() else estimate(log, draws)

    monkeypatch.setattr(log_problem, "estimate", once)


@cache
def by_rejection() -> LogProblem:
    return LogProblem(even())


@cache
def by_model() -> LogProblem:
    return LogProblem(even(), "model")


class TestRejection:
    def test_it_is_the_way_for_small_logs_with_known_propensities(self) -> None:
        problem = by_rejection()
        assert problem.replay == "rejection"
        assert problem.size == rejection_people(np.full(1500, 1 / 3)) < 500
        assert "replayed by rejection, which accepts about one row in 3" in problem.source
        assert "the people of the log without noise, and no epsilon covers that" in problem.exposure
        with pytest.raises(InvalidInput, match=r"of 1,500 logged decisions .* serves"):
            problem.check_size(problem.size + 1)

    def test_whoever_counts_got_what_the_log_gave(self, rng: np.random.Generator) -> None:
        log, crowd = even(), by_rejection().sample(300, rng)
        start, seen = 0, []
        while start < len(crowd):
            contexts, actions = crowd.served(start, start + 40, rule)
            assert 1 <= len(contexts) <= 40
            np.testing.assert_array_equal(actions.arms, rule(contexts).arms)
            seen += list(
                zip(*contexts.T, actions.arms, crowd.received(actions, start), strict=True)
            )
            start += len(contexts)
            if start > len(crowd) - 40:
                break
        logged = set(zip(*log.contexts.T, log.actions, log.rewards, strict=True))
        assert set(seen) <= logged
        assert len(set(seen)) == len(seen)

    def test_uneven_logs_count_evenly(self) -> None:
        """However unevenly the log chose: contexts of those who count follow their law, and what a
        rule earns is its mean. Five standard errors; fixed seeds."""
        log = world(20_000, 2.0, np.random.default_rng(3))
        truth = means(log.contexts)[np.arange(20_000), rule(log.contexts).arms].mean()
        agreed = log.contexts[rule(log.contexts).arms == log.actions]
        contexts, rewards = [], []
        assert log.propensities is not None
        served = rejection_people(log.propensities)
        for seed in range(12):
            crowd = RejectionPopulation(log, served, 0.0, np.random.default_rng(100 + seed))
            place = 0
            while place < served:
                some, actions = crowd.served(place, served, rule)
                rewards.append(crowd.value(actions, place))
                contexts.append(some)
                place += len(some)
        context, reward = np.concatenate(contexts), np.concatenate(rewards)
        error = reward.std() / len(reward) ** 0.5
        assert abs(reward.mean() - truth) < 5.0 * error
        # Without the second condition it would be people whom the log liked to treat so.
        assert abs((agreed[:, 1] == 1).mean() - 1 / 3) > 5.0 * 0.47 / len(agreed) ** 0.5
        assert abs(context[:, 0].mean() - 0.5) < 5.0 * 0.29 / len(context) ** 0.5
        assert abs((context[:, 1] == 1).mean() - 1 / 3) < 5.0 * 0.47 / len(context) ** 0.5

    def test_nobody_is_asked_twice(self, rng: np.random.Generator) -> None:
        """A row that did not count must not get another chance, or random choices would count in
        other proportions than they were made."""
        asked: list[float] = []

        def act(contexts: np.ndarray) -> Fixed:
            asked.extend(contexts[:, 0])
            return Fixed(rng.integers(3, size=len(contexts)))

        crowd, place = by_rejection().sample(300, rng), 0
        while place < 250:
            wanted = 1 if place % 2 else 5
            before = len(asked)
            contexts, _ = crowd.served(place, place + wanted, act)
            looked = asked[before:]
            if len(contexts) == wanted:
                last = looked.index(contexts[-1, 0])
                del asked[before + last + 1 :]
            place += len(contexts)
        assert len(set(asked)) == len(asked)

    def test_a_learner_is_told_of_those_who_count(self) -> None:
        problem = by_rejection()
        crowd = people_of(problem, 300, 0, 0)
        learner = make_learner(
            "partition", DOMAIN, 3, Local(4.0), horizon=300, noise=SimulatedNoise(0)
        )
        values = run_learner(learner, crowd, np.random.default_rng(0), SimulatedNoise(0))
        assert learner.people == 300
        assert set(values) <= {0.0, 1.0}
        assert 0.3 < values.mean() < 0.8

    def test_an_arm_that_never_counts_is_not_looked_for_forever(
        self, rng: np.random.Generator
    ) -> None:
        log = even()
        never = replace(log, actions=np.where(log.actions == 2, 1, log.actions))
        crowd = RejectionPopulation(never, 10, 0.0, rng)
        with pytest.raises(InvalidInput, match='use replay = "model"'):
            crowd.served(0, 10, lambda contexts: Fixed(np.full(len(contexts), 2)))

    def test_best_fixed_is_valued_by_rewards_that_did_not_choose_it(
        self, rng: np.random.Generator
    ) -> None:
        """20 arms that are all alike: the best by chance is no better than the others."""
        gains = []
        for seed in range(3):
            drawn = np.random.default_rng(seed)
            log = Log(
                drawn.random((2000, 1)),
                drawn.integers(20, size=2000),
                (drawn.random(2000) < 0.3).astype(float),
                Box((0.0,), (1.0,), ("u",)),
                tuple(map(str, range(20))),
                propensities=np.full(2000, 0.05),
            )
            problem = LogProblem(log, "rejection")
            gains.append(problem.sample(50, rng).best_fixed().mean() - 0.3)
        assert abs(np.mean(gains)) < 4.0 * np.std(gains) / 3**0.5
        assert np.mean(gains) < 0.05


class TestModel:
    def test_one_half_is_served_and_judged_by_rewards_that_nobody_has_seen(
        self, rng: np.random.Generator
    ) -> None:
        problem = by_model()
        halves, outcomes = problem.models.halves, problem.estimates.outcomes
        seen = set()
        for _ in range(8):
            crowd = problem.sample(400, rng)
            rows = [np.flatnonzero((even().contexts == x).all(axis=1))[0] for x in crowd.contexts]
            assert len(set(rows)) == 400
            (half,) = set(halves[rows])
            seen.add(half)
            arms = np.arange(400) % 3
            value = crowd.value(Fixed(arms), 0)
            np.testing.assert_allclose(value, outcomes[rows, arms], rtol=1e-12)
            assert set(crowd.received(Fixed(arms), 0)) <= {0.0, 1.0}
            np.testing.assert_allclose(
                crowd.best_fixed(), outcomes[rows, problem.best[half]], rtol=1e-12
            )
            np.testing.assert_array_equal(crowd.value(Fixed(arms[5:9]), 5), value[5:9])
        assert seen == {0, 1}

    def test_more_people_than_rows(self, rng: np.random.Generator) -> None:
        problem = by_model()
        assert problem.size == 1500
        crowd = problem.sample(4000, rng)
        _, counts = np.unique(crowd.contexts, axis=0, return_counts=True)
        assert len(crowd) == 4000
        assert set(counts) <= {5, 6}
        with pytest.raises(InvalidInput, match="rounds was 0"):
            problem.check_size(0)

    @pytest.mark.parametrize("estimator", ["ipw", "snipw", "dr"])
    def test_a_run_is_valued_by_probabilities(self, estimator: str) -> None:
        """Choice at random is worth the mean reward of an even log, whatever was drawn."""
        problem = LogProblem(even(), estimator=estimator)  # type: ignore[arg-type]
        values = [
            simulate(problem, Setting("uniform", "u", NonPrivate()), 750, seed, 0).record.value
            for seed in range(4)
        ]
        halves = [even().rewards[problem.models.halves == half].sum() for half in (0, 1)]
        for value in values:
            assert min(abs(value - half) for half in halves) < (12.0 if estimator == "dr" else 1e-9)
        assert len({round(value, 6) for value in values}) <= 2

    def test_every_sum_of_a_trace_is_that_of_the_estimator(self, rng: np.random.Generator) -> None:
        crowd = LogProblem(even(), estimator="snipw").sample(200, rng)
        arms = rng.integers(3, size=200)
        whole = crowd.value(Fixed(arms), 0)
        parts = [crowd.value(Fixed(arms[start : start + 50]), start) for start in (0, 50, 100, 150)]
        np.testing.assert_allclose(np.concatenate(parts), whole, atol=1e-12)
        rows = [np.flatnonzero((even().contexts == x).all(axis=1))[0] for x in crowd.contexts]
        agrees = even().actions[rows] == arms
        for people in (30, 200):
            earned = even().rewards[rows][:people][agrees[:people]]
            assert whole[:people].sum() == pytest.approx(people * earned.mean())
        assert isinstance(crowd, ModelPopulation)
        assert crowd.estimated(whole).mean == pytest.approx(whole.mean())

    def test_what_a_rule_earns(self) -> None:
        """Doubly robust, so within a few standard errors over people, of which there are 750."""
        problem, log = by_model(), even()
        truth = means(log.contexts)[np.arange(1500), rule(log.contexts).arms].mean()
        said = problem.estimates.value(rule(log.contexts).arms)
        assert abs(said.mean - truth) < 4.0 * said.standard_error
        assert said.lower < truth < said.upper

    def test_what_a_policy_earns(self, rng: np.random.Generator) -> None:
        policy = make_learner("uniform", DOMAIN, 3, NonPrivate()).policy()
        said = by_model().estimates.value(policy.probabilities(even().contexts))
        assert abs(said.mean - means(even().contexts).mean()) < 4.0 * said.standard_error

    def test_remarks_on_a_run(self, rng: np.random.Generator) -> None:
        """An interval over people, and the share who got what the log hardly gave."""
        log = world(1500, 0.0, rng)
        right = log.contexts[:, 0] > 0.7
        actions = np.where(right & (log.actions == 0), 1, log.actions)
        problem = LogProblem(replace(log, actions=actions, propensities=None), "model")
        crowd = problem.sample(700, rng)
        values = crowd.value(Fixed(np.zeros(700)), 0)
        first, second = crowd.remarks(values)
        assert f"in the first replicate {values.mean():.4g} per person by dr; 95%" in first
        share = float(second.partition("%")[0])
        assert share == pytest.approx(30.0, abs=15.0)
        assert "% of people were given an action that was rare" in second
        crowd.value(Fixed(np.ones(700)), 0)
        assert len(crowd.remarks(values)) == 1
        assert problem.sample(1, rng).remarks(np.ones(1)) == ()

    def test_people_who_come_more_than_once(self, rng: np.random.Generator) -> None:
        problem = LogProblem(replace(even(), ids=np.arange(1500) // 3))
        assert problem.replay == "model"
        assert problem.visits is not None
        assert problem.visits.tolist() == [3] * 500
        ids = problem.sample(1200, rng).ids
        assert ids is not None
        _, counts = np.unique(ids, return_counts=True)
        assert counts.max() == 3
        beyond = check_setting(problem, Setting("partition", "p", Local(4.0)), 600)
        assert any("come after the first one" in text for text in beyond)

    def test_rewards_in_other_units(self, rng: np.random.Generator) -> None:
        log = replace(
            even(), rewards=10.0 * even().rewards - 4.0, reward_bounds=RewardBounds(-4, 6)
        )
        problem = LogProblem(log, "model")
        received = problem.sample(300, rng).received(Fixed(np.zeros(300)), 0)
        assert set(received) == {-4.0, 6.0}


class TestWhichWay:
    def test_estimated_propensities_and_large_logs_take_a_model(self) -> None:
        unknown = replace(even(), propensities=None)
        with pytest.raises(InvalidInput, match="propensities are not known"):
            LogProblem(unknown, "rejection")
        with pytest.raises(InvalidInput, match="people come more than once"):
            LogProblem(replace(even(), ids=np.arange(1500) // 2), "rejection")
        with pytest.raises(InvalidInput, match="replay was 'both'"):
            LogProblem(even(), "both")  # type: ignore[arg-type]
        rare = np.where(np.arange(1500) == 0, 1e-4, 1 / 3)
        with pytest.raises(InvalidInput, match="smallest propensity accepts no one"):
            LogProblem(replace(even(), propensities=rare), "rejection")
        assert LogProblem(replace(even(), propensities=rare)).replay == "model"


class TestStudies:
    def test_a_study_runs(self, tmp_path: Path) -> None:
        frame_of(even()).to_csv(tmp_path / "log.csv", index=False)
        (tmp_path / "study.toml").write_text(STUDY)
        study = load_study(tmp_path / "study.toml")
        assert study.problem.arm_names == NAMES
        assert study.rounds == study.problem.size
        assert "the people of log.csv without noise" in study.problem.exposure
        assert study.files[1] == tmp_path / "log.csv"
        outcomes = [simulate(study.problem, each, 300, 1, 0) for each in study.settings]
        assert [outcome.record.metric for outcome in outcomes] == ["reward", "reward"]
        assert all("95% interval over people" in outcome.remarks[0] for outcome in outcomes)
        again = simulate(study.problem, study.settings[1], 300, 1, 0)
        assert again.record.value == outcomes[1].record.value
        assert again.record.rows == "All 1,500 rows"

    def test_an_estimator_by_name(self, tmp_path: Path) -> None:
        frame_of(even()).to_csv(tmp_path / "log.csv", index=False)
        text = STUDY.replace("propensity = {", 'estimator = "snipw"\npropensity = {')
        (tmp_path / "study.toml").write_text(text)
        problem = load_study(tmp_path / "study.toml").problem
        assert isinstance(problem, LogProblem)
        assert (problem.replay, problem.estimator) == ("model", "snipw")
        assert "is estimated by snipw" in problem.source
        for wrong, message in (
            (text.replace('"snipw"', '"ips"'), "estimator"),
            (text.replace('name = "log"', 'name = "log"\nreplay = "rejection"'), "needs none"),
        ):
            (tmp_path / "study.toml").write_text(wrong)
            with pytest.raises(InvalidInput, match=message):
                load_study(tmp_path / "study.toml")

    def test_oracle_is_refused_before_anything_runs(self, tmp_path: Path) -> None:
        frame_of(even()).to_csv(tmp_path / "log.csv", index=False)
        text = STUDY + '[[learners]]\nname = "best_fixed"\n[[learners]]\nname = "oracle"\n'
        (tmp_path / "study.toml").write_text(text)
        with pytest.raises(InvalidInput, match=r"line \d+: oracle was asked for, but a log has"):
            load_study(tmp_path / "study.toml")
        for problem in (by_model(), by_rejection()):
            with pytest.raises(InvalidInput, match="oracle was asked for"):
                problem.sample(10, np.random.default_rng(0)).oracle()
            best = Setting("best_fixed", "best_fixed", NonPrivate())
            value = simulate(problem, best, 400, 0, 0).record.value / 400
            assert value == pytest.approx(means(even().contexts).mean(axis=0).max(), abs=0.1)

    def test_what_is_wrong_is_said_at_once(self, tmp_path: Path) -> None:
        frame_of(even()).to_csv(tmp_path / "log.csv", index=False)
        wrong = STUDY.replace('propensity = { column = "propensity" }', "propensity = {}")
        wrong = wrong.replace('"reward", lower = 0, upper = 1', '"reward", lower = 0')
        (tmp_path / "study.toml").write_text(wrong)
        with pytest.raises(InvalidInput) as error:
            load_study(tmp_path / "study.toml")
        assert "propensity was empty; give exactly one of" in str(error.value)
        assert "reward, upper is missing" in str(error.value)
