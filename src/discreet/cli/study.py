"""`discreet run`: simulate a study file; `discreet data`: the problems that it can name.

What the run needs is imported when it is called: its help needs none of it.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from discreet.cli.console import (
    PAGE,
    RECORDS,
    DataOption,
    JobsOption,
    RecordsOption,
    check_outputs,
    cores,
    err,
    out,
    plain,
    refusing,
    write_results,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from discreet.experiments import Outcome
    from discreet.studies import Study


def run(
    study: Annotated[Path, typer.Argument(help="A study file (TOML); see examples/.")],
    rounds: Annotated[
        int | None, typer.Option(min=1, help="People in each replicate, instead of the file's.")
    ] = None,
    replicates: Annotated[
        int | None, typer.Option(min=1, help="Replicates, instead of the file's.")
    ] = None,
    jobs: JobsOption = None,
    json: RecordsOption = None,
    report: Annotated[
        Path | None, typer.Option(help="File for the report (one HTML file).")
    ] = None,
    data: DataOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where an earlier run of the study stopped.")
    ] = False,
) -> None:
    """Simulate a study: what would each epsilon cost on these people?"""
    from discreet.cli.running import open_journal, simulate_study
    from discreet.studies import load_study

    outputs = ((json, RECORDS), (report, PAGE))
    with refusing():
        loaded = load_study(study, rounds, replicates, data)
        check_outputs(outputs, loaded.files)
        for warning in loaded.warnings:
            err.say(f"Warning: {warning}")
        with open_journal(study, loaded, resume) as journal:
            outcomes, stop = simulate_study(loaded, jobs or cores(), journal)
            if stop is not None and not outcomes:
                err.print(f"{stop.word} before any replicate was finished; nothing was written.")
                raise typer.Exit(stop.code)
            _show(loaded, outcomes)
            if stop is not None:
                total = len(loaded.settings) * loaded.replicates
                done = f"{stop.word}: this is what was finished ({len(outcomes)} of {total} runs)."
                again = _again(study, rounds, replicates, jobs, json, report, data)
                # A command that is broken into lines could not be pasted.
                err.print(plain(f"{done}\n{journal.stopped(again)}"), soft_wrap=True)
            check_outputs(outputs, loaded.files)
            write_results(json, [outcome.record for outcome in outcomes])
            if report is not None:
                # Matplotlib and Jinja2 take a second to import.
                from discreet.reporting.report import write_report

                write_report(loaded, outcomes, report)
                out.say(f"Report:  {report}")
            if stop is not None:
                raise typer.Exit(stop.code)
            journal.finish()


def _again(study: Path, *values: object) -> str:
    """The command that goes on where this one was stopped."""
    names = ("--rounds", "--replicates", "--jobs", "--json", "--report", "--data")
    given = [(name, value) for name, value in zip(names, values, strict=True) if value is not None]
    options = [str(part) for option in given for part in option]
    return shlex.join(["discreet", "run", str(study), *options, "--resume"])


def _show(study: Study, outcomes: Sequence[Outcome]) -> None:
    """The verdict, the result as a table, and what is promised."""
    from discreet.reporting.summary import study_summary
    from discreet.reporting.words import promise, remarks, result_table, verdict

    summary = study_summary(study, outcomes)
    answer = verdict(summary, study.problem)
    out.print()
    out.print(f"[bold]{plain(study.title)}[/]")
    out.say(
        f"{study.problem.source} {study.rounds:,} people, {study.replicates} "
        f"replicate{'s' if study.replicates > 1 else ''}; {study.problem.offer}."
    )
    if study.problem.rows is not None:
        out.say(f"{study.problem.rows.sentence}.")
    for choice in study.choices:
        out.say(choice)
    out.print()
    out.print(f"[bold]{plain(answer.headline)}[/]")
    for text in (*answer.findings, answer.basis):
        out.say(text)
    out.print()
    out.print(result_table(summary))
    out.print()
    said = remarks(outcomes)
    for text in said:
        out.say(text)
    if said:
        out.print()
    out.say(promise(summary))
    out.print()


data_app = typer.Typer(help="The problems that a study file can name.", no_args_is_help=True)


@data_app.command("list")
def data_list() -> None:
    """The problems that a study file can name."""
    from discreet.problems.catalog import entries

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
    from discreet.problems.catalog import find_entry

    with refusing():
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
