"""The sensitivity of 1 in Lemma 5 of Dubey (2021).

A person adds Gaussian noise to the upper triangle of phi phi' and to y phi, with

    sigma_X^2 = 8 ln(5 / (2 delta)) / alpha^2,    sigma_u^2 = 8 ln(5 / delta) / alpha^2,

which would keep (alpha / 2, delta / 2) each if replacing the person moved each part by 1. It moves
phi phi' by up to sqrt 2. At the paper's delta of 0.1 and alpha = 10 the first part, which should
keep 5, keeps 7.7 only, and the whole report, which should keep 10, keeps 11.9. At alpha = 5 the
noise is so generous otherwise that the whole report keeps 3.7: the flaw is there, but the claim is
not broken. So the specimen is attacked at alpha = 10.

The worst two people for the whole report have phi = (s, c) and psi = (-c, -s): the entry off the
diagonal of phi phi', which has less weight than in the Frobenius norm, is the same, and with
rewards of 1 y phi moves as well. With q = sigma_X / sigma_u the distance is largest at
phi' psi = -q^2 / 2.
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

ALPHA, DELTA = 10.0, 0.1
SIGMA_GRAM = math.sqrt(8.0 * math.log(2.5 / DELTA)) / ALPHA
SIGMA_REWARDS = math.sqrt(8.0 * math.log(5.0 / DELTA)) / ALPHA
# phi' psi of the worst two people (see the module).
COSINE = -0.5 * (SIGMA_GRAM / SIGMA_REWARDS) ** 2


def features(first: bool, cosine: float) -> FloatArray:
    """(2,) features of length 1 of either person, with that inner product."""
    angle = 0.5 * math.asin(-cosine)
    s, c = math.sin(angle), math.cos(angle)
    return np.array([s, c] if first else [-c, -s])


def gram(phi: FloatArray, trials: int, noise: NoiseSource) -> FloatArray:
    """(trials, m (m + 1)/2) the upper triangle of phi phi' with noise of sigma_X."""
    upper = np.outer(phi, phi)[np.triu_indices(len(phi))]
    return noise.add_gaussian(np.tile(upper, (trials, 1)), SIGMA_GRAM)


def report(phi: FloatArray, reward: float, trials: int, noise: NoiseSource) -> FloatArray:
    """(trials, ..) both parts of reports."""
    rewards = noise.add_gaussian(np.tile(reward * phi, (trials, 1)), SIGMA_REWARDS)
    joined: FloatArray = np.hstack([gram(phi, trials, noise), rewards])
    return joined


def _gram(first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    return gram(features(first, 0.0), trials, noise)


def _report(first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    return report(features(first, COSINE), 1.0, trials, noise)


def _gram_run(first: bool, facts: Facts) -> Promise:
    facts.add("the report", _gram(first, 1, SimulatedNoise(1)).tobytes())
    claim = Claim(0.5 * ALPHA, 0.5 * DELTA)
    return Promise(claim, claim)


def _report_run(first: bool, facts: Facts) -> Promise:
    facts.add("the report", _report(first, 1, SimulatedNoise(1)).tobytes())
    return Promise(Claim(ALPHA, DELTA), Claim(ALPHA, DELTA))


def _gram_exact() -> Exact:
    return exact_of(_gram_run, [("a person", True), ("one with orthogonal features", False)])


def _report_exact() -> Exact:
    other = f"one whose features have the cosine {COSINE:.2f}"
    return exact_of(_report_run, [("a person with reward 1", True), (other, False)])


def _gram_game(exact: Exact) -> Additive:
    return Additive(exact.claim, "orthogonal features", _gram)


def _report_game(exact: Exact) -> Additive:
    return Additive(exact.claim, f"features with cosine {COSINE:.2f}, rewards 1", _report)


def checks() -> list[Check]:
    """The checks of this specimen: of the part on which the flaw shows most, and of the report."""
    about = "Dubey (2021), Lemma 5, alpha = 10"
    return [
        Check("lemma_5, gram", "specimen", "local", _gram_exact, _gram_game, about=about),
        Check("lemma_5, report", "specimen", "local", _report_exact, _report_game, about=about),
    ]
