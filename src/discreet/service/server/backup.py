"""Backups, and copies that begin as another server without releasing anyone twice.

A backup is a copy by the database's own tool: SQLite's online backup (`back_up`), or `pg_dump`.
Each database records its *place*, so a copy is known as one and is served only after `restore`
(docs/design/0009-restored-servers.md).

The old server may have gone on after the backup: it may have released people who wait in the copy,
with noise that the copy does not know, and have published the same versions. So the restored server
gets another identity, and so does each of its learners.

*Local privacy.* Reports were private when they arrived. The learner keeps its statistics and
republishes its policies under the new identity. Waiting reports, which were acknowledged with 202,
enter the new learner, once each: they are in no release of the copy, their public coins stay, and
reports that name the old learner are refused (410).

*Joint privacy.* A second draw of noise for the same statistic would leak. So sums before noise and
observations are dropped, and the learner begins anew. Former releases stay readable, with their
ledger. The new ledger composes both: a person may have paid the old learner's whole budget
(ledger.py).

*Finished studies* release nothing any more: only their sums before noise are dropped.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import time
import zlib
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, delete, func, select, text, update

from discreet.atomic_files import draft_name, sync_folder
from discreet.codec import canonical
from discreet.learners.policy import TARGET_NAME, stream_id
from discreet.service.server.database import EARLIER, Database, Unavailable, private_file, upgrade
from discreet.service.server.deployment import (
    AnyLearner,
    decrypted,
    encrypted,
    noise_for,
    packed,
    put_together,
    read_policy,
    unpacked,
    without_policies,
)
from discreet.service.server.encryption import needed
from discreet.service.server.ledger import lay_by, note, paid_before, unlocked_rows
from discreet.service.server.schema import (
    ERASED,
    SET_ASIDE,
    batches,
    decisions,
    keys,
    leases,
    ledger,
    policies,
    relays,
    server,
    snapshots,
    studies,
)
from discreet.service.server.store import Store
from discreet.validation import InvalidInput

# No place of a live database.
_COPY = "backup"
# A backup must not keep an observation longer than its study declares.
_SCRUB = (
    "PRAGMA journal_mode = DELETE",
    "PRAGMA secure_delete = ON",
    "UPDATE decisions SET payload = NULL, mark = NULL",
    "UPDATE snapshots SET learner = x'' WHERE study IN "
    "(SELECT name FROM studies WHERE trust_model = 'joint')",
    f"UPDATE server SET place = '{_COPY}'",
    "VACUUM",
)


@dataclass(frozen=True)
class Restored:
    """The outcome of `restore`.

    Attributes:
        identity: of the restored server.
        previous: identity of the server that was copied.
        kept: number of reports that wait for a release, under local privacy.
        dropped: number of decisions under joint privacy that waited for a reward or a release.
        anew: the studies whose learner began anew.
        keys: number of keys that were neither expired nor revoked in the copy.
    """

    identity: str
    previous: str
    kept: int
    dropped: int
    anew: tuple[str, ...]
    keys: int


def back_up(database: Database, path: Path) -> None:
    """Write a backup of a SQLite database, while a server uses it.

    Sealed observations and sums before noise are left out.

    Args:
        database: of any version.
        path: a file that does not exist; only its owner may read it.

    Raises:
        InvalidInput: where the file exists, or for PostgreSQL.
        Unavailable: where the database cannot be read, or the backup not be written.
    """
    if not database.sqlite:
        raise InvalidInput(
            "the database is PostgreSQL; back it up with `pg_dump --format=custom`, as "
            "docs/service.md describes."
        )
    if path.exists():
        raise InvalidInput(f"{path} exists already; name another file for the backup.")
    if not path.parent.is_dir():
        raise InvalidInput(f"the folder of {path} does not exist; make it first.")
    draft = path.with_name(draft_name(path.name))
    private_file(draft)
    try:
        with (
            database.reading() as connection,
            closing(sqlite3.connect(draft, isolation_level=None)) as target,
        ):
            source: Any = connection.connection.driver_connection
            source.backup(target)
            for statement in _SCRUB:
                target.execute(statement)
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        os.link(draft, path)  # unlike a rename, it takes no other file's place
    except FileExistsError as error:
        raise InvalidInput(f"{path} exists already; name another file for the backup.") from error
    except sqlite3.Error as error:
        raise Unavailable(f"the backup cannot be written: {error}") from error
    finally:
        for end in ("", "-wal", "-shm", "-journal"):
            draft.with_name(f"{draft.name}{end}").unlink(missing_ok=True)
    sync_folder(path.parent)


def restore(database: Database) -> Restored:
    """Make a copied database another server's, as a whole or not at all.

    Args:
        database: a copy; for studies under joint privacy with the key of the original.

    Raises:
        InvalidInput: for a database that is no copy, is damaged or has another key.
        Unavailable: where the database cannot be written.
    """
    upgrade(database)
    with database.writing() as connection:
        row = connection.execute(select(server).with_for_update()).one_or_none()
        if row is None:
            raise InvalidInput("the database was never served, so there is nothing to restore.")
        if row.place == database.place(connection):
            raise InvalidInput(
                "the database is that of a live server, or a copy of its file; restore a backup, "
                "in a database of its own."
            )
        if database.sqlite and connection.scalar(text("PRAGMA integrity_check")) != "ok":
            raise InvalidInput("the database is damaged; use another copy of it.")
        _refuse_shuffler(connection)
        with unlocked_rows(connection, database.sqlite):
            return _begun_anew(connection, database, row.identity)


def _refuse_shuffler(connection: Connection) -> None:
    if connection.execute(select(relays.c.study)).first() is not None:
        raise InvalidInput(
            "the database is that of a shuffler, which may have passed on since then what the "
            "copy holds, so people could be in two groups; begin a new study."
        )


def confirm_move(database: Database) -> None:
    """Serve a copied database as before, where the original stopped before it was copied.

    Raises:
        InvalidInput: for a copy that `back_up` made, while its original was served.
    """
    upgrade(database)
    with database.writing() as connection:
        place = database.place(connection)
        if connection.scalar(select(server.c.place)) == _COPY or place == EARLIER:
            raise InvalidInput(
                "the database is a backup or an earlier state of its original; restore it without "
                "--moved. To move a SQLite database, stop the server and copy the file."
            )
        _refuse_shuffler(connection)
        connection.execute(update(server).values(place=place))
        note(connection, "", "confirmed that the database was moved")


def _begun_anew(connection: Connection, database: Database, previous: str) -> Restored:
    """Give the server, and each study's learner, another identity."""
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
            identity=identity, restored_from=previous, made=time.time(), clock=None
        )
    )
    connection.execute(update(server).values(place=database.place(connection)))
    connection.execute(update(leases).values(holder="", expires=0.0))
    note(connection, "", f"restored as {identity} from a backup of {previous}")
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
        previous,
        int(connection.scalar(waiting) or 0),
        dropped,
        tuple(anew),
        int(connection.scalar(able) or 0),
    )


