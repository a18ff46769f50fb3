"""Routes of studies, for devices and decision clients, and of their control, for operators and
auditors."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections import Counter
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy import func, select

from discreet.codec import decode
from discreet.learners.policy import TARGET_NAME
from discreet.privacy import Guarantee
from discreet.service.server.access import ALL, Named, PaddedResponse, key_of, only, router
from discreet.service.server.bodies import (
    MESSAGE,
    DecisionBody,
    DecisionFields,
    Export,
    GroupBody,
    KeyBody,
    KeyRow,
    LedgerEntry,
    New,
    Operation,
    PolicyRow,
    ReportsBody,
    ReportsReceipt,
    Revoked,
    RewardBody,
    StateBody,
    StudyCertificate,
    StudyFacts,
    StudyRow,
    TermsFields,
    Token,
)
from discreet.service.server.database import Database
from discreet.service.server.deployment import REWARD_BYTES, unpacked
from discreet.service.server.errors import Forbidden, NotFound
from discreet.service.server.forgetting import deleted_rows
from discreet.service.server.keys import Keys
from discreet.service.server.ledger import noted, rows_of_former
from discreet.service.server.metrics import Metrics
from discreet.service.server.middleware import Limits
from discreet.service.server.schema import batches, decisions, ledger, policies
from discreet.service.server.service import Service
from discreet.service.server.store import StoredPolicy
from discreet.validation import InvalidInput

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
KeyId = Annotated[str, Path(pattern="^[0-9a-f]{16}$")]
_READERS = only("auditor", "operator")
# Of routes that keep reports.
RECEIPT: dict[str, Any] = {"status_code": 202, "response_model": ReportsReceipt}
METRICS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Prometheus's text.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}


def study_routes(service: Service, metrics: Metrics, limits: Limits) -> APIRouter:
    """The routes of studies."""
    routes = router("studies")
    store = service.store

    policies: dict[str, Any] = {
        "openapi_extra": only(*ALL),
        "response_class": Response,
        "responses": _POLICY,
    }

    def _check_shuffled(study: str, request: Request) -> None:
        """Refuse a device of a shuffled study, which shows its address to the shuffler alone."""
        if key_of(request).role == "device" and store.study(study).private_key is not None:
            raise Forbidden(
                f"the study {study!r} has a shuffler; devices ask at the address of the shuffler."
            )

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
    def study(study: Named) -> StudyFacts:
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

    @routes.get(
        "/v1/studies/{study}/terms",
        openapi_extra=only(*ALL),
        response_model_exclude_none=True,
    )
    def terms(study: Named, request: Request) -> TermsFields:
        """What people agree to."""
        _check_shuffled(study, request)
        return TermsFields(**store.study(study).terms.to_fields())

    @routes.get("/v1/studies/{study}/policy", **policies)
    def policy(study: Named, request: Request) -> Response:
        """The policy of this moment."""
        _check_shuffled(study, request)
        return sent_policy(store.policy(study), request, _FRESH)

    @routes.get("/v1/studies/{study}/policies/{version}", **policies)
    def past_policy(study: Named, version: Version, request: Request) -> Response:
        """A policy by its version; it never changes."""
        _check_shuffled(study, request)
        return sent_policy(store.policy(study, version=int(version)), request, _FOR_EVER)

    @routes.get(
        "/v1/studies/{study}/sources/{source}/terms",
        openapi_extra=only(*ALL),
        response_model_exclude_none=True,
    )
    def source_terms(study: Named, source: Named) -> TermsFields:
        """What people of an auxiliary source agree to."""
        return TermsFields(**store.study(study).terms_of(_source(source)).to_fields())

    @routes.get("/v1/studies/{study}/sources/{source}/policy", **policies)
    def source_policy(study: Named, source: Named, request: Request) -> Response:
        """The policy of an auxiliary source of this moment."""
        return sent_policy(store.policy(study, _source(source)), request, _FRESH)

    @routes.get("/v1/studies/{study}/sources/{source}/policies/{version}", **policies)
    def past_source_policy(
        study: Named, source: Named, version: Version, request: Request
    ) -> Response:
        """A policy of an auxiliary source by its version."""
        return sent_policy(store.policy(study, _source(source), int(version)), request, _FOR_EVER)

    # Whatever answers most often gives the answer itself: FastAPI would wake a thread to write it.
    @routes.post("/v1/studies/{study}/reports", openapi_extra=only("device"), **RECEIPT)
    def reports(study: Named, body: ReportsBody, request: Request) -> Response:
        """Keep reports; the answer comes when they are stored."""
        return _stored(study, TARGET_NAME, body, request)

    @routes.post("/v1/studies/{study}/groups", openapi_extra=only("shuffler"), **RECEIPT)
    def groups(study: Named, body: GroupBody, request: Request) -> Response:
        """Keep a whole group of a shuffler; one that is known by its id changes nothing."""
        ciphertexts = [ciphertext_of(each) for each in body.ciphertexts]
        key = key_of(request).id
        receipt = service.ingest.add_group(study, body.id, body.policy, ciphertexts, key)
        metrics.reports(study, TARGET_NAME, receipt)
        return JSONResponse({"stored": receipt.stored, "repeated": receipt.repeated}, 202)

    @routes.post(
        "/v1/studies/{study}/sources/{source}/reports", openapi_extra=only("device"), **RECEIPT
    )
    def source_reports(
        study: Named, source: Named, body: ReportsBody, request: Request
    ) -> Response:
        """Keep reports of an auxiliary source."""
        return _stored(study, _source(source), body, request)

    @routes.post(
        "/v1/studies/{study}/decisions",
        status_code=201,
        response_model=DecisionFields,
        openapi_extra=only("client"),
    )
    def decide(study: Named, body: DecisionBody, request: Request) -> Response:
        """Choose for one person."""
        key = key_of(request).id
        made = service.decisions.decide(study, body.context, body.person, key)
        return PaddedResponse(made.model_dump(), 201, store.study(study).answer_bytes)

    @routes.post(
        "/v1/studies/{study}/decisions/{decision}/reward",
        status_code=202,
        response_model=New,
        openapi_extra=only("client"),
    )
    def reward(study: Named, decision: DecisionId, body: RewardBody) -> Response:
        """What followed from a decision."""
        new = service.decisions.reward(study, decision, body.reward)
        return PaddedResponse({"new": new}, 202, REWARD_BYTES)

    return routes


def _source(name: str) -> str:
    """The stream of a source; the target is asked for without a name."""
    return "" if name == TARGET_NAME else name


def ciphertext_of(text: str) -> bytes:
    """The bytes of a ciphertext; `InvalidInput` for no base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput("a ciphertext was no base64; send the bytes of HPKE in it.") from error


