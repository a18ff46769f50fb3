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

from discreet.experiments import REFERENCES
from discreet.privacy import Guarantee
from discreet.reporting.summary import UNIFORM, Difference, Line, Summary

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
    half_width: str
    per_person: str
    over_fixed: str
    over_half_width: str
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
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        caption=Text(table_note(summary)),
        caption_justify="left",
        header_style="bold",
    )
    table.add_column("learner", overflow="fold", vertical="bottom")
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
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True, vertical="bottom")
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
        text += f", and the certainty at most {listed(sure)}." if sure else "."
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
