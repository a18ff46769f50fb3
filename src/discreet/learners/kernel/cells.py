"""Cells: random k-d splits of the domain into boxes of about equal weight.

Several partitions are built at once, level by level, over the same weighted points. A node that is
to hold g cells is cut so that its parts hold the weight of floor(g/2) and ceil(g/2) cells, along
the axis with the largest extent in length scales, times a random factor.

| array | shape  | meaning                                                            |
|-------|--------|--------------------------------------------------------------------|
| axis  | (C, N) | the axis along which a node is cut, -1 for cells                   |
| cut   | (C, N) | contexts below it go to the first child                            |
| child | (C, N) | the first child; the second follows it. For cells their number     |

*Ranks.* Cells and features are functions of ranks: where people fill little of a column, it is
measured by the share of people below (marginals.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from discreet.codec import Range, Serializable, Shape
from discreet.learners.kernel.features import Implied
from discreet.people.domain import Box
from discreet.validation import BoolArray, FloatArray, IntArray, InvalidInput

# Standard deviation of the logarithm of the random factor.
_JITTER = 0.3
MOST_CELLS = 256


@dataclass(frozen=True, eq=False)
class Cells(Serializable):
    """C partitions into at most `count` cells each (see the module)."""

    count: Annotated[int, Range(1, MOST_CELLS)]
    axis: Annotated[IntArray, Shape("C", "nodes"), Range(-1)]
    cut: Annotated[FloatArray, Shape("C", "nodes")]
    child: Annotated[IntArray, Shape("C", "nodes"), Range(0)]

    def __post_init__(self) -> None:
        super().__post_init__()
        nodes, inner = 2 * self.count - 1, self.axis >= 0
        proper = len(self.axis) > 0 and self.axis.shape[1] == nodes
        if proper:
            below = np.arange(nodes)[None, :]
            among = (self.child > below) & (self.child < nodes - 1)
            proper = bool(np.where(inner, among, self.child < self.count).all())
        if not proper or self._deepest() > _depth(self.count):
            raise InvalidInput(
                f"cells had nodes of shape {self.axis.shape} for {self.count} cells; a partition "
                f"needs {nodes} nodes, children after their parents at most {_depth(self.count)} "
                f"deep, and cells below {self.count}. Send them as they were made."
            )

    def _deepest(self) -> int:
        """The depth of the deepest node, or one more than is allowed."""
        part, node = np.nonzero(self.axis >= 0)
        first, depth = self.child[part, node], np.zeros(self.axis.shape, dtype=np.int64)
        for _ in range(_depth(self.count) + 1):
            for side in (0, 1):  # of two parents that a forger gave a node the deeper one counts
                np.maximum.at(depth, (part, first + side), depth[part, node] + 1)
        return int(depth.max())

    @property
    def columns(self) -> int:
        """How many columns a context has at least."""
        return int(self.axis.max()) + 1

    @classmethod
    def whole(cls, partitions: int) -> Cells:
        """One cell, which is the domain."""
        shape = (partitions, 1)
        return cls(1, np.full(shape, -1), np.zeros(shape), np.zeros(shape, dtype=np.int64))

    @classmethod
    def split(
        cls,
        points: FloatArray,
        weights: FloatArray,
        count: int,
        partitions: int,
        length_scales: FloatArray,
        levels: tuple[int | None, ...],
        rng: np.random.Generator,
        ties: bool = False,
    ) -> Cells:
        """Partitions of the points (Q, d) with weights (Q,) into `count` cells each.

        With `ties` points may coincide; then no node is cut along an axis on which all are equal.
        """
        if count == 1:
            return cls.whole(partitions)
        nodes = 2 * count - 1
        axis = np.full((partitions, nodes), -1)
        cut = np.zeros((partitions, nodes))
        child = np.zeros((partitions, nodes), dtype=np.int64)
        dimension = points.shape[1]
        lower = np.zeros((partitions, nodes, dimension))
        upper = np.ones((partitions, nodes, dimension))
        wanted = np.zeros((partitions, nodes), dtype=np.int64)
        wanted[:, 0] = count
        nodes_so_far = np.ones(partitions, dtype=np.int64)
        steps = np.array([0.0 if levels_of is None else 1.0 / levels_of for levels_of in levels])
        node = np.zeros((partitions, len(points)), dtype=np.int64)
        sorted_along = _sorted_along(points)
        for _ in range(_depth(count)):
            extent = upper - lower
            draw = np.exp(_JITTER * rng.standard_normal(extent.shape))
            worth = np.where(extent > 1.5 * steps, extent / length_scales * draw, -1.0)
            if ties:
                worth = np.where(_apart(points, node, nodes), worth, -1.0)
            along = worth.argmax(axis=2)
            splits = (wanted > 1) & (axis < 0) & (child == 0) & (worth.max(axis=2) > 0.0)
            if not splits.any():
                break
            part, place = np.nonzero(splits)
            chosen = along[part, place]
            share = (wanted[part, place] // 2) / wanted[part, place]
            ends = (lower[part, place, chosen], upper[part, place, chosen])
            at = _quantiles(points, weights, sorted_along, node, (part, place, chosen), share, ends)
            at = _between_levels(at, ends, steps[chosen])
            # The k-th node of a partition that is split gets the k-th pair of children.
            first = nodes_so_far[part] + 2 * _rank(part)
            np.add.at(nodes_so_far, part, 2)
            axis[part, place], cut[part, place], child[part, place] = chosen, at, first
            for side in (0, 1):
                lower[part, first + side] = lower[part, place]
                upper[part, first + side] = upper[part, place]
            upper[part, first, chosen] = at
            lower[part, first + 1, chosen] = at
            wanted[part, first] = wanted[part, place] // 2
            wanted[part, first + 1] = wanted[part, place] - wanted[part, place] // 2
            node = _descend(axis, cut, child, points, node)
        leaf = (axis < 0) & (wanted > 0)
        child[leaf] = (np.cumsum(leaf, axis=1) - 1)[leaf]
        return cls(count, axis, cut, child)

    @classmethod
    def along(cls, columns: IntArray, cuts: FloatArray) -> Cells:
        """For each of some columns (C,) the partition at its cuts (C, G - 1), which increase, for G
        a power of two."""
        count = cuts.shape[1] + 1
        inner, nodes = count - 1, 2 * count - 1
        number = np.arange(1, nodes + 1)
        depth = np.floor(np.log2(number))
        # Which of the cuts each inner node makes, in the order of a heap.
        middle = ((number - 2.0**depth + 0.5) / 2.0**depth * count).astype(np.int64)[:inner] - 1
        leaf = np.arange(nodes) >= inner
        axis = np.where(leaf, -1, columns[:, None])
        cut = np.concatenate([cuts[:, middle], np.zeros((len(cuts), count))], axis=1)
        child = np.where(leaf, np.arange(nodes) - inner, 2 * number - 1)
        return cls(count, axis, cut, np.tile(child, (len(columns), 1)))

    def locate(self, unit: FloatArray, partition: IntArray) -> IntArray:
        """(n,) the cell of each context (n, d) in its partition; every context takes as long."""
        node = np.zeros(len(unit), dtype=np.int64)
        rows = np.arange(len(unit))
        for _ in range(_depth(self.count)):
            axis = self.axis[partition, node]
            right = unit[rows, np.maximum(axis, 0)] >= self.cut[partition, node]
            node = np.where(axis >= 0, self.child[partition, node] + right, node)
        return self.child[partition, node]

    def locate_all(self, unit: FloatArray) -> IntArray:
        """(C, n) the cell of each context in every partition."""
        node = np.zeros((len(self.axis), len(unit)), dtype=np.int64)
        for _ in range(_depth(self.count)):
            node = _descend(self.axis, self.cut, self.child, unit, node)
        return np.take_along_axis(self.child, node, axis=1)


# Ranks that are estimated have one knot more than this, a power of two, so that those of columns
# that are filled are exact.
BINS = 64
EDGES = np.linspace(0.0, 1.0, BINS + 1)
_MOST_STAGES = 12


@dataclass(frozen=True, eq=False)
class Ranks(Serializable):
    """How contexts are measured along each column (see the module).

    Attributes:
        knots: (d, N) the contexts in [0, 1] of the ranks 0, 1 / (N - 1), .., 1; increasing.
        stage: how often columns were measured anew.
        asked: the columns that people are asked about; none when all are known.
    """

    knots: Annotated[FloatArray, Shape("d", "N"), Range(0.0, 1.0)]
    stage: Annotated[int, Range(0, _MOST_STAGES)]
    asked: Annotated[IntArray, Shape("columns"), Range(0)]

    def __post_init__(self) -> None:
        super().__post_init__()
        ends = self.knots.shape[1] > 1 and bool(
            (self.knots[:, 0] == 0.0).all() and (self.knots[:, -1] == 1.0).all()
        )
        if not (ends and (np.diff(self.knots, axis=1) > 0.0).all()):
            raise InvalidInput(
                "knots of ranks must increase from 0 to 1 along each column; send them as made."
            )
        if not (self.asked < len(self.knots)).all():
            raise InvalidInput(
                f"ranks asked about the columns {self.asked.tolist()!r:.80} of {len(self.knots)}; "
                "send them as made."
            )

    @classmethod
    def plain(cls, dimension: int, asked: Sequence[int] = ()) -> Ranks:
        """Contexts as they are."""
        return cls(np.tile([0.0, 1.0], (dimension, 1)), 0, np.array(asked, dtype=np.int64))

    def __call__(self, unit: FloatArray) -> FloatArray:
        """(n, d) the ranks of contexts in [0, 1]^d."""
        ranks = np.empty_like(unit)
        last = self.knots.shape[1] - 1
        for axis, knots in enumerate(self.knots):
            place = np.minimum(np.searchsorted(knots, unit[:, axis], side="right") - 1, last - 1)
            beyond = (unit[:, axis] - knots[place]) / (knots[place + 1] - knots[place])
            ranks[:, axis] = (place + beyond) / last
        return ranks

    def implied(self, domain: Box) -> Implied:
        """The values that indicators imply (`Box.implied`) as cells look them up: ranks, and for
        columns with levels the centre of the level's cell."""
        found = []
        for column, number, place in domain.implied:
            at = float(self(np.full((1, len(self.knots)), place))[0, number])
            count = domain.levels[number]
            if count is not None:
                at = (round(at * (count - 1)) + 0.5) / count
            found.append((column, number, at))
        return tuple(found)

    def inverse(self, ranks: FloatArray) -> FloatArray:
        """(n, d) the contexts in [0, 1]^d that have these ranks."""
        even = np.linspace(0.0, 1.0, self.knots.shape[1])
        columns = zip(ranks.T, self.knots, strict=True)
        return np.stack([np.interp(rank, even, knots) for rank, knots in columns], axis=1)

    def fine_knots(self) -> FloatArray:
        """(d, 65) knots of the same ranks, to be moved."""
        return np.array([np.interp(EDGES, np.linspace(0.0, 1.0, len(k)), k) for k in self.knots])

    def settled(self) -> Ranks:
        """The same, without further questions."""
        return replace(self, asked=np.zeros(0, dtype=np.int64))


