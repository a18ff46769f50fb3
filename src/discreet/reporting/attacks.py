"""What attacks prove, as a table for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich import box
from rich.table import Table

from discreet.reporting.table import ABSENT
from discreet.reproduction.kharkovskii2020.findings import (
    LIKELIHOOD_RATIO,
    RECONSTRUCTION,
    Finding,
)

# A terminal has 80 columns.
_SHORT = {LIKELIHOOD_RATIO: "likelihood", RECONSTRUCTION: "known rows"}


def attack_table(findings: Sequence[Finding]) -> Table:
    """One row for each attack: what is promised, what is held, and what the attack proves."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.collapse_padding = True
    table.add_column("release", vertical="bottom", no_wrap=True)
    table.add_column("attack", vertical="bottom", no_wrap=True)
    for name in (
        "epsilon\nclaimed",
        "epsilon\nheld",
        "epsilon\nproved",
        "right\non X",
        "wrong\non X'",
        "largest\nerror",
    ):
        table.add_column(name, justify="right", no_wrap=True, vertical="bottom")
    for finding in findings:
        table.add_row(*_cells(finding))
    return table


def _cells(finding: Finding) -> list[str]:
    release = finding.release + (f" ({finding.branch})" if finding.branch else "")
    held = f"{finding.held:.3g}" if math.isfinite(finding.held) else "none"
    cells = [release, _SHORT.get(finding.name, finding.name), f"{finding.promised:.3g}", held]
    if finding.attack is None:
        return [*cells, ABSENT, ABSENT, ABSENT, f"{finding.error:.1e}"]
    rates = (finding.attack.true_positive_rate, finding.attack.false_positive_rate)
    return [*cells, f"{finding.attack.epsilon:.2f}", *(f"{rate:.3f}" for rate in rates), ABSENT]


def attack_note(findings: Sequence[Finding]) -> str:
    """What the columns mean."""
    trials = [finding.attack.trials for finding in findings if finding.attack is not None]
    counted = f" of {max(trials):,} releases" if trials else ""
    return (
        f"Right on X, wrong on X': the share{counted} of each of two neighbouring tables for which "
        "the adversary says X. Epsilon proved: what epsilon is at least, by these counts, with 95% "
        "confidence. Subspace: how far the release lies from the columns of either table. "
        "Likelihood: the best possible test against Gaussian noise. Known rows: all rows "
        "reconstructed from d + 1 of them. (if), (else): the branch of Algorithm 1."
    )
