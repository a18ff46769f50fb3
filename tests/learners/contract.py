"""What every learner owes (discreet.learners.base); a new one is a row in test_contract.py."""

from __future__ import annotations

import copy
import json
import marshal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import jsonschema_rs
import numpy as np
import pytest

from discreet.codec import Serializable, decode, encode
from discreet.learners.base import Learner
from discreet.learners.messages import PUBLIC_COINS, Reports, Statistics
from discreet.learners.policy import Actions, ArmPolicy, Policy, Terms
from discreet.learners.references.uniform import Uniform
from discreet.learners.saving import load, save
from discreet.people.domain import (
    ActionSpace,
    ArmPoints,
    Box,
    Candidates,
    DecisionSets,
    PublicBox,
    PublicSet,
    RewardBounds,
)
from discreet.privacy import Local, SecureNoise, SimulatedNoise, derive_guarantee
from discreet.privacy.accounting import composed_epsilon
from discreet.schemas import Schemas
from discreet.validation import InvalidInput

# Declared units that differ from [0, 1], so that forgetting to map them shows.
DOMAIN = Box((20.0, -1.0), (60.0, 1.0), ("age", "score"))
BOUNDS = RewardBounds(-2.0, 3.0)
# Contexts that form a finite set.
LEVELS = Box(DOMAIN.lower, DOMAIN.upper, DOMAIN.names, (5, 3))
ARMS = 3
DOSES = ArmPoints.of([0.0, 0.4, 1.0])
# Policies that `taught` learners have published.
BATCHES = 3


MOST = 6
OFFERED = PublicSet.of(DOMAIN.from_unit(np.random.default_rng(15).random((15, 2))))


@cache
def described(kind: type) -> Any:
    """What holds messages of a class against its JSON Schema."""
    schemas = Schemas("#/$defs/")
    wanted = schemas.of_message(kind)
    return jsonschema_rs.validator_for({**wanted, "$defs": schemas.named_schemas})


class Scene(ABC):
    """What people bring, and what happens to them.

    Attributes:
        domain: the public box.
        space: the action space.
        bad_contexts: what `act` must refuse, by name.
        bad_values: those of them that have the right shape: where reports are private, `report`
            takes them as the nearest that is allowed.
        bad_arms: numbers that no action has.
        at_once: the largest batch that comes together.
    """

    at_once = 400

    domain: Box = DOMAIN
    space: ActionSpace
    bad_contexts: ClassVar[dict[str, Any]]
    bad_values: frozenset[str] = frozenset(
        {"outside", "not a number", "infinite", "between two levels", "outside, in a list"}
        | {"too many", "too many for one"}
    )
    bad_arms: tuple[int, ...]

    @abstractmethod
    def contexts(self, people: int, seed: int) -> Any:
        """Contexts of so many people."""

    @abstractmethod
    def rewards(self, contexts: Any, actions: Actions, seed: int) -> np.ndarray:
        """What their actions gave them."""

    def one(self, contexts: Any, person: int) -> Any:
        """The contexts of one person among them."""
        return contexts[[person]]

    def many(self, people: int) -> Any:
        """The same person so many times."""
        return np.repeat(self.contexts(1, 3), people, axis=0)


class ArmScene(Scene):
    """Contexts of two columns and three arms, which may be points."""

    bad_arms = (-1, ARMS)
    bad_contexts: ClassVar[dict[str, Any]] = {
        "outside": [[61.0, 0.0]],
        "not a number": [[np.nan, 0.0]],
        "infinite": [[np.inf, 0.0]],
        "one column": [[30.0]],
        "a vector": [30.0, 0.0],
        "empty": np.empty((0, 2)),
        "words": [["a", "b"]],
    }

    def __init__(self, space: int | ArmPoints = ARMS) -> None:
        self.space = space

    def contexts(self, people: int, seed: int) -> np.ndarray:
        return DOMAIN.from_unit(np.random.default_rng(seed).random((people, 2)))

    def rewards(self, contexts: np.ndarray, actions: Actions, seed: int) -> np.ndarray:
        unit = DOMAIN.to_unit(contexts)
        luck = np.random.default_rng([seed, 1]).random((len(unit), ARMS))
        luck *= np.abs(unit[:, :1] - 0.3)
        return BOUNDS.lower + 5.0 * luck[np.arange(len(unit)), actions.arms]


