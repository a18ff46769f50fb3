"""The application does what its OpenAPI says, whatever is sent to it (schemathesis)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from discreet.codec import decode
from discreet.learners.messages import Reports
from discreet.learners.policy import Policy, Terms
from discreet.privacy import SecureNoise
from discreet.service.server.app import create_app
from discreet.service.server.keys import ROLES
from discreet.service.server.middleware import Limits, Rate
from tests.service.server.web import listening, opened

# Bodies of the right form may still be no reports, contexts or keys of this service.
NOT_HERE = {"positive_data_acceptance"}


@dataclass
class Asked:
    """A real server, and the keys to it.

    Attributes:
        described: its OpenAPI.
    """

    described: dict[str, Any]
    address: str
    tokens: dict[str, str]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    wide = Rate(1e9, 1e9)
    service = opened(tmp_path_factory.mktemp("openapi"))
    app = create_app(service, limits=Limits(requests=wide, failures=wide))
    tokens = {role: service.keys.make(role) for role in ROLES}
    with listening(app) as port:
        yield Asked(app.openapi(), f"http://127.0.0.1:{port}", tokens)


def run(asked: Asked, examples: int) -> set[str]:
    """Send so many examples for each operation; the operations."""
    schemathesis = pytest.importorskip("schemathesis")  # takes a second
    schema = schemathesis.openapi.from_dict(asked.described)
    done = set()
    for result in schema.get_all_operations():
        operation = result.ok()
        roles = operation.definition.raw.get("x-roles", ROLES)
        token = asked.tokens["operator" if "operator" in roles else roles[0]]
        settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )(check_of(operation, asked.address, token))()
        done.add(f"{operation.method} {operation.path}")
    return done


def check_of(operation: Any, address: str, token: str) -> Any:
    """What hypothesis sends, and holds against what is described."""
    from schemathesis.checks import CHECKS, load_all_checks

    load_all_checks()
    checks = [each for each in CHECKS.get_all() if each.__name__ not in NOT_HERE]

    @given(case=operation.as_strategy())
    def check(case: Any) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        case.call_and_validate(base_url=address, headers=headers, checks=checks)

    return check


@pytest.fixture(scope="module")
def described(asked: Asked) -> dict[str, Any]:
    return asked.described["components"]["schemas"]


def follow(schema: dict[str, Any], known: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The named schemas that a schema is made of, as far as `kind` and fields go."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        yield name, known[name]
        schema = known[name]
    inside = [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])]
    for inner in inside:
        yield from follow(inner, known)


def test_every_answer_has_fields(asked: Asked, described: dict[str, Any]) -> None:
    seen = set()
    for path, operations in asked.described["paths"].items():
        for operation in operations.values():
            for code, answer in operation["responses"].items():
                content = answer.get("content", {}).get("application/json")
                if content is None:
                    assert code == "304" or path == "/metrics"
                    continue
                named = dict(follow(content["schema"], described))
                assert named
                assert all("properties" in each or "anyOf" in each for each in named.values())
                seen |= named.keys()
    assert {"StudyFacts", "PartitionPolicyMessage", "ReportsReceipt", "Refusal"} <= seen


def test_examples_are_what_their_schemas_say(described: dict[str, Any]) -> None:
    examples = 0
    for name, schema in described.items():
        for example in schema.get("examples", ()):
            wanted = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": described}}
            jsonschema_rs.validator_for(wanted).validate(example)
            examples += 1
    assert examples > 20


def test_examples_of_reports_can_be_read(described: dict[str, Any]) -> None:
    kinds = [name for name, _ in follow({"$ref": "#/components/schemas/Report"}, described)]
    assert len(kinds) >= 8
    for name in kinds:
        report = decode(json.dumps(described[name]["examples"][0]), Reports)
        assert len(report) == 1
        assert report.noise == SecureNoise.name
    policy = decode(json.dumps(described["Policy"]["examples"][0]), Policy)
    Terms.from_fields(described["TermsFields"]["examples"][0]).check(policy)


def test_schemas_have_bounds(described: dict[str, Any]) -> None:
    reports = described["SignedReportsMessage"]["properties"]
    assert reports["signs"]["items"]["items"] == {"type": "integer", "minimum": -1, "maximum": 1}
    assert reports["policy_version"] == {"type": "integer", "minimum": 0, "maximum": 2**53 - 1}
    assert described["SignedReportsMessage"]["additionalProperties"] is False
    assert described["DecisionFields"]["properties"]["propensity"]["maximum"] == 1


def test_an_example_of_each_operation(asked: Asked) -> None:
    assert len(run(asked, 1)) >= 20


@pytest.mark.slow
def test_20000_examples(asked: Asked) -> None:
    operations = sum(map(len, asked.described["paths"].values()))
    assert len(run(asked, -(-20_000 // operations))) == operations
