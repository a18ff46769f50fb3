"""Arms with names: agreed to, carried by policies, saved, and taken in place of numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet import (
    Actions,
    ArmPoints,
    Box,
    InvalidInput,
    Joint,
    Local,
    LocalKernel,
    NonPrivate,
    Partition,
    Policy,
    SimulatedNoise,
    Terms,
    Unprotected,
    decode,
    encode,
    load,
    make_learner,
    save,
)
from discreet.codec import from_json, to_json

DOMAIN = Box.of({"age": (18, 90)})
NAMES = ["none", "call", "visit"]
PEOPLE = [{"age": 30}, {"age": 60}, {"age": 80}]
NOISE = SimulatedNoise(1)


def acted(policy: Policy[Any]) -> Actions:
    return policy.act(PEOPLE, np.random.default_rng(1))[0]


@pytest.mark.parametrize(
    ("name", "budget"),
    [
        ("kernel", Local(1.0)),
        ("partition", Local(1.0)),
        ("published_partition", Local(1.0)),
        ("private_linear", Local(1.0)),
        ("capri", Joint(1.0, 1e-6)),
        ("usca", Joint(1.0, 1e-6)),
        ("abse", NonPrivate()),
        ("uniform", NonPrivate()),
    ],
)
def test_every_learner_of_arms_takes_them(name: str, budget: Any, tmp_path: Path) -> None:
    learner = make_learner(name, DOMAIN, NAMES, budget, noise=NOISE, horizon=1000)
    policy = decode(encode(learner.policy()), Policy)
    assert policy.arm_names == tuple(NAMES)
    actions = acted(policy)
    assert actions.names.tolist() == [NAMES[arm] for arm in actions.arms]
    save(learner, tmp_path / "learner.json")
    again = load(tmp_path / "learner.json", noise=NOISE)
    assert again.arm_names == learner.arm_names
    assert encode(again.policy()) == encode(policy)


@pytest.mark.parametrize("kind", [LocalKernel, Partition])
def test_they_change_nothing_else(kind: Any) -> None:
    named, plain = (kind(DOMAIN, arms, Local(1.0), identity="a") for arms in (NAMES, 3))
    np.testing.assert_array_equal(acted(named.policy()).arms, acted(plain.policy()).arms)
    assert acted(plain.policy()).names.tolist() == list(map(str, acted(plain.policy()).arms))


def test_points_may_have_names() -> None:
    doses = ArmPoints.of([25, 50, 100], ["low", "middle", "high"])
    smooth = {"kernel": "RBF(length_scale=100.0)", "error": 0.1}
    learner = make_learner(
        "capri", DOMAIN, doses, Joint(1.0, 1e-6), noise=NOISE, horizon=1000, options=smooth
    )
    assert set(acted(learner.policy()).names) <= {"low", "middle", "high"}
    assert from_json(to_json(doses), ArmPoints) == doses
    assert "names" not in to_json(ArmPoints.of([1, 2]))


def test_nothing_is_written_where_nobody_named_them(tmp_path: Path) -> None:
    """Nor is it missed."""
    learner = LocalKernel(DOMAIN, 3, Local(1.0))
    policy = learner.policy()
    assert "arm_names" not in json.loads(encode(policy))
    assert decode(encode(policy), Policy).digest == policy.digest
    save(learner, tmp_path / "learner.json")
    assert "arm_names" not in (tmp_path / "learner.json").read_text()
    assert load(tmp_path / "learner.json").arm_names == ()


class TestTerms:
    def test_names_are_agreed_to(self) -> None:
        policy = LocalKernel(DOMAIN, NAMES, Local(1.0)).policy()
        Terms(DOMAIN, NAMES, 1.0).check(policy)

    @pytest.mark.parametrize("agreed", [3, ["none", "visit", "call"], ["none", "call", "text"]])
    def test_other_names_are_refused(self, agreed: Any) -> None:
        policy = LocalKernel(DOMAIN, NAMES, Local(1.0)).policy()
        with pytest.raises(InvalidInput, match=r"has arm_names .* but this side agreed to"):
            policy.act(PEOPLE, np.random.default_rng(1), Terms(DOMAIN, agreed, 1.0))

    def test_so_are_those_of_points(self) -> None:
        doses = [ArmPoints.of([25, 50], names) for names in (["a", "b"], ["b", "a"])]
        policy = LocalKernel(DOMAIN, doses[0], Local(1.0)).policy()
        Terms(DOMAIN, doses[0], 1.0).check(policy)
        with pytest.raises(InvalidInput, match="has arm_names"):
            Terms(DOMAIN, doses[1], 1.0).check(policy)


class TestRefused:
    @pytest.mark.parametrize(
        "names", [["call"], ["call", "call"], ["call", ""], ["a", "b" * 101], ["a", 2], "ab"]
    )
    def test_what_names_nothing(self, names: Any) -> None:
        for make in (LocalKernel, Partition):
            with pytest.raises(InvalidInput, match=r"names of arms were|arms was"):
                make(DOMAIN, names, Local(1.0))
        with pytest.raises(InvalidInput):
            Terms(DOMAIN, names, 1.0).check(LocalKernel(DOMAIN, 2, Local(1.0)).policy())

    def test_names_of_too_few_arms(self) -> None:
        with pytest.raises(InvalidInput, match="there were 2 names, a, b, for 3 arms"):
            ArmPoints.of([1, 2, 3], ["a", "b"])
        fields = json.loads(encode(LocalKernel(DOMAIN, NAMES, Local(1.0)).policy()))
        with pytest.raises(InvalidInput, match="for 3 arms"):
            decode(json.dumps(fields | {"arm_names": ["none", "call"]}), Policy)

    def test_pending_actions_have_no_names_of_their_own(self) -> None:
        policy = LocalKernel(DOMAIN, NAMES, Local(1.0)).policy()
        actions = decode(encode(acted(policy)), Actions)
        with pytest.raises(InvalidInput, match=r"ask policy\.names_of\(actions\)"):
            _ = actions.names
        assert policy.names_of(actions).tolist() == acted(policy).names.tolist()
        other = LocalKernel(DOMAIN, NAMES, Local(1.0)).policy()
        with pytest.raises(InvalidInput, match="chosen by another policy"):
            other.names_of(actions)


class TestActionsOfOthers:
    """Whose arms somebody else chose: by name, where reports say the same whoever chose."""

    def test_a_source_takes_names(self) -> None:
        learner = LocalKernel(DOMAIN, NAMES, Local(1.0))
        learner.open_source("log", 2.0)
        policy = decode(encode(learner.policy("log")), Policy)
        by_name, by_number = (
            policy.report(PEOPLE, arms, [1, 0, 1], SimulatedNoise(7))
            for arms in (["visit", "none", "call"], [2, 0, 1])
        )
        np.testing.assert_array_equal(by_name.places, by_number.places)  # type: ignore[attr-defined]
        # Nothing of a person is refused: a name that is none counts as missing.
        policy.report(PEOPLE, ["visit", "sms", "call"], [1, 0, 1], NOISE)
        Terms(DOMAIN, NAMES, 2.0).check(policy)
        with pytest.raises(InvalidInput, match="has arm_names"):
            Terms(DOMAIN, 3, 2.0).check(policy)

    def test_so_does_an_open_policy_that_compares_rewards_arm_by_arm(self) -> None:
        learner = LocalKernel(DOMAIN, NAMES, NonPrivate())
        policy = learner.policy()
        reports = policy.report(PEOPLE, ["visit", "none", "call"], [1, 0, 1], Unprotected())
        assert reports.arms.tolist() == [2, 0, 1]  # type: ignore[attr-defined]
        learner.update(reports)
        assert learner.people == 3
        with pytest.raises(InvalidInput, match=r"'vist' at position 1.* Did you mean 'visit'\?"):
            policy.report(PEOPLE, ["visit", "vist", "call"], [1, 0, 1], Unprotected())
        with pytest.raises(InvalidInput, match="arms was 3 at position 0"):
            policy.report(PEOPLE, [3, 0, 1], [1, 0, 1], Unprotected())

    def test_others_say_why_not(self) -> None:
        policy = Partition(DOMAIN, NAMES, Local(1.0)).policy()
        with pytest.raises(InvalidInput, match=r"policy of a source"):
            policy.report(PEOPLE, ["visit", "none", "call"], [1, 0, 1], NOISE)
