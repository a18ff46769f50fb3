"""Databases of older versions are brought to this one, and the migrations make what the code
expects."""

from __future__ import annotations

import hashlib
import re
import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.command import upgrade as run_migrations
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect, select, text

from discreet.learners.stream import TARGET_NAME
from discreet.service.server.aggregator import Aggregator
from discreet.service.server.dashboard.watch import Watch
from discreet.service.server.database import Database
from discreet.service.server.decisions import Decisions
from discreet.service.server.deployment import unpacked
from discreet.service.server.schema import decisions, metadata, policies, studies, tickets
from discreet.service.server.seal import Seal
from discreet.service.server.store import Store
from discreet.service.server.upgrade import _config, newest, upgrade, version_of
from discreet.validation import InvalidInput
from tests.service.server.conftest import Databases

DUMPS = Path(__file__).parent / "databases"
KEY = b"k" * 32  # of the dumps


def differences(connection: Connection) -> list[object]:
    """Between a database and the tables that the code expects."""
    return compare_metadata(MigrationContext.configure(connection), metadata)


def test_an_empty_database_gets_the_tables_of_the_schema(databases: Databases) -> None:
    database = Database(databases.new())
    assert upgrade(database)
    with database.reading() as connection:
        assert differences(connection) == []
        assert version_of(connection) == newest()
        for table in metadata.sorted_tables:
            made = inspect(connection).get_pk_constraint(table.name)["constrained_columns"]
            assert made == [column.name for column in table.primary_key], table.name
    assert not upgrade(database)
    database.close()


def test_a_difference_would_be_found(databases: Databases) -> None:
    database = Database(databases.new())
    upgrade(database)
    with database.writing() as connection:
        connection.execute(text("ALTER TABLE keys ADD COLUMN other INTEGER"))
    with database.reading() as connection:
        assert differences(connection)
    database.close()


def test_tickets_of_sqlite_have_no_second_index(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'a.db'}")
    upgrade(database)
    with database.reading() as connection:
        made = connection.scalar(
            text("SELECT sql FROM sqlite_master WHERE name = :name"), {"name": tickets.name}
        )
    assert "WITHOUT ROWID" in (made or "")
    database.close()


def loaded(dump: Path, databases: Databases) -> Database:
    """A database of an older version. PostgreSQL gets its tables from the migrations of that
    version, and the rows of the dump, which is SQLite's."""
    statements = [each.strip() for each in dump.read_text(encoding="utf-8").split(";\n")]
    rows = [each for each in statements if each.startswith("INSERT")]
    database = Database(databases.new(), Seal(KEY))
    with database.writing() as connection:
        if database.sqlite:
            rows = [*(each for each in statements if each not in rows), *sorted(rows, key=in_order)]
        else:
            to_version(connection, "000" + dump.stem.removeprefix("v"))
            rows = sorted((bytea(each) for each in rows if "alembic" not in each), key=in_order)
        for statement in filter(None, rows):
            connection.exec_driver_sql(statement)
    return database


def to_version(connection: Connection, version: str) -> None:
    config = _config()
    config.attributes["connection"] = connection
    run_migrations(config, version)


def bytea(statement: str) -> str:
    """SQLite's bytes as PostgreSQL reads them."""
    return re.sub(r"\bX'([0-9A-F]*)'", r"'\\x\1'", statement)


def in_order(statement: str) -> int:
    """Tables that others refer to come first."""
    name = statement.split('"')[1]
    return ["alembic_version", *(table.name for table in metadata.sorted_tables)].index(name)


@pytest.mark.chance(0)
@pytest.mark.parametrize("dump", sorted(DUMPS.glob("v*.sql")), ids=lambda path: path.stem)
def test_older_databases_are_upgraded_with_what_they_hold(
    dump: Path,
    databases: Databases,
) -> None:
    database = loaded(dump, databases)
    with database.reading() as connection:
        assert version_of(connection) != newest()
        columns = [each["name"] for each in inspect(connection).get_columns(studies.name)]
        known = select(*(studies.c[name] for name in columns))
        before = connection.execute(known).all()
    assert before
    assert upgrade(database)
    with database.reading() as connection:
        assert version_of(connection) == newest()
        assert differences(connection) == []
        assert connection.execute(known).all() == before
        assert set(connection.scalars(select(studies.c.closed))) == {"{}"}
    still_served(database)
    database.close()


def test_marks_of_erased_rewards_are_erased(databases: Databases) -> None:
    """Version 0003 kept them."""
    database = loaded(DUMPS / "v3.sql", databases)
    row = {"study": "doses", "version": 0, "state": "rewarded", "decided": 1.0, "expires": 2.0}
    with database.writing() as connection:
        for identity, payload in (("released", None), ("waits", b"sealed")):
            more = {"id": identity, "payload": payload, "mark": b"mark", "released": None}
            connection.execute(decisions.insert().values({**row, **more}))
    upgrade(database)
    with database.reading() as connection:
        kept = select(decisions.c.id).where(decisions.c.mark == b"mark")
        assert list(connection.scalars(kept)) == ["waits"]
    database.close()


def still_served(database: Database) -> None:
    """Both studies of a dump go on where they stopped."""
    store = Store(database)
    assert store.names() == ["calls", "doses"]
    assert store.policy("calls").version == 1
    with database.reading() as connection:
        for row in connection.execute(select(policies)):
            assert hashlib.sha256(unpacked(row.body).encode()).hexdigest() == row.digest
    aggregator = Aggregator(store, "first")  # as the dump calls who holds its leases
    assert (aggregator.waiting("calls"), aggregator.waiting("doses")) == (3, 1)
    decided = Decisions(store).decide("doses", [[0.1], [0.9]])
    assert Decisions(store).reward("doses", decided.id, 1.0)
    assert aggregator.step() == 1
    assert store.policy("doses").version == 1
    with database.reading() as connection:
        kept = connection.scalars(
            select(policies.c.finding)
            .where(policies.c.study == "doses", policies.c.stream == TARGET_NAME)
            .order_by(policies.c.version)
        ).all()
    assert [finding is not None for finding in kept] == [False, True]
    watch = Watch(store)
    watch.step()
    calls, doses = watch.seen("calls"), watch.seen("doses")
    assert calls is not None
    assert doses is not None
    assert [each.version for each in (*calls.findings, *doses.findings)] == [0, 1, 0, 1]
    assert sum(calls.findings[-1].shares) == pytest.approx(1.0)


def test_a_newer_database_is_refused(databases: Databases) -> None:
    database = Database(databases.new())
    upgrade(database)
    with database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(InvalidInput, match=r"version 9999.* a newer discreet made it"):
        upgrade(database)
    database.close()


def test_tables_of_somebody_else_are_refused(databases: Databases) -> None:
    database = Database(databases.new())
    with database.writing() as connection:
        connection.execute(text("CREATE TABLE theirs (id INTEGER)"))
    with pytest.raises(InvalidInput, match="theirs"):
        upgrade(database)
    with database.reading() as connection:
        assert inspect(connection).get_table_names() == ["theirs"]
    database.close()


def test_of_servers_that_start_at_once_one_upgrades(databases: Databases) -> None:
    url = databases.new()
    changed: list[bool] = []

    def start() -> None:
        database = Database(url)
        changed.append(upgrade(database))
        database.close()

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(changed) == [False, False, False, True]
