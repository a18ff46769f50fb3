"""The command line: `discreet run`, `audit`, `curate`, `model`, `data`, `reproduce`, `version`.

Bad input ends with exit code 2 and one message that names what is wrong; a run that is stopped
shows what is finished, says how to go on, and ends with exit code 130 (Ctrl-C) or 143 (SIGTERM).
"""

from __future__ import annotations

from importlib.metadata import version as installed_version
from typing import Annotated

import typer

from discreet.cli.audit import audit
from discreet.cli.console import out, start
from discreet.cli.curate import curate_app
from discreet.cli.data import data_app
from discreet.cli.model import model
from discreet.cli.reproduce import reproduce_app
from discreet.cli.study import run

app = typer.Typer(
    name="discreet",
    help="Differentially private bandits, with guarantees you can check.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(run)
app.command()(audit)
app.add_typer(curate_app, name="curate")
app.command()(model)
app.add_typer(data_app, name="data")
app.add_typer(reproduce_app, name="reproduce")


def _print_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def options(
    show: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="The version."),
    ] = False,
) -> None:
    """Differentially private bandits, with guarantees you can check."""


@app.command()
def version() -> None:
    """Print the version."""
    out.print(installed_version("discreet"))


def main() -> None:
    """Entry point of the `discreet` command."""
    start(app)
