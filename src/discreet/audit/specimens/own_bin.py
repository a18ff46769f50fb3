"""Noise only from the people in a bin: the published program of LDPMAB (Ma et al. 2025).

The paper's mechanism adds Laplace(4 / epsilon) noise to U and V of *every* active (bin, arm) pair,
whoever reports. The authors' program draws noise for the pair that the person is in and leaves all
others at exactly 0, so a report shows where its person is, whatever the noise.
"""

from __future__ import annotations

import numpy as np

from discreet.audit.exact import Facts, Promise
from discreet.audit.games import Check, Claim, Exact
from discreet.audit.played import Stated
from discreet.audit.values import exact_of
from discreet.privacy import NoiseSource, SimulatedNoise
from discreet.validation import FloatArray, IntArray

EPSILON = 1.0
_CELLS = 4


def privatise(cells: IntArray, rewards: FloatArray, noise: NoiseSource) -> FloatArray:
    """(n, 2C) U and V with noise on the person's own pair alone."""
    people = np.arange(len(cells))
    values = np.zeros((len(cells), 2 * _CELLS))
    own = np.stack([np.ones(len(cells)), rewards], axis=1)
    drawn = noise.add_laplace(own, 4.0 / EPSILON)
    values[people, cells] = drawn[:, 0]
    values[people, _CELLS + cells] = drawn[:, 1]
    return values


def _seen(first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    values = privatise(np.full(trials, 0 if first else 1), np.ones(trials), noise)
    seen: FloatArray = (values[:, 0] != 0.0).astype(np.float64)
    return seen


def _run(cell: int, facts: Facts) -> Promise:
    report = privatise(np.array([cell]), np.ones(1), SimulatedNoise(1))
    facts.add("the report", report.tobytes())
    return Promise(Claim(EPSILON), Claim(EPSILON))


def _exact() -> Exact:
    return exact_of(_run, [("a person in the first bin", 0), ("in the second", 1)])


def _game(exact: Exact) -> Stated:
    words = "whether U of the first bin is 0; a person there, or in the second"
    return Stated(exact.claim, _seen, words)


def check() -> Check:
    """The check of this specimen."""
    about = "the published program of Ma et al. (2025)"
    return Check("own_bin", "specimen", "local", _exact, _game, about=about)
