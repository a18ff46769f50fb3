"""The service of a shuffler: takes encrypted reports, and passes on whole groups in random order.

An operator other than the learner's runs it, with a database of its own (docs/shuffling.md). It
fetches terms and policies from the learner and serves them, so devices reach the shuffler alone.

| step       | what happens                                                                |
|------------|-----------------------------------------------------------------------------|
| a report   | `take`: a ciphertext of the policy's length is kept, one of each key        |
| the n-th   | in the same transaction: a group in random order; `held` loses its rows,    |
|            | and with them which key sent which ciphertext                               |
| the group  | `forward`: sent under its id until the learner has it, and then erased      |

**What it knows.** Of a report the digest of its policy, its length, and which key sent it. After
the group is fixed, which keys have reported, and apart from them the hashes of what was sent, so
that no ciphertext is in two groups. Neither times nor addresses are stored, or logged.

**Answers to devices.** The same bytes are acknowledged again, and while they wait other bytes of
their key are refused. Once the group is fixed everything with the key is acknowledged without being
compared, so a holder of a key and of its group's ciphertexts cannot probe which is the key's.

**Stopped at any point.** A report is acknowledged after the transaction that keeps it, and that
transaction fixes the group, too; so each report is in one group, a group has n, and none is lost.
A group whose acknowledgement was lost is sent again under the same id, which changes nothing.

**A rest that fills no group** is never passed on; it is erased when the study is finished.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
import secrets
import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, Self

import prometheus_client as prometheus
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy import Connection, delete, func, insert, select, update

from discreet.codec import canonical
from discreet.learners.policy import Policy, Terms
from discreet.privacy import SecureNoise
from discreet.service.client.device import is_receipt, read_policy
from discreet.service.client.transport import (
    Client,
    Patience,
    Refused,
    Unreachable,
    body_of,
    fields_of,
    study_path,
)
from discreet.service.hpke import check_learner_key, ciphertext_bytes
from discreet.service.server.access import ALL, Named, key_of, only, router
from discreet.service.server.app import bare_app, guard
from discreet.service.server.bodies import CiphertextBody, StudyFacts, TermsFields
from discreet.service.server.database import Database, Unavailable, upgrade
from discreet.service.server.deployment import packed, unpacked
from discreet.service.server.errors import Forbidden, Gone, NotFound
from discreet.service.server.keys import Keys
from discreet.service.server.ledger import keep_rows
from discreet.service.server.middleware import Limits
from discreet.service.server.openapi import describe
from discreet.service.server.routes import (
    METRICS,
    RECEIPT,
    ciphertext_of,
    key_routes,
    sent_policy,
)
from discreet.service.server.schema import admitted, groups, held, passed, relayed, relays, studies
from discreet.service.server.store import StoredPolicy
from discreet.validation import InvalidInput

KEY_VARIABLE = "DISCREET_SHUFFLER_KEY"
_LOG = logging.getLogger(__name__)
_SECONDS = 1.0
_STOP_SECONDS = 30.0
# Between two lines of the log about the same.
_LOG_SECONDS = 60.0
# The loop asks again; a learner decrypts a large group in seconds.
_PATIENCE = Patience(attempts=1, timeout=60.0)


class LearnerClient(Client):
    """The learner's service, with a key of the role `shuffler`.

    Args:
        url: of the service.
        study: its name.
        key: a token for the shuffler of this study.
        options: as of `Client`: `transport`, `allow_http`.
    """

    def __init__(self, url: str, study: str, *, key: str, **options: Any) -> None:
        super().__init__(url, key=key, patience=_PATIENCE, **options)
        self.study = study

    def facts(self) -> dict[str, Any]:
        """What the study offers, and how it stands."""
        return dict(fields_of(self._ask("GET", study_path(self.study))))

    def terms(self) -> Terms:
        """What people agree to."""
        return Terms.from_fields(fields_of(self._ask("GET", study_path(self.study, "terms"))))

    def policy(self, known: str | None) -> Policy[Any] | None:
        """The current policy, verified by its ETag; None where it has the digest `known`."""
        answer = self._ask("GET", study_path(self.study, "policy"), etag=known)
        return None if answer.status_code == 304 else read_policy(answer)

    def send(self, group: str, digest: str, ciphertexts: list[str]) -> None:
        """Send a group; returns once the learner has it."""
        body = body_of({"id": group, "policy": digest, "ciphertexts": ciphertexts})
        answer = self._ask("POST", study_path(self.study, "groups"), body)
        if not is_receipt(answer, len(ciphertexts)):
            raise Unreachable("something answered in place of the learner; the group is kept.")


class Relay:
    """A shuffler of one study.

    Args:
        database: its own; no learner has access to it.
        learner: where groups go.
        seconds: between two looks for news of the learner and for whole groups.
    """

    def __init__(
        self, database: Database, learner: LearnerClient, seconds: float = _SECONDS
    ) -> None:
        self.database, self.keys = database, Keys(database)
        self.study, self._learner, self._seconds = learner.study, learner, seconds
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        # When this process first saw each group that waits.
        self._since: dict[str, float] = {}
        self.registry = prometheus.CollectorRegistry()
        self._fixed, self._acknowledged, self._errors = (
            prometheus.Counter(f"discreet_{name}", meaning, registry=self.registry)
            for name, meaning in (
                ("groups_fixed", "Groups that became whole."),
                ("groups_acknowledged", "Groups that the learner has."),
                ("shuffler_errors", "Failures to refresh from the learner, or to send to it."),
            )
        )
        for name, meaning, value in (
            ("held", "Reports that wait, rounded down to a tenth of a group.", self._held),
            ("groups_waiting", "Groups that wait for the learner.", lambda: self.waiting()[1]),
            ("oldest_group_seconds", "How long the oldest of them has waited.", self._oldest),
        ):
            gauge = prometheus.Gauge(f"discreet_{name}", meaning, registry=self.registry)
            gauge.set_function(value)

    @classmethod
    def open(cls, url: str, learner: LearnerClient, seconds: float = _SECONDS) -> Self:
        """A shuffler on a database, which is made or brought up to date.

        Raises:
            InvalidInput: where another process has the file, or for the database of a service.
            Unavailable: where the database cannot be reached.
        """
        database = Database(url)
        try:
            database.hold()
            upgrade(database)
            keep_rows(database)
            with database.reading() as connection:
                if connection.execute(select(studies.c.name)).first() is not None:
                    raise InvalidInput(
                        "the database is that of a service with studies; a shuffler has its own, "
                        "which the learner's operator cannot read: name another one."
                    )
            database.begin()
        except BaseException:
            database.close()
            raise
        return cls(database, learner, seconds)

    # What devices ask for.

    def known(self) -> tuple[Terms, dict[str, Any], str]:
        """The terms, what the learner says of the study, and the digest of its policy.

        Raises:
            Unavailable: before the learner answered first.
        """
        with self.database.reading() as connection:
            row = connection.execute(select(relays).where(relays.c.study == self.study)).first()
        if row is None:
            raise Unavailable("the learner has not answered yet")
        return Terms.from_fields(json.loads(row.terms)), json.loads(row.facts), row.policy

    def policy(self) -> StoredPolicy:
        """The current policy as the learner sent it."""
        digest = self.known()[2]
        wanted = select(relayed).where(relayed.c.study == self.study, relayed.c.digest == digest)
        with self.database.reading() as connection:
            row = connection.execute(wanted).one()
        return StoredPolicy(row.version, row.digest, row.body, 0.0)

    def take(self, key: str, digest: str, ciphertext: bytes) -> bool:
        """Keep the report of a key until its group is whole.

        Returns:
            Whether it is new; what comes with the key after that changes nothing.

        Raises:
            InvalidInput: for no report under a policy of the study.
            Forbidden: for another report of a key whose report waits, and the report of another.
            Gone: where the study is finished.
        """
        terms = self.known()[0]
        mark = hashlib.sha256(digest.encode() + ciphertext).digest()
        own = {"study": self.study, "digest": digest, "mark": mark, "key": key}
        with self.database.writing() as connection:
            # Held until the end, so that of two processes each counts what the other kept.
            size = connection.scalar(
                select(relayed.c.bytes)
                .where(relayed.c.study == self.study, relayed.c.digest == digest)
                .with_for_update()
            )
            admitting = self._new(admitted).values(study=self.study, key=key)
            if connection.execute(admitting.returning(admitted.c.key)).first() is None:
                waits = select(held.c.mark).where(held.c.study == self.study, held.c.key == key)
                if connection.scalar(waits) in (None, mark):
                    return False
                raise Forbidden("a report came with this key already; each key sends one.")
            if size is None:
                raise InvalidInput(f"the study has no policy {digest!r:.80}; fetch it again.")
            if len(ciphertext) != size:
                raise InvalidInput(
                    f"the ciphertext had {len(ciphertext)} bytes; under its policy each has {size}."
                )
            facts = connection.scalar(select(relays.c.facts).where(relays.c.study == self.study))
            if json.loads(facts or "{}").get("state") == "finished":
                raise Gone(f"the study {self.study!r} is finished; it takes nothing more.")
            left = select(passed.c.mark).where(passed.c.study == self.study, passed.c.mark == mark)
            keeping = self._new(held).values(**own, ciphertext=ciphertext).returning(held.c.mark)
            if connection.scalar(left) or not connection.scalar(keeping):
                raise Forbidden("this report came with another key already; make one of your own.")
            whole = self._fix_group(connection, digest, terms.group_size)
        if whole:
            self._fixed.inc()
            self.database.empty_log()
        return True

    def _fix_group(self, connection: Connection, digest: str, size: int) -> bool:
        """A group of what waits for this policy, if it is whole; each order is equally likely."""
        waiting = held.c.study == self.study, held.c.digest == digest
        if connection.scalar(select(func.count()).select_from(held).where(*waiting)) != size:
            return False
        # In the order of the hashes: PostgreSQL's files keep the order in which rows were written.
        some = select(held.c.mark, held.c.ciphertext).where(*waiting).order_by(held.c.mark)
        rows = connection.execute(some).all()
        if len(rows) != size:  # others were erased between the two questions
            raise Unavailable("the group changed meanwhile")
        marks = [{"study": self.study, "mark": row.mark} for row in rows]
        connection.execute(insert(passed), marks)
        ciphertexts = [row.ciphertext for row in rows]
        secrets.SystemRandom().shuffle(ciphertexts)
        body = packed(json.dumps([base64.b64encode(each).decode() for each in ciphertexts]))
        connection.execute(
            insert(groups).values(
                id=secrets.token_hex(16), study=self.study, digest=digest, body=body
            )
        )
        connection.execute(delete(held).where(*waiting))
        return True

    def waiting(self) -> tuple[dict[str, int], int]:
        """How many reports wait for their group, by policy, and how many groups for the learner."""
        counted = select(held.c.digest, func.count()).group_by(held.c.digest)
        with self.database.reading() as connection:
            rows = connection.execute(counted.where(held.c.study == self.study)).all()
            whole = select(func.count()).select_from(groups).where(groups.c.study == self.study)
            return {row[0]: row[1] for row in rows}, int(connection.scalar(whole) or 0)

    def _held(self) -> float:
        # Prometheus keeps a time with each value, and one more would be the time of a person.
        reports = self.waiting()[0].values()
        step = -(-self.known()[0].group_size // 10) if reports else 1
        return float(sum(each - each % step for each in reports))

    def _oldest(self) -> float:
        # Of a held report this would be the time at which one person reported.
        return max((time.monotonic() - each for each in [*self._since.values()]), default=0.0)

    # The learner.

    def refresh(self) -> None:
        """Take over what the learner says of the study now.

        Raises:
            InvalidInput: for other terms than at first, and for a policy on other terms.
            Unreachable, Refused: as every request.
        """
        facts, terms = self._learner.facts(), self._learner.terms()
        check_learner_key(terms)
        try:
            agreed, before, known = self.known()
        except Unavailable:
            agreed, before, known = terms, {}, None
        if before.get("state") == "finished":  # for good: what waited is erased
            facts["state"] = "finished"
        if terms.digest != agreed.digest:
            raise InvalidInput(
                f"the learner asks for the terms {terms.digest}, but devices agreed to "
                f"{agreed.digest}; a shuffler relays no other ones."
            )
        policy = self._learner.policy(known)
        if policy is not None:
            terms.check(policy, SecureNoise.name)
        elif facts == before:
            return
        with self.database.writing() as connection:
            row = {"facts": json.dumps(facts)}
            if policy is not None:
                row["policy"] = policy.digest
            if known is None:
                row |= {"study": self.study, "terms": json.dumps(terms.to_fields())}
                connection.execute(self._new(relays).values(row))
            else:
                connection.execute(update(relays).where(relays.c.study == self.study).values(row))
            if policy is not None:
                relay = {
                    "study": self.study,
                    "digest": policy.digest,
                    "version": policy.version,
                    "body": packed(canonical(policy)),
                    "bytes": ciphertext_bytes(policy, terms),
                }
                connection.execute(self._new(relayed).values(relay))
            if facts["state"] == "finished":
                # A report that comes in at the same time waits for these rows, too.
                connection.execute(
                    select(relayed.c.digest).where(relayed.c.study == self.study).with_for_update()
                )
                connection.execute(delete(held).where(held.c.study == self.study))
        if facts["state"] == "finished":
            self.database.empty_log()

    def _new(self, table: Any) -> Any:
        """An INSERT that leaves a row which is there as it is."""
        return self.database.inserting(table).on_conflict_do_nothing()

    def forward(self) -> int:
        """Send whole groups, and erase each once the learner has it; their number.

        Raises:
            Unreachable, Refused: as every request; the groups are kept.
        """
        # Ids are random, so the order in which groups leave is not that in which they were fixed.
        with self.database.reading() as connection:
            ids = list(connection.scalars(select(groups.c.id).order_by(groups.c.id)))
        self._since = {each: self._since.get(each, time.monotonic()) for each in ids}
        refused: Refused | None = None
        for each in ids:
            with self.database.reading() as connection:
                row = connection.execute(select(groups).where(groups.c.id == each)).one()
            try:
                self._learner.send(row.id, row.digest, json.loads(unpacked(row.body)))
                self._acknowledged.inc()
            except Refused as refusal:
                if refusal.status != 410:
                    refused = refusal  # others may pass
                    continue
                _LOG.warning("the learner takes no more reports of a policy; a group is erased")
            with self.database.writing() as connection:
                connection.execute(delete(groups).where(groups.c.id == each))
        if refused is not None:
            raise refused
        return len(ids)

    def run(self) -> None:
        """Repeat both until stopped, whatever goes wrong meanwhile."""
        wrong, due = Counter[str](), 0.0
        while not self._stopping.is_set():
            for step in (self.refresh, self.forward):
                try:
                    with self._errors.count_exceptions():
                        step()
                except (InvalidInput, Unreachable, Unavailable) as error:
                    wrong[f"the learner's service: {error}"] += 1
                    if isinstance(error, Refused) and error.status in (401, 403):
                        wrong[
                            f"{KEY_VARIABLE} holds no key of a shuffler of {self.study!r} there"
                        ] += 1
                except Exception as error:
                    wrong[f"the shuffler waits after {type(error).__name__}"] += 1
            if wrong and time.monotonic() >= due:
                for message, times in wrong.items():
                    _LOG.warning("%s (times: %d)", message, times)
                wrong, due = Counter(), time.monotonic() + _LOG_SECONDS
            self._stopping.wait(self._seconds)

    # A process (app.py).

    def start(self) -> None:
        """Begin to ask the learner, and to send groups."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self.run, name="shuffler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop between two requests, and give the database back."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)
        self._learner.close()
        self.database.close()

    def missing(self) -> str:
        """What keeps it from taking reports, in words; empty where nothing does."""
        try:
            self.known()
        except Unavailable as error:
            return f"{error}; the log says why"
        return ""


