"""Cells: every context lies in exactly one, cells weigh the same, and forged ones are refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from discreet.codec import from_json, to_json
from discreet.learners.kernel.cells import Cells, Ranks
from discreet.learners.kernel.features import (
    integration_points,
    on_levels,
    with_implied,
)
from discreet.validation import FloatArray, InvalidInput

COUNTS = [2, 3, 4, 5, 6, 8, 12, 31, 64, 192]


def cut(
    count: int,
    levels: tuple[int | None, ...] = (None, None),
    *,
    partitions: int = 4,
    scales: FloatArray | None = None,
    weights: FloatArray | None = None,
    points: FloatArray | None = None,
    seed: int = 0,
) -> Cells:
    places = integration_points(3, seed, levels) if points is None else points
    return Cells.split(
        places,
        np.full(len(places), 1.0 / len(places)) if weights is None else weights,
        count,
        partitions,
        np.full(len(levels), 0.8) if scales is None else scales,
        levels,
        np.random.default_rng(seed),
    )


def boxes(cells: Cells, partition: int, dimension: int) -> list[tuple[FloatArray, FloatArray, int]]:
    """The boxes that the nodes of a partition stand for, by walking down from the root."""
    found = []
    waiting = [(0, np.zeros(dimension), np.ones(dimension))]
    while waiting:
        node, low, high = waiting.pop()
        axis, child = int(cells.axis[partition, node]), int(cells.child[partition, node])
        if axis < 0:
            found.append((low, high, child))
            continue
        at = cells.cut[partition, node]
        assert low[axis] < at < high[axis], "a cut outside its box leaves an empty cell"
        for side in (0, 1):
            ends = low.copy(), high.copy()
            ends[1 - side][axis] = at
            waiting.append((child + side, *ends))
    return found


@pytest.mark.parametrize("levels", [(None,), (None, None), (None, None, None)])
@pytest.mark.parametrize("count", COUNTS[:-1])
def test_cells_part_the_domain(count: int, levels: tuple[None, ...]) -> None:
    """Boxes that fill the cube, and every context in the one that contains it."""
    dimension = len(levels)
    cells = cut(count, levels)
    contexts = np.random.default_rng(1).random((300, dimension))
    found = cells.locate_all(contexts)
    for partition in range(4):
        parts = boxes(cells, partition, dimension)
        assert sorted(number for _, _, number in parts) == list(range(count))
        assert sum(np.prod(high - low) for low, high, _ in parts) == pytest.approx(1.0)
        inside = np.stack([((contexts >= a) & (contexts < b)).all(axis=1) for a, b, _ in parts])
        assert (inside.sum(axis=0) == 1).all()
        numbers = np.array([number for _, _, number in parts])
        assert np.array_equal(numbers[inside.argmax(axis=0)], found[partition])


def test_both_ways_to_locate_agree() -> None:
    cells = cut(31, (None, 4), partitions=5)
    rng = np.random.default_rng(2)
    contexts = np.concatenate([rng.random((200, 2)), [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]]])
    # Contexts on the cuts themselves too.
    contexts[:20, 0] = cells.cut[0, :20]
    everywhere = cells.locate_all(contexts)
    assert everywhere.shape == (5, len(contexts))
    for partition in range(5):
        alone = cells.locate(contexts, np.full(len(contexts), partition))
        assert np.array_equal(alone, everywhere[partition])
    mixed = rng.integers(5, size=len(contexts))
    rows = np.arange(len(contexts))
    assert np.array_equal(cells.locate(contexts, mixed), everywhere[mixed, rows])


@pytest.mark.parametrize("uneven", [False, True], ids=["even", "uneven"])
@pytest.mark.parametrize("dimension", [1, 2, 5])
@pytest.mark.parametrize("count", [2, 3, 7, 12])
def test_cells_weigh_the_same(count: int, dimension: int, uneven: bool) -> None:
    levels = (None,) * dimension
    points = integration_points(3, 0, levels)
    weights = np.random.default_rng(4).gamma(1.0, size=len(points)) if uneven else np.ones(1)
    weights = np.broadcast_to(weights, len(points)) / np.broadcast_to(weights, len(points)).sum()
    cells = cut(count, levels, weights=weights)
    # Each of the cuts above a cell can be wrong by one point.
    depth = math.ceil(math.log2(count))
    for row in cells.locate_all(points):
        mass = np.bincount(row, weights, minlength=count)
        assert np.abs(mass - 1.0 / count).max() <= depth * weights.max() + 1e-12


def test_weight_decides_where_cells_are_small() -> None:
    points = integration_points(3, 0, (None,))
    weights = np.where(points[:, 0] < 0.25, 3.0, 1.0)
    cells = cut(2, (None,), weights=weights / weights.sum(), points=points)
    assert np.allclose(cells.cut[:, 0], 0.25, atol=0.03)


@pytest.mark.parametrize("levels", [(2, 2), (3,), (7, None), (5, 3, None), (30,)])
@pytest.mark.parametrize("count", [2, 4, 12, 64])
def test_cuts_fall_between_levels(count: int, levels: tuple[int | None, ...]) -> None:
    cells = cut(count, levels)
    inner = cells.axis >= 0
    for axis, at in zip(cells.axis[inner], cells.cut[inner], strict=True):
        number = levels[axis]
        if number is not None:
            assert at * number == pytest.approx(round(at * number), abs=1e-9)
            assert 1 <= round(at * number) < number
    places = math.prod(one or 10**6 for one in levels)
    for partition in range(4):
        parts = boxes(cells, partition, len(levels))
        # Where there are fewer contexts than cells, the rest of the cells stay empty.
        assert len(parts) <= min(count, places)
        assert sorted(number for _, _, number in parts) == list(range(len(parts)))
        assert places > 10**5 or len(parts) >= min(count, places) / 2


def test_points_and_people_on_a_level_share_a_cell() -> None:
    """Integration points keep their shifted value; people lie at the centre of their level."""
    levels = (7, None)
    cells = cut(12, levels)
    points = integration_points(3, 1, levels)
    people = on_levels(points, levels)
    people[:, 0] = (np.round(people[:, 0] * 6) + 0.5) / 7
    assert np.array_equal(cells.locate_all(points), cells.locate_all(people))


def test_length_scales_decide_which_axis_is_cut() -> None:
    cells = cut(12, scales=np.array([0.2, 3.2]), partitions=8)
    inner = cells.axis >= 0
    assert np.mean(cells.axis[inner] == 0) > 0.9
    both = cut(12, scales=np.array([0.8, 0.8]), partitions=8)
    assert 0.3 < np.mean(both.axis[both.axis >= 0] == 0) < 0.7


def test_partitions_differ_and_do_not_depend_on_how_many_there_are() -> None:
    cells = cut(6, partitions=8)
    assert len({tuple(row) for row in cells.axis.tolist()}) > 1
    again = cut(6, partitions=8)
    assert np.array_equal(again.cut, cells.cut)


def test_one_cell_is_the_domain() -> None:
    contexts = np.random.default_rng(0).random((9, 2))
    for cells in (cut(1), Cells.whole(4), from_json(to_json(Cells.whole(4)), Cells)):
        assert cells.count == 1
        assert (cells.axis == -1).all()
        assert (cells.locate_all(contexts) == np.zeros((4, 9))).all()
        assert (cells.locate(contexts, np.arange(9) % 4) == 0).all()


# Three cells of one column: the root cuts at 1/2, its second child at 3/4.
GOOD: dict[str, Any] = {
    "count": 3,
    "axis": [[0, -1, 0, -1, -1]],
    "cut": [[0.5, 0.0, 0.75, 0.0, 0.0]],
    "child": [[1, 0, 3, 1, 2]],
}


def test_cells_written_by_hand() -> None:
    cells = from_json(GOOD, Cells)
    contexts = np.array([[0.1], [0.5], [0.7], [0.75], [1.0]])
    assert cells.locate_all(contexts).tolist() == [[0, 1, 1, 2, 2]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"child": [[0, 0, 3, 1, 2]]}, "children after their parents"),
        ({"child": [[1, 0, 2, 1, 2]]}, "children after their parents"),
        ({"child": [[1, 0, 1, 1, 2]]}, "children after their parents"),
        ({"child": [[1, 0, 4, 1, 2]]}, "children after their parents"),
        ({"child": [[-1, 0, 3, 1, 2]]}, "child had -1"),
        ({"child": [[1, 3, 3, 1, 2]]}, "cells below 3"),
        ({"child": [[1, 0, 3, -1, 2]]}, "child had -1"),
        ({"axis": [[-2, -1, 0, -1, -1]]}, "axis had -2"),
        ({"count": 2}, "needs 3 nodes"),
        ({"count": 4}, "needs 7 nodes"),
        ({"count": 0}, "count"),
        ({"count": 257}, "count"),
        ({"count": 3.0}, "count"),
        ({"count": True}, "count"),
        ({"axis": [], "cut": [], "child": []}, "axis"),
        ({"axis": [0, -1, 0, -1, -1]}, "axis"),
        ({"axis": [[0.0, -1.0, 0.0, -1.0, -1.0]]}, "axis"),
        ({"axis": [[0, -1, 0, -1, -1], [0]]}, "axis"),
        ({"axis": [[0, -1, 0, -1, -1]] * 2}, "shape"),
        ({"cut": [[0.5, 0.0, math.nan, 0.0, 0.0]]}, "nan at"),
        ({"cut": [[0.5, 0.0, math.inf, 0.0, 0.0]]}, "inf at"),
        ({"cut": [["a", 0.0, 0.75, 0.0, 0.0]]}, "cut"),
        ({"cut": [[0.5, 0.0, 0.75]]}, "shape"),
        ({"child": [[1, 0, 3, 1, True]]}, None),
    ],
)
def test_forged_cells_are_refused(change: dict[str, Any], message: str | None) -> None:
    forged = {**GOOD, **change}
    if message is None:  # NumPy reads true as 1 beside other numbers, which is harmless here.
        assert from_json(forged, Cells).child[0, 4] == 1
        return
    with pytest.raises(InvalidInput, match=message):
        from_json(forged, Cells)


def test_chains_are_refused() -> None:
    """How long it takes to find a cell must not show where a person is."""
    count = 8
    nodes = 2 * count - 1
    axis, child = np.full((1, nodes), -1), np.zeros((1, nodes), dtype=np.int64)
    for level in range(count - 1):
        node = 2 * level
        axis[0, node], child[0, node] = 0, node + 1
    fields = {
        "count": count,
        "axis": axis.tolist(),
        "cut": np.full((1, nodes), 0.5).tolist(),
        "child": child.tolist(),
    }
    with pytest.raises(InvalidInput, match="deep"):
        from_json(fields, Cells)


def test_chains_through_shared_children_are_refused() -> None:
    """A node with two parents is as deep as the deeper one. Otherwise people in one place would
    be stopped half-way, at a node that is no cell, and the error that follows would say so."""
    axis, child = [-1] * 15, [0] * 15
    # 0 -> 1 -> 3 -> 6 -> 8 -> 10, and node 5, which nobody reaches, has 6 for its child as well.
    for node, first in [(0, 1), (1, 3), (3, 6), (5, 6), (6, 8), (8, 10)]:
        axis[node], child[node] = 0, first
    fields = {"count": 8, "axis": [axis], "cut": [[0.5] * 15], "child": [child]}
    with pytest.raises(InvalidInput, match="deep"):
        from_json(fields, Cells)


def test_whatever_is_read_finds_a_cell_for_everybody() -> None:
    """Of many random forgeries, those that pass give every context a cell that exists."""
    rng = np.random.default_rng(6)
    contexts = rng.random((64, 2))
    passed = 0
    for _ in range(600):
        count = int(rng.integers(2, 9))
        nodes = 2 * count - 1
        below = np.arange(nodes)
        inner = (rng.random(nodes) < 0.4) & (below < nodes - 2)
        leap = rng.integers(1, np.maximum(nodes - 1 - below, 2))
        fields = {
            "count": count,
            "axis": [np.where(inner, rng.integers(2, size=nodes), -1).tolist()],
            "cut": [rng.random(nodes).tolist()],
            "child": [np.where(inner, below + leap, rng.integers(count, size=nodes)).tolist()],
        }
        try:
            cells = from_json(fields, Cells)
        except InvalidInput:
            continue
        passed += 1
        found = cells.locate_all(contexts)
        assert ((found >= 0) & (found < count)).all()
    assert passed > 60


class TestRanks:
    """How columns that people fill little of are measured."""

    def test_columns_that_are_filled_are_left_as_they_are(self) -> None:
        unit = np.random.default_rng(0).random((200, 3))
        unit[0], unit[1] = 0.0, 1.0
        assert np.array_equal(Ranks.plain(3)(unit), unit)

    @pytest.mark.parametrize("count", [2, 8])
    def test_parts_of_a_column_end_at_the_cuts(self, count: int) -> None:
        rng = np.random.default_rng(1)
        cuts = np.sort(rng.random((2, count - 1)), axis=1)
        cells = Cells.along(np.array([2, 0]), cuts)
        unit = rng.random((300, 3))
        for partition, column in enumerate([2, 0]):
            located = cells.locate(unit, np.full(300, partition))
            ends = np.searchsorted(cuts[partition], unit[:, column], side="right")
            assert np.array_equal(located, ends)


def test_ranks_are_turned_back() -> None:
    rng = np.random.default_rng(4)
    knots = np.sort(np.column_stack([np.zeros(2), rng.random((2, 63)), np.ones(2)]), axis=1)
    ranks = Ranks(knots, 1, np.zeros(0, dtype=np.int64))
    contexts = rng.random((50, 2))
    np.testing.assert_allclose(ranks.inverse(ranks(contexts)), contexts, atol=1e-12)
    plain = Ranks.plain(2)
    np.testing.assert_allclose(plain.inverse(contexts), contexts, atol=1e-12)


@pytest.mark.parametrize("number", [0.0, 0.4, 1.0])
def test_no_cell_is_empty_where_many_are_at_one_number(number: float) -> None:
    """Half of the points have an indicator and the number that it stands for."""
    levels = (None, 2, None)
    implied = ((1, 0, number),)
    for seed in range(20):
        points = with_implied(integration_points(3, seed, levels), implied)
        weights, rng = np.full(len(points), 1.0 / len(points)), np.random.default_rng(seed)
        for count in (2, 3, 8, 31, 64):
            scales = np.array([0.2, 3.2, 0.8])
            cells = Cells.split(points, weights, count, 4, scales, levels, rng, ties=True)
            for found in cells.locate_all(points):
                held = np.bincount(found, weights)
                assert (held > 0.0).all()
                assert len(held) > 0.8 * count
                assert held.max() < 4.0 / count
