"""What every learner owes (discreet.learners.base); a new one is a row in test_contract.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from discreet.domain import Box, RewardBounds
from discreet.learners.base import Learner
from discreet.learners.messages import TICKETS, Actions, Policy, Reports, Statistics
from discreet.learners.saving import load, save
from discreet.learners.schema import decode, encode
from discreet.privacy import SimulatedNoise
from discreet.validation import InvalidInput

# Declared units that differ from [0, 1], so that forgetting to map them shows.
DOMAIN = Box((20.0, -1.0), (60.0, 1.0), ("age", "score"))
BOUNDS = RewardBounds(-2.0, 3.0)
ARMS = 3


@dataclass(frozen=True)
class Row:
    """One learner under test.

    Attributes:
        make: a fresh learner; two calls give equal ones.
        exact: whether its sums are whole numbers, so that order cannot even change a rounding.
    """

    make: Callable[[], Learner]
    exact: bool = False


def crowd(people: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Contexts, and the reward that each arm would give."""
    rng = np.random.default_rng(seed)
    unit = rng.random((people, 2))
    rewards = BOUNDS.lower + 5.0 * rng.random((people, ARMS)) * np.abs(unit[:, :1] - 0.3)
    return DOMAIN.from_unit(unit), rewards


def visit(policy: Policy, people: int, seed: int) -> Reports:
    """Reports of `people` persons who follow the policy."""
    contexts, rewards = crowd(people, seed)
    actions, _ = policy.act(contexts, np.random.default_rng(seed))
    received = rewards[np.arange(people), actions.arms]
    return policy.report(contexts, actions, received, SimulatedNoise(seed))


def state(learner: Learner) -> str:
    """Everything a learner knows."""
    return json.dumps(learner.state_fields(encode))


def taught(row: Row, batches: int = 6) -> Learner:
    """A learner that has published a few policies."""
    learner = row.make()
    for seed in range(batches):
        people = min(learner.policy() and learner.batch_size, 400)
        learner.update(visit(learner.policy(), people, seed))
    return learner


def same_sums(one: Statistics, two: Statistics, exact: bool) -> bool:
    """Whether two statistics are equal, up to rounding unless `exact`."""

    def flat(value: object) -> list[float]:
        if isinstance(value, str):
            return []
        if isinstance(value, dict):
            return [x for key in sorted(value) for x in flat(value[key])]
        if isinstance(value, list):
            return [x for item in value for x in flat(item)]
        return [float(value)]  # type: ignore[arg-type]

    a, b = flat(one.to_fields()), flat(two.to_fields())
    return a == b if exact else bool(np.allclose(a, b, rtol=1e-9, atol=1e-9))


