"""Columns as they are declared, before anyone looks at the data: bounds, labels and rules.

A rule says what happens to people who do not fit. It looks at one row at a time, so it is public
preprocessing and reveals nothing that the row itself does not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from discreet.domain import Box
from discreet.validation import InvalidInput, finite_number, whole_number

OutsideRule = Literal["error", "clip", "drop"]
MissingRule = Literal["error", "drop"]
Label = str | int | float | bool

_WHOLE = re.compile(r"([+-]?\d+)\.0*")


@dataclass(frozen=True)
class Column:
    """One column of a table and its public bounds.

    Attributes:
        name: the column's name in the table.
        lower: the lowest value.
        upper: the highest value.
        levels: the number of equally spaced values from `lower` to `upper` (15 for whole years
            from 6 to 20), or None for a continuous column.
        values: category labels in their order, encoded 0..m-1; then lower = 0, upper = m - 1 and
            levels = m (see `category`). Empty for a numeric column.
        outside: what happens to a value outside the bounds or a label that is not declared: an
            error, moved to the nearest bound (numbers only), or the row is left out.
        missing: what happens where a value is missing: an error, or the row is left out.

    Raises:
        InvalidInput: for bounds, levels, labels or rules that do not fit together.
    """

    name: str
    lower: float
    upper: float
    levels: int | None = None
    values: tuple[str, ...] = ()
    outside: OutsideRule = "error"
    missing: MissingRule = "error"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidInput(f"a column's name was {self.name!r}; it must be a text.")
        low = finite_number(self.lower, f"the lower bound of column {self.name!r}")
        high = finite_number(self.upper, f"the upper bound of column {self.name!r}")
        if not low < high:
            raise InvalidInput(
                f"column {self.name!r} had bounds [{low}, {high}]; the lower must be below the "
                "upper bound."
            )
        if self.levels is not None:
            whole_number(self.levels, f"the levels of column {self.name!r}", minimum=2)
        self._check_values(low, high)
        self._check_rules()
        object.__setattr__(self, "lower", low)
        object.__setattr__(self, "upper", high)

    def _check_values(self, low: float, high: float) -> None:
        if not self.values:
            return
        object.__setattr__(
            self, "values", label_texts(self.values, f"the values of column {self.name!r}")
        )
        count = len(self.values)
        if (low, high, self.levels) != (0.0, count - 1.0, count):
            raise InvalidInput(
                f"column {self.name!r} declares {count} labels with bounds [{low}, {high}] and "
                f"levels {self.levels}; labels are encoded 0 to {count - 1}, so use "
                "Column.category(name, values), which sets all three."
            )

    def _check_rules(self) -> None:
        check_rule(self.outside, f"outside of column {self.name!r}", ("error", "clip", "drop"))
        check_rule(self.missing, f"missing of column {self.name!r}", ("error", "drop"))
        if self.values and self.outside == "clip":
            raise InvalidInput(
                f"outside of column {self.name!r} was 'clip', but labels have no nearest bound; "
                "use 'error' or 'drop'."
            )

    @classmethod
    def category(
        cls,
        name: str,
        values: Sequence[Label],
        outside: OutsideRule = "error",
        missing: MissingRule = "error",
    ) -> Column:
        """A column of labels: `values` in their order are encoded 0, 1, ..., m - 1.

        Texts, whole or other numbers and truth values can be labels; `Column.values` has them as
        texts: 1 as "1", True as "true".
        """
        texts = label_texts(values, f"the values of column {name!r}")
        count = len(texts)
        return cls(name, 0.0, count - 1.0, count, texts, outside, missing)


def box_of(columns: Sequence[Column]) -> Box:
    """The public domain which the columns declare."""
    names = tuple(column.name for column in columns)
    if not names or len(set(names)) < len(names):
        raise InvalidInput(f"the columns were {list(names)}; give at least one, each once.")
    return Box(
        tuple(column.lower for column in columns),
        tuple(column.upper for column in columns),
        names,
        tuple(column.levels for column in columns),
        tuple(column.values for column in columns),
    )


def label_texts(labels: Iterable[object], name: str) -> tuple[str, ...]:
    """Labels as texts: 1 as "1", True as "true"; `InvalidInput` for fewer than two, or repeats."""
    given = [labels] if isinstance(labels, str) else list(labels)
    if isinstance(labels, str) or not all(_is_label(label) for label in given):
        raise InvalidInput(
            f"{name} were {labels!r}; give a list of texts, numbers or truth values, for example "
            '["no", "yes"].'
        )
    texts = tuple(
        label_text(label).lower() if isinstance(label, bool) else label_text(label)
        for label in given
    )
    if len(texts) < 2 or len(set(texts)) < len(texts):
        raise InvalidInput(f"{name} were {list(texts)}; give at least two, each once.")
    return texts


def _is_label(value: object) -> bool:
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


def check_rule(rule: str, name: str, allowed: tuple[str, ...]) -> None:
    """Refuse a rule that is not one of `allowed`."""
    if rule not in allowed:
        raise InvalidInput(f"{name} was {rule!r}; it must be one of {', '.join(allowed)}.")


def label_text(value: object) -> str:
    """A label as text; the whole number 1.0 (an integer column with gaps) reads as '1'."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def same_label(text: str) -> str:
    """One text for what programs write differently: `1.0` and `1`, `TRUE` and `true`."""
    whole = _WHOLE.fullmatch(text)
    if whole:
        return whole[1]
    return text.lower() if text.lower() in ("true", "false") else text
