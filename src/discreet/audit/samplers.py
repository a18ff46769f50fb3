"""Whether samplers draw what they say: noise sources, and the exponential mechanism.

Exact replay takes the law of a draw from its scale; here the draws themselves are tested, of either
source, by tests that err less than once in 10^9: their distribution (Kolmogorov and Smirnov), their
variance, and that they do not depend on the ones before. A scale that is wrong by a tenth is found
among 20,000 draws.

The exponential mechanism looks an integer of 106 bits, drawn in two parts, up in sums of weights.
Handed integers of the audit's choice, it shows where one option ends and the next begins; so it is
known how many integers each option has, and their share is its probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from importlib.util import find_spec

import numpy as np
from scipy.special import ndtr
from scipy.stats import kstest

from discreet.audit.exact import Claim, Exact, Facts, NotAudited, Promise, exact_of, promised
from discreet.audit.games import Check, Seed, Stated
from discreet.privacy import NoiseSource, SecureNoise
from discreet.privacy.noise import Shape, SimulatedNoise, Words
from discreet.privacy.selection import ExponentialMechanism
from discreet.validation import FloatArray, IntArray

_DRAWS = 20_000
# Tests that may fail, each with at most this probability; 7 deviations of a normal are 2.6e-12.
_FAILURE, _DEVIATIONS = 1e-10, 7.0
_SCALE = 0.7
EPSILON = 1.0
_EPSILONS = (0.1, EPSILON, 16.0)
# Scores this many ranges apart, where the mechanism is nearly tight.
_DEPTH = 2.5
Source = Callable[[Seed], NoiseSource]

# Shares of weights and probabilities are equal but for the rounding of a float.
_ROUNDING = 1e-12


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
    share: FloatArray = np.where(scaled < 0.0, tail, 1.0 - tail)
    return share


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


# The exponential mechanism.


def selection_checks() -> Iterator[Check]:
    """The law, that it is drawn, and trials."""

    def named(name: str, exact: Callable[[], Exact] | None, source: Source | None = None) -> Check:
        game = None if source is None else partial(_selection, source)
        return Check(f"exponential, {name}", "mechanism", "joint", exact, game)

    yield named("outcomes", _selection_law)
    yield named("integers", _selection_drawn)
    yield named("trials", None, SimulatedNoise)
    yield named("secure", None, secure)


def _scores() -> list[tuple[FloatArray, FloatArray]]:
    """Scores (1, K) of two neighbours, whose difference has the range 1."""
    two = [
        (np.array([[-depth, 0.0]]), np.array([[-depth - 1.0, 0.0]]))
        for depth in (0.0, _DEPTH, 20.0)
    ]
    three = np.array([[0.5, 0.0, -_DEPTH]])
    return [*two, (three, three + np.array([[-0.5, 0.5, 0.2]]))]


def _selection_law() -> Exact:
    groups = [
        [(f"scores {scores[0]}, epsilon {epsilon:g}", (epsilon, scores)) for scores in pair]
        for epsilon in _EPSILONS
        for pair in _scores()
    ]
    return exact_of(_selected, *groups)


def _selected(data: tuple[float, FloatArray], facts: Facts) -> Promise:
    epsilon, scores = data
    mechanism = ExponentialMechanism(epsilon)
    facts.add("the option", mechanism.select(scores, 1.0, SimulatedNoise(8)).tobytes())
    return promised(Claim(epsilon), [mechanism.event()])


def _selection_drawn() -> Exact:
    fault = "".join(
        drawn_as_said(ExponentialMechanism(epsilon), scores)
        for epsilon in _EPSILONS
        for pair in _scores()
        for scores in pair
    )
    return Exact(Claim(0.0), 0.0, "the integers at which the option changes", fault)


def _selection(source: Source, exact: None) -> Stated:
    source(Seed(0))
    words = "which option was drawn; scores that differ by their range"
    return Stated(claim=Claim(EPSILON), attack=words, statistic=_first_option, source=source)


def _first_option(first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    scores = np.repeat(_scores()[1][0 if first else 1], trials, axis=0)
    chosen = ExponentialMechanism(EPSILON).select(scores, 1.0, noise)
    first_option: FloatArray = (chosen == 0).astype(np.float64)
    return first_option


class _Handed(SimulatedNoise):
    """Hands out the integer that is asked about, in parts of the sizes that are asked for."""

    def __init__(self, number: int) -> None:
        super().__init__(0)
        self._number, self._bits = number, 106

    def below(self, bound: int, shape: Shape) -> IntArray:
        self._bits -= int(bound).bit_length() - 1
        if self._bits < 0:  # rejected: whatever comes now is another draw
            return super().below(bound, shape)
        part = self._number >> self._bits
        self._number -= part << self._bits
        return np.full(shape, part, dtype=np.int64)


def drawn_as_said(mechanism: ExponentialMechanism, scores: FloatArray) -> str:
    """What is wrong with the draws for scores (n, K) of range 1; empty if nothing is."""
    said = mechanism.probabilities(scores, 1.0)
    for row, chances in zip(scores, said, strict=True):
        ends = _ends(mechanism, row)
        total = ends[-1]
        shares = np.diff([0, *ends]).astype(np.float64) / float(total)
        if np.abs(shares - chances).max() > _ROUNDING:
            return f"options of scores {row} are drawn with {shares}, not {chances}. "
    return ""


def _ends(mechanism: ExponentialMechanism, row: FloatArray) -> list[int]:
    """For each option the least integer that gives a later one, by bisection."""
    ends: list[int] = []
    for option in range(len(row)):
        low, high = (ends[-1] if ends else 0), 2**106
        while low < high:
            middle = (low + high) // 2
            beyond = _option(mechanism, row, middle) > option
            low, high = (low, middle) if beyond else (middle + 1, high)
        ends.append(low)
    return ends


def _option(mechanism: ExponentialMechanism, row: FloatArray, number: int) -> int:
    handed = _Handed(number)
    chosen = int(mechanism.select(row[None], 1.0, handed)[0])
    return chosen if handed._bits == 0 else len(row)
