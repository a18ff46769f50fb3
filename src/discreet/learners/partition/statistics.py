"""What reports add up to, for each node of the tree, each arm and each source of data.

Over the people whose ticket offered arm k in bin j, whether they were in bin j or not:

| array       | shape  | sum of              | meaning                                    |
|-------------|--------|---------------------|--------------------------------------------|
| offered     | (N, K) | 1                   | T                                          |
| signed      | (N, K) | h / (p - b)         | S; E[S / T] = mass (2f - 1)                |
| noise_other | (N, K) | 2q / (p - b)^2      | (1 - mass) noise_other + mass noise_own is |
| noise_own   | (N, K) | (p + b) / (p - b)^2 | R, the variance of S                       |
| mass_weight | (N,)   | g^2 / v             | precision of the mass                      |
| mass_sum    | (N,)   | g (abs(h) - 2q) / v | precision x mass                           |

with g = p + b - 2q and v the variance of |h|. Reports of people under different budgets, or from
different data, are different *sources*: each has its own masses, and its noise sums say how much
it is worth, so they can be weighed together (posterior.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from discreet.learners.messages import Statistics
from discreet.validation import FloatArray, InvalidInput, read_array, whole_number

TARGET = "target"


@dataclass(frozen=True, eq=False)
class NodeSums:
    """The sums of one source (see the module's table)."""

    offered: FloatArray
    signed: FloatArray
    noise_other: FloatArray
    noise_own: FloatArray
    mass_weight: FloatArray
    mass_sum: FloatArray

    @classmethod
    def zeros(cls, nodes: int, arms: int) -> NodeSums:
        """No report at all."""
        cells = [np.zeros((nodes, arms)) for _ in range(4)]
        return cls(cells[0], cells[1], cells[2], cells[3], np.zeros(nodes), np.zeros(nodes))

    @classmethod
    def cells(cls, nodes: int, arms: int) -> NodeSums:
        """The same for a source whose arms are private too: masses of cells, (N, K)."""
        return cls(*(np.zeros((nodes, arms)) for _ in range(6)))

    def __len__(self) -> int:
        return len(self.mass_weight)

    def grown(self, nodes: int) -> NodeSums:
        """The same sums for a tree that has more nodes by now."""
        more = nodes - len(self)
        if more <= 0:
            return self
        arrays = [getattr(self, field.name) for field in fields(self)]
        return NodeSums(*(np.pad(a, [(0, more)] + [(0, 0)] * (a.ndim - 1)) for a in arrays))

    def __add__(self, other: NodeSums) -> NodeSums:
        nodes = max(len(self), len(other))
        one, two = self.grown(nodes), other.grown(nodes)
        return NodeSums(
            *(getattr(one, field.name) + getattr(two, field.name) for field in fields(self))
        )


@dataclass(frozen=True, eq=False)
class PartitionStatistics(Statistics):
    """Node sums of each source, and how many reports are in them."""

    kind: ClassVar[str] = "partition-statistics"

    arms: int
    sources: Mapping[str, NodeSums]

    def __add__(self, other: PartitionStatistics) -> PartitionStatistics:
        if self.arms != other.arms:
            raise InvalidInput(
                f"statistics of {self.arms} and of {other.arms} arms cannot be added; they come "
                "from different learners."
            )
        names = [*self.sources, *(name for name in other.sources if name not in self.sources)]
        empty = NodeSums.zeros(0, self.arms)
        return PartitionStatistics(
            self.arms,
            {n: self.sources.get(n, empty) + other.sources.get(n, empty) for n in names},
            **self.tally(other),
        )

    def to_fields(self) -> dict[str, Any]:
        return {
            "arms": self.arms,
            **self.tally_fields(),
            "sources": {
                name: {field.name: getattr(sums, field.name).tolist() for field in fields(sums)}
                for name, sums in self.sources.items()
            },
        }

    @classmethod
    def from_fields(cls, fields_: dict[str, Any]) -> Self:
        arms = whole_number(fields_["arms"], "arms", minimum=2)
        sources = {}
        for name, arrays in fields_["sources"].items():
            sums = NodeSums(
                **{
                    f.name: read_array(arrays[f.name], f.name, "number", 2 if place < 4 else 1)
                    for place, f in enumerate(fields(NodeSums))
                }
            )
            nodes = len(sums)
            shapes = [getattr(sums, f.name).shape for f in fields(sums)]
            if shapes != [(nodes, arms)] * 4 + [(nodes,)] * 2:
                raise InvalidInput(
                    f"the sums of source {name!r} had shapes {shapes}; they must be four of shape "
                    f"(nodes, {arms}) and two of shape (nodes,)."
                )
            sources[name] = sums
        return cls(arms, sources, **cls.read_tally(fields_))
