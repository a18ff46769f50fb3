"""Databases of this program's version: new ones get the tables, older ones are migrated.

All steps are one transaction, so a server that dies within it leaves the database as it was. Of
several servers that start at once one does the work, and the others wait.
"""

from __future__ import annotations

from pathlib import Path

from alembic.command import upgrade as run_migrations
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from discreet.service.server.database import Database
from discreet.service.server.schema import metadata
from discreet.validation import InvalidInput

_FOLDER = Path(__file__).parent / "migrations"
# A number that no other advisory lock of the PostgreSQL database has.
_LOCK = 4_715_928_301


def newest() -> str:
    """The version that this program works with."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None
    return head


def version_of(connection: Connection) -> str | None:
    """The version of a database; None for one without tables.

    Raises:
        InvalidInput: for a database with other tables.
    """
    version = MigrationContext.configure(connection).get_current_revision()
    if version is None and (found := inspect(connection).get_table_names()):
        raise InvalidInput(
            f"the database holds tables that discreet did not make ({', '.join(found[:3])}); name "
            "an empty database, or one that discreet made."
        )
    return version


def upgrade(database: Database) -> bool:
    """Bring a database to this version; an empty one gets its tables.

    Returns:
        Whether anything was changed.

    Raises:
        InvalidInput: for a database of a newer version, or with other tables.
        Unavailable: for one that cannot be reached.
    """
    config = _config()
    scripts = ScriptDirectory.from_config(config)
    with database.writing() as connection:
        if not database.sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        version = version_of(connection)
        if version == newest():
            return False
        if version is None:
            metadata.create_all(connection)
            MigrationContext.configure(connection).stamp(scripts, "head")
            return True
        if version not in {script.revision for script in scripts.walk_revisions()}:
            raise InvalidInput(
                f"the database has version {version}, and this program knows {newest()}: a newer "
                "discreet made it. Install that one; a database does not go back."
            )
        config.attributes["connection"] = connection
        run_migrations(config, "head")
        return True


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
