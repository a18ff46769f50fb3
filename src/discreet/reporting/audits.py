"""The findings of an audit as a table for the terminal, with what they mean in a few sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich import box
from rich.table import Table

from discreet.audit.runner import WEAK, Finding
from discreet.records import AuditRecord
from discreet.reporting.table import ABSENT

_COLORS = {
    "holds": "green",
    "caught": "green",
    "BROKEN": "bold red",
    "NOT CAUGHT": "bold red",
    "FAILED": "bold red",
    "too weak to tell": "yellow",
    "not audited": "dim",
}
HEADINGS = {
    "mechanism": "Mechanisms",
    "learner": "Learners",
    "specimen": "Broken on purpose",
}


def audit_table(findings: Sequence[Finding]) -> Table:
    """One row for each check, in groups: promise, exact replay, trials, verdict."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.collapse_padding = True
    table.add_column("audited", vertical="bottom", overflow="fold")
    table.add_column("trust\nmodel", vertical="bottom", no_wrap=True)
    for name in ("epsilon\npromised", "delta", "exact\nreplay", "by\ntrials"):
        table.add_column(name, justify="right", no_wrap=True, vertical="bottom")
    table.add_column("verdict", vertical="bottom", no_wrap=True)
    kind = None
    for finding in findings:
        if finding.kind != kind:
            table.add_section()
            table.add_row(f"[bold]{HEADINGS[finding.kind]}[/]")
            kind = finding.kind
        *cells, verdict = audit_cells(finding)
        table.add_row(*cells, f"[{_COLORS[verdict]}]{verdict}[/]")
    return table


def audit_cells(finding: Finding) -> list[str]:
    """Name, trust model, promise, delta, exact replay, trials and verdict of a finding."""
    claim, numbers = finding.claim, [ABSENT] * 4
    if claim is not None and claim.epsilon > 0.0:
        delta = "0" if claim.delta == 0.0 else f"{claim.delta:g}"
        trials = _bound(finding.epsilon, 2)
        numbers = [f"{claim.epsilon:.4g}", delta, _bound(finding.exact, 3), trials]
        if finding.weak:
            numbers[3] += " weak"
    return [finding.name, finding.trust_model, *numbers, finding.verdict]


def _bound(epsilon: float, digits: int) -> str:
    if math.isnan(epsilon):
        return ABSENT
    return "infinite" if math.isinf(epsilon) else f"{epsilon:.{digits}f}"


def audit_note(findings: Sequence[Finding], confidence: float) -> str:
    """What the columns mean, and with which confidence they hold."""
    tried = [finding for finding in findings if finding.trials]
    text = (
        "Promised: the smaller of the budget and the certificate, or what a broken design claims. "
        "Exact replay: the epsilon at the same delta of the worst neighbours that were found, from "
        "what the code handed to its noise on both; nothing but the noise may differ. No chance is "
        "in it."
    )
    if tried:
        each = 100.0 * tried[0].confidence
        most, least = max(one.trials for one in tried), min(one.trials for one in tried)
        fewest = "" if most == least else f", down to {least:,} where each is a whole run"
        text += (
            " By trials: the least epsilon that counts of guesses prove, with "
            f"{100.0 * confidence:g}% confidence for all together; each of the {len(tried)} that "
            f"were tried has {each:.5g}% (Bonferroni). Trials on each of two neighbouring data "
            f"sets: {most:,}{fewest}. Weak: less than {WEAK:.0%} of the promise, so the trials say "
            "little."
        )
    return text + " That a promise holds here is no proof: other neighbours may be worse."


def audit_reasons(findings: Sequence[Finding]) -> list[str]:
    """Why something was not audited, and how something was broken or missed; a line each."""
    lines = []
    for one in findings:
        if one.failed or one.verdict == "not audited":
            ways = [one.fault, one.replayed and f"Replayed: {one.replayed}", one.attack]
            told = ". ".join(way.rstrip(".") for way in ways if way)
            lines.append(f"{one.name}: {one.verdict}. {told}.")
    return lines


def audit_verdict(findings: Sequence[Finding]) -> str:
    """The outcome in one sentence."""

    def count(*verdicts: str) -> int:
        return sum(one.verdict in verdicts for one in findings)

    honest, specimens = count("holds", "BROKEN"), count("caught", "NOT CAUGHT")
    parts = []
    if honest:
        broken = f", {count('BROKEN')} BROKEN" if count("BROKEN") else ""
        parts.append(f"{count('holds')} of {honest} promises withstood their attack{broken}")
    if specimens:
        parts.append(f"{count('caught')} of {specimens} broken designs were caught")
    if count("FAILED"):
        parts.append(f"{count('FAILED')} FAILED to be audited")
    if count("too weak to tell"):
        parts.append(f"{count('too weak to tell')} had trials too weak to tell")
    if count("not audited"):
        parts.append(f"{count('not audited')} not audited")
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
            exact=one.exact,
            replayed=one.replayed,
            fault=one.fault,
            lower_bound=one.epsilon,
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
