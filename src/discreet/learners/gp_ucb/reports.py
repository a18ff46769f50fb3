"""What people send to kernel learners: what happened as it was, or private rows.

| array   | shape     | meaning                                                         |
|---------|-----------|-----------------------------------------------------------------|
| points  | (n, d)    | the points given; (n, 0) where the tickets determine them                |
| tickets | (n,)      | the tickets; (0,) where points are given                         |
| rows    | (n, size) | each person's row with noise on it                              |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from discreet.learners.messages import Reports
from discreet.validation import FloatArray, TicketArray, read_array


@dataclass(frozen=True, eq=False)
class Observations(Reports):
    """What happened to n people, as it was: for a learner that they trust.

    Attributes:
        points: (n, d) the points given; (n, 0) where the tickets determine them.
        tickets: (n,) the tickets; (0,) where points are given.
        rewards: (n,) in [0, 1].
    """

    kind: ClassVar[str] = "observations"

    points: FloatArray
    tickets: TicketArray
    rewards: FloatArray

    def __len__(self) -> int:
        return len(self.rewards)

    def to_fields(self) -> dict[str, Any]:
        return {
            **self.origin_fields(),
            "points": self.points.tolist(),
            "tickets": self.tickets.tolist(),
            "rewards": self.rewards.tolist(),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        rewards = read_array(fields["rewards"], "rewards", "number", 1)
        points = fields["points"] or [[] for _ in rewards]
        return cls(
            **cls.read_origin(fields),
            points=read_array(points, "points", "number", 2),
            tickets=read_array(fields["tickets"], "tickets", "whole", 1).astype(np.uint64),
            rewards=rewards,
        )


@dataclass(frozen=True, eq=False)
class NoisyRows(Reports):
    """Private reports of n people.

    Attributes:
        rows: (n, size) each person's row with noise on it; (n, 1) the noisy centred reward where
            tickets tell the points.
        tickets: (n,) the tickets; (0,) where points are not told.
    """

    kind: ClassVar[str] = "noisy-rows"

    rows: FloatArray
    tickets: TicketArray

    def __len__(self) -> int:
        return len(self.rows)

    def to_fields(self) -> dict[str, Any]:
        return {
            **self.origin_fields(),
            "rows": self.rows.tolist(),
            "tickets": self.tickets.tolist(),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(
            **cls.read_origin(fields),
            rows=read_array(fields["rows"], "rows", "number", 2),
            tickets=read_array(fields["tickets"], "tickets", "whole", 1).astype(np.uint64),
        )