def _texts(body: ReportsBody) -> list[str]:
    return [each if isinstance(each, str) else json.dumps(each) for each in body.reports]


def sent_policy(policy: StoredPolicy, request: Request, cache: str) -> Response:
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


def control_routes(service: Service, metrics: Metrics) -> APIRouter:
    """The routes of operators and auditors."""
    routes = router("control")

    @routes.get(
        "/v1/studies/{study}/ledger", response_model=list[LedgerEntry], openapi_extra=_READERS
    )
    def ledger_rows(study: Named) -> list[dict[str, Any]]:
        """What every release may cost a person, in millionths of epsilon, and what it does."""
        return rows_of_ledger(service, study)

    @routes.get(
        "/v1/studies/{study}/releases", response_model=list[PolicyRow], openapi_extra=_READERS
    )
    def releases(study: Named) -> list[dict[str, Any]]:
        """What was published, and when."""
        return rows_of_policies(service, study)

    @routes.get(
        "/v1/studies/{study}/certificate", response_model=StudyCertificate, openapi_extra=_READERS
    )
    def certificate(study: Named) -> dict[str, Any]:
        """What the study promises its people, from the last row of its ledger."""
        return certificate_of(service, study)

    @routes.post("/v1/studies/{study}/state", openapi_extra=only("operator"))
    def state(study: Named, body: StateBody, request: Request) -> StateBody:
        """Pause a study, go on with it, or finish it."""
        service.store.set_state(study, body.state, key_of(request).id)
        return body

    @routes.get("/v1/studies/{study}/export", response_model=Export, openapi_extra=only("operator"))
    def export(study: Named) -> dict[str, Any]:
        """Everything that was released, and counts; nothing of a person."""
        return exported(service, study)

    @routes.get("/metrics", openapi_extra=_READERS, response_class=Response, responses=METRICS)
    def all_metrics(request: Request) -> Response:
        """What Prometheus reads; for keys of all studies."""
        if key_of(request).study is not None:
            raise Forbidden("the metrics are of all studies; ask with a key for all of them.")
        operates = key_of(request).role == "operator"
        return Response(metrics.text(operates), media_type=CONTENT_TYPE_LATEST)

    return routes


def key_routes(held: Keys, database: Database) -> APIRouter:
    """The routes of keys, for operators, and of the log of what they did."""
    routes = router("control")

    @routes.get("/v1/keys", response_model=list[KeyRow], openapi_extra=only("operator"))
    def keys(request: Request) -> list[dict[str, Any]]:
        """The keys that this key may revoke."""
        key = key_of(request)
        return [each for each in held.list() if key.study is None or each["study"] == key.study]

    @routes.post("/v1/keys", status_code=201, openapi_extra=only("operator"))
    def make_key(body: KeyBody, request: Request) -> Token:
        """Make a key; its token is shown this once."""
        key = key_of(request)
        if key.study is not None and body.study != key.study:
            raise Forbidden(f"the key is one for {key.study!r} alone, and makes keys for it alone.")
        made = held.make(body.role, body.study, body.label, key.id, body.days, body.rate)
        return Token(token=made)

    @routes.delete("/v1/keys/{identity}", openapi_extra=only("operator"))
    def revoke(identity: KeyId, request: Request, discard: bool = False) -> Revoked:
        """A key opens nothing from now on; with `discard` all that it sent and that no release has
        is erased."""
        key = key_of(request)
        known = {each["id"]: each["study"] for each in held.list()}
        if identity not in known or not key.covers(known[identity] or ""):
            raise NotFound(f"there is no key {identity!r} here; list the keys for their ids.")
        revoked = held.revoke(identity, key.id)
        discarded = held.discard(identity, key.id) if discard else 0
        return Revoked(revoked=revoked, discarded=discarded)

    @routes.get("/v1/operations", response_model=list[Operation], openapi_extra=_READERS)
    def operations(
        request: Request, after: Annotated[int, Query(ge=0, lt=2**63)] = 0
    ) -> list[dict[str, Any]]:
        """What operators did, at most 1,000 lines after one of that id."""
        return noted(database, key_of(request).study, after)

    return routes


