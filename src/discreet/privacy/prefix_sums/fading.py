"""Fading epochs: each epoch's own sum, released once, of which older ones count less.

    o_e = X_e + noise,   omega_e = 2^(-a_e / h),   q = sum(omega n) / sum(omega^2 n),
    values = q sum_e omega_e o_e,   weights = q omega,   variance = q^2 sum_e omega_e^2,

with X_e the row and n_e the people of epoch e, a_e the people who came after it, and h the
half-life. As in epochs.py, sum(weights n) = sum(weights^2 n) is the effective number of people, so
the estimate behaves as a sum over that many. Each person is in one release (C = I), so each
release may have the whole budget.

Epochs double until they are a quarter of a half-life: each has noise of its own, of which few long
ones add up to less, and what came at the beginning of one is as old as the epoch is long.

| name   | shape     | meaning                                    | symbol |
|--------|-----------|--------------------------------------------|--------|
| counts | (epochs,) | people of each epoch; `Held.numbers`       | n_e    |
| sum    | (1, dim)  | decoder: sum of omega_e o_e; public        |        |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from discreet.codec import Range
from discreet.privacy.prefix_sums.system import MOST_PEOPLE, Estimate, Held, PrefixMechanism
from discreet.validation import FloatArray, InvalidInput

# An epoch is at most this share of a half-life, unless the first one is longer.
_SHARE = 0.25


@dataclass(frozen=True)
class FadingEpochs(PrefixMechanism):
    """See the module.

    Attributes:
        half_life: after how many people a row counts half.
        first: people of the first epoch, the fewest of any but the last.
        horizon: people in all, if known: the last epoch ends there.
    """

    half_life: Annotated[float, Range(above=0.0, high=float(MOST_PEOPLE))]
    first: Annotated[int, Range(1, MOST_PEOPLE)] = 1
    horizon: Annotated[int, Range(1, MOST_PEOPLE)] | None = None
    rows: int | None = field(default=None, init=False, compare=False)
    name: ClassVar[str] = "fading_epochs"
    column_norm: ClassVar[float] = 1.0
    entries: ClassVar[int] = 1

    def due(self, people: int) -> int:
        """The end of the next epoch, if the last one ended at `people`."""
        most = max(self.first, int(_SHARE * self.half_life))
        planned = people + min(max(self.first, people), most)
        if self.horizon is None or people >= self.horizon:
            return planned
        return min(planned, self.horizon)

    def keeps(self, rows: int) -> tuple[int, int, int]:
        return 0, 1, rows

    def encode(self, held: Held, row: FloatArray, people: int) -> tuple[Held, FloatArray]:
        return held.after(people, held.vectors), row[None, :]

    def decode(self, held: Held, noisy: FloatArray, people: int) -> Held:
        share = 0.5 ** (people / self.half_life)
        return held.after(people, share * held.vectors + noisy, (*held.numbers, float(people)))

    def estimate(self, held: Held) -> Estimate:
        counts = np.array(held.numbers)
        if counts.min() < 1.0 or counts.sum() != held.people:
            raise InvalidInput("the saved epochs do not add up; read them as to_fields() wrote.")
        ends = np.cumsum(counts)
        omega = 0.5 ** ((ends[-1] - ends) / self.half_life)
        q = float(omega @ counts / (omega * omega @ counts))
        return Estimate(q * held.vectors[0], q * q * float(omega @ omega), q * omega)
