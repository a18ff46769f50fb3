"""The classical Gaussian formula beyond its range.

sigma = sensitivity sqrt(2 ln(1.25 / delta)) / epsilon (Dwork and Roth 2014, Theorem A.1) is proved
for epsilon below 1 only. At epsilon = 10 and delta = 0.1 its noise keeps 14.7 (Balle and Wang
2018).
"""

from __future__ import annotations

import math

import numpy as np

from discreet.audit.exact import Facts, Promise
from discreet.audit.games import Check, Claim, Exact
from discreet.audit.played import Additive
from discreet.audit.values import exact_of
from discreet.privacy import NoiseSource, SimulatedNoise
from discreet.validation import FloatArray

EPSILON, DELTA = 10.0, 0.1
SIGMA = math.sqrt(2.0 * math.log(1.25 / DELTA)) / EPSILON


def release(value: float, trials: int, noise: NoiseSource) -> FloatArray:
    """(trials, 1) a number with sensitivity 1 and noise by the formula."""
    return noise.add_gaussian(np.full((trials, 1), value), SIGMA)


def _released(first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    return release(float(first), trials, noise)


def _run(value: float, facts: Facts) -> Promise:
    facts.add("the release", release(value, 1, SimulatedNoise(1)).tobytes())
    return Promise(Claim(EPSILON, DELTA), Claim(EPSILON, DELTA))


def _exact() -> Exact:
    return exact_of(_run, [("0", 0.0), ("1", 1.0)])


def _game(exact: Exact) -> Additive:
    return Additive(exact.claim, "numbers 1 apart", _released)


def check() -> Check:
    """The check of this specimen."""
    about = "sqrt(2 ln(1.25/delta))/epsilon at epsilon = 10"
    return Check("classical_gaussian", "specimen", "joint", _exact, _game, about=about)
