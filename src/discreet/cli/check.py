"""`discreet check`: everything that is wrong with a study, or what it asks for.

Ends with exit code 0 where the study can run, otherwise with 2.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.atomic_files import write_bytes
from discreet.cli.console import (
    DataOption,
    Kind,
    check_outputs,
    out,
    reporting_errors,
)
from discreet.lab.results.screen import plain
from discreet.validation import InvalidInput

if TYPE_CHECKING:
    from discreet.lab.reporting.preflight import Preflight


def check(
    study: Annotated[Path, typer.Argument(help="A study file (TOML).")],
    json: Annotated[Path | None, typer.Option("--json", help="File for the same facts.")] = None,
    data: DataOption = None,
    details: Annotated[
        bool,
        typer.Option("--details", help="Every column and arm, and the promises in full."),
    ] = False,
) -> None:
    """Show what is wrong with a study, or what it needs."""
    from discreet.codec import encode

    kind = Kind("a preflight of discreet check", (".json",), _is_preflight)
    with reporting_errors():
        check_outputs([(json, kind)], [study])
        checked, files = _checked(study, data)
        check_outputs([(json, kind)], files)
        if checked.can_run:
            _show(checked, study, details)
        else:
            _show_issues(checked, study)
        if json is not None:
            write_bytes(json, encode(checked).encode())
            out.say(f"Facts:   {json}")
        if not checked.can_run:
            raise typer.Exit(2)


def _checked(path: Path, data: Path | None) -> tuple[Preflight, tuple[Path, ...]]:
    """What is wrong, or what is asked for; and the files that were read."""
    from discreet.lab.reporting.preflight import Issue, Preflight, preflight
    from discreet.lab.studies import load_study
    from discreet.toml_files import Place

    place = Place(path.name)
    try:
        study = load_study(path, data_dir=data)
    except InvalidInput as error:
        issues = sorted(
            (Issue(*place.parted(text)) for text in error.args),
            key=lambda issue: (issue.line is None, issue.line or 0),
        )
        return Preflight(path.name, tuple(issues)), (path,)
    return preflight(path.name, study), study.files


def _is_preflight(path: Path) -> bool:
    from discreet.codec import decode
    from discreet.lab.reporting.preflight import Preflight

    try:
        decode(path.read_text(encoding="utf-8"), Preflight)
    except (InvalidInput, UnicodeDecodeError):
        return False
    return True


def _show_issues(checked: Preflight, path: Path) -> None:
    from discreet.lab.reporting.preflight import issues_text

    many = len(checked.issues) > 1
    count = f"{len(checked.issues)} things are wrong." if many else "One thing is wrong."
    out.print(f"[bold red]{plain(str(path))} cannot run.[/] {count}")
    out.say(issues_text(checked))


def _show(checked: Preflight, path: Path, details: bool) -> None:
    from discreet.lab.reporting.preflight import (
        ARM_NOTE,
        COLUMN_NOTE,
        DETAILS_NOTE,
        LINE_NOTE,
        MOST_ROWS,
        arm_table,
        budget_notes,
        column_table,
        line_table,
        people_text,
    )
    from discreet.lab.reporting.words import promises

    out.print(f"[bold green]{plain(str(path))} can run.[/]")
    most = sys.maxsize if details else MOST_ROWS
    for warning in checked.warnings[:most]:
        out.print(f"[bold]Warning:[/] {plain(warning)}")
    if len(checked.warnings) > most:
        out.print(f"[bold]{len(checked.warnings) - most} more warnings:[/] --details")
    if checked.rows:
        out.say(f"{checked.rows}.")
    out.say(people_text(checked))
    for choice in checked.choices:
        out.say(choice)
    out.print()
    out.print(column_table(checked, most))
    if checked.rows:
        out.say(COLUMN_NOTE)
    out.print()
    arms = arm_table(checked, most)
    if arms is not None:
        out.print(arms)
        out.say(ARM_NOTE)
        out.print()
    out.print(line_table(checked))
    out.say(f"{LINE_NOTE}\n{DETAILS_NOTE}" if details else LINE_NOTE)
    out.print()
    out.say(promises(checked.guarantees, brief=not details))
    for text in budget_notes(checked):
        out.say(text)
    out.say(f"To start it: discreet run {path}")
    if checked.served:
        out.say(f"{checked.served} To serve it: discreet serve {path}")
