"""`discreet keys`: keys to a service, made on its machine, and the key of its database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from discreet.cli.console import err, out
from discreet.cli.database import DATABASE, DatabaseOption, refusing_service, served_database
from discreet.lab.results.screen import plain

if TYPE_CHECKING:
    from discreet.service.server.database import Database

keys_app = typer.Typer(help="Keys to a service, and the key of its database.", no_args_is_help=True)


@keys_app.command("make")
def make(
    role: Annotated[
        str, typer.Option(help="operator, client, device, auditor, curator or modeler.")
    ],
    study: Annotated[
        str | None, typer.Option(help="The one study or table that it is for; all if left out.")
    ] = None,
    label: Annotated[str, typer.Option(help="Whose it is, in words.")] = "",
    days: Annotated[
        float | None, typer.Option(help="After which it expires; never if left out.")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Requests a second of each server process; else the server's limit."),
    ] = None,
    database: DatabaseOption = DATABASE,
) -> None:
    """Make a key. Its token is printed this once; the database keeps a hash."""
    with refusing_service():
        from discreet.service.server.keys import Keys

        opened = served_database(database)
        token = Keys(opened).make(role, study, label, days=days, rate=rate)
        typer.echo(token)
        if study is not None and not _is_known(opened, study):
            err.say(f"Warning: there is no study or table {study!r} here yet; check its name.")
        err.say("Shown this once: keep it where you keep passwords.")


def _is_known(database: Database, name: str) -> bool:
    from sqlalchemy import select

    from discreet.service.server.schema import studies, tables

    wanted = select(studies.c.name).where(studies.c.name == name)
    with database.reading() as connection:
        known = wanted.union(select(tables.c.name).where(tables.c.name == name))
        return connection.execute(known).first() is not None


@keys_app.command("list")
def list_keys(database: DatabaseOption = DATABASE) -> None:
    """All keys: for what, whose, since when, and whether they still open anything."""
    with refusing_service():
        from discreet.service.server.keys import Keys

        names = ("id", "role", "study", "label", "made", "expires", "rate", "revoked")
        table = Table(*names, box=None, pad_edge=False)
        for key in Keys(served_database(database)).list():
            table.add_row(
                key["id"],
                key["role"],
                plain(key["study"] or "all"),
                plain(key["label"]),
                _day(key["made"]),
                "never" if key["expires"] is None else _day(key["expires"]),
                "" if key["rate"] is None else f"{key['rate']:g}",
                "" if key["revoked"] is None else _day(key["revoked"]),
            )
        out.print(table)


@keys_app.command("revoke")
def revoke(
    identity: Annotated[str, typer.Argument(help="The id that `discreet keys list` shows.")],
    discard: Annotated[
        bool, typer.Option("--discard", help="Also erase all that it sent and no release has.")
    ] = False,
    database: DatabaseOption = DATABASE,
) -> None:
    """Revoke a key: it opens nothing from now on, in every process."""
    with refusing_service():
        from discreet.service.server.keys import Keys

        keys = Keys(served_database(database))
        new = keys.revoke(identity)
        out.say(f"{identity} opens nothing {'from now on' if new else 'since it was revoked'}.")
        if discard:
            count = keys.discard(identity)
            out.say(f"{count} reports and decisions that no release has were erased.")


@keys_app.command("database")
def database_key() -> None:
    """A new key for a database, to be set as DISCREET_DATABASE_KEY; nothing is changed."""
    with refusing_service():
        from discreet.service.server.encryption import Cipher

        typer.echo(Cipher.new_key())


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
