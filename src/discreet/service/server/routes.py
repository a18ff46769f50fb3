"""What devices and decision clients ask for: studies, terms, policies, reports, decisions."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse

from discreet.learners.policy import TARGET_NAME
from discreet.service.server.access import ALL, key_of, only, router
from discreet.service.server.answers import PaddedResponse
from discreet.service.server.bodies import (
    MESSAGE,
    DecisionBody,
    DecisionFields,
    New,
    ReportsBody,
    ReportsReceipt,
    RewardBody,
    StudyFacts,
    StudyRow,
    TermsFields,
)
from discreet.service.server.deployment import REWARD_BYTES
from discreet.service.server.metrics import Metrics
from discreet.service.server.middleware import Limits
from discreet.service.server.service import Service
from discreet.service.server.store import StoredPolicy

Study = Annotated[str, Path(min_length=1, max_length=100)]
Source = Annotated[str, Path(min_length=1, max_length=100)]
# One way to write each, so that each policy has one address.
Version = Annotated[str, Path(pattern="^(0|[1-9][0-9]{0,8})$")]
DecisionId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]

_POLICY: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A policy as it was published, byte for byte.",
        "content": {"application/json": {"schema": {MESSAGE: "Policy"}}},
    },
    304: {"description": "It is the one in If-None-Match."},
}
_FRESH = "public, max-age=1"
_FOR_EVER = "public, max-age=31536000, immutable"


def study_routes(service: Service, metrics: Metrics, limits: Limits) -> APIRouter:
    """The routes of studies."""
    routes = router("studies")
    store = service.store

    policies: dict[str, Any] = {
        "openapi_extra": only(*ALL),
        "response_class": Response,
        "responses": _POLICY,
    }

    def _stored(study: str, stream: str, body: ReportsBody, request: Request) -> Response:
        key = key_of(request).id
        receipt = service.ingest.add(study, _texts(body), body.ids, stream, key)
        metrics.reports(study, stream, receipt)
        return JSONResponse({"stored": receipt.stored, "repeated": receipt.repeated}, 202)

    @routes.get("/v1/studies", openapi_extra=only(*ALL))
    def studies(request: Request) -> list[StudyRow]:
        """The studies of the key."""
        key = key_of(request)
        rows = [store.row(name) for name in store.names() if key.covers(name)]
        return [
            StudyRow(name=row.name, title=row.title, trust_model=row.trust_model, state=row.state)
            for row in rows
        ]

    @routes.get("/v1/studies/{study}", openapi_extra=only(*ALL))
    def study(study: Study) -> StudyFacts:
        """What a study offers, and how it stands."""
        row, served = store.row(study), store.study(study)
        budget = served.learner.budget
        return StudyFacts(
            name=row.name,
            title=row.title,
            trust_model=row.trust_model,
            state=row.state,
            learner=served.learner.name,
            epsilon=budget.epsilon,
            delta=budget.delta,
            max_contributions=budget.max_contributions,
            version=store.policy(study).version,
            default_arm=served.deployment.default_arm,
            sources=dict(served.deployment.sources),
            terms_sha256=served.terms.digest,
            # No longer body is taken, so requests of all lengths that are taken become one.
            request_bytes=min(served.request_bytes, limits.body) if served.secret else None,
        )

    @routes.get("/v1/studies/{study}/terms", openapi_extra=only(*ALL))
    def terms(study: Study) -> TermsFields:
        """What people agree to."""
        return TermsFields(**store.study(study).terms.to_fields())

    @routes.get("/v1/studies/{study}/policy", **policies)
    def policy(study: Study, request: Request) -> Response:
        """The policy of this moment."""
        return _sent(store.policy(study), request, _FRESH)

    @routes.get("/v1/studies/{study}/policies/{version}", **policies)
    def past_policy(study: Study, version: Version, request: Request) -> Response:
        """A policy by its version; it never changes."""
        return _sent(store.policy(study, version=int(version)), request, _FOR_EVER)

    @routes.get("/v1/studies/{study}/sources/{source}/terms", openapi_extra=only(*ALL))
    def source_terms(study: Study, source: Source) -> TermsFields:
        """What people of an auxiliary source agree to."""
        return TermsFields(**store.study(study).terms_of(_source(source)).to_fields())

    @routes.get("/v1/studies/{study}/sources/{source}/policy", **policies)
    def source_policy(study: Study, source: Source, request: Request) -> Response:
        """The policy of an auxiliary source of this moment."""
        return _sent(store.policy(study, _source(source)), request, _FRESH)

    @routes.get("/v1/studies/{study}/sources/{source}/policies/{version}", **policies)
    def past_source_policy(
        study: Study, source: Source, version: Version, request: Request
    ) -> Response:
        """A policy of an auxiliary source by its version."""
        return _sent(store.policy(study, _source(source), int(version)), request, _FOR_EVER)

    # Whatever answers most often gives the answer itself: FastAPI would wake a thread to write it.
    @routes.post(
        "/v1/studies/{study}/reports",
        status_code=202,
        response_model=ReportsReceipt,
        openapi_extra=only("device"),
    )
    def reports(study: Study, body: ReportsBody, request: Request) -> Response:
        """Keep reports; the answer comes when they are stored."""
        return _stored(study, TARGET_NAME, body, request)

    @routes.post(
        "/v1/studies/{study}/sources/{source}/reports",
        status_code=202,
        response_model=ReportsReceipt,
        openapi_extra=only("device"),
    )
    def source_reports(
        study: Study, source: Source, body: ReportsBody, request: Request
    ) -> Response:
        """Keep reports of an auxiliary source."""
        return _stored(study, _source(source), body, request)

    @routes.post(
        "/v1/studies/{study}/decisions",
        status_code=201,
        response_model=DecisionFields,
        openapi_extra=only("client"),
    )
    def decide(study: Study, body: DecisionBody, request: Request) -> Response:
        """Choose for one person."""
        key = key_of(request).id
        made = service.decisions.decide(study, body.context, body.person, key)
        return PaddedResponse(asdict(made), 201, store.study(study).answer_bytes)

    @routes.post(
        "/v1/studies/{study}/decisions/{decision}/reward",
        status_code=202,
        response_model=New,
        openapi_extra=only("client"),
    )
    def reward(study: Study, decision: DecisionId, body: RewardBody) -> Response:
        """What followed from a decision."""
        new = service.decisions.reward(study, decision, body.reward)
        return PaddedResponse({"new": new}, 202, REWARD_BYTES)

    return routes


def _source(name: str) -> str:
    """The stream of a source; the target is asked for without a name."""
    return "" if name == TARGET_NAME else name


def _texts(body: ReportsBody) -> list[str]:
    return [each if isinstance(each, str) else json.dumps(each) for each in body.reports]


def _sent(policy: StoredPolicy, request: Request, cache: str) -> Response:
    """A policy as the bytes of which its ETag is the SHA-256, or that it has not changed since."""
    tag = f'"{policy.digest}"'
    headers = {
        "ETag": tag,
        "Cache-Control": cache,
        "Discreet-Policy-Version": str(policy.version),
    }
    known = [each.strip() for each in request.headers.get("if-none-match", "").split(",")]
    if tag in known or f"W/{tag}" in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(policy.text, headers=headers, media_type="application/json")
