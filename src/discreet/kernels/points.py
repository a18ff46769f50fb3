"""Public points of a box: where the error of a feature map is measured and its axes are chosen.

The points depend on the declared box and a seed only, never on a person, so whatever is computed
from them is public. Errors of kernel approximations are largest between far-away points, so half
of the points lie on the boundary and the corners are included.

| array  | shape  | meaning                                                            |
|--------|--------|--------------------------------------------------------------------|
| points | (N, d) | points of the box in its declared units, without repetitions       |
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from scipy.stats import qmc

from discreet.domain import Box
from discreet.validation import FloatArray, InvalidInput, whole_number

# All corners up to this many columns; a random 64 of them beyond.
ALL_CORNERS = 6


def public_points(domain: Box, count: int | None = None, seed: int = 0) -> FloatArray:
    """About `count` low-discrepancy points of a box: interior, boundary, corners and centre.

    Columns with levels take only the values of their levels, so a small discrete box may give
    fewer points.

    Args:
        domain: the public box.
        count: how many points to draw before repetitions are dropped, at least 8; by default 512
            for one column and 1024 for more.
        seed: of the scrambled Sobol sequence.

    Returns:
        (N, d) points in the units of the box.

    Raises:
        InvalidInput: for a count below 8 or a seed that is not a whole number.
    """
    d = domain.dimension
    if count is None:
        count = 512 if d == 1 else 1024
    count = whole_number(count, "count", minimum=8)
    seed = whole_number(seed, "seed")
    rng = np.random.default_rng(seed)
    half = count // 2
    power = int(np.ceil(np.log2(count)))
    sobol = qmc.Sobol(d, scramble=True, seed=rng).random_base2(power)[: 2 * half]
    if d > 1:
        # Each face takes a run of the second half: a run of a Sobol sequence covers the whole
        # face, where every k-th point of it would leave parts of the face empty.
        faces = np.arange(half) * (2 * d) // half
        sobol[half + np.arange(half), faces // 2] = faces % 2
    if d <= ALL_CORNERS:
        corners = np.array(list(product((0.0, 1.0), repeat=d)))
    else:
        corners = rng.integers(0, 2, size=(62, d)).astype(np.float64)
        corners = np.vstack([corners, np.zeros((1, d)), np.ones((1, d))])
    unit = np.vstack([corners, np.full((1, d), 0.5), sobol])
    for column, levels in enumerate(domain.levels):
        if levels is not None:
            unit[:, column] = np.round(unit[:, column] * (levels - 1)) / (levels - 1)
    points: FloatArray = domain.from_unit(np.unique(unit, axis=0))
    return points


def sub_box(domain: Box, columns: Sequence[int]) -> Box:
    """The box of some columns only, in the order given.

    Raises:
        InvalidInput: for no columns, a repeated column, or one that the box does not have.
    """
    chosen = [whole_number(c, "a column", maximum=domain.dimension - 1) for c in columns]
    if not chosen or len(set(chosen)) < len(chosen):
        raise InvalidInput(
            f"a group had the columns {tuple(columns)}; name at least one column, each once."
        )
    return Box(
        tuple(domain.lower[c] for c in chosen),
        tuple(domain.upper[c] for c in chosen),
        tuple(domain.names[c] for c in chosen),
        tuple(domain.levels[c] for c in chosen),
        tuple(domain.categories[c] for c in chosen),
    )
