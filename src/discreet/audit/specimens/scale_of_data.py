"""A scale taken from the data: noise in proportion to the largest value that is there.

Dividing a table by its largest entry "so that the sensitivity is 1" is the same thing. The noise is
then a function of the person who has the largest value: without them there is hardly any.
"""

from __future__ import annotations

import numpy as np

from discreet.audit.exact import Facts, Promise
from discreet.audit.games import Check, Claim, Exact
from discreet.audit.played import Additive
from discreet.audit.values import exact_of
from discreet.privacy import NoiseSource, SimulatedNoise
from discreet.validation import FloatArray

EPSILON = 1.0
_PEOPLE = 20
_LARGEST = 100.0


def release(values: FloatArray, trials: int, noise: NoiseSource) -> FloatArray:
    """(trials, 1) sums of values with Laplace noise of max(values) / epsilon."""
    largest = float(np.abs(values).max())
    return noise.add_laplace(np.full((trials, 1), values.sum()), largest / EPSILON)


def _released(first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    values = np.ones(_PEOPLE)
    values[0] = 1.0 if first else _LARGEST
    return release(values, trials, noise)


def _run(first: bool, facts: Facts) -> Promise:
    facts.add("the sum", _released(first, 1, SimulatedNoise(1)).tobytes())
    return Promise(Claim(EPSILON), Claim(EPSILON))


def _exact() -> Exact:
    return exact_of(_run, [("everybody has 1", True), ("one person has 100", False)])


def _game(exact: Exact) -> Additive:
    words = "everybody has 1, or one person 100"
    return Additive(exact.claim, words, _released, bound="counts", threshold=None)


def check() -> Check:
    """The check of this specimen."""
    about = "noise in proportion to the data's maximum"
    return Check("scale_of_data", "specimen", "joint", _exact, _game, about=about)
