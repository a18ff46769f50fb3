"""`discreet run`: simulate a study file; `discreet data`: the problems that it can name.

What the run needs is imported when it is called: its help needs none of it.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from discreet.cli import stop_of
from discreet.cli.console import (
    PAGE,
    RECORDS,
    AddressOption,
    DataOption,
    EngineName,
    EngineOption,
    JobsOption,
    RecordsOption,
    check_outputs,
    cores,
    err,
    out,
    reporting_errors,
    shared,
    write_results,
)
from discreet.lab.results.screen import plain


def run(
    study: Annotated[Path, typer.Argument(help="A study file (TOML); see examples/.")],
    report: Annotated[
        Path | None, typer.Option(help="File for the report (one HTML file).")
    ] = None,
    replicates: Annotated[
        int | None, typer.Option(min=1, help="Replicates, instead of the file's.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="People in each replicate, instead of the file's.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume an earlier run of the study.")
    ] = False,
    details: Annotated[
        bool,
        typer.Option("--details", help="Add method notes and the learners' own estimates."),
    ] = False,
    json: RecordsOption = None,
    data: DataOption = None,
    jobs: JobsOption = None,
    engine: EngineOption = EngineName.processes,
    address: AddressOption = None,
) -> None:
    """Simulate a study: what would each epsilon cost on these people?"""
    from discreet.lab.results.result import StudyResult
    from discreet.lab.results.run import open_journal, simulate_study
    from discreet.lab.studies import load_study

    outputs = ((json, RECORDS), (report, PAGE))
    with reporting_errors():
        loaded = load_study(study, rounds, replicates, data)
        check_outputs(outputs, loaded.files)
        for warning in loaded.warnings:
            err.say(f"Warning: {warning}")
        with open_journal(loaded, resume, err) as journal:
            with shared(engine, jobs or cores(), address):
                outcomes, stopped = simulate_study(loaded, jobs or cores(), journal, err)
            stop = None if stopped is None else stop_of(stopped)
            if stop is not None and not outcomes:
                err.print(f"{stop.word} before any replicate was finished; nothing was written.")
                raise typer.Exit(stop.code)
            result = StudyResult(loaded, tuple(outcomes))
            result.show(out, details)
            if stop is not None:
                total = len(loaded.settings) * loaded.replicates
                done = f"{stop.word}: this is what was finished ({len(outcomes)} of {total} runs)."
                other = None if engine is EngineName.processes else engine.value
                again = _again(study, rounds, replicates, jobs, other, address, json, report, data)
                # A command that is broken into lines could not be pasted.
                err.print(plain(f"{done}\n{journal.stopped(again)}"), soft_wrap=True)
            check_outputs(outputs, loaded.files)
            write_results(json, result.provenance.stamped(each.record for each in outcomes))
            if report is not None:
                out.say(f"Report:  {result.report(report)}")
            if stop is not None:
                raise typer.Exit(stop.code)
            journal.finish()


def _again(study: Path, *values: object) -> str:
    """The command that resumes this one."""
    names = (
        "--rounds",
        "--replicates",
        "--jobs",
        "--engine",
        "--address",
        "--json",
        "--report",
        "--data",
    )
    given = [(name, value) for name, value in zip(names, values, strict=True) if value is not None]
    options = [str(part) for option in given for part in option]
    return shlex.join(["discreet", "run", str(study), *options, "--resume"])


data_app = typer.Typer(help="The problems that a study file can name.", no_args_is_help=True)


@data_app.command("list")
def data_list() -> None:
    """The problems that a study file can name."""
    from discreet.lab.environments.catalog import entries

    table = Table("name", "people", "what", box=None, pad_edge=False)
    for entry in entries():
        people = "any" if entry.people is None else f"{entry.people:,}"
        table.add_row(entry.name, people, plain(entry.description))
    out.print(table)
    out.print("discreet data show NAME lists columns, arms and options.")


@data_app.command("show")
def data_show(
    name: Annotated[str, typer.Argument(help="A name from `discreet data list`.")],
) -> None:
    """Columns with their public bounds, arms, options and source of one problem."""
    from discreet.lab.environments.catalog import find_entry

    with reporting_errors():
        entry = find_entry(name)
    out.print(f"[bold]{entry.name}[/]: {plain(entry.description)}")
    out.print(f"Source: {plain(str(entry.source))}")
    if entry.columns:
        table = Table("column", "from", "to", "values", box=None, pad_edge=False)
        for column in entry.columns:
            values = ", ".join(column.values) or (
                "any" if column.levels is None else f"{column.levels} equally spaced values"
            )
            bounds = ("", "") if column.values else (f"{column.lower:g}", f"{column.upper:g}")
            table.add_row(column.name, *bounds, values)
        out.print(table)
    if entry.arms:
        out.print(f"Arms: {plain(entry.arms_line)}")
    for option, default, meaning in entry.option_lines():
        out.print(f"  [bold]{option}[/] ({plain(str(default))}): {plain(meaning)}")
