"""A restored server: another one, which goes on from a backup without releasing anybody twice.

After the backup its server may have gone on: it may have released people who wait in the backup,
with noise that the backup does not know, and have published versions that the restored server will
publish as well. Whether it did cannot be known. So the restored server is never taken for it: it
has an identity of its own, and so has each of its learners. docs/design/0009-restored-servers.md
argues this.

*Local privacy.* Reports were private when they left their people, so whatever is made of them costs
nobody anything. The learner keeps what it learnt, under a new identity, and publishes its policies
anew under that. Reports that wait in the backup had been answered with 202 and are not lost: they
are the new learner's. Each counts once there: it is in no release of the backup, its ticket stays
in the table of tickets, and reports that still name the old learner are refused (410), so that a
report cannot arrive again. That the old server may have counted it as well is another learner's
sum.

*Joint privacy.* Whoever waits in the backup may have been released by the old server, and noise
drawn here for the same statistic would be a second draw. So sums before noise and observations are
dropped, and the learner begins anew. What the old one released stays readable, with its ledger. A
person may have paid the old learner's whole budget, and pays the new one's if they come again: the
ledger here holds the composition of both (former.py).

*Finished studies* release nothing any more, here or there: nothing of them changes, but that sums
before noise are gone.
"""

from __future__ import annotations

import json
import secrets
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, delete, func, select, text, update

from discreet.codec import canonical
from discreet.learners.sources import source_id
from discreet.learners.stream import TARGET_NAME
from discreet.service.server.backup import Backup, copy_tables, opened_backup, read_about
from discreet.service.server.database import Database
from discreet.service.server.deployment import (
    AnyLearner,
    closed,
    noise_for,
    opened,
    packed,
    put_together,
    read_policy,
    streams_of,
    unpacked,
    without_policies,
)
from discreet.service.server.former import lay_by, paid_before
from discreet.service.server.operations import note
from discreet.service.server.schema import (
    ERASED,
    SET_ASIDE,
    batches,
    decisions,
    keys,
    leases,
    ledger,
    metadata,
    policies,
    server,
    snapshots,
    studies,
)
from discreet.service.server.seal import needed
from discreet.service.server.store import Store
from discreet.service.server.upgrade import upgrade
from discreet.validation import InvalidInput


@dataclass(frozen=True)
class Restored:
    """What became of a backup.

    Attributes:
        identity: of the restored server.
        backup: that it was restored from.
        kept: reports that wait for a release, under local privacy.
        dropped: decisions under joint privacy that waited for a reward or a release.
        anew: the studies whose learner began anew.
        keys: how many keys open it, neither expired nor revoked when the backup was made.
    """

    identity: str
    backup: Backup
    kept: int
    dropped: int
    anew: tuple[str, ...]
    keys: int


def restore(path: Path, database: Database) -> Restored:
    """Restore a backup into an empty database, as a whole or not at all.

    Args:
        path: a file that `back_up` wrote.
        database: without any row; its kind may be another than that of the backup. For studies
            under joint privacy it needs the key with which it was sealed.

    Raises:
        InvalidInput: for a damaged backup, a database that is not empty, or another key.
        Unavailable: where the database cannot be written.
    """
    backup = read_about(path)
    upgrade(database)
    with (
        opened_backup(path) as copy,
        copy.reading() as source,
        database.writing() as target,
    ):
        _check_empty(target)
        copy_tables(source, target)
        return _begun_anew(target, database, backup)


def _check_empty(connection: Connection) -> None:
    for table in metadata.sorted_tables:
        if connection.execute(select(table).limit(1)).first() is not None:
            raise InvalidInput(
                f"the database is not empty: {table.name} has rows. A backup is restored into a "
                "database of its own; name a new one."
            )


def _begun_anew(connection: Connection, database: Database, backup: Backup) -> Restored:
    """Another server, and for each study another learner."""
    rows = connection.execute(select(studies).order_by(studies.c.name)).all()
    dropped, anew = 0, []
    for row in rows:
        secret = row.trust_model == "joint"
        if secret:
            dropped += _forget(connection, row.name)
        if row.state == "finished":
            continue
        if secret:
            _begin(connection, database, row)
            anew.append(row.name)
        else:
            _go_on(connection, row)
    identity = secrets.token_hex(16)
    connection.execute(
        update(server).values(
            identity=identity, restored_from=backup.identity, made=time.time(), clock=None
        )
    )
    connection.execute(update(leases).values(holder="", expires=0.0))
    if not database.sqlite:
        _count_on(connection)
    note(connection, "", f"restored as {identity} from a backup of {backup.identity}")
    waiting = select(func.coalesce(func.sum(batches.c.stored), 0)).where(
        batches.c.released.is_(None)
    )
    now = time.time()
    able = (
        select(func.count())
        .select_from(keys)
        .where(keys.c.revoked.is_(None), func.coalesce(keys.c.expires, now + 1.0) > now)
    )
    return Restored(
        identity,
        backup,
        int(connection.scalar(waiting) or 0),
        dropped,
        tuple(anew),
        int(connection.scalar(able) or 0),
    )


