"""Triggers by which the database refuses to change or delete rows of ledger and operators' log.

The owner of the database can drop these triggers; a server cannot change a row by mistake. They are
set whenever a server starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from discreet.service.server.database import Database
from discreet.service.server.schema import ledger, operations

_TABLES = (ledger.name, operations.name)
_MESSAGE = "rows of this table are never changed"


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
