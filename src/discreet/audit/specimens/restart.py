"""Noise that is drawn again after a restart.

A service saves its stream, releases a sum, and is stopped. It comes up with the file from before,
does not know that the sum has left, and releases it again. Each release keeps the budget; who saw
both averages the noise away, and a person pays for two.
"""

from __future__ import annotations

import json

import numpy as np

from discreet.audit.games import Check, Claim
from discreet.audit.played import Additive
from discreet.privacy import NoiseSource
from discreet.privacy.accounting import gaussian_noise_multiplier
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


def _game() -> Additive:
    return Additive(Claim(EPSILON, DELTA), (("both releases of one sum", _ran),), trials_last=True)


def check() -> Check:
    """The check of this specimen."""
    about = "a release drawn again from an older file"
    return Check("restart", "specimen", "joint", _game, about=about)
