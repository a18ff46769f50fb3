"""The leaves of a tree and the arms left in each: what elimination and splitting change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.learners.partition.tree import Tree
from discreet.validation import BoolArray, IntArray, InvalidInput, read_array


@dataclass(frozen=True, eq=False)
class Bins:
    """A partition with the active arms of each bin.

    Attributes:
        tree: its leaves are the bins.
        active: (L, K) which arms are left in each leaf, in the order of `tree.leaves`.
    """

    tree: Tree
    active: BoolArray

    @classmethod
    def whole(cls, dimension: int, arms: int) -> Bins:
        """One bin with all arms."""
        return cls(Tree.root(dimension), np.ones((1, arms), dtype=np.bool_))

    def to_fields(self) -> dict[str, Any]:
        """The bins as JSON values."""
        return {"tree": self.tree.to_fields(), "active": self.active.tolist()}

    @classmethod
    def from_fields(cls, fields: dict[str, Any], dimension: int, arms: int) -> Bins:
        """The inverse of `to_fields`, for contexts of `dimension` columns and `arms` arms."""
        tree = Tree.from_fields(fields["tree"], dimension)
        active = read_array(fields["active"], "active", "truth", 2)
        if active.shape != (len(tree.leaves), arms) or not active.any(axis=1).all():
            raise InvalidInput(
                f"there were active arms of shape {active.shape} for {len(tree.leaves)} leaves and "
                f"{arms} arms; each leaf needs one row with at least one active arm."
            )
        return cls(tree, active)

    def split(self, chosen: BoolArray, axes: IntArray) -> Bins:
        """Halve the `chosen` (L,) leaves along `axes` (L,); halves inherit the active arms."""
        if not chosen.any():
            return self
        tree = self.tree.split(self.tree.leaves[chosen], axes[chosen])
        # Halves are appended to the tree, in pairs, after all the nodes that were there.
        halves = np.repeat(self.active[chosen], 2, axis=0)
        return Bins(tree, np.concatenate([self.active[~chosen], halves]))
