"""Files that were damaged, cut off, or of something else are refused."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.learners.base import Learner
from discreet.learners.registry import learner_class
from discreet.learners.saving import load, save, sealed
from discreet.people.domain import Box
from discreet.privacy import Joint, SimulatedNoise, Unprotected
from discreet.validation import InvalidInput

from .source_scene import SourceRow, serve, teach
from .test_source_contract import ROWS


@cache
def heard(row: SourceRow) -> Any:
    """A learner with several policies of its own and of a source."""
    learner = row.fresh(bank=2.0)
    teach(learner, "bank")
    serve(learner, 3)
    return learner


def content(learner: Learner[Any, Any, Any], path: Path) -> dict[str, Any]:
    save(learner, path)
    fields: dict[str, Any] = json.loads(path.read_text())
    del fields["sha256"]
    return fields


def write(fields: dict[str, Any], path: Path) -> None:
    """With the checksum that `save` would give it."""
    path.write_text(sealed(fields))


def refused(fields: dict[str, Any], path: Path, message: str) -> None:
    write(fields, path)
    with pytest.raises(InvalidInput, match=message):
        load(path, SimulatedNoise(1))


def test_people_who_would_be_released_again(tmp_path: Path) -> None:
    """What was released is marked as nothing, so that one more report would bring all of it."""
    domain = Box((0.0, 0.0), (1.0, 1.0), levels=(4, 3))
    kind: Any = learner_class("capri")
    learner = kind(domain, 3, Joint(1.0, 1e-6), noise=SimulatedNoise(3), error=0.3, horizon=99)
    rng = np.random.default_rng(0)

    def report(policy: Any, people: int) -> Any:
        contexts = np.stack([rng.integers(4, size=people) / 3, rng.integers(3, size=people) / 2], 1)
        actions, _ = policy.act(contexts, rng)
        return policy.report(contexts, actions, np.ones(people), Unprotected())

    first = learner.policy()
    learner.update(report(first, learner.batch_size))
    learner.policy()
    learner.update(report(first, 1))
    fields = content(learner, tmp_path / "learner.json")
    (_, marked), *_ = fields["state"]["own"]["released"]["before"]["epochs"]
    marked["total"] = [0] * len(marked["total"])
    refused(fields, tmp_path / "learner.json", "no reports add up to that")


def test_policies_that_were_published_elsewhere() -> None:
    """A copy takes the next one of its own learner: others did not make the reports it reads."""
    row = ROWS["private_linear"]
    published, copy = heard(row).published(0), row.fresh(bank=2.0)
    with pytest.raises(InvalidInput, match="stood as policy 0 of"):
        copy.register_policy(replace(published, learner_id="another"))
    copy.register_policy(published)
    with pytest.raises(InvalidInput, match="stood as policy 1 of"):
        copy.register_policy(published)
    assert copy.published(0) is published


def test_a_file_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = content(heard(ROWS["private_linear"]), tmp_path / "learner.json")
    (tmp_path / "brought_along.py").write_text("raise SystemExit('it ran')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    refused({**fields, "learner": "brought_along:Any"}, tmp_path / "learner.json", "import brought")


def test_a_file_that_is_not_what_its_checksum_says(tmp_path: Path) -> None:
    """Guarantees come from the policies in it; without them a file would promise epsilon 0."""
    path = tmp_path / "learner.json"
    save(heard(ROWS["private_linear"]), path)
    load(path)
    whole = json.loads(path.read_text())
    policies = whole["state"]["target"]["policies"]
    for fewer in ([], policies[1:], [*policies, policies[-1]], [*policies[:-1], {}]):
        target = {**whole["state"]["target"], "policies": fewer}
        path.write_text(json.dumps({**whole, "state": {**whole["state"], "target": target}}))
        with pytest.raises(InvalidInput, match="checksum"):
            load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"space": 1}, "was 1; it must be"),
        ({"budget": "x"}, "damaged"),
        ({"domain": {"lower": [10**400]}}, "lacks the field 'upper'"),
        ({"state": {}}, "damaged"),
        ({"learner": "nobody"}, "'nobody' is unknown"),
        ({"schema": 99}, "schema 99"),
        ({"kind": "policy"}, "no learner"),
    ],
)
def test_files_of_something_else(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    fields = content(heard(ROWS["private_linear"]), tmp_path / "learner.json")
    refused({**fields, **change}, tmp_path / "learner.json", message)
    with pytest.raises(InvalidInput, match="cannot be read"):
        load(tmp_path / "none.json")
