"""A binary tree of boxes in [0, 1]^d, grown by halving leaves; the arms left in each leaf, and how
people are spread over the nodes.

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
from functools import cached_property, lru_cache
from typing import Annotated

import numpy as np

from discreet.codec import Range, Serializable, Shape
from discreet.validation import BoolArray, FloatArray, IntArray, InvalidInput

# Deeper, and with more splits, than any learner's rules allow.
MOST_DEPTH = 32
MOST_SPLITS = 50_000
# Ranks assume this share of people spread evenly over the domain.
_SPREAD_EVENLY = 0.05
# A half with this share of its parent's people has nearly all of them.
NEARLY_ALL = 0.95
# Prior standard deviation of the share of a node's mass that falls into its left child.
_SHARE_SD = 0.25
# Every child has at least this share of its parent.
_LEAST_SHARE = 0.002
_LEAST_BLUR = 1e-9


@dataclass(frozen=True, eq=False)
class Tree(Serializable):
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
    def generations(self) -> tuple[IntArray, ...]:
        """The split nodes of each depth, from the root down: their children are all different, so
        a whole generation can be computed at once."""
        depth = self.depth[self.nodes]
        return tuple(self.nodes[depth == level] for level in range(int(self.depth.max())))

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
class Bins(Serializable):
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

    def check(self, dimension: int, arms: int) -> None:
        """Refuse bins of another number of columns or arms."""
        own = self.tree.dimension, self.active.shape[1]
        if own != (dimension, arms):
            raise InvalidInput(
                f"a policy had bins of {own[0]} columns and {own[1]} arms; its domain has "
                f"{dimension}, and its arms are {arms}. Send it as made."
            )

    def leaf_of(self, unit: FloatArray) -> IntArray:
        """(n,) the position among the leaves of each context of [0, 1]^d."""
        return self.tree.leaf_position[self.tree.locate(unit)]

    def split(self, chosen: BoolArray, axes: IntArray) -> Bins:
        """Halve the `chosen` (L,) leaves along `axes` (L,); halves inherit the active arms."""
        if not chosen.any():
            return self
        tree = self.tree.split(self.tree.leaves[chosen], axes[chosen])
        # Halves are appended to the tree, in pairs, after all the nodes that were there.
        halves = np.repeat(self.active[chosen], 2, axis=0)
        return Bins(tree, np.concatenate([self.active[~chosen], halves]))


@dataclass(frozen=True, eq=False)
class Ranked:
    """A tree whose boxes are measured in ranks: along each axis, by the share of people below.

    Bounds may be far too wide, and people crowded anywhere within: what matters for learning is
    how many people are between two thresholds, not how far apart these are.

    Attributes:
        tree: the partition.
        lower, upper: (N, d) corners of the nodes' boxes, ranks in [0, 1].
    """

    tree: Tree
    lower: FloatArray
    upper: FloatArray

    @classmethod
    def plain(cls, tree: Tree) -> Ranked:
        """As if people were spread evenly."""
        return cls(tree, tree.lower, tree.upper)

    @classmethod
    def of(cls, tree: Tree, known: Tree, mass: FloatArray) -> Ranked:
        """By the masses (L,) of the leaves of `known`, each spread evenly over its box; a little
        is spread over the whole domain, so that ranks increase everywhere."""
        lower, upper = np.empty_like(tree.lower), np.empty_like(tree.upper)
        low, high = known.lower[known.leaves], known.upper[known.leaves]
        share = mass / mass.sum()
        for axis in range(tree.dimension):
            ends = low[:, axis], high[:, axis]
            knots = np.unique(np.concatenate(ends))
            part = np.clip((knots[:, None] - ends[0]) / (ends[1] - ends[0]), 0.0, 1.0)
            rank = (1.0 - _SPREAD_EVENLY) * (part @ share) + _SPREAD_EVENLY * knots
            lower[:, axis] = np.interp(tree.lower[:, axis], knots, rank)
            upper[:, axis] = np.interp(tree.upper[:, axis], knots, rank)
        return cls(tree, lower, upper)


@dataclass(frozen=True, eq=False)
class CellFrequencies:
    """How people are spread over the nodes of a tree.

    Attributes:
        mass: (N,) share of all people in each node.
        deviation: (N,) its standard deviation.
        split_variance: (N,) variance of the share of a node's people that lies in its left child; 0
            for leaves.
    """

    mass: FloatArray
    deviation: FloatArray
    split_variance: FloatArray


def downwards(
    tree: Tree, weight: FloatArray, total: FloatArray, root: FloatArray
) -> CellFrequencies:
    """Masses of all nodes from the estimates of each node (`upwards`), given that of the root.

    The share of a parent's mass that goes left is a precision-weighted mean of the estimates of
    both children and a prior of 1/2 +- 1/4.
    """
    mass = np.broadcast_to(root, weight.shape).copy()
    variance, split = np.zeros(weight.shape), np.zeros(weight.shape)
    for parent in tree.generations:
        left = tree.left[parent]
        whole = mass[parent]
        prior = 1.0 / (_SHARE_SD * whole) ** 2
        precision = prior + weight[left] + weight[left + 1]
        seen_right = weight[left + 1] * whole - total[left + 1]
        part = (prior * 0.5 * whole + total[left] + seen_right) / precision
        part = np.minimum(np.maximum(part, _LEAST_SHARE * whole), (1.0 - _LEAST_SHARE) * whole)
        mass[left], mass[left + 1] = part, whole - part
        share = part / whole
        split[parent] = 1.0 / (precision * whole**2)
        variance[left] = 1.0 / precision + share**2 * variance[parent]
        variance[left + 1] = 1.0 / precision + (1.0 - share) ** 2 * variance[parent]
    return CellFrequencies(mass, np.sqrt(variance), split)


def upwards(tree: Tree, weight: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Precisions (N, ...) of masses, and precision x mass, with what the halves of each node add.

    A node may never have been reported on itself: where a tree began with several leaves, only its
    leaves were.
    """
    weight, total = weight.copy(), total.copy()
    for parent in reversed(tree.generations):
        left, right = tree.left[parent], tree.left[parent] + 1
        both = (weight[left] > 0.0) & (weight[right] > 0.0)
        low, high = np.where(both, weight[left], 1.0), np.where(both, weight[right], 1.0)
        precision = np.where(both, 1.0 / (1.0 / low + 1.0 / high), 0.0)
        weight[parent] += precision
        total[parent] += precision * np.where(both, total[left] / low + total[right] / high, 0.0)
    return weight, total


