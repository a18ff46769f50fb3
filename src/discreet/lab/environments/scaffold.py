"""A scaffold of a study file, from the profile of its table.

Entries that only a person can state are `"?"`, and no study runs with one: the bounds of numbers,
the outcome, thresholds, and the answers to questions. The first line of a file holds a digest of
the others, so that an edited file is recognised.
"""

from __future__ import annotations

import hashlib
import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from discreet.lab.environments.classification import RewardColumns
from discreet.lab.environments.profile import (
    RARE,
    ColumnProfile,
    LogColumns,
    TableProfile,
    follows_from,
    log_columns,
)
from discreet.people.columns import UNKNOWN, label_text
from discreet.toml_files import UNSTATED, toml_text
from discreet.validation import InvalidInput, Refusals, nearest

EPSILONS = (1, 2, 4)
_NAMED = 8  # columns whose exclusion an error explains
_MARK = "# discreet init "
_DIGITS = 16
_WIDTH = 100
_SHOWN = 12  # columns that could be the outcome
_PUBLIC = (
    "public knowledge, such as a questionnaire, the limits of a form, a law, a census or a "
    "published study"
)
_BOUNDS: dict[str, object] = {"lower": UNSTATED, "upper": UNSTATED}


@dataclass(frozen=True)
class Scaffold:
    """The parts of a study that follow from a table.

    Attributes:
        table: its profile.
        columns: the contexts.
        learnt: the columns of the outcome; empty where it is still unknown.
        rewards: whether these are one column of rewards for each arm.
        log: the columns of logged decisions, if the table is a log.
        follows: columns left out because they seem to follow from the outcome, with the reason.
    """

    table: TableProfile
    columns: tuple[ColumnProfile, ...]
    learnt: tuple[ColumnProfile, ...] = ()
    rewards: bool = False
    log: LogColumns | None = None
    follows: tuple[tuple[str, str], ...] = ()

    @property
    def outcome(self) -> dict[str, object]:
        """The entries of the outcome in the study file, by their keys."""
        if self.log is not None:
            binary = {"lower": 0, "upper": 1}
            return {
                "action": {"column": self.log.action.name, "names": list(self.log.names)},
                "reward": {
                    "column": self.log.reward.name,
                    **(binary if self.log.binary else _BOUNDS),
                },
                "propensity": {"column": self.log.propensity.name},
            }
        missing = {"missing": "drop"} if any(each.missing for each in self.learnt) else {}
        if self.rewards:
            names = [each.name for each in self.learnt]
            return {"rewards": {"columns": names, **_BOUNDS, "outside": "clip", **missing}}
        if not self.learnt:
            return {"label": UNSTATED}
        (label,) = self.learnt
        kind = "classes" if label.labels else "thresholds"
        return {"label": {"column": label.name, kind: _labels(label), **_drop(label), **missing}}

    @property
    def unstated(self) -> int:
        """The number of entries that are still to be stated."""
        entries = [declared(column) for column in self.columns]
        outcome = self.outcome.values()
        nested = [each for each in outcome if isinstance(each, Mapping)]
        return sum(UNSTATED in each.values() for each in (*entries, *nested)) + (
            UNSTATED in outcome
        )

    @property
    def left_out(self) -> tuple[ColumnProfile, ...]:
        """The columns of the table that the study does not use."""
        names = {each.name for each in (*self.columns, *self.learnt)}
        return tuple(each for each in self.table.columns if each.name not in names)

    @property
    def questions(self) -> tuple[tuple[str, str], ...]:
        """Ambiguous columns, each with its question."""
        used = (*self.columns, *self.learnt)
        return tuple((each.name, each.question) for each in used if each.question)

    @property
    def lost(self) -> int:
        """The least number of rows that the study leaves out."""
        missing = [each.missing for each in self.learnt]
        return max([0, *missing, *(each.marked for each in self.columns)])

    def text(self, file: Path) -> str:
        """The study file, to be written to `file`."""
        body = "\n".join(_lines(self, file)) + "\n"
        return f"{_MARK}{_digest(body)}: drafted from {toml_text(self.table.path.name)}\n{body}"


