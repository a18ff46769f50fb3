"""The tables of a plan."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from discreet.lab.reporting.plan_tables import (
    loss_rows,
    loss_table,
    odds_table,
    people_rows,
    people_table,
)

from .test_plan_words import flat, plan


def test_tables_hold_every_line() -> None:
    made = plan()
    rows = loss_rows(made)
    assert [row.name for row in rows] == [
        *["partition"] * 3,
        "partition, no privacy",
        "one choice for everyone",
        "at random",
    ]
    assert [row.epsilon for row in rows[:3]] == ["1", "2", "4"]
    assert all(row.loss.endswith("%") for row in rows[:3])
    cells = {row.epsilon: row.cells for row in people_rows(made)}
    assert cells["4"][0][0] == "≤ 250"
    assert cells["1"][-1] == (">16,000", "")
    assert cells["4"][2][0].endswith("*")  # keeps 80%: extrapolated
    console = Console(width=80, record=True, file=StringIO())
    for table in (loss_table(made), people_table(made), odds_table(made)):
        console.print(table)
    lines = console.export_text().splitlines()
    text = " ".join(" ".join(lines).split())
    assert max(map(len, lines)) <= 80
    assert "nothing is said about more than" in text
    assert "74" in text


def test_without_a_gain_no_loss_is_shown() -> None:
    assert {row.loss for row in loss_rows(flat())} == {"–"}  # noqa: RUF001
    assert all(cell == ("–", "") for row in people_rows(flat()) for cell in row.cells)  # noqa: RUF001
