"""The application does what its OpenAPI says, whatever is sent to it (schemathesis)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("schemathesis")

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import CHECKS, load_all_checks

from discreet.service.app import create_app
from discreet.service.keys import ROLES
from discreet.service.limits import Limits, Rate
from tests.service.web import listening, opened

load_all_checks()
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
    checks = [each for each in CHECKS.get_all() if each.__name__ not in NOT_HERE]

    @given(case=operation.as_strategy())
    def check(case: Any) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        case.call_and_validate(base_url=address, headers=headers, checks=checks)

    return check


def test_a_few_examples_of_each_operation(asked: Asked) -> None:
    assert len(run(asked, 3)) >= 20


@pytest.mark.slow
def test_many_examples_of_each_operation(asked: Asked) -> None:
    assert len(run(asked, 200)) >= 20
