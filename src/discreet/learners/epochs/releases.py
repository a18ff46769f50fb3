"""Sums of an epoch's rows, and how they become public under each trust model.

| trust model | reports            | the sum of an epoch becomes public                           |
|-------------|--------------------|--------------------------------------------------------------|
| joint       | plain observations | once, with Gaussian noise that takes the whole budget        |
| local       | private rows       | as it is: everybody has hidden their own row                 |
| none        | plain observations | as it is, which protects nobody                              |

| array | shape | meaning                                                                          |
|-------|-------|----------------------------------------------------------------------------------|
| total | (d,)  | a sum of rows: whole multiples of 2^-30 where they are plain, or private numbers |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from discreet.codec import Coded, Range, Shape
from discreet.learners.epochs.rows import RESOLUTION, row_sensitivity
from discreet.learners.messages import Statistics
from discreet.privacy import Local, NoiseSource, Release
from discreet.privacy.accounting import GaussianEvent, OnceEach
from discreet.privacy.prefix_sums import Independent, PrivateStream
from discreet.privacy.vectors import GaussianVector, PrivUnit, VectorReport, l2_ball
from discreet.validation import FloatArray, IntArray, InvalidInput

# What of a person's data a row holds.
DATA = "the context, the action and the reward"
# No release has more noise than was asked for by more than this part.
_CLOSE = 1e-6


@dataclass(frozen=True, eq=False, repr=False)
class EpochSum(Coded):
    """The people who acted under one version of a policy.

    Attributes:
        people: how many.
        total: (s,) the sum of their rows: whole multiples of 2^-30, or private numbers.
    """

    people: Annotated[int, Range(1)]
    total: Annotated[IntArray | FloatArray, Shape("s")]

    def __add__(self, other: EpochSum) -> EpochSum:
        if not self._alike(other):
            raise InvalidInput(
                f"sums had {len(self.total)} numbers of type {self.total.dtype}, and "
                f"{len(other.total)} of type {other.total.dtype}; they are of different learners."
            )
        return EpochSum(self.people + other.people, self.total + other.total)

    def after(self, earlier: EpochSum) -> EpochSum | None:
        """Those who came after an earlier sum of the same; None for nobody."""
        more = self.people - earlier.people if self._alike(earlier) else -1
        if more < 0 or (more == 0 and not np.array_equal(self.total, earlier.total)):
            raise InvalidInput(
                f"a sum of {earlier.people} people that was released is no part of that of "
                f"{self.people} people; read the learner as save() wrote it."
            )
        return EpochSum(more, self.total - earlier.total) if more else None

    def _alike(self, other: EpochSum) -> bool:
        return (self.total.shape, self.total.dtype) == (other.total.shape, other.total.dtype)


@dataclass(frozen=True, eq=False, kw_only=True)
class EpochStatistics(Statistics):
    """Sums of rows, apart for each version of the policy."""

    kind: ClassVar[str] = "epoch-statistics"
    silences: ClassVar[bool] = True

    epochs: Mapping[Annotated[int, Range(0)], EpochSum]

    def __post_init__(self) -> None:
        super().__post_init__()
        counted = sum(added.people for added in self.epochs.values())
        if counted != self.reports:
            raise InvalidInput(
                f"statistics of {self.reports} reports held sums of {counted} people; send them as "
                "statistics() made them."
            )

    def __add__(self, other: EpochStatistics) -> EpochStatistics:
        joined = dict(self.epochs)
        for version, new in other.epochs.items():
            joined[version] = joined[version] + new if version in joined else new
        ordered = {version: joined[version] for version in sorted(joined)}
        return EpochStatistics(**self.tally(other), epochs=ordered)

    def since(self, before: EpochStatistics) -> dict[int, EpochSum]:
        """What came after `before`, by version; `InvalidInput` if that is no part of it."""
        if not set(before.epochs) <= set(self.epochs):
            raise InvalidInput(
                f"versions {list(before.epochs)} were released, but people came to "
                f"{list(self.epochs)}; read the learner as save() wrote it."
            )
        new = {
            version: added.after(before.epochs[version]) if version in before.epochs else added
            for version, added in self.epochs.items()
        }
        return {version: added for version, added in new.items() if added is not None}


@dataclass(frozen=True, eq=False)
class EpochRelease(Coded):
    """A release that was made: public, and never drawn again.

    Attributes:
        version: of the policy whose people it is about.
        people: how many they are.
        total: (d,) the sum of their rows with noise.
        scale: standard deviation of the noise on each number; 0 without privacy.
        multiplier: scale / sensitivity, as the noise source achieves it.
        noise: the name of that source.
    """

    version: Annotated[int, Range(0)]
    people: Annotated[int, Range(1)]
    total: Annotated[FloatArray, Shape("d")]
    scale: Annotated[float, Range(0.0)]
    multiplier: Annotated[float, Range(0.0)]
    noise: str

    @property
    def sensitivity(self) -> float:
        """How far the sum moves when one of its people is replaced."""
        return row_sensitivity(len(self.total), self.people)

    @classmethod
    def noisy(
        cls, version: int, added: EpochSum, multiplier: float, noise: NoiseSource
    ) -> EpochRelease:
        """The sum with noise of at least `multiplier` times its sensitivity."""
        size = len(added.total)
        moved = row_sensitivity(size, added.people)
        stream = PrivateStream(Independent(), size, moved, multiplier, noise)
        total = np.asarray(stream.release(added.total / RESOLUTION, added.people).values)
        held = stream.achieved_multiplier
        return cls(version, added.people, total, stream.scale, held, noise.name)

    def check(self, asked: float, size: int) -> None:
        """`InvalidInput` for a saved release of another size, with less noise than was asked for,
        or one that says it has more, because its certificate would promise too much."""
        held = min(self.multiplier, self.scale / self.sensitivity)
        if (
            len(self.total) != size
            or held < asked * (1.0 - 1e-9)
            or self.multiplier > asked * (1.0 + _CLOSE)
        ):
            raise InvalidInput(
                f"a saved release of {len(self.total)} numbers has the noise multiplier "
                f"{self.multiplier} and the scale {self.scale}; rows of version {self.version} "
                f"have {size} numbers, and this learner's budget asks for the multiplier {asked}. "
                "Read it as save() wrote it."
            )

    def record(self, people: OnceEach) -> Release:
        """The release as a guarantee counts it; every visit is in one release of the group."""
        return Release(
            mechanism="Gaussian noise on the sum of an epoch's rows",
            event=GaussianEvent(self.multiplier),
            sensitivity=self.sensitivity,
            sensitivity_source="rows are cut to the unit ball and rounded to 2^-30",
            scale=self.scale,
            people=people,
            data=DATA,
            noise=self.noise,
        )


@dataclass(frozen=True, eq=False)
class Released:
    """All releases, and the sums they were drawn from: one value, so that one step changes both."""

    drawn: tuple[EpochRelease, ...]
    before: EpochStatistics


class PublicSum(NamedTuple):
    """A sum that is public, with its noise or because everybody has hidden their own row.

    Attributes:
        version: of the policy whose people it is about.
        people: how many they are.
        total: (d,) the sum of their rows.
        variance: of the noise on each number.
    """

    version: int
    people: int
    total: IntArray | FloatArray
    variance: float


MECHANISMS: dict[str, Callable[[int, Local], VectorReport]] = {
    "privunit": lambda size, budget: PrivUnit(size, budget.visit_epsilon),
    "l2_ball": lambda size, budget: l2_ball(size, budget.visit_epsilon),
    "gaussian": lambda size, budget: GaussianVector(size, *budget.gaussian_report),
}
"""How a row of so many numbers is hidden by its person."""