class LearnerContract:
    """Subclass with a fixture `row`."""

    def test_policy_round_trips_and_chooses_the_same(self, row: Row) -> None:
        policy = taught(row).policy()
        copy = decode(encode(policy), type(policy))
        assert encode(copy) == encode(policy)
        contexts, _ = crowd(300, 5)
        mine, odds = policy.act(contexts, np.random.default_rng(1))
        theirs, same_odds = copy.act(contexts, np.random.default_rng(1))
        assert np.array_equal(mine.arms, theirs.arms)
        assert np.array_equal(odds, same_odds)

    def test_policy_cannot_be_changed(self, row: Row) -> None:
        policy = row.make().policy()
        with pytest.raises(AttributeError):
            policy.version = 9  # type: ignore[misc]
        for value in vars(taught(row).policy()).values():
            if isinstance(value, np.ndarray):
                with pytest.raises(ValueError, match="read-only"):
                    value[...] = 0

    def test_propensities_are_the_probabilities_of_the_arms_and_true(self, row: Row) -> None:
        policy = taught(row).policy()
        contexts, _ = crowd(1, 3)
        many = np.repeat(contexts, 20_000, axis=0)
        actions, odds = policy.act(many, np.random.default_rng(0))
        expected = policy.probabilities(contexts)[0]
        assert expected.sum() == pytest.approx(1.0)
        assert np.allclose(odds, expected[actions.arms])
        seen = np.bincount(actions.arms, minlength=ARMS) / len(many)
        error = np.sqrt(expected * (1.0 - expected) / len(many))
        assert (np.abs(seen - expected) <= 4.5 * error + 1e-12).all()

    def test_tickets_do_not_depend_on_the_context(self, row: Row) -> None:
        policy = taught(row).policy()
        one, two = (crowd(50, seed)[0] for seed in (1, 2))
        tickets = [policy.act(x, np.random.default_rng(4))[0].tickets for x in (one, two)]
        assert np.array_equal(*tickets)
        assert (tickets[0] < TICKETS).all()

    def test_reports_round_trip(self, row: Row) -> None:
        learner = taught(row)
        reports = visit(learner.policy(), 40, 7)
        copy = decode(encode(reports), Reports)
        assert type(copy) is type(reports)
        assert encode(copy) == encode(reports)
        assert same_sums(learner.statistics(copy), learner.statistics(reports), True)

    def test_a_batch_equals_single_reports(self, row: Row) -> None:
        learner = taught(row)
        contexts, rewards = crowd(30, 8)
        policy = learner.policy()
        actions, _ = policy.act(contexts, np.random.default_rng(8))
        singles = [
            policy.report(
                contexts[[i]],
                actions[np.array([i])],
                rewards[i, actions.arms[[i]]],
                SimulatedNoise(i),
            )
            for i in range(30)
        ]
        # The same reports as one batch, put together from their JSON.
        parts = [report.to_fields() for report in singles]
        fields = {
            key: [x for part in parts for x in part[key]] if isinstance(value, list) else value
            for key, value in parts[0].items()
        }
        if "count" in fields:
            fields["count"] = sum(part["count"] for part in parts)
        batch = type(singles[0]).from_fields(fields)
        assert len(batch) == 30
        assert same_sums(learner.statistics(batch), learner.statistics(singles), row.exact)

    def test_statistics_add_in_any_order_and_anywhere(self, row: Row) -> None:
        one, two = taught(row), taught(row)
        two.policy()
        batches = [visit(one.policy(), people, seed) for seed, people in enumerate((5, 60, 17))]
        one.update(batches)
        for batch in reversed(batches):
            wire = encode(two.statistics(batch))
            two.merge(decode(wire, two.statistics_type))
        assert one.people == two.people
        assert same_sums(one._sums, two._sums, row.exact)

    def test_statistics_change_nothing(self, row: Row) -> None:
        learner = taught(row)
        reports = visit(learner.policy(), 25, 3)
        before = state(learner)
        learner.statistics(reports)
        assert state(learner) == before

    def test_nothing_is_drawn_again(self, row: Row) -> None:
        learner = taught(row)
        policy = learner.policy()
        assert learner.policy() is policy
        before = state(learner)
        learner.guarantee()
        learner.policy()
        assert state(learner) == before
        fewer = min(learner.batch_size - 1, 10)
        if fewer:
            learner.update(visit(policy, fewer, 2))
            assert learner.policy() is policy

    def test_equal_reports_give_equal_learners(self, row: Row) -> None:
        assert state(taught(row)) == state(taught(row))

    def test_late_reports_are_used(self, row: Row) -> None:
        learner = row.make()
        first = learner.policy()
        for seed in range(8):
            learner.update(visit(learner.policy(), min(learner.batch_size, 400), seed))
        late = visit(first, 30, 99)
        added = learner.statistics(late)
        before = learner._sums
        learner.update(late)
        assert added.reports == 30
        assert same_sums(learner._sums, before + added, True)
        learner.policy()

    def test_guarantee_never_promises_more_than_the_budget_gives(self, row: Row) -> None:
        learner = row.make()
        assert learner.guarantee().releases == 0
        learner = taught(row)
        guarantee = learner.guarantee()
        assert guarantee.trust_model == learner.budget.trust_model
        releases = learner.releases
        assert guarantee.releases == len(releases)
        assert all(release.event.epsilon <= guarantee.epsilon for release in releases)
        if guarantee.trust_model == "local":
            assert guarantee.epsilon == pytest.approx(learner.budget.epsilon, rel=1e-12)
            assert guarantee.repeated(2).epsilon == pytest.approx(2 * guarantee.epsilon)
            assert "simulated" in guarantee.sentence
        else:
            assert guarantee.epsilon == np.inf

    def test_saved_learners_go_on_where_they_stopped(self, row: Row, tmp_path: Path) -> None:
        learner = taught(row)
        path = tmp_path / "learner.json"
        save(learner, path)
        again = load(path)
        assert state(again) == state(learner)
        assert again.guarantee() == learner.guarantee()
        assert ("SECRET" in path.read_text()[:200]) == learner.secret
        if learner.budget.trust_model == "none" and learner.name != "uniform":
            assert learner.secret
        for seed in (20, 21, 22):
            people = min(learner.batch_size, 400)
            learner.update(visit(learner.policy(), people, seed))
            again.update(visit(again.policy(), people, seed))
        assert encode(again.policy()) == encode(learner.policy())

    def test_the_units_of_the_domain_do_not_matter(self, row: Row) -> None:
        policy = taught(row).policy()
        unit = replace(policy, domain=Box((0.0, 0.0), (1.0, 1.0)))
        contexts, _ = crowd(200, 1)
        scaled = DOMAIN.to_unit(contexts)
        assert np.array_equal(policy.probabilities(contexts), unit.probabilities(scaled))

    @pytest.mark.parametrize(
        ("name", "contexts"),
        [
            ("outside", [[61.0, 0.0]]),
            ("not a number", [[np.nan, 0.0]]),
            ("infinite", [[np.inf, 0.0]]),
            ("one column", [[30.0]]),
            ("a vector", [30.0, 0.0]),
            ("empty", np.empty((0, 2))),
            ("words", [["a", "b"]]),
        ],
    )
    def test_bad_contexts_are_refused(self, row: Row, name: str, contexts: object) -> None:
        policy = row.make().policy()
        with pytest.raises(InvalidInput, match="contexts"):
            policy.act(contexts, np.random.default_rng(0))  # type: ignore[arg-type]

    @pytest.mark.parametrize("rewards", [[9.0, 0.0], [np.nan, 0.0], [0.0], [[0.0], [0.0]]])
    def test_bad_rewards_are_refused(self, row: Row, rewards: object) -> None:
        policy = row.make().policy()
        contexts, _ = crowd(2, 0)
        actions, _ = policy.act(contexts, np.random.default_rng(0))
        with pytest.raises(InvalidInput, match="rewards"):
            policy.report(contexts, actions, rewards, SimulatedNoise(0))  # type: ignore[arg-type]

    @pytest.mark.parametrize("arm", [-1, ARMS])
    def test_unknown_arms_are_refused(self, row: Row, arm: int) -> None:
        policy = row.make().policy()
        contexts, _ = crowd(1, 0)
        actions = Actions(np.array([arm]), np.array([1], dtype=np.uint64))
        with pytest.raises(InvalidInput, match="arms"):
            policy.report(contexts, actions, [0.0], SimulatedNoise(0))

    def test_other_generators_and_noise_are_refused(self, row: Row) -> None:
        policy = row.make().policy()
        contexts, _ = crowd(1, 0)
        with pytest.raises(InvalidInput, match="default_rng"):
            policy.act(contexts, 1)  # type: ignore[arg-type]
        actions, _ = policy.act(contexts, np.random.default_rng(0))
        with pytest.raises(InvalidInput, match="SecureNoise"):
            policy.report(contexts, actions, [0.0], np.random.default_rng(0))  # type: ignore[arg-type]

    def test_bare_arms_are_refused(self, row: Row) -> None:
        policy = row.make().policy()
        contexts, _ = crowd(1, 0)
        with pytest.raises(InvalidInput, match="tickets"):
            policy.report(contexts, np.array([0]), [0.0], SimulatedNoise(0))  # type: ignore[arg-type]

    def test_bad_reports_change_nothing(self, row: Row) -> None:
        learner = taught(row)
        good = visit(learner.policy(), 10, 1)
        before = state(learner)
        unknown = replace(good, policy_version=10**6)
        foreign = replace(good, source="partition-policy 5 epsilon 1.0")
        for bad, message in [
            (foreign, "for the learner"),
            (unknown, "version"),
            ([good, unknown], "version"),
            ([], "empty"),
            (["a report"], "type str"),
            (None, "None"),
        ]:
            with pytest.raises(InvalidInput, match=message):
                learner.update(bad)  # type: ignore[arg-type]
        assert state(learner) == before

    def test_foreign_statistics_are_refused(self, row: Row) -> None:
        learner = taught(row)
        before = state(learner)
        with pytest.raises(InvalidInput, match="statistics"):
            learner.merge("a sum")  # type: ignore[arg-type]
        other = json.loads(encode(learner._sums))
        for grown in self.spoilt(other):
            with pytest.raises(InvalidInput):
                learner.merge(decode(json.dumps(grown), learner.statistics_type))
        assert state(learner) == before

    @staticmethod
    def spoilt(fields: dict) -> list[dict]:
        """Statistics with nodes that do not exist, or with counts below zero."""
        made = []
        for table in [fields, *fields.get("sources", {}).values()]:
            arrays = [name for name, value in table.items() if isinstance(value, list) and value]
            arrays = [name for name in arrays if name != "noise"]
            if not arrays:
                continue
            kept = {name: list(table[name]) for name in arrays}
            for name in arrays:
                table[name] = kept[name] + [kept[name][0]] * 99
            made.append(json.loads(json.dumps(fields)))
            for name in arrays:
                flat = np.array(kept[name])
                table[name] = (flat - flat.max() - 1.0).tolist()
            made.append(json.loads(json.dumps(fields)))
            table.update(kept)
        return made

    def test_damaged_files_are_refused(self, row: Row, tmp_path: Path) -> None:
        path = tmp_path / "learner.json"
        save(taught(row), path)
        content = json.loads(path.read_text())
        for key, value in [
            ("arms", 1),
            ("budget", "x"),
            ("domain", {"lower": [10**400]}),
            ("state", {}),
            ("learner", "nobody"),
            ("schema", 99),
            ("kind", "policy"),
        ]:
            path.write_text(json.dumps({**content, key: value}))
            with pytest.raises(InvalidInput):
                load(path)
        with pytest.raises(InvalidInput, match="cannot be read"):
            load(tmp_path / "none.json")
        with pytest.raises(InvalidInput, match="folder"):
            save(taught(row), tmp_path / "none" / "learner.json")
