"""Files that no learner saved are refused, even those whose checksum was worked out again: a
guarantee is derived from the policies, counts and noise that a file holds."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from discreet.codec import to_json
from discreet.learners.base import Learner
from discreet.learners.gp_ucb.learner import GPUCB
from discreet.learners.policy import Policy
from discreet.learners.references.uniform import UniformPolicy
from discreet.learners.registry import learner_class
from discreet.learners.saving import load, save, sealed
from discreet.people.domain import Box, PublicBox, unit_cube
from discreet.privacy import Joint, Local, SimulatedNoise, Unprotected
from discreet.validation import InvalidInput

from .contract import DOMAIN, state
from .source_scene import SourceRow, serve, teach
from .test_source_contract import PARAMETERS, ROWS

Edit = Callable[[dict[str, Any]], object]
OTHER = Box(DOMAIN.lower, tuple(2.0 * upper + 1.0 for upper in DOMAIN.upper))


def every_policy(**facts: Any) -> Edit:
    def edit(stream: dict[str, Any]) -> None:
        for policy in stream["policies"]:
            policy.update(facts)

    return edit


def sums(**facts: Any) -> Edit:
    return lambda stream: stream["sums"].update(facts)


STREAMS: dict[str, tuple[Edit, str]] = {
    "no policy": (lambda stream: stream.update(policies=[], published_at=0), "0 policies"),
    "other order": (lambda stream: stream["policies"].reverse(), "had version"),
    "the first policy is missing": (
        lambda stream: stream["policies"].pop(0),
        "version|0 policies",
    ),
    "epsilon of policies": (every_policy(epsilon=0.125), "had epsilon|had the fields"),
    "domain of policies": (every_policy(domain=to_json(OTHER)), "had domain"),
    "rewards of policies": (
        every_policy(reward_bounds={"lower": 0.0, "upper": 99.0}),
        "had reward_bounds",
    ),
    "seed of policies": (every_policy(public_seed=99), "public_seed 99; it must be 11"),
    "learner of policies": (every_policy(learner_id="another"), "learner_id 'another'"),
    "published after everybody": (lambda stream: stream.update(published_at=10**9), "1000000000"),
    "published before anybody": (lambda stream: stream.update(published_at=0), "0 of them"),
    "no noise": (sums(noise=[]), "noise sources"),
    "the noise of nobody": (sums(noise=["none"]), "noise"),
}
SOURCES: dict[str, tuple[Edit, str]] = {
    **STREAMS,
    "epsilon of the source": (lambda stream: stream.update(epsilon=0.5), "it must be 0.5"),
    "stream in policies": (every_policy(stream="shop"), "stream 'shop'; it must be 'bank'"),
    "too large an epsilon": (lambda stream: stream.update(epsilon=1e300), "epsilon of a source"),
}


@pytest.fixture(params=PARAMETERS)
def row(request: pytest.FixtureRequest) -> SourceRow:
    return request.param


@pytest.fixture
def fields(row: SourceRow) -> dict[str, Any]:
    """Of the file of a learner that heard from a source and its target."""
    return copy.deepcopy(fields_of(row))


@cache
def fields_of(row: SourceRow) -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        return content(heard(row), Path(folder) / "learner.json")


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


def test_what_was_not_changed_is_loaded(
    row: SourceRow, fields: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "learner.json"
    write(fields, path)
    assert state(load(path)) == state(heard(row))


@pytest.mark.parametrize(("edit", "message"), STREAMS.values(), ids=STREAMS.keys())
def test_the_target(
    row: SourceRow, fields: dict[str, Any], edit: Edit, message: str, tmp_path: Path
) -> None:
    target = fields["state"]["target"]
    before = copy.deepcopy(target)
    edit(target)
    plain = message == "noise" and not heard(row).budget.private  # which is the truth there
    if before != target and not plain:  # a single policy is its own reverse
        refused(fields, tmp_path / "learner.json", message)


@pytest.mark.parametrize(("edit", "message"), SOURCES.values(), ids=SOURCES.keys())
def test_a_source(fields: dict[str, Any], edit: Edit, message: str, tmp_path: Path) -> None:
    edit(fields["state"]["sources"]["bank"])
    refused(fields, tmp_path / "learner.json", message)


@pytest.mark.parametrize(
    "name", ["local_kernel", "partition", "published_partition", "private_linear", "private_neural"]
)
def test_policies_that_ask_nothing_of_people(name: str, tmp_path: Path) -> None:
    """Under them nobody reports, so that a guarantee derived from them promises epsilon 0."""
    kind: Any = learner_class(name)
    learner = kind(unit_cube(1), 2, Local(2.0), horizon=100)
    policy, rng = learner.policy(), np.random.default_rng(0)
    contexts = rng.random((5, 1))
    actions, _ = policy.act(contexts, rng)
    learner.update(policy.report(contexts, actions, rng.random(5), SimulatedNoise(1)))
    fields = content(learner, tmp_path / "learner.json")
    silent = UniformPolicy(**learner.policy_header() | {"version": 0})
    fields["state"]["target"]["policies"] = [to_json(silent, Policy)]
    refused(fields, tmp_path / "learner.json", "of the kind 'uniform-policy'")


def test_noise_that_is_louder_on_paper_than_it_was(tmp_path: Path) -> None:
    learner = GPUCB(unit_cube(1), PublicBox(), Local(2.0), error=0.1)
    policy, rng = learner.policy(), np.random.default_rng(0)
    actions, _ = policy.act(50, rng)
    learner.update(policy.report(50, actions, rng.random(50), SimulatedNoise(1)))
    fields = content(learner, tmp_path / "learner.json")
    for saved in fields["state"]["target"]["policies"]:
        saved["local"]["scale"] *= 100.0
    refused(fields, tmp_path / "learner.json", "had local")


def test_a_file_from_when_sums_held_those_who_were_released(tmp_path: Path) -> None:
    """They left the sums of gp_ucb since; read as they are today, all would be released again."""
    domain, joint = unit_cube(1), Joint(1.0, 1e-6)
    learner = GPUCB(domain, PublicBox(), joint, noise=SimulatedNoise(3), error=0.1)
    policy, rng = learner.policy(), np.random.default_rng(0)
    people = learner.batch_size
    actions, _ = policy.act(people, rng)
    learner.update(policy.report(people, actions, np.ones(people), Unprotected()))
    before = to_json(learner._sums)
    learner.policy()
    fields = content(learner, tmp_path / "learner.json")
    fields["state"]["target"]["sums"] = fields["state"]["own"]["released"] = before
    refused(fields, tmp_path / "learner.json", "fields .*'released'")


def test_people_who_would_be_released_again(tmp_path: Path) -> None:
    """What was released is marked as nothing, so that one more report would bring all of it."""
    domain = Box((0.0, 0.0), (1.0, 1.0), levels=(4, 3))
    kind: Any = learner_class("released_thompson")
    learner = kind(domain, 3, Joint(1.0, 1e-6), noise=SimulatedNoise(3), error=0.3)
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


def test_a_file_imports_nothing(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
