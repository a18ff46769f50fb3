"""Text of Vowpal Wabbit's `--cb_explore_adf`, read and written: a few lines for each decision.

    shared |s age:47.0 region=north
    |a action=none
    0:-1.0:0.25 |a action=call

The first line has what is shared by all actions, the context; each further line is one action. The
line of the action that was taken begins with `action:cost:probability` (the first number means
nothing here). An empty line ends the decision.

| what          | how it is read                                                                   |
|---------------|-----------------------------------------------------------------------------------|
| a number      | `name:value`; `name` alone is 1, and a name that is not there is 0               |
| a category    | `name=label`, or `name:label`                                                    |
| a namespace   | `|s:2.0 age:3` multiplies by 2; a column may be called `s^age`                   |
| an action     | by the features of its line, or by its place where lines have none               |
| a cost        | -reward, or 1 - reward                                                           |

In names and labels blanks, `:`, `|`, `=` and `%` are written as in URLs (`%20`). Numbers are
written so that they are read as the same float64; Vowpal Wabbit itself computes with 32 bits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, unquote

import numpy as np
import pandas as pd

from discreet.durable import write_bytes
from discreet.people.columns import Column, label_text, label_texts
from discreet.people.domain import Box
from discreet.validation import FloatArray, IntArray, InvalidInput, Refusals, one_of

VW_ACTION, VW_REWARD, VW_PROPENSITY = "|action", "|reward", "|propensity"
"""Columns of the table that `read_vw` makes; no feature can have such a name."""

_UNSAFE = re.compile(r"[\s:|=%]")
_MOST = 20  # so many malformed lines are named


@dataclass(frozen=True)
class _Line:
    """A line that is not empty.

    Attributes:
        number: from 1 on.
        shared: whether it is about all actions.
        label: cost and probability of an action that was taken.
        features: (namespace, name) and the value of each: a number, or a text.
        text: what stands behind the first bar.
    """

    number: int
    shared: bool
    label: tuple[float, float] | None
    features: tuple[tuple[str, str, float | str], ...]
    text: str


@dataclass
class _Decision:
    """The lines of one decision."""

    shared: _Line | None = None
    actions: list[_Line] = field(default_factory=list)


def read_vw(
    path: Path,
    columns: Sequence[Column],
    arm_names: Sequence[str] | None,
    costs: Literal["negated", "one minus"],
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The decisions as a table with the declared columns and the three above, and the arms' names.

    Raises:
        InvalidInput: for a file that cannot be read, and naming every line that is malformed.
    """
    one_of(costs, "costs", ("negated", "one minus"))
    Box.of(columns)
    refusals = _Lines()
    decisions = list(_decisions(_text(path), refusals))
    if not decisions and not refusals.count:
        raise InvalidInput(f"{path} has no decisions; give text in the format of --cb_explore_adf.")
    names: tuple[str, ...] = ()
    keys: dict[str, int] = {}
    if decisions:
        names, keys = _arms(decisions[0], arm_names, refusals)
    reader = _Contexts.of(columns)
    rows = []
    for decision in decisions:
        with refusals.collected():
            outcome = _outcome(decision, keys, names, costs)
            rows.append((*reader.row(decision.shared), *outcome))
    refusals.raise_if_any()
    header = [*(column.name for column in columns), VW_ACTION, VW_REWARD, VW_PROPENSITY]
    return pd.DataFrame(rows, columns=pd.Index(header)), names


