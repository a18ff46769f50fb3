"""One search over a released table, as its report looks at it.

| array     | shape  | meaning                                                       |
|-----------|--------|---------------------------------------------------------------|
| questions | (m,)   | numbers of the questions that were answered, from 1           |
| rows      | (m,)   | the rows they were about                                      |
| answers   | (m,)   | what came                                                     |
| so_far    | (m,)   | the best answer up to each of them                            |
| mean      | (n,)   | the outcome that is expected of every row                     |
| deviation | (n,)   | how far it may be off, one standard deviation                 |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from discreet.outsourcing.answers import Status
from discreet.outsourcing.bounds import PublicColumn
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.posterior import column_spread
from discreet.outsourcing.search import Search, Turn
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

    search: Search
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
    def given(self) -> bool:
        """Whether the prior was known beforehand."""
        return self.search.settings.prior is not None

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

    @cached_property
    def widths(self) -> FloatArray:
        """(r,) how wide the possible values of each released number are, in units of distance."""
        low, high = self.search.table.box
        width: FloatArray = high - low
        return width

    @cached_property
    def questions(self) -> IntArray:
        """(m,) see the module's table."""
        return np.array(
            [each.number for each in self.turn.asked if each.status == "answered"],
            dtype=np.int64,
        )

    @cached_property
    def rows(self) -> IntArray:
        """(m,) see the module's table."""
        return self.rows_that("answered")

    @cached_property
    def answers(self) -> FloatArray:
        """(m,) see the module's table."""
        values = [each.answer for each in self.turn.asked if each.status == "answered"]
        return np.array(values, dtype=np.float64)

    @cached_property
    def so_far(self) -> FloatArray:
        """(m,) see the module's table."""
        best = np.minimum if self.minimize else np.maximum
        running: FloatArray = best.accumulate(self.answers)
        return running

    @cached_property
    def predicted(self) -> tuple[FloatArray, FloatArray]:
        """(n,) mean and (n,) deviation of every row."""
        return self.search.modeler.predict()

    @cached_property
    def not_asked(self) -> BoolArray:
        """(n,) whether nobody asked for a row."""
        others = np.ones(self.search.beliefs.count, dtype=np.bool_)
        others[[each.row for each in self.turn.asked]] = False
        return others

    @cached_property
    def mapped(self) -> BoolArray:
        """(n,) the rows whose expectation is shown: those not asked for, or all if none is left.

        An answer says more about its own row than about any other, so expectations of asked rows
        stand out from those around them.
        """
        return self.not_asked if self.not_asked.any() else ~self.not_asked

    @cached_property
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

    def rows_that(self, status: Status) -> IntArray:
        """Rows of the questions with this status, in their order."""
        rows = [each.row for each in self.turn.asked if each.status == status]
        return np.array(rows, dtype=np.int64)

    def count(self, status: Status) -> int:
        """How many questions have this status."""
        return sum(each.status == status for each in self.turn.asked)

    def regret(self, answers: FloatArray) -> FloatArray:
        """How far answers (m,) are from the optimum; negative for what is better than it."""
        if self.optimum is None:
            raise ValueError("the optimum is not known")
        gap = answers - self.optimum if self.minimize else self.optimum - answers
        size = np.maximum(np.abs(answers), abs(self.optimum))
        regret: FloatArray = np.where(np.abs(gap) <= _ROUNDING * size, 0.0, gap)
        return regret

    @property
    def final_regret(self) -> float:
        """How far the best answer is from the optimum."""
        return float(self.regret(self.so_far)[-1])

    @cached_property
    def by_relevance(self) -> tuple[int, ...]:
        """The released numbers, the one on which outcomes depend most first.

        That is the one with the shortest length scale relative to the spread of the rows; where
        there is no difference, their own order.
        """
        return tuple(np.argsort(self._relative_scales, kind="stable").tolist())

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
        order = np.argsort(self.answers if self.minimize else -self.answers, kind="stable")
        _, first = np.unique(self.rows[order], return_index=True)
        return [int(place) for place in order[np.sort(first)][:count]]

    @property
    def best_place(self) -> int:
        """The place in `rows` of the best answer; there must be one."""
        best = self.turn.best
        if best is None:
            raise ValueError("no answer has come yet")
        same = (self.rows == best.row) & (self.answers == best.answer)
        return int(np.argmax(same))

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
