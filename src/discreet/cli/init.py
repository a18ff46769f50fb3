"""`discreet init`: the first draft of a study from a table.

What it asks at `--ask` can be answered from a file as well: it reads lines, and needs no terminal.
Without `--ask` it asks nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from discreet.cli.console import Kind, check_outputs, out, refusing
from discreet.durable import write_bytes
from discreet.lab.results.screen import plain
from discreet.validation import InvalidInput, Refusals

if TYPE_CHECKING:
    from discreet.lab.environments.draft import (
        Bounds,
        Draft,
        DraftColumn,
        DraftLabel,
        DraftLog,
        DraftRewards,
    )
    from discreet.lab.environments.sketch import Sketch
    from discreet.people.columns import Label

Answer = TypeVar("Answer")

_LEAVE_OUT = "-"
_MANY_LOST = 0.1  # the share of rows left out that is worth a warning


def init(
    table: Annotated[Path, typer.Argument(help="A table of people: CSV, gzipped CSV or Parquet.")],
    file: Annotated[
        Path | None,
        typer.Option("--out", help="The study file; named after the table if left out."),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="The column to guess: its labels are the arms.")
    ] = None,
    rewards: Annotated[
        str | None, typer.Option(help="Or one column of rewards for each arm: A,B,C.")
    ] = None,
    ask: Annotated[
        bool, typer.Option("--ask", help="Ask for the label, bounds and epsilons.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a study file that was changed since.")
    ] = False,
) -> None:
    """Draft a study file from a table; bounds are left for you to state."""
    from discreet.lab.environments.draft import first_draft
    from discreet.lab.environments.draft_text import draft_text
    from discreet.lab.environments.sketch import sketch_table

    with refusing():
        path = file or Path(_stem(table)).with_suffix(".toml")
        kind = Kind("a draft as discreet init wrote it", (".toml",), _is_draft, _OTHERWISE)
        refusals, names = Refusals(), [] if rewards is None else _split(rewards)
        with refusals.collected():
            check_outputs([(path, replace(kind, wrote=lambda _: True) if force else kind)], [table])
        if rewards is not None and not names:
            refusals.add(f"--rewards was {rewards!r}; name a column for each arm, such as A,B.")
        with refusals.collected():
            draft = first_draft(sketch_table(table), label, names)
        refusals.raise_if_any()
        if ask:
            draft = _asked(draft)
        write_bytes(path, draft_text(draft, path).encode())
        _show(draft, path)


_OTHERWISE = "name another file with --out, or add --force to replace it"


def _stem(table: Path) -> str:
    """The name of a table without the endings of its format."""
    return table.name.partition(".")[0] or "study"


def _is_draft(path: Path) -> bool:
    from discreet.lab.environments.draft_text import is_untouched

    try:
        return is_untouched(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        return False


def _show(draft: Draft, path: Path) -> None:
    """What the table seems to hold, and what is left to do."""
    from discreet.lab.environments.draft import DraftLog
    from discreet.lab.reporting.numbers import counted
    from discreet.lab.reporting.words import terminal_table

    if draft.lost > _MANY_LOST * draft.table.rows:
        out.say(
            f"Warning: at least {draft.lost:,} of {draft.table.rows:,} rows are left out, as they "
            "have no outcome, or a number that marks a missing value."
        )
        out.print()
    used = {column.sketch.name for column in draft.columns}
    absent = {sketch.name for sketch in draft.left_out}
    table = terminal_table(("column", "holds", "without"), left=("column", "holds"))
    table.columns[1].no_wrap = False
    for sketch in draft.table.columns:
        role = "" if sketch.name in used else "left out: " if sketch.name in absent else "learnt: "
        missing = f"{sketch.missing:,}" if sketch.missing else ""
        table.add_row(plain(sketch.name), plain(f"{role}{sketch.holds}"), missing)
    out.print(table)
    out.print()
    out.say(f"{counted(draft.table.rows, 'row')}. Study: {path}")
    if isinstance(draft.outcome, DraftLog):
        log = draft.outcome.columns
        out.say(
            f"A log of decisions: {log.action.name} was done, {log.reward.name} followed, "
            f"{log.propensity.name} is how likely that was."
        )
    for name, why in draft.follows:
        out.say(f"Left out: {name}, as {why}. Put it back if it is known before the choice.")
    for name, question in draft.questions:
        out.say(f"Question about {name}: {question}.")
    left = draft.unstated
    out.say(
        f'In {counted(left, "line")} something is still "?": the comments there say where it comes '
        f"from. Then: discreet check {path}"
        if left
        else f"Now: discreet check {path}"
    )


# The dialogue.


def _asked(draft: Draft) -> Draft:
    """The draft after a dialogue about everything that only a person can say."""
    out.say(
        "Bounds are public: the lowest and highest value that a questionnaire, a form, a law or a "
        f"census allows, not those of the table. Enter leaves a question for later, {_LEAVE_OUT} "
        "leaves a column out.\n"
    )
    if draft.outcome is None:
        draft = _ask_outcome(draft)
    if draft.outcome is not None:
        draft = replace(draft, outcome=_ask_about_outcome(draft.outcome))
    columns = [_ask_column(column, draft.table.rows) for column in draft.columns]
    kept = tuple(column for column in columns if column is not None)
    if not kept:
        raise InvalidInput("every column was left out; a study needs one. Nothing was written.")
    draft = replace(draft, columns=kept)
    return _ask_epsilons(_ask_person(draft))


def _ask(question: str, read: Callable[[str], Answer]) -> Answer:
    """What the answer to a question says; asked again until it can be read."""
    while True:
        out.print(plain(question), end=" ")
        try:
            answer = input().strip()
            if not sys.stdin.isatty():  # where nobody typed it, and the end of the line with it
                out.say(answer)
            return read(answer)
        except InvalidInput as error:
            out.say(str(error))
        except EOFError as error:
            raise InvalidInput(
                f"the answers ended before the question {question!r}; nothing was written. Answer "
                "all questions, or leave --ask out."
            ) from error


def _ask_outcome(draft: Draft) -> Draft:
    from discreet.lab.environments.draft import first_draft

    able = [column.sketch.name for column in draft.columns if column.sketch.labels]

    def read(answer: str) -> Draft:
        names = _split(answer)
        if not names:
            return draft
        return first_draft(draft.table, *((names[0],) if len(names) == 1 else (None, names)))

    hint = f" Columns of labels: {', '.join(able)}." if able else ""
    question = "Which column is to be guessed? Or which are the rewards of the arms (A, B)?"
    return _ask(f"{question}{hint}", read)


def _ask_about_outcome(
    outcome: DraftLabel | DraftRewards | DraftLog,
) -> DraftLabel | DraftRewards | DraftLog:
    from discreet.lab.environments.draft import DraftLog, DraftRewards

    if isinstance(outcome, DraftLog) and outcome.columns.binary:
        return outcome
    if isinstance(outcome, DraftRewards | DraftLog):
        return _ask(
            "Lowest and highest reward of an arm:",
            lambda answer: replace(outcome, bounds=_bounds(answer)),
        )
    if outcome.classes:
        return _ask(
            f"Classes of {outcome.sketch.name}: {_joined(outcome.classes)}. Enter keeps them; or "
            "name yours:",
            lambda answer: replace(outcome, classes=_labels(answer, outcome.classes)),
        )
    return _ask(
        f"{outcome.sketch.name} holds numbers. Public thresholds between the classes, such as 10, "
        "20:",
        lambda answer: replace(outcome, thresholds=tuple(map(_number, _split(answer)))),
    )


def _ask_column(column: DraftColumn, rows: int) -> DraftColumn | None:
    """The column with what was said about it; None where it is left out."""
    sketch = column.sketch

    def read(answer: str) -> DraftColumn | None:
        if answer == _LEAVE_OUT:
            return None
        if sketch.kind == "labels":
            labels = _labels(answer, column.labels)
            answered = replace(sketch, question="") if answer else sketch
            return replace(column, sketch=answered, labels=labels)
        return replace(column, bounds=_bounds(answer, whole=sketch.kind == "levels"))

    if sketch.kind == "labels":
        asked = f"{_joined(column.labels)}. Enter keeps them; or name yours:"
    else:
        asked = "Lowest and highest value:"
    return _ask(f"{_about(sketch, rows)}. {asked}", read)


def _about(sketch: Sketch, rows: int) -> str:
    missing = f", none in {sketch.missing:,} of {rows:,} rows" if sketch.missing else ""
    question = f" ({sketch.question})" if sketch.question else ""
    return f"{sketch.name}: {sketch.holds}{missing}{question}"


def _ask_person(draft: Draft) -> Draft:
    able = [sketch.name for sketch in draft.left_out if sketch.names_people]
    if not able:
        return draft

    def read(answer: str) -> Draft:
        if answer and answer not in able:
            raise InvalidInput(
                f"{answer!r} is none of {', '.join(able)}; name one, or press Enter."
            )
        return replace(draft, person=answer or None)

    question = "If people come more than once, which column says who comes? Enter: everybody once."
    return _ask(f"{question} ({', '.join(able)})", read)


def _ask_epsilons(draft: Draft) -> Draft:
    def read(answer: str) -> Draft:
        given = tuple(map(_number, _split(answer)))
        return replace(draft, epsilons=given or draft.epsilons)

    usual = ", ".join(f"{epsilon:g}" for epsilon in draft.epsilons)
    return _ask(f"Epsilons to try; smaller protects more. Enter: {usual}.", read)


# What answers say.


def _split(answer: str) -> list[str]:
    """The parts between commas."""
    return [part for part in map(str.strip, answer.split(",")) if part]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InvalidInput(f"{text!r:.80} is not a number; write it as 12 or 0.5.") from error


def _bounds(answer: str, whole: bool = False) -> Bounds | None:
    """Two numbers, between which are blanks or a comma; None where nothing is said."""
    numbers = [_number(part) for part in answer.replace(",", " ").split()]
    if not numbers:
        return None
    if len(numbers) != 2 or (whole and any(number != int(number) for number in numbers)):
        kind = "whole numbers" if whole else "numbers"
        raise InvalidInput(
            f"{answer!r:.80} is not two {kind}; write the lowest and the highest: 18 90."
        )
    return numbers[0], numbers[1]


def _labels(answer: str, usual: tuple[Label, ...]) -> tuple[Label, ...]:
    """The labels that an answer names, as they are written in the table where they occur there."""
    from discreet.people.columns import label_text

    known = {label_text(label): label for label in usual}
    return tuple(known.get(text, text) for text in _split(answer)) or usual


def _joined(labels: tuple[Label, ...]) -> str:
    from discreet.people.columns import label_text

    return ", ".join(map(label_text, labels))