class LevelScene(ArmScene):
    """The same, where contexts take a few values only."""

    domain = LEVELS
    bad_contexts: ClassVar[dict[str, Any]] = {
        **ArmScene.bad_contexts,
        "between two levels": [[25.0, 0.0]],
    }

    def contexts(self, people: int, seed: int) -> np.ndarray:
        cells = np.random.default_rng(seed).integers((5, 3), size=(people, 2))
        return LEVELS.from_unit(cells / (4, 2))


class PointScene(Scene):
    """Actions are points; rewards fall with the distance from one of them."""

    def rewards(self, contexts: Any, actions: Actions, seed: int) -> np.ndarray:
        assert actions.points is not None
        away = np.linalg.norm(DOMAIN.to_unit(actions.points) - 0.3, axis=1)
        luck = np.random.default_rng([seed, 1]).random(len(away))
        return BOUNDS.lower + 5.0 * (1.0 - 0.7 * away) * luck


class SetScene(PointScene):
    """Every person brings up to six points."""

    at_once = 100

    space = DecisionSets(MOST)
    bad_arms = (-1, MOST)
    bad_contexts: ClassVar[dict[str, Any]] = {
        "outside": np.array([[[61.0, 0.0]]]),
        "outside, in a list": [[[30.0, 0.0]], [[30.0, 1.1]]],
        "not a number": np.array([[[30.0, np.nan]]]),
        "infinite": [[[-np.inf, 0.0]]],
        "one column": np.array([[[30.0], [31.0]]]),
        "three columns": [[[30.0, 0.0, 0.0]]],
        "one set for everybody": np.array([[30.0, 0.0]]),
        "nobody": [],
        "nobody, as an array": np.empty((0, 3, 2)),
        "an empty set": [[[30.0, 0.0]], []],
        "empty sets": np.empty((2, 0, 2)),
        "too many": np.zeros((1, MOST + 1, 2)) + 30.0,
        "too many for one": [np.full((1, 2), 30.0), np.full((MOST + 1, 2), 30.0)],
        "words": [[["a", "b"]]],
        "a number": 3,
    }

    def contexts(self, people: int, seed: int) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        counts = rng.integers(1, MOST + 1, size=people)
        return [DOMAIN.from_unit(rng.random((count, 2))) for count in counts]

    def one(self, contexts: list[np.ndarray], person: int) -> list[np.ndarray]:
        return [contexts[person]]

    def many(self, people: int) -> np.ndarray:
        unit = np.random.default_rng(3).random((1, MOST, 2))
        return np.repeat(DOMAIN.from_unit(unit), people, axis=0)


class PublicScene(PointScene):
    """Nobody brings anything: the contexts are the number of people."""

    bad_contexts: ClassVar[dict[str, Any]] = {
        "nobody": 0,
        "fewer than nobody": -3,
        "a float": 3.0,
        "a truth": True,
        "columns": np.zeros((3, 2)),
        "a list": [1, 2],
        "nobody, as an array": np.empty((0, 0)),
        "nothing": None,
    }

    def __init__(self, space: PublicSet | PublicBox) -> None:
        self.space = space
        self.bad_arms = (-1, 15) if isinstance(space, PublicSet) else (0, -2)

    def contexts(self, people: int, seed: int) -> int:
        return people

    def one(self, contexts: int, person: int) -> int:
        return 1

    def many(self, people: int) -> int:
        return people


@dataclass(frozen=True)
class Row:
    """One learner under test.

    Attributes:
        make: a fresh learner; two calls give equal ones, up to an `identity` that they are given.
        exact: whether its sums are whole numbers, so that order cannot even change a rounding.
        any_sums: whether any numbers are sums of some reports, negative ones too.
        scene: what people bring.
    """

    make: Callable[..., Learner]
    exact: bool = False
    any_sums: bool = False
    scene: Scene = field(default_factory=ArmScene)

    def fresh(self) -> Learner:
        """One that is like `make()`, but another learner."""
        return self.make(identity=None)


def visit(row: Row, policy: Policy, people: int, seed: int) -> Reports:
    """Reports of `people` persons who follow the policy."""
    contexts = row.scene.contexts(people, seed)
    actions, _ = policy.act(contexts, np.random.default_rng(seed))
    received = row.scene.rewards(contexts, actions, seed)
    return policy.report(contexts, actions, received, SimulatedNoise(seed))


