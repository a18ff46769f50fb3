"""A result in text: what `discreet run` prints, and what `print(result)` does."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from discreet.lab.reporting.summary import Summary
from discreet.lab.reporting.words import Verdict, promise, result_table
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


def verdict_text(answer: Verdict) -> str:
    """The verdict as lines: the headline, a finding each, what it rests on."""
    return "\n".join(text for text in (answer.headline, *answer.findings, answer.basis) if text)


def show(
    study: Study, summary: Summary, answer: Verdict, said: Sequence[str], screen: Console
) -> None:
    """The verdict, the result as a table, what is remarked, and what is promised."""
    title, headline = plain(study.title), plain(answer.headline)
    screen.print()
    screen.print(f"[bold]{title}[/]")
    for text in study_facts(study):
        screen.print(plain(text))
    screen.print()
    screen.print(f"[bold]{headline}[/]")
    for text in (*answer.findings, answer.basis):
        screen.print(plain(text))
    screen.print()
    screen.print(result_table(summary))
    screen.print()
    for text in said:
        screen.print(plain(text))
    if said:
        screen.print()
    screen.print(plain(promise(summary)))
    screen.print()
