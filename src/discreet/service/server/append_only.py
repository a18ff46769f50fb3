"""Rows of the ledger and of the operators' log are never changed: the database itself refuses it.

Whoever owns the database can take these triggers away; a server, or what gets into one, cannot do
it by mistake. They are set whenever a server starts.
"""

from __future__ import annotations

from collections.abc import Iterator

from discreet.service.server.database import Database
from discreet.service.server.schema import ledger, operations

_TABLES = (ledger.name, operations.name)
_MESSAGE = "rows of this table are never changed"


def keep_rows(database: Database) -> None:
    """Let the database refuse to change or delete rows of these tables."""
    with database.writing() as connection:
        for statement in _sqlite() if database.sqlite else _postgresql():
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
