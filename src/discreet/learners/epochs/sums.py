"""Sums over pairs of a context and an arm, in portions that fit into memory.

There may be 100,000 pairs with 600 features each: half a gigabyte, of which no copy is made.

| array   | shape  | meaning                                   |
|---------|--------|-------------------------------------------|
| phi     | (w, m) | features of pairs                         |
| turn    | (m, d) | directions; turned = phi turn, (w, d)     |
| weights | (w,)   | of pairs                                  |
"""

from __future__ import annotations

import numpy as np

from discreet.validation import BoolArray, FloatArray, IntArray

# Numbers that are computed together: about 64 MB.
_AT_ONCE = 2**23


def portions(rows: int, columns: int) -> list[slice]:
    """Rows of `columns` numbers each, in portions that fit into memory."""
    most = max(1, _AT_ONCE // columns)
    return [slice(start, start + most) for start in range(0, rows, most)]


def offered(phi: FloatArray, active: BoolArray) -> IntArray:
    """The places of pairs that count: those with active arms, or all where one portion holds all,
    so that there sums are added in the same order however many arms were given up."""
    if len(portions(*phi.shape)) == 1:
        return np.arange(active.size)
    return np.flatnonzero(active)


def lengths(phi: FloatArray, turn: FloatArray) -> FloatArray:
    """(w,) how long each row of turned is."""
    squares = [((phi[some] @ turn) ** 2).sum(axis=1) for some in portions(*phi.shape)]
    long: FloatArray = np.sqrt(np.concatenate(squares))
    return long


def second_moment(
    phi: FloatArray, weights: FloatArray, turn: FloatArray | None = None
) -> FloatArray:
    """(d, d) the weighted sum of turned turned'; of phi phi' without `turn`."""
    size = phi.shape[1] if turn is None else turn.shape[1]
    total = np.zeros((size, size))
    for some in portions(*phi.shape):
        turned = phi[some] if turn is None else phi[some] @ turn
        total += (turned * weights[some][:, None]).T @ turned
    return total


def leverages(phi: FloatArray, covariance: FloatArray) -> FloatArray:
    """(w,) phi' C^-1 phi of each pair, at least 0."""
    parts = []
    for some in portions(*phi.shape):
        solved = np.linalg.solve(covariance, phi[some].T).T
        parts.append(np.maximum((solved * phi[some]).sum(axis=1), 0.0))
    return np.concatenate(parts)


def offered_doubt(
    table: FloatArray, weights: FloatArray, offers: FloatArray, asked: FloatArray
) -> FloatArray:
    """(r, r) how offered arms differ from each other in the directions `asked` (m, r), where
    contexts with features (N, K, m) have weights (N,) and arms are offered with chances (N, K)."""
    mean = np.einsum("nk,nkm->nm", offers, table)
    total = np.zeros((asked.shape[1], asked.shape[1]))
    for some in portions(len(table), table[0].size):
        away = (table[some] - mean[some, None]).reshape(-1, table.shape[2])
        total += second_moment(away, (weights[some, None] * offers[some]).ravel(), asked)
    return total


def spreads(table: FloatArray, root: FloatArray, best: IntArray) -> FloatArray:
    """(N, K) the variance of f, of covariance root root', less f at the best arm (N,)."""
    beside = table[np.arange(len(table)), best][:, None]
    parts = [
        (((table[some] - beside[some]) @ root) ** 2).sum(axis=2)
        for some in portions(len(table), table[0].size)
    ]
    return np.concatenate(parts)
