"""The subspace leak of PO-GP-UCB (Kharkovskii et al. 2020, Algorithm 1).

A centred table X (n, d) with singular value decomposition U S V' is released as

    Z = r^(-1/2) U sqrt(S^2 + omega^2 I) V' M,    M (d, r) standard normal.

Every column of Z lies in the span of U, which moves when one row moves: who knows the table and its
neighbour tells them apart with certainty, however large omega is. (The other branch of Algorithm 1
has no omega and the same span.)
"""

from __future__ import annotations

import math

import numpy as np

from discreet.audit.exact import Facts, Promise
from discreet.audit.games import Check, Claim, Exact
from discreet.audit.played import Stated
from discreet.audit.values import exact_of
from discreet.privacy import NoiseSource, SimulatedNoise
from discreet.validation import FloatArray

# The claim of the paper's Figure 2a.
EPSILON, DELTA = math.exp(1.1), 1e-5
_ROWS, _COLUMNS, _PROJECTED = 8, 2, 4
_RADIUS = 1.0
_COST = 5


def release(rows: FloatArray, trials: int, noise: NoiseSource) -> FloatArray:
    """(trials, n, r) releases of a table (n, d) by Algorithm 1."""
    logs = math.log(2.0 / DELTA) * math.log(16.0 * _PROJECTED / DELTA)
    omega = 16.0 * math.sqrt(_PROJECTED) * logs / EPSILON
    left, sizes, right = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    lifted = (left * np.hypot(sizes, omega)) @ right
    drawn = noise.add_gaussian(np.zeros((trials, rows.shape[1], _PROJECTED)), 1.0)
    points: FloatArray = lifted @ drawn / math.sqrt(_PROJECTED)
    return points


def _tables() -> tuple[FloatArray, FloatArray]:
    """A table (n, d) with norms of at most 25, and its neighbour."""
    made = np.random.default_rng(1).standard_normal((_ROWS, _COLUMNS))
    rows = made * 25.0 / np.linalg.norm(made, axis=1).max()
    moved = rows.copy()
    moved[0, 0] += _RADIUS
    return rows, moved


def _nearer(first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    tables = _tables()
    points = release(tables[0 if first else 1], trials, noise)
    far = []
    for table in tables:
        basis = np.linalg.svd(table - table.mean(axis=0), full_matrices=False)[0]
        outside = points - basis @ (basis.T @ points)
        far.append(np.sqrt(np.square(outside).sum(axis=(1, 2))))
    nearer: FloatArray = far[1] - far[0]
    return nearer


def _run(rows: FloatArray, facts: Facts) -> Promise:
    facts.add("the release", release(rows, 1, SimulatedNoise(1)).tobytes())
    return Promise(Claim(EPSILON, DELTA), Claim(EPSILON, DELTA))


def _exact() -> Exact:
    one, two = _tables()
    return exact_of(_run, [("a table", one), ("one row moved by 1", two)])


def _game(exact: Exact) -> Stated:
    words = "distance from the column space of either table; one row moved by 1"
    return Stated(exact.claim, _nearer, words)


def check() -> Check:
    """The check of this specimen."""
    about = "PO-GP-UCB, Kharkovskii et al. (2020)"
    return Check("column_space", "specimen", "outsourced", _exact, _game, _COST, about)