def scaffold(
    table: TableProfile, label: str | None = None, rewards: Sequence[str] = ()
) -> Scaffold:
    """The scaffold of a study on a table.

    Every usable column is a context, except those missing in most rows and those that seem to
    follow from the outcome.

    Args:
        table: its profile.
        label: the column to predict.
        rewards: or one column of rewards for each arm. Without either, a table with an action, a
            reward and a propensity is a log.

    Raises:
        InvalidInput: for columns that do not exist or do not fit.
    """
    if label is not None and rewards:
        raise InvalidInput(
            f"the label {label!r} and the rewards {', '.join(rewards)} were given; a study has one "
            "or the other: a column to guess, or a column of rewards for each arm."
        )
    refusals, learnt = Refusals(), list[ColumnProfile]()
    for name in rewards if label is None else (label,):
        with refusals.collected():
            learnt.append(_fitting(_named(table, name), bool(rewards)))
    refusals.raise_if_any()
    if rewards:
        RewardColumns(tuple(rewards), 0.0, 1.0)
    log = None if learnt else log_columns(table)
    about = tuple(learnt)
    if log is not None:
        learnt, about = [log.action, log.reward, log.propensity], (log.reward,)
    taken = {each.name for each in learnt}
    able = [
        each
        for each in table.named
        if each.kind != "left out" and each.name not in taken and not table.mostly_lacks(each)
    ]
    follows = {
        each.name: why
        for each in able
        for outcome in about
        if (why := follows_from(table, each, outcome))
    }
    columns = tuple(each for each in able if each.name not in follows)
    if not columns:
        raise InvalidInput(_no_column(table, taken, follows))
    return Scaffold(table, columns, tuple(learnt), bool(rewards), log, tuple(follows.items()))


def declared(column: ColumnProfile) -> dict[str, object]:
    """The entry of a context column in the study file."""
    fields: dict[str, object] = {"name": column.name}
    if column.kind == "labels":
        fields |= {"values": _labels(column), **_drop(column)}
    else:
        levels = {"levels": UNSTATED} if column.kind == "levels" else {}
        fields |= {**_BOUNDS, **levels, "outside": "clip" if column.mark is None else "drop"}
    return fields | ({"missing": UNKNOWN} if column.missing else {})


def is_untouched(text: str) -> bool:
    """Whether a text is a scaffold without edits."""
    first, _, body = text.partition("\n")
    return first.startswith(f"{_MARK}{_digest(body)}:")


def _named(table: TableProfile, name: str) -> ColumnProfile:
    known = {each.name: each for each in table.named}
    if name not in known:
        raise InvalidInput(
            f"column {name!r} is not in the table, which has: {', '.join(known)}. Name one of "
            f"these.{nearest(name, known)}"
        )
    return known[name]


def _fitting(column: ColumnProfile, reward: bool) -> ColumnProfile:
    """The column, if it can be the label or a reward."""
    if reward and (
        column.kind == "left out" or (column.kind == "labels" and column.labels != (0, 1))
    ):
        raise InvalidInput(
            f"the reward column {column.name!r} holds {column.holds}; rewards are numbers, so name "
            "columns of numbers."
        )
    if column.kind == "left out":
        raise InvalidInput(
            f"the label {column.name!r} holds {column.holds}, which cannot be guessed; choose a "
            "column of labels or numbers."
        )
    return column


def _no_column(table: TableProfile, taken: set[str], follows: Mapping[str, str]) -> str:
    spare = [each for each in table.columns if each.name not in taken][:_NAMED]
    said = (
        f"{each.name or 'unnamed'}: {each.holds}"
        + (f" ({each.advice})" if each.advice and each.kind == "left out" else "")
        + (", and most rows lack it" if table.mostly_lacks(each) else "")
        + (f", and {follows[each.name]}" if each.name in follows else "")
        for each in spare
    )
    why = "; ".join(dict.fromkeys(said))
    return (
        f"no column of {str(table.path)!r} is left that a learner could know of a person. "
        f"{why or 'The table has no other column'}. Give a table with numbers or labels."
    )


