"""The application does what its OpenAPI says, whatever is sent to it (schemathesis)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("schemathesis")

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import CHECKS, load_all_checks

from discreet.service.limits import Limits, Rate
from tests.service.web import Web, serving

load_all_checks()
# Bodies of the right form may still be no reports, contexts or keys of this service.
NOT_HERE = {"positive_data_acceptance"}
ROLES = {"/decisions": "client", "/reports": "device"}


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    wide = Rate(1e9, 1e9)
    with serving(tmp_path_factory.mktemp("openapi"), Limits(requests=wide, failures=wide)) as made:
        yield made


def role_for(path: str) -> str:
    """Who may ask for this."""
    found = [role for part, role in ROLES.items() if part in path]
    return found[0] if found else "operator"


def run(web: Web, examples: int) -> set[str]:
    """Send so many examples for each operation; the operations."""
    headers = {"Authorization": f"Bearer {web.tokens['operator']}", "host": "127.0.0.1"}
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", web.client.app, headers=headers)
    done = set()
    for result in schema.get_all_operations():
        operation = result.ok()
        token = web.tokens[role_for(operation.path)]
        check = check_of(operation, token)
        settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )(check)()
        done.add(f"{operation.method} {operation.path}")
    return done


def check_of(operation: Any, token: str) -> Any:
    """What hypothesis sends, and holds against what is described."""

    @given(case=operation.as_strategy())
    def check(case: Any) -> None:
        headers = {"Authorization": f"Bearer {token}", "host": "127.0.0.1"}
        case.call_and_validate(
            headers=headers,
            checks=[each for each in CHECKS.get_all() if each.__name__ not in NOT_HERE],
        )

    return check


def test_a_few_examples_of_each_operation(web: Web) -> None:
    assert len(run(web, 5)) >= 20


@pytest.mark.slow
def test_many_examples_of_each_operation(web: Web) -> None:
    assert len(run(web, 200)) >= 20