def _forget(connection: Connection, study: str) -> int:
    """Drop unreleased observations; the ids of their decisions stay, so that later rewards are
    refused."""
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
    """Under joint privacy: a new learner without people."""
    cipher, name = needed(database.cipher, row.name), row.name
    content = json.loads(unpacked(decrypted(cipher, row.learner, True, name, "learner")))
    lay_by(connection, name, _learner(content, name))
    learner = _learner({**content, "identity": secrets.token_hex(16)}, name)
    for table in (policies, ledger):
        connection.execute(delete(table).where(table.c.study == name))
    began = encrypted(cipher, without_policies(learner), True, name, "learner")
    # Its versions begin at 0 again; reports of former learners are refused by their names.
    connection.execute(
        update(studies).where(studies.c.name == name).values(learner=began, closed="{}")
    )
    paid = paid_before(connection, name)
    made = Store(database).prepared(learner, tuple(learner.streams), name, paid)
    Store.publish(connection, made, name, 0, database.clock.now())


def _go_on(connection: Connection, row: Row[Any]) -> None:
    """Under local privacy: the same learner under another identity, with its statistics."""
    name = row.name
    kept = connection.scalar(select(snapshots.c.learner).where(snapshots.c.study == name))
    assert kept is not None
    lay_by(connection, name, _learner(json.loads(unpacked(row.learner)), name))
    identity = secrets.token_hex(16)
    for table, held in ((studies, row.learner), (snapshots, kept)):
        column = table.c.name if table is studies else table.c.study
        content = {**json.loads(unpacked(held)), "identity": identity}
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
    """Give waiting reports to the learner with the new identity."""
    waiting = select(batches.c.id, batches.c.stream).where(
        batches.c.study == study, batches.c.released.is_(None)
    )
    for batch, stream in connection.execute(waiting).all():
        source = identity if stream == TARGET_NAME else stream_id(identity, stream)
        body: Any = connection.scalar(select(batches.c.body).where(batches.c.id == batch))
        try:
            kept = json.loads(unpacked(body))
            named = [json.dumps({**json.loads(each), "source": source}) for each in kept["reports"]]
            values: dict[str, Any] = {"body": packed(json.dumps({**kept, "reports": named}))}
        except (zlib.error, ValueError, LookupError, TypeError):
            # As a release would, which this damage does not stop either.
            values = {"released": SET_ASIDE}
        connection.execute(update(batches).where(batches.c.id == batch).values(values))


def _bytes(content: dict[str, Any]) -> bytes:
    """A learner's content as `without_policies` packs it."""
    return packed(json.dumps(content, allow_nan=False))


def _learner(content: dict[str, Any], name: str) -> AnyLearner:
    secret = content["budget"]["trust_model"] == "joint"
    return put_together(_bytes(content), (), noise_for(secret), f"the study {name!r}")
