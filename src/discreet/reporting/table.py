"""The result of a study as a table of 80 columns, and the promise in a few sentences.

`table_rows` makes the texts that the terminal and the HTML report both show.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich import box
from rich.table import Table
from rich.text import Text

from discreet.privacy import Guarantee
from discreet.reporting.summary import UNIFORM, Line, Summary
from discreet.simulation import REFERENCES

ABSENT = "–"  # noqa: RUF001


# What a guarantee's sentence says at another epsilon (there numbers are rounded up).
_NUMBERS = re.compile(
    r"more than (?P<factor>\S+) times .*?\(epsilon = (?P<epsilon>[^,;)]+)"
    r"(?:.*?at most (?P<sure>\S+) sure)?"
)


@dataclass(frozen=True)
class Row:
    """One line of the table as it is shown."""

    label: str
    epsilon: str
    total: str
    error: str
    per_person: str
    share: str
    seconds: str
    private: bool


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
            error=ABSENT if line.standard_error is None else _error(line.standard_error),
            per_person=f"{line.mean / summary.rounds:.{person_digits}f}",
            share=ABSENT if line.share_kept is None else percent(line.share_kept),
            seconds=_seconds(line.seconds),
            private=line.private,
        )
        for line in lines
    ]


def result_table(summary: Summary) -> Table:
    """The table for a terminal of 80 columns."""
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        caption=Text(table_note(summary)),
        caption_justify="left",
        header_style="bold",
    )
    table.add_column("learner", overflow="fold", vertical="bottom")
    for name in (
        "epsilon",
        f"total\n{summary.metric}",
        "±",
        "per\nperson",
        "gain\nkept",
        "seconds",
    ):
        table.add_column(name, justify="right", no_wrap=True, vertical="bottom")
    rows = table_rows(summary)
    for position, row in enumerate(rows):
        last_private = row.private and position + 1 < len(rows) and not rows[position + 1].private
        cells = [row.epsilon, row.total, row.error, row.per_person, row.share, row.seconds]
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
        ", which cannot tell gain from chance." if counts == [1] else "; ± is its standard error."
    )
    if any(line.share_kept is not None for line in summary.lines):
        note += (
            " Gain kept: the share of what the same learner gains over uniform choice without "
            "privacy."
        )
    elif summary.private:
        note += (
            " Gain kept is left out where the learner without privacy is missing or did not "
            "beat uniform choice by two standard errors."
        )
    return note


def promise(summary: Summary) -> str:
    """What the private learners promise, said once for guarantees that differ only in epsilon."""
    groups: dict[Guarantee, set[float]] = {}
    for line in summary.private:
        if line.guarantee is not None:
            kind = replace(line.guarantee, epsilon=0.0, data=(), releases=1)
            groups.setdefault(kind, set()).add(line.guarantee.epsilon)
    if not groups:
        return "No learner shown here is private: each person's data is used as it is."
    return "\n".join(_promise(kind, sorted(values)) for kind, values in groups.items())


def percent(share: float) -> str:
    """0.684 as 68%."""
    return f"{100.0 * share:.0f}%"


def listed(items: Sequence[str]) -> str:
    """1, 2 and 4."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _promise(kind: Guarantee, epsilons: Sequence[float]) -> str:
    """The sentence of the smallest epsilon, and the numbers of the others as theirs has them."""
    first, *rest = [replace(kind, epsilon=epsilon) for epsilon in epsilons]
    text = replace(first, noise=()).sentence
    warning = first.sentence.removeprefix(text)
    numbers = [_NUMBERS.search(other.sentence) for other in rest]
    if not all(numbers):
        return "\n".join(promised.sentence for promised in (first, *rest))
    if rest:
        values = listed([match["epsilon"] for match in numbers if match])
        factors = listed([match["factor"] for match in numbers if match])
        text += f" At epsilon = {values} the factor is {factors}"
        sure = [match["sure"] for match in numbers if match and match["sure"]]
        text += f", and who was unsure is up to {listed(sure)} sure." if sure else "."
    return text + warning


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


def _error(value: float) -> str:
    """Two digits of a standard error, without an exponent."""
    if value == 0.0:
        return "0"
    decimals = max(0, 1 - math.floor(math.log10(value)))
    return f"{value:,.{decimals}f}"


def _seconds(value: float) -> str:
    if value < 0.01:
        return "<0.01"
    return f"{value:.2g}" if value < 10.0 else f"{value:,.0f}"
