"""That the exponential mechanism draws with the probabilities that it says it does.

`select` looks an integer of 106 bits, drawn in two parts, up in sums of weights. Handed integers of
the audit's choice, it shows where one option ends and the next begins; so it is known how many
integers each option has, and their share is its probability.
"""

from __future__ import annotations

import numpy as np

from discreet.privacy.noise import Shape, SimulatedNoise
from discreet.privacy.selection import ExponentialMechanism
from discreet.validation import FloatArray, IntArray

# Shares of weights and probabilities are equal but for the rounding of a float.
_ROUNDING = 1e-12


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
