"""A study as a headline, a table and a promise, for the terminal, the notebook and the page.

`terminal_table` is the look of all tables on a terminal of 80 columns.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from discreet.lab.environments.base import Problem
from discreet.lab.experiments import HIGHEST, UNIFORM, Outcome
from discreet.lab.reporting.numbers import ABSENT, decimals, listed
from discreet.lab.reporting.summary import Line, Rival, Summary
from discreet.people.domain import DecisionSets, arm_count
from discreet.privacy import Guarantee
from discreet.privacy.guarantee import factor_text, rounded_up

_RIVALS: dict[Rival, str] = {
    "fixed": "the best single choice",
    "rule": "the best rule without learning",
    "uniform": "choosing at random",
}
_SHORT: dict[Rival, str] = {"fixed": "best fixed", "rule": "best rule", "uniform": "uniform"}
# Characters of a learner's name that are never broken, and up to which all columns have room.
_NAME, _BESIDE_SECONDS = 24, 15


@dataclass(frozen=True)
class StudyVerdict:
    """Whether the private learners are worth having.

    Attributes:
        headline: the comparison with what needs no learner.
        notes: how it was made and for whom it holds, a line each.
    """

    headline: str
    notes: tuple[str, ...]


def verdict(summary: Summary, problem: Problem) -> StudyVerdict:
    """The comparison of private learners with the best that needs no data about people."""
    if not summary.private:
        return StudyVerdict("No learner of this study is private.", ())
    rival = summary.rival
    if rival == "fixed" and arm_count(problem.space) is None:
        rival = "uniform"
    return StudyVerdict(
        _headline(summary, rival or "uniform"), tuple(_notes(summary, problem, rival))
    )


def _headline(summary: Summary, rival: Rival) -> str:
    """Which private learners did significantly better or worse than a rival."""
    named = _RIVALS[rival]
    compared = [line for line in summary.private if rival in line.over]
    if not compared:
        return f"No learner was run that compares the private learners with {named}."
    signs = {line.label: line.over[rival].sign for line in compared}
    kinds = set(signs.values())
    if kinds == {None}:
        return (
            f"One replicate cannot tell whether the private learners beat {named}: run more with "
            "--replicates."
        )
    one = len(compared) == 1
    everyone = "The private learner" if one else "Every private learner"
    if kinds == {1}:
        return f"{everyone} did significantly better than {named}."
    if kinds == {-1}:
        return f"{everyone} did significantly worse than {named}."
    if kinds == {0}:
        start = "The private learner does not differ" if one else "No private learner differs"
        return f"{start} significantly from {named}."
    groups = ((1, "Significantly better than"), (-1, "Significantly worse than"))
    texts = [
        f"{start} {named}: {_settings([line for line in compared if signs[line.label] == sign])}."
        for sign, start in groups
        if sign in kinds
    ]
    rest = _settings([line for line in compared if not signs[line.label]])
    return " ".join([*texts, f"No significant difference: {rest}."] if rest else texts)


def _settings(lines: Sequence[Line]) -> str:
    """Learners with their budgets: partition at epsilon = 1 and 2; mine at epsilon = 1."""
    families = list(dict.fromkeys(line.family for line in lines))
    texts = []
    for family in families:
        epsilons = sorted(line.epsilon or 0.0 for line in lines if line.family == family)
        texts.append(f"{family} at epsilon = {listed([f'{epsilon:g}' for epsilon in epsilons])}")
    return "; ".join(texts)


def _notes(summary: Summary, problem: Problem, rival: Rival | None) -> Iterator[str]:
    """The rival, how chance was judged, and for whom the result holds."""
    if rival == "fixed":
        yield "Best single choice: best in hindsight; best_arm has to learn it under its budget."
    elif rival == "rule":
        rules = [line for line in summary.references if line.learner == HIGHEST]
        better = max if summary.metric == "reward" else min
        yield f"Best rule without learning: {better(rules, key=lambda line: line.mean).label}."
    elif isinstance(problem.space, DecisionSets):
        yield "Each person brings different points, so there is no single choice for everyone."
    else:
        yield "The best single point is what learners search for, so it is no comparison."
    replicates = max(line.replicates for line in summary.private)
    if replicates > 1:
        yield (
            f"Settings are compared within each of {replicates} replicates, on the same people in "
            "the same order; intervals are 95% (Student's t)."
        )
        yield (
            f"Significance is corrected for all {summary.comparisons} comparisons of private "
            "learners (Holm, 5%); an interval that excludes 0 may still not be significant."
        )
    yield (
        "Each replicate draws new people."
        if problem.size is None
        else "All replicates resample one table; intervals do not generalise to other people."
    )


def promise(summary: Summary) -> str:
    """The promises of the private learners in full."""
    return promises(line.guarantee for line in summary.private if line.guarantee is not None)


def promises(guarantees: Iterable[Guarantee], brief: bool = False) -> str:
    """Guarantees in words, one line for all that differ only in epsilon.

    Args:
        guarantees: in any order.
        brief: whether to give only what a guarantee states and whom it covers.
    """
    groups: dict[Guarantee, set[float]] = {}
    for guarantee in guarantees:
        kind = replace(guarantee, epsilon=0.0, data=(), releases=1)
        groups.setdefault(kind, set()).add(guarantee.epsilon)
    if not groups:
        return "No learner shown here is private: each person's data is used as it is."
    return "\n".join(_promise(kind, sorted(values), brief) for kind, values in groups.items())


def _promise(kind: Guarantee, epsilons: Sequence[float], brief: bool) -> str:
    """The sentence of the smallest epsilon, and the factors of the others."""
    first, *rest = [replace(kind, epsilon=epsilon) for epsilon in epsilons]
    if any(each.protects_nobody for each in (first, *rest)):
        return "\n".join(dict.fromkeys(each.sentence for each in (first, *rest)))
    text = replace(first, noise=()).sentence
    warning = first.sentence.removeprefix(text)
    sentences = re.split(r"(?<=\.) ", text)
    first_ones = 1 if first.report_epsilon is None else 2
    if brief:
        if len(sentences) > first_ones + 1:
            text = " ".join([*sentences[:first_ones], sentences[-1]])
        text = re.sub(r"[;:] two (contributions )?make it .*", ".", text)
    # Epsilons that differ in digits that are not shown are one.
    factors = {rounded_up(each.epsilon): factor_text(each.epsilon) for each in rest}
    factors.pop(rounded_up(first.epsilon), None)
    if factors:
        values = listed(list(factors))
        text += f" At epsilon = {values} the factor is {listed(list(factors.values()))}."
    return text + warning


@dataclass(frozen=True)
class Row:
    """One line of the table as it is shown."""

    label: str
    epsilon: str
    total: str
    half_width: str
    per_person: str
    over: str
    over_half_width: str
    share: str
    seconds: str
    private: bool


def table_rows(summary: Summary) -> list[Row]:
    """Private learners first, then everything without privacy, each in the study's order."""
    lines = [*summary.private, *summary.references]
    largest = max(abs(line.mean) for line in lines)
    digits, person_digits = decimals(largest, 4), decimals(largest / summary.rounds, 4)

    def row(line: Line) -> Row:
        width, over = line.half_width, line.over.get(summary.rival) if summary.rival else None
        half = None if over is None else over.half_width
        without = "non-private" if line.setting.learns else ABSENT
        star = "*" if line.private and over is not None and over.sign else ""
        return Row(
            label=line.family,
            epsilon=without if line.epsilon is None else f"{line.epsilon:g}",
            total=f"{line.mean:,.{digits}f}",
            half_width=ABSENT if width is None else f"{width:,.{decimals(width, 2, 20)}f}",
            per_person=f"{line.mean / summary.rounds:.{person_digits}f}",
            over=ABSENT if over is None else f"{over.mean:+.{person_digits}f}{star}",
            over_half_width=ABSENT if half is None else f"{half:.{person_digits}f}",
            share=ABSENT if line.share_kept is None else f"{100.0 * line.share_kept:.0f}%",
            seconds=_seconds(line.seconds),
            private=line.private,
        )

    return [row(line) for line in lines]


