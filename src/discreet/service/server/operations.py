"""The operators' log, and rows that are never changed.

Triggers refuse to change or delete rows of the ledger and of this log. The owner of the database
can drop them; a server cannot change a row by mistake. They are set whenever a server starts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, insert, select

from discreet.service.server.database import Database
from discreet.service.server.schema import ledger, operations

# The actor of what was done on the server itself, without a key.
SERVER = "server"
_TABLES = (ledger.name, operations.name)
_MESSAGE = "rows of this table are never changed"


def note(connection: Connection, key: str, what: str, study: str | None = None) -> None:
    """Add a line to the log, in the transaction of the operation.

    Args:
        connection: a transaction that writes.
        key: the id of the key by which it was asked for; empty for the server itself.
        what: was done.
        study: that it was done to.
    """
    connection.execute(
        insert(operations).values(at=time.time(), key=key or SERVER, what=what, study=study)
    )


def noted(database: Database, study: str | None = None, after: int = 0) -> list[dict[str, Any]]:
    """The lines after one of that id, at most 1,000; of one study, or of all."""
    wanted = select(operations).where(operations.c.id > after)
    if study is not None:
        wanted = wanted.where(operations.c.study == study)
    with database.reading() as connection:
        rows = connection.execute(wanted.order_by(operations.c.id).limit(1000))
        return [dict(row._mapping) for row in rows]


def keep_rows(database: Database) -> None:
    """Set the triggers."""
    with database.writing() as connection:
        _set(connection, database.sqlite)


@contextmanager
def unlocked_rows(connection: Connection, on_sqlite: bool) -> Iterator[None]:
    """Drop the triggers until the block ends, within a transaction."""
    for table in _TABLES:
        if on_sqlite:
            for event in ("update", "delete"):
                connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS keep_{table}_{event}")
        else:
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS keep_{table} ON {table}")
    yield
    _set(connection, on_sqlite)


def _set(connection: Connection, on_sqlite: bool) -> None:
    for statement in _sqlite() if on_sqlite else _postgresql():
        connection.exec_driver_sql(statement)


def _sqlite() -> Iterator[str]:
    for table in _TABLES:
        for event in ("UPDATE", "DELETE"):
            yield (
                f"CREATE TRIGGER IF NOT EXISTS keep_{table}_{event.lower()} BEFORE {event} "
                f"ON {table} BEGIN SELECT RAISE(ABORT, '{_MESSAGE}'); END"
            )


def _postgresql() -> Iterator[str]:
    # Two servers may start at once.
    yield "SELECT pg_advisory_xact_lock(20210718)"
    yield (
        "CREATE OR REPLACE FUNCTION discreet_keep_rows() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_MESSAGE}'; END $$"
    )
    for table in _TABLES:
        yield (
            f"CREATE OR REPLACE TRIGGER keep_{table} BEFORE UPDATE OR DELETE ON {table} "
            "FOR EACH ROW EXECUTE FUNCTION discreet_keep_rows()"
        )
