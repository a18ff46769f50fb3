"""A result in text: what `discreet run` prints, and what `print(result)` does."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from discreet.lab.reporting.summary import Summary
from discreet.lab.reporting.words import (
    Verdict,
    appraisal_table,
    appraisals,
    promise,
    promises,
    result_table,
)
from discreet.lab.results.screen import plain
from discreet.lab.studies import Study


def meta_line(study: Study) -> str:
    """Where the people come from, how many they are, and what they can be given."""
    plural = "s" if study.replicates > 1 else ""
    return (
        f"{study.problem.source} {study.rounds:,} people, {study.replicates} replicate{plural}; "
        f"{study.problem.offer}."
    )


def study_facts(study: Study) -> list[str]:
    """What stands above a result: `meta_line`, which rows take part, which learner was chosen, and
    that nothing covers exact statistics of a private table."""
    rows = study.problem.rows
    facts = [meta_line(study), "" if rows is None else f"{rows.sentence}.", *study.choices]
    return [fact for fact in (*facts, study.problem.exposure) if fact]


def show(
    study: Study,
    summary: Summary,
    answer: Verdict,
    said: Sequence[str],
    screen: Console,
    details: bool = False,
) -> None:
    """Headline, table, remarks and promise; with `details` also method notes and own estimates."""
    title, headline = plain(study.title), plain(answer.headline)
    screen.print()
    screen.print(f"[bold]{title}[/]")
    for text in study_facts(study):
        screen.print(plain(text))
    screen.print()
    screen.print(f"[bold]{headline}[/]")
    screen.print()
    screen.print(result_table(summary))
    screen.print()
    for text in said:
        screen.print(plain(text))
    if said:
        screen.print()
    if details:
        own = appraisals(summary)
        if own:
            screen.print(appraisal_table(own))
            screen.print()
        for text in answer.notes:
            screen.print(plain(text))
        screen.print()
        screen.print(plain(promise(summary)))
    else:
        held = (line.guarantee for line in summary.private if line.guarantee is not None)
        screen.print(plain(promises(held, brief=True)))
    screen.print()