def columns(summary: Summary) -> dict[str, str]:
    """The heads of the table, and the attribute of a `Row` under each.

    A comparison that no line has is left out.
    """
    heads = {
        "learner": "label",
        "epsilon": "epsilon",
        f"total {summary.metric}": "total",
        "±": "half_width",
        "per person": "per_person",
    }
    if summary.rival:
        heads |= {f"over {_SHORT[summary.rival]}": "over", "± ": "over_half_width"}
    if any(line.share_kept is not None for line in summary.lines):
        heads["gain kept"] = "share"
    return heads | {"seconds": "seconds"}


def result_table(summary: Summary) -> Table:
    """The table for a terminal of 80 columns."""
    rows, heads = table_rows(summary), columns(summary)
    longest = min(max(len(row.label) for row in rows), _NAME)
    starred = any("*" in row.over for row in rows)
    if longest > _BESIDE_SECONDS or (starred and longest > _BESIDE_SECONDS - 4):
        del heads["seconds"]
    table = terminal_table(
        [head.replace(" ", "\n") if head != "± " else head for head in heads],
        widths=[longest, *[0] * (len(heads) - 1)],
        padding=(0, 1, 0, 0),
        caption=Text("\n".join(table_notes(summary))),
    )
    for position, row in enumerate(rows):
        last_private = row.private and position + 1 < len(rows) and not rows[position + 1].private
        cells = [getattr(row, name) for name in heads.values()]
        if starred and "*" not in row.over:
            cells[list(heads.values()).index("over")] += " "  # digits below digits
        style = "" if row.private else "dim"
        table.add_row(Text(cells[0]), *cells[1:], style=style, end_section=last_private)
    return table