def arrays(value: object) -> Iterator[np.ndarray]:
    """Every array that a policy holds, in tuples and in messages within it too."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for inner in value:
            yield from arrays(inner)
    elif isinstance(value, Serializable) and value.facts is not None:
        for inner in vars(value).values():
            yield from arrays(inner)


def state(learner: Learner) -> bytes:
    """Everything a learner knows, as it is now; equal bytes for equal knowledge.

    The second version of the format writes every value out, and knows JSON values alone, in a
    fraction of the time that JSON text takes.
    """
    return marshal.dumps(learner.secret_fields(), 2)


def taught(row: Row, batches: int = BATCHES) -> Learner:
    """A learner that has published a few policies; a copy of one that is taught once."""
    learner = _taught(row, batches)
    # What cannot be changed is shared by copies: policies, sums, maps, domains.
    frozen = [
        value
        for value in (*learner._policies, *vars(learner).values())
        if is_dataclass(value) and value.__dataclass_params__.frozen  # type: ignore[attr-defined]
    ]
    return copy.deepcopy(learner, {id(value): value for value in frozen})


@cache
def _taught(row: Row, batches: int) -> Learner:
    learner = row.make()
    for seed in range(batches):
        people = min(learner.policy() and learner.batch_size, row.scene.at_once)
        learner.update(visit(row, learner.policy(), people, seed))
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

    a, b = flat(json.loads(encode(one))), flat(json.loads(encode(two)))
    return a == b if exact else bool(np.allclose(a, b, rtol=1e-9, atol=1e-9))


class LearnerContract:
    """Subclass with a fixture `row`."""

    def test_policies_and_pending_actions_are_messages_that_cannot_be_changed(
        self, row: Row
    ) -> None:
        """A device keeps its policy, and what it did until the reward comes, as messages."""
        policy, scene = taught(row).policy(), row.scene
        later = decode(encode(policy), type(policy))
        assert encode(later) == encode(policy)
        assert later.digest == policy.digest
        described(type(policy)).validate(json.loads(encode(policy)))
        with pytest.raises(AttributeError):
            policy.version = 9  # type: ignore[misc]
        for value in arrays(policy):
            with pytest.raises(ValueError, match="read-only"):
                value[...] = 0

        contexts = scene.contexts(60, 5)
        mine, odds = policy.act(contexts, np.random.default_rng(1))
        theirs, same_odds = later.act(contexts, np.random.default_rng(1))
        assert np.array_equal(mine.arms, theirs.arms)
        assert (mine.points is None) == isinstance(policy, ArmPolicy)
        assert mine.points is None or np.array_equal(mine.points, theirs.points)
        # Thompson sampling has NaN for propensities, which have no closed form.
        assert np.array_equal(odds, same_odds, equal_nan=True)
        # Public coins do not depend on the context.
        other, _ = policy.act(scene.contexts(60, 6), np.random.default_rng(1))
        assert np.array_equal(mine.public_coins, other.public_coins)
        assert (mine.public_coins < PUBLIC_COINS).all()

        contexts = scene.contexts(20, 4)
        actions, _ = policy.act(contexts, np.random.default_rng(4))
        rewards = scene.rewards(contexts, actions, 4)
        report = encode(policy.report(contexts, actions, rewards, SimulatedNoise(1)))
        kept = decode(encode(actions), Actions)
        assert encode(later.report(contexts, kept, rewards, SimulatedNoise(1))) == report
        # Points come from the decision set or from the public coin, never from the actions.
        forged = replace(actions, points=np.full((20, 2), 1e9))
        assert encode(policy.report(contexts, forged, rewards, SimulatedNoise(1))) == report

    def test_propensities_are_the_probabilities_of_the_actions_and_true(self, row: Row) -> None:
        policy = taught(row).policy()
        many = row.scene.many(2_000)
        actions, odds = policy.act(many, np.random.default_rng(0))
        if isinstance(policy, ArmPolicy):
            expected = policy.probabilities(many[:1])[0]
            assert expected.sum() == pytest.approx(1.0)
            assert np.allclose(odds, expected[actions.arms])
            chosen = actions.arms[:, None].astype(float)
        else:
            chosen = np.asarray(actions.points)
        if np.isnan(odds).all():
            pytest.skip("under Thompson sampling propensities have no closed form and are NaN")
        if isinstance(policy.space, PublicBox) and len(np.unique(chosen, axis=0)) == len(chosen):
            # Drawn from the whole box, with density 1 on the unit cube.
            assert (odds == 1.0).all()
            assert np.allclose(DOMAIN.to_unit(chosen).mean(axis=0), 0.5, atol=0.03)
            return
        seen, first, count = np.unique(chosen, axis=0, return_index=True, return_counts=True)
        expected = odds[first]
        assert len(np.unique(np.column_stack([chosen, odds]), axis=0)) == len(seen)
        assert expected.sum() <= 1.0 + 1e-9
        error = np.sqrt(expected * (1.0 - expected) / len(chosen))
        # Rare actions are Poisson, with a heavier tail: three more of them are allowed.
        assert (np.abs(count / len(chosen) - expected) <= 4.5 * error + 3.0 / len(chosen)).all()

    def test_reports_round_trip(self, row: Row) -> None:
        learner = taught(row)
        reports = visit(row, learner.policy(), 40, 7)
        copy = decode(encode(reports), Reports)
        assert type(copy) is type(reports)
        assert encode(copy) == encode(reports)
        described(type(reports)).validate(json.loads(encode(reports)))
        assert same_sums(learner.statistics(copy), learner.statistics(reports), True)

    def test_a_batch_equals_single_reports(self, row: Row) -> None:
        learner = taught(row)
        contexts = row.scene.contexts(30, 8)
        policy = learner.policy()
        actions, _ = policy.act(contexts, np.random.default_rng(8))
        rewards = row.scene.rewards(contexts, actions, 8)
        singles = [
            policy.report(
                row.scene.one(contexts, i),
                actions[np.array([i])],
                rewards[[i]],
                SimulatedNoise(i),
            )
            for i in range(30)
        ]
        # The same reports as one batch, put together from their JSON.
        parts = [json.loads(encode(report)) for report in singles]
        fields = {
            key: [x for part in parts for x in part[key]] if isinstance(value, list) else value
            for key, value in parts[0].items()
        }
        if "count" in fields:
            fields["count"] = sum(part["count"] for part in parts)
        batch = decode(json.dumps(fields), type(singles[0]))
        assert len(batch) == 30
        assert same_sums(learner.statistics(batch), learner.statistics(singles), row.exact)

    def test_statistics_add_in_any_order_and_anywhere(self, row: Row) -> None:
        one, two = taught(row), taught(row)
        two.policy()
        batches = [
            visit(row, one.policy(), people, seed) for seed, people in enumerate((5, 60, 17))
        ]
        one.update(batches)
        for batch in reversed(batches):
            wire = encode(two.statistics(batch))
            two.merge(decode(wire, two.statistics_type))
        assert one.people == two.people
        assert same_sums(one._sums, two._sums, row.exact)

    def test_reports_are_checked_as_they_are_when_they_are_added(self, row: Row) -> None:
        learner = taught(row)
        reports: Any = visit(row, learner.policy(), 3, 3)
        rows = reports._rows() if learner.budget.is_local else {}
        changes: list[dict[str, Any]] = [{"source": "another"}, {"policy_version": 99}]
        changes += [{name: array[:, :-1]} for name, array in rows.items() if array.ndim > 1]
        changes += [{name: array[:0] for name, array in rows.items()}] * bool(rows)
        for change in changes:
            try:
                wrong = replace(reports, **change)
            except InvalidInput:
                continue
            said = set()
            for refuse in (learner.check_reports, learner.statistics, learner.update):
                with pytest.raises(InvalidInput) as refusal:
                    refuse(wrong)
                said.add(str(refusal.value))
            assert len(said) == 1

    def test_reading_reports_and_asking_again_change_nothing(self, row: Row) -> None:
        learner = taught(row)
        policy = learner.policy()
        reports = visit(row, policy, 25, 3)
        before = state(learner)
        learner.statistics(reports)
        learner.check_reports(reports)
        learner.guarantee()
        assert learner.policy() is policy
        assert state(learner) == before
        missing = learner.batch_size - (learner.people - learner._published_at)
        if fewer := min(missing - 1, 10):
            learner.update(visit(row, policy, fewer, 2))
            assert learner.policy() is policy

    def test_equal_reports_give_equal_learners(self, row: Row) -> None:
        assert state(taught(row, 2)) == state(_taught.__wrapped__(row, 2))

    def test_late_reports_are_used(self, row: Row) -> None:
        learner = taught(row)
        late = visit(row, learner.published(0), 30, 99)
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
        learner.policy()
        guarantee = learner.guarantee()
        assert guarantee.trust_model == learner.budget.trust_model
        releases = learner.releases
        assert guarantee.releases == len(releases)
        # A Gaussian event has no epsilon without a delta.
        held = [composed_epsilon([release.event], guarantee.delta) for release in releases]
        assert all(epsilon <= guarantee.epsilon for epsilon in held)
        assert guarantee.delta == learner.budget.delta
        if guarantee.trust_model == "none":
            assert guarantee.epsilon == np.inf
            return
        budget = learner.budget
        assert budget.epsilon * (1.0 - 1e-6) <= guarantee.epsilon <= budget.epsilon
        # To the last bit, as each sampler achieves it.
        for name in (SecureNoise.name, SimulatedNoise.name):
            for policy in learner._policies if isinstance(budget, Local) else ():
                release = policy.release(name)
                assert release is not None
                assert composed_epsilon([release.event], budget.delta) <= budget.epsilon
        assert guarantee.repeated(2).epsilon == pytest.approx(2 * guarantee.epsilon)
        assert "simulated" in guarantee.sentence
        assert guarantee.adjacency.record in guarantee.sentence

    def test_saved_learners_go_on_where_they_stopped(self, row: Row, tmp_path: Path) -> None:
        learner = taught(row)
        policy = learner.policy()
        path = tmp_path / "learner.json"
        save(learner, path)
        # Under joint privacy a learner draws noise; only a source that goes on where the old one
        # stopped can lead to equal policies later.
        noise = copy.deepcopy(learner.noise)
        again = load(path, noise)
        assert state(again) == state(learner)
        assert again.releases == learner.releases
        assert again.guarantee() == learner.guarantee()
        with pytest.raises(InvalidInput, match="folder"):
            save(learner, tmp_path / "none" / "learner.json")
        fresh = SimulatedNoise(99)
        other = load(path, fresh)
        assert encode(other.policy()) == encode(policy)
        assert state(other) == state(learner)
        assert fresh.keys(1) == SimulatedNoise(99).keys(1), "noise was drawn"
        if learner.budget.trust_model == "joint":
            with pytest.raises(InvalidInput, match="noise"):
                load(path)
        assert ("SECRET" in path.read_text()[:200]) == learner.secret
        if learner.budget.trust_model in ("none", "joint") and not isinstance(learner, Uniform):
            assert learner.secret
        people = min(learner.batch_size, row.scene.at_once)
        for one in (learner, again):
            one.update(visit(row, one.policy(), people, 20))
        assert encode(again.policy()) == encode(learner.policy())
        assert state(again) == state(learner)

    def test_the_units_of_the_domain_do_not_matter(self, row: Row) -> None:
        policy = taught(row).policy()
        if not isinstance(policy, ArmPolicy):
            pytest.skip("kernels and points are stated in the units of the domain")
        levels = row.scene.domain.levels
        unit = replace(policy, domain=Box((0.0, 0.0), (1.0, 1.0), levels=levels))
        contexts = row.scene.contexts(200, 1)
        scaled = DOMAIN.to_unit(contexts)
        assert np.array_equal(policy.probabilities(contexts), unit.probabilities(scaled))

    def test_bad_input_is_refused(self, row: Row) -> None:
        """Values of a person only where reports are not private."""
        policy, scene, noise = row.make().policy(), row.scene, SimulatedNoise(0)
        private, rng = policy.reports_are_private, np.random.default_rng(0)
        for name, contexts in scene.bad_contexts.items():
            with pytest.raises(InvalidInput, match="contexts"):
                policy.act(contexts, rng)
            people = len(contexts) if isinstance(contexts, list | np.ndarray) else 1
            actions, _ = policy.act(scene.contexts(max(people, 1), 0), rng)
            if not (private and name in scene.bad_values):
                with pytest.raises(InvalidInput, match="contexts"):
                    policy.report(contexts, actions, np.zeros(len(actions)), noise)

        two = scene.contexts(2, 0)
        actions, _ = policy.act(two, rng)
        values: list[Any] = [] if private else [[9.0, 0.0], [np.nan, 0.0]]
        for rewards in ([0.0], [[0.0], [0.0]], *values):
            with pytest.raises(InvalidInput, match="rewards"):
                policy.report(two, actions, rewards, noise)  # type: ignore[arg-type]

        one = scene.contexts(1, 0)
        for arm in () if private else scene.bad_arms:
            actions = Actions(np.array([arm]), np.array([1], dtype=np.uint64), policy)
            with pytest.raises(InvalidInput, match="arms"):
                policy.report(one, actions, [0.0], noise)
        # Bare arms are taken where reports say the same whoever chose the arm.
        if policy.accepts_logged_actions:
            assert not private
            assert len(policy.report(one, np.array([0]), [0.0], noise)) == 1
        else:
            with pytest.raises(InvalidInput, match="public coins"):
                policy.report(one, np.array([0]), [0.0], noise)

        with pytest.raises(InvalidInput, match="default_rng"):
            policy.act(one, 1)  # type: ignore[arg-type]
        actions, _ = policy.act(one, rng)
        with pytest.raises(InvalidInput, match="SecureNoise"):
            policy.report(one, actions, [0.0], rng)  # type: ignore[arg-type]
        terms = Terms(Box((0.0,), (1.0,)), policy.space, 1e9, delta=0.5)
        with pytest.raises(InvalidInput, match="domain"):
            policy.act("no contexts", rng, terms)

    def test_a_private_report_is_never_refused_for_what_it_holds(self, row: Row) -> None:
        """Silence is not private: whatever the context, arm and reward are, a report leaves."""
        learner = taught(row)
        policy = learner.policy()
        if not policy.reports_are_private:
            pytest.skip("people trust this learner with what happened")
        scene = row.scene
        people = 8
        actions, _ = policy.act(scene.contexts(people, 0), np.random.default_rng(0))
        for arms in (actions.arms, actions.arms[::-1], *scene.bad_arms):
            others = replace(actions, arms=np.broadcast_to(arms, people).copy())
            for rewards in (np.zeros(people), np.full(people, 9.0), np.full(people, np.nan)):
                again = scene.contexts(people, 1)
                reports = policy.report(again, others, rewards, SimulatedNoise(0))
                assert len(reports) == people
                learner.statistics(reports)
        for name in scene.bad_values & set(scene.bad_contexts):
            contexts = scene.bad_contexts[name]
            few = actions[: len(contexts)]
            learner.statistics(policy.report(contexts, few, np.zeros(len(few)), SimulatedNoise(0)))

    def test_values_within_bounds_are_taken_as_they_are(self, row: Row) -> None:
        """What a private report reads leniently it reads to the same bits as `act` does."""
        policy = row.make().policy()
        contexts = row.scene.contexts(200, 2)
        strict, lenient = policy._read(contexts), policy._nearest(contexts)
        if isinstance(strict, np.ndarray):
            assert np.array_equal(strict, lenient)
        elif isinstance(strict, Candidates):
            assert np.array_equal(strict.points, lenient.points)
            assert np.array_equal(strict.present, lenient.present)
        rewards = np.random.default_rng(0).uniform(BOUNDS.lower, BOUNDS.upper, 200)
        assert np.array_equal(BOUNDS.to_unit(rewards, 200), BOUNDS.nearest_unit(rewards, 200))

    def test_actions_of_another_policy_are_refused_before_data_is_looked_at(self, row: Row) -> None:
        learner = taught(row)
        policy = learner.policy()
        # Equal version and identity, but not the same policy: a dishonest learner's second one.
        fields = json.loads(encode(policy))
        fields["reward_bounds"]["upper"] += 1.0
        other = decode(json.dumps(fields), Policy)
        contexts = row.scene.contexts(40, 0)
        actions, _ = policy.act(contexts, np.random.default_rng(0))
        messages = set()
        for person in range(40):
            with pytest.raises(InvalidInput, match="another policy") as refusal:
                other.report(
                    row.scene.one(contexts, person),
                    actions[np.array([person])],
                    [0.0],
                    SimulatedNoise(0),
                )
            messages.add(str(refusal.value))
        assert len(messages) == 1
        for data in ("no contexts", None):
            with pytest.raises(InvalidInput, match="another policy"):
                other.report(data, actions, data, SimulatedNoise(0))  # type: ignore[arg-type]

    def test_two_learners_never_share_people_or_reports(self, row: Row) -> None:
        """Nor do two of one seed: who reports to both is promised the sum."""
        one, two = row.make(), row.fresh()
        assert one.identity != two.identity
        reports = visit(row, one.policy(), 5, 0)
        with pytest.raises(InvalidInput, match="for the learner"):
            two.update(reports)
        both = [taught(row, 2), taught(replace(row, make=row.fresh), 2)]
        alone = [learner.guarantee().epsilon for learner in both]
        releases = [release for learner in both for release in learner.releases]
        budget = both[0].budget
        if budget.trust_model == "none":
            return
        together = derive_guarantee(
            releases, budget.trust_model, both[0].adjacency, budget.delta
        ).epsilon
        # Pure epsilons add; Gaussian ones grow by more than a third where two are equal.
        assert together >= 1.3 * max(alone)
        if budget.delta == 0.0:
            assert together == pytest.approx(sum(alone))

    def test_bad_reports_change_nothing(self, row: Row) -> None:
        learner = taught(row)
        good = visit(row, learner.policy(), 10, 1)
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

    def test_nobody_adds_more_than_one_persons_share(self, row: Row) -> None:
        learner = row.make()
        good = visit(row, learner.policy(), 4, 1)
        before = state(learner)
        for name, value in vars(good).items():
            if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not value.size:
                continue
            for huge in (1e6, -1e150, 1.7e308):
                forged = value.copy()
                forged.flat[0] = huge
                with pytest.raises(InvalidInput):
                    learner.update(replace(good, **{name: forged}))
        assert state(learner) == before

    def test_merges_never_make_sums_infinite(self, row: Row) -> None:
        learner = row.make()
        sums = json.loads(encode(learner.statistics(visit(row, learner.policy(), 4, 1))))
        for enlarged in self.enlarged(sums):
            for _ in range(3):
                with suppress(InvalidInput):
                    learner.merge(decode(enlarged, learner.statistics_type))
        assert all(np.isfinite(sums).all() for sums in arrays(learner._sums))

    @staticmethod
    def enlarged(fields: dict) -> list[str]:
        """Statistics with numbers that are finite, but not once they are added."""
        made = []
        for table in [fields, *fields.get("trees", ())]:
            for name, kept in table.items():
                if isinstance(kept, list) and np.asarray(kept).dtype.kind == "f":
                    table[name] = np.full_like(kept, 1.6e308).tolist()
                    made.append(json.dumps(fields))
                    table[name] = kept
        return made

    def test_merge_rejects_statistics_of_another_stream_epsilon_or_noise(self, row: Row) -> None:
        learner = row.make()
        reports = visit(row, learner.policy(), 4, 1)
        sums, before = learner.statistics(reports), state(learner)
        for bad in (
            replace(sums, source="another"),
            replace(sums, source=""),
            replace(sums, epsilon=8.0 * (sums.epsilon or 1.0)),
        ):
            with pytest.raises(InvalidInput, match="statistics of"):
                learner.merge(decode(encode(bad), learner.statistics_type))
            with pytest.raises(InvalidInput, match="statistics of"):
                sums + bad
        for bad in (replace(sums, noise=()), replace(learner._sums, noise=(reports.noise,))):
            with pytest.raises(InvalidInput, match="noise"):
                learner.merge(bad)
        assert state(learner) == before
        learner.merge(decode(encode(sums), learner.statistics_type))

    def test_foreign_statistics_are_refused(self, row: Row) -> None:
        learner = taught(row)
        before = state(learner)
        with pytest.raises(InvalidInput, match="statistics"):
            learner.merge("a sum")  # type: ignore[arg-type]
        other = json.loads(encode(learner._sums))
        for grown in self.spoilt(other, row.any_sums):
            with pytest.raises(InvalidInput):
                learner.merge(decode(json.dumps(grown), learner.statistics_type))
        assert state(learner) == before

    @staticmethod
    def spoilt(fields: dict, any_sums: bool) -> list[dict]:
        """Statistics with nodes that do not exist, or with counts below zero."""
        made = []
        for table in [fields, *fields.get("trees", ())]:
            arrays = [name for name, value in table.items() if isinstance(value, list) and value]
            arrays = [name for name in arrays if name not in ("noise", "trees")]
            if not arrays:
                continue
            kept = {name: list(table[name]) for name in arrays}
            for name in arrays:
                table[name] = kept[name] + [kept[name][0]] * 99
            made.append(json.loads(json.dumps(fields)))
            if any_sums:
                continue
            for name in arrays:
                flat = np.array(kept[name])
                table[name] = (flat - flat.max() - 1.0).tolist()
            made.append(json.loads(json.dumps(fields)))
            table.update(kept)
        return made