def rows_of_ledger(service: Service, study: str) -> list[dict[str, Any]]:
    """The ledger of a study, in the order in which it was written; `former` is None, or the
    identity of the learner that wrote a row before the server was restored. `declared` are the
    mechanisms of a guarantee under joint privacy, each with how often it was applied."""
    service.store.row(study)
    with service.database.reading() as connection:
        before = [
            {**{name: row[name] for name in ledger.c.keys()}, "former": row["identity"]}  # noqa: SIM118
            for row in rows_of_former(connection, study)
        ]
        rows = connection.execute(
            select(ledger)
            .where(ledger.c.study == study)
            .order_by(ledger.c.drawn, ledger.c.stream, ledger.c.version)
        )
        every = [*before, *({**row._mapping, "former": None} for row in rows)]
    return [
        {
            **row,
            "guarantee": json.loads(row["guarantee"]),
            "declared": row["declared"] and json.loads(row["declared"]),
        }
        for row in every
    ]


def rows_of_policies(service: Service, study: str) -> list[dict[str, Any]]:
    """What was published of a study, without the policies themselves."""
    service.store.row(study)
    shown = [each for each in policies.c if each.name not in ("body", "study", "finding")]
    with service.database.reading() as connection:
        rows = connection.execute(
            select(*shown)
            .where(policies.c.study == study)
            .order_by(policies.c.published, policies.c.stream, policies.c.version)
        )
        return [dict(row._mapping) for row in rows]


def certificate_of(service: Service, study: str) -> dict[str, Any]:
    """What a study promises, with what it can be checked by."""
    rows = rows_of_ledger(service, study)
    own = [row for row in rows if row["stream"] == TARGET_NAME and row["former"] is None]
    # Rows are in the order of clocks, which may be set back.
    last = max(own, key=lambda row: int(row["version"]))
    guarantee = decode(json.dumps(last["guarantee"]), Guarantee)
    return {
        "study": study,
        "sentence": guarantee.sentence,
        "guarantee": last["guarantee"],
        "ledger": ledger_digest(rows),
        "server": service.identity,
    }


def ledger_digest(rows: list[dict[str, Any]]) -> str:
    """SHA-256 of a ledger as it is sent, by which an auditor knows it again."""
    text = json.dumps(rows, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def exported(service: Service, study: str) -> dict[str, Any]:
    """Everything of a study that was released; `former` before the server was restored."""
    rows = rows_of_ledger(service, study)
    shown = ("identity", "stream", "version", "digest", "people", "published")
    with service.database.reading() as connection:
        former = [
            {**{name: row[name] for name in shown}, "policy": json.loads(unpacked(row["body"]))}
            for row in rows_of_former(connection, study)
        ]
    published = [
        {
            **each,
            "policy": json.loads(service.store.policy(study, each["stream"], each["version"]).text),
        }
        for each in rows_of_policies(service, study)
    ]
    return {
        "study": study,
        "server": service.identity,
        "policies": published,
        "former": former,
        "ledger": rows,
        "counts": counts(service, study),
    }


def counts(service: Service, study: str) -> dict[str, Any]:
    """How many reports and decisions a study had, by stream and by state; never what they say."""
    with service.database.reading() as connection:
        reports = connection.execute(
            select(
                batches.c.stream,
                func.sum(batches.c.stored).label("stored"),
                func.sum(batches.c.repeated).label("repeated"),
            )
            .where(batches.c.study == study)
            .group_by(batches.c.stream)
        ).all()
        states = connection.execute(
            select(decisions.c.state, func.count().label("decisions"))
            .where(decisions.c.study == study)
            .group_by(decisions.c.state)
        ).all()
        deleted = deleted_rows(connection, study)
    taken: dict[str, Counter[str]] = {
        row.stream: Counter(stored=int(row.stored), repeated=int(row.repeated)) for row in reports
    }
    made = Counter({row.state: row.decisions for row in states})
    for (stream, _, state), number in deleted.items():
        if state in ("stored", "repeated"):
            taken.setdefault(stream, Counter(stored=0, repeated=0))[state] += number
        elif state != "reported":
            made[state] += number
    return {
        "reports": {stream: dict(each) for stream, each in taken.items()},
        "decisions": made,
        "set_aside": service.store.set_aside(study),
    }
