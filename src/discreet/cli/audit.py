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
    check_ending,
    cores,
    err,
    out,
    plain,
    progress,
    refusing,
)
from discreet.records import write_records
from discreet.validation import InvalidInput

if TYPE_CHECKING:
    from discreet.audit.games import Check


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
            min=1, help="Trials on each of two neighbouring data sets; whole runs get a 200th."
        ),
    ] = TRIALS,
    confidence: Annotated[
        float, typer.Option(help="With which all verdicts hold together.")
    ] = CONFIDENCE,
    seed: Annotated[int, typer.Option(min=0, help="Of everything that is drawn.")] = SEED,
    jobs: JobsOption = None,
    json: RecordsOption = None,
    plot: PlotOption = None,
    data: DataOption = None,
) -> None:
    """Try to break every promise: lower bounds on epsilon beside the certified ones.

    Ends with exit code 1 if a promise is broken, or a design that is broken on purpose not caught.
    """
    with refusing():
        check_ending(json, ".jsonl", ".json", ".parquet")
        check_ending(plot, ".png")
        checks = _checks(name, data)
        stream = run_audit(checks, trials, confidence, seed, jobs or cores())
        findings = _findings(stream, steps(checks, trials))
    # Matplotlib takes a second to import: only a run that got here needs it.
    from discreet.reporting.audits import (
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
        out.print(plain(line), highlight=False)
        out.print()
    out.print(plain(audit_note(findings, confidence)), highlight=False)
    out.print()
    out.print(f"[bold]{plain(audit_verdict(findings))}[/]", highlight=False)
    if json is not None:
        write_records(audit_records(findings, confidence), json)
        out.print(plain(f"Records: {json}"), highlight=False)
    if plot is not None:
        from discreet.reporting.audit_figure import audit_figure
        from discreet.reporting.reproduction import save_figure

        save_figure(audit_figure(findings), plot)
        out.print(plain(f"Figure:  {plot}"), highlight=False)
    if any(finding.failed for finding in findings):
        raise typer.Exit(1)


def _checks(name: str, folder: Path | None) -> list[Check]:
    """The checks of a name, or of the private learners of a study."""
    if not name.endswith(".toml"):
        from discreet.audit.catalog import checks_named

        return checks_named(name)
    from discreet.audit.learners import deployed_check
    from discreet.studies import load_study

    study = load_study(Path(name), data_dir=folder)
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
        raise InvalidInput(f"the study file {name} has no private learner, so nothing to audit.")
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
        except KeyboardInterrupt as stopped:
            err.print("Interrupted: verdicts need all trials, so nothing is shown.")
            raise typer.Exit(130) from stopped
    return findings
