"""One search over a released table, as its report looks at it, in the units of its columns.

| array     | shape  | meaning                                                       |
|-----------|--------|---------------------------------------------------------------|
| questions | (m,)   | numbers of the questions that were answered, from 1           |
| rows      | (m,)   | the rows they were about                                      |
| answers   | (m,)   | what came                                                     |
| so_far    | (m,)   | the best answer up to each of them                            |
| mean      | (n,)   | the outcome that is expected of every row                     |
| deviation | (n,)   | how far it may be off, one standard deviation                 |

A unit of distance of a release is `scale` units of a column, a factor of e^scale where distances
are those of logarithms, and `scale` steps from label to label where the column holds labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from discreet.lab.reporting.numbers import decimals, number_text, unsigned_zero
from discreet.outsourcing.bounds import PublicColumn
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.mechanisms import Status
from discreet.outsourcing.modeler import RowSearch, Turn
from discreet.outsourcing.posterior import column_spread
from discreet.validation import BoolArray, FloatArray, IntArray

# Regret below this share of the outcomes is an error of rounding.
_ROUNDING = 1e-12
# Expectations that differ by less than this share of the deviation of outcomes say nothing.
_ALIKE = 0.05


@dataclass(frozen=True, eq=False)
class SearchView:
    """A search after one of its turns (see the module's table).

    Attributes:
        search: what was asked and what is believed.
        turn: its last turn.
        rounds: how many questions there may be.
        optimum: the best outcome of any row, where it is known.
    """

    search: RowSearch
    turn: Turn
    rounds: int
    optimum: float | None = None

    @property
    def certificate(self) -> Certificate:
        """What was released."""
        return self.search.table.certificate

    @property
    def minimize(self) -> bool:
        """Whether the lowest outcome is searched."""
        return self.search.settings.minimize

    @property
    def knows(self) -> bool:
        """Whether answers say something about other rows: some came, and a prior is there."""
        modeler = self.search.modeler
        return modeler.answered >= max(modeler.warm_up, 1)

    @property
    def warm_up(self) -> int:
        """How many of the questions were about rows drawn at random."""
        return min(self.search.modeler.warm_up, len(self.turn.asked))

    @property
    def answer_noise(self) -> float:
        """Standard deviation of the noise that the curator adds to an answer; 0 for none."""
        answers = self.certificate.answers
        return 0.0 if answers is None else answers.scale

    @property
    def columns(self) -> tuple[PublicColumn | None, ...]:
        """The public column behind each released number; None where rows were projected."""
        if self.certificate.projection is None:
            return self.certificate.bounds.columns
        return (None,) * len(self.certificate.names)

    @property
    def widths(self) -> FloatArray:
        """(r,) how wide the possible values of each released number are, in units of distance."""
        low, high = self.search.table.box
        width: FloatArray = high - low
        return width

    @cached_property
    def asked(self) -> pd.DataFrame:
        """The questions: their number, row, status and answer."""
        questions = [(each.number, each.row, each.status, each.answer) for each in self.turn.asked]
        return pd.DataFrame(questions, columns=["number", "row", "status", "answer"])

    def that(self, status: Status) -> pd.DataFrame:
        """The questions with this status, in their order."""
        return self.asked[self.asked["status"] == status].reset_index(drop=True)

    @cached_property
    def questions(self) -> IntArray:
        """(m,) see the module's table."""
        return self.that("answered")["number"].to_numpy(np.int64)

    @cached_property
    def rows(self) -> IntArray:
        """(m,) see the module's table."""
        return self.that("answered")["row"].to_numpy(np.int64)

    @cached_property
    def answers(self) -> FloatArray:
        """(m,) see the module's table."""
        return self.that("answered")["answer"].to_numpy(np.float64)

    @cached_property
    def so_far(self) -> FloatArray:
        """(m,) see the module's table."""
        running: FloatArray = (np.minimum if self.minimize else np.maximum).accumulate(self.answers)
        return running

    @cached_property
    def predicted(self) -> tuple[FloatArray, FloatArray]:
        """(n,) mean and (n,) deviation of every row."""
        return self.search.modeler.predict()

    @cached_property
    def not_asked(self) -> BoolArray:
        """(n,) whether nobody asked for a row."""
        return ~np.isin(np.arange(self.search.beliefs.count), self.asked["row"])

    @property
    def mapped(self) -> BoolArray:
        """(n,) the rows whose expectation is shown: those not asked for, or all if none is left.

        An answer says more about its own row than about any other, so expectations of asked rows
        stand out from those around them.
        """
        return self.not_asked if self.not_asked.any() else ~self.not_asked

    @property
    def expected_range(self) -> tuple[float, float]:
        """The least and largest expectation that is shown, once something is known."""
        seen = self.predicted[0][self.mapped]
        return float(seen.min()), float(seen.max())

    @property
    def alike(self) -> bool:
        """Whether the answers say next to nothing about rows that were not asked for."""
        low, high = self.expected_range
        return high - low < self.least_difference

    @property
    def least_difference(self) -> float:
        """Expectations that differ by less than this count as the same."""
        return _ALIKE * math.sqrt(self.search.modeler.prior.variance)

    def regret(self, answers: FloatArray) -> FloatArray:
        """How far answers (m,) are from the known optimum; negative for what is better than it."""
        assert self.optimum is not None
        gap = answers - self.optimum if self.minimize else self.optimum - answers
        size = np.maximum(np.abs(answers), abs(self.optimum))
        regret: FloatArray = np.where(np.abs(gap) <= _ROUNDING * size, 0.0, gap)
        return regret

    @property
    def final_regret(self) -> float:
        """How far the best answer is from the optimum."""
        return float(self.regret(self.so_far)[-1])

    @property
    def by_relevance(self) -> tuple[int, ...]:
        """The released numbers, the one on which outcomes depend most first.

        That is the one with the shortest length scale relative to the spread of the rows; where
        there is no difference, their own order.
        """
        return tuple(np.argsort(self._relative_scales, kind="stable").tolist())

    @property
    def shown_columns(self) -> tuple[int, ...]:
        """Which released numbers the map shows, in their own order."""
        return tuple(sorted(self.by_relevance[:2]))

    @property
    def told_apart(self) -> bool:
        """Whether outcomes are believed to depend on some released numbers more than on others."""
        return bool(np.ptp(self._relative_scales) > 0.0)

    @cached_property
    def _relative_scales(self) -> FloatArray:
        """(r,) logarithms of the length scales relative to the spread; 0 before they are known."""
        beliefs = self.search.beliefs
        if not self.knows:
            return np.zeros(beliefs.columns)
        scales = self.search.modeler.prior.scales(beliefs.columns)
        # Rounded, so that scales which were learnt as one do not differ.
        relative = np.log(scales / column_spread(beliefs))
        return np.asarray(np.round(relative, 6), dtype=np.float64)

    def best_places(self, count: int) -> list[int]:
        """Places in `rows` of the best answers, best first, each row once."""
        answered = self.that("answered")
        ordered = answered.sort_values("answer", ascending=self.minimize, kind="stable")
        return ordered.drop_duplicates("row").index[:count].tolist()

    @property
    def best_place(self) -> int:
        """The place in `rows` of the best answer; there must be one."""
        best = self.turn.best
        assert best is not None
        return int(np.argmax((self.rows == best.row) & (self.answers == best.answer)))

    def best_expected(self) -> int | None:
        """The answered row whose expected outcome is best; None before anything is known."""
        if not self.knows:
            return None
        expected = self.predicted[0][self.rows]
        place = np.argmin(expected) if self.minimize else np.argmax(expected)
        return int(self.rows[place])

    @property
    def gain(self) -> float | None:
        """What one more question promises; None where that cannot be said."""
        return self.turn.gain if math.isfinite(self.turn.gain) else None


def values_at(column: PublicColumn, coordinates: FloatArray) -> FloatArray:
    """(n,) the values that have these coordinates (n,), as `PublicColumn.value_at` gives one."""
    inside = np.clip(coordinates, 0.0, column.extent) * column.scale
    lower = column.column.lower
    values: FloatArray = np.exp(math.log(lower) + inside) if column.log else lower + inside
    return values


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
    return unsigned_zero(f"{value:,.{decimals(deviation * column.scale, 2, 12)}f}")


def length_text(column: PublicColumn, length: float) -> str:
    """A length in units of distance, in the column's own units."""
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
