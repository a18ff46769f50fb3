"""An outlook in words and tables: what `discreet check` says of a study (outlook.py)."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from discreet.lab.reporting.numbers import (
    ABSENT,
    about_time,
    counted,
    listed,
    number_text,
    share_text,
)
from discreet.lab.reporting.outlook import ColumnOutlook, LineOutlook, Outlook
from discreet.lab.reporting.words import terminal_table

_MOST_NAMES = 12  # labels, and arms that nothing special is known of
LINE_NOTE = (
    "Worth at most: so many people would tell as much if their data could be seen as they are, "
    "whatever the learner makes of them. Each arm: the same for one arm, if all are given equally "
    "often. Difference: how far apart the mean rewards of two arms must lie, at least, to be two "
    "standard errors apart, for everybody together; telling groups of people apart takes as many "
    "people in each group."
)
COLUMN_NOTE = (
    "Rows without a value, left out as outside, and clipped to the nearest bound. These counts, "
    "and those of whom an arm is right for, are read off the table, and no promise covers them: "
    "they are not for anybody who may not see it."
)
ARM_NOTE = (
    "Right for: people of the table. Hidden by noise: an arm that is given as often as the others "
    "and cannot be told from one that is right for nobody."
)


def troubles_text(outlook: Outlook) -> str:
    """Everything that is wrong, a line for each."""
    wrong = [
        f"line {trouble.line}: {trouble.text}" if trouble.line is not None else trouble.text
        for trouble in outlook.troubles
    ]
    numbered = [f"{number}. {text}" for number, text in enumerate(wrong, start=1)]
    return "\n".join(numbered if len(wrong) > 1 else wrong)


def people_text(outlook: Outlook) -> str:
    """Who takes part, and what can be chosen."""
    people = (
        f"{outlook.people:,} people, {counted(outlook.replicates, 'replicate')}; {outlook.offer}."
    )
    if outlook.people_of_arm is not None:
        people += (
            f" {outlook.people_of_arm:,.0f} people for each arm, if all are given equally often."
        )
    return people


def column_table(outlook: Outlook) -> Table:
    """The columns that a learner knows, and what they cost in rows."""
    heads = ("column", "values", "without", "outside", "clipped")
    table = terminal_table(heads, left=heads[:2])
    table.columns[1].no_wrap = False
    for column in outlook.columns:
        counts = (column.lacking, column.outside, column.clipped)
        gone = [f"{count:,}" if count else "" for count in counts]
        table.add_row(Text(column.name), Text(_values(column)), *gone)
    return table


def _values(column: ColumnOutlook) -> str:
    if column.categories:
        return f"{len(column.categories)}: {_first(column.categories)}"
    levels = "" if column.levels is None else f", {column.levels} values"
    return f"{number_text(column.lower)} to {number_text(column.upper)}{levels}"


def _first(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")


def arm_table(outlook: Outlook) -> Table | None:
    """For how many people of the table each arm is right; None where that is not known.

    Of very many arms those that are hidden are shown.
    """
    arms = [arm for arm in outlook.arms if arm.people is not None]
    if len(arms) > _MOST_NAMES:
        arms = [arm for arm in arms if arm.hidden_at]
    if not arms:
        return None
    total = sum(arm.people or 0 for arm in outlook.arms)
    table = terminal_table(("arm", "right for", "share", "hidden by noise at epsilon"))
    for arm in arms:
        share = share_text((arm.people or 0) / total)
        hidden = listed([f"{epsilon:g}" for epsilon in arm.hidden_at]) if arm.hidden_at else "none"
        table.add_row(Text(arm.name), f"{arm.people or 0:,}", share, hidden)
    return table


def line_table(outlook: Outlook) -> Table:
    """What each line of the result has to go by, and how long it takes."""
    heads = ("learner", "epsilon", "worth\nat most", "each\narm", "differ-\nence", "seconds")
    table = terminal_table(heads)
    for line in outlook.lines:
        label = line.label.partition(", epsilon ")[0] if line.epsilon is not None else line.label
        cells = [
            ABSENT if value is None else text(value)
            for value, text in (
                (line.epsilon, lambda value: f"{value:g}"),
                (line.worth, _people),
                (line.worth_of_arm, _people),
                (line.difference, lambda value: number_text(value, 2)),
                (line.seconds, lambda value: number_text(value, 2) if value >= 0.01 else "<0.01"),
            )
        ]
        table.add_row(Text(label), *cells, style="" if line.promise is not None else "dim")
    return table


def _people(value: float) -> str:
    return f"{value:,.0f}" if value >= 10.0 else number_text(value, 2)


def asked_text(outlook: Outlook) -> Iterator[str]:
    """What to know about visits, and about promises that nothing has been drawn for."""
    silent: dict[tuple[int, float], list[LineOutlook]] = {}
    for line in outlook.lines:
        if line.visits is not None and line.reports < outlook.people:
            silent.setdefault((line.visits, line.reports), []).append(line)
    for (visits, reports), lines in silent.items():
        yield (
            f"{listed([line.label for line in lines])}: people who come more than "
            f"{'once' if visits == 1 else f'{visits} times'} are served without being learnt from, "
            f"so that about {reports:,.0f} of {outlook.people:,} visits tell something."
        )
    if any(line.trust_model == "joint" for line in outlook.lines):
        yield (
            "The promise of a line under joint privacy is what is asked for; the certificate of a "
            "run says what the noise that was drawn holds."
        )


def time_text(outlook: Outlook) -> str:
    """How long the run takes."""
    if outlook.seconds is None:
        return "How long it takes is not known beforehand: with so few people trying takes as long."
    jobs = "one process" if outlook.jobs == 1 else f"{outlook.jobs} processes"
    return f"The run takes {about_time(outlook.seconds)} with {jobs}."
