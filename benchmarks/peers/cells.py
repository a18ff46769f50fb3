"""`cell_response`: the device decides by the cell of a grid, and reports cell, arm and reward.

*Claim.* A person has one of V = 2 J K values (cell, arm, sign), the sign by randomised rounding of
the reward. Of it the device sends V bits by unary encoding (privacy/frequency.py), so any two
people, whatever their contexts, arms and rewards, make any report within a factor e^epsilon. No
public coin is sent: with it the arm, and so something about the cell, would be public.

Bits are added up, n reports in all; with the bits (+ and -) of a cell and an arm,

    count = (plus + minus - 2 n q) / (p - q),     sum of signs = (plus - minus) / (p - q),

both with noise of variance 2 n q (1 - q) / (p - q)^2 from people who are elsewhere.

| array  | shape  | meaning                                                    |
|--------|--------|------------------------------------------------------------|
| unit   | (n, d) | contexts in [0, 1]^d                                       |
| places | (n, d) | the part of each column that a context is in               |
| cells  | (n,)   | the cell: parts of all columns, the last one fastest       |
| shares | (J, K) | the probability of each arm in each cell                   |
| bits   | (n, V) | bit 2 (cell K + arm) + 1 for a positive sign, 2 (..) for a |
|        |        | negative one                                               |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np
from scipy.special import ndtr

from discreet.codec import Range, Serializable, Shape
from discreet.learners.base import ArmLearner, Common
from discreet.learners.messages import Reports, Totals
from discreet.learners.policy import Actions, ArmPolicy
from discreet.people.domain import Arms, Box
from discreet.privacy import Local, NoiseSource, Release
from discreet.privacy.accounting import PureEvent
from discreet.privacy.frequency import UnaryEncoding, round_to_signs
from discreet.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    InvalidInput,
    finite_number,
    invalid,
    whole_number,
)

# People between two policies: at least so many, and this share of those so far.
_FIRST, _GROWTH = 200, 0.1
MOST_CELLS = 1024
# Variance of an arm's mean sign around 0, as it is thought before anybody came.
_PRIOR = 0.25

Shares = Annotated[FloatArray, Shape("cells", "arms"), Range(0.0, 1.0 + 1e-9)]
# How cells are asked for: parts of every column, or for each column its parts or its cuts.
Parts = int | Sequence[int | Sequence[float]]


@dataclass(frozen=True)
class Grid(Serializable):
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
            raise invalid(
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


@dataclass(frozen=True, eq=False)
class BitReports(Reports):
    """The bits of n people (see the module)."""

    kind: ClassVar[str] = "bit-reports"

    bits: Annotated[BoolArray, Shape("n", "V")]

    def __len__(self) -> int:
        return len(self.bits)


@dataclass(frozen=True, eq=False)
class CellResponsePolicy(ArmPolicy):
    """Arms at random by the shares of the cell.

    Attributes:
        grid: the cells.
        shares: (J, K) the probability of each arm.
        epsilon: of one report.
    """

    kind: ClassVar[str] = "cell-response-policy"
    reports_are_private = True

    grid: Grid
    shares: Shares
    epsilon: Annotated[float, Range(above=0.0)]

    def __post_init__(self) -> None:
        super().__post_init__()
        columns, rows = len(self.grid.cuts), len(self.shares)
        if columns != self.domain.dimension or rows != self.grid.cells:
            raise InvalidInput(
                f"a policy has a grid of {columns} columns and shares of {rows} cells; contexts "
                f"have {self.domain.dimension} columns, and the grid {self.grid.cells} cells."
            )
        _ = self.mechanism  # refuses an epsilon that is too small, on arrival

    @cached_property
    def mechanism(self) -> UnaryEncoding:
        """How (cell, arm, sign) is hidden."""
        return UnaryEncoding(2 * self.grid.cells * self.arms, self.epsilon)

    def _probabilities(self, unit: FloatArray) -> FloatArray:
        return np.asarray(self.shares[self.grid.cell(self.grid.places(unit))])

    def _report(
        self, unit: FloatArray, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> BitReports:
        signs = round_to_signs(rewards, noise)
        cells = self.grid.cell(self.grid.places(unit))
        values = 2 * (cells * self.arms + actions.arms) + (signs > 0)
        bits = self.mechanism.privatise(values, noise)
        return BitReports(**self.origin(noise.name), bits=bits)

    def release(self, noise: str) -> Release | None:
        return Release(
            mechanism="unary encoding of (cell, arm, sign)",
            event=PureEvent(self.mechanism.epsilon),
            sensitivity=1.0,
            sensitivity_source=f"any two of the {self.mechanism.values} values (cell, arm, sign) "
            "are neighbours",
            scale=self.mechanism.epsilon,
            people=self.group,
            data="the cell of the context, the arm and the sign of the reward",
            noise=noise,
        )


class CellResponse(ArmLearner[CellResponsePolicy, BitReports, Totals]):
    """Decide on the device, send (cell, arm, sign) by optimised unary encoding (see the module).

    Args:
        cells: parts of every column; or a list with, for each column, its number of parts or its
            cuts in the column's units. 4 parts unless something is known.
    """

    name: ClassVar[str] = "cell_response"
    trust_models: ClassVar[tuple[str, ...]] = ("local",)
    reports_type = BitReports
    statistics_type = Totals

    def __init__(
        self,
        domain: Box,
        arms: Arms,
        budget: Local,
        *,
        cells: Parts = 4,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(domain, arms, budget, **common)
        self.cells = cells
        self.grid = Grid.of(domain, cells)

    @property
    def batch_size(self) -> int:
        return max(_FIRST, int(_GROWTH * self._published_at))

    def _empty(self) -> Totals:
        return Totals(values=np.zeros(self._size), reports=0)

    def policy_header(self) -> dict[str, Any]:
        return {
            **super().policy_header(),
            "grid": self.grid,
            "epsilon": self.budget.contribution_epsilon,
        }

    def _shares(self) -> FloatArray:
        """(J, K) of the next policy."""
        if not self.people:
            return np.full((self.grid.cells, self.arms), 1.0 / self.arms)
        return matching_shares(*self._estimates(self._sums.values))

    @property
    def _size(self) -> int:
        return 2 * self.grid.cells * self.arms

    def _publish(self) -> CellResponsePolicy:
        return CellResponsePolicy(**self.policy_header(), shares=self._shares())

    def _statistics(self, policy: CellResponsePolicy, reports: BitReports) -> Totals:
        if reports.bits.shape[1] != self._size or len(reports) == 0:
            raise InvalidInput(
                f"reports had bits of shape {reports.bits.shape}; each must have {self._size}, and "
                "there must be at least one."
            )
        return Totals(values=reports.bits.sum(axis=0).astype(np.float64), reports=len(reports))

    def _check_sums(self, statistics: Totals) -> None:
        values, people = statistics.values, statistics.reports
        if values.shape != (self._size,) or values.min() < 0.0 or values.max() > people:
            raise InvalidInput(
                f"statistics of {people} reports had {values.shape} numbers from "
                f"{values.min(initial=0.0):g} to {values.max(initial=0.0):g}; they must be "
                f"{self._size} counts of bits, from 0 to the number of reports."
            )

    def _estimates(self, values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        mechanism = UnaryEncoding(self._size, self.budget.contribution_epsilon)
        each = mechanism.counts(values, self.people).reshape(self.grid.cells, self.arms, 2)
        variance = np.asarray(2.0 * self.people * mechanism.variance())
        return each[..., 1] - each[..., 0], each.sum(axis=2), variance
