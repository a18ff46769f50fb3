"""A backup of a database: one file, the same for SQLite and PostgreSQL.

It is a database of SQLite with all rows of one moment, the identity of the server, and a checksum
over everything. What is sealed stays sealed. What a restored server may not use is left out: plain
observations of people who trusted the service, and sums of them before noise (restoring.py says
why), so that a backup never keeps an observation for longer than its study said.

| table of the file | a row is                                                                   |
|-------------------|----------------------------------------------------------------------------|
| backup            | what it is a backup of: identity, time, version, checksum; one row         |
| all others        | as in schema.py                                                            |
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import Connection, insert, select

from discreet.atomic_files import draft_name, sync_folder
from discreet.service.server.database import Database, Unavailable, private_file
from discreet.service.server.schema import metadata, server
from discreet.service.server.upgrade import newest, upgrade, version_of
from discreet.validation import InvalidInput

# By which SQLite knows files of this kind: "DBKP".
_APPLICATION = 0x44424B50
_ROWS = 1_000  # that are copied at a time
_SCRUB = (
    "UPDATE decisions SET payload = NULL, mark = NULL",
    "UPDATE snapshots SET learner = x'' WHERE study IN "
    "(SELECT name FROM studies WHERE trust_model = 'joint')",
)
_ABOUT = "CREATE TABLE backup (identity TEXT, made REAL, version TEXT, checksum TEXT)"


@dataclass(frozen=True)
class Backup:
    """What a file is a backup of.

    Attributes:
        identity: of the server.
        made: seconds since 1970.
        version: of the database (upgrade.py).
        checksum: SHA-256 over all tables, rows and columns.
    """

    identity: str
    made: float
    version: str
    checksum: str


def back_up(database: Database, path: Path) -> Backup:
    """Write a backup, while servers go on with the database.

    Args:
        database: of this version, or with SQLite of an older one.
        path: of the file, which must not be there yet. Only its owner may read it.

    Raises:
        InvalidInput: where the file is there, or the database was never served.
        Unavailable: where the database cannot be read, or the backup not be written.
    """
    if path.exists():
        raise InvalidInput(f"{path} exists already; name another file for the backup.")
    if not path.parent.is_dir():
        raise InvalidInput(f"the folder of {path} does not exist; make it first.")
    version, identity = _checked(database)
    draft = path.with_name(draft_name(path.name))
    private_file(draft)
    try:
        if database.sqlite:
            _copy_file(database, draft)
        else:
            _copy_rows(database, draft)
        about = _finish(draft, identity, version)
        _sync(draft)
        os.link(draft, path)  # unlike a rename, it takes no other file's place
    except FileExistsError as error:
        raise InvalidInput(f"{path} exists already; name another file for the backup.") from error
    except sqlite3.Error as error:
        raise Unavailable(f"the backup cannot be written: {error}") from error
    finally:
        for name in (draft, *_beside(draft)):
            name.unlink(missing_ok=True)
    sync_folder(path.parent)
    return about


def read_about(path: Path) -> Backup:
    """What a file is a backup of, once its checksum was compared.

    Raises:
        InvalidInput: for a file that is no backup, or is damaged.
    """
    if not path.is_file():
        raise InvalidInput(f"there is no file {path}; name a backup that `discreet backup` made.")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as file:
            (application,) = file.execute("PRAGMA application_id").fetchone()
            if application != _APPLICATION:
                raise sqlite3.DatabaseError("file is of another kind")
            about = Backup(*file.execute("SELECT * FROM backup").fetchone())
            same = _checksum(file) == about.checksum
    except (sqlite3.Error, TypeError) as error:
        raise InvalidInput(
            f"{path} is no backup, or it is damaged ({error}); name one as `discreet backup` made "
            "it."
        ) from error
    if not same:
        raise InvalidInput(
            f"the backup {path} is damaged: its checksum is that of another content. Use another "
            "copy of it."
        )
    return about


@contextmanager
def opened_backup(path: Path) -> Iterator[Database]:
    """A copy of a backup, of this version, as long as the block lasts.

    Raises:
        InvalidInput: for one that a newer version made.
    """
    with TemporaryDirectory() as folder:  # which its owner alone may enter
        copy = Path(folder) / "backup.db"
        shutil.copyfile(path, copy)
        with closing(sqlite3.connect(copy)) as file:
            file.execute("DROP TABLE backup")
        database = Database(f"sqlite:///{copy}")
        try:
            upgrade(database)
            yield database
        finally:
            database.close()


def copy_tables(source: Connection, target: Connection) -> None:
    """Copy all rows, a few at a time."""
    for table in metadata.sorted_tables:
        rows = source.execute(select(table), execution_options={"yield_per": _ROWS})
        for some in rows.mappings().partitions():
            target.execute(insert(table), [dict(row) for row in some])


def _checked(database: Database) -> tuple[str, str]:
    """Version and identity of what can be backed up."""
    with database.reading() as connection:
        version = version_of(connection)
        identity = None if version is None else connection.scalar(select(server.c.identity))
    if version is None or identity is None:
        raise InvalidInput("the database was never served, so there is nothing to back up.")
    if version != newest() and not database.sqlite:
        raise InvalidInput(
            f"the database has version {version}, this program {newest()}; start `discreet serve` "
            "of this version once, which brings it up to date, or use the program that made it."
        )
    return version, str(identity)


def _copy_file(database: Database, draft: Path) -> None:
    """The file at one moment, by SQLite's own online backup."""
    with (
        database.reading() as connection,
        closing(sqlite3.connect(draft, isolation_level=None)) as target,
    ):
        source: Any = connection.connection.driver_connection
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")


def _copy_rows(database: Database, draft: Path) -> None:
    """All rows of one moment, in one transaction of PostgreSQL that only reads."""
    copy = Database(f"sqlite:///{draft}")
    try:
        upgrade(copy)
        with database.reading() as source, copy.writing() as target:
            copy_tables(source, target)
    finally:
        copy.close()


def _finish(draft: Path, identity: str, version: str) -> Backup:
    """Take out what a backup must not hold, and say what it is."""
    with closing(sqlite3.connect(draft, isolation_level=None)) as file:
        file.execute("PRAGMA journal_mode = DELETE")
        file.execute("PRAGMA secure_delete = ON")
        for statement in _SCRUB:
            file.execute(statement)
        file.execute("VACUUM")
        about = Backup(identity, time.time(), version, _checksum(file))
        file.execute(f"PRAGMA application_id = {_APPLICATION}")
        file.execute(_ABOUT)
        row = (about.identity, about.made, about.version, about.checksum)
        file.execute("INSERT INTO backup VALUES (?, ?, ?, ?)", row)
    return about


def _checksum(file: sqlite3.Connection) -> str:
    """SHA-256 over the names of all tables and columns, and all rows in the order of their keys."""
    digest = hashlib.sha256()
    tables = file.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' "
        "AND name != 'backup' ORDER BY name"
    ).fetchall()
    for (table,) in tables:
        columns = file.execute(f'SELECT name, pk FROM pragma_table_info("{table}")').fetchall()
        keys = [name for name, place in sorted(columns, key=lambda each: each[1]) if place]
        order = ", ".join(f'"{name}"' for name in keys) or "1"
        digest.update(repr((table, columns)).encode())
        for row in file.execute(f'SELECT * FROM "{table}" ORDER BY {order}'):
            digest.update(repr(row).encode())
    return digest.hexdigest()


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _beside(draft: Path) -> Iterator[Path]:
    """What SQLite may have put beside a file."""
    for end in ("-wal", "-shm", "-journal"):
        yield draft.with_name(f"{draft.name}{end}")
