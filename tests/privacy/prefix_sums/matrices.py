"""The encoder and decoder of a mechanism as explicit matrices, read off unit vectors."""

from __future__ import annotations

import numpy as np

from discreet.privacy.prefix_sums import (
    BinaryTree,
    BufferedToeplitz,
    DiscountedEpochs,
    GeometricEpochs,
    Independent,
    PrefixMechanism,
)
from discreet.privacy.prefix_sums.system import Held
from discreet.validation import FloatArray

ROWS = 40

PREFIX_SUMS: list[PrefixMechanism] = [
    BinaryTree(ROWS),
    BufferedToeplitz(ROWS),
    BufferedToeplitz(ROWS, buffers=6),
    Independent(),
]
EPOCHS: list[PrefixMechanism] = [
    GeometricEpochs(),
    GeometricEpochs(1.5, first=7),
    GeometricEpochs(1.1, first=5, horizon=150),
    GeometricEpochs(2.0, horizon=3),
]
FADING: list[PrefixMechanism] = [
    DiscountedEpochs(20.0),
    DiscountedEpochs(300.0, first=4, horizon=1000),
]
EVERY = PREFIX_SUMS + EPOCHS + FADING


def planned(mechanism: PrefixMechanism, rows: int = ROWS) -> list[int]:
    """People of each row when each comes as soon as it is due."""
    people, counts = 0, []
    for _ in range(rows if mechanism.rows is None else min(rows, mechanism.rows)):
        counts.append(mechanism.due(people) - people)
        people += counts[-1]
    return counts


def encoder_matrix(mechanism: PrefixMechanism, counts: list[int]) -> tuple[FloatArray, list[slice]]:
    """C, (vectors, rows), and which of its rows each row released."""
    held, pushed = mechanism.start()[0], []
    for unit, people in zip(np.eye(len(counts)), counts, strict=True):
        mechanism.check_row(held, people)
        held, due = mechanism.encode(held, unit, people)
        pushed.append(due)
    ends = np.cumsum([len(due) for due in pushed])
    parts = [slice(end - len(due), end) for end, due in zip(ends, pushed, strict=True)]
    return np.vstack(pushed), parts


def decoder_matrix(
    mechanism: PrefixMechanism, counts: list[int], parts: list[slice]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """B, (rows, vectors), the variances, and the weights, (rows, rows), that estimates report."""
    rows, held = len(counts), mechanism.start()[1]
    units = np.eye(parts[-1].stop)
    values, variances, weights = [], [], np.zeros((rows, rows))
    for number, (part, people) in enumerate(zip(parts, counts, strict=True)):
        held = mechanism.decode(held, units[part], people)
        estimate = mechanism.estimate(held)
        values.append(estimate.values)
        variances.append(estimate.variance)
        weights[number, : number + 1] = estimate.weights
    return np.array(values), np.array(variances), weights


def scaled_variances(mechanism: PrefixMechanism, rows: int) -> FloatArray:
    """(rows,) variances of estimates at unit sensitivity and mu = 1: reported times |C|^2. Of
    mechanisms with a horizon, whose variances need no earlier rows."""
    states = (
        Held(after, after, np.zeros((mechanism.keeps(after)[1], 1))) for after in range(1, rows + 1)
    )
    return np.array([mechanism.estimate(held).variance for held in states]) * (
        mechanism.column_norm**2
    )
