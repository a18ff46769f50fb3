"""The study file that a draft becomes, with comments that say what is left to do.

A file knows whether it is still as it was written: its first line holds a digest of the others.
"""

from __future__ import annotations

import hashlib
import os
import textwrap
from collections.abc import Iterator
from pathlib import Path

from discreet.lab.environments.draft import Draft, DraftLog, DraftRewards, tidy
from discreet.lab.environments.sketch import RARE, Sketch
from discreet.people.columns import label_text
from discreet.toml_words import UNSTATED, toml_text

PUBLIC = (
    "what was public before anybody looked at the table: a questionnaire, the limits of a form, a "
    "law, a census, a published study"
)
"""Where bounds come from."""

_MARK = "# discreet init "
_DIGITS = 16
_WIDTH = 100
_SHOWN = 12  # columns that could be the outcome


def draft_text(draft: Draft, file: Path) -> str:
    """The study file of a draft, which will lie at `file`."""
    body = "\n".join(_lines(draft, file)) + "\n"
    return f"{_MARK}{_digest(body)}: drafted from {toml_text(draft.table.path.name)}\n{body}"


def is_untouched(text: str) -> bool:
    """Whether this is a draft that nobody changed since it was written."""
    first, _, body = text.partition("\n")
    return first.startswith(f"{_MARK}{_digest(body)}:")


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:_DIGITS]


def _lines(draft: Draft, file: Path) -> Iterator[str]:
    table = draft.table
    yield "#"
    yield from _comment(
        f'State what is "{UNSTATED}", read the comments, and see what is still wrong: discreet '
        f"check {file.name}"
    )
    yield from _comment(
        "Counts and labels in this file were read off the table. Whoever sees the file learns "
        "them: take out what must not be known before you hand it on."
    )
    yield ""
    yield f"name = {toml_text(file.stem or 'study')}"
    yield f"title = {toml_text(f'What each epsilon costs on {table.path.name}')}"
    yield "replicates = 4   # repetitions with people in another order"
    yield "seed = 1         # the same seed gives the same result"
    yield ""
    yield "[problem]"
    yield f'name = "{"log" if isinstance(draft.outcome, DraftLog) else "table"}"'
    yield f"path = {toml_text(_relative(table.path, file))}   # {table.rows:,} rows"
    yield ""
    yield from _outcome(draft)
    yield ""
    yield from _columns(draft)
    yield ""
    yield from _learners(draft)
    yield from _people(draft)
    yield from _serve(draft)


def _outcome(draft: Draft) -> Iterator[str]:
    outcome = draft.outcome
    if outcome is None:
        able = [each.sketch for each in draft.columns if each.sketch.labels]
        named = ", ".join(toml_text(each.name) for each in able[:_SHOWN])
        yield from _comment(
            "What is learnt: which label a person has (the labels are the arms, and whoever is "
            "given their own earns 1), or which arm pays most. State one of the three forms below"
            f"{f'; columns of labels: {named}' if named else ''}. Take the column out of columns."
        )
        yield f"label = {toml_text(UNSTATED)}"
        yield '# label = { column = "outcome", classes = ["no", "yes"] }'
        yield '# label = { column = "hours", thresholds = [10, 20] }   # brackets of a number'
        yield '# rewards = { columns = ["reward_a", "reward_b"], lower = 0, upper = 1 }'
    elif isinstance(outcome, DraftLog):
        columns = outcome.columns
        yield from _comment(
            "The table seems to log decisions: what was done, what followed, and how likely that "
            "was to be done. If it does not, name the column to guess: discreet init --label."
        )
        yield f"action = {toml_text(outcome.action)}"
        yield from _counts(columns.reward)
        yield f"reward = {toml_text(outcome.declared)}"
        yield f"propensity = {toml_text({'column': columns.propensity.name})}"
    elif isinstance(outcome, DraftRewards):
        yield from _comment(
            "What each arm would pay a person, and what an arm can pay at least and at most: "
            f"{PUBLIC}."
        )
        yield from _counts(*outcome.sketches)
        yield f"rewards = {toml_text(outcome.declared)}"
    else:
        brackets = (
            f"{toml_text(outcome.sketch.name)} holds numbers: state public thresholds that cut "
            "them into brackets, such as [10, 20]; the brackets are the arms."
        )
        classes = (
            "Which of these a person has. They are the arms, and whoever is given their own earns "
            "1. Keep those that can occur, in an order that makes sense."
        )
        yield from _comment(classes if outcome.classes else brackets)
        yield from _counts(outcome.sketch)
        yield f"label = {toml_text(outcome.declared)}"


