"""Rules beside the loss, and a dishonest server: what is not refused is found out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from discreet.audit.learners import _maker, _with_delta, forged_exact, forgeries
from discreet.audit.replay import NothingToAttack
from discreet.audit.runs import broken_rule, changed_policy, open_file
from discreet.codec import encode
from discreet.learners.partition.policy import PartitionPolicy
from discreet.learners.policy import Actions, Terms
from discreet.learners.saving import save
from discreet.learners.stream import Stream
from discreet.people.domain import DecisionSets
from discreet.privacy import SecureNoise, SimulatedNoise
from discreet.privacy.calibration import AdditiveNoise
from discreet.validation import InvalidInput

PARTITION = _maker("partition", "local", 3)


def broken() -> str:
    maker = replace(PARTITION)  # its identities were not compared before
    learner = maker.make()
    return broken_rule(maker, learner, learner.policy())


def test_honest_learners_keep_the_rules() -> None:
    assert broken() == ""


@pytest.mark.parametrize(
    ("owner", "name", "instead", "said"),
    [
        (Stream, "check_noise", lambda self, names: None, "nothing protects them"),
        (Terms, "check", lambda self, policy, noise="": None, "larger epsilon"),
        (SecureNoise, "secure", False, "without terms"),
    ],
)
def test_what_is_not_refused_is_noticed(
    owner: type[Any], name: str, instead: object, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if owner is SecureNoise:
        pytest.importorskip("opendp")
    monkeypatch.setattr(owner, name, instead)
    assert said in broken()


def test_one_identity_for_all_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda count: "0" * 32)
    assert broken() == "two learners have one identity"


def test_a_file_that_hides_what_it_holds_is_noticed(tmp_path: Path) -> None:
    learner = _maker("usca", "joint", 3).make(SimulatedNoise(1))
    save(learner, tmp_path / "learner.json")
    assert open_file(learner, tmp_path / "learner.json") == ""
    (tmp_path / "learner.json").write_text('{"notice": "take it"}')
    assert "secret" in open_file(learner, tmp_path / "learner.json")


def test_a_policy_that_changes_when_it_is_asked_for_is_noticed() -> None:
    learner = PARTITION.make()
    first = learner.policy()
    assert changed_policy(learner, first) == ""
    learner._policies.clear()
    learner.public_seed += 1
    assert changed_policy(learner, first) != ""


# A dishonest server.


def test_forged_policies_are_other_policies_that_a_reader_takes() -> None:
    policy = PARTITION.make().policy()
    found = dict(forgeries(policy))
    assert "epsilon times 2" in found
    assert all(encode(forged) != encode(policy) for forged in found.values())
    assert json.loads(encode(found["epsilon times 2"]))["epsilon"] == 4.0


def test_no_forged_policy_costs_more_than_the_terms() -> None:
    found = forged_exact(PARTITION, False)
    assert not found.broken, found.fault
    assert found.epsilon == pytest.approx(2.0)


def test_devices_that_believe_what_they_are_told_are_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Terms, "check", lambda self, policy, noise="": None)
    assert forged_exact(PARTITION, False).epsilon > 3.9


def halved(policy: Any) -> Iterator[tuple[str, Any]]:
    return (each for each in forgeries(policy) if "halved" in each[0])


def test_a_sensitivity_that_is_believed_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AdditiveNoise, "check", lambda self, needed: None)
    monkeypatch.setattr("discreet.audit.learners.forgeries", halved)
    found = forged_exact(_with_delta(_maker("gp_ucb", "local", DecisionSets(3))), False)
    assert found.broken
    assert "halved" in found.attack


def test_forgeries_that_lead_to_no_report_are_nothing_to_attack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("discreet.audit.learners.forgeries", lambda policy: iter(()))
    with pytest.raises(NothingToAttack, match="no forged policy of partition"):
        forged_exact(PARTITION, False)


def test_a_device_that_fails_on_a_forged_policy_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = PartitionPolicy._report

    def fragile(self, unit, actions, rewards, noise):  # type: ignore[no-untyped-def]
        assert self.offers.sum() > 0.0
        assert (self.offers <= 1.0).all() or rewards[0] < 0.5
        return report(self, unit, actions, rewards, noise)

    def louder(policy: PartitionPolicy) -> Iterator[tuple[str, PartitionPolicy]]:
        other = object.__new__(PartitionPolicy)
        other.__dict__.update({**vars(policy), "offers": 2.0 * policy.offers})
        yield "offers that are no probabilities", other

    monkeypatch.setattr(PartitionPolicy, "_report", fragile)
    monkeypatch.setattr("discreet.audit.learners.forgeries", louder)
    assert "refused depends on the data" in forged_exact(PARTITION, False).fault


def test_a_refusal_that_looks_at_what_was_done_under_another_policy_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def by_arm(self: Actions, policy: PartitionPolicy) -> None:
        if self.policy is not policy and self.arms[0] == 0:
            raise InvalidInput("this policy would not have chosen arm 0")

    monkeypatch.setattr(Actions, "check_policy", by_arm)
    found = forged_exact(PARTITION, False)
    assert "refused depends on the data" in found.fault
    assert "after acting under the honest policy" in found.attack