def _depth(count: int) -> int:
    """How deep the cells lie at most."""
    return math.ceil(math.log2(count)) if count > 1 else 0


def _descend(
    axis: IntArray, cut: FloatArray, child: IntArray, points: FloatArray, node: IntArray
) -> IntArray:
    """(C, Q) one level further down, where a node has children."""
    # Places among all nodes: numpy's take is several times as fast as take_along_axis.
    flat = node + (axis.shape[1] * np.arange(len(axis)))[:, None]
    along = axis.take(flat)
    values = points.take(np.maximum(along, 0) + points.shape[1] * np.arange(len(points)))
    right = values >= cut.take(flat)
    return np.where(along >= 0, child.take(flat) + right, node)


def _apart(points: FloatArray, node: IntArray, nodes: int) -> BoolArray:
    """(C, N, d) whether points (Q, d), each in a node (C, Q), differ along an axis."""
    least = np.full((points.shape[1], len(node) * nodes), np.inf)
    most, flat = -least, (node + nodes * np.arange(len(node))[:, None]).ravel()
    for axis, values in enumerate(points.T):  # in one dimension ufunc.at is fast
        every = np.tile(values, len(node))
        np.minimum.at(least[axis], flat, every)
        np.maximum.at(most[axis], flat, every)
    return (most > least).T.reshape(len(node), nodes, -1)


