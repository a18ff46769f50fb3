"""The posterior over all rows, one question at a time (Rasmussen and Williams 2006, ch. 2).

Kept is V = L^-1 K(asked, all), L the Cholesky factor of K(asked, asked) + noise I. A further row of
V costs n t, and rows that were written never change, so n = 36,000 rows and 50 questions take about
a second. A question that waits for its answer already lowers the variance, which does not depend
on answers; its answer then only moves the mean.

| array    | shape  | meaning                                      | symbol |
|----------|--------|----------------------------------------------|--------|
| table    | (T, n) | whitened covariances with all rows           | V      |
| white    | (T,)   | whitened answers, of those that came         | w      |
| mean     | (n,)   | posterior mean of every row's outcome        |        |
| variance | (n,)   | its posterior variance, questions included   |        |
"""

from __future__ import annotations

import numpy as np

from discreet.outsourcing.beliefs import RowBeliefs
from discreet.outsourcing.prior import RowPrior
from discreet.validation import FloatArray

# The table grows by blocks of this many questions, so that growing copies nothing.
_BLOCK = 16


class RowPosterior:
    """Means and variances of the outcomes of all rows.

    Args:
        beliefs: what is known of the rows.
        prior: of the outcomes.

    Raises:
        InvalidInput: for length scales that do not fit the columns.
    """

    def __init__(self, beliefs: RowBeliefs, prior: RowPrior) -> None:
        prior.scales(beliefs.columns)
        self.beliefs, self.prior = beliefs, prior
        self.asked: list[int] = []
        self.mean = np.full(beliefs.count, prior.mean)
        self.variance = np.full(beliefs.count, prior.variance)
        self._own = prior.own_variance(beliefs)
        self._blocks: list[FloatArray] = []
        self._corners: list[float] = []
        self._white: list[float] = []

    @property
    def answered(self) -> int:
        """How many questions have their answer."""
        return len(self._white)

    @property
    def deviation(self) -> FloatArray:
        """(n,) posterior standard deviations."""
        deviation: FloatArray = np.sqrt(self.variance)
        return deviation

    @property
    def shared_deviation(self) -> FloatArray:
        """(n,) standard deviations of what rows share with others: without each row's own part,
        unless it was asked for and its own part is being learnt."""
        deviation: FloatArray = np.sqrt(np.maximum(self.variance - self._own, 0.0))
        deviation[self.asked] = np.sqrt(self.variance[self.asked])
        return deviation

    def ask(self, row: int) -> None:
        """Count on an answer for `row`: variances become what they will be."""
        line = self.prior.covariance(row, self.beliefs)
        for block, used in self._used():
            line -= block[:used, row] @ block[:used]
        corner = float(np.sqrt(self.variance[row] + self.prior.noise))
        line /= corner
        self._append(line)
        self._corners.append(corner)
        self.asked.append(int(row))
        self._lower(line)

    def tell(self, answer: float) -> None:
        """The answer to the oldest question that waits."""
        place = self.answered
        row = self.asked[place]
        # The mean at `row` is what the earlier answers made of it.
        white = (answer - float(self.mean[row])) / self._corners[place]
        self._white.append(white)
        self.mean += white * self._line(place)

    def forget_waiting(self) -> None:
        """Drop the questions without an answer."""
        kept = self.answered
        del self.asked[kept:], self._corners[kept:]
        del self._blocks[-(-kept // _BLOCK) :]
        self.variance[:] = self.prior.variance
        for place in range(kept):
            self._lower(self._line(place))

    def _lower(self, line: FloatArray) -> None:
        self.variance -= np.square(line)
        np.maximum(self.variance, 0.0, out=self.variance)

    def _line(self, place: int) -> FloatArray:
        line: FloatArray = self._blocks[place // _BLOCK][place % _BLOCK]
        return line

    def _used(self) -> list[tuple[FloatArray, int]]:
        count = len(self.asked)
        return [
            (block, min(_BLOCK, count - _BLOCK * place)) for place, block in enumerate(self._blocks)
        ]

    def _append(self, line: FloatArray) -> None:
        place = len(self.asked)
        if place % _BLOCK == 0:
            self._blocks.append(np.empty((_BLOCK, len(line))))
        self._blocks[-1][place % _BLOCK] = line
