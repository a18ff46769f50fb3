"""A binary tree of boxes in [0, 1]^d, grown by halving leaves.

Nodes are only ever appended, the two children of a node together, so a node keeps its number for
good and the tree of an old policy is the first part of the present one. That is what lets reports
for old policies be used.

| array     | shape  | meaning                                                         |
|-----------|--------|-----------------------------------------------------------------|
| lower     | (N, d) | lower corner of each node's box                                 |
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
from typing import Any

import numpy as np

from discreet.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    InvalidInput,
    freeze_arrays,
    read_array,
    whole_number,
)

# Twice what any learner's rules allow.
MOST_DEPTH = 32
MOST_SPLITS = 50_000


@dataclass(frozen=True, eq=False)
class Tree:
    """See the module's table."""

    lower: FloatArray
    upper: FloatArray
    axis: IntArray
    threshold: FloatArray
    left: IntArray
    parent: IntArray
    depth: IntArray

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @classmethod
    def root(cls, dimension: int) -> Tree:
        """The tree of one leaf, the whole cube."""
        none = np.array([-1])
        return cls(
            lower=np.zeros((1, dimension)),
            upper=np.ones((1, dimension)),
            axis=none,
            threshold=np.zeros(1),
            left=none,
            parent=none,
            depth=np.array([0]),
        )

    def __len__(self) -> int:
        return len(self.axis)

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
        count = len(nodes)
        if count == 0:
            return self
        middle = 0.5 * (self.lower[nodes, axes] + self.upper[nodes, axes])
        lower = np.repeat(self.lower[nodes], 2, axis=0)
        upper = np.repeat(self.upper[nodes], 2, axis=0)
        upper[2 * np.arange(count), axes] = middle
        lower[2 * np.arange(count) + 1, axes] = middle
        axis, threshold, left = self.axis.copy(), self.threshold.copy(), self.left.copy()
        axis[nodes], threshold[nodes] = axes, middle
        left[nodes] = len(self) + 2 * np.arange(count)
        none = np.full(2 * count, -1)
        return Tree(
            lower=np.concatenate([self.lower, lower]),
            upper=np.concatenate([self.upper, upper]),
            axis=np.concatenate([axis, none]),
            threshold=np.concatenate([threshold, np.zeros(2 * count)]),
            left=np.concatenate([left, none]),
            parent=np.concatenate([self.parent, np.repeat(nodes, 2)]),
            depth=np.concatenate([self.depth, np.repeat(self.depth[nodes] + 1, 2)]),
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

    def begins_with(self, older: Tree) -> bool:
        """Whether `older` is the first part of this tree, as it was before the last splits."""
        nodes = len(older)
        return nodes <= len(self) and all(
            np.array_equal(getattr(older, name), getattr(self, name)[:nodes])
            for name in ("lower", "upper", "parent")
        )

    def to_fields(self) -> dict[str, Any]:
        """The splits in the order in which they were made; all else follows from them."""
        inner = np.flatnonzero(self.axis >= 0)
        order = inner[np.argsort(self.left[inner])]
        return {
            "dimension": self.lower.shape[1],
            "nodes": order.tolist(),
            "axes": self.axis[order].tolist(),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any], dimension: int) -> Tree:
        """The inverse of `to_fields`, for contexts of `dimension` columns.

        Trees that are deeper or larger than any learner grows are refused: the time to find a leaf
        would show where a person is.
        """
        whole_number(fields["dimension"], "the dimension of a tree", dimension, dimension)
        read_array(fields["nodes"], "the nodes of a tree", "whole", 1)
        read_array(fields["axes"], "the axes of a tree", "whole", 1)
        if len(fields["nodes"]) != len(fields["axes"]) or len(fields["nodes"]) > MOST_SPLITS:
            raise InvalidInput(
                f"the tree had {len(fields['nodes'])} split nodes and {len(fields['axes'])} axes; "
                f"it needs one axis for each of at most {MOST_SPLITS}."
            )
        lower, upper = [[0.0] * dimension], [[1.0] * dimension]
        axis, threshold, left, parent, depth = [-1], [0.0], [-1], [-1], [0]
        for node, along in zip(fields["nodes"], fields["axes"], strict=True):
            if not (0 <= node < len(axis) and 0 <= along < dimension) or axis[node] >= 0:
                raise InvalidInput(
                    f"the tree splits node {node} along axis {along}, which is not a leaf of a "
                    f"tree of {len(axis)} nodes in {dimension} dimensions; the message is damaged."
                )
            if depth[node] >= MOST_DEPTH:
                raise InvalidInput(f"the tree is deeper than {MOST_DEPTH}; no learner grows it.")
            middle = 0.5 * (lower[node][along] + upper[node][along])
            axis[node], threshold[node], left[node] = along, middle, len(axis)
            for side in range(2):
                corners = [list(lower[node]), list(upper[node])]
                corners[1 - side][along] = middle
                lower.append(corners[0])
                upper.append(corners[1])
            axis += [-1, -1]
            threshold += [0.0, 0.0]
            left += [-1, -1]
            parent += [node, node]
            depth += [depth[node] + 1] * 2
        return cls(
            lower=np.array(lower),
            upper=np.array(upper),
            axis=np.array(axis),
            threshold=np.array(threshold),
            left=np.array(left),
            parent=np.array(parent),
            depth=np.array(depth),
        )


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
