"""`discreet run`: simulate a study file.

What the run needs is imported when it is called: its help needs none of it.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.console import (
    DataOption,
    JobsOption,
    RecordsOption,
    cores,
    err,
    out,
    plain,
    refusing,
)
from discreet.cli.outputs import PAGE, RECORDS, check_outputs
from discreet.records import write_records

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
    from discreet.cli.journal import open_journal
    from discreet.cli.running import simulate_study
    from discreet.studies import load_study

    outputs = ((json, RECORDS), (report, PAGE))
    with refusing():
        loaded = load_study(study, rounds, replicates, data)
        check_outputs(outputs, loaded.files)
        for warning in loaded.warnings:
            err.print(plain(f"Warning: {warning}"))
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
            _write(loaded, outcomes, json, report)
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
    from discreet.reporting.words import promise, result_table, verdict

    summary = study_summary(study, outcomes)
    answer = verdict(summary, study.problem)
    out.print()
    out.print(f"[bold]{plain(study.title)}[/]")
    out.print(plain(_what(study)))
    if study.problem.rows is not None:
        out.print(plain(f"{study.problem.rows.sentence}."))
    out.print()
    out.print(f"[bold]{plain(answer.headline)}[/]")
    for text in (*answer.findings, answer.basis):
        out.print(plain(text))
    out.print()
    out.print(result_table(summary))
    out.print()
    out.print(plain(promise(summary)))
    out.print()


def _write(
    study: Study, outcomes: Sequence[Outcome], json: Path | None, report: Path | None
) -> None:
    """The files that were asked for."""
    if json is not None:
        write_records([outcome.record for outcome in outcomes], json)
        out.print(plain(f"Records: {json}"))
    if report is not None:
        # Matplotlib and Jinja2 take a second to import.
        from discreet.reporting.report import write_report

        write_report(study, outcomes, report)
        out.print(plain(f"Report:  {report}"))


def _what(study: Study) -> str:
    return (
        f"{study.problem.source} {study.rounds:,} people, {study.replicates} "
        f"replicate{'s' if study.replicates > 1 else ''}; {study.problem.offer}."
    )
