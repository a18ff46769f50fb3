"""Binary trees over the rows: the published mechanism, and a better decoder for it.

Node (h, i) is the sum of rows i 2^h + 1, .., (i + 1) 2^h; it is released when its last row comes.
A row is in one node of each height, so |C| is the root of the number of heights that fit into the
horizon (Dwork, Naor, Pitassi and Rothblum 2010; Chan, Shi and Song 2011; Dubey 2021, Algorithm 2).
After t rows the open nodes are the dyadic decomposition of 1 .. t, one for each bit of t that is
set, and the estimate is the sum of their estimates.

| name  | shape                | meaning                                                   |
|-------|----------------------|-----------------------------------------------------------|
| open  | (bits set in t, dim) | sums (encoder) or estimates (decoder) of the open nodes,  |
|       |                      | highest first                                             |
| noisy | (k, dim)             | released nodes that end at this row, lowest first         |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from discreet.privacy.prefix_sums.base import (
    MOST_PEOPLE,
    Decoder,
    Encoder,
    Estimate,
    PrefixMechanism,
    ones,
    stored,
)
from discreet.validation import FloatArray, whole_number


@dataclass(frozen=True)
class BinaryTree(PrefixMechanism):
    """Each open node counts as it was released: variance = number of bits set in t.

    Attributes:
        rows: the horizon.
        every: people in a row, as planned.
    """

    rows: int
    every: int = 1
    name: ClassVar[str] = "binary_tree"

    def __post_init__(self) -> None:
        whole_number(self.rows, "rows", minimum=1, maximum=MOST_PEOPLE)
        whole_number(self.every, "every", minimum=1)

    @property
    def entries(self) -> int:
        return self.rows.bit_length()

    @property
    def column_norm(self) -> float:
        """The root of the number of nodes over the first row; no row is in more."""
        return math.sqrt(self.entries)

    @property
    def memory(self) -> int:
        return 2 * self.entries

    def due(self, people: int) -> int:
        return people + self.every

    def node_variance(self, height: int) -> float:
        """Variance of the estimate of a node at that height, in units of scale^2."""
        return 1.0

    def encoder(self) -> Encoder:
        return TreeEncoder(self)

    def decoder(self) -> Decoder:
        return TreeDecoder(self)

    def variances(self, rows: int) -> FloatArray:
        count = np.arange(1, self.check_rows(rows) + 1)
        total = np.zeros(len(count))
        for height in range(len(count).bit_length()):
            total += ((count >> height) & 1) * self.node_variance(height)
        return total


@dataclass(frozen=True)
class Honaker(BinaryTree):
    """The same releases, but a node's estimate also uses the nodes under it (Honaker 2015).

    The estimate of a node of height h is the combination of its own release, variance 1, and the
    sum of its children's estimates, variance 2 v_(h-1), with the least variance:

        v_h = 1 / (1 + 1 / (2 v_(h-1))) = 2^h / (2^(h+1) - 1),   v_0 = 1,

    own weight v_h, children's weight 1 - v_h. Only nodes known by then take part, so variance is
    about half that of the plain tree.
    """

    name: ClassVar[str] = "honaker"

    def node_variance(self, height: int) -> float:
        return 1.0 / (2.0 - 0.5**height)


def _closed_by(rows: int) -> int:
    """How many nodes above the leaves end at row number `rows`: zeros at the end of its bits."""
    return (rows & -rows).bit_length() - 1


class TreeEncoder(Encoder):
    """Sums of the open nodes."""

    def __init__(self, mechanism: BinaryTree) -> None:
        super().__init__(mechanism)
        self._open: tuple[FloatArray, ...] = ()

    def _push(self, row: FloatArray, people: int) -> FloatArray:
        kept = len(self._open) - _closed_by(self.rows + 1)
        due = [row]
        for left in reversed(self._open[kept:]):
            due.append(left + due[-1])
        self._open = (*self._open[:kept], due[-1])
        return np.array(due)

    def _state(self) -> dict[str, Any]:
        return {"open": [node.tolist() for node in self._open]}

    def _restore(self, fields: Mapping[str, Any]) -> None:
        self._open = tuple(stored(fields["open"], "open", self.rows.bit_count()))


class TreeDecoder(Decoder):
    """Estimates of the open nodes; `BinaryTree.node_variance` says how they combine.

    A released node has variance 1, so its weight in the best combination is the variance of the
    result, v_h; for the plain tree v_h = 1 and the nodes below do not count.
    """

    def __init__(self, mechanism: BinaryTree) -> None:
        super().__init__(mechanism)
        self._tree = mechanism
        self._open: tuple[FloatArray, ...] = ()

    def _take(self, noisy: FloatArray, people: int) -> None:
        kept = len(self._open) - _closed_by(self.rows + 1)
        node = noisy[0]
        pairs = zip(reversed(self._open[kept:]), noisy[1:], strict=True)
        for height, (left, released) in enumerate(pairs, start=1):
            own = self._tree.node_variance(height)
            node = own * released + (1.0 - own) * (left + node)
        self._open = (*self._open[:kept], node)

    def _estimate(self) -> Estimate:
        heights = (h for h in range(self.rows.bit_length()) if self.rows >> h & 1)
        variance = math.fsum(self._tree.node_variance(h) for h in heights)
        return Estimate(np.sum(self._open, axis=0), variance, ones(self.rows))

    def _state(self) -> dict[str, Any]:
        return {"open": [node.tolist() for node in self._open]}

    def _restore(self, fields: Mapping[str, Any]) -> None:
        self._open = tuple(stored(fields["open"], "open", self.rows.bit_count()))
