"""Prefix sums without a horizon: phases of growing length, each a mechanism of its own.

Phase p takes first_rows 2^p rows (never more than 2^20). Its vectors are divided by the phase's own
|C_p|, so that every phase, and the whole, has column norm 1 and one noise scale serves all:

    y = C_p x / |C_p| + z,   estimate = sum of the finished phases' last estimates + the current one

where the decoder multiplies y by |C_p| again, so that a phase's variance counts |C_p|^2 times. A
person is in one phase only, which is why phases do not add up in privacy (Chan, Shi and Song 2011,
section 4, for trees).

| name     | shape    | meaning                                         |
|----------|----------|-------------------------------------------------|
| finished | (1, dim) | decoder: sum of the finished phases' estimates  |
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from discreet.privacy.prefix_sums.base import (
    Decoder,
    Encoder,
    Estimate,
    PrefixMechanism,
    ones,
    stored,
)
from discreet.privacy.prefix_sums.toeplitz import BufferedToeplitz, SquareRootToeplitz
from discreet.privacy.prefix_sums.tree import BinaryTree, Honaker
from discreet.validation import FloatArray, InvalidInput, finite_number, whole_number

_KINDS: dict[str, type[BinaryTree | BufferedToeplitz | SquareRootToeplitz]] = {
    kind.name: kind for kind in (BufferedToeplitz, BinaryTree, Honaker, SquareRootToeplitz)
}
# Longer phases would gain little, and a person's row may enter every release of its phase: the
# rounding of the secure sampler is counted that often.
_LONGEST = 2**20


@dataclass(frozen=True)
class Doubling(PrefixMechanism):
    """Any number of rows from mechanisms that need a horizon.

    Errors of finished phases add up. Where any upper bound on the number of rows is known, however
    generous, use it instead: BufferedToeplitz(2**20) has variance 18 after 1024 rows and 22 after
    10,000 (times |C|^2), where this has 38 and 80; before row 200 this one is better.

    Attributes:
        kind: name of the mechanism of each phase.
        first_rows: rows of the first phase, up to 2^20.
        every: people in a row, as planned.
    """

    kind: str = BufferedToeplitz.name
    first_rows: int = 64
    every: int = 1
    rows: None = field(default=None, init=False)
    name: ClassVar[str] = "doubling"

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise InvalidInput(f"kind was {self.kind!r}; it must be one of {list(_KINDS)}.")
        whole_number(self.first_rows, "first_rows", minimum=1, maximum=_LONGEST)
        whole_number(self.every, "every", minimum=1)

    def phase(self, number: int) -> PrefixMechanism:
        """The mechanism of that phase, counted from 0."""
        rows = min(self.first_rows << min(number, 20), _LONGEST)
        return _KINDS[self.kind](rows, every=self.every)

    def place(self, rows: int) -> tuple[int, int]:
        """The phase that row number `rows` (at least 1) is in, and its number there, from 1."""
        number, left, length = 0, rows, self.first_rows
        while left > length:
            number, left = number + 1, left - length
            length = min(2 * length, _LONGEST)
        return number, left

    @cached_property
    def _longest(self) -> PrefixMechanism:
        return self.phase(20)

    @property
    def entries(self) -> int:
        return self._longest.entries

    @property
    def column_norm(self) -> float:
        return 1.0

    @property
    def memory(self) -> int:
        return self._longest.memory + 1

    def due(self, people: int) -> int:
        return people + self.every

    def encoder(self) -> Encoder:
        return PhaseEncoder(self)

    def decoder(self) -> Decoder:
        return PhaseDecoder(self)

    def variances(self, rows: int) -> FloatArray:
        last, left = self.place(self.check_rows(rows))
        phases, before = [], 0.0
        for number in range(last + 1):
            phase = self.phase(number)
            inside = phase.variances(left if number == last else phase.rows or left)
            phases.append(before + phase.column_norm**2 * inside)
            before = float(phases[-1][-1])
        return np.concatenate(phases)


class PhaseEncoder(Encoder):
    """The encoder of the phase that is running."""

    def __init__(self, mechanism: Doubling) -> None:
        super().__init__(mechanism)
        self._doubling = mechanism
        self._inner = mechanism.phase(0).encoder()

    def _push(self, row: FloatArray, people: int) -> FloatArray:
        number, place = self._doubling.place(self.rows + 1)
        fresh = self._doubling.phase(number).encoder() if place == 1 else copy(self._inner)
        due = fresh.push(row, people) / fresh.mechanism.column_norm
        self._inner = fresh
        return due

    def _state(self) -> dict[str, Any]:
        return {"inner": self._inner.to_fields()}

    def _restore(self, fields: Mapping[str, Any]) -> None:
        number, place = self._doubling.place(max(self.rows, 1))
        self._inner = Encoder.from_fields(self._doubling.phase(number), fields["inner"])
        _check_place(self._inner.rows, min(place, self.rows))


class PhaseDecoder(Decoder):
    """The decoder of the phase that is running, and what the finished ones came to."""

    def __init__(self, mechanism: Doubling) -> None:
        super().__init__(mechanism)
        self._doubling = mechanism
        self._inner = mechanism.phase(0).decoder()
        self._finished = np.zeros((1, 1))
        self._finished_variance = 0.0

    def _take(self, noisy: FloatArray, people: int) -> None:
        number, place = self._doubling.place(self.rows + 1)
        inner = copy(self._inner)
        if place == 1 and (last := self.estimate) is not None:
            self._finished, self._finished_variance = last.values[None, :], last.variance
            inner = self._doubling.phase(number).decoder()
        inner.take(noisy * inner.mechanism.column_norm, people)
        self._inner = inner

    def _estimate(self) -> Estimate:
        inner = self._inner.estimate
        assert inner is not None
        variance = self._finished_variance + self._inner.mechanism.column_norm**2 * inner.variance
        return Estimate(self._finished[0] + inner.values, variance, ones(self.rows))

    def _state(self) -> dict[str, Any]:
        return {
            "finished": self._finished.tolist(),
            "finished_variance": self._finished_variance,
            "inner": self._inner.to_fields(),
        }

    def _restore(self, fields: Mapping[str, Any]) -> None:
        number, place = self._doubling.place(max(self.rows, 1))
        self._finished = stored(fields["finished"], "finished", 1)
        self._finished_variance = finite_number(fields["finished_variance"], "finished_variance")
        self._inner = Decoder.from_fields(self._doubling.phase(number), fields["inner"])
        _check_place(self._inner.rows, min(place, self.rows))


def _check_place(rows: int, expected: int) -> None:
    if rows != expected:
        raise InvalidInput(
            f"the saved phase had {rows} rows, but {expected} belong to it; read it as "
            "to_fields() wrote it."
        )
