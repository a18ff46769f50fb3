"""The exponential mechanism: its law, and that it draws with the probabilities that it says.

`select` looks an integer of 106 bits, drawn in two parts, up in sums of weights. Handed integers of
the audit's choice, it shows where one option ends and the next begins; so it is known how many
integers each option has, and their share is its probability.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from discreet.audit.exact import Facts, Promise
from discreet.audit.games import Check, Claim, Exact, Seed
from discreet.audit.played import Stated
from discreet.audit.sources import secure
from discreet.audit.values import exact_of, promised
from discreet.privacy import NoiseSource
from discreet.privacy.noise import Shape, SimulatedNoise
from discreet.privacy.selection import ExponentialMechanism
from discreet.validation import FloatArray, IntArray

EPSILON = 1.0
_EPSILONS = (0.1, EPSILON, 16.0)
# Scores this many ranges apart, where the mechanism is nearly tight.
_DEPTH = 2.5
Source = Callable[[Seed], NoiseSource]

# Shares of weights and probabilities are equal but for the rounding of a float.
_ROUNDING = 1e-12


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
        [(f"scores {one[0]}, epsilon {epsilon:g}", (epsilon, one)) for one in pair]
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
        drawn_as_said(ExponentialMechanism(epsilon), one)
        for epsilon in _EPSILONS
        for pair in _scores()
        for one in pair
    )
    return Exact(Claim(0.0), 0.0, "the integers at which the option changes", fault)


def _selection(source: Source, exact: None) -> Stated:
    source(Seed(0))
    words = "which option was drawn; scores that differ by their range"
    return Stated(Claim(EPSILON), _first_option, words, source)


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
