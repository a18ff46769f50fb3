"""`discreet audit`: attacks on every promise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.audit import CONFIDENCE, SEED, TRIALS
from discreet.cli import STOPPED, stop_of
from discreet.cli.console import (
    FIGURE,
    PAGE,
    RECORDS,
    DataOption,
    JobsOption,
    PlotOption,
    RecordsOption,
    check_outputs,
    cores,
    err,
    out,
    reporting_errors,
    write_results,
)
from discreet.cli.service import refusing_service
from discreet.lab.results.screen import plain
from discreet.records import Finding
from discreet.validation import InvalidInput

if TYPE_CHECKING:
    from discreet.audit.checks import Check
    from discreet.lab.studies import Study


_NO_PROMISE = "no promise"


def audit(
    name: Annotated[
        str,
        typer.Argument(
            help="all; mechanisms, learners, surfaces or known-broken; a learner (module:Class for "
            "your own), mechanism or surface; service, for what others see of `discreet serve`; or "
            "a study file (.toml), for what that study would deploy."
        ),
    ],
    trials: Annotated[
        int,
        typer.Option(
            min=0,
            help="Whole runs on each of two neighbouring data sets; 0 for exact replay alone.",
        ),
    ] = TRIALS,
    report: Annotated[
        Path | None, typer.Option(help="File for the report (one HTML file), for who decides.")
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="Confidence that all verdicts hold together.")
    ] = CONFIDENCE,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything that is drawn.")] = SEED,
    jobs: JobsOption = None,
    json: RecordsOption = None,
    plot: PlotOption = None,
    data: DataOption = None,
    details: Annotated[
        bool, typer.Option("--details", help="A row for each of many checks.")
    ] = False,
) -> None:
    """Try to break every promise, by exact replay and by trials.

    Ends with exit code 1 if a promise is broken or was not audited in every state, if nothing was
    audited, or if a known-broken design is not caught.
    """
    with reporting_errors():
        checks, study = _checks(name, data)
        inputs = () if study is None else study.files
        check_outputs([(json, RECORDS), (plot, FIGURE), (report, PAGE)], inputs)
        findings = _findings(checks, trials, confidence, seed, jobs or cores())
    # Matplotlib takes a second to import: only a run that got here needs it.
    from discreet.lab.reporting.audit import (
        audit_figure,
        audit_note,
        audit_reasons,
        audit_table,
        audit_verdict,
        write_audit_report,
    )
    from discreet.lab.reporting.provenance import provenance, provenance_of_seed

    out.print()
    out.print(audit_table(findings, details))
    out.print()
    for line in (*audit_reasons(findings), audit_note(findings, confidence)):
        out.print(plain(line))
        out.print()
    out.print(f"[bold]{plain(audit_verdict(findings))}[/]")
    with reporting_errors():
        origin = provenance_of_seed(name, seed) if study is None else provenance(study)
        write_results(json, origin.stamped(findings), plot, lambda: audit_figure(findings))
        if report is not None:
            write_audit_report(name, findings, confidence, report, origin)
            out.print(plain(f"Report:  {report}"))
    if any(one.failed for one in findings) or {one.verdict for one in findings} <= {_NO_PROMISE}:
        raise typer.Exit(1)


def vectors(
    folder: Annotated[Path, typer.Argument(help="Folder for the files; made if need be.")],
    cases: Annotated[
        int, typer.Option(min=1, help="Decisions and reports of each learner, about.")
    ] = 1_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything that is drawn.")] = 0,
) -> None:
    """Write test vectors for clients of a service in other languages.

    Decisions and reports for given coins, and policies to be refused; docs/format.md.
    """
    from discreet.audit.vectors import write_vectors

    with refusing_service():  # it encrypts reports for a shuffler
        written = write_vectors(folder, cases, seed)
    for name, count in written.items():
        out.say(f"{name}.json: {count:,} cases")


def _checks(name: str, folder: Path | None) -> tuple[list[Check], Study | None]:
    """What a name means, and the study that it is read from, if it is one."""
    from discreet.audit.runner import SERVICE, checks_named

    if name == SERVICE:
        with refusing_service():
            return checks_named(name), None
    if not name.endswith(".toml"):
        return checks_named(name), None
    from discreet.audit.learners import deployed_check
    from discreet.lab.studies import load_study

    study = load_study(Path(name), data_dir=folder)
    checks = [
        deployed_check(setting, study.problem, study.rounds)
        for setting in study.settings
        if setting.private
    ]
    if not checks:
        raise InvalidInput(
            f"the study file {study.files[0]} has no private learner, so nothing to audit."
        )
    return checks, study


def _findings(
    checks: list[Check], trials: int, confidence: float, seed: int, jobs: int
) -> Sequence[Finding]:
    from discreet.audit.runner import audit as run_audit
    from discreet.audit.runner import steps

    findings: list[Finding] = []
    stream = run_audit(checks, trials, confidence, seed, jobs)
    with err.progress() as bar:
        task = bar.add_task("Preparing", total=steps(checks, trials))
        try:
            for step in stream:
                if isinstance(step, Finding):
                    findings.append(step)
                else:
                    bar.update(task, advance=1, description=step)
        except STOPPED as error:
            stop = stop_of(error)
            err.print(f"{stop.word}: verdicts need all trials, so nothing is shown.")
            raise typer.Exit(stop.code) from error
    return findings