def printed(show: Callable[[Console], None]) -> str:
    """What is shown on a screen, as plain text."""
    out = io.StringIO()
    screen = Console(
        file=out,
        width=80,
        color_system=None,
        force_terminal=False,
        force_jupyter=False,
        emoji=False,
    )
    show(screen)
    return "\n".join(line.rstrip() for line in out.getvalue().strip("\n").splitlines())


def table_notes(summary: Summary) -> list[str]:
    """The footnotes of the table, a line each."""
    better = "higher" if summary.metric == "reward" else "lower"
    counts = sorted({line.replicates for line in summary.lines})
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    mean = "one replicate" if counts == [1] else f"mean of {runs} replicates, ±: 95% interval"
    notes = [f"{summary.rounds:,} people, {mean}; {better} is better."]
    if summary.rival:
        more = "more reward" if summary.metric == "reward" else "less regret"
        star = "* significant (5%, private learners)"
        notes.append(f"over {_SHORT[summary.rival]}: {more} per person; {star}.")
    if any(line.share_kept is not None for line in summary.lines):
        absent = any(line.share_kept is None for line in summary.private)
        none = f" ({ABSENT}: unknown)" if absent else ""
        notes.append(f"gain kept: share of the learner's gain over uniform without privacy{none}.")
    elif summary.private:
        needed = 'the learner "uniform"'
        if any(line.learner == UNIFORM for line in summary.references):
            free = {line.family for line in summary.references}
            alike = any(line.family in free for line in summary.private)
            needed = "a clear gain without privacy" if alike else "non_private = true, same learner"
        notes.append(f'"gain kept" needs {needed}.')
    return notes


@dataclass(frozen=True)
class Appraised:
    """What a learner estimates of its own recommendation, as it is shown."""

    label: str
    estimate: str
    interval: str
    truth: str


def appraisals(summary: Summary) -> list[Appraised]:
    """Estimates of the last recommendation of replicate 0, beside the simulation's truth."""
    given = [(line, line.appraisal) for line in summary.lines if line.appraisal is not None]
    digits = max((decimals(each.value.half_width, 2) for _, each in given), default=0)
    return [
        Appraised(
            line.label,
            f"{each.value.mean:,.{digits}f}",
            f"{each.value.lower:,.{digits}f} to {each.value.upper:,.{digits}f}",
            f"{each.truth:,.{digits}f}",
        )
        for line, each in given
    ]


def appraisal_table(rows: Sequence[Appraised]) -> Table:
    """`appraisals` for a terminal."""
    heads = ("learner", "own estimate\nper person", "95% interval", "truth")
    table = terminal_table(heads, caption=APPRAISAL_NOTE)
    for row in rows:
        table.add_row(Text(row.label), row.estimate, row.interval, row.truth)
    return table


APPRAISAL_NOTE = (
    "The learner's estimate, from its private data alone, of what its last recommendation of the "
    "first replicate earns; the truth is known in simulation only."
)


def remarks(outcomes: Sequence[Outcome]) -> list[str]:
    """The problem's remarks on the runs of each setting, one sentence each."""
    return [f"{each.setting.label}: {text}" for each in outcomes for text in each.remarks]


def terminal_table(
    heads: Sequence[str],
    left: Collection[str] | None = None,
    widths: Sequence[int] | None = None,
    **options: Any,
) -> Table:
    """A table without rows yet, in the look of all tables.

    Args:
        heads: of the columns; the first is folded where there is no room, the others never.
        left: the columns whose texts stand at the left; the first if left out.
        widths: the least width of each column.
        options: of Rich's `Table`.
    """
    look: dict[str, Any] = {"box": box.SIMPLE_HEAD, "show_edge": False, "pad_edge": False}
    table = Table(header_style="bold", caption_justify="left", **look, **options)
    for place, head in enumerate(heads):
        table.add_column(
            head,
            justify="left" if head in (left or heads[:1]) else "right",
            overflow="fold",
            no_wrap=place > 0,
            vertical="bottom",
            min_width=widths[place] if widths else None,
        )
    return table


def _seconds(value: float) -> str:
    if value < 0.01:
        return "<0.01"
    return f"{value:.2g}" if value < 10.0 else f"{value:,.0f}"