class _Lines(Refusals):
    """Collects what is wrong with lines, of which only the first are named."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def add(self, *messages: str) -> None:
        for text in messages:
            self.count += 1
            if self.count <= _MOST:
                super().add(text)

    def raise_if_any(self) -> None:
        if self.count > _MOST:
            super().add(f"{self.count - _MOST:,} more lines are malformed.")
        super().raise_if_any()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidInput(
            f"{path} could not be read ({error.strerror}); check the path, and that it is a file "
            "that you may read."
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path} could not be read as text ({error}); give a file in UTF-8."
        ) from error


def _decisions(text: str, refusals: Refusals) -> Iterator[_Decision]:
    """The decisions of a file; what is malformed is kept among the refusals and left out."""
    current, whole = _Decision(), True
    for number, content in enumerate([*text.split("\n"), ""], start=1):
        if not content.strip():
            if whole and (current.shared or current.actions):
                yield current
            current, whole = _Decision(), True
            continue
        before = whole
        whole = False
        with refusals.collected(f"line {number}: "):
            line = _line(number, content)
            if line.shared and (current.shared is not None or current.actions):
                raise InvalidInput(
                    "a decision goes on here with a shared line; put an empty line before it."
                )
            if line.shared:
                current.shared = line
            else:
                current.actions.append(line)
            whole = before


def _line(number: int, content: str) -> _Line:
    """One line; `InvalidInput` for what is no line of this format."""
    head, bar, text = content.partition("|")
    if not bar:
        raise InvalidInput(f"it was {content.strip()!r:.80}, without a bar (|) before features.")
    words = head.split()
    # A word that touches the bar, or begins with a quotation mark, is the line's tag.
    if words and words[-1] != "shared" and (head[-1:].strip() or words[-1].startswith("'")):
        words.pop()
    shared = words[:1] == ["shared"]
    labels = words[1:] if shared else words
    if len(labels) > (0 if shared else 1):
        raise InvalidInput(
            f"before the bar stood {head.strip()!r:.80}; it may be shared, or one label "
            "action:cost:probability, and a tag."
        )
    label = _label(labels[0]) if labels else None
    return _Line(number, shared, label, tuple(_features(text)), text.strip())


def _label(word: str) -> tuple[float, float]:
    """Cost and probability."""
    parts = word.split(":")
    numbers = [_number(part) for part in parts]
    if len(parts) != 3 or any(number is None for number in numbers):
        raise InvalidInput(
            f"the label was {word!r:.80}; it must be action:cost:probability, three numbers."
        )
    _, cost, probability = (float(number or 0.0) for number in numbers)
    if not 0.0 < probability <= 1.0:
        raise InvalidInput(
            f"the probability of the label was {probability:g}; it must be above 0 and at most 1."
        )
    return cost, probability


def _features(text: str) -> Iterator[tuple[str, str, float | str]]:
    """Namespace, name and value of each feature behind the first bar."""
    for part in text.split("|"):
        words = part.split()
        namespace, scale = "", 1.0
        if words and not part[:1].isspace():
            namespace, colon, value = words.pop(0).partition(":")
            factor = _number(value) if colon else 1.0
            if factor is None:
                raise InvalidInput(f"the namespace {namespace!r} had the value {value!r:.80}.")
            scale = factor
        for word in words:
            name, colon, value = word.partition(":")
            number = _number(value) if colon else 1.0
            if not name or (colon and not value):
                raise InvalidInput(f"{word!r:.80} is no feature; write name or name:value.")
            yield namespace, name, value if number is None else scale * number


def _number(text: str) -> float | None:
    """A finite number, or None."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _arms(
    first: _Decision, arm_names: Sequence[str] | None, refusals: Refusals
) -> tuple[tuple[str, ...], dict[str, int]]:
    """The names of the arms, and for what stands in an action's line its arm.

    Lines without features are told apart by their place: then there are no keys.
    """
    texts = [line.text for line in first.actions]
    bare = all(not line.features for line in first.actions)
    own = [str(place) for place in range(len(texts))] if bare else [_called(t) for t in texts]
    if not bare and len(set(own)) < len(own):
        own = texts
    names = tuple(own) if arm_names is None else label_texts(arm_names, "the arm names")
    if bare:
        return names, {}
    if arm_names is None:
        with refusals.collected(f"line {first.actions[0].number} and after: " if texts else ""):
            names = label_texts(own, "the actions of the first decision")
        return names, {text: place for place, text in enumerate(texts)}
    keys: dict[str, int] = {}
    for place, name in enumerate(names):
        keys |= {quote_name(name): place, name: place}
    return names, keys


def _called(text: str) -> str:
    """What an action is called by its features: behind the = of the only one, or all of them."""
    features = list(_features(text))
    return unquote(features[0][1].rpartition("=")[2]) if len(features) == 1 else text


def _arm_of(line: _Line, place: int, keys: Mapping[str, int]) -> int | None:
    """The arm of an action's line; None where it is none of those that are known."""
    if not keys:
        return place
    if line.text in keys:
        return keys[line.text]
    for _, name, _ in line.features:
        for key in (name, name.rpartition("=")[2]):
            if key in keys:
                return keys[key]
    return None


def _outcome(
    decision: _Decision, keys: Mapping[str, int], names: tuple[str, ...], costs: str
) -> tuple[str, float, float]:
    """The name of the arm that was taken, the reward and the probability."""
    lines = decision.actions
    first = decision.shared or lines[0]
    at = f"line {first.number}: "
    arms = [_arm_of(line, place, keys) for place, line in enumerate(lines)]
    for line, arm in zip(lines, arms, strict=True):
        if arm is None or arm >= len(names):
            raise InvalidInput(
                f"line {line.number}: the action {line.text!r:.80} is none of "
                f"{', '.join(names):.200}; every decision must be among the same actions."
            )
    if len(lines) != len(names) or len(set(arms)) < len(arms):
        raise InvalidInput(
            f"{at}the decision was among {len(lines)} actions; it must be among the same "
            f"{len(names)} as the others, each once."
        )
    taken = [place for place, line in enumerate(lines) if line.label is not None]
    if len(taken) != 1:
        raise InvalidInput(
            f"{at}{len(taken)} of the {len(lines)} actions had a label; exactly one must, that of "
            "the action taken."
        )
    (place,) = taken
    label, arm = lines[place].label, arms[place]
    assert label is not None
    assert arm is not None
    cost, probability = label
    return names[arm], (0.0 if costs == "negated" else 1.0) - cost, probability


