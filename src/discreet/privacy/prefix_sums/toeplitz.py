"""Toeplitz factorisations of the prefix sum: all rows are treated alike, B = A C^-1.

With generating functions, C(z) B(z) = 1 / (1 - z); c_k and b_k are their coefficients. Variance
after row t is b_0^2 + .. + b_(t-1)^2, so the last row is the worst, and |C|^2 is
c_0^2 + .. + c_(rows-1)^2, the norm of the first column.

| name  | shape              | meaning                                    | symbol   |
|-------|--------------------|--------------------------------------------|----------|
| sums  | (buffers, dim)     | encoder: discounted sums of earlier rows   | S        |
| sums  | (buffers + 1, dim) | decoder: discounted sums of released rows  | U        |
| kept  | (rows, dim)        | square root only: everything so far        | x or y   |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from discreet.privacy.prefix_sums.base import (
    Decoder,
    Encoder,
    Estimate,
    PrefixMechanism,
    ones,
    stored,
)
from discreet.privacy.prefix_sums.filters import BUFFERS, MOST_ROWS, Filter, fitted_filter
from discreet.validation import FloatArray, InvalidInput, whole_number


@dataclass(frozen=True)
class BufferedToeplitz(PrefixMechanism):
    """Buffered linear Toeplitz: almost the square root's variance from a few vectors of state.

    c_0 = 1, c_k = sum_j alpha_j lambda_j^(k-1) (Dvijotham, McMahan, Pillutla, Steinke and Thakurta
    2024), with coefficients fitted to the next power of 2 (filters.py):

        encoder   y_t = x_t + sum_j alpha_j S_j,   then S_j <- lambda_j S_j + x_t
        decoder   U_j <- p_j U_j + y_t,            estimate = sum_j r_j U_j

    Privacy does not depend on how good the fit is: `column_norm` is that of the C in use.

    Attributes:
        rows: the horizon, up to 2^24.
        buffers: from 2 to 6; 4 is within 0.4% of the square root up to 16,384 rows and within
            3.2% up to a million.
        every: people in a row, as planned.
    """

    rows: int
    buffers: int = 4
    every: int = 1
    name: ClassVar[str] = "buffered_toeplitz"

    def __post_init__(self) -> None:
        whole_number(self.rows, "rows", minimum=1, maximum=MOST_ROWS)
        whole_number(self.every, "every", minimum=1)
        if self.buffers not in BUFFERS:
            raise InvalidInput(f"buffers was {self.buffers!r}; it must be one of {BUFFERS}.")

    @property
    def filter(self) -> Filter:
        """The coefficients in use."""
        return fitted_filter(self.rows, self.buffers)

    @property
    def entries(self) -> int:
        return self.rows

    @cached_property
    def column_norm(self) -> float:
        return float(np.sqrt(self.filter.encoder_energy(self.rows)))

    @property
    def memory(self) -> int:
        return 2 * self.buffers + 1

    def due(self, people: int) -> int:
        return people + self.every

    def encoder(self) -> Encoder:
        return BufferedEncoder(self)

    def decoder(self) -> Decoder:
        return BufferedDecoder(self)

    def variances(self, rows: int) -> FloatArray:
        impulse = self.filter.decoder_impulse(self.check_rows(rows))
        return np.cumsum(impulse * impulse)


class BufferedEncoder(Encoder):
    """S, which starts as zeros of width 1 and takes the width of the first row."""

    def __init__(self, mechanism: BufferedToeplitz) -> None:
        super().__init__(mechanism)
        self._filter = mechanism.filter
        self._sums = np.zeros((mechanism.buffers, 1))

    def _push(self, row: FloatArray, people: int) -> FloatArray:
        due: FloatArray = row + self._filter.encoder_weights @ self._sums
        self._sums = self._filter.poles[:, None] * self._sums + row
        return due[None, :]

    def _state(self) -> dict[str, Any]:
        return {"sums": self._sums.tolist()}

    def _restore(self, fields: Mapping[str, Any]) -> None:
        self._sums = stored(fields["sums"], "sums", len(self._sums))


class BufferedDecoder(Decoder):
    """U: every weight r_j is positive, so nothing cancels."""

    def __init__(self, mechanism: BufferedToeplitz) -> None:
        super().__init__(mechanism)
        self._filter = mechanism.filter
        self._sums = np.zeros((mechanism.buffers + 1, 1))

    def _take(self, noisy: FloatArray, people: int) -> None:
        self._sums = self._filter.decoder_poles[:, None] * self._sums + noisy[0]

    def _estimate(self) -> Estimate:
        values = self._filter.decoder_weights @ self._sums
        return Estimate(values, self._filter.decoder_energy(self.rows), ones(self.rows))

    def _state(self) -> dict[str, Any]:
        return {"sums": self._sums.tolist()}

    def _restore(self, fields: Mapping[str, Any]) -> None:
        self._sums = stored(fields["sums"], "sums", len(self._sums))


@lru_cache(maxsize=8)
def _root(rows: int) -> FloatArray:
    """(rows,) binom(2k, k) / 4^k, the coefficients of (1 - z)^(-1/2)."""
    k = np.arange(1.0, rows)
    coefficients = np.cumprod(np.concatenate([[1.0], (2.0 * k - 1.0) / (2.0 * k)]))
    coefficients.setflags(write=False)
    return coefficients


@dataclass(frozen=True)
class SquareRootToeplitz(PrefixMechanism):
    """B = C = A^(1/2), c_k = binom(2k, k) / 4^k: the best Toeplitz factorisation up to a constant.

    A reference: it keeps every row, and a release takes time in proportion to the rows so far
    (Fichtenberger, Henzinger and Upadhyay 2023; Henzinger, Upadhyay and Upadhyay 2023).

    Attributes:
        rows: the horizon, up to 2^20.
        every: people in a row, as planned.
    """

    rows: int
    every: int = 1
    name: ClassVar[str] = "square_root_toeplitz"

    def __post_init__(self) -> None:
        whole_number(self.rows, "rows", minimum=1, maximum=2**20)
        whole_number(self.every, "every", minimum=1)

    @property
    def entries(self) -> int:
        return self.rows

    @cached_property
    def column_norm(self) -> float:
        return float(np.linalg.norm(_root(self.rows)))

    @property
    def memory(self) -> int:
        return 2 * self.rows

    def due(self, people: int) -> int:
        return people + self.every

    def encoder(self) -> Encoder:
        return RootEncoder(self)

    def decoder(self) -> Decoder:
        return RootDecoder(self)

    def variances(self, rows: int) -> FloatArray:
        return np.cumsum(_root(self.check_rows(rows)) ** 2)


class RootEncoder(Encoder):
    """Every row so far."""

    def __init__(self, mechanism: SquareRootToeplitz) -> None:
        super().__init__(mechanism)
        self._root = _root(mechanism.rows)
        self._kept: FloatArray = np.zeros((0, 1))

    def _push(self, row: FloatArray, people: int) -> FloatArray:
        self._kept = np.vstack([self._kept, row]) if self.rows else row[None, :].copy()
        due: FloatArray = self._root[self.rows :: -1] @ self._kept
        return due[None, :]

    def _state(self) -> dict[str, Any]:
        return {"kept": self._kept.tolist()}

    def _restore(self, fields: Mapping[str, Any]) -> None:
        self._kept = stored(fields["kept"], "kept", self.rows)


class RootDecoder(Decoder):
    """Every released vector so far."""

    def __init__(self, mechanism: SquareRootToeplitz) -> None:
        super().__init__(mechanism)
        self._root = _root(mechanism.rows)
        self._kept: FloatArray = np.zeros((0, 1))

    def _take(self, noisy: FloatArray, people: int) -> None:
        self._kept = np.vstack([self._kept, noisy]) if self.rows else noisy.copy()

    def _estimate(self) -> Estimate:
        weights = self._root[: self.rows]
        return Estimate(weights[::-1] @ self._kept, float(weights @ weights), ones(self.rows))

    def _state(self) -> dict[str, Any]:
        return {"kept": self._kept.tolist()}

    def _restore(self, fields: Mapping[str, Any]) -> None:
        self._kept = stored(fields["kept"], "kept", self.rows)
