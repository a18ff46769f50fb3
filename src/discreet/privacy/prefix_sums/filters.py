"""Coefficients of buffered Toeplitz factorisations, and how they were fitted.

With poles lambda_j of C(z) and zeros h_j that interlace, 1 > lambda_1 > h_1 > lambda_2 > .. > 0,

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

from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

import numpy as np

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
    """(2 buffers,) what was fitted with so many buffers to 2^power rows, by (buffers, power)."""
    text = (files("discreet.privacy.prefix_sums") / "filters.txt").read_text(encoding="utf-8")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {
        (int(buffers), int(power)): np.array([float(span) for span in spans])
        for buffers, power, *spans in lines
    }
