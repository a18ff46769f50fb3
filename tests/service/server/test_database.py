"""New databases get the tables, older ones are migrated, others are refused."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.command import upgrade as run_migrations
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, select, text

from discreet.service.server import database as databases_module
from discreet.service.server.database import Database, newest, upgrade, version_of
from discreet.service.server.schema import (
    admitted,
    groups,
    held,
    keys,
    metadata,
    passed,
    public_coins,
    relayed,
    relays,
)
from discreet.validation import InvalidInput
from tests.service.server.conftest import Databases

NEXT = """
import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade():
    op.add_column("keys", sa.Column("other", sa.Integer(), server_default="7"))
"""


LATER = {relays, relayed, admitted, held, passed, groups}


def make_first(connection: Connection) -> None:
    """The tables of the first version."""
    first = [table for table in metadata.sorted_tables if table not in LATER]
    metadata.create_all(connection, tables=first)
    scripts = ScriptDirectory.from_config(databases_module._config())
    MigrationContext.configure(connection).stamp(scripts, "0001")


def test_an_empty_database_gets_the_tables_of_the_schema(databases: Databases) -> None:
    database = Database(databases.new())
    assert upgrade(database)
    with database.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        assert version_of(connection) == newest()
        for table in metadata.sorted_tables:
            made = inspect(connection).get_pk_constraint(table.name)["constrained_columns"]
            assert made == [column.name for column in table.primary_key], table.name
    assert not upgrade(database)
    database.close()


def test_the_first_version_becomes_this_one(databases: Databases) -> None:
    database = Database(databases.new())
    with database.writing() as connection:
        make_first(connection)
    assert upgrade(database)
    with database.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        assert version_of(connection) == newest()
    database.close()


def test_a_shuffler_of_the_second_version_parts_keys_from_hashes(databases: Databases) -> None:
    database = Database(databases.new())
    with database.writing() as connection:
        make_first(connection)
        config = databases_module._config()
        config.attributes["connection"] = connection
        run_migrations(config, "0002")
        connection.execute(text("INSERT INTO relays VALUES ('s', 'terms', 'facts', 'policy')"))
        for number in (3, 1, 2):
            row = {"key": f"key{number}", "mark": b"mark%d" % (9 - number)}
            connection.execute(text("INSERT INTO admitted VALUES ('s', :key, :mark)"), row)
        waits = {"mark": b"mark7", "ciphertext": b"report of key2"}
        connection.execute(text("INSERT INTO held VALUES ('s', 'd', :mark, :ciphertext)"), waits)
    assert upgrade(database)
    with database.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        # As they lie in the file, which is not the order in which reports came.
        assert list(connection.scalars(select(admitted.c.key))) == ["key1", "key2", "key3"]
        assert list(connection.scalars(select(passed.c.mark))) == [b"mark6", b"mark8"]
        row = "s", "d", b"mark7", "key2", b"report of key2"
        assert connection.execute(select(held)).one() == row
        if database.sqlite:
            made = text("SELECT sql FROM sqlite_master WHERE name IN ('admitted','held','passed')")
            assert all("WITHOUT ROWID" in each for each in connection.scalars(made))
    database.close()


def test_an_older_database_is_migrated_with_its_rows(
    databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(databases.new())
    upgrade(database)
    row = {"id": "a", "role": "device", "label": "", "hash": b"h", "made": 1.0}
    with database.writing() as connection:
        connection.execute(keys.insert().values(row))
    folder = shutil.copytree(databases_module._FOLDER, tmp_path / "migrations")
    (folder / "versions" / "0004_next.py").write_text(NEXT)
    monkeypatch.setattr(databases_module, "_FOLDER", folder)
    assert upgrade(database)
    with database.reading() as connection:
        assert version_of(connection) == newest() == "0004"
        assert connection.execute(select(keys.c.id, text("other"))).one() == ("a", 7)
    assert not upgrade(database)
    database.close()


def test_public_coins_of_sqlite_have_no_second_index(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'a.db'}")
    upgrade(database)
    with database.reading() as connection:
        made = connection.scalar(
            text("SELECT sql FROM sqlite_master WHERE name = :name"), {"name": public_coins.name}
        )
    assert "WITHOUT ROWID" in (made or "")
    database.close()


def test_a_newer_database_is_refused(databases: Databases) -> None:
    database = Database(databases.new())
    upgrade(database)
    with database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(InvalidInput, match=r"version 9999.* a newer discreet made it"):
        upgrade(database)
    database.close()


def test_a_database_with_other_tables_is_refused(databases: Databases) -> None:
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


def test_a_connection_waits_for_the_writer_of_a_new_file(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    done = threading.Timer(0.2, lambda: other.execute("COMMIT"))
    done.start()
    database = Database(f"sqlite:///{file}")
    assert upgrade(database)
    done.join()
    other.close()
    database.close()