def _labels(column: ColumnProfile) -> object:
    """The labels, or `"?"` where a question or thresholds decide."""
    return UNSTATED if column.question or not column.labels else list(column.labels)


def _drop(column: ColumnProfile) -> dict[str, object]:
    """The rule for a code of missing values, which is no label."""
    return {} if column.mark is None or column.question else {"outside": "drop"}


# The file.


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:_DIGITS]


def _lines(study: Scaffold, file: Path) -> Iterator[str]:
    table = study.table
    yield "#"
    yield from _comment(
        f'State what is "{UNSTATED}" and read the comments; then: discreet check {file.name}'
    )
    yield from _comment(
        "Counts and labels in this file come from the table. Remove what must not be known before "
        "you share the file."
    )
    yield ""
    yield f"name = {toml_text(file.stem or 'study')}"
    yield f"title = {toml_text(f'What each epsilon costs on {table.path.name}')}"
    yield "replicates = 4   # repetitions with people in another order"
    yield "seed = 1         # the same seed gives the same result"
    yield ""
    yield "[problem]"
    yield f'name = "{"table" if study.log is None else "log"}"'
    yield f"path = {toml_text(_relative(table.path, file))}   # {table.rows:,} rows"
    yield ""
    yield from _outcome(study)
    yield ""
    yield from _columns(study)
    yield ""
    yield "[[learners]]   # without a name: the default learner for such a table"
    yield f"epsilon = {toml_text(EPSILONS)}   # one line of the result each; smaller protects more"
    yield "non_private = true    # and one without privacy, for comparison"
    yield ""
    yield "[[learners]]"
    yield 'name = "uniform"   # chooses at random'
    ids = [each.name for each in study.left_out if each.names_people]
    if ids:
        yield ""
        yield from _comment(
            "If people occur in several rows, name the column that identifies them:"
        )
        yield from ("# [people]", f"# id = {toml_text(ids[0])}")
    yield from _serve(study)


def _outcome(study: Scaffold) -> Iterator[str]:
    if study.log is not None:
        yield from _comment(
            "The table seems to log decisions: an action, its reward and its propensity. If it "
            "does not, name the column to guess: discreet init --label."
        )
        yield from _facts(study.log.reward)
    elif not study.learnt:
        able = [each for each in study.columns if each.labels]
        named = ", ".join(toml_text(each.name) for each in able[:_SHOWN])
        yield from _comment(
            "The outcome: a label to predict (its labels are the arms; a correct prediction earns "
            "1), or a reward column for each arm. State one of the three forms below"
            f"{f'; columns of labels: {named}' if named else ''}. Remove its columns from columns."
        )
    elif study.rewards:
        yield from _comment(f"The reward of each arm, and bounds from {_PUBLIC}.")
        yield from _facts(*study.learnt)
    elif study.learnt[0].labels:
        yield from _comment(
            "The label to predict. Its classes are the arms; a correct prediction earns 1. Keep "
            "the classes that can occur, in a meaningful order."
        )
        yield from _facts(*study.learnt)
    else:
        yield from _comment(
            f"{toml_text(study.learnt[0].name)} holds numbers: state public thresholds that cut "
            "them into brackets, such as [10, 20]; the brackets are the arms."
        )
        yield from _facts(*study.learnt)
    for key, entry in study.outcome.items():
        yield f"{key} = {toml_text(entry)}"
    if not study.learnt:
        yield '# label = { column = "outcome", classes = ["no", "yes"] }'
        yield '# label = { column = "hours", thresholds = [10, 20] }   # brackets of a number'
        yield '# rewards = { columns = ["reward_a", "reward_b"], lower = 0, upper = 1 }'


