"""Nobody changes what the ledger and the operators' log say, on either database."""

from __future__ import annotations

import pytest
from sqlalchemy import delete, update

from discreet.service.server.database import Database, Unavailable
from discreet.service.server.ledger import keep_rows, note, noted
from discreet.service.server.schema import operations


def test_rows_are_added_and_never_changed(database: Database) -> None:
    for _ in range(2):  # as at each start of a server
        keep_rows(database)
    with database.writing() as connection:
        note(connection, "a", "did something")
    before = noted(database)
    for statement in (update(operations).values(what="did nothing"), delete(operations)):
        with (
            pytest.raises(Unavailable, match="rows of this table are never changed"),
            database.writing() as connection,
        ):
            connection.execute(statement)
    assert noted(database) == before
    with database.writing() as connection:
        note(connection, "b", "did something else")
    assert [line["key"] for line in noted(database)] == ["a", "b"]
