"""Fresh noise on every row: what the local model can do, and the yardstick for the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
from discreet.validation import FloatArray, whole_number


@dataclass(frozen=True)
class Independent(PrefixMechanism):
    """C = I and B = A: the estimate is the sum of the noisy rows, its variance the row number.

    Attributes:
        every: people in a row, as planned.
    """

    every: int = 1
    rows: None = field(default=None, init=False)
    name: ClassVar[str] = "independent"

    def __post_init__(self) -> None:
        whole_number(self.every, "every", minimum=1)

    @property
    def entries(self) -> int:
        return 1

    @property
    def column_norm(self) -> float:
        return 1.0

    @property
    def memory(self) -> int:
        return 1

    def due(self, people: int) -> int:
        return people + self.every

    def encoder(self) -> Encoder:
        return IdentityEncoder(self)

    def decoder(self) -> Decoder:
        return SumDecoder(self)

    def variances(self, rows: int) -> FloatArray:
        return np.arange(1.0, self.check_rows(rows) + 1.0)


class IdentityEncoder(Encoder):
    """Keeps nothing."""

    def _push(self, row: FloatArray, people: int) -> FloatArray:
        return row[None, :].copy()

    def _state(self) -> dict[str, Any]:
        return {}

    def _restore(self, fields: Mapping[str, Any]) -> None:
        pass


class SumDecoder(Decoder):
    """Keeps the sum of the noisy rows, (1, dim)."""

    def __init__(self, mechanism: Independent) -> None:
        super().__init__(mechanism)
        self._sum = np.zeros((1, 1))

    def _take(self, noisy: FloatArray, people: int) -> None:
        self._sum = self._sum + noisy

    def _estimate(self) -> Estimate:
        return Estimate(self._sum[0].copy(), float(self.rows), ones(self.rows))

    def _state(self) -> dict[str, Any]:
        return {"sum": self._sum.tolist()}

    def _restore(self, fields: Mapping[str, Any]) -> None:
        self._sum = stored(fields["sum"], "sum", 1)
