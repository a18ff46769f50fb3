"""Policies of the partition, for tests of its parts."""

from __future__ import annotations

import numpy as np

from discreet.learners.partition.policy import PartitionPolicy, place_count, selection
from discreet.learners.partition.tree import Bins, Tree
from discreet.people.domain import RewardBounds, unit_cube

# Four bins of the square: two open with three arms, one with two, one resolved.
ACTIVE = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1], [0, 1, 0]], dtype=bool)
OFFERS = np.array([[0.5, 0.2, 0.3], [0.6, 0.0, 0.4], [0.1, 0.8, 0.1], [0.0, 1.0, 0.0]])


def random_tree(splits: int, dimension: int, seed: int) -> Tree:
    rng = np.random.default_rng(seed)
    tree = Tree.root(dimension)
    for _ in range(splits):
        node = rng.choice(tree.leaves, size=1)
        tree = tree.split(node, rng.integers(dimension, size=1))
    return tree


def three_leaves() -> Tree:
    """The left half of the square is halved once more."""
    tree = Tree.root(2).split(np.array([0]), np.array([0]))
    return tree.split(np.array([1]), np.array([1]))


def quarters(epsilon: float = 1.0) -> PartitionPolicy:
    tree = Tree.root(2).split(np.array([0]), np.array([0]))
    tree = tree.split(np.array([1, 2]), np.array([1, 1]))
    return PartitionPolicy(
        version=0,
        learner_id="scene",
        domain=unit_cube(2),
        reward_bounds=RewardBounds(),
        arms=3,
        public_seed=5,
        bins=Bins(tree, ACTIVE),
        offers=OFFERS,
        size=selection(place_count(ACTIVE), epsilon).size,
        epsilon=epsilon,
    )
