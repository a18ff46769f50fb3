"""`discreet run`: simulate a study file.

What the run needs is imported when it runs, so that its help comes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.console import (
    DataOption,
    check_ending,
    cores,
    err,
    out,
    plain,
    progress,
    refusing,
)
from discreet.records import as_json_line, write_records

if TYPE_CHECKING:
    from discreet.simulation import Outcome
    from discreet.studies import Study


def run(
    study: Annotated[Path, typer.Argument(help="A study file (TOML); see examples/.")],
    rounds: Annotated[
        int | None, typer.Option(min=1, help="People in each replicate, instead of the file's.")
    ] = None,
    replicates: Annotated[
        int | None, typer.Option(min=1, help="Replicates, instead of the file's.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes; all cores if left out.")
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option("--json", help="File for one record per line (.jsonl), or .parquet."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="File for the report (one HTML file).")
    ] = None,
    data: DataOption = None,
) -> None:
    """Simulate a study: what would each epsilon cost on these people?"""
    from discreet.studies import load_study

    with refusing():
        check_ending(json, ".jsonl", ".json", ".parquet")
        check_ending(report, ".html")
        loaded = load_study(study, rounds, replicates, data)
        for warning in loaded.warnings:
            err.print(plain(f"Warning: {warning}"), highlight=False)
        outcomes, complete = _simulate(loaded, jobs or cores(), json)
    if not outcomes:
        err.print("Interrupted before any replicate was finished; nothing was written.")
        raise typer.Exit(130)
    # Matplotlib and Jinja2 take a second to import: only a run that got here needs them.
    from discreet.reporting.summary import study_summary
    from discreet.reporting.table import promise, result_table
    from discreet.reporting.words import verdict

    summary = study_summary(loaded, outcomes)
    answer = verdict(summary, loaded.problem)
    out.print()
    out.print(f"[bold]{plain(loaded.title)}[/]", highlight=False)
    out.print(plain(_what(loaded)), highlight=False)
    if loaded.problem.rows is not None:
        out.print(plain(f"{loaded.problem.rows.sentence}."), highlight=False)
    out.print()
    out.print(f"[bold]{plain(answer.headline)}[/]", highlight=False)
    for text in (*answer.findings, answer.basis):
        out.print(plain(text), highlight=False)
    out.print()
    out.print(result_table(summary))
    out.print()
    out.print(plain(promise(summary)), highlight=False)
    out.print()
    if json is not None:
        write_records([outcome.record for outcome in outcomes], json)
        out.print(plain(f"Records: {json}"), highlight=False)
    if report is not None:
        from discreet.reporting.html import write_report

        write_report(loaded, outcomes, report)
        out.print(plain(f"Report:  {report}"), highlight=False)
    if not complete:
        total = len(loaded.settings) * loaded.replicates
        err.print(f"Interrupted: shown is what was finished ({len(outcomes)} of {total} runs).")
        raise typer.Exit(130)


def _what(study: Study) -> str:
    return (
        f"{study.problem.source} {study.rounds:,} people, {study.replicates} "
        f"replicate{'s' if study.replicates > 1 else ''}; {study.problem.offer}."
    )


def _simulate(study: Study, jobs: int, json: Path | None) -> tuple[list[Outcome], bool]:
    """Outcomes in the study's order, and whether they are all there.

    JSON lines are written to a `.part` file as they come, so that even a killed run leaves what was
    finished, and an earlier result stays until there is a new one.
    """
    from discreet.simulation import simulate_all

    total = len(study.settings) * study.replicates
    outcomes: list[Outcome] = []
    complete = True
    bar = progress()
    stream = simulate_all(
        study.problem,
        study.settings,
        study.rounds,
        study.replicates,
        study.seed,
        min(jobs, total),
        study.name,
    )
    with _line_writer(json) as write, bar:
        task = bar.add_task("Simulating", total=total)
        try:
            for outcome in stream:
                outcomes.append(outcome)
                write(outcome)
                bar.update(task, advance=1, description=outcome.record.label)
        except KeyboardInterrupt:
            complete = False
    order = {setting.label: place for place, setting in enumerate(study.settings)}
    outcomes.sort(key=lambda one: (order[one.setting.label], one.record.replicate))
    return outcomes, complete


@contextmanager
def _line_writer(path: Path | None) -> Iterator[Callable[[Outcome], None]]:
    """Writes records as they come to `path`.part; `write_records` then makes the whole file."""
    if path is None or path.suffix == ".parquet":
        yield lambda outcome: None
        return
    part = path.with_name(path.name + ".part")
    with part.open("w", encoding="utf-8") as file:

        def write(outcome: Outcome) -> None:
            file.write(as_json_line(outcome.record) + "\n")
            file.flush()

        yield write
    part.unlink()
