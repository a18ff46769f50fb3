"""A seed that is used for two releases.

Sums of two batches of people are released, each with the noise that its own people need. Both
generators start from the seed in the configuration, so both sums carry the same noise: their
difference is exact, and whoever knows all people but one knows that one.
"""

from __future__ import annotations

import numpy as np

from discreet.audit.exact import Facts, Promise
from discreet.audit.games import Check, Claim, Exact
from discreet.audit.played import Stated
from discreet.audit.values import exact_of
from discreet.privacy import NoiseSource, SimulatedNoise
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.validation import FloatArray

EPSILON, DELTA = 1.0, 1e-5
_PEOPLE = 10


def releases(batches: tuple[FloatArray, FloatArray], trials: int, seed: int) -> list[FloatArray]:
    """(trials,) noisy sums of either batch of values in [0, 1], by a generator for each."""
    scale = gaussian_noise_multiplier(EPSILON, DELTA)
    return [
        SimulatedNoise(seed).add_gaussian(np.full(trials, values.sum()), scale)
        for values in batches
    ]


def _difference(first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    known, mine = np.full(_PEOPLE, 0.5), np.full(_PEOPLE, 0.5)
    mine[0] = 1.0 if first else 0.0
    # The configured seed, fresh for this portion of trials.
    seed = int(noise.below(2**62, 1)[0])
    one, two = releases((known, mine), trials, seed)
    difference: FloatArray = two - one
    return difference


def _run(value: float, facts: Facts) -> Promise:
    known, mine = np.full(_PEOPLE, 0.5), np.full(_PEOPLE, 0.5)
    mine[0] = value
    for one in releases((known, mine), 1, 3):
        facts.add("a sum", one.tobytes())
    return Promise(Claim(EPSILON, DELTA), Claim(EPSILON, DELTA))


def _exact() -> Exact:
    return exact_of(_run, [("1", 1.0), ("0", 0.0)])


def _game(exact: Exact) -> Stated:
    words = "difference of two sums; one person has 1, or 0"
    return Stated(exact.claim, _difference, words)


def check() -> Check:
    """The check of this specimen."""
    about = "two releases from one seed"
    return Check("reused_seed", "specimen", "joint", _exact, _game, about=about)
