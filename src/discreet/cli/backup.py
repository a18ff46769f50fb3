"""`discreet backup` and `discreet restore`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.console import err, out
from discreet.cli.database import (
    DATABASE,
    DatabaseOption,
    private_database,
    refusing_service,
    served_database,
)

if TYPE_CHECKING:
    from discreet.service.server.restoring import Restored


def backup(
    file: Annotated[Path, typer.Argument(help="The backup, which must not be there yet.")],
    database: DatabaseOption = DATABASE,
) -> None:
    """Write all that a service keeps into one file, while it goes on."""
    with refusing_service():
        from discreet.service.server.backup import back_up

        about = back_up(served_database(database), file)
        out.say(f"Backup:   {file}")
        out.say(f"Server:   {about.identity}")
        out.say(f"Checksum: {about.checksum}")


def restore(
    file: Annotated[Path, typer.Argument(help="A backup.")],
    database: DatabaseOption = DATABASE,
) -> None:
    """Restore a backup into an empty database, as another server that releases nobody twice.

    Restore each backup once. Servers restored from one backup do not know each other: under joint
    privacy a person in two of them pays both budgets, and neither certificate says so.
    """
    with refusing_service():
        from discreet.service.server.backup import read_about
        from discreet.service.server.restoring import restore as restored_from

        read_about(file)  # before there is a database, so that what is refused leaves none
        target = private_database(database)
        try:
            target.hold()
            _show(restored_from(file, target))
        finally:
            target.close()


def _show(outcome: Restored) -> None:
    made = datetime.fromtimestamp(outcome.backup.made, UTC).strftime("%Y-%m-%d %H:%M UTC")
    out.say(
        f"This is another server, {outcome.identity}, restored from a backup of "
        f"{outcome.backup.identity} of {made}. Devices fetch policies again; reports made under "
        "the old ones are refused."
    )
    if outcome.kept:
        out.say(f"{outcome.kept:,} private reports that waited are kept.")
    if outcome.anew:
        out.say(
            f"Under joint privacy these begin anew: {', '.join(outcome.anew)}; "
            f"{outcome.dropped:,} decisions that waited are dropped, because the old server may "
            "have released them. Their certificates cover the servers before this one."
        )
        err.say(
            "Warning: restore this backup once. Servers restored from one backup do not know each "
            "other: a person in two of them pays both, and neither certificate says so."
        )
    if outcome.keys:
        err.say(
            f"Warning: {outcome.keys:,} keys open this server as they did the old one when it was "
            "backed up. If any was revoked since, revoke it again: discreet keys list"
        )
    err.say("Do not start the old server again.")
