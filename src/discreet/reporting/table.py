"""Tables: how all of them look on a terminal of 80 columns, and the result of a study.

`table_rows` makes the texts that the terminal and the HTML report both show.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from discreet.experiments import REFERENCES
from discreet.reporting.summary import UNIFORM, Difference, Line, Summary

ABSENT = "–"  # noqa: RUF001


@dataclass(frozen=True)
class Row:
    """One line of the table as it is shown."""

    label: str
    epsilon: str
    total: str
    half_width: str
    per_person: str
    over_fixed: str
    over_half_width: str
    share: str
    seconds: str
    private: bool


def terminal_table(
    heads: Sequence[str], left: Collection[str] | None = None, **options: Any
) -> Table:
    """A table without rows yet, in the look of all tables.

    Args:
        heads: of the columns; the first is folded where there is no room, the others never.
        left: the columns whose texts stand at the left; the first if left out.
        options: of Rich's `Table`.
    """
    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold", **options
    )
    for place, head in enumerate(heads):
        at_left = place == 0 if left is None else head in left
        table.add_column(
            head,
            justify="left" if at_left else "right",
            overflow="fold",
            no_wrap=place > 0,
            vertical="bottom",
        )
    return table


def table_rows(summary: Summary) -> list[Row]:
    """Private learners first, then everything without privacy, each in the study's order."""
    lines = [*summary.private, *summary.references]
    total_digits = _digits([line.mean for line in lines])
    person_digits = _digits([line.mean / summary.rounds for line in lines])
    return [
        Row(
            label=line.family,
            epsilon=_epsilon(line),
            total=f"{line.mean:,.{total_digits}f}",
            half_width=_half_width(line.half_width),
            per_person=f"{line.mean / summary.rounds:.{person_digits}f}",
            over_fixed=_signed(line.over.get("fixed"), person_digits),
            over_half_width=_over_half_width(line.over.get("fixed"), person_digits),
            share=ABSENT if line.share_kept is None else percent(line.share_kept),
            seconds=_seconds(line.seconds),
            private=line.private,
        )
        for line in lines
    ]


def result_table(summary: Summary) -> Table:
    """The table for a terminal of 80 columns."""
    rows = table_rows(summary)
    columns = {
        "epsilon": [row.epsilon for row in rows],
        f"total\n{summary.metric}": [row.total for row in rows],
        "±": [row.half_width for row in rows],
        "per\nperson": [row.per_person for row in rows],
    }
    if has_best_fixed(summary):
        columns["over\nbest\nfixed"] = [row.over_fixed for row in rows]
        columns["± "] = [row.over_half_width for row in rows]
    columns["gain\nkept"] = [row.share for row in rows]
    columns["seconds"] = [row.seconds for row in rows]
    table = terminal_table(
        ("learner", *columns),
        padding=(0, 1, 0, 0),
        caption=Text(table_note(summary)),
        caption_justify="left",
    )
    for position, row in enumerate(rows):
        last_private = row.private and position + 1 < len(rows) and not rows[position + 1].private
        cells = [texts[position] for texts in columns.values()]
        style = "" if row.private else "dim"
        table.add_row(Text(row.label), *cells, style=style, end_section=last_private)
    return table


def table_note(summary: Summary) -> str:
    """What the columns of the table mean."""
    better = "higher" if summary.metric == "reward" else "lower"
    counts = sorted({line.replicates for line in summary.lines})
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    plural = "replicate" if counts == [1] else "replicates"
    note = (
        f"Total {summary.metric} of {summary.rounds:,} people: {better} is better. "
        f"Mean of {runs} {plural}"
    )
    note += (
        ", which cannot tell gain from chance."
        if counts == [1]
        else "; ±: 95% interval of the mean (Student's t)."
    )
    if has_best_fixed(summary):
        more = "more reward" if summary.metric == "reward" else "less regret"
        note += (
            f" Over best fixed: how much {more} each person had than if everyone had been given "
            "the single choice that was best in hindsight; below 0 that choice did better."
        )
    if any(line.share_kept is not None for line in summary.lines):
        note += (
            " Gain kept compares a learner with itself only: of what it gains over uniform choice "
            "without privacy, the share that is left."
        )
    elif summary.private:
        note += (
            " Gain kept is left out where the learner without privacy is missing or did not "
            "clearly beat uniform choice."
        )
    return note


def has_best_fixed(summary: Summary) -> bool:
    """Whether anything is compared with the best single choice for everyone."""
    return any("fixed" in line.over for line in summary.lines)


def percent(share: float) -> str:
    """0.684 as 68%."""
    return f"{100.0 * share:.0f}%"


def _epsilon(line: Line) -> str:
    if line.epsilon is not None:
        return f"{line.epsilon:g}"
    return ABSENT if line.learner in (*REFERENCES, UNIFORM) else "non-private"


def _digits(values: Sequence[float]) -> int:
    """Decimals that show about four digits of the largest value."""
    largest = max(abs(value) for value in values)
    if largest == 0.0 or not math.isfinite(largest):
        return 0
    return min(6, max(0, 3 - math.floor(math.log10(largest)))) if largest < 1000.0 else 0


def _signed(difference: Difference | None, digits: int) -> str:
    return ABSENT if difference is None else f"{difference.mean:+.{digits}f}"


def _over_half_width(difference: Difference | None, digits: int) -> str:
    if difference is None or difference.half_width is None:
        return ABSENT
    return f"{difference.half_width:.{digits}f}"


def _half_width(value: float | None) -> str:
    """Two digits without an exponent."""
    if value is None:
        return ABSENT
    if value == 0.0:
        return "0"
    decimals = max(0, 1 - math.floor(math.log10(value)))
    return f"{value:,.{decimals}f}"


def _seconds(value: float) -> str:
    if value < 0.01:
        return "<0.01"
    return f"{value:.2g}" if value < 10.0 else f"{value:,.0f}"
