"""Coordinates of a release in the units of its columns, as arrays and as texts.

A unit of distance is `scale` units of a column, a factor of e^scale where distances are those of
logarithms, and `scale` steps from label to label where the column holds labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from discreet.outsourcing.bounds import PublicColumn
from discreet.validation import FloatArray

# From here on numbers are written with a power of ten.
_LARGE = 1e9


def values_at(column: PublicColumn, coordinates: FloatArray) -> FloatArray:
    """(n,) the values that have these coordinates (n,), as `PublicColumn.value_at` gives one."""
    inside = np.clip(coordinates, 0.0, column.extent) * column.scale
    if column.log:
        logarithmic: FloatArray = np.exp(math.log(column.column.lower) + inside)
        return logarithmic
    linear: FloatArray = column.column.lower + inside
    return linear


def value_text(column: PublicColumn, coordinate: float, deviation: float) -> str:
    """Where a row is believed to be, with no more digits than that belief has.

    Args:
        column: the column.
        coordinate: where, in units of distance.
        deviation: how far it may be off, in units of distance.
    """
    value = column.value_at(coordinate)
    if column.column.values:
        return column.column.values[round(value)]
    if column.log:
        return number_text(value, 3)
    spread = deviation * column.scale
    digits = 0 if spread <= 0.0 else 1 - math.floor(math.log10(spread))
    return _unsigned_zero(f"{value:,.{min(max(digits, 0), 12)}f}")


def length_text(column: PublicColumn, length: float) -> str:
    """A length of `length` units of distance, in the column's own units."""
    along = length * column.scale
    if column.log:
        return f"a factor {number_text(math.exp(min(along, 700.0)), 3)}"
    if column.column.values:
        return f"{number_text(along, 3)} label{'' if along == 1.0 else 's'}"
    return number_text(along, 3)


def bound_texts(column: PublicColumn) -> tuple[str, str]:
    """The lowest and the highest value, or the first and the last label."""
    if column.column.values:
        return column.column.values[0], column.column.values[-1]
    return number_text(column.column.lower, 12), number_text(column.column.upper, 12)


def number_text(value: float, digits: int = 6) -> str:
    """A number with this many significant digits: 12,300 or 0.0123."""
    if not math.isfinite(value):
        return str(value)
    rounded = float(f"{value:.{digits}g}")
    if abs(rounded) >= _LARGE:
        return f"{rounded:.{digits}g}"
    return _unsigned_zero(f"{rounded:,.12g}")


def aligned_texts(values: Sequence[float], digits: int = 6) -> list[str]:
    """Numbers with this many significant digits, all with as many decimals as one of them needs."""
    texts = [number_text(value, digits) for value in values]
    if any("e" in text for text in texts):
        return texts
    decimals = max((len(text.partition(".")[2]) for text in texts), default=0)
    return [_unsigned_zero(f"{value:,.{decimals}f}") for value in values]


def share_text(share: float) -> str:
    """A share of a width in per cent: 0.34%, 3.4% or 34%."""
    return f"{number_text(100.0 * share, 2)}%"


def _unsigned_zero(text: str) -> str:
    """-0.00 as 0.00."""
    return text.removeprefix("-") if not text.strip("-0.,") else text
