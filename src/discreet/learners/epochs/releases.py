"""Releases of epochs under joint privacy: each is drawn once, kept, and never drawn again.

| array | shape | meaning                                           |
|-------|-------|---------------------------------------------------|
| total | (d,)  | the sum of the rows of an epoch, with noise on it |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.learners.epochs.reports import EpochSum
from discreet.learners.epochs.rows import RESOLUTION, row_sensitivity
from discreet.privacy import NoiseSource, Release
from discreet.privacy.accounting import GaussianEvent
from discreet.privacy.guarantee import OnceEach
from discreet.privacy.noise import NO_NOISE
from discreet.privacy.prefix_sums import Independent, PrivateStream
from discreet.validation import FloatArray, InvalidInput, finite_number, read_array, whole_number

# What of a person's data a row holds.
DATA = "the context, the action and the reward"
# No release has more noise than was asked for by more than this part.
_CLOSE = 1e-6


@dataclass(frozen=True, eq=False)
class Drawn:
    """A release that was made: public, and never drawn again.

    Attributes:
        version: of the policy whose people it is about.
        people: how many they are.
        total: (d,) the sum of their rows with noise.
        scale: standard deviation of the noise on each number; 0 without privacy.
        multiplier: scale / sensitivity, as the noise source achieves it.
        noise: the name of that source.
    """

    version: int
    people: int
    total: FloatArray
    scale: float
    multiplier: float
    noise: str

    @property
    def sensitivity(self) -> float:
        """How far the sum moves when one of its people is replaced."""
        return row_sensitivity(len(self.total), self.people)

    @classmethod
    def plain(cls, version: int, one: EpochSum) -> Drawn:
        """The sum as it is, where nothing is protected."""
        return cls(version, one.people, one.total / RESOLUTION, 0.0, 0.0, NO_NOISE)

    @classmethod
    def noisy(cls, version: int, one: EpochSum, multiplier: float, noise: NoiseSource) -> Drawn:
        """The sum with noise of at least `multiplier` times its sensitivity."""
        size = len(one.total)
        moved = row_sensitivity(size, one.people)
        stream = PrivateStream(Independent(), size, moved, multiplier, noise)
        total = np.asarray(stream.release(one.total / RESOLUTION, one.people).values)
        held = stream.achieved_multiplier
        return cls(version, one.people, total, stream.scale, held, noise.name)

    def check(self, asked: float) -> None:
        """`InvalidInput` for a saved release with less noise than was asked for, or one that says
        it has more, because its certificate would promise too much."""
        held = min(self.multiplier, self.scale / self.sensitivity)
        if held < asked * (1.0 - 1e-9) or self.multiplier > asked * (1.0 + _CLOSE):
            raise InvalidInput(
                f"a saved release has the noise multiplier {self.multiplier} and the scale "
                f"{self.scale}; this learner's budget asks for the multiplier {asked}. Read it as "
                "save() wrote it."
            )

    def record(self, group: str) -> Release:
        """The release as a guarantee counts it; everybody is in one release of the group."""
        return Release(
            mechanism="Gaussian noise on the sum of an epoch's rows",
            event=GaussianEvent(self.multiplier),
            sensitivity=self.sensitivity,
            sensitivity_source="rows are cut to the unit ball and rounded to 2^-30",
            scale=self.scale,
            people=OnceEach(group),
            data=DATA,
            noise=self.noise,
        )

    def to_fields(self) -> dict[str, Any]:
        """JSON values."""
        return {**vars(self), "total": self.total.tolist()}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Drawn:
        """The inverse of `to_fields`."""
        if not isinstance(fields["noise"], str):
            raise InvalidInput(f"the noise of a release was {fields['noise']!r:.80}; it is a name.")
        return cls(
            whole_number(fields["version"], "version"),
            whole_number(fields["people"], "people", minimum=1),
            read_array(fields["total"], "total", "number", 1),
            finite_number(fields["scale"], "scale"),
            finite_number(fields["multiplier"], "multiplier"),
            fields["noise"],
        )
