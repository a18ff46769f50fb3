"""Sums over people that a kernel learner adds.

| array  | shape   | meaning                                                               |
|--------|---------|-----------------------------------------------------------------------|
| row    | (size,) | the sum to be released (secret under joint privacy): Gram triangle    |
|        |         | and y phi, or y s(x); whole multiples of 2^-36, or noisy numbers      |
| design | (k,)    | where points are public: sum s psi' and sum s s', flattened; else ()  |

Plain sums are 64-bit integers, so they add exactly and in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from discreet.learners.messages import Statistics
from discreet.validation import FloatArray, InvalidInput, freeze_arrays, read_array


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelStatistics(Statistics):
    """See the module's table.

    Attributes:
        exact: whether `row` holds whole numbers.
    """

    kind: ClassVar[str] = "kernel-statistics"

    row: NDArray[Any]
    design: FloatArray
    exact: bool

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __add__(self, other: KernelStatistics) -> KernelStatistics:
        if (self.row.shape, self.design.shape, self.exact) != (
            other.row.shape,
            other.design.shape,
            other.exact,
        ):
            raise InvalidInput(
                f"statistics of {self.row.shape[0]} and {other.row.shape[0]} numbers cannot be "
                "added; they come from different learners."
            )
        return KernelStatistics(
            **self.tally(other),
            row=self.row + other.row,
            design=self.design + other.design,
            exact=self.exact,
        )

    def to_fields(self) -> dict[str, Any]:
        return {
            **self.tally_fields(),
            "row": self.row.tolist(),
            "design": self.design.tolist(),
            "exact": self.exact,
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        exact = fields["exact"]
        if not isinstance(exact, bool):
            raise InvalidInput(f"exact was {exact!r}; it must be true or false.")
        return cls(
            **cls.read_tally(fields),
            row=read_array(fields["row"], "row", "whole" if exact else "number", 1),
            design=read_array(fields["design"], "design", "number", 1),
            exact=exact,
        )

    @classmethod
    def zeros(cls, size: int, design: int, exact: bool) -> KernelStatistics:
        """The sums of nobody."""
        kind = np.int64 if exact else np.float64
        return KernelStatistics(
            reports=0, row=np.zeros(size, dtype=kind), design=np.zeros(design), exact=exact
        )
