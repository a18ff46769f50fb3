"""The first draft of a study, from what a table seems to hold (sketch.py).

What only a person can say is `"?"` until it is stated, and no study runs with that: the bounds of
numbers, the column that is learnt, thresholds. draft_text.py writes the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from discreet.lab.environments.classification import ClassLabels, RewardColumns
from discreet.lab.environments.logs import LoggedReward
from discreet.lab.environments.sketch import (
    LogColumns,
    Sketch,
    TableSketch,
    follows_from,
    log_columns,
)
from discreet.people.columns import UNKNOWN, Column, Label
from discreet.toml_words import UNSTATED
from discreet.validation import InvalidInput, Refusals, distinct, nearest, positive_number

EPSILONS = (1.0, 2.0, 4.0)
_NAMED = 8  # columns of which it is said why they are left out

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
            asked = self.sketch.question and self.labels == self.sketch.labels
            fields["values"] = UNSTATED if asked else list(self.labels)
            fields |= {} if asked else _outside(self.sketch, self.labels)
        else:
            fields |= _bounds(self.bounds)
            fields |= {"levels": self._levels} if self.sketch.kind == "levels" else {}
            fields["outside"] = "clip" if self.sketch.mark is None else "drop"
        return fields | ({"missing": UNKNOWN} if self.sketch.missing else {})

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
        if self.classes and self.sketch.question and self.classes == self.sketch.labels:
            fields["classes"] = UNSTATED
        elif self.classes:
            fields["classes"] = list(self.classes)
            fields |= _outside(self.sketch, self.classes)
        else:
            fields["thresholds"] = [tidy(cut) for cut in self.thresholds] or UNSTATED
        return fields | ({"missing": "drop"} if self.sketch.missing else {})


@dataclass(frozen=True)
class DraftRewards:
    """One column of rewards for each arm, within bounds that all share."""

    sketches: tuple[Sketch, ...]
    bounds: Bounds | None = None

    def __post_init__(self) -> None:
        refusals = Refusals()
        for sketch in self.sketches:
            if sketch.kind == "left out" or (sketch.kind == "labels" and sketch.labels != (0, 1)):
                refusals.add(
                    f"the reward column {sketch.name!r} holds {sketch.holds}; rewards are numbers, "
                    "so name columns of numbers."
                )
        refusals.raise_if_any()
        RewardColumns(tuple(each.name for each in self.sketches), *(self.bounds or (0.0, 1.0)))

    @property
    def declared(self) -> dict[str, object]:
        """Its entry in the study file."""
        rows = any(each.missing for each in self.sketches)
        fields = {"columns": [each.name for each in self.sketches], **_bounds(self.bounds)}
        return fields | {"outside": "clip"} | ({"missing": "drop"} if rows else {})


@dataclass(frozen=True)
class DraftLog:
    """Logged decisions: what was done, what followed, and how likely it was."""

    columns: LogColumns
    bounds: Bounds | None = None

    def __post_init__(self) -> None:
        if self.bounds is None and self.columns.binary:
            object.__setattr__(self, "bounds", (0.0, 1.0))
        LoggedReward(self.columns.reward.name, *(self.bounds or (0.0, 1.0)))

    @property
    def action(self) -> dict[str, object]:
        """The entry of the action in the study file."""
        return {"column": self.columns.action.name, "names": list(self.columns.names)}

    @property
    def declared(self) -> dict[str, object]:
        """The entry of the reward."""
        return {"column": self.columns.reward.name, **_bounds(self.bounds)}

    @property
    def sketches(self) -> tuple[Sketch, ...]:
        """The columns that are no contexts."""
        return self.columns.action, self.columns.reward, self.columns.propensity


@dataclass(frozen=True)
class Draft:
    """What is known so far about a study of a table.

    Attributes:
        table: what the table seems to hold.
        columns: what a learner may know of a person.
        outcome: what is learnt; None until somebody says.
        person: the column that says whose row it is, where people come more than once.
        epsilons: the privacy that is tried.
        follows: columns left out as they seem to follow from the outcome, each with the reason.
    """

    table: TableSketch
    columns: tuple[DraftColumn, ...]
    outcome: DraftLabel | DraftRewards | DraftLog | None = None
    person: str | None = None
    epsilons: tuple[float, ...] = EPSILONS
    follows: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        distinct((positive_number(each, "epsilon") for each in self.epsilons), "epsilons")

    @property
    def unstated(self) -> int:
        """How many entries of the file are still to be stated."""
        entries = [column.declared for column in self.columns]
        entries.append({"label": UNSTATED} if self.outcome is None else self.outcome.declared)
        return sum(UNSTATED in entry.values() for entry in entries)

    @property
    def outcome_sketches(self) -> tuple[Sketch, ...]:
        """The columns of what is learnt."""
        if isinstance(self.outcome, DraftLabel):
            return (self.outcome.sketch,)
        return () if self.outcome is None else self.outcome.sketches

    @property
    def left_out(self) -> tuple[Sketch, ...]:
        """The columns of the table that are nowhere in the study."""
        used = [column.sketch for column in self.columns] + [*self.outcome_sketches]
        names = {each.name for each in used}
        return tuple(each for each in self.table.columns if each.name not in names)

    @property
    def questions(self) -> tuple[tuple[str, str], ...]:
        """What can be read in two ways: columns of the study, each with its question."""
        sketches = [column.sketch for column in self.columns] + [*self.outcome_sketches]
        return tuple((each.name, each.question) for each in sketches if each.question)

    @property
    def lost(self) -> int:
        """How many rows the rules of the draft leave out at least."""
        outcomes = [each.missing for each in self.outcome_sketches]
        marked = [column.sketch.marked for column in self.columns]
        return max([0, *outcomes, *marked])


def first_draft(table: TableSketch, label: str | None = None, rewards: Sequence[str] = ()) -> Draft:
    """A draft with every column that can be used, but for those that most rows lack, and those
    that seem to follow from the outcome.

    Args:
        table: what the table seems to hold.
        label: the column to guess, if that is what is learnt.
        rewards: or one column of rewards for each arm. Without either, a table with an action, a
            reward and a propensity is a log.

    Raises:
        InvalidInput: for columns that are not there, or cannot be what they are asked to be.
    """
    if label is not None and rewards:
        raise InvalidInput(
            f"the label {label!r} and the rewards {', '.join(rewards)} were given; a study has one "
            "or the other: a column to guess, or a column of rewards for each arm."
        )
    outcome: DraftLabel | DraftRewards | DraftLog | None = None
    if label is not None:
        sketch = _named(table, label)
        outcome = DraftLabel(sketch, sketch.labels)
    elif rewards:
        refusals, sketches = Refusals(), []
        for name in rewards:
            with refusals.collected():
                sketches.append(_named(table, name))
        refusals.raise_if_any()
        outcome = DraftRewards(tuple(sketches))
    elif (log := log_columns(table)) is not None:
        outcome = DraftLog(log)
    learnt = Draft(table, (), outcome).outcome_sketches
    taken = {each.name for each in learnt}
    able = [
        each
        for each in table.named
        if each.kind != "left out" and each.name not in taken and not table.mostly_lacks(each)
    ]
    about = [log.reward] if isinstance(outcome, DraftLog) and log is not None else learnt
    follows = {
        each.name: why
        for each in able
        for outcome_column in about
        if (why := follows_from(table, each, outcome_column))
    }
    columns = tuple(
        DraftColumn(each, labels=each.labels if each.kind == "labels" else ())
        for each in able
        if each.name not in follows
    )
    if not columns:
        spare = [each for each in table.columns if each.name not in taken][:_NAMED]
        said = (
            f"{each.name or 'unnamed'}: {each.holds}"
            + (f" ({each.advice})" if each.advice and each.kind == "left out" else "")
            + (", and most rows lack it" if table.mostly_lacks(each) else "")
            + (f", and {follows[each.name]}" if each.name in follows else "")
            for each in spare
        )
        why = "; ".join(dict.fromkeys(said))
        raise InvalidInput(
            f"no column of {str(table.path)!r} is left that a learner could know of a person. "
            f"{why or 'The table has no other column'}. Give a table with numbers or labels."
        )
    return Draft(table, columns, outcome, follows=tuple(follows.items()))


def _named(table: TableSketch, name: str) -> Sketch:
    known = {each.name: each for each in table.named}
    if name not in known:
        raise InvalidInput(
            f"column {name!r} is not in the table, which has: {', '.join(known)}. Name one of "
            f"these.{nearest(name, known)}"
        )
    return known[name]


def _outside(sketch: Sketch, labels: Sequence[Label]) -> dict[str, object]:
    """The rule for labels that are not declared, where some of the table are not."""
    return {} if sketch.mark is None and set(sketch.labels) <= set(labels) else {"outside": "drop"}


def _bounds(bounds: Bounds | None) -> dict[str, object]:
    low, high = (UNSTATED, UNSTATED) if bounds is None else map(tidy, bounds)
    return {"lower": low, "upper": high}


def tidy(number: float) -> int | float:
    """Whole numbers without a point, as people write them."""
    return int(number) if number == int(number) and abs(number) < 2**53 else float(number)