def token_from(environment: Mapping[str, str] = os.environ) -> str:
    """The token with which the learner knows its shuffler; `InvalidInput` where there is none."""
    token = environment.get(KEY_VARIABLE, "")
    if not token:
        raise InvalidInput(
            f"{KEY_VARIABLE} is not set; the learner's operator makes a key for it with `discreet "
            "keys make --role shuffler --study NAME`."
        )
    return token


def shuffler_app(
    relay: Relay, hosts: Collection[str] = (), origins: Collection[str] = ()
) -> FastAPI:
    """The application of a shuffler; it starts and stops with it.

    Args:
        relay: what it serves.
        hosts: names of this server beside those of the loopback.
        origins: of pages on other servers whose browsers may be its devices.
    """
    app, routes = bare_app(relay), router("shuffler")

    def check(study: str) -> None:
        if study != relay.study:
            raise NotFound(f"there is no study {study!r:.80} here.")

    @routes.get("/v1/studies/{study}", response_model=StudyFacts, openapi_extra=only(*ALL))
    def study(study: Named) -> Response:
        """What the learner says of the study."""
        check(study)
        return JSONResponse(relay.known()[1])

    @routes.get("/v1/studies/{study}/terms", response_model=TermsFields, openapi_extra=only(*ALL))
    def terms(study: Named) -> Response:
        """What people agree to: with the learner's key, to which devices encrypt their reports."""
        check(study)
        return JSONResponse(relay.known()[0].to_fields())

    @routes.get("/v1/studies/{study}/policy", response_class=Response, openapi_extra=only(*ALL))
    def policy(study: Named, request: Request) -> Response:
        """The policy of this moment, as the learner published it."""
        check(study)
        return sent_policy(relay.policy(), request, "public, max-age=1")

    @routes.post("/v1/studies/{study}/reports", openapi_extra=only("device"), **RECEIPT)
    def report(study: Named, body: CiphertextBody, request: Request) -> Response:
        """Keep the one report of this key until its group is whole."""
        check(study)
        new = relay.take(key_of(request).id, body.policy, ciphertext_of(body.ciphertext))
        return JSONResponse({"stored": int(new), "repeated": int(not new)}, 202)

    operator = only("operator")

    @routes.get("/metrics", openapi_extra=operator, response_class=Response, responses=METRICS)
    def metrics(request: Request) -> Response:
        """What Prometheus reads; nothing in it follows a single report."""
        if not key_of(request).covers(relay.study):
            raise Forbidden(f"the metrics are of {relay.study!r}; ask with a key for it.")
        text = prometheus.generate_latest(relay.registry)
        return Response(text, media_type=prometheus.CONTENT_TYPE_LATEST)

    app.include_router(routes)
    app.include_router(key_routes(relay.keys, relay.database))
    describe(app)
    guard(app, relay.keys, hosts, Limits(), None, origins)
    return app
