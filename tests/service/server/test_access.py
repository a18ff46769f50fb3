"""Every role against every route: the allowed ones pass, and nobody else."""

from __future__ import annotations

import pytest

from discreet.service.server.keys import ROLES, ApiKey
from tests.service.server.web import Web, web

__all__ = ["web"]

EVERYONE = frozenset(ROLES)
READERS = frozenset({"operator", "auditor"})
# Who may ask for what; written down here a second time on purpose.
MATRIX = {
    ("GET", "/metrics"): READERS,
    ("GET", "/v1/studies"): EVERYONE,
    ("GET", "/v1/studies/{study}"): EVERYONE,
    ("GET", "/v1/studies/{study}/terms"): EVERYONE,
    ("GET", "/v1/studies/{study}/policy"): EVERYONE,
    ("GET", "/v1/studies/{study}/policies/{version}"): EVERYONE,
    ("GET", "/v1/studies/{study}/sources/{source}/terms"): EVERYONE,
    ("GET", "/v1/studies/{study}/sources/{source}/policy"): EVERYONE,
    ("GET", "/v1/studies/{study}/sources/{source}/policies/{version}"): EVERYONE,
    ("POST", "/v1/studies/{study}/reports"): {"device"},
    ("POST", "/v1/studies/{study}/groups"): {"shuffler"},
    ("POST", "/v1/studies/{study}/sources/{source}/reports"): {"device"},
    ("POST", "/v1/studies/{study}/decisions"): {"client"},
    ("POST", "/v1/studies/{study}/decisions/{decision}/reward"): {"client"},
    ("GET", "/v1/studies/{study}/certificate"): READERS,
    ("GET", "/v1/studies/{study}/ledger"): READERS,
    ("GET", "/v1/studies/{study}/releases"): READERS,
    ("POST", "/v1/studies/{study}/state"): {"operator"},
    ("GET", "/v1/studies/{study}/export"): {"operator"},
    ("GET", "/v1/keys"): {"operator"},
    ("POST", "/v1/keys"): {"operator"},
    ("DELETE", "/v1/keys/{identity}"): {"operator"},
    ("GET", "/v1/operations"): READERS,
}  # fmt: skip
OPEN = {("GET", "/health"), ("GET", "/ready"), ("GET", "/v1/openapi.json")}
FIELDS = {"study": "other", "source": "none", "version": "999999", "decision": "0" * 32,
          "identity": "0" * 16}  # fmt: skip


def routes(web: Web) -> set[tuple[str, str]]:
    """What the application has, by method and path."""
    paths = web.client.app.openapi()["paths"]  # type: ignore[attr-defined]
    return {(method.upper(), path) for path, methods in paths.items() for method in methods}


def test_the_matrix_is_of_all_routes(web: Web) -> None:
    own = {pair for pair in routes(web) if "/tables" not in pair[1]}
    assert own | OPEN == MATRIX.keys() | OPEN


@pytest.mark.parametrize(("method", "path"), MATRIX)
@pytest.mark.parametrize("role", ROLES)
def test_each_route_accepts_its_roles_alone(web: Web, method: str, path: str, role: str) -> None:
    """With a key of every study; what is sent is empty, so whoever may come gets no further."""
    answer = web.ask(method, path.format(**FIELDS), role)
    if role in MATRIX[method, path]:
        assert answer.status_code not in (401, 403)
    else:
        assert answer.status_code == 403
        assert f"the key is one for the role {role}; this is for " in answer.json()["error"]


@pytest.mark.parametrize(("method", "path"), [pair for pair in MATRIX if "{study}" in pair[1]])
def test_keys_of_another_study(web: Web, method: str, path: str) -> None:
    """Whether the study is there is not said."""
    for role in MATRIX[method, path]:
        for study in ("local", "joint", "nothing"):
            place = path.format(**{**FIELDS, "study": study})
            answer = web.ask(method, place, f"{role} of other")
            assert answer.status_code == 403
            assert answer.json()["error"] == (
                "the key is one for 'other' alone; ask with a key for this one."
            )


@pytest.mark.parametrize(("method", "path"), MATRIX)
def test_every_route_needs_a_key(web: Web, method: str, path: str) -> None:
    answer = web.ask(method, path.format(**FIELDS), json={})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


def test_metrics_are_of_all_studies(web: Web) -> None:
    assert web.ask("GET", "/metrics", "operator of other").status_code == 403


def test_a_route_without_roles_is_for_nobody() -> None:
    from fastapi import FastAPI
    from starlette.testclient import TestClient

    from discreet.service.server.access import KEY, add_answers, router

    app, routes = FastAPI(), router("test")

    @routes.get("/open")
    def never() -> None:
        raise AssertionError

    app.include_router(routes)
    add_answers(app)

    async def with_key(scope, receive, send):  # type: ignore[no-untyped-def]
        scope[KEY] = ApiKey("0" * 16, "operator", None)
        await app(scope, receive, send)

    answer = TestClient(with_key).get("/open")
    assert answer.status_code == 403
    assert "this is for none" in answer.json()["error"]


def test_openapi_says_the_roles(web: Web) -> None:
    assert web.ask("GET", "/v1/openapi.json").status_code == 401
    described = web.ask("GET", "/v1/openapi.json", "device").json()
    for (method, path), roles in MATRIX.items():
        assert set(described["paths"][path][method.lower()]["x-roles"]) == set(roles)
    assert described["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