def _forget(connection: Connection, study: str) -> int:
    """Drop what people brought whom no release of the backup has; their decisions' ids stay, so
    that rewards which still come are refused."""
    waiting = connection.execute(
        update(decisions)
        .where(decisions.c.study == study, decisions.c.released.is_(None))
        .where(decisions.c.state.in_(("waiting", "rewarded")))
        .values(state="expired")
    )
    connection.execute(update(decisions).where(decisions.c.study == study).values(ERASED))
    connection.execute(update(snapshots).where(snapshots.c.study == study).values(learner=b""))
    return int(waiting.rowcount)


def _begin(connection: Connection, database: Database, row: Row[Any]) -> None:
    """Under joint privacy: a new learner that has met nobody."""
    seal, name = needed(database.seal, row.name), row.name
    content = _content(opened(seal, row.learner, True, name, "learner"))
    lay_by(connection, name, _learner(content, name))
    learner = _learner({**content, "identity": secrets.token_hex(16)}, name)
    for table in (policies, ledger):
        connection.execute(delete(table).where(table.c.study == name))
    began = closed(seal, without_policies(learner), True, name, "learner")
    # Its versions begin at 0 again; reports of former learners are refused by their names.
    connection.execute(
        update(studies).where(studies.c.name == name).values(learner=began, closed="{}")
    )
    paid = paid_before(connection, name)
    made = Store(database).prepared(learner, streams_of(learner), name, paid)
    Store.publish(connection, made, name, 0, database.clock.now())


def _go_on(connection: Connection, row: Row[Any]) -> None:
    """Under local privacy: the same learner under another identity, with all that it learnt."""
    name = row.name
    kept = connection.scalar(select(snapshots.c.learner).where(snapshots.c.study == name))
    assert kept is not None
    old = _learner(_content(row.learner), name)
    lay_by(connection, name, old)
    identity = secrets.token_hex(16)
    for table, held in ((studies, row.learner), (snapshots, kept)):
        column = table.c.name if table is studies else table.c.study
        content = {**_content(held), "identity": identity}
        connection.execute(update(table).where(column == name).values(learner=_bytes(content)))
    published = connection.execute(
        select(policies.c.stream, policies.c.version, policies.c.body).where(
            policies.c.study == name
        )
    ).all()
    for each in published:
        fields = {**json.loads(unpacked(each.body)), "learner_id": identity}
        policy = read_policy(packed(json.dumps(fields)))
        for table, values in (
            (policies, {"digest": policy.digest, "body": packed(canonical(policy))}),
            (ledger, {"digest": policy.digest}),
        ):
            connection.execute(
                update(table)
                .where(table.c.study == name, table.c.stream == each.stream)
                .where(table.c.version == each.version)
                .values(values)
            )
    _rename_reports(connection, name, identity)


def _rename_reports(connection: Connection, study: str, identity: str) -> None:
    """Reports that wait are those of the learner with the new identity."""
    waiting = select(batches.c.id, batches.c.stream).where(
        batches.c.study == study, batches.c.released.is_(None)
    )
    for batch, stream in connection.execute(waiting).all():
        source = identity if stream == TARGET_NAME else source_id(identity, stream)
        body: Any = connection.scalar(select(batches.c.body).where(batches.c.id == batch))
        try:
            kept = json.loads(unpacked(body))
            named = [json.dumps({**json.loads(each), "source": source}) for each in kept["reports"]]
            values: dict[str, Any] = {"body": packed(json.dumps({**kept, "reports": named}))}
        except (zlib.error, ValueError, LookupError, TypeError):
            # As a release would, which this damage does not stop either.
            values = {"released": SET_ASIDE}
        connection.execute(update(batches).where(batches.c.id == batch).values(values))


def _count_on(connection: Connection) -> None:
    """PostgreSQL numbers new rows after those that were copied with their numbers."""
    for table in ("batches", "operations"):
        connection.execute(
            text(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), "
                f"coalesce(max(id), 0) + 1, false) FROM {table}"
            )
        )


def _content(kept: bytes) -> dict[str, Any]:
    """What `without_policies` packed."""
    content: dict[str, Any] = json.loads(zlib.decompress(kept))
    return content


def _bytes(content: dict[str, Any]) -> bytes:
    """The inverse of `_content`."""
    return zlib.compress(json.dumps(content, allow_nan=False).encode(), 1)


def _learner(content: dict[str, Any], name: str) -> AnyLearner:
    secret = content["budget"]["trust_model"] == "joint"
    return put_together(_bytes(content), (), noise_for(secret), f"the study {name!r}")
