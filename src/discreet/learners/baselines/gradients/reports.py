"""What people send to the gradient learners, and the sums that learners add.

| array     | shape     | meaning                                                                  |
|-----------|-----------|--------------------------------------------------------------------------|
| tickets   | (n,)      | as in messages.py; they say in public who explores, and with which arm   |
| gradients | (n, K, p) | private gradients of one loss each: one row of p numbers for every arm   |
| (sums)    | (K, p)    | the sum of the gradients of all people                                   |

Gradients are taken at the parameters of the policy that made them. The sums do not keep policies
apart: a gradient that comes late is added as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from discreet.learners.messages import TICKETS, Reports, Statistics
from discreet.learners.sources import SourceReports
from discreet.validation import (
    FloatArray,
    InvalidInput,
    TicketArray,
    read_array,
    whole_vector,
)


@dataclass(frozen=True, eq=False)
class GradientReports(Reports):
    """The private gradients of n people (see the module's table)."""

    kind: ClassVar[str] = "gradient-reports"

    tickets: TicketArray
    gradients: FloatArray

    def __len__(self) -> int:
        return len(self.gradients)

    def to_fields(self) -> dict[str, Any]:
        return {
            **self.origin_fields(),
            "tickets": self.tickets.tolist(),
            "gradients": self.gradients.tolist(),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        tickets = whole_vector(fields["tickets"], "tickets", 0, TICKETS - 1)
        return cls(
            **cls.read_origin(fields),
            tickets=tickets.astype(np.uint64),
            gradients=read_array(fields["gradients"], "gradients", "number", 3),
        )


@dataclass(frozen=True, eq=False)
class SourceGradientReports(SourceReports):
    """The private gradients of n people of a source."""

    kind: ClassVar[str] = "gradient-source-reports"

    gradients: FloatArray

    def __len__(self) -> int:
        return len(self.gradients)

    def to_fields(self) -> dict[str, Any]:
        return {**self.origin_fields(), "gradients": self.gradients.tolist()}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(
            **cls.read_origin(fields),
            gradients=read_array(fields["gradients"], "gradients", "number", 3),
        )


@dataclass(frozen=True, eq=False)
class GradientSums(Statistics):
    """The sum of gradients (K, p), and of how many people."""

    kind: ClassVar[str] = "gradient-sums"

    gradients: FloatArray

    def __add__(self, other: GradientSums) -> GradientSums:
        if self.gradients.shape != other.gradients.shape:
            raise InvalidInput(
                f"statistics of shapes {self.gradients.shape} and {other.gradients.shape} cannot "
                "be added; they come from different learners."
            )
        return GradientSums(self.gradients + other.gradients, **self.tally(other))

    def to_fields(self) -> dict[str, Any]:
        return {"gradients": self.gradients.tolist(), **self.tally_fields()}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        gradients = read_array(fields["gradients"], "gradients", "number", 2)
        return cls(gradients, **cls.read_tally(fields))
