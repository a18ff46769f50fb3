"""Noise that is drawn again after a restart.

A service saves its stream, releases a sum, and is stopped. It comes up with the file from before,
does not know that the sum has left, and releases it again. Each release keeps the budget; who saw
both averages the noise away, and a person pays for two.
"""

from __future__ import annotations

import json

import numpy as np

from discreet.audit.exact import Facts, Promise
from discreet.audit.games import Check, Claim, Exact
from discreet.audit.played import Additive
from discreet.audit.values import exact_of
from discreet.privacy import NoiseSource, SimulatedNoise
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.privacy.prefix_sums import Independent, PrivateStream

EPSILON, DELTA = 1.0, 1e-5


def run(value: float, trials: int, noise: NoiseSource) -> None:
    """Release the same row before and after a restart; every coordinate is a trial of its own."""
    multiplier = gaussian_noise_multiplier(EPSILON, DELTA)
    stream = PrivateStream(Independent(), trials, 1.0, multiplier, noise)
    saved = json.dumps(stream.to_fields())
    row = np.full(trials, value)
    stream.release(row)
    restored = PrivateStream.from_fields(Independent(), json.loads(saved), noise)
    restored.release(row)


def _ran(first: bool, trials: int, noise: NoiseSource) -> None:
    run(0.5 if first else -0.5, trials, noise)


def _run(value: float, facts: Facts) -> Promise:
    run(value, 1, SimulatedNoise(1))
    return Promise(Claim(EPSILON, DELTA), Claim(EPSILON, DELTA))


def _exact() -> Exact:
    return exact_of(_run, [("0.5", 0.5), ("-0.5", -0.5)])


def _game(exact: Exact) -> Additive:
    return Additive(exact.claim, "both releases of one sum", _ran, trials_last=True)


def check() -> Check:
    """The check of this specimen."""
    about = "a release drawn again from an older file"
    return Check("restart", "specimen", "joint", _exact, _game, about=about)
