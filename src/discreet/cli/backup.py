"""`discreet backup` and `discreet restore`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.console import err, out
from discreet.cli.database import (
    DATABASE,
    DatabaseOption,
    existing_database,
    refusing_service,
    served_database,
)

if TYPE_CHECKING:
    from discreet.service.server.backup import Restored


def backup(
    file: Annotated[Path, typer.Argument(help="The backup, which must not be there yet.")],
    database: DatabaseOption = DATABASE,
) -> None:
    """Copy a SQLite database while it is served, without observations.

    PostgreSQL is copied by pg_dump.
    """
    with refusing_service():
        from discreet.service.server.backup import back_up

        back_up(served_database(database), file)
        out.say(f"Backup: {file}")


def restore(
    database: DatabaseOption = DATABASE,
    moved: Annotated[
        bool,
        typer.Option(
            "--moved", help="The original stopped before it was copied, and never starts again."
        ),
    ] = False,
) -> None:
    """Make a copied database another server's, which releases no one twice.

    Restore each backup once. Servers restored from one backup do not know each other: under joint
    privacy a person in two of them pays both budgets, and neither certificate counts the other.
    """
    with refusing_service():
        from discreet.service.server.backup import confirm_move
        from discreet.service.server.backup import restore as restored

        target = existing_database(database)
        try:
            target.hold()
            if moved:
                confirm_move(target)
                out.say("The database is served as before. Delete the original.")
            else:
                _show(restored(target))
        finally:
            target.close()


def _show(outcome: Restored) -> None:
    out.say(
        f"This is another server, {outcome.identity}, restored from a copy of {outcome.previous}. "
        "Devices fetch policies again; reports made under the old ones are refused."
    )
    if outcome.kept:
        out.say(f"{outcome.kept:,} waiting private reports are kept.")
    if outcome.anew:
        out.say(
            f"Under joint privacy these begin anew: {', '.join(outcome.anew)}; "
            f"{outcome.dropped:,} waiting decisions are dropped, because the old server may have "
            "released them. The certificates include the previous servers."
        )
        err.say(
            "Warning: restore this backup once. Servers restored from one backup do not know each "
            "other: a person in two of them pays both, and neither certificate counts the other."
        )
    if outcome.keys:
        err.say(
            f"Warning: {outcome.keys:,} keys open this server as they did the old one when it was "
            "copied. Revoke again those revoked since: discreet keys list"
        )
    err.say("Do not start the old server again.")
