"""A binary tree of boxes in [0, 1]^d, grown by halving leaves, and the arms left in each leaf.

A tree is its splits in the order in which they were made; all else follows from them. Nodes are
only ever appended, the two children of a node together, so a node keeps its number for good and
the tree of an old policy is the first part of the present one. That is what lets reports for old
policies be used.

| array     | shape  | meaning                                                         |
|-----------|--------|-----------------------------------------------------------------|
| nodes     | (S,)   | the leaf that each split halves                                 |
| axes      | (S,)   | the axis along which it does                                    |
| lower     | (N, d) | lower corner of each node's box; N = 2 S + 1                    |
| upper     | (N, d) | upper corner                                                    |
| axis      | (N,)   | the axis along which the node is split, -1 for a leaf           |
| threshold | (N,)   | contexts below it go to the left child                          |
| left      | (N,)   | the left child, -1 for a leaf; the right child is left + 1      |
| parent    | (N,)   | -1 for the root                                                 |
| depth     | (N,)   | 0 for the root                                                  |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np

from discreet.codec import Coded, Range, Shape
from discreet.validation import BoolArray, FloatArray, IntArray, InvalidInput

# Twice what any learner's rules allow.
MOST_DEPTH = 32
MOST_SPLITS = 50_000


@dataclass(frozen=True, eq=False)
class Tree(Coded):
    """See the module's table.

    Trees that are deeper or larger than any learner grows are refused: the time to find a leaf
    would show where a person is.

    Attributes:
        dimension: the number of columns d.
        nodes, axes: the splits.
    """

    dimension: Annotated[int, Range(1)]
    nodes: Annotated[IntArray, Shape("splits"), Range(0)]
    axes: Annotated[IntArray, Shape("splits"), Range(0)]

    def __post_init__(self) -> None:
        super().__post_init__()
        count = len(self.nodes)
        if count > MOST_SPLITS:
            raise InvalidInput(f"the tree had {count} splits; {MOST_SPLITS} is the most.")
        late = self.nodes >= 2 * np.arange(count) + 1
        if late.any() or len(np.unique(self.nodes)) < count or (self.axes >= self.dimension).any():
            raise InvalidInput(
                f"the tree splits the nodes {self.nodes.tolist()!r:.80} along the axes "
                f"{self.axes.tolist()!r:.80}; each must be a leaf of the tree so far, each axis "
                f"below {self.dimension}. Send it as it was made."
            )
        if self.depth.max() > MOST_DEPTH:
            raise InvalidInput(f"the tree is deeper than {MOST_DEPTH}; no learner grows it.")

    @classmethod
    def root(cls, dimension: int) -> Tree:
        """The tree of one leaf, the whole cube."""
        none = np.zeros(0, dtype=np.int64)
        return cls(dimension, none, none)

    def __len__(self) -> int:
        return 2 * len(self.nodes) + 1

    # What follows from the splits; see the module's table.

    @cached_property
    def axis(self) -> IntArray:
        axis = np.full(len(self), -1)
        axis[self.nodes] = self.axes
        return axis

    @cached_property
    def left(self) -> IntArray:
        left = np.full(len(self), -1)
        left[self.nodes] = 2 * np.arange(len(self.nodes)) + 1
        return left

    @cached_property
    def parent(self) -> IntArray:
        return np.concatenate([[-1], np.repeat(self.nodes, 2)])

    @cached_property
    def depth(self) -> IntArray:
        depth = [0]
        for node in self.nodes.tolist():
            depth += [depth[node] + 1] * 2
        return np.array(depth)

    @cached_property
    def _boxes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """lower and upper (N, d), and threshold (N,)."""
        lower, upper = [[0.0] * self.dimension], [[1.0] * self.dimension]
        threshold = np.zeros(len(self))
        for node, axis in zip(self.nodes.tolist(), self.axes.tolist(), strict=True):
            middle = 0.5 * (lower[node][axis] + upper[node][axis])
            threshold[node] = middle
            lower += [lower[node], lower[node].copy()]
            upper += [upper[node].copy(), upper[node]]
            upper[-2][axis] = lower[-1][axis] = middle
        return np.array(lower), np.array(upper), threshold

    @property
    def lower(self) -> FloatArray:
        return self._boxes[0]

    @property
    def upper(self) -> FloatArray:
        return self._boxes[1]

    @property
    def threshold(self) -> FloatArray:
        return self._boxes[2]

    @property
    def leaf_count(self) -> int:
        """L, how many leaves there are."""
        return len(self.nodes) + 1

    @cached_property
    def leaves(self) -> IntArray:
        """(L,) the numbers of the leaves, increasing."""
        return np.flatnonzero(self.axis < 0)

    @cached_property
    def leaf_position(self) -> IntArray:
        """(N,) the place of each leaf among `leaves`, -1 for inner nodes."""
        position = np.full(len(self), -1)
        position[self.leaves] = np.arange(len(self.leaves))
        return position

    @cached_property
    def within(self) -> BoolArray:
        """(N, L) whether a leaf lies in a node's box."""
        inside = np.zeros((len(self), len(self.leaves)), dtype=np.bool_)
        inside[self.leaves, np.arange(len(self.leaves))] = True
        for node in range(len(self) - 1, 0, -1):  # children come after their parents
            inside[self.parent[node]] |= inside[node]
        return inside

    def split(self, nodes: IntArray, axes: IntArray) -> Tree:
        """The tree in which each of `nodes` (leaves) is halved along its axis."""
        if len(nodes) == 0:
            return self
        return Tree(
            self.dimension,
            np.concatenate([self.nodes, nodes]),
            np.concatenate([self.axes, axes]),
        )

    @cached_property
    def _descent(self) -> tuple[IntArray, FloatArray, IntArray]:
        """axis, threshold and left (N,) with leaves that lead to themselves."""
        leaf = self.axis < 0
        return (
            np.where(leaf, 0, self.axis),
            np.where(leaf, np.inf, self.threshold),
            np.where(leaf, np.arange(len(self)), self.left),
        )

    def locate(self, unit: FloatArray) -> IntArray:
        """(n,) the leaf that holds each context of [0, 1]^d.

        Everybody takes as many steps as the deepest leaf needs, whose depth is public: the time
        that a report takes must not show where its person is.
        """
        axis, threshold, left = self._descent
        node, people = np.zeros(len(unit), dtype=np.int64), np.arange(len(unit))
        for _ in range(int(self.depth.max())):
            right = unit[people, axis[node]] >= threshold[node]
            node = left[node] + right
        return node


