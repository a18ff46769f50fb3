"""The report of an audit: one HTML file (page.py) for the person who decides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from discreet.audit.runner import Finding
from discreet.reporting.audit_figure import audit_figure
from discreet.reporting.audits import HEADINGS, audit_cells, audit_note, audit_verdict
from discreet.reporting.page import image, render, write_page

_HEADS = ("", "trust model", "promised", "delta", "exact replay", "by trials", "verdict")
_CAPTION = (
    "A bar is what is promised, a dot what exact replay measured for the worst neighbours, a ring "
    "what trials proved. Dots of honest code lie at their bars or left of them; those of designs "
    "that are broken on purpose must lie right of them, or the audit would miss the like."
)


def write_audit_report(
    name: str, findings: Sequence[Finding], confidence: float, path: Path
) -> None:
    """Write the report; the file appears whole or not at all."""
    write_page(render_audit_report(name, findings, confidence), path)


def render_audit_report(name: str, findings: Sequence[Finding], confidence: float) -> str:
    """The report as HTML.

    Args:
        name: what was audited, as it was asked for.
        findings: of the audit.
        confidence: with which all verdicts of trials hold together.
    """
    figure, alt = audit_figure(findings), f"Promises and findings: {audit_verdict(findings)}"
    audited = [one for one in findings if one.claim is not None]
    return render(
        "audit.html.j2",
        name=name,
        promises=sum(one.kind != "specimen" for one in audited),
        specimens=sum(one.kind == "specimen" for one in audited),
        answer=audit_verdict(findings),
        alert=_alert(findings),
        figure=image(figure, figure, alt),
        caption=_CAPTION,
        heads=_HEADS,
        groups=_groups(findings),
        note=audit_note(findings, confidence),
        attacks=[_attack(one) for one in audited],
        unaudited=[f"{one.name}: {one.fault}" for one in findings if one.claim is None],
    )


def _alert(findings: Sequence[Finding]) -> str:
    """What must not be deployed as it is; empty if nothing."""
    broken = [one.name for one in findings if one.failed]
    if not broken:
        return ""
    return f"Do not rely on these promises before the reason is known: {', '.join(broken)}."


def _groups(findings: Sequence[Finding]) -> list[dict[str, object]]:
    """The rows of each kind."""
    return [
        {
            "title": title,
            "rows": [
                {"cells": audit_cells(one), "failed": one.failed}
                for one in findings
                if one.kind == kind
            ],
        }
        for kind, title in HEADINGS.items()
        if any(one.kind == kind for one in findings)
    ]


def _attack(one: Finding) -> dict[str, object]:
    """How one promise was attacked."""
    assert one.claim is not None
    facts = [("What", one.about), ("Exact replay", one.replayed)]
    if one.fault:
        facts.append(("What breaks it", one.fault))
    if one.trials:
        sure = f"{one.trials:,} on each, {100.0 * one.confidence:.5g}% confidence"
        facts += [
            ("Trials", f"{one.attack}; {sure}"),
            (
                "Guesses",
                f"the first recognised in {one.true_positive_rate:.1%}, the second taken for it in "
                f"{one.false_positive_rate:.1%}",
            ),
        ]
    promise = f"epsilon = {one.claim.epsilon:.4g}, delta = {one.claim.delta:g}"
    if math.isfinite(one.claim.epsilon) and one.claim.epsilon > 0.0:
        facts.insert(0, ("Promised", promise))
    return {"name": one.name, "verdict": one.verdict, "facts": [one for one in facts if one[1]]}
