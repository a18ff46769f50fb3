"""Epochs: statistics of which only the latest weighted value matters, and discounted ones.

**Geometric epochs.** After epoch e, t_e people have come. With X_e the row and n_e the people of
epoch e,

    R_e = R_(e-1) + kappa_e t_e X_e,   o_e = R_e / t_e + noise,   so   H_ej = kappa_j t_j / t_e

for e >= j. The estimate is a sum over people with weights that need not be equal (old rows count a
little more), scaled so that it can be read as a sum over fewer people:

    w_e = sum_j H_ej n_j,   omega_j = sum_e H_ej w_e,   q = sum(omega n) / sum(omega^2 n),
    values = q sum_e w_e o_e,   weights = q omega,   variance = q^2 sum_e w_e^2.

Then sum(weights n) = sum(weights^2 n) = (sum omega n)^2 / sum(omega^2 n), the effective number of
people m, so the estimate behaves as a prefix sum over m people would. At growth 1.1, at any time,
m is about 0.88 of those who came and variance about 2.8; an average over m people has noise
variance / m^2, as if from a prefix sum over all with variance 3.6.

No other w has a smaller variance / m^2: it equals sum(w^2) / (w' H n)^2, which by Cauchy and
Schwarz is least at w = H n. Other w have a larger m: s^2 / m + scale^2 variance / m^2 is least at
w = (H N H' + lambda I)^-1 H n for a lambda that depends on the data's variance s^2. They are not
used: every epoch would change all of w, and at 1024 people m / n = 0.944 costs variance 3.25 and
m / n = 0.990 costs 5.1, so variance / m rises too.

w_e depends on no later epoch, so sum_e w_e o_e is a running sum: one vector of state.

| name   | shape     | meaning                                | symbol  |
|--------|-----------|----------------------------------------|---------|
| counts | (epochs,) | people of each epoch; `Held.numbers`   | n_e     |
| total  | (epochs,) | people after each epoch                | t_e     |
| held   | (1, dim)  | encoder: weighted sum; secret          | R_e     |
| sum    | (1, dim)  | decoder: sum of w_e o_e; public        |         |

**Fading epochs.** Each epoch's own sum is released once, and older ones count less.

    o_e = X_e + noise,   omega_e = 2^(-a_e / h),   q = sum(omega n) / sum(omega^2 n),
    values = q sum_e omega_e o_e,   weights = q omega,   variance = q^2 sum_e omega_e^2,

with X_e the row and n_e the people of epoch e, a_e the people who came after it, and h the
half-life. As above, sum(weights n) = sum(weights^2 n) is the effective number of people, so
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

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import Annotated, ClassVar

import numpy as np

from discreet.codec import Range
from discreet.privacy.prefix_sums.system import MOST_PEOPLE, Estimate, Held, PrefixMechanism
from discreet.validation import FloatArray, InvalidInput, whole_number

# At growth 1.01 there are 3,500 epochs up to 2^53 people; below, time and memory are wasted.
_LEAST_GROWTH = 1.01
_MOST_GROWTH = 1e3


@dataclass(frozen=True)
class GeometricEpochs(PrefixMechanism):
    """Epochs whose ends grow by a factor; see the module for the estimate.

    kappa_j = [sum over e >= j of (t_j / s_e)^2]^(-1/2), where s_j = t_j, s_(j+1) = due(s_j), .. is
    the shortest schedule allowed from t_j on, so that every column of H has norm at most 1:
    `due` is monotone, so whatever is allowed has t_e >= s_e and at most as many epochs;
    hence sum_e H_ej^2 = kappa_j^2 sum_e (t_j / t_e)^2 <= 1, with equality when the plan is kept.

    Attributes:
        growth: the factor, from 1.01 to 1000.
        first: people of the first epoch.
        horizon: people in all, if known: the last epoch ends there, and none may come after it.
        rows: how many epochs fit into the horizon; None without one.
    """

    growth: Annotated[float, Range(_LEAST_GROWTH, _MOST_GROWTH)] = 1.1
    first: Annotated[int, Range(1, MOST_PEOPLE)] = 1
    horizon: Annotated[int, Range(1, MOST_PEOPLE)] | None = None
    rows: int | None = field(default=None, init=False, compare=False)
    name: ClassVar[str] = "geometric_epochs"
    column_norm: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.horizon is not None:
            object.__setattr__(self, "rows", self.entries)

    @cached_property
    def entries(self) -> int:
        """The largest number of epochs."""
        return sum(1 for _ in takewhile(lambda end: end <= MOST_PEOPLE, self.plan()))

    def due(self, people: int) -> int:
        """The end of the next epoch, if the last one ended at `people`."""
        return next_end(people, self.growth, self.first, self.horizon)

    def plan(self, people: int = 0) -> Iterator[int]:
        """Ends of the epochs after `people`, each as early as allowed."""
        while people != self.horizon:
            people = self.due(people)
            yield people

    def check_row(self, held: Held, people: int) -> None:
        before = held.people
        after, planned = before + whole_number(people, "people", minimum=1), self.due(before)
        if self.horizon is not None and after > self.horizon:
            raise InvalidInput(
                f"the horizon is used up: {before} people came, {people} more make {after}, but "
                f"the horizon is {self.horizon}; start a new stream (people in both pay for both)."
            )
        if after < planned:
            raise InvalidInput(
                f"the row ended at {after} people, before the next one is due at {planned}; wait "
                "until due(people), or later, because earlier rows would cost more privacy."
            )
        super().check_row(held, people)

    def keeps(self, rows: int) -> tuple[int, int, int]:
        return 1, 1, rows

    def encode(self, held: Held, row: FloatArray, people: int) -> tuple[Held, FloatArray]:
        end = held.people + people
        weighted = held.vectors + kappa(self, end) * end * row
        return held.after(people, weighted), weighted / end

    def decode(self, held: Held, noisy: FloatArray, people: int) -> Held:
        counts = (*held.numbers, float(people))
        w, _ = released_weights(self, np.array(counts))
        return held.after(people, held.vectors + w[-1] * noisy, counts)

    def estimate(self, held: Held) -> Estimate:
        counts = np.array(held.numbers)
        w, omega = released_weights(self, counts)
        q = float(omega @ counts / (omega * omega @ counts))
        return Estimate(q * held.vectors[0], q * q * float(w @ w), q * omega)


@lru_cache(maxsize=2**14)
def kappa(mechanism: GeometricEpochs, people: int) -> float:
    """The factor of an epoch that ends at `people`, [sum of (t_j / s_e)^2]^(-1/2)."""
    total = 1.0
    spread = mechanism.growth**2 - 1.0
    for end in mechanism.plan(people):
        share = (people / end) ** 2
        total += share
        if share < 1e-17 * spread:
            # Each later end is at least growth times the one before: a geometric tail.
            total += share / spread
            break
    return 1.0 / math.sqrt(total)


def released_weights(
    mechanism: GeometricEpochs, counts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """w and omega, (epochs,) each, for epochs of `counts` people."""
    total = np.cumsum(counts)
    influence = np.array([kappa(mechanism, int(end)) * int(end) for end in total])
    w = np.cumsum(influence * counts) / total
    omega = influence * np.cumsum((w / total)[::-1])[::-1]
    return w, omega


@dataclass(frozen=True)
class SeparateEpochs(PrefixMechanism):
    """Each epoch's sum is released once, alone: C = I, and the estimate is the last epoch's.

    A person is in one release, so every release has the whole budget. Where each epoch asks
    something of its own, nothing is mixed; a sum over all epochs of equal questions would have
    variance (growth + 1) / (growth - 1) under the best weights, 5 at growth 1.5, where
    `GeometricEpochs` at 1.1 has 3.6.

    Attributes:
        growth: of the number of people from one epoch's end to the next, from 1.01 to 1000.
        first: people of the first epoch.
        horizon: people in all, if known: the last epoch ends there, and none may come after it.
    """

    growth: Annotated[float, Range(_LEAST_GROWTH, _MOST_GROWTH)] = 1.5
    first: Annotated[int, Range(1, MOST_PEOPLE)] = 1
    horizon: Annotated[int, Range(1, MOST_PEOPLE)] | None = None
    rows: int | None = field(default=None, init=False, compare=False)
    name: ClassVar[str] = "separate_epochs"
    column_norm: ClassVar[float] = 1.0
    entries: ClassVar[int] = 1

    def due(self, people: int) -> int:
        """The end of the next epoch, if the last one ended at `people`."""
        return next_end(people, self.growth, self.first, self.horizon)

    def check_row(self, held: Held, people: int) -> None:
        super().check_row(held, people)
        if self.horizon is not None and held.people + people > self.horizon:
            raise InvalidInput(
                f"the horizon is used up: {held.people} people came, {people} more were given, but "
                f"the horizon is {self.horizon}; start a new stream (people in both pay for both)."
            )

    def keeps(self, rows: int) -> tuple[int, int, int]:
        return 0, 1, 0

    def encode(self, held: Held, row: FloatArray, people: int) -> tuple[Held, FloatArray]:
        return held.after(people, held.vectors), row[None]

    def decode(self, held: Held, noisy: FloatArray, people: int) -> Held:
        return held.after(people, noisy)

    def estimate(self, held: Held) -> Estimate:
        weights = np.zeros(held.rows)
        weights[-1] = 1.0
        return Estimate(held.vectors[0], 1.0, weights)


def next_end(people: int, growth: float, first: int, horizon: int | None) -> int:
    """The end of the epoch after one that ended at `people`."""
    planned = first if people < first else max(people + 1, math.ceil(growth * people))
    return planned if horizon is None else min(planned, horizon)


# An epoch is at most this share of a half-life, unless the first one is longer.
_SHARE = 0.25


@dataclass(frozen=True)
class DiscountedEpochs(PrefixMechanism):
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
    name: ClassVar[str] = "discounted_epochs"
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
        ends = np.cumsum(counts)
        omega = 0.5 ** ((ends[-1] - ends) / self.half_life)
        q = float(omega @ counts / (omega * omega @ counts))
        return Estimate(q * held.vectors[0], q * q * float(omega @ omega), q * omega)
