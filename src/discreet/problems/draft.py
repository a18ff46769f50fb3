"""The first draft of a study file, from what a table seems to hold (sketch.py).

What only a person can say stands as `"?"`, which no study runs with: the bounds of numbers, the
column that is learnt, thresholds. The comments say where such facts come from. A draft knows
whether it is still as it was written: its first line holds a digest of the others.
"""

from __future__ import annotations

import hashlib
import os
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from discreet.problems.classification import ClassLabels, RewardColumns
from discreet.problems.columns import Column, Label
from discreet.problems.sketch import RARE, Sketch, TableSketch
from discreet.problems.toml_words import UNSTATED, toml_text
from discreet.validation import InvalidInput, distinct, nearest, positive_number

PUBLIC = (
    "what was public before anybody looked at the table: a questionnaire, the limits of a form, a "
    "law, a census, a published study"
)
"""Where bounds come from."""

EPSILONS = (1.0, 2.0, 4.0)

_MARK = "# discreet init "
_DIGITS = 16
_WIDTH = 100
_SHOWN = 12  # columns that could be the outcome

Bounds = tuple[float, float]


@dataclass(frozen=True)
class DraftColumn:
    """A column of contexts as far as it is declared.

    Attributes:
        sketch: what it seems to hold.
        bounds: lowest and highest value of numbers, once they are stated.
        labels: of a column of labels, in their order.
    """

    sketch: Sketch
    bounds: Bounds | None = None
    labels: tuple[Label, ...] = ()

    def __post_init__(self) -> None:
        name = self.sketch.name
        if self.sketch.kind == "labels":
            Column.category(name, self.labels)
        elif self.bounds is not None:
            Column(name, *self.bounds)

    @property
    def declared(self) -> dict[str, object]:
        """Its entry in the study file."""
        fields: dict[str, object] = {"name": self.sketch.name}
        if self.sketch.kind == "labels":
            fields["values"] = list(self.labels)
            fields |= _outside(self.sketch, self.labels)
        else:
            fields |= _bounds(self.bounds)
            fields |= {"levels": self._levels} if self.sketch.kind == "levels" else {}
            fields["outside"] = "clip" if self.sketch.mark is None else "drop"
        return fields | ({"missing": "drop"} if self.sketch.missing else {})

    @property
    def _levels(self) -> object:
        """How many whole numbers lie within the bounds."""
        return UNSTATED if self.bounds is None else int(self.bounds[1] - self.bounds[0]) + 1


@dataclass(frozen=True)
class DraftLabel:
    """The column to guess, whose labels (or the brackets between thresholds) are the arms."""

    sketch: Sketch
    classes: tuple[Label, ...] = ()
    thresholds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        name = self.sketch.name
        if self.sketch.kind == "left out":
            raise InvalidInput(
                f"the label {name!r} holds {self.sketch.holds}, which cannot be guessed; choose a "
                "column of labels or numbers."
            )
        if self.classes:
            Column.category(name, self.classes)
        elif self.thresholds:
            ClassLabels(name, thresholds=self.thresholds)

    @property
    def declared(self) -> dict[str, object]:
        """Its entry in the study file."""
        fields: dict[str, object] = {"column": self.sketch.name}
        if self.classes:
            fields["classes"] = list(self.classes)
            fields |= _outside(self.sketch, self.classes)
        else:
            fields["thresholds"] = [_tidy(cut) for cut in self.thresholds] or UNSTATED
        return fields | ({"missing": "drop"} if self.sketch.missing else {})


@dataclass(frozen=True)
class DraftRewards:
    """One column of rewards for each arm, within bounds that all share."""

    sketches: tuple[Sketch, ...]
    bounds: Bounds | None = None

    def __post_init__(self) -> None:
        for sketch in self.sketches:
            if sketch.kind == "left out" or (sketch.kind == "labels" and sketch.labels != (0, 1)):
                raise InvalidInput(
                    f"the reward column {sketch.name!r} holds {sketch.holds}; rewards are numbers."
                )
        RewardColumns(tuple(each.name for each in self.sketches), *(self.bounds or (0.0, 1.0)))

    @property
    def declared(self) -> dict[str, object]:
        """Its entry in the study file."""
        rows = any(each.missing for each in self.sketches)
        fields = {"columns": [each.name for each in self.sketches], **_bounds(self.bounds)}
        return fields | {"outside": "clip"} | ({"missing": "drop"} if rows else {})


@dataclass(frozen=True)
class Draft:
    """What is known so far about a study of a table.

    Attributes:
        table: what the table seems to hold.
        columns: what a learner may know of a person.
        outcome: what is learnt; None until somebody says.
        person: the column that says whose row it is, where people come more than once.
        epsilons: the privacy that is tried.
    """

    table: TableSketch
    columns: tuple[DraftColumn, ...]
    outcome: DraftLabel | DraftRewards | None = None
    person: str | None = None
    epsilons: tuple[float, ...] = EPSILONS

    def __post_init__(self) -> None:
        distinct((positive_number(each, "epsilon") for each in self.epsilons), "epsilons")

    @property
    def left_out(self) -> tuple[Sketch, ...]:
        """The columns of the table that are nowhere in the study."""
        used = [column.sketch for column in self.columns]
        used += [self.outcome.sketch] if isinstance(self.outcome, DraftLabel) else []
        used += self.outcome.sketches if isinstance(self.outcome, DraftRewards) else []
        return tuple(each for each in self.table.columns if each not in used)