@dataclass(frozen=True)
class _Contexts:
    """How shared features become the columns of a context.

    Attributes:
        columns: as declared.
        numbers: for the name of a feature the place of its column.
        labels: for a feature such as `region=north` the place of its column, and the label.
        starts: for what stands before the = of a category the place of its column.
    """

    columns: tuple[Column, ...]
    numbers: Mapping[str, int]
    labels: Mapping[str, tuple[int, str]]
    starts: Mapping[str, int]

    @classmethod
    def of(cls, columns: Sequence[Column]) -> _Contexts:
        numbers: dict[str, int] = {}
        labels: dict[str, tuple[int, str]] = {}
        starts: dict[str, int] = {}
        spellings: tuple[Callable[[str], str], ...] = (quote_name, str)  # ours, then others'
        for spelt in spellings:
            for place, column in enumerate(columns):
                name = spelt(column.name)
                if not column.values or column.thresholds is not None:
                    numbers.setdefault(name, place)
                    continue
                starts.setdefault(name, place)
                for label in column.values:
                    labels.setdefault(f"{name}={spelt(label)}", (place, label))
        return cls(tuple(columns), numbers, labels, starts)

    def row(self, line: _Line | None) -> list[float | str]:
        """The values of a context; what no feature gives is 0, or a missing category."""
        values: list[float | str] = [
            "" if place in self.starts.values() else 0.0 for place in range(len(self.columns))
        ]
        given: set[int] = set()
        for namespace, name, value in () if line is None else line.features:
            for key in (name, f"{namespace}^{name}"):
                read = self._read(key, value)
                if read is None:
                    continue
                place, content = read
                if place in given:
                    raise InvalidInput(
                        f"line {line.number if line else 0}: column {self.columns[place].name!r} "
                        "has several values; where namespaces share names, call it "
                        f"{namespace}^{name.partition('=')[0]}."
                    )
                if isinstance(content, str) and place in self.numbers.values():
                    raise InvalidInput(
                        f"line {line.number if line else 0}: column {self.columns[place].name!r} "
                        f"had the value {content!r:.80}; it must be a number."
                    )
                given.add(place)
                values[place] = content
        return values

    def _read(self, key: str, value: float | str) -> tuple[int, float | str] | None:
        """The place of a feature's column and its value; None where no column is declared."""
        if key in self.numbers:
            return self.numbers[key], value
        if key in self.labels:
            # An indicator that is 0 says nothing.
            return self.labels[key] if value else None
        start, equals, label = key.partition("=")
        if equals and start in self.starts and value:
            return self.starts[start], unquote(label)
        if key in self.starts:
            return self.starts[key], unquote(label_text(value))
        return None


def quote_name(text: str) -> str:
    """A name or label without characters that mean something in the format."""
    return _UNSAFE.sub(lambda match: quote(match[0], safe=""), text)


def write_vw(
    path: Path,
    columns: Sequence[Column],
    contexts: FloatArray,
    arm_names: Sequence[str],
    actions: IntArray,
    rewards: FloatArray,
    propensities: FloatArray,
) -> None:
    """Write decisions, with cost = -reward; the file appears whole or not at all."""
    texts = [_texts(column, values) for column, values in zip(columns, contexts.T, strict=True)]
    offers = [f"|a action={quote_name(name)}" for name in arm_names]
    facts = zip(actions.tolist(), rewards.tolist(), propensities.tolist(), strict=True)
    blocks = []
    for row, (arm, reward, propensity) in enumerate(facts):
        lines = [f"shared |s {' '.join(text[row] for text in texts)}", *offers]
        lines[arm + 1] = f"0:{0.0 - reward!r}:{propensity!r} {offers[arm]}"
        blocks.append("\n".join(lines) + "\n")
    write_bytes(path, "\n".join(blocks).encode())


def _texts(column: Column, values: FloatArray) -> list[str]:
    """A column of a context as features."""
    name = quote_name(column.name)
    if not column.values:
        return [f"{name}:{value!r}" for value in values.tolist()]
    labels: Any = np.array([f"{name}={quote_name(label)}" for label in column.values], dtype=object)
    features: list[str] = labels[values.astype(np.int64)].tolist()
    return features