def _columns(study: Scaffold) -> Iterator[str]:
    yield from _comment(
        "The context of a person, known before the decision. Bounds are public and hold for "
        "everybody; the lowest and highest value of the table would reveal two people's values. "
        f"Take them from {_PUBLIC}. Wide bounds cost little; values beyond them are clipped "
        '(outside = "clip").'
    )
    if any(each.missing for each in study.columns):
        yield from _comment(
            'missing = "unknown" adds a label "unknown"; for numbers it takes the middle of the '
            "bounds and adds an indicator column."
        )
    if any(each.kind == "labels" for each in study.columns):
        yield from _comment(
            "Labels are listed as they occur, rare ones included: keep those that a form offers, "
            "in a meaningful order. A person with another label is an error, or is left out with "
            'outside = "drop".'
        )
    yield "columns = ["
    for column in study.columns:
        yield from _facts(column, indent="  ")
        if column.kind == "levels":
            yield "  # levels = upper - lower + 1, as values are whole numbers"
        yield f"  {toml_text(declared(column))},"
    yield "]"
    follows = dict(study.follows)
    if study.left_out:
        yield "# Left out:"
    for column in study.left_out:
        used = "not used" if column.kind != "left out" else column.advice
        if study.table.mostly_lacks(column):
            used = f"{column.missing:,} rows have none"
        if column.name in follows:
            used = f"{follows[column.name]}; put it back if it is known before the choice"
        advice = f" ({used[0].lower()}{used[1:].removesuffix('.')})" if used else ""
        yield from _comment(f"  {toml_text(column.name)}: {column.holds}{advice}")


def _facts(*columns: ColumnProfile, indent: str = "") -> Iterator[str]:
    """Comments about the values of columns."""
    for column in columns:
        facts = [f"QUESTION: {column.question}"] if column.question else []
        facts += [column.holds]
        facts += [f"{column.rare} of them in fewer than {RARE} rows"] if column.rare else []
        facts += [f"{_rows(column.missing)} none"] if column.missing else []
        if column.mark is not None:
            facts.append(
                f"{_rows(column.marked)} {column.mark:g}, which usually codes a missing value: "
                "these are left out unless it is declared"
            )
        facts += [column.advice] if column.advice else []
        name = f"{toml_text(column.name)}: " if len(columns) > 1 else ""
        yield from _comment(f"{name}{'; '.join(facts)}", indent)


def _serve(study: Scaffold) -> Iterator[str]:
    """The table that `discreet serve` reads, as comments."""
    arm = "the name of an arm"
    if study.log is not None:
        arm = study.log.names[0]
    elif study.rewards:
        arm = study.learnt[0].name
    elif study.learnt and study.learnt[0].labels:
        arm = label_text(study.learnt[0].labels[0])
    lines = {
        f"epsilon = {EPSILONS[len(EPSILONS) // 2]}": "one of those above",
        f"people = {study.table.rows}": "how many are expected",
        f"default_arm = {toml_text(arm)}": "used while the service cannot be reached",
        "expires_days = 30": "joint privacy: decisions without a reward expire after these",
        "retention_days = 0": "joint privacy: observations are kept this long after release",
        "sources = { clinic = 2.0 }": "other reporters, and the epsilon of one report",
    }
    yield ""
    yield from _comment("To serve people instead of a table, uncomment and run discreet serve.")
    yield "# [serve]"
    width = max(map(len, lines))
    for line, comment in lines.items():
        yield f"# {line:<{width}}   # {comment}"


def _comment(text: str, indent: str = "") -> list[str]:
    start = f"{indent}# "
    hanging = start + " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(
        text, _WIDTH, initial_indent=start, subsequent_indent=hanging, break_on_hyphens=False
    )


def _rows(count: int) -> str:
    return f"{count:,} row{' has' if count == 1 else 's have'}"


def _relative(table: Path, file: Path) -> str:
    """The path of the table relative to the study file."""
    try:
        return Path(os.path.relpath(table, file.parent)).as_posix()
    except ValueError:  # on another drive
        return table.resolve().as_posix()
