"""The findings of an audit as a picture: what is promised, and how far attacks reach."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from discreet.audit.runner import Finding
from discreet.reporting.palette import BLUE, BODY, FAINT, INK, SMALL, VERMILLION

# Inches: of a line, of everything around the lines, of the whole width.
_ROW, _MARGIN, _WIDTH = 0.17, 1.15, 7.2
_NAME = SMALL - 1.5
# Bounds below this share of the least promise are put at the left end.
_LEAST = 0.1
# An infinite bound is put beyond all others by this factor.
_BEYOND = 1.5
_TICKS = tuple(step * 10.0**power for power in range(-4, 5) for step in (1, 2, 5))


def audit_figure(findings: Sequence[Finding]) -> Figure:
    """One line for each check: a bar at the promise, a dot at what exact replay measured, a ring at
    what trials proved, with verdict and trials.

    Honest checks are blue and their dots lie at their bars or left of them; broken designs are
    vermillion, and their dots lie right of what they claim. What was not audited is left out.
    """
    shown = [
        (one, one.claim.epsilon) for one in findings if one.claim and 0.0 < one.claim.epsilon < 1e6
    ]
    left, right = _ends(shown)
    figure = Figure(figsize=(_WIDTH, _MARGIN + _ROW * max(1, len(shown))), layout="constrained")
    axes = figure.subplots()
    for place, (finding, promise) in enumerate(shown):
        color = VERMILLION if finding.kind == "specimen" else BLUE
        axes.plot(promise, place, "|", color=INK, markersize=8.0, markeredgewidth=1.6)
        for epsilon, face in ((finding.exact, color), (finding.epsilon, "white")):
            if not math.isnan(epsilon):
                at = min(max(epsilon, left), right)
                axes.plot([promise, at], [place, place], color=color, linewidth=1.0, alpha=0.35)
                axes.plot(at, place, "o", color=color, markerfacecolor=face, markersize=4.0)
        trials = f", {finding.trials:,} trials" if finding.trials else ""
        axes.annotate(
            f"{finding.verdict}{trials}",
            (1.0, place),
            xycoords=("axes fraction", "data"),
            xytext=(6.0, 0.0),
            textcoords="offset points",
            verticalalignment="center",
            fontsize=_NAME,
            color=VERMILLION if finding.failed else INK,
        )
    kinds = [one.kind for one, _ in shown]
    for place in range(1, len(shown)):
        if kinds[place] != kinds[place - 1]:
            axes.axhline(place - 0.5, color=INK, linewidth=0.6)
    axes.set_yticks(range(len(shown)), [one.name for one, _ in shown], fontsize=_NAME)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xscale("log")
    axes.set_xlim(left * 0.93, right * 1.12)
    ticks = [tick for tick in _TICKS if left * 0.93 <= tick <= right * 1.12]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=SMALL)
    axes.set_xlabel("epsilon", fontsize=BODY)
    axes.grid(axis="x", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=INK, labeltop=len(shown) > 20)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    figure.legend(
        handles=_keys(set(kinds)), loc="outside upper left", ncols=3, frameon=False, fontsize=SMALL
    )
    return figure


def _ends(shown: Sequence[tuple[Finding, float]]) -> tuple[float, float]:
    """The least and the largest epsilon that the picture has room for."""
    promises = [promise for _, promise in shown] or [1.0]
    bounds = [
        bound for one, _ in shown for bound in (one.exact, one.epsilon) if not math.isnan(bound)
    ]
    finite = [bound for bound in bounds if math.isfinite(bound)]
    least = max(_LEAST * min(promises), min([*promises, *(x for x in finite if x > 0.0)]))
    left = least if min([*bounds, least]) >= least else _LEAST * min(promises)
    largest = max([*promises, *finite])
    return left, largest * (_BEYOND if len(finite) < len(bounds) else 1.0)


def _keys(kinds: set[str]) -> list[Line2D]:
    keys = [Line2D([], [], marker="|", color=INK, linestyle="", markersize=9, label="promised")]
    for color, label, there in (
        (BLUE, "", kinds - {"specimen"}),
        (VERMILLION, ", of a design that is broken", kinds & {"specimen"}),
    ):
        for how, face in (("exact replay", color), ("proved by trials", "white")):
            if there:
                line = Line2D([], [], marker="o", color=color, linestyle="", markersize=4)
                line.set_markerfacecolor(face)
                line.set_label(f"{how}{label}")
                keys.append(line)
    return keys