def _columns(draft: Draft) -> Iterator[str]:
    yield from _comment(
        "What a learner may know of a person before it chooses. Bounds are public and hold for "
        "everybody: a lowest or highest value that is read off the table is that of somebody in "
        f"it, and no promise covers it. State {PUBLIC}. Bounds that are rather too wide cost "
        'little; what lies beyond them counts as the nearest bound (outside = "clip").'
    )
    if any(column.sketch.missing for column in draft.columns):
        yield from _comment(
            'missing = "unknown": labels get one more, "unknown"; a number without a value counts '
            "as the middle of its bounds, and a further column says that it is unknown."
        )
    if any(column.sketch.kind == "labels" for column in draft.columns):
        yield from _comment(
            "Labels are listed as they occur, and a list that is read off the table names rare "
            "ones, too: keep those that a form offers, in an order that makes sense. People with "
            'another one are refused, or left out with outside = "drop".'
        )
    yield "columns = ["
    for column in draft.columns:
        yield from _counts(column.sketch, indent="  ")
        if column.sketch.kind == "levels" and column.bounds is None:
            yield "  # levels = upper - lower + 1, as values are whole numbers"
        yield f"  {toml_text(column.declared)},"
    yield "]"
    table, left_out, follows = draft.table, draft.left_out, dict(draft.follows)
    if left_out:
        yield "# Left out:"
    for sketch in left_out:
        used = "not used" if sketch.kind != "left out" else sketch.advice
        if table.mostly_lacks(sketch):
            used = f"{sketch.missing:,} rows have none"
        if sketch.name in follows:
            used = f"{follows[sketch.name]}; put it back if it is known before the choice"
        advice = f" ({used[0].lower()}{used[1:].removesuffix('.')})" if used else ""
        yield from _comment(f"  {toml_text(sketch.name)}: {sketch.holds}{advice}")


def _counts(*sketches: Sketch, indent: str = "") -> Iterator[str]:
    """What was read off the table about columns, as comments."""
    for sketch in sketches:
        facts = [f"QUESTION: {sketch.question}"] if sketch.question else []
        facts += [sketch.holds]
        facts += [f"{sketch.rare} of them in fewer than {RARE} rows"] if sketch.rare else []
        facts += [f"{_rows(sketch.missing)} none"] if sketch.missing else []
        if sketch.mark is not None:
            facts.append(
                f"{_rows(sketch.marked)} {sketch.mark:g}, which mostly marks a missing value: "
                "unless it is declared, those are left out"
            )
        facts += [sketch.advice] if sketch.advice else []
        name = f"{toml_text(sketch.name)}: " if len(sketches) > 1 else ""
        yield from _comment(f"{name}{'; '.join(facts)}", indent)


def _learners(draft: Draft) -> Iterator[str]:
    epsilons = [tidy(epsilon) for epsilon in draft.epsilons]
    yield "[[learners]]   # without a name: the usual learner for such a table"
    yield f"epsilon = {toml_text(epsilons)}   # a line of the result each; smaller protects more"
    yield "non_private = true    # and one without privacy, for what it costs"
    yield ""
    yield "[[learners]]"
    yield 'name = "uniform"   # chooses at random'


def _serve(draft: Draft) -> Iterator[str]:
    """The table that `discreet serve` reads, as comments."""
    outcome, arm = draft.outcome, "the name of an arm"
    if isinstance(outcome, DraftRewards):
        arm = outcome.sketches[0].name
    elif isinstance(outcome, DraftLog):
        arm = label_text(outcome.columns.names[0])
    elif outcome is not None and outcome.classes:
        arm = label_text(outcome.classes[0])
    lines = {
        f"epsilon = {tidy(draft.epsilons[len(draft.epsilons) // 2])}": "one of those above",
        f"people = {draft.table.rows}": "how many are expected",
        f"default_arm = {toml_text(arm)}": "for people while the service cannot be reached",
        "expires_days = 30": "joint privacy: a decision without a reward is forgotten after these",
        "retention_days = 0": "joint privacy: observations are kept so long after their release",
        "sources = { clinic = 2.0 }": "others who report, and what a report of theirs costs",
    }
    yield ""
    yield from _comment("For people instead of a table: take the signs out, and discreet serve.")
    yield "# [serve]"
    width = max(map(len, lines))
    for line, comment in lines.items():
        yield f"# {line:<{width}}   # {comment}"


def _people(draft: Draft) -> Iterator[str]:
    able = [each.name for each in draft.left_out if each.names_people]
    if draft.person is not None:
        yield from ("", "[people]   # who comes more than once", f"id = {toml_text(draft.person)}")
    elif able:
        yield ""
        yield from _comment("If people come more than once, name the column that says who comes:")
        yield from ("# [people]", f"# id = {toml_text(able[0])}")


def _comment(text: str, indent: str = "") -> list[str]:
    start = f"{indent}# "
    hanging = start + " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(
        text, _WIDTH, initial_indent=start, subsequent_indent=hanging, break_on_hyphens=False
    )


def _rows(count: int) -> str:
    return f"{count:,} row{' has' if count == 1 else 's have'}"


def _relative(table: Path, file: Path) -> str:
    """Where the table lies, as seen from the study file."""
    try:
        return Path(os.path.relpath(table, file.parent)).as_posix()
    except ValueError:  # on another drive
        return table.resolve().as_posix()
