"""Rules beside the loss: each is kept, and noticed where it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from discreet.audit.learners import _maker
from discreet.audit.runs import broken_rule, changed_policy, open_file
from discreet.learners.saving import save
from discreet.learners.stream import Stream
from discreet.learners.terms import Terms
from discreet.privacy import SecureNoise, SimulatedNoise

MAKER = _maker("partition", "local", 3)


def broken() -> str:
    learner = MAKER.make()
    return broken_rule(MAKER, learner, learner.policy())


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
    learner = MAKER.make()
    first = learner.policy()
    assert changed_policy(learner, first) == ""
    learner._policies.clear()
    learner.public_seed += 1
    assert changed_policy(learner, first) != ""
