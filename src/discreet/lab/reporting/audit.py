"""What an audit found: a table and sentences for the terminal, a picture, and a page (page.py) for
the person who decides."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from rich.table import Table

from discreet.lab.reporting.figures import Axis, number_axis
from discreet.lab.reporting.layout import (
    BLUE,
    FAINT,
    INK,
    SMALL,
    VERMILLION,
    finish,
    legend_above,
    sheet,
)
from discreet.lab.reporting.numbers import ABSENT, counted
from discreet.lab.reporting.page import image, render, write_page
from discreet.lab.reporting.provenance import Provenance
from discreet.lab.reporting.words import terminal_table
from discreet.records import WEAK, Finding

# Inches of a line of the picture, and of one with its name above it.
_ROW, _TALL_ROW = 0.17, 0.34
_NAME = SMALL - 1.0
_WIDTH = 7.2
# Bounds below this share of the least promise are put at the left end.
_LEAST = 0.1
# An infinite bound is put beyond all others by this factor.
_BEYOND = 1.5
_MOST_ROWS = 20  # of the table on a terminal, where its details are not asked for
_TICKS = tuple(step * 10.0**power for power in range(-4, 5) for step in (1, 2, 5))
_COLORS = {
    "holds": "green",
    "caught": "green",
    "BROKEN": "bold red",
    "NOT CAUGHT": "bold red",
    "FAILED": "bold red",
    "not audited": "bold red",
    "no promise": "dim",
}
_HEADINGS = {
    "mechanism": "Mechanisms",
    "learner": "Learners",
    "surface": "Surfaces",
    "known-broken": "Broken on purpose",
}


def audit_table(findings: Sequence[Finding], details: bool = False) -> Table:
    """One row for each check, in groups; of many, those that hold are counted, without details."""
    heads = ("audited", "trust\nmodel", "epsilon\npromised", "delta", "exact\nreplay")
    left = ("audited", "trust\nmodel", "verdict")
    tried = any(finding.trials for finding in findings)
    trials = ("by\ntrials",) if tried else ()
    table = terminal_table((*heads, *trials, "verdict"), left, collapse_padding=True)
    each_one = details or len(findings) <= _MOST_ROWS
    for kind in dict.fromkeys(finding.kind for finding in findings):
        table.add_section()
        table.add_row(f"[bold]{_HEADINGS[kind]}[/]")
        alike: Counter[tuple[str, str]] = Counter()
        for finding in findings:
            if finding.kind != kind:
                continue
            *cells, proved, verdict = _cells(finding)
            if finding.failed or each_one:
                shown = [*cells, proved] if tried else cells
                table.add_row(*shown, f"[{_COLORS[verdict]}]{verdict}[/]")
            else:
                alike[finding.trust_model, verdict] += 1
        for (model, word), count in alike.items():
            empty = [""] * (len(table.columns) - 3)
            table.add_row(counted(count, "check"), model, *empty, f"[{_COLORS[word]}]{word}[/]")
    return table


def _cells(finding: Finding) -> list[str]:
    """Name, trust model, promise, delta, exact replay, trials and verdict of a finding."""
    numbers = [ABSENT] * 4
    if finding.epsilon > 0.0:
        delta = "0" if finding.delta == 0.0 else f"{finding.delta:g}"
        trials = _bound(finding.lower_bound, 2)
        numbers = [f"{finding.epsilon:.4g}", delta, _bound(finding.exact, 3), trials]
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
        trials = [finding.trials for finding in tried]
        text += (
            " By trials: the least epsilon that counts of guesses prove, with "
            f"{100.0 * confidence:g}% confidence for all together; each of the {len(tried)} that "
            f"were tried has {100.0 * tried[0].confidence:.5g}% (Bonferroni). Trials on each of "
            f"two neighbouring data sets: {max(trials):,}, each a whole run. "
            f"Weak: less than {WEAK:.0%} of the promise, so the trials say little."
        )
    return text + " That a promise holds here is no proof: other neighbours may be worse."


def audit_reasons(findings: Sequence[Finding]) -> list[str]:
    """What was broken, missed or not audited, and why; a line for each reason."""
    names: dict[str, list[str]] = {}
    for finding in findings:
        if not finding.failed:
            continue
        ways = [finding.fault]
        if finding.verdict != "not audited":
            ways += [finding.replayed and f"Replayed: {finding.replayed}", finding.attack]
        reason = ". ".join(way.rstrip(".") for way in ways if way)
        if not reason.startswith(finding.verdict):  # as "not audited under SecureNoise" does
            reason = f"{finding.verdict}. {reason}"
        names.setdefault(f"{reason}.", []).append(finding.name)
    return [f"{'; '.join(named)}: {reason}" for reason, named in names.items()]


def audit_verdict(findings: Sequence[Finding]) -> str:
    """The outcome in one sentence."""

    count = Counter(finding.verdict for finding in findings)
    honest, specimens = count["holds"] + count["BROKEN"], count["caught"] + count["NOT CAUGHT"]
    broken = f", {count['BROKEN']} BROKEN" if count["BROKEN"] else ""
    parts = [
        (honest, f"{count['holds']} of {honest} promises withstood their attack{broken}"),
        (specimens, f"{count['caught']} of {specimens} broken designs were caught"),
        (count["FAILED"], f"{count['FAILED']} FAILED to be audited"),
        (count["not audited"], f"{count['not audited']} NOT AUDITED"),
        (count["no promise"], f"{count['no promise']} promise nothing"),
    ]
    words = [text for number, text in parts if number]
    if all(finding.verdict == "no promise" for finding in findings):
        words.insert(0, "Nothing was audited")
    return "; ".join(words) + "."


def audit_figure(findings: Sequence[Finding], width: float = _WIDTH) -> Figure:
    """One line for each check: a bar at the promise, a dot at what exact replay measured, a ring at
    what trials proved, with verdict and trials.

    Honest checks are blue and their dots lie at their bars or left of them; broken designs are
    vermillion, and their dots lie right of what they claim. What was not audited is left out. Where
    the figure is narrow, names stand over their lines.
    """
    shown = [(finding, finding.epsilon) for finding in findings if 0.0 < finding.epsilon < 1e6]
    left, right = _ends(shown)
    narrow = width < 5.0
    figure, [[axes]] = sheet(width=width)
    for place, (finding, promise) in enumerate(shown):
        color = VERMILLION if finding.kind == "known-broken" else BLUE
        axes.plot(promise, place, "|", color=INK, markersize=10.0, markeredgewidth=1.6)
        for epsilon, face in ((finding.exact, color), (finding.lower_bound, "white")):
            if not math.isnan(epsilon):
                at = min(max(epsilon, left), right)
                axes.plot([promise, at], [place, place], color=color, linewidth=1.0, alpha=0.35)
                axes.plot(at, place, "o", color=color, markerfacecolor=face, markersize=4.0)
        trials = f", {finding.trials:,} trials" if finding.trials else ""
        words = f"{finding.verdict}{trials}"
        axes.annotate(
            f"{finding.name}: {words}" if narrow else words,
            (0.0 if narrow else 1.0, place),
            xycoords=("axes fraction", "data"),
            xytext=(0.0, 5.0) if narrow else (6.0, 0.0),
            textcoords="offset points",
            verticalalignment="bottom" if narrow else "center",
            fontsize=SMALL - 0.5 if narrow else _NAME,
            color=VERMILLION if finding.failed else INK,
        )
    kinds = [finding.kind for finding, _ in shown]
    for place in range(1, len(shown)):
        if kinds[place] != kinds[place - 1]:
            axes.axhline(place - (0.8 if narrow else 0.5), color=INK, linewidth=0.6)
    names = [] if narrow else [finding.name for finding, _ in shown]
    axes.set_yticks(range(len(names)), names, fontsize=_NAME)
    axes.set_ylim(len(shown) - 0.4, -0.9 if narrow else -0.6)
    axes.set_xscale("log")
    axes.set_xlim(left * 0.93, right * 1.12)
    ticks = [tick for tick in _TICKS if left * 0.93 <= tick <= right * 1.12]
    ticks = ticks if len(ticks) > 1 else sorted({promise for _, promise in shown})
    number_axis(axes.xaxis, Axis(ticks=ticks, names=[f"{tick:.4g}" for tick in ticks]))
    axes.set_xlabel("epsilon", fontsize=SMALL, color=INK)
    axes.grid(False)
    axes.grid(axis="x", color=FAINT, linewidth=0.6)
    axes.tick_params(length=0, colors=INK)
    axes.xaxis.set_tick_params(labeltop=len(shown) > 20, labelsize=SMALL)
    tried = any(finding.trials for finding, _ in shown)
    legend_above(figure, _keys(set(kinds), tried))
    return finish(figure, (_TALL_ROW if narrow else _ROW) * max(1, len(shown)) + 0.15)


def _ends(shown: Sequence[tuple[Finding, float]]) -> tuple[float, float]:
    """The least and the largest epsilon that the picture has room for."""
    promises = [promise for _, promise in shown] or [1.0]
    bounds = [bound for finding, _ in shown for bound in (finding.exact, finding.lower_bound)]
    finite = [bound for bound in bounds if math.isfinite(bound)]
    smallest = _LEAST * min(promises)
    least = max(smallest, min([*promises, *(bound for bound in finite if bound > 0.0)]))
    left = least if min([*finite, least]) >= least else smallest
    return left, max([*promises, *finite]) * (_BEYOND if math.inf in bounds else 1.0)


def _keys(kinds: set[str], tried: bool) -> list[Line2D]:
    """What a bar, a dot and, where there were trials, a ring are."""
    dot: dict[str, Any] = {"marker": "o", "linestyle": "", "markersize": 4}
    keys = [Line2D([], [], marker="|", color=INK, linestyle="", markersize=9, label="promised")]
    for color, label, there in (
        (BLUE, "", kinds - {"known-broken"}),
        (VERMILLION, ", of a design that is broken", kinds & {"known-broken"}),
    ):
        if there:
            keys.append(Line2D([], [], color=color, label=f"exact replay{label}", **dot))
            if tried:
                ring = Line2D([], [], color=color, label=f"proved by trials{label}", **dot)
                ring.set_markerfacecolor("white")
                keys.append(ring)
    return keys


def write_audit_report(
    name: str, findings: Sequence[Finding], confidence: float, path: Path, origin: Provenance
) -> None:
    """Write the report; the file appears whole or not at all."""
    write_page(lambda: render_audit_report(name, findings, confidence, origin), path)


def render_audit_report(
    name: str, findings: Sequence[Finding], confidence: float, origin: Provenance
) -> str:
    """The report as HTML.

    Args:
        name: what was audited, as it was asked for.
        findings: of the audit.
        confidence: with which all verdicts of trials hold together.
        origin: of the audit.
    """
    audited = [finding for finding in findings if not math.isnan(finding.epsilon)]
    return render(
        "audit.html.j2",
        name=Path(name).name,
        origin=origin,
        promises=sum(finding.kind != "known-broken" for finding in audited),
        specimens=sum(finding.kind == "known-broken" for finding in audited),
        answer=audit_verdict(findings),
        failed=[finding.name for finding in findings if finding.failed],
        infinity=math.inf,
        figure=image(lambda width: audit_figure(findings, width), _WIDTH),
        headings=_HEADINGS,
        findings=findings,
        cells=_cells,
        note=audit_note(findings, confidence),
        audited=audited,
        unaudited=[finding for finding in findings if math.isnan(finding.epsilon)],
    )
