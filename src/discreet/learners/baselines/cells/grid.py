"""Cells of a public grid, and how arms are drawn from what was learnt in them.

| array  | shape  | meaning                                                   |
|--------|--------|-----------------------------------------------------------|
| unit   | (n, d) | contexts in [0, 1]^d                                      |
| places | (n, d) | the part of each column that a context is in              |
| cells  | (n,)   | the cell: parts of all columns, the last one fastest      |
| shares | (J, K) | the probability of each arm in each cell                  |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import numpy as np
from scipy.special import ndtr

from discreet.codec import Coded, Range, Shape
from discreet.people.domain import Box
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    finite_number,
    refused,
    whole_number,
)

MOST_CELLS = 1024
# Variance of an arm's mean sign around 0, as it is thought before anybody came.
_PRIOR = 0.25

Shares = Annotated[FloatArray, Shape("cells", "arms"), Range(0.0, 1.0 + 1e-9)]
# How cells are asked for: parts of every column, or for each column its parts or its cuts.
Parts = int | Sequence[int | Sequence[float]]


@dataclass(frozen=True)
class Grid(Coded):
    """A product of intervals.

    Attributes:
        cuts: for each column the increasing numbers in (0, 1) that cut it; a context on a cut lies
            above it.
    """

    cuts: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        for column in self.cuts:
            ends = [0.0, *column, 1.0]
            if any(low >= high for low, high in pairwise(ends)):
                raise InvalidInput(
                    f"cuts of a column were {list(column)!r:.80}; they must increase and lie "
                    "within its bounds."
                )
        if not self.cuts or self.cells > MOST_CELLS:
            raise InvalidInput(
                f"cells were {self.cells} on {len(self.cuts)} columns; at most {MOST_CELLS} are "
                "allowed. Cut fewer columns, or into fewer parts."
            )

    @classmethod
    def of(cls, domain: Box, parts: Parts) -> Grid:
        """The grid that an option asks for; a column with levels is cut between them.

        Raises:
            InvalidInput: for anything else than `Parts`, or another number of columns.
        """
        d = domain.dimension
        each = [parts] * d if isinstance(parts, int) else parts
        if not isinstance(each, list | tuple) or len(each) != d:
            raise refused(
                parts,
                "cells",
                f"a number of parts for all {d} columns, or a list with, for each column, its "
                "number of parts or its cuts in the column's units",
            )
        return cls(tuple(_cuts(domain, column, part) for column, part in enumerate(each)))

    @property
    def parts(self) -> tuple[int, ...]:
        """How many parts each column has."""
        return tuple(len(column) + 1 for column in self.cuts)

    @property
    def cells(self) -> int:
        """J."""
        return math.prod(self.parts)

    def places(self, unit: FloatArray) -> IntArray:
        """See the module."""
        columns = zip(self.cuts, unit.T, strict=True)
        return np.stack([np.searchsorted(cut, x, side="right") for cut, x in columns], axis=1)

    def cell(self, places: IntArray) -> IntArray:
        """(n,) the cells at places (n, d)."""
        return np.asarray(np.ravel_multi_index(tuple(places.T), self.parts), dtype=np.int64)


def _cuts(domain: Box, column: int, part: object) -> tuple[float, ...]:
    name, levels = domain.names[column], domain.levels[column]
    if isinstance(part, list | tuple):
        low, high = domain.lower[column], domain.upper[column]
        values = [finite_number(value, f"a cut of {name!r}") for value in part]
        return tuple((value - low) / (high - low) for value in values)
    count = whole_number(part, f"the parts of {name!r}", minimum=1, maximum=MOST_CELLS)
    if levels is None:
        return tuple(k / count for k in range(1, count))
    count = min(count, levels)
    return tuple((round(k * levels / count) - 0.5) / (levels - 1) for k in range(1, count))


def matching_shares(sums: FloatArray, counts: FloatArray, variances: FloatArray) -> FloatArray:
    """(J, K) shares of arms by how likely each is the best.

    An arm's mean sign m is sums / counts with an error s^2 = (variances + counts) / counts^2, if
    that says anything, and is moved towards 0 by what is thought of it beforehand. Its weight is
    Phi((m - m_best) / sqrt(s^2 + s_best^2))^2: arms that cannot be told from the best share the
    people with it, and one that is surely worse gets none.

    Args:
        sums: (J, K) of signs, estimated.
        counts: (J, K) how many people each is of, estimated.
        variances: (J, K), or one number, of the noise of `sums`.
    """
    spread = variances + np.maximum(counts, 0.0)
    known = counts > np.sqrt(spread)
    safe = np.where(known, counts, 1.0)
    error = np.where(known, spread / safe**2, np.inf)
    trust = _PRIOR / (_PRIOR + error)
    means = trust * np.where(known, sums / safe, 0.0)
    left = _PRIOR * (1.0 - trust)
    best = means.argmax(axis=1)[:, None]
    gap = means - np.take_along_axis(means, best, axis=1)
    apart = np.sqrt(left + np.take_along_axis(left, best, axis=1))
    weights = ndtr(gap / np.maximum(apart, 1e-12)) ** 2
    shares: FloatArray = weights / weights.sum(axis=1, keepdims=True)
    return shares
