"""Whether noise sources draw what they say, by tests that err less than once in 10^9.

Exact replay takes the law of a draw from its scale; here the draws themselves are tested, of either
source: their distribution (Kolmogorov and Smirnov), their variance, and that they do not depend on
the ones before. A scale that is wrong by a tenth is found among 20,000 draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from importlib.util import find_spec

import numpy as np
from scipy.special import ndtr
from scipy.stats import kstest

from discreet.audit.games import Claim, Exact, NotAudited, Seed
from discreet.privacy import NoiseSource, SecureNoise
from discreet.privacy.noise import Shape, Words
from discreet.validation import FloatArray

_DRAWS = 20_000
# Tests that may fail, each with at most this probability; 7 deviations of a normal are 2.6e-12.
_FAILURE, _DEVIATIONS = 1e-10, 7.0
_SCALE = 0.7


def secure(seed: Seed) -> NoiseSource:
    """The deployed source; what it draws cannot be repeated, whatever the seed."""
    if find_spec("opendp") is None:
        raise NotAudited('OpenDP is not installed; run pip install "discreet[secure]".')
    return SecureNoise()


def tested(source: NoiseSource) -> Exact:
    """A fault where a test fails; there is no epsilon of its own."""
    noise = source.add_gaussian(np.zeros(_DRAWS), _SCALE) / _SCALE
    other = source.add_laplace(np.zeros(_DRAWS), _SCALE) / _SCALE
    fault = (
        _integers(source)
        or _continuous("Gaussian noise", noise, ndtr, 2.0)
        or _continuous("Laplace noise", other / math.sqrt(2.0), _laplace, 5.0)
        or _discrete(source)
    )
    return Exact(Claim(0.0), 0.0, f"{_DRAWS:,} draws of each kind, {source.name}", fault)


def _laplace(values: FloatArray) -> FloatArray:
    """The distribution function of Laplace noise of variance 1."""
    scaled = values * math.sqrt(2.0)
    tail = 0.5 * np.exp(-np.abs(scaled))
    found: FloatArray = np.where(scaled < 0.0, tail, 1.0 - tail)
    return found


def _continuous(
    name: str, drawn: FloatArray, law: Callable[[FloatArray], FloatArray], spread: float
) -> str:
    """What is wrong with draws of variance 1, whose squares have the variance `spread`."""
    if kstest(drawn, law).pvalue < _FAILURE:
        return f"{name} does not have its law"
    count = len(drawn)
    if abs(np.mean(np.square(drawn)) - 1.0) > _DEVIATIONS * math.sqrt(spread / count):
        return f"{name} has another variance: {np.mean(np.square(drawn)):.4g} of its own"
    if abs(np.mean(drawn[1:] * drawn[:-1])) > _DEVIATIONS / math.sqrt(count):
        return f"{name} depends on the draw before"
    return ""


class _Words(SecureNoise):
    """Hands out given words, and then zeros."""

    def __init__(self, words: Sequence[int]) -> None:
        self._words = list(words)

    def keys(self, shape: Shape) -> Words:
        count = int(np.prod(shape))
        taken, self._words = self._words[:count], self._words[count:]
        return np.array([*taken, *[0] * (count - len(taken))], dtype=np.uint64).reshape(shape)


def _integers(source: NoiseSource) -> str:
    """How SecureNoise turns words into coins and whole numbers, at the words where it matters."""
    if not source.secure:
        return ""
    for chance in (0.3, 1.0 / 3.0, 1e-3, 0.9, Fraction(1, 3), Fraction(2, 7)):
        # A coin that hides shows for at least p 2^64 of all words, whole numbers of them.
        last = math.ceil(Fraction(chance) * 2**64) - 1
        if not _Words([last]).coins(chance, 1)[0]:
            return f"a coin of probability {float(chance):g} shows less often than that"
    for bound in (3, 7, 1000):
        beyond = 2**64 - 2**64 % bound
        if _Words([beyond, 1]).below(bound, 1)[0] != 1 % bound or (
            _Words([beyond - 1]).below(bound, 1)[0] != bound - 1
        ):
            return f"whole numbers below {bound} are not equally likely"
    return ""


def _discrete(source: NoiseSource) -> str:
    """Coins, whole numbers and keys by their frequencies."""
    for chance in (0.02, 0.3, 0.9):
        shown = source.coins(chance, _DRAWS).mean()
        if abs(shown - chance) > _DEVIATIONS * math.sqrt(chance * (1.0 - chance) / _DRAWS):
            return f"coins of probability {chance} show {shown:.4g}"
    for bound in (2, 7):
        counts = np.bincount(source.below(bound, _DRAWS), minlength=bound)
        if (np.abs(counts * bound / _DRAWS - 1.0) > _DEVIATIONS * math.sqrt(bound / _DRAWS)).any():
            return f"whole numbers below {bound} are not equally likely: {counts.tolist()}"
    bits = np.unpackbits(source.keys(_DRAWS).view(np.uint8)).reshape(_DRAWS, 64).mean(axis=0)
    if (np.abs(bits - 0.5) > _DEVIATIONS * 0.5 / math.sqrt(_DRAWS)).any():
        return "bits of keys are not fair"
    return ""
