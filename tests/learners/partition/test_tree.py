"""The tree: boxes that partition the cube, nodes that keep their numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.codec import from_json, to_json
from discreet.learners.partition.rules import ScaledBins
from discreet.learners.partition.tree import (
    Bins,
    Ranked,
    Tree,
    same_boxes,
    splittable,
    spread_within,
    trimmed,
)

from .scene import random_tree, three_leaves


@given(st.integers(0, 12), st.integers(1, 4), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_leaves_partition_the_cube(splits: int, dimension: int, seed: int) -> None:
    tree = random_tree(splits, dimension, seed)
    volume = (tree.upper - tree.lower).prod(axis=1)
    assert volume[tree.leaves].sum() == pytest.approx(1.0)
    points = np.random.default_rng(seed).random((200, dimension))
    at = tree.locate(points)
    assert (tree.axis[at] < 0).all()
    assert (points >= tree.lower[at]).all()
    assert (points <= tree.upper[at]).all()
    # `within` knows the same nodes as the boxes do.
    inside = (tree.lower[:, None] <= tree.lower[tree.leaves]).all(-1)
    inside &= (tree.upper[:, None] >= tree.upper[tree.leaves]).all(-1)
    assert np.array_equal(tree.within, inside)


@given(st.integers(0, 8), st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_contexts_spread_within_leaves_are_there_and_can_be(splits: int, seed: int) -> None:
    """Evenly along columns of any values, and on the levels of the others."""
    levels, tree = (None, 5), Tree.root(2)
    rng = np.random.default_rng(seed)
    for _ in range(splits):
        allowed = splittable(tree, tree.leaves, levels)
        leaf = int(rng.integers(tree.leaf_count))
        axes = np.flatnonzero(allowed[leaf])
        tree = tree.split(tree.leaves[leaf : leaf + 1], rng.choice(axes, 1))
    points = spread_within(tree, 64, levels)
    assert points.shape == (tree.leaf_count, 64, 2)
    own = np.repeat(tree.leaves, 64)
    assert np.array_equal(tree.locate(points.reshape(-1, 2)), own)
    assert np.allclose(points[..., 1] * 4, np.round(points[..., 1] * 4))
    share = (points[..., 0] - tree.lower[tree.leaves, :1]) / (
        tree.upper[tree.leaves, :1] - tree.lower[tree.leaves, :1]
    )
    assert np.abs(share.mean(axis=1) - 0.5).max() < 0.03


@given(st.integers(0, 12), st.integers(1, 3), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_round_trip(splits: int, dimension: int, seed: int) -> None:
    tree = random_tree(splits, dimension, seed)
    copy = from_json(to_json(tree), Tree)
    for name in ("lower", "upper", "axis", "threshold", "left", "parent", "depth"):
        assert np.array_equal(getattr(copy, name), getattr(tree, name)), name


def test_corners_and_thresholds() -> None:
    tree = Tree.root(1).split(np.array([0]), np.array([0]))
    assert tree.locate(np.array([[0.0], [0.4999], [0.5], [1.0]])).tolist() == [1, 1, 2, 2]


class Watched(np.ndarray):
    """Contexts that count how many of their numbers are looked at."""

    looked = 0

    def __getitem__(self, key: object) -> np.ndarray:
        found = np.asarray(self)[key]  # type: ignore[index]
        Watched.looked += np.size(found)
        return found


def test_finding_a_leaf_takes_as_long_for_everybody() -> None:
    """The left half is halved again and again; who is on the right is at depth 1."""
    tree = Tree.root(1)
    for _ in range(9):
        tree = tree.split(tree.leaves[tree.lower[tree.leaves, 0] == 0.0], np.array([0]))
    looks = []
    for context in (0.9, 0.0):
        Watched.looked = 0
        (leaf,) = tree.locate(np.array([[context]]).view(Watched))
        looks.append(Watched.looked)
        assert tree.lower[leaf, 0] <= context < tree.upper[leaf, 0]
    assert looks == [9, 9]


def test_old_trees_are_the_first_part_of_new_ones() -> None:
    old = random_tree(4, 2, 1)
    new = old.split(old.leaves[:2], np.array([0, 1]))
    assert np.array_equal(new.lower[: len(old)], old.lower)
    assert len(new) == len(old) + 4
    assert np.array_equal(new.parent[: len(old)], old.parent)


def test_columns_with_levels_are_not_split_between_values_that_do_not_exist() -> None:
    """A yes/no column is split once; one of 3 levels into {0}, {1/2, 1} and then {1/2}, {1}."""
    tree = Tree.root(1)
    assert splittable(tree, tree.leaves, (2,)).all()
    halves = tree.split(tree.leaves, np.array([0]))
    assert not splittable(halves, halves.leaves, (2,)).any()
    assert splittable(halves, halves.leaves, (3,))[:, 0].tolist() == [False, True]
    assert splittable(halves, halves.leaves, (None,)).all()


@given(st.integers(2, 9), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_every_leaf_of_a_levelled_column_holds_a_value(levels: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = Tree.root(1)
    for _ in range(12):
        allowed = tree.leaves[splittable(tree, tree.leaves, (levels,))[:, 0]]
        if len(allowed) == 0:
            break
        tree = tree.split(rng.choice(allowed, size=1), np.array([0]))
    values = np.arange(levels)[:, None] / (levels - 1)
    assert set(tree.locate(values)) == set(tree.leaves)
    assert len(tree.leaves) <= levels


def test_halves_inherit_the_active_arms() -> None:
    bins = Bins.whole(2, 3).split(np.array([True]), np.array([0]))
    bins = Bins(bins.tree, np.array([[True, False, True], [True, True, True]]))
    split = bins.split(np.array([True, False]), np.array([1, 0]))
    at = dict(zip(split.tree.leaves.tolist(), split.active.tolist(), strict=True))
    assert at == {2: [True] * 3, 3: [True, False, True], 4: [True, False, True]}
    assert bins.split(np.array([False, False]), np.array([0, 0])) is bins


def test_ranks_are_shares_of_people_below() -> None:
    """Against people who are spread evenly over each leaf."""
    tree = three_leaves()
    mass, rng = np.array([0.7, 0.2, 0.1]), np.random.default_rng(0)
    leaf = tree.leaves[rng.choice(3, size=200_000, p=mass)]
    people = tree.lower[leaf] + rng.random((len(leaf), 2)) * (tree.upper - tree.lower)[leaf]
    ranked = Ranked.of(tree, tree, mass)
    for corner, ranks in [(tree.lower, ranked.lower), (tree.upper, ranked.upper)]:
        below = (people[None] < corner[:, None]).mean(axis=1)
        assert np.allclose(ranks, 0.95 * below + 0.05 * corner, atol=0.005)


def test_cuts_that_left_nearly_all_people_on_one_side_are_kept() -> None:
    tree = Tree.root(2)
    for axis in (0, 1, 0, 1):  # the lower left corner, again and again
        tree = tree.split(np.array([len(tree) - 2 if len(tree) > 1 else 0]), np.array([axis]))
    left = [0, *tree.left[tree.nodes]]
    mass = np.zeros(len(tree))
    mass[left] = [1.0, 0.99, 0.98, 0.6, 0.59]  # from the third on people are in both halves
    mass[np.array(left[1:]) + 1] = [0.01, 0.01, 0.38, 0.01]
    kept = trimmed(tree, mass)
    assert len(kept) == 5
    old, new = same_boxes(tree, kept)
    assert new.tolist() == list(range(5))
    assert np.array_equal(tree.lower[old], kept.lower)
    assert np.array_equal(tree.upper[old], kept.upper)


def test_same_boxes_of_trees_that_were_cut_in_another_order() -> None:
    one = Tree.root(2).split(np.array([0]), np.array([0])).split(np.array([1, 2]), np.array([1, 1]))
    two = Tree.root(2).split(np.array([0]), np.array([1])).split(np.array([1]), np.array([0]))
    pairs = set(zip(*(nodes.tolist() for nodes in same_boxes(one, two)), strict=True))
    corners = [np.hstack([tree.lower, tree.upper]).tolist() for tree in (one, two)]
    assert pairs == {
        (i, j) for i, a in enumerate(corners[0]) for j, b in enumerate(corners[1]) if a == b
    }
    assert len(pairs) == 3


def test_ranks_follow_people_as_far_as_masses_are_known() -> None:
    """Exact masses move ranks to where people are, as noisy as they vary none of the way, and half
    the variation explained by noise half of it."""
    bins = Bins.whole(1, 2).split(np.array([True]), np.array([0]))
    even = ScaledBins(bins, np.full(2, 0.5), ((0.8,),))
    mass = np.array([0.9, 0.1])
    exact, half = 0.4 * np.zeros(2), 0.4 * np.full(2, np.sqrt(0.5))
    np.testing.assert_allclose(even.moved(mass, exact).mass, mass)
    np.testing.assert_allclose(even.moved(mass, half).mass, [0.7, 0.3])
    assert even.moved(mass, np.full(2, 0.4)) is even
