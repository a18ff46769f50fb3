"""The findings of an audit as a table for the terminal, with what they mean in a few sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich import box
from rich.table import Table

from discreet.audit.runner import Finding
from discreet.records import AuditRecord
from discreet.reporting.table import ABSENT

_COLORS = {
    "holds": "green",
    "caught": "green",
    "BROKEN": "bold red",
    "NOT CAUGHT": "bold red",
    "not audited": "dim",
}
_HEADINGS = {
    "mechanism": "Mechanisms",
    "learner": "Learners",
    "specimen": "Broken on purpose",
}
_BOUNDS = {"counts": "counts", "gaussian": "Gaussian", "exact": "exact", "none": ABSENT}


def audit_table(findings: Sequence[Finding]) -> Table:
    """One row for each check, in groups: promise, lower bound, verdict."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.collapse_padding = True
    table.add_column("audited", vertical="bottom", overflow="fold")
    table.add_column("trust\nmodel", vertical="bottom", no_wrap=True)
    for name in ("epsilon\nheld", "delta", "lower\nbound"):
        table.add_column(name, justify="right", no_wrap=True, vertical="bottom")
    table.add_column("by", vertical="bottom", no_wrap=True)
    table.add_column("verdict", vertical="bottom", no_wrap=True)
    kind = None
    for finding in findings:
        if finding.kind != kind:
            table.add_section()
            table.add_row(f"[bold]{_HEADINGS[finding.kind]}[/]")
            kind = finding.kind
        table.add_row(*_cells(finding))
    return table


def _cells(finding: Finding) -> list[str]:
    claim = finding.claim
    numbers = [ABSENT] * 3
    if claim is not None:
        delta = "0" if claim.delta == 0.0 else f"{claim.delta:g}"
        numbers = [f"{claim.epsilon:.3g}", delta, _bound(finding.epsilon)]
    verdict = f"[{_COLORS[finding.verdict]}]{finding.verdict}[/]"
    return [finding.name, finding.trust_model, *numbers, _BOUNDS[finding.bound], verdict]


def _bound(epsilon: float) -> str:
    return "infinite" if math.isinf(epsilon) else f"{epsilon:.2f}"


def audit_note(findings: Sequence[Finding], confidence: float) -> str:
    """What the columns mean, and with which confidence they hold."""
    tried = [finding for finding in findings if finding.trials]
    text = (
        "Epsilon held: what the certificate says, or what a broken design claims. Lower bound: the "
        "epsilon at the same delta that the attack proves there must be at least; a bound above "
        "the certificate breaks it."
    )
    if tried:
        each = 100.0 * tried[0].confidence
        most, least = max(one.trials for one in tried), min(one.trials for one in tried)
        fewest = "" if most == least else f", down to {least:,} where each is a whole run"
        text += (
            f" All verdicts hold together with {100.0 * confidence:g}% confidence: each of the "
            f"{len(tried)} checks that are decided by trials has {each:.4g}% (Bonferroni). Trials "
            f"on each of two neighbouring data sets: {most:,}{fewest}. By counts of guesses "
            "(Clopper-Pearson), for any mechanism; Gaussian: the same counts, for a promise of "
            "Gaussian noise; exact: all outcomes of the code."
        )
    return text


def audit_reasons(findings: Sequence[Finding]) -> list[str]:
    """Why something was not audited, and how something was broken or missed; a line each."""
    return [
        f"{finding.name}: {finding.verdict}. {finding.attack}"
        for finding in findings
        if finding.failed or finding.verdict == "not audited"
    ]


def audit_verdict(findings: Sequence[Finding]) -> str:
    """The outcome in one sentence."""
    honest = [one for one in findings if one.verdict in ("holds", "BROKEN")]
    broken = sum(one.verdict == "BROKEN" for one in honest)
    specimens = [one for one in findings if one.verdict in ("caught", "NOT CAUGHT")]
    caught = sum(one.verdict == "caught" for one in specimens)
    parts = []
    if honest:
        parts.append(
            f"{len(honest) - broken} of {len(honest)} promises withstood their attack"
            + (f", {broken} BROKEN" if broken else "")
        )
    if specimens:
        parts.append(f"{caught} of {len(specimens)} broken designs were caught")
    missing = sum(one.verdict == "not audited" for one in findings)
    if missing:
        parts.append(f"{missing} not audited")
    return "; ".join(parts) + "."


def audit_records(findings: Sequence[Finding], confidence: float) -> list[AuditRecord]:
    """One record for each finding."""
    return [
        AuditRecord(
            name=one.name,
            kind=one.kind,
            trust_model=one.trust_model,
            verdict=one.verdict,
            epsilon=None if one.claim is None else one.claim.epsilon,
            delta=None if one.claim is None else one.claim.delta,
            lower_bound=None if one.claim is None else one.epsilon,
            bound=one.bound,
            attack=one.attack,
            trials=one.trials,
            true_positive_rate=one.true_positive_rate,
            false_positive_rate=one.false_positive_rate,
            confidence=one.confidence,
            overall_confidence=confidence,
        )
        for one in findings
    ]
