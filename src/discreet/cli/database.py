"""What the commands of the service share: which database, and what may be missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.console import reporting_errors
from discreet.validation import InvalidInput

if TYPE_CHECKING:
    from discreet.service.server.database import Database

DATABASE = "sqlite:///discreet.db"
DatabaseOption = Annotated[
    str,
    typer.Option(
        help="sqlite:///FILE, or an address of PostgreSQL.",
        envvar="DISCREET_DATABASE",
    ),
]


@contextmanager
def refusing_service() -> Iterator[None]:
    """As `reporting_errors`, for commands that need the packages of the service."""
    with reporting_errors():
        try:
            from discreet.service.server.database import Unavailable
        except ModuleNotFoundError as error:
            raise InvalidInput(
                f"the package {error.name} is missing, which the service needs; install it with "
                'pip install "discreet[service]".'
            ) from error
        try:
            yield
        except Unavailable as error:
            raise InvalidInput(
                f"the database cannot be used now: {error}. Check its address, that it runs, and "
                "that its disk has room; nothing was changed."
            ) from error


def private_database(url: str) -> Database:
    """A database with its key from the environment. A file of SQLite is its owner's alone."""
    from discreet.service.server.database import Database
    from discreet.service.server.encryption import Cipher

    return Database(url, Cipher.from_environment())


def existing_database(url: str) -> Database:
    """A database of any version; `InvalidInput` where there is no such file."""
    from sqlalchemy import make_url

    database = private_database(url)
    file = make_url(url).database
    if database.sqlite and file is not None:
        from pathlib import Path

        if not Path(file).is_file():
            raise InvalidInput(
                f"there is no database {file}; name that of a service with --database, or start "
                "one with `discreet serve STUDY.toml`."
            )
    return database


def served_database(url: str) -> Database:
    """A database that `discreet serve` made.

    Raises:
        InvalidInput: where there is none, or one of another version.
    """
    from discreet.service.server.upgrade import newest, version_of

    database = existing_database(url)
    with database.reading() as connection:
        version = version_of(connection)
    if version != newest():
        was = "was never served" if version is None else f"has version {version}, not {newest()}"
        raise InvalidInput(
            f"the database {was}; start `discreet serve` of this version on it once."
        )
    return database
