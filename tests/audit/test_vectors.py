"""The test vectors for clients in other languages."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema_rs
import numpy as np
import pytest

from discreet.audit.vectors import ListedNoise, schemas, write_vectors
from discreet.codec import decode
from discreet.learners.messages import Reports
from discreet.learners.policy import Actions, Policy, Terms
from discreet.validation import InvalidInput
from tests.service.client.conftest import node

LEARNT = ("kernel", "best_arm", "partition", "kernel_source")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    folder = tmp_path_factory.mktemp("vectors")
    counts = write_vectors(folder, cases=200)
    assert min(counts[name] for name in (*LEARNT, "forged", "refusals")) >= 200
    assert counts["shuffled"] == 90
    return folder, counts


@pytest.fixture
def folder(written: tuple[Path, dict[str, int]]) -> Path:
    return written[0]


def read(folder: Path, name: str) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return fields


@pytest.mark.parametrize("name", [*LEARNT, "forged", "shuffled"])
def test_one_person_alone_makes_the_same_report(folder: Path, name: str) -> None:
    """The cases of a policy were made in one go, as no device does."""
    fields = read(folder, name)
    policies = [decode(each["policy"], Policy) for each in fields["policies"]]
    for case in fields["cases"][::3]:
        policy: Any = policies[case["policy"]]
        terms = Terms.from_fields(fields["policies"][case["policy"]]["terms"])
        context, words = case["context"], case["words"]
        if isinstance(context, list):
            context = [np.nan if each is None else each for each in context]
        actions: Any = np.array([case.get("action")], dtype=object)
        if policy.chooses:
            coins = np.array([case["public_coin"]], dtype=np.uint64)
            actions, propensities = policy._act(policy._nearest([context]), coins)
            assert actions.arms.tolist() == [case["arm"]]
            assert propensities.tolist() == [case["propensity"]]
            actions = Actions(np.array([case["arm"]]), coins, policy)
        reward = np.nan if case["reward"] is None else case["reward"]
        listed = [int(each) for each in words] if isinstance(words, list) else None
        noise = ListedNoise(np.array([0 if listed else words], dtype=np.uint64), listed)
        report = policy.report([context], actions, [reward], noise, terms)
        made = decode(json.dumps(case["report"]), Reports)
        assert report.places.tolist() == made.places.tolist()
        assert report.signs.tolist() == made.signs.tolist()
        assert report.public_coins.tolist() == made.public_coins.tolist()
        policy.reporter.check(policy, made)


def test_cases_cover_what_clients_get_wrong(folder: Path) -> None:
    sizes, cells, arms, drawn_again = set(), set(), set(), 0
    for name in LEARNT:
        fields = read(folder, name)
        policies = [json.loads(each["policy"]) for each in fields["policies"]]
        sizes |= {each["size"] for each in policies if "size" in each}
        cells |= {each["cells"]["count"] for each in policies if "cells" in each}
        arms |= {case["arm"] for case in fields["cases"] if "arm" in case}
        drawn_again += sum(isinstance(case["words"], list) for case in fields["cases"])
        contexts = [case["context"] for case in fields["cases"]]
        assert any(isinstance(each, dict) for each in contexts)
        assert any(None in each for each in contexts if isinstance(each, list))
        assert any(case["reward"] is None for case in fields["cases"])
    assert max(sizes) > 2
    assert min(cells) == 1
    assert max(cells) > 20
    assert arms == {0, 1, 2}
    assert drawn_again == 120


def test_refusals_are_refused_for_the_policy_alone(folder: Path) -> None:
    for case in read(folder, "refusals")["cases"]:
        terms = Terms.from_fields(case["terms"])
        with pytest.raises(InvalidInput):  # noqa: PT012
            policy = decode(case["policy"], Policy)
            terms.check(policy)
            if policy.stream != case["stream"]:
                raise InvalidInput("another stream")


def test_schemas_describe_policies_and_reports(folder: Path) -> None:
    described = read(folder, "schemas")
    assert described == json.loads(json.dumps(schemas()))
    policy, report = (
        jsonschema_rs.validator_for({**described, "$ref": f"#/$defs/{name}"})
        for name in ("Policy", "Report")
    )
    for name in LEARNT:
        fields = read(folder, name)
        assert all(policy.is_valid(json.loads(each["policy"])) for each in fields["policies"])
        assert all(report.is_valid(each["report"]) for each in fields["cases"])
    unknown = [
        each for each in read(folder, "refusals")["cases"] if "field too many" in each["name"]
    ]
    assert unknown
    assert not any(policy.is_valid(json.loads(each["policy"])) for each in unknown)


@pytest.mark.slow
def test_vectors_are_the_same_again(folder: Path, tmp_path: Path) -> None:
    write_vectors(tmp_path, cases=200)
    for path in folder.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


def test_client_decides_and_reports_as_python_to_the_bit(
    written: tuple[Path, dict[str, int]],
) -> None:
    folder, counts = written
    shown = set(node("vectors.mjs", folder).splitlines())
    refused = counts["refusals"]
    cases = {f"{name}: {n} cases agree" for name, n in counts.items() if name != "refusals"}
    texts = f"shuffled: {counts['shuffled']} texts and 30 costs agree"
    assert shown == {*cases, texts, f"refusals: {refused} cases are refused"}


@pytest.mark.parametrize(
    ("name", "at", "message"),
    [
        ("partition", ("cases", 7, "report", "signs", 0, 0), "partition, case 7, report"),
        ("kernel", ("cases", 3, "propensity"), "kernel, case 3, propensity"),
        ("kernel_source", ("policies", 0, "sha256"), "kernel_source, policy 0, its SHA-256"),
        ("shuffled", ("cases", 5, "text"), "shuffled, text 5"),
        ("shuffled", ("costs", 2, "cost"), "shuffled, cost 2"),
        ("refusals", ("cases", 0, "policy"), "refusals, .* found .accepted"),
    ],
)
def test_runner_of_vectors_fails_at_a_difference(
    folder: Path, tmp_path: Path, name: str, at: Any, message: str
) -> None:
    changed = shutil.copytree(folder, tmp_path / "changed")
    path = changed / f"{name}.json"
    fields = part = json.loads(path.read_text())
    for key in at[:-1]:
        part = part[key]
    value = part[at[-1]]
    if name == "refusals":
        kept = json.loads((changed / "forged.json").read_text())["policies"][0]
        part |= {"policy": kept["policy"], "terms": kept["terms"]}
    else:
        part[at[-1]] = value[::-1] if isinstance(value, str) else value / 2 or 0.5
    path.write_text(json.dumps(fields))
    with pytest.raises(AssertionError, match=message):
        node("vectors.mjs", changed)
