"""`discreet run`: simulate a study file."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.console import (
    STOPPED,
    DataOption,
    JobsOption,
    RecordsOption,
    Stop,
    cores,
    err,
    out,
    plain,
    refusing,
    stop_of,
)
from discreet.cli.journal import Journal, open_journal
from discreet.cli.outputs import PAGE, RECORDS, check_outputs
from discreet.cli.progress import StudyProgress
from discreet.records import write_records
from discreet.simulation import Outcome, expected_seconds, simulate_all
from discreet.studies import Study, load_study

Replicate = tuple[str, int]  # a setting's label, and which replicate of it


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
    outputs = ((json, RECORDS), (report, PAGE))
    with refusing():
        loaded = load_study(study, rounds, replicates, data)
        check_outputs(outputs, loaded.files)
        for warning in loaded.problem.warnings:
            err.print(plain(f"Warning: {warning}"))
        with open_journal(study, loaded, resume) as journal:
            outcomes, stop = _simulate(loaded, jobs or cores(), journal)
            if stop is not None and not outcomes:
                err.print(f"{stop.word} before any replicate was finished; nothing was written.")
                raise typer.Exit(stop.code)
            _show(loaded, outcomes)
            if stop is not None:
                total = len(loaded.settings) * loaded.replicates
                done = f"{stop.word}: shown is what was finished ({len(outcomes)} of {total} runs)."
                again = shlex.join(_again(study, rounds, replicates, jobs, json, report, data))
                # A command that is broken into lines could not be pasted.
                err.print(plain(f"{done}\n{journal.stopped(again)}"), soft_wrap=True)
            check_outputs(outputs, loaded.files)
            _write(loaded, outcomes, json, report)
            if stop is not None:
                raise typer.Exit(stop.code)
            journal.finish()


def _again(study: Path, *values: object) -> list[str]:
    """The command that goes on where this one was stopped."""
    names = ("--rounds", "--replicates", "--jobs", "--json", "--report", "--data")
    given = [(name, value) for name, value in zip(names, values, strict=True) if value is not None]
    options = [str(part) for option in given for part in option]
    return ["discreet", "run", str(study), *options, "--resume"]


def _simulate(study: Study, jobs: int, journal: Journal) -> tuple[list[Outcome], Stop | None]:
    """Outcomes in the study's order, and how the run was stopped, if it was."""
    outcomes = list(journal.outcomes)
    total = len(study.settings) * study.replicates
    if outcomes:
        err.print(f"Going on after {len(outcomes)} of {total} replicates.")
    done = [(outcome.record.label, outcome.record.replicate) for outcome in outcomes]
    stop = None
    try:
        expected = _cheapest_first(study, done, jobs)
        with StudyProgress(study, jobs, expected) as shown:
            for outcome in journal.outcomes:
                shown.add(outcome)
            for outcome in _missing(study, expected, done, jobs, journal.digest):
                outcomes.append(outcome)
                journal.add(outcome)
                shown.add(outcome)
    except STOPPED as error:
        stop = stop_of(error)
    order = {setting.label: place for place, setting in enumerate(study.settings)}
    outcomes.sort(key=lambda outcome: (order[outcome.setting.label], outcome.record.replicate))
    return outcomes, stop


def _cheapest_first(study: Study, done: Sequence[Replicate], jobs: int) -> dict[str, float]:
    """About how many seconds a replicate of each setting takes that is not done, in that order."""
    counts = Counter(label for label, _ in done)
    waiting = [one for one in study.settings if counts[one.label] < study.replicates]
    with err.status("Measuring how long the learners take"):
        seconds = expected_seconds(study.problem, waiting, study.rounds, study.seed, jobs)
    return dict(sorted(seconds.items(), key=lambda item: item[1]))


def _missing(
    study: Study, order: Iterable[str], done: Sequence[Replicate], jobs: int, digest: str
) -> Iterator[Outcome]:
    """The replicates that are not done, in the order in which they finish."""
    settings = {setting.label: setting for setting in study.settings}
    return simulate_all(
        study.problem,
        [settings[label] for label in order],
        study.rounds,
        study.replicates,
        study.seed,
        jobs,
        study.name,
        digest,
        done,
    )


def _show(study: Study, outcomes: Sequence[Outcome]) -> None:
    """The result as a table, and what is promised."""
    from discreet.reporting.summary import summarise
    from discreet.reporting.table import promise, result_table

    summary = summarise(outcomes, study.settings)
    out.print()
    out.print(f"[bold]{plain(study.title)}[/]")
    out.print(plain(_what(study)))
    if study.problem.rows is not None:
        out.print(plain(f"{study.problem.rows.sentence}."))
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
        # Matplotlib and Jinja2 take a second to import: only a run that got here needs them.
        from discreet.reporting.html import write_report

        write_report(study, outcomes, report)
        out.print(plain(f"Report:  {report}"))


def _what(study: Study) -> str:
    return (
        f"{study.problem.source} {study.rounds:,} people, {study.replicates} "
        f"replicate{'s' if study.replicates > 1 else ''}; {study.problem.offer}."
    )
