"""`discreet audit`: attacks on every promise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.audit.runner import CONFIDENCE, SEED, TRIALS, Finding, steps
from discreet.audit.runner import audit as run_audit
from discreet.cli.console import (
    DataOption,
    JobsOption,
    PlotOption,
    RecordsOption,
    cores,
    err,
    out,
    plain,
    progress,
    refusing,
)
from discreet.cli.outputs import FIGURE, PAGE, RECORDS, check_outputs, write_results
from discreet.cli.stopping import STOPPED, stop_of
from discreet.validation import InvalidInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from discreet.audit.games import Check
    from discreet.studies import Study


def audit(
    name: Annotated[
        str,
        typer.Argument(
            help="all; mechanisms, learners or specimens; a learner or mechanism; or a study file "
            "(.toml), for what that study would deploy."
        ),
    ],
    trials: Annotated[
        int,
        typer.Option(
            min=0,
            help="Trials on each of two neighbouring data sets; whole runs get a 500th. 0 for "
            "exact replay alone.",
        ),
    ] = TRIALS,
    confidence: Annotated[
        float, typer.Option(help="Confidence that all verdicts hold together.")
    ] = CONFIDENCE,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything that is drawn.")] = SEED,
    jobs: JobsOption = None,
    json: RecordsOption = None,
    plot: PlotOption = None,
    report: Annotated[
        Path | None, typer.Option(help="File for the report (one HTML file), for who decides.")
    ] = None,
    data: DataOption = None,
) -> None:
    """Try to break every promise: by exact replay on neighbours, and by trials.

    Ends with exit code 1 if a promise is broken or cannot be audited, or if a design that is broken
    on purpose is not caught.
    """
    with refusing():
        study = _study(name, data)
        outputs = [(json, RECORDS), (plot, FIGURE), (report, PAGE)]
        check_outputs(outputs, () if study is None else study.files)
        checks = _named(name) if study is None else _deployed(study)
        stream = run_audit(checks, trials, confidence, seed, jobs or cores())
        findings = _findings(stream, steps(checks, trials))
    # Matplotlib takes a second to import: only a run that got here needs it.
    from discreet.reporting.audit import (
        audit_note,
        audit_reasons,
        audit_records,
        audit_table,
        audit_verdict,
    )

    out.print()
    out.print(audit_table(findings))
    out.print()
    for line in audit_reasons(findings):
        out.print(plain(line))
        out.print()
    out.print(plain(audit_note(findings, confidence)))
    out.print()
    out.print(f"[bold]{plain(audit_verdict(findings))}[/]")
    with refusing():
        write_results(json, audit_records(findings, confidence), plot, lambda: _figure(findings))
        if report is not None:
            from discreet.reporting.audit import write_audit_report

            write_audit_report(name, findings, confidence, report)
            out.print(plain(f"Report:  {report}"))
    if any(finding.failed for finding in findings):
        raise typer.Exit(1)


def _study(name: str, folder: Path | None) -> Study | None:
    """The study of a name that is a file's."""
    if not name.endswith(".toml"):
        return None
    from discreet.studies import load_study

    return load_study(Path(name), data_dir=folder)


def _named(name: str) -> list[Check]:
    from discreet.audit.catalog import checks_named

    return checks_named(name)


def _figure(findings: Sequence[Finding]) -> Figure:
    from discreet.reporting.audit import audit_figure

    return audit_figure(findings)


def _deployed(study: Study) -> list[Check]:
    """The checks of what a study's private learners would deploy."""
    from discreet.audit.learners import deployed_check

    made = [
        deployed_check(
            setting.label,
            setting.learner,
            study.problem.domain,
            study.problem.space,
            setting.budget,
            setting.options,
            study.problem.reward_bounds,
            study.rounds,
        )
        for setting in study.settings
        if setting.private
    ]
    if not made:
        raise InvalidInput(
            f"the study file {study.files[0]} has no private learner, so nothing to audit."
        )
    return made


def _findings(stream: Iterator[Finding | str], total: int) -> Sequence[Finding]:
    findings: list[Finding] = []
    with progress() as bar:
        task = bar.add_task("Preparing", total=total)
        try:
            for one in stream:
                if isinstance(one, Finding):
                    findings.append(one)
                else:
                    bar.update(task, advance=1, description=one)
        except STOPPED as error:
            stop = stop_of(error)
            err.print(f"{stop.word}: verdicts need all trials, so nothing is shown.")
            raise typer.Exit(stop.code) from error
    return findings