def trimmed(tree: Tree, mass: FloatArray) -> Tree:
    """The cuts that left nearly all people on one side, from the root of `tree` down to the first
    that did not; `mass` (N,) is that of all nodes."""
    result, node, last = Tree.root(tree.dimension), 0, 0
    while tree.axis[node] >= 0:
        left = int(tree.left[node])
        side = int(mass[left + 1] > mass[left])
        if mass[left + side] < NEARLY_ALL * mass[node]:
            break
        result = result.split(np.array([last]), tree.axis[node : node + 1])
        node, last = left + side, len(result) - 2 + side
    return result


@lru_cache(maxsize=16)
def same_boxes(old: Tree, new: Tree) -> tuple[IntArray, IntArray]:
    """The nodes of two trees that are the same boxes, (M,) of either."""
    boxes = [
        {box.tobytes(): node for node, box in enumerate(np.hstack([tree.lower, tree.upper]))}
        for tree in (old, new)
    ]
    pairs = [(boxes[0][box], boxes[1][box]) for box in boxes[1] if box in boxes[0]]
    return np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])


def mixture_variance(
    tree: Tree, masses: CellFrequencies, within_cell_variance: FloatArray
) -> FloatArray:
    """(N, ...) how far a node's average may lie from the mixture of its leaves, as a variance.

    The mixture takes shares that are only estimated. A share that is off by e moves the average of
    a split node by e times the difference of its halves, whose square is at most 4 times the
    variation (N, ...) `within_cell_variance` within the node.
    """
    total = masses.split_variance * 4.0 * within_cell_variance * masses.mass**2
    for parent in reversed(tree.generations):
        total[parent] += total[tree.left[parent]] + total[tree.left[parent] + 1]
    return total / masses.mass**2


def mixing(tree: Tree, mass: FloatArray, nodes: IntArray) -> FloatArray:
    """(M, L) the share of the mass (N,) of each of `nodes` (M,) that lies in each leaf."""
    inside = tree.within[nodes] * mass[tree.leaves]
    shares: FloatArray = inside / inside.sum(axis=1, keepdims=True)
    return shares


@lru_cache(maxsize=16)
def overlaps(old: Ranked, new: Ranked) -> tuple[FloatArray, FloatArray]:
    """(N, L) the part of the volume of each node of `old` that lies in each leaf of `new`, and the
    part of the latter's that lies in the former; volumes are those of ranks."""
    low, high = old.lower, old.upper
    lower, upper = new.lower[new.tree.leaves], new.upper[new.tree.leaves]
    both = np.ones((len(low), len(lower)))
    for axis in range(low.shape[1]):
        length = np.minimum(high[:, axis][:, None], upper[:, axis][None]) - np.maximum(
            low[:, axis][:, None], lower[:, axis][None]
        )
        both *= np.maximum(length, 0.0)
    shares = both / np.prod(high - low, axis=1)[:, None]
    return shares, both / np.prod(upper - lower, axis=1)[None]


def aggregation_variance(
    shares: FloatArray, coverage: FloatArray, within_cell_variance: FloatArray
) -> FloatArray:
    """(B,) variance of what averages over boxes and the mixtures (B, L) of leaves by their `shares`
    differ by: of each leaf its within_cell_variance (L,) x the part that the box does not cover."""
    variance = (shares**2 * (1.0 - coverage) * within_cell_variance).sum(axis=1)
    spread: FloatArray = np.maximum(variance, _LEAST_BLUR)
    return spread


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
    return level + (level / (count - 1) < edge)


def spread_within(tree: Tree, count: int, levels: tuple[int | None, ...]) -> FloatArray:
    """(L, count, d) contexts spread evenly over each leaf, on the levels of its columns."""
    from scipy.stats.qmc import Halton  # not on devices: it loads slowly

    low, high = tree.lower[tree.leaves], tree.upper[tree.leaves]
    sequence = Halton(tree.dimension, scramble=False, seed=0)
    even = sequence.random(count + 1)[1:]  # without the corner
    points = low[:, None] + even * (high - low)[:, None]
    for axis, steps in enumerate(levels):
        if steps is None:
            continue
        first = _first_level(low[:, axis], steps)
        last = np.where(high[:, axis] >= 1.0, steps, _first_level(high[:, axis], steps))
        along = np.floor(even[:, axis] * (last - first)[:, None])
        points[..., axis] = (first[:, None] + along) / (steps - 1)
    return np.asarray(points)