def first_draft(table: TableSketch, label: str | None = None, rewards: Sequence[str] = ()) -> Draft:
    """A draft with every column that can be used, but for those that most rows lack.

    Args:
        table: what the table seems to hold.
        label: the column to guess, if that is what is learnt.
        rewards: or one column of rewards for each arm.

    Raises:
        InvalidInput: for columns that are not there, or cannot be what they are asked to be.
    """
    if label is not None and rewards:
        raise InvalidInput(
            f"the label {label!r} and the rewards {', '.join(rewards)} were given; a study has one "
            "or the other: a column to guess, or a column of rewards for each arm."
        )
    outcome: DraftLabel | DraftRewards | None = None
    if label is not None:
        sketch = _named(table, label)
        outcome = DraftLabel(sketch, sketch.labels)
    elif rewards:
        outcome = DraftRewards(tuple(_named(table, name) for name in rewards))
    taken = {label, *rewards}
    columns = tuple(
        DraftColumn(each, labels=each.labels if each.kind == "labels" else ())
        for each in table.named
        if each.kind != "left out" and each.name not in taken and not table.mostly_lacks(each)
    )
    if not columns:
        raise InvalidInput(
            f"no column of {str(table.path)!r} is left that a learner could know of a person "
            "(numbers or labels); give a table with some."
        )
    return Draft(table, columns, outcome)


def _named(table: TableSketch, name: str) -> Sketch:
    known = {each.name: each for each in table.named}
    if name not in known:
        raise InvalidInput(
            f"column {name!r} is not in the table, which has: {', '.join(known)}. Name one of "
            f"these.{nearest(name, known)}"
        )
    return known[name]


# The file.


def draft_text(draft: Draft, file: Path) -> str:
    """The study file of a draft, which will lie at `file`."""
    body = "\n".join(_lines(draft, file)) + "\n"
    return f"{_MARK}{_digest(body)}: drafted from {toml_text(draft.table.path.name)}\n{body}"


def unstated_in(draft: Draft) -> int:
    """How many entries of the file are still to be stated."""
    outcome = draft.outcome
    entries = [column.declared for column in draft.columns]
    entries.append({"label": UNSTATED} if outcome is None else outcome.declared)
    return sum(UNSTATED in entry.values() for entry in entries)


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
    yield 'name = "table"'
    yield f"path = {toml_text(_relative(table.path, file))}   # {table.rows:,} rows"
    yield ""
    yield from _outcome(draft)
    yield ""
    yield from _columns(draft)
    yield ""
    yield from _learners(draft)
    yield from _people(draft)


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
    table, left_out = draft.table, draft.left_out
    if left_out:
        yield "# Left out:"
    for sketch in left_out:
        used = "not used" if sketch.kind != "left out" else sketch.advice
        if table.mostly_lacks(sketch):
            used = f"{sketch.missing:,} rows have none, and would be left out with it"
        advice = f" ({used[0].lower()}{used[1:].removesuffix('.')})" if used else ""
        yield from _comment(f"  {toml_text(sketch.name)}: {sketch.holds}{advice}")


def _counts(*sketches: Sketch, indent: str = "") -> Iterator[str]:
    """What was read off the table about columns, as comments."""
    for sketch in sketches:
        facts = [sketch.holds]
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
    epsilons = [_tidy(epsilon) for epsilon in draft.epsilons]
    yield "[[learners]]   # without a name: the usual learner for such a table"
    yield f"epsilon = {toml_text(epsilons)}   # a line of the result each; smaller protects more"
    yield "non_private = true    # and one without privacy, for what it costs"
    yield ""
    yield "[[learners]]"
    yield 'name = "uniform"   # chooses at random'


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


def _outside(sketch: Sketch, labels: Sequence[Label]) -> dict[str, object]:
    """The rule for labels that are not declared, where some of the table are not."""
    return {} if sketch.mark is None and set(sketch.labels) <= set(labels) else {"outside": "drop"}


def _bounds(bounds: Bounds | None) -> dict[str, object]:
    low, high = (UNSTATED, UNSTATED) if bounds is None else map(_tidy, bounds)
    return {"lower": low, "upper": high}


def _tidy(number: float) -> int | float:
    """Whole numbers without a point, as people write them."""
    return int(number) if number == int(number) and abs(number) < 2**53 else float(number)


def _relative(table: Path, file: Path) -> str:
    """Where the table lies, as seen from the study file."""
    try:
        return Path(os.path.relpath(table, file.parent)).as_posix()
    except ValueError:  # on another drive
        return table.resolve().as_posix()
