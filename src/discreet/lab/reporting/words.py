"""A study in words and as a table: the verdict, for a reader who reads one paragraph only, what
every setting reached, and the promise.

`table_rows` makes the texts that the terminal and the page both show; `terminal_table` is how all
tables look on a terminal of 80 columns.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from discreet.lab.environments.base import Metric, Problem
from discreet.lab.experiments import HIGHEST, REFERENCES, UNIFORM, Outcome
from discreet.lab.reporting.numbers import ABSENT, decimals, listed
from discreet.lab.reporting.summary import Difference, Line, Rival, Summary
from discreet.people.actions import DecisionSets, arm_count
from discreet.privacy import Guarantee

_RIVALS: dict[Rival, str] = {
    "fixed": "giving everyone the best single choice",
    "rule": "the best rule that learns nothing",
    "uniform": "choosing at random",
    "free": "itself without privacy",
}
# What better and worse are called.
_DIRECTIONS: dict[Metric, tuple[str, str]] = {
    "reward": ("more", "less"),
    "regret": ("less regret", "more regret"),
}
# What a guarantee's sentence says at another epsilon (there numbers are rounded up).
_NUMBERS = re.compile(
    r"more than (?P<factor>\S+) times .*?\(epsilon = (?P<epsilon>[^,;)]+)"
    r"(?:.*?at most (?P<sure>\S+) sure)?"
)


# Characters of a learner's name that are never broken, and up to which all columns have room.
_NAME, _BESIDE_SECONDS = 24, 15


@dataclass(frozen=True)
class Verdict:
    """What a decision needs.

    Attributes:
        headline: whether the private learners beat what needs no learner.
        findings: by how much, and what privacy cost, a sentence for each learner.
        basis: what the numbers rest on.
    """

    headline: str
    findings: tuple[str, ...]
    basis: str


def verdict(summary: Summary, problem: Problem) -> Verdict:
    """Whether the private learners are worth having, and what privacy cost them."""
    if not summary.private:
        return Verdict(
            "This study has no private learner: it says how well the people could be served "
            "without privacy.",
            (),
            "",
        )
    rival: Rival = "uniform" if arm_count(problem.space) is None else "fixed"
    if any("rule" in line.over for line in summary.private):
        rival = "rule"
    findings = [
        _compared(family, lines, each, summary)
        for family, lines in summary.families.items()
        for each in (rival, "free")
    ]
    if rival == "fixed":
        findings.append(_no_better_than_chance(summary))
    findings += [_appraised(family, lines) for family, lines in summary.families.items()]
    return Verdict(
        _headline(summary, rival),
        tuple(text for text in findings if text),
        " ".join(text for text in _basis(summary, problem, rival) if text),
    )


def _headline(summary: Summary, rival: Rival) -> str:
    """Which private learners did more than chance better, worse, or neither."""
    named = _RIVALS[rival]
    compared = [line for line in summary.private if rival in line.over]
    if not compared:
        return f"Nothing was run that says whether the private learners beat {named}."
    signs = {line.label: line.over[rival].sign for line in compared}
    everyone = "The private learner" if len(compared) == 1 else "Every private learner"
    nobody = "The private learner" if len(compared) == 1 else "No private learner"
    kinds = set(signs.values())
    if kinds == {None}:
        return (
            f"One repetition cannot tell whether the private learners beat {named}: what follows "
            "may be chance."
        )
    if kinds == {1}:
        return f"{everyone} did better than {named}, by more than chance."
    if kinds == {-1}:
        return f"{everyone} did worse than {named}, by more than chance."
    if 1 not in kinds and len(compared) > 1:
        start = f"{nobody} did better than {named} by more than chance"
        worse = _settings([line for line in compared if signs[line.label] == -1])
        return f"{start}, and worse did {worse}." if worse else f"{start}."
    if kinds == {0}:
        return f"{everyone} and {named} are too close to call."
    parts = [
        (1, f"Better than {named}, by more than chance: "),
        (-1, "Worse, by more than chance: "),
        (0, "Too close to call: "),
        (None, "Run only once, so it cannot be told: "),
    ]
    named_settings = [
        (text, _settings([line for line in compared if signs[line.label] == sign]))
        for sign, text in parts
    ]
    return " ".join(f"{text}{which}." for text, which in named_settings if which)


def _settings(lines: Sequence[Line]) -> str:
    """Learners with their budgets: partition at epsilon = 1 and 2, and mine at epsilon = 1."""
    families = list(dict.fromkeys(line.family for line in lines))
    texts = []
    for family in families:
        epsilons = sorted(line.epsilon or 0.0 for line in lines if line.family == family)
        texts.append(f"{family} at epsilon = {listed([f'{epsilon:g}' for epsilon in epsilons])}")
    return "; ".join(texts)


def _compared(family: str, lines: Sequence[Line], rival: Rival, summary: Summary) -> str:
    """By how much one learner beat a rival, smallest epsilon first."""
    lines = [line for line in lines if rival in line.over]
    if not lines:
        return ""
    verb = "earned" if summary.metric == "reward" else "had"
    items = [_item(line, line.over[rival], summary, first=line is lines[0]) for line in lines]
    cost = "The cost of privacy: compared" if rival == "free" else "Compared"
    return f"{cost} with {_RIVALS[rival]}, {family} {verb}, per person, {listed(items)}."


def _item(line: Line, difference: Difference, summary: Summary, first: bool) -> str:
    """0.124 more at epsilon = 1 (95% interval 0.118 to 0.130)."""
    better, worse = _DIRECTIONS[summary.metric]
    half = difference.half_width
    value, significant = (difference.mean, 3) if half is None else (half, 2)
    digits = decimals(value, significant) if value else 3

    def amount(value: float) -> str:
        return f"{abs(value):,.{digits}f}"

    text = f"{amount(difference.mean)} {better if difference.mean >= 0.0 else worse}"
    text += f" at epsilon = {line.epsilon:g}"
    if half is None:
        return text
    low, high = difference.mean - half, difference.mean + half
    near, far = sorted((low, high), key=abs)
    interval = f"{amount(near)} to {amount(far)}"
    if low < 0.0 < high:
        interval = f"{amount(low)} {worse} to {amount(high)} {better}"
    chance = "; may be chance" if difference.sign == 0 else ""
    return f"{text} ({'95% interval ' if first else ''}{interval}{chance})"


def _appraised(family: str, lines: Sequence[Line]) -> str:
    """What a learner says itself of what its recommendation earns, beside the truth."""
    said = [(line, line.appraisal) for line in lines if line.appraisal is not None]
    if not said:
        return ""
    digits = max(decimals(each.value.half_width, 2) for _, each in said)
    items = []
    for line, each in said:
        mean, lower, upper, truth = (
            f"{x:,.{digits}f}"
            for x in (each.value.mean, each.value.lower, each.value.upper, each.truth)
        )
        start, knows = ("95% interval ", "the simulation knows that it is ")
        if line is not said[0][0]:
            start, knows = "", "it is "
        items.append(
            f"{mean} at epsilon = {line.epsilon:g} ({start}{lower} to {upper}; {knows}{truth})"
        )
    local = said[0][0].setting.budget.protects_reports
    source = "From its private reports alone" if local else "From what it released alone"
    where = said[0][1].value.about.partition(", averaged ")[2]
    return (
        f"{source}, {family} estimates that what it recommends at the end of the first repetition "
        f"earns, per person, {listed(items)}: averages {where}."
    )


def _no_better_than_chance(summary: Summary) -> str:
    """Names the private learners that are not clearly better than choosing at random."""
    compared = [line for line in summary.private if "uniform" in line.over]
    worse = _settings([line for line in compared if line.over["uniform"].sign == -1])
    equal = _settings([line for line in compared if line.over["uniform"].sign == 0])
    text = f"Worse than choosing at random: {worse}." if worse else ""
    if equal:
        text += f" Too close to choosing at random to call: {equal}."
    return text.strip()


def _basis(summary: Summary, problem: Problem, rival: Rival) -> list[str]:
    """What the best single choice is, how chance was judged, and for whom it holds."""
    if rival == "fixed":
        choice = (
            "The best single choice is the one that proved best for these very people, which "
            "nobody knew beforehand."
        )
    elif rival == "rule":
        rules = [line for line in summary.references if line.learner == HIGHEST]
        better = max if summary.metric == "reward" else min
        best = better(rules, key=lambda line: line.mean)
        choice = f"The best rule that learns nothing is {best.label} here."
    elif isinstance(problem.space, DecisionSets):
        choice = "Everyone brings other points here, so there is no single choice for everyone."
    else:
        choice = (
            "Everyone can be given the same point here, so the best single choice is what learners "
            "search for and cannot be beaten."
        )
    replicates = max(line.replicates for line in summary.private)
    if replicates == 1:
        return [choice, "There is one repetition, so there are no intervals."]
    count = summary.comparisons
    compared = "both comparisons" if count == 2 else f"all {count} comparisons"
    chance = (
        f"Settings are compared within each of {replicates} repetitions, in which they meet the "
        "same people in the same order; intervals are those of Student's t, each by itself. What "
        f"is called chance allows for {compared} of private learners "
        "together (Holm's method at 5%), so an interval without 0 may not be enough."
    )
    people = (
        "Each repetition draws new people."
        if problem.size is None
        else "Repetitions take people of one table, so the intervals do not say how people who "
        "are not in it would fare."
    )
    close = any(
        difference.sign == 0 for line in summary.private for difference in line.over.values()
    )
    more = "More replicates narrow the intervals." if close else ""
    return [choice, chance, more, people]


def promise(summary: Summary) -> str:
    """What the private learners promise."""
    return promises(line.guarantee for line in summary.private if line.guarantee is not None)


def promises(guarantees: Iterable[Guarantee]) -> str:
    """Guarantees in words, said once for those that differ only in epsilon."""
    groups: dict[Guarantee, set[float]] = {}
    for guarantee in guarantees:
        kind = replace(guarantee, epsilon=0.0, data=(), releases=1)
        groups.setdefault(kind, set()).add(guarantee.epsilon)
    if not groups:
        return "No learner shown here is private: each person's data is used as it is."
    return "\n".join(_promise(kind, sorted(values)) for kind, values in groups.items())


def _promise(kind: Guarantee, epsilons: Sequence[float]) -> str:
    """The sentence of the smallest epsilon, and the numbers of the others as theirs has them."""
    first, *rest = [replace(kind, epsilon=epsilon) for epsilon in epsilons]
    text = replace(first, noise=()).sentence
    warning = first.sentence.removeprefix(text)
    numbers = [_NUMBERS.search(promised.sentence) for promised in (first, *rest)]
    if not all(numbers):
        return "\n".join(dict.fromkeys(promised.sentence for promised in (first, *rest)))
    # Epsilons that differ in digits that are not shown are one.
    shown = (match.group("epsilon", "factor", "sure") for match in numbers if match)
    _, *others = dict.fromkeys(shown)
    if others:
        values, factors, certainties = map(list, zip(*others, strict=True))
        text += f" At epsilon = {listed(values)} the factor is {listed(factors)}"
        sure = [each for each in certainties if each]
        text += f", and the certainty at most {listed(sure)}." if sure else "."
    return text + warning


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
    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold", **options
    )
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


def table_rows(summary: Summary) -> list[Row]:
    """Private learners first, then everything without privacy, each in the study's order."""
    lines = [*summary.private, *summary.references]
    largest = max(abs(line.mean) for line in lines)
    digits, person_digits = decimals(largest, 4), decimals(largest / summary.rounds, 4)

    def row(line: Line) -> Row:
        over = line.over.get("fixed")
        half = None if over is None else over.half_width
        return Row(
            label=line.family,
            epsilon=_epsilon(line),
            total=f"{line.mean:,.{digits}f}",
            half_width=_half_width(line.half_width),
            per_person=f"{line.mean / summary.rounds:.{person_digits}f}",
            over_fixed=ABSENT if over is None else f"{over.mean:+.{person_digits}f}",
            over_half_width=ABSENT if half is None else f"{half:.{person_digits}f}",
            share=ABSENT if line.share_kept is None else f"{100.0 * line.share_kept:.0f}%",
            seconds=_seconds(line.seconds),
            private=line.private,
        )

    return [row(line) for line in lines]


