"""`discreet check`: everything that is wrong with a study, or what it asks for.

Ends with exit code 0 where the study can run, otherwise with 2.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.atomic_files import write_bytes
from discreet.cli.console import (
    DataOption,
    JobsOption,
    Kind,
    check_outputs,
    cores,
    err,
    out,
    reporting_errors,
)
from discreet.lab.results.progress import ShownProgress
from discreet.lab.results.screen import plain
from discreet.validation import InvalidInput

if TYPE_CHECKING:
    from discreet.lab.reporting.outlook import Outlook


def check(
    study: Annotated[Path, typer.Argument(help="A study file (TOML).")],
    json: Annotated[Path | None, typer.Option("--json", help="File for the same facts.")] = None,
    jobs: JobsOption = None,
    data: DataOption = None,
) -> None:
    """Whether a study can run: everything wrong with it, or what it needs."""
    from discreet.codec import encode

    kind = Kind("an outlook of discreet check", (".json",), _is_outlook)
    with reporting_errors():
        check_outputs([(json, kind)], [study])
        outlook, files = _outlook(study, data, jobs or cores())
        check_outputs([(json, kind)], files)
        (_show if outlook.can_run else _show_troubles)(outlook, study)
        if json is not None:
            write_bytes(json, encode(outlook).encode())
            out.say(f"Facts:   {json}")
        if not outlook.can_run:
            raise typer.Exit(2)


def _outlook(path: Path, data: Path | None, jobs: int) -> tuple[Outlook, tuple[Path, ...]]:
    """What is wrong, or what is asked for; and the files that were read."""
    from discreet.lab.experiments import expected_seconds
    from discreet.lab.reporting.outlook import Outlook, Trouble, study_outlook
    from discreet.lab.studies import load_study
    from discreet.toml_files import Place

    place = Place(path.name)
    try:
        study = load_study(path, data_dir=data)
    except InvalidInput as error:
        troubles = sorted(
            (Trouble(*place.parted(text)) for text in error.args),
            key=lambda trouble: (trouble.line is None, trouble.line or 0),
        )
        return Outlook(path.name, tuple(troubles)), (path,)
    measuring = "Measuring how long the learners take"
    with ShownProgress(screen=err, task=measuring) as bar:
        bar.add_task(measuring, total=None)
        seconds = expected_seconds(study.problem, study.settings, study.rounds, study.seed, jobs)
        return study_outlook(path.name, study, seconds, jobs), study.files


def _is_outlook(path: Path) -> bool:
    from discreet.codec import decode
    from discreet.lab.reporting.outlook import Outlook

    try:
        decode(path.read_text(encoding="utf-8"), Outlook)
    except (InvalidInput, UnicodeDecodeError):
        return False
    return True


def _show_troubles(outlook: Outlook, path: Path) -> None:
    from discreet.lab.reporting.outlook_words import troubles_text

    many = len(outlook.troubles) > 1
    count = f"{len(outlook.troubles)} things are wrong." if many else "One thing is wrong."
    out.print(f"[bold red]{plain(str(path))} cannot run.[/] {count}")
    out.say(troubles_text(outlook))


def _show(outlook: Outlook, path: Path) -> None:
    from discreet.lab.reporting.outlook_words import (
        ARM_NOTE,
        COLUMN_NOTE,
        LINE_NOTE,
        arm_table,
        asked_text,
        column_table,
        line_table,
        people_text,
        time_text,
    )
    from discreet.lab.reporting.words import promises

    out.print(f"[bold green]{plain(str(path))} can run.[/]")
    for warning in outlook.warnings:
        out.print(f"[bold]Warning:[/] {plain(warning)}")
    out.print()
    if outlook.rows:
        out.say(f"{outlook.rows}.")
    out.say(people_text(outlook))
    for choice in outlook.choices:
        out.say(choice)
    out.print()
    out.print(column_table(outlook))
    if outlook.rows:
        out.say(COLUMN_NOTE)
    out.print()
    arms = arm_table(outlook)
    if arms is not None:
        out.print(arms)
        out.say(ARM_NOTE)
        out.print()
    out.print(line_table(outlook))
    out.say(LINE_NOTE)
    out.print()
    for text in asked_text(outlook):
        out.say(text)
    out.say(promises(outlook.guarantees))
    out.print()
    out.say(time_text(outlook))
    out.say(f"To start it: discreet run {path}")
    if outlook.served:
        out.say(f"{outlook.served} To serve it: discreet serve {path}")
