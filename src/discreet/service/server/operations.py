"""What operators did, in the order in which they did it; only ever added to."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import Connection, insert, select

from discreet.service.server.database import Database
from discreet.service.server.schema import operations

# Who acted, where it was on the server itself and not by a key.
SERVER = "server"


def note(connection: Connection, key: str, what: str, study: str | None = None) -> None:
    """Add a line in the transaction of what it tells of, so that neither is there alone.

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
