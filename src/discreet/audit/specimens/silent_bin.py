"""A bin that sends no report when it is empty.

Counts of bins get Laplace(2 / epsilon) noise, which is right for replacing a person: two counts
change by 1. But only bins that somebody is in are sent, so a report from a bin says that somebody
is there, and who was alone in it is found.
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
_BINS = 4


def release(bins: IntArray, trials: int, noise: NoiseSource) -> FloatArray:
    """(trials, bins) noisy counts of people in bins (n,), NaN where none is sent."""
    counts = np.bincount(bins, minlength=_BINS).astype(np.float64)
    noisy = noise.add_laplace(np.tile(counts, (trials, 1)), 2.0 / EPSILON)
    return np.where(counts > 0.0, noisy, np.nan)


def _sent(first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    bins = np.array([0 if first else 1, 1, 2, 2, 3])
    return (~np.isnan(release(bins, trials, noise)[:, 0])).astype(np.float64)


def _run(first: bool, facts: Facts) -> Promise:
    bins = np.array([0 if first else 1, 1, 2, 2, 3])
    facts.add("the counts", release(bins, 1, SimulatedNoise(1)).tobytes())
    return Promise(Claim(EPSILON), Claim(EPSILON))


def _exact() -> Exact:
    return exact_of(_run, [("a person alone in the first bin", True), ("in the second", False)])


def _game(exact: Exact) -> Stated:
    words = "whether the first bin was sent; one person there, or in the second"
    return Stated(exact.claim, _sent, words)


def check() -> Check:
    """The check of this specimen."""
    about = "bins with nobody in them say nothing"
    return Check("silent_bin", "specimen", "joint", _exact, _game, about=about)
