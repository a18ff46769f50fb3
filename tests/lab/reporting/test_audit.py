"""The report of an audit: what was promised, attacked and found, and what it cannot say."""

from __future__ import annotations

import math
from io import StringIO

from rich.console import Console

from discreet.lab.reporting.audit import audit_table, render_audit_report
from discreet.lab.reporting.provenance import provenance_of_seed
from discreet.records import Finding

HONEST = Finding(
    *("gp_ucb, joint", "learner", "joint", "holds", 8.0, 1e-5),
    exact=7.99,
    replayed="a run; (0, 0), reward 1 or (1, 1), reward 0",
    lower_bound=3.1,
    bound="gaussian",
    attack="likelihood ratio",
    trials=200,
    true_positive_rate=0.9,
    false_positive_rate=0.1,
    confidence=0.9999,
    about="a run of 24 people",
)
BROKEN = Finding(
    *("mine & yours", "learner", "local", "BROKEN", 1.0, 0.0),
    exact=math.inf,
    replayed="taught; reward 1 or reward 0",
    fault="whether a report is refused depends on the data",
)
ORIGIN = provenance_of_seed("all", 5)
FAILED = Finding("odd", "learner", "local", "FAILED", fault="it cannot be replayed")


def test_everything_that_a_decision_needs_is_there() -> None:
    page = render_audit_report("studies/study.toml", [HONEST, BROKEN, FAILED], 0.999, ORIGIN)
    for words in (
        "Audit of study.toml",
        "1 of 2 promises withstood their attack, 1 BROKEN; 1 FAILED to be audited.",
        "Do not rely on these promises before the reason is known: mine &amp; yours, odd.",
        "epsilon = 8, delta = 1e\u221205",
        "a run; (0, 0), reward 1 or (1, 1), reward 0",
        "whether a report is refused depends on the data",
        "odd: it cannot be replayed",
        "200 on each, 99.99% confidence",
        "3.10 weak",
        "infinite",
        "it cannot prove one",
        "data:image/svg+xml;base64,",
    ):
        assert words in page


def test_nothing_alarms_where_nothing_is_wrong() -> None:
    page = render_audit_report("all", [HONEST], 0.999, ORIGIN)
    assert "Do not rely" not in page
    assert "1 of 1 promises withstood their attack." in page


def test_many_checks_share_a_row_and_each_failed_one_has_its_own() -> None:
    console = Console(width=100, record=True, file=StringIO())
    console.print(audit_table([*[HONEST] * 30, BROKEN, FAILED]))
    rows = [line.split() for line in console.export_text().splitlines()]
    assert ["30", "checks", "joint", "holds"] in rows
    assert [row[0] for row in rows if row[-1:] in (["BROKEN"], ["FAILED"])] == ["mine", "odd"]
    console.print(audit_table([*[HONEST] * 30, BROKEN], details=True))
    assert console.export_text().count("gp_ucb, joint") == 30
