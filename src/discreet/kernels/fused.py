"""Many small Fourier maps of coordinate groups in one step: one cosine, one sine, one product.

A map of 20 groups spends nearly all of its time on calls, not on arithmetic; side by side in one
block matrix the same features take a tenth of it.

| array       | shape        | meaning                                                         |
|-------------|--------------|-----------------------------------------------------------------|
| frequencies | (q, d)       | of all groups, 0 in the columns that a group does not read      |
| blocks      | (2q - z, m)  | each group's axes times the roots of weights; z zero frequencies |
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from discreet.domain import Box
from discreet.kernels.base import FeatureMap
from discreet.kernels.fourier import FourierFeatures
from discreet.kernels.rotated import RotatedFeatures
from discreet.validation import FloatArray

# A larger block matrix is mostly zeros, and then one group after the other is faster.
MOST_ENTRIES = 250_000


class FusedGroups:
    """The features of groups whose maps are Fourier features, rotated or not."""

    def __init__(self, fourier: FourierFeatures, blocks: FloatArray) -> None:
        self._fourier = fourier
        self._blocks = blocks

    def compute(self, X: FloatArray) -> FloatArray:  # noqa: N803
        """(n, m) the features of all groups side by side."""
        return self._fourier.compute(X) @ self._blocks


def fuse(
    domain: Box, parts: Sequence[tuple[tuple[int, ...], FeatureMap, float]]
) -> FusedGroups | None:
    """The groups fused, or None where a group is no Fourier map or the blocks are too large."""
    opened = [_open(part) for _, part, _ in parts]
    bases = [base for base, _ in filter(None, opened)]
    if len(bases) < len(parts) or len(parts) < 2:
        return None
    rows = sum(base.features for base in bases)
    columns = sum(part.features for _, part, _ in parts)
    if rows * columns > MOST_ENTRIES:
        return None
    count = sum(len(base._a) for base in bases)
    frequencies = np.zeros((count, domain.dimension))
    blocks = np.zeros((rows, columns))
    cosine, sine, start = 0, count, 0
    for (where, part, weight), base, pair in zip(parts, bases, opened, strict=True):
        q, s = len(base._a), int(base._with_sine.sum())
        frequencies[cosine : cosine + q, list(where)] = base._omega
        axes = np.eye(base.features) if pair is None or pair[1] is None else pair[1]
        scales = np.concatenate([base._cos_scale, base._sin_scale]) * math.sqrt(weight)
        block = axes * scales[:, None]
        blocks[cosine : cosine + q, start : start + part.features] = block[:q]
        blocks[sine : sine + s, start : start + part.features] = block[q:]
        cosine, sine, start = cosine + q, sine + s, start + part.features
    return FusedGroups(FourierFeatures(domain, frequencies, np.ones(count)), blocks)


def _open(part: FeatureMap) -> tuple[FourierFeatures, FloatArray | None] | None:
    if isinstance(part, FourierFeatures):
        return part, None
    if isinstance(part, RotatedFeatures) and isinstance(part.base, FourierFeatures):
        return part.base, part._axes
    return None
