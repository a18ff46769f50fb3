"""The command line: `discreet init`, `check`, `run`, `plan`, `audit`, `curate` and others.

Bad input ends with exit code 2 and one message; a stopped run shows its finished part, says how to
resume, and ends with exit code 130 (Ctrl-C) or 143 (SIGTERM).

A command's module is imported when the command is called, or its help asked for: `discreet --help`
and `--version` load no learner, no table and no plot.
"""

from __future__ import annotations

import inspect
import os
import re
import signal
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version as installed_version
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup


@dataclass(frozen=True)
class Command:
    """A command: the place of its function or group, its line in `discreet --help`, an example."""

    home: str
    summary: str
    example: str


COMMANDS = {
    "init": Command(
        "init:init",
        "Draft a study file from a table; you state the bounds.",
        "init people.csv --label outcome",
    ),
    "check": Command(
        "check:check",
        "Show what is wrong with a study, or what it needs.",
        "check study.toml",
    ),
    "run": Command(
        "study:run",
        "Simulate a study: what would each epsilon cost on these people?",
        "run examples/earnings.toml --report earnings.html",
    ),
    "plan": Command(
        "plan:plan",
        "What does each epsilon cost, and how many people does it take?",
        "plan study.toml --people 5000 --lose-at-most 5% --report plan.html",
    ),
    "audit": Command(
        "audit:audit",
        "Try to break every promise, by exact replay and by trials.",
        "audit kernel --trials 0",
    ),
    "vectors": Command(
        "audit:vectors",
        "Write test vectors for clients of a service in other languages.",
        "vectors vectors --cases 100000",
    ),
    "model": Command(
        "model:model",
        "Search a released table: read answers, ask the next questions.",
        "model release --rounds 50 --batch 5 --ask ask.csv --tell answers.csv",
    ),
    "curate": Command(
        "curate:curate_app",
        "Release a table once, then answer questions about its rows.",
        "curate homes.csv --bounds bounds.toml --epsilon 3 --delta 1e-5 --out release",
    ),
    "serve": Command(
        "service:serve",
        "Serve studies over HTTP; --demo shows how that looks.",
        "serve study.toml",
    ),
    "shuffle": Command(
        "service:shuffle",
        "Shuffle encrypted reports for the learner of another operator.",
        "shuffle --learner https://calls.example.org --study calls",
    ),
    "keys": Command(
        "service:keys_app", "Keys to a service, and the key of its database.", "keys list"
    ),
    "backup": Command(
        "service:backup",
        "Copy a served SQLite database, without its observations.",
        "backup monday.db",
    ),
    "restore": Command(
        "service:restore",
        "Make a copied database another server's.",
        "restore --database sqlite:///monday.db",
    ),
    "aggregate": Command(
        "aggregate:aggregate",
        "Add reports in Parquet files to the learner of a study.",
        "aggregate study.toml reports/",
    ),
    "data": Command(
        "study:data_app", "The problems that a study file can name.", "data show earnings"
    ),
    "reproduce": Command(
        "reproduce:reproduce_app",
        "The papers' figures and tables.",
        "reproduce dubey-figure-1 --trials 1",
    ),
}


# How a command ends when it is stopped from outside: Ctrl-C, or SIGTERM from another program.


class Terminated(SystemExit):
    """SIGTERM as an exception; uncaught it ends with the exit code that a shell expects."""


@dataclass(frozen=True)
class Stop:
    """How a command was stopped: a word for it, and its exit code."""

    word: str
    code: int


STOPPED = (KeyboardInterrupt, Terminated)

_INTERRUPTED = Stop("Interrupted", 128 + signal.SIGINT)
_TERMINATED = Stop("Terminated", 128 + signal.SIGTERM)


def stop_of(error: BaseException) -> Stop:
    """How this exception, one of `STOPPED`, stopped the command."""
    return _TERMINATED if isinstance(error, Terminated) else _INTERRUPTED


_terminations: list[int] = []


def _terminate(number: int, frame: object) -> NoReturn:
    _terminations.append(number)
    raise Terminated(_TERMINATED.code)


def end_at_once(number: int = signal.SIGTERM, frame: object = None) -> NoReturn:
    """A signal's handler, for work that may end anywhere: unlike an exception, no destructor or
    library can swallow it."""
    os._exit(128 + number)


def was_terminated() -> bool:
    """Whether SIGTERM has arrived, even if its exception was swallowed."""
    return bool(_terminations)


class _Deferred(TyperCommand):
    """A command that is imported when it is called; `discreet --help` shows the summary."""

    def __init__(self, name: str, command: Command) -> None:
        super().__init__(name, help=command.summary)
        self._home, self._example = command.home, f"Example: discreet {command.example}"

    def imported(self) -> Any:
        """The command itself."""
        module, attribute = self._home.split(":")
        command = getattr(import_module(f"discreet.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            group = typer.main.get_group(command)
            group.epilog = self._example
            return group
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        paragraphs = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(command) or "")
        single.command(self.name, help=paragraphs, epilog=self._example)(command)
        return typer.main.get_command(single)

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        return self.imported().make_context(info_name, args, parent, **extra)


class _Commands(TyperGroup):
    """The commands above, before those of this module."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {
            **{name: _Deferred(name, command) for name, command in COMMANDS.items()},
            **self.commands,
        }


app = typer.Typer(
    name="discreet",
    cls=_Commands,
    help="Differentially private bandits, with guarantees you can check.",
    epilog="Exit codes: 0 done; 1 a promise was broken, or not audited; 2 refused; 3 people wait "
    "to be measured; 130 Ctrl-C; 143 SIGTERM.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


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
    typer.echo(installed_version("discreet"))


def main() -> None:
    """Entry point of the `discreet` command."""
    # SIGTERM raises an exception, as Ctrl-C does.
    signal.signal(signal.SIGTERM, _terminate)
    if not sys.stderr.isatty():
        app.rich_markup_mode = None  # no frame of 80 columns around what is wrong with an option
    app()
