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
from typing import Annotated, ClassVar

from discreet.codec import Range, Shape
from discreet.learners.messages import TICKETS, Reports, Statistics
from discreet.validation import FloatArray, TicketArray


@dataclass(frozen=True, eq=False)
class GradientReports(Reports):
    """The private gradients of n people (see the module's table).

    Attributes:
        tickets: None for people of a source, whose arms no ticket chose.
    """

    kind: ClassVar[str] = "gradient-reports"

    tickets: Annotated[TicketArray, Shape("n"), Range(0, TICKETS - 1)] | None
    gradients: Annotated[FloatArray, Shape("n", "K", "p")]

    def __len__(self) -> int:
        return len(self.gradients)


@dataclass(frozen=True, eq=False)
class GradientSums(Statistics):
    """The sum of gradients (K, p), and of how many people."""

    kind: ClassVar[str] = "gradient-sums"

    gradients: Annotated[FloatArray, Shape("K", "p")]