def _rank(groups: IntArray) -> IntArray:
    """The position of each entry among those equal to it, for groups in order."""
    starts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]])
    lengths = np.diff(np.r_[starts, len(groups)])
    return np.arange(len(groups)) - np.repeat(starts, lengths)


def _sorted_along(points: FloatArray) -> tuple[IntArray, IntArray]:
    """(d, Q) the points in increasing order along each axis, and the place of each in that."""
    order: IntArray = np.argsort(points.T, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(len(points))[None], axis=1)
    return order, rank


def _quantiles(
    points: FloatArray,
    weights: FloatArray,
    along: tuple[IntArray, IntArray],
    node: IntArray,
    splits: tuple[IntArray, IntArray, IntArray],
    share: FloatArray,
    ends: tuple[FloatArray, FloatArray],
) -> FloatArray:
    """(S,) where the splits (partition, node, axis) leave this share of the weight below."""
    part, place, chosen = splits
    number = np.full((len(node), int(node.max()) + 1), -1)
    known = place <= int(node.max())
    number[part[known], place[known]] = np.flatnonzero(known)
    flat = node + (number.shape[1] * np.arange(len(node)))[:, None]
    owner = number.take(flat)  # (C, Q) which split, -1 for none
    inside = np.nonzero(owner >= 0)
    split = owner[inside]
    # By split, and within it along its axis: whole numbers sort several times as fast.
    order, rank = along
    keys = np.sort(split * len(points) + rank[chosen[split], inside[1]])
    split, place = np.divmod(keys, len(points))
    point = order[chosen[split], place]
    value, weight = np.append(points[point, chosen[split]], 0.0), weights[point]
    counts = np.bincount(split, minlength=len(part))
    stop = np.cumsum(counts)
    start = stop - counts
    total = np.r_[0.0, np.cumsum(weight)]
    target = total[start] + share * (total[stop] - total[start])
    last = np.searchsorted(total, target)  # the first `last` points weigh at least the target
    last = np.clip(last, start + 1, np.maximum(stop - 1, start + 1))
    few = counts < 2
    last = np.where(few, 1, last)
    middle: FloatArray = 0.5 * (value[last - 1] + value[np.minimum(last, len(value) - 1)])
    for each in np.flatnonzero(~few & (middle <= value[start])):  # else the first part is empty
        own = value[start[each] : stop[each]]
        above = own[own > own[0]]
        middle[each] = 0.5 * (own[0] + above[0]) if len(above) else middle[each]
    return np.where(few, 0.5 * (ends[0] + ends[1]), middle)


def _between_levels(
    at: FloatArray, ends: tuple[FloatArray, FloatArray], step: FloatArray
) -> FloatArray:
    """Cuts moved between two levels, strictly inside the node."""
    width = np.where(step > 0.0, step, 1.0)
    snapped = np.clip(np.round(at / width) * width, ends[0] + width, ends[1] - width)
    return np.where(step > 0.0, snapped, at)
