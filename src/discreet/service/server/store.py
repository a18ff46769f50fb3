"""Studies in a database: registered, released, read.

What must never happen, and what stands against it:

| never                                   | because                                                |
|-----------------------------------------|--------------------------------------------------------|
| an accepted report is lost              | it is answered after its transaction has ended         |
| a report counts twice                   | (study, stream, version, public_coin) is a primary key |
| a reward counts twice                   | a decision leaves the state `waiting` once             |
| noise is drawn twice for one statistic  | a release is one transaction that only one aggregator  |
|                                         | can end (aggregator.py); a draw that did not is unseen |
| a value is released, and the ledger     | policy and ledger row are written in that transaction  |
| does not know it                        |                                                        |
| an observation outlives its release     | it is erased in that transaction, unless a study says  |
|                                         | for how many days it is kept                           |
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from sqlalchemy import Connection, Row, bindparam, func, insert, literal_column, select, update

from discreet.codec import canonical, decode, encode
from discreet.learners.messages import Reports
from discreet.learners.policy import TARGET_NAME, Policy, Terms
from discreet.service.hpke import public_key
from discreet.service.server.database import Database
from discreet.service.server.deployment import (
    AnyLearner,
    Deployment,
    answer_bytes,
    decrypted,
    encrypted,
    longest_kept,
    noise_for,
    packed,
    put_together,
    read_policy,
    request_bytes,
    unpacked,
    without_policies,
)
from discreet.service.server.encryption import needed
from discreet.service.server.errors import Conflict, Gone, NotFound
from discreet.service.server.findings import finding, written
from discreet.service.server.ledger import Paid, former_streams, ledger_row, note, paid_before
from discreet.service.server.schema import (
    ERASED,
    IN_NONE,
    RECORD_SECONDS,
    SET_ASIDE,
    batches,
    decisions,
    leases,
    ledger,
    policies,
    pruned,
    server,
    snapshots,
    studies,
    tables,
)
from discreet.validation import InvalidInput

_LOG = logging.getLogger(__name__)
State = Literal["running", "paused", "finished"]
# So long a process serves a policy after another one published the next.
_FRESH_SECONDS = 0.2
# Made once: every request that brings something asks this.
STATE_HELD = (
    select(studies.c.state)
    .where(studies.c.name == bindparam("name"))
    .with_for_update(read=True, key_share=True)
)
SNAPSHOT_HELD = (
    select(snapshots.c.number).where(snapshots.c.study == bindparam("name")).with_for_update()
)


@dataclass(frozen=True)
class StoredPolicy:
    """A published policy as it is sent.

    Attributes:
        digest: SHA-256 of its text.
        body: its text, packed.
    """

    version: int
    digest: str
    body: bytes
    published: float

    @property
    def text(self) -> str:
        return unpacked(self.body)


@dataclass(frozen=True, repr=False)
class Prepared:
    """What a release writes.

    Attributes:
        policies, ledger: the rows of what is published.
        learner: the learner as it is then, sealed if it is secret.
    """

    policies: list[dict[str, Any]]
    ledger: list[dict[str, Any]]
    learner: bytes


class ServedStudy:
    """A study as one process serves it: the learner as it began, and its policies as they appear.

    It learns nothing itself: it chooses, and says whether a report can be one. Reports to `former`
    streams were made before a restore. Reports of a shuffled study are encrypted to `private_key`.
    """

    def __init__(
        self,
        deployment: Deployment,
        learner: AnyLearner,
        former: frozenset[str] = frozenset(),
        private_key: X25519PrivateKey | None = None,
    ) -> None:
        self.deployment = deployment
        self.learner = learner
        self.secret = learner.secret
        self.private_key = private_key
        self.terms = learner.terms()
        if private_key is not None:
            self.terms = replace(self.terms, learner_key=public_key(private_key))
        self.request_bytes, self.answer_bytes = request_bytes(learner), answer_bytes(learner)
        self.former = former
        self.fresh_until = 0.0
        self.lock = threading.Lock()

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(self.learner.streams)

    def check_stream(self, stream: str) -> None:
        """`NotFound` unless this study has that stream."""
        if stream not in self.streams:
            raise NotFound(
                f"the study {self.deployment.name!r} has no source {stream!r:.80}; it has "
                f"{', '.join(self.streams[1:]) or 'none'}."
            )

    def terms_of(self, source: str) -> Terms:
        """What people of a source agree to; `NotFound` where there is none of that name."""
        self.check_stream(source)
        return self.learner.streams[source].terms()

    def policies(self, stream: str) -> list[Any]:
        """The policies of a stream so far."""
        return self.learner.streams[stream].policies

    def register_policy(self, stream: str, policy: Any) -> None:
        """Take the next policy of a stream."""
        if policy.stream != stream:
            raise InvalidInput(f"{policy.title} stood among those of {stream!r}; restore a backup.")
        self.learner.register_policy(policy)

    def check_reports(self, stream: str, reports: Reports) -> None:
        """Refuse reports that no policy of this stream makes."""
        if reports.source in self.former:
            raise Gone(
                f"the reports are for the learner of {self.deployment.name!r} from before this "
                "server was restored from a backup; fetch the policy again. People who reported "
                "under the old one do not report again."
            )
        self.learner.check_reports(reports, stream)


class Store:
    """Studies, reports and decisions of one database.

    Args:
        database: where they are kept.
    """

    def __init__(self, database: Database) -> None:
        self.database, self.clock = database, database.clock
        self._studies: dict[str, ServedStudy] = {}
        self._loading = threading.Lock()

    # Studies.

    def register(self, deployment: Deployment, learner: AnyLearner) -> bool:
        """Begin to serve a study: its first policies are published.

        Returns:
            Whether it is new; False where it is served already as it is.

        Raises:
            InvalidInput: where another study of that name is served, or for a learner that
                promises nothing, has met people, or is not served as it is.
        """
        name = deployment.name
        if not learner.budget.private or learner.people:
            raise InvalidInput(
                f"the study {name!r} has {learner.budget!r} and {learner.people} reports; a "
                "service takes new learners that promise something."
            )
        secret, cipher = learner.secret, self.database.cipher
        if learner.budget.trust_model == "shuffled":
            from discreet.lab.studies.serving import check_shuffled

            check_shuffled(learner.budget, [*learner.streams][1:])
            needed(cipher, name)
        began = encrypted(cipher, without_policies(learner), secret, name, "learner")
        made = self.prepared(learner, tuple(learner.streams), name, Paid())
        with self.database.writing() as connection:
            # Servers that start at once take turns.
            connection.execute(select(server.c.id).with_for_update())
            known = connection.execute(select(studies).where(studies.c.name == name)).one_or_none()
            if known is not None:
                if known.deployment != encode(deployment):
                    raise InvalidInput(
                        f"another study is served as {name!r} already; give this one another name, "
                        "or serve the file of that one unchanged. What was promised to people who "
                        "took part does not change."
                    )
                return False
            # A key for one study or table is for that name.
            if connection.scalar(select(tables.c.name).where(tables.c.name == name)) is not None:
                raise InvalidInput(
                    f"a table was published as {name!r}, whose keys would open this study as well; "
                    "give the study another name."
                )
            connection.execute(
                insert(studies).values(
                    name=name,
                    title=deployment.title,
                    trust_model=learner.budget.trust_model,
                    state="running",
                    deployment=encode(deployment),
                    learner=began,
                    made=time.time(),
                )
            )
            connection.execute(insert(leases).values(study=name, holder="", expires=0.0))
            connection.execute(insert(snapshots).values(study=name, number=0, learner=b""))
            self.publish(connection, made, name, 0, self.clock.now())
        return True

    def prepared(
        self, learner: AnyLearner, streams: Sequence[str], name: str, paid: Paid | None = None
    ) -> Prepared:
        """The rows of a release of some streams, computed before its transaction; the policy that
        is due is drawn here.

        Args:
            learner: that releases.
            streams: which are due.
            name: of the study.
            paid: to its former learners; None to read it.
        """
        if paid is None and learner.secret:
            with self.database.reading() as connection:
                paid = paid_before(connection, name)
        published, rows = [], []
        for stream in streams:
            policy = learner.policy(stream)
            row = ledger_row(learner, stream, policy)
            rows.append(paid.added_to(row) if paid is not None and learner.secret else row)
            published.append(
                {
                    "stream": stream,
                    "version": policy.version,
                    "digest": policy.digest,
                    "body": packed(canonical(policy)),
                    "people": row["reports"],
                    "finding": _described(learner, policy, row["reports"], name, stream),
                }
            )
        content = without_policies(learner)
        secret = learner.secret
        longest = longest_kept(content) if secret else 0
        kept = encrypted(self.database.cipher, content, secret, name, "snapshot", longest)
        return Prepared(published, rows, kept)

    @staticmethod
    def publish(connection: Connection, made: Prepared, name: str, number: int, now: float) -> None:
        """Write a release: policies, their ledger rows, and the learner as it is now."""
        for policy, row in zip(made.policies, made.ledger, strict=True):
            connection.execute(insert(policies).values(study=name, published=now, **policy))
            connection.execute(insert(ledger).values(study=name, drawn=now, **row))
        connection.execute(
            update(snapshots)
            .where(snapshots.c.study == name)
            .values(number=number, learner=made.learner)
        )

    def names(self, running: bool = False) -> list[str]:
        """The studies of this database, all or those alone that run."""
        wanted = select(studies.c.name).order_by(studies.c.name)
        if running:
            wanted = wanted.where(studies.c.state == "running")
        with self.database.reading() as connection:
            return list(connection.scalars(wanted))

    def row(self, name: str) -> Row[Any]:
        """The row of a study; `NotFound` where there is none."""
        with self.database.reading() as connection:
            row = connection.execute(select(studies).where(studies.c.name == name)).one_or_none()
        if row is None:
            raise NotFound(f"there is no study {name!r:.80} here.")
        return row

    def set_state(self, name: str, state: State, by: str = "") -> None:
        """Pause a study, go on with it, or finish it, which cannot be undone.

        What a finished study has not released is erased, and so are sums before noise.

        Args:
            name: of the study.
            state: that it is in from now on.
            by: the id of the key that asked for it; empty for the server itself.
        """
        self.row(name)
        with self.database.writing() as connection:
            # In the order of a release (aggregator.py), so that neither waits for the other.
            connection.execute(SNAPSHOT_HELD, {"name": name})
            row = connection.execute(
                select(studies.c.state, studies.c.trust_model)
                .where(studies.c.name == name)
                .with_for_update()
            ).one()
            if row.state == "finished" and state != "finished":
                raise Conflict(f"the study {name!r} is finished, which cannot be undone.")
            connection.execute(update(studies).where(studies.c.name == name).values(state=state))
            note(connection, by, f"set the state {state}", name)
            if state == "finished":
                waiting = batches.c.study == name, batches.c.released.is_(None)
                erased = {"body": None, "key": None, "released": IN_NONE}
                connection.execute(update(batches).where(*waiting).values(erased))
            if state == "finished" and row.trust_model == "joint":
                connection.execute(
                    update(decisions)
                    .where(
                        decisions.c.study == name,
                        decisions.c.payload.is_not(None),
                        decisions.c.released.is_(None),
                    )
                    .values(ERASED | {"expires": self.clock.now() + RECORD_SECONDS})
                )
                connection.execute(
                    update(snapshots).where(snapshots.c.study == name).values(learner=b"")
                )

    def study(self, name: str, fresh: bool = False) -> ServedStudy:
        """A study with its policies so far.

        Args:
            name: of the study.
            fresh: whether to ask the database for policies even if it was asked just now.
        """
        served = self._studies.get(name) or self._load(name)
        if fresh or time.monotonic() >= served.fresh_until:
            with served.lock:
                self._refresh(served)
        return served

    def _load(self, name: str) -> ServedStudy:
        with self._loading:
            if name not in self._studies:
                row = self.row(name)
                secret = row.trust_model == "joint"
                began = decrypted(self.database.cipher, row.learner, secret, name, "learner")
                # It never releases, so it needs no noise but to be made.
                learner = put_together(began, (), noise_for(secret), f"the study {name!r}")
                with self.database.reading() as connection:
                    former = former_streams(connection, name)
                private_key = None
                if learner.budget.group > 1:
                    private_key = needed(self.database.cipher, name).receiving_key(name)
                self._studies[name] = ServedStudy(
                    decode(row.deployment, Deployment), learner, former, private_key
                )
            return self._studies[name]

    def _refresh(self, served: ServedStudy) -> None:
        name = served.deployment.name
        with self.database.reading() as connection:
            for stream in served.streams:
                rows = connection.execute(
                    select(policies.c.body)
                    .where(
                        policies.c.study == name,
                        policies.c.stream == stream,
                        policies.c.version >= len(served.policies(stream)),
                    )
                    .order_by(policies.c.version)
                ).all()
                for row in rows:
                    served.register_policy(stream, read_policy(row.body))
        served.fresh_until = time.monotonic() + _FRESH_SECONDS

    def policy(
        self, name: str, stream: str = TARGET_NAME, version: int | None = None
    ) -> StoredPolicy:
        """A policy as it was published; the current one where no version is named."""
        with self.database.reading() as connection:
            wanted = select(policies).where(policies.c.study == name, policies.c.stream == stream)
            if version is not None:
                wanted = wanted.where(policies.c.version == version)
            row = connection.execute(wanted.order_by(policies.c.version.desc()).limit(1)).first()
        if row is None:
            self.study(name).check_stream(stream)
            raise NotFound(f"the study {name!r} has published no policy {version} of {stream}.")
        return StoredPolicy(row.version, row.digest, row.body, row.published)

    def set_aside(self, name: str) -> int:
        """The number of stored reports and decisions that could not be read; for operators alone,
        because it may depend on people's data."""
        unread = select(func.coalesce(func.sum(batches.c.stored), 0)).where(
            batches.c.study == name, batches.c.released == literal_column(str(SET_ASIDE))
        )
        unreadable = select(func.count()).where(
            decisions.c.study == name, decisions.c.state == literal_column("'unreadable'")
        )
        deleted = select(func.coalesce(func.sum(pruned.c.number), 0)).where(
            pruned.c.study == name, pruned.c.state == "unreadable"
        )
        with self.database.reading() as connection:
            return sum(int(connection.scalar(each) or 0) for each in (unread, unreadable, deleted))

    @staticmethod
    def check_running(connection: Connection, name: str) -> None:
        """Refuse what comes to a study that does not take it now."""
        # Held until the end, so that a study does not finish in between.
        check_state(name, connection.scalar(STATE_HELD, {"name": name}))


def check_state(name: str, state: str | None) -> None:
    """Refuse what comes to a study that does not take it now."""
    if state == "finished":
        raise Gone(f"the study {name!r} is finished; it takes nothing more.")
    if state != "running":
        raise Conflict(f"the study {name!r} is paused; keep it, and send it again later.")


def _described(
    learner: AnyLearner, policy: Policy[Any], people: int, name: str, stream: str
) -> str | None:
    """The summary of a release of the target; None where there is none."""
    if stream != TARGET_NAME:
        return None
    try:
        return written(finding(learner, policy, people))
    except Exception as error:
        # A release does not depend on what is only shown; what was wrong may quote people.
        _LOG.warning("a release of %s has no summary: %s", name, type(error).__name__)
        return None
