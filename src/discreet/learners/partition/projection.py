"""What was learnt on one partition, expressed on another.

Sources, and the target before it started anew, reported on trees of their own. Their observations
of boxes are averages of f over boxes, so on other leaves they are observations of mixtures:

    f(box) = sum_l share_l f(leaf l) + what the average over a part of a leaf differs from it by,

with the shares of the box's volume. The difference has variance roughness x (1 - coverage), if the
box covers a part `coverage` of the leaf.

| array    | shape  | meaning                                                              |
|----------|--------|----------------------------------------------------------------------|
| shares   | (B, L) | part of the volume of box b that lies in leaf l; rows add up to 1    |
| blur     | (B,)   | variance of that difference for each box                             |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.learners.partition.posterior import Information
from discreet.learners.partition.tree import Tree
from discreet.validation import FloatArray

_LEAST_BLUR = 1e-9


@dataclass(frozen=True, eq=False)
class Projection:
    """See the module's table."""

    shares: FloatArray
    blur: FloatArray

    @classmethod
    def between(cls, old: Tree, new: Tree, roughness: FloatArray) -> Projection:
        """From the leaves of `old` to those of `new`, whose roughness is (L,)."""
        low, high = old.lower[old.leaves], old.upper[old.leaves]
        lower, upper = new.lower[new.leaves], new.upper[new.leaves]
        both = np.ones((len(low), len(lower)))
        for axis in range(low.shape[1]):
            length = np.minimum(high[:, axis][:, None], upper[:, axis][None]) - np.maximum(
                low[:, axis][:, None], lower[:, axis][None]
            )
            both *= np.maximum(length, 0.0)
        shares = both / np.prod(high - low, axis=1)[:, None]
        coverage = both / np.prod(upper - lower, axis=1)[None]
        blur = (shares**2 * (1.0 - coverage) * roughness[None]).sum(axis=1)
        return cls(shares, np.maximum(blur, _LEAST_BLUR))

    def apply(self, information: Information) -> Information:
        """Information about the old leaves as information about the new ones.

        With information (A, t) about g = S f + e, e ~ N(0, D): since A may be singular,
        A' = S' (A - A (A + D^-1)^-1 A) S and t' = S' (t - A (A + D^-1)^-1 t).
        """
        precision, weighted = [], []
        for a, t in zip(information.precision, information.weighted, strict=True):
            solved = np.linalg.solve(a + np.diag(1.0 / self.blur), np.column_stack([a, t]))
            precision.append(self.shares.T @ (a - a @ solved[:, :-1]) @ self.shares)
            weighted.append(self.shares.T @ (t - a @ solved[:, -1]))
        return Information(np.stack(precision), np.stack(weighted))

    def masses(self, mass: FloatArray) -> FloatArray:
        """(L, ...) masses of the new leaves, from those of the old ones (B, ...)."""
        found: FloatArray = self.shares.T @ mass
        return found