@dataclass(frozen=True, eq=False)
class Bins(Coded):
    """A partition with the active arms of each bin.

    Attributes:
        tree: its leaves are the bins.
        active: (L, K) which arms are left in each leaf, in the order of `tree.leaves`.
    """

    tree: Tree
    active: Annotated[BoolArray, Shape("tree.leaf_count", "K")]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.active.any(axis=1).all():
            raise InvalidInput("a leaf had no active arm; each needs at least one.")

    @classmethod
    def whole(cls, dimension: int, arms: int) -> Bins:
        """One bin with all arms."""
        return cls(Tree.root(dimension), np.ones((1, arms), dtype=np.bool_))

    def split(self, chosen: BoolArray, axes: IntArray) -> Bins:
        """Halve the `chosen` (L,) leaves along `axes` (L,); halves inherit the active arms."""
        if not chosen.any():
            return self
        tree = self.tree.split(self.tree.leaves[chosen], axes[chosen])
        # Halves are appended to the tree, in pairs, after all the nodes that were there.
        halves = np.repeat(self.active[chosen], 2, axis=0)
        return Bins(tree, np.concatenate([self.active[~chosen], halves]))


def splittable(tree: Tree, nodes: IntArray, levels: tuple[int | None, ...]) -> BoolArray:
    """(len(nodes), d) whether halving along an axis leaves a possible value on both sides.

    A column with equally spaced `levels` takes the values i / (levels - 1). Contexts at the
    threshold belong to the right half, and only boxes that end at 1 hold their upper bound.
    """
    allowed = np.ones((len(nodes), len(levels)), dtype=np.bool_)
    for axis, count in enumerate(levels):
        if count is None:
            continue
        low, high = tree.lower[nodes, axis], tree.upper[nodes, axis]
        first = _first_level(low, count)
        centre = _first_level(0.5 * (low + high), count)
        last = np.where(high >= 1.0, count, _first_level(high, count))
        allowed[:, axis] = (centre > first) & (last > centre)
    return allowed


def _first_level(edge: FloatArray, count: int) -> FloatArray:
    """The number of the first of `count` equally spaced levels at or above an edge in [0, 1]."""
    level = np.ceil(edge * (count - 1) - 1.0)  # one too low at most, whatever the rounding
    first: FloatArray = level + (level / (count - 1) < edge)
    return first
