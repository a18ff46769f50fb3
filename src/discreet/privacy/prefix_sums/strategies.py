"""Strategies for prefix sums, each a pair (C, B) with B C = A (system.py has the contract).

    Independent                   C = I: what the local model can do, the yardstick for the others
    BinaryTree                    sums over dyadic intervals
    BufferedToeplitz              all rows alike, C(z) B(z) = 1 / (1 - z)

**Trees.** Node (h, i) is the sum of rows i 2^h + 1, .., (i + 1) 2^h; it is released when its last
row comes. A row is in one node of each height, so |C| is the root of the number of heights that fit
into the horizon (Dwork, Naor, Pitassi and Rothblum 2010; Chan, Shi and Song 2011; Dubey 2021,
Algorithm 2). After t rows the open nodes are the dyadic decomposition of 1 .. t, one for each bit
of t that is set, and the estimate is the sum of their estimates.

**Toeplitz.** With generating functions, c_k and b_k are the coefficients of C(z) and B(z). Variance
after row t is b_0^2 + .. + b_(t-1)^2, so the last row is the worst, and |C|^2 is
c_0^2 + .. + c_(rows-1)^2, the norm of the first column.

| strategy           | encoder keeps                 | decoder keeps                            |
|--------------------|-------------------------------|------------------------------------------|
| Independent        | nothing                       | (1, dim) the sum of the noisy rows       |
| BinaryTree         | (bits set in t, dim) sums of  | (bits set in t, dim) their estimates,    |
|                    | open nodes, highest first     | highest first                            |
| BufferedToeplitz   | (buffers, dim) S, discounted  | (buffers + 1, dim) U, discounted sums of |
|                    | sums of earlier rows          | released rows                            |

**Buffered Toeplitz coefficients.** With poles lambda_j of C(z) and zeros h_j that interlace,
1 > lambda_1 > h_1 > lambda_2 > .. > 0,

    C(z) = prod (1 - h_j z) / prod (1 - lambda_j z),   B(z) = 1 / ((1 - z) C(z)),

and partial fractions give, with p = (1, h_1, .., h_d) and every weight positive,

    c_0 = 1,  c_k = sum_j alpha_j lambda_j^(k-1),  alpha_j = prod_i (lambda_j - h_i) / prod_(i != j)
    (lambda_j - lambda_i);   b_k = sum_j r_j p_j^k,  r_j = prod_i (p_j - lambda_i) / prod_(i != j)
    (p_j - p_i)

(Dvijotham, McMahan, Pillutla, Steinke and Thakurta 2024, sections 4 and 5). Poles and zeros are
e^(-1 / span), where a span is how many rows a discounted sum looks back. `filters.txt` holds the
natural logs of the spans of lambda_1, h_1, lambda_2, h_2, .. that minimise the worst row's variance
times |C|^2 (tests/privacy/prefix_sums fits them again). Three decimals cost less than a part in
10^5 of the variance.

| name            | shape          | meaning                    | symbol  |
|-----------------|----------------|----------------------------|---------|
| poles           | (buffers,)     | discounts of the encoder   | lambda  |
| encoder_weights | (buffers,)     |                            | alpha   |
| decoder_poles   | (buffers + 1,) | discounts of the decoder   | p       |
| decoder_weights | (buffers + 1,) |                            | r       |
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from typing import Annotated, Any, ClassVar

import numpy as np

from discreet.codec import Range
from discreet.privacy.prefix_sums.epochs import DiscountedEpochs, GeometricEpochs
from discreet.privacy.prefix_sums.system import (
    MOST_PEOPLE,
    Estimate,
    Held,
    People,
    PrefixMechanism,
    ones,
)
from discreet.validation import FloatArray, freeze_arrays

_GRID_START, _GRID_STOP = 3, 24  # powers of 2
MOST_ROWS = 2**_GRID_STOP
FEWEST_BUFFERS, MOST_BUFFERS = 2, 6


@dataclass(frozen=True, eq=False)
class Filter:
    """One C and its B. Arrays are read-only; the module has their shapes.

    Attributes:
        poles: discounts of the encoder.
        encoder_weights: what each discounted sum adds to the next release.
        decoder_poles: discounts of the decoder, the first of them 1.
        decoder_weights: what each discounted sum of releases counts in the estimate.
    """

    poles: FloatArray
    encoder_weights: FloatArray
    decoder_poles: FloatArray
    decoder_weights: FloatArray

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @classmethod
    def from_log_spans(cls, log_spans: FloatArray) -> Filter:
        """The filter of lambda_1, h_1, lambda_2, .. = exp(-1 / span), given ln(span), falling."""
        discounts = np.exp(-np.exp(-log_spans))
        poles, zeros = discounts[0::2], discounts[1::2]
        steps = np.concatenate([[1.0], zeros])
        return cls(poles, _residues(poles, zeros), steps, _residues(steps, poles))

    def encoder_energy(self, rows: int) -> float:
        """c_0^2 + .. + c_(rows-1)^2, in closed form; all terms are positive."""
        weights = self.encoder_weights
        return 1.0 + float(weights @ _geometric(self.poles, rows - 1) @ weights)

    def decoder_energy(self, rows: int) -> float:
        """b_0^2 + .. + b_(rows-1)^2, in closed form; all terms are positive."""
        weights = self.decoder_weights
        return float(weights @ _geometric(self.decoder_poles, rows) @ weights)


def _residues(at: FloatArray, zeros: FloatArray) -> FloatArray:
    """prod_i (at_j - zeros_i) / prod_(i != j) (at_j - at_i) for each j."""
    others = [np.delete(at, j) for j in range(len(at))]
    return np.array([np.prod(p - zeros) / np.prod(p - q) for p, q in zip(at, others, strict=True)])


def _geometric(poles: FloatArray, count: int) -> FloatArray:
    """(n, n) sums over k < count of (p_i p_j)^k."""
    # 1 - p_i p_j from the gaps 1 - p, because poles lie as near to 1 as 1e-7.
    gap = 1.0 - poles
    short = gap[:, None] + gap - gap[:, None] * gap
    still = short == 0.0
    sums: FloatArray = -np.expm1(count * np.log1p(-short)) / np.where(still, 1.0, short)
    return np.where(still, float(count), sums)


# C = I: every row is released alone, and B adds up what was released.
NO_BUFFERS = Filter(np.empty(0), np.empty(0), np.ones(1), np.ones(1))


@lru_cache(maxsize=64)
def fitted_filter(rows: int, buffers: int) -> Filter:
    """The filter fitted to the least power of 2 that is at least `rows` (and at least 8)."""
    power = max((rows - 1).bit_length(), _GRID_START)
    return Filter.from_log_spans(log_spans()[buffers, power])


@cache
def log_spans() -> dict[tuple[int, int], FloatArray]:
    """(2 buffers,) the coefficients fitted to 2^power rows, by (buffers, power)."""
    text = (files("discreet.privacy.prefix_sums") / "filters.txt").read_text(encoding="utf-8")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {
        (int(buffers), int(power)): np.array([float(span) for span in spans])
        for buffers, power, *spans in lines
    }


@dataclass(frozen=True)
class BinaryTree(PrefixMechanism):
    """Each open node counts as it was released: variance = number of bits set in t.

    Attributes:
        rows: the horizon.
        every: people in a row, as planned.
    """

    rows: Annotated[int, Range(1, MOST_PEOPLE)]
    every: People = 1
    name: ClassVar[str] = "binary_tree"

    @property
    def entries(self) -> int:
        return self.rows.bit_length()

    @property
    def column_norm(self) -> float:
        """The root of the number of nodes over the first row; no row is in more."""
        return math.sqrt(self.entries)

    def keeps(self, rows: int) -> tuple[int, int, int]:
        return rows.bit_count(), rows.bit_count(), 0

    def encode(self, held: Held, row: FloatArray, people: int) -> tuple[Held, FloatArray]:
        kept, closed = _split(held)
        due = [row]
        for left in reversed(closed):
            due.append(left + due[-1])
        return held.after(people, np.array([*kept, due[-1]])), np.array(due)

    def decode(self, held: Held, noisy: FloatArray, people: int) -> Held:
        kept, _ = _split(held)
        return held.after(people, np.array([*kept, noisy[-1]]))

    def estimate(self, held: Held) -> Estimate:
        variance = float(held.rows.bit_count())
        return Estimate(np.sum(held.vectors, axis=0), variance, ones(held.rows))


def _split(held: Held) -> tuple[list[FloatArray], list[FloatArray]]:
    """Open nodes that stay open after the next row, and those that it closes, highest first.

    The next row closes as many nodes above the leaves as its number has zeros at its end.
    """
    number = held.rows + 1
    stay = len(held.vectors) - ((number & -number).bit_length() - 1)
    return list(held.vectors[:stay]), list(held.vectors[stay:])


class Filtered(PrefixMechanism):
    """C and B from a few discounted sums, with the coefficients of `filter`:

        encoder   y_t = x_t + sum_j alpha_j S_j,   then S_j <- lambda_j S_j + x_t
        decoder   U_j <- p_j U_j + y_t,            estimate = sum_j r_j U_j

    where every weight r_j is positive, so nothing cancels.
    """

    @property
    @abstractmethod
    def filter(self) -> Filter:
        """The coefficients in use."""

    def keeps(self, rows: int) -> tuple[int, int, int]:
        return len(self.filter.poles), len(self.filter.decoder_poles), 0

    def encode(self, held: Held, row: FloatArray, people: int) -> tuple[Held, FloatArray]:
        due: FloatArray = row + self.filter.encoder_weights @ held.vectors
        sums = self.filter.poles[:, None] * held.vectors + row
        return held.after(people, sums), due[None, :]

    def decode(self, held: Held, noisy: FloatArray, people: int) -> Held:
        sums = self.filter.decoder_poles[:, None] * held.vectors + noisy[0]
        return held.after(people, sums)

    def estimate(self, held: Held) -> Estimate:
        values = self.filter.decoder_weights @ held.vectors
        return Estimate(values, self.filter.decoder_energy(held.rows), ones(held.rows))


@dataclass(frozen=True)
class Independent(Filtered):
    """C = I and B = A: the estimate is the sum of the noisy rows, its variance the row number.

    Attributes:
        every: people in a row, as planned.
    """

    every: People = 1
    rows: int | None = field(default=None, init=False)
    name: ClassVar[str] = "independent"
    entries: ClassVar[int] = 1
    column_norm: ClassVar[float] = 1.0
    filter: ClassVar[Filter] = NO_BUFFERS


@dataclass(frozen=True)
class BufferedToeplitz(Filtered):
    """Buffered linear Toeplitz: almost the least variance, a few vectors of state.

    c_0 = 1, c_k = sum_j alpha_j lambda_j^(k-1) (Dvijotham, McMahan, Pillutla, Steinke and Thakurta
    2024), with coefficients fitted to the next power of 2 (`Filter`). The best Toeplitz
    factorisation up to a constant is the square root, B = C = A^(1/2), which keeps every row
    (Fichtenberger, Henzinger and Upadhyay 2023). Privacy does not depend on
    how good the fit is: `column_norm` is that of the C in use.

    Attributes:
        rows: the horizon, up to 2^24.
        buffers: from 2 to 6; 4 is within 0.4% of the square root up to 16,384 rows and within
            3.2% up to a million.
        every: people in a row, as planned.
    """

    rows: Annotated[int, Range(1, MOST_ROWS)]
    buffers: Annotated[int, Range(FEWEST_BUFFERS, MOST_BUFFERS)] = 4
    every: People = 1
    name: ClassVar[str] = "buffered_toeplitz"

    @cached_property
    def filter(self) -> Filter:
        """The coefficients in use."""
        return fitted_filter(self.rows, self.buffers)

    @property
    def entries(self) -> int:
        return self.rows

    @cached_property
    def column_norm(self) -> float:
        return float(np.sqrt(self.filter.encoder_energy(self.rows)))


MECHANISMS: dict[str, type[Any]] = {
    mechanism.name: mechanism
    for mechanism in (
        BufferedToeplitz,
        GeometricEpochs,
        DiscountedEpochs,
        BinaryTree,
        Independent,
    )
}