def _epsilon(line: Line) -> str:
    if line.epsilon is not None:
        return f"{line.epsilon:g}"
    return ABSENT if line.learner in (*REFERENCES, UNIFORM, HIGHEST) else "non-private"


def _half_width(value: float | None) -> str:
    """Two digits without an exponent."""
    return ABSENT if value is None else f"{value:,.{decimals(value, 2, 20)}f}"


def _seconds(value: float) -> str:
    if value < 0.01:
        return "<0.01"
    return f"{value:.2g}" if value < 10.0 else f"{value:,.0f}"


def result_table(summary: Summary) -> Table:
    """The table for a terminal of 80 columns."""
    rows = table_rows(summary)
    columns = {
        "epsilon": "epsilon",
        f"total\n{summary.metric}": "total",
        "±": "half_width",
        "per\nperson": "per_person",
        "over\nbest\nfixed": "over_fixed",
        "± ": "over_half_width",
        "gain\nkept": "share",
        "seconds": "seconds",
    }
    if not has_best_fixed(summary):
        del columns["over\nbest\nfixed"], columns["± "]
    longest = min(max(len(row.label) for row in rows), _NAME)
    if longest > _BESIDE_SECONDS:
        del columns["seconds"]
    table = terminal_table(
        ("learner", *columns),
        widths=[longest, *[0] * len(columns)],
        padding=(0, 1, 0, 0),
        caption=Text(table_note(summary)),
        caption_justify="left",
    )
    for position, row in enumerate(rows):
        last_private = row.private and position + 1 < len(rows) and not rows[position + 1].private
        cells = [getattr(row, name) for name in columns.values()]
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
    elif not summary.private:
        pass
    elif not any("uniform" in line.over for line in summary.private):
        note += (
            ' Gain kept is missing: the study has no learner "uniform" from which it is measured.'
        )
    elif not any("free" in line.over for line in summary.private):
        note += (
            " Gain kept is missing: no private learner was run without privacy as well "
            "(non_private = true)."
        )
    else:
        note += " Gain kept is missing: no learner clearly beat uniform choice without privacy."
    return note


def remarks(outcomes: Sequence[Outcome]) -> list[str]:
    """What the problem says of the runs of each setting, one sentence each."""
    return [f"{each.setting.label}: {text}" for each in outcomes for text in each.remarks]


def has_best_fixed(summary: Summary) -> bool:
    """Whether anything is compared with the best single choice for everyone."""
    return any("fixed" in line.over for line in summary.lines)
